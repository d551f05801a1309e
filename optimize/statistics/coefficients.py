"""The coefficients of correlation (`COEFFICIENTS`), and the ranks that they use."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optimize.statistics.intervals import Matrix, Vector


def midranks(x: Matrix) -> Matrix:
    """Return each value's rank within its row, from 1; ties get the mean of their ranks."""
    sort_order = np.argsort(x, axis=-1, kind="stable")
    sorted_values = np.take_along_axis(x, sort_order, -1)
    positions = np.broadcast_to(np.arange(1.0, x.shape[-1] + 1), x.shape)
    starts_tie_group = np.ones(x.shape, dtype=bool)
    starts_tie_group[..., 1:] = sorted_values[..., 1:] != sorted_values[..., :-1]
    tie_group = np.cumsum(starts_tie_group) - 1
    mean_positions = np.bincount(tie_group, positions.ravel()) / np.bincount(tie_group)
    ranks = np.empty(x.shape)
    np.put_along_axis(ranks, sort_order, mean_positions[tie_group].reshape(x.shape), -1)
    return ranks


def _pearson(x: Matrix, y: Matrix, weight: Vector | None = None) -> Vector:
    """Return Pearson's coefficient of each row; the weights of the outputs have a mean of 1."""
    is_varied = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    products = _scale_rows(x, weight) * _scale_rows(y, weight)
    r = (products if weight is None else products * weight).sum(axis=-1)
    return np.where(is_varied, np.clip(r, -1, 1), np.nan)


def _scale_rows(x: Matrix, weight: Vector | None = None) -> Matrix:
    """Scale each row to a mean of 0 and a sum of squares of 1."""
    deviations = x - np.average(x, axis=-1, weights=weight, keepdims=True)
    # Divide first, because squares of very large or very small scores overflow or underflow.
    largest = np.abs(deviations).max(axis=-1, keepdims=True)
    deviations = deviations / np.where(largest > 0, largest, 1)
    squares = deviations**2 if weight is None else deviations**2 * weight
    norm = np.sqrt(squares.sum(axis=-1, keepdims=True))
    scaled_rows: Matrix = deviations / np.where(norm > 0, norm, 1)
    return scaled_rows


def _kendall(x: Matrix, y: Matrix) -> Vector:
    """Return Kendall's tau-b of each row, without scipy.stats, whose import takes half a second."""
    # Numbers of pairs: concordant minus discordant, not tied in x, and not tied in y.
    concordant, untied_x, untied_y = np.zeros((3, len(x)))
    for lag in range(1, x.shape[-1]):
        x_signs, y_signs = (np.sign(values[:, lag:] - values[:, :-lag]) for values in (x, y))
        concordant += (x_signs * y_signs).sum(axis=-1)
        untied_x += np.abs(x_signs).sum(axis=-1)
        untied_y += np.abs(y_signs).sum(axis=-1)
    with np.errstate(invalid="ignore"):  # constant rows are NaN
        tau: Vector = np.clip(concordant / np.sqrt(untied_x) / np.sqrt(untied_y), -1, 1)
    return tau


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """The functions that compute a correlation coefficient.

    Attributes:
        of_rows: Returns the coefficient between each row of the judge's scores and the same row of
            people's ratings, or NaN if one of the rows is constant.
        of_weighted: Returns the weighted coefficient of a vector of the judge's scores and one of
            people's ratings, with weights that have a mean of 1. None if the coefficient has no
            weighted form.
        symbol: The coefficient's sign in printed figures; by default, its name.
    """

    of_rows: Callable[[Matrix, Matrix], Vector]
    of_weighted: Callable[[Vector, Vector, Vector], float] | None = None
    symbol: str | None = None


# The coefficients by name. `verify --all` prints every coefficient at every level.
COEFFICIENTS = {
    "spearman": Coefficient(
        of_rows=lambda x, y: _pearson(midranks(x), midranks(y)),
        of_weighted=lambda x, y, weight: float(
            _pearson(weighted_midranks(x, weight), weighted_midranks(y, weight), weight)
        ),
        symbol="rho",
    ),
    "kendall": Coefficient(of_rows=_kendall, symbol="tau-b"),
    "pearson": Coefficient(
        of_rows=_pearson,
        of_weighted=lambda x, y, weight: float(_pearson(x, y, weight)),
        symbol="r",
    ),
}


def standardise(values: Vector, weight: Vector) -> Vector:
    """Scale values to a weighted mean of 0 and a weighted mean square of 1."""
    standard: Vector = _scale_rows(values, weight) * np.sqrt(values.size)
    return standard


def weighted_midranks(scores: Vector, weight: Vector) -> Vector:
    """Return mid-ranks up to a constant, in which each output counts as `weight` outputs."""
    return -sums_above(scores, weight)


def sums_above(scores: Vector, values: Vector) -> Vector:
    """Return the sum of `values` over higher scores, plus half the sum over equal scores."""
    sort_order = np.argsort(scores, kind="stable")
    sorted_scores = scores[sort_order]
    cumulative = np.concatenate([[0.0], np.cumsum(values[sort_order])])
    sum_below = cumulative[np.searchsorted(sorted_scores, scores, "left")]
    sum_up_to_equal = cumulative[np.searchsorted(sorted_scores, scores, "right")]
    sum_above: Vector = cumulative[-1] - (sum_below + sum_up_to_equal) / 2
    return sum_above
