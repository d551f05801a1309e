"""Floors: whether a figure holds one, which one to offer, and how many labels would decide.

A judge that stays as good as today holds an offered floor nine times of ten, on as many labels like
these. The floor is the low end of the new interval if the new figure is as low as in one of ten
cases. Both figures have the same error around one truth, so that their difference has twice the
variance of either.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from optimize.statistics.correlations import Codes, Correlation
from optimize.statistics.intervals import PERFECT, Interval, Vector, student_quantile
from optimize.statistics.two_values import FEW_OUTPUTS, Rate, wilson

MOST_FURTHER, MOST_LABELS = 10_000, 100_000
# The chance of a decision to plan for, of judges that err half and three quarters as often as their
# floors allow: where these are .8, the true rates are .9 and .85.
LIKELY, ERRORS = 0.9, (0.5, 0.75)
# Normal quantiles by the number of floors that hold together nine times of ten.
DEVIATES = {1: 1.281552, 2: 1.632219}
# The widths of both intervals err by 1 / sqrt(2 f) of themselves, where f is the effective number
# of outputs over 1 + the design effect. To first order that adds 4.5 / f (one floor) or 5.5 / f
# (two) of the variance of the difference.
WIDTH_NOISE = 5


def correlation_floor(value: float, low: float) -> float:
    """The floor to offer for a correlation whose interval has this low end, on Fisher's z."""
    z, end = math.atanh(value), math.atanh(low)
    return math.tanh(end - math.sqrt(2) * DEVIATES[1] / student_quantile(math.inf) * (z - end))


def share_floor(share: float, low: float, n_outputs: int, n_floors: int) -> float:
    """The floor to offer for a share of so many outputs whose Wilson interval has this low end.

    The low end tells how many independent outputs the interval is worth. Both shares have the
    variance of their mean. `n_floors` is how many floors have to hold together.
    """
    n = effective_outputs(share, low)
    noise = 1 + WIDTH_NOISE * (1 + n_outputs / n) / n
    a, b = DEVIATES[n_floors] ** 2 * noise / n, 2 * share - 1
    # (share - new)^2 = 2 a m (1 - m), with m the mean of the two.
    gap = (a * b + math.sqrt((a * b) ** 2 + 8 * a * share * (1 - share) * (1 + a / 2))) / (2 + a)
    return wilson(max(0.0, share - gap), n).low


def deciding_interval(figure: Correlation | Rate, looks: int) -> Interval | None:
    """The figure's 95 % interval that holds in all of so many looks at growing labels together."""
    value, interval = figure.value, figure.interval
    if interval is None or looks == 1:
        return interval
    if isinstance(figure, Rate):
        end = max(interval.low, interval.high, key=lambda each: abs(each - value))
        return wilson(value, effective_outputs(value, end), looks)
    freedom = math.inf if figure.level == "system" else figure.n_documents - 1
    wider = student_quantile(freedom, looks) / student_quantile(freedom)
    z, *ends = np.arctanh(np.clip([value, interval.low, interval.high], -PERFECT, PERFECT))
    return Interval(*(math.tanh(z + wider * (end - z)) for end in ends))


def effective_outputs(share: float, end: float) -> float:
    """How many independent outputs have a Wilson interval with this end."""
    return student_quantile(math.inf) ** 2 * end * (1 - end) / (share - end) ** 2


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
    return rounded_up(max(1.0, further))


def rounded_up(number: float) -> int:
    """The number to two digits, since estimates of labels are no more exact."""
    unit: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit


def labels_to_decide(floors: Mapping[str, float], fails: float, errors: float) -> int | None:
    """How many independent labels show nine times of ten that a judge holds its floors.

    Floors are of TPR ("tpr") and TNR ("tnr"), `fails` is the share of fails, and `errors` how often
    the judge errs, as a share of what its floors allow. The number is exact for Wilson's intervals:
    their low end reaches a floor f where the share is f + z sqrt(f (1 - f) / n) or more. None for
    more than 100,000.
    """
    from scipy.special import bdtr, bdtrc

    def held(n: Codes, floor: float) -> Vector:
        reach = student_quantile(math.inf) * np.sqrt(n * floor * (1 - floor))
        least = np.ceil(n * floor + reach - 1e-9) if floor < 1 else n + 1
        chances = bdtrc(np.minimum(least - 1, n), n, 1 - errors * (1 - floor))
        return np.where(n >= FEW_OUTPUTS, chances, 0.0)

    def chance(n: int) -> float:
        reach = 6 * math.sqrt(n * fails * (1 - fails))
        n_fails = np.arange(max(0, int(n * fails - reach)), min(n, int(n * fails + reach)) + 1)
        chances = np.diff(bdtr(n_fails, n, fails), prepend=0)
        for numbers, name in ((n - n_fails, "tpr"), (n_fails, "tnr")):
            if name in floors:
                chances = chances * held(numbers, floors[name])
        return float(chances.sum())

    high = FEW_OUTPUTS
    while chance(high) < LIKELY:
        high *= 2
        if high > 2 * MOST_LABELS:
            return None
    return bisect_left(range(high), LIKELY, high // 2, key=chance)
