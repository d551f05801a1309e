"""Rank correlation of a judge's scores with people's ratings, at three levels.

All functions take parallel vectors of shape (outputs,): the judge's scores (NaN: the judge failed;
such outputs are left out and counted), people's mean ratings (no NaN), and document or system
labels of any type. `weight` is the weight of each output's document, if documents were drawn with
unequal chances. Intervals are in closed form. They hold for documents like these, at system level
for systems like these. `contrast_judges` compares two judges on the same outputs.
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

# The convention unless another is named: a document that people rate alike has no rho; a judge that
# rates alike what people do not gets 0.
PRIMARY: Undefined = "judge_zero"
# Random swaps of two judges, for the standard error of a difference at system level.
SWAPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A rank correlation with its interval and its counts.

    Attributes:
        value: The correlation, in [-1, 1]; NaN if it is undefined.
        coefficient: A name of `COEFFICIENTS`, such as "spearman".
        level: "dataset", "summary" or "system".
        interval: At 95 % confidence. None below 15 documents (at system level 15 systems), for a
            perfect or undefined value, at dataset level if nearly all labels or scores are the
            same, and at dataset and system level for coefficients other than Spearman's.
        n_outputs: Outputs with a score.
        n_documents: Documents that entered the value.
        n_undefined: At summary level, documents without a value of their own, because one side is
            constant or fewer than two outputs have a score.
        n_failed: Outputs that the judge gave no score.
        n_zero: How many of the undefined documents entered the value as 0.
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
        judge: (outputs,) scores, NaN where the judge failed.
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
        ValueError: As `read_rows`, or the coefficient has no weighted form.
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
    """The mean over documents of the correlation across each one's outputs (arXiv:2010.07100).

    A document on which one side is constant has no correlation. Documents with fewer than two
    scored outputs are left out.

    Args:
        judge: (outputs,) scores, NaN where the judge failed.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document labels.
        coefficient: "spearman", "kendall" or "pearson".
        undefined: With "judge_zero" a document counts 0 if only the judge is constant on it, and
            is left out if people are. With "left_out" both are left out, as in most published
            tables.
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation.

    Raises:
        ValueError: As `read_rows`.
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
    """The correlation over systems' means, on both sides over the outputs that the judge scored.

    Args:
        judge: (outputs,) scores, NaN where the judge failed.
        human: (outputs,) people's mean ratings.
        system: (outputs,) system labels.
        document: (outputs,) document labels, which are only counted.
        coefficient: "spearman", "kendall" or "pearson". Only Spearman's rho has an interval.
        undefined: What a judge with equal means gets (see `dataset_level`).
        weight: (outputs,) weights of the outputs' documents.

    Returns:
        The correlation. Its interval is for systems like these, measured on as many documents.

    Raises:
        ValueError: As `read_rows`.
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
    """The correlation at a level; ValueError at system level without `system`."""
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    rows = read_rows(judge, human, document, system if level == "system" else None, weight)
    return _correlation(level, rows, coefficient, undefined)


def _correlation(level: Level, rows: "Rows", coefficient: str, undefined: Undefined) -> Correlation:
    is_spearman, interval = coefficient == "spearman", None
    n_documents, n_undefined, n_zero = rows.n_documents, 0, 0
    if level == "summary":
        own = _document_coefficients(rows, coefficient)
        values = _by_convention(own, rows, undefined)
        defined, n_defined = ~np.isnan(values), int((~np.isnan(own)).sum())
        values, weights = values[defined], rows.weight[rows.first_rows][defined]
        value = np.nan
        if values.size:
            value = float(np.average(values, weights=weights))
            # So that their mean is the value; equal weights leave them the same to the last digit.
            values += (weights / weights.mean() - 1) * (values - value)
        interval = correlation_interval(value, values)
        n_documents, n_zero = values.size, values.size - n_defined
        n_undefined = rows.n_documents - n_defined + rows.n_unscored_documents
    elif level == "system":
        value = _over_all(read_rows(*_system_means(rows)), coefficient, undefined)
        interval = system_interval(value, rows.n_systems) if is_spearman else None
    else:
        value = _over_all(rows, coefficient, undefined)
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
    """Spearman's rho at a level, by the primary convention and without an interval."""
    rows = read_rows(judge, human, document, system if level == "system" else None)
    if level == "summary":
        terms = document_terms(rows, level)
        return float(np.nanmean(terms)) if not np.isnan(terms).all() else np.nan
    if level == "system":
        rows = read_rows(*_system_means(rows))
    return _over_all(rows, "spearman", PRIMARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Outputs with a score, sorted by document, and counts of the others.

    `document` and `system` are codes from 0. The mean `weight` is 1. `n_documents` have at least
    one score, and `n_unscored_documents` others have none.
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
        """How many documents have a label other than the commonest; or a score, if fewer do.

        If 27 of 30 outputs pass, rho over all outputs rests on the other 3.
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
    """Check parallel vectors, drop failed outputs (NaN in `judge`) and number the documents.

    Without `document` each output is its own document.

    Raises:
        ValueError: The shapes differ, `human` is not finite, or `judge` is infinite.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    systems = np.zeros(scores.size, dtype=int) if system is None else np.asarray(system)
    weights = np.ones(scores.size) if weight is None else np.asarray(weight, dtype=float)
    sides = {"human": ratings, "document": documents, "system": systems, "weight": weights}
    for name, vector in sides.items():
        if scores.ndim != 1 or vector.shape != scores.shape:
            raise ValueError(
                f"judge and {name} must be vectors of one length; "
                f"their shapes are {scores.shape} and {vector.shape}"
            )
    for name, bad in (("human", ~np.isfinite(ratings)), ("judge", np.isinf(scores))):
        if bad.any():
            place = int(np.argmax(bad))
            raise ValueError(
                f"{name}[{place}] is {(ratings if name == 'human' else scores)[place]}: every "
                "output needs a rating, and a failed judgement is NaN"
            )
    valid = ~np.isnan(scores)
    all_names, all_codes = np.unique(documents, return_inverse=True)
    present, document_codes = np.unique(all_codes[valid], return_inverse=True)
    system_names, system_codes = np.unique(systems[valid], return_inverse=True)
    order = np.argsort(document_codes, kind="stable")
    weights = weights[valid][order]
    return Rows(
        judge=scores[valid][order],
        human=ratings[valid][order],
        weight=weights / weights.mean() if weights.size else weights,
        document=document_codes[order],
        system=system_codes[order],
        n_documents=present.size,
        n_systems=system_names.size,
        n_failed=int((~valid).sum()),
        n_unscored_documents=all_names.size - present.size,
    )


def correlate(x: Matrix, y: Matrix, coefficient: str = "spearman") -> Vector:
    """The coefficient between each row of `x` and the same row of `y`; NaN where one is constant.

    Raises KeyError for an unknown coefficient.
    """
    return COEFFICIENTS[coefficient].of_rows(x, y)


def midranks(x: Matrix) -> Matrix:
    """Mid-ranks within each row, from 1: tied values share the mean of their places."""
    order = np.argsort(x, axis=-1, kind="stable")
    ascending = np.take_along_axis(x, order, -1)
    place = np.broadcast_to(np.arange(1.0, x.shape[-1] + 1), x.shape)
    new = np.ones(x.shape, dtype=bool)
    new[..., 1:] = ascending[..., 1:] != ascending[..., :-1]
    tie = np.cumsum(new) - 1
    mean_places = np.bincount(tie, place.ravel()) / np.bincount(tie)
    ranks = np.empty(x.shape)
    np.put_along_axis(ranks, order, mean_places[tie].reshape(x.shape), -1)
    return ranks


def _pearson(x: Matrix, y: Matrix) -> Vector:
    varied = (np.ptp(x, axis=-1) > 0) & (np.ptp(y, axis=-1) > 0)
    r: Vector = np.clip((_standard(x) * _standard(y)).sum(axis=-1), -1, 1)
    return np.where(varied, r, np.nan)


def _standard(x: Matrix, weight: Vector | None = None) -> Matrix:
    """Each row with mean 0 and sum of squares 1."""
    centred = x - np.average(x, axis=-1, weights=weight, keepdims=True)
    # Divided first, because squares of very large or small scores overflow or vanish.
    largest = np.abs(centred).max(axis=-1, keepdims=True)
    centred = centred / np.where(largest > 0, largest, 1)
    squares = centred**2 if weight is None else centred**2 * weight
    norm = np.sqrt(squares.sum(axis=-1, keepdims=True))
    standard: Matrix = centred / np.where(norm > 0, norm, 1)
    return standard


def _kendall(x: Matrix, y: Matrix) -> Vector:
    """Each row's tau-b, without scipy.stats, which takes a second to import."""
    # Over pairs: concordant less discordant ones, those untied in x, those untied in y.
    sums = np.zeros((3, len(x)))
    with np.errstate(over="ignore", invalid="ignore"):
        for apart in range(1, x.shape[-1]):
            a, b = (np.sign(side[:, apart:] - side[:, :-apart]) for side in (x, y))
            sums += [pairs.sum(axis=-1) for pairs in (a * b, a * a, b * b)]
        tau: Vector = np.clip(sums[0] / np.sqrt(sums[1]) / np.sqrt(sums[2]), -1, 1)
    return tau


def _weighted_pearson(x: Vector, y: Vector, weight: Vector) -> float:
    product = _unit(x, weight) * _unit(y, weight)
    return float(np.clip(np.average(product, weights=weight), -1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """Declares a correlation coefficient.

    Attributes:
        of_rows: Takes two matrices of one shape and returns the coefficient between each row of
            the first and the same row of the second, NaN where a row is constant.
        of_weighted: Takes two vectors and their weights, whose mean is 1, and returns the weighted
            coefficient. None where the coefficient has no weighted form.
    """

    of_rows: Callable[[Matrix, Matrix], Vector]
    of_weighted: Callable[[Vector, Vector, Vector], float] | None = None


# What `verify --all` prints of every level, by name. A further coefficient is a further entry.
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


def _over_all(rows: Rows, coefficient: str, undefined: Undefined) -> float:
    """The coefficient over all rows; 0 for a constant judge under the convention "judge_zero"."""
    sides, weight = (rows.judge, rows.human), rows.weight
    if not weight.size:
        return np.nan
    if undefined == "judge_zero" and np.ptp(rows.judge) == 0 and np.ptp(rows.human) > 0:
        return 0.0
    if np.ptp(weight) == 0 or min(map(np.ptp, sides)) == 0:
        return float(correlate(rows.judge[None], rows.human[None], coefficient)[0])
    of_weighted = COEFFICIENTS[coefficient].of_weighted
    if of_weighted is None:
        raise ValueError(f"{coefficient} over all outputs has no weighted form")
    return of_weighted(*sides, weight)


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
    """A term for each document, whose mean is Spearman's rho by the primary convention.

    At summary level it is the document's own rho. At dataset level it is the rho over all outputs
    plus the document's influence on it. It is NaN for a document that is left out, because people
    rate its outputs alike.
    """
    if level == "summary":
        return _by_convention(_document_coefficients(rows, "spearman"), rows, PRIMARY)
    if rows.human.size < 2 or np.ptp(rows.human) == 0:
        return np.full(rows.n_documents, np.nan)
    if np.ptp(rows.judge) == 0:
        return np.zeros(rows.n_documents)
    return _dataset_terms(rows)


def _document_coefficients(rows: Rows, coefficient: str) -> Vector:
    """Each document's coefficient; NaN if a side is constant or fewer than two have a score."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    values = np.full(sizes.size, np.nan)
    for size in np.unique(sizes[sizes > 1]):
        documents = np.flatnonzero(sizes == size)
        outputs = rows.first_rows[documents, None] + np.arange(size)
        values[documents] = correlate(rows.judge[outputs], rows.human[outputs], coefficient)
    return values


def _by_convention(coefficients: Vector, rows: Rows, undefined: Undefined) -> Vector:
    """The documents' coefficients, with 0 in place of NaN as the convention says."""
    if undefined == "left_out" or not rows.n_documents:
        return coefficients
    highest, lowest = (
        extreme.reduceat(rows.human, rows.first_rows) for extreme in (np.maximum, np.minimum)
    )
    return np.where(np.isnan(coefficients) & (highest > lowest), 0.0, coefficients)


def _dataset_terms(rows: Rows) -> Vector:
    """Spearman's rho over all outputs plus the influence of each document on it.

    Let x and y be both sides' standardised mid-ranks, and r = E xy. An output moves r by
    xy - r (xx + yy) / 2, and by its effect on the ranks of the others.
    """
    n, weight = rows.n_documents, rows.weight
    x, y = (_unit(_ranks(side, weight), weight) for side in (rows.judge, rows.human))
    r = float(np.average(x * y, weights=weight))
    influence = (
        x * y
        - r * (x * x + y * y) / 2
        + _on_others(rows.judge, y - r * x, weight)
        + _on_others(rows.human, x - r * y, weight)
    )
    terms: Vector = r + np.bincount(rows.document, influence * weight, n) * n / influence.size
    return terms


def _unit(values: Vector, weight: Vector) -> Vector:
    standard: Vector = _standard(values[None], weight)[0] * np.sqrt(values.size)
    return standard


def _ranks(side: Vector, weight: Vector) -> Vector:
    """Mid-ranks, up to a constant, in which an output counts as `weight` outputs."""
    return -_sums_above(side, weight)


def _sums_above(side: Vector, values: Vector) -> Vector:
    """The sum of `values` over all higher outputs, plus half of it over equal ones."""
    order = np.argsort(side, kind="stable")
    ascending, total = side[order], np.concatenate([[0.0], np.cumsum(values[order])])
    first = total[np.searchsorted(ascending, side, "left")]
    last = total[np.searchsorted(ascending, side, "right")]
    above: Vector = total[-1] - (first + last) / 2
    return above


def _on_others(side: Vector, slope: Vector, weight: Vector) -> Vector:
    """What each output adds to r by its effect on the ranks of the others, with mean 0.

    An output raises the rank of higher outputs by one and of equal ones by a half; `slope` is how
    much r changes with each one's standardised rank.
    """
    ranks = _ranks(side, weight)
    centred = ranks - np.average(ranks, weights=weight)
    scale = np.sqrt(np.average(centred**2, weights=weight))
    added = _sums_above(side, slope * weight) / scale
    result: Vector = added - np.average(added, weights=weight)
    return result


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
        judge_a: (outputs,) scores of judge A, NaN where it failed.
        judge_b: (outputs,) scores of judge B, NaN where it failed.
        human: (outputs,) people's mean ratings.
        document: (outputs,) document labels.
        system: (outputs,) system labels, for the system level.
        level: "dataset", "summary" or "system".

    Returns:
        The difference, in [-2, 2], by the primary convention. It has no documents if people rate
        everything alike.

    Raises:
        ValueError: As `read_rows`, or `system` is missing at system level.
    """
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    a, b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    both = ~np.isnan(a) & ~np.isnan(b)
    systems = system if level == "system" else None
    rows_a, rows_b = (
        read_rows(np.where(both, side, np.nan), human, document, systems) for side in (a, b)
    )
    names = tuple(str(name) for name in np.unique(np.asarray(document)[both]))
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
    """The contrast at system level; scores are standardised, so that swaps mix equal scales."""
    shape = a.n_documents, a.n_systems
    cell, counts = a.document * a.n_systems + a.system, np.bincount(a.system, minlength=shape[1])
    # (documents, systems): what each document adds to each system's mean.
    added_a, added_b = (
        np.bincount(cell, _unit(rows.judge, rows.weight), math.prod(shape)).reshape(shape) / counts
        for rows in (a, b)
    )
    human = _system_means(a)[1]
    middle = (added_a + added_b).sum(axis=0) / 2

    def rho_of(means: Matrix) -> Vector:
        return np.nan_to_num(correlate(_rounded(means), np.broadcast_to(human, means.shape)))

    def differences(signs: Matrix) -> Vector:
        half = signs @ (added_a - added_b) / 2
        gaps: Vector = rho_of(middle + half) - rho_of(middle - half)
        return gaps

    n = a.n_documents
    if a.n_systems < 2 or np.ptp(human) == 0:
        return mean_of_differences(np.empty(0), ())
    swaps = stream(0, "swaps").choice([-1.0, 1.0], (SWAPS, n))
    error = float(np.sqrt((differences(swaps) ** 2).mean())) if n > 1 else np.inf
    terms_a, terms_b = (
        document_terms(read_rows(_system_means(rows)[0], human), "dataset") for rows in (a, b)
    )
    return Contrast(
        value=float(differences(np.ones((1, n)))[0]),
        error=error,
        documents=names,
        terms=terms_a - terms_b,
        interval=interval_of_mean(terms_a - terms_b, bound=2),
        swapped=differences,
    )
