"""Agreement in units that need no statistics: shares of pairs, and points on the rating scale.

Pairwise accuracy is the share of pairs of outputs that judge and people put in the same order. The
difference in points between the mean score and the mean rating shows, for example, that a judge
ranks perfectly but rates one point too high. Scores are NaN for failed judgements.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.correlations import Level
from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    Contrast,
    Interval,
    Matrix,
    Vector,
    contrast_from_outputs,
    correlation_interval,
    interval_of_mean,
)
from optimize.statistics.rows import scored_rows

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


def preference_accuracy(
    margin: ArrayLike, human: ArrayLike, document: ArrayLike
) -> PairwiseAccuracy:
    """Return the share of pairs on which a pairwise judge has the same preference as people.

    A margin, of shape (pairs,), is positive if A is preferred, negative if B is, and 0 for a tie.
    Pairs are left out if people tied, or if the judge's margin is NaN.
    """
    judge_margins, human_margins = np.asarray(margin, dtype=float), np.asarray(human, dtype=float)
    is_compared = (human_margins != 0) & ~np.isnan(judge_margins)
    judge_signs = np.sign(judge_margins[is_compared])
    credits = (1 + judge_signs * np.sign(human_margins[is_compared])) / 2
    documents = np.asarray(document)[is_compared]
    document_names, codes = np.unique(documents, return_inverse=True)
    return PairwiseAccuracy(
        value=float(credits.mean()) if credits.size else np.nan,
        interval=_interval_of_share(np.bincount(codes, credits), np.bincount(codes)),
        n_pairs=int(credits.size),
        n_ties=int((judge_signs == 0).sum()),
        n_documents=document_names.size,
    )


def contrast_pair_accuracy(
    margin_a: ArrayLike, margin_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Return pairwise judge A's accuracy minus B's, on pairs that people decide and both judge."""
    signs_a, signs_b = np.sign(np.asarray([margin_a, margin_b], dtype=float))
    human_signs = np.sign(np.asarray(human, dtype=float))
    differences = (signs_a - signs_b) * human_signs / 2
    is_compared = (human_signs != 0) & ~np.isnan(differences)
    summands = differences[is_compared] / max(is_compared.sum(), 1)
    return contrast_from_outputs(summands, np.asarray(document)[is_compared])


def pairwise_accuracy(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    level: Level = "summary",
    weight: ArrayLike | None = None,
) -> PairwiseAccuracy:
    """Return the share of pairs of outputs that the judge orders as people do.

    The share is (1 + D) / 2, where D is Somers' (1962) D. At dataset level, or if every document
    has only one output, any two outputs form a pair; otherwise only two outputs of the same
    document. Pairs are weighted by the weights of their documents, also in `n_pairs` and `n_ties`.
    The vectors have shape (outputs,).
    """
    rows = scored_rows(judge, human, document, weight=weight)
    # Round, because rounding errors of the sums must not break ties.
    scores_and_ratings: Matrix = np.stack([rows.scores, rows.labels]).round(12)
    is_across_documents = level == "dataset" or rows.n_documents == rows.scores.size
    if is_across_documents:
        pair_weights = _pair_weights(scores_and_ratings, rows.weights)
    else:
        values_by_document = np.split(scores_and_ratings, rows.first_output_rows[1:], axis=1)
        pair_weights = np.hstack(
            [_pair_weights(values, np.ones(values.shape[1])) for values in values_by_document]
        )
    concordant_weights, decided_weights, tied_weights = (
        np.bincount(rows.document_codes, weights, rows.n_documents).astype(float)
        for weights in pair_weights * rows.weights
    )
    has_pair = decided_weights > 0
    concordant, decided = concordant_weights[has_pair], decided_weights[has_pair]
    interval = None
    if not is_across_documents or rows.n_untied_documents >= MIN_DOCUMENTS_FOR_INTERVAL:
        # If any two outputs form a pair, each pair is in the sums of two documents.
        documents_per_pair = 2 if is_across_documents else 1
        interval = _interval_of_share(concordant, decided, documents_per_pair)
    return PairwiseAccuracy(
        value=float(concordant.sum() / decided.sum()) if decided.size else np.nan,
        interval=interval,
        n_pairs=round(decided.sum() / 2),
        n_ties=round(tied_weights.sum() / 2),
        n_documents=decided.size,
    )


