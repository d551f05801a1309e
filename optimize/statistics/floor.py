"""Floors: whether a figure holds one, which floor to offer, and how many labels would decide.

A judge that stays as good as today holds an offered floor nine times of ten on as many new labels.
To compute the floor, take the value below which the figure on new labels falls in one of ten cases,
and then the low end of its interval. Today's and the new figure have the same error around the same
true value, so their difference has twice the variance of either.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from optimize.statistics.correlations import Codes, Correlation
from optimize.statistics.intervals import PERFECT, Interval, Vector, student_quantile
from optimize.statistics.two_values import FEW_OUTPUTS, Rate, wilson

# Larger numbers of further outputs, and of labels in all, are not reported.
MOST_FURTHER, MOST_LABELS = 10_000, 100_000
# Labels are planned so that a decision has this chance, for judges that err half as often as their
# floors allow, and three quarters as often. For floors of .8, the true rates are .9 and .85.
LIKELY, ERRORS = 0.9, (0.5, 0.75)
# Normal quantiles, by the number of floors that all hold nine times of ten.
DEVIATES = {1: 1.281552, 2: 1.632219}
# The relative error of each interval's width is 1 / sqrt(2 f), where f is the effective number of
# outputs divided by 1 + the design effect. To first order this increases the variance of the
# difference by a share of 4.5 / f (one floor) or 5.5 / f (two floors).
WIDTH_NOISE = 5


def correlation_floor(value: float, low: float) -> float:
    """The floor to offer for a correlation whose interval has the low end `low`, on Fisher's z."""
    z, end = math.atanh(value), math.atanh(low)
    return math.tanh(end - math.sqrt(2) * DEVIATES[1] / student_quantile(math.inf) * (z - end))


def share_floor(share: float, low: float, n_outputs: int, n_floors: int) -> float:
    """The floor to offer for a share of `n_outputs` whose Wilson interval has the low end `low`.

    The low end determines how many independent outputs would give the same interval. Today's and
    the new share are both given the variance at their mean. `n_floors` floors have to hold at once.
    """
    n = effective_outputs(share, low)
    noise = 1 + WIDTH_NOISE * (1 + n_outputs / n) / n
    a, b = DEVIATES[n_floors] ** 2 * noise / n, 2 * share - 1
    # Solves (share - new)^2 = 2 a m (1 - m), where m is the mean of the two shares.
    root = math.sqrt((a * b) ** 2 + 8 * a * share * (1 - share) * (1 + a / 2))
    return wilson(max(0.0, share - (a * b + root) / (2 + a)), n).low


def deciding_interval(figure: Correlation | Rate, looks: int) -> Interval | None:
    """The figure's 95 % interval that holds in all of `looks` looks at growing labels together."""
    value, interval = figure.value, figure.interval
    if interval is None or looks == 1:
        return interval
    if isinstance(figure, Rate):
        end = max(interval.low, interval.high, key=lambda bound: abs(bound - value))
        return wilson(value, effective_outputs(value, end), looks)
    freedom = math.inf if figure.level == "system" else figure.n_documents - 1
    widening = student_quantile(freedom, looks) / student_quantile(freedom)
    z, *ends = np.arctanh(np.clip([value, interval.low, interval.high], -PERFECT, PERFECT))
    return Interval(*(math.tanh(z + widening * (end - z)) for end in ends))


def effective_outputs(share: float, end: float) -> float:
    """How many independent outputs would give the share a Wilson interval with this end."""
    return student_quantile(math.inf) ** 2 * end * (1 - end) / (share - end) ** 2


def outcome(interval: Interval | None, floor: float) -> str:
    """Whether the interval is above the floor ("holds"), below ("falls short") or undecided."""
    if interval is None or interval.low < floor <= interval.high:
        return "undecided"
    return "holds" if interval.low >= floor else "falls short"


def further_outputs(share: float, low: float, high: float, floor: float, n: int) -> int | None:
    """About how many more outputs move an end of a share's Wilson interval to the floor.

    The share is assumed to stay the same. With n outputs, an end e of the interval satisfies
    (share - e)^2 = z^2 e (1 - e) / n. None if no number of outputs suffices, or more than
    `MOST_FURTHER` are needed.
    """
    end = low if floor < share else high
    if share in (floor, end) or not 0 < end < 1:
        return None
    growth = (share - end) ** 2 / (end * (1 - end)) * floor * (1 - floor) / (share - floor) ** 2
    further = n * (growth - 1)
    if further > MOST_FURTHER:
        return None
    return rounded_up(max(1.0, further))


def rounded_up(number: float) -> int:
    """The number rounded up to two digits, since estimates of labels are not more exact."""
    step: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(number / step) * step


def labels_to_decide(floors: Mapping[str, float], fails: float, errors: float) -> int | None:
    """How many independent labels show nine times of ten that a judge holds its floors.

    `floors` has keys "tpr" and "tnr". `fails` is the share of fails among the labels. `errors` is
    how often the judge errs, relative to the most that its floors allow. The number is exact for
    Wilson's intervals: their low end reaches a floor f if the share is at least
    f + z sqrt(f (1 - f) / n). None for more than 100,000 labels.
    """
    from scipy.special import bdtr, bdtrc

    def chance_to_hold(n: Codes, floor: float) -> Vector:
        reach = student_quantile(math.inf) * np.sqrt(n * floor * (1 - floor))
        fewest_right = np.ceil(n * floor + reach - 1e-9) if floor < 1 else n + 1
        chances = bdtrc(np.minimum(fewest_right - 1, n), n, 1 - errors * (1 - floor))
        return np.where(n >= FEW_OUTPUTS, chances, 0.0)

    def chance(n: int) -> float:
        reach = 6 * math.sqrt(n * fails * (1 - fails))
        n_fails = np.arange(max(0, int(n * fails - reach)), min(n, int(n * fails + reach)) + 1)
        chances = np.diff(bdtr(n_fails, n, fails), prepend=0)
        for n_of_class, name in ((n - n_fails, "tpr"), (n_fails, "tnr")):
            if name in floors:
                chances = chances * chance_to_hold(n_of_class, floors[name])
        return float(chances.sum())

    high = FEW_OUTPUTS
    while chance(high) < LIKELY:
        high *= 2
        if high > 2 * MOST_LABELS:
            return None
    return bisect_left(range(high), LIKELY, high // 2, key=chance)
