"""Intervals at system level: what other systems like these, on other documents, would show.

Drawing systems with replacement does not give them. A system drawn twice ties with itself, which
rank coefficients punish, and the noise that few documents leave in the means, there already, is
drawn twice more: such intervals held the truth in 97-100 % of simulations of the rank coefficients
and were a quarter to a half wider than these. So the sources of error are taken apart:

systems      The sampling error of the coefficient over so many systems: of Bonett and Wright (2000)
             for Spearman, on Fisher's z; of Esscher (1924) for Kendall; of the jackknife on
             Fisher's z for Pearson, which hangs on the tails of the means.
documents    Drawn with replacement, less the noise that every system has of its own, since the
             systems' part holds that.
attenuation  This noise pulls the value towards 0. The ends are put where they would be without it,
             by the reliability of the means (Spearman, 1904).
"""

from dataclasses import dataclass

import numpy as np

from optimize.statistics.bootstrap import PERFECT, Interval, drawn, student_quantile
from optimize.statistics.coefficients import Coefficient, Matrix, Vector, correlate
from optimize.statistics.levels import Rows, system_statistic

# With fewer systems an interval would say next to nothing.
FEWEST = 5
# Means less reliable than this are taken to be this reliable, lest the ends be divided by nothing.
LEAST_RELIABLE = 0.25
# Kendall's ends are searched among these.
GRID = np.linspace(-1, 1, 20_001)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """An interval without attenuation, and Fisher's z of the coefficient without each system."""

    low: float
    high: float
    without: Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class _Means:
    """Means of judge and human (2, systems), and the covariance of what one output adds to them."""

    values: Matrix
    counts: Vector
    noise: Matrix


def system_interval(
    rows: Rows,
    value: float,
    coefficient: Coefficient,
    rng: np.random.Generator,
    *,
    draw_systems: bool,
    resamples: int,
    confidence: float,
) -> Interval | None:
    """Around `value`, which it always holds. With `draw_systems` for systems like these.

    None with fewer than two documents, with fewer than five systems where they are drawn, and for
    a perfect Pearson's r: that says how one side was made.
    """
    if draw_systems:
        found = system_ends(rows, value, coefficient, rng, resamples, confidence)
    else:
        found = _ends_for_these(rows, value, coefficient, rng, resamples, confidence)
    if found is None:
        return None
    return Interval(min(found.low, value), max(found.high, value), confidence)


def difference_interval(
    gap: float, a: Ends | None, b: Ends | None, confidence: float
) -> Interval | None:
    """Of judge A less judge B on the same systems, which always holds `gap`.

    It lies around the distance between the middles of both; its variance is that of two errors as
    alike as the coefficients without each system in turn. Of two judges much alike it is somewhat
    too wide, and holds the truth in 96-99 % of simulations. None where either side has no ends.
    """
    if a is None or b is None:
        return None
    reach_a, reach_b = (a.high - a.low) / 2, (b.high - b.low) / 2
    shared = 2 * _alike(a.without, b.without) * reach_a * reach_b
    reach = float(np.sqrt(max(reach_a**2 + reach_b**2 - shared, 0.0)))
    middle = ((a.high - b.high) + (a.low - b.low)) / 2
    low, high = np.clip([min(middle - reach, gap), max(middle + reach, gap)], -2, 2)
    return Interval(float(low), float(high), confidence)


