"""Confidence intervals in closed form, and `Contrast`, the difference between two judges.

Every document has one term of a statistic, and the mean of the terms is the value of the statistic.
For statistics that are not means over documents, the terms are linearised (infinitesimal
jackknife). An interval is the value ± Student's t times the standard error of the mean of the
terms; for a correlation, on Fisher's z. An interval is withheld (None) if it would cover the true
value in fewer than 93 or more than 97 of 100 samples. benchmarks/coverage.py prints the coverage of
all intervals.

The intervals of all `looks` (interim analyses) at growing labels hold simultaneously. As in Pocock
(1977), each look has the same critical value, but the error rate of a look is Sidak's (1967),
1 - (1 - e)^(1 / looks), which is valid however many labels are added between looks: if labels
double before each, Pocock's constants turn an error rate of .025 into .036 with eight looks.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]

# An interval needs this many documents, and at system level this many systems.
MIN_DOCUMENTS_FOR_INTERVAL = MIN_SYSTEMS_FOR_INTERVAL = 15
# Correlations above this value count as perfect: Fisher's z then depends mostly on rounding errors.
MIN_PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval from `low` to `high`, both included; at 95 % confidence unless said otherwise."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def half_width(self) -> float:
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
    """An estimated value and its interval."""

    value: float
    interval: Interval | None


def random_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return a random generator that depends only on the seed and the purpose, in any process."""
    seed_text = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(seed_text.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def student_quantile(freedom: float, n_intervals: int = 1, confidence: float = 0.975) -> float:
    """Return the quantile of Student's t distribution for `n_intervals` simultaneous intervals.

    `confidence` is the one-sided confidence level of all intervals together. By Sidak (1967), the
    level of a single interval is confidence^(1 / n_intervals).
    """
    from scipy.special import stdtrit

    return float(stdtrit(freedom, confidence ** (1 / n_intervals)))


def effective_sample_size(weight: Vector) -> float:
    """Return Kish's effective sample size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight @ weight))


def interval_of_mean(values: Vector, *, bound: float = np.inf) -> Interval | None:
    """Return Student's t interval for the mean of one value a document, clipped to [-bound, bound].

    The interval is None if fewer than 15 documents have a value (not NaN), or if all values are
    equal.
    """
    values = values[~np.isnan(values)]
    if values.size < MIN_DOCUMENTS_FOR_INTERVAL or np.ptp(values) == 0:
        return None
    error = float(values.std(ddof=1)) / np.sqrt(values.size)
    half_width = student_quantile(values.size - 1) * error
    mean = float(values.mean())
    low, high = np.clip([mean - half_width, mean + half_width], -bound, bound)
    return Interval(float(low), float(high))


def cautious_interval(terms: Vector, least_size: float, looks: int = 1) -> Interval | None:
    """Return the 90 % interval for the mean of the terms, with at most 5 % error in each tail.

    If most terms are 0, the sample may by chance lack differences that the population has. So a
    positive and a negative pseudo-term are added, which are as large as the largest absolute term
    and at least `least_size` (if both are 0: 2, the range of rho). The degrees of freedom depend on
    the kurtosis of the terms (O'Neill 2014), and the centre of the interval depends on their
    skewness (Johnson 1978). The interval is None for fewer than 15 documents.
    """
    if terms.size < MIN_DOCUMENTS_FOR_INTERVAL:
        return None
    pseudo_term = max(float(np.abs(terms).max()), least_size) or 2.0
    terms = np.concatenate([terms, [pseudo_term, -pseudo_term]])
    n, mean = terms.size, float(terms.mean())
    deviations = terms - mean
    variance = float(deviations @ deviations) / (n - 1)
    kurtosis = n * float((deviations**4).sum()) / float(deviations @ deviations) ** 2
    degrees_of_freedom = min(n - 1.0, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    quantile = student_quantile(degrees_of_freedom, looks, 0.95)
    centre = mean + (1 + 2 * quantile**2) / 6 * float((deviations**3).mean()) / (variance * n)
    half_width = quantile * float(np.sqrt(variance / n))
    return Interval(centre - half_width, centre + half_width)


def correlation_interval(value: float, terms: Vector) -> Interval | None:
    """Return the interval for a correlation `value`, which is the mean of the documents' `terms`.

    On Fisher's z, the standard error is divided by 1 - value^2. The interval is None for fewer than
    15 documents, for a perfect correlation, and if all terms are equal.
    """
    n = terms.size
    if n < MIN_DOCUMENTS_FOR_INTERVAL or np.ptp(terms) == 0 or abs(value) >= MIN_PERFECT:
        return None
    standard_error = float(terms.std(ddof=1)) / np.sqrt(n) / (1 - value**2)
    return _fisher_interval(value, student_quantile(n - 1) * standard_error)


def system_interval(value: float, n_systems: int) -> Interval | None:
    """Return Bonett and Wright's (2000) interval for rho over system means.

    The interval is None for fewer than 15 systems, and for an undefined or perfect rho.
    """
    if n_systems < MIN_SYSTEMS_FOR_INTERVAL or np.isnan(value) or abs(value) >= MIN_PERFECT:
        return None
    standard_error = np.sqrt((1 + value**2 / 2) / (n_systems - 3))
    return _fisher_interval(value, student_quantile(np.inf) * standard_error)


def _fisher_interval(value: float, half_width: float) -> Interval:
    z = np.arctanh(value)
    return Interval(float(np.tanh(z - half_width)), float(np.tanh(z + half_width)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A statistic of judge A minus the same statistic of judge B, with data for a test.

    The test is the paired permutation test of Deutsch et al. (2021, arXiv:2104.00054). If both
    judges are equally good, swapping their scores on a document is as likely to raise the
    difference as to lower it. So the test is valid even if the judges differ on few documents.

    Attributes:
        error: The standard error of the difference, clustered by document; infinite for fewer than
            two documents.
        documents: The documents from which the difference is computed.
        terms: One term for each document (at system level, for each system); the mean of the terms
            is the value.
        interval: The 95 % interval; None for fewer than 15 documents (or systems).
        swapped: Returns the difference in each draw of swaps. The argument, of shape (draws,
            documents), is -1 if the draw swaps the judges on the document, else 1.
        n_untied: At dataset level, how many documents have a label, and scores by both judges, that
            differ from the most common value; infinite at other levels.
    """

    value: float
    error: float
    documents: tuple[str, ...]
    terms: Vector
    interval: Interval | None
    swapped: Callable[[Matrix], Vector]
    n_untied: float = np.inf


def contrast_from_documents(differences: Vector, documents: Sequence[str]) -> Contrast:
    """Return the contrast whose value is the mean of the documents' differences, without NaN."""
    is_defined = ~np.isnan(differences)
    terms = differences[is_defined]
    n = terms.size
    return Contrast(
        value=float(terms.mean()) if n else np.nan,
        error=float(terms.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf,
        documents=tuple(np.asarray(documents, dtype=object)[is_defined]),
        terms=terms,
        interval=interval_of_mean(terms, bound=2),
        swapped=lambda signs: signs @ terms / max(n, 1),
    )


def contrast_from_outputs(contributions: Vector, document: NDArray[np.generic]) -> Contrast:
    """Return the contrast whose value is the sum of what each output contributes to it."""
    document_names, codes = np.unique(document, return_inverse=True)
    n_documents = document_names.size
    # The terms are scaled so that their mean over documents is the sum over outputs.
    terms = n_documents * np.bincount(codes, contributions, n_documents).astype(float)
    return contrast_from_documents(terms, [str(name) for name in document_names])
