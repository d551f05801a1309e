"""Rank correlation of a judge's scores with people's ratings, at three levels.

The dataset level correlates all outputs. The summary level correlates the outputs of each document,
and averages over documents. The system level correlates the systems' mean scores and mean ratings.
All vectors have shape (outputs,). A score is NaN if the judgement failed; such outputs are left out
and counted. If documents were drawn with unequal probabilities, `weight` is the weight of each
output's document. An interval is for the population that the documents (at system level, the
systems) are a sample of.
"""

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.coefficients import (
    COEFFICIENTS,
    standardise,
    sums_above,
    weighted_midranks,
)
from optimize.statistics.intervals import Interval, Vector, correlation_interval, system_interval
from optimize.statistics.rows import ScoredRows, scored_rows

# What a level ranks: the outputs of each document, all outputs, or the systems by their means.
Level = Literal["summary", "dataset", "system"]
UndefinedRule = Literal["judge_zero", "left_out"]

# By default, a document is left out if people give all of its outputs the same rating. A document
# counts as a rho of 0 if only the judge gives all of its outputs the same score.
DEFAULT_UNDEFINED_RULE: UndefinedRule = "judge_zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A rank correlation with its interval and its counts.

    Attributes:
        value: The coefficient, in [-1, 1]; NaN if it is undefined.
        coefficient: A name of `COEFFICIENTS`, such as "spearman".
        level: "dataset", "summary" or "system".
        interval: The 95 % interval; None for fewer than 15 documents (at system level, systems),
            for a perfect or undefined value, and at dataset level if nearly all labels or scores
            are equal. At dataset and system level only Spearman's rho has an interval.
        n_outputs: How many outputs have a score.
        n_documents: From how many documents the value is computed.
        n_undefined: At summary level, on how many documents the coefficient is undefined.
        n_failed: How many outputs have no score because the judge failed.
        n_zero: How many of the `n_undefined` documents count as 0.
        undefined: "judge_zero" or "left_out": how undefined documents count (see `summary_level`).
    """

    coefficient: str
    level: Level
    value: float
    interval: Interval | None
    n_outputs: int
    n_documents: int
    n_undefined: int = 0
    n_failed: int
    n_zero: int = 0
    undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE

    @property
    def symbol(self) -> str:
        return COEFFICIENTS[self.coefficient].symbol or self.coefficient


def dataset_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    weight: ArrayLike | None = None,
) -> Correlation:
    """Return the correlation of scores with ratings over all outputs.

    The correlation is undefined if all scores, or all ratings, are equal.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document ids of any type. By default each output is its own document.
        coefficient: A name of `COEFFICIENTS`.
        undefined: The value if only the judge's scores are constant: 0 with "judge_zero", NaN with
            "left_out".
        weight: (outputs,) weights of the outputs' documents.

    Raises:
        ValueError: The vectors are invalid, or the coefficient has no weighted form.
    """
    rows = scored_rows(judge, human, document, weight=weight)
    return correlation_of_rows("dataset", rows, coefficient, undefined)


def summary_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    coefficient: str = "spearman",
    undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    weight: ArrayLike | None = None,
) -> Correlation:
    """Return the mean over documents of the correlation within each document.

    This is the summary-level correlation of Bhandari et al. (2020, arXiv:2010.07100). The
    correlation within a document is undefined if its scores or its ratings are constant. Documents
    with fewer than two scored outputs are left out. With `undefined="judge_zero"`, a document
    counts as 0 if only the judge's scores on it are constant. With "left_out", documents with
    constant scores are left out, as in most published tables. `dataset_level` describes the other
    arguments.
    """
    rows = scored_rows(judge, human, document, weight=weight)
    return correlation_of_rows("summary", rows, coefficient, undefined)


def system_level(
    judge: ArrayLike,
    human: ArrayLike,
    system: ArrayLike,
    document: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    weight: ArrayLike | None = None,
) -> Correlation:
    """Return the correlation, over systems, of a system's mean score with its mean human rating.

    A system's means are over the outputs that have a score. Only Spearman's rho has an interval.
    The interval is for the population that the systems are a sample of, if each of its systems is
    measured on as many documents as here. `system` has the system ids, of shape (outputs,).
    `dataset_level` describes the other arguments.
    """
    rows = scored_rows(judge, human, document, system, weight)
    return correlation_of_rows("system", rows, coefficient, undefined)


def correlation(
    level: Level,
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    weight: ArrayLike | None = None,
) -> Correlation:
    """Return the correlation at `level`; ValueError for unknown names or missing systems."""
    rows = scored_rows(judge, human, document, needed_systems(level, system), weight)
    return correlation_of_rows(level, rows, coefficient, undefined)


def needed_systems(level: Level, system: ArrayLike | None) -> ArrayLike | None:
    """Return `system` at system level, where it is required, and None at other levels."""
    _check_name("level", level, get_args(Level))
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    return system if level == "system" else None


def _check_name(argument: str, name: str, allowed_names: Collection[str]) -> None:
    if name not in allowed_names:
        raise ValueError(f"{argument} {name!r}: it must be one of {', '.join(allowed_names)}")


def correlation_of_rows(
    level: Level, rows: ScoredRows, coefficient: str, undefined: UndefinedRule
) -> Correlation:
    _check_name("coefficient", coefficient, COEFFICIENTS)
    _check_name("undefined", undefined, get_args(UndefinedRule))
    build_correlation = partial(
        Correlation,
        coefficient=coefficient,
        level=level,
        n_outputs=rows.scores.size,
        n_failed=rows.n_failed,
        undefined=undefined,
    )
    if level != "summary":
        ranked_rows = scored_rows(*system_means(rows)) if level == "system" else rows
        value, interval = _overall_coefficient(ranked_rows, coefficient, undefined), None
        if coefficient == "spearman" and level == "system":
            interval = system_interval(value, rows.n_systems)
        elif coefficient == "spearman" and rows.has_enough_untied_documents:
            interval = correlation_interval(value, rho_contributions(rows, "dataset"))
        return build_correlation(value=value, interval=interval, n_documents=rows.n_documents)
    coefficients = _coefficients_within_documents(rows, coefficient)
    n_defined = int((~np.isnan(coefficients)).sum())
    if undefined == "judge_zero":
        coefficients = _with_zeros(coefficients, rows)
    is_counted = ~np.isnan(coefficients)
    values, mean_coefficient = coefficients[is_counted], np.nan
    if values.size:
        weights = rows.weights[rows.first_output_rows][is_counted]
        mean_coefficient = float(np.average(values, weights=weights))
        # Shift the coefficients so that their unweighted mean is their weighted mean.
        values += (weights / weights.mean() - 1) * (values - mean_coefficient)
    return build_correlation(
        value=mean_coefficient,
        interval=correlation_interval(mean_coefficient, values),
        n_documents=values.size,
        n_undefined=rows.n_documents - n_defined + rows.n_unscored_documents,
        n_zero=values.size - n_defined,
    )


def _overall_coefficient(rows: ScoredRows, coefficient: str, undefined: UndefinedRule) -> float:
    """Return the coefficient over all outputs; with "judge_zero", 0 if only scores are constant."""
    scores, ratings, weights = rows.scores, rows.labels, rows.weights
    if weights.size < 2:
        return np.nan
    if np.ptp(scores) == 0 and np.ptp(ratings) > 0 and undefined == "judge_zero":
        return 0.0
    if min(np.ptp(scores), np.ptp(ratings), np.ptp(weights)) == 0:
        return float(COEFFICIENTS[coefficient].of_rows(scores[None], ratings[None])[0])
    of_weighted = COEFFICIENTS[coefficient].of_weighted
    if of_weighted is None:
        raise ValueError(f"{coefficient} over all outputs has no weighted form")
    return of_weighted(scores, ratings, weights)


def system_means(rows: ScoredRows) -> list[Vector]:
    """Return each system's mean score and mean rating, divided by the largest absolute mean."""
    system_weights = np.bincount(rows.system_codes, rows.weights, rows.n_systems)
    scaled_means = []
    for values in (rows.scores, rows.labels):
        sums = np.bincount(rows.system_codes, values * rows.weights, rows.n_systems)
        means = sums / system_weights
        largest_mean = float(np.abs(means).max(initial=0.0)) or 1.0
        # Rounding errors of the sums must not break ties.
        scaled_means.append(np.round(means / largest_mean, 12))
    return scaled_means


