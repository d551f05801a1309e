"""Confidence intervals in closed form, and `Contrast`, the difference between two judges.

Each document makes one contribution to a statistic, which is the mean of the contributions. If a
statistic is not a mean over documents, its contributions are linearised (infinitesimal jackknife,
Jaeckel 1972). An interval is the value ± Student's t times the standard error of the mean
contribution; for a correlation, it is computed on Fisher's z. An interval is withheld (None) if it
would cover the true value in fewer than 93 or more than 97 of 100 samples
(benchmarks/interval_coverage.py).

If a user looks at a statistic several times while labels are added (interim analyses), all `looks`
have the same critical value, so that their intervals hold simultaneously (Pocock 1977). If e is the
error rate of all looks, that of each look is 1 - (1 - e)^(1 / looks) (Sidak 1967). Pocock's own
constants are not used, because they assume that each look adds equally many labels: if labels
double before each of eight looks, an error rate of .025 becomes .036.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Codes = NDArray[np.intp]  # numbers of documents, systems or groups, from 0
Mask = NDArray[np.bool_]

# An interval needs this many documents, and at system level this many systems.
MIN_DOCUMENTS_FOR_INTERVAL = 15
# Correlations above this value count as perfect: Fisher's z then depends mostly on rounding errors.
MIN_PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval from `low` to `high`, both included. Its confidence level is usually 95 %."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    @property
    def half_width(self) -> float:
        return (self.high - self.low) / 2


class Figure(Protocol):
    """Any result with a value (NaN if undefined) and an interval (None if it is withheld)."""

    @property
    def value(self) -> float: ...

    @property
    def interval(self) -> Interval | None: ...


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    value: float
    interval: Interval | None


def random_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """Return NumPy's random generator; its numbers depend only on the seed and the purpose."""
    seed_text = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(seed_text.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


def student_quantile(
    degrees_of_freedom: float, n_intervals: int = 1, confidence: float = 0.975
) -> float:
    """Return the quantile of Student's t distribution for `n_intervals` simultaneous intervals.

    All intervals together hold at the one-sided level `confidence`. By Sidak (1967), the level of a
    single interval is confidence^(1 / n_intervals).
    """
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, confidence ** (1 / n_intervals)))


