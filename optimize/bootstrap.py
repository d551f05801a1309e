"""Cluster bootstrap: intervals for any statistic of documents drawn with replacement."""

from dataclasses import dataclass

import numpy as np

from optimize.coefficients import Matrix, Vector
from optimize.levels import Statistic

RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Interval:
    """From `low` to `high`, at the stated confidence."""

    low: float
    high: float
    confidence: float = CONFIDENCE

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def draw(n: int, resamples: int, rng: np.random.Generator) -> Matrix:
    """How often each of `n` clusters is in each resample of `n` drawn with replacement."""
    drawn: Matrix = rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)
    return drawn


def percentile_interval(values: Vector, confidence: float = CONFIDENCE) -> Interval | None:
    """The middle of the defined bootstrap values; None where fewer than two are defined."""
    known = values[~np.isnan(values)]
    if known.size < 2:
        return None
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(low), float(high), confidence)


def bootstrap(
    statistic: Statistic,
    n: int,
    rng: np.random.Generator,
    *,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """An interval for `statistic` over `n` clusters; None with fewer than two."""
    if n < 2:
        return None
    return percentile_interval(statistic(draw(n, resamples, rng)), confidence)
