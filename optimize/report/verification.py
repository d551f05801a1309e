"""The report of a verification: any judge, asked or recorded, against people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.audits.probes import Probes
from optimize.figures import interval_of, one_line, shown
from optimize.report import origins, page, pairs, scores
from optimize.report.advice import advice
from optimize.report.findings import Findings, find
from optimize.report.judge_parts import judge_parts
from optimize.run.evidence import Evidence

NOT_ASKED = Probes(why="recorded judgements cannot be asked again")
PAID = Probes(why="they cost calls to a paid model; add --probes to run them")


def render(
    result: Mapping[str, Any],
    evidence: Evidence,
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
    if found.pairs:
        quotable.insert(0, pairs.quotable(result["dimension"], found.pairs))
    parts = [
        page.heading(title(result), 1),
        page.paragraph(dict(origins.data_facts(data, unit))["data"] + ".", "soft"),
        page.verdict(_headline(result, found), quotable, _undefined(result)),
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
    """Spearman's rho at the level asked for, undefined documents left out, as papers report it."""
    wanted = {"coefficient": "spearman", "level": result["level"], "undefined": "left_out"}
    cells: list[Mapping[str, Any]] = result["correlations"]
    return next((c for c in cells if wanted.items() <= c.items()), cells[0])


def _undefined(result: Mapping[str, Any]) -> str:
    """The same figure by the other convention, where the two differ."""
    cell = main_cell(result)
    if cell["level"] != "summary" or not cell["n_undefined"] or cell["value"] is None:
        return ""
    zero = next(
        c
        for c in result["correlations"]
        if (c["coefficient"], c["level"], c["undefined"]) == ("spearman", "summary", "zero")
    )
    return (
        f"Documents without a rho are left out, as most published tables do; counted as 0 it is "
        f"{shown(zero['value'])} {interval_of(zero['low'], zero['high'])}."
    )


def _headline(result: Mapping[str, Any], found: Findings) -> str:
    cell = main_cell(result)
    short = "" if result["passed"] else " Its rho is short of what was asked for."
    if found.pairs is not None:
        return pairs.headline(found.pairs) + short
    if not cell["n_outputs"]:
        return "The judge gave no score at all, so there is nothing to report." + short
    if cell["value"] is None:
        return "There is no rho to report: one side says the same of every output." + short
    told = f"Judge and people agree at {cell['level']}-level rho {cell['value']:.3f}"
    ceiling = found.people.ceiling
    if ceiling is not None and ceiling.share == ceiling.share:
        told += f", {ceiling.share:.0%} of what annotators reach among themselves"
    return told + ("." if result["passed"] else ": short of what was asked for.")


def _tiles(
    cell: Mapping[str, Any], found: Findings, evidence: Evidence
) -> list[tuple[str, str, str]]:
    unit = "pairs" if found.pairs else "outputs"
    failed = ("failed", f"{len(evidence.failures):,}", f"of {len(evidence.items):,} {unit}")
    if found.pairs is not None:
        return [*pairs.tiles(found.pairs, cell), failed]
    tiles = [scores.tile(f"{cell['level']}-level rho", cell)]
    ceiling = found.people.ceiling
    if ceiling is not None and ceiling.share == ceiling.share:
        around = ceiling.share_interval
        between = f"[{around.low:.0%}, {around.high:.0%}]" if around else "no interval"
        tiles.append(("share of the human ceiling", f"{ceiling.share:.0%}", between))
    return [*tiles, failed]
