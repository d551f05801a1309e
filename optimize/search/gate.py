"""The gate: whether the judge that a search finds ships in place of the untuned one.

Every labelled document of train and dev takes part, and no judge is tested on a document that it
learned from. A search therefore runs twice: on train, tested on dev, and on dev, tested on train.
(A judge that shows all labels has versions that leave out a fold of the documents.) If the judges
that a search finds are no better than the untuned one, swapping the two judges on a document is as
likely to raise the gain as to lower it. The test rests on that (`optimize.statistics.intervals`).

There is one test, of the mean gain of the finalists of both halves: the mean is more certain than
the gain of any one finalist, and none is chosen. Judges that ask questions are a second kind of
change. The larger of both kinds' means is then compared with the larger mean of each swap.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

import numpy as np

from optimize.figures.as_json import figure_json
from optimize.inputs.flags import RISK
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Goal, SearchProblem, contrast, is_reliable, objective
from optimize.search.power import FEWEST_UNTIED, fewest_documents
from optimize.statistics.balanced import is_clearly_worse, verdicts
from optimize.statistics.intervals import Contrast, Interval, IntervalEstimate, stream

# The contrasts of both halves' finalists with the untuned judge; they have no document in common.
Halves = Sequence[Sequence[Contrast]]
SWAPS = 2000
# The ranks of a rho over all outputs depend on the documents as well, which swaps ignore. Without
# this correction up to .136 of judges that are no better ship at a risk of .10.
RANKS_LEARNED = 3
# The gain that a judge needs for each further multiple of the untuned judge's price: at 2.5 times
# the price it needs .03.
GAIN_FOR_COST = 0.02
UNTUNED = "Shipped: the untuned judge."


@dataclass(frozen=True, slots=True, kw_only=True)
class Finalist:
    """A candidate's scores beside the untuned judge's, on items that it did not learn from.

    If the goal is balanced accuracy, both are verdicts.
    """

    candidate: Candidate
    items: Items
    scores: Vector
    untuned: Vector

    @property
    def is_reliable(self) -> bool:
        return is_reliable(self.scores, self.untuned)

    def gain(self, goal: Goal) -> Contrast:
        return contrast(self.scores, self.untuned, self.items, goal)

    def record(self, problem: SearchProblem, stage: str) -> None:
        gain = self.gain(problem.goal)
        problem.record_candidate(
            stage,
            self.candidate,
            value=objective(self.scores, self.items, problem.goal),
            gain=gain.value,
            error=gain.error,
            n_documents=len(self.items.documents),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionTest:
    """A judge that asks questions, and its test on either half of the labels.

    `candidate` has the useful questions and weights from all labels. `finalists` are scored by
    questions and weights that their documents did not teach.
    """

    candidate: Candidate
    finalists: tuple[Finalist, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """The gain of a judge over another, with an interval.

    The interval lies above zero exactly if the test says that the gain is real. `kind` is the place
    of the kind of change that gained most among those tested.
    """

    value: float
    low: float
    high: float
    n_documents: int
    kind: int = 0

    @property
    def is_clear(self) -> bool:
        return self.low > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipDecision:
    """Whether the tuned judge ships, and why, in a sentence.

    `gain` is the gain that was tested, None where there was no test. `limit_reached` says that a
    larger limit may change the decision.
    """

    ship: bool
    why: str
    gain: Gain | None = None
    limit_reached: bool = False


def decide(
    problem: SearchProblem,
    halves: Sequence[Sequence[Finalist]],
    n_tried: int,
    fallback: ShipDecision | None = None,
    questions: QuestionTest | None = None,
) -> tuple[Candidate, ShipDecision]:
    """Choose the tuned judge among the finalists of both halves, and decide whether it ships.

    The reliable finalists are tested, unless the budget has prevented the test: then `fallback` is
    the decision. The tuned judge is the one that asks questions if these gain most, else the
    finalist with a gain that is worth most for its cost. It ships only if its gain over the untuned
    judge is worth its cost as well, because every later row pays for it again, and if it gets
    neither fails nor passes clearly wrong too often (`weigh_rates`).
    """
    finalists = [[each for each in half if each.is_reliable] for half in halves]
    asking = [[each] for each in questions.finalists] if questions else []
    if asking and (fallback or not any(finalists)):
        # Questions have been tested, whatever became of other candidates.
        finalists, fallback = [], None
    kinds = [kind for kind in (finalists, asking) if any(kind)]
    if not kinds:
        why = f"{UNTUNED} {_no_finalist(halves, n_tried)}"
        return problem.untuned, fallback or ShipDecision(ship=False, why=why)
    gains = [_gains(kind, problem.goal) for kind in kinds]
    rng = stream(problem.options.seed, "gate")
    decision = fallback or decision_on(gains, problem.goal, rng, problem.options.risk)
    if questions and decision.gain and kinds[decision.gain.kind] is asking:
        tuned, tested = questions.candidate, list(questions.finalists)
    else:
        tuned, tested = _best_finalist(problem, list(chain(*finalists)))
    decision = _weigh(problem, decision, tuned, tested)
    _record(problem, tuned, decision)
    return tuned, decision


def _gains(halves: Sequence[Sequence[Finalist]], goal: Goal) -> Halves:
    return [[each.gain(goal) for each in half] for half in halves]


def _best_finalist(
    problem: SearchProblem, finalists: Sequence[Finalist]
) -> tuple[Candidate, list[Finalist]]:
    """The candidate with the gain that is worth most for its cost, and its tests."""
    best = worth_most(problem, finalists)
    return best, [each for each in finalists if each.candidate.id == best.id]


def _record(problem: SearchProblem, tuned: Candidate, decision: ShipDecision) -> None:
    """Record the gain that was tested, if there was a test."""
    if gain := decision.gain:
        problem.record(
            "gate",
            candidate=tuned.id,
            figures=figure_json(IntervalEstimate(gain.value, Interval(gain.low, gain.high))),
            n_documents=gain.n_documents,
            risk=problem.options.risk,
            ship=decision.ship,
        )


def _weigh(
    problem: SearchProblem, decision: ShipDecision, tuned: Candidate, tested: Sequence[Finalist]
) -> ShipDecision:
    """The decision to ship, reversed if the gain is not worth its cost, or a rate falls too far."""
    if not decision.ship:
        return decision
    item_cost, gain = problem.evaluator.item_cost, mean_gain(tested, problem.goal)
    ratio = item_cost(tuned) / item_cost(problem.untuned)
    least = GAIN_FOR_COST * (ratio - 1)
    if gain >= least:
        return weigh_rates(decision, tested) if problem.goal == "balanced" else decision
    why = (
        f"{UNTUNED} Tuning passed the test, but the tuned judge costs {ratio:.1f} times as much a "
        f"row: its gain of {gain:.3f} {figure_of(problem.goal)} is below the {least:.3f} asked for "
        f"that ({GAIN_FOR_COST:g} for each further multiple). --ship tuned ships it all the same."
    )
    return replace(decision, ship=False, why=why)


def weigh_rates(decision: ShipDecision, tested: Sequence[Finalist]) -> ShipDecision:
    """The decision to ship, reversed if the judge becomes clearly worse at what judges do worst.

    A judge may gain on the average by raising false alarms. So the rate of fails or of passes that
    it gets right may fall, but not clearly (by a sign test of the outputs on which the judges
    differ) below the lower of the untuned judge's two rates.
    """
    human = np.concatenate([each.items.human for each in tested])
    tuned, untuned = (
        np.concatenate([getattr(each, side) for each in tested]) for side in ("scores", "untuned")
    )
    known = ~np.isnan(tuned) & ~np.isnan(untuned)
    right = {"tuned": tuned == human, "untuned": untuned == human}
    rows = {word: known & (human == label) for word, label in (("fails", 0), ("passes", 1))}
    lower = min(float(right["untuned"][own].mean()) for own in rows.values() if own.any())
    for word, own in rows.items():
        changes: Vector = right["tuned"][own].astype(float) - right["untuned"][own]
        n_worse, n_better = int((changes < 0).sum()), int((changes > 0).sum())
        if right["tuned"][own].mean() < lower and is_clearly_worse(n_worse, n_better):
            why = (
                f"{UNTUNED} Tuning passed the test, but of {changes.size} {word} the tuned judge "
                f"gets {n_worse} wrong that the untuned judge gets right, and {n_better} the other "
                f"way round: {right['tuned'][own].mean():.0%} of {word} would be right, less than "
                f"either rate of the untuned judge. --ship tuned ships it all the same."
            )
            return replace(decision, ship=False, why=why)
    return decision


def mean_gain(finalists: Sequence[Finalist], goal: Goal) -> float:
    """The mean gain of a judge over the documents of all halves that it was tested on."""
    gains = [each.gain(goal) for each in finalists]
    n = sum(len(gain.documents) for gain in gains)
    return sum(gain.value * len(gain.documents) for gain in gains) / n if n else math.nan


def decision_on(
    kinds: Sequence[Halves], goal: Goal, rng: np.random.Generator, risk: float = RISK
) -> ShipDecision:
    """Whether judges that learned nothing from these documents beat the untuned judge on them.

    `kinds` are the kinds of change, each with its halves. `risk` is the chance, in (0, 1), that a
    judge ships although none of them is better.
    """
    gain = gain_of(kinds, rng, risk)
    fewest = max(fewest_documents(risk), FEWEST_UNTIED if goal == "dataset" else 0)
    prompts = (
        "Prompts tuned the same way, each tried on documents that it was tuned without "
        f"({gain.n_documents} in all),"
    )
    share, by = f"{100 * risk:g}% of such runs", f"{abs(gain.value):.3f} {figure_of(goal)}"
    if gain.is_clear:
        why = (
            f"Shipped: the tuned judge. {prompts} beat the untuned judge by {by}. If tuning did "
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
        why = f"{UNTUNED} {prompts} fall short of the untuned judge by {by}."
    else:
        why = (
            f"{UNTUNED} {prompts} beat the untuned judge by {by}. If tuning did nothing, over "
            f"{100 * risk:g}% of runs would show as much."
        )
    return ShipDecision(ship=gain.is_clear, why=why, gain=gain)


def figure_of(goal: Goal) -> str:
    """The name of the figure that the goal compares."""
    return "balanced accuracy" if goal == "balanced" else f"{goal}-level rho"


def worth_most(problem: SearchProblem, finalists: Sequence[Finalist]) -> Candidate:
    """The candidate whose figure less its cost is the highest (see `GAIN_FOR_COST`).

    It is one of those that gain, if any does. Two candidates are compared on all items that both
    have scored and neither shows.
    """
    evaluator = problem.evaluator
    by_candidate: dict[str, list[Finalist]] = {}
    for each in finalists:
        by_candidate.setdefault(each.candidate.id, []).append(each)
    tests = by_candidate.values()
    gainers = [test for test in tests if mean_gain(test, problem.goal) > 0]
    best, *others = (test[-1].candidate for test in gainers or tests)

    def is_worth_more(one: Candidate, other: Candidate) -> bool:
        items = evaluator.scored_items(one, evaluator.scored_items(other, problem.labelled))
        demo_documents = one.documents | other.documents
        items = items.of_documents(set(items.documents) - demo_documents)
        scores = [evaluator.scores_so_far(each, items) for each in (one, other)]
        if problem.goal == "balanced":
            pairs = zip(scores, (one, other), strict=True)
            scores = [verdicts(side, each.threshold) for side, each in pairs]
        dearer = evaluator.item_cost(one) - evaluator.item_cost(other)
        cost = GAIN_FOR_COST * dearer / evaluator.item_cost(problem.untuned)
        return contrast(scores[0], scores[1], items, problem.goal).value > cost

    for candidate in others:
        if is_worth_more(candidate, best):
            best = candidate
    return best


def _no_finalist(halves: Sequence[Sequence[Finalist]], n_tried: int) -> str:
    """Why there is no finalist to decide about."""
    if not n_tried:
        return "No candidate could be tried."
    failure_rates = [float(np.isnan(each.scores).mean()) for each in chain(*halves)]
    if failure_rates:
        return f"Every finalist fails on {min(failure_rates):.0%} of the outputs or more."
    return f"None of {n_tried} candidates did better on train."


def out_of_budget(why: str) -> ShipDecision:
    """The decision if the limit was reached before the finalists could be tested."""
    why = f"{UNTUNED} {why} The same command again with a larger limit goes on from there."
    return ShipDecision(ship=False, why=why, limit_reached=True)


def untuned_reason(decision: ShipDecision) -> str:
    """The reason why the untuned judge ships, without the sentence that it does."""
    return decision.why.removeprefix(UNTUNED).strip()


def ship_anyway(decision: ShipDecision) -> ShipDecision:
    """The decision of a user who ships the tuned judge whatever the gate decides."""
    if decision.ship:
        return decision
    why = f"Shipped: the tuned judge, by --ship tuned. {untuned_reason(decision)}"
    return replace(decision, ship=True, why=why)


def gain_of(kinds: Sequence[Halves], rng: np.random.Generator, risk: float = RISK) -> Gain:
    """The largest mean gain of a kind of change over its halves, each weighted by its documents.

    A half's gain is the mean of its contrasts. The low end of the interval lies above zero if fewer
    than `risk` of the swaps reach the gain. The interval is infinite for fewer than two documents,
    and for a rho over all outputs that rests on too few untied documents.
    """
    # The contrasts with documents by half and by kind, and how many documents these have.
    halves = [
        [[each for each in contrasts if each.documents] for contrasts in half]
        for half in zip_longest(*kinds, fillvalue=())
    ]
    sizes = np.array([[len(_documents(contrasts)) for contrasts in half] for half in halves])
    totals = sizes.sum(axis=0)
    if not totals.any():
        return Gain(value=np.nan, low=np.nan, high=np.nan, n_documents=0)
    # The gain of each kind (draws, kinds); in the first draw no judges are swapped.
    gains = np.tile(np.where(totals, 0.0, -np.inf), (1 + SWAPS, 1))
    untied = np.where(totals, 0.0, np.inf)
    for half, shares in zip(halves, sizes / np.maximum(totals, 1), strict=True):
        # Swapping the judges of a document swaps them for all kinds.
        documents = _documents(chain(*half))
        signs = rng.choice([-1.0, 1.0], (SWAPS, len(documents)))
        signs = np.vstack([np.ones(len(documents)), signs])
        for kind, contrasts in enumerate(half):
            if contrasts:
                places = [np.searchsorted(documents, each.documents) for each in contrasts]
                pairs = zip(contrasts, places, strict=True)
                swapped = [each.swapped(signs[:, own]) for each, own in pairs]
                gains[:, kind] += shares[kind] * np.mean(swapped, axis=0)
                untied[kind] += min(each.n_untied for each in contrasts)
    best, draws = int(gains[0].argmax()), gains.max(axis=1)
    value, n = float(draws[0]), int(totals[best])
    n_untied, half_width = float(untied.min()), math.inf
    if n > 1 and n_untied >= FEWEST_UNTIED:
        # A little larger, so that a draw that equals the gain but for rounding does not exceed it.
        # At a risk of .5 the draw is about 0 and may be negative.
        half_width = max(0.0, float(np.sort(draws)[::-1][int(risk * len(draws))])) * (1 + 1e-9)
        half_width *= 1 + RANKS_LEARNED / (n_untied - RANKS_LEARNED)
    low, high = value - half_width, value + half_width
    return Gain(value=value, low=low, high=high, n_documents=n, kind=best)


def _documents(contrasts: Iterable[Contrast]) -> list[str]:
    """The documents of all these contrasts, sorted."""
    return sorted({name for each in contrasts for name in each.documents})
