"""Agreement of a judge's verdicts, pass or fail, with people's: rates, kappa, and intervals.

TPR is the share of people's passes that the judge passes, TNR the share of people's fails that the
judge fails. The mean of the two is the balanced accuracy, 0.5 for a judge that always gives the
same answer.

A rate has Wilson's interval (1927) for the effective number of outputs: their number divided by the
design effect of documents (Korn and Graubard 1998). Few documents say little about that effect. So
it is shrunk towards a prior: the square root of the number of outputs per document, times the cost
of unequal weights (Kish). The interval for the balanced accuracy combines those of both rates
(MOVER, Zou and Donner 2008). The interval for kappa is on Fisher's z, and withheld with unequal
weights. A figure on passes or on fails has no interval if there are too few of these.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.balanced import THRESHOLD
from optimize.statistics.correlations import Codes, Mask, Rows, read_rows
from optimize.statistics.intervals import (
    Interval,
    Vector,
    correlation_interval,
    effective_number,
    student_quantile,
)

# The fewest outputs, and the fewest documents, for the interval of a rate.
FEW_OUTPUTS, FEW_DOCUMENTS_FOR_RATES = 10, 5
# As how many documents the prior of a design effect counts.
PRIOR_DOCUMENTS = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """A share or a kappa on `n` outputs; a share also counts documents. NaN if undefined."""

    value: float
    interval: Interval | None
    n: int
    n_documents: int | None = None

    @property
    def complement(self) -> "Rate":
        """One minus the share, with its interval: the share of all other outputs."""
        interval = self.interval
        if interval:
            interval = Interval(1 - interval.high, 1 - interval.low)
        return replace(self, value=1 - self.value, interval=interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoValues:
    """A judge's verdicts compared with people's; outputs with a failed judgement are left out.

    `confusion` counts outputs by people's verdict and then the judge's: "pass_fail" counts those
    that people pass and the judge fails. `n_more` says how many more passes and fails are needed
    for intervals. These two ignore weights, unlike rates and kappa. `base_rate` is the share that
    people pass, `judge_rate` the share that the judge passes.
    """

    confusion: Mapping[str, int]
    base_rate: Rate
    judge_rate: Rate
    tpr: Rate
    tnr: Rate
    accuracy: Rate
    balanced_accuracy: Rate
    kappa: Rate
    n_more: Mapping[str, int]
    n_documents: int


def two_values(
    judge: ArrayLike, human: ArrayLike, document: ArrayLike, *, weight: ArrayLike | None = None
) -> TwoValues:
    """Compare a judge's verdicts with people's labels, 1 (pass) and 0 (fail).

    A score of .5 or more is a pass, NaN a failed judgement. `weight` is the weight of each output's
    document.

    Raises:
        ValueError: The vectors do not fit (see `read_rows`), or a label is neither 1 nor 0.
    """
    rows = read_rows(judge, human, document, weight=weight)
    human_labels, passes = rows.human, (rows.judge >= THRESHOLD).astype(float)
    if not np.isin(human_labels, (0, 1)).all():
        raise ValueError("people's labels must be 1 (pass) or 0 (fail)")
    is_right = (passes == human_labels).astype(float)
    outputs_by_label = {"pass": human_labels == 1, "fail": human_labels == 0}
    all_outputs = np.ones(human_labels.size, bool)
    tpr, tnr = (_rate(is_right, rows, outputs) for outputs in outputs_by_label.values())
    # With unequal weights the interval of kappa would be too narrow.
    has_interval = bool(tpr.interval and tnr.interval) and np.ptp(rows.weight) == 0
    return TwoValues(
        confusion={
            f"{label}_{verdict}": int((passes[outputs] == (verdict == "pass")).sum())
            for label, outputs in outputs_by_label.items()
            for verdict in outputs_by_label
        },
        base_rate=_rate(human_labels, rows, all_outputs),
        judge_rate=_rate(passes, rows, all_outputs),
        tpr=tpr,
        tnr=tnr,
        accuracy=_rate(is_right, rows, all_outputs),
        balanced_accuracy=_balanced(tpr, tnr, is_right, outputs_by_label["pass"], rows),
        kappa=_kappa(passes, human_labels, rows, has_interval=has_interval),
        n_documents=rows.n_documents,
        n_more={
            label: max(
                0,
                FEW_OUTPUTS - int(outputs.sum()),
                FEW_DOCUMENTS_FOR_RATES - np.unique(rows.document[outputs]).size,
            )
            for label, outputs in outputs_by_label.items()
        },
    )


def _rate(values: Vector, rows: Rows, mask: Mask) -> Rate:
    """The share of ones among the outputs of the mask."""
    n, codes = int(mask.sum()), np.unique(rows.document[mask], return_inverse=True)[1]
    if not n:
        return Rate(np.nan, None, 0)
    values, weight = values[mask], rows.weight[mask] / rows.weight[mask].mean()
    share, n_documents = float(np.average(values, weights=weight)), np.unique(codes).size
    if n < FEW_OUTPUTS or n_documents < FEW_DOCUMENTS_FOR_RATES:
        return Rate(share, None, n, n_documents)
    # Many outputs with small weights carry little information, since they stand for few documents.
    effective_weight = rows.weight[mask].sum() * effective_number(rows.weight) / rows.weight.size
    effective = n / _design_effect(values, share, weight, codes, effective_weight)
    return Rate(share, wilson(share, effective), n, n_documents)


def _design_effect(
    values: Vector, share: float, weight: Vector, codes: Codes, effective_weight: float
) -> float:
    """The variance of a share relative to that of as many independent outputs."""
    sizes, sums = np.bincount(codes), np.bincount(codes, weight)
    n, n_documents = values.size, sizes.size
    prior_effect = np.sqrt(float(sizes @ sizes) / n) * (
        n / min(effective_weight, effective_number(weight))
    )
    if not 0 < share < 1:
        return float(prior_effect)
    errors = np.bincount(codes, values * weight) - share * sums
    effect = n_documents / (n_documents - 1) * float(errors @ errors) / (n * share * (1 - share))
    n_with_prior = n_documents + PRIOR_DOCUMENTS
    return float((n_documents * effect + PRIOR_DOCUMENTS * prior_effect) / n_with_prior)


def wilson(share: float, n: float, looks: int = 1) -> Interval:
    """Wilson's interval for a share of `n` independent outputs."""
    square = student_quantile(np.inf, looks) ** 2
    middle = (share + square / (2 * n)) / (1 + square / n)
    variance = share * (1 - share) / n + square / (4 * n**2)
    half_width = float(np.sqrt(square * variance)) / (1 + square / n)
    # Rounding must not put the share outside its interval.
    return Interval(
        max(0.0, min(share, middle - half_width)), min(1.0, max(share, middle + half_width))
    )


