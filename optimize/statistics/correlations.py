"""How far a judge ranks outputs as people do: one correlation at each of three levels.

All functions take parallel vectors, one entry an output: the judge's scores (NaN: a failed
judgement, left out and counted), people's mean ratings (no NaN), and document or system labels of
any kind. `weight` is what each output's document counts, where documents were drawn with unequal
chances. Intervals need no generator; they are for documents like these, at system level for
systems like these. `contrast_judges` compares two judges on the same outputs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

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

Coefficient = Literal["spearman", "pearson", "kendall"]
Level = Literal["dataset", "summary", "system"]
Undefined = Literal["judge_zero", "left_out"]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]

# What every figure means that names no other convention: people who rate a document alike leave it
# without a rho; a judge that rates it alike has said nothing of it and gets 0.
PRIMARY: Undefined = "judge_zero"
# Random swaps of two judges, whose differences have the standard error over documents.
SWAPS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Correlation:
    """A rank correlation and everything it was computed from.

    `interval` is None where it is withheld: below 15 documents (at system level 15 systems), where
    nearly all labels or scores are one and the rho is over all outputs, for a perfect or undefined
    value, and over all outputs or systems for other coefficients than Spearman's. `undefined` is
    the convention on what has no value (see `summary_level`). `n_outputs` counts outputs with a
    score; `n_documents` the documents that entered the value; `n_undefined`, at summary level,
    those with no value of their own, as one side is constant or fewer than two outputs have a
    score, and `n_zero` those of them that entered as 0; `n_failed` outputs that the judge gave no
    score.
    """

    coefficient: Coefficient
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
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """One correlation over all outputs; `document` matters to the interval only.

    A judge that gives every output the same score has no correlation. With "judge_zero", the
    default, it gets 0 if the human ratings vary, and NaN if these are constant too; with
    "left_out" it gets NaN. Without `document` each output is its own.
    """
    rows = read_rows(judge, human, document, weight=weight)
    interval = None
    value = _over_all(rows, coefficient, undefined)
    if coefficient == "spearman" and rows.n_untied >= FEW_DOCUMENTS:
        interval = correlation_interval(value, document_terms(rows, "dataset"))
    return Correlation(
        value=value,
        coefficient=coefficient,
        level="dataset",
        interval=interval,
        n_outputs=rows.judge.size,
        n_documents=rows.n_documents,
        n_failed=rows.n_failed,
        undefined=undefined,
    )


def summary_level(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """Mean over documents of the correlation across the outputs of each (arXiv:2010.07100).

    A document on which either side is constant has no correlation. `undefined` says what it adds:
    "judge_zero", the primary convention: 0 where people saw a difference and the judge saw none,
    nothing where people saw none; "left_out": nothing, as in most published tables. Documents with
    fewer than two scored outputs are missing, and left out in both.
    """
    rows = read_rows(judge, human, document, weight=weight)
    own = _document_coefficients(rows, coefficient)
    values = _by_convention(own, rows, undefined)
    defined, n_defined = ~np.isnan(values), int((~np.isnan(own)).sum())
    values, weights = values[defined], rows.weight[rows.first_rows][defined]
    value = np.nan
    if values.size:
        value = float(np.average(values, weights=weights))
        # Their mean is then the value; equal weights leave them as they are, to the last digit.
        values += (weights / weights.mean() - 1) * (values - value)
    return Correlation(
        value=value,
        coefficient=coefficient,
        level="summary",
        interval=correlation_interval(value, values),
        n_outputs=rows.judge.size,
        n_documents=values.size,
        n_undefined=rows.n_documents - n_defined + rows.n_unscored_documents,
        n_failed=rows.n_failed,
        n_zero=values.size - n_defined,
        undefined=undefined,
    )


def system_level(
    judge: ArrayLike,
    human: ArrayLike,
    system: ArrayLike,
    document: ArrayLike | None = None,
    *,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """One correlation over per-system means, both sides' over the outputs that the judge scored.

    The interval is for systems like these, measured on as many documents; Spearman's rho alone has
    one. A judge whose means are all equal gets 0, as at dataset level.
    """
    rows = read_rows(judge, human, document, system, weight)
    value = _over_all(read_rows(*_system_means(rows)), coefficient, undefined)
    return Correlation(
        value=value,
        coefficient=coefficient,
        level="system",
        interval=system_interval(value, rows.n_systems) if coefficient == "spearman" else None,
        n_outputs=rows.judge.size,
        n_documents=rows.n_documents,
        n_failed=rows.n_failed,
        undefined=undefined,
    )


def correlation(
    level: Level,
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    system: ArrayLike | None = None,
    *,
    coefficient: Coefficient = "spearman",
    undefined: Undefined = PRIMARY,
    weight: ArrayLike | None = None,
) -> Correlation:
    """The correlation of a level by its name; ValueError at system level without `system`."""
    how: Any = {"coefficient": coefficient, "undefined": undefined, "weight": weight}
    if level == "system":
        if system is None:
            raise ValueError("the system level needs each output's system")
        return system_level(judge, human, system, document, **how)
    of_level = summary_level if level == "summary" else dataset_level
    return of_level(judge, human, document, **how)


def rho(
    level: Level,
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
) -> float:
    """Spearman's rho of a level by its name, by the primary convention, without an interval."""
    rows = read_rows(judge, human, document, system if level == "system" else None)
    if level == "summary":
        terms = document_terms(rows, level)
        return float(np.nanmean(terms)) if not np.isnan(terms).all() else np.nan
    if level == "system":
        rows = read_rows(*_system_means(rows))
    return _over_all(rows, "spearman", PRIMARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Outputs with a score, sorted by document; the failed ones are counted.

    `n_documents` have at least one score; `n_unscored_documents` further ones have none. The mean
    `weight` is 1.
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
        """Where each document begins."""
        return np.flatnonzero(np.diff(self.document, prepend=-1))

    @property
    def n_untied(self) -> int:
        """How many documents have another label, or score if these are fewer, than the commonest.

        Of 30 outputs of which 27 pass, 3 say what rho over all outputs is.
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
    """Check parallel vectors, set failed outputs (NaN in `judge`) aside and number the documents.

    Without `document` every output is a document of its own. Raises ValueError where shapes
    differ, `human` is not finite or `judge` is infinite.
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
    scored = ~np.isnan(scores)
    all_names, all_codes = np.unique(documents, return_inverse=True)
    present, document_codes = np.unique(all_codes[scored], return_inverse=True)
    system_names, system_codes = np.unique(systems[scored], return_inverse=True)
    order = np.argsort(document_codes, kind="stable")
    weights = weights[scored][order]
    return Rows(
        judge=scores[scored][order],
        human=ratings[scored][order],
        weight=weights / weights.mean() if weights.size else weights,
        document=document_codes[order],
        system=system_codes[order],
        n_documents=present.size,
        n_systems=system_names.size,
        n_failed=int((~scored).sum()),
        n_unscored_documents=all_names.size - present.size,
    )


def correlate(x: Matrix, y: Matrix, coefficient: Coefficient = "spearman") -> Vector:
    """The coefficient between each row of `x` and the same row of `y`; NaN where one is constant.

    Raises KeyError for an unknown coefficient.
    """
    return _COEFFICIENTS[coefficient](x, y)


def midranks(x: Matrix) -> Matrix:
    """Mid-ranks within each row, from 1: ties share the mean of the places they take."""
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
    # Divided first, because squares of very large or small scores leave the range of floats.
    largest = np.abs(centred).max(axis=-1, keepdims=True)
    centred = centred / np.where(largest > 0, largest, 1)
    squares = centred**2 if weight is None else centred**2 * weight
    norm = np.sqrt(squares.sum(axis=-1, keepdims=True))
    standard: Matrix = centred / np.where(norm > 0, norm, 1)
    return standard


def _kendall(x: Matrix, y: Matrix) -> Vector:
    """Each row's tau-b, without scipy.stats, which takes a second to import."""
    sums = np.zeros((3, len(x)))  # of pairs: ordered alike less otherwise, untied in x, in y
    with np.errstate(over="ignore", invalid="ignore"):
        for apart in range(1, x.shape[-1]):
            a, b = (np.sign(side[:, apart:] - side[:, :-apart]) for side in (x, y))
            sums += [pairs.sum(axis=-1) for pairs in (a * b, a * a, b * b)]
        tau: Vector = np.clip(sums[0] / np.sqrt(sums[1]) / np.sqrt(sums[2]), -1, 1)
    return tau


_COEFFICIENTS: dict[str, Callable[[Matrix, Matrix], Vector]] = {
    "spearman": lambda x, y: _pearson(midranks(x), midranks(y)),
    "pearson": _pearson,
    "kendall": _kendall,
}


def _over_all(rows: Rows, coefficient: Coefficient, undefined: Undefined) -> float:
    """One coefficient over all entries, 0 for a constant judge where `undefined` says so."""
    sides, weight = (rows.judge, rows.human), rows.weight
    if not weight.size:
        return np.nan
    if undefined == "judge_zero" and np.ptp(rows.judge) == 0 and np.ptp(rows.human) > 0:
        return 0.0
    if np.ptp(weight) == 0 or min(map(np.ptp, sides)) == 0:
        return float(correlate(rows.judge[None], rows.human[None], coefficient)[0])
    if coefficient == "kendall":
        raise ValueError("tau-b over all outputs has no weighted form")
    ranked = coefficient == "spearman"
    x, y = (_unit(_ranks(side, weight) if ranked else side, weight) for side in sides)
    return float(np.clip(np.average(x * y, weights=weight), -1, 1))


def _system_means(rows: Rows) -> tuple[Vector, Vector]:
    counts = np.bincount(rows.system, rows.weight, rows.n_systems)
    judge, human = (
        _rounded(np.bincount(rows.system, side * rows.weight, rows.n_systems) / counts)
        for side in (rows.judge, rows.human)
    )
    return judge, human


def _rounded(means: Matrix) -> Matrix:
    """Means to 12 digits, because the order of a sum must not break a tie."""
    scale = float(np.abs(means).max(initial=0.0)) or 1.0
    return np.round(means / scale, 12)


def document_terms(rows: Rows, level: Level) -> Vector:
    """What each document adds to Spearman's rho by the primary convention; their mean is rho.

    At summary level a document's own rho, at dataset level the rho over all outputs and the
    document's influence on it. NaN: the document is left out, as people tell nothing in it apart.
    """
    if level == "summary":
        return _by_convention(_document_coefficients(rows, "spearman"), rows, PRIMARY)
    if rows.human.size < 2 or np.ptp(rows.human) == 0:
        return np.full(rows.n_documents, np.nan)
    if np.ptp(rows.judge) == 0:
        return np.zeros(rows.n_documents)
    return _dataset_terms(rows)


def _document_coefficients(rows: Rows, coefficient: Coefficient) -> Vector:
    """Each document's coefficient; NaN where a side is constant, or but one output has a score."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    values = np.full(sizes.size, np.nan)
    for size in np.unique(sizes[sizes > 1]):
        documents = np.flatnonzero(sizes == size)
        outputs = rows.first_rows[documents, None] + np.arange(size)
        values[documents] = correlate(rows.judge[outputs], rows.human[outputs], coefficient)
    return values


def _by_convention(coefficients: Vector, rows: Rows, undefined: Undefined) -> Vector:
    """Documents' coefficients, with 0 in place of NaN where the convention says so."""
    if undefined == "left_out" or not rows.n_documents:
        return coefficients
    highest, lowest = (
        extreme.reduceat(rows.human, rows.first_rows) for extreme in (np.maximum, np.minimum)
    )
    return np.where(np.isnan(coefficients) & (highest > lowest), 0.0, coefficients)


def _dataset_terms(rows: Rows) -> Vector:
    """Spearman's rho over all outputs and the influence of each document on it.

    With x and y both sides' mid-ranks less their means and divided by their SD, an output moves
    r = E xy by xy - r (xx + yy) / 2, and by its effect on the ranks of all others.
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
    """Mid-ranks in which an output counts as `weight` outputs, less what all have in common."""
    return -_sums_above(side, weight)


def _sums_above(side: Vector, values: Vector) -> Vector:
    """The sum of `values` over all outputs that are higher, and half of those that are equal."""
    order = np.argsort(side, kind="stable")
    ascending, total = side[order], np.concatenate([[0.0], np.cumsum(values[order])])
    first = total[np.searchsorted(ascending, side, "left")]
    last = total[np.searchsorted(ascending, side, "right")]
    above: Vector = total[-1] - (first + last) / 2
    return above


def _on_others(side: Vector, slope: Vector, weight: Vector) -> Vector:
    """What each output adds by its effect on the ranks of the others, at mean 0.

    It raises the rank of all that are higher by one, of those equal by a half; `slope` is what each
    of these adds to r by a standardised rank.
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
    """Judge A's Spearman less judge B's, by the primary convention, on the outputs both scored.

    Where people rate all alike, there is no document to compare on. Raises ValueError without
    `system` at system level.
    """
    if level == "system" and system is None:
        raise ValueError("the system level needs each output's system")
    a, b = np.asarray(judge_a, dtype=float), np.asarray(judge_b, dtype=float)
    failed = np.isnan(a) | np.isnan(b)
    only_systems = system if level == "system" else None
    rows_a, rows_b = (
        read_rows(np.where(failed, np.nan, side), human, document, only_systems) for side in (a, b)
    )
    names = tuple(str(name) for name in np.unique(np.asarray(document)[~failed]))
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
    """Over system means; scores are standardised first, so that swapping mixes like with like."""
    shape = a.n_documents, a.n_systems
    cell, counts = a.document * a.n_systems + a.system, np.bincount(a.system, minlength=shape[1])
    # What each document adds to each system's mean.
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
