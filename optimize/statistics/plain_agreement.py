"""Agreement in units that need no statistics: shares of pairs, and points on the rating scale.

The share of pairs of outputs that judge and people put in the same order replaces a correlation.
The difference in points between mean score and mean rating shows, for example, that a judge ranks
perfectly but rates one point too high. Scores are NaN for failed judgements.
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
    """The share of pairs that a judge orders as people do. Pairs tied by people are left out.

    A pair on which the judge is tied counts half. `value` is NaN if there is no pair.
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

    Margins are positive for a preference for A, negative for B, and 0 for a tie; only the sign
    counts. Pairs are left out if people tied, or if the judge's margin is NaN.
    """
    judge_margins, human_margins = np.asarray(margin, dtype=float), np.asarray(human, dtype=float)
    is_decided = (human_margins != 0) & ~np.isnan(judge_margins)
    correct = (1 + np.sign(judge_margins[is_decided]) * np.sign(human_margins[is_decided])) / 2
    documents = np.asarray(document)[is_decided]
    document_names, codes = np.unique(documents, return_inverse=True)
    return PairwiseAccuracy(
        value=float(correct.mean()) if correct.size else np.nan,
        interval=_interval_of_share(np.bincount(codes, correct), np.bincount(codes)),
        n_pairs=int(correct.size),
        n_ties=int((judge_margins[is_decided] == 0).sum()),
        n_documents=document_names.size,
    )


def contrast_pair_accuracy(
    margin_a: ArrayLike, margin_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Return pairwise judge A's accuracy minus B's, without pairs tied by people or failed."""
    signs_of_a, signs_of_b, human_signs = (
        np.sign(np.asarray(margins, dtype=float)) for margins in (margin_a, margin_b, human)
    )
    differences = (signs_of_a - signs_of_b) * human_signs / 2
    is_compared = (human_signs != 0) & ~np.isnan(differences)
    contributions = differences[is_compared] / max(is_compared.sum(), 1)
    return contrast_from_outputs(contributions, np.asarray(document)[is_compared])


def pairwise_accuracy(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    level: Level = "summary",
    weight: ArrayLike | None = None,
) -> PairwiseAccuracy:
    """Return the share of pairs of outputs that the judge orders as people do: (1 + Somers' D) / 2.

    At summary level, only two outputs of the same document form a pair. At dataset level, or if
    every document has only one output, any two outputs form a pair. Pairs are weighted by the
    weights of their documents, also in the counts `n_pairs` and `n_ties`.
    """
    rows = scored_rows(judge, human, document, weight=weight)
    # Round, because rounding errors of the sums must not break ties.
    scores_and_ratings: Matrix = np.stack([rows.scores, rows.labels]).round(12)
    across_documents = level == "dataset" or rows.n_documents == rows.scores.size
    if across_documents:
        pair_weights = _pair_weights(scores_and_ratings, rows.weights)
    else:
        values_by_document = np.split(scores_and_ratings, rows.first_output_rows[1:], axis=1)
        pair_weights = np.hstack(
            [_pair_weights(columns, np.ones(columns.shape[1])) for columns in values_by_document]
        )
    concordant_weight, decided_weight, tied_weight = (
        np.bincount(rows.document_codes, weights, rows.n_documents).astype(float)
        for weights in pair_weights * rows.weights
    )
    has_pair = decided_weight > 0
    interval = None
    if not across_documents or rows.n_untied_documents >= MIN_DOCUMENTS_FOR_INTERVAL:
        # If any two outputs form a pair, each pair is in the sums of two documents.
        interval = _interval_of_share(
            concordant_weight[has_pair], decided_weight[has_pair], 2 if across_documents else 1
        )
    return PairwiseAccuracy(
        value=float(concordant_weight.sum() / decided_weight.sum()) if has_pair.any() else np.nan,
        interval=interval,
        n_pairs=round(decided_weight.sum() / 2),
        n_ties=round(tied_weight.sum() / 2),
        n_documents=int(has_pair.sum()),
    )


def _pair_weights(values: Matrix, weight: Vector) -> Matrix:
    """Return three sums of weights over each output's pairs with others; shape (3, outputs).

    The first row sums over pairs that the judge orders as people do, the second row over all pairs
    that people have not tied, and the third row over pairs that only the judge has tied.
    """
    pair_sums = np.empty((3, weight.size))
    for output in range(weight.size):
        judge_signs, human_signs = np.sign(values[:, [output]] - values)
        is_decided = human_signs != 0
        decided_weight = is_decided @ weight
        same_order_weight = (decided_weight + (judge_signs * human_signs) @ weight) / 2
        tied_weight = (is_decided & (judge_signs == 0)) @ weight
        pair_sums[:, output] = same_order_weight, decided_weight, tied_weight
    return pair_sums


def _interval_of_share(
    n_same_order: NDArray[np.number], counts: NDArray[np.number], documents_per_pair: int = 1
) -> Interval | None:
    """Return one interval for the share of pairs in the same order, clustered by document.

    A share s is treated as a correlation of 2s - 1.
    """
    if not counts.size:
        return None
    share = float(n_same_order.sum() / counts.sum())
    document_errors = 2 * documents_per_pair * (n_same_order - share * counts) / counts.mean()
    interval = correlation_interval(2 * share - 1, document_errors)
    return None if interval is None else Interval((1 + interval.low) / 2, (1 + interval.high) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleComparison:
    """Means and standard deviations of a judge's scores and people's ratings of the same outputs.

    `shift` is the judge's mean score minus people's mean rating. `is_shifted` is true if the
    interval of the shift excludes 0, and the shift is at least a quarter of the standard deviation
    of people's ratings.
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
    """Compare the scale use of judge and people: means and standard deviations.

    NaN scores are left out. Returns None if all scores are NaN.
    """
    rows = scored_rows(judge, human, document)
    n = rows.scores.size
    if not n:
        return None
    differences = rows.scores - rows.labels
    shift = float(differences.mean())
    document_sums = np.bincount(rows.document_codes, differences - shift)
    interval = interval_of_mean(shift + document_sums * rows.n_documents / n)
    excludes_zero, human_sd = interval is not None and 0 not in interval, float(rows.labels.std())
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
    numbers, ratings = np.asarray(values, dtype=float), np.unique(np.asarray(scale, dtype=float))
    midpoints = (ratings[1:] + ratings[:-1]) / 2
    nearest_index = np.searchsorted(midpoints, np.nan_to_num(numbers), side="right")
    return np.where(np.isnan(numbers), np.nan, ratings[nearest_index])


def quadratic_kappa(a: Vector, b: Vector) -> float:
    """Return Cohen's kappa with quadratic weights: 1 - mean((a - b)^2) / expected mean((a - b)^2).

    The expected mean, over random pairings of the ratings, is var(a) + var(b) + (mean(a) -
    mean(b))^2. If this is 0, because all ratings are equal, kappa is NaN.
    """
    expected_square = a.var() + b.var() + (a.mean() - b.mean()) ** 2 if a.size else 0.0
    return float(1 - ((a - b) ** 2).mean() / expected_square) if expected_square > 0 else np.nan
