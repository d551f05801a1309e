"""Balanced accuracy of verdicts, its difference between two judges, and the best threshold.

Balanced accuracy is the mean of two shares: of people's passes that the judge passes, and of
people's fails that the judge fails. A judge that always gives the same answer has .5.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Contrast, Vector, contrast_from_outputs

# The probability that a judge is called clearly worse although both judges are equally good.
SIGN_TEST_LEVEL = 0.05
# Each class (pass and fail) needs this many outputs for an interval, and this many for learning a
# threshold.
MIN_OUTPUTS_FOR_INTERVAL, MIN_OUTPUTS_TO_LEARN = 10, 5
# A contrast has an interval only if the judges' verdicts differ on this many documents. Five
# differences all have the same sign by chance in 1 of 16 cases, six differences in 1 of 32.
MIN_DIFFERENT_DOCUMENTS = 6
PASS_THRESHOLD = 0.5
# `best_threshold` averages balanced accuracy over thresholds up to this distance from a midpoint,
# in standard deviations of the scores.
HALF_WINDOW_IN_SDS = 1 / 3


def verdicts(scores: ArrayLike, threshold: float = PASS_THRESHOLD) -> Vector:
    """Turn scores into verdicts: 1 for a pass (at least `threshold`), 0 for a fail; NaN stays."""
    scores_array = np.asarray(scores, dtype=float)
    return np.where(np.isnan(scores_array), np.nan, scores_array >= threshold)


def balanced_accuracy(passes: ArrayLike, human: ArrayLike) -> float:
    """Return balanced accuracy of verdicts, in [0, 1]; NaN if all human labels are equal.

    Verdicts and labels are 1 for a pass and 0 for a fail. Failed judgements (NaN) are left out.
    """
    verdicts_of_judge, labels = np.asarray(passes, dtype=float), np.asarray(human, dtype=float)
    has_verdict = ~np.isnan(verdicts_of_judge)
    return float(0.5 + verdicts_of_judge[has_verdict] @ _weight_of_passing(labels[has_verdict]))


def best_threshold(scores: ArrayLike, human: ArrayLike) -> float:
    """Return the threshold for a pass: the midpoint of two neighbouring scores that separates best.

    For each midpoint, balanced accuracy is averaged over all thresholds up to a third of the
    scores' standard deviation away, because a single threshold depends on the luck of a few outputs
    (a smoothed maximum score estimator, Horowitz 1992). Of equally good midpoints, the one nearest
    to .5 is returned. The threshold is .5 if all scores are already 0 or 1, or if fewer than five
    outputs have the rarer label.
    """
    values, labels = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    has_score = ~np.isnan(values)
    values, labels = values[has_score], labels[has_score]
    distinct_scores, score_codes = np.unique(values, return_inverse=True)
    are_verdicts = set(distinct_scores.tolist()) <= {0.0, 1.0}
    if are_verdicts or _size_of_smaller_class(labels) < MIN_OUTPUTS_TO_LEARN:
        return PASS_THRESHOLD
    # For each midpoint as the threshold: the balanced accuracy minus .5.
    gain_of_score = np.bincount(score_codes, _weight_of_passing(labels))
    gain_above_midpoint = np.cumsum(gain_of_score[::-1])[::-1][1:]
    midpoints = (distinct_scores[:-1] + distinct_scores[1:]) / 2
    integral = np.concatenate([[0.0], np.cumsum(gain_above_midpoint * np.diff(distinct_scores))])
    half_window = HALF_WINDOW_IN_SDS * values.std()
    smoothed_accuracy = np.interp(midpoints + half_window, distinct_scores, integral)
    smoothed_accuracy -= np.interp(midpoints - half_window, distinct_scores, integral)
    best_midpoints = midpoints[smoothed_accuracy >= smoothed_accuracy.max(initial=-np.inf) - 1e-12]
    return min(
        best_midpoints.tolist(), key=lambda x: abs(x - PASS_THRESHOLD), default=PASS_THRESHOLD
    )


def is_clearly_worse(n_worse: int, n_better: int) -> bool:
    """Return whether judge A is worse than judge B, by a one-sided sign test at the 5 % level.

    On `n_worse` outputs only judge B is right, and on `n_better` outputs only judge A is right.
    """
    from scipy.special import bdtrc

    p_value = bdtrc(n_worse - 1, n_worse + n_better, 0.5)
    return bool(p_value < SIGN_TEST_LEVEL)


def contrast_balanced_accuracy(
    passes_a: ArrayLike, passes_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Judge A's balanced accuracy minus judge B's, on the outputs that both judges scored.

    The mean difference between the verdicts is subtracted from every output's difference. The
    subtraction does not change the value, but narrows the interval if documents differ in their
    share of passes. If a class has fewer than ten outputs, nothing is subtracted, so that the
    permutation test stays exact. The interval is None for such a class, and also if the judges
    differ on fewer than six documents.
    """
    verdicts_a, verdicts_b, labels = (
        np.asarray(vector, dtype=float) for vector in (passes_a, passes_b, human)
    )
    differences = verdicts_a - verdicts_b
    both_judged = ~np.isnan(differences)
    differences, labels = differences[both_judged], labels[both_judged]
    documents = np.asarray(document)[both_judged]
    has_small_class = _size_of_smaller_class(labels) < MIN_OUTPUTS_FOR_INTERVAL
    mean_difference = 0.0 if has_small_class else differences.mean()
    contributions = (differences - mean_difference) * _weight_of_passing(labels)
    contrast = contrast_from_outputs(contributions, documents)
    n_different = np.unique(documents[differences != 0]).size
    has_too_few = has_small_class or n_different < MIN_DIFFERENT_DOCUMENTS
    return replace(contrast, interval=None) if has_too_few else contrast


def _weight_of_passing(labels: Vector) -> Vector:
    """Return what each output adds to balanced accuracy if it passes; NaN for equal labels."""
    passes = labels == 1
    n_passes = int(passes.sum())
    if not 0 < n_passes < labels.size:
        return np.full(labels.size, np.nan)
    return np.where(passes, 0.5 / n_passes, -0.5 / (labels.size - n_passes))


def _size_of_smaller_class(labels: Vector) -> int:
    n_passes = int((labels == 1).sum())
    return min(n_passes, labels.size - n_passes)
