"""The report of a verification: any judge, asked or recorded, against people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.audits.injection import Probes
from optimize.figures import many_failed, one_line
from optimize.report import origins, page, pairs, people, scores
from optimize.report.advice import advice
from optimize.report.findings import Findings, find
from optimize.report.judge_parts import judge_parts
from optimize.run.judged_split import JudgedSplit

NOT_ASKED = Probes(why="recorded judgements cannot be asked again")
PAID = Probes(why="they cost calls to a paid model; add --probes to run them")


def render(
    result: Mapping[str, Any],
    evidence: JudgedSplit,
    probes: Probes = NOT_ASKED,
    *,
    seed: int = 0,
    lm: str = "",
) -> str:
    """A page from what `optimize.verify --json` prints and the judgements behind it."""
    found = find(evidence, probes, seed)
    cell = main_cell(result)
    data = result["data"]
    unit = "pairs" if found.pairs else "outputs"
    quotable = [one_line(result["dimension"], cell, unit=unit, n_systems=data["n_systems"])]
    if other := published(result):
        quotable.append(one_line(result["dimension"], other, unit=unit))
    if found.pairs:
        quotable.insert(0, pairs.quotable(result["dimension"], found.pairs))
    parts = [
        page.heading(title(result), 1),
        page.paragraph(dict(origins.data_facts(data, unit))["data"] + ".", "soft"),
        page.verdict(_headline(result, found), quotable, ""),
        page.tiles(_tiles(cell, found, evidence)),
        *origins.notes(lm, data),
        page.contents(),
        page.section("What to do next", [page.listed(advice(evidence, found, cell, data=data))]),
        *judge_parts(
            evidence,
            found,
            seed=seed,
            of=f"{_who(result)} on {data['name']}",
            cells=result["correlations"],
        ),
        page.section(
            "Provenance",
            [
                page.facts(
                    [
                        ("judge", named(result)),
                        *([("model", lm)] if lm else []),
                        *origins.data_facts(data, unit),
                        ("seed", f"{seed}"),
                    ]
                )
            ],
        ),
    ]
    return page.page(title(result), parts)


def title(result: Mapping[str, Any]) -> str:
    return f"{result['dimension']}: {_who(result)} against people"


def _who(result: Mapping[str, Any]) -> str:
    # A catalogue judge is called what it judges.
    name = named(result)
    return "the catalogue judge" if name == result["dimension"] else name


def named(result: Mapping[str, Any]) -> str:
    """The judge without the folders above it, which say more of a machine than of a judge."""
    return "/".join(Path(str(result["judge"])).parts[-2:])


def main_cell(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spearman's rho at the level asked for, by the primary convention: what a threshold is for."""
    first: Mapping[str, Any] = result["correlations"][0]
    return first


def published(result: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The main cell as most published tables have it; None where the two cannot differ."""
    cell = main_cell(result)
    if cell["level"] != "summary" or not cell["n_undefined"] or cell["value"] is None:
        return None
    wanted = {"coefficient": "spearman", "level": "summary", "undefined": "left_out"}
    cells: list[Mapping[str, Any]] = result["correlations"]
    return next(c for c in cells if wanted.items() <= c.items())


def _headline(result: Mapping[str, Any], found: Findings) -> str:
    cell = main_cell(result)
    reasons = "; ".join(result.get("short", ()))
    short = f" It falls short of what was asked for: {reasons}." if reasons else ""
    if not cell["n_outputs"]:
        return "The judge gave no score at all, so there is nothing to report." + short
    unit = "pairs" if found.pairs else "outputs"
    lead = many_failed(cell["n_failed"], result["data"]["n_outputs"], unit)
    lead += " " * bool(lead)
    if found.pairs is not None:
        return lead + pairs.headline(found.pairs) + short
    if cell["value"] is None:
        return f"{lead}There is no rho to report: people say the same of every output.{short}"
    told = lead + f"Judge and people agree at {cell['level']}-level rho {cell['value']:.3f}"
    if share := people.share_of_ceiling(found.people):
        told += f"; that is {share} of what annotators reach among themselves"
    return f"{told}.{short}"


def _tiles(
    cell: Mapping[str, Any], found: Findings, evidence: JudgedSplit
) -> list[tuple[str, str, str]]:
    unit = "pairs" if found.pairs else "outputs"
    failed = ("failed", f"{len(evidence.failures):,}", f"of {len(evidence.items):,} {unit}")
    if found.pairs is not None:
        return [*pairs.tiles(found.pairs, cell), failed]
    tiles = [scores.tile(f"{cell['level']}-level rho", cell)]
    return [*tiles, *people.tiles(found.people), failed]
