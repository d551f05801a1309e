"""What people would say on average, from few human labels and many judgements.

Prediction-powered inference (arXiv:2301.09633, arXiv:2311.01453): the mean of the judge's scores
where nobody labelled, corrected by how far the judge is off where somebody did. The interval is
valid however bad the judge is; a good judge makes it narrow. Weighting the judge's part by what it
is worth (the power tuning of the second paper) means it is hardly ever wider than labels alone.

Own code, because ppi-python takes outputs as independent (here they share documents, and two
systems share them too) and imports numba, statsmodels and scikit-learn; where outputs are
independent the tests hold both against each other.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.bootstrap import CONFIDENCE, Interval, student_quantile
from optimize.statistics.coefficients import Vector

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean, difference or win rate by human standards, and what it was computed from.

    `labels_only` is what the labels alone give, `judge_only` what the judge alone would claim,
    without any guarantee. `weight` is the judge's, in [0, 1]; `label_spread` and `agreement` (the
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
    label_spread: float
    agreement: float


@dataclass(frozen=True, slots=True)
class _Parts:
    """Sums over documents of centred labels and scores: they add up to the estimator's errors."""

    label: Vector
    score: Vector
    labelled: int
    mean_label: float
    mean_score: float
    judge_mean: float


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
    labels, scores, codes, n_failed = _read(label, score, document)
    return _estimate([(_known(labels), 1.0)], labels, scores, codes, n_failed, weight, confidence)


