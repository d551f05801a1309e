"""Floors for the figures of a judge in CI: check them, suggest them, and plan labels to check them.

A floor is the lowest acceptable value of a figure, such as a judge's TPR, TNR or rho. The judge
"holds" a floor if the whole interval of the figure is above it.

A judge that stays as good as today holds a suggested floor on as many new labels with a probability
of 90 %. With a probability of 10 %, the figure on new labels is below a certain value. The
suggested floor is the low end of the interval around this value. The figures on today's and on new
labels have the same standard error, so their difference has twice the variance.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from optimize.statistics.correlations import Correlation
from optimize.statistics.intervals import (
    MIN_DOCUMENTS_FOR_INTERVAL,
    MIN_PERFECT,
    Codes,
    Interval,
    Vector,
    student_quantile,
)
from optimize.statistics.verdict_rates import (
    MIN_OUTPUTS_FOR_RATES,
    Rate,
    VerdictAgreement,
    wilson_interval,
)

FloorOutcome = Literal["holds", "falls short", "undecided"]
# With fewer documents, dataset-level rho on new labels often has no interval.
MIN_DOCUMENTS_FOR_RHO_FLOOR = 100
# With fewer documents that have several outputs, the width of an interval is too uncertain.
MIN_DOCUMENTS_FOR_FLOOR = 2 * MIN_DOCUMENTS_FOR_INTERVAL

# The largest numbers that are reported: of labels to add, and of labels in total.
MAX_FURTHER_LABELS, MAX_LABELS = 10_000, 100_000
# The number of labels is planned so that a judge holds its floors with this probability, if it errs
# half or three quarters as often as the floors allow. With a floor of .8, its rate is .9 or .85.
PLANNED_POWER, ERROR_RATIOS = 0.9, (0.5, 0.75)
# Normal quantiles for a probability of 90 %: that a judge holds its floor for rho, and that it
# holds both its floors, for TPR and TNR.
QUANTILE_OF_ONE_FLOOR, QUANTILE_OF_TWO_FLOORS = 1.281552, 1.632219
# The width of an interval is itself an estimate, so a figure's distance from its floor varies more:
# to first order, its variance is 1 + WIDTH_NOISE / f times as large (4.5 for one floor, 5.5 for
# two). Here, f is the effective number of outputs divided by 1 + the design effect, and the width's
# relative error is 1 / sqrt(2 f).
WIDTH_NOISE = 5


def suggested_floors(figures: Correlation | VerdictAgreement) -> dict[str, float]:
    """Return floors for a judge with these figures: "spearman", or "tpr" and "tnr".

    On as many new labels, an equally good judge passes the floors in nine of ten cases. There is no
    floor if labels are so few that figures on as many new labels may have no interval.
    """
    if isinstance(figures, VerdictAgreement):
        rates = {"tpr": figures.tpr, "tnr": figures.tnr}
        floors = {name: suggested_rate_floor(rate) for name, rate in rates.items()}
    else:
        floors = {"spearman": suggested_rho_floor(figures)}
    floors = {name: math.floor(100 * floor) / 100 for name, floor in floors.items()}
    # A judge that decides at random has a rho of 0, or a TPR and TNR whose sum is 1.
    return floors if sum(floors.values()) > len(floors) - 1 else {}


def suggested_rho_floor(rho: Correlation) -> float:
    """Return the suggested floor for a rho; 0 if labels are too few to suggest one."""
    is_dataset_level = rho.level == "dataset"
    n_required = MIN_DOCUMENTS_FOR_RHO_FLOOR if is_dataset_level else MIN_DOCUMENTS_FOR_FLOOR
    if rho.interval is None or rho.n_documents < n_required:
        return 0.0
    z, low_z = math.atanh(rho.value), math.atanh(rho.interval.low)
    standard_error = (z - low_z) / student_quantile(math.inf)
    return math.tanh(low_z - math.sqrt(2) * QUANTILE_OF_ONE_FLOOR * standard_error)


def suggested_rate_floor(rate: Rate) -> float:
    """Return the suggested floor for a TPR or TNR; 0 if labels are too few to suggest one.

    With a probability of 10 %, the rate on new labels is below `new`, which solves the quadratic
    equation (rate - new)^2 = 2 a m (1 - m). Here a is the squared quantile divided by the effective
    number of outputs, and both variances are computed at m = (rate + new) / 2. The code writes b
    for 2 rate - 1.
    """
    share, interval, n_documents = rate.value, rate.interval, rate.n_documents or 0
    has_single_outputs = n_documents == rate.n
    n_required = 2 * MIN_OUTPUTS_FOR_RATES if has_single_outputs else MIN_DOCUMENTS_FOR_FLOOR
    if interval is None or interval.low == 0 or n_documents < n_required:
        return 0.0
    n_effective = n_outputs_from_interval(share, interval.low)
    variance_factor = 1 + WIDTH_NOISE * (1 + rate.n / n_effective) / n_effective
    a, b = QUANTILE_OF_TWO_FLOORS**2 * variance_factor / n_effective, 2 * share - 1
    discriminant_root = math.sqrt((a * b) ** 2 + 8 * a * share * (1 - share) * (1 + a / 2))
    new_share = share - (a * b + discriminant_root) / (2 + a)
    return wilson_interval(max(0.0, new_share), n_effective).low


def interval_for_looks(figure: Correlation | Rate, looks: int) -> Interval | None:
    """Return a figure's 95 % interval, widened for `looks` looks while labels are added."""
    value, interval = figure.value, figure.interval
    if interval is None or looks == 1:
        return interval
    if isinstance(figure, Rate):
        farther_end = interval.low if value > 0.5 else interval.high
        return wilson_interval(value, n_outputs_from_interval(value, farther_end), looks)
    degrees_of_freedom = math.inf if figure.level == "system" else figure.n_documents - 1
    widening = student_quantile(degrees_of_freedom, looks) / student_quantile(degrees_of_freedom)
    z, *end_zs = _fisher_z(value, interval.low, interval.high)
    return Interval(*(math.tanh(z + widening * (end_z - z)) for end_z in end_zs))


