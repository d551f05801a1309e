"""The outputs on which a judge and people differ, one by one, the worst of each kind first."""

from typing import Literal

import numpy as np

from judges.judgement import choice_of
from optimize.figures.as_json import JsonObject, json_number
from optimize.items import output_name
from optimize.measuring.scored import Scored
from optimize.search.evaluator import reason_of
from optimize.statistics.balanced import THRESHOLD
from optimize.statistics.correlations import Mask, midranks
from optimize.statistics.intervals import Vector

Kind = Literal["false pass", "false alarm", "too high", "too low", "wrong side"]
# A rating is a miss if its place is wrong by at least this share of all places.
FAR = 0.25
# Numbers that differ by less look the same in two decimals.
SAME = 0.005
MISS_COLUMNS = (
    *("miss", "id", "document_id", "system", "label", "verdict", "score"),
    *("comment", "reason", "decided_by", "output"),
)


def misses(scored: Scored) -> dict[Kind, list[int]]:
    """The rows of each kind of miss, the worst first.

    A verdict is a miss if it differs from people's, and worst where the judge was surest. A rating
    is a miss if the judge ranks the output too high or too low by a quarter of the places, and a
    pair if the judge does not prefer the side that people prefer; the worst is farthest off.
    """
    kinds: dict[Kind, Mask]
    if scored.is_binary:
        # A failed judgement is NaN, so it is neither a pass nor a fail.
        passes, fails, people = scored.passes == 1, scored.passes == 0, scored.human == 1
        kinds = {"false pass": passes & ~people, "false alarm": fails & people}
        gaps = scored.scores - 0.5
    else:
        gaps = place_gaps(scored)
        kinds = {"too high": gaps >= FAR, "too low": gaps <= -FAR}
        if scored.is_pairs:
            kinds = {"wrong side": gaps != 0}
    worst_first = np.argsort(-np.abs(gaps), kind="stable")
    return {kind: worst_first[rows[worst_first]].tolist() for kind, rows in kinds.items()}


def place_gaps(scored: Scored) -> Vector:
    """How far the judge places each output from where people place it, above 0 if higher.

    A gap is a difference of mid-ranks, as a share of the places: within the document at summary
    level, otherwise over all outputs. For pairs it is half the difference of the margins. A gap is
    0 if judge and people give the same number or side, and if people rate all these outputs alike.
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


def miss_rows(scored: Scored, limit: int | None = None) -> list[JsonObject]:
    """A flat row for each miss; `limit` is the most rows for each kind."""
    kinds = misses(scored).items()
    return [miss_row(scored, kind, row) for kind, rows in kinds for row in rows[:limit]]


def miss_row(scored: Scored, kind: Kind, row: int) -> JsonObject:
    """One miss: the output's id, what people and the judge answered and wrote, then the texts."""
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


def comments_and_texts(scored: Scored, row: int) -> JsonObject:
    """What people and the judge wrote about an output, then the texts."""
    texts = dict(scored.texts(row))
    return {
        "comment": scored.items.items[row].comment,
        "reason": reason_of(scored.judgements[row]),
        "decided_by": scored.judgements[row].decided_by or "",
        "output": texts.pop(output_name(tuple(texts)) or "", ""),
        **{f"text_{name}": text for name, text in texts.items()},
    }
