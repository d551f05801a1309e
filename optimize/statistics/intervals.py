"""Intervals in closed form, and the contrast of two judges.

Each document adds one term to a statistic, and the mean of the terms is the value. For a mean over
documents the terms are the documents' own values; for other statistics they are linearised (the
infinitesimal jackknife). An interval is the value ± Student's t times the standard error of the
mean, for a correlation on Fisher's z. An interval is withheld (None) in cases in which it would
cover the true value in fewer than 93 or more than 97 of 100 samples (benchmarks/coverage.py prints
the coverage of each kind).

With `looks`, intervals hold in all of several looks at labels that grow. As in Pocock (1977), each
look has the same critical value, here one that is valid however much the labels grow between looks:
the error of a tail is 1 - (1 - e)^(1 / looks) (Sidak 1967), since figures on growing labels are
positively correlated. Pocock's own constants are for labels that grow in equal steps. If labels
double each time, they would turn an error of .025 into .028 with four looks, and .036 with eight.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# The fewest documents for an interval, and the fewest systems for one at system level.
FEW_DOCUMENTS = FEW_SYSTEMS = 15
# Above this correlation, Fisher's z depends more on rounding than on agreement.
PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval from `low` to `high`, both included; at 95 % confidence unless said otherwise."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def reach(self) -> float:
        """Half of the interval's width."""
        return (self.high - self.low) / 2


class Figure(Protocol):
    """Anything with a value (NaN if undefined) and an interval (None if it is withheld)."""

    @property
    def value(self) -> float: ...

    @property
    def interval(self) -> Interval | None: ...


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A value and its interval."""

    value: float
    interval: Interval | None


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator that is the same for the same seed and purpose, in any process."""
    key = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def student_quantile(freedom: float, n_intervals: int = 1, confidence: float = 0.975) -> float:
    """The quantile of Student's t for intervals that all hold at this one-sided confidence.

    By Sidak (1967), the level of one interval is the `n_intervals`-th root of the confidence.
    `freedom` is the degrees of freedom.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, confidence ** (1 / n_intervals)))


def effective_number(weight: Vector) -> float:
    """Kish's effective sample size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight @ weight))


def interval_of_mean(terms: Vector, *, bound: float = np.inf) -> Interval | None:
    """Student's interval for the mean of the documents' terms, clipped to [-bound, bound].

    NaN terms are left out. None for fewer than 15 documents, and if all terms are equal.
    """
    terms = terms[~np.isnan(terms)]
    if terms.size < FEW_DOCUMENTS or np.ptp(terms) == 0:
        return None
    half_width = student_quantile(terms.size - 1) * float(terms.std(ddof=1)) / np.sqrt(terms.size)
    mean = float(terms.mean())
    low, high = np.clip([mean - half_width, mean + half_width], -bound, bound)
    return Interval(float(low), float(high))


def cautious_interval(terms: Vector, least_size: float, looks: int = 1) -> Interval | None:
    """The 90 % interval for the mean of the terms, with an error of at most 5 % in each tail.

    If few documents have a difference, the sample may lack differences that occur elsewhere. So two
    terms are added, one on each side, of the size of the largest difference in the sample, but at
    least `least_size` (2, the range of rho, if both are 0). The degrees of freedom depend on the
    kurtosis (O'Neill 2014), the centre on the skewness (Johnson 1978). None for fewer than 15
    documents.
    """
    if terms.size < FEW_DOCUMENTS:
        return None
    largest = max(float(np.abs(terms).max()), least_size) or 2.0
    terms = np.concatenate([terms, [largest, -largest]])
    n, mean = terms.size, float(terms.mean())
    deviations = terms - mean
    variance = float(deviations @ deviations) / (n - 1)
    kurtosis = n * float((deviations**4).sum()) / float(deviations @ deviations) ** 2
    freedom = min(n - 1.0, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    t = student_quantile(freedom, looks, 0.95)
    centre = mean + (1 + 2 * t**2) / 6 * float((deviations**3).mean()) / (variance * n)
    half_width = t * float(np.sqrt(variance / n))
    return Interval(centre - half_width, centre + half_width)


def correlation_interval(value: float, terms: Vector) -> Interval | None:
    """The interval for a correlation, on Fisher's z, where its error is divided by 1 - value^2.

    None for fewer than 15 documents, if all terms are equal, and for a perfect correlation.
    """
    n = terms.size
    if n < FEW_DOCUMENTS or np.ptp(terms) == 0 or abs(value) >= PERFECT:
        return None
    error = float(terms.std(ddof=1)) / np.sqrt(n) / (1 - value**2)
    return _fisher_interval(value, student_quantile(n - 1) * error)


def system_interval(value: float, n_systems: int) -> Interval | None:
    """Bonett and Wright's (2000) interval for rho over system means; None below 15 systems."""
    if n_systems < FEW_SYSTEMS or np.isnan(value) or abs(value) >= PERFECT:
        return None
    error = np.sqrt((1 + value**2 / 2) / (n_systems - 3))
    return _fisher_interval(value, student_quantile(np.inf) * error)


def _fisher_interval(value: float, half_width: float) -> Interval:
    z = np.arctanh(value)
    return Interval(float(np.tanh(z - half_width)), float(np.tanh(z + half_width)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Judge A's figure less judge B's, with the data for a test and an interval of the difference.

    The test is the paired permutation test of Deutsch et al. (2021, arXiv:2104.00054): if both
    judges are equally good, swapping them on a document is as likely to raise the difference as to
    lower it. The test is valid also if the judges differ on few documents.

    Attributes:
        value: The difference, in [-2, 2] for correlations and [-1, 1] for shares.
        error: Its standard error over documents; infinite for fewer than two documents.
        documents: The documents that enter the difference.
        terms: A term for each document, at system level for each system. Their mean is the value.
        interval: For documents like these, at system level for systems like these. None for fewer
            than 15.
        swapped: Takes signs of shape (draws, documents), -1 where the judges are swapped, and
            returns the difference for each draw.
        n_untied: At dataset level, how many documents have a value other than the commonest one, in
            the labels and in each judge's scores (see `Rows.n_untied`).
    """

    value: float
    error: float
    documents: tuple[str, ...]
    terms: Vector
    interval: Interval | None
    swapped: Callable[[Matrix], Vector]
    n_untied: float = np.inf


def mean_of_differences(differences: Vector, documents: Sequence[str]) -> Contrast:
    """The contrast whose value is the mean of the documents' differences; NaN ones are left out."""
    defined = ~np.isnan(differences)
    terms = differences[defined]
    n = terms.size
    return Contrast(
        value=float(terms.mean()) if n else np.nan,
        error=float(terms.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf,
        documents=tuple(np.asarray(documents, dtype=object)[defined]),
        terms=terms,
        interval=interval_of_mean(terms, bound=2),
        swapped=lambda signs: signs @ terms / max(n, 1),
    )
