"""Which candidate dev supports, and whether the support suffices to ship it instead of the seed.

The finalists are compared with the seed document by document, by the paired permutation test of
`optimize.statistics.difference`. The chance that the best of several only looks better is priced by
the largest of their studentised differences over the same swaps (the max-statistic: exact in the
number tried and in how alike the finalists are, where a factor for the number alone would
overcharge near-twins). Test labels have no part in it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimize.statistics.difference import Contrast

SWAPS = 2000
# One-sided: with a 95 % interval, two and a half of a hundred worthless winners would pass.
TAIL = 0.025
# What of it the test for fewer failures has, where there are failures: both keep to it together.
FAILURE_TAIL = 0.005
# Of five documents one swap in 32 does as well as the best can: more than the tail allows.
FEWEST_DOCUMENTS = 6
# A judge that fails on more of the outputs than this, and than the seed, is not shipped.
MOST_FAILED = 0.1
# A tuned judge that is no worse and fails on so much less of the outputs ships for that.
FEWER_FAILED = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A candidate's gain on the seed over documents, its error and its simultaneous interval.

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
    """One finalist beside the seed on outputs that taught it nothing.

    `gain` is the contrast of their rho, `dev_gain` that on dev alone; `unseen` how much better it
    places outputs of systems that nothing was learned from (None: there are none);
    `failure_reduction` the share of a document's outputs on which the seed fails, less the
    finalist's; `failure_rate` and `seed_failure_rate` are shares of all outputs.
    """

    gain: Contrast
    dev_gain: Contrast
    unseen: Contrast | None = None
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

    `evidence` are the figures that it rests on, `verdict` what follows from them.
    """

    best: int | None
    ship: bool
    verdict: str
    evidence: str = ""
    gain: Gain | None = None
    unseen: Gain | None = None

    @property
    def why(self) -> str:
        """The decision in a sentence."""
        return f"{self.evidence}: {self.verdict}" if self.evidence else self.verdict


SHIPPED = "the tuned judge is shipped"
NOT_CLEAR = "no clear gain, so the seed is kept"


def undecided(n_tried: int) -> Choice:
    """The choice where the budget ended before dev could be judged."""
    verdict = (
        f"the budget ended before the best of {n_tried} candidates had been judged on dev, so the "
        "seed is kept; a larger one and --resume go on from there"
    )
    return Choice(best=None, ship=False, verdict=verdict)


def too_dear(n_better: int, n_tried: int) -> Choice:
    """The choice where each candidate that did better costs more than dev and test can pay for."""
    verdict = (
        f"{n_better} of {n_tried} candidates did better than the seed on train, but judging with "
        "any of them costs more than the limit pays for on dev and test, so the seed is kept; a "
        "larger one and --resume go on from there"
    )
    return Choice(best=None, ship=False, verdict=verdict)


