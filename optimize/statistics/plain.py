"""Agreement in plain units: shares of pairs in the same order, and points on the scale.

Judges' scores are NaN for failed judgements. Points on the scale can show, for example, that a
judge ranks perfectly but rates one point too high.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimize.statistics.correlations import Level, read_rows
from optimize.statistics.intervals import (
    FEW_DOCUMENTS,
    Contrast,
    Interval,
    Matrix,
    Vector,
    correlation_interval,
    interval_of_mean,
    mean_of_differences,
)

# About how many pairs are compared at once, to limit memory.
BLOCK = 4_000_000
# The smallest difference in means that is worth a warning, in standard deviations of people's
# ratings.
LEAST_SHIFT = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderAgreement:
    """The share, in [0, 1], of the pairs ordered by people that a judge orders in the same way.

    A pair on which the judge is tied counts half; there are `n_ties` of these. Pairs on which
    people are tied are left out. `value` is NaN without any pair. `n_documents` documents have a
    pair.
    """

    value: float
    interval: Interval | None
    n_ties: int
    n_documents: int
    n_pairs: int


def pair_accuracy(margin: ArrayLike, human: ArrayLike, document: ArrayLike) -> OrderAgreement:
    """The accuracy of a pairwise judge from its margins and people's, both in [-1, 1]; 0 is a tie.

    The judge's margins count by their signs. They are NaN for failed judgements.
    """
    judge, people = np.asarray(margin, dtype=float), np.asarray(human, dtype=float)
    is_decided = (people != 0) & ~np.isnan(judge)
    correct = (1 + np.sign(judge[is_decided]) * np.sign(people[is_decided])) / 2
    names, codes = np.unique(np.asarray(document)[is_decided], return_inverse=True)
    return OrderAgreement(
        value=float(correct.mean()) if correct.size else np.nan,
        interval=_interval_of_share(np.bincount(codes, correct), np.bincount(codes)),
        n_pairs=int(correct.size),
        n_ties=int((judge[is_decided] == 0).sum()),
        n_documents=names.size,
    )


def contrast_accuracy(
    margin_a: ArrayLike, margin_b: ArrayLike, human: ArrayLike, document: ArrayLike
) -> Contrast:
    """Judge A's accuracy less judge B's, on the pairs that people decided and both judged."""
    a, b, people = (np.asarray(margins, dtype=float) for margins in (margin_a, margin_b, human))
    is_compared = (people != 0) & ~np.isnan(a + b)
    a, b, people = (np.sign(margins[is_compared]) for margins in (a, b, people))
    gaps = (a - b) * people / 2
    names, codes = np.unique(np.asarray(document)[is_compared], return_inverse=True)
    # A document with many pairs gets more weight: the mean of terms is the mean over pairs.
    sums = np.bincount(codes, gaps, names.size)
    return mean_of_differences(sums * names.size / max(gaps.size, 1), names.tolist())


def order_agreement(
    judge: ArrayLike,
    human: ArrayLike,
    document: ArrayLike,
    *,
    level: Level = "summary",
    weight: ArrayLike | None = None,
) -> OrderAgreement:
    """How often the judge orders two outputs as people do: (1 + Somers' D) / 2.

    The two outputs are of one document; at dataset level, or if no document has two outputs, they
    are any two. A pair has the weight of its documents, also in the counts.

    Raises:
        ValueError: The vectors do not fit (see `read_rows`).
    """
    rows = read_rows(judge, human, document, weight=weight)
    # Rounded, because the order of summation must not break a tie.
    values: Matrix = np.stack([rows.judge, rows.human]).round(12)
    across = level == "dataset" or rows.n_documents == rows.judge.size
    if across:
        weights_of_pairs = _pair_weights(values, rows.weight)
    else:
        documents = np.split(values, rows.first_rows[1:], axis=1)
        weights_of_pairs = np.hstack(
            [_pair_weights(each, np.ones(each.shape[1])) for each in documents]
        )
    same_order, ordered, ties = (
        np.bincount(rows.document, column, rows.n_documents).astype(float)
        for column in weights_of_pairs * rows.weight
    )
    has_pair = ordered > 0
    interval = None
    if not across or rows.n_untied >= FEW_DOCUMENTS:
        # A pair across documents is in the sums of both documents.
        interval = _interval_of_share(same_order[has_pair], ordered[has_pair], 2 if across else 1)
    return OrderAgreement(
        value=float(same_order.sum() / ordered.sum()) if has_pair.any() else np.nan,
        interval=interval,
        n_pairs=round(ordered.sum() / 2),
        n_ties=round(ties.sum() / 2),
        n_documents=int(has_pair.sum()),
    )


def _pair_weights(values: Matrix, weight: Vector) -> Matrix:
    """(3, outputs): the summed weights of an output's pairs with all other outputs.

    The first row is for pairs that the judge orders as people do, the second for all pairs that
    people order, the third for those of the second on which the judge is tied.
    """
    n = values.shape[1]
    counts = np.empty((3, n))
    step = max(1, BLOCK // max(n, 1))
    for start in range(0, n, step):
        block = slice(start, start + step)
        judge, human = np.sign(values[:, block, None] - values[:, None, :])
        ordered = (human != 0) @ weight
        counts[0, block] = (ordered + (judge * human) @ weight) / 2
        counts[1, block] = ordered
        counts[2, block] = ((judge == 0) & (human != 0)) @ weight
    return counts


def _interval_of_share(
    same_order: NDArray[np.number], counts: NDArray[np.number], documents_per_pair: int = 1
) -> Interval | None:
    """The interval for the share of pairs in the same order.

    `same_order` counts each document's pairs in the same order, `counts` all its pairs. A share s
    is treated as a correlation of 2s - 1 between the judge's and people's preferences.
    """
    if not counts.size:
        return None
    share = float(same_order.sum() / counts.sum())
    terms = 2 * documents_per_pair * (same_order - share * counts) / counts.mean()
    interval = correlation_interval(2 * share - 1, terms)
    return None if interval is None else Interval((1 + interval.low) / 2, (1 + interval.high) / 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScaleComparison:
    """Means and standard deviations of a judge's scores and people's ratings of the same outputs.

    `shift` is the judge's mean less people's. `is_shifted` says that the shift's interval excludes
    0, and that it is at least a quarter of people's standard deviation.
    """

    judge_mean: float
    human_mean: float
    shift: float
    judge_sd: float
    human_sd: float
    is_shifted: bool
    n_outputs: int
    n_documents: int
    shift_interval: Interval | None


def compare_scales(
    judge: ArrayLike, human: ArrayLike, document: ArrayLike | None = None
) -> ScaleComparison | None:
    """Compare scores with ratings on the same scale, without NaN scores; None if all are NaN."""
    rows = read_rows(judge, human, document)
    n = rows.judge.size
    if not n:
        return None
    gaps = rows.judge - rows.human
    shift = float(gaps.mean())
    sums = np.bincount(rows.document, gaps - shift)
    interval = interval_of_mean(shift + sums * rows.n_documents / n)
    excludes_0, human_sd = interval is not None and 0 not in interval, float(rows.human.std())
    return ScaleComparison(
        judge_mean=float(rows.judge.mean()),
        human_mean=float(rows.human.mean()),
        shift=shift,
        shift_interval=interval,
        is_shifted=excludes_0 and abs(shift) >= LEAST_SHIFT * human_sd,
        judge_sd=float(rows.judge.std()),
        human_sd=human_sd,
        n_outputs=n,
        n_documents=rows.n_documents,
    )


def nearest_ratings(values: ArrayLike, scale: ArrayLike) -> Vector:
    """The rating of the scale that is nearest to each value, the higher of two; NaN stays NaN."""
    numbers, ratings = np.asarray(values, dtype=float), np.unique(np.asarray(scale, dtype=float))
    midpoints = (ratings[1:] + ratings[:-1]) / 2
    nearest = np.searchsorted(midpoints, np.nan_to_num(numbers), side="right")
    return np.where(np.isnan(numbers), np.nan, ratings[nearest])


def quadratic_kappa(a: Vector, b: Vector) -> float:
    """Cohen's kappa with quadratic weights: 1 - mean square gap / mean square gap by chance.

    The gap by chance is that of the same ratings in random pairs. Its mean square is
    var(a) + var(b) + (mean(a) - mean(b))^2. Kappa is NaN if this is 0, because all ratings are
    equal.
    """
    expected = a.var() + b.var() + (a.mean() - b.mean()) ** 2 if a.size else 0.0
    return float(1 - ((a - b) ** 2).mean() / expected) if expected > 0 else np.nan
