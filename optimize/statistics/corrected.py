"""What people would say on average, from few human labels and many judgements.

Prediction-powered inference (arXiv:2301.09633, arXiv:2311.01453): the mean of the judge's scores
where nobody labelled, corrected by how far the judge is off where somebody did. The interval is
valid however bad the judge is; a good judge makes it narrow. Weighting the judge's part by what it
is worth (the power tuning of the second paper) means it is hardly ever wider than labels alone.

Sixteen labels that all pass do not show that all outputs do. So two documents are added for the
interval, one at either end of the scale, as Agresti and Caffo (2000) do for shares.

Own code, because ppi-python takes outputs as independent (here they share documents); where they
are independent the tests hold both against each other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Interval, Matrix, Vector, student_quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean by human standards, and what it was computed from.

    `labels_only` is what the labels alone give, `judge_only` what the judge alone would claim,
    without any guarantee. `weight` is the judge's, in [0, 1]; `label_sd` and `agreement` (the
    correlation of label and score that the estimate profits from) serve `labels_needed`.
    """

    value: float
    interval: Interval | None
    labels_only: float
    labels_only_interval: Interval | None
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
    bounds: tuple[float, float] | None = None,
) -> Estimate:
    """The mean human rating of outputs like these; `label` is NaN where nobody labelled.

    `score` is NaN where the judgement failed: such outputs are left out and counted. Labelled
    outputs must be a random part. `bounds` are the ends of the labels' scale; without them skewed
    labels have intervals that are too narrow. Raises ValueError with fewer than two labelled
    documents.
    """
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    if labels.ndim != 1 or labels.shape != scores.shape or labels.shape != documents.shape:
        raise ValueError(
            f"labels, scores and documents must be vectors of one length; their shapes are "
            f"{labels.shape}, {scores.shape} and {documents.shape}"
        )
    judged = ~np.isnan(scores)
    labels, scores = labels[judged], scores[judged]
    codes = np.unique(documents[judged], return_inverse=True)[1]
    labelled = ~np.isnan(labels)
    n_labelled = np.unique(codes[labelled]).size
    if n_labelled < 2:
        raise ValueError(
            f"{int(labelled.sum())} labels on {n_labelled} documents: label "
            "outputs for two documents or more (twenty, for an interval of use)"
        )
    total, n = labels.size, int(labelled.sum())
    # What is summed over outputs in each document: label and score where labelled, score elsewhere.
    columns = np.stack(
        [
            labelled,
            np.where(labelled, labels, 0),
            np.where(labelled, scores, 0),
            ~labelled,
            np.where(labelled, 0, scores),
        ]
    )
    sums: Matrix = np.stack([np.bincount(codes, c) for c in columns.astype(float)]).astype(float)
    labels_only, correction = _means(sums)
    added = _added_documents(sums, labels[labelled], bounds) if bounds else np.empty((5, 0))
    sums = np.hstack([sums, added])
    centre, _ = _means(sums)
    errors = _errors(sums)
    power = float((errors[1] ** 2).sum())
    weight = float(np.clip(-(errors[0] @ errors[1]) / power, 0, 1)) if power > 0 else 0.0
    freedom = n_labelled + added.shape[1] - 1
    label_error = float(np.sqrt((errors[0] ** 2).sum()))
    error = float(np.sqrt(((errors[0] + weight * errors[1]) ** 2).sum()))
    # Tuning the weight costs one degree of freedom, as fitting a slope does.
    freedom_left = freedom - (1 if weight > 0 else 0)
    wider = error * np.sqrt(freedom / max(freedom_left, 1))
    value = labels_only + weight * correction
    return Estimate(
        value=value,
        interval=_interval(value, centre + weight * correction, wider, freedom_left, bounds),
        labels_only=labels_only,
        labels_only_interval=_interval(labels_only, centre, label_error, freedom, bounds),
        judge_only=float(scores.mean()),
        weight=weight,
        n_labels=n,
        n_judgements=total - n,
        n_documents=np.unique(codes).size,
        n_failed=int((~judged).sum()),
        label_sd=label_error * np.sqrt(n),
        agreement=_agreement(label_error, error, n, total),
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
    n, labels, scores, n_others, others = sums.sum(axis=1)
    correction = others / n_others - scores / n if n_others else 0.0
    return float(labels / n), float(correction)


def _errors(sums: Matrix) -> Matrix:
    """(2, documents): what each document adds to the errors of the mean label and the correction.

    The factor makes their squares unbiased.
    """
    n, labels, scores, n_others, others = sums

    def parts(counts: Vector, values: Vector) -> Vector:
        number = max(int((counts > 0).sum()), 2)
        mean = values.sum() / max(counts.sum(), 1)
        added: Vector = (values - mean * counts) / max(counts.sum(), 1)
        return added * np.sqrt(number / (number - 1))

    correction = parts(n_others, others) - parts(n, scores) if n_others.any() else np.zeros(n.size)
    errors: Matrix = np.stack([parts(n, labels), correction])
    return errors


def _added_documents(sums: Matrix, labels: Vector, bounds: tuple[float, float]) -> Matrix:
    """One document at either end of the scale, of whose scores nothing is known.

    Labels of a document are partly alike, so that it counts as the root of their number. It counts
    less the further the labels are from being all at the ends, where few say little of the spread:
    by their variance over the largest that their mean allows.
    """
    low, high = bounds
    together = np.concatenate([labels, bounds])
    mean = together.mean()
    largest = (mean - low) * (high - mean)
    share = together.var() / largest if largest > 0 else 0.0
    size = float(np.sqrt(labels.size / (sums[0] > 0).sum()) * share)
    score = sums[2].sum() / labels.size
    document = np.array([size, 0.0, score * size, 0.0, 0.0])
    added = np.stack([document, document], axis=1)
    added[1] = [low * size, high * size]
    return added


def _interval(
    value: float, centre: float, error: float, freedom: int, bounds: tuple[float, float] | None
) -> Interval | None:
    """Around the centre, within the scale, with the value always in it."""
    if freedom < 1:
        return None
    reach = student_quantile(freedom) * error
    low, high = min(centre - reach, value), max(centre + reach, value)
    if bounds:
        low, high = max(low, min(bounds[0], value)), min(high, max(bounds[1], value))
    return Interval(float(low), float(high))


def _agreement(label_error: float, error: float, n: int, total: int) -> float:
    """The r for which 1 - r^2 (total - n) / total is the variance left."""
    if label_error == 0 or n == total:
        return 0.0
    saved = (1 - (error / label_error) ** 2) * total / (total - n)
    return float(np.sqrt(np.clip(saved, 0, 1)))