def effective_sample_size(weight: Vector) -> float:
    """Return Kish's effective sample size, (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight @ weight))


def interval_of_mean(values: Vector, *, bound: float = np.inf) -> Interval | None:
    """Return Student's t interval for a mean over documents, clipped to [-bound, bound].

    `values` has one value for each document; documents with NaN are left out. The interval is None
    if fewer than 15 documents have a value, or if all values are equal.
    """
    values = values[~np.isnan(values)]
    if values.size < MIN_DOCUMENTS_FOR_INTERVAL or np.ptp(values) == 0:
        return None
    standard_error = float(values.std(ddof=1)) / np.sqrt(values.size)
    half_width = student_quantile(values.size - 1) * standard_error
    mean = float(values.mean())
    low, high = np.clip([mean - half_width, mean + half_width], -bound, bound)
    return Interval(float(low), float(high))


def cautious_interval(
    contributions: Vector, possible_contribution: float, looks: int = 1
) -> Interval | None:
    """Return the 90 % interval for a statistic that is the mean of the documents' contributions.

    At most 5 % of such intervals lie above the true mean, and at most 5 % below it. If most
    contributions are 0, the sample may by chance lack differences that the population has. So two
    made-up contributions are added, a positive and a negative one. Their size is the larger of two
    numbers: the largest absolute contribution, and `possible_contribution`, which a document could
    make. If both numbers are 0, their size is 2, the range of rho. The degrees of freedom depend
    on the kurtosis of the contributions (O'Neill 2014), and the centre of the interval on their
    skewness (Johnson 1978). The interval is None for fewer than 15 documents.
    """
    if contributions.size < MIN_DOCUMENTS_FOR_INTERVAL:
        return None
    largest_contribution = float(np.abs(contributions).max())
    pseudo_contribution = max(largest_contribution, possible_contribution) or 2.0
    values = np.concatenate([contributions, [pseudo_contribution, -pseudo_contribution]])
    n, mean = values.size, float(values.mean())
    deviations = values - mean
    variance = float(deviations @ deviations) / (n - 1)
    kurtosis = n * float((deviations**4).sum()) / float(deviations @ deviations) ** 2
    degrees_of_freedom = min(n - 1.0, 2 * n / (kurtosis - (n - 3) / (n - 1)))
    quantile = student_quantile(degrees_of_freedom, looks, 0.95)
    centre = mean + (1 + 2 * quantile**2) / 6 * float((deviations**3).mean()) / (variance * n)
    half_width = quantile * float(np.sqrt(variance / n))
    return Interval(centre - half_width, centre + half_width)


def correlation_interval(value: float, contributions: Vector) -> Interval | None:
    """Return the 95 % interval for a correlation that is the mean of the documents' contributions.

    On Fisher's z, the standard error is divided by 1 - value^2. The interval is None for fewer than
    15 documents, for a perfect correlation, and if all contributions are equal.
    """
    n = contributions.size
    if n < MIN_DOCUMENTS_FOR_INTERVAL or np.ptp(contributions) == 0 or abs(value) >= MIN_PERFECT:
        return None
    standard_error = float(contributions.std(ddof=1)) / np.sqrt(n) / (1 - value**2)
    return _fisher_interval(value, student_quantile(n - 1) * standard_error)


def system_interval(value: float, n_systems: int) -> Interval | None:
    """Return Bonett and Wright's (2000) 95 % interval for rho over the means of systems.

    The interval is None for fewer than 15 systems, and for an undefined or perfect rho.
    """
    if n_systems < MIN_DOCUMENTS_FOR_INTERVAL or np.isnan(value) or abs(value) >= MIN_PERFECT:
        return None
    standard_error = np.sqrt((1 + value**2 / 2) / (n_systems - 3))
    return _fisher_interval(value, student_quantile(np.inf) * standard_error)


def _fisher_interval(value: float, half_width: float) -> Interval:
    """Return the interval around a correlation; `half_width` is on the scale of Fisher's z."""
    z = np.arctanh(value)
    return Interval(float(np.tanh(z - half_width)), float(np.tanh(z + half_width)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """A statistic of judge A minus the same statistic of judge B, with data for a test.

    The test is the paired permutation test of Deutsch et al. (2021, arXiv:2104.00054). The test is
    valid even if the judges differ on few documents: if both judges are equally good, swapping
    their scores on a document is as likely to raise the difference as to lower it.

    Attributes:
        value: The difference; NaN if it is undefined.
        error: The standard error of the difference, clustered by document; infinite for fewer than
            two documents.
        documents: The documents from which the difference is computed.
        contributions: (documents,) each document's contribution to the difference; at system level,
            (systems,) each system's contribution. Their mean is the difference.
        interval: The 95 % interval; None for fewer than 15 documents (or systems).
        swapped: Returns the difference in each random permutation of the judges. The argument, of
            shape (permutations, documents), is -1 where the judges' scores are swapped, else 1.
        n_untied: At dataset level, `ScoredRows.n_untied_documents` of the judge for which it is
            smaller; infinite at other levels.
    """

    value: float
    error: float
    documents: tuple[str, ...]
    contributions: Vector
    interval: Interval | None
    swapped: Callable[[Matrix], Vector]
    n_untied: float = np.inf


def contrast_from_documents(differences: Vector, documents: Sequence[str]) -> Contrast:
    """Return the contrast whose value is the mean of the documents' differences, without NaN."""
    is_defined = ~np.isnan(differences)
    contributions = differences[is_defined]
    n = contributions.size
    return Contrast(
        value=float(contributions.mean()) if n else np.nan,
        error=float(contributions.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf,
        documents=tuple(np.asarray(documents, dtype=object)[is_defined]),
        contributions=contributions,
        interval=interval_of_mean(contributions, bound=2),
        swapped=lambda signs: signs @ contributions / max(n, 1),
    )


def contrast_from_outputs(summands: Vector, document: NDArray[np.generic]) -> Contrast:
    """Return the contrast whose value is the sum of `summands`, one for each output."""
    document_names, document_codes = np.unique(document, return_inverse=True)
    n_documents = document_names.size
    # The factor `n_documents` makes the mean over documents equal to the sum over outputs.
    sums = np.bincount(document_codes, summands, n_documents).astype(float)
    return contrast_from_documents(n_documents * sums, [str(name) for name in document_names])
