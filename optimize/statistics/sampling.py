"""Drawing documents to label: systematic draws with equal chances, or with chances by disagreement.

Documents stand in the order of the judge's scores, and one is drawn at each whole step through
their chances from a random start. So each has exactly its chance, and every stretch of scores its
share. A document that is drawn with the chance p stands for 1 / p documents (Horvitz and Thompson
1952); a mean has the least variance where chances follow the sd of what labels add to what the
judge says (Neyman 1934, for active inference arXiv:2403.03208).
"""

import numpy as np
from numpy.typing import NDArray

from optimize.statistics.intervals import Vector

Indices = NDArray[np.intp]

# Sizes are at most so often the usual one, or one over it: a wrong guess costs little.
MOST_UNEQUAL = 2.0


def chances(sizes: Vector, n: int) -> Vector:
    """Each document's chance of being among the `n` drawn: by its size; the largest are certain."""
    certain = np.zeros(sizes.size, dtype=bool)
    while not certain.all():
        chance = np.where(certain, 1.0, (n - certain.sum()) * sizes / sizes[~certain].sum())
        if not (more := ~certain & (chance > 1 - 1e-9)).any():
            return chance
        certain |= more
    return np.ones(sizes.size)


def systematic(chance: Vector, start: float) -> Indices:
    """The places drawn, as many as the chances sum to; `start` is uniform in [0, 1)."""
    certain, others = np.flatnonzero(chance == 1), np.flatnonzero(chance < 1)
    ends = np.cumsum(chance[others])
    n = round(float(ends[-1])) if ends.size else 0
    # Rounding must not put the last step past the end.
    places = np.searchsorted(ends, start + np.arange(n), side="right").clip(max=others.size - 1)
    return np.concatenate([certain, others[places]])


def draw(sizes: Vector, order: Vector, n: int, rng: np.random.Generator) -> tuple[Indices, Vector]:
    """`n` documents in random order, so that any first part is drawn, too, and their chances.

    `order` is what they stand in order of; equal ones are shuffled.
    """
    places = np.lexsort([rng.random(order.size), order])
    chance = chances(sizes[places], n)
    drawn = rng.permutation(systematic(chance, rng.random()))
    return places[drawn], chance[drawn]


def sizes_by_disagreement(disagreement: Vector, error: Vector) -> Vector:
    """sqrt(a + b d) of each document's disagreement d, fitted to the squared errors (NaN: none).

    The slope is shrunk by what its standard error says of it: b is 0 where disagreement tells
    nothing of the errors, and all sizes are equal then.
    """
    known = ~np.isnan(error) & ~np.isnan(disagreement)
    squares, apart = error[known] ** 2, disagreement[known]
    gaps = apart - apart.mean() if apart.size else apart
    power = float(gaps @ gaps)
    if apart.size < 3 or power == 0:
        return np.ones(error.size)
    slope = float(gaps @ squares) / power
    left = squares - squares.mean() - slope * gaps
    variance = apart.size / (apart.size - 2) * float((gaps * left) @ (gaps * left)) / power**2
    if slope <= 0 or variance >= slope**2:
        return np.ones(error.size)
    slope *= 1 - variance / slope**2
    others = np.where(np.isnan(disagreement), apart.mean(), disagreement)
    expected = np.maximum(squares.mean() + slope * (others - apart.mean()), 0)
    usual = float(np.sqrt(expected.mean()))
    sizes: Vector = np.sqrt(expected).clip(usual / MOST_UNEQUAL, usual * MOST_UNEQUAL)
    return sizes


def per_document(values: Vector, document: Indices) -> Vector:
    """The mean of each document's values; NaN where it has none."""
    known = ~np.isnan(values)
    sums, n = (np.bincount(document, side) for side in (np.where(known, values, 0), known))
    return np.where(n > 0, sums / np.maximum(n, 1), np.nan)
