"""What one judge's judgements are worth against people's labels: every figure of a `Scored`."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from judges.judgement import Preference
from judges.labels.types import LabelError, LabelledOutput, LabelledSet
from optimize.figures.as_json import DIGITS, cell, interval_cell, json_number, value_cell
from optimize.items import Vector, annotation_matrix, levels_of
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
    annotator_agreement,
    krippendorff_alpha,
    one_annotator,
    reliability,
)
from optimize.statistics.plain import compare_scales, order_agreement, pair_accuracy
from optimize.statistics.two_values import Rate, TwoValues, two_values

RATES = ["base_rate", "judge_rate", "tpr", "tnr", "accuracy", "balanced_accuracy", "kappa"]
Cell = dict[str, Any]


def figures(scored: Scored, *, binary: bool | None = None) -> Cell:
    """Every figure of the rows, as JSON has them: of `verify`, and of each judge of `compare`.

    `binary`: whether those of pass and fail are among them (where they are known).
    """
    binary = scored.is_binary if binary is None else binary
    order, people = order_figures(scored), people_figures(scored)
    return {
        "correlations": [cell(result) for result in all_correlations(scored)],
        "order": order,
        "scales": scale_figures(scored),
        "ties": order["n_ties"] / order["n_pairs"] if order["n_pairs"] else None,
        **(pair_figures(scored, order) if scored.is_pairs else {}),
        **(two_value_figures(scored) if binary else {}),
        **({"people": people} if people else {}),
    }


def correlation_of(
    scored: Scored,
    level: Level,
    coefficient: str = "spearman",
    undefined: Undefined = PRIMARY,
) -> Correlation:
    """One correlation of the rows."""
    sides = scored.scores, scored.human, scored.documents, scored.systems
    how: Any = {"coefficient": coefficient, "undefined": undefined}
    return correlation(level, *sides, **how, weight=scored.items.weights)


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


def order_figures(scored: Scored) -> Cell:
    """The share of pairs that people order which the judge orders alike, as JSON has it.

    Of rated outputs, pairs are two outputs of one document (any two at dataset level); of pairs it
    is their accuracy.
    """
    sides = scored.scores, scored.human, scored.documents
    if scored.is_pairs:
        alike = pair_accuracy(*sides)
    else:
        alike = order_agreement(*sides, level=scored.level, weight=scored.items.weights)
    counts = _cell(alike, "n_ties", "n_documents", "n_pairs")
    return {**value_cell(alike.value, alike.interval, DIGITS), **counts}


def scale_figures(scored: Scored) -> Cell | None:
    """Means and SDs of scores and ratings; None where they share no scale, or labels weigh."""
    scales = compare_scales(scored.scores, scored.human, scored.documents)
    if scored.is_pairs or scales is None or not scored.within_scale or scored.items.is_weighted:
        return None
    ends = interval_cell(scales.shift_interval, DIGITS)
    names = ("judge_mean", "human_mean", "shift", "judge_sd", "human_sd", "is_shifted")
    counts = ("n_outputs", "n_documents")
    return {**_cell(scales, *names, *counts), **{f"shift_{end}": ends[end] for end in ends}}


def pair_figures(scored: Scored, order: Cell) -> Cell:
    """Accuracy over the pairs on which people prefer a side (`order_figures`); a tie is half right.

    `accuracy` is of both orders together (the side of the joint margin). The orders taken alone are
    told apart by which output came first, and their mean is what some tables call accuracy;
    `order_agreement` is the share of pairs with the same answer in both, failed pairs left out.
    """
    verdicts = [each for each in scored.judgements if isinstance(each, Preference)]
    choices = np.sign(np.array([(each.margin_ab, each.margin_ba) for each in verdicts]))
    asked = ~np.isnan(choices).any(axis=1)
    decided = asked & (scored.human != 0)
    right = (1 + choices[decided] * np.sign(scored.human[decided, None])) / 2
    return {
        "accuracy": order["value"],
        "accuracy_low": order["low"],
        "accuracy_high": order["high"],
        "accuracy_mean_of_orders": _mean(right),
        "accuracy_order_ab": _mean(right[:, 0]),
        "accuracy_order_ba": _mean(right[:, 1]),
        "order_agreement": _mean((choices[:, 0] == choices[:, 1])[asked]),
        "n_pairs": len(verdicts),
        "n_decided": order["n_pairs"],
        "n_ties": order["n_ties"],
        "n_documents": order["n_documents"],
        "n_failed": len(scored.failures),
    }


def two_value_figures(scored: Scored) -> Cell:
    """Pass and fail as JSON has them, people's word first; beside it the constant judge's rates."""
    where = scored.human, scored.documents
    card = two_values(scored.scores, *where, weight=scored.items.weights)
    passes = card.base_rate.value >= 0.5
    said = np.where(np.isnan(scored.scores), np.nan, passes)
    always = two_values(said, *where, weight=scored.items.weights)
    return {
        "confusion": dict(card.confusion),
        **_rates(card),
        "constant": {"word": "pass" if passes else "fail", **_rates(always)},
        "n_more": dict(card.n_more),
        "n_documents": card.n_documents,
    }


def _rates(card: TwoValues) -> Cell:
    rates: dict[str, Rate] = {name: getattr(card, name) for name in RATES}
    return {
        name: {**value_cell(rate.value, rate.interval, DIGITS), "n": rate.n}
        for name, rate in rates.items()
    }


def people_figures(scored: Scored) -> Cell | None:
    """The judge among the annotators, as JSON has it; None where these are not known.

    Nor are there any where ties were left out: on what is left annotators agree too well. Of
    weighted labels there are none either, as these figures have no weights.

    `agreement` holds the judge beside each annotator and every two annotators; `one_annotator` is
    null where people do not tell outputs apart. Rho reaches about `bound` at most, the root of the
    `reliability` of the mean label.
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
    where: Any = {"level": scored.level, "system": scored.systems}
    scale = scored.scale if scored.within_scale else None
    agreement: dict[str, list[Cell]] = {"judge": [], "annotators": []}
    judge = scored.passes if scored.is_binary else scored.scores
    for row in annotator_agreement(ratings, scored.documents, judge=judge, scale=scale, **where):
        cell = _cell(row, "equal", "kappa", "rho", "n_outputs")
        if row.first is None:
            agreement["judge"].append({"annotator": names[row.second], **cell})
        else:
            two = [names[row.first], names[row.second]]
            agreement["annotators"].append({"annotators": two, **cell})
    one = one_annotator(scored.scores, ratings, scored.documents, **where)
    reliable = reliability(ratings, scored.documents, **where)
    return {
        "alpha": json_number(krippendorff_alpha(ratings), DIGITS),
        "reliability": json_number(reliable, DIGITS),
        "bound": json_number(reliable**0.5, DIGITS),
        "one_annotator": one
        and {
            "annotator": value_cell(one.annotator, one.annotator_interval, DIGITS),
            "judge": value_cell(one.judge, one.judge_interval, DIGITS),
            "gap": value_cell(one.gap, one.gap_interval, DIGITS),
            **_cell(one, "n_outputs", "n_documents"),
        },
        "agreement": agreement,
    }


def _cell(result: object, *names: str) -> Cell:
    """Figures and counts by their names; what does not exist is null."""
    values = {name: getattr(result, name) for name in names}
    return {
        name: value if isinstance(value, int) else json_number(value, DIGITS)
        for name, value in values.items()
    }


def _mean(values: Vector) -> float | None:
    return json_number(float(np.mean(values)), DIGITS) if values.size else None
