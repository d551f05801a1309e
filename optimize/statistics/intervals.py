"""Intervals in closed form, the paired test of two judges, and how many documents show a gain.

Each document adds one term to a statistic; the mean of the terms is the value. For a mean over
documents the terms are the documents' own values; for other statistics they are linearised (the
infinitesimal jackknife). An interval is value ± Student's t x the standard error of that mean, for
a correlation on Fisher's z. Where it would not hold the truth in 93 to 97 of 100 cases it is
withheld: it is None (benchmarks/coverage.py prints what every kind of interval covers).
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# An interval takes so many documents, at system level so many systems.
FEW_DOCUMENTS = FEW_SYSTEMS = 15
# From here on Fisher's z says more about rounding than about agreement.
PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, at 95 % confidence."""

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
    """The same generator for the same seed and purpose, in any process."""
    words = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(words.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def student_quantile(freedom: float) -> float:
    """The t beyond which lie 2.5 % on either side."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def effective_number(weight: Vector) -> float:
    """How many of equal weight would tell as much (Kish): (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight @ weight))


def interval_of_mean(terms: Vector, *, bound: float = np.inf) -> Interval | None:
    """Student's interval of the mean of one term a document, cut to [-bound, bound].

    NaN terms are left out. None below 15 documents, and where all terms are equal.
    """
    terms = terms[~np.isnan(terms)]
    if terms.size < FEW_DOCUMENTS or np.ptp(terms) == 0:
        return None
    reach = student_quantile(terms.size - 1) * float(terms.std(ddof=1)) / np.sqrt(terms.size)
    mean = float(terms.mean())
    low, high = np.clip([mean - reach, mean + reach], -bound, bound)
    return Interval(float(low), float(high))


def cautious_interval(terms: Vector, least: float) -> Interval | None:
    """The 90 % interval of the mean of the terms, either end of which errs in at most 5 of 100.

    Where few documents differ, those that happened not to say what their differences are like. So
    one more document stands in for either side, with the largest difference seen and at least
    `least`, or 2, all of rho, where none differs. Degrees of freedom heed the kurtosis (O'Neill
    2014), the place the skewness (Johnson 1978). None below 15 documents.
    """
    from scipy.special import stdtrit

    if terms.size < FEW_DOCUMENTS:
        return None
    largest = max(float(np.abs(terms).max()), least) or 2.0
    terms = np.concatenate([terms, [largest, -largest]])
    n, mean = terms.size, float(terms.mean())
    gaps = terms - mean
    variance = float(gaps @ gaps) / (n - 1)
    kurtosis = n * float((gaps**4).sum()) / float(gaps @ gaps) ** 2
    freedom = min(n - 1.0, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    t = float(stdtrit(freedom, 0.95))
    middle = mean + (1 + 2 * t**2) / 6 * float((gaps**3).mean()) / (variance * n)
    reach = t * float(np.sqrt(variance / n))
    return Interval(middle - reach, middle + reach)


def correlation_interval(value: float, terms: Vector) -> Interval | None:
    """The interval of a correlation on Fisher's z, where its error is error / (1 - value^2).

    None below 15 documents, where all terms are equal, and for a perfect correlation.
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
    """Judge A's figure less judge B's, and what it becomes with the two swapped on some documents.

    Were they equally good, the difference would be as likely with either sign of any document (the
    paired permutation test of Deutsch et al. 2021, arXiv:2104.00054). This stays right where few
    documents differ: three gains and zeros else are all of one sign in one of eight draws.

    `error` is the standard error over documents: at summary and dataset level from what each
    document adds to the difference, at system level the SD of the swapped differences.
    `documents` are those that enter; infinite `error`: fewer than two do. `interval` is for
    documents like these, at system level for systems like these; None below 15. It is of the mean
    of `terms`, one a document, at system level one a system. `n_untied`, at dataset level, is how
    many documents have another label, and another score of either judge, than the commonest.
    """

    value: float
    error: float
    documents: tuple[str, ...]
    terms: Vector
    interval: Interval | None
    # The difference of each draw of signs (draws, documents), -1: swapped.
    swapped: Callable[[Matrix], Vector]
    n_untied: float = np.inf


def mean_of_differences(differences: Vector, documents: Sequence[str]) -> Contrast:
    """The mean of the documents' differences (one each; NaN are left out)."""
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
