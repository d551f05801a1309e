"""Straight lines that put members' scores on one scale: how far an output stands out.

Judges use their scales differently, and a frozen panel scores single rows, so every member's score
has a line of its own. It standardises the member's scores: mean 0 over all labelled outputs, and a
standard deviation of 1 within documents. It needs no labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.coefficients import Vector

Codes = NDArray[np.intp]

# What varies less than this is the order of a sum.
LEAST_SPREAD = 1e-6


class Line(NamedTuple):
    """A member's scores on the panel's scale: intercept + slope * score."""

    slope: float = 1.0
    intercept: float = 0.0

    def of(self, scores: Vector) -> Vector:
        """The line's value at each score; NaN stay."""
        return self.intercept + self.slope * scores


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


def fit_line(scores: Vector, group: Codes) -> Line | None:
    """The line of a member's scores (NaN: failed); None where no group tells two outputs apart."""
    scored = ~np.isnan(scores)
    x, g = scores[scored], group[scored]
    spread = float(np.sqrt(np.mean(centre(x, g) ** 2))) if x.size else 0.0
    if not spread > LEAST_SPREAD * max(1.0, float(np.abs(x).max(initial=0.0))):
        return None
    return Line(1 / spread, -float(x.mean()) / spread)


def fit_margin_lines(margins: Sequence[Vector]) -> tuple[Line | None, ...]:
    """Lines through 0 of pairs' margins, which stay in [-1, 1]; None where all margins are 0.

    They divide by the member's root mean square, and by a number that is the same for all members.
    """
    spreads = [float(np.sqrt(np.nanmean(m**2))) if np.isfinite(m).any() else 0.0 for m in margins]
    # A slope above 1 would take the margin 1 beyond it.
    usable = [spread for spread in spreads if spread > LEAST_SPREAD]
    least = min(usable, default=1.0)
    return tuple(Line(least / s) if s > LEAST_SPREAD else None for s in spreads)
