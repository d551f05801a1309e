"""The report of a verification: any judge, asked or recorded, against people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.figures import CONVENTIONS, many_failed
from optimize.injection import Probes
from optimize.report.advice import advice
from optimize.report.measures import Measures, measure_split
from optimize.report.page import Tile, page, render_template, section
from optimize.report.sections import (
    by_convention,
    ceiling_tiles,
    data_facts,
    failure_prefix,
    judge_sections,
    notes,
    pairs_headline,
    pairs_tiles,
    quotable_lines,
    rho_tile,
    share_of_ceiling,
)
from optimize.run.evidence import JudgedSplit

PROBES_NEED_A_MODEL = Probes(reason="recorded judgements cannot be asked again")


def render(
    result: Mapping[str, Any],
    judged: JudgedSplit,
    probes: Probes = PROBES_NEED_A_MODEL,
    *,
    seed: int = 0,
    lm: str = "",
) -> str:
    """A page from what `optimize.verify --json` prints and the judgements behind it."""
    measures = measure_split(judged, probes, seed)
    data, cell, name = result["data"], main_cell(result), judge_name(result)
    # A catalogue judge is called what it judges.
    title = "the catalogue judge" if name == result["dimension"] else name
    unit = "pairs" if measures.pairs else "outputs"
    facts = data_facts(data, unit)
    return page(
        title=f"{result['dimension']}: {title} against people",
        about=f"{facts[0][1]}.",
        headline=_headline(result, measures, unit),
        quotable=quotable_lines(
            result["dimension"], cell, result["correlations"], measures, data["n_systems"]
        ),
        decision="",
        tiles=_tiles(cell, measures, judged, unit),
        notes=notes(lm, data),
        sections=[
            section(
                "What to do next",
                "advice.html",
                sentences=advice(judged, measures, cell, data=data),
            ),
            *judge_sections(
                judged,
                measures,
                result["correlations"],
                seed=seed,
                of=f"{title} on {data['name']}",
            ),
            section(
                "Provenance",
                "provenance.html",
                judge=name,
                lm=lm,
                data=facts,
                seed=seed,
            ),
        ],
    )


def verification_table(result: Mapping[str, Any], measures: Measures | None = None) -> str:
    """Markdown: each level and coefficient, both conventions where they differ; accuracy first."""
    cell, pairs = main_cell(result), measures.pairs if measures else None
    unit = "pairs" if pairs else "outputs"
    return render_template(
        "verification.md",
        result=result,
        data=result["data"],
        judge=judge_name(result),
        cell=cell,
        cells=by_convention(result["correlations"]),
        conventions=CONVENTIONS,
        pairs=pairs,
        unit=unit,
        failed=many_failed(cell["n_failed"], result["data"]["n_outputs"], unit),
        ceiling=measures.annotator_agreement.ceiling if measures else None,
    )


def judge_name(result: Mapping[str, Any]) -> str:
    """The judge without the folders above it, which say more of a machine than of a judge."""
    return "/".join(Path(str(result["judge"])).parts[-2:])


def main_cell(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Spearman's rho at the level asked for, by the primary convention: what a threshold is for."""
    first: Mapping[str, Any] = result["correlations"][0]
    return first


def _headline(result: Mapping[str, Any], measures: Measures, unit: str) -> str:
    """The main figure in a sentence, after a warning of many failures."""
    cell = main_cell(result)
    reasons = "; ".join(result.get("short", ()))
    shortfall = f" It falls short of what was asked for: {reasons}." if reasons else ""
    if not cell["n_outputs"]:
        return "The judge gave no score at all, so there is nothing to report." + shortfall
    lead = failure_prefix(cell["n_failed"], result["data"]["n_outputs"], unit)
    if measures.pairs is not None:
        return lead + pairs_headline(measures.pairs) + shortfall
    if cell["value"] is None:
        return f"{lead}There is no rho to report: people say the same of every output.{shortfall}"
    agreement = f"Judge and people agree at {cell['level']}-level rho {cell['value']:.3f}"
    if share := share_of_ceiling(measures.annotator_agreement):
        agreement += f"; that is {share} of what annotators reach among themselves"
    return f"{lead}{agreement}.{shortfall}"


def _tiles(
    cell: Mapping[str, Any], measures: Measures, judged: JudgedSplit, unit: str
) -> list[Tile]:
    failed = Tile("failed", f"{len(judged.failures):,}", f"of {len(judged.items):,} {unit}")
    if measures.pairs is not None:
        return [*pairs_tiles(measures.pairs, cell), failed]
    rho = rho_tile(f"{cell['level']}-level rho", cell)
    return [rho, *ceiling_tiles(measures.annotator_agreement), failed]
