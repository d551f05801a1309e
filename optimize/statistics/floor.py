"""Whether a figure holds a floor, judged by its interval, and how many more labels would tell."""

import math

from optimize.statistics.intervals import Interval

MOST_FURTHER = 10_000


def outcome(value: float, interval: Interval | None, floor: float, *, point: bool) -> str:
    """Where the floor lies: below the interval, above it, or inside (or there is none).

    With `point` the value alone decides; NaN falls short.
    """
    if point:
        return "holds" if value >= floor else "falls short"
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
