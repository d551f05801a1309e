"""Cluster bootstrap: intervals for any statistic of documents, and how many documents they take.

The interval is value ± Student's t (documents - 1) x the bootstrap standard error, on Fisher's z
for a correlation of many outputs. Percentile and BCa intervals were tried first: with 20 to 60
documents they cover 91-94 % and 88-94 %, as they know neither that few documents make the
standard error itself uncertain nor, where a judge agrees well with people, how skewed rho is
(benchmarks/coverage.py prints what this one covers).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optimize.statistics.coefficients import BLOCK, Matrix, Vector


def stream(seed: int, *purpose: str | int) -> np.random.Generator:
    """The same generator for the same seed and purpose, in any process."""
    words = ":".join(map(str, (seed, *purpose)))
    digest = hashlib.blake2b(words.encode(), digest_size=16).digest()
    return np.random.default_rng(int.from_bytes(digest, "big"))


RESAMPLES = 2000
CONFIDENCE = 0.95
# The chance that a planned sample shows what it was planned for.
POWER = 0.8
# More documents than anybody labels.
MAX_DOCUMENTS = 10**7
# From here on Fisher's z says more about rounding than about agreement.
PERFECT = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, at the stated confidence."""

    low: float
    high: float
    confidence: float = CONFIDENCE

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def draw_weights(n: int, resamples: int, rng: np.random.Generator) -> Matrix:
    """How often each of `n` clusters is in each resample of `n` drawn with replacement."""
    weights: Matrix = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    return weights


def resample(
    statistic: Callable[[Matrix], Vector], n: int, resamples: int, rng: np.random.Generator
) -> Vector:
    """The statistic of every resample, in blocks that bound memory; NaN where it is undefined."""
    step = max(1, BLOCK // n)
    sizes = [min(step, resamples - start) for start in range(0, resamples, step)]
    return np.concatenate([statistic(draw_weights(n, size, rng)) for size in sizes])


def bootstrap(
    statistic: Callable[[Matrix], Vector],
    value: float,
    n: int,
    rng: np.random.Generator,
    *,
    bound: float = 1.0,
    fisher: bool = False,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """An interval around `value`, the statistic of all `n` clusters drawn once.

    It is cut to [-bound, bound]. `fisher` works on arctanh, for correlations, unless a draw reaches
    ±1. None where it cannot be known: fewer than two clusters, a value or most draws undefined, or
    all perfect.
    """
    if n < 2 or np.isnan(value):
        return None
    draws = resample(statistic, n, resamples, rng)
    return interval_around(draws, value, n, bound=bound, fisher=fisher, confidence=confidence)


def interval_around(
    draws: Vector,
    value: float,
    n: int,
    *,
    bound: float = 1.0,
    fisher: bool = False,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """The interval from a statistic's `value` and its `draws` (NaN: undefined), as `bootstrap`."""
    resamples = draws.size
    draws = draws[~np.isnan(draws)]
    if n < 2 or np.isnan(value) or draws.size < max(2, resamples // 2):
        return None
    on_z = fisher and max(abs(value), float(np.abs(draws).max())) < PERFECT
    centre = np.arctanh(value) if on_z else value
    deviation = float(np.std(np.arctanh(draws) if on_z else draws, ddof=1))
    if abs(value) >= PERFECT * bound and deviation < 1 - PERFECT:
        return None
    # The square root undoes what drawing n of n takes from a variance.
    error = deviation * np.sqrt(n / (n - 1))
    half = student_quantile(n - 1, confidence) * error
    ends = np.array([centre - half, centre + half])
    low, high = np.clip(np.tanh(ends) if on_z else ends, -bound, bound)
    return Interval(float(low), float(high), confidence)


def ratio_interval(
    numerators: Vector,
    denominators: Vector,
    ratio: float,
    denominator: float,
    n: int,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Fieller's interval of a ratio from joint draws of both its parts, `n` clusters in each.

    All ratios r at which numerator - r * denominator is within t standard errors of 0. None where
    the denominator's own interval reaches 0: there is then no ratio that could be excluded.
    """
    defined = ~np.isnan(numerators + denominators)
    if n < 2 or defined.sum() < max(2, defined.size // 2) or np.isnan(ratio):
        return None
    covariance = np.cov(numerators[defined], denominators[defined]) * n / (n - 1)
    t_squared = student_quantile(n - 1, confidence) ** 2
    # (x - r y)^2 <= t^2 (a - 2 r b + r^2 c), a quadratic in r; with x = ratio * y divided by y^2.
    a, b, c = t_squared * covariance[[0, 0, 1], [0, 1, 1]] / denominator**2
    if denominator <= 0 or c >= 1:
        return None
    centre = (ratio - b) / (1 - c)
    half = np.sqrt(max(centre**2 - (ratio**2 - a) / (1 - c), 0.0))
    return Interval(float(centre - half), float(centre + half), confidence)


def student_quantile(freedom: float, confidence: float) -> float:
    """The t beyond which lies half of what `confidence` leaves."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def documents_for_difference(
    interval: Interval, n: int, difference: float, power: float = POWER
) -> int:
    """How many documents show a true `difference` by an interval that leaves out 0.

    `interval` is what `n` documents gave for such a difference: its width tells how much documents
    vary, its place is no matter. That width is an estimate itself, which lowers the power; with
    z and t normal and Student quantiles, the number is the least for which difference / error
    reaches t + z sqrt(1 + (difference / error)^2 / (2 (n - 1))).
    """
    from scipy.special import ndtri

    deviation, z = _document_deviation(interval, n), float(ndtri(power))

    def suffices(number: int) -> bool:
        ratio = difference * np.sqrt(number) / deviation
        width_error = np.sqrt(1 + ratio**2 / (2 * (n - 1)))
        t = student_quantile(number - 1, interval.confidence)
        return bool(ratio >= t + z * width_error)

    return _least(suffices)


def _document_deviation(interval: Interval, n: int) -> float:
    """The standard deviation among documents behind an interval from `n` of them."""
    half = (interval.high - interval.low) / 2
    return float(half / student_quantile(n - 1, interval.confidence) * np.sqrt(n))


def _least(suffices: Callable[[int], bool]) -> int:
    """The least number of documents, two or more, that suffices, by halving."""
    low, high = 1, 2
    while not suffices(high) and high < MAX_DOCUMENTS:
        low, high = high, 2 * high
    while high - low > 1:
        midpoint = (low + high) // 2
        low, high = (low, midpoint) if suffices(midpoint) else (midpoint, high)
    return high
