"""The mean rating that people would give, estimated from few human labels and many judgements.

This is prediction-powered inference (arXiv:2301.09633) with power tuning (arXiv:2311.01453): the
mean of the judge's scores, corrected by its error on the labelled outputs. The interval is valid
however bad the judge is, and a good judge makes it narrow. Documents may be drawn with unequal
chances (active inference, arXiv:2403.03208): labels are then weighted by one over the chance.

Sixteen labels that all pass do not show that all outputs do. So the interval adds three documents,
a quarter of them for each end of the labels' scale with the judge's lowest and with its highest
score, as Agresti and Min (2005) add to the four cells of paired shares. The interval for the given
outputs themselves has a finite population correction.

The code is our own, because ppi-python takes outputs as independent, and here they share documents.
The tests compare both on independent outputs.
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

# How many documents are added for the interval.
ADDED = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An estimate of the mean human rating, with its counts.

    `interval` is for the mean of outputs like these, `given_interval` for that of the given ones.
    `labels_only` is the mean of the labels; `judge_only` is the mean of the judge's scores, without
    any guarantee. `weight` is the judge's weight, in [0, 1]. `label_sd` and `agreement`, the
    correlation in [0, 1] of labels and scores that narrows the interval, are for `labels_needed`.
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
        score: (outputs,) the judge's scores, NaN where it failed; such outputs are left out.
        document: (outputs,) document labels. By default each output is its own document.
        weight: (outputs,) one over the chance with which the output's document was drawn.
        bounds: The ends of the labels' scale. Without them, intervals of skewed labels are too
            narrow.
        n_comparisons: How many estimates' intervals are to hold together.

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
    own = weights[has_label][np.unique(codes[has_label], return_index=True)[1]]
    if own.size < 2:
        raise ValueError(
            f"{int(has_label.sum())} labels on {own.size} documents: label "
            "outputs of at least two documents (twenty for a useful interval)"
        )
    total, n, n_effective = labels.size, int(has_label.sum()), effective_number(own)
    weights, labels = np.where(has_label, weights, 0), np.nan_to_num(labels)
    weights *= n / weights.sum()
    share = n / total
    # Sums over each document: weight, label and score of labelled outputs; number and score of all.
    columns = [weights, weights * labels, weights * scores, np.ones(total), scores]
    sums: Matrix = np.stack([np.bincount(codes, column) for column in columns])
    labels_only, correction = _means(sums)
    added = _added_documents(sums, labels, weights, scores, bounds) if bounds else np.empty((5, 0))
    # The chance of each document to be labelled, by its weight, and to be left out.
    chance = share * np.bincount(codes, has_label) / np.where(sums[0] > 0, sums[0], 1)
    left_out = np.append(1 - np.minimum(chance, 1), np.full(added.shape[1], 1 - share))
    sums = np.hstack([sums, added])
    centre, shift = _means(sums)
    labels_error, of_all, of_labelled = _errors(sums)
    errors = labels_error, of_all - of_labelled
    power = float((errors[1] ** 2).sum())
    # With this weight the correction is the judge's mean elsewhere less its mean over the labels.
    most = total / max(total - n, 1)
    of_judge = float(np.clip(-(errors[0] @ errors[1]) / power, 0, most)) if power > 0 else 0.0
    freedom = n_effective + added.shape[1] - 1
    label_error = float(np.sqrt((errors[0] ** 2).sum()))
    error = float(np.sqrt(((errors[0] + of_judge * errors[1]) ** 2).sum()))
    # Tuning the weight costs one degree of freedom, as fitting a slope does.
    freedom_left = freedom - (1 if of_judge > 0 else 0)
    wider = np.sqrt(freedom / max(freedom_left, 1))
    of_given = (left_out * (labels_error - of_judge * of_labelled) ** 2).sum()
    # The r for which the judge reduces the variance by r^2 (total - n) / total.
    agreement = 0.0
    if label_error > 0 and n < total:
        reduction = (1 - (error / label_error) ** 2) * total / (total - n)
        agreement = float(np.sqrt(np.clip(reduction, 0, 1)))
    low, high = bounds or (-np.inf, np.inf)
    value = float(np.clip(labels_only + of_judge * correction, low, high))
    centre_of_all = centre + of_judge * shift
    centre_of_given = value + (1 - share) * (centre_of_all - value)

    def interval(value: float, centre: float, error: float, freedom: float) -> Interval | None:
        if freedom < 1:
            return None
        reach = student_quantile(freedom, n_comparisons) * error
        # The interval always contains the value.
        ends = np.clip([min(centre - reach, value), max(centre + reach, value)], low, high)
        return Interval(float(ends[0]), float(ends[1]))

    return Estimate(
        value=value,
        interval=interval(value, centre_of_all, wider * error, freedom_left),
        given_interval=interval(value, centre_of_given, wider * of_given**0.5, freedom_left),
        labels_only=IntervalEstimate(
            labels_only, interval(labels_only, centre, label_error, freedom)
        ),
        judge_only=float(scores.mean()),
        weight=of_judge / most,
        n_labels=n,
        n_judgements=total - n,
        n_documents=np.unique(codes).size,
        n_failed=int((~valid).sum()),
        label_sd=label_error * np.sqrt(n),
        agreement=agreement,
    )


@dataclass(frozen=True, slots=True)
class SystemDifference:
    """One system's mean less another's; a label of the `estimate` is a document's difference.

    The estimate's interval is for two systems alone, `together_interval` for every two at once.
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
    """Estimate every system's mean less that of each later one in `names`.

    The judge's difference on a document corrects people's, so that what is hard about the document
    drops out. The mean counts if a system has several outputs. Two systems have no difference if
    fewer than 15 documents have labels of both. The vectors are as for `mean_score`.
    """
    first_rows, codes = np.unique(np.asarray(document), return_index=True, return_inverse=True)[1:]
    by_system = np.full((2, len(names), first_rows.size), np.nan)
    for place, name in enumerate(names):
        for side, values in zip(by_system, (label, score), strict=True):
            rows = (np.asarray(system) == name) & ~np.isnan(values + score)
            counts = np.bincount(codes[rows], minlength=first_rows.size)
            sums = np.bincount(codes[rows], values[rows], first_rows.size)
            np.divide(sums, counts, out=side[place], where=counts > 0)
    reach, n_pairs = bounds[1] - bounds[0], math.comb(len(names), 2)
    weights, differences = weight[first_rows], []
    for a, b in combinations(range(len(names)), 2):
        human, judge = by_system[:, a] - by_system[:, b]
        both = ~np.isnan(judge)
        if np.isfinite(human[both]).sum() < FEW_DOCUMENTS:
            continue
        mean = partial(mean_score, human[both], judge[both], weight=weights[both])
        alone, together = (mean(bounds=(-reach, reach), n_comparisons=n) for n in (1, n_pairs))
        differences.append(SystemDifference(names[a], names[b], alone, together.interval))
    return differences


