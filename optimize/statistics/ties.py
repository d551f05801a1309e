"""Pairwise accuracy with calibrated ties: how often judge and people order two outputs alike.

A pair counts when both prefer the same output or both call it a tie (arXiv:2305.14324). A judge
with fine scores never ties, so scores no further apart than a threshold do, the best there is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.bootstrap import CONFIDENCE, RESAMPLES, Interval, bootstrap
from optimize.statistics.coefficients import Vector
from optimize.statistics.levels import Codes, Rows, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PairwiseAccuracy:
    """Share of pairs ordered alike, averaged over documents; NaN without any pair."""

    value: float
    threshold: float
    interval: Interval | None
    n_pairs: int
    n_documents: int
    n_failed: int


@dataclass(frozen=True, slots=True)
class _Pairs:
    """Each pair within a document: how far apart both sides put it, and its document."""

    judge: Vector
    human: Vector
    document: Codes


def pairwise_accuracy(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    threshold: float | None = None,
    rng: np.random.Generator | None = None,
    resamples: int = RESAMPLES,
    confidence: float = CONFIDENCE,
) -> PairwiseAccuracy:
    """Accuracy over pairs of outputs for one document, at a threshold for the judge's ties.

    Without one the threshold is calibrated on these very pairs, as the paper does; for an honest
    figure take `tie_threshold` on other data. Every document with a pair weighs the same.
    """
    rows = read_rows(judge, human, document)
    pairs = _pairs(rows)
    best = _best_threshold(pairs) if threshold is None else threshold
    alike = _alike(pairs, best)
    n = np.bincount(pairs.document, minlength=rows.n_documents)
    shares = np.bincount(pairs.document, alike, rows.n_documents)[n > 0] / n[n > 0]
    value = float(shares.mean()) if shares.size else np.nan
    interval = None
    if rng is not None:
        interval = bootstrap(
            lambda weights: weights @ shares / shares.size,
            value,
            shares.size,
            rng,
            resamples=resamples,
            confidence=confidence,
        )
    if interval is not None:
        interval = Interval(max(interval.low, 0.0), interval.high, confidence)
    return PairwiseAccuracy(
        value=value,
        threshold=best,
        interval=interval,
        n_pairs=alike.size,
        n_documents=shares.size,
        n_failed=rows.n_failed,
    )


def tie_threshold(judge: ArrayLike, human: ArrayLike, document: ArrayLike) -> float:
    """The difference between scores up to which calling a tie gives the best accuracy."""
    return _best_threshold(_pairs(read_rows(judge, human, document)))


def _pairs(rows: Rows) -> _Pairs:
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    firsts = np.cumsum(sizes) - sizes
    lower, upper = [], []
    for size in np.unique(sizes[sizes > 1]):
        i, k = np.triu_indices(int(size), 1)
        starts = firsts[sizes == size][:, None]
        lower.append((starts + i).ravel())
        upper.append((starts + k).ravel())
    a = np.concatenate(lower) if lower else np.empty(0, dtype=np.intp)
    b = np.concatenate(upper) if upper else np.empty(0, dtype=np.intp)
    # Rounded, because 0.3 - 0.2 and 0.2 - 0.1 are one distance.
    judge, human = (np.round(side[a] - side[b], 12) for side in (rows.judge, rows.human))
    return _Pairs(judge, human, rows.document[a])


def _alike(pairs: _Pairs, threshold: float) -> Vector:
    tied = np.abs(pairs.judge) <= threshold
    same_order = np.sign(pairs.judge) == np.sign(pairs.human)
    alike: Vector = np.where(tied, pairs.human == 0, same_order).astype(float)
    return alike


def _best_threshold(pairs: _Pairs) -> float:
    """Try every distance that occurs, and 0; the smallest of equally good ones."""
    if not pairs.judge.size:
        return 0.0
    weights = 1 / np.bincount(pairs.document)[pairs.document]
    distances, place = np.unique(np.append(np.abs(pairs.judge), 0.0), return_inverse=True)
    place = place[:-1]
    tie_gained = np.bincount(place, weights * (pairs.human == 0), distances.size)
    concordant = (pairs.judge != 0) & (np.sign(pairs.judge) == np.sign(pairs.human))
    order_lost = np.bincount(place, weights * concordant, distances.size)
    gains = np.cumsum(tie_gained - order_lost)
    return float(distances[np.argmax(np.round(gains, 9))])
