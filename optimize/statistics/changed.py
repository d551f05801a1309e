"""The difference in accuracy between two judges, from labels on the rows on which they differ.

If two judges give the same verdict, a label shows nothing about their difference. So the difference
is the share of rows that change, times the mean gain on labelled rows that change. The gain of a
row is 1 if only the new judge is right, and -1 if only the old one is. The labelled rows must be a
random part of those that change. The standard error is over documents. It covers both which rows
there are and which of them were drawn for labelling.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.correlations import Mask
from optimize.statistics.intervals import Interval, Vector

# If the margin is this many standard errors, a judge as good as the old one passes four times of
# five, and a judge that is worse by the margin one time of twenty.
DEVIATES = 1.644854 + 0.841621
FEWEST_TO_DRAW = 30


def terms_of(gain: ArrayLike, changed: Mask, document: ArrayLike) -> tuple[Vector, float]:
    """Each document's linearised term of the difference, and `least_size` for `cautious_interval`.

    `changed` marks the rows on which the judges differ. There `gain` is -1, 0 or 1, or NaN without
    a label; in other rows it does not count. All terms are NaN if no changed row has a label.
    """
    gains, rows = np.asarray(gain, dtype=float), np.asarray(changed, dtype=bool)
    codes = np.unique(np.asarray(document), return_inverse=True)[1]
    n = int(codes.max(initial=-1)) + 1
    labelled = rows & ~np.isnan(gains)
    sizes, n_changed, n_labelled = (
        np.bincount(codes, rows_of_kind, n) for rows_of_kind in (rows | True, rows, labelled)
    )
    if not rows.any():
        return np.zeros(n), n * float(((sizes / sizes.sum()) ** 2).sum())
    share, total = n_changed.sum() / sizes.sum(), n_labelled.sum()
    if not total:
        return np.full(n, np.nan), 0.0
    mean = float(gains[labelled].mean())
    excess = np.bincount(codes[labelled], gains[labelled] - mean, n)
    share_terms = n / sizes.sum() * mean * (n_changed - share * sizes)
    terms = share * mean + share_terms + share * n / total * excess
    return terms, float(share * n * ((n_labelled / total) ** 2).sum())


def interval_here(gain: ArrayLike, changed: Mask) -> Interval | None:
    """The 90 % interval of the difference on these very rows.

    Its only source of error is which changed rows were drawn for labelling. So it has no width if
    all of them have a label. It is None if none has. As in `cautious_interval`, one gain and one
    loss are added, so that the interval does not get too narrow with few labels.
    """
    from scipy.special import stdtrit

    gains, rows = np.asarray(gain, dtype=float), np.asarray(changed, dtype=bool)
    known_gains = gains[rows & ~np.isnan(gains)]
    n_labelled, n_changed, share = known_gains.size, int(rows.sum()), float(rows.mean())
    if n_labelled == n_changed:
        value = share * float(known_gains.mean()) if n_labelled else 0.0
        return Interval(value, value)
    if not n_labelled:
        return None
    deviation = float(np.append(known_gains, [1, -1]).std(ddof=1))
    correction = math.sqrt((1 - n_labelled / n_changed) / n_labelled)
    half_width = float(stdtrit(n_labelled, 0.95)) * share * deviation * correction
    value = share * float(known_gains.mean())
    return Interval(value - half_width, value + half_width)


def rows_to_label(n_changed: int, n_rows: int, margin: float) -> int:
    """How many labels on changed rows decide about the margin, if the judges are equally good."""
    return max(FEWEST_TO_DRAW, math.ceil((DEVIATES * n_changed / n_rows / margin) ** 2))
