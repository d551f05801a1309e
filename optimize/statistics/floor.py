"""Whether a figure holds a floor, judged by its interval, and how many more labels would tell."""

import math
from typing import Literal

from optimize.statistics.intervals import Interval

Outcome = Literal["holds", "falls short", "undecided"]
# Beyond this nobody labels on.
MOST_FURTHER = 1_000_000


def outcome(value: float, interval: Interval | None, floor: float, *, point: bool) -> Outcome:
    """Where the floor lies: below the interval, above it, or inside (or there is none).

    With `point` the value alone decides; NaN falls short.
    """
    if point:
        return "holds" if value >= floor else "falls short"
    if interval is None or interval.low < floor <= interval.high:
        return "undecided"
    return "holds" if interval.low >= floor else "falls short"


def further_for_share(share: float, interval: Interval, floor: float, n: int) -> int | None:
    """About how many more outputs bring the end of a share's Wilson interval to the floor.

    That is, if the share stays: an end e of n outputs has (share - e)^2 = z^2 e (1 - e) / n. None
    where no number does.
    """
    end = interval.low if floor < share else interval.high
    if share in (floor, end) or not 0 < end < 1:
        return None
    squares = (share - end) ** 2 / (end * (1 - end)) * floor * (1 - floor) / (share - floor) ** 2
    return _rounded(n * (squares - 1))


def further_for_rho(rho: float, interval: Interval, floor: float, n: int) -> int | None:
    """The same of documents and a correlation's interval on Fisher's z."""
    if rho == floor or max(abs(rho), abs(floor)) >= 1:
        return None
    end = interval.low if floor < rho else interval.high
    z, z_end, z_floor = (math.atanh(value) for value in (rho, end, floor))
    return _rounded(n * (((z - z_end) / (z - z_floor)) ** 2 - 1))


def _rounded(further: float) -> int | None:
    """Up to two digits; a number that is planned for is no more exact."""
    if not 0 < further <= MOST_FURTHER:
        return None
    unit: int = 10 ** max(0, math.floor(math.log10(further)) - 1)
    return math.ceil(further / unit) * unit
