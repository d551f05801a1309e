"""Whether a figure holds a floor, judged by its interval; floors to offer, and labels that tell.

A judge as good as today's holds a floor that is offered nine times of ten on as many labels like
these: it is where the new interval begins if the new figure is as low as in one of ten cases. Both
figures err alike around one truth, so that they differ with twice the variance of either.
"""

import math

from optimize.statistics.intervals import Interval, student_quantile
from optimize.statistics.two_values import wilson

MOST_FURTHER = 10_000
# Normal deviates by the number of floors, all of which hold nine times of ten.
DEVIATES = {1: 1.281552, 2: 1.632219}


def correlation_floor(value: float, low: float) -> float:
    """The floor to offer for a correlation, whose interval has this lower end, on Fisher's z."""
    z, end = math.atanh(value), math.atanh(low)
    return math.tanh(end - math.sqrt(2) * DEVIATES[1] / student_quantile(math.inf) * (z - end))


def share_floor(share: float, low: float, n_floors: int) -> float:
    """The floor to offer for a share, whose Wilson interval has this lower end.

    The lower end tells how many independent outputs the interval is worth; both shares have the
    variance of their mean. `n_floors` are to hold together.
    """
    n = student_quantile(math.inf) ** 2 * low * (1 - low) / (share - low) ** 2
    a, b = DEVIATES[n_floors] ** 2 / n, 2 * share - 1
    # (share - new)^2 = 2 a m (1 - m), with m the mean of the two.
    gap = (a * b + math.sqrt((a * b) ** 2 + 8 * a * share * (1 - share) * (1 + a / 2))) / (2 + a)
    return wilson(max(0.0, share - gap), n).low


def outcome(interval: Interval | None, floor: float) -> str:
    """Where the floor lies: below the interval, above it, or inside (or there is none)."""
    if interval is None or interval.low < floor <= interval.high:
        return "undecided"
    return "holds" if interval.low >= floor else "falls short"


def further_outputs(share: float, low: float, high: float, floor: float, n: int) -> int | None:
    """About how many more outputs bring the end of a share's Wilson interval to the floor.

    That is, if the share stays: an end e of n outputs has (share - e)^2 = z^2 e (1 - e) / n. None
    where no number does, or none that anybody labels.
    """
    end = low if floor < share else high
    if share in (floor, end) or not 0 < end < 1:
        return None
    squares = (share - end) ** 2 / (end * (1 - end)) * floor * (1 - floor) / (share - floor) ** 2
    further = n * (squares - 1)
    if further > MOST_FURTHER:
        return None
    # To two digits, since what is planned for is no more exact.
    unit: int = 10 ** max(0, math.floor(math.log10(max(1.0, further))) - 1)
    return math.ceil(max(1.0, further) / unit) * unit
