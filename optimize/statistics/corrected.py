"""Estimate the mean human rating of all outputs from few human labels and many judgements.

The method is prediction-powered inference (arXiv:2301.09633) with power tuning (arXiv:2311.01453):
the mean of the judge's scores on all outputs, corrected by the judge's mean error on the labelled
outputs. The interval is valid however bad the judge is, and a good judge makes it narrow. If
documents are drawn for labelling with unequal probabilities (active inference, arXiv:2403.03208),
each label has the weight 1 / probability.

If all of 16 labelled outputs pass, this does not show that all outputs pass. So pseudo-counts are
added before the interval is computed, as Agresti and Min (2005) do for the four cells of paired
proportions. All pseudo-counts together amount to three documents: three quarters of a document for
each of the four combinations of a label (the lowest or the highest of the scale) with a score (the
judge's lowest or highest). The interval for the mean over exactly the given outputs has a finite
population correction.

The package ppi-python is not used, because it treats outputs as independent, while several outputs
here share a document. The tests compare this module with ppi-python on independent outputs.
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

# The pseudo-counts for the interval amount to this many documents.
PSEUDO_DOCUMENTS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate of the mean human rating, with its counts.

    Attributes:
        value: The estimate.
        interval: The 95 % interval for the mean over the population that the outputs are a sample
            of; None if the labelled documents are too few.
        given_interval: The 95 % interval for the mean over exactly the given outputs.
        labels_only: The mean of the labels alone, without the judge, and its interval.
        judge_only: The mean of the judge's scores, which may be biased.
        weight: The weight of the judge's scores in `value`, in [0, 1]; 0 ignores the judge.
        n_labels: How many outputs have a label (and a score).
        n_judgements: How many outputs have a score and no label.
        n_documents: How many documents have an output with a score.
        n_failed: How many outputs are left out because the judge failed on them.
        label_sd: The standard deviation of a label, which includes the design effect of documents.
        agreement: A correlation of labels with scores, in [0, 1]. The higher the agreement, the
            more the judge narrows the interval. The function `labels_needed` uses `agreement` and
            `label_sd`.
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
    """Estimate the mean human rating of the population that the outputs are a sample of.

    Args:
        label: (outputs,) human ratings, NaN for outputs without a label. The labelled outputs must
            be a random sample of all outputs, unless `weight` says how they were drawn.
        score: (outputs,) the judge's scores, NaN for a failed judgement; these outputs are left
            out.
        document: (outputs,) document ids. By default each output is its own document.
        weight: (outputs,) 1 / the probability with which the output's document was drawn for
            labelling.
        bounds: The lowest and the highest label of the scale. Without bounds, intervals for skewed
            labels are too narrow.
        n_comparisons: How many estimates there are; their intervals hold simultaneously.

    Raises:
        ValueError: Fewer than two documents have a label.
    """
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    weights = np.ones(labels.size) if weight is None else np.asarray(weight, dtype=float)
    has_score = ~np.isnan(scores)
    labels, scores, weights = labels[has_score], scores[has_score], weights[has_score]
    document_codes = np.unique(documents[has_score], return_inverse=True)[1]
    has_label = ~np.isnan(labels)
    document_weights = weights[has_label][
        np.unique(document_codes[has_label], return_index=True)[1]
    ]
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
    # Five sums for each document. Over the document's labelled outputs: of the weights, of the
    # weighted labels and of the weighted scores. Over all outputs of the document: their number,
    # and the sum of the scores.
    output_columns = [weights, weights * labels, weights * scores, np.ones(n_outputs), scores]
    sums: Matrix = np.stack([np.bincount(document_codes, values) for values in output_columns])
    labels_only, mean_correction = _means(sums)
    pseudo_sums = (
        _pseudo_documents(sums, labels, weights, scores, bounds) if bounds else np.empty((5, 0))
    )
    # Each document's probability of being drawn for labelling, which follows from its weight, and
    # the probability of not being drawn.
    labelling_probability = (
        labelled_share * np.bincount(document_codes, has_label) / np.where(sums[0] > 0, sums[0], 1)
    )
    omission_probability = np.append(
        1 - np.minimum(labelling_probability, 1), np.full(pseudo_sums.shape[1], 1 - labelled_share)
    )
    sums = np.hstack([sums, pseudo_sums])
    label_mean, score_correction = _means(sums)
    labels_error, all_scores_error, labelled_scores_error = _errors(sums)
    errors = labels_error, all_scores_error - labelled_scores_error
    correction_variance = float((errors[1] ** 2).sum())
    # With the largest weight, the correction is the judge's mean over unlabelled outputs minus the
    # judge's mean over labelled outputs.
    largest_weight = n_outputs / max(n_outputs - n_labels, 1)
    judge_weight = 0.0
    if correction_variance > 0:
        judge_weight = float(
            np.clip(-(errors[0] @ errors[1]) / correction_variance, 0, largest_weight)
        )
    freedom = n_effective + pseudo_sums.shape[1] - 1
    label_error = float(np.sqrt((errors[0] ** 2).sum()))
    estimate_error = float(np.sqrt(((errors[0] + judge_weight * errors[1]) ** 2).sum()))
    # Tuning the judge's weight costs one degree of freedom, like fitting a slope.
    freedom_after_tuning = freedom - (1 if judge_weight > 0 else 0)
    width_factor = np.sqrt(freedom / max(freedom_after_tuning, 1))
    given_variance = (
        omission_probability * (labels_error - judge_weight * labelled_scores_error) ** 2
    ).sum()
    # The agreement r is defined by the reduction of the variance that the judge brings: with n
    # labels on N outputs, this is the share r^2 (N - n) / N of the variance without a judge.
    agreement = 0.0
    if label_error > 0 and n_labels < n_outputs:
        relative_reduction = (
            (1 - (estimate_error / label_error) ** 2) * n_outputs / (n_outputs - n_labels)
        )
        agreement = float(np.sqrt(np.clip(relative_reduction, 0, 1)))
    low, high = bounds or (-np.inf, np.inf)
    value = float(np.clip(labels_only + judge_weight * mean_correction, low, high))
    population_centre = label_mean + judge_weight * score_correction
    given_centre = value + (1 - labelled_share) * (population_centre - value)

    def interval(
        value: float, centre: float, estimate_error: float, freedom: float
    ) -> Interval | None:
        if freedom < 1:
            return None
        half_width = student_quantile(freedom, n_comparisons) * estimate_error
        # The interval always contains the value.
        ends = np.clip(
            [min(centre - half_width, value), max(centre + half_width, value)], low, high
        )
        return Interval(float(ends[0]), float(ends[1]))

    return Estimate(
        value=value,
        interval=interval(
            value, population_centre, width_factor * estimate_error, freedom_after_tuning
        ),
        given_interval=interval(
            value, given_centre, width_factor * given_variance**0.5, freedom_after_tuning
        ),
        labels_only=IntervalEstimate(
            labels_only, interval(labels_only, label_mean, label_error, freedom)
        ),
        judge_only=float(scores.mean()),
        weight=judge_weight / largest_weight,
        n_labels=n_labels,
        n_judgements=n_outputs - n_labels,
        n_documents=np.unique(document_codes).size,
        n_failed=int((~has_score).sum()),
        label_sd=label_error * np.sqrt(n_labels),
        agreement=agreement,
    )


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The mean human rating of one system minus the mean human rating of another system.

    Attributes:
        system: The name of the first system.
        less: The name of the second system, whose mean is subtracted.
        estimate: The difference. In this estimate each document counts as one output: the output's
            label is the difference between the two systems' labels, and the output's score the
            difference between the two systems' scores. The interval is for this pair of systems
            alone.
        together_interval: The interval that holds simultaneously for all pairs of systems.
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
    """Estimate the difference between the mean ratings of any two systems in `names`.

    The mean of the later system in `names` is subtracted from the mean of the earlier system.
    Labels and scores are compared within a document, so that the document's difficulty cancels out.
    If a system has several outputs on a document, their mean counts. A pair of systems is left out
    if fewer than 15 documents have a label for both systems. The vectors are as for `mean_score`.
    """
    first_outputs, document_codes = np.unique(
        np.asarray(document), return_index=True, return_inverse=True
    )[1:]
    system_means = np.full((2, len(names), first_outputs.size), np.nan)
    for index, name in enumerate(names):
        for means, values in zip(system_means, (label, score), strict=True):
            is_compared = (np.asarray(system) == name) & ~np.isnan(values + score)
            counts = np.bincount(document_codes[is_compared], minlength=first_outputs.size)
            document_sums = np.bincount(
                document_codes[is_compared], values[is_compared], first_outputs.size
            )
            np.divide(document_sums, counts, out=means[index], where=counts > 0)
    scale_width, n_pairs = bounds[1] - bounds[0], math.comb(len(names), 2)
    weights, system_pairs = weight[first_outputs], []
    for a, b in combinations(range(len(names)), 2):
        label_differences, score_differences = system_means[:, a] - system_means[:, b]
        has_scores = ~np.isnan(score_differences)
        if np.isfinite(label_differences[has_scores]).sum() < FEW_DOCUMENTS:
            continue
        estimate_difference = partial(
            mean_score,
            label_differences[has_scores],
            score_differences[has_scores],
            weight=weights[has_scores],
        )
        pair_estimate, joint_estimate = (
            estimate_difference(bounds=(-scale_width, scale_width), n_comparisons=n)
            for n in (1, n_pairs)
        )
        system_pairs.append(
            SystemDifference(names[a], names[b], pair_estimate, joint_estimate.interval)
        )
    return system_pairs


def labels_needed(estimate: Estimate, width: float) -> int | None:
    """The smallest total number of labels for which the interval has at most this width.

    None if even labels on all outputs are too few. With n labels on N outputs, the variance of the
    estimate is label_sd^2 / n * (1 - agreement^2 * (N - n) / N).
    """
    from scipy.special import stdtrit

    n_outputs = estimate.n_labels + estimate.n_judgements
    n_labels = np.arange(2, n_outputs + 1)
    variance_factor = 1 - estimate.agreement**2 * (n_outputs - n_labels) / n_outputs
    quantiles = stdtrit(np.maximum(n_labels - 2, 1), 0.975)
    sufficient_numbers = n_labels[
        2 * quantiles * estimate.label_sd * np.sqrt(variance_factor / n_labels) <= width
    ]
    return int(sufficient_numbers[0]) if sufficient_numbers.size and estimate.interval else None


def _means(sums: Matrix) -> tuple[float, float]:
    """The mean label, and the correction that the judge's scores add to the mean label."""
    weight, labels, scores, n_outputs, all_scores = sums.sum(axis=1)
    return float(labels / weight), float(all_scores / n_outputs - scores / weight)


