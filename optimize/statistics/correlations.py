"""Rank correlation of a judge's scores with people's ratings, at three levels.

The three levels are: over all outputs (dataset), within each document and then averaged (summary),
and over the systems' means (system). All functions take vectors of shape (outputs,): the judge's
scores, people's mean ratings, and the ids (of any type) of the outputs' documents or systems. A
score is NaN if the judgement failed; these outputs are left out and counted. If documents were
drawn with unequal probabilities, `weight` is the weight of each output's document. An interval is
for the population that the documents (at system level, the systems) are a sample of.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.coefficients import COEFFICIENTS as COEFFICIENTS
from optimize.statistics.coefficients import Coefficient as Coefficient
from optimize.statistics.coefficients import standardise, sums_above, weighted_midranks
from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    Interval,
    Vector,
    correlation_interval,
    system_interval,
)
from optimize.statistics.rows import ScoredRows, scored_rows

Level = Literal["summary", "dataset", "system"]
UndefinedRule = Literal["judge_zero", "left_out"]

# By default, a document is left out if people rate all of its outputs alike, and counts as a rho of
# 0 if only the judge scores all alike.
DEFAULT_UNDEFINED_RULE: UndefinedRule = "judge_zero"


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A rank correlation with its interval and its counts.

    Attributes:
        value: The correlation, in [-1, 1]; NaN if undefined.
        coefficient: A name of `COEFFICIENTS`, such as "spearman".
        level: "dataset", "summary" or "system".
        interval: The 95 % interval; None for fewer than 15 documents (at system level, systems),
            for a perfect or undefined value, and at dataset level if nearly all labels or scores
            are equal. At dataset and system level only Spearman's rho has an interval.
        n_outputs: How many outputs have a score.
        n_documents: From how many documents the value is computed.
        n_undefined: At summary level, how many documents have no correlation.
        n_failed: How many outputs have no score because the judge failed.
        n_zero: How many of the `n_undefined` documents count as a correlation of 0.
        undefined: The convention for documents without a correlation (see `summary_level`).
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

    The correlation is undefined if the judge gives every output the same score.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document ids, for the interval; by default one for each output.
        coefficient: A name of `COEFFICIENTS`.
        undefined: The value if only the judge's scores are constant: 0 with "judge_zero", NaN with
            "left_out".
        weight: (outputs,) weights of the outputs' documents.

    Raises:
        ValueError: The vectors differ in length or have invalid values (see `scored_rows`), or the
            coefficient has no weighted form.
    """
    rows = scored_rows(judge, human, document, weight=weight)
    return _correlation("dataset", rows, coefficient, undefined)


