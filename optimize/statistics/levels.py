"""Each level's coefficient as a function of how often every document was drawn.

A `Statistic` takes weights (draws, documents), how often each document is in each draw, and gives
one value a draw, NaN where undefined. Weights of one give the value on the data themselves; drawn
weights, the bootstrap; all but one document, the jackknife.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.coefficients import (
    BLOCK,
    Coefficient,
    Matrix,
    Vector,
    concordances,
    correlate,
    tau_b,
)

Level = Literal["dataset", "summary", "system"]
Undefined = Literal["judge_zero", "left_out"]
# What every figure means that names no other convention: people who rate a document alike leave it
# without a rho, a judge that rates it alike has told nothing of it and gets 0.
PRIMARY: Undefined = "judge_zero"
# With more documents what each adds to Kendall's tau-b stands for all pairs of them.
MAX_PAIRED_DOCUMENTS = 1000
Statistic = Callable[[Matrix], Vector]
Codes = NDArray[np.intp]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Outputs with a score, sorted by document; the failed ones are counted.

    `n_documents` have at least one score; `n_unscored_documents` further ones have none.
    """

    judge: Vector
    human: Vector
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


def read_rows(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike | None = None,
    system: ArrayLike | None = None,
) -> Rows:
    """Check parallel vectors, set failed outputs (NaN in `judge`) aside and number the documents.

    Without `document` every output is a document of its own. Raises ValueError where shapes
    differ, `human` is not finite or `judge` is infinite.
    """
    scores, ratings = np.asarray(judge, dtype=float), np.asarray(human, dtype=float)
    documents = np.arange(scores.size) if document is None else np.asarray(document)
    systems = np.zeros(scores.size, dtype=int) if system is None else np.asarray(system)
    for name, vector in (("human", ratings), ("document", documents), ("system", systems)):
        if scores.ndim != 1 or vector.shape != scores.shape:
            raise ValueError(
                f"judge and {name} must be vectors of one length; "
                f"their shapes are {scores.shape} and {vector.shape}"
            )
    _check_finite(scores, ratings)
    scored = ~np.isnan(scores)
    document_codes = np.unique(documents[scored], return_inverse=True)[1]
    system_codes = np.unique(systems[scored], return_inverse=True)[1]
    order = np.argsort(document_codes, kind="stable")
    n_documents = int(document_codes.max(initial=-1)) + 1
    return Rows(
        judge=scores[scored][order],
        human=ratings[scored][order],
        document=document_codes[order],
        system=system_codes[order],
        n_documents=n_documents,
        n_systems=int(system_codes.max(initial=-1)) + 1,
        n_failed=int((~scored).sum()),
        n_unscored_documents=np.unique(documents).size - n_documents,
    )


def _check_finite(judge: Vector, human: Vector) -> None:
    """Raise ValueError where a human rating is not finite, or a score is infinite (NaN: failed)."""
    bad = np.flatnonzero(~np.isfinite(human))
    if bad.size:
        raise ValueError(
            f"human[{bad[0]}] is {human[bad[0]]} ({bad.size} such): every output needs a rating; "
            "leave out outputs that nobody rated"
        )
    bad = np.flatnonzero(np.isinf(judge))
    if bad.size:
        raise ValueError(f"judge[{bad[0]}] is {judge[bad[0]]}: a failed judgement is NaN")


def level_statistic(
    rows: Rows, level: Level, coefficient: Coefficient, undefined: Undefined = PRIMARY
) -> Statistic:
    """The statistic of a level by its name, under a convention on what is undefined."""
    if level == "summary":
        return _summary_statistic(rows, coefficient, undefined)
    if is_zero_by_convention(rows, level, undefined):
        return lambda weights: np.zeros(len(weights))
    return (dataset_statistic if level == "dataset" else system_statistic)(rows, coefficient)


def is_zero_by_convention(rows: Rows, level: Level, undefined: Undefined) -> bool:
    """Whether the one coefficient over all outputs, or over all systems' means, is 0 by convention.

    "judge_zero": where the judge's are constant and people's vary; "left_out": never.
    """
    if undefined == "left_out" or not rows.n_documents:
        return False
    sides = [rows.judge, rows.human]
    if level == "system":
        counts = system_sums(rows, np.ones(rows.judge.size)).sum(axis=0)
        sides = [_rounded(system_sums(rows, side).sum(axis=0) / counts) for side in sides]
    judge_varies, people_vary = (bool(np.ptp(side) > 0) for side in sides)
    return people_vary and not judge_varies