def _balanced(tpr: Rate, tnr: Rate, is_right: Vector, passes: Mask, rows: Rows) -> Rate:
    """The mean of both rates, with an interval for errors that are correlated within documents."""
    value = (tpr.value + tnr.value) / 2
    if tpr.interval is None or tnr.interval is None:
        return Rate(value, None, is_right.size)
    tpr_errors = np.bincount(rows.document, (is_right - tpr.value) * passes * rows.weight)
    tnr_errors = np.bincount(rows.document, (is_right - tnr.value) * ~passes * rows.weight)
    norm = np.sqrt((tpr_errors @ tpr_errors) * (tnr_errors @ tnr_errors))
    correlation = float(tpr_errors @ tnr_errors / norm) if norm > 0 else 0.0

    def half_width(a: float, b: float) -> float:
        return float(np.sqrt(max(0.0, a**2 + b**2 + 2 * correlation * a * b))) / 2

    low = value - half_width(tpr.value - tpr.interval.low, tnr.value - tnr.interval.low)
    high = value + half_width(tpr.interval.high - tpr.value, tnr.interval.high - tnr.value)
    return Rate(value, Interval(low, high), is_right.size)


def _kappa(passes: Vector, human_labels: Vector, rows: Rows, *, has_interval: bool) -> Rate:
    """Cohen's kappa, (agreement - chance) / (1 - chance), with chance from both rates of passes."""
    n, is_equal = passes.size, passes == human_labels
    if not n:
        return Rate(np.nan, None, n)
    a, b, agreed = (
        float(np.average(values, weights=rows.weight))
        for values in (human_labels, passes, is_equal)
    )
    chance = a * b + (1 - a) * (1 - b)
    if chance == 1:
        return Rate(np.nan, None, n)
    value = (agreed - chance) / (1 - chance)
    if not has_interval or b in (0, 1):
        return Rate(value, None, n)
    # Each output's influence, from the derivatives of kappa by the agreement and by both shares of
    # passes.
    chance_part = (human_labels - a) * (2 * b - 1) + (passes - b) * (2 * a - 1)
    influence = (is_equal - agreed - (1 - value) * chance_part) / (1 - chance)
    sums = np.bincount(rows.document, influence * rows.weight)
    return Rate(value, correlation_interval(value, sums * sums.size / n), n)
