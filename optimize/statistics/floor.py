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
    return _to_label(n * (squares - 1))


def documents_in_all(value: float, interval: Interval, limit: float, n: int) -> int | None:
    """About how many documents bring the end of a mean's interval to the limit, n of them here.

    That is, if all is alike: a half width goes with 1 / sqrt(n). None where nobody labels so many.
    """
    half = (interval.high - interval.low) / 2
    return None if value == limit else _to_label(n * (half / (value - limit)) ** 2)


def _to_label(number: float) -> int | None:
    """A number of labels to two digits, since what is planned for is no more exact."""
    if number > MOST_FURTHER:
        return None
    unit: int = 10 ** max(0, math.floor(math.log10(max(1.0, number))) - 1)
    return math.ceil(max(1.0, number) / unit) * unit
