"""Rank correlation of a judge's scores with people's ratings, at three levels.

All functions take vectors of shape (outputs,): the judge's scores, people's mean ratings, and
labels of any type for the output's document or system. Scores are NaN for failed judgements; these
outputs are left out and counted. Ratings are never NaN. `weight` is the weight of each output's
document, if documents were drawn with unequal probabilities. Intervals are in closed form. They are
for documents like these, at system level for systems like these. `contrast_judges` compares two
judges on the same outputs.
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

# The default convention. A document has no rho if people rate all of its outputs alike. It has a
# rho of 0 if only the judge does.
PRIMARY: Undefined = "judge_zero"
# How many random swaps of two judges give the standard error of a difference at system level.
SWAPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A rank correlation with its interval and its counts.

    Attributes:
        value: The correlation, in [-1, 1]; NaN if it is undefined.
        coefficient: A name of `COEFFICIENTS`, such as "spearman".
        level: "dataset", "summary" or "system".
        interval: The 95 % interval. None for fewer than 15 documents (at system level, systems),
            for a perfect or undefined value, at dataset level if nearly all labels or scores are
            equal, and at dataset and system level for coefficients other than Spearman's.
        n_outputs: How many outputs have a score.
        n_documents: How many documents enter the value.
        n_undefined: At summary level, how many documents have no value of their own, because
            scores or labels are constant or fewer than two outputs have a score.
        n_failed: How many outputs have no score because the judge failed.
        n_zero: How many of the undefined documents enter the value as 0.
        undefined: The convention for undefined values (see `summary_level`).
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
    undefined: Undefined = PRIMARY


def dataset_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    *,
    coefficient: str = "spearman",
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation over all outputs.

    A judge that gives every output the same score has no correlation.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document labels, which affect the interval only. By default each
            output is its own document.
        coefficient: "spearman", "kendall" or "pearson".
        undefined: With "judge_zero" a constant judge gets 0 if people's ratings vary; with
            "left_out" it gets NaN.
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation.

    Raises:
        ValueError: The vectors do not fit (see `read_rows`), or the coefficient has no weighted
            form.
    """
    rows = read_rows(judge, human, document, weight=weight)
    return _correlation("dataset", rows, coefficient, undefined)


