"""The gate: whether the judge that a search finds ships in place of the untuned one.

Every labelled document of train and dev decides, and none is judged there by a judge that learned
from it. A search therefore runs twice, on train for dev to judge and on dev for train to judge (a
judge that shows all labels has versions that leave a document out). If the judges it finds are no
better than the untuned one, swapping the two on any document is as likely as not, and the test
rests on that (`optimize.statistics.intervals`). It is made once, of the mean gain of either half's
finalists: the mean is more certain than any one of them, and choosing none needs no correction.
Test labels have no part in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from optimize.figures.as_json import DIGITS, json_number
from optimize.inputs.flags import RISK
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import (
    Goal,
    SearchProblem,
    contrast,
    is_reliable,
)
from optimize.search.power import FEWEST_UNTIED, fewest_documents
from optimize.statistics.balanced import verdicts
from optimize.statistics.intervals import Contrast, stream

SWAPS = 2000
# A rho over all outputs takes the means and spreads of ranks from the documents as well, which
# swaps leave out of account: without this correction up to .136 ship at a risk of .10.
RANKS_LEARNED = 3
# What a judge has to gain for each further multiple of the untuned judge's price: one of 2.5 times
# the price has to gain .03.
GAIN_FOR_COST = 0.02
UNTUNED = "Shipped: the untuned judge."
GOES_ON = "The same command again with a larger limit goes on from there."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A candidate beside the untuned judge on items that taught it nothing.

    Where balanced accuracy is the goal, their scores are verdicts.
    """

    candidate: Candidate
    items: Items
    scores: Vector
    untuned: Vector

    def gain(self, goal: Goal) -> Contrast:
        return contrast(self.scores, self.untuned, self.items, goal)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """A gain on another judge and its interval.

    The interval lies above zero exactly where the test says that the gain is real.
    """

    value: float
    low: float
    high: float
    n_documents: int

    @property
    def is_clear(self) -> bool:
        return self.low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipDecision:
    """The gate's decision, with `why` in a sentence; `gain` is what it rests on.

    `limit_reached`: a larger limit may change it.
    """

    ship: bool
    why: str
    gain: Gain | None = None
    limit_reached: bool = False


def decide(
    problem: SearchProblem,
    halves: Sequence[Sequence[Finalist]],
    n_tried: int,
    prevented: ShipDecision | None = None,
) -> tuple[Candidate, ShipDecision]:
    """The tuned judge of the finalists of either half, and whether it ships.

    The test is of the reliable finalists, unless the budget has `prevented` it. Of all with a
    gain the tuned judge is the one that is worth most for its cost, and it ships only if its gain
    on the untuned judge is worth its cost, too: a judge is paid for again with every row.
    """
    goal, options, item_cost = problem.goal, problem.options, problem.evaluator.item_cost
    reliable = [
        [each for each in half if is_reliable(each.scores, each.untuned)] for half in halves
    ]
    if not any(reliable):
        why = f"{UNTUNED} {_no_finalist(halves, n_tried)}"
        return problem.untuned, prevented or ShipDecision(ship=False, why=why)
    rng = stream(options.seed, "gate")
    contrasts = [[each.gain(goal) for each in half] for half in reliable]
    decision = prevented or decision_on(contrasts, goal, rng, options.risk)
    gains = mean_gains([each for half in reliable for each in half], goal)
    finalists = [each.candidate for half in reliable for each in half]
    gainers = [candidate for candidate in finalists if gains[candidate.id] > 0]
    tuned = worth_most(problem, gainers or finalists)
    ratio = item_cost(tuned) / item_cost(problem.untuned)
    needed = GAIN_FOR_COST * (ratio - 1)
    if decision.ship and gains[tuned.id] < needed:
        why = (
            f"{UNTUNED} The tuned judge costs {ratio:.1f} times as much, and a gain of "
            f"{gains[tuned.id]:.3f} {figure_of(goal)} is not worth that: at this price it would "
            f"have to be {needed:.3f}. --ship tuned ships it all the same."
        )
        decision = replace(decision, ship=False, why=why)
    if decision.gain is None:
        return tuned, decision
    problem.record(
        "gate",
        candidate=tuned.id,
        figures={
            name: json_number(getattr(decision.gain, name), DIGITS)
            for name in ("value", "low", "high")
        },
        n_documents=decision.gain.n_documents,
        risk=options.risk,
        ship=decision.ship,
    )
    return tuned, decision


def mean_gains(finalists: Sequence[Finalist], goal: Goal) -> dict[str, float]:
    """Each candidate's gain by its id, over the documents of both halves where both end with it."""
    totals: dict[str, tuple[float, int]] = {}
    for each in finalists:
        gain, (total, n) = each.gain(goal), totals.get(each.candidate.id, (0.0, 0))
        n_documents = len(gain.documents)
        totals[each.candidate.id] = total + gain.value * n_documents, n + n_documents
    return {name: total / n if n else math.nan for name, (total, n) in totals.items()}


