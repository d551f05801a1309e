"""The difference in accuracy between an old and a new judge, estimated from few labels.

A row is "changed" if the two judges give it different verdicts. Only changed rows need human
labels: on all other rows both judges are right or both are wrong. The gain on a changed row is 1 if
only the new judge is right, and -1 if only the old judge is right. The difference in accuracy is
the share of changed rows times their mean gain, which is estimated from a random sample with
labels. The standard error, clustered by document, covers two sources of chance: which documents are
in the data, and which changed rows were drawn.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from optimize.statistics.intervals import Interval, Mask, Vector, student_quantile

# The margin of a noninferiority test, in standard errors: the sum of two normal quantiles. A new
# judge that is worse by the margin passes in 5 % of cases, an equally good one in 80 %.
MARGIN_IN_SE = 1.644854 + 0.841621
# The smallest number of changed rows that `rows_to_label` returns.
MIN_ROWS_TO_LABEL = 30


def gain_contributions(
    gain: ArrayLike, is_changed: Mask, document: ArrayLike
) -> tuple[Vector, float]:
    """Return the documents' contributions to the difference in accuracy, and their possible size.

    `gain` is -1, 0 or 1 for labelled rows and NaN for others; gains of unchanged rows are ignored.
    The mean of the contributions is the new judge's accuracy minus the old judge's; it is NaN if no
    changed row has a label. `cautious_interval` takes the contributions and their possible size.
    """
    gains = np.asarray(gain, dtype=float)
    document_codes = np.unique(np.asarray(document), return_inverse=True)[1]
    is_labelled = is_changed & ~np.isnan(gains)
    mean_gain = np.nan if is_changed.any() else 0.0
    if is_labelled.any():
        mean_gain = float(gains[is_labelled].mean())
    excess_gain_by_row = np.where(is_labelled, gains - mean_gain, 0)
    # Sums over each document: of rows, changed rows, labelled changed rows, and excess gains.
    columns = np.ones(gains.size), is_changed, is_labelled, excess_gain_by_row
    sums = (np.bincount(document_codes, column) for column in columns)
    n_rows, n_changed, n_labelled, excess_gain_sums = sums
    n_documents, n_labelled_in_all = n_rows.size, max(n_labelled.sum(), 1)
    changed_share = n_changed.sum() / n_rows.sum()
    contributions = (
        changed_share * mean_gain
        + n_documents / n_rows.sum() * mean_gain * (n_changed - changed_share * n_rows)
        + changed_share * n_documents / n_labelled_in_all * excess_gain_sums
    )
    if not is_changed.any():
        return contributions, n_documents * float(((n_rows / n_rows.sum()) ** 2).sum())
    squared_label_shares = (n_labelled / n_labelled_in_all) ** 2
    return contributions, float(changed_share * n_documents * squared_label_shares.sum())


def interval_on_these_rows(gain: ArrayLike, is_changed: Mask) -> Interval | None:
    """Return the 90 % interval for the difference in accuracy on exactly these rows.

    The interval covers only one error: that of drawing changed rows for labelling. It is a single
    point if all changed rows have a label. The interval is None if no changed row has a label. Two
    made-up rows with the gains 1 and -1 are added, as `cautious_interval` explains.
    """
    gains = np.asarray(gain, dtype=float)
    known_gains = gains[is_changed & ~np.isnan(gains)]
    n_labelled, n_changed = known_gains.size, int(is_changed.sum())
    if not n_labelled:
        return None if n_changed else Interval(0.0, 0.0)
    changed_share = float(is_changed.mean())
    gain_sd = float(np.append(known_gains, [1, -1]).std(ddof=1))
    error_factor = math.sqrt((1 - n_labelled / n_changed) / n_labelled)
    quantile = student_quantile(n_labelled, confidence=0.95)
    half_width = quantile * changed_share * gain_sd * error_factor
    accuracy_difference = changed_share * float(known_gains.mean())
    return Interval(accuracy_difference - half_width, accuracy_difference + half_width)


def rows_to_label(n_changed: int, n_rows: int, margin: float) -> int:
    """Return how many labels show in 80 % of cases that an equally good judge is no worse."""
    return max(MIN_ROWS_TO_LABEL, math.ceil((MARGIN_IN_SE * n_changed / n_rows / margin) ** 2))
