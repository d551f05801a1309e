"""Compute win rates from preferences, with intervals, ties, flips, position and length bias."""

import math
from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass
from itertools import compress

import numpy as np
from numpy.typing import ArrayLike

from judges.judgement import Preference
from judges.true_rate import Vector, document_codes

WIN_BY_PREFERENCE = {"A": 1.0, "tie": 0.5, "B": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate:
    """How often A wins over B, with counts and biases; an undefined value is NaN.

    `win_rate_a` counts a tie as half a win; `low` and `high` are its 95 % interval over documents.
    `flip_rate` is the share of pairs whose choice changes with the order, among the pairs with a
    choice in both orders. `position_bias` in [-1, 1] is the share of choices for the output that
    was shown first, minus the share of choices for the second. `length_bias` is the share of wins
    by the longer output, minus the share of wins by the shorter output, over pairs of unequal
    length. A length bias is an association, and length need not be the cause.
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
        def number_text(value: float) -> str:
            return "undefined" if math.isnan(value) else f"{value:.3f}"

        interval = f"[{number_text(self.low)}, {number_text(self.high)}]"
        return (
            f"win rate of A {number_text(self.win_rate_a)} {interval} "
            f"n={self.n} pairs ({self.n_ties} ties, {self.n_failed} failed)\n"
            f"  flip rate           {number_text(self.flip_rate)}\n"
            f"  position bias       {number_text(self.position_bias)}\n"
            f"  length association  {number_text(self.length_bias)}"
        )


def win_rate(
    preferences: Sequence[Preference],
    *,
    documents: Sequence[Hashable] | None = None,
    lengths: Sequence[tuple[int, int]] | None = None,
) -> WinRate:
    """Return how often A wins over B; `lengths` has the characters of A and of B in each pair."""
    is_judged = [preference.preferred is not None for preference in preferences]
    judged_preferences = list(compress(preferences, is_judged))
    document_ids = range(len(preferences)) if documents is None else documents
    judged_ids = list(compress(document_ids, is_judged))
    wins = np.array([WIN_BY_PREFERENCE[str(judged.preferred)] for judged in judged_preferences])
    # The choice in each order is 1 for the output shown first, -1 for the other, 0 for neither.
    choices_ab = np.nan_to_num(np.sign([judged.margin_ab for judged in judged_preferences]))
    choices_ba = -np.nan_to_num(np.sign([judged.margin_ba for judged in judged_preferences]))
    n_choices = abs(choices_ab) + abs(choices_ba)
    position_scores = (choices_ab + choices_ba) / np.maximum(n_choices, 1)
    is_flip = (choices_ab == choices_ba)[n_choices == 2]
    low, high = share_interval(wins, judged_ids)
    position_low, position_high = share_interval(position_scores, judged_ids, -1, 1)
    output_lengths = [(0, 0)] * len(preferences) if lengths is None else lengths
    judged_lengths = compress(output_lengths, is_judged)
    length_signs = np.sign([length_a - length_b for length_a, length_b in judged_lengths])
    length_scores = (2 * wins - 1) * length_signs
    return WinRate(
        win_rate_a=_mean_or_nan(wins),
        low=low,
        high=high,
        n=len(wins),
        n_ties=int((wins == 0.5).sum()),
        n_failed=len(preferences) - len(wins),
        flip_rate=_mean_or_nan(is_flip.astype(float)),
        position_bias=_mean_or_nan(position_scores),
        position_bias_low=position_low,
        position_bias_high=position_high,
        length_bias=_mean_or_nan(length_scores[length_signs != 0]),
    )


def _mean_or_nan(values: Vector) -> float:
    return float(values.mean()) if len(values) else math.nan


def share_interval(
    values: ArrayLike, documents: Sequence[Hashable], min_value: float = 0.0, max_value: float = 1.0
) -> tuple[float, float]:
    """Return the 95 % interval of the mean of the values, over documents; NaN for one document.

    Student's t interval is computed over the documents and two added documents of average size. All
    values of one added document are `min_value`, and all values of the other are `max_value`, so
    that eight wins out of eight are not taken as certain (Agresti and Caffo 2000).
    """
    codes = document_codes(documents)
    document_sizes = np.bincount(codes).astype(float)
    document_sums = np.bincount(codes, np.asarray(values, float)).astype(float)
    if document_sizes.size < 2:
        return math.nan, math.nan
    from scipy.special import stdtrit  # imported late, since judging does not need it

    mean_value, mean_size = document_sums.sum() / document_sizes.sum(), document_sizes.mean()
    document_sizes = np.concatenate([document_sizes, [mean_size, mean_size]])
    document_sums = np.concatenate([document_sums, [min_value * mean_size, max_value * mean_size]])
    smoothed_mean, n = document_sums.sum() / document_sizes.sum(), document_sizes.size
    residuals = document_sums - smoothed_mean * document_sizes
    standard_error = math.sqrt(float((residuals**2).sum()) * n / (n - 1)) / document_sizes.sum()
    half_width = float(stdtrit(n - 1, 0.975)) * standard_error
    # The interval always contains the mean of the values.
    low = min(smoothed_mean - half_width, mean_value)
    high = max(smoothed_mean + half_width, mean_value)
    return max(min_value, float(low)), min(max_value, float(high))
