"""Agreement between human annotators, and agreement of the judge with each annotator.

`ratings` is always a matrix of shape (outputs, annotators). A cell is NaN if the annotator did not
rate the output.
"""

from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.correlations import Level, correlation, rho_contributions
from optimize.statistics.intervals import (
    Codes,
    IntervalEstimate,
    Matrix,
    Vector,
    correlation_interval,
    interval_of_mean,
)
from optimize.statistics.plain_agreement import nearest_ratings, quadratic_kappa
from optimize.statistics.rows import scored_rows


def _read_ratings(
    ratings: ArrayLike, document: ArrayLike | None, system: ArrayLike | None
) -> tuple[Matrix, NDArray[np.generic], NDArray[np.generic]]:
    """Return ratings, documents and systems as arrays; ValueError if their shapes do not match."""
    matrix = np.asarray(ratings, dtype=float)
    documents = np.arange(len(matrix)) if document is None else np.asarray(document)
    systems = np.zeros(len(matrix)) if system is None else np.asarray(system)
    if matrix.ndim != 2 or {documents.shape, systems.shape} != {matrix.shape[:1]}:
        raise ValueError(
            f"ratings of shape {matrix.shape} for {documents.size} outputs: give a row for each "
            "output and a column for each annotator"
        )
    return matrix, documents, systems


def _rho(level: Level, judge: Vector, human: Vector, *ids: NDArray[np.generic]) -> float:
    """Return Spearman's rho, without outputs that have NaN in one of the vectors."""
    both_rated = ~np.isnan(judge + human)
    return correlation(level, *(vector[both_rated] for vector in (judge, human, *ids))).value


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatorAgreement:
    """The agreement of two annotators, or of the judge and an annotator.

    `first` and `second` are the annotators' columns in `ratings`; `first` is None for the judge.
    `equal` is the share of outputs to which the two give the same label. `kappa` is Cohen's kappa
    with quadratic weights, and `rho` Spearman's rho.
    """

    first: int | None
    second: int
    equal: float
    kappa: float
    rho: float
    n_outputs: int


def annotator_agreement(
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "dataset",
    system: ArrayLike | None = None,
    judge: ArrayLike | None = None,
    scale: ArrayLike | None = None,
) -> tuple[AnnotatorAgreement, ...]:
    """Return the agreement of the judge with each annotator, and of every pair of annotators.

    Args:
        ratings: (outputs, annotators) ratings, NaN if the annotator did not rate the output.
        document: (outputs,) document ids. By default each output is its own document.
        level: The level of rho: "dataset" (over all outputs), "summary" (the mean over documents)
            or "system" (over the systems' means).
        system: (outputs,) system ids, for the system level.
        judge: (outputs,) the judge's scores, NaN for failed judgements.
        scale: All possible ratings. Scores are rounded to these ratings for `equal` and `kappa`.

    Returns:
        The agreement of the judge with each annotator, then of annotators who share an output.

    Raises:
        ValueError: The shapes of the arguments do not match.
    """
    matrix, *ids = _read_ratings(ratings, document, system)
    judge_and_annotators = [*enumerate(matrix.T)]
    # The judge comes first, and has -1 in place of an annotator's column in `ratings`.
    if judge is not None:
        judge_and_annotators.insert(0, (-1, np.asarray(judge, dtype=float)))
    agreements = []
    for (column_a, ratings_a), (column_b, ratings_b) in combinations(judge_and_annotators, 2):
        both_rated = ~np.isnan(ratings_a + ratings_b)
        if not both_rated.any():
            continue
        rho = _rho(level, ratings_a, ratings_b, *ids)
        labels_a, labels_b = ratings_a[both_rated], ratings_b[both_rated]
        if column_a >= 0:
            # If one annotator gives all outputs of a document the same rating, rho on this document
            # is 0 or NaN, depending on the order of the arguments. So both orders are averaged.
            rho = (rho + _rho(level, ratings_b, ratings_a, *ids)) / 2
        elif scale is not None:
            labels_a = nearest_ratings(labels_a, scale)
        agreement = AnnotatorAgreement(
            first=column_a if column_a >= 0 else None,
            second=column_b,
            equal=float(np.isclose(labels_a, labels_b).mean()),
            kappa=quadratic_kappa(labels_a, labels_b),
            rho=rho,
            n_outputs=labels_a.size,
        )
        agreements.append(agreement)
    return tuple(agreements)


@dataclass(frozen=True, slots=True, kw_only=True)
class OneAnnotatorComparison:
    """How well one annotator and the judge agree with the mean of all other annotators.

    `annotator` and `judge` are Spearman's rho, averaged over the annotators, and `gap` is the
    judge's rho minus the annotator's. Intervals are clustered by document. An interval is None at
    system level, for fewer than 15 documents, and at dataset level if nearly all labels are equal.
    """

    annotator: IntervalEstimate
    judge: IntervalEstimate
    gap: IntervalEstimate
    n_outputs: int
    n_documents: int


