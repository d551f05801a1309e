"""Agreement of a judge that says pass or fail with people who do: rates, kappa, and intervals.

TPR is the share of people's passes that the judge passes, TNR the share of their fails that it
fails. Their mean is the balanced accuracy, 0.5 for a judge that always says the same.

A rate has Wilson's interval (1927) for the number of independent outputs that say as much: the
number of outputs over the design effect of documents (Korn and Graubard 1998). Few documents say
little about that effect, so it is shrunk towards the root of a document's outputs, times the cost
of unequal weights (Kish). The interval of the balanced accuracy combines those of both rates
(MOVER, Zou and Donner 2008). The interval of kappa is on Fisher's z, and withheld with unequal
weights. A figure of passes or fails has no interval if there are too few of them.
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
# Shrinkage prior of a design effect, in documents.
PRIOR_DOCUMENTS = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """A share or kappa of `n` outputs, a share also of so many documents; NaN if undefined."""

    value: float
    interval: Interval | None
    n: int
    n_documents: int | None = None

    @property
    def complement(self) -> "Rate":
        """The share of the other outputs."""
        ends = self.interval
        interval = Interval(1 - ends.high, 1 - ends.low) if ends else None
        return replace(self, value=1 - self.value, interval=interval)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoValues:
    """A judge's verdicts compared with people's; outputs on which the judge failed are left out.

    `confusion` counts outputs by people's verdict and then the judge's, as in "pass_fail". `n_more`
    says how many more passes and fails are needed for intervals. Both ignore weights, unlike rates
    and kappa. `base_rate` is the share that people pass, `judge_rate` the share that the judge
    passes.
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

    A score of .5 or more is a pass, NaN where the judge failed. `weight` is the weight of each
    output's document.

    Raises:
        ValueError: As `read_rows`, or a label is neither 1 nor 0.
    """
    rows = read_rows(judge, human, document, weight=weight)
    people, passes = rows.human, (rows.judge >= THRESHOLD).astype(float)
    if not np.isin(people, (0, 1)).all():
        raise ValueError("people's labels must be 1 (pass) or 0 (fail)")
    right = (passes == people).astype(float)
    of = {"pass": people == 1, "fail": people == 0}
    every = np.ones(people.size, bool)
    tpr, tnr = (_rate(right, rows, outputs) for outputs in of.values())
    # With unequal weights the interval of kappa would be too narrow.
    has_interval = bool(tpr.interval and tnr.interval) and np.ptp(rows.weight) == 0
    return TwoValues(
        confusion={
            f"{word}_{other}": int((passes[outputs] == (other == "pass")).sum())
            for word, outputs in of.items()
            for other in of
        },
        base_rate=_rate(people, rows, every),
        judge_rate=_rate(passes, rows, every),
        tpr=tpr,
        tnr=tnr,
        accuracy=_rate(right, rows, every),
        balanced_accuracy=_balanced(tpr, tnr, right, of["pass"], rows),
        kappa=_kappa(passes, people, rows, has_interval=has_interval),
        n_documents=rows.n_documents,
        n_more={
            word: max(
                0,
                FEW_OUTPUTS - int(outputs.sum()),
                FEW_DOCUMENTS_FOR_RATES - np.unique(rows.document[outputs]).size,
            )
            for word, outputs in of.items()
        },
    )


def _rate(values: Vector, rows: Rows, of: Mask) -> Rate:
    """The share of ones among the outputs of the mask `of`."""
    n, codes = int(of.sum()), np.unique(rows.document[of], return_inverse=True)[1]
    if not n:
        return Rate(np.nan, None, 0)
    values, weight = values[of], rows.weight[of] / rows.weight[of].mean()
    share, n_documents = float(np.average(values, weights=weight)), np.unique(codes).size
    if n < FEW_OUTPUTS or n_documents < FEW_DOCUMENTS_FOR_RATES:
        return Rate(share, None, n, n_documents)
    # Many outputs with small weights say little about the documents that are seldom drawn.
    telling = rows.weight[of].sum() * effective_number(rows.weight) / rows.weight.size
    effective = n / _design_effect(values, share, weight, codes, telling)
    return Rate(share, wilson(share, effective), n, n_documents)


def _design_effect(
    values: Vector, share: float, weight: Vector, codes: Codes, telling: float
) -> float:
    """The variance of a share relative to that of as many independent outputs."""
    sizes, sums = np.bincount(codes), np.bincount(codes, weight)
    n, documents = values.size, sizes.size
    expected = np.sqrt(float(sizes @ sizes) / n) * (n / min(telling, effective_number(weight)))
    if not 0 < share < 1:
        return float(expected)
    errors = np.bincount(codes, values * weight) - share * sums
    effect = documents / (documents - 1) * float(errors @ errors) / (n * share * (1 - share))
    prior = PRIOR_DOCUMENTS
    return float((documents * effect + prior * expected) / (documents + prior))


def wilson(share: float, n: float, looks: int = 1) -> Interval:
    """Wilson's interval for a share of `n` independent outputs."""
    square = student_quantile(np.inf, looks) ** 2
    middle = (share + square / (2 * n)) / (1 + square / n)
    variance = share * (1 - share) / n + square / (4 * n**2)
    reach = float(np.sqrt(square * variance)) / (1 + square / n)
    # Rounding must not leave the share outside.
    return Interval(max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach)))


def _balanced(tpr: Rate, tnr: Rate, right: Vector, passes: Mask, rows: Rows) -> Rate:
    """The mean of both rates, with an interval for errors that are correlated within documents."""
    value = (tpr.value + tnr.value) / 2
    if tpr.interval is None or tnr.interval is None:
        return Rate(value, None, right.size)
    of_tpr = np.bincount(rows.document, (right - tpr.value) * passes * rows.weight)
    of_tnr = np.bincount(rows.document, (right - tnr.value) * ~passes * rows.weight)
    size = np.sqrt((of_tpr @ of_tpr) * (of_tnr @ of_tnr))
    alike = float(of_tpr @ of_tnr / size) if size > 0 else 0.0

    def reach(a: float, b: float) -> float:
        return float(np.sqrt(max(0.0, a**2 + b**2 + 2 * alike * a * b))) / 2

    low = value - reach(tpr.value - tpr.interval.low, tnr.value - tnr.interval.low)
    high = value + reach(tpr.interval.high - tpr.value, tnr.interval.high - tnr.value)
    return Rate(value, Interval(low, high), right.size)


def _kappa(passes: Vector, people: Vector, rows: Rows, *, has_interval: bool) -> Rate:
    """Cohen's kappa, (agreement - chance) / (1 - chance), with chance from both rates of passes."""
    n, alike = passes.size, passes == people
    if not n:
        return Rate(np.nan, None, n)
    a, b, agreed = (float(np.average(s, weights=rows.weight)) for s in (people, passes, alike))
    chance = a * b + (1 - a) * (1 - b)
    if chance == 1:
        return Rate(np.nan, None, n)
    value = (agreed - chance) / (1 - chance)
    if not has_interval or b in (0, 1):
        return Rate(value, None, n)
    # An output's influence: the derivatives of kappa by the agreement and by both shares of passes.
    of_chance = (people - a) * (2 * b - 1) + (passes - b) * (2 * a - 1)
    added = (alike - agreed - (1 - value) * of_chance) / (1 - chance)
    sums = np.bincount(rows.document, added * rows.weight)
    return Rate(value, correlation_interval(value, sums * sums.size / n), n)
