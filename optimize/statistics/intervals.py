"""Intervals in closed form, and the contrast of two judges.

Each document adds one term to a statistic, and the mean of the terms is the value. For a mean over
documents the terms are the documents' own values; for other statistics they are linearised (the
infinitesimal jackknife). An interval is value ± Student's t x the standard error of that mean, for
a correlation on Fisher's z. An interval that would cover the truth in fewer than 93 or more than 97
of 100 cases is withheld: it is None (benchmarks/coverage.py prints the coverage of each kind).

Intervals of several `looks` at labels that grow hold in all of these looks together. They have the
constant boundary of Pocock (1977), at a level that is valid however much the labels grow between
looks: the error of a tail is 1 - (1 - e)^(1 / looks) (Sidak 1967), since figures of growing labels
are positively correlated. Pocock's own constants are for equal steps: with four looks at labels
that double each time, an error of .025 would be .028, and with eight looks .036.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# The fewest documents of an interval, and the fewest systems at system level.
FEW_DOCUMENTS = FEW_SYSTEMS = 15
# Above this correlation Fisher's z depends on rounding more than on agreement.
PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval from `low` to `high`, both included, at 95 % confidence."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def reach(self) -> float:
        """Half of its width."""
        return (self.high - self.low) / 2


class Figure(Protocol):
    """What every figure has: a value (NaN: none) and an interval (None where it is withheld)."""

    @property
    def value(self) -> float: ...

    @property
    def interval(self) -> Interval | None: ...


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """A value and its interval, and nothing else."""

    value: float
    interval: Interval | None


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """A generator that is the same for the same seed and purpose, in any process."""
    key = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def student_quantile(freedom: float, n_intervals: int = 1, confidence: float = 0.975) -> float:
    """The quantile of Student's t at this one-sided confidence in several intervals together.

    Each has the level of Sidak (1967), whose product is the confidence.
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, confidence ** (1 / n_intervals)))


def effective_number(weight: Vector) -> float:
    """Kish's effective sample size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight @ weight))


def interval_of_mean(terms: Vector, *, bound: float = np.inf) -> Interval | None:
    """Student's interval for the mean of the documents' terms, clipped to [-bound, bound].

    NaN terms are left out. None below 15 documents, and if all terms are equal.
    """
    terms = terms[~np.isnan(terms)]
    if terms.size < FEW_DOCUMENTS or np.ptp(terms) == 0:
        return None
    reach = student_quantile(terms.size - 1) * float(terms.std(ddof=1)) / np.sqrt(terms.size)
    mean = float(terms.mean())
    low, high = np.clip([mean - reach, mean + reach], -bound, bound)
    return Interval(float(low), float(high))


def cautious_interval(terms: Vector, least: float, looks: int = 1) -> Interval | None:
    """The 90 % interval for the mean of the terms, with an error of at most 5 % in each tail.

    If few documents differ, they say little about differences that happen to be missing. So one
    document is added on each side, with the largest difference observed, and at least `least` (or
    2, the range of rho, if none differs). The degrees of freedom depend on the kurtosis (O'Neill
    2014), the centre on the skewness (Johnson 1978). None below 15 documents.
    """
    if terms.size < FEW_DOCUMENTS:
        return None
    largest = max(float(np.abs(terms).max()), least) or 2.0
    terms = np.concatenate([terms, [largest, -largest]])
    n, mean = terms.size, float(terms.mean())
    gaps = terms - mean
    variance = float(gaps @ gaps) / (n - 1)
    kurtosis = n * float((gaps**4).sum()) / float(gaps @ gaps) ** 2
    freedom = min(n - 1.0, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    t = student_quantile(freedom, looks, 0.95)
    middle = mean + (1 + 2 * t**2) / 6 * float((gaps**3).mean()) / (variance * n)
    reach = t * float(np.sqrt(variance / n))
    return Interval(middle - reach, middle + reach)


def correlation_interval(value: float, terms: Vector) -> Interval | None:
    """The interval of a correlation, on Fisher's z, where its error is error / (1 - value^2).

    None below 15 documents, if all terms are equal, and for a perfect correlation.
    """
    n = terms.size
    if n < FEW_DOCUMENTS or np.ptp(terms) == 0 or abs(value) >= PERFECT:
        return None
    error = float(terms.std(ddof=1)) / np.sqrt(n) / (1 - value**2)
    return _fisher_interval(value, student_quantile(n - 1) * error)


def system_interval(value: float, n_systems: int) -> Interval | None:
    """Bonett and Wright's (2000) interval of Spearman's rho over system means; None below 15."""
    if n_systems < FEW_SYSTEMS or np.isnan(value) or abs(value) >= PERFECT:
        return None
    error = np.sqrt((1 + value**2 / 2) / (n_systems - 3))
    return _fisher_interval(value, student_quantile(np.inf) * error)


def _fisher_interval(value: float, reach: float) -> Interval:
    z = np.arctanh(value)
    return Interval(float(np.tanh(z - reach)), float(np.tanh(z + reach)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """Judge A's figure less judge B's, with what a test and an interval of it need.

    If both judges were equally good, swapping them on a document would be as likely to raise the
    difference as to lower it: the paired permutation test of Deutsch et al. (2021,
    arXiv:2104.00054). It stays valid if few documents differ.

    Attributes:
        value: The difference, in [-2, 2] for correlations and [-1, 1] for shares.
        error: Its standard error over documents; infinite for fewer than two documents.
        documents: The documents that enter it.
        terms: A term for each document, at system level for each system, whose mean it is.
        interval: For documents like these, at system level for systems like these; None below 15.
        swapped: Takes (draws, documents) signs, -1 where the judges are swapped, and returns the
            difference for each draw.
        n_untied: At dataset level, how many documents have a label other than the commonest, and
            a score of each judge other than its commonest.
    """

    value: float
    error: float
    documents: tuple[str, ...]
    terms: Vector
    interval: Interval | None
    swapped: Callable[[Matrix], Vector]
    n_untied: float = np.inf


def mean_of_differences(differences: Vector, documents: Sequence[str]) -> Contrast:
    """The contrast whose value is the mean of the documents' differences, without NaN ones."""
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
