"""Agreement in units that need no statistics: shares of pairs, and points on the rating scale.

Pairwise accuracy is the share of pairs of outputs that judge and people put in the same order. The
difference in points between the mean score and the mean rating shows, for example, that a judge
ranks perfectly but rates one point too high. Scores are NaN for failed judgements.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.correlations import Level
from optimize.statistics.intervals import (
    Contrast,
    Interval,
    Matrix,
    Vector,
    contrast_from_outputs,
    correlation_interval,
    interval_of_mean,
)
from optimize.statistics.rows import ScoredRows

# A difference between mean score and mean rating is worth a warning if it has at least this size,
# in standard deviations of people's ratings.
MIN_SHIFT_IN_SDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseAccuracy:
    """The share of pairs that a judge orders as people do, in [0, 1]; NaN if there is no pair.

    Pairs that people tied are left out. A pair that only the judge tied counts half.
    """

    value: float
    interval: Interval | None
    n_ties: int
    n_documents: int
    n_pairs: int


def preference_accuracy(rows: ScoredRows) -> PairwiseAccuracy:
    """Return the share of labelled pairs on which a judge has the same preference as people.

    Scores and labels are margins: positive if A is preferred, negative if B is preferred, and 0 for
    a tie. Pairs that people tied are left out.
    """
    is_decided = rows.labels != 0
    credits = (1 + np.sign(rows.scores) * np.sign(rows.labels)) / 2
    values_to_sum = credits * is_decided, is_decided, is_decided & (rows.scores == 0)
    return _accuracy_from_counts(*map(rows.document_sums, values_to_sum))


def contrast_pair_accuracy(
    margin_a: ArrayLike, margin_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Return pairwise judge A's accuracy minus B's, on pairs that people did not tie."""
    signs_a, signs_b = np.sign(np.asarray([margin_a, margin_b], dtype=float))
    human_signs = np.sign(np.asarray(human, dtype=float))
    differences = (signs_a - signs_b) * human_signs / 2
    is_compared = (human_signs != 0) & ~np.isnan(differences)
    summands = differences[is_compared] / max(is_compared.sum(), 1)
    return contrast_from_outputs(summands, np.asarray(document)[is_compared])


def pairwise_accuracy(rows: ScoredRows, *, level: Level = "summary") -> PairwiseAccuracy:
    """Return the share of pairs of outputs that the judge orders as people do.

    The share is (1 + D) / 2, where D is Somers' (1962) D. At dataset level, or if every document
    has only one output, any two outputs form a pair; otherwise only two outputs of the same
    document. Pairs are weighted by the weights of their documents, also in `n_pairs` and `n_ties`.
    """
    # Round, because rounding errors must not break ties.
    scores_and_ratings: Matrix = np.stack([rows.scores, rows.labels]).round(12)
    is_across_documents = level == "dataset" or rows.n_documents == rows.scores.size
    group_starts, partner_weights = rows.first_output_rows, np.ones(rows.scores.size)
    documents_per_pair = 1
    if is_across_documents:
        # Any two outputs form a pair, and each pair counts in the sums of both its documents.
        group_starts, partner_weights, documents_per_pair = group_starts[:1], rows.weights, 2
    groups = np.split(np.arange(rows.scores.size), group_starts[1:])
    pair_weights = np.hstack(
        [_pair_weights(scores_and_ratings[:, group], partner_weights[group]) for group in groups]
    )
    # Each pair is in the sums of both its outputs, so the sums are halved.
    document_sums = map(rows.document_sums, pair_weights * rows.weights / 2)
    accuracy = _accuracy_from_counts(*document_sums, documents_per_pair=documents_per_pair)
    if is_across_documents and not rows.has_enough_untied_documents:
        return replace(accuracy, interval=None)
    return accuracy


