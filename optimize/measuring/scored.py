"""One judge's judgements together with people's labels, from which all figures are computed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from judges.judgement import AnyJudgement, preferred_output
from judges.labels.types import LabelledItem
from judges.panel import AnyJudge
from optimize.inputs.labelled import PASS_FAIL, AnyLabels, verdict_words
from optimize.items import Indices, Items, input_texts, is_two_valued
from optimize.statistics import balanced
from optimize.statistics.correlations import (
    DEFAULT_UNDEFINED_RULE,
    Correlation,
    Level,
    UndefinedRule,
    correlation_of_rows,
)
from optimize.statistics.intervals import Vector
from optimize.statistics.plain_agreement import (
    PairwiseAccuracy,
    pairwise_accuracy,
    preference_accuracy,
)
from optimize.statistics.rows import ScoredRows, scored_rows

# The rows that a judge was tuned on are left out if at least this many rows and documents remain.
MIN_ROWS_LEFT = 10
MIN_DOCUMENTS_LEFT = 2


@dataclass(frozen=True, kw_only=True)
class ScoredItems:
    """One judge's judgements of labelled items, in the order of `items`.

    `labels` are all labels that were read, also those of other items. `scale` has all ratings that
    the judge can give; it is empty for pairs, and if it is unknown. `tuned_ids` are the outputs
    that the judge was tuned on. `ids_on_tuned_documents` are all outputs of the documents that the
    judge was tuned on. `n_unjudged` labels have no score, `n_unlabelled` scores have no label.
    """

    judge_name: str
    dimension: str
    level: Level
    labels: AnyLabels
    items: Items
    judgements: tuple[AnyJudgement, ...]
    scale: tuple[int, ...] = ()
    tuned_ids: frozenset[str] = frozenset()
    ids_on_tuned_documents: frozenset[str] = frozenset()
    n_unjudged: int = 0
    n_unlabelled: int = 0

    @cached_property
    def labelled_items(self) -> list[LabelledItem]:
        """The labelled outputs or pairs from which the items were made, in the same order."""
        labelled_by_id = {labelled.id: labelled for labelled in self.labels.items}
        return [labelled_by_id[item.id] for item in self.items]

    @cached_property
    def scores(self) -> Vector:
        """The judgements' scores (for pairs, margins); NaN for a failed judgement."""
        return np.array([judgement.score for judgement in self.judgements], float)

    @cached_property
    def rows(self) -> ScoredRows:
        """The rows that have a score, as vectors for statistics."""
        ids, weight = (self.document_ids, self.system_ids), self.items.weights
        return scored_rows(self.scores, self.human, *ids, weight)

    @property
    def verdicts(self) -> Vector:
        """The judge's verdicts: 1 for a pass, 0 for a fail, NaN for a failed judgement."""
        return balanced.verdicts(self.scores)

    @property
    def human(self) -> Vector:
        return self.items.human

    @property
    def document_ids(self) -> list[str]:
        return self.items.document_ids

    @property
    def system_ids(self) -> list[str]:
        return self.items.system_ids

    @property
    def ids(self) -> set[str]:
        return {item.id for item in self.items}

    @property
    def is_pairwise(self) -> bool:
        return self.labels.is_pairwise

    @cached_property
    def has_verdicts(self) -> bool:
        """Whether labels are pass or fail, and scores lie between 0 and 1."""
        return not self.is_pairwise and is_two_valued(self.human) and are_fractions(self.scores)

    @property
    def is_within_scale(self) -> bool:
        """Whether scores and labels lie within the judge's scale, so that they can be compared."""
        numbers = np.concatenate([self.human, self.scores[~np.isnan(self.scores)]])
        if not self.scale or not numbers.size:
            return False
        return bool(self.scale[0] <= numbers.min() and numbers.max() <= self.scale[-1])

    @property
    def failures(self) -> dict[str, str]:
        """The reasons why outputs have no score, by the outputs' ids."""
        return {
            self.items[row].id: self.judgements[row].failure or "no reason was recorded"
            for row in np.flatnonzero(np.isnan(self.scores))
        }

    def of_rows(self, rows: Sequence[int]) -> "ScoredItems":
        return replace(
            self,
            items=self.items.of_rows(rows),
            judgements=tuple(self.judgements[row] for row in rows),
        )

    def of_ids(self, ids: Collection[str]) -> "ScoredItems":
        """Return the items with these ids and their judgements, in unchanged order."""
        return self.of_rows([row for row, item in enumerate(self.items) if item.id in ids])

    def without_ids_if_enough_remain(self, ids: Collection[str]) -> "ScoredItems":
        """Leave out the items with these ids, unless too few items would be left."""
        others = self.of_ids(self.ids - set(ids))
        n_rows, n_documents = len(others.items), len(others.items.documents)
        return others if n_rows >= MIN_ROWS_LEFT and n_documents >= MIN_DOCUMENTS_LEFT else self

    def correlation(
        self,
        level: Level,
        coefficient: str = "spearman",
        undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    ) -> Correlation:
        """Return the correlation of the scores with people's labels, by this coefficient."""
        return correlation_of_rows(level, self.rows, coefficient, undefined)

    @property
    def rho(self) -> Correlation:
        """Spearman's rho of the scores with people's labels, at the level `level`."""
        return self.correlation(self.level)

    @property
    def pairwise_accuracy(self) -> PairwiseAccuracy:
        """How often the judge orders two outputs, or the two outputs of a pair, as people do."""
        if self.is_pairwise:
            return preference_accuracy(self.rows)
        return pairwise_accuracy(self.rows, level=self.level)

    @property
    def rows_ranked_together(self) -> list[Indices]:
        """The rows that are ranked against each other: of a document at summary level, else all."""
        if self.level == "summary":
            return list(self.items.rows_by_document.values())
        return [np.arange(len(self.items))]

    @property
    def verdict_words(self) -> tuple[str, str]:
        """People's words for pass and for fail."""
        return verdict_words(self.labels, self.dimension) or PASS_FAIL

    def label_text(self, label: float) -> str:
        """Return a label or a score as text: people's word, a preference or a number."""
        if self.is_pairwise:
            return preferred_output(label) or "tie"
        if self.has_verdicts:
            return self.verdict_words[0 if label >= balanced.PASS_THRESHOLD else 1]
        return f"{round(label, 3):g}"


