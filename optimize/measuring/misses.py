"""The outputs on which a judge and people differ, one by one, the worst of each kind first."""

from typing import Literal

import numpy as np

from judges.judgement import choice_of
from optimize.figures.as_json import Cell, json_number
from optimize.items import output_name
from optimize.measuring.scored import Scored
from optimize.search.evaluator import reason_of
from optimize.statistics.balanced import THRESHOLD
from optimize.statistics.correlations import Mask, midranks
from optimize.statistics.intervals import Vector

Kind = Literal["false pass", "false alarm", "too high", "too low", "wrong side"]
# An output that is ranked so far off, as a share of the places, is a miss.
FAR = 0.25
# Numbers that are written alike differ by less.
SAME = 0.005
MISS_COLUMNS = (
    *("miss", "id", "document_id", "system", "label", "verdict", "score"),
    *("comment", "reason", "decided_by", "output"),
)


def misses(scored: Scored) -> dict[Kind, list[int]]:
    """The rows of each kind: verdicts that differ, of which the judge was surest, come first.

    A rating is a miss if the judge ranks it a quarter of the places too high or too low, and a pair
    if the judge does not prefer people's side; those that are farthest off come first.
    """
    kinds: dict[Kind, Mask]
    if scored.is_binary:
        # NaN, a failed judgement, is neither.
        passes, fails, people = scored.passes == 1, scored.passes == 0, scored.human == 1
        kinds = {"false pass": passes & ~people, "false alarm": fails & people}
        gaps = scored.scores - 0.5
    else:
        gaps = place_gaps(scored)
        kinds = {"too high": gaps >= FAR, "too low": gaps <= -FAR}
        if scored.is_pairs:
            kinds = {"wrong side": gaps != 0}
    worst = np.argsort(-np.abs(gaps), kind="stable")
    return {kind: worst[rows[worst]].tolist() for kind, rows in kinds.items()}


def place_gaps(scored: Scored) -> Vector:
    """How far the judge's place of each output is from people's, above 0 where it is higher.

    Gaps are differences of mid-ranks as a share of the places, within the document at summary level
    and over all outputs otherwise; of pairs half the difference of the margins. They are 0 where
    both give the same number or side, and of outputs that people do not tell from any other.
    """
    judge, human = scored.scores, scored.human
    gaps = np.zeros(len(human))
    if scored.is_pairs:
        gaps = np.where(np.sign(judge) == np.sign(human), 0, (judge - human) / 2)
    for rows in [] if scored.is_pairs else scored.ranked_rows:
        judged = rows[~np.isnan(judge[rows])]
        if judged.size > 1 and np.unique(human[judged]).size > 1:
            ranks = midranks(np.stack([judge[judged], human[judged]]))
            gaps[judged] = (ranks[0] - ranks[1]) / (judged.size - 1)
    gaps[np.isnan(gaps) | (np.abs(judge - human) < SAME)] = 0
    return gaps


def miss_rows(scored: Scored, most: int | None = None) -> list[Cell]:
    """A flat row for each miss, of each kind the first `most`."""
    kinds = misses(scored).items()
    return [miss_row(scored, kind, row) for kind, rows in kinds for row in rows[:most]]


def miss_row(scored: Scored, kind: Kind, row: int) -> Cell:
    """One miss: where it stands, what people and the judge gave and wrote, then the texts."""
    item, score = scored.items.items[row], scored.scores[row]
    return {
        "miss": kind,
        "id": item.id,
        "document_id": item.document_id,
        "system": item.system,
        "label": _word(scored, item.human),
        "verdict": _word(scored, score),
        "score": json_number(score),
        **comments_and_texts(scored, row),
    }


def _word(scored: Scored, value: float) -> str:
    if scored.is_pairs:
        return choice_of(value) or "tie"
    return scored.word(float(value >= THRESHOLD)) if scored.is_binary else f"{value:.2f}"


def comments_and_texts(scored: Scored, row: int) -> Cell:
    """What people and the judge wrote about an output, then the texts."""
    texts = dict(scored.texts(row))
    return {
        "comment": scored.items.items[row].comment,
        "reason": reason_of(scored.judgements[row]),
        "decided_by": scored.judgements[row].decided_by or "",
        "output": texts.pop(output_name(tuple(texts)) or "", ""),
        **{f"text_{name}": text for name, text in texts.items()},
    }