def unmeasured(choice: Choice) -> Choice:
    """The choice where the budget ended before the tuned judge could be measured on test."""
    verdict = (
        "the budget ended before the tuned judge had been measured on test, so the seed is kept; a "
        f"larger one and --resume go on from there (before that: {choice.why})"
    )
    return Choice(best=None, ship=False, verdict=verdict)


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
) -> Choice:
    """Ship the finalist whose gain has the highest low end, if that lies above zero.

    With `shortfall`, of those whose gain is clear the best by it, or the cheapest to use that is
    not more than a standard error worse: a judge is paid for again with every row it ever judges.

    One whose gain rests on train as well (a judge that train has not chosen) has to gain on dev
    alone, too. On systems that no demonstration showed, the judge may not lose by more than a
    standard error: a gain on known systems alone is worth little to those who judge new ones, but
    to ask for a gain there, too, would keep most seeds for what chance did to a few systems. A
    finalist that fails on too many outputs is passed over; one that fails on clearly fewer than
    the seed ships for that, if it is not worse: of the chance that a worthless one ships, that
    test has a share.
    """
    eligible = [index for index, compared in enumerate(finalists) if compared.reliable]
    if not eligible:
        verdict = (
            f"none of {n_tried} candidates did better than the seed on train, so the seed is kept"
        )
        if not n_tried:
            verdict = "no candidate could be tried, so the seed is kept"
        if finalists:
            least = min(compared.failure_rate for compared in finalists)
            verdict = (
                f"every finalist fails on {least:.0%} of the outputs or more, so the seed is kept"
            )
        return Choice(best=None, ship=False, verdict=verdict)
    # Whether any could ship for failing less, which does not tell who failed: swaps leave it so.
    has_failures = any(
        finalists[index].failure_rate + finalists[index].seed_failure_rate >= FEWER_FAILED
        for index in eligible
    )
    tail = TAIL - FAILURE_TAIL if has_failures else TAIL
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
    (unseen,) = gains([finalist.unseen], rng) if finalist.unseen is not None else [None]
    documents = "dev documents"
    if len(finalist.gain.documents) > len(finalist.dev_gain.documents):
        dev_gain = f"{finalist.dev_gain.value:+.3f} on dev"
        documents = f"dev and train documents, judged by versions never shown them ({dev_gain})"
    evidence = (
        f"{_gain_text(gain, 'rho ')} over {gain.n_documents} {documents}, widened for the "
        f"{len(eligible)} compared there, of {n_tried} tried"
    )
    new_systems = "" if unseen is None else _new_systems_text(unseen)
    fails_less = _fails_clearly_less(finalist, rng)
    better = (gain.is_clear and finalist.dev_gain.value > 0) or fails_less
    choice = Choice(
        best=eligible[first], ship=False, verdict="", evidence=evidence, gain=gain, unseen=unseen
    )
    if np.isnan(gain.value) or gain.n_documents < FEWEST_DOCUMENTS:
        return replace(choice, verdict="too few documents to tell, so the seed is kept")
    if not better and gain.value <= 0:
        verdict = "it does no better than the seed there, so the seed is kept"
        return replace(choice, best=None, verdict=verdict)
    if not better:
        return replace(choice, verdict=NOT_CLEAR)
    if unseen is not None and unseen.value + unseen.error < 0:
        verdict = "the gain does not carry over, so the seed is kept"
        return replace(choice, evidence=f"{evidence}, but {new_systems}", verdict=verdict)
    if new_systems:
        evidence += f", {new_systems}"
    if fails_less:
        evidence += (
            f"; it fails on {finalist.failure_rate:.0%} of the outputs, the seed on "
            f"{finalist.seed_failure_rate:.0%}"
        )
    return replace(choice, ship=True, evidence=evidence, verdict=SHIPPED)


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


def confirm(choice: Choice, gap: Contrast, plan: str, rng: np.random.Generator) -> Choice:
    """The choice under another sampling plan, which ships the tuned judge or the seed.

    `gap` contrasts, on dev under that plan, the judge that was to ship with the other one. A tuned
    judge has to show its gain there too; a seed ships as it is.
    """
    if not choice.ship:
        verdict = f"{choice.verdict} (compared under another plan than {plan}, which ships)"
        return replace(choice, verdict=verdict)
    (gain,) = gains([gap], rng)
    figures = (
        f"under the plan that ships, {plan}, {_gain_text(gain)} over {gain.n_documents} dev "
        "documents"
    )
    if gain.is_clear:
        return replace(choice, verdict=f"{choice.verdict}; {figures}")
    evidence = f"{choice.evidence}, but {figures}"
    return replace(choice, ship=False, evidence=evidence, verdict=NOT_CLEAR)


def _gain_text(gain: Gain, unit: str = "") -> str:
    ends = f"[{gain.low:+.3f}, {gain.high:+.3f}]" if np.isfinite(gain.high) else "(no interval)"
    return f"{gain.value:+.3f} {unit}{ends}"


def _fails_clearly_less(finalist: ComparedCandidate, rng: np.random.Generator) -> bool:
    """Whether it fails on clearly fewer outputs than the seed, and is not worse on the others."""
    not_worse = finalist.gain.value + finalist.gain.error >= 0
    if not not_worse or not finalist.failure_reduction.value >= FEWER_FAILED:
        return False
    (fewer,) = gains([finalist.failure_reduction], rng, FAILURE_TAIL)
    return fewer.is_clear


def _new_systems_text(gain: Gain) -> str:
    return f"{gain.value:+.3f} (standard error {gain.error:.3f}) on systems no demonstration showed"
