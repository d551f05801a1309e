"""How far a judge's numbers are from people's, for scores that mean what the scale says.

None of these is a rank correlation: a judge may rank perfectly and be one point too kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.coefficients import Vector
from optimize.statistics.levels import read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """`bias` is judge minus people, on average; `kappa` is quadratic-weighted, in [-1, 1]."""

    bias: float
    mean_absolute_error: float
    kappa: float
    n_outputs: int
    n_failed: int


def errors(judge: ArrayLike, human: ArrayLike, scale: Sequence[float]) -> Errors:
    """Bias and mean absolute error of the scores as they are, kappa of both put on the scale."""
    rows = read_rows(judge, human)
    gaps = rows.judge - rows.human
    n = gaps.size
    return Errors(
        bias=float(gaps.mean()) if n else np.nan,
        mean_absolute_error=float(np.abs(gaps).mean()) if n else np.nan,
        kappa=quadratic_kappa(on_scale(rows.judge, scale), on_scale(rows.human, scale)),
        n_outputs=n,
        n_failed=rows.n_failed,
    )


def on_scale(values: Vector, scale: Sequence[float]) -> Vector:
    """The nearest rating of the scale; the higher where two are equally near."""
    ratings = np.sort(np.asarray(scale, dtype=float))
    middles = (ratings[1:] + ratings[:-1]) / 2
    nearest: Vector = ratings[np.searchsorted(middles, values, side="right")]
    return nearest


def quadratic_kappa(a: Vector, b: Vector) -> float:
    """Cohen's kappa with quadratic weights, 1 - mean square gap / the gap of strangers.

    Strangers have the same ratings, paired at random: their mean square gap is
    var(a) + var(b) + (mean(a) - mean(b))^2. NaN where that is 0, as both sides say one thing only.
    """
    if not a.size:
        return np.nan
    expected = a.var() + b.var() + (a.mean() - b.mean()) ** 2
    if expected == 0:
        return np.nan
    return float(1 - ((a - b) ** 2).mean() / expected)
