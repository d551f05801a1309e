"""The report of a verification: any judge, asked or recorded, against people."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize.answer import verification_answer, warnings
from optimize.injection import Probes
from optimize.measuring.scored import Scored
from optimize.report.advice import advice
from optimize.report.measures import measure_split
from optimize.report.page import page, section
from optimize.report.sections import (
    data_facts,
    judge_sections,
    notes,
    quotable_lines,
    shares_picture,
)

PROBES_NEED_A_MODEL = Probes(reason="recorded judgements cannot be asked again")


def render(
    result: Mapping[str, Any],
    judged: Scored,
    probes: Probes = PROBES_NEED_A_MODEL,
    *,
    seed: int = 0,
    lm: str = "",
) -> str:
    """A page from what `dspy-judges verify --json` prints and the judgements behind it."""
    measures = measure_split(judged, probes, seed)
    data, cell = result["data"], result["correlations"][0]
    # Folders above say more of a machine than of a judge.
    name = "/".join(Path(str(result["judge"])).parts[-2:])
    # A catalogue judge is called what it judges.
    title = "the catalogue judge" if name == result["dimension"] else name
    facts = data_facts(data, "pairs" if measures.pairs else "outputs")
    return page(
        title=f"{result['dimension']}: {title} against people",
        about=f"{facts[0][1]}.",
        answer=verification_answer(result),
        warnings=warnings(result),
        picture=shares_picture({"judge": result["order"]}, result),
        steps=advice(judged, measures, cell, data=data, people=result.get("people")),
        notes=notes(lm),
        quotable=quotable_lines(
            result["dimension"], cell, result["correlations"], measures, data["n_systems"]
        ),
        sections=[
            *judge_sections(
                judged,
                measures,
                result["correlations"],
                result.get("people"),
                seed=seed,
                of=f"{title} on {data['name']}",
            ),
            section("Provenance", "provenance.html", judge=name, lm=lm, data=facts, seed=seed),
        ],
    )