def _fisher_z(*correlations: float) -> Vector:
    """Return Fisher's z of each correlation, which is finite for a perfect correlation, too."""
    return np.asarray(np.arctanh(np.clip(correlations, -MIN_PERFECT, MIN_PERFECT)))


def n_outputs_from_interval(share: float, interval_end: float) -> float:
    """Return the number of outputs with which a share's 95 % Wilson interval ends at `end`."""
    z = student_quantile(math.inf)
    return z**2 * interval_end * (1 - interval_end) / (share - interval_end) ** 2


def check_floor(interval: Interval | None, floor: float) -> FloorOutcome:
    """Return whether a judge "holds" a floor, "falls short" of it, or this is "undecided"."""
    if interval is None or interval.low < floor <= interval.high:
        return "undecided"
    return "holds" if interval.low >= floor else "falls short"


def labels_to_add(figure: Correlation | Rate, floor: float) -> int | None:
    """Return about how many more labels would decide whether a judge is above a floor.

    The result counts outputs; for rho, it counts documents. If the figure stays the same, this many
    labels move the nearer end of the figure's interval to the floor. On Fisher's z, the width of
    rho's interval is proportional to 1 / sqrt(documents). The result is None if no number of labels
    suffices, or if more than `MAX_FURTHER_LABELS` are needed.
    """
    value, interval = figure.value, figure.interval
    if interval is None:
        return None
    nearer_end = interval.low if floor < value else interval.high
    if value in (floor, nearer_end):
        return None
    if isinstance(figure, Rate):
        if not 0 < nearer_end < 1:
            return None
        n_needed = n_outputs_from_interval(value, floor)
        growth_factor = n_needed / n_outputs_from_interval(value, nearer_end)
        n_so_far = figure.n
    else:
        if figure.level == "system":
            return None
        z, z_end, z_floor = _fisher_z(value, nearer_end, floor)
        growth_factor = float(((z - z_end) / (z - z_floor)) ** 2)
        n_so_far = figure.n_documents
    n_further = n_so_far * (growth_factor - 1)
    return None if n_further > MAX_FURTHER_LABELS else round_up_to_two_digits(max(1.0, n_further))