def _errors(sums: Matrix) -> Matrix:
    """Each document's contribution to the errors of three means, of shape (3, documents).

    The three rows are for the mean of the labels, the mean of all scores, and the mean of the
    scores on labelled outputs. The sum of squares of a row is an unbiased estimate of the variance
    of the row's mean.
    """
    weight, labels, scores, n_outputs, all_scores = sums

    def errors_of_mean(counts: Vector, values: Vector) -> Vector:
        n_documents = max(int((counts > 0).sum()), 2)
        mean = values.sum() / counts.sum()
        unbiasing_factor = np.sqrt(n_documents / (n_documents - 1))
        errors: Vector = unbiasing_factor * (values - mean * counts) / counts.sum()
        return errors

    return np.vstack(
        [
            errors_of_mean(weight, labels),
            errors_of_mean(n_outputs, all_scores),
            errors_of_mean(weight, scores),
        ]
    )


def _pseudo_documents(
    sums: Matrix, labels: Vector, weights: Vector, scores: Vector, bounds: tuple[float, float]
) -> Matrix:
    """The sums of the four pseudo-documents, of shape (5, 4), as columns of `sums`.

    The four pseudo-documents combine the lowest and the highest label of the scale with the judge's
    lowest and highest score. The size of a pseudo-document grows with the square root of the mean
    number of labelled outputs per document, because labels within a document are similar. A
    pseudo-document is smaller if labels are seldom at the ends of the scale: its size is
    proportional to the variance of the labels, divided by the largest variance that is possible
    with their mean.
    """
    low, high = bounds
    labels_and_bounds, weights = np.append(labels, bounds), np.append(weights, [1, 1])
    mean = np.average(labels_and_bounds, weights=weights)
    largest_variance = (mean - low) * (high - mean)
    variance = np.average((labels_and_bounds - mean) ** 2, weights=weights)
    relative_variance = variance / largest_variance if largest_variance > 0 else 0.0
    pseudo_size = (
        PSEUDO_DOCUMENTS
        / 4
        * float(np.sqrt(sums[0].sum() / (sums[0] > 0).sum()) * relative_variance)
    )
    label_score_pairs = (
        (label, score) for label in bounds for score in (scores.min(), scores.max())
    )
    columns = [(1, label, score, 1, score) for label, score in label_score_pairs]
    return pseudo_size * np.array(columns, dtype=float).T
