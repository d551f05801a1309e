"""Spearman, Pearson and Kendall's tau-b for many rows at once, with ties and weights.

A weight says how many times an output (or system) was drawn, so a bootstrap needs no copies: a
weight of two gives what two copies would.
"""

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Coefficient = Literal["spearman", "pearson", "kendall"]
Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

# Pairs of outputs are compared in blocks of about this many, to bound memory.
BLOCK = 4_000_000
# Beyond this many outputs in a row, scipy's n log n beats comparing all pairs.
MANY = 128


def correlate(
    x: Matrix, y: Matrix, coefficient: Coefficient, weights: Matrix | None = None
) -> Vector:
    """The coefficient between each row of `x` and the same row of `y`; NaN where one is constant.

    All are (rows, n); `x` and `y` may be one row (1, n) for many rows of weights. Raises KeyError
    for an unknown coefficient.
    """
    return _COEFFICIENTS[coefficient](x, y, np.ones_like(x) if weights is None else weights)


def midranks(x: Matrix, weights: Matrix | None = None) -> Matrix:
    """Mid-ranks within each row, from 1: ties share the mean of the places they take.

    One row of `x` will do for many rows of weights.
    """
    w = np.ones_like(x) if weights is None else weights
    order = np.argsort(x, axis=-1, kind="stable")
    ascending = np.take_along_axis(x, order, -1)
    through = np.cumsum(np.take_along_axis(w, order, -1), axis=-1)
    before = np.concatenate([np.zeros_like(through[..., :1]), through[..., :-1]], axis=-1)
    new = np.ones(x.shape, dtype=bool)
    new[..., 1:] = ascending[..., 1:] != ascending[..., :-1]
    last = np.ones(x.shape, dtype=bool)
    last[..., :-1] = new[..., 1:]
    first_place = np.maximum.accumulate(np.where(new, before, 0.0), axis=-1)
    last_place = np.where(last, through, np.inf)[..., ::-1]
    last_place = np.minimum.accumulate(last_place, axis=-1)[..., ::-1]
    ranks = np.empty_like(through)
    np.put_along_axis(ranks, order, (first_place + last_place + 1) / 2, -1)
    return ranks


def constant(x: Matrix, weights: Matrix | None = None) -> NDArray[np.bool_]:
    """Which rows have one value only, among those of positive weight."""
    if weights is None:
        weights = np.ones_like(x)
    largest = np.where(weights > 0, x, -np.inf).max(axis=-1)
    result: NDArray[np.bool_] = largest <= np.where(weights > 0, x, np.inf).min(axis=-1)
    return result


def _spearman(x: Matrix, y: Matrix, w: Matrix) -> Vector:
    return _pearson(midranks(x, w), midranks(y, w), w)


def _pearson(x: Matrix, y: Matrix, w: Matrix) -> Vector:
    undefined = constant(x, w) | constant(y, w)
    x, y = _standard(x, w), _standard(y, w)
    rho: Vector = np.einsum("...i,...i,...i->...", w, x, y)
    return np.where(undefined, np.nan, np.clip(rho, -1, 1))


def _standard(x: Matrix, w: Matrix) -> Matrix:
    """Each row with weighted mean 0 and weighted sum of squares 1."""
    total = np.maximum(w.sum(axis=-1, keepdims=True), 1e-300)
    centred = x - (w * x).sum(axis=-1, keepdims=True) / total
    # Divided first, because squares of very large or small scores leave the range of floats.
    largest = np.max(np.abs(centred) * (w > 0), axis=-1, keepdims=True)
    centred = centred / np.where(largest > 0, largest, 1)
    norm = np.sqrt((w * centred**2).sum(axis=-1, keepdims=True))
    result: Matrix = centred / np.where(norm > 0, norm, 1)
    return result


def _kendall(x: Matrix, y: Matrix, w: Matrix) -> Vector:
    """Each row's tau-b, (rows, n) with weights; from signs of all pairs, a block at a time."""
    n = x.shape[-1]
    if n > MANY and bool((w == 1).all()):
        return _kendall_by_sorting(x, y)
    result = np.empty(x.shape[0])
    step = max(1, BLOCK // max(n * n, 1))
    for start in range(0, x.shape[0], step):
        rows = slice(start, start + step)
        a = np.sign(x[rows, :, None] - x[rows, None, :])
        b = np.sign(y[rows, :, None] - y[rows, None, :])
        pairs = w[rows, :, None] * w[rows, None, :]
        result[rows] = tau_b(
            *((pairs * product).sum(axis=(1, 2)) for product in (a * b, a * a, b * b))
        )
    return np.clip(result, -1, 1)


def tau_b(concordance: Vector, x_untied: Vector, y_untied: Vector) -> Vector:
    """Kendall's tau-b from concordant less discordant pairs and the pairs untied on either side."""
    defined = (x_untied > 0) & (y_untied > 0)
    scale = np.where(defined, np.sqrt(x_untied) * np.sqrt(y_untied), 1)
    return np.where(defined, concordance / scale, np.nan)


def concordances(x: Vector, y: Vector) -> Vector:
    """For each entry, how many others are concordant with it less those discordant; n log^2 n."""
    counts = sum(
        sign * _n_below(a, b) for a, b, sign in ((x, y, 1), (-x, -y, 1), (-x, y, -1), (x, -y, -1))
    )
    return np.asarray(counts, float)


def _n_below(x: Vector, y: Vector) -> NDArray[np.intp]:
    """For each entry, how many others are lower on both sides."""
    # Of equal x the higher y comes first, so that those before an entry with a lower y have a lower
    # x as well.
    order = np.lexsort((-y, x))
    ranks = np.unique(y, return_inverse=True)[1].ravel()[order]
    below = np.zeros(x.size, np.intp)
    # A rank is lower than another where, at the highest bit in which they differ, it has a 0.
    for bit in range(int(ranks.max(initial=0)).bit_length()):
        higher_bits = ranks >> (bit + 1)
        by_bits = np.argsort(higher_bits, kind="stable")
        has_bit = (ranks[by_bits] >> bit & 1).astype(bool)
        zeros = np.cumsum(~has_bit)
        # Zeros of entries with other higher bits stand before the first with these.
        first = np.searchsorted(higher_bits[by_bits], higher_bits[by_bits])
        before = np.concatenate([[0], zeros])[first]
        below[by_bits] += np.where(has_bit, zeros - before, 0)
    result = np.empty_like(below)
    result[order] = below
    return result


def _kendall_by_sorting(x: Matrix, y: Matrix) -> Vector:
    """Each row's tau-b without weights, in n log n; NaN where a side is constant."""
    from scipy import stats

    defined = ~(constant(x) | constant(y))
    return np.array(
        [
            stats.kendalltau(a, b).statistic if is_defined else np.nan
            for a, b, is_defined in zip(x, y, defined, strict=True)
        ]
    )


_COEFFICIENTS: dict[str, Callable[[Matrix, Matrix, Matrix], Vector]] = {
    "spearman": _spearman,
    "pearson": _pearson,
    "kendall": _kendall,
}
