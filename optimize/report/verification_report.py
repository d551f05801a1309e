"""The report of a verification: any judge, asked or recorded, against people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.answer import verification_answer, warnings
from optimize.figures import CONVENTIONS, cells_to_show, many_failed
from optimize.injection import Probes
from optimize.report.advice import advice
from optimize.report.measures import Measures, measure_split
from optimize.report.page import page, render_template, section
from optimize.report.sections import (
    data_facts,
    judge_sections,
    notes,
    quotable_lines,
    shares_picture,
)
from optimize.run.evidence import JudgedSplit
from optimize.run.plain_figures import order_figures, scale_figures

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
    result = {**result, "order": order_figures(judged), "scales": scale_figures(judged)}
    return page(
        title=f"{result['dimension']}: {title} against people",
        about=f"{facts[0][1]}.",
        answer=verification_answer(result),
        warnings=warnings(result),
        picture=shares_picture({"judge": result["order"]}, result),
        steps=advice(judged, measures, cell, data=data),
        notes=notes(lm),
        quotable=quotable_lines(
            result["dimension"], cell, result["correlations"], measures, data["n_systems"]
        ),
        sections=[
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
        cells=cells_to_show(result["correlations"]),
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
