"""Win rates from verdicts: intervals, ties, flips, and the pull of position and length."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.judgement import Verdict

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate:
    """How often A wins over B, with the counts and biases that go with it; NaN is undefined.

    `win_rate_a` counts a tie as half; [`low`, `high`] is its 95 % interval over documents, within
    [0, 1]. `n` pairs had a verdict, `n_ties` of them a tie; `n_failed` more had none.
    `flip_rate` is the share of pairs chosen in both orders whose two choices differ.
    `position_bias` in [-1, 1] is the share of choices for what was shown first, minus that for
    what was shown second; `length_bias` the same for the longer against the shorter output (see
    `text_length`), over pairs of unequal length. `length_controlled_win_rate_a`: see
    `length_controlled`.
    """

    win_rate_a: float
    low: float
    high: float
    n: int
    n_ties: int
    n_failed: int
    flip_rate: float
    position_bias: float
    position_bias_low: float
    position_bias_high: float
    length_bias: float
    length_controlled_win_rate_a: float

    def summary(self) -> dict[str, float | int | None]:
        """Return all of it for JSON, with None for what is undefined."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def win_rate(
    verdicts: Sequence[Verdict],
    *,
    documents: Sequence[Hashable] | None = None,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> WinRate:
    """Sum up verdicts; `documents` (one each if None) and `lengths` of (A, B) are parallel to them.

    Raises ValueError where the three differ in length.
    """
    ids = list(range(len(verdicts))) if documents is None else list(documents)
    sizes = [(0, 0)] * len(verdicts) if lengths is None else list(lengths)
    if not len(verdicts) == len(ids) == len(sizes):
        raise ValueError(f"{len(verdicts)} verdicts, {len(ids)} documents and {len(sizes)} lengths")
    indices = [i for i, verdict in enumerate(verdicts) if verdict.preferred is not None]
    scored = [verdicts[i] for i in indices]
    wins = np.array([_win(verdict) for verdict in scored])
    document = [ids[i] for i in indices]
    longer = np.array([float(sizes[i][0] - sizes[i][1]) for i in indices])
    first = np.array([_first(verdict) for verdict in scored])
    low, high = share_interval(wins, document)
    first_low, first_high = share_interval(first, document, -1, 1)
    return WinRate(
        win_rate_a=_mean(wins),
        low=low,
        high=high,
        n=len(scored),
        n_ties=sum(verdict.preferred == "tie" for verdict in scored),
        n_failed=len(verdicts) - len(scored),
        flip_rate=_mean(
            np.array([v.order_ab != v.order_ba for v in scored if v.order_ab and v.order_ba], float)
        ),
        position_bias=_mean(first),
        position_bias_low=first_low,
        position_bias_high=first_high,
        length_bias=_mean(((2 * wins - 1) * np.sign(longer))[longer != 0]),
        length_controlled_win_rate_a=(
            math.nan if lengths is None else length_controlled(wins, longer)
        ),
    )


def text_length(text: str) -> int:
    """How long an output is, here and in every audit: its characters, spaces at the ends left out.

    Not words, which many scripts do not set apart.
    """
    return len(text.strip())


def length_controlled(wins: Vector, longer: Vector) -> float:
    """Return A's win rate as it would be if both outputs were always equally long.

    As AlpacaEval 2 does it (arXiv:2404.04475): logit P(A wins) = theta + phi * tanh(d / s) is
    fitted to `wins` (1, 0, a tie 1/2) by maximum likelihood, where d = `longer` is A's length
    minus B's and s its standard deviation over the pairs; the value is 1 / (1 + exp(-theta)), with
    the length term set to 0. Two things differ: there is no term for an instruction's difficulty,
    which takes many systems on the same instructions to estimate, and no regularisation.

    NaN where the likelihood has no maximum: no pairs, one side of the fit separated from the other
    by length, or every difference the same and not 0. With no difference at all it is the win rate.
    """
    if not longer.any():
        return _mean(wins)
    sd = float(longer.std())
    if sd <= 1e-9 * float(np.abs(longer).max()):
        return math.nan
    x = np.tanh(longer / sd)
    won, lost = x[wins > 0], x[wins < 1]
    if not (len(won) and len(lost) and won.min() < lost.max() and lost.min() < won.max()):
        return math.nan
    theta = float(_logistic(x, wins)[0])
    return (1 + math.tanh(theta / 2)) / 2


