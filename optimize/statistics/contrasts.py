"""The difference between two judges' rank correlations with people's ratings."""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.coefficients import COEFFICIENTS, standardise
from optimize.statistics.correlations import (
    Level,
    required_systems,
    rho_contributions,
    system_means,
)
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

# Random swaps of two judges' scores, for the standard error of their difference at system level.
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
        `documents` is empty if people rate all outputs alike.

    Raises:
        ValueError: The vectors differ in length or have invalid values (see `scored_rows`), or
            `system` is missing at system level.
    """
    scores_a, scores_b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    both_scored = ~np.isnan(scores_a) & ~np.isnan(scores_b)
    systems = required_systems(level, system)
    rows_a, rows_b = (
        scored_rows(np.where(both_scored, scores, np.nan), human, document, systems)
        for scores in (scores_a, scores_b)
    )
    document_names = tuple(map(str, np.unique(np.asarray(document)[both_scored])))
    if level == "system":
        return _contrast_systems(rows_a, rows_b, document_names)
    differences = rho_contributions(rows_a, level) - rho_contributions(rows_b, level)
    contrast = contrast_from_documents(differences, document_names)
    if level == "summary":
        return contrast
    n_untied = min(rows_a.n_untied_documents, rows_b.n_untied_documents)
    interval = contrast.interval if n_untied >= MIN_DOCUMENTS_FOR_INTERVAL else None
    return replace(contrast, interval=interval, n_untied=n_untied)


def _contrast_systems(
    rows_a: ScoredRows, rows_b: ScoredRows, document_names: tuple[str, ...]
) -> Contrast:
    """Return the contrast of two judges at system level.

    Scores are standardised first, because a swap exchanges the two judges' scores on a document.
    """
    human = system_means(rows_a)[1]
    if rows_a.n_systems < 2 or np.ptp(human) == 0:
        return contrast_from_documents(np.empty(0), ())
    n_documents, n_systems = rows_a.n_documents, rows_a.n_systems
    cells = rows_a.document_codes * n_systems + rows_a.system_codes
    # Of shape (documents, systems): each document's part of each system's mean score.
    contributions_a, contributions_b = (
        np.bincount(cells, standardise(rows.scores, rows.weights), n_documents * n_systems).reshape(
            n_documents, n_systems
        )
        / np.bincount(rows.system_codes, minlength=n_systems)
        for rows in (rows_a, rows_b)
    )
    mean_of_judges = (contributions_a + contributions_b).sum(axis=0) / 2

    def rho_of_means(means: Matrix) -> Vector:
        # The means of standardised scores are of size 1. Rounding errors must not break ties.
        rows = np.round(means, 12), np.broadcast_to(human, means.shape)
        return np.nan_to_num(COEFFICIENTS["spearman"].of_rows(*rows))

    def differences(signs: Matrix) -> Vector:
        half_difference = signs @ (contributions_a - contributions_b) / 2
        rho_a = rho_of_means(mean_of_judges + half_difference)
        return rho_a - rho_of_means(mean_of_judges - half_difference)

    random_signs = random_generator(0, "swaps").choice([-1.0, 1.0], (N_SWAPS, n_documents))
    error = float(np.sqrt((differences(random_signs) ** 2).mean())) if n_documents > 1 else np.inf
    terms_a, terms_b = (
        rho_contributions(scored_rows(system_means(rows)[0], human), "dataset")
        for rows in (rows_a, rows_b)
    )
    return Contrast(
        value=float(differences(np.ones((1, n_documents)))[0]),
        error=error,
        documents=document_names,
        terms=terms_a - terms_b,
        interval=interval_of_mean(terms_a - terms_b, bound=2),
        swapped=differences,
    )