def rho_contributions(rows: ScoredRows, level: Level) -> Vector:
    """Return each document's contribution to Spearman's rho, which is the mean of contributions.

    At summary level, a contribution is the rho within the document. An undefined rho is 0 or NaN,
    by `DEFAULT_UNDEFINED_RULE`; the mean leaves out NaN. At dataset level, a contribution is the
    rho over all outputs plus the document's influence on this rho.
    """
    if level == "summary":
        return _with_zeros(_coefficients_within_documents(rows, "spearman"), rows)
    if rows.labels.size < 2 or np.ptp(rows.labels) == 0:
        return np.full(rows.n_documents, np.nan)
    if np.ptp(rows.scores) == 0:
        return np.zeros(rows.n_documents)
    # With the standardised mid-ranks x and y of scores and ratings, rho is r = mean(xy). An output
    # influences r in two ways: directly, and through its effect on the ranks of all other outputs.
    weights = rows.weights
    x = standardise(weighted_midranks(rows.scores, weights), weights)
    y = standardise(weighted_midranks(rows.labels, weights), weights)
    r = float(np.average(x * y, weights=weights))
    influence = (
        x * y
        - r * (x * x + y * y) / 2
        + _effect_through_ranks(rows.scores, y - r * x, weights)
        + _effect_through_ranks(rows.labels, x - r * y, weights)
    )
    return r + rows.document_sums(influence * weights) * rows.n_documents / influence.size


