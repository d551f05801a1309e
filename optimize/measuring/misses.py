"""The outputs on which a judge and people differ, one by one, the worst of each kind first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from judges.judgement import preferred_output
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json
from optimize.figures.as_text import LINE_WIDTH, short_name
from optimize.items import judged_output_name
from optimize.measuring.scored import ScoredItems
from optimize.statistics.balanced import PASS_THRESHOLD
from optimize.statistics.coefficients import midranks
from optimize.statistics.intervals import Mask, Vector

MissKind = Literal["false pass", "false alarm", "too high", "too low", "wrong side", "change"]
# A rating is a miss if the output's rank is wrong by at least this share of all ranks.
MIN_RANK_DIFFERENCE = 0.25
# Numbers that differ by less look the same in two decimals.
MIN_VISIBLE_DIFFERENCE = 0.005
MISS_COLUMNS = (
    *("miss", "id", "document_id", "system", "label", "verdict", "score"),
    *("comment", "reason", "decided_by", "output"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remarks:
    """An output, its other texts, and what people and the judge wrote about it."""

    comment: str
    reason: str
    decided_by: str
    output: str
    texts: Mapping[str, str]

    @classmethod
    def from_row(cls, scored: ScoredItems, row: int) -> "Remarks":
        texts = dict(scored.texts(row))
        return cls(
            comment=scored.items.items[row].comment,
            reason=scored.judgements[row].rationale or "",
            decided_by=scored.judgements[row].decided_by or "",
            output=texts.pop(judged_output_name(tuple(texts)) or "", ""),
            texts=texts,
        )

    def to_json(self) -> JsonObject:
        texts = {f"text_{name}": text for name, text in self.texts.items()}
        return fields_json(self, "texts") | texts

    def as_line(self, title: str, item_id: str) -> str:
        """Return a line with the start of the output, of the comment and of the reason."""
        prefix, reason = f"{title} {short_name(item_id, 16)}: ", self.decided_by or self.reason
        parts = [("", self.output), ("people: ", self.comment), ("judge: ", reason)]
        parts = [(label, " ".join(text.split())) for label, text in parts if text.strip()]
        width = (LINE_WIDTH - len(prefix) - 3 * (len(parts) - 1)) // max(len(parts), 1)
        return prefix + " | ".join(
            label + (text if len(label + text) <= width else f"{text[: width - len(label) - 1]}…")
            for label, text in parts
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """One miss: the output's ids, people's label, the judge's verdict and score, and remarks."""

    kind: MissKind = field(metadata={"json": "miss"})
    id: str
    document_id: str | None = ""
    system: str | None = ""
    label: str
    verdict: str
    score: float
    remarks: Remarks = field(metadata=INLINED_IN_JSON)

    @classmethod
    def from_row(cls, scored: ScoredItems, kind: MissKind, row: int) -> "Miss":
        item, score = scored.items.items[row], scored.scores[row]
        return cls(
            kind=kind,
            id=item.id,
            document_id=item.document_id,
            system=item.system,
            label=_label_text(scored, item.human),
            verdict=_label_text(scored, score),
            score=score,
            remarks=Remarks.from_row(scored, row),
        )

    def to_json(self) -> JsonObject:
        return fields_json(self, decimals=None)


def rows_by_miss_kind(scored: ScoredItems) -> dict[MissKind, list[int]]:
    """Return the rows of each kind of miss, the worst first.

    The worst verdict is the one that the judge was surest of. A rating is a miss if the output's
    rank is wrong by a quarter of all ranks or more. A pair is a miss if the judge does not prefer
    the output that people prefer.
    """
    masks: dict[MissKind, Mask]
    if scored.has_verdicts:
        # A failed judgement is NaN, so it is neither a pass nor a fail.
        passes, fails, people_pass = scored.passes == 1, scored.passes == 0, scored.human == 1
        masks = {"false pass": passes & ~people_pass, "false alarm": fails & people_pass}
        differences = scored.scores - 0.5
    else:
        differences = rank_differences(scored)
        too_high, too_low = differences >= MIN_RANK_DIFFERENCE, differences <= -MIN_RANK_DIFFERENCE
        masks = {"too high": too_high, "too low": too_low}
        if scored.is_pairs:
            masks = {"wrong side": differences != 0}
    worst_first = np.argsort(-np.abs(differences), kind="stable")
    return {kind: worst_first[rows[worst_first]].tolist() for kind, rows in masks.items()}


def rank_differences(scored: ScoredItems) -> Vector:
    """Return the judge's rank of each output minus people's, as a share of all ranks.

    For pairs, the result is half the difference of the margins. The result is 0 if the judge and
    people give the same rating or preference. It is also 0 if people rate all ranked outputs alike
    or prefer neither side of a pair.
    """
    judge, human = scored.scores, scored.human
    if scored.is_pairs:
        has_same_sign = np.sign(judge) == np.sign(human)
        differences = np.where(has_same_sign | (human == 0), 0, (judge - human) / 2)
    else:
        differences = np.zeros(len(human))
        for rows in scored.ranked_rows:
            scored_rows = rows[~np.isnan(judge[rows])]
            if np.unique(human[scored_rows]).size > 1:
                ranks = midranks(np.stack([judge[scored_rows], human[scored_rows]]))
                differences[scored_rows] = (ranks[0] - ranks[1]) / (scored_rows.size - 1)
    differences[np.isnan(differences) | (np.abs(judge - human) < MIN_VISIBLE_DIFFERENCE)] = 0
    return differences


def list_misses(scored: ScoredItems, limit: int | None = None) -> list[Miss]:
    """Return the misses of all kinds, at most `limit` of each kind."""
    rows_by_kind = rows_by_miss_kind(scored).items()
    return [Miss.from_row(scored, kind, row) for kind, rows in rows_by_kind for row in rows[:limit]]


def _label_text(scored: ScoredItems, value: float) -> str:
    if scored.is_pairs:
        return preferred_output(value) or "tie"
    return (
        scored.label_text(float(value >= PASS_THRESHOLD)) if scored.has_verdicts else f"{value:.2f}"
    )
