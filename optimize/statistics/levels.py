"""Each level's coefficient as a function of how often every document was drawn.

A `Statistic` takes weights (draws, documents), how often each document is in each draw, and gives
one value a draw, NaN where undefined. Weights of one give the value on the data themselves; drawn
weights, the bootstrap; all but one document, the jackknife.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.coefficients import BLOCK, Coefficient, Matrix, Vector, constant, correlate

Level = Literal["dataset", "summary", "system"]
Undefined = Literal["judge_zero", "left_out", "zero"]
# What every figure means that names no other convention: people who rate a document alike leave it
# without a rho, a judge that rates it alike has told nothing of it and gets 0.
PRIMARY: Undefined = "judge_zero"
Statistic = Callable[[Matrix], Vector]
Codes = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Outputs with a score, sorted by document; the failed ones are counted.

    `n_documents` have at least one score; `n_silent` further documents have none.
    """

    judge: Vector
    human: Vector
    document: Codes
    system: Codes
    n_documents: int
    n_systems: int
    n_failed: int
    n_silent: int


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
    usable = ~np.isnan(scores)
    document_codes = np.unique(documents[usable], return_inverse=True)[1]
    system_codes = np.unique(systems[usable], return_inverse=True)[1]
    order = np.argsort(document_codes, kind="stable")
    n_documents = int(document_codes.max(initial=-1)) + 1
    return Rows(
        judge=scores[usable][order],
        human=ratings[usable][order],
        document=document_codes[order],
        system=system_codes[order],
        n_documents=n_documents,
        n_systems=int(system_codes.max(initial=-1)) + 1,
        n_failed=int((~usable).sum()),
        n_silent=np.unique(documents).size - n_documents,
    )


def _check_finite(judge: Vector, human: Vector) -> None:
    bad = np.flatnonzero(~np.isfinite(human))
    if bad.size:
        raise ValueError(
            f"human[{bad[0]}] is {human[bad[0]]} ({bad.size} such): every output needs a rating; "
            "leave out outputs that nobody rated"
        )
    bad = np.flatnonzero(np.isinf(judge))
    if bad.size:
        raise ValueError(f"judge[{bad[0]}] is {judge[bad[0]]}: a failed judgement is NaN")


def dataset_statistic(rows: Rows, coefficient: Coefficient) -> Statistic:
    """The coefficient over all outputs of the drawn documents."""
    if coefficient == "kendall":
        return _dataset_kendall(rows)
    sides = (_side(rows.judge, coefficient), _side(rows.human, coefficient))
    # Outputs equal on both sides are one cell, so ties make every draw cheaper.
    order = np.lexsort((sides[1].place, sides[0].place))
    places = np.stack([sides[0].place[order], sides[1].place[order]])
    new = np.ones(order.size, dtype=bool)
    new[1:] = (places[:, 1:] != places[:, :-1]).any(axis=0)
    starts, cells = np.flatnonzero(new), places[:, new]
    document = rows.document[order]

    def statistic(weights: Matrix) -> Vector:
        counts = np.add.reduceat(weights[:, document], starts, axis=1)
        x, x_squares = sides[0].score(counts, cells[0])
        y, y_squares = sides[1].score(counts, cells[1])
        defined = (x_squares > 0) & (y_squares > 0)
        scale = np.sqrt(x_squares) * np.sqrt(y_squares)
        product = np.einsum("bi,bi,bi->b", counts, x, y)
        rho: Vector = np.where(defined, product / np.where(defined, scale, 1), np.nan)
        return np.clip(rho, -1, 1)

    return _in_blocks(statistic, rows.judge.size)


@dataclass(frozen=True, slots=True)
class _Side:
    """One side's distinct values, ascending, and each output's place among them."""

    place: Codes
    values: Vector
    ranked: bool

    def score(self, counts: Matrix, cells: Codes) -> tuple[Matrix, Vector]:
        """Centred scores (mid-ranks if ranked) of every cell, and their sum of squares."""
        by_value = np.zeros((counts.shape[0], self.values.size))
        if cells.size and (np.diff(cells) >= 0).all():
            by_value = np.add.reduceat(counts, np.flatnonzero(np.diff(cells, prepend=-1)), axis=1)
        else:
            order = np.argsort(cells, kind="stable")
            starts = np.flatnonzero(np.diff(cells[order], prepend=-1))
            by_value = np.add.reduceat(counts[:, order], starts, axis=1)
        total = by_value.sum(axis=1, keepdims=True)
        if self.ranked:
            centred = np.cumsum(by_value, axis=1) - by_value / 2 - total / 2
        else:
            centred = self.values - by_value @ self.values[:, None] / np.maximum(total, 1)
        spread: Vector = np.einsum("bi,bi,bi->b", by_value, centred, centred)
        several = (by_value > 0).sum(axis=1) > 1
        return centred[:, cells], np.where(several, spread, 0.0)


def _side(values: Vector, coefficient: Coefficient) -> _Side:
    distinct, place = np.unique(values, return_inverse=True)
    if coefficient == "pearson" and distinct.size:
        distinct = distinct - distinct.mean()
        distinct = distinct / (np.abs(distinct).max() or 1.0)
    return _Side(place, distinct, coefficient == "spearman")


