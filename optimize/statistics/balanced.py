"""Balanced accuracy of verdicts, its difference between two judges, and the threshold for it.

It is the mean of two shares: of people's passes those that the judge passes, and of their fails
those that it fails. A judge that always says the same has .5, however rare fails are.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Contrast, Vector, mean_of_differences

# An interval takes so many outputs of either class, and learning a threshold so many.
FEWEST_FOR_INTERVAL, FEWEST_TO_LEARN = 10, 5
# Five documents on which judges differ are all of one sign in one of 16 draws, six in one of 32.
FEWEST_DIFFERENT = 6
THRESHOLD = 0.5


def verdicts(scores: ArrayLike, threshold: float = THRESHOLD) -> Vector:
    """1 for a pass, 0 for a fail, NaN where the judge failed."""
    values = np.asarray(scores, dtype=float)
    return np.where(np.isnan(values), np.nan, values >= threshold)


def balanced_accuracy(passes: ArrayLike, human: ArrayLike) -> float:
    """Of verdicts beside people's (1 and 0); NaN where people's are all alike."""
    judged, labels = np.asarray(passes, dtype=float), np.asarray(human, dtype=float)
    known = ~np.isnan(judged)
    return float(0.5 + judged[known] @ _worth(labels[known]))


def best_threshold(scores: ArrayLike, human: ArrayLike) -> float:
    """The midpoint of two scores that gives the best balanced accuracy; of several, next to .5.

    It is .5 for scores that are verdicts already, and with fewer than five outputs of a class.
    """
    values, labels = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    known = ~np.isnan(values)
    values, labels = values[known], labels[known]
    levels, places = np.unique(values, return_inverse=True)
    if set(levels.tolist()) <= {0.0, 1.0} or _fewest(labels) < FEWEST_TO_LEARN:
        return THRESHOLD
    # What each level adds by passing; all levels above a threshold pass.
    passing = np.cumsum(np.bincount(places, _worth(labels))[::-1])[::-1][1:]
    midpoints = (levels[:-1] + levels[1:]) / 2
    best = midpoints[passing >= passing.max(initial=-np.inf) - 1e-12]
    return float(best[np.abs(best - THRESHOLD).argmin()]) if best.size else THRESHOLD


def balanced_contrast(
    passes_a: ArrayLike, passes_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Judge A's balanced accuracy less judge B's, on the outputs that both judged.

    What a document adds is a sum over its outputs, so that swapping the judges there turns its
    sign. No interval with fewer than ten outputs of a class, or documents that differ than six.
    """
    a, b, labels = (np.asarray(side, dtype=float) for side in (passes_a, passes_b, human))
    known = ~np.isnan(a) & ~np.isnan(b)
    names, codes = np.unique(np.asarray(document)[known], return_inverse=True)
    added = (a - b)[known] * _worth(labels[known])
    terms: Vector = names.size * np.bincount(codes, added, names.size).astype(float)
    contrast = mean_of_differences(terms, tuple(str(name) for name in names))
    few = np.count_nonzero(terms) < FEWEST_DIFFERENT
    few |= _fewest(labels[known]) < FEWEST_FOR_INTERVAL
    return replace(contrast, interval=None) if few else contrast


def _worth(labels: Vector) -> Vector:
    """What passing each output adds to balanced accuracy; NaN where people's are all alike."""
    passes = labels == 1
    n = int(passes.sum())
    if not 0 < n < labels.size:
        return np.full(labels.size, np.nan)
    return np.where(passes, 0.5 / n, -0.5 / (labels.size - n))


def _fewest(labels: Vector) -> int:
    n = int((labels == 1).sum())
    return min(n, labels.size - n)
