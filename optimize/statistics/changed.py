"""The difference in accuracy between two judges, from labels of the rows on which they differ.

Where two judges say the same, a label tells nothing of their difference. So it is the share of rows
that change, times the mean of what labelled ones of these gain (1 where the new judge alone is
right, -1 where the old one alone is). The labelled ones have to be a random part of those that
change. The error is over documents, of the rows that were drawn and of the draw for labels alike.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.correlations import Mask
from optimize.statistics.intervals import Interval, Vector

# A judge that is as good as the other passes four times of five (and one that is worse by the
# margin one time of twenty) at this many standard errors in a margin.
DEVIATES = 1.644854 + 0.841621
FEWEST_TO_DRAW = 30


def terms_of(gain: ArrayLike, changed: Mask, document: ArrayLike) -> tuple[Vector, float]:
    """Each document's linearised term of the difference, and the `least` of `cautious_interval`.

    `gain` is -1, 0 or 1 of rows on which the judges differ (`changed`), NaN without a label; other
    rows do not count. All terms are NaN without a labelled row that changed.
    """
    gains, rows = np.asarray(gain, dtype=float), np.asarray(changed, dtype=bool)
    codes = np.unique(np.asarray(document), return_inverse=True)[1]
    n = int(codes.max(initial=-1)) + 1
    labelled = rows & ~np.isnan(gains)
    sizes, n_changed, n_labelled = (
        np.bincount(codes, each, n) for each in (rows | True, rows, labelled)
    )
    if not rows.any():
        return np.zeros(n), n * float(((sizes / sizes.sum()) ** 2).sum())
    share, total = n_changed.sum() / sizes.sum(), n_labelled.sum()
    if not total:
        return np.full(n, np.nan), 0.0
    mean = float(gains[labelled].mean())
    beyond = np.bincount(codes[labelled], gains[labelled] - mean, n)
    of_shares = n / sizes.sum() * mean * (n_changed - share * sizes)
    terms = share * mean + of_shares + share * n / total * beyond
    return terms, float(share * n * ((n_labelled / total) ** 2).sum())


def interval_here(gain: ArrayLike, changed: Mask) -> Interval | None:
    """The 90 % interval of the difference on these very rows, whose one error is the draw.

    It has no width where every changed row is labelled; None without any label. As in
    `cautious_interval`, a gain and a loss are added, so that few labels do not look certain.
    """
    from scipy.special import stdtrit

    gains, rows = np.asarray(gain, dtype=float), np.asarray(changed, dtype=bool)
    known = gains[rows & ~np.isnan(gains)]
    n, total, share = known.size, int(rows.sum()), float(rows.mean())
    if n == total:
        value = share * float(known.mean()) if n else 0.0
        return Interval(value, value)
    if not n:
        return None
    spread = float(np.append(known, [1, -1]).std(ddof=1))
    reach = float(stdtrit(n, 0.95)) * share * spread * math.sqrt((1 - n / total) / n)
    value = share * float(known.mean())
    return Interval(value - reach, value + reach)


def rows_to_label(n_changed: int, n_rows: int, margin: float) -> int:
    """How many labels of changed rows decide about the margin, if the judges are equally good."""
    return max(FEWEST_TO_DRAW, math.ceil((DEVIATES * n_changed / n_rows / margin) ** 2))