def dataset_statistic(rows: Rows, coefficient: Coefficient) -> Statistic:
    """The coefficient over all outputs of the drawn documents."""
    if coefficient == "kendall":
        return _dataset_kendall(rows)
    # Outputs equal on both sides are one cell, so ties make every draw cheaper.
    cells, cell = np.unique(np.stack([rows.judge, rows.human]), axis=1, return_inverse=True)
    order = np.argsort(cell.ravel(), kind="stable")
    document = rows.document[order]
    starts = np.flatnonzero(np.diff(cell.ravel()[order], prepend=-1))
    # A few draws at a time, to bound memory.
    step = max(1, BLOCK // max(rows.judge.size, 1))

    def statistic(weights: Matrix) -> Vector:
        values = [np.empty(0)]
        for first in range(0, len(weights), step):
            output_weights = weights[first : first + step, document]
            counts = np.add.reduceat(output_weights, starts, axis=1)
            values.append(correlate(cells[:1], cells[1:], coefficient, counts))
        return np.concatenate(values)

    return statistic


def _dataset_kendall(rows: Rows) -> Statistic:
    """Kendall's tau-b over all outputs of the drawn documents.

    Concordance is a sum over pairs of documents, so a draw is a quadratic form in its weights. A
    copy of an output is tied with itself: such pairs add nothing, as they should. The matrices of
    many documents would take gigabytes: there the forms are taken at their slope at weights of one,
    which is out by a share of 1 / documents.
    """
    n_documents, n = rows.n_documents, rows.judge.size
    if n_documents > MAX_PAIRED_DOCUMENTS:
        sides = ((rows.judge, rows.human), (rows.judge, rows.judge), (rows.human, rows.human))
        slopes = np.stack(
            [np.bincount(rows.document, concordances(*pair), n_documents) for pair in sides], axis=1
        )
        return lambda weights: tau_b(*(2 * (weights @ slopes) - slopes.sum(axis=0)).T)
    sums = np.zeros((3, n_documents, n_documents))
    step = max(1, BLOCK // max(n, 1))
    for first in range(0, n, step):
        block = slice(first, first + step)
        x = np.sign(rows.judge[block, None] - rows.judge)
        y = np.sign(rows.human[block, None] - rows.human)
        for total, pairs in zip(sums, (x * y, x * x, y * y), strict=True):
            by_document = np.add.reduceat(pairs, rows.first_rows, axis=1)
            np.add.at(total, rows.document[block], by_document)

    def statistic(weights: Matrix) -> Vector:
        return tau_b(*(((weights @ total) * weights).sum(axis=1) for total in sums))

    return statistic


def _summary_statistic(rows: Rows, coefficient: Coefficient, undefined: Undefined) -> Statistic:
    """The mean of the drawn documents' coefficients, 0 for NaN where `undefined` says so."""
    coefficients = document_values(rows, coefficient, undefined)
    is_defined = (~np.isnan(coefficients)).astype(float)

    def weighted_mean(weights: Matrix) -> Vector:
        n = weights @ is_defined
        return np.where(n > 0, weights @ np.nan_to_num(coefficients) / np.maximum(n, 1), np.nan)

    return weighted_mean


def document_values(rows: Rows, coefficient: Coefficient, undefined: Undefined) -> Vector:
    """What each document adds to the mean under a convention; NaN: it is left out."""
    return by_convention(document_coefficients(rows, coefficient), rows, undefined)


def document_coefficients(rows: Rows, coefficient: Coefficient) -> Vector:
    """Each document's coefficient; NaN where a side is constant, or but one output has a score."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    values = np.full(sizes.size, np.nan)
    for size in np.unique(sizes[sizes > 1]):
        documents = np.flatnonzero(sizes == size)
        outputs = rows.first_rows[documents, None] + np.arange(size)
        values[documents] = correlate(rows.judge[outputs], rows.human[outputs], coefficient)
    return values


def by_convention(coefficients: Vector, rows: Rows, undefined: Undefined) -> Vector:
    """Documents' coefficients, with 0 in place of NaN where the convention says so."""
    if undefined == "left_out" or not rows.n_documents:
        return coefficients
    highest, lowest = (
        extreme.reduceat(rows.human, rows.first_rows) for extreme in (np.maximum, np.minimum)
    )
    return np.where(np.isnan(coefficients) & (highest > lowest), 0.0, coefficients)


def system_statistic(rows: Rows, coefficient: Coefficient) -> Statistic:
    """The coefficient over per-system means of the drawn documents."""
    counts = system_sums(rows, np.ones(rows.judge.size))
    sums = [system_sums(rows, side) for side in (rows.judge, rows.human)]

    def statistic(weights: Matrix) -> Vector:
        n = weights @ counts
        x, y = (weights @ side / np.maximum(n, 1) for side in sums)
        if coefficient != "pearson":
            x, y = _rounded(x), _rounded(y)
        return correlate(x, y, coefficient, (n > 0).astype(float))

    return statistic


def system_sums(rows: Rows, values: Vector) -> Matrix:
    """(documents, systems): sums of one value an output."""
    cell = rows.document * rows.n_systems + rows.system
    sums: Vector = np.bincount(cell, values, rows.n_documents * rows.n_systems).astype(float)
    return sums.reshape(rows.n_documents, rows.n_systems)


def _rounded(means: Matrix) -> Matrix:
    """Means to 12 digits, because the order of a sum must not break a tie."""
    scale = float(np.abs(means).max(initial=0.0)) or 1.0
    return np.round(means / scale, 12)
