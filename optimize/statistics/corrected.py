"""What people would say on average, from few human labels and many judgements.

Prediction-powered inference (arXiv:2301.09633, arXiv:2311.01453): the mean of the judge's scores
corrected by how far the judge is off where somebody labelled. The interval is valid however bad the
judge is; a good judge makes it narrow. Weighting the judge's part by what it is worth (the power
tuning of the second paper) means it is hardly ever wider than labels alone.

Documents may be drawn with unequal chances (active inference, arXiv:2403.03208). Labels then weigh
one over their chance, and the judge's mean is over all outputs, since those without a label do not
stand for all. With equal chances it is the same but for the order of 1 / n.

Sixteen labels that all pass do not show that all outputs do, and twenty that the judge got right
not that it errs nowhere. So three documents are added for the interval, a quarter of them at each
end of the labels' scale with the judge's lowest score and with its highest, as Agresti and Min
(2005) add to the four cells of paired shares.

Own code, because ppi-python takes outputs as independent (here they share documents); where they
are independent the tests hold both against each other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import (
    Interval,
    IntervalEstimate,
    Matrix,
    Vector,
    effective_number,
    student_quantile,
)

# So many documents are added.
ADDED = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean by human standards, and what it was computed from.

    `labels_only` is what the labels alone give, `judge_only` what the judge alone would claim,
    without any guarantee. `weight` is the judge's, in [0, 1]; `label_sd` and `agreement` (the
    correlation of label and score that the estimate profits from) serve `labels_needed`.
    """

    value: float
    interval: Interval | None
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
) -> Estimate:
    """The mean human rating of outputs like these; `label` is NaN where nobody labelled.

    `score` is NaN where the judgement failed: such outputs are left out and counted. Labelled
    outputs must be a random part, or have the `weight` that undoes the chance with which their
    document was drawn (those without a label have none that counts). `bounds` are the ends of the
    labels' scale; without them skewed labels have intervals that are too narrow. Raises ValueError
    with fewer than two labelled documents.
    """
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    weights = np.ones(labels.size) if weight is None else np.asarray(weight, dtype=float)
    judged = ~np.isnan(scores)
    labels, scores, weights = labels[judged], scores[judged], weights[judged]
    codes = np.unique(documents[judged], return_inverse=True)[1]
    labelled = ~np.isnan(labels)
    own = weights[labelled][np.unique(codes[labelled], return_index=True)[1]]
    if own.size < 2:
        raise ValueError(
            f"{int(labelled.sum())} labels on {own.size} documents: label "
            "outputs for two documents or more (twenty, for an interval of use)"
        )
    total, n, n_effective = labels.size, int(labelled.sum()), effective_number(own)
    weights, labels = np.where(labelled, weights, 0), np.nan_to_num(labels)
    weights *= n / weights.sum()
    # What is summed over outputs in each document: weight, label and score of those with a label,
    # then one and the score of all.
    columns = [weights, weights * labels, weights * scores, np.ones(total), scores]
    sums: Matrix = np.stack([np.bincount(codes, column) for column in columns])
    labels_only, correction = _means(sums)
    added = _added_documents(sums, labels, weights, scores, bounds) if bounds else np.empty((5, 0))
    sums = np.hstack([sums, added])
    centre, shift = _means(sums)
    errors = _errors(sums)
    power = float((errors[1] ** 2).sum())
    # Times this the correction is the judge's mean elsewhere less its mean over the labels.
    most = total / max(total - n, 1)
    of_judge = float(np.clip(-(errors[0] @ errors[1]) / power, 0, most)) if power > 0 else 0.0
    freedom = n_effective + added.shape[1] - 1
    label_error = float(np.sqrt((errors[0] ** 2).sum()))
    error = float(np.sqrt(((errors[0] + of_judge * errors[1]) ** 2).sum()))
    # Tuning the weight costs one degree of freedom, as fitting a slope does.
    freedom_left = freedom - (1 if of_judge > 0 else 0)
    wider = error * np.sqrt(freedom / max(freedom_left, 1))
    # The r for which 1 - r^2 (total - n) / total is the variance left.
    agreement = 0.0
    if label_error > 0 and n < total:
        saved = (1 - (error / label_error) ** 2) * total / (total - n)
        agreement = float(np.sqrt(np.clip(saved, 0, 1)))
    low, high = bounds or (-np.inf, np.inf)
    value = float(np.clip(labels_only + of_judge * correction, low, high))
    return Estimate(
        value=value,
        interval=_interval(value, centre + of_judge * shift, wider, freedom_left, low, high),
        labels_only=IntervalEstimate(
            labels_only, _interval(labels_only, centre, label_error, freedom, low, high)
        ),
        judge_only=float(scores.mean()),
        weight=of_judge / most,
        n_labels=n,
        n_judgements=total - n,
        n_documents=np.unique(codes).size,
        n_failed=int((~judged).sum()),
        label_sd=label_error * np.sqrt(n),
        agreement=agreement,
    )


def labels_needed(estimate: Estimate, width: float) -> int | None:
    """How many labels in all an interval of this width takes; None if all outputs are too few.

    Labelling an output takes it from the merely judged ones: with r the agreement, n labels of N
    outputs leave a variance of sd^2 / n * (1 - r^2 (N - n) / N).
    """
    from scipy.special import stdtrit

    total = estimate.n_labels + estimate.n_judgements
    n = np.arange(2, total + 1)
    left = 1 - estimate.agreement**2 * (total - n) / total
    quantiles = stdtrit(np.maximum(n - 2, 1), 0.975)
    sufficient = n[2 * quantiles * estimate.label_sd * np.sqrt(left / n) <= width]
    return int(sufficient[0]) if sufficient.size and estimate.interval else None


def _means(sums: Matrix) -> tuple[float, float]:
    """The mean label, and the judge's correction of it."""
    n, labels, scores, total, of_all = sums.sum(axis=1)
    return float(labels / n), float(of_all / total - scores / n)


def _errors(sums: Matrix) -> Matrix:
    """(2, documents): what each document adds to the errors of the mean label and the correction.

    The factor makes their squares unbiased.
    """
    n, labels, scores, total, of_all = sums

    def parts(counts: Vector, values: Vector) -> Vector:
        number = max(int((counts > 0).sum()), 2)
        mean = values.sum() / counts.sum()
        factor = np.sqrt(number / (number - 1))
        added: Vector = factor * (values - mean * counts) / counts.sum()
        return added

    return np.vstack([parts(n, labels), parts(total, of_all) - parts(n, scores)])


def _added_documents(
    sums: Matrix, labels: Vector, weights: Vector, scores: Vector, bounds: tuple[float, float]
) -> Matrix:
    """The documents in which either end of the scale meets the judge's lowest and highest score.

    Labels of a document are partly alike, so that it counts as the root of their number. It counts
    less the further the labels are from being all at the ends, where few say little of the spread:
    by their variance over the largest that their mean allows.
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


def _interval(
    value: float, centre: float, error: float, freedom: float, low: float, high: float
) -> Interval | None:
    """Around the centre, within the scale, with the value always in it."""
    if freedom < 1:
        return None
    reach = student_quantile(freedom) * error
    ends = np.clip([min(centre - reach, value), max(centre + reach, value)], low, high)
    return Interval(float(ends[0]), float(ends[1]))