def labels_needed(estimate: Estimate, width: float) -> int | None:
    """How many labels in all give an interval of this width; None if no number of them does.

    With r the agreement, n labels of N outputs have a variance of sd^2 / n * (1 - r^2 (N - n) / N).
    """
    from scipy.special import stdtrit

    total = estimate.n_labels + estimate.n_judgements
    n = np.arange(2, total + 1)
    share = 1 - estimate.agreement**2 * (total - n) / total
    quantiles = stdtrit(np.maximum(n - 2, 1), 0.975)
    sufficient = n[2 * quantiles * estimate.label_sd * np.sqrt(share / n) <= width]
    return int(sufficient[0]) if sufficient.size and estimate.interval else None


def _means(sums: Matrix) -> tuple[float, float]:
    """The mean label, and its correction by the judge."""
    n, labels, scores, total, of_all = sums.sum(axis=1)
    return float(labels / n), float(of_all / total - scores / n)


def _errors(sums: Matrix) -> Matrix:
    """(3, documents): each document's part of the errors of three means.

    They are of the labels, of all scores, and of the scores of labelled outputs. A factor makes the
    sum of their squares unbiased.
    """
    n, labels, scores, total, of_all = sums

    def parts(counts: Vector, values: Vector) -> Vector:
        number = max(int((counts > 0).sum()), 2)
        mean = values.sum() / counts.sum()
        factor = np.sqrt(number / (number - 1))
        added: Vector = factor * (values - mean * counts) / counts.sum()
        return added

    return np.vstack([parts(n, labels), parts(total, of_all), parts(n, scores)])


def _added_documents(
    sums: Matrix, labels: Vector, weights: Vector, scores: Vector, bounds: tuple[float, float]
) -> Matrix:
    """Sums of the added documents, which combine each end of the scale with each extreme score.

    Labels of a document are similar, so that it counts as the root of their number. It counts less
    if labels are not at the ends of the scale: by their variance over the largest variance that
    their mean allows.
    """
    low, high = bounds
    together, weights = np.append(labels, bounds), np.append(weights, [1, 1])
    mean = np.average(together, weights=weights)
    largest = (mean - low) * (high - mean)
    variance = np.average((together - mean) ** 2, weights=weights)
    share = variance / largest if largest > 0 else 0.0
    size = ADDED / 4 * float(np.sqrt(sums[0].sum() / (sums[0] > 0).sum()) * share)
    corners = ((label, score) for label in bounds for score in (scores.min(), scores.max()))
    added = [(1, label, score, 1, score) for label, score in corners]
    return size * np.array(added, dtype=float).T