def are_fractions(scores: Vector) -> bool:
    """Return whether all scores lie between 0 and 1, apart from NaN."""
    return bool((np.isnan(scores) | ((scores >= 0) & (scores <= 1))).all())


def rows_scored_by_both(
    judge: ScoredItems, reference: ScoredItems
) -> tuple[ScoredItems, ScoredItems]:
    """Return the judgements of two judges, on the rows for which both judges have a score."""
    rows = np.flatnonzero(~np.isnan(judge.scores + reference.scores)).tolist()
    return judge.of_rows(rows), reference.of_rows(rows)


def tuned_ids(judge: AnyJudge | None, items: Items) -> frozenset[str]:
    """Return the ids of the outputs that the judge was tuned on; none if `judge` is None."""
    return frozenset(item.id for item in items if judge and judge.was_tuned_on(item.texts))


def ids_on_tuned_documents(judge: AnyJudge, items: Items) -> frozenset[str]:
    """Return the ids of all outputs of the documents that the judge was tuned on."""
    inputs_by_id = {item.id: input_texts(item.texts, judge.subject) for item in items}
    return frozenset(name for name, inputs in inputs_by_id.items() if judge.was_tuned_on(inputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningOverlap:
    """How many of the labelled rows a judge was tuned on; figures leave these rows out.

    If too few other rows remain, figures are on all rows, and `tuned_on_these_labels` is true.
    `n_document_rows` counts rows with a new output of a document that the judge was tuned on.
    """

    n_rows: int = field(metadata={"json": "n_met"})
    n_document_rows: int = field(metadata={"json": "n_given"})
    tuned_on_these_labels: bool

    @classmethod
    def from_scores(cls, scored_items: ScoredItems, figure_rows: ScoredItems) -> "TuningOverlap":
        """Count tuned rows in `scored_items`, and new rows of tuned documents in `figure_rows`."""
        new_output_ids = figure_rows.ids_on_tuned_documents - figure_rows.tuned_ids
        return cls(
            n_rows=len(scored_items.tuned_ids & scored_items.ids),
            n_document_rows=len(new_output_ids & figure_rows.ids),
            tuned_on_these_labels=bool(figure_rows.tuned_ids & figure_rows.ids),
        )