def mean_win(
    label: ArrayLike,
    score: ArrayLike,
    document: ArrayLike | None = None,
    *,
    weight: float | None = None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """A win rate: the mean of 1 (won), 0.5 (tie) and 0; neither value nor interval leaves [0, 1].

    Intervals are those with two more labelled documents, one won and one lost, of which the judge
    says what it says on average (Agresti and Caffo 2000): eight wins of eight are no certainty. As
    `mean_score` otherwise.
    """
    labels, scores, codes, n_failed = _read(label, score, document)
    found, wider = (
        _estimate([(_known(these), 1.0)], these, of, places, n_failed, weight, confidence)
        for these, of, places in (
            (labels, scores, codes),
            (
                np.concatenate([labels, [0.0, 1.0]]),
                np.concatenate([scores, np.repeat(scores.mean() if scores.size else 0.5, 2)]),
                np.concatenate([codes, codes.max(initial=-1) + np.array([1, 2])]),
            ),
        )
    )
    value = float(np.clip(found.value, 0, 1))
    return replace(
        found,
        value=value,
        interval=_within(wider.interval, value),
        labels_only_interval=_within(wider.labels_only_interval, found.labels_only),
    )


def _within(interval: Interval | None, value: float) -> Interval | None:
    """An interval cut to [0, 1], with its value in it."""
    if interval is None:
        return None
    low, high = np.clip([min(interval.low, value), max(interval.high, value)], 0, 1)
    return Interval(float(low), float(high), interval.confidence)


def mean_difference(
    label: ArrayLike,
    score: ArrayLike,
    first: ArrayLike,
    document: ArrayLike | None = None,
    *,
    weight: float | None = None,
    confidence: float = CONFIDENCE,
) -> Estimate:
    """Mean human rating of one system minus that of another; `first` marks the former's outputs.

    Documents that both answered are compared as pairs. As `mean_score` otherwise.
    """
    labels, scores, codes, n_failed = _read(label, score, document)
    mine = np.asarray(first, dtype=bool)[~np.isnan(np.asarray(score, dtype=float))]
    groups = [(mine, 1.0), (~mine, -1.0)]
    return _estimate(groups, labels, scores, codes, n_failed, weight, confidence)


def labels_needed(estimate: Estimate, width: float) -> int | None:
    """How many labels in all an interval of this width takes; None if all outputs are too few.

    Labelling an output takes it from the merely judged ones: with r the agreement, n labels of N
    outputs leave a variance of spread^2 / n * (1 - r^2 (N - n) / N).
    """
    if estimate.interval is None:
        return None
    total = estimate.n_labels + estimate.n_judgements
    n = np.arange(2, total + 1)
    left = 1 - estimate.agreement**2 * (total - n) / total
    confidence = estimate.interval.confidence
    quantiles = np.array([student_quantile(max(int(k) - 2, 1), confidence) for k in n])
    widths = 2 * quantiles * estimate.label_spread * np.sqrt(left / n)
    enough = np.flatnonzero(widths <= width)
    return int(n[enough[0]]) if enough.size else None


def wins(ours: ArrayLike, theirs: ArrayLike) -> Vector:
    """1 where our side scores higher, 0 where theirs does, 0.5 for a tie, NaN where unknown."""
    gap = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    won: Vector = (np.sign(gap) + 1) / 2
    return won


def _read(
    label: ArrayLike, score: ArrayLike, document: ArrayLike | None
) -> tuple[Vector, Vector, NDArray[np.intp], int]:
    labels, scores = np.asarray(label, dtype=float), np.asarray(score, dtype=float)
    documents = np.arange(labels.size) if document is None else np.asarray(document)
    if labels.ndim != 1 or labels.shape != scores.shape or labels.shape != documents.shape:
        raise ValueError(
            f"labels, scores and documents must be vectors of one length; their shapes are "
            f"{labels.shape}, {scores.shape} and {documents.shape}"
        )
    judged = ~np.isnan(scores)
    codes = np.unique(documents[judged], return_inverse=True)[1]
    return labels[judged], scores[judged], codes, int((~judged).sum())


def _known(labels: Vector) -> Mask:
    everything: Mask = np.ones(labels.size, dtype=bool)
    return everything


def _estimate(
    groups: list[tuple[Mask, float]],
    labels: Vector,
    scores: Vector,
    codes: NDArray[np.intp],
    n_failed: int,
    weight: float | None,
    confidence: float,
) -> Estimate:
    parts = [_parts(labels, scores, codes, group) for group, _ in groups]
    signs = [sign for _, sign in groups]
    label = np.sum([sign * part.label for part, sign in zip(parts, signs, strict=True)], axis=0)
    score = np.sum([sign * part.score for part, sign in zip(parts, signs, strict=True)], axis=0)
    power = float((score**2).sum())
    tuned = float(np.clip(-(label * score).sum() / power, 0, 1)) if power > 0 else 0.0
    used = tuned if weight is None else weight
    means = [
        sum(sign * getattr(part, name) for part, sign in zip(parts, signs, strict=True))
        for name in ("mean_label", "mean_score", "judge_mean")
    ]
    value = means[0] + used * means[1]
    labelled = np.unique(codes[~np.isnan(labels)]).size
    spread = float(np.sqrt((label**2).sum()))
    error = float(np.sqrt(((label + used * score) ** 2).sum()))
    n = sum(part.labelled for part in parts)
    # Tuning the weight spends one degree of freedom, as fitting a slope does.
    freedom = labelled - (2 if weight is None and tuned > 0 else 1)
    correction = np.sqrt((labelled - 1) / max(freedom, 1))
    return Estimate(
        value=value,
        interval=_interval(value, error * correction, freedom, confidence),
        labels_only=means[0],
        labels_only_interval=_interval(means[0], spread, labelled - 1, confidence),
        judge_only=means[2],
        weight=used,
        n_labels=n,
        n_judgements=int(labels.size - n),
        n_documents=int(np.unique(codes).size),
        n_failed=n_failed,
        label_spread=spread * np.sqrt(n),
        agreement=_agreement(spread, error, n, labels.size),
    )


def _parts(labels: Vector, scores: Vector, codes: NDArray[np.intp], group: Mask) -> _Parts:
    labelled, rest = group & ~np.isnan(labels), group & np.isnan(labels)
    if np.unique(codes[labelled]).size < 2:
        raise ValueError(
            f"{int(labelled.sum())} labels on {np.unique(codes[labelled]).size} documents: label "
            "outputs for two documents or more (twenty, for an interval of use)"
        )
    mean_label, mean_labelled = float(labels[labelled].mean()), float(scores[labelled].mean())
    mean_rest = float(scores[rest].mean()) if rest.any() else mean_labelled
    label = _sums(labels - mean_label, labelled, codes)
    score = -_sums(scores - mean_labelled, labelled, codes)
    score = score + _sums(scores - mean_rest, rest, codes) if rest.any() else 0 * score
    return _Parts(
        label=label,
        score=score,
        labelled=int(labelled.sum()),
        mean_label=mean_label,
        mean_score=mean_rest - mean_labelled,
        judge_mean=float(scores[group].mean()),
    )


def _sums(centred: Vector, some: Mask, codes: NDArray[np.intp]) -> Vector:
    """Each document's part of the error of a mean; the factor makes their squares unbiased."""
    documents = np.unique(codes[some]).size
    sums: Vector = np.bincount(codes[some], centred[some], int(codes.max()) + 1) / some.sum()
    return sums * float(np.sqrt(documents / max(documents - 1, 1)))


def _interval(value: float, error: float, freedom: float, confidence: float) -> Interval | None:
    if freedom < 1:
        return None
    reach = student_quantile(freedom, confidence) * error
    return Interval(float(value - reach), float(value + reach), confidence)


def _agreement(spread: float, error: float, n: int, total: int) -> float:
    """The r for which 1 - r^2 (total - n) / total is the variance left."""
    if spread == 0 or n == total:
        return 0.0
    saved = (1 - (error / spread) ** 2) * total / (total - n)
    return float(np.sqrt(np.clip(saved, 0, 1)))
