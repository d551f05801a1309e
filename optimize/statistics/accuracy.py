"""How often judge and people order two outputs alike: of pairs, and of scores with their ties."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from judges.winrate import share_interval
from optimize.statistics.bootstrap import Interval, bootstrap
from optimize.statistics.coefficients import Vector
from optimize.statistics.levels import Codes, Rows, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PairAccuracy:
    """Of the pairs that people decided, the share on which the judge prefers the same side.

    The judge's side is the sign of its margin, both orders together; its ties (`n_ties`) are half
    right. `n_decided` pairs have a verdict and a side that people prefer.
    """

    value: float
    interval: Interval | None
    n_decided: int
    n_ties: int
    n_documents: int
    n_failed: int


def pair_accuracy(margin: ArrayLike, human: ArrayLike, document: ArrayLike) -> PairAccuracy:
    """Accuracy from margins in [-1, 1]: the judge's (NaN: failed), people's; 0 is a tie."""
    judge, human = np.asarray(margin, dtype=float), np.asarray(human, dtype=float)
    decided = (human != 0) & ~np.isnan(judge)
    correct = (1 + np.sign(judge[decided]) * np.sign(human[decided])) / 2
    documents = np.asarray(document)[decided].tolist()
    low, high = share_interval(correct, documents)
    return PairAccuracy(
        value=float(correct.mean()) if correct.size else np.nan,
        interval=None if np.isnan(low) else Interval(low, high),
        n_decided=int(correct.size),
        n_ties=int((judge[decided] == 0).sum()),
        n_documents=len(set(documents)),
        n_failed=int(np.isnan(judge).sum()),
    )


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
class _PairGaps:
    """Each pair within a document: how far apart both sides put it, and its document."""

    judge: Vector
    human: Vector
    document: Codes


def pairwise_accuracy(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    rng: np.random.Generator | None = None,
) -> PairwiseAccuracy:
    """Accuracy over pairs of outputs for one document, with calibrated ties (arXiv:2305.14324).

    A pair counts when both sides prefer the same output or both call it a tie. A judge with fine
    scores never ties, so scores no further apart than a threshold do: the one that is best on these
    very pairs. Every document with a pair weighs the same.
    """
    rows = read_rows(judge, human, document)
    gaps = _pair_gaps(rows)
    threshold = _best_threshold(gaps)
    tied = np.abs(gaps.judge) <= threshold
    alike = np.where(tied, gaps.human == 0, np.sign(gaps.judge) == np.sign(gaps.human))
    n = np.bincount(gaps.document, minlength=rows.n_documents)
    shares = np.bincount(gaps.document, alike, rows.n_documents)[n > 0] / n[n > 0]
    value = float(shares.mean()) if shares.size else np.nan
    interval = None
    if rng is not None:
        interval = bootstrap(
            lambda weights: weights @ shares / shares.size, value, shares.size, rng
        )
    if interval is not None:
        interval = Interval(max(interval.low, 0.0), interval.high)
    return PairwiseAccuracy(
        value=value,
        threshold=threshold,
        interval=interval,
        n_pairs=alike.size,
        n_documents=shares.size,
        n_failed=rows.n_failed,
    )


def _pair_gaps(rows: Rows) -> _PairGaps:
    """The differences of every two outputs of one document, on either side, and the document."""
    sizes = np.bincount(rows.document, minlength=rows.n_documents)
    firsts, seconds = [np.empty(0, dtype=np.intp)], [np.empty(0, dtype=np.intp)]
    for size in np.unique(sizes[sizes > 1]):
        i, k = np.triu_indices(int(size), 1)
        starts = rows.first_rows[sizes == size][:, None]
        firsts.append((starts + i).ravel())
        seconds.append((starts + k).ravel())
    a, b = np.concatenate(firsts), np.concatenate(seconds)
    # Rounded, because 0.3 - 0.2 and 0.2 - 0.1 are one distance.
    judge, human = (np.round(side[a] - side[b], 12) for side in (rows.judge, rows.human))
    return _PairGaps(judge, human, rows.document[a])


def _best_threshold(gaps: _PairGaps) -> float:
    """The distance up to which to call two scores a tie, for the most pairwise accuracy.

    Every distance that occurs is tried, and 0; of equally good ones the smallest is taken.
    """
    if not gaps.judge.size:
        return 0.0
    weights = 1 / np.bincount(gaps.document)[gaps.document]
    distances, distance_index = np.unique(np.append(np.abs(gaps.judge), 0.0), return_inverse=True)
    distance_index = distance_index[:-1]
    ties_won = np.bincount(distance_index, weights * (gaps.human == 0), distances.size)
    concordant = (gaps.judge != 0) & (np.sign(gaps.judge) == np.sign(gaps.human))
    orders_lost = np.bincount(distance_index, weights * concordant, distances.size)
    gains = np.cumsum(ties_won - orders_lost)
    return float(distances[np.argmax(np.round(gains, 9))])
