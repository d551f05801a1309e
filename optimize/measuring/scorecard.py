"""A scorecard: every figure of one judge's scores beside people's labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from judges.judgement import Preference
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from optimize.figures.as_json import FLAT, Cell, fields_json, to_json
from optimize.items import annotation_matrix, levels_of
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import (
    COEFFICIENTS,
    PRIMARY,
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
    """Accuracy over the pairs on which people prefer a side; a tie is half right.

    `accuracy` is of both orders together (the side of the joint margin). The orders taken alone are
    told apart by which output came first, and their mean is what some tables call accuracy.
    `order_agreement` is the share of pairs with the same answer in both, failed pairs left out.
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
        verdicts = [each for each in scored.judgements if isinstance(each, Preference)]
        choices = np.sign(np.array([(each.margin_ab, each.margin_ba) for each in verdicts]))
        answered = ~np.isnan(choices).any(axis=1)
        decided = answered & (scored.human != 0)
        right = (1 + choices[decided] * np.sign(scored.human[decided, None])) / 2
        return cls(
            accuracy=order.value,
            accuracy_interval=order.interval,
            accuracy_mean_of_orders=_mean(right),
            accuracy_order_ab=_mean(right[:, 0]),
            accuracy_order_ba=_mean(right[:, 1]),
            order_agreement=_mean((choices[:, 0] == choices[:, 1])[answered]),
            n_pairs=len(verdicts),
            n_decided=order.n_pairs,
            n_ties=order.n_ties,
            n_documents=order.n_documents,
            n_failed=len(scored.failures),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoValueFigures:
    """A judge of pass and fail, and a constant one that always says people's commoner word."""

    judge: TwoValues
    constant: TwoValues

    @classmethod
    def of(cls, scored: Scored) -> "TwoValueFigures":
        human, documents, weight = scored.human, scored.documents, scored.items.weights
        judge = two_values(scored.scores, human, documents, weight=weight)
        same = np.where(np.isnan(scored.scores), np.nan, judge.base_rate.value >= 0.5)
        return cls(judge=judge, constant=two_values(same, human, documents, weight=weight))

    @property
    def constant_word(self) -> str:
        return "pass" if self.judge.base_rate.value >= 0.5 else "fail"

    @property
    def rates(self) -> list[Rate]:
        """TPR, TNR and kappa, as tables have them."""
        return [self.judge.tpr, self.judge.tnr, self.judge.kappa]

    def to_json(self) -> Cell:
        rates = fields_json(self.judge, "n_more", "n_documents")
        always = fields_json(self.constant, "confusion", "n_more", "n_documents")
        constant = {"word": self.constant_word, **always}
        return {**rates, "constant": constant, **to_json(self.judge)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PeopleFigures:
    """The judge among the annotators, whose `names` are in the order of their columns.

    `agreement` holds the judge beside each annotator, then every two annotators. `one_annotator` is
    None where people do not tell outputs apart. Rho reaches about `bound` at most, the root of the
    `reliability` of the mean label.
    """

    names: tuple[str, ...]
    alpha: float
    reliability: float
    bound: float
    one_annotator: OneAnnotator | None
    agreement: tuple[AnnotatorAgreement, ...]

    @classmethod
    def of(cls, scored: Scored) -> "PeopleFigures | None":
        """None where annotators are not known, where ties were left out, and of weighted labels.

        Without the ties annotators agree too well, and these figures have no weights.
        """
        outputs = tuple(one for one in scored.labelled if isinstance(one, LabelledOutput))
        left_out = scored.n_tied or scored.items.is_weighted or not outputs
        if left_out or len(outputs) != len(scored.items):
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
        reliable = reliability(ratings, documents, level=level, system=system)
        one = one_annotator(scored.scores, ratings, documents, level=level, system=system)
        return cls(
            names=tuple(names),
            alpha=krippendorff_alpha(ratings),
            reliability=reliable,
            bound=reliable**0.5,
            one_annotator=one,
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
        """The two annotators' names; "judge" and one where the other is the judge."""
        first = "judge" if row.first is None else self.names[row.first]
        return [first, self.names[row.second]]

    def to_json(self) -> Cell:
        rest = "first", "second"
        judge, people = self.with_judge, self.among_annotators
        agreement = {
            "judge": [{"annotator": self.names[r.second], **fields_json(r, *rest)} for r in judge],
            "annotators": [
                {"annotators": self.pair_of(r), **fields_json(r, *rest)} for r in people
            ],
        }
        return {**fields_json(self, "names"), "agreement": agreement}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scorecard:
    """One judge's figures; the first of `correlations` is the rho that the judge is known by.

    `order` is the share of two outputs that the judge orders as people do, of pairs its accuracy.
    `scales` is None where scores and labels share no scale, or labels weigh. `pairs`, `two_values`
    and `people` are None where labels are no pairs, no pass and fail, or of unknown annotators.
    """

    correlations: tuple[Correlation, ...]
    order: OrderAgreement
    scales: ScaleComparison | None
    pairs: PairFigures | None = field(default=None, metadata=FLAT)
    two_values: TwoValueFigures | None = field(default=None, metadata=FLAT)
    people: PeopleFigures | None = None

    @classmethod
    def brief(cls, scored: Scored, *, is_binary: bool | None = None) -> "Scorecard":
        """Rho, the share of pairs, and what pairs or two values show.

        `is_binary`: whether figures of pass and fail are among them; by default they are where
        labels and scores allow.
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
        """What was judged, in the plural."""
        return "pairs" if self.is_pairs else "outputs"

    @property
    def headline(self) -> Figure:
        """What judges are ranked by: rho, of pairs accuracy, of two values balanced accuracy."""
        if self.two_values:
            return self.two_values.judge.balanced_accuracy
        return self.order if self.is_pairs else self.rho

    @property
    def beside_coin(self) -> Figure:
        """The share that is to beat a coin: `order`, of two values the balanced accuracy."""
        return self.two_values.judge.balanced_accuracy if self.two_values else self.order

    @property
    def ties(self) -> float | None:
        """The share of the pairs that people order on which the judge is tied."""
        return self.order.n_ties / self.order.n_pairs if self.order.n_pairs else None

    def to_json(self) -> Cell:
        first = dict.fromkeys(("correlations", "order", "scales"))
        return {**first, "ties": self.ties, **fields_json(self)}


def correlation_of(
    scored: Scored,
    level: Level,
    coefficient: str = "spearman",
    undefined: Undefined = PRIMARY,
) -> Correlation:
    """One correlation of the rows."""
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
    """Spearman's at the judge's level, by the primary convention: what the judge is known by."""
    return correlation_of(scored, scored.level)


def all_correlations(scored: Scored) -> list[Correlation]:
    """Every level that the labels have, the judge's first, times every coefficient.

    Summary level is listed by both conventions, since a single document may have no value there.
    Pairs have the dataset level only, since a document has few margins and no systems. Weighted
    labels have only the coefficients with a weighted form.
    """
    levels: Sequence[Level] = ("dataset",) if scored.is_pairs else levels_of(scored.items)
    conventions: Sequence[Undefined] = (PRIMARY, "left_out")
    return [
        correlation_of(scored, level, coefficient, undefined)
        for level in sorted(levels, key=lambda level: level != scored.level)
        for coefficient, definition in COEFFICIENTS.items()
        if definition.of_weighted or not scored.items.is_weighted
        for undefined in conventions[: 2 if level == "summary" else 1]
    ]


def order_figures(scored: Scored) -> OrderAgreement:
    """The share of pairs that people order which the judge orders alike.

    Of rated outputs, pairs are two outputs of one document (any two at dataset level); of pairs it
    is their accuracy.
    """
    sides = scored.scores, scored.human, scored.documents
    if scored.is_pairs:
        return pair_accuracy(*sides)
    return order_agreement(*sides, level=scored.level, weight=scored.items.weights)


def scale_figures(scored: Scored) -> ScaleComparison | None:
    """Means and SDs of scores and ratings; None where they share no scale, or labels weigh."""
    if scored.is_pairs or not scored.within_scale or scored.items.is_weighted:
        return None
    return compare_scales(scored.scores, scored.human, scored.documents)


def _mean(values: Vector) -> float:
    return float(np.mean(values)) if values.size else np.nan