def _logistic(x: Vector, y: Vector) -> Vector:
    """Maximum likelihood of (intercept, slope) by Newton's method with halved steps."""
    design = np.column_stack([np.ones_like(x), x])

    def loss(weights: Vector) -> float:
        z = design @ weights
        return float(np.sum(np.logaddexp(0, z) - y * z))

    weights = np.zeros(2)
    for _ in range(200):
        p = (1 + np.tanh(design @ weights / 2)) / 2
        gradient = design.T @ (p - y)
        step = np.linalg.lstsq((design.T * (p * (1 - p))) @ design, gradient, rcond=None)[0]
        now, size = loss(weights), 1.0
        while loss(weights - size * step) > now and size > 1e-10:
            size /= 2
        weights = weights - size * step
        if np.abs(size * step).max() < 1e-10:
            break
    return weights


def _win(verdict: Verdict) -> float:
    return {"A": 1.0, "tie": 0.5, "B": 0.0}[verdict.preferred or "tie"]


def _first(verdict: Verdict) -> float:
    """1 if the place shown first was chosen, -1 if the second, and 0 where both or neither were."""
    chosen = {"A": 1.0, "B": -1.0, None: 0.0}
    choices = [chosen[verdict.order_ab], -chosen[verdict.order_ba]]
    n_choices = sum(side is not None for side in (verdict.order_ab, verdict.order_ba))
    return sum(choices) / max(n_choices, 1)


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


def share_interval(
    values: ArrayLike, documents: Sequence[Hashable], low: float = 0.0, high: float = 1.0
) -> tuple[float, float]:
    """A 95 % interval, over documents, of a mean of values in [low, high], never outside it.

    Student's t on documents after two more of average size were added, one all `low` and one all
    `high`: as Agresti and Caffo (2000) do for shares, so that eight wins of eight, or eight ties,
    do not pass for certainty. Pairs of one document count as one observation where they agree.
    NaN with fewer than two documents.
    """
    vector = np.asarray(values, dtype=float)
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in documents], dtype=int)
    counts = np.bincount(codes, minlength=len(numbers)).astype(float)
    sums = np.bincount(codes, vector, len(numbers)).astype(float)
    return share_interval_of_sums(sums, counts, low, high)


def share_interval_of_sums(
    sums: Vector,
    counts: Vector,
    low: float = 0.0,
    high: float = 1.0,
    *,
    added: float = 1.0,
    degree: int = 1,
) -> tuple[float, float]:
    """As `share_interval`, from each document's sum of values and their number.

    The two documents that are added have `added` times the average size. With `degree` 2 the
    values are of pairs across documents, each in the sums of both: leaving a document out then
    moves the mean by twice its part of it.
    """
    number = counts.size
    if number < 2:
        return math.nan, math.nan
    value = float(sums.sum() / counts.sum())
    size = added * counts.mean()
    counts = np.concatenate([counts, [size, size]])
    sums = np.concatenate([sums, [low * size, high * size]])
    mean, n = sums.sum() / counts.sum(), counts.size
    residuals = sums - mean * counts
    error = degree * math.sqrt(float((residuals**2).sum()) * n / (n - 1)) / counts.sum()
    reach = _t_quantile(n - 1) * error
    # The mean itself is always in it.
    return max(low, min(mean - reach, value)), min(high, max(mean + reach, value))


@lru_cache
def _t_quantile(degrees: int) -> float:
    """Student's t at 97.5 %, to seven digits, for whole degrees of freedom of 2 or more.

    t = sqrt(degrees) tan(angle), and the angle's density is proportional to
    cos(angle)^(degrees - 1): 95 % of it lie within plus or minus the angle that is sought.
    """
    # Twelve standard deviations of the angle, where it has that many to its end.
    angle = np.linspace(0.0, min(math.pi / 2, 12 / math.sqrt(degrees)), 20_001)
    density = np.cos(angle) ** (degrees - 1)
    mass = np.concatenate([[0.0], np.cumsum(density[1:] + density[:-1])])
    return math.sqrt(degrees) * math.tan(float(np.interp(0.95 * mass[-1], mass, angle)))