def system_ends(
    rows: Rows,
    value: float,
    coefficient: Coefficient,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> Ends | None:
    """For systems like these; None as `system_interval`."""
    n = rows.n_systems
    if np.isnan(value) or rows.n_documents < 2 or n < FEWEST:
        return None
    if coefficient == "pearson" and abs(value) >= PERFECT:
        return None
    means = _means(rows)
    again = drawn(system_statistic(rows, coefficient), rows.n_documents, resamples, rng)
    shaken = _shaken(means, coefficient, resamples, rng)
    without = _z(_without_each(means.values, coefficient), coefficient, n - 1)
    if coefficient == "kendall":
        ends = _kendall_ends(value, n, _beyond(again, shaken), confidence)
    else:
        common = _beyond(_z(again, coefficient, n), _z(shaken, coefficient, n))
        reach = _reach(value, without, coefficient, common, confidence)
        centre = _z(np.array([value]), coefficient, n)[0]
        ends = np.tanh(np.array([centre - reach, centre + reach]))
    low, high = _unblurred(ends, means, coefficient)
    return Ends(low=float(low), high=float(high), without=without)


def _ends_for_these(
    rows: Rows,
    value: float,
    coefficient: Coefficient,
    rng: np.random.Generator,
    resamples: int,
    confidence: float,
) -> Ends | None:
    """For these very systems on other documents."""
    n = rows.n_documents
    if np.isnan(value) or n < 2:
        return None
    again = drawn(system_statistic(rows, coefficient), n, resamples, rng)
    error = np.sqrt(_variance(again) * n / (n - 1))
    if abs(value) >= PERFECT and error < 1 - PERFECT:
        return None
    reach = student_quantile(n - 1, confidence) * error
    ends = np.clip([value - reach, value + reach], -1, 1)
    low, high = _unblurred(ends, _means(rows), coefficient)
    return Ends(low=float(low), high=float(high), without=np.empty(0))


def _means(rows: Rows) -> _Means:
    """The noise is what is left of an output beside its system and its document.

    A document is told from its other outputs; where it has none, it is part of the noise. No noise
    is known where every system has one output.
    """
    counts = np.bincount(rows.system, minlength=rows.n_systems).astype(float)
    sizes = np.bincount(rows.document, minlength=rows.n_documents)[rows.document]
    others = np.maximum(sizes - 1, 1)
    means, left = [], []
    for side in (rows.judge, rows.human):
        mean = np.bincount(rows.system, side, rows.n_systems) / counts
        apart = side - mean[rows.system]
        of_document = np.bincount(rows.document, apart, rows.n_documents)[rows.document]
        alone = np.where(sizes > 1, apart - (of_document - apart) / others, apart)
        # The mean of the others has an error of its own: this takes it from the variance.
        left.append(alone * np.sqrt(np.where(sizes > 1, others / sizes, 1.0)))
        means.append(mean)
    freedom = max(rows.judge.size - rows.n_systems, 1)
    residuals = np.stack(left)
    return _Means(values=np.stack(means), counts=counts, noise=residuals @ residuals.T / freedom)


def _shaken(
    means: _Means, coefficient: Coefficient, resamples: int, rng: np.random.Generator
) -> Vector:
    """The coefficient where every system's means move by noise of their own."""
    errors = np.sqrt(np.diag(means.noise))
    alike = means.noise[0, 1] / (errors.prod() or 1.0)
    # The symmetric root, so that neither the sides' order nor their scales change what is drawn.
    roots = np.sqrt(np.maximum([1 + alike, 1 - alike], 0))
    own, other = (roots[0] + roots[1]) / 2, (roots[0] - roots[1]) / 2
    chance = rng.normal(size=(resamples, means.counts.size, 2))
    moves = (own * chance + other * chance[..., ::-1]) * errors
    moved = means.values.T + moves / np.sqrt(means.counts)[:, None]
    return correlate(moved[..., 0], moved[..., 1], coefficient)


def _without_each(means: Matrix, coefficient: Coefficient) -> Vector:
    n = means.shape[1]
    judge, human = (np.repeat(side[None], n, axis=0) for side in means)
    return correlate(judge, human, coefficient, 1 - np.eye(n))


def _z(values: Vector, coefficient: Coefficient, n: int) -> Vector:
    """Fisher's z; all systems in one order are taken half a step short of 1, not for infinity."""
    steps = {
        "spearman": 6 / (n * (n * n - 1)),
        "kendall": 2 / (n * (n - 1)),
        "pearson": 1 - PERFECT,
    }
    most = 1 - steps[coefficient]
    z: Vector = np.arctanh(np.clip(values, -most, most))
    return z


def _reach(
    value: float, without: Vector, coefficient: Coefficient, common: float, confidence: float
) -> float:
    """How far the ends are on Fisher's z; `common` is the documents' part of the variance."""
    n = without.size
    if coefficient == "spearman":
        variance, freedom = (1 + value**2 / 2) / (n - 3), np.inf
    else:
        variance, freedom = (n - 1) * _variance(without), n - 1
    return float(student_quantile(freedom, confidence) * np.sqrt(variance + common))


def _kendall_ends(value: float, n: int, common: float, confidence: float) -> Vector:
    """The tau for which this value would be within reach; variance by Esscher (1924).

    var(tau) = 2 / n(n - 1) (1 - tau^2 + 2 (n - 2) (1/9 - (2/pi arcsin(r/2))^2)), exact where means
    are normal with correlation r = sin(pi tau / 2).
    """
    r = np.sin(np.pi * GRID / 2)
    triples = 1 / 9 - (2 / np.pi * np.arcsin(r / 2)) ** 2
    variance = 2 / (n * (n - 1)) * (1 - GRID**2 + 2 * (n - 2) * triples)
    # At its ends the grid has no variance but what rounding makes of it.
    variance = np.maximum(variance, 0) + common
    reach = student_quantile(np.inf, confidence) * np.sqrt(variance)
    held = GRID[np.abs(value - GRID) <= reach]
    return np.array([min(held.min(initial=1.0), value), max(held.max(initial=-1.0), value)])


def _unblurred(ends: Vector, means: _Means, coefficient: Coefficient) -> Vector:
    """The ends for means without noise: r = (r of noisy means - what noise shares) / reliability.

    Rank coefficients are led through the r of a normal distribution that has them.
    """
    variances = means.values.var(axis=1, ddof=1)
    noise = means.noise * (1 / means.counts).mean()
    reliable = np.maximum(1 - np.diag(noise) / variances, LEAST_RELIABLE)
    spread = np.sqrt(variances.prod())
    r = (_normal_r(ends, coefficient) - noise[0, 1] / spread) / np.sqrt(reliable.prod())
    return _from_normal_r(np.clip(r, -1, 1), coefficient)


def _normal_r(values: Vector, coefficient: Coefficient) -> Vector:
    if coefficient == "pearson":
        return values
    r: Vector = (
        2 * np.sin(np.pi * values / 6) if coefficient == "spearman" else np.sin(np.pi * values / 2)
    )
    return r


def _from_normal_r(r: Vector, coefficient: Coefficient) -> Vector:
    if coefficient == "pearson":
        return r
    values: Vector = (
        6 / np.pi * np.arcsin(r / 2) if coefficient == "spearman" else 2 / np.pi * np.arcsin(r)
    )
    return values


def _beyond(again: Vector, shaken: Vector) -> float:
    """The variance that documents give all systems together."""
    return max(_variance(again) - _variance(shaken), 0.0)


def _variance(values: Vector) -> float:
    known = values[~np.isnan(values)]
    return float(known.var(ddof=1)) if known.size > 1 else 0.0


def _alike(a: Vector, b: Vector) -> float:
    """The correlation of two jackknives; 1 for one and the same, 0 where it is unknown."""
    kept = ~np.isnan(a + b)
    a, b = a[kept], b[kept]
    if np.array_equal(a, b):
        return 1.0
    if a.size < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
