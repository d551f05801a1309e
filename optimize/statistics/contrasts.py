"""The difference between two judges' rank correlations with people's ratings."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.coefficients import COEFFICIENTS, standardise
from optimize.statistics.correlations import Level, needed_systems, rho_contributions, system_means
from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    Contrast,
    Matrix,
    Vector,
    contrast_from_documents,
    interval_of_mean,
    random_generator,
)
from optimize.statistics.rows import ScoredRows, scored_rows

# How often the two judges' scores are swapped at random, to estimate the standard error of the
# difference at system level.
N_SWAPS = 1000


def contrast_judges(
    judge_a: ArrayLike,
    judge_b: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    system: ArrayLike | None = None,
    *,
    level: Level = "summary",
) -> Contrast:
    """Return Spearman's rho of judge A minus that of judge B, on outputs that both scored.

    Args:
        judge_a: (outputs,) scores of judge A, NaN for failed judgements.
        judge_b: (outputs,) scores of judge B, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document ids.
        system: (outputs,) system ids, for the system level.
        level: "dataset", "summary" or "system".

    Returns:
        The difference, in [-2, 2], with an interval and data for a permutation test. The attribute
        `documents` is empty if people give all outputs the same rating.

    Raises:
        ValueError: The vectors are invalid, or `system` is missing at system level.
    """
    scores_a, scores_b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    both_scored = ~np.isnan(scores_a) & ~np.isnan(scores_b)
    systems = needed_systems(level, system)
    rows_a, rows_b = (
        scored_rows(np.where(both_scored, scores, np.nan), human, document, systems)
        for scores in (scores_a, scores_b)
    )
    document_names = tuple(map(str, np.unique(np.asarray(document)[both_scored])))
    if level == "system":
        return _contrast_at_system_level(rows_a, rows_b, document_names)
    differences = rho_contributions(rows_a, level) - rho_contributions(rows_b, level)
    contrast = contrast_from_documents(differences, document_names)
    if level == "summary":
        return contrast
    n_untied = min(rows_a.n_untied_documents, rows_b.n_untied_documents)
    interval = contrast.interval if n_untied >= MIN_DOCUMENTS_FOR_INTERVAL else None
    return replace(contrast, interval=interval, n_untied=n_untied)


def _contrast_at_system_level(
    rows_a: ScoredRows, rows_b: ScoredRows, document_names: tuple[str, ...]
) -> Contrast:
    """Return judge A's rho minus judge B's, over the systems' means of standardised scores."""
    mean_ratings = system_means(rows_a)[1]
    if rows_a.n_systems < 2 or np.ptp(mean_ratings) == 0:
        return contrast_from_documents(np.empty(0), ())
    n_documents = rows_a.n_documents
    summands_a, summands_b = _summands_of_system_means(rows_a), _summands_of_system_means(rows_b)
    means_of_both_judges = (summands_a + summands_b).sum(axis=0) / 2

    def rho_of_means(means: Matrix) -> Vector:
        # Round, so that rounding errors break no ties. Means of standardised scores are near 1.
        rounded_means, ratings = np.round(means, 12), np.broadcast_to(mean_ratings, means.shape)
        return np.nan_to_num(COEFFICIENTS["spearman"].of_rows(rounded_means, ratings))

    def rho_differences(signs: Matrix) -> Vector:
        half_difference = signs @ (summands_a - summands_b) / 2
        rho_a = rho_of_means(means_of_both_judges + half_difference)
        return rho_a - rho_of_means(means_of_both_judges - half_difference)

    standard_error = np.inf
    if n_documents > 1:
        random_signs = random_generator(0, "swaps").choice([-1.0, 1.0], (N_SWAPS, n_documents))
        standard_error = float(np.sqrt((rho_differences(random_signs) ** 2).mean()))
    contributions_a, contributions_b = (
        rho_contributions(scored_rows(*system_means(rows)), "dataset") for rows in (rows_a, rows_b)
    )
    differences = contributions_a - contributions_b
    return Contrast(
        value=float(rho_differences(np.ones((1, n_documents)))[0]),
        error=standard_error,
        documents=document_names,
        contributions=differences,
        interval=interval_of_mean(differences, bound=2),
        swapped=rho_differences,
    )


def _summands_of_system_means(rows: ScoredRows) -> Matrix:
    """Return what each document adds to each system's mean; shape (documents, systems)."""
    # Scores are standardised, because a permutation swaps scores of judges with different scales.
    scores, n_cells = standardise(rows.scores, rows.weights), rows.n_documents * rows.n_systems
    cell_codes = rows.document_codes * rows.n_systems + rows.system_codes
    cell_sums = np.bincount(cell_codes, scores, n_cells).reshape(rows.n_documents, rows.n_systems)
    return cell_sums / np.bincount(rows.system_codes, minlength=rows.n_systems)