def _dataset_kendall(rows: Rows) -> Statistic:
    """Concordance is a sum over pairs of documents, so a draw is a quadratic form in its weights.

    A copy of an output is tied with itself: such pairs add nothing, as they should.
    """
    d, n = rows.n_documents, rows.judge.size
    starts = np.flatnonzero(np.diff(rows.document, prepend=-1))
    sums = np.zeros((3, d, d))
    step = max(1, BLOCK // max(n, 1))
    for first in range(0, n, step):
        some = slice(first, first + step)
        x = np.sign(rows.judge[some, None] - rows.judge)
        y = np.sign(rows.human[some, None] - rows.human)
        for total, pairs in zip(sums, (x * y, x * x, y * y), strict=True):
            np.add.at(total, rows.document[some], np.add.reduceat(pairs, starts, axis=1))

    def statistic(weights: Matrix) -> Vector:
        both, x, y = (((weights @ total) * weights).sum(axis=1) for total in sums)
        defined = (x > 0) & (y > 0)
        scale = np.sqrt(x) * np.sqrt(y)
        return np.where(defined, both / np.where(defined, scale, 1), np.nan)

    return statistic


def document_values(rows: Rows, coefficient: Coefficient) -> tuple[Vector, Vector, Vector]:
    """Each document's coefficient, NaN where undefined, and two marks of 0.0 or 1.0.

    The marks: two outputs or more have a score; human ratings differ among them.
    """
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    firsts = np.cumsum(sizes) - sizes
    values, varied = np.full(sizes.size, np.nan), np.zeros(sizes.size)
    for size in np.unique(sizes[sizes > 1]):
        some = np.flatnonzero(sizes == size)
        places = firsts[some, None] + np.arange(size)
        values[some] = correlate(rows.judge[places], rows.human[places], coefficient)
        varied[some] = ~constant(rows.human[places])
    return values, (sizes > 1).astype(float), varied


def counted_values(
    rows: Rows, coefficient: Coefficient, undefined: Undefined
) -> tuple[Vector, Vector]:
    """Each document's value under a convention, and whether it enters the mean (0.0 or 1.0)."""
    values, several, varied = document_values(rows, coefficient)
    known = ~np.isnan(values)
    counted = {
        "left_out": known,
        "zero": several > 0,
        "judge_zero": known | (varied > 0),
    }[undefined]
    return np.where(known, values, 0.0), counted.astype(float)


def system_statistic(rows: Rows, coefficient: Coefficient) -> Statistic:
    """The coefficient over per-system means of the drawn documents."""
    shape = (rows.n_documents, rows.n_systems)
    counts, judge, human = np.zeros((3, *shape))
    np.add.at(counts, (rows.document, rows.system), 1)
    np.add.at(judge, (rows.document, rows.system), rows.judge)
    np.add.at(human, (rows.document, rows.system), rows.human)

    def statistic(weights: Matrix) -> Vector:
        n = weights @ counts
        x, y = (weights @ side / np.maximum(n, 1) for side in (judge, human))
        if coefficient != "pearson":
            x, y = _rounded(x), _rounded(y)
        return correlate(x, y, coefficient, (n > 0).astype(float))

    return statistic


def _rounded(means: Matrix) -> Matrix:
    """Means to 12 digits, because the order of a sum must not break a tie."""
    scale = float(np.abs(means).max(initial=0.0)) or 1.0
    return np.round(means / scale, 12)


def level_statistic(
    rows: Rows, level: Level, coefficient: Coefficient, undefined: Undefined = PRIMARY
) -> Statistic:
    """The statistic of a level by its name, under a convention on what is undefined."""
    if level != "summary":
        of_level = dataset_statistic if level == "dataset" else system_statistic
        if counts_zero(rows, level, undefined):
            return lambda weights: np.zeros(len(weights))
        return of_level(rows, coefficient)
    values, counted = counted_values(rows, coefficient, undefined)

    def mean(weights: Matrix) -> Vector:
        n = weights @ counted
        return np.where(n > 0, weights @ (values * counted) / np.maximum(n, 1), np.nan)

    return mean


def counts_zero(rows: Rows, level: Level, undefined: Undefined) -> bool:
    """Whether the one coefficient over all outputs or systems is 0 by convention.

    It is where the judge says one thing throughout ("zero": where either side does).
    """
    if undefined == "left_out" or not rows.n_documents:
        return False
    of_level = dataset_statistic if level == "dataset" else system_statistic
    once = np.ones((1, rows.n_documents))
    if not np.isnan(of_level(rows, "spearman")(once)[0]):
        return False
    if undefined == "zero":
        return (rows.judge.size if level == "dataset" else rows.n_systems) > 1
    # People held against themselves have a coefficient wherever they tell outputs apart.
    people = replace(rows, judge=rows.human)
    return not np.isnan(of_level(people, "spearman")(once)[0])


def _in_blocks(statistic: Statistic, n: int) -> Statistic:
    """Bound memory: a few draws at a time."""
    step = max(1, BLOCK // max(n, 1))

    def blocked(weights: Matrix) -> Vector:
        parts = [statistic(weights[i : i + step]) for i in range(0, len(weights), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    return blocked