def _pair_weights(scores_and_ratings: Matrix, weight: Vector) -> Matrix:
    """Return sums over each output's pairs: concordant, untied by people, tied by the judge."""
    pair_sums = np.empty((3, weight.size))
    for output in range(weight.size):
        score_signs, rating_signs = np.sign(scores_and_ratings[:, [output]] - scores_and_ratings)
        is_decided = rating_signs != 0
        decided_weight = is_decided @ weight
        same_order_weight = (decided_weight + (score_signs * rating_signs) @ weight) / 2
        tied_weight = (is_decided & (score_signs == 0)) @ weight
        pair_sums[:, output] = same_order_weight, decided_weight, tied_weight
    return pair_sums


def _interval_of_share(
    n_concordant: NDArray[np.number], n_pairs: NDArray[np.number], documents_per_pair: int = 1
) -> Interval | None:
    """Return the interval for the share s of concordant pairs; 2s - 1 counts as a correlation."""
    if not n_pairs.size:
        return None
    share = float(n_concordant.sum() / n_pairs.sum())
    document_errors = 2 * documents_per_pair * (n_concordant - share * n_pairs) / n_pairs.mean()
    interval = correlation_interval(2 * share - 1, document_errors)
    return None if interval is None else Interval((1 + interval.low) / 2, (1 + interval.high) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleComparison:
    """Means and standard deviations of a judge's scores and people's ratings of the same outputs.

    `shift` is the judge's mean score minus people's mean rating. `is_shifted` says whether its
    interval excludes 0, and it is at least a quarter of the ratings' standard deviation.
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


def compare_scales(
    judge: ArrayLike, human: ArrayLike, document: ArrayLike | None = None
) -> ScaleComparison | None:
    """Compare the means and standard deviations of scores and ratings; None if all are NaN."""
    rows = scored_rows(judge, human, document)
    n = rows.scores.size
    if not n:
        return None
    differences = rows.scores - rows.labels
    shift = float(differences.mean())
    document_sums = np.bincount(rows.document_codes, differences - shift)
    interval = interval_of_mean(shift + document_sums * rows.n_documents / n)
    human_sd = float(rows.labels.std())
    excludes_zero = interval is not None and 0 not in interval
    return ScaleComparison(
        judge_mean=float(rows.scores.mean()),
        human_mean=float(rows.labels.mean()),
        shift=shift,
        shift_interval=interval,
        is_shifted=excludes_zero and abs(shift) >= MIN_SHIFT_IN_SDS * human_sd,
        judge_sd=float(rows.scores.std()),
        human_sd=human_sd,
        n_outputs=n,
        n_documents=rows.n_documents,
    )


def nearest_ratings(values: ArrayLike, scale: ArrayLike) -> Vector:
    """Round each value to the nearest rating, halfway to the higher one; NaN stays NaN."""
    scores, ratings = np.asarray(values, dtype=float), np.unique(np.asarray(scale, dtype=float))
    midpoints = (ratings[1:] + ratings[:-1]) / 2
    nearest_index = np.searchsorted(midpoints, np.nan_to_num(scores), side="right")
    return np.where(np.isnan(scores), np.nan, ratings[nearest_index])


def quadratic_kappa(ratings_a: Vector, ratings_b: Vector) -> float:
    """Return Cohen's (1968) kappa with quadratic weights; NaN if all ratings are equal.

    Kappa is 1 minus the mean squared difference of the ratings, divided by the mean that is
    expected if the ratings are paired at random: var(a) + var(b) + (mean(a) - mean(b))^2.
    """
    if not ratings_a.size or np.ptp([ratings_a, ratings_b]) == 0:
        return np.nan
    mean_difference = ratings_a.mean() - ratings_b.mean()
    expected_square = ratings_a.var() + ratings_b.var() + mean_difference**2
    return float(1 - ((ratings_a - ratings_b) ** 2).mean() / expected_square)
