"""Floors: whether a figure holds one, which one to offer, and how many labels would decide.

A judge that stays as good as today holds an offered floor nine times of ten, on as many labels like
these. The floor is the low end of the new interval if the new figure is as low as in one of ten
cases. Both figures have the same error around one truth, so that their difference has twice the
variance of either.
"""

import math

from optimize.statistics.intervals import Interval, student_quantile
from optimize.statistics.two_values import wilson

MOST_FURTHER = 10_000
# Normal quantiles by the number of floors that hold together nine times of ten.
DEVIATES = {1: 1.281552, 2: 1.632219}


def correlation_floor(value: float, low: float) -> float:
    """The floor to offer for a correlation whose interval has this low end, on Fisher's z."""
    z, end = math.atanh(value), math.atanh(low)
    return math.tanh(end - math.sqrt(2) * DEVIATES[1] / student_quantile(math.inf) * (z - end))


def share_floor(share: float, low: float, n_floors: int) -> float:
    """The floor to offer for a share whose Wilson interval has this low end.

    The low end tells how many independent outputs the interval is worth. Both shares have the
    variance of their mean. `n_floors` is how many floors have to hold together.
    """
    n = student_quantile(math.inf) ** 2 * low * (1 - low) / (share - low) ** 2
    a, b = DEVIATES[n_floors] ** 2 / n, 2 * share - 1
    # (share - new)^2 = 2 a m (1 - m), with m the mean of the two.
    gap = (a * b + math.sqrt((a * b) ** 2 + 8 * a * share * (1 - share) * (1 + a / 2))) / (2 + a)
    return wilson(max(0.0, share - gap), n).low


def outcome(interval: Interval | None, floor: float) -> str:
    """Whether the interval lies above the floor ("holds"), below ("falls short"), or neither."""
    if interval is None or interval.low < floor <= interval.high:
        return "undecided"
    return "holds" if interval.low >= floor else "falls short"


def further_outputs(share: float, low: float, high: float, floor: float, n: int) -> int | None:
    """About how many more outputs move an end of a share's Wilson interval to the floor.

    It assumes that the share stays: an end e of n outputs has (share - e)^2 = z^2 e (1 - e) / n.
    None if no number of outputs suffices, or more than `MOST_FURTHER` are needed.
    """
    end = low if floor < share else high
    if share in (floor, end) or not 0 < end < 1:
        return None
    squares = (share - end) ** 2 / (end * (1 - end)) * floor * (1 - floor) / (share - floor) ** 2
    further = n * (squares - 1)
    if further > MOST_FURTHER:
        return None
    # Rounded to two digits, since the estimate is no more exact.
    unit: int = 10 ** max(0, math.floor(math.log10(max(1.0, further))) - 1)
    return math.ceil(max(1.0, further) / unit) * unit
