"""Agreement in units that need no statistics: shares of pairs, points on the scale."""

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Vector


def nearest_ratings(values: ArrayLike, scale: ArrayLike) -> Vector:
    """Each value's nearest rating of the scale, the higher of two; NaN stays NaN."""
    numbers, ratings = np.asarray(values, dtype=float), np.unique(np.asarray(scale, dtype=float))
    midpoints = (ratings[1:] + ratings[:-1]) / 2
    places = np.searchsorted(midpoints, np.nan_to_num(numbers), side="right")
    return np.where(np.isnan(numbers), np.nan, ratings[places])


def quadratic_kappa(a: Vector, b: Vector) -> float:
    """Cohen's kappa with quadratic weights, 1 - mean square gap / the gap of strangers.

    Strangers have the same ratings, paired at random: their mean square gap is
    var(a) + var(b) + (mean(a) - mean(b))^2. NaN where that is 0, as both sides say one thing only.
    """
    expected = a.var() + b.var() + (a.mean() - b.mean()) ** 2 if a.size else 0.0
    return float(1 - ((a - b) ** 2).mean() / expected) if expected > 0 else np.nan
