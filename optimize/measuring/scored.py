"""One judge's judgements together with people's labels, from which all figures are computed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from judges.frozen import texts_digest
from judges.judgement import AnyJudgement, Preference
from judges.labels.types import LabelledItem, LabelledPair
from judges.panel import AnyJudge
from optimize.inputs.labelled import PASS_FAIL, AnyLabels
from optimize.items import Indices, Items, input_texts, is_two_valued, scores_of
from optimize.statistics.balanced import verdicts
from optimize.statistics.correlations import (
    DEFAULT_UNDEFINED_RULE,
    Correlation,
    Level,
    UndefinedRule,
    correlation,
)
from optimize.statistics.intervals import Vector
from optimize.statistics.plain_agreement import (
    PairwiseAccuracy,
    pairwise_accuracy,
    preference_accuracy,
)

# Rows that a judge was tuned on are left out if this many rows and documents remain.
MIN_ROWS_LEFT = 10
MIN_DOCUMENTS_LEFT = 2


@dataclass(frozen=True, kw_only=True)
class ScoredItems:
    """One judge's judgements of labelled items, in the order of `items`.

    The judge's `scale` is empty if the scale is unknown, and for pairs. `tuned_ids` are the outputs
    that the judge was tuned on, and `tuned_document_ids` all outputs of the documents that the
    judge was tuned on. In a recording, `n_unjudged` labels have no record, and `n_unknown` records
    have no label. `n_tied` outputs were left out because their annotators are tied. `verdict_words`
    are people's words for pass and fail.
    """

    judge: str
    dimension: str
    level: Level
    items: Items
    judgements: tuple[AnyJudgement, ...]
    scale: tuple[int, ...] = ()
    tuned_ids: frozenset[str] = frozenset()
    tuned_document_ids: frozenset[str] = frozenset()
    labelled_items: tuple[LabelledItem, ...] = ()
    n_unjudged: int = 0
    n_unknown: int = 0
    n_tied: int = 0
    verdict_words: tuple[str, str] = PASS_FAIL

    @cached_property
    def scores(self) -> Vector:
        """The judgements' scores (for pairs, margins); NaN for a failed judgement."""
        return scores_of(self.judgements)

    @cached_property
    def is_pairs(self) -> bool:
        return any(isinstance(judgement, Preference) for judgement in self.judgements)

    @cached_property
    def has_verdicts(self) -> bool:
        return not self.is_pairs and is_two_valued(self.human) and are_fractions(self.scores)

    def of_rows(self, rows: Sequence[int]) -> "ScoredItems":
        return replace(
            self,
            items=self.items.of_rows(rows),
            judgements=tuple(self.judgements[row] for row in rows),
            labelled_items=tuple(self.labelled_items[row] for row in rows if self.labelled_items),
        )

    def of_ids(self, ids: Collection[str]) -> "ScoredItems":
        """Return the judgements of the items with these ids; their order stays."""
        return self.of_rows([row for row, item in enumerate(self.items.items) if item.id in ids])

    def without(self, ids: Collection[str]) -> "ScoredItems":
        """Return the judgements without these ids; all if too few rows would remain."""
        remaining = self.of_ids(self.ids - set(ids))
        items = remaining.items
        has_enough = len(items) >= MIN_ROWS_LEFT and len(items.documents) >= MIN_DOCUMENTS_LEFT
        return remaining if has_enough else self

    @property
    def ids(self) -> set[str]:
        return {item.id for item in self.items.items}

    def correlation(
        self,
        level: Level,
        coefficient: str = "spearman",
        undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    ) -> Correlation:
        """Return the coefficient of the scores with people's labels at a level."""
        return correlation(
            level,
            self.scores,
            self.human,
            self.documents,
            self.systems,
            coefficient=coefficient,
            undefined=undefined,
            weight=self.items.weights,
        )

    @property
    def rho(self) -> Correlation:
        """Spearman's rho at the level of these labels, by the default rule for undefined values."""
        return self.correlation(self.level)

    @property
    def pairwise_accuracy(self) -> PairwiseAccuracy:
        """How often the judge orders two outputs as people do; for pairs, the accuracy."""
        vectors = self.scores, self.human, self.documents
        if self.is_pairs:
            return preference_accuracy(*vectors)
        return pairwise_accuracy(*vectors, level=self.level, weight=self.items.weights)

    @property
    def passes(self) -> Vector:
        """The judge's verdicts: 1 for a pass, 0 for a fail, NaN for a failed judgement."""
        return verdicts(self.scores)

    def label_text(self, value: float) -> str:
        """Return people's word for a pass (1) or a fail (0); any other number as digits."""
        words = dict(zip((1.0, 0.0), self.verdict_words, strict=True)) if self.has_verdicts else {}
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
        """Groups of rows that are ranked together: each document's at summary level, else all."""
        if self.level == "summary":
            return list(self.items.document_rows.values())
        return [np.arange(len(self.items))]

    @property
    def failures(self) -> dict[str, str]:
        """For each output without a score, the reason, by the output's id."""
        return {
            self.items.items[row].id: self.judgements[row].failure or "no reason was recorded"
            for row in np.flatnonzero(np.isnan(self.scores))
        }

    @property
    def is_within_scale(self) -> bool:
        """Whether scores and labels lie within the judge's scale, so that they can be compared."""
        numbers = np.concatenate([self.human, self.scores[~np.isnan(self.scores)]])
        if not self.scale or not numbers.size:
            return False
        return bool(self.scale[0] <= numbers.min() and numbers.max() <= self.scale[-1])

    def texts(self, index: int) -> Mapping[str, str]:
        """Return the texts that the judge read; for a recording, all of the labelled row."""
        texts = self.items.items[index].texts
        if texts or not self.labelled_items:
            return texts
        labelled = self.labelled_items[index]
        if isinstance(labelled, LabelledPair):
            return {**labelled.texts, "A": labelled.response_a, "B": labelled.response_b}
        return labelled.texts


