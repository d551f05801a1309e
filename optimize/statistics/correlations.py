"""Rank correlation of a judge's scores with people's ratings, at three levels.

The three levels are: over all outputs (dataset), within each document and then averaged (summary),
and over the systems' means (system). All functions take vectors of shape (outputs,): the judge's
scores, people's mean ratings, and the ids (of any type) of the outputs' documents or systems. A
score is NaN if the judgement failed; these outputs are left out and counted. If documents were
drawn with unequal probabilities, `weight` is the weight of each output's document. An interval is
for the population that the documents (at system level, the systems) are a sample of.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.intervals import (
    FEW_DOCUMENTS,
    Contrast,
    Interval,
    Matrix,
    Vector,
    correlation_interval,
    interval_of_mean,
    mean_of_differences,
    stream,
    system_interval,
)

Level = Literal["summary", "dataset", "system"]
Undefined = Literal["judge_zero", "left_out"]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]

# By default, a document is left out if people rate all of its outputs alike, and counts as a rho of
# 0 if only the judge scores all alike.
DEFAULT_UNDEFINED: Undefined = "judge_zero"
# Random swaps of two judges' scores, for the standard error of their difference at system level.
N_SWAPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A rank correlation with its interval and its counts.

    Attributes:
        value: The correlation, in [-1, 1]; NaN if it is undefined.
        coefficient: A name of `COEFFICIENTS`, such as "spearman".
        level: "dataset", "summary" or "system".
        interval: The 95 % interval; None for fewer than 15 documents (at system level, systems),
            for a perfect or undefined value, and at dataset level if nearly all labels or scores
            are equal. At dataset and system level only Spearman's rho has one.
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
    undefined: Undefined = DEFAULT_UNDEFINED


def dataset_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: Undefined = DEFAULT_UNDEFINED,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation of scores with ratings over all outputs.

    The correlation is undefined if the judge gives every output the same score.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document ids, for the interval; by default one for each output.
        coefficient: "spearman", "kendall" or "pearson".
        undefined: The value if only the judge's scores are constant: 0 with "judge_zero", NaN with
            "left_out".
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation.

    Raises:
        ValueError: The vectors differ in length or have invalid values (see `read_rows`), or the
            coefficient has no weighted form.
    """
    rows = read_rows(judge, human, document, weight=weight)
    return _correlation("dataset", rows, coefficient, undefined)


def summary_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    coefficient: str = "spearman",
    undefined: Undefined = DEFAULT_UNDEFINED,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The mean over documents of the correlation within each document (arXiv:2010.07100).

    The correlation within a document is undefined if its scores or its ratings are constant.
    Documents with fewer than two scored outputs are left out.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document ids.
        coefficient: "spearman", "kendall" or "pearson".
        undefined: With "judge_zero", a document counts as 0 if only the judge's scores on it are
            constant, and with "left_out" never, as in most published tables.
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation.

    Raises:
        ValueError: The vectors differ in length or have invalid values (see `read_rows`).
    """
    rows = read_rows(judge, human, document, weight=weight)
    return _correlation("summary", rows, coefficient, undefined)


def system_level(
    judge: ArrayLike,
    human: ArrayLike,
    system: ArrayLike,
    document: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: Undefined = DEFAULT_UNDEFINED,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation, over systems, of a system's mean score with its mean human rating.

    A system's means are over the outputs that have a score.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        system: (outputs,) system ids.
        document: (outputs,) document ids, to count the documents.
        coefficient: "spearman", "kendall" or "pearson". Only Spearman's rho has an interval.
        undefined: The value if all systems have the same mean score (see `dataset_level`).
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation. The interval is for the population that the systems are a sample of, if
        each system is measured on as many documents.

    Raises:
        ValueError: The vectors differ in length or have invalid values (see `read_rows`).
    """
    rows = read_rows(judge, human, document, system, weight)
    return _correlation("system", rows, coefficient, undefined)


