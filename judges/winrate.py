"""Compute win rates from preferences, with intervals, ties, flips, position and length bias."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from judges.judgement import Preference

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate:
    """How often A wins over B, with counts and biases; an undefined figure is NaN.

    `win_rate_a` counts a tie as half a win; [`low`, `high`] is its 95 % interval over documents.
    `flip_rate` is the share of pairs whose choice changes with the order, among the pairs with a
    choice in both orders. `position_bias` in [-1, 1] is the share of choices for the output that
    was shown first, minus the share for the second. `length_bias` is the share of wins by the
    longer output, minus that by the shorter, over pairs of unequal length; it is an association and
    need not be a cause.
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
        """All figures for JSON; NaN becomes None."""
        return {name: None if value != value else value for name, value in asdict(self).items()}


def win_rate(
    preferences: Sequence[Preference],
    *,
    documents: Sequence[Hashable] | None = None,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> WinRate:
    """The win rate over pairs.

    `documents` has the document of each preference; by default, each pair has its own. `lengths`
    has the lengths of A and B for each preference.
    """
    ids = list(range(len(preferences))) if documents is None else list(documents)
    sizes = [(0, 0)] * len(preferences) if lengths is None else list(lengths)
    rows = [r for r in zip(preferences, ids, sizes, strict=True) if r[0].preferred is not None]
    valid, valid_ids = [preference for preference, _, _ in rows], [name for _, name, _ in rows]
    length_differences = np.array([a - b for _, _, (a, b) in rows], float)
    win_of: dict[str | None, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}
    wins = np.array([win_of[preference.preferred] for preference in valid])
    position_scores = np.array([_position_score(preference) for preference in valid])
    flips = [p.order_ab != p.order_ba for p in valid if p.order_ab and p.order_ba]
    low, high = share_interval(wins, valid_ids)
    position_low, position_high = share_interval(position_scores, valid_ids, -1, 1)
    length_scores = (2 * wins - 1) * np.sign(length_differences)
    return WinRate(
        win_rate_a=_mean(wins),
        low=low,
        high=high,
        n=len(valid),
        n_ties=sum(preference.preferred == "tie" for preference in valid),
        n_failed=len(preferences) - len(valid),
        flip_rate=_mean(np.array(flips, float)),
        position_bias=_mean(position_scores),
        position_bias_low=position_low,
        position_bias_high=position_high,
        length_bias=_mean(length_scores[length_differences != 0]),
    )


def text_length(text: str) -> int:
    """An output's length in characters, since many scripts do not separate words."""
    return len(text.strip())


def _position_score(preference: Preference) -> float:
    """The mean over the orders with a choice: 1 for the output shown first, -1 for the second."""
    # Which side was chosen in each order, with "A" for the output that was shown first.
    sides = [preference.order_ab, {"A": "B", "B": "A", None: None}[preference.order_ba]]
    return (sides.count("A") - sides.count("B")) / max(2 - sides.count(None), 1)


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


def share_interval(
    values: ArrayLike, documents: Sequence[Hashable], low: float = 0.0, high: float = 1.0
) -> tuple[float, float]:
    """The 95 % interval of the mean of values in [low, high], over documents.

    It is Student's t interval over the documents and two added ones of average size, in which all
    values are `low` and `high`. Agresti and Caffo (2000) add such documents for shares, so that
    eight wins out of eight are not taken as certain. Both ends are NaN for fewer than two
    documents.
    """
    code_of: dict[Hashable, int] = {}
    document_codes = np.array(
        [code_of.setdefault(name, len(code_of)) for name in documents], dtype=int
    )
    counts = np.bincount(document_codes, minlength=len(code_of)).astype(float)
    sums = np.bincount(document_codes, np.asarray(values, float), len(code_of)).astype(float)
    if counts.size < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # imported late, since judging does not need it

    value = float(sums.sum() / counts.sum())
    size = counts.mean()
    counts = np.concatenate([counts, [size, size]])
    sums = np.concatenate([sums, [low * size, high * size]])
    mean, n = sums.sum() / counts.sum(), counts.size
    residuals = sums - mean * counts
    error = math.sqrt(float((residuals**2).sum()) * n / (n - 1)) / counts.sum()
    half_width = float(stdtrit(n - 1, 0.975)) * error
    # The interval always contains the mean of the values.
    return max(low, min(mean - half_width, value)), min(high, max(mean + half_width, value))