def are_fractions(scores: Vector) -> bool:
    """Return whether all scores lie between 0 and 1, apart from NaN."""
    return bool((np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all())


def with_both_scores(a: ScoredItems, b: ScoredItems) -> tuple[ScoredItems, ScoredItems]:
    """Return both judges' judgements, on the rows that both of them scored."""
    rows = np.flatnonzero(~np.isnan(a.scores + b.scores)).tolist()
    return a.of_rows(rows), b.of_rows(rows)


def labelled_in_order(labelled: AnyLabels, items: Items) -> tuple[LabelledItem, ...]:
    """Return the labelled outputs or pairs of these items, in the items' order."""
    labelled_by_id: Mapping[str, LabelledItem] = {label.id: label for label in labelled.items}
    return tuple(labelled_by_id[item.id] for item in items.items if item.id in labelled_by_id)


def tuned_ids(
    judge: AnyJudge | None, items: Items, *, of_documents: bool = False
) -> frozenset[str]:
    """Return the ids of outputs that the judge was tuned on.

    With `of_documents`, these are all outputs of the documents that the judge was tuned on.
    """
    if judge is None:
        return frozenset()
    digests = judge.tuning_digests
    texts_by_id = {
        item.id: input_texts(item.texts, judge.subject) if of_documents else item.texts
        for item in items.items
    }
    return frozenset(name for name, texts in texts_by_id.items() if texts_digest(texts) in digests)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOverlap:
    """How many of the labelled rows a judge was tuned on; figures leave these rows out.

    If too few other rows remain, figures are on all rows, and `tuned_on_these_labels` is true.
    `n_document_rows` counts measured rows that have new outputs for documents that the judge was
    tuned on.
    """

    n_rows: int = field(metadata={"json": "n_met"})
    n_document_rows: int = field(metadata={"json": "n_given"})
    tuned_on_these_labels: bool

    @classmethod
    def of(cls, scored: ScoredItems, held_out: ScoredItems) -> "TuningOverlap":
        """Return the overlap for all rows, of which `held_out` are measured."""
        return cls(
            n_rows=len(scored.tuned_ids & scored.ids),
            n_document_rows=len((held_out.tuned_document_ids - held_out.tuned_ids) & held_out.ids),
            tuned_on_these_labels=bool(held_out.tuned_ids & held_out.ids),
        )