def correlation(
    level: Level,
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    system: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: Undefined = DEFAULT_UNDEFINED,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation at one level; raises ValueError if the system level lacks `system`."""
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    rows = read_rows(judge, human, document, system if level == "system" else None, weight)
    return _correlation(level, rows, coefficient, undefined)


def _correlation(level: Level, rows: "Rows", coefficient: str, undefined: Undefined) -> Correlation:
    is_spearman, interval = coefficient == "spearman", None
    n_documents, n_undefined, n_zero = rows.n_documents, 0, 0
    if level == "summary":
        document_values = _document_coefficients(rows, coefficient)
        values = _by_convention(document_values, rows, undefined)
        is_defined, n_defined = ~np.isnan(values), int((~np.isnan(document_values)).sum())
        values, weights = values[is_defined], rows.weight[rows.first_rows][is_defined]
        value = np.nan
        if values.size:
            value = float(np.average(values, weights=weights))
            # Shift the values so that their plain mean is the weighted mean.
            values += (weights / weights.mean() - 1) * (values - value)
        interval = correlation_interval(value, values)
        n_documents, n_zero = values.size, values.size - n_defined
        n_undefined = rows.n_documents - n_defined + rows.n_unscored_documents
    elif level == "system":
        value = _over_all_outputs(read_rows(*_system_means(rows)), coefficient, undefined)
        interval = system_interval(value, rows.n_systems) if is_spearman else None
    else:
        value = _over_all_outputs(rows, coefficient, undefined)
        if is_spearman and rows.n_untied >= FEW_DOCUMENTS:
            interval = correlation_interval(value, document_terms(rows, "dataset"))
    return Correlation(
        value=value,
        coefficient=coefficient,
        level=level,
        interval=interval,
        n_outputs=rows.judge.size,
        n_documents=n_documents,
        n_undefined=n_undefined,
        n_failed=rows.n_failed,
        n_zero=n_zero,
        undefined=undefined,
    )


def rho(
    level: Level,
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
) -> float:
    """Spearman's rho at one of the three levels, by the default convention, without an interval."""
    rows = read_rows(judge, human, document, system if level == "system" else None)
    if level == "summary":
        terms = document_terms(rows, level)
        return float(np.nanmean(terms)) if not np.isnan(terms).all() else np.nan
    if level == "system":
        rows = read_rows(*_system_means(rows))
    return _over_all_outputs(rows, "spearman", DEFAULT_UNDEFINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """The outputs that have a score, sorted by document, as vectors; and counts.

    `weight` has a mean of 1; documents and systems are numbered from 0. `n_documents` and
    `n_systems` count those with a score, `n_unscored_documents` the documents without any.
    """

    judge: Vector
    human: Vector
    weight: Vector
    document: Codes
    system: Codes
    n_documents: int
    n_systems: int
    n_failed: int
    n_unscored_documents: int

    @property
    def first_rows(self) -> Codes:
        """The index of the first output of each document."""
        return np.flatnonzero(np.diff(self.document, prepend=-1))

    @property
    def n_untied(self) -> int:
        """How many documents differ from the most common value, in labels or in scores.

        Documents with an output whose label (or score) is not the most common are counted. The
        smaller of both numbers limits the precision of rho over all outputs: if 27 of 30 outputs
        pass, only 3 outputs are informative.
        """

        def n_differing(vector: Vector) -> int:
            values, counts = np.unique(vector, return_counts=True)
            most_common = values[counts.argmax()]
            return np.unique(self.document[vector != most_common]).size

        return min(map(n_differing, (self.judge, self.human))) if self.judge.size else 0


def read_rows(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> Rows:
    """Check the vectors, drop failed outputs (NaN in `judge`) and number the documents.

    Raises ValueError if the shapes differ, `human` is not finite, or `judge` is infinite.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    systems = np.zeros(scores.size, dtype=int) if system is None else np.asarray(system)
    weights = np.ones(scores.size) if weight is None else np.asarray(weight, dtype=float)
    other_vectors = {"human": ratings, "document": documents, "system": systems, "weight": weights}
    for name, vector in other_vectors.items():
        if scores.ndim != 1 or vector.shape != scores.shape:
            raise ValueError(
                f"judge and {name} must be vectors of one length; "
                f"their shapes are {scores.shape} and {vector.shape}"
            )
    for name, is_bad in (("human", ~np.isfinite(ratings)), ("judge", np.isinf(scores))):
        if is_bad.any():
            index = int(np.argmax(is_bad))
            raise ValueError(
                f"{name}[{index}] is {(ratings if name == 'human' else scores)[index]}: "
                "every output needs a rating, and a failed judgement is NaN"
            )
    has_score = ~np.isnan(scores)
    document_names, all_document_codes = np.unique(documents, return_inverse=True)
    scored_documents, document_codes = np.unique(all_document_codes[has_score], return_inverse=True)
    system_names, system_codes = np.unique(systems[has_score], return_inverse=True)
    row_order = np.argsort(document_codes, kind="stable")
    weights = weights[has_score][row_order]
    return Rows(
        judge=scores[has_score][row_order],
        human=ratings[has_score][row_order],
        weight=weights / weights.mean() if weights.size else weights,
        document=document_codes[row_order],
        system=system_codes[row_order],
        n_documents=scored_documents.size,
        n_systems=system_names.size,
        n_failed=int((~has_score).sum()),
        n_unscored_documents=document_names.size - scored_documents.size,
    )


def correlate(x: Matrix, y: Matrix, coefficient: str = "spearman") -> Vector:
    """The coefficient between each row of `x` and the same row of `y`; NaN if a row is constant."""
    return COEFFICIENTS[coefficient].of_rows(x, y)


def midranks(x: Matrix) -> Matrix:
    """The rank, from 1, of each value within its row; tied values get the mean of their ranks."""
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


def _pearson(x: Matrix, y: Matrix) -> Vector:
    is_varied = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    r: Vector = np.clip((_standard(x) * _standard(y)).sum(axis=-1), -1, 1)
    return np.where(is_varied, r, np.nan)


def _standard(x: Matrix, weight: Vector | None = None) -> Matrix:
    """Scale each row to a mean of 0 and a sum of squares of 1."""
    centred = x - np.average(x, axis=-1, weights=weight, keepdims=True)
    # Divide first, because squares of very large or very small scores overflow or underflow.
    largest = np.abs(centred).max(axis=-1, keepdims=True)
    centred = centred / np.where(largest > 0, largest, 1)
    squares = centred**2 if weight is None else centred**2 * weight
    norm = np.sqrt(squares.sum(axis=-1, keepdims=True))
    standard: Matrix = centred / np.where(norm > 0, norm, 1)
    return standard


def _kendall(x: Matrix, y: Matrix) -> Vector:
    """Kendall's tau-b of each row, without scipy.stats, because its import takes a second."""
    # Sums over pairs: concordant minus discordant, not tied in x, and not tied in y.
    pair_sums = np.zeros((3, len(x)))
    with np.errstate(over="ignore", invalid="ignore"):
        for lag in range(1, x.shape[-1]):
            x_signs, y_signs = (np.sign(values[:, lag:] - values[:, :-lag]) for values in (x, y))
            pair_sums += [
                pairs.sum(axis=-1)
                for pairs in (x_signs * y_signs, x_signs * x_signs, y_signs * y_signs)
            ]
        tau: Vector = np.clip(pair_sums[0] / np.sqrt(pair_sums[1]) / np.sqrt(pair_sums[2]), -1, 1)
    return tau


def _weighted_pearson(x: Vector, y: Vector, weight: Vector) -> float:
    products = _standard_vector(x, weight) * _standard_vector(y, weight)
    return float(np.clip(np.average(products, weights=weight), -1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """The functions that compute a correlation coefficient.

    Attributes:
        of_rows: Returns the coefficient between each row of one matrix and the same row of another,
            or NaN if one of the rows is constant.
        of_weighted: Returns the weighted coefficient of two vectors, with weights that have a mean
            of 1. None if the coefficient has no weighted form.
    """

    of_rows: Callable[[Matrix, Matrix], Vector]
    of_weighted: Callable[[Vector, Vector, Vector], float] | None = None


# The coefficients by name. `verify --all` prints every coefficient at every level.
COEFFICIENTS = {
    "spearman": Coefficient(
        of_rows=lambda x, y: _pearson(midranks(x), midranks(y)),
        of_weighted=lambda x, y, weight: _weighted_pearson(
            _ranks(x, weight), _ranks(y, weight), weight
        ),
    ),
    "kendall": Coefficient(of_rows=_kendall),
    "pearson": Coefficient(of_rows=_pearson, of_weighted=_weighted_pearson),
}


def _over_all_outputs(rows: Rows, coefficient: str, undefined: Undefined) -> float:
    """The coefficient over all outputs; 0 for constant scores by the convention "judge_zero"."""
    vectors, weight = (rows.judge, rows.human), rows.weight
    if not weight.size:
        return np.nan
    if undefined == "judge_zero" and np.ptp(rows.judge) == 0 and np.ptp(rows.human) > 0:
        return 0.0
    if np.ptp(weight) == 0 or min(map(np.ptp, vectors)) == 0:
        return float(correlate(rows.judge[None], rows.human[None], coefficient)[0])
    of_weighted = COEFFICIENTS[coefficient].of_weighted
    if of_weighted is None:
        raise ValueError(f"{coefficient} over all outputs has no weighted form")
    return of_weighted(*vectors, weight)


def _system_means(rows: Rows) -> tuple[Vector, Vector]:
    system_weights = np.bincount(rows.system, rows.weight, rows.n_systems)
    judge, human = (
        _rounded(np.bincount(rows.system, values * rows.weight, rows.n_systems) / system_weights)
        for values in (rows.judge, rows.human)
    )
    return judge, human


def _rounded(means: Matrix) -> Matrix:
    """Round means to 12 digits, because rounding errors of the sums must not break ties."""
    largest_mean = float(np.abs(means).max(initial=0.0)) or 1.0
    return np.round(means / largest_mean, 12)


def document_terms(rows: Rows, level: Level) -> Vector:
    """One term for each document; the mean of the terms is Spearman's rho.

    At summary level, a term is the rho within the document, with 0 or NaN (left out of the mean) by
    the default convention. At dataset level, it is the rho over all outputs plus the document's
    influence on it.
    """
    if level == "summary":
        return _by_convention(_document_coefficients(rows, "spearman"), rows, DEFAULT_UNDEFINED)
    if rows.human.size < 2 or np.ptp(rows.human) == 0:
        return np.full(rows.n_documents, np.nan)
    if np.ptp(rows.judge) == 0:
        return np.zeros(rows.n_documents)
    return _dataset_terms(rows)


def _document_coefficients(rows: Rows, coefficient: str) -> Vector:
    """The coefficient within each document; NaN for constants and for fewer than two scores."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    values = np.full(sizes.size, np.nan)
    for size in np.unique(sizes[sizes > 1]):
        documents_of_size = np.flatnonzero(sizes == size)
        output_rows = rows.first_rows[documents_of_size, None] + np.arange(size)
        values[documents_of_size] = correlate(
            rows.judge[output_rows], rows.human[output_rows], coefficient
        )
    return values


def _by_convention(coefficients: Vector, rows: Rows, undefined: Undefined) -> Vector:
    """The documents' coefficients, with 0 in place of NaN if the convention asks for it."""
    if undefined == "left_out" or not rows.n_documents:
        return coefficients
    highest_rating, lowest_rating = (
        extreme.reduceat(rows.human, rows.first_rows) for extreme in (np.maximum, np.minimum)
    )
    return np.where(np.isnan(coefficients) & (highest_rating > lowest_rating), 0.0, coefficients)


def _dataset_terms(rows: Rows) -> Vector:
    """For each document, Spearman's rho over all outputs plus the document's influence on rho.

    Let x and y be the standardised mid-ranks of scores and labels; then rho is r = mean(xy). An
    output influences r in two ways: directly, by xy - r (xx + yy) / 2, and through its effect on
    the ranks of all other outputs. A document's influence is the sum over its outputs.
    """
    n, weight = rows.n_documents, rows.weight
    x, y = (_standard_vector(_ranks(values, weight), weight) for values in (rows.judge, rows.human))
    r = float(np.average(x * y, weights=weight))
    influence = (
        x * y
        - r * (x * x + y * y) / 2
        + _effect_through_ranks(rows.judge, y - r * x, weight)
        + _effect_through_ranks(rows.human, x - r * y, weight)
    )
    terms: Vector = r + np.bincount(rows.document, influence * weight, n) * n / influence.size
    return terms


def _standard_vector(values: Vector, weight: Vector) -> Vector:
    standard: Vector = _standard(values[None], weight)[0] * np.sqrt(values.size)
    return standard


def _ranks(scores: Vector, weight: Vector) -> Vector:
    """Weighted mid-ranks, up to an additive constant: each output counts as `weight` outputs."""
    return -_sums_above(scores, weight)


def _sums_above(scores: Vector, values: Vector) -> Vector:
    """The sum of `values` over outputs with a higher score, and half of that over equal scores."""
    sort_order = np.argsort(scores, kind="stable")
    sorted_scores, cumulative = (
        scores[sort_order],
        np.concatenate([[0.0], np.cumsum(values[sort_order])]),
    )
    sum_below = cumulative[np.searchsorted(sorted_scores, scores, "left")]
    sum_up_to_equal = cumulative[np.searchsorted(sorted_scores, scores, "right")]
    sum_above: Vector = cumulative[-1] - (sum_below + sum_up_to_equal) / 2
    return sum_above


def _effect_through_ranks(scores: Vector, slope: Vector, weight: Vector) -> Vector:
    """How each output changes rho through its effect on the ranks of all other outputs.

    It raises the rank of an output with a higher score by one, and with an equal score by a half.
    `slope` is how much rho changes with an output's standardised rank. The result is centred.
    """
    ranks = _ranks(scores, weight)
    centred = ranks - np.average(ranks, weights=weight)
    rank_sd = np.sqrt(np.average(centred**2, weights=weight))
    effect = _sums_above(scores, slope * weight) / rank_sd
    centred_effect: Vector = effect - np.average(effect, weights=weight)
    return centred_effect


def contrast_judges(
    judge_a: ArrayLike,
    judge_b: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    system: ArrayLike | None = None,
    *,
    level: Level = "summary",
) -> Contrast:
    """Spearman's rho of judge A minus rho of judge B, on the outputs that both judges scored.

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
        ValueError: The vectors differ in length or have invalid values (see `read_rows`), or
            `system` is missing at system level.
    """
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    scores_a, scores_b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    both_scored = ~np.isnan(scores_a) & ~np.isnan(scores_b)
    systems = system if level == "system" else None
    rows_a, rows_b = (
        read_rows(np.where(both_scored, scores, np.nan), human, document, systems)
        for scores in (scores_a, scores_b)
    )
    document_names = tuple(str(name) for name in np.unique(np.asarray(document)[both_scored]))
    if level == "system":
        return _contrast_systems(rows_a, rows_b, document_names)
    contrast = mean_of_differences(
        document_terms(rows_a, level) - document_terms(rows_b, level), document_names
    )
    if level == "summary":
        return contrast
    n_untied = min(rows_a.n_untied, rows_b.n_untied)
    interval = contrast.interval if n_untied >= FEW_DOCUMENTS else None
    return replace(contrast, interval=interval, n_untied=n_untied)


def _contrast_systems(rows_a: Rows, rows_b: Rows, document_names: tuple[str, ...]) -> Contrast:
    """The contrast of two judges at system level.

    Scores are standardised first, because a swap exchanges the two judges' scores on a document.
    """
    shape = rows_a.n_documents, rows_a.n_systems
    document_system_codes, outputs_per_system = (
        rows_a.document * rows_a.n_systems + rows_a.system,
        np.bincount(rows_a.system, minlength=shape[1]),
    )
    # Of shape (documents, systems): each document's part of each system's mean score.
    standard_scores = (_standard_vector(rows.judge, rows.weight) for rows in (rows_a, rows_b))
    contributions_a, contributions_b = (
        np.bincount(document_system_codes, scores, math.prod(shape)).reshape(shape)
        / outputs_per_system
        for scores in standard_scores
    )
    human = _system_means(rows_a)[1]
    mean_of_judges = (contributions_a + contributions_b).sum(axis=0) / 2

    def rho_of_means(means: Matrix) -> Vector:
        return np.nan_to_num(correlate(_rounded(means), np.broadcast_to(human, means.shape)))

    def differences(signs: Matrix) -> Vector:
        half_difference = signs @ (contributions_a - contributions_b) / 2
        rho_differences: Vector = rho_of_means(mean_of_judges + half_difference) - rho_of_means(
            mean_of_judges - half_difference
        )
        return rho_differences

    n_documents = rows_a.n_documents
    if rows_a.n_systems < 2 or np.ptp(human) == 0:
        return mean_of_differences(np.empty(0), ())
    random_signs = stream(0, "swaps").choice([-1.0, 1.0], (N_SWAPS, n_documents))
    error = float(np.sqrt((differences(random_signs) ** 2).mean())) if n_documents > 1 else np.inf
    terms_a, terms_b = (
        document_terms(read_rows(_system_means(rows)[0], human), "dataset")
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