def summary_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    coefficient: str = "spearman",
    undefined: UndefinedRule = DEFAULT_UNDEFINED_RULE,
    weight: ArrayLike | None = None,
) -> Correlation:
    """Return the mean over documents of the correlation within each document (arXiv:2010.07100).

    The correlation within a document is undefined if its scores or its ratings are constant.
    Documents with fewer than two scored outputs are left out.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document ids.
        coefficient: A name of `COEFFICIENTS`.
        undefined: With "judge_zero", a document counts as 0 if only the judge's scores on it are
            constant, and with "left_out" never, as in most published tables.
        weight: (outputs,) weights of the outputs' documents.

    Raises:
        ValueError: As for `dataset_level`.
    """
    rows = scored_rows(judge, human, document, weight=weight)
    return _correlation("summary", rows, coefficient, undefined)


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

    A system's means are over the outputs that have a score. The interval is for the population that
    the systems are a sample of, if each system is measured on as many documents.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        system: (outputs,) system ids.
        document: (outputs,) document ids, to count the documents.
        coefficient: A name of `COEFFICIENTS`. Only Spearman's rho has an interval.
        undefined: The value if all systems have the same mean score (see `dataset_level`).
        weight: (outputs,) weights of the outputs' documents.

    Raises:
        ValueError: As for `dataset_level`.
    """
    rows = scored_rows(judge, human, document, system, weight)
    return _correlation("system", rows, coefficient, undefined)


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
    """Return the correlation at one level; ValueError for unknown names or missing systems."""
    rows = scored_rows(judge, human, document, required_systems(level, system), weight)
    return _correlation(level, rows, coefficient, undefined)


def required_systems(level: Level, system: ArrayLike | None) -> ArrayLike | None:
    """Return `system` at system level, where it is required, and None at other levels."""
    _check_name("level", level, get_args(Level))
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    return system if level == "system" else None


def _check_name(argument: str, name: str, allowed_names: Collection[str]) -> None:
    if name not in allowed_names:
        raise ValueError(f"{argument} {name!r}: it must be one of {', '.join(allowed_names)}")


def _correlation(
    level: Level, rows: ScoredRows, coefficient: str, undefined: UndefinedRule
) -> Correlation:
    _check_name("coefficient", coefficient, COEFFICIENTS)
    _check_name("undefined", undefined, get_args(UndefinedRule))
    is_spearman, interval = coefficient == "spearman", None
    n_documents, n_undefined, n_zero = rows.n_documents, 0, 0
    if level == "summary":
        document_values = _summary_coefficients(rows, coefficient)
        values = _fill_undefined(document_values, rows, undefined)
        is_defined, n_defined = ~np.isnan(values), int((~np.isnan(document_values)).sum())
        values, weights = values[is_defined], rows.weights[rows.first_output_rows][is_defined]
        value = np.nan
        if values.size:
            value = float(np.average(values, weights=weights))
            # Shift the values so that their plain mean is the weighted mean.
            values += (weights / weights.mean() - 1) * (values - value)
        interval = correlation_interval(value, values)
        n_documents, n_zero = values.size, values.size - n_defined
        n_undefined = rows.n_documents - n_defined + rows.n_unscored_documents
    elif level == "system":
        value = _dataset_coefficient(scored_rows(*system_means(rows)), coefficient, undefined)
        interval = system_interval(value, rows.n_systems) if is_spearman else None
    else:
        value = _dataset_coefficient(rows, coefficient, undefined)
        if is_spearman and rows.n_untied_documents >= MIN_DOCUMENTS_FOR_INTERVAL:
            interval = correlation_interval(value, rho_contributions(rows, "dataset"))
    return Correlation(
        value=value,
        coefficient=coefficient,
        level=level,
        interval=interval,
        n_outputs=rows.scores.size,
        n_documents=n_documents,
        n_undefined=n_undefined,
        n_failed=rows.n_failed,
        n_zero=n_zero,
        undefined=undefined,
    )


def _dataset_coefficient(rows: ScoredRows, coefficient: str, undefined: UndefinedRule) -> float:
    """Return the coefficient over all outputs; with "judge_zero", 0 for constant scores."""
    judge, human, weight = rows.scores, rows.labels, rows.weights
    if weight.size < 2:
        return np.nan
    is_constant = min(np.ptp(judge), np.ptp(human)) == 0
    if is_constant and np.ptp(human) > 0 and undefined == "judge_zero":
        return 0.0
    if is_constant or np.ptp(weight) == 0:
        return float(COEFFICIENTS[coefficient].of_rows(judge[None], human[None])[0])
    of_weighted = COEFFICIENTS[coefficient].of_weighted
    if of_weighted is None:
        raise ValueError(f"{coefficient} over all outputs has no weighted form")
    return of_weighted(judge, human, weight)


def system_means(rows: ScoredRows) -> list[Vector]:
    """Return the judge's and people's mean for each system, divided by the largest mean.

    The means are rounded to 12 digits, because rounding errors of the sums must not break ties.
    """
    weights = np.bincount(rows.system_codes, rows.weights, rows.n_systems)
    scaled_means = []
    for values in (rows.scores, rows.labels):
        means = np.bincount(rows.system_codes, values * rows.weights, rows.n_systems) / weights
        largest_mean = float(np.abs(means).max(initial=0.0)) or 1.0
        scaled_means.append(np.round(means / largest_mean, 12))
    return scaled_means


def rho_contributions(rows: ScoredRows, level: Level) -> Vector:
    """Return one term for each document; the mean of the terms is Spearman's rho.

    At summary level, a term is the rho within the document, with 0 or NaN (left out of the mean) by
    the default convention. At dataset level, a term is the rho over all outputs plus the document's
    influence on rho.
    """
    if level == "summary":
        return _fill_undefined(
            _summary_coefficients(rows, "spearman"), rows, DEFAULT_UNDEFINED_RULE
        )
    if rows.labels.size < 2 or np.ptp(rows.labels) == 0:
        return np.full(rows.n_documents, np.nan)
    if np.ptp(rows.scores) == 0:
        return np.zeros(rows.n_documents)
    return _dataset_terms(rows)


def _summary_coefficients(rows: ScoredRows, coefficient: str) -> Vector:
    """Return the coefficient within each document; NaN if constant or for fewer than two scores."""
    sizes = np.bincount(rows.document_codes, minlength=rows.n_documents)
    values = np.full(sizes.size, np.nan)
    for size in np.unique(sizes[sizes > 1]):
        documents_of_size = np.flatnonzero(sizes == size)
        output_rows = rows.first_output_rows[documents_of_size, None] + np.arange(size)
        values[documents_of_size] = COEFFICIENTS[coefficient].of_rows(
            rows.scores[output_rows], rows.labels[output_rows]
        )
    return values


def _fill_undefined(coefficients: Vector, rows: ScoredRows, undefined: UndefinedRule) -> Vector:
    """Return the documents' coefficients, with 0 in place of NaN if the convention asks for it."""
    if undefined == "left_out" or not rows.n_documents:
        return coefficients
    highest_rating, lowest_rating = (
        extreme.reduceat(rows.labels, rows.first_output_rows)
        for extreme in (np.maximum, np.minimum)
    )
    return np.where(np.isnan(coefficients) & (highest_rating > lowest_rating), 0.0, coefficients)


