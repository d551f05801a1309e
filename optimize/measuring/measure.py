"""What one judge's judgements are worth against people's labels: every figure of a `Scored`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from data.types import LabelledSet
from optimize.figures import DIGITS, interval_cell, json_number, value_cell
from optimize.items import AnnotationsError, annotation_matrix, levels_of
from optimize.measuring.scored import Scored
from optimize.statistics.correlations import (
    PRIMARY,
    Coefficient,
    Correlation,
    Level,
    Undefined,
    correlation,
)
from optimize.statistics.human import (
    annotator_agreement,
    krippendorff_alpha,
    one_annotator,
    reliability,
)
from optimize.statistics.plain import compare_scales, order_agreement, pair_accuracy

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "kendall", "pearson")


def rho(scored: Scored) -> Correlation:
    """Spearman's at the judge's level, by the primary convention."""
    return _correlation(scored, scored.level, "spearman", PRIMARY)


def all_correlations(scored: Scored) -> list[Correlation]:
    """Every level that the labels have, the judge's first, times every coefficient.

    Pairs have the dataset level only: within a document there are few margins, and no systems.
    """
    levels: Sequence[Level] = ("dataset",) if scored.is_pairs else levels_of(scored.items)
    return [
        _correlation(scored, level, coefficient, undefined)
        for level in sorted(levels, key=lambda level: level != scored.level)
        for coefficient in COEFFICIENTS
        for undefined in _conventions(level)
    ]


def _conventions(level: Level) -> tuple[Undefined, ...]:
    """Only documents can be undefined one by one: elsewhere both are one figure."""
    return (PRIMARY, "left_out") if level == "summary" else (PRIMARY,)


def _correlation(
    scored: Scored, level: Level, coefficient: Coefficient, undefined: Undefined
) -> Correlation:
    return correlation(
        level,
        scored.scores,
        scored.human,
        scored.documents,
        scored.systems,
        coefficient=coefficient,
        undefined=undefined,
    )


def order_figures(scored: Scored) -> dict[str, Any]:
    """The share of pairs that people order which the judge orders alike, as JSON has it.

    Of rated outputs, pairs are two outputs of one document (any two at dataset level); of pairs it
    is their accuracy.
    """
    if scored.is_pairs:
        accuracy = pair_accuracy(scored.scores, scored.human, scored.documents)
        return {
            **value_cell(accuracy.value, accuracy.interval, DIGITS),
            "n_pairs": accuracy.n_decided,
            "n_ties": accuracy.n_ties,
            "n_tied_by_people": len(scored.items) - accuracy.n_failed - accuracy.n_decided,
            "n_documents": accuracy.n_documents,
        }
    alike = order_agreement(scored.scores, scored.human, scored.documents, level=scored.level)
    return {
        **value_cell(alike.value, alike.interval, DIGITS),
        "n_pairs": alike.n_pairs,
        "n_ties": alike.n_ties,
        "n_tied_by_people": alike.n_tied_by_people,
        "n_documents": alike.n_documents,
    }


def scale_figures(scored: Scored) -> dict[str, Any] | None:
    """Means and standard deviations of scores and ratings; None where they share no scale."""
    scales = compare_scales(scored.scores, scored.human, scored.documents)
    if scored.is_pairs or scales is None or not scored.within_scale:
        return None
    shift = interval_cell(scales.shift_interval, DIGITS)
    return {
        **{
            name: json_number(getattr(scales, name), DIGITS)
            for name in ("judge_mean", "human_mean", "shift", "judge_sd", "human_sd")
        },
        **{f"shift_{end}": value for end, value in shift.items()},
        "n_outputs": scales.n_outputs,
        "n_documents": scales.n_documents,
        "is_shifted": scales.is_shifted,
    }


def pair_figures(scored: Scored) -> dict[str, Any]:
    """Accuracy over the pairs on which people prefer a side; a tie is half right.

    `accuracy` is of both orders together (the side of the joint margin). The orders taken alone are
    told apart by which output came first, and their mean is what some tables call accuracy;
    `order_agreement` is the share of pairs with the same answer in both, failed pairs left out.
    """
    accuracy = pair_accuracy(scored.scores, scored.human, scored.documents)
    interval = interval_cell(accuracy.interval, DIGITS)
    judged = [
        (verdict, margin)
        for verdict, margin in zip(scored.verdicts, scored.human, strict=True)
        if not np.isnan(verdict.margin_ab + verdict.margin_ba)
    ]

    def in_order(order: str) -> list[float]:
        # Both orders were asked of every pair: where neither has a preference, it is a tie.
        sides = [(getattr(v, order), "A" if margin > 0 else "B") for v, margin in judged if margin]
        return [0.5 if choice is None else float(choice == side) for choice, side in sides]

    first, second = in_order("order_ab"), in_order("order_ba")
    return {
        "accuracy": json_number(accuracy.value, DIGITS),
        "accuracy_low": interval["low"],
        "accuracy_high": interval["high"],
        "accuracy_mean_of_orders": _mean(first + second),
        "accuracy_order_ab": _mean(first),
        "accuracy_order_ba": _mean(second),
        "order_agreement": _mean([float(v.order_ab == v.order_ba) for v, _ in judged]),
        "n_pairs": len(scored.verdicts),
        "n_decided": accuracy.n_decided,
        "n_ties": accuracy.n_ties,
        "n_documents": accuracy.n_documents,
        "n_failed": accuracy.n_failed,
    }


def _mean(values: Sequence[float]) -> float | None:
    return json_number(float(np.mean(values)), DIGITS) if values else None


def people_figures(scored: Scored) -> dict[str, Any] | None:
    """The judge among the annotators, as JSON has it; None where these are not known.

    `agreement` holds the judge beside each annotator and every two annotators; `one_annotator` is
    null where people do not tell outputs apart. Rho reaches about `bound` at most, the root of the
    `reliability` of the mean label.
    """
    if not scored.outputs or len(scored.outputs) != len(scored.items):
        return None
    labelled = LabelledSet(name="the labels", sha256="", outputs=scored.outputs)
    try:
        ratings, names = annotation_matrix(labelled, scored.dimension)
    except AnnotationsError:
        return None
    where: Any = {"level": scored.level, "system": scored.systems}
    scale = scored.scale if scored.within_scale else None
    rows = annotator_agreement(ratings, scored.documents, judge=scored.scores, scale=scale, **where)
    cells = [
        {
            name: json_number(getattr(row, name), DIGITS)
            for name in ("equal", "kappa", "rho", "n_outputs")
        }
        for row in rows
    ]
    one = one_annotator(scored.scores, ratings, scored.documents, **where)
    reliable = reliability(ratings, scored.documents, **where)
    return {
        "dimension": scored.dimension,
        "n_failed": int(np.isnan(scored.scores).sum()),
        "alpha": json_number(krippendorff_alpha(ratings), DIGITS),
        "reliability": json_number(reliable, DIGITS),
        "bound": json_number(reliable**0.5, DIGITS),
        "one_annotator": one
        and {
            "annotator": value_cell(one.annotator, one.annotator_interval, DIGITS),
            "judge": value_cell(one.judge, one.judge_interval, DIGITS),
            "gap": value_cell(one.gap, one.gap_interval, DIGITS),
            "n_outputs": one.n_outputs,
            "n_documents": one.n_documents,
        },
        "agreement": {
            "judge": [
                {"annotator": names[row.second], **cell}
                for row, cell in zip(rows, cells, strict=True)
                if row.first is None
            ],
            "annotators": [
                {"annotators": [names[row.first], names[row.second]], **cell}
                for row, cell in zip(rows, cells, strict=True)
                if row.first is not None
            ],
        },
    }
