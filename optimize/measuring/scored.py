"""One judge's judgements beside people's labels: what everything that measures a judge holds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from judges.judgement import AnyJudgement, Preference
from judges.labels.types import Item as AnyLabelled
from judges.labels.types import LabelledPair
from judges.panel import AnyJudge
from optimize.inputs.labelled import PASS_FAIL, Labelled
from optimize.items import Indices, Items, Vector, given_texts, is_two_valued, scores_of, text_key
from optimize.statistics.balanced import verdicts
from optimize.statistics.correlations import Level

# The figure is of rows a judge has not met where there are so many of them.
LEAST_ROWS = 10
LEAST_DOCUMENTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One judgement or verdict an item, in the order of `items`; a failed one scores NaN.

    `scale` is the judge's, empty where unknown and for pairs. `tuned_rows` have texts that the
    judge was tuned on, `tuned_documents` are the rows on documents that it was tuned on. `labelled`
    are the outputs or pairs of the items, where they are known. Of a recording, `n_unjudged` items
    have no record, and `n_unknown` records no item. `n_tied` outputs are no items, since annotators
    are tied. Of two values, .5 or more is a pass; `words` are people's for 1 and 0.
    """

    judge: str
    dimension: str
    level: Level
    items: Items
    judgements: tuple[AnyJudgement, ...]
    scale: tuple[int, ...] = ()
    tuned_rows: frozenset[int] = frozenset()
    tuned_documents: frozenset[int] = frozenset()
    labelled: tuple[AnyLabelled, ...] = ()
    n_unjudged: int = 0
    n_unknown: int = 0
    n_tied: int = 0
    words: tuple[str, str] = PASS_FAIL
    scores: Vector = field(init=False)
    is_pairs: bool = field(init=False)
    is_binary: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", scores_of(self.judgements))
        is_pairs = any(isinstance(judgement, Preference) for judgement in self.judgements)
        is_binary = not is_pairs and is_two_valued(self.items.human) and are_shares(self.scores)
        object.__setattr__(self, "is_pairs", is_pairs)
        object.__setattr__(self, "is_binary", is_binary)

    def of_rows(self, rows: Sequence[int]) -> "Scored":
        """The same of these rows alone, in this order."""
        row_of = {row: place for place, row in enumerate(rows)}
        return replace(
            self,
            items=self.items.of_rows(rows),
            judgements=tuple(self.judgements[row] for row in rows),
            tuned_rows=frozenset(row_of[row] for row in self.tuned_rows if row in row_of),
            tuned_documents=frozenset(row_of[row] for row in self.tuned_documents if row in row_of),
            labelled=tuple(self.labelled[row] for row in rows if self.labelled),
        )

    def without(self, rows: Collection[int]) -> "Scored":
        """The same without these rows; all of it where the others are too few to say anything."""
        others = [row for row in range(len(self.items)) if row not in rows]
        documents = {self.items.items[row].document_id for row in others}
        enough = len(others) >= LEAST_ROWS and len(documents) >= LEAST_DOCUMENTS
        return self.of_rows(others) if enough else self

    @property
    def passes(self) -> Vector:
        """Of two values: 1 for a pass, 0 for a fail, NaN where the judge failed."""
        return verdicts(self.scores)

    def word(self, value: float) -> str:
        """What people call a label or verdict of two values; any other number as it is."""
        words = dict(zip((1.0, 0.0), self.words, strict=True)) if self.is_binary else {}
        return words.get(value, f"{value:g}")

    @property
    def human(self) -> Vector:
        return self.items.human

    @property
    def documents(self) -> list[str]:
        return self.items.document_ids

    @property
    def systems(self) -> list[str]:
        return self.items.system_ids

    @property
    def ranked_rows(self) -> list[Indices]:
        """The rows that are ranked among each other: a document's at summary level, else all."""
        if self.level == "summary":
            return list(self.items.document_rows.values())
        return [np.arange(len(self.items))]

    @property
    def failures(self) -> dict[str, str]:
        """Why each output without a score has none, by id."""
        return {
            self.items.items[row].id: self.judgements[row].failure or "no reason was recorded"
            for row in np.flatnonzero(np.isnan(self.scores))
        }

    @property
    def within_scale(self) -> bool:
        """Whether judge and people keep to the judge's scale, so that numbers can be compared."""
        both = np.concatenate([self.human, self.scores[~np.isnan(self.scores)]])
        if not self.scale or not both.size:
            return False
        return bool(self.scale[0] <= both.min() and both.max() <= self.scale[-1])

    def texts(self, index: int) -> Mapping[str, str]:
        """What the judge read; where a recording does not say, all that the labels hold."""
        texts = self.items.items[index].texts
        if texts or not self.labelled:
            return texts
        labelled = self.labelled[index]
        if isinstance(labelled, LabelledPair):
            return {**labelled.texts, "A": labelled.response_a, "B": labelled.response_b}
        return labelled.texts


def are_shares(scores: Vector) -> bool:
    """Whether all scores that there are lie within 0 and 1."""
    return bool((np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all())


def with_both_scores(a: Scored, b: Scored) -> tuple[Scored, Scored]:
    """Two judges on the rows that both have scored."""
    rows = np.flatnonzero(~np.isnan(a.scores + b.scores)).tolist()
    return a.of_rows(rows), b.of_rows(rows)


def labelled_in_order(labelled: Labelled, items: Items) -> tuple[AnyLabelled, ...]:
    """The labelled outputs or pairs of the items, in the items' order; unknown ids are left out."""
    by_id: Mapping[str, AnyLabelled] = {label.id: label for label in labelled.items}
    return tuple(by_id[item.id] for item in items.items if item.id in by_id)


def tuned_rows(
    judge: AnyJudge | None, items: Items, *, of_documents: bool = False
) -> frozenset[int]:
    """The rows whose texts the judge was tuned on, whatever else is in the file they come from.

    `of_documents`: those on documents that it was tuned on, be their outputs new.
    """
    if judge is None:
        return frozenset()
    keys: set[str] = set()
    for part in (judge, *judge.parts):
        provenance: Mapping[str, Any] = part.provenance or {}
        if provenance.get("shipped") != "seed" or getattr(part, "threshold", 0.5) != 0.5:
            keys.update(provenance.get("tuned_on") or ())
    texts = (
        (given_texts(i.texts, judge.subject) if of_documents else i.texts) for i in items.items
    )
    return frozenset(row for row, key in enumerate(map(text_key, texts)) if key in keys)
