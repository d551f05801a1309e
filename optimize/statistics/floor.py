"""Floors for a statistic: whether a judge holds one, which to suggest, how many labels to plan.

A floor is the lowest acceptable value. A judge holds a floor if the whole interval of its statistic
is above the floor. A judge that stays as good as today holds a suggested floor on as many new
labels with a probability of 90 %: the floor is the low end of the interval around the value below
which the statistic on new labels falls with a probability of 10 %. Today's statistic and the
statistic on new labels have the same standard error around the same true value, so their difference
has twice the variance.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np

from optimize.statistics.correlations import Correlation
from optimize.statistics.intervals import MIN_PERFECT, Codes, Interval, Vector, student_quantile
from optimize.statistics.verdict_rates import MIN_OUTPUTS_FOR_RATES, Rate, wilson_interval

# Upper bounds on the numbers that are reported: further labels, and labels in total.
MAX_FURTHER_LABELS, MAX_LABELS = 10_000, 100_000
# Labels are planned so that a judge holds its floors with the probability `PLANNED_POWER`, if it
# errs half or three quarters as often as the floors allow: with floors of .8, at rates of .9 and
# .85.
PLANNED_POWER, ERROR_RATIOS = 0.9, (0.5, 0.75)
# Normal quantiles: with a probability of 90 %, the one floor for rho holds, and both floors for TPR
# and TNR hold.
QUANTILE_OF_ONE_FLOOR, QUANTILE_OF_TWO_FLOORS = 1.281552, 1.632219
# The width of an interval is itself an estimate, with a relative error of 1 / sqrt(2 f); f is the
# effective number of outputs divided by (1 + the design effect). So the figure on new labels varies
# more against the floor: to first order its variance grows by 1 + 4.5 / f, with two floors by 1 +
# 5.5 / f.
WIDTH_NOISE = 5


def suggested_rho_floor(value: float, low: float) -> float:
    """Return the suggested floor for a correlation whose interval has the low end `low`."""
    z, low_z = math.atanh(value), math.atanh(low)
    standard_error = (z - low_z) / student_quantile(math.inf)
    return math.tanh(low_z - math.sqrt(2) * QUANTILE_OF_ONE_FLOOR * standard_error)


def suggested_rate_floor(share: float, low: float, n_outputs: int) -> float:
    """Return the suggested floor for TPR or TNR, whose Wilson interval has the low end `low`.

    The effective number of outputs follows from the low end. Both variances are computed at the
    mean of today's share and the share on new labels.
    """
    n_effective = n_outputs_from_interval(share, low)
    variance_factor = 1 + WIDTH_NOISE * (1 + n_outputs / n_effective) / n_effective
    a, b = QUANTILE_OF_TWO_FLOORS**2 * variance_factor / n_effective, 2 * share - 1
    # The solution for `new` of (share - new)^2 = 2 a m (1 - m), where m = (share + new) / 2.
    discriminant_root = math.sqrt((a * b) ** 2 + 8 * a * share * (1 - share) * (1 + a / 2))
    return wilson_interval(max(0.0, share - (a * b + discriminant_root) / (2 + a)), n_effective).low


def interval_for_looks(figure: Correlation | Rate, looks: int) -> Interval | None:
    """Return the 95 % interval of a statistic, widened so that all looks hold together."""
    value, interval = figure.value, figure.interval
    if interval is None or looks == 1:
        return interval
    if isinstance(figure, Rate):
        end = max(interval.low, interval.high, key=lambda bound: abs(bound - value))
        return wilson_interval(value, n_outputs_from_interval(value, end), looks)
    freedom = math.inf if figure.level == "system" else figure.n_documents - 1
    widening = student_quantile(freedom, looks) / student_quantile(freedom)
    z, *ends = np.arctanh(np.clip([value, interval.low, interval.high], -MIN_PERFECT, MIN_PERFECT))
    return Interval(*(math.tanh(z + widening * (end - z)) for end in ends))


def n_outputs_from_interval(share: float, interval_end: float) -> float:
    """Return for how many independent outputs the Wilson interval of `share` has this end."""
    z = student_quantile(math.inf)
    return z**2 * interval_end * (1 - interval_end) / (share - interval_end) ** 2


def check_floor(interval: Interval | None, floor: float) -> str:
    """Return whether a judge "holds" the floor, "falls short" of it, or is "undecided"."""
    if interval is None or interval.low < floor <= interval.high:
        return "undecided"
    return "holds" if interval.low >= floor else "falls short"


def labels_to_add(figure: Correlation | Rate, floor: float) -> int | None:
    """Return about how many more outputs (for rho, documents) would decide whether a floor holds.

    With that many outputs, the end of the interval that is nearer to the floor reaches the floor,
    if the figure stays the same. With n outputs, an end e of a share's Wilson interval satisfies
    (share - e)^2 = z^2 e (1 - e) / n; on Fisher's z, the width of rho's interval falls with the
    root of n. The result is None if no number suffices, or if more than `MAX_FURTHER_LABELS` are
    needed.
    """
    value, interval = figure.value, figure.interval
    if interval is None or (isinstance(figure, Correlation) and figure.level == "system"):
        return None
    nearer_end = interval.low if floor < value else interval.high
    if value in (floor, nearer_end):
        return None
    if isinstance(figure, Rate):
        if not 0 < nearer_end < 1:
            return None
        n = figure.n
        growth_factor = n_outputs_from_interval(value, floor) / n_outputs_from_interval(
            value, nearer_end
        )
    else:
        n = figure.n_documents
        z, z_end, z_floor = np.arctanh(
            np.clip([value, nearer_end, floor], -MIN_PERFECT, MIN_PERFECT)
        )
        growth_factor = float(((z - z_end) / (z - z_floor)) ** 2)
    n_further = n * (growth_factor - 1)
    return None if n_further > MAX_FURTHER_LABELS else round_up_to_two_digits(max(1.0, n_further))


def round_up_to_two_digits(number: float) -> int:
    """Round up to two significant digits, because planned numbers of labels are not more exact."""
    rounding_unit: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(round(number / rounding_unit, 9)) * rounding_unit


def labels_to_decide(
    floors: Mapping[str, float], fail_share: float, error_ratio: float
) -> int | None:
    """Return how many independent labels decide that a judge holds its floors; None over 100,000.

    With that many labels, the judge holds all of its `floors` ("tpr" and "tnr") with a probability
    of 90 % (`PLANNED_POWER`). `fail_share` is the share of fails among the labels, and
    `error_ratio` is the judge's true error rates, divided by those that its floors allow. The
    number is exact for Wilson's intervals, whose low end reaches a floor f if the share is at least
    f + z sqrt(f (1 - f) / n).
    """
    from scipy.special import bdtr, bdtrc

    def probability_to_hold(n: Codes, floor: float) -> Vector:
        margin = student_quantile(math.inf) * np.sqrt(n * floor * (1 - floor))
        fewest_right = np.ceil(n * floor + margin - 1e-9) if floor < 1 else n + 1
        probabilities = bdtrc(np.minimum(fewest_right - 1, n), n, 1 - error_ratio * (1 - floor))
        return np.where(n >= MIN_OUTPUTS_FOR_RATES, probabilities, 0.0)

    def probability_to_hold_all(n: int) -> float:
        # Numbers of fails that are more than six standard deviations off have no probability.
        mean = n * fail_share
        margin = 6 * math.sqrt(mean * (1 - fail_share))
        n_fails = np.arange(max(0, int(mean - margin)), min(n, int(mean + margin)) + 1)
        probabilities = np.diff(bdtr(n_fails, n, fail_share), prepend=0)
        for n_of_class, name in ((n - n_fails, "tpr"), (n_fails, "tnr")):
            if name in floors:
                probabilities = probabilities * probability_to_hold(n_of_class, floors[name])
        return float(probabilities.sum())

    upper_bound = MIN_OUTPUTS_FOR_RATES
    while probability_to_hold_all(upper_bound) < PLANNED_POWER:
        if upper_bound >= MAX_LABELS:
            return None
        upper_bound = min(2 * upper_bound, MAX_LABELS)
    return bisect_left(
        range(upper_bound), PLANNED_POWER, upper_bound // 2, key=probability_to_hold_all
    )
