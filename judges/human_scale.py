"""Scores beside people's ratings: when mean or spread differ enough to say so, and the words."""

import math
from dataclasses import dataclass

# What is worth a warning: so many of people's standard deviations between the means, and so many
# times the other's standard deviation.
MIN_SHIFT, MIN_SPREAD = 0.25, 1.25
Z = 1.96  # 95 % of a normal distribution lie so many standard errors around its mean


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratings:
    """The ratings a judge was tuned on; `constructed` ones no person gave."""

    mean: float
    sd: float
    n: int
    constructed: bool = False


def is_shifted(shift: float, low: float, high: float, human_sd: float) -> bool:
    """Whether means differ by more than chance ([low, high]), and by a quarter of people's SD."""
    return not low <= 0 <= high and abs(shift) >= MIN_SHIFT * human_sd


def is_spread_differently(spread: float, low: float, high: float) -> bool:
    """Whether SDs differ by more than chance ([low, high]), and one is a quarter more."""
    return not low <= 1 <= high and not 1 / MIN_SPREAD < spread < MIN_SPREAD


def differences(
    mean: float,
    sd: float,
    human_mean: float,
    human_sd: float,
    *,
    shifted: bool,
    spread_differently: bool,
    theirs: str = "people's",
) -> str:
    """What differs between scores and ratings, in words; nothing where neither does."""
    parts = []
    if shifted:
        side = "higher" if mean > human_mean else "lower"
        parts.append(
            f"its mean is {mean:.2f}, {theirs} {human_mean:.2f} "
            f"({abs(mean - human_mean):.2f} {side})"
        )
    if spread_differently:
        side = "more" if sd > human_sd else "less"
        parts.append(
            f"its scores are {side} spread out (standard deviation {sd:.2f}, "
            f"{theirs} {human_sd:.2f})"
        )
    return ", and ".join(parts)


def differences_from(people: Ratings, mean: float, sd: float, n: int) -> str:
    """`differences` of scores and ratings of other texts, each output on its own."""
    if n < 2 or people.n < 2 or not (sd > 0 and people.sd > 0):
        return ""
    shift, spread = mean - people.mean, sd / people.sd
    reach = Z * math.hypot(sd / math.sqrt(n), people.sd / math.sqrt(people.n))
    # Of the logarithm of a normal sample's standard deviation.
    factor = math.exp(Z * math.sqrt(0.5 / n + 0.5 / people.n))
    return differences(
        mean,
        sd,
        people.mean,
        people.sd,
        shifted=is_shifted(shift, shift - reach, shift + reach, people.sd),
        spread_differently=is_spread_differently(spread, spread / factor, spread * factor),
        theirs="the labels'" if people.constructed else "people's",
    )
