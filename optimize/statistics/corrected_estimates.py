"""What people would say on average, from few human labels and many judgements.

Prediction-powered inference (arXiv:2301.09633, arXiv:2311.01453): the mean of the judge's scores
where nobody labelled, corrected by how far the judge is off where somebody did. The interval is
valid however bad the judge is; a good judge makes it narrow. Weighting the judge's part by what it
is worth (the power tuning of the second paper) means it is hardly ever wider than labels alone.

Own code, because ppi-python takes outputs as independent (here they share documents) and imports
numba, statsmodels and scikit-learn; where outputs are independent the tests hold both against each
other.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.bootstrap import CONFIDENCE, Interval, student_quantile
from optimize.statistics.coefficients import Matrix, Vector
from optimize.statistics.levels import Codes, Mask


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


@dataclass(frozen=True, slots=True)
class _Outputs:
    """Outputs that the judge scored; `labels` is NaN where nobody labelled."""

    labels: Vector
    scores: Vector
    documents: Codes
    n_failed: int


def mean_score(
    label: ArrayLike,
    score: ArrayLike,
    document: ArrayLike | None = None,
    *,
    weight: float | None = None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """The mean human rating of outputs like these; `label` is NaN where nobody labelled.

    `score` is NaN where the judgement failed: such outputs are left out and counted. Labelled
    outputs must be a random part. Raises ValueError with fewer than two labelled documents.
    """
    return _estimate(_read(label, score, document), weight, confidence)


def labels_needed(estimate: Estimate, width: float) -> int | None:
    """How many labels in all an interval of this width takes; None if all outputs are too few.

    Labelling an output takes it from the merely judged ones: with r the agreement, n labels of N
    outputs leave a variance of sd^2 / n * (1 - r^2 (N - n) / N).
    """
    if estimate.interval is None:
        return None
    total = estimate.n_labels + estimate.n_judgements
    n = np.arange(2, total + 1)
    left = 1 - estimate.agreement**2 * (total - n) / total
    confidence = estimate.interval.confidence
    quantiles = np.array([student_quantile(max(int(k) - 2, 1), confidence) for k in n])
    widths = 2 * quantiles * estimate.label_sd * np.sqrt(left / n)
    sufficient = n[widths <= width]
    return int(sufficient[0]) if sufficient.size else None


def _read(label: ArrayLike, score: ArrayLike, document: ArrayLike | None) -> _Outputs:
    """The checked vectors without failed outputs, which are counted; documents as codes from 0."""
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    if labels.ndim != 1 or labels.shape != scores.shape or labels.shape != documents.shape:
        raise ValueError(
            f"labels, scores and documents must be vectors of one length; their shapes are "
            f"{labels.shape}, {scores.shape} and {documents.shape}"
        )
    judged = ~np.isnan(scores)
    codes = np.unique(documents[judged], return_inverse=True)[1]
    return _Outputs(labels[judged], scores[judged], codes, int((~judged).sum()))


def _estimate(outputs: _Outputs, weight: float | None, confidence: float) -> Estimate:
    """The mean, corrected by what the labels say of the judge."""
    means, errors = _means(outputs)
    labels_only, correction, judge_only = means.tolist()
    power = float((errors[1] ** 2).sum())
    tuned = float(np.clip(-(errors[0] * errors[1]).sum() / power, 0, 1)) if power > 0 else 0.0
    used = tuned if weight is None else weight
    value = labels_only + used * correction
    label_error = float(np.sqrt((errors[0] ** 2).sum()))
    error = float(np.sqrt(((errors[0] + used * errors[1]) ** 2).sum()))
    labelled = ~np.isnan(outputs.labels)
    n, total, n_documents = int(labelled.sum()), labelled.size, np.unique(outputs.documents).size
    n_labelled = np.unique(outputs.documents[labelled]).size
    # Tuning the weight costs one degree of freedom, as fitting a slope does.
    freedom = n_labelled - (2 if weight is None and tuned > 0 else 1)
    inflation = np.sqrt((n_labelled - 1) / max(freedom, 1))
    return Estimate(
        value=value,
        interval=_interval(value, error * inflation, freedom, confidence),
        labels_only=labels_only,
        labels_only_interval=_interval(labels_only, label_error, n_labelled - 1, confidence),
        judge_only=judge_only,
        weight=used,
        n_labels=n,
        n_judgements=total - n,
        n_documents=n_documents,
        n_failed=outputs.n_failed,
        label_sd=label_error * np.sqrt(n),
        agreement=_agreement(label_error, error, n, total),
    )


def _means(outputs: _Outputs) -> tuple[Vector, Matrix]:
    """The mean label, the judge's correction of it, and what the judge alone claims.

    The other is (2, documents): what each document adds to the errors of the former two.
    """
    labels, scores, documents = outputs.labels, outputs.scores, outputs.documents
    labelled, unlabelled = ~np.isnan(labels), np.isnan(labels)
    n_documents = np.unique(documents[labelled]).size
    if n_documents < 2:
        raise ValueError(
            f"{int(labelled.sum())} labels on {n_documents} documents: label "
            "outputs for two documents or more (twenty, for an interval of use)"
        )
    label, score = labels[labelled].mean(), scores[labelled].mean()
    label_errors = _document_sums(labels - label, labelled, documents)
    correction, correction_errors = 0.0, np.zeros(label_errors.size)
    if unlabelled.any():
        score_unlabelled = scores[unlabelled].mean()
        correction = score_unlabelled - score
        correction_errors = _document_sums(
            scores - score_unlabelled, unlabelled, documents
        ) - _document_sums(scores - score, labelled, documents)
    means = np.array([label, correction, scores.mean()])
    return means, np.stack([label_errors, correction_errors])


def _document_sums(centred: Vector, mask: Mask, documents: Codes) -> Vector:
    """Each document's part of the error of a mean; the factor makes their squares unbiased."""
    n = np.unique(documents[mask]).size
    sums: Vector = np.bincount(documents[mask], centred[mask], documents.max() + 1) / mask.sum()
    return sums * float(np.sqrt(n / max(n - 1, 1)))


def _interval(value: float, error: float, freedom: float, confidence: float) -> Interval | None:
    if freedom < 1:
        return None
    half = student_quantile(freedom, confidence) * error
    return Interval(float(value - half), float(value + half), confidence)


def _agreement(label_error: float, error: float, n: int, total: int) -> float:
    """The r for which 1 - r^2 (total - n) / total is the variance left."""
    if label_error == 0 or n == total:
        return 0.0
    saved = (1 - (error / label_error) ** 2) * total / (total - n)
    return float(np.sqrt(np.clip(saved, 0, 1)))