def decision_on(
    halves: Sequence[Sequence[Contrast]], goal: Goal, rng: np.random.Generator, risk: float = RISK
) -> ShipDecision:
    """Whether judges that were found without these documents rank them better than the untuned one.

    `halves` are of different documents; each holds a contrast for every finalist. `risk` is the
    chance that the judges ship though they are no better.
    """
    gain = gain_of(halves, rng, risk)
    fewest = max(fewest_documents(risk), FEWEST_UNTIED if goal == "dataset" else 0)
    tried = (
        "Prompts tuned the same way, each tried on documents that it was tuned without "
        f"({gain.n_documents} in all),"
    )
    share, by = f"{100 * risk:g}% of such runs", f"{abs(gain.value):.3f} {figure_of(goal)}"
    if gain.is_clear:
        why = (
            f"Shipped: the tuned judge. {tried} beat the untuned judge by {by}. If tuning did "
            f"nothing, {share} would ship all the same."
        )
    elif np.isnan(gain.value) or gain.n_documents < fewest:
        why = (
            f"{UNTUNED} {gain.n_documents} documents are too few to compare it with the tuned "
            f"judge at --risk {risk:g}; {fewest} are the least."
        )
    elif np.isinf(gain.low):
        why = (
            f"{UNTUNED} Labels or scores are too alike to compare it with the tuned judge: at "
            f"least {FEWEST_UNTIED} of the {gain.n_documents} documents must have another label "
            "than the commonest, and get another score. Label more documents that deserve the "
            "rarer labels."
        )
    elif gain.value <= 0:
        why = f"{UNTUNED} {tried} fall short of the untuned judge by {by}."
    else:
        why = (
            f"{UNTUNED} {tried} beat the untuned judge by {by}. If tuning did nothing, over "
            f"{100 * risk:g}% of runs would show as much."
        )
    return ShipDecision(ship=gain.is_clear, why=why, gain=gain)


def figure_of(goal: Goal) -> str:
    """What is compared, in words."""
    return "balanced accuracy" if goal == "balanced" else f"{goal}-level rho"


def worth_most(problem: SearchProblem, candidates: Sequence[Candidate]) -> Candidate:
    """The candidate whose figure less its cost is the highest (see `GAIN_FOR_COST`).

    Two are compared on all labels known to both that neither shows.
    """
    evaluator = problem.evaluator

    def is_worth_more(one: Candidate, other: Candidate) -> bool:
        known = evaluator.known(one, evaluator.known(other, problem.labelled))
        shown = one.documents | other.documents
        known = known.of_documents([name for name in known.documents if name not in shown])
        scores = [evaluator.known_scores(each, known) for each in (one, other)]
        if problem.goal == "balanced":
            pairs = zip(scores, (one, other), strict=True)
            scores = [verdicts(side, each.threshold) for side, each in pairs]
        dearer = evaluator.item_cost(one) - evaluator.item_cost(other)
        cost = GAIN_FOR_COST * dearer / evaluator.item_cost(problem.untuned)
        return contrast(scores[0], scores[1], known, problem.goal).value > cost

    best = candidates[0]
    for candidate in candidates[1:]:
        if is_worth_more(candidate, best):
            best = candidate
    return best


def _no_finalist(halves: Sequence[Sequence[Finalist]], n_tried: int) -> str:
    """Why there is none to decide about."""
    if not n_tried:
        return "No candidate could be tried."
    failed = [float(np.isnan(each.scores).mean()) for half in halves for each in half]
    if failed:
        return f"Every finalist fails on {min(failed):.0%} of the outputs or more."
    return f"None of {n_tried} candidates did better on train."


def stopped(why: str) -> ShipDecision:
    """The decision where the limit has kept the documents held out from deciding."""
    return ShipDecision(ship=False, why=f"{UNTUNED} {why} {GOES_ON}", limit_reached=True)


def untuned_reason(decision: ShipDecision) -> str:
    """Why the untuned judge ships, without saying that it does."""
    return decision.why.removeprefix(UNTUNED).strip()


def as_asked(decision: ShipDecision) -> ShipDecision:
    """The choice of a user who ships the tuned judge whatever the gate says."""
    if decision.ship:
        return decision
    why = f"Shipped: the tuned judge, by --ship tuned. {untuned_reason(decision)}"
    return replace(decision, ship=True, why=why)


def gain_of(
    halves: Sequence[Sequence[Contrast]], rng: np.random.Generator, risk: float = RISK
) -> Gain:
    """The mean gain of halves with different documents, each by how many documents enter it.

    A half's gain is the mean of its contrasts, which are swapped together. The low end lies above
    zero where fewer than `risk` of the swaps do as well. It is infinite for fewer than two
    documents, and where too few are untied to tell what a rho over all outputs is.
    """
    halves = [[each for each in half if each.documents] for half in halves]
    halves = [half for half in halves if half]
    names = [sorted({name for each in half for name in each.documents}) for half in halves]
    sizes = [len(each) for each in names]
    n, half_width = sum(sizes), np.inf
    shares = np.array(sizes) / max(n, 1)
    value = float(shares @ [np.mean([each.value for each in half]) for half in halves])
    value = value if n else np.nan
    untied = sum(min(each.n_untied for each in half) for half in halves)
    if n > 1 and untied >= FEWEST_UNTIED:
        swapped = []
        for half, documents in zip(halves, names, strict=True):
            signs = rng.choice([-1.0, 1.0], (SWAPS, len(documents)))
            columns = [np.searchsorted(documents, each.documents) for each in half]
            gains = [each.swapped(signs[:, own]) for each, own in zip(half, columns, strict=True)]
            swapped.append(np.mean(gains, axis=0))
        # The documents as they are, too, are one of the draws.
        largest = np.sort([value, *(shares @ swapped)])[::-1]
        # A little more, because what equals it by the order of a sum is not beyond it. At a risk
        # of .5 it is about 0, and may not lie below.
        half_width = max(0.0, float(largest[int(risk * len(largest))])) * (1 + 1e-9)
        half_width *= 1 + RANKS_LEARNED / (untied - RANKS_LEARNED)
    return Gain(
        value=value,
        low=value - half_width,
        high=value + half_width,
        n_documents=n,
    )
