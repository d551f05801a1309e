"""The mean rating that people would give, estimated from few human labels and many judgements.

This is prediction-powered inference (arXiv:2301.09633) with power tuning (arXiv:2311.01453): the
mean of the judge's scores, corrected by its error on the labelled outputs. The interval is valid
however bad the judge is, and a good judge makes it narrow. Documents may be drawn with unequal
probabilities (active inference, arXiv:2403.03208): labels are then weighted by one over the
probability.

If all of 16 labelled outputs pass, this does not show that all outputs pass. So three artificial
documents are added for the interval: a quarter of them for each combination of an end of the
labels' scale with the judge's lowest or highest score, as Agresti and Min (2005) add to the four
cells of paired shares. The interval for the mean of the given outputs themselves has a finite
population correction.

We do not use ppi-python, because it treats outputs as independent, and here several outputs share a
document. The tests compare both on independent outputs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import (
    FEW_DOCUMENTS,
    Interval,
    IntervalEstimate,
    Matrix,
    Vector,
    effective_number,
    student_quantile,
)

# How many artificial documents are added for the interval.
ADDED = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate of the mean human rating, with its counts.

    `interval` is for the mean over outputs like these, `given_interval` for the mean over the given
    outputs. `labels_only` is the mean of the labels; `judge_only` is the mean of the judge's
    scores, which may be far off. `weight` is the judge's weight in `value`, in [0, 1].
    `labels_needed` uses `label_sd` and `agreement`, a correlation in [0, 1] of labels and scores
    that says how much the judge narrows the interval.
    """

    value: float
    interval: Interval | None
    given_interval: Interval | None
    labels_only: IntervalEstimate
    judge_only: float
    weight: float
    n_labels: int
    n_judgements: int
    n_documents: int
    n_failed: int
    label_sd: float
    agreement: float


