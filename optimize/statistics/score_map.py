"""A monotone map of a judge's scores onto people's ratings, by equating their distributions.

Equipercentile: the k-th lowest scores are given the k-th lowest ratings, averaged within blocks.
Regression (isotonic or linear) would be as near to people's ratings on average, and shrinks the
spread to a third where rho is weak (`benchmarks/score_maps.py`): nothing would reach the top.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from judges.monotone import MonotoneMap

MAX_BLOCKS = 10
# The least rise from knot to knot, as a share of people's scale: no two scores become one.
MIN_RISE = 0.002
INPUT_DIGITS = 6


def fit_score_map(
    judge: ArrayLike,
    human: ArrayLike,
    *,
    judge_ends: Sequence[float] | None = None,
    human_ends: Sequence[float] | None = None,
) -> MonotoneMap | None:
    """The map that gives the scores the mean and the distribution of the ratings.

    The vectors are parallel; NaN in `judge` (failed) is left out. The ends are those of the two
    scales, None where unknown: with both, no score is mapped beyond people's. None where the
    scores or the ratings are all alike, which equates nothing.
    """
    scores, ratings = np.asarray(judge, float), np.asarray(human, float)
    is_scored = ~np.isnan(scores)
    # What weighted scores of a judge that is sure differ by says nothing, and makes no two knots.
    scores = np.sort(np.round(scores[is_scored], INPUT_DIGITS))
    ratings = np.sort(ratings[is_scored])
    if not scores.size or scores[0] == scores[-1] or ratings[0] == ratings[-1]:
        return None
    # Equal scores are of one block, since they are mapped alike.
    starts = {int(np.searchsorted(scores, scores[i * scores.size // MAX_BLOCKS]))
              for i in range(MAX_BLOCKS)} | {int(np.searchsorted(scores, scores[-1]))}  # fmt: skip
    edges = [*sorted(starts), scores.size]
    inputs, outputs = (
        [float(side[a:b].mean()) for a, b in itertools.pairwise(edges)]
        for side in (scores, ratings)
    )
    low, high = (ratings[0], ratings[-1]) if human_ends is None else human_ends
    rise = MIN_RISE * (high - low)
    if judge_ends is not None and human_ends is not None:
        if judge_ends[0] < inputs[0] - 1e-6:
            inputs, outputs = [float(judge_ends[0]), *inputs], [float(low), *outputs]
        if judge_ends[1] > inputs[-1] + 1e-6:
            inputs, outputs = [*inputs, float(judge_ends[1])], [*outputs, float(high)]
    # Upwards from the first, then down from the last, so that all rise and none leaves the scale.
    for i in range(1, len(outputs)):
        outputs[i] = max(outputs[i], outputs[i - 1] + rise)
    outputs[-1] = min(outputs[-1], max(float(high), outputs[0]))
    for i in range(len(outputs) - 2, -1, -1):
        outputs[i] = min(outputs[i], outputs[i + 1] - rise)
    return MonotoneMap(tuple(inputs), tuple(outputs))
