"""Balanced accuracy of verdicts, its difference between two judges, and the best threshold.

Balanced accuracy is the mean of two shares: the share of people's passes that the judge passes, and
the share of their fails that it fails. A judge that always says the same has .5, however rare fails
are.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Contrast, Vector, mean_of_differences

# The fewest outputs of each class for an interval, and for learning a threshold.
# The chance of a difference between the rates of two equal judges that is called clear.
CLEARLY = 0.05
FEWEST_FOR_INTERVAL, FEWEST_TO_LEARN = 10, 5
# The fewest documents on which judges differ: by chance, five of them have the same sign in one of
# 16 cases, six in one of 32.
FEWEST_DIFFERENT = 6
THRESHOLD = 0.5
# Half the width over which balanced accuracy is averaged, in standard deviations of the scores.
WINDOW = 1 / 3


def verdicts(scores: ArrayLike, threshold: float = THRESHOLD) -> Vector:
    """1 for a pass, 0 for a fail, NaN where the judge failed."""
    values = np.asarray(scores, dtype=float)
    return np.where(np.isnan(values), np.nan, values >= threshold)


def balanced_accuracy(passes: ArrayLike, human: ArrayLike) -> float:
    """Balanced accuracy, in [0, 1], of verdicts against people's; NaN if people's are all the same.

    Both have shape (outputs,) and hold 1 for a pass and 0 for a fail. Verdicts are NaN where the
    judge failed; these outputs are left out.
    """
    judge, labels = np.asarray(passes, dtype=float), np.asarray(human, dtype=float)
    valid = ~np.isnan(judge)
    return float(0.5 + judge[valid] @ _worth(labels[valid]))


def best_threshold(scores: ArrayLike, human: ArrayLike) -> float:
    """The midpoint between two scores around which balanced accuracy is best.

    The best midpoint alone is mostly the luck of a few outputs. So balanced accuracy is averaged
    over all thresholds up to a third of the scores' standard deviation away (a smoothed maximum
    score estimator, Horowitz 1992). Of several best midpoints it is the one nearest .5. It is .5 if
    the scores are verdicts already, or a class has fewer than five outputs.
    """
    values, labels = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    valid = ~np.isnan(values)
    values, labels = values[valid], labels[valid]
    levels, places = np.unique(values, return_inverse=True)
    if set(levels.tolist()) <= {0.0, 1.0} or _fewest(labels) < FEWEST_TO_LEARN:
        return THRESHOLD
    # What the scores above each midpoint add to balanced accuracy by passing.
    passing = np.cumsum(np.bincount(places, _worth(labels))[::-1])[::-1][1:]
    midpoints = (levels[:-1] + levels[1:]) / 2
    area = np.concatenate([[0.0], np.cumsum(passing * np.diff(levels))])
    ends = [np.interp(midpoints + side * WINDOW * values.std(), levels, area) for side in (1, -1)]
    average = ends[0] - ends[1]
    best = midpoints[average >= average.max(initial=-np.inf) - 1e-12]
    return float(best[np.abs(best - THRESHOLD).argmin()]) if best.size else THRESHOLD


def is_clearly_worse(n_worse: int, n_better: int) -> bool:
    """Whether one judge is worse than another where they differ, by a one-sided sign test at 5 %.

    `n_worse` outputs are right by the other judge alone, and `n_better` by this one alone.
    """
    from scipy.stats import binomtest

    if n_worse <= n_better:
        return False
    return bool(binomtest(n_worse, n_worse + n_better, alternative="greater").pvalue < CLEARLY)


def balanced_contrast(
    passes_a: ArrayLike, passes_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Judge A's balanced accuracy less judge B's, on the outputs that both judged.

    A document's term is a sum over its outputs. The mean of all differences is subtracted first. It
    does not change the value, but adds to the spread of the terms if documents differ in their
    share of passes. With fewer than ten outputs of a class it stays, to keep the test exact.
    There is no interval if a class has fewer than ten outputs, or fewer than six documents differ.
    """
    a, b, labels = (np.asarray(side, dtype=float) for side in (passes_a, passes_b, human))
    both = ~np.isnan(a) & ~np.isnan(b)
    names, codes = np.unique(np.asarray(document)[both], return_inverse=True)
    differences, labels = (a - b)[both], labels[both]
    few_outputs = _fewest(labels) < FEWEST_FOR_INTERVAL
    shift = 0.0 if few_outputs else differences.mean()
    added = (differences - shift) * _worth(labels)
    terms: Vector = names.size * np.bincount(codes, added, names.size).astype(float)
    contrast = mean_of_differences(terms, tuple(str(name) for name in names))
    few = few_outputs or np.unique(codes[differences != 0]).size < FEWEST_DIFFERENT
    return replace(contrast, interval=None) if few else contrast


def _worth(labels: Vector) -> Vector:
    """What passing each output adds to balanced accuracy; NaN if all labels are the same."""
    passes = labels == 1
    n = int(passes.sum())
    if not 0 < n < labels.size:
        return np.full(labels.size, np.nan)
    return np.where(passes, 0.5 / n, -0.5 / (labels.size - n))


def _fewest(labels: Vector) -> int:
    n = int((labels == 1).sum())
    return min(n, labels.size - n)