def mean_score(
    label: ArrayLike,
    score: ArrayLike,
    document: ArrayLike | None = None,
    *,
    weight: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    n_comparisons: int = 1,
) -> Estimate:
    """Estimate the mean human rating of outputs like these.

    Args:
        label: (outputs,) ratings, NaN for outputs without a label. Labelled outputs must be a
            random part of all, or have a weight.
        score: (outputs,) the judge's scores, NaN for a failed judgement; these outputs are left
            out.
        document: (outputs,) document labels. By default each output is its own document.
        weight: (outputs,) one over the probability with which the output's document was drawn.
        bounds: The ends of the labels' scale. Without them, intervals for skewed labels are too
            narrow.
        n_comparisons: For how many estimates the intervals shall hold at once.

    Raises:
        ValueError: Fewer than two documents have a label.
    """
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    weights = np.ones(labels.size) if weight is None else np.asarray(weight, dtype=float)
    valid = ~np.isnan(scores)
    labels, scores, weights = labels[valid], scores[valid], weights[valid]
    codes = np.unique(documents[valid], return_inverse=True)[1]
    has_label = ~np.isnan(labels)
    document_weights = weights[has_label][np.unique(codes[has_label], return_index=True)[1]]
    if document_weights.size < 2:
        raise ValueError(
            f"{int(has_label.sum())} labels on {document_weights.size} documents: label "
            "outputs of at least two documents (twenty for a useful interval)"
        )
    n_outputs, n_labels = labels.size, int(has_label.sum())
    n_effective = effective_number(document_weights)
    weights, labels = np.where(has_label, weights, 0), np.nan_to_num(labels)
    weights *= n_labels / weights.sum()
    labelled_share = n_labels / n_outputs
    # Sums for each document: over its labelled outputs the weight, the label and the score (both
    # weighted); over all its outputs their number and the score.
    columns = [weights, weights * labels, weights * scores, np.ones(n_outputs), scores]
    sums: Matrix = np.stack([np.bincount(codes, column) for column in columns])
    labels_only, correction = _means(sums)
    added = _added_documents(sums, labels, weights, scores, bounds) if bounds else np.empty((5, 0))
    # Each document's probability of being labelled, from its weight, and of being left out.
    chance = labelled_share * np.bincount(codes, has_label) / np.where(sums[0] > 0, sums[0], 1)
    left_out = np.append(1 - np.minimum(chance, 1), np.full(added.shape[1], 1 - labelled_share))
    sums = np.hstack([sums, added])
    label_centre, score_shift = _means(sums)
    labels_error, all_scores_error, labelled_scores_error = _errors(sums)
    errors = labels_error, all_scores_error - labelled_scores_error
    score_power = float((errors[1] ** 2).sum())
    # With the largest weight, the correction is the judge's mean over unlabelled outputs less that
    # over labelled ones.
    largest_weight = n_outputs / max(n_outputs - n_labels, 1)
    judge_weight = 0.0
    if score_power > 0:
        judge_weight = float(np.clip(-(errors[0] @ errors[1]) / score_power, 0, largest_weight))
    degrees = n_effective + added.shape[1] - 1
    label_error = float(np.sqrt((errors[0] ** 2).sum()))
    error = float(np.sqrt(((errors[0] + judge_weight * errors[1]) ** 2).sum()))
    # Tuning the weight costs one degree of freedom, as fitting a slope does.
    degrees_left = degrees - (1 if judge_weight > 0 else 0)
    widening = np.sqrt(degrees / max(degrees_left, 1))
    given_variance = (left_out * (labels_error - judge_weight * labelled_scores_error) ** 2).sum()
    # The agreement r is such that the judge reduces the variance by r^2 (N - n) / N, for n labels
    # on N outputs.
    agreement = 0.0
    if label_error > 0 and n_labels < n_outputs:
        reduction = (1 - (error / label_error) ** 2) * n_outputs / (n_outputs - n_labels)
        agreement = float(np.sqrt(np.clip(reduction, 0, 1)))
    low, high = bounds or (-np.inf, np.inf)
    value = float(np.clip(labels_only + judge_weight * correction, low, high))
    centre_of_all = label_centre + judge_weight * score_shift
    centre_of_given = value + (1 - labelled_share) * (centre_of_all - value)

    def interval(value: float, centre: float, error: float, degrees: float) -> Interval | None:
        if degrees < 1:
            return None
        half_width = student_quantile(degrees, n_comparisons) * error
        # The interval always contains the value.
        ends = np.clip(
            [min(centre - half_width, value), max(centre + half_width, value)], low, high
        )
        return Interval(float(ends[0]), float(ends[1]))

    return Estimate(
        value=value,
        interval=interval(value, centre_of_all, widening * error, degrees_left),
        given_interval=interval(
            value, centre_of_given, widening * given_variance**0.5, degrees_left
        ),
        labels_only=IntervalEstimate(
            labels_only, interval(labels_only, label_centre, label_error, degrees)
        ),
        judge_only=float(scores.mean()),
        weight=judge_weight / largest_weight,
        n_labels=n_labels,
        n_judgements=n_outputs - n_labels,
        n_documents=np.unique(codes).size,
        n_failed=int((~valid).sum()),
        label_sd=label_error * np.sqrt(n_labels),
        agreement=agreement,
    )


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The mean of `system` less that of the system `less`.

    In the `estimate`, each document counts as one output, whose label is the difference of both
    systems' labels. The estimate's interval is for these two systems alone; `together_interval`
    holds for all pairs of systems at once.
    """

    system: str
    less: str
    estimate: Estimate
    together_interval: Interval | None


def system_differences(
    names: Sequence[str],
    label: Vector,
    score: Vector,
    document: ArrayLike,
    system: ArrayLike,
    *,
    weight: Vector,
    bounds: tuple[float, float],
) -> list[SystemDifference]:
    """Estimate the mean of every system in `names` less that of each later one.

    Labels and scores are compared within a document, so that its difficulty cancels out. If a
    system has several outputs on a document, their mean counts. Two systems with labels on fewer
    than 15 shared documents are left out. The vectors are as for `mean_score`.
    """
    first_rows, codes = np.unique(np.asarray(document), return_index=True, return_inverse=True)[1:]
    by_system = np.full((2, len(names), first_rows.size), np.nan)
    for number, name in enumerate(names):
        for means, values in zip(by_system, (label, score), strict=True):
            rows = (np.asarray(system) == name) & ~np.isnan(values + score)
            counts = np.bincount(codes[rows], minlength=first_rows.size)
            sums = np.bincount(codes[rows], values[rows], first_rows.size)
            np.divide(sums, counts, out=means[number], where=counts > 0)
    width, n_pairs = bounds[1] - bounds[0], math.comb(len(names), 2)
    weights, differences = weight[first_rows], []
    for a, b in combinations(range(len(names)), 2):
        human, judge = by_system[:, a] - by_system[:, b]
        has_scores = ~np.isnan(judge)
        if np.isfinite(human[has_scores]).sum() < FEW_DOCUMENTS:
            continue
        mean = partial(mean_score, human[has_scores], judge[has_scores], weight=weights[has_scores])
        single, joint = (mean(bounds=(-width, width), n_comparisons=n) for n in (1, n_pairs))
        differences.append(SystemDifference(names[a], names[b], single, joint.interval))
    return differences


def labels_needed(estimate: Estimate, width: float) -> int | None:
    """How many labels in all give an interval of this width; None if no number of labels does.

    With n labels on N outputs and the agreement r, the estimate has a variance of
    sd^2 / n * (1 - r^2 (N - n) / N).
    """
    from scipy.special import stdtrit

    n_outputs = estimate.n_labels + estimate.n_judgements
    n = np.arange(2, n_outputs + 1)
    variance_share = 1 - estimate.agreement**2 * (n_outputs - n) / n_outputs
    quantiles = stdtrit(np.maximum(n - 2, 1), 0.975)
    sufficient = n[2 * quantiles * estimate.label_sd * np.sqrt(variance_share / n) <= width]
    return int(sufficient[0]) if sufficient.size and estimate.interval else None


def _means(sums: Matrix) -> tuple[float, float]:
    """The mean label, and the correction of it by the judge's scores."""
    weight, labels, scores, n_outputs, all_scores = sums.sum(axis=1)
    return float(labels / weight), float(all_scores / n_outputs - scores / weight)


