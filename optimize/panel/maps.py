"""Fixed maps of members' scores to one scale: how far an output stands out in its document.

Judges use their scales differently, and a frozen panel scores single rows, so every member's score
has a map of its own. It goes to the normal score of the share of outputs that are scored lower
(ties count half), stretched so that a member's scores have a standard deviation of 1 within
documents: the nearest that a single row comes to its rank in its document. Whatever increasing
change a member makes to its scale, the map undoes. It needs no labels.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.monotone import MonotoneMap
from optimize.statistics.coefficients import Vector

Codes = NDArray[np.intp]

# Scores that take more values than this are mapped by as many of their quantiles.
MAX_KNOTS = 10
# What is left up to 1 is for margins larger than any seen.
LARGEST_MAPPED_MARGIN = 0.95


def codes(names: ArrayLike) -> Codes:
    """Names numbered from 0 in their order."""
    return np.unique(np.asarray(names), return_inverse=True)[1].astype(np.intp)


def standard_ranks(values: Vector, group: Codes) -> Vector:
    """Mid-ranks within each group with mean 0 and variance 1; 0 where all are equal, NaN for NaN.

    `group` numbers the groups from 0.
    """
    z = np.full(values.shape, np.nan)
    scored = np.flatnonzero(~np.isnan(values))
    if not scored.size:
        return z
    order = scored[np.lexsort((values[scored], group[scored]))]
    v, g = values[order], group[order]
    new_run = (np.diff(g, prepend=-1) != 0) | (np.diff(v, prepend=np.nan) != 0)
    first = np.flatnonzero(new_run)
    last = np.append(first[1:], v.size) - 1
    ranks = centre(((first + last) / 2)[np.cumsum(new_run) - 1], g)
    sd = np.sqrt(np.bincount(g, ranks**2) / np.maximum(np.bincount(g), 1))[g]
    z[order] = np.where(sd > 0, ranks / np.where(sd > 0, sd, 1), 0)
    return z


def centre(values: Vector, group: Codes) -> Vector:
    """Values less the mean of their group; NaN stay and do not count."""
    scored = ~np.isnan(values)
    n = np.maximum(np.bincount(group[scored], minlength=group.max(initial=-1) + 1), 1)
    means = np.bincount(group[scored], values[scored], n.size) / n
    centred: Vector = values - means[group]
    return centred


def fit_map(scores: Vector, group: Codes) -> MonotoneMap | None:
    """The map of a member's scores (NaN: failed); None where no group tells two outputs apart."""
    from scipy.special import ndtri

    scored = ~np.isnan(scores)
    x, g = scores[scored], group[scored]
    knots = np.unique(x)
    if knots.size > MAX_KNOTS:
        shares = (np.arange(MAX_KNOTS) + 0.5) / MAX_KNOTS
        knots = np.unique(np.quantile(x, shares, method="nearest"))
    knots = _distinct(knots)
    if knots.size < 2:
        return None
    ascending = np.sort(x)
    left, right = (np.searchsorted(ascending, knots, side) for side in ("left", "right"))
    heights = ndtri((left + right) / (2 * x.size))
    mapped = apply_map(MonotoneMap(tuple(knots.tolist()), tuple(heights.tolist())), x)
    sd = float(np.sqrt(np.mean(centre(mapped, g) ** 2)))
    if not sd > 1e-6:
        return None
    heights = (heights - mapped.mean()) / sd
    return MonotoneMap(tuple(knots.tolist()), tuple(heights.tolist()))


def fit_margin_maps(margins: Sequence[Vector]) -> tuple[MonotoneMap | None, ...]:
    """Odd maps of pairs' margins, all within [-1, 1]; None for a member whose margins are all 0.

    Up to the largest margin seen they divide by the member's root mean square, and by a number
    that is the same for all members.
    """
    sizes = [np.abs(values[~np.isnan(values)]) for values in margins]
    largest = [float(size.max(initial=0.0)) for size in sizes]
    units = [
        float(np.sqrt(np.mean(size**2))) if top > 1e-6 else 0.0
        for size, top in zip(sizes, largest, strict=True)
    ]
    tops = [top / unit for top, unit in zip(largest, units, strict=True) if unit]
    maps: list[MonotoneMap | None] = []
    for top, unit in zip(largest, units, strict=True):
        if not unit:
            maps.append(None)
            continue
        slope = LARGEST_MAPPED_MARGIN / max(tops) / unit
        inputs, outputs = [top], [slope * top]
        if top < 1 - 1e-6:
            inputs.append(1.0)
            outputs.append(min(slope, 1.0))
        maps.append(
            MonotoneMap(
                (*(-x for x in reversed(inputs)), *inputs),
                (*(-y for y in reversed(outputs)), *outputs),
            )
        )
    return tuple(maps)


def apply_map(monotone: MonotoneMap, scores: Vector) -> Vector:
    """`monotone.all`, a vector at a time; NaN stay."""
    x, y = np.array(monotone.inputs), np.array(monotone.outputs)
    piece = np.clip(np.searchsorted(x, scores, "right") - 1, 0, x.size - 2)
    slopes = np.diff(y) / np.diff(x)
    mapped: Vector = y[piece] + (scores - x[piece]) * slopes[piece]
    return mapped


def _distinct(knots: Vector) -> Vector:
    """Ascending knots without those that lie too close to the one before for a map to divide by."""
    least = max(1e-6 * float(np.ptp(knots)), 1e-8) if knots.size else 0.0
    distinct: list[float] = []
    for knot in knots.tolist():
        if not distinct or knot - distinct[-1] >= least:
            distinct.append(knot)
    return np.array(distinct)