def _dataset_terms(rows: ScoredRows) -> Vector:
    """Return, for each document, rho over all outputs plus the document's influence on rho.

    Let x and y be the standardised mid-ranks of scores and labels; then rho is r = mean(xy). An
    output influences r in two ways: directly, by xy - r (xx + yy) / 2, and through its effect on
    the ranks of all other outputs. A document's influence is the sum over its outputs.
    """
    n, weight = rows.n_documents, rows.weights
    x, y = (
        standardise(weighted_midranks(values, weight), weight)
        for values in (rows.scores, rows.labels)
    )
    r = float(np.average(x * y, weights=weight))
    influence = (
        x * y
        - r * (x * x + y * y) / 2
        + _effect_through_ranks(rows.scores, y - r * x, weight)
        + _effect_through_ranks(rows.labels, x - r * y, weight)
    )
    terms: Vector = r + np.bincount(rows.document_codes, influence * weight, n) * n / influence.size
    return terms


def _effect_through_ranks(scores: Vector, slope: Vector, weight: Vector) -> Vector:
    """Return how each output changes rho through its effect on the ranks of all other outputs.

    An output raises the rank of each output with a higher score by one, and the rank of each output
    with an equal score by a half. `slope` is how much rho changes with an output's standardised
    rank. The result is centred.
    """
    ranks = weighted_midranks(scores, weight)
    deviations = ranks - np.average(ranks, weights=weight)
    rank_sd = np.sqrt(np.average(deviations**2, weights=weight))
    effect = sums_above(scores, slope * weight) / rank_sd
    centred_effect: Vector = effect - np.average(effect, weights=weight)
    return centred_effect
