"""A scorecard: every figure for one judge's scores compared with people's labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import Preference
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from optimize.figures.as_json import FLAT, JsonObject, fields_json, object_json
from optimize.items import annotation_matrix, levels_of
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import (
    COEFFICIENTS,
    DEFAULT_UNDEFINED,
    Correlation,
    Level,
    Undefined,
    correlation,
)
from optimize.statistics.human import (
    AnnotatorAgreement,
    OneAnnotator,
    annotator_agreement,
    krippendorff_alpha,
    one_annotator,
    reliability,
)
from optimize.statistics.intervals import Figure, Interval, Vector
from optimize.statistics.plain import (
    OrderAgreement,
    ScaleComparison,
    compare_scales,
    order_agreement,
    pair_accuracy,
)
from optimize.statistics.two_values import Rate, TwoValues, two_values


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFigures:
    """The judge's accuracy over the pairs on which people prefer a side; a tie is half right.

    `accuracy` is that of the joint margin of both orders. `accuracy_order_ab` is that of the
    replies with output A first, `accuracy_order_ba` of those with B first, and the mean of the two
    is what some tables call accuracy. `order_agreement` is the share of pairs with the same answer
    in both orders, without failed pairs.
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
    def of(cls, scored: Scored, order: OrderAgreement) -> "PairFigures":
        preferences = [each for each in scored.judgements if isinstance(each, Preference)]
        choices = np.sign(np.array([(each.margin_ab, each.margin_ba) for each in preferences]))
        answered = ~np.isnan(choices).any(axis=1)
        decided = answered & (scored.human != 0)
        is_right = (1 + choices[decided] * np.sign(scored.human[decided, None])) / 2
        return cls(
            accuracy=order.value,
            accuracy_interval=order.interval,
            accuracy_mean_of_orders=_mean(is_right),
            accuracy_order_ab=_mean(is_right[:, 0]),
            accuracy_order_ba=_mean(is_right[:, 1]),
            order_agreement=_mean((choices[:, 0] == choices[:, 1])[answered]),
            n_pairs=len(preferences),
            n_decided=order.n_pairs,
            n_ties=order.n_ties,
            n_documents=order.n_documents,
            n_failed=len(scored.failures),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoValueFigures:
    """Figures for a judge of pass and fail, and for one that always gives the commoner answer."""

    judge: TwoValues
    constant: TwoValues

    @classmethod
    def of(cls, scored: Scored) -> "TwoValueFigures":
        human, documents, weight = scored.human, scored.documents, scored.items.weights
        judge = two_values(scored.scores, human, documents, weight=weight)
        constant_verdicts = np.where(np.isnan(scored.scores), np.nan, judge.base_rate.value >= 0.5)
        return cls(
            judge=judge, constant=two_values(constant_verdicts, human, documents, weight=weight)
        )

    @property
    def constant_word(self) -> str:
        return "pass" if self.judge.base_rate.value >= 0.5 else "fail"

    @property
    def rates(self) -> list[Rate]:
        """TPR, TNR and kappa, in the order of the tables' columns."""
        return [self.judge.tpr, self.judge.tnr, self.judge.kappa]

    def to_json(self) -> JsonObject:
        rates = fields_json(self.judge, "n_more", "n_documents")
        constant_rates = fields_json(self.constant, "confusion", "n_more", "n_documents")
        constant = {"word": self.constant_word, **constant_rates}
        return {**rates, "constant": constant, **object_json(self.judge)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFigures:
    """The judge compared with the annotators, whose `names` are in the order of their columns.

    `agreement` is that of the judge with each annotator, then that of every two annotators.
    `one_annotator` is None if people's labels have no contrast. A judge's rho can reach about
    `bound`, the square root of the mean label's `reliability`.
    """

    names: tuple[str, ...]
    alpha: float
    reliability: float
    bound: float
    one_annotator: OneAnnotator | None
    agreement: tuple[AnnotatorAgreement, ...]

    @classmethod
    def of(cls, scored: Scored) -> "PeopleFigures | None":
        """The figures; None if annotators are unknown, ties were left out or labels are weighted.

        Without the ties, annotators would seem to agree too well. And the figures take no weights.
        """
        outputs = tuple(each for each in scored.labelled if isinstance(each, LabelledOutput))
        has_no_figures = scored.n_tied or scored.items.is_weighted or not outputs
        if has_no_figures or len(outputs) != len(scored.items):
            return None
        labelled = LabelledSet(name="the labels", sha256="", outputs=outputs)
        try:
            ratings, names = annotation_matrix(labelled, scored.dimension)
        except LabelError:
            return None
        documents = scored.documents
        level, system = scored.level, scored.systems
        scale = scored.scale if scored.within_scale else None
        judge = scored.passes if scored.is_binary else scored.scores
        reliability_value = reliability(ratings, documents, level=level, system=system)
        comparison = one_annotator(scored.scores, ratings, documents, level=level, system=system)
        return cls(
            names=tuple(names),
            alpha=krippendorff_alpha(ratings),
            reliability=reliability_value,
            bound=reliability_value**0.5,
            one_annotator=comparison,
            agreement=annotator_agreement(
                ratings, documents, level=level, system=system, judge=judge, scale=scale
            ),
        )

    @property
    def with_judge(self) -> list[AnnotatorAgreement]:
        return [row for row in self.agreement if row.first is None]

    @property
    def among_annotators(self) -> list[AnnotatorAgreement]:
        return [row for row in self.agreement if row.first is not None]

    def pair_of(self, row: AnnotatorAgreement) -> list[str]:
        """The names of the two that are compared: annotators, or "judge" and an annotator."""
        first = "judge" if row.first is None else self.names[row.first]
        return [first, self.names[row.second]]

    def to_json(self) -> JsonObject:
        without = "first", "second"
        judge, people = self.with_judge, self.among_annotators
        agreement = {
            "judge": [
                {"annotator": self.names[row.second], **fields_json(row, *without)} for row in judge
            ],
            "annotators": [
                {"annotators": self.pair_of(row), **fields_json(row, *without)} for row in people
            ],
        }
        return {**fields_json(self, "names"), "agreement": agreement}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """One judge's figures; the first of `correlations` is the judge's main rho.

    `order` is how often the judge orders two outputs as people do, or the accuracy on pairs.
    `scales` is None if scores and labels have different scales, or labels are weighted. `pairs` is
    None for labels on single outputs, `two_values` for labels other than pass and fail, and
    `people` for labels by unknown annotators.
    """

    correlations: tuple[Correlation, ...]
    order: OrderAgreement
    scales: ScaleComparison | None
    pairs: PairFigures | None = field(default=None, metadata=FLAT)
    two_values: TwoValueFigures | None = field(default=None, metadata=FLAT)
    people: PeopleFigures | None = None

    @classmethod
    def brief(cls, scored: Scored, *, is_binary: bool | None = None) -> "Scorecard":
        """The main figures: rho, order agreement, and those of pairs or of pass and fail.

        `is_binary` says whether to include figures of pass and fail. By default they are included
        if labels and scores allow it.
        """
        binary, order = scored.is_binary if is_binary is None else is_binary, order_figures(scored)
        return cls(
            correlations=(rho(scored),),
            order=order,
            scales=None,
            pairs=PairFigures.of(scored, order) if scored.is_pairs else None,
            two_values=TwoValueFigures.of(scored) if binary else None,
        )

    @classmethod
    def of(cls, scored: Scored, *, is_binary: bool | None = None) -> "Scorecard":
        """Every figure that labels and scores allow; see `brief` for `is_binary`."""
        return replace(
            cls.brief(scored, is_binary=is_binary),
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
        """The noun for what was judged, in the plural."""
        return "pairs" if self.is_pairs else "outputs"

    @property
    def headline(self) -> Figure:
        """The figure that ranks judges: balanced accuracy, accuracy on pairs, or else rho."""
        if self.two_values:
            return self.two_values.judge.balanced_accuracy
        return self.order if self.is_pairs else self.rho

    @property
    def beside_coin(self) -> Figure:
        """The share to compare with a random judge's 50 %: `order`, or balanced accuracy."""
        return self.two_values.judge.balanced_accuracy if self.two_values else self.order

    @property
    def ties(self) -> float | None:
        """The judge's share of ties among the pairs that people order; None without such a pair."""
        return self.order.n_ties / self.order.n_pairs if self.order.n_pairs else None

    def to_json(self) -> JsonObject:
        first = dict.fromkeys(("correlations", "order", "scales"))
        return {**first, "ties": self.ties, **fields_json(self)}


def correlation_of(
    scored: Scored,
    level: Level,
    coefficient: str = "spearman",
    undefined: Undefined = DEFAULT_UNDEFINED,
) -> Correlation:
    """The correlation of a judge's scores with people's labels, at a level, by a coefficient."""
    return correlation(
        level,
        scored.scores,
        scored.human,
        scored.documents,
        scored.systems,
        coefficient=coefficient,
        undefined=undefined,
        weight=scored.items.weights,
    )


def rho(scored: Scored) -> Correlation:
    """The judge's main figure: Spearman's rho at its level, by the default convention."""
    return correlation_of(scored, scored.level)


def all_correlations(scored: Scored) -> list[Correlation]:
    """The correlation for every level of the labels, the judge's level first, and coefficient.

    Summary level comes with both conventions for undefined values, since a single document may have
    no value there. Pairs have the dataset level only, since a document has few margins and no
    systems. Weighted labels have only the coefficients with a weighted form.
    """
    levels: Sequence[Level] = ("dataset",) if scored.is_pairs else levels_of(scored.items)
    conventions: Sequence[Undefined] = (DEFAULT_UNDEFINED, "left_out")
    return [
        correlation_of(scored, level, coefficient, undefined)
        for level in sorted(levels, key=lambda level: level != scored.level)
        for coefficient, definition in COEFFICIENTS.items()
        if definition.of_weighted or not scored.items.is_weighted
        for undefined in conventions[: 2 if level == "summary" else 1]
    ]


def order_figures(scored: Scored) -> OrderAgreement:
    """How often the judge orders two outputs as people do; for labelled pairs, its accuracy.

    The two outputs are of one document, at dataset level any two.
    """
    vectors = scored.scores, scored.human, scored.documents
    if scored.is_pairs:
        return pair_accuracy(*vectors)
    return order_agreement(*vectors, level=scored.level, weight=scored.items.weights)


def scale_figures(scored: Scored) -> ScaleComparison | None:
    """Means and SDs of scores and ratings; None with different scales or weighted labels."""
    if scored.is_pairs or not scored.within_scale or scored.items.is_weighted:
        return None
    return compare_scales(scored.scores, scored.human, scored.documents)


def _mean(values: Vector) -> float:
    return float(np.mean(values)) if values.size else np.nan