def round_up_to_two_digits(number: float) -> int:
    """Round up to two significant digits, because planned numbers of labels are not more exact."""
    rounding_unit: int = 10 ** max(0, math.floor(math.log10(number)) - 1)
    return math.ceil(round(number / rounding_unit, 9)) * rounding_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsNeeded:
    """How many independent labels show that a judge's TPR and TNR lie above their floors.

    `n_labels` maps a judge's true rates to the labels needed, or to None if too many are needed.
    One such judge errs half as often as the floors allow, the other three quarters as often.
    """

    floors: Mapping[str, float]
    fail_share: float = field(metadata={"json": "fails"})
    n_labels: Mapping[str, int | None]

    def __str__(self) -> str:
        floors_text = " and ".join(f"{name.upper()} {rate:g}" for name, rate in self.floors.items())
        texts = []
        for rates_text, n in self.n_labels.items():
            n_text = "too many" if n is None else f"{round_up_to_two_digits(n):,}"
            texts.append(f"{n_text} labels for a judge of {rates_text}")
        return (
            f"Floors of {floors_text} take {', '.join(texts)} ({self.fail_share:.0%} fails, a "
            f"chance of {PLANNED_POWER:.0%}, independent outputs)"
        )


def labels_needed_for_floors(floors: Mapping[str, float], fail_share: float) -> LabelsNeeded:
    """Return how many labels show rates above their floors, if `fail_share` of them are fails."""
    n_labels = {}
    for error_ratio in ERROR_RATIOS:
        rates = {name: 1 - error_ratio * (1 - value) for name, value in floors.items()}
        rates_text = " and ".join(f"{name.upper()} {rate:.3g}" for name, rate in rates.items())
        n_labels[rates_text] = labels_to_decide(floors, fail_share, error_ratio)
    return LabelsNeeded(floors=floors, fail_share=fail_share, n_labels=n_labels)


def labels_to_decide(
    floors: Mapping[str, float], fail_share: float, error_ratio: float
) -> int | None:
    """Return how many independent labels show that a judge is above its floors for TPR and TNR.

    On this many labels, the judge is above all `floors` ("tpr" and "tnr") with a probability of
    90 % (`PLANNED_POWER`). `fail_share` is the share of fails among the labels. `error_ratio` is
    the judge's true error rates, divided by the error rates that its floors allow. The number is
    exact for Wilson's intervals, whose low end reaches a floor f if the share is at least
    f + z sqrt(f (1 - f) / n). The result is None if it is larger than `MAX_LABELS`.
    """
    from scipy.special import bdtr, bdtrc

    def probability_above(n: Codes, floor: float) -> Vector:
        margin = student_quantile(math.inf) * np.sqrt(n * floor * (1 - floor))
        min_n_right = np.ceil(n * floor + margin - 1e-9) if floor < 1 else n + 1
        probabilities = bdtrc(np.minimum(min_n_right - 1, n), n, 1 - error_ratio * (1 - floor))
        return np.where(n >= MIN_OUTPUTS_FOR_RATES, probabilities, 0.0)

    def probability_above_all(n: int) -> float:
        # Numbers of fails more than six standard deviations from their mean hardly ever occur.
        mean = n * fail_share
        margin = 6 * math.sqrt(mean * (1 - fail_share))
        n_fails = np.arange(max(0, int(mean - margin)), min(n, int(mean + margin)) + 1)
        probabilities = np.diff(bdtr(n_fails, n, fail_share), prepend=0)
        n_by_rate = {"tpr": n - n_fails, "tnr": n_fails}
        for name, floor in floors.items():
            probabilities *= probability_above(n_by_rate[name], floor)
        return float(probabilities.sum())

    upper_bound = MIN_OUTPUTS_FOR_RATES
    while probability_above_all(upper_bound) < PLANNED_POWER:
        if upper_bound >= MAX_LABELS:
            return None
        upper_bound = min(2 * upper_bound, MAX_LABELS)
    numbers = range(upper_bound)
    return bisect_left(numbers, PLANNED_POWER, upper_bound // 2, key=probability_above_all)