def _pair_weights(scores_and_ratings: Matrix, weight: Vector) -> Matrix:
    """Return for each output the weights of its concordant, its counted and its tied pairs."""
    pair_sums = np.empty((3, weight.size))
    for row in range(weight.size):
        score_signs, rating_signs = np.sign(scores_and_ratings[:, [row]] - scores_and_ratings)
        is_untied = rating_signs != 0
        untied_weight = is_untied @ weight
        same_order_weight = (untied_weight + (score_signs * rating_signs) @ weight) / 2
        tied_weight = (is_untied & (score_signs == 0)) @ weight
        pair_sums[:, row] = same_order_weight, untied_weight, tied_weight
    return pair_sums


def _accuracy_from_counts(
    n_right: Vector, n_pairs: Vector, n_ties: Vector, *, documents_per_pair: int = 1
) -> PairwiseAccuracy:
    """Return the accuracy from each document's numbers of pairs.

    If s is the share of pairs in the right order, 2s - 1 has the interval of a correlation.
    """
    has_pair = n_pairs > 0
    n_right, n_pairs, share, interval = n_right[has_pair], n_pairs[has_pair], np.nan, None
    if n_pairs.size:
        share = float(n_right.sum() / n_pairs.sum())
        document_errors = 2 * documents_per_pair * (n_right - share * n_pairs) / n_pairs.mean()
        interval = correlation_interval(2 * share - 1, document_errors)
    return PairwiseAccuracy(
        value=share,
        interval=interval and Interval((1 + interval.low) / 2, (1 + interval.high) / 2),
        n_pairs=round(n_pairs.sum()),
        n_ties=round(n_ties.sum()),
        n_documents=n_pairs.size,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleComparison:
    """Means and standard deviations of a judge's scores and people's ratings of the same outputs.

    `shift` is the judge's mean score minus people's mean rating. `is_shifted` says whether the
    interval of the shift excludes 0, and the size of the shift is at least a quarter of `human_sd`.
    """

    judge_mean: float
    human_mean: float
    shift: float
    judge_sd: float
    human_sd: float
    is_shifted: bool
    n_outputs: int
    n_documents: int
    shift_interval: Interval | None


def compare_scales(rows: ScoredRows) -> ScaleComparison | None:
    """Compare the means and standard deviations of scores and ratings; None without a score."""
    n = rows.scores.size
    if not n:
        return None
    differences = rows.scores - rows.labels
    shift = float(differences.mean())
    document_sums = rows.document_sums(differences - shift)
    interval = interval_of_mean(shift + document_sums * rows.n_documents / n)
    human_sd = float(rows.labels.std())
    is_zero_excluded = interval is not None and 0 not in interval
    return ScaleComparison(
        judge_mean=float(rows.scores.mean()),
        human_mean=float(rows.labels.mean()),
        shift=shift,
        shift_interval=interval,
        is_shifted=is_zero_excluded and abs(shift) >= MIN_SHIFT_IN_SDS * human_sd,
        judge_sd=float(rows.scores.std()),
        human_sd=human_sd,
        n_outputs=n,
        n_documents=rows.n_documents,
    )


def nearest_ratings(values: ArrayLike, scale: ArrayLike) -> Vector:
    """Round values to the nearest rating, and midpoints to the higher rating; NaN stays NaN."""
    scores, ratings = np.asarray(values, dtype=float), np.unique(np.asarray(scale, dtype=float))
    midpoints = (ratings[1:] + ratings[:-1]) / 2
    nearest_index = np.searchsorted(midpoints, np.nan_to_num(scores), side="right")
    return np.where(np.isnan(scores), np.nan, ratings[nearest_index])


def quadratic_kappa(ratings_a: Vector, ratings_b: Vector) -> float:
    """Return Cohen's (1968) kappa with quadratic weights; NaN if all ratings are equal.

    Kappa is 1 minus the mean squared difference of the ratings, divided by its expectation if the
    ratings are paired at random. The expectation is var(a) + var(b) + (mean(a) - mean(b))^2.
    """
    if not ratings_a.size or np.ptp([ratings_a, ratings_b]) == 0:
        return np.nan
    mean_difference = ratings_a.mean() - ratings_b.mean()
    expected_square = ratings_a.var() + ratings_b.var() + mean_difference**2
    return float(1 - ((ratings_a - ratings_b) ** 2).mean() / expected_square)
