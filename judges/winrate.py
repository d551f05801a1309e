"""Compute win rates from preferences, with intervals, ties, flips, position and length bias."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from judges.judgement import Preference
from judges.true_rate import Vector, document_codes


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate:
    """How often A wins over B, with counts and biases; an undefined value is NaN.

    `win_rate_a` counts a tie as half a win; [`low`, `high`] is its 95 % interval over documents.
    `flip_rate` is the share of pairs whose choice changes with the order, among the pairs with a
    choice in both orders. `position_bias` in [-1, 1] is the share of choices for the output that
    was shown first, minus the share for the second. `length_bias` is the share of wins by the
    longer output, minus the share by the shorter output, over pairs of unequal length. A length
    bias is an association, and length need not be the cause.
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
        """Return all attributes as data for JSON; NaN becomes None."""
        return {name: None if value != value else value for name, value in asdict(self).items()}

    def __str__(self) -> str:
        def text(value: float) -> str:
            return "undefined" if math.isnan(value) else f"{value:.3f}"

        return (
            f"win rate of A {text(self.win_rate_a)} [{text(self.low)}, {text(self.high)}] "
            f"n={self.n} pairs ({self.n_ties} ties, {self.n_failed} failed)\n"
            f"  flip rate           {text(self.flip_rate)}\n"
            f"  position bias       {text(self.position_bias)}\n"
            f"  length association  {text(self.length_bias)}"
        )


def win_rate(
    preferences: Sequence[Preference],
    *,
    documents: Sequence[Hashable] | None = None,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> WinRate:
    """Return the win rate; `lengths` has the numbers of characters of A and B in each pair."""
    document_ids = range(len(preferences)) if documents is None else documents
    output_lengths = [(0, 0)] * len(preferences) if lengths is None else lengths
    rows = zip(preferences, document_ids, output_lengths, strict=True)
    judged_rows = [row for row in rows if row[0].preferred is not None]
    judged_preferences = [preference for preference, _, _ in judged_rows]
    judged_ids = [document_id for _, document_id, _ in judged_rows]
    length_differences = np.array([a - b for _, _, (a, b) in judged_rows], float)
    win_by_preference: dict[str | None, float] = {"A": 1.0, "tie": 0.5, "B": 0.0}
    wins = np.array([win_by_preference[preference.preferred] for preference in judged_preferences])
    margins = np.array([(p.margin_ab, p.margin_ba) for p in judged_preferences]).reshape(-1, 2)
    # The choice in each order: 1 for the output shown first, -1 for the other, 0 for neither.
    ab, ba = (np.nan_to_num(np.sign(margins)) * (1, -1)).T
    n_choices = abs(ab) + abs(ba)
    position_scores = (ab + ba) / np.maximum(n_choices, 1)
    is_flip = (ab == ba)[n_choices == 2]
    low, high = share_interval(wins, judged_ids)
    position_low, position_high = share_interval(position_scores, judged_ids, -1, 1)
    length_scores = (2 * wins - 1) * np.sign(length_differences)
    return WinRate(
        win_rate_a=_mean_or_nan(wins),
        low=low,
        high=high,
        n=len(judged_preferences),
        n_ties=int((wins == 0.5).sum()),
        n_failed=len(preferences) - len(judged_preferences),
        flip_rate=_mean_or_nan(is_flip.astype(float)),
        position_bias=_mean_or_nan(position_scores),
        position_bias_low=position_low,
        position_bias_high=position_high,
        length_bias=_mean_or_nan(length_scores[length_differences != 0]),
    )


def _mean_or_nan(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


def share_interval(
    values: ArrayLike, documents: Sequence[Hashable], low: float = 0.0, high: float = 1.0
) -> tuple[float, float]:
    """Return the 95 % interval of the mean of values in [low, high], over documents.

    The interval is Student's t interval over the documents and two added documents of average size;
    all values of the first are `low`, and all values of the second are `high`. Agresti and Caffo
    (2000) add such documents for shares, so that eight wins out of eight are not taken as certain.
    Both ends are NaN for fewer than two documents.
    """
    codes = document_codes(documents)
    document_sizes = np.bincount(codes).astype(float)
    sums = np.bincount(codes, np.asarray(values, float)).astype(float)
    if document_sizes.size < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # imported late, since judging does not need it

    value = float(sums.sum() / document_sizes.sum())
    mean_size = document_sizes.mean()
    document_sizes = np.concatenate([document_sizes, [mean_size, mean_size]])
    sums = np.concatenate([sums, [low * mean_size, high * mean_size]])
    mean, n = sums.sum() / document_sizes.sum(), document_sizes.size
    residuals = sums - mean * document_sizes
    standard_error = math.sqrt(float((residuals**2).sum()) * n / (n - 1)) / document_sizes.sum()
    half_width = float(stdtrit(n - 1, 0.975)) * standard_error
    # The interval always contains the mean of the values.
    return max(low, min(mean - half_width, value)), min(high, max(mean + half_width, value))
