"""How a judge that says pass or fail agrees with people who do: rates, kappa, their intervals.

TPR is the share of people's passes that the judge passes, TNR the share of their fails that it
fails; their mean is the balanced accuracy, 0.5 for a judge that always says the same.

A rate has Wilson's interval (1927), with as many outputs as independent ones would tell as much:
their number by the design effect of documents, as Korn and Graubard (1998) have it. Few documents
say little of that effect, so it is drawn towards the root of a document's outputs. The interval of
the balanced accuracy is put together from both rates' (MOVER, Zou and Donner 2008), that of kappa
stands on Fisher's z. A figure that needs passes or fails has no interval where they are too few.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.correlations import read_rows
from optimize.statistics.intervals import (
    Interval,
    Vector,
    correlation_interval,
    student_quantile,
)

Mask = NDArray[np.bool_]
Indices = NDArray[np.intp]

# So many outputs, of so many documents, let a rate have an interval.
FEW_OUTPUTS, FEW_DOCUMENTS = 10, 5
# The weight of what is expected of a design effect, in documents.
PRIOR_DOCUMENTS = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """A share or kappa, NaN where it does not exist; `n` outputs count in it."""

    value: float
    interval: Interval | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """How many outputs people passed or failed (first word), and the judge (second)."""

    pass_pass: int
    pass_fail: int
    fail_pass: int
    fail_fail: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoValues:
    """A judge's verdicts beside people's; outputs on which it failed to judge are left out.

    `n_more` says how many more passes and fails the figures take before they have intervals.
    `base_rate` is the share that people pass, `judge_rate` the share that the judge passes.
    """

    confusion: Confusion
    base_rate: Rate
    judge_rate: Rate
    tpr: Rate
    tnr: Rate
    accuracy: Rate
    balanced_accuracy: Rate
    kappa: Rate
    n_documents: int
    n_failed: int
    n_more: Mapping[str, int]

    @property
    def commoner(self) -> str:
        """What people say more often."""
        return "fail" if self.base_rate.value < 0.5 else "pass"

    @property
    def constant(self) -> "TwoValues":
        """The same figures of always saying the commoner word; only its accuracy is an estimate."""
        passes, rate = self.commoner == "pass", self.base_rate
        n_pass, n_fail, n = self.tpr.n, self.tnr.n, rate.n
        ends, share = rate.interval, rate.value
        if not passes:
            ends, share = ends and Interval(1 - ends.high, 1 - ends.low), 1 - share
        said = float(passes)
        return TwoValues(
            confusion=Confusion(
                pass_pass=n_pass * passes,
                pass_fail=n_pass * (not passes),
                fail_pass=n_fail * passes,
                fail_fail=n_fail * (not passes),
            ),
            base_rate=rate,
            judge_rate=Rate(said, None, n),
            tpr=Rate(said if n_pass else np.nan, None, n_pass),
            tnr=Rate(1 - said if n_fail else np.nan, None, n_fail),
            accuracy=Rate(share, ends, n),
            balanced_accuracy=Rate(0.5 if n_pass and n_fail else np.nan, None, n),
            kappa=Rate(0.0 if n_pass and n_fail else np.nan, None, n),
            n_documents=self.n_documents,
            n_failed=0,
            n_more=self.n_more,
        )


def two_values(
    judge: ArrayLike, human: ArrayLike, document: ArrayLike, threshold: float = 0.5
) -> TwoValues:
    """What a judge's scores (P(pass) or 1 and 0; NaN: failed) are worth against labels 1 and 0.

    A score of `threshold` or more is a pass. Raises ValueError as `read_rows`, and for labels that
    are neither.
    """
    rows = read_rows(judge, human, document)
    people, said = rows.human, (rows.judge >= threshold).astype(float)
    if not np.isin(people, (0, 1)).all():
        raise ValueError("people's labels are to be 1 (pass) or 0 (fail)")
    right = (said == people).astype(float)
    passes, fails = people == 1, people == 0
    n_pass, n_fail = int(passes.sum()), int(fails.sum())
    n_right, n_caught = int(right[passes].sum()), int(right[fails].sum())
    tpr, tnr = _rate(right, rows.document, passes), _rate(right, rows.document, fails)
    every = np.ones(people.size, bool)
    return TwoValues(
        confusion=Confusion(
            pass_pass=n_right,
            pass_fail=n_pass - n_right,
            fail_pass=n_fail - n_caught,
            fail_fail=n_caught,
        ),
        base_rate=_rate(people, rows.document, every),
        judge_rate=_rate(said, rows.document, every),
        tpr=tpr,
        tnr=tnr,
        accuracy=_rate(right, rows.document, every),
        balanced_accuracy=_balanced(tpr, tnr, right, passes, rows.document),
        kappa=_kappa(said, people, rows.document, has_interval=bool(tpr.interval and tnr.interval)),
        n_documents=rows.n_documents,
        n_failed=rows.n_failed,
        n_more={
            word: max(
                0, FEW_OUTPUTS - int(of.sum()), FEW_DOCUMENTS - np.unique(rows.document[of]).size
            )
            for word, of in (("pass", passes), ("fail", fails))
        },
    )


def _rate(values: Vector, document: Indices, of: Mask) -> Rate:
    """The share of ones among the outputs `of` which it is a rate."""
    n, codes = int(of.sum()), np.unique(document[of], return_inverse=True)[1]
    if not n:
        return Rate(np.nan, None, 0)
    share, sizes = float(values[of].mean()), np.bincount(codes)
    if n < FEW_OUTPUTS or sizes.size < FEW_DOCUMENTS:
        return Rate(share, None, n)
    effective = n / _design_effect(values[of], codes, sizes)
    return Rate(share, wilson(share, effective), n)


def _design_effect(values: Vector, codes: Indices, sizes: Indices) -> float:
    """By how much the variance of a share is that of as many independent outputs."""
    n, documents, share = values.size, sizes.size, values.mean()
    expected = np.sqrt(float(sizes @ sizes) / n)
    if not 0 < share < 1:
        return float(expected)
    errors = np.bincount(codes, values) - share * sizes
    effect = documents / (documents - 1) * float(errors @ errors) / (n * share * (1 - share))
    prior = PRIOR_DOCUMENTS
    return float((documents * effect + prior * expected) / (documents + prior))


def wilson(share: float, n: float) -> Interval:
    """Wilson's interval of a share of `n` independent outputs."""
    square = student_quantile(np.inf) ** 2
    middle = (share + square / (2 * n)) / (1 + square / n)
    variance = share * (1 - share) / n + square / (4 * n**2)
    reach = float(np.sqrt(square * variance)) / (1 + square / n)
    return Interval(max(0.0, middle - reach), min(1.0, middle + reach))