def _errors(sums: Matrix) -> Matrix:
    """(3, documents): what each document adds to the errors of three means.

    The means are of the labels, of all scores, and of the scores on labelled outputs. A factor
    makes the sum of squares over documents an unbiased estimate of the variance.
    """
    weight, labels, scores, n_outputs, all_scores = sums

    def parts(counts: Vector, values: Vector) -> Vector:
        n_documents = max(int((counts > 0).sum()), 2)
        mean = values.sum() / counts.sum()
        factor = np.sqrt(n_documents / (n_documents - 1))
        errors: Vector = factor * (values - mean * counts) / counts.sum()
        return errors

    return np.vstack([parts(weight, labels), parts(n_outputs, all_scores), parts(weight, scores)])


def _added_documents(
    sums: Matrix, labels: Vector, weights: Vector, scores: Vector, bounds: tuple[float, float]
) -> Matrix:
    """Sums for the added documents, which combine each end of the scale with each extreme score.

    An added document counts as many outputs as the square root of a labelled document's outputs,
    because labels within a document are similar. It counts less if labels are seldom at the ends of
    the scale: by their variance, relative to the largest variance that their mean allows.
    """
    low, high = bounds
    labels_and_bounds, weights = np.append(labels, bounds), np.append(weights, [1, 1])
    mean = np.average(labels_and_bounds, weights=weights)
    largest_variance = (mean - low) * (high - mean)
    variance = np.average((labels_and_bounds - mean) ** 2, weights=weights)
    variance_share = variance / largest_variance if largest_variance > 0 else 0.0
    size = ADDED / 4 * float(np.sqrt(sums[0].sum() / (sums[0] > 0).sum()) * variance_share)
    corners = ((label, score) for label in bounds for score in (scores.min(), scores.max()))
    added = [(1, label, score, 1, score) for label, score in corners]
    return size * np.array(added, dtype=float).T
