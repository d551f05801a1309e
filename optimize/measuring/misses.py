"""The outputs on which a judge and people differ, one by one, the worst of each kind first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from judges.judgement import choice_of
from optimize.figures.as_json import FLAT, JsonObject, fields_json
from optimize.figures.as_text import WIDTH, short_name
from optimize.items import output_name
from optimize.measuring.scored import Scored
from optimize.search.evaluator import reason_of
from optimize.statistics.balanced import THRESHOLD
from optimize.statistics.correlations import Mask, midranks
from optimize.statistics.intervals import Vector

Kind = Literal["false pass", "false alarm", "too high", "too low", "wrong side", "change"]
# A rating is a miss if its place is wrong by at least this share of all places.
FAR = 0.25
# Numbers that differ by less look the same in two decimals.
SAME = 0.005
MISS_COLUMNS = (
    *("miss", "id", "document_id", "system", "label", "verdict", "score"),
    *("comment", "reason", "decided_by", "output"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """What people and the judge wrote about an output, the output, and all other texts."""

    comment: str
    reason: str
    decided_by: str
    output: str
    texts: Mapping[str, str]

    @classmethod
    def of(cls, scored: Scored, row: int) -> "Remarks":
        texts = dict(scored.texts(row))
        return cls(
            comment=scored.items.items[row].comment,
            reason=reason_of(scored.judgements[row]),
            decided_by=scored.judgements[row].decided_by or "",
            output=texts.pop(output_name(tuple(texts)) or "", ""),
            texts=texts,
        )

    def to_json(self) -> JsonObject:
        texts = {f"text_{name}": text for name, text in self.texts.items()}
        return {**fields_json(self, "texts"), **texts}

    def line(self, title: str, item_id: str) -> str:
        """One line: the output's first words, people's comment and the judge's reason."""
        start, reason = f"{title} {short_name(item_id, 16)}: ", self.decided_by or self.reason
        parts = [("", self.output), ("people: ", self.comment), ("judge: ", reason)]
        parts = [(label, " ".join(text.split())) for label, text in parts if text.strip()]
        width = (WIDTH - len(start) - 3 * (len(parts) - 1)) // max(len(parts), 1)
        return start + " | ".join(
            label + (text if len(label + text) <= width else f"{text[: width - len(label) - 1]}…")
            for label, text in parts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One miss: the output, and what people and the judge answered and wrote."""

    miss: Kind
    id: str
    document_id: str | None = ""
    system: str | None = ""
    label: str
    verdict: str
    score: float
    remarks: Remarks = field(metadata=FLAT)

    @classmethod
    def of(cls, scored: Scored, kind: Kind, row: int) -> "Miss":
        item, score = scored.items.items[row], scored.scores[row]
        return cls(
            miss=kind,
            id=item.id,
            document_id=item.document_id,
            system=item.system,
            label=_word(scored, item.human),
            verdict=_word(scored, score),
            score=score,
            remarks=Remarks.of(scored, row),
        )

    def to_json(self) -> JsonObject:
        return fields_json(self, digits=None)


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


def all_misses(scored: Scored, limit: int | None = None) -> list[Miss]:
    """The misses of all kinds; `limit` is the most of each kind."""
    kinds = misses(scored).items()
    return [Miss.of(scored, kind, row) for kind, rows in kinds for row in rows[:limit]]


def _word(scored: Scored, value: float) -> str:
    if scored.is_pairs:
        return choice_of(value) or "tie"
    return scored.word(float(value >= THRESHOLD)) if scored.is_binary else f"{value:.2f}"
