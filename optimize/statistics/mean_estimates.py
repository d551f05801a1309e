"""Estimate the mean human rating of all outputs from few human labels and many judgements.

The method is prediction-powered inference (arXiv:2301.09633) with power tuning (arXiv:2311.01453):
the mean of the judge's scores on all outputs, corrected by its mean error on the labelled outputs.
The interval is valid however bad the judge is, and a good judge makes it narrow. If documents are
drawn for labelling with unequal probabilities (active inference, arXiv:2403.03208), each label has
the weight 1 / probability. The package ppi-python treats outputs as independent, but here several
outputs share a document.

If all of 16 labelled outputs pass, this does not show that all outputs pass. So four
pseudo-documents are added before the interval is computed, as Agresti and Min (2005) do for paired
proportions. Each has the lowest or the highest label of the scale, and the judge's lowest or
highest score. Together they count as three documents, times the relative variance of the labels,
times the square root of the number of labelled outputs per document, because labels within a
document are similar. Systems with equal labels on a few documents may still differ. So for the
difference between two systems, pseudo-documents always count as three documents; their labels are
differences of the usual size in either direction.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    Interval,
    IntervalEstimate,
    Vector,
    effective_sample_size,
    student_quantile,
)

# The pseudo-documents together count as this many documents if labels vary as much as they can.
N_PSEUDO_DOCUMENTS = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeanEstimate:
    """An estimate of the mean human rating, with its counts.

    The 95 % `interval` is for the mean over the population that the outputs are a sample of, and
    `given_interval` for the mean over exactly the given outputs. `labels_only` is the mean of the
    labels without the judge; `judge_only`, the mean of the judge's scores, may be biased. `weight`
    is the weight of the judge's scores in `value`, in [0, 1]. `n_labels` outputs have a label and a
    score, and `n_judgements` a score and no label. `label_sd` is the standard deviation of a label,
    with the design effect of documents. `agreement` is the correlation of labels with the
    judge's scores, in [0, 1]. If n of N outputs have labels, the scores make the variance of the
    mean smaller by the share agreement^2 (N - n) / N.
    """

    value: float
    interval: Interval
    given_interval: Interval
    labels_only: IntervalEstimate
    judge_only: float
    weight: float
    n_labels: int
    n_judgements: int
    n_documents: int
    n_failed: int
    label_sd: float
    agreement: float


def estimate_mean(
    label: ArrayLike,
    score: ArrayLike,
    document: ArrayLike | None = None,
    *,
    weight: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    pseudo_labels: tuple[float, float] | None = None,
    n_comparisons: int = 1,
) -> MeanEstimate:
    """Estimate the mean human rating of the population that the outputs are a sample of.

    The vectors have shape (outputs,). Outputs with a score of NaN are left out. The label of an
    unlabelled output is NaN. Labelled outputs must be a random sample of all outputs, or have a
    `weight`: 1 / the probability that the output's document was drawn for labelling. `bounds` are
    the lowest and the highest rating; without `bounds`, intervals for skewed labels are too narrow.
    `pseudo_labels` are the labels of the pseudo-documents, if these are not the bounds. The
    intervals of `n_comparisons` estimates hold simultaneously.

    Raises ValueError if fewer than two documents have a label.
    """
    sums, pseudo_sums = _document_sums(label, score, document, weight, bounds, pseudo_labels)
    all_sums = _DocumentSums(*np.hstack([sums, pseudo_sums]))
    n_labels, n_outputs = int(sums.n_labels.sum()), int(sums.n_outputs.sum())
    labelled_share, scale = n_labels / n_outputs, Interval(*(bounds or (-np.inf, np.inf)))
    means, _ = _means_and_errors(sums)
    centres, errors = _means_and_errors(all_sums)
    # The largest weight makes the correction the mean score of unlabelled minus labelled outputs.
    largest_weight = n_outputs / max(n_outputs - n_labels, 1)
    judge_weight = _tune_weight(errors, largest_weight)
    label_se = float(np.linalg.norm(errors.label))
    estimate_se = float(np.linalg.norm(errors.estimate(judge_weight)))
    omission_errors = errors.label - judge_weight * errors.labelled_judge
    given_se = _given_error(all_sums, omission_errors, labelled_share)
    label_mean, centre = float(means.label), float(centres.estimate(judge_weight))
    value = float(np.clip(means.estimate(judge_weight), scale.low, scale.high))
    # A finite population correction, because the ratings of the labelled outputs are known.
    given_centre = value + (1 - labelled_share) * (centre - value)
    is_labelled = sums.n_labels > 0
    document_weights = sums.weights[is_labelled] / sums.n_labels[is_labelled]
    n_effective = effective_sample_size(document_weights) + len(pseudo_sums.n_labels)
    label_degrees_of_freedom = max(n_effective - 1, 1)
    # Tuning the judge's weight costs one degree of freedom, like fitting a slope.
    degrees_of_freedom = max(label_degrees_of_freedom - (judge_weight > 0), 1)
    quantile = student_quantile(degrees_of_freedom, n_comparisons)
    quantile *= math.sqrt(label_degrees_of_freedom / degrees_of_freedom)
    label_half_width = student_quantile(label_degrees_of_freedom, n_comparisons) * label_se
    label_interval = _interval(label_mean, float(centres.label), label_half_width, scale)
    agreement = 0.0
    if label_se > 0 and n_labels < n_outputs:
        variance_reduction = (1 - (estimate_se / label_se) ** 2) * largest_weight
        agreement = float(np.sqrt(np.clip(variance_reduction, 0, 1)))
    return MeanEstimate(
        value=value,
        interval=_interval(value, centre, quantile * estimate_se, scale),
        given_interval=_interval(value, given_centre, quantile * given_se, scale),
        labels_only=IntervalEstimate(label_mean, label_interval),
        judge_only=float(means.judge),
        weight=judge_weight / largest_weight,
        n_labels=n_labels,
        n_judgements=n_outputs - n_labels,
        n_documents=sums.n_labels.size,
        n_failed=np.size(score) - n_outputs,
        label_sd=label_se * np.sqrt(n_labels),
        agreement=agreement,
    )


class _DocumentSums(NamedTuple):
    """Six sums for each document: four over its labelled outputs, two over all of its outputs."""

    n_labels: Vector
    weights: Vector
    labels: Vector
    scores: Vector
    n_outputs: Vector
    all_scores: Vector


def _document_sums(
    label: ArrayLike,
    score: ArrayLike,
    document: ArrayLike | None,
    weight: ArrayLike | None,
    bounds: tuple[float, float] | None,
    pseudo_labels: tuple[float, float] | None,
) -> tuple[_DocumentSums, _DocumentSums]:
    """Return the sums of documents, and of pseudo-documents, of which there are none or four."""
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    weights = np.ones(labels.size) if weight is None else np.asarray(weight, dtype=float)
    has_score = ~np.isnan(scores)
    labels, scores, weights = labels[has_score], scores[has_score], weights[has_score]
    document_codes = np.unique(documents[has_score], return_inverse=True)[1]
    has_label = ~np.isnan(labels)
    n_labels, n_documents = int(has_label.sum()), np.unique(document_codes[has_label]).size
    if n_documents < 2:
        raise ValueError(
            f"{n_labels} labels on {n_documents} documents: label outputs of at least two "
            "documents (twenty for a useful interval)"
        )
    labels, weights = np.nan_to_num(labels), np.where(has_label, weights, 0)
    weights = weights * (n_labels / weights.sum())
    columns = has_label, weights, weights * labels, weights * scores, np.ones_like(scores), scores
    sums = (np.bincount(document_codes, column).astype(float) for column in columns)
    n_pseudo = N_PSEUDO_DOCUMENTS
    if bounds and not pseudo_labels:
        n_pseudo *= np.sqrt(n_labels / n_documents) * _relative_variance(labels, weights, bounds)
    pseudo_documents = [
        (1, 1, pseudo_label, extreme_score, 1, extreme_score)
        for pseudo_label in pseudo_labels or bounds or ()
        for extreme_score in (scores.min(), scores.max())
    ]
    pseudo_sums = n_pseudo / 4 * np.reshape(pseudo_documents, (-1, 6)).T
    return _DocumentSums(*sums), _DocumentSums(*pseudo_sums)


def _relative_variance(labels: Vector, weights: Vector, bounds: tuple[float, float]) -> float:
    """Return the labels' variance as a share of the largest variance possible with their mean."""
    lowest, highest = bounds
    # Add a label at each end of the scale: a few equal labels do not show that all are equal.
    labels, weights = np.append(labels, bounds), np.append(weights, [1, 1])
    mean = np.average(labels, weights=weights)
    variance = np.average((labels - mean) ** 2, weights=weights)
    return float(variance / ((mean - lowest) * (highest - mean)))


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """The mean human rating of one system minus the mean human rating of another system.

    In `estimate` each document counts as one output, whose label and score are differences between
    the two systems. The interval of `estimate` is for this pair of systems alone; the simultaneous
    intervals hold for all pairs together.
    """

    system: str
    subtracted_system: str = field(metadata={"json": "less"})
    estimate: MeanEstimate
    simultaneous_interval: Interval = field(metadata={"json": "together_interval"})


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
    if fewer than 15 documents have a label for both. The vectors have shape (outputs,).
    """
    import pandas as pd

    if len(names) < 2:
        return []
    columns = {"document": document, "system": system, "label": label, "score": score}
    outputs = pd.DataFrame({**columns, "weight": weight})
    outputs = outputs[outputs["system"].isin(names) & outputs["score"].notna()]
    weights = outputs.groupby("document")["weight"].first().to_numpy()
    means = outputs.pivot_table(["label", "score"], "document", "system", dropna=False)
    pairs = [*itertools.combinations(names, 2)]
    label_differences, score_differences = (
        np.array([means[column][first] - means[column][second] for first, second in pairs])
        for column in ("label", "score")
    )
    scale_width = bounds[1] - bounds[0]
    squares = label_differences[np.abs(label_differences) > 0] ** 2
    usual_difference = float(np.sqrt(squares.mean())) if squares.size else scale_width
    estimate_difference = partial(
        estimate_mean,
        weight=weights,
        bounds=(-scale_width, scale_width),
        pseudo_labels=(-usual_difference, usual_difference),
    )
    differences = []
    for pair, labels, scores in zip(pairs, label_differences, score_differences, strict=True):
        if np.isfinite(labels).sum() >= MIN_DOCUMENTS_FOR_INTERVAL:
            # Documents without outputs of both systems do not count as failures.
            pair_estimate = replace(estimate_difference(labels, scores), n_failed=0)
            joint_estimate = estimate_difference(labels, scores, n_comparisons=len(pairs))
            differences.append(SystemDifference(*pair, pair_estimate, joint_estimate.interval))
    return differences


def n_labels_for_width(estimate: MeanEstimate, width: float) -> int | None:
    """Return the smallest total number of labels for which the interval has at most this width.

    The result is None if even labels on all outputs are too few. With n labels on N outputs, the
    variance of the estimate is label_sd^2 / n * (1 - agreement^2 * (N - n) / N).
    """
    from scipy.special import stdtrit

    n_outputs = estimate.n_labels + estimate.n_judgements
    n_labels = np.arange(2, n_outputs + 1)
    variance_factor = 1 - estimate.agreement**2 * (n_outputs - n_labels) / n_outputs
    quantiles = stdtrit(np.maximum(n_labels - 2, 1), 0.975)
    widths = 2 * quantiles * estimate.label_sd * np.sqrt(variance_factor / n_labels)
    sufficient_n_labels = n_labels[widths <= width]
    return int(sufficient_n_labels[0]) if sufficient_n_labels.size else None


class _Terms(NamedTuple):
    """Three means over outputs, of shape (), or the documents' parts in their errors."""

    label: Vector
    judge: Vector
    labelled_judge: Vector

    def estimate(self, judge_weight: float) -> Vector:
        return self.label + judge_weight * (self.judge - self.labelled_judge)