def one_annotator(
    judge: ArrayLike,
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "summary",
    system: ArrayLike | None = None,
) -> OneAnnotatorComparison | None:
    """Compare the judge with a single annotator by their agreement with all other annotators.

    Each annotator in turn, and the judge, are compared with the mean rating of all other
    annotators. Only outputs count that the judge, the annotator and at least one other annotator
    rated. A document is left out if the mean ratings of its outputs are all equal. The rho on a
    document is 0 for an annotator or judge whose own ratings of its outputs are all equal.
    `annotator_agreement` describes the arguments. The result is None if no rho is defined.
    """
    scores = np.asarray(judge, dtype=float)
    matrix, documents, systems = _read_ratings(ratings, document, system)
    is_compared = ((~np.isnan(matrix)).sum(axis=1) > 1) & ~np.isnan(scores)
    scores, matrix, systems = scores[is_compared], matrix[is_compared], systems[is_compared]
    document_codes = np.unique(documents[is_compared], return_inverse=True)[1]
    if not scores.size:
        return None
    rhos, contributions = [], []
    for column, annotator_ratings in enumerate(matrix.T):
        # Round, because rounding errors of the sums must not break ties.
        others_mean: Vector = np.nanmean(np.delete(matrix, column, axis=1), axis=1).round(10)
        others_mean[np.isnan(annotator_ratings)] = np.nan
        pair = scores, annotator_ratings
        pair_rhos = [_rho(level, vector, others_mean, document_codes, systems) for vector in pair]
        if not np.isnan(pair_rhos).any():
            rhos.append(pair_rhos)
            contributions.append(
                [_contributions(level, vector, others_mean, document_codes) for vector in pair]
            )
    if not rhos:
        return None
    judge_rho, annotator_rho = np.mean(rhos, axis=0).tolist()
    judge_parts, annotator_parts = _mean_over_annotators(np.array(contributions))
    annotator_interval = correlation_interval(annotator_rho, annotator_parts)
    gap_interval = interval_of_mean(judge_parts - annotator_parts, bound=2)
    return OneAnnotatorComparison(
        annotator=IntervalEstimate(annotator_rho, annotator_interval),
        judge=IntervalEstimate(judge_rho, correlation_interval(judge_rho, judge_parts)),
        gap=IntervalEstimate(judge_rho - annotator_rho, gap_interval),
        n_outputs=scores.size,
        n_documents=int(document_codes.max()) + 1,
    )


def _contributions(level: Level, judge: Vector, human: Vector, document_codes: Codes) -> Vector:
    """Return each document's contribution to rho; all are NaN if rho can have no interval."""
    contributions = np.full(int(document_codes.max()) + 1, np.nan)
    both_rated = ~np.isnan(judge + human)
    rows = scored_rows(judge[both_rated], human[both_rated], document_codes[both_rated])
    if level == "summary" or (level == "dataset" and rows.has_enough_untied_documents):
        contributions[np.unique(document_codes[both_rated])] = rho_contributions(rows, level)
    return contributions


def _mean_over_annotators(contributions: NDArray[np.float64]) -> Matrix:
    """Average contributions (annotators, 2, documents); empty if an annotator has only NaN."""
    is_rated = ~np.isnan(contributions)
    if not is_rated.any(axis=-1).all():
        return np.empty((2, 0))
    is_rated_document = is_rated.any(axis=(0, 1))
    means = np.nanmean(contributions, axis=-1, keepdims=True)
    # A document that an annotator did not rate adds nothing to the error of that annotator's mean.
    scale_factors = is_rated_document.sum() / is_rated.sum(axis=-1, keepdims=True)
    scaled_contributions = means + np.where(is_rated, contributions - means, 0) * scale_factors
    return np.asarray(scaled_contributions.mean(axis=0)[:, is_rated_document])


def reliability(
    ratings: ArrayLike,
    document: ArrayLike | None = None,
    *,
    level: Level = "dataset",
    system: ArrayLike | None = None,
) -> float:
    """Return the reliability of an output's mean rating (Spearman 1910, Brown 1910), in [0, 1].

    The reliability is k r / (1 + (k - 1) r), where r is the mean rho between two single ratings of
    the same outputs, and k is the harmonic mean of the number of ratings per output. A judge's rho
    with the mean rating cannot be much higher than the square root of the reliability.
    `annotator_agreement` describes the arguments. The result is NaN if no output has two ratings,
    or if no rho is defined.
    """
    matrix, *ids = _read_ratings(ratings, document, system)
    rating_counts = (~np.isnan(matrix)).sum(axis=1)
    # The first column holds the first rating of each output, the second column the second rating,
    # and so on. The ratings in a column may come from different annotators.
    sorted_ratings = np.take_along_axis(matrix, np.argsort(np.isnan(matrix), axis=1), axis=1)
    rating_columns = sorted_ratings.T[: rating_counts.max(initial=0)]
    column_pairs = [*permutations(rating_columns, 2)]
    rhos = np.array([_rho(level, *columns, *ids) for columns in column_pairs])
    n_shared_outputs = np.array([(~np.isnan(a + b)).sum() for a, b in column_pairs])
    is_defined = ~np.isnan(rhos)
    if not is_defined.any():
        return np.nan
    mean_rho = float(np.average(rhos[is_defined], weights=n_shared_outputs[is_defined]))
    mean_rho = max(mean_rho, 0.0)
    mean_n_ratings = 1 / (1 / rating_counts[rating_counts > 1]).mean()
    return float(mean_n_ratings * mean_rho / (1 + (mean_n_ratings - 1) * mean_rho))


def krippendorff_alpha(annotations: ArrayLike) -> float:
    """Return Krippendorff's alpha for interval data; at most 1, and 1 if annotators always agree.

    `annotations` has shape (outputs, annotators), with NaN if the annotator did not rate the
    output. The result is NaN if no output has two ratings, or if all ratings are equal.
    """
    import krippendorff

    matrix = _read_ratings(annotations, None, None)[0]
    ratings = matrix[(~np.isnan(matrix)).sum(axis=1) > 1]
    if ratings.size == 0 or np.nanmax(ratings) == np.nanmin(ratings):
        return np.nan
    return float(krippendorff.alpha(ratings.T, level_of_measurement="interval"))
