"""A scorecard: every figure for one judge's scores compared with people's labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import Preference
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from optimize.figures.as_json import INLINED_IN_JSON, JsonObject, fields_json, to_json
from optimize.items import annotation_matrix, levels_of
from optimize.measuring.scored import ScoredItems
from optimize.statistics.coefficients import COEFFICIENTS
from optimize.statistics.correlations import Correlation, Level
from optimize.statistics.human import (
    AnnotatorAgreement,
    OneAnnotatorComparison,
    annotator_agreement,
    krippendorff_alpha,
    one_annotator,
    reliability,
)
from optimize.statistics.intervals import Figure, Interval, Vector
from optimize.statistics.plain_agreement import PairwiseAccuracy, ScaleComparison, compare_scales
from optimize.statistics.verdict_rates import Rate, VerdictAgreement, verdict_agreement


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """The judge's accuracy on the pairs in which people prefer an output; a tie is half right.

    `accuracy` is the accuracy of the preference from both orders, and `order_agreement` the share
    of pairs with the same answer in both orders. Some published tables report
    `accuracy_mean_of_orders`.
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
    def of(cls, scored: ScoredItems, pairwise_accuracy: PairwiseAccuracy) -> "PairFigures":
        preferences = [item for item in scored.judgements if isinstance(item, Preference)]
        choices = np.sign(np.array([(item.margin_ab, item.margin_ba) for item in preferences]))
        has_answers = ~np.isnan(choices).any(axis=1)
        is_compared = has_answers & (scored.human != 0)
        is_right = (1 + choices[is_compared] * np.sign(scored.human[is_compared, None])) / 2
        return cls(
            accuracy=pairwise_accuracy.value,
            accuracy_interval=pairwise_accuracy.interval,
            accuracy_mean_of_orders=_mean_or_nan(is_right),
            accuracy_order_ab=_mean_or_nan(is_right[:, 0]),
            accuracy_order_ba=_mean_or_nan(is_right[:, 1]),
            order_agreement=_mean_or_nan((choices[:, 0] == choices[:, 1])[has_answers]),
            n_pairs=len(preferences),
            n_decided=pairwise_accuracy.n_pairs,
            n_ties=pairwise_accuracy.n_ties,
            n_documents=pairwise_accuracy.n_documents,
            n_failed=len(scored.failures),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoValueFigures:
    """A judge's figures on pass and fail, and those of a judge that always says the same."""

    judge: VerdictAgreement
    constant_judge: VerdictAgreement

    @classmethod
    def of(cls, scored: ScoredItems) -> "TwoValueFigures":
        labels, weight = (scored.human, scored.documents), scored.items.weights
        judge = verdict_agreement(scored.scores, *labels, weight=weight)
        constant = np.where(np.isnan(scored.scores), np.nan, judge.base_rate.value >= 0.5)
        constant_judge = verdict_agreement(constant, *labels, weight=weight)
        return cls(judge=judge, constant_judge=constant_judge)

    @property
    def constant_verdict(self) -> str:
        return "pass" if self.judge.base_rate.value >= 0.5 else "fail"

    @property
    def rates(self) -> list[Rate]:
        """TPR, TNR and kappa, in the order in which tables show them."""
        return [self.judge.tpr, self.judge.tnr, self.judge.kappa]

    def to_json(self) -> JsonObject:
        counts = "confusion", "n_missing_labels", "n_documents"
        constant_rates = fields_json(self.constant_judge, *counts)
        constant_judge = {"word": self.constant_verdict, **constant_rates}
        return {**to_json(self.judge), "constant": constant_judge}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFigures:
    """How well the judge agrees with the annotators, and the annotators with each other.

    `agreement` has a row for the judge and each annotator, then one for every two annotators.
    `one_annotator` is None if people rate all outputs alike. `reliability` is the reliability of
    the mean label; a judge's rho can hardly exceed its square root, `max_rho`.
    """

    names: tuple[str, ...]
    alpha: float
    reliability: float
    max_rho: float = field(metadata={"json": "bound"})
    one_annotator: OneAnnotatorComparison | None
    agreement: tuple[AnnotatorAgreement, ...]

    @classmethod
    def of(cls, scored: ScoredItems) -> "PeopleFigures | None":
        """Return the figures; None if labels are weighted, without annotators or without ties."""
        # If the outputs on which annotators are tied were left out, annotators would seem to agree
        # too well.
        outputs = tuple(item for item in scored.labelled_items if isinstance(item, LabelledOutput))
        if scored.n_tied or scored.items.is_weighted or len(outputs) != len(scored.items):
            return None
        labelled = LabelledSet(name="the labels", sha256="", outputs=outputs)
        try:
            ratings, names = annotation_matrix(labelled, scored.dimension)
        except LabelError:
            return None
        documents, level, system = scored.documents, scored.level, scored.systems
        reliability_of_mean = reliability(ratings, documents, level=level, system=system)
        return cls(
            names=names,
            alpha=krippendorff_alpha(ratings),
            reliability=reliability_of_mean,
            max_rho=reliability_of_mean**0.5,
            one_annotator=one_annotator(
                scored.scores, ratings, documents, level=level, system=system
            ),
            agreement=annotator_agreement(
                ratings,
                documents,
                level=level,
                system=system,
                judge=scored.passes if scored.has_verdicts else scored.scores,
                scale=scored.scale if scored.is_within_scale else None,
            ),
        )

    @property
    def among_annotators(self) -> list[AnnotatorAgreement]:
        return [row for row in self.agreement if row.first is not None]

    def pair_of(self, row: AnnotatorAgreement) -> list[str]:
        """Return the names in a row of `agreement`: "judge" and an annotator, or two annotators."""
        first = "judge" if row.first is None else self.names[row.first]
        return [first, self.names[row.second]]

    def to_json(self) -> JsonObject:
        excluded_fields = "first", "second"
        agreement = {
            "judge": [
                {"annotator": self.names[row.second], **fields_json(row, *excluded_fields)}
                for row in self.agreement
                if row.first is None
            ],
            "annotators": [
                {"annotators": self.pair_of(row), **fields_json(row, *excluded_fields)}
                for row in self.among_annotators
            ],
        }
        return {**fields_json(self, "names"), "agreement": agreement}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """All figures of one judge; the first of `correlations` is its main rho.

    `pairwise_accuracy` is how often the judge orders two outputs as people do. For a pairwise
    judge, it is how often the judge has people's preference.
    """

    correlations: tuple[Correlation, ...]
    pairwise_accuracy: PairwiseAccuracy = field(metadata={"json": "order"})
    scales: ScaleComparison | None
    pairs: PairFigures | None = field(default=None, metadata=INLINED_IN_JSON)
    two_values: TwoValueFigures | None = field(default=None, metadata=INLINED_IN_JSON)
    people: PeopleFigures | None = None

    @classmethod
    def brief(cls, scored: ScoredItems, *, has_verdicts: bool | None = None) -> "Scorecard":
        """Return the main figures: rho, order agreement, and the figures on pairs or verdicts.

        Figures on pass and fail are included by default if labels and scores allow it.
        """
        with_verdicts = scored.has_verdicts if has_verdicts is None else has_verdicts
        pairwise_accuracy = scored.pairwise_accuracy
        return cls(
            correlations=(scored.rho,),
            pairwise_accuracy=pairwise_accuracy,
            scales=None,
            pairs=PairFigures.of(scored, pairwise_accuracy) if scored.is_pairs else None,
            two_values=TwoValueFigures.of(scored) if with_verdicts else None,
        )

    @classmethod
    def of(cls, scored: ScoredItems, *, has_verdicts: bool | None = None) -> "Scorecard":
        """Return all figures that the data allows."""
        return replace(
            cls.brief(scored, has_verdicts=has_verdicts),
            correlations=tuple(all_correlations(scored)),
            scales=scale_figures(scored),
            people=PeopleFigures.of(scored),
        )

    @property
    def rho(self) -> Correlation:
        return self.correlations[0]

    @property
    def is_pairs(self) -> bool:
        return self.pairs is not None

    @property
    def unit(self) -> str:
        """The noun for what was judged."""
        return "pair" if self.is_pairs else "output"

    @property
    def headline(self) -> Figure:
        """The figure that ranks judges: balanced accuracy, accuracy on pairs, or else rho."""
        if self.two_values:
            return self.two_values.judge.balanced_accuracy
        return self.pairwise_accuracy if self.is_pairs else self.rho

    @property
    def headline_name(self) -> str:
        if self.two_values:
            return "balanced accuracy"
        return "accuracy" if self.is_pairs else f"{self.rho.level}-level rho"

    @property
    def share_right(self) -> Figure:
        """The figure that is 50 % for a coin: balanced accuracy of verdicts, else on pairs."""
        if self.two_values:
            return self.two_values.judge.balanced_accuracy
        return self.pairwise_accuracy

    @property
    def tie_share(self) -> float | None:
        """The share of ties among the pairs that people order; None if people order no pair."""
        accuracy = self.pairwise_accuracy
        return accuracy.n_ties / accuracy.n_pairs if accuracy.n_pairs else None

    @property
    def has_same_scores(self) -> bool:
        """Whether the judge ties all pairs that people order, so that more labels cannot help."""
        return self.tie_share == 1 and not self.two_values

    def to_json(self) -> JsonObject:
        return {**fields_json(self), "ties": self.tie_share}


def all_correlations(scored: ScoredItems) -> Iterator[Correlation]:
    """Yield every coefficient at every level, the level of `scored` first.

    At summary level, each coefficient is computed by both rules for documents on which it is
    undefined. Pairs have no systems, and a document has few pairs, so they have the dataset level
    only. For weighted labels, coefficients without a weighted form are left out at dataset level.
    """
    levels: Sequence[Level] = ("dataset",) if scored.is_pairs else levels_of(scored.items)
    for level in sorted(levels, key=lambda level: level != scored.level):
        for name, coefficient in COEFFICIENTS.items():
            if coefficient.of_weighted or level != "dataset" or not scored.items.is_weighted:
                yield scored.correlation(level, name)
                if level == "summary":
                    yield scored.correlation(level, name, "left_out")


def scale_figures(scored: ScoredItems) -> ScaleComparison | None:
    """Compare means and SDs; None for pairs, different scales or weighted labels."""
    if scored.is_pairs or not scored.is_within_scale or scored.items.is_weighted:
        return None
    return compare_scales(scored.scores, scored.human, scored.documents)


def _mean_or_nan(values: Vector) -> float:
    return float(np.mean(values)) if values.size else np.nan
