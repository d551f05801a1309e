"""Balanced accuracy of verdicts, its difference between two judges, and the best threshold.

Balanced accuracy is the mean of two shares: the share of people's passes that the judge passes,
and the share of people's fails that the judge fails. A judge that always gives the same verdict has
a balanced accuracy of .5.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Contrast, Vector, contrast_from_outputs

# The probability that a judge is called clearly worse although both judges are equally good.
SIGN_TEST_LEVEL = 0.05
# People must pass, and fail, at least this many outputs: the first number for an interval, the
# second to learn a threshold.
MIN_OUTPUTS_FOR_INTERVAL, MIN_OUTPUTS_TO_LEARN = 10, 5
# A difference between two judges has an interval only if their verdicts differ on this many
# documents. Five differences all have the same sign by chance in 1 of 16 cases, six differences in
# 1 of 32.
MIN_DIFFERENT_DOCUMENTS = 6
PASS_THRESHOLD = 0.5
# `best_threshold` averages balanced accuracy over all thresholds that are at most this far from a
# midpoint of two scores, in standard deviations of the scores.
HALF_WINDOW_IN_SDS = 1 / 3


def verdicts(scores: ArrayLike, threshold: float = PASS_THRESHOLD) -> Vector:
    """Return 1 (pass) for scores of at least `threshold`, and 0 (fail) for others; NaN stays."""
    scores_array = np.asarray(scores, dtype=float)
    return np.where(np.isnan(scores_array), np.nan, scores_array >= threshold)


def balanced_accuracy(judge_verdicts: ArrayLike, human: ArrayLike) -> float:
    """Return the balanced accuracy of a judge's verdicts, in [0, 1].

    Verdicts and people's labels have shape (outputs,) and are 1 for a pass and 0 for a fail. Failed
    judgements (NaN) are left out. The result is NaN if all labels are equal.
    """
    verdict_values, labels = np.asarray(judge_verdicts, dtype=float), np.asarray(human, dtype=float)
    has_verdict = ~np.isnan(verdict_values)
    return float(0.5 + verdict_values[has_verdict] @ _gain_by_passing(labels[has_verdict]))


def best_threshold(scores: ArrayLike, human: ArrayLike) -> float:
    """Return the lowest score that is to count as a pass, so that verdicts agree best with labels.

    The threshold is the midpoint of two neighbouring scores. The accuracy at a single threshold
    depends on the luck of a few outputs. So balanced accuracy is averaged over all thresholds that
    are at most a third of the scores' standard deviation away (a smoothed maximum score estimator,
    Horowitz 1992). Of equally good midpoints, the midpoint nearest to .5 is returned. The threshold
    is .5 if fewer than five outputs have the rarer label.
    """
    scores_array, labels = np.asarray(scores, dtype=float), np.asarray(human, dtype=float)
    has_score = ~np.isnan(scores_array)
    known_scores, labels = scores_array[has_score], labels[has_score]
    distinct_scores, score_codes = np.unique(known_scores, return_inverse=True)
    if distinct_scores.size < 2 or _size_of_smaller_class(labels) < MIN_OUTPUTS_TO_LEARN:
        return PASS_THRESHOLD
    gain_of_score = np.bincount(score_codes, _gain_by_passing(labels))
    # The balanced accuracy, minus .5, with each midpoint as the threshold.
    gain_at_midpoint = np.cumsum(gain_of_score[::-1])[::-1][1:]
    midpoints = (distinct_scores[:-1] + distinct_scores[1:]) / 2
    # The integral of balanced accuracy, minus .5, over all thresholds up to each score.
    gain_integral = np.concatenate([[0.0], np.cumsum(gain_at_midpoint * np.diff(distinct_scores))])
    half_window = HALF_WINDOW_IN_SDS * known_scores.std()
    smoothed_gain = np.interp(midpoints + half_window, distinct_scores, gain_integral)
    smoothed_gain -= np.interp(midpoints - half_window, distinct_scores, gain_integral)
    best_midpoints = midpoints[smoothed_gain >= smoothed_gain.max() - 1e-12]
    return float(best_midpoints[np.abs(best_midpoints - PASS_THRESHOLD).argmin()])


def is_clearly_worse(n_worse: int, n_better: int) -> bool:
    """Return whether judge A is worse than judge B, by a one-sided sign test at the 5 % level.

    On `n_worse` outputs only judge B is right, and on `n_better` outputs only judge A is right.
    """
    from scipy.special import bdtrc

    p_value = bdtrc(n_worse - 1, n_worse + n_better, 0.5)
    return bool(p_value < SIGN_TEST_LEVEL)


def contrast_balanced_accuracy(
    verdicts_a: ArrayLike, verdicts_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Return judge A's balanced accuracy minus judge B's, on the outputs that both judges scored.

    The mean difference between the judges' verdicts is subtracted from each output's difference.
    This leaves the value as it is, and narrows the interval if documents differ in their share of
    passes. If fewer than ten outputs have the rarer label, the mean is not subtracted, so that the
    permutation test stays exact, and the interval is None. The interval is also None if the judges
    differ on fewer than six documents.
    """
    differences = np.asarray(verdicts_a, dtype=float) - np.asarray(verdicts_b, dtype=float)
    both_judged = ~np.isnan(differences)
    differences, labels = differences[both_judged], np.asarray(human, dtype=float)[both_judged]
    documents = np.asarray(document)[both_judged]
    is_label_rare = _size_of_smaller_class(labels) < MIN_OUTPUTS_FOR_INTERVAL
    mean_difference = 0.0 if is_label_rare else differences.mean()
    gains = (differences - mean_difference) * _gain_by_passing(labels)
    contrast = contrast_from_outputs(gains, documents)
    n_different_documents = np.unique(documents[differences != 0]).size
    if is_label_rare or n_different_documents < MIN_DIFFERENT_DOCUMENTS:
        return replace(contrast, interval=None)
    return contrast


def _gain_by_passing(labels: Vector) -> Vector:
    """Return what a pass on each output adds to balanced accuracy; NaN if all labels are equal."""
    is_pass = labels == 1
    n_passes = int(is_pass.sum())
    if not 0 < n_passes < labels.size:
        return np.full(labels.size, np.nan)
    return np.where(is_pass, 0.5 / n_passes, -0.5 / (labels.size - n_passes))


def _size_of_smaller_class(labels: Vector) -> int:
    n_passes = int((labels == 1).sum())
    return min(n_passes, labels.size - n_passes)