def _coefficients_within_documents(rows: ScoredRows, coefficient: str) -> Vector:
    """Return the coefficient within each document; NaN if all scores or all labels are equal."""
    n_outputs = np.bincount(rows.document_codes, minlength=rows.n_documents)
    coefficients = np.full(n_outputs.size, np.nan)
    for document_size in np.unique(n_outputs[n_outputs > 1]):
        documents_of_size = np.flatnonzero(n_outputs == document_size)
        output_rows = rows.first_output_rows[documents_of_size, None] + np.arange(document_size)
        coefficients[documents_of_size] = COEFFICIENTS[coefficient].of_rows(
            rows.scores[output_rows], rows.labels[output_rows]
        )
    return coefficients


def _with_zeros(coefficients: Vector, rows: ScoredRows) -> Vector:
    """Return the coefficients, with 0 for documents on which only the scores are constant."""
    first_labels = rows.labels[rows.first_output_rows]
    is_other_label = rows.labels != first_labels[rows.document_codes]
    has_varied_labels = rows.document_sums(is_other_label) > 0
    return np.where(np.isnan(coefficients) & has_varied_labels, 0.0, coefficients)


def _effect_through_ranks(scores: Vector, rho_per_rank: Vector, weight: Vector) -> Vector:
    """Return how each output changes rho through its effect on the ranks of all other outputs."""
    ranks = weighted_midranks(scores, weight)
    deviations = ranks - np.average(ranks, weights=weight)
    rank_sd = np.sqrt(np.average(deviations**2, weights=weight))
    # An output raises the ranks of outputs with higher scores by 1, and with equal scores by .5.
    effects = sums_above(scores, rho_per_rank * weight) / rank_sd
    return np.asarray(effects - np.average(effects, weights=weight))