def _means_and_errors(sums: _DocumentSums) -> tuple[_Terms, _Terms]:
    """Return the means, and errors whose squares sum to unbiased estimates of their variances."""
    weight_sums = np.array([sums.weights, sums.n_outputs, sums.weights])
    value_sums = np.array([sums.labels, sums.all_scores, sums.scores])
    totals = weight_sums.sum(axis=1, keepdims=True)
    means = value_sums.sum(axis=1, keepdims=True) / totals
    n_documents = np.maximum((weight_sums > 0).sum(axis=1, keepdims=True), 2)
    errors = np.sqrt(n_documents / (n_documents - 1)) * (value_sums - means * weight_sums) / totals
    return _Terms(*means[:, 0]), _Terms(*errors)


def _tune_weight(errors: _Terms, largest_weight: float) -> float:
    """Return the weight of the judge's scores that minimises the variance of the estimate."""
    correction_errors = errors.judge - errors.labelled_judge
    correction_variance = float((correction_errors**2).sum())
    best_weight = -float(errors.label @ correction_errors) / (correction_variance or 1.0)
    return min(max(best_weight, 0.0), largest_weight)


def _given_error(sums: _DocumentSums, omission_errors: Vector, labelled_share: float) -> float:
    """Return the error of the mean over the given outputs, due to documents that were not drawn."""
    # Each document's probability of being drawn for labelling follows from its weight.
    label_weights = np.where(sums.weights, sums.weights, 1)
    probabilities = np.minimum(labelled_share * sums.n_labels / label_weights, 1)
    return float(np.linalg.norm(np.sqrt(1 - probabilities) * omission_errors))


def _interval(value: float, centre: float, half_width: float, scale: Interval) -> Interval:
    """Return an interval around the centre that includes the value, within the scale."""
    ends = min(centre - half_width, value), max(centre + half_width, value)
    return Interval(*np.clip(ends, scale.low, scale.high).tolist())
