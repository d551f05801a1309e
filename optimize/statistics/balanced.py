"""Balanced accuracy of verdicts, its difference between two judges, and the best threshold.

Balanced accuracy is the mean of two shares: the share of people's passes that the judge passes, and
the share of people's fails that it fails. A judge that always gives the same answer has .5, however
rare fails are.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Contrast, Vector, mean_of_differences

# The chance that a judge is called clearly worse than another one that is equally good.
CLEAR_ERROR = 0.05
# The fewest outputs of each class for an interval, and for learning a threshold.
FEWEST_FOR_INTERVAL, FEWEST_TO_LEARN = 10, 5
# The fewest documents on which judges must differ for an interval. By chance, five differences have
# the same sign in 1 of 16 cases, six in 1 of 32.
FEWEST_DIFFERENT = 6
THRESHOLD = 0.5
# Half the width over which balanced accuracy is averaged, in standard deviations of the scores.
WINDOW = 1 / 3


def verdicts(scores: ArrayLike, threshold: float = THRESHOLD) -> Vector:
    """1 for a pass, 0 for a fail, NaN for a failed judgement."""
    values = np.asarray(scores, dtype=float)
    return np.where(np.isnan(values), np.nan, values >= threshold)


def balanced_accuracy(passes: ArrayLike, human: ArrayLike) -> float:
    """Balanced accuracy, in [0, 1], of verdicts with people's labels; NaN if these are all equal.

    `passes` and `human` have shape (outputs,) and hold 1 for a pass and 0 for a fail. Outputs with
    NaN in `passes`, for a failed judgement, are left out.
    """
    judge, labels = np.asarray(passes, dtype=float), np.asarray(human, dtype=float)
    valid = ~np.isnan(judge)
    return float(0.5 + judge[valid] @ _weight_of_passing(labels[valid]))


def best_threshold(scores: ArrayLike, human: ArrayLike) -> float:
    """The threshold for a pass: the midpoint between two scores with the best balanced accuracy.

    Balanced accuracy at a single threshold depends on the luck of a few outputs. So the function
    averages it over all thresholds up to a third of the scores' standard deviation away (a smoothed
    maximum score estimator, Horowitz 1992). Among equally good midpoints it takes the one nearest
    .5. The threshold is .5 if the scores are verdicts already, or a class has fewer than five
    outputs.
    """
    values, labels = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    valid = ~np.isnan(values)
    values, labels = values[valid], labels[valid]
    distinct, distinct_codes = np.unique(values, return_inverse=True)
    if set(distinct.tolist()) <= {0.0, 1.0} or _size_of_smaller_class(labels) < FEWEST_TO_LEARN:
        return THRESHOLD
    # What outputs that score above a midpoint add to balanced accuracy by passing, per midpoint.
    gain_above = np.cumsum(np.bincount(distinct_codes, _weight_of_passing(labels))[::-1])[::-1][1:]
    midpoints = (distinct[:-1] + distinct[1:]) / 2
    area = np.concatenate([[0.0], np.cumsum(gain_above * np.diff(distinct))])
    ends = [np.interp(midpoints + side * WINDOW * values.std(), distinct, area) for side in (1, -1)]
    smoothed = ends[0] - ends[1]
    best = midpoints[smoothed >= smoothed.max(initial=-np.inf) - 1e-12]
    return float(best[np.abs(best - THRESHOLD).argmin()]) if best.size else THRESHOLD


def is_clearly_worse(n_worse: int, n_better: int) -> bool:
    """Whether a judge is worse than another one, by a one-sided sign test at 5 %.

    Only the other judge is right on `n_worse` outputs, only this one on `n_better`.
    """
    from scipy.stats import binomtest

    if n_worse <= n_better:
        return False
    return bool(binomtest(n_worse, n_worse + n_better, alternative="greater").pvalue < CLEAR_ERROR)


def balanced_contrast(
    passes_a: ArrayLike, passes_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Judge A's balanced accuracy less judge B's, on the outputs that both judged.

    A document's term is a sum over its outputs. The mean of all differences in verdicts is
    subtracted first: it does not change the value, but would widen the interval if documents differ
    in their share of passes. If a class has fewer than ten outputs, it is not subtracted, which
    keeps the permutation test exact. The interval is None if a class has fewer than ten outputs, or
    if the judges differ on fewer than six documents.
    """
    a, b, labels = (np.asarray(vector, dtype=float) for vector in (passes_a, passes_b, human))
    both_scored = ~np.isnan(a) & ~np.isnan(b)
    names, codes = np.unique(np.asarray(document)[both_scored], return_inverse=True)
    differences, labels = (a - b)[both_scored], labels[both_scored]
    few_outputs = _size_of_smaller_class(labels) < FEWEST_FOR_INTERVAL
    mean_difference = 0.0 if few_outputs else differences.mean()
    added = (differences - mean_difference) * _weight_of_passing(labels)
    terms: Vector = names.size * np.bincount(codes, added, names.size).astype(float)
    contrast = mean_of_differences(terms, tuple(str(name) for name in names))
    has_too_few = few_outputs or np.unique(codes[differences != 0]).size < FEWEST_DIFFERENT
    return replace(contrast, interval=None) if has_too_few else contrast


def _weight_of_passing(labels: Vector) -> Vector:
    """What passing each output adds to balanced accuracy; NaN if all labels are the same."""
    passes = labels == 1
    n_passes = int(passes.sum())
    if not 0 < n_passes < labels.size:
        return np.full(labels.size, np.nan)
    return np.where(passes, 0.5 / n_passes, -0.5 / (labels.size - n_passes))


def _size_of_smaller_class(labels: Vector) -> int:
    n_passes = int((labels == 1).sum())
    return min(n_passes, labels.size - n_passes)