def summary_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    coefficient: str = "spearman",
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation over the outputs of each document, averaged (arXiv:2010.07100).

    A document with constant scores or ratings has no correlation. Documents with fewer than two
    scored outputs are left out.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document labels.
        coefficient: "spearman", "kendall" or "pearson".
        undefined: With "judge_zero" a document counts 0 if only the judge's scores on it are
            constant, and is left out if people's ratings are. With "left_out" it is left out in
            both cases, as in most published tables.
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation.

    Raises:
        ValueError: The vectors do not fit (see `read_rows`).
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
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation over systems of the mean score with the mean rating.

    Both means are over the outputs that the judge scored.

    Args:
        judge: (outputs,) scores, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        system: (outputs,) system labels.
        document: (outputs,) document labels, which are only counted.
        coefficient: "spearman", "kendall" or "pearson". Only Spearman's rho has an interval.
        undefined: The convention for a judge with equal means (see `dataset_level`).
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation. Its interval is for systems like these, measured on as many documents.

    Raises:
        ValueError: The vectors do not fit (see `read_rows`).
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
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation at a level; raises ValueError at system level without `system`."""
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    rows = read_rows(judge, human, document, system if level == "system" else None, weight)
    return _correlation(level, rows, coefficient, undefined)


def _correlation(level: Level, rows: "Rows", coefficient: str, undefined: Undefined) -> Correlation:
    is_spearman, interval = coefficient == "spearman", None
    n_documents, n_undefined, n_zero = rows.n_documents, 0, 0
    if level == "summary":
        coefficients = _document_coefficients(rows, coefficient)
        values = _by_convention(coefficients, rows, undefined)
        defined, n_defined = ~np.isnan(values), int((~np.isnan(coefficients)).sum())
        values, weights = values[defined], rows.weight[rows.first_rows][defined]
        value = np.nan
        if values.size:
            value = float(np.average(values, weights=weights))
            # Now the mean of the values is the weighted one. With equal weights nothing changes.
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
    """Spearman's rho at a level, by the default convention and without an interval."""
    rows = read_rows(judge, human, document, system if level == "system" else None)
    if level == "summary":
        terms = document_terms(rows, level)
        return float(np.nanmean(terms)) if not np.isnan(terms).all() else np.nan
    if level == "system":
        rows = read_rows(*_system_means(rows))
    return _over_all_outputs(rows, "spearman", PRIMARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Outputs with a score, sorted by document, and counts of the outputs without one.

    `document` and `system` are codes from 0. The mean `weight` is 1. `n_documents` documents have
    at least one score, and `n_unscored_documents` have none.
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
        """The first row of each document."""
        return np.flatnonzero(np.diff(self.document, prepend=-1))

    @property
    def n_untied(self) -> int:
        """How many documents have a value other than the commonest one, in labels and in scores.

        It is the smaller one of both numbers. If 27 of 30 outputs pass, rho over all outputs rests
        on the other 3.
        """

        def of_side(side: Vector) -> int:
            values, counts = np.unique(side, return_counts=True)
            return np.unique(self.document[side != values[counts.argmax()]]).size

        return min(map(of_side, (self.judge, self.human))) if self.judge.size else 0


def read_rows(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
    weight: ArrayLike | None = None,
) -> Rows:
    """Check the vectors, drop failed outputs (NaN in `judge`) and number the documents.

    Without `document` each output is its own document.

    Raises:
        ValueError: The shapes differ, `human` is not finite, or `judge` is infinite.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    systems = np.zeros(scores.size, dtype=int) if system is None else np.asarray(system)
    weights = np.ones(scores.size) if weight is None else np.asarray(weight, dtype=float)
    vectors = {"human": ratings, "document": documents, "system": systems, "weight": weights}
    for name, vector in vectors.items():
        if scores.ndim != 1 or vector.shape != scores.shape:
            raise ValueError(
                f"judge and {name} must be vectors of one length; "
                f"their shapes are {scores.shape} and {vector.shape}"
            )
    for name, is_bad in (("human", ~np.isfinite(ratings)), ("judge", np.isinf(scores))):
        if is_bad.any():
            position = int(np.argmax(is_bad))
            raise ValueError(
                f"{name}[{position}] is {(ratings if name == 'human' else scores)[position]}: "
                "every output needs a rating, and a failed judgement is NaN"
            )
    has_score = ~np.isnan(scores)
    all_names, all_codes = np.unique(documents, return_inverse=True)
    scored_documents, document_codes = np.unique(all_codes[has_score], return_inverse=True)
    system_names, system_codes = np.unique(systems[has_score], return_inverse=True)
    order = np.argsort(document_codes, kind="stable")
    weights = weights[has_score][order]
    return Rows(
        judge=scores[has_score][order],
        human=ratings[has_score][order],
        weight=weights / weights.mean() if weights.size else weights,
        document=document_codes[order],
        system=system_codes[order],
        n_documents=scored_documents.size,
        n_systems=system_names.size,
        n_failed=int((~has_score).sum()),
        n_unscored_documents=all_names.size - scored_documents.size,
    )


def correlate(x: Matrix, y: Matrix, coefficient: str = "spearman") -> Vector:
    """The coefficient between each row of `x` and the same row of `y`; NaN if either is constant.

    Raises KeyError for an unknown coefficient.
    """
    return COEFFICIENTS[coefficient].of_rows(x, y)


def midranks(x: Matrix) -> Matrix:
    """Mid-ranks within each row, from 1: tied values get the mean of their ranks."""
    order = np.argsort(x, axis=-1, kind="stable")
    ascending = np.take_along_axis(x, order, -1)
    position = np.broadcast_to(np.arange(1.0, x.shape[-1] + 1), x.shape)
    is_new = np.ones(x.shape, dtype=bool)
    is_new[..., 1:] = ascending[..., 1:] != ascending[..., :-1]
    tie_group = np.cumsum(is_new) - 1
    mean_positions = np.bincount(tie_group, position.ravel()) / np.bincount(tie_group)
    ranks = np.empty(x.shape)
    np.put_along_axis(ranks, order, mean_positions[tie_group].reshape(x.shape), -1)
    return ranks


def _pearson(x: Matrix, y: Matrix) -> Vector:
    is_varied = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    r: Vector = np.clip((_standard(x) * _standard(y)).sum(axis=-1), -1, 1)
    return np.where(is_varied, r, np.nan)


def _standard(x: Matrix, weight: Vector | None = None) -> Matrix:
    """Each row scaled to mean 0 and a sum of squares of 1."""
    centred = x - np.average(x, axis=-1, weights=weight, keepdims=True)
    # Divide first, because squares of very large or very small scores overflow or underflow.
    largest = np.abs(centred).max(axis=-1, keepdims=True)
    centred = centred / np.where(largest > 0, largest, 1)
    squares = centred**2 if weight is None else centred**2 * weight
    norm = np.sqrt(squares.sum(axis=-1, keepdims=True))
    standard: Matrix = centred / np.where(norm > 0, norm, 1)
    return standard


def _kendall(x: Matrix, y: Matrix) -> Vector:
    """Each row's tau-b, without scipy.stats, which takes a second to import."""
    # Counts of pairs: concordant less discordant ones, pairs untied in x, pairs untied in y.
    sums = np.zeros((3, len(x)))
    with np.errstate(over="ignore", invalid="ignore"):
        for lag in range(1, x.shape[-1]):
            a, b = (np.sign(values[:, lag:] - values[:, :-lag]) for values in (x, y))
            sums += [pairs.sum(axis=-1) for pairs in (a * b, a * a, b * b)]
        tau: Vector = np.clip(sums[0] / np.sqrt(sums[1]) / np.sqrt(sums[2]), -1, 1)
    return tau


def _weighted_pearson(x: Vector, y: Vector, weight: Vector) -> float:
    product = _standard_vector(x, weight) * _standard_vector(y, weight)
    return float(np.clip(np.average(product, weights=weight), -1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """Declares a correlation coefficient.

    Attributes:
        of_rows: Takes two matrices of one shape and returns the coefficient between each row of
            the first and the same row of the second, NaN if a row is constant.
        of_weighted: Takes two vectors and their weights, whose mean is 1, and returns the weighted
            coefficient. None if the coefficient has no weighted form.
    """

    of_rows: Callable[[Matrix, Matrix], Vector]
    of_weighted: Callable[[Vector, Vector, Vector], float] | None = None


# The coefficients by name. `verify --all` prints each at every level. To add one, add an entry.
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
    """The coefficient over all rows; 0 for a constant judge under the convention "judge_zero"."""
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
    counts = np.bincount(rows.system, rows.weight, rows.n_systems)
    judge, human = (
        _rounded(np.bincount(rows.system, side * rows.weight, rows.n_systems) / counts)
        for side in (rows.judge, rows.human)
    )
    return judge, human


def _rounded(means: Matrix) -> Matrix:
    """Means rounded to 12 digits, since the order of summation must not break a tie."""
    scale = float(np.abs(means).max(initial=0.0)) or 1.0
    return np.round(means / scale, 12)


def document_terms(rows: Rows, level: Level) -> Vector:
    """A term for each document; the mean of the terms is Spearman's rho by the default convention.

    At summary level, a term is the document's own rho. At dataset level, it is the rho over all
    outputs plus the document's influence on it. It is NaN for a document that is left out because
    people rate its outputs alike.
    """
    if level == "summary":
        return _by_convention(_document_coefficients(rows, "spearman"), rows, PRIMARY)
    if rows.human.size < 2 or np.ptp(rows.human) == 0:
        return np.full(rows.n_documents, np.nan)
    if np.ptp(rows.judge) == 0:
        return np.zeros(rows.n_documents)
    return _dataset_terms(rows)


def _document_coefficients(rows: Rows, coefficient: str) -> Vector:
    """Each document's coefficient; NaN with constant values or fewer than two scored outputs."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    values = np.full(sizes.size, np.nan)
    for size in np.unique(sizes[sizes > 1]):
        documents = np.flatnonzero(sizes == size)
        outputs = rows.first_rows[documents, None] + np.arange(size)
        values[documents] = correlate(rows.judge[outputs], rows.human[outputs], coefficient)
    return values


def _by_convention(coefficients: Vector, rows: Rows, undefined: Undefined) -> Vector:
    """The documents' coefficients, with 0 in place of NaN where the convention says so."""
    if undefined == "left_out" or not rows.n_documents:
        return coefficients
    highest, lowest = (
        extreme.reduceat(rows.human, rows.first_rows) for extreme in (np.maximum, np.minimum)
    )
    return np.where(np.isnan(coefficients) & (highest > lowest), 0.0, coefficients)


def _dataset_terms(rows: Rows) -> Vector:
    """Spearman's rho over all outputs plus the influence of each document on it.

    Let x and y be the standardised mid-ranks of scores and labels, and r = E xy. An output changes
    r by xy - r (xx + yy) / 2, and by its effect on the ranks of the other outputs.
    """
    n, weight = rows.n_documents, rows.weight
    x, y = (_standard_vector(_ranks(side, weight), weight) for side in (rows.judge, rows.human))
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
    """Mid-ranks, up to an added constant, if an output counts as `weight` outputs."""
    return -_sums_above(scores, weight)


def _sums_above(scores: Vector, values: Vector) -> Vector:
    """For each output, the sum of `values` over higher ones, plus half the sum over equal ones."""
    order = np.argsort(scores, kind="stable")
    ascending, total = scores[order], np.concatenate([[0.0], np.cumsum(values[order])])
    first = total[np.searchsorted(ascending, scores, "left")]
    last = total[np.searchsorted(ascending, scores, "right")]
    above: Vector = total[-1] - (first + last) / 2
    return above


def _effect_through_ranks(scores: Vector, slope: Vector, weight: Vector) -> Vector:
    """How each output changes r by its effect on the ranks of the other outputs, with mean 0.

    An output raises the ranks of higher outputs by one and those of equal ones by a half. `slope`
    is how much r changes with an output's standardised rank.
    """
    ranks = _ranks(scores, weight)
    centred = ranks - np.average(ranks, weights=weight)
    scale = np.sqrt(np.average(centred**2, weights=weight))
    effect = _sums_above(scores, slope * weight) / scale
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
    """Judge A's Spearman's rho less judge B's, on the outputs that both scored.

    Args:
        judge_a: (outputs,) scores of judge A, NaN for failed judgements.
        judge_b: (outputs,) scores of judge B, NaN for failed judgements.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document labels.
        system: (outputs,) system labels, for the system level.
        level: "dataset", "summary" or "system".

    Returns:
        The difference, in [-2, 2], by the default convention. It has no documents if people rate
        everything alike.

    Raises:
        ValueError: The vectors do not fit (see `read_rows`), or `system` is missing at system
            level.
    """
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    a, b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    both_scored = ~np.isnan(a) & ~np.isnan(b)
    systems = system if level == "system" else None
    rows_a, rows_b = (
        read_rows(np.where(both_scored, scores, np.nan), human, document, systems)
        for scores in (a, b)
    )
    names = tuple(str(name) for name in np.unique(np.asarray(document)[both_scored]))
    if level == "system":
        return _contrast_systems(rows_a, rows_b, names)
    contrast = mean_of_differences(
        document_terms(rows_a, level) - document_terms(rows_b, level), names
    )
    if level == "summary":
        return contrast
    untied = min(rows_a.n_untied, rows_b.n_untied)
    interval = contrast.interval if untied >= FEW_DOCUMENTS else None
    return replace(contrast, interval=interval, n_untied=untied)


def _contrast_systems(a: Rows, b: Rows, names: tuple[str, ...]) -> Contrast:
    """The contrast at system level.

    Scores are standardised first: a swap replaces one judge's scores on a document by the other's,
    so both must be on one scale.
    """
    shape = a.n_documents, a.n_systems
    cells, counts = a.document * a.n_systems + a.system, np.bincount(a.system, minlength=shape[1])
    # Arrays of shape (documents, systems): what each document adds to each system's mean score.
    standard_scores = (_standard_vector(rows.judge, rows.weight) for rows in (a, b))
    parts_a, parts_b = (
        np.bincount(cells, scores, math.prod(shape)).reshape(shape) / counts
        for scores in standard_scores
    )
    human = _system_means(a)[1]
    mean_of_both = (parts_a + parts_b).sum(axis=0) / 2

    def rho_of(means: Matrix) -> Vector:
        return np.nan_to_num(correlate(_rounded(means), np.broadcast_to(human, means.shape)))

    def differences(signs: Matrix) -> Vector:
        half_gap = signs @ (parts_a - parts_b) / 2
        gaps: Vector = rho_of(mean_of_both + half_gap) - rho_of(mean_of_both - half_gap)
        return gaps

    n_documents = a.n_documents
    if a.n_systems < 2 or np.ptp(human) == 0:
        return mean_of_differences(np.empty(0), ())
    swaps = stream(0, "swaps").choice([-1.0, 1.0], (SWAPS, n_documents))
    error = float(np.sqrt((differences(swaps) ** 2).mean())) if n_documents > 1 else np.inf
    terms_a, terms_b = (
        document_terms(read_rows(_system_means(rows)[0], human), "dataset") for rows in (a, b)
    )
    return Contrast(
        value=float(differences(np.ones((1, n_documents)))[0]),
        error=error,
        documents=names,
        terms=terms_a - terms_b,
        interval=interval_of_mean(terms_a - terms_b, bound=2),
        swapped=differences,
    )
