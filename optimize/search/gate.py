"""Which candidate dev supports, and whether it ships in place of the untuned judge.

The finalists are compared with the untuned judge document by document, by the paired permutation
test of `optimize.statistics.difference`. The chance that the best of several only looks better is
in the largest of their studentised differences over the same swaps (the max-statistic: exact in the
number compared and in how alike the finalists are, where a factor for the number alone would
overcharge near-twins). Test labels have no part in it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimize.statistics.difference import Contrast

# The chance that a judge ships which is no better than the untuned one.
RISK = 0.1
SWAPS = 2000
# What of the risk the test for fewer failures has, where there are failures: both keep to it
# together.
FAILURE_SHARE = 0.2
# On each side of a 95 % interval.
TAIL = 0.025
# A judge that fails on more of the outputs than this, and than the untuned judge, is not shipped.
MOST_FAILED = 0.1
# A tuned judge that is no worse and fails on so much less of the outputs ships for that.
FEWER_FAILED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A candidate's gain on the untuned judge, its error and its simultaneous interval.

    The interval lies above zero exactly where the test says that the gain is real.
    """

    value: float
    low: float
    high: float
    n_documents: int
    error: float = np.inf

    @property
    def is_clear(self) -> bool:
        """Whether the gain is more than chance: the one criterion of all that ships."""
        return self.low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCandidate:
    """One finalist beside the untuned judge on outputs that taught it nothing.

    `gain` is the contrast of their rho, `dev_gain` that on dev alone; `failure_reduction` the
    share of a document's outputs on which the untuned judge fails, less the finalist's;
    `failure_rate` and `seed_failure_rate` are shares of all outputs.
    """

    gain: Contrast
    dev_gain: Contrast
    failure_reduction: Contrast
    failure_rate: float
    seed_failure_rate: float
    # What an item costs with it, in whatever unit; only finalists of one run are compared.
    cost: float = 1.0

    @property
    def reliable(self) -> bool:
        return self.failure_rate <= max(MOST_FAILED, self.seed_failure_rate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The gate's decision: `best` is the finalists' index (None: there was none to choose).

    `why` says the decision and its reason; `gain` is the figure behind it. `limit_reached`: a
    larger limit may change it.
    """

    best: int | None
    ship: bool
    why: str
    gain: Gain | None = None
    limit_reached: bool = False


UNTUNED = "Shipped: the untuned judge."
GOES_ON = "The same command again with a larger limit goes on from there."


def undecided(n_tried: int) -> Choice:
    """The choice where the budget ended before dev could be judged."""
    why = (
        f"{UNTUNED} The budget ended before the best of {n_tried} candidates had been judged on "
        f"dev. {GOES_ON}"
    )
    return Choice(best=None, ship=False, why=why, limit_reached=True)


def too_dear(n_better: int, n_tried: int) -> Choice:
    """The choice where each candidate that did better costs more than dev and test can pay for."""
    why = (
        f"{UNTUNED} {n_better} of {n_tried} candidates did better on train, but judging dev and "
        f"test with any of them costs more than the limit. {GOES_ON}"
    )
    return Choice(best=None, ship=False, why=why, limit_reached=True)


def unmeasured(choice: Choice) -> Choice:
    """The choice where the budget ended before the tuned judge could be measured on test."""
    why = f"{UNTUNED} The budget ended before the tuned judge had been measured on test. {GOES_ON}"
    return replace(choice, best=None, ship=False, why=why, limit_reached=True)


def reason_of(choice: Choice) -> str:
    """Why the untuned judge ships, without saying that it does."""
    return choice.why.removeprefix(UNTUNED).strip()


def as_asked(choice: Choice) -> Choice:
    """The choice of a user who ships the tuned judge whatever the gate says, if there is one."""
    if choice.best is None or choice.ship:
        return choice
    why = f"Shipped: the tuned judge, by --ship tuned. {reason_of(choice)}"
    return replace(choice, ship=True, why=why)


def fewest_documents(risk: float) -> int:
    """How many documents can show a gain at this risk.

    Of n documents the best swap is one of 2 to the power of n, so the test can give no smaller
    chance than that: 4 documents give 1/16, which .10 allows, and 6 give 1/64, which .025 does.
    """
    return max(2, math.ceil(-math.log2(risk * (1 - FAILURE_SHARE))))


# Of a panel, whose gain has to lie above zero by a 95 % interval.
FEWEST_DOCUMENTS = fewest_documents(TAIL)


def gains(
    contrasts: Sequence[Contrast], rng: np.random.Generator, tail: float = TAIL
) -> list[Gain]:
    """One simultaneous interval a contrast.

    All lows hold together with probability 1 - tail, and all highs likewise. A gain's low end lies
    above zero where fewer than `tail` of the swaps have a studentised difference as large, of any
    of the contrasts.
    """
    documents = sorted({name for contrast in contrasts for name in contrast.documents})
    column_of = {name: index for index, name in enumerate(documents)}
    signs = rng.choice([-1.0, 1.0], (SWAPS, len(documents)))
    # The documents as they are, too, are one of the draws.
    signs = np.vstack([np.ones((1, len(documents))), signs])
    testable = [contrast for contrast in contrasts if len(contrast.documents) > 1]
    critical_value = np.inf
    if testable:
        swapped = [
            contrast.swapped(signs[:, [column_of[name] for name in contrast.documents]])
            for contrast in testable
        ]
        largest = np.sort(np.max(swapped, axis=0))[::-1]
        # A little more, because what equals it by the order of a sum is not beyond it.
        critical_value = float(largest[int(tail * len(largest))]) * (1 + 1e-9)
    half_widths = [
        critical_value * contrast.error if len(contrast.documents) > 1 else np.inf
        for contrast in contrasts
    ]
    return [
        Gain(
            value=contrast.value,
            low=contrast.value - half_width,
            high=contrast.value + half_width,
            n_documents=len(contrast.documents),
            error=contrast.error,
        )
        for contrast, half_width in zip(contrasts, half_widths, strict=True)
    ]


# How much better the finalist of the first index is than that of the second.
Shortfall = Callable[[int, int], Contrast]


def choose(
    finalists: Sequence[ComparedCandidate],
    n_tried: int,
    rng: np.random.Generator,
    shortfall: Shortfall | None = None,
    risk: float = RISK,
) -> Choice:
    """Ship the finalist whose gain has the highest low end, if that lies above zero.

    `risk` is the chance that a finalist ships though none is better than the untuned judge. With
    `shortfall`, of those whose gain is clear the best by it, or the cheapest to use that is not
    more than a standard error worse: a judge is paid for again with every row it ever judges.

    One whose gain rests on train as well (a judge that train has not chosen) has to gain on dev
    alone, too. A finalist that fails on too many outputs is passed over; one that fails on clearly
    fewer than the untuned judge ships for that, if it is not worse: of the risk, that test has a
    share.
    """
    eligible = [index for index, compared in enumerate(finalists) if compared.reliable]
    if not eligible:
        why = f"None of {n_tried} candidates did better on train."
        if not n_tried:
            why = "No candidate could be tried."
        if finalists:
            least = min(compared.failure_rate for compared in finalists)
            why = f"Every finalist fails on {least:.0%} of the outputs or more."
        return Choice(best=None, ship=False, why=f"{UNTUNED} {why}")
    # Whether any could ship for failing less, which does not tell who failed: swaps leave it so.
    has_failures = any(
        finalists[index].failure_rate + finalists[index].seed_failure_rate >= FEWER_FAILED
        for index in eligible
    )
    tail = risk * (1 - FAILURE_SHARE) if has_failures else risk
    intervals = gains([finalists[index].gain for index in eligible], rng, tail)
    lows = [-np.inf if np.isnan(gain.low) else gain.low for gain in intervals]
    first = max(range(len(eligible)), key=lambda place: (lows[place], -place))
    if shortfall is not None and intervals[first].is_clear:
        clear = [
            index
            for index, gain in zip(eligible, intervals, strict=True)
            if gain.is_clear and finalists[index].dev_gain.value > 0
        ]
        first = eligible.index(_cheapest_as_good(clear or [eligible[first]], finalists, shortfall))
    gain, finalist = intervals[first], finalists[eligible[first]]
    fails_less = _fails_clearly_less(finalist, rng, risk)
    better = (gain.is_clear and finalist.dev_gain.value > 0) or fails_less
    where = f"On {gain.n_documents} documents held out from its prompt"
    at_risk = f"(risk of a false claim: {100 * risk:g}%)"
    kept = Choice(best=eligible[first], ship=False, why="", gain=gain)
    if np.isnan(gain.value) or gain.n_documents < fewest_documents(risk):
        why = (
            f"{gain.n_documents} documents are too few to compare it with the tuned judge; "
            f"{fewest_documents(risk)} are the least {at_risk}."
        )
        return replace(kept, why=f"{UNTUNED} {why}")
    if not better and gain.value <= 0:
        why = f"{UNTUNED} {where} the tuned judge does no better."
        return replace(kept, why=why)
    if not better:
        why = f"{UNTUNED} {where} the tuned judge does not clearly beat it {at_risk}."
        return replace(kept, why=why)
    beats = "it beats the untuned judge"
    if fails_less:
        beats = (
            f"it fails on {finalist.failure_rate:.0%} of the outputs, and the untuned judge on "
            f"{finalist.seed_failure_rate:.0%}"
        )
    why = f"Shipped: the tuned judge. {where} {beats} {at_risk}."
    return replace(kept, ship=True, why=why)


def _cheapest_as_good(
    clear: Sequence[int], finalists: Sequence[ComparedCandidate], shortfall: Shortfall
) -> int:
    """Of these finalists, the cheapest that is within a standard error of the best."""
    best = clear[0]
    for index in clear[1:]:
        if shortfall(index, best).value > 0:
            best = index
    as_good = [best]
    for index in clear:
        gap = shortfall(best, index)
        if gap.value <= gap.error:
            as_good.append(index)
    return min(as_good, key=lambda index: (finalists[index].cost, index != best))


def _fails_clearly_less(finalist: ComparedCandidate, rng: np.random.Generator, risk: float) -> bool:
    """Whether it fails on clearly fewer outputs, and is not worse on the others."""
    not_worse = finalist.gain.value + finalist.gain.error >= 0
    if not not_worse or not finalist.failure_reduction.value >= FEWER_FAILED:
        return False
    (fewer,) = gains([finalist.failure_reduction], rng, FAILURE_SHARE * risk)
    return fewer.is_clear