def _balanced(tpr: Rate, tnr: Rate, right: Vector, passes: Mask, document: Indices) -> Rate:
    """The mean of both rates; one document's outputs err together, which its interval heeds."""
    value = (tpr.value + tnr.value) / 2
    if tpr.interval is None or tnr.interval is None:
        return Rate(value, None, right.size)
    errors = np.stack(
        [
            np.bincount(document, (right - rate.value) * of)
            for rate, of in ((tpr, passes), (tnr, ~passes))
        ]
    )
    size = np.sqrt(np.prod((errors**2).sum(axis=1)))
    alike = float(errors[0] @ errors[1] / size) if size > 0 else 0.0

    def reach(a: float, b: float) -> float:
        return float(np.sqrt(max(0.0, a**2 + b**2 + 2 * alike * a * b))) / 2

    low = value - reach(tpr.value - tpr.interval.low, tnr.value - tnr.interval.low)
    high = value + reach(tpr.interval.high - tpr.value, tnr.interval.high - tnr.value)
    return Rate(value, Interval(low, high), right.size)


def _kappa(said: Vector, people: Vector, document: Indices, *, has_interval: bool) -> Rate:
    """Cohen's kappa, (agreement - chance) / (1 - chance), chance by how often each says pass."""
    n = said.size
    if not n:
        return Rate(np.nan, None, 0)
    a, b = people.mean(), said.mean()
    chance, alike = a * b + (1 - a) * (1 - b), said == people
    if chance == 1:
        return Rate(np.nan, None, n)
    value = float((alike.mean() - chance) / (1 - chance))
    if not has_interval:
        return Rate(value, None, n)
    # What an output adds: the derivative of kappa by the agreement and by both shares of passes.
    of_chance = (people - a) * (2 * b - 1) + (said - b) * (2 * a - 1)
    added = (alike - alike.mean() - (1 - value) * of_chance) / (1 - chance)
    sums = np.bincount(document, added)
    return Rate(value, correlation_interval(value, sums * sums.size / n), n)
