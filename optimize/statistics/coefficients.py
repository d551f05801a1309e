"""Spearman's rho, Kendall's tau-b and Pearson's r (`COEFFICIENTS`), and ranks of scores."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from optimize.statistics.intervals import Matrix, Vector


def midranks(values: Matrix) -> Matrix:
    """Return each value's rank within its row, from 1; ties get the mean of their ranks.

    All rows are ranked at once: a loop over documents takes several times as long.
    """
    sort_order = np.argsort(values, axis=-1, kind="stable")
    sorted_values = np.take_along_axis(values, sort_order, -1)
    positions = np.broadcast_to(np.arange(1.0, values.shape[-1] + 1), values.shape)
    is_new_value = np.ones(values.shape, dtype=bool)
    is_new_value[..., 1:] = sorted_values[..., 1:] != sorted_values[..., :-1]
    tie_codes = np.cumsum(is_new_value) - 1
    mean_positions = np.bincount(tie_codes, positions.ravel()) / np.bincount(tie_codes)
    ranks = np.empty(values.shape)
    np.put_along_axis(ranks, sort_order, mean_positions[tie_codes].reshape(values.shape), -1)
    return ranks


def _pearson(scores: Matrix, ratings: Matrix, weight: Vector | float = 1.0) -> Vector:
    """Return Pearson's r between each row of scores and the same row of ratings, or NaN."""
    is_varied = (np.ptp(scores, axis=-1) > 0) & (np.ptp(ratings, axis=-1) > 0)
    r = (_scale_rows(scores, weight) * _scale_rows(ratings, weight) * weight).sum(axis=-1)
    return np.where(is_varied, np.clip(r, -1, 1), np.nan)


def _scale_rows(values: Matrix, weight: Vector | float) -> Matrix:
    """Scale each row to a weighted mean of 0 and a weighted sum of squares of 1."""
    deviations = values - (values * weight).mean(axis=-1, keepdims=True)
    # Divide first, because squares of very large or very small scores overflow or underflow.
    largest_deviation = np.abs(deviations).max(axis=-1, keepdims=True)
    deviations = deviations / np.where(largest_deviation > 0, largest_deviation, 1)
    row_norms = np.sqrt((deviations**2 * weight).sum(axis=-1, keepdims=True))
    return np.asarray(deviations / np.where(row_norms > 0, row_norms, 1))


def _kendall(scores: Matrix, ratings: Matrix) -> Vector:
    """Return Kendall's tau-b of each row, without scipy.stats, whose import takes half a second."""
    # Three counts of pairs of outputs, for each row: concordant minus discordant pairs, pairs with
    # different scores, and pairs with different ratings.
    concordance, n_untied_scores, n_untied_ratings = np.zeros((3, len(scores)))
    for column_offset in range(1, scores.shape[-1]):
        score_signs = np.sign(scores[:, column_offset:] - scores[:, :-column_offset])
        rating_signs = np.sign(ratings[:, column_offset:] - ratings[:, :-column_offset])
        concordance += (score_signs * rating_signs).sum(axis=-1)
        n_untied_scores += np.abs(score_signs).sum(axis=-1)
        n_untied_ratings += np.abs(rating_signs).sum(axis=-1)
    with np.errstate(invalid="ignore"):  # a constant row divides 0 by 0
        tau: Vector = concordance / np.sqrt(n_untied_scores) / np.sqrt(n_untied_ratings)
    return np.clip(tau, -1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """The functions that compute a correlation coefficient.

    Attributes:
        of_rows: Returns the coefficient between each row of a matrix of scores and the same row of
            a matrix of ratings; NaN if one of the rows is constant.
        of_weighted: Returns the weighted coefficient of vectors of scores and ratings, with weights
            that have a mean of 1; None if the coefficient has no weighted form.
        symbol: The coefficient's symbol in printed figures; by default, its name.
    """

    of_rows: Callable[[Matrix, Matrix], Vector]
    of_weighted: Callable[[Vector, Vector, Vector], float] | None = None
    symbol: str | None = None


# The coefficients by name. `verify --all` prints every coefficient at every level.
COEFFICIENTS = {
    "spearman": Coefficient(
        of_rows=lambda scores, ratings: _pearson(midranks(scores), midranks(ratings)),
        of_weighted=lambda scores, ratings, weight: float(
            _pearson(weighted_midranks(scores, weight), weighted_midranks(ratings, weight), weight)
        ),
        symbol="rho",
    ),
    "kendall": Coefficient(of_rows=_kendall, symbol="tau-b"),
    "pearson": Coefficient(
        of_rows=_pearson,
        of_weighted=lambda scores, ratings, weight: float(_pearson(scores, ratings, weight)),
        symbol="r",
    ),
}


def standardise(values: Vector, weight: Vector) -> Vector:
    """Scale values to a weighted mean of 0 and a weighted mean square of 1."""
    return np.asarray(_scale_rows(values, weight) * np.sqrt(values.size))


def weighted_midranks(scores: Vector, weight: Vector) -> Vector:
    """Return mid-ranks, up to a constant, if each output counts as `weight` outputs."""
    return -sums_above(scores, weight)


def sums_above(scores: Vector, values: Vector) -> Vector:
    """Return, for each score, the sum of `values` at higher scores plus half that at equal ones."""
    sort_order = np.argsort(scores, kind="stable")
    sorted_scores = scores[sort_order]
    cumulative_sums = np.concatenate([[0.0], np.cumsum(values[sort_order])])
    sum_below = cumulative_sums[np.searchsorted(sorted_scores, scores, "left")]
    sum_up_to_equal = cumulative_sums[np.searchsorted(sorted_scores, scores, "right")]
    return np.asarray(cumulative_sums[-1] - (sum_below + sum_up_to_equal) / 2)
