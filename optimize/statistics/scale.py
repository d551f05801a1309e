"""Scores as numbers on a scale: how far from people's, how much of it is used.

None of these is a rank correlation: a judge may rank perfectly and be one point too kind.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.bootstrap import CONFIDENCE, Interval, student_quantile
from optimize.statistics.coefficients import Vector
from optimize.statistics.levels import Codes, read_rows

# What is worth a warning: so many of people's standard deviations between the means, and so many
# times the other's standard deviation.
MIN_SHIFT, MIN_SPREAD = 0.25, 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleComparison:
    """Where a judge's scores lie beside people's ratings of the same outputs.

    `shift` is the judge's mean less people's, `spread` the judge's standard deviation over people's
    (NaN where either side is constant); 95 % intervals over documents, None with fewer than two.
    """

    judge_mean: float
    human_mean: float
    shift: float
    shift_interval: Interval | None
    judge_sd: float
    human_sd: float
    spread: float
    spread_interval: Interval | None
    n_outputs: int
    n_documents: int

    @property
    def is_shifted(self) -> bool:
        """Whether the means differ by more than chance, and by a quarter of people's SD or more."""
        clear = self.shift_interval is not None and 0 not in self.shift_interval
        return clear and abs(self.shift) >= MIN_SHIFT * self.human_sd

    @property
    def is_spread_differently(self) -> bool:
        """Whether the SDs differ by more than chance, and one is a quarter more than the other."""
        clear = self.spread_interval is not None and 1 not in self.spread_interval
        return clear and not 1 / MIN_SPREAD < self.spread < MIN_SPREAD


def compare_scales(
    judge: ArrayLike, human: ArrayLike, document: ArrayLike | None = None
) -> ScaleComparison:
    """Compare means and standard deviations of scores (NaN: failed) and ratings of one scale.

    Both sides are of the same outputs, so what they share does not widen the intervals: Student's
    over documents, of the mean gap and, by linearisation, of the logarithm of the ratio.
    """
    rows = read_rows(judge, human, document)
    n = rows.judge.size
    if not n:
        nan = np.nan
        return ScaleComparison(
            judge_mean=nan, human_mean=nan, shift=nan, shift_interval=None, judge_sd=nan,
            human_sd=nan, spread=nan, spread_interval=None, n_outputs=0, n_documents=0,
        )  # fmt: skip
    gaps = rows.judge - rows.human
    shift = float(gaps.mean())
    judge_sd, human_sd = float(rows.judge.std()), float(rows.human.std())
    reach = _reach(gaps - shift, rows.document)
    spread, spread_interval = np.nan, None
    if judge_sd > 0 and human_sd > 0:
        spread = judge_sd / human_sd
        # Of log(SD): half of (squared deviation / variance - 1).
        of_judge, of_human = (
            (((side - side.mean()) / side.std()) ** 2 - 1) / 2 for side in (rows.judge, rows.human)
        )
        factor = np.exp(_reach(of_judge - of_human, rows.document))
        if np.isfinite(factor):
            spread_interval = Interval(float(spread / factor), float(spread * factor))
    return ScaleComparison(
        judge_mean=float(rows.judge.mean()),
        human_mean=float(rows.human.mean()),
        shift=shift,
        shift_interval=Interval(shift - reach, shift + reach) if np.isfinite(reach) else None,
        judge_sd=judge_sd,
        human_sd=human_sd,
        spread=spread,
        spread_interval=spread_interval,
        n_outputs=n,
        n_documents=rows.n_documents,
    )


def _reach(influence: Vector, document: Codes) -> float:
    """Half a 95 % interval of a mean of outputs, over documents; infinite with fewer than two."""
    sums = np.bincount(document, influence)
    n = sums.size
    if n < 2:
        return np.inf
    error = np.sqrt((sums**2).sum() * n / (n - 1)) / influence.size
    return float(student_quantile(n - 1, CONFIDENCE) * error)


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
        kappa=quadratic_kappa(
            nearest_ratings(rows.judge, scale), nearest_ratings(rows.human, scale)
        ),
        n_outputs=n,
        n_failed=rows.n_failed,
    )


def nearest_ratings(values: Vector, scale: Sequence[float]) -> Vector:
    """Each value's nearest rating of the scale, the higher of two; no value may be NaN."""
    ratings = np.sort(np.asarray(scale, dtype=float))
    midpoints = (ratings[1:] + ratings[:-1]) / 2
    nearest: Vector = ratings[np.searchsorted(midpoints, values, side="right")]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleUse:
    """Use of the scale: shares in [0, 1]; `tied` is that of pairs within documents scored alike."""

    at_top: float
    at_bottom: float
    tied: float
    n_outputs: int


def scale_use(scores: ArrayLike, document: ArrayLike, scale: Sequence[float]) -> ScaleUse:
    """How scores (a judge's or people's; NaN left out) lie on a scale, by the nearest rating."""
    values = np.asarray(scores, dtype=float)
    rows = read_rows(values, np.zeros(values.size), document)
    n = rows.judge.size
    if not n:
        return ScaleUse(at_top=np.nan, at_bottom=np.nan, tied=np.nan, n_outputs=0)
    nearest = nearest_ratings(rows.judge, scale)
    sizes = np.bincount(rows.document)
    pairs = float((sizes * (sizes - 1)).sum())
    alike = np.unique(np.stack([rows.document, rows.judge]), axis=1, return_counts=True)[1]
    return ScaleUse(
        at_top=float((nearest == max(scale)).mean()),
        at_bottom=float((nearest == min(scale)).mean()),
        tied=float((alike * (alike - 1)).sum() / pairs) if pairs else np.nan,
        n_outputs=n,
    )
