"""What a run hands to its report: every judgement on test, both prompts, and the probes."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from optimize.frames import judgement_rows
from optimize.injection import Probes
from optimize.measuring.scored import Scored
from optimize.run.run_folder import write_text
from optimize.search.trial_log import as_json
from optimize.statistics.coefficients import midranks

JUDGEMENTS = "judgements.jsonl"
JUDGES = ("seed", "tuned")


def disagreements(judged: Scored) -> list[tuple[int, float]]:
    """Where the judge's place is farthest from people's: (index, gap), farthest first.

    Gaps are differences of mid-ranks scaled to [-1, 1], within the document at summary level and
    over the whole split otherwise; above 0 the judge ranks the output higher than people do. Of
    pairs it is half the difference of the margins.
    """
    gaps = np.full(len(judged.items), np.nan)
    if judged.verdicts:
        gaps = (judged.scores - judged.human) / 2
    for rows in [] if judged.verdicts else judged.ranked_rows:
        scored = rows[~np.isnan(judged.scores[rows])]
        if scored.size < 2:
            continue
        ranks = midranks(np.stack([judged.scores[scored], judged.human[scored]]))
        gaps[scored] = (ranks[0] - ranks[1]) / (scored.size - 1)
    order = np.argsort(-np.abs(gaps), kind="stable")
    return [(int(i), float(gaps[i])) for i in order if not np.isnan(gaps[i]) and gaps[i] != 0]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptParts:
    """A judge's instruction and demonstrations, and what it is told of each field it writes."""

    instruction: str
    demos: tuple[Mapping[str, Any], ...]
    writes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """`judged[judge][split]` for "seed" and "tuned", both prompts, and the probes."""

    prompts: Mapping[str, PromptParts]
    judged: Mapping[str, Mapping[str, Scored]]
    probes: Probes


def write_judgements(folder: Path, evidence: RunEvidence) -> None:
    """Write judgements.jsonl: a line an output, with both judges' scores beside people's."""
    by_split = evidence.judged["seed"]
    rows = judgement_rows(
        [item for judged in by_split.values() for item in judged.items.items],
        {
            judge: [judgement for judged in splits.values() for judgement in judged.judgements]
            for judge, splits in evidence.judged.items()
        },
        [split for split, judged in by_split.items() for _ in judged.items.items],
    )
    lines = [as_json({name: _finite(value) for name, value in row.items()}) for row in rows]
    write_text(folder / JUDGEMENTS, "".join(line + "\n" for line in lines))


def _finite(value: Any) -> Any:
    """JSON has no NaN: a failed judgement's score is null."""
    return None if isinstance(value, float) and math.isnan(value) else value
