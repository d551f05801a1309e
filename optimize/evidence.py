"""What one judge said of one split beside what people said: all that a report is drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from optimize.agreement import Level
from optimize.items import Items, Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Scores in the order of `items` (NaN: failed), with rationales and reasons of failure by id.

    `marks` holds each output's ratings, one an annotator, where they are known; `labels` is the
    range of the human ratings' scale.
    """

    dimension: str
    split: str
    level: Level
    labels: tuple[float, float]
    items: Items
    scores: Vector
    marks: tuple[tuple[float, ...], ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def human(self) -> Vector:
        return self.items.human

    @property
    def documents(self) -> list[str]:
        return [item.document_id for item in self.items.items]

    @property
    def systems(self) -> list[str]:
        return [item.system or "" for item in self.items.items]


def disagreements(evidence: Evidence, most: int = 20) -> list[tuple[int, float]]:
    """Where the judge's place is farthest from people's: (index, gap), farthest first.

    Gaps are differences of mid-ranks scaled to [-1, 1], within the document at summary level and
    over the whole split otherwise; above 0 the judge ranks the output higher than people do.
    """
    from optimize.coefficients import midranks

    gaps = np.full(len(evidence.items), np.nan)
    groups = (
        list(evidence.items.places.values())
        if evidence.level == "summary"
        else [np.arange(len(evidence.items))]
    )
    for rows in groups:
        scored = rows[~np.isnan(evidence.scores[rows])]
        if scored.size < 2:
            continue
        ranks = midranks(np.stack([evidence.scores[scored], evidence.human[scored]]))
        gaps[scored] = (ranks[0] - ranks[1]) / (scored.size - 1)
    order = np.argsort(-np.abs(gaps), kind="stable")
    return [(int(i), float(gaps[i])) for i in order if not np.isnan(gaps[i]) and gaps[i] != 0][
        :most
    ]
