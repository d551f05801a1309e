"""Win rates from preferences: intervals, ties, flips, position bias, association with length."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.judgement import Preference

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate:
    """How often A wins over B, with counts and biases; NaN where a figure is undefined.

    `win_rate_a` counts a tie as half; [`low`, `high`] is its 95 % interval over documents.
    `flip_rate` is the share of pairs chosen in both orders whose choices differ. `position_bias` in
    [-1, 1] is the share of choices for what was shown first, minus that for what was shown second;
    `length_bias` the same for the longer output, over pairs of unequal length: an association.
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

    def summary(self) -> dict[str, float | int | None]:
        """All figures for JSON, with None for NaN."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def win_rate(
    preferences: Sequence[Preference],
    *,
    documents: Sequence[Hashable] | None = None,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> WinRate:
    """The win rate; `documents` and `lengths` of (A, B) are parallel to the preferences."""
    ids = list(range(len(preferences))) if documents is None else list(documents)
    sizes = [(0, 0)] * len(preferences) if lengths is None else list(lengths)
    rows = [r for r in zip(preferences, ids, sizes, strict=True) if r[0].preferred is not None]
    valid, document = [preference for preference, _, _ in rows], [name for _, name, _ in rows]
    longer = np.array([a - b for _, _, (a, b) in rows], float)
    shares: dict[str | None, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}
    wins = np.array([shares[preference.preferred] for preference in valid])
    first = np.array([_first(preference) for preference in valid])
    flips = [p.order_ab != p.order_ba for p in valid if p.order_ab and p.order_ba]
    low, high = share_interval(wins, document)
    first_low, first_high = share_interval(first, document, -1, 1)
    return WinRate(
        win_rate_a=_mean(wins),
        low=low,
        high=high,
        n=len(valid),
        n_ties=sum(preference.preferred == "tie" for preference in valid),
        n_failed=len(preferences) - len(valid),
        flip_rate=_mean(np.array(flips, float)),
        position_bias=_mean(first),
        position_bias_low=first_low,
        position_bias_high=first_high,
        length_bias=_mean(((2 * wins - 1) * np.sign(longer))[longer != 0]),
    )


def text_length(text: str) -> int:
    """An output's length in characters, since many scripts do not separate words."""
    return len(text.strip())


def _first(preference: Preference) -> float:
    """1 if the output shown first was preferred, -1 if the second was, 0 for both or neither."""
    sides = [preference.order_ab, {"A": "B", "B": "A", None: None}[preference.order_ba]]
    return (sides.count("A") - sides.count("B")) / max(2 - sides.count(None), 1)


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


def share_interval(
    values: ArrayLike, documents: Sequence[Hashable], low: float = 0.0, high: float = 1.0
) -> tuple[float, float]:
    """The 95 % interval, over documents, of a mean of values in [low, high].

    It is Student's t over the documents and two more of average size, one all `low` and one all
    `high`, as Agresti and Caffo (2000) do for shares, so that eight of eight are not certain. NaN
    for fewer than two documents.
    """
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(name, len(numbers)) for name in documents], dtype=int)
    counts = np.bincount(codes, minlength=len(numbers)).astype(float)
    sums = np.bincount(codes, np.asarray(values, float), len(numbers)).astype(float)
    if counts.size < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # which judging does not need

    value = float(sums.sum() / counts.sum())
    size = counts.mean()
    counts = np.concatenate([counts, [size, size]])
    sums = np.concatenate([sums, [low * size, high * size]])
    mean, n = sums.sum() / counts.sum(), counts.size
    residuals = sums - mean * counts
    error = math.sqrt(float((residuals**2).sum()) * n / (n - 1)) / counts.sum()
    reach = float(stdtrit(n - 1, 0.975)) * error
    # The interval always holds the mean.
    return max(low, min(mean - reach, value)), min(high, max(mean + reach, value))
