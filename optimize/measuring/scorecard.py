"""A scorecard: every figure for one judge's scores compared with people's labels."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import Preference
from judges.labels.types import LabelError, LabelledPairs
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json, to_json
from optimize.items import annotation_matrix, defined_levels
from optimize.measuring.scored import ScoredItems
from optimize.statistics import human
from optimize.statistics.coefficients import COEFFICIENTS
from optimize.statistics.correlations import Correlation
from optimize.statistics.intervals import Figure, Interval, Vector
from optimize.statistics.plain_agreement import PairwiseAccuracy, ScaleComparison, compare_scales
from optimize.statistics.verdict_rates import Rate, VerdictAgreement, verdict_agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """The judge's accuracy on the pairs in which people prefer an output; a tie is half right.

    `accuracy` is computed from one preference for each pair, which joins the answers in both orders
    of the outputs. Some published tables have the mean of the accuracies in each order instead.
    `order_agreement` is the share of pairs with the same answer in both orders.
    """

    accuracy: float
    accuracy_interval: Interval | None
    accuracy_mean_of_orders: float
    accuracy_order_ab: float
    accuracy_order_ba: float
    order_agreement: float
    n_pairs: int
    n_decided: int
    n_ties: int
    n_documents: int
    n_failed: int

    @classmethod
    def from_scores(cls, scored_items: ScoredItems, accuracy: PairwiseAccuracy) -> "PairFigures":
        preferences = [item for item in scored_items.judgements if isinstance(item, Preference)]
        choices = np.sign(np.array([(item.margin_ab, item.margin_ba) for item in preferences]))
        has_answers = ~np.isnan(choices).any(axis=1)
        is_compared = has_answers & (scored_items.human != 0)
        people_choices = np.sign(scored_items.human[is_compared, None])
        share_right = (1 + choices[is_compared] * people_choices) / 2
        return cls(
            accuracy=accuracy.value,
            accuracy_interval=accuracy.interval,
            accuracy_mean_of_orders=_mean_or_nan(share_right),
            accuracy_order_ab=_mean_or_nan(share_right[:, 0]),
            accuracy_order_ba=_mean_or_nan(share_right[:, 1]),
            order_agreement=_mean_or_nan((choices[:, 0] == choices[:, 1])[has_answers]),
            n_pairs=len(preferences),
            n_decided=accuracy.n_pairs,
            n_ties=accuracy.n_ties,
            n_documents=accuracy.n_documents,
            n_failed=len(scored_items.failures),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictFigures:
    """Figures of the judge's verdicts, and of a judge that always gives the commoner verdict."""

    judge: VerdictAgreement
    constant_judge: VerdictAgreement

    @classmethod
    def from_scores(cls, scored_items: ScoredItems) -> "VerdictFigures":
        rows = scored_items.rows
        judge = verdict_agreement(rows)
        constant_scores = np.full(rows.scores.size, float(judge.base_rate.value >= 0.5))
        constant_judge = verdict_agreement(replace(rows, scores=constant_scores))
        return cls(judge=judge, constant_judge=constant_judge)

    @property
    def constant_verdict(self) -> str:
        return "pass" if self.judge.base_rate.value >= 0.5 else "fail"

    @property
    def rates(self) -> list[Rate]:
        """TPR, TNR and kappa, in the order in which tables show them."""
        return [self.judge.tpr, self.judge.tnr, self.judge.kappa]

    def to_json(self) -> JsonObject:
        count_fields = "confusion", "n_missing_labels", "n_documents"
        rates = fields_json(self.constant_judge, *count_fields)
        return {**to_json(self.judge), "constant": {"word": self.constant_verdict, **rates}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFigures:
    """How well the judge agrees with the annotators, and the annotators with each other.

    `agreement` has a row for the judge and each annotator, then one for every two annotators.
    `one_annotator` compares the judge with an annotator; it is None if people rate all outputs
    alike. A judge's rho can hardly exceed `max_rho`, the root of the mean label's `reliability`.
    """

    names: tuple[str, ...]
    alpha: float
    reliability: float
    max_rho: float = field(metadata={"json": "bound"})
    one_annotator: human.OneAnnotatorComparison | None
    agreement: tuple[human.AnnotatorAgreement, ...]

    @classmethod
    def from_scores(cls, scored_items: ScoredItems) -> "PeopleFigures | None":
        """Return the figures; None for pairs, weighted labels, and without annotators' ratings."""
        labels = scored_items.labels
        # If outputs with tied annotators were left out, annotators would seem to agree too well.
        if isinstance(labels, LabelledPairs) or labels.n_tied or scored_items.items.is_weighted:
            return None
        output_by_id = {output.id: output for output in labels.outputs}
        outputs = tuple(output_by_id[item.id] for item in scored_items.items)
        labelled_set = replace(labels, outputs=outputs)
        try:
            ratings, names = annotation_matrix(labelled_set, scored_items.dimension)
        except LabelError:
            return None
        scores, level = scored_items.scores, scored_items.level
        documents, systems = scored_items.document_ids, scored_items.system_ids
        reliability = human.reliability(ratings, documents, level=level, system=systems)
        return cls(
            names=names,
            alpha=human.krippendorff_alpha(ratings),
            reliability=reliability,
            max_rho=reliability**0.5,
            one_annotator=human.one_annotator(
                scores, ratings, documents, level=level, system=systems
            ),
            agreement=human.annotator_agreement(
                ratings,
                documents,
                level=level,
                system=systems,
                judge=scored_items.verdicts if scored_items.has_verdicts else scores,
                scale=scored_items.scale if scored_items.is_within_scale else None,
            ),
        )

    def names_of(self, row: human.AnnotatorAgreement) -> list[str]:
        """Return the names in a row of `agreement`: "judge" and an annotator, or two annotators."""
        first_name = "judge" if row.first is None else self.names[row.first]
        return [first_name, self.names[row.second]]

    def to_json(self) -> JsonObject:
        agreement: dict[str, list[JsonObject]] = {"judge": [], "annotators": []}
        for row in self.agreement:
            figures = fields_json(row, "first", "second")
            if row.first is None:
                agreement["judge"].append({"annotator": self.names[row.second], **figures})
            else:
                agreement["annotators"].append({"annotators": self.names_of(row), **figures})
        return {**fields_json(self, "names"), "agreement": agreement}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """All figures of one judge; the first of `correlations` is its main rho.

    `pairwise_accuracy` is how often the judge orders two outputs as people do, or how often it
    prefers the same output of a labelled pair. Figures that do not suit the labels are None.
    """

    correlations: tuple[Correlation, ...]
    pairwise_accuracy: PairwiseAccuracy = field(metadata={"json": "order"})
    scale_comparison: ScaleComparison | None = field(metadata={"json": "scales"})
    pair_figures: PairFigures | None = field(default=None, metadata=INLINED_IN_JSON)
    verdict_figures: VerdictFigures | None = field(default=None, metadata=INLINED_IN_JSON)
    people_figures: PeopleFigures | None = field(default=None, metadata={"json": "people"})

    @classmethod
    def from_scores(
        cls, scores: ScoredItems, *, has_verdicts: bool, with_people: bool = True
    ) -> "Scorecard":
        """Return all figures; those on verdicts if `has_verdicts`, on annotators if `with_people`.

        Figures on annotators take minutes if there are a hundred annotators.
        """
        accuracy = scores.pairwise_accuracy
        return cls(
            correlations=tuple(_all_correlations(scores)),
            pairwise_accuracy=accuracy,
            scale_comparison=_compare_with_scale(scores),
            pair_figures=PairFigures.from_scores(scores, accuracy) if scores.is_pairwise else None,
            verdict_figures=VerdictFigures.from_scores(scores) if has_verdicts else None,
            people_figures=PeopleFigures.from_scores(scores) if with_people else None,
        )

    @property
    def rho(self) -> Correlation:
        """Spearman's rho at the level that was chosen for the labels."""
        return self.correlations[0]

    @property
    def is_pairwise(self) -> bool:
        return self.pair_figures is not None

    @property
    def unit(self) -> str:
        """The noun for what was judged: "output" or "pair"."""
        return "pair" if self.is_pairwise else "output"

    @property
    def headline(self) -> Figure:
        """The figure that ranks judges: balanced accuracy, accuracy on pairs, or else rho."""
        return self.share_right if self.verdict_figures or self.is_pairwise else self.rho

    @property
    def headline_name(self) -> str:
        if self.verdict_figures:
            return "balanced accuracy"
        return "accuracy" if self.is_pairwise else f"{self.rho.level}-level rho"

    @property
    def share_right(self) -> Figure:
        """The figure that is 50 % for a random judge: balanced accuracy, else pairwise accuracy."""
        figures = self.verdict_figures
        return figures.judge.balanced_accuracy if figures else self.pairwise_accuracy

    @property
    def tie_share(self) -> float | None:
        """The share of pairs with equal scores, among the pairs of outputs that people order."""
        accuracy = self.pairwise_accuracy
        return accuracy.n_ties / accuracy.n_pairs if accuracy.n_pairs else None

    @property
    def has_same_scores(self) -> bool:
        """Whether the judge gives equal scores to any two outputs that people rate differently."""
        return self.tie_share == 1 and not self.verdict_figures

    def to_json(self) -> JsonObject:
        return {**fields_json(self), "ties": self.tie_share}


def _all_correlations(scored_items: ScoredItems) -> Iterator[Correlation]:
    """Yield every coefficient at every level, the level of the main rho first.

    At summary level, each coefficient is computed by both rules for documents on which it is
    undefined. Labelled pairs have the dataset level only: they have no systems, and a document has
    few pairs. For weighted labels, coefficients without weights are left out at dataset level.
    """
    is_weighted, is_pairwise = scored_items.items.is_weighted, scored_items.is_pairwise
    levels = ("dataset",) if is_pairwise else defined_levels(scored_items.items)
    for level in sorted(levels, key=lambda level: level != scored_items.level):
        for name, coefficient in COEFFICIENTS.items():
            if is_weighted and level == "dataset" and not coefficient.of_weighted:
                continue
            yield scored_items.correlation(level, name)
            if level == "summary":
                yield scored_items.correlation(level, name, "left_out")


def _compare_with_scale(scored_items: ScoredItems) -> ScaleComparison | None:
    """Compare scores' and labels' means and SDs; None for pairs, weights, or different scales."""
    is_unsuited = scored_items.is_pairwise or scored_items.items.is_weighted
    if is_unsuited or not scored_items.is_within_scale:
        return None
    return compare_scales(scored_items.rows)


def _mean_or_nan(values: Vector) -> float:
    return float(np.mean(values)) if values.size else np.nan
