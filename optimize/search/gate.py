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

# The contrasts of a kind of change with the untuned judge, by half of the documents.
Contrasts = Sequence[Sequence[Contrast]]
SWAPS = 2000
# The ranks of a rho over all outputs depend on the documents as well, which swaps ignore. Without
# this correction up to .136 of judges that are no better ship at a risk of .10.
RANKS_LEARNED = 3
# The gain that a judge needs for each further multiple of the untuned judge's price: at 2.5 times
# the price it needs .03.
GAIN_FOR_COST = 0.02


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


NO_GAIN = Gain(value=math.nan, low=math.nan, high=math.nan, n_documents=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShipDecision:
    """Whether the tuned judge ships, and the reason in a sentence.

    `limit_reached` says that a larger limit may change the decision, and `is_forced` that the user
    ships the tuned judge anyway.
    """

    ship: bool
    reason: str
    gain: Gain = NO_GAIN
    limit_reached: bool = False
    is_forced: bool = False

    @property
    def why(self) -> str:
        """The judge that ships, and the reason."""
        judge = "tuned" if self.ship else "untuned"
        return f"Shipped: the {judge} judge{', by --ship tuned' * self.is_forced}. {self.reason}"


def decide(
    problem: SearchProblem,
    halves: Sequence[Sequence[Finalist]],
    n_tried: int,
    out_of_budget: ShipDecision | None = None,
    questions: QuestionTest | None = None,
) -> tuple[Candidate, ShipDecision]:
    """Choose the tuned judge among the finalists of both halves, and decide whether it ships.

    The reliable finalists are tested, unless the budget has prevented their test: then the decision
    is `out_of_budget`, if no questions have been tested. The tuned judge is the one that asks
    questions if these gain most, else the finalist with a gain that is worth most for its cost. It
    ships only if no `_objection` is left.
    """
    reliable = [[each for each in half if each.is_reliable] for half in halves]
    asking = [[each] for each in questions.finalists] if questions else []
    if out_of_budget and not asking:
        tests = list(chain(*reliable))
        return (worth_most(problem, tests) if tests else problem.untuned), out_of_budget
    kinds = [kind for kind in ([] if out_of_budget else reliable, asking) if any(kind)]
    if not kinds:
        return problem.untuned, ShipDecision(ship=False, reason=_no_finalist(halves, n_tried))
    rng, risk = stream(problem.options.seed, "gate"), problem.options.risk
    decision = decision_on(_contrasts(kinds, problem.goal), problem.goal, rng, risk)
    best = kinds[decision.gain.kind]
    tuned, own = _tuned(problem, list(chain(*best)), questions if best is asking else None)
    decision = _weigh(problem, decision, tuned, own)
    gain = decision.gain
    problem.record(
        "gate",
        candidate=tuned.id,
        figures=figure_json(IntervalEstimate(gain.value, Interval(gain.low, gain.high))),
        n_documents=gain.n_documents,
        risk=risk,
        ship=decision.ship,
    )
    return tuned, decision


def _contrasts(kinds: Sequence[Sequence[Sequence[Finalist]]], goal: Goal) -> list[Contrasts]:
    return [[[each.gain(goal) for each in half] for half in kind] for kind in kinds]


def _tuned(
    problem: SearchProblem, tests: Sequence[Finalist], questions: QuestionTest | None
) -> tuple[Candidate, Sequence[Finalist]]:
    """The judge that asks questions, else the finalist that is worth most; and its own tests."""
    if questions:
        return questions.candidate, tests
    tuned = worth_most(problem, tests)
    return tuned, [each for each in tests if each.candidate.id == tuned.id]


def _weigh(
    problem: SearchProblem, decision: ShipDecision, tuned: Candidate, tests: Sequence[Finalist]
) -> ShipDecision:
    """The decision to ship, reversed if there is an objection to the tuned judge."""
    if not decision.ship or not (objection := _objection(problem, tuned, tests)):
        return decision
    reason = f"Tuning passed the test, but {objection} --ship tuned ships it all the same."
    return replace(decision, ship=False, reason=reason)


def _objection(problem: SearchProblem, tuned: Candidate, tests: Sequence[Finalist]) -> str | None:
    """Why a judge that passed the test does not ship: its gain is not worth its cost, or a rate."""
    item_cost, gain = problem.evaluator.item_cost, mean_gain(tests, problem.goal)
    ratio = item_cost(tuned) / item_cost(problem.untuned)
    least = GAIN_FOR_COST * (ratio - 1)
    if gain >= least:
        return rate_objection(tests) if problem.goal == "balanced" else None
    return (
        f"the tuned judge costs {ratio:.1f} times as much a row: its gain of {gain:.3f} "
        f"{figure_of(problem.goal)} is below the {least:.3f} asked for that ({GAIN_FOR_COST:g} for "
        "each further multiple)."
    )


def rate_objection(tests: Sequence[Finalist]) -> str | None:
    """How the tuned judge is clearly worse at what judges do worst; None if it is not.

    A judge may gain on the average by raising false alarms. So the rate of fails or of passes that
    it gets right may fall, but not clearly (by a sign test of the outputs on which the judges
    differ) below the lower of the untuned judge's two rates.
    """
    human = np.concatenate([each.items.human for each in tests])
    tuned, untuned = np.hstack([(each.scores, each.untuned) for each in tests])
    right, untuned_right, known = tuned == human, untuned == human, ~np.isnan(tuned + untuned)
    rows = {"fails": known & (human == 0), "passes": known & (human == 1)}
    lower = min(float(untuned_right[own].mean()) for own in rows.values() if own.any())
    for word, own in rows.items():
        n_worse = int((own & untuned_right & ~right).sum())
        n_better = int((own & right & ~untuned_right).sum())
        if is_clearly_worse(n_worse, n_better) and right[own].mean() < lower:
            return (
                f"of {own.sum()} {word} the tuned judge gets {n_worse} wrong that the untuned "
                f"judge gets right, and {n_better} the other way round: {right[own].mean():.0%} of "
                f"{word} would be right, less than either rate of the untuned judge."
            )
    return None


def mean_gain(finalists: Sequence[Finalist], goal: Goal) -> float:
    """The mean gain of a judge over the documents of all halves that it was tested on."""
    gains = [each.gain(goal) for each in finalists]
    n = sum(len(gain.documents) for gain in gains)
    return sum(gain.value * len(gain.documents) for gain in gains) / n if n else math.nan


def decision_on(
    kinds: Sequence[Contrasts], goal: Goal, rng: np.random.Generator, risk: float = RISK
) -> ShipDecision:
    """Whether judges that learned nothing from these documents beat the untuned judge on them.

    `risk` is the chance, in (0, 1), that a judge ships although none of them is better.
    """
    gain = gain_of(kinds, rng, risk)
    fewest = max(fewest_documents(risk), FEWEST_UNTIED if goal == "dataset" else 0)
    prompts = (
        "Prompts tuned the same way, each tried on documents that it was tuned without "
        f"({gain.n_documents} in all),"
    )
    by = f"{abs(gain.value):.3f} {figure_of(goal)}"
    if gain.is_clear:
        reason = (
            f"{prompts} beat the untuned judge by {by}. If tuning did nothing, {100 * risk:g}% of "
            "such runs would ship all the same."
        )
    elif np.isnan(gain.value) or gain.n_documents < fewest:
        reason = (
            f"{gain.n_documents} documents are too few to compare it with the tuned judge at "
            f"--risk {risk:g}; {fewest} are the least."
        )
    elif np.isinf(gain.low):
        reason = (
            "Labels or scores are too alike to compare it with the tuned judge: at least "
            f"{FEWEST_UNTIED} of the {gain.n_documents} documents must have another label than the "
            "commonest, and get another score. Label more documents that deserve the rarer labels."
        )
    elif gain.value <= 0:
        reason = f"{prompts} fall short of the untuned judge by {by}."
    else:
        reason = (
            f"{prompts} beat the untuned judge by {by}. If tuning did nothing, over "
            f"{100 * risk:g}% of runs would show as much."
        )
    return ShipDecision(ship=gain.is_clear, reason=reason, gain=gain)


def figure_of(goal: Goal) -> str:
    """The name of the figure that the goal compares."""
    return "balanced accuracy" if goal == "balanced" else f"{goal}-level rho"


def worth_most(problem: SearchProblem, finalists: Sequence[Finalist]) -> Candidate:
    """The candidate whose figure less its cost is the highest (see `GAIN_FOR_COST`).

    It is one of those that gain, if any does. Two candidates are compared on all items that both
    have scored and neither shows.
    """
    tests: dict[str, list[Finalist]] = {}
    for each in finalists:
        tests.setdefault(each.candidate.id, []).append(each)
    gainers = [test for test in tests.values() if mean_gain(test, problem.goal) > 0]
    best, *others = (test[-1].candidate for test in gainers or tests.values())
    for candidate in others:
        if _is_worth_more(problem, candidate, best):
            best = candidate
    return best


def _is_worth_more(problem: SearchProblem, one: Candidate, other: Candidate) -> bool:
    evaluator = problem.evaluator
    items = evaluator.scored_items(one, evaluator.scored_items(other, problem.labelled))
    items = items.of_documents({*items.documents} - one.documents - other.documents)
    scores, base = (evaluator.scores_so_far(each, items) for each in (one, other))
    if problem.goal == "balanced":
        scores, base = verdicts(scores, one.threshold), verdicts(base, other.threshold)
    dearer = evaluator.item_cost(one) - evaluator.item_cost(other)
    least = GAIN_FOR_COST * dearer / evaluator.item_cost(problem.untuned)
    return contrast(scores, base, items, problem.goal).value > least


def _no_finalist(halves: Sequence[Sequence[Finalist]], n_tried: int) -> str:
    """Why there is no finalist to decide about."""
    if not n_tried:
        return "No candidate could be tried."
    failure_rates = [float(np.isnan(each.scores).mean()) for each in chain(*halves)]
    if failure_rates:
        return f"Every finalist fails on {min(failure_rates):.0%} of the outputs or more."
    return f"None of {n_tried} candidates did better on train."


def gain_of(kinds: Sequence[Contrasts], rng: np.random.Generator, risk: float = RISK) -> Gain:
    """The largest mean gain of a kind of change over its halves, each weighted by its documents.

    A half's gain is the mean of its contrasts. The low end of the interval lies above zero if fewer
    than `risk` of the swaps reach the gain. The interval is infinite for fewer than two documents,
    and for a rho over all outputs that rests on too few untied documents.
    """
    # The sums of each kind over its documents (draws, kinds); the first draw swaps no judges.
    sums, sizes = np.zeros((1 + SWAPS, len(kinds))), np.zeros(len(kinds))
    untied = np.zeros(len(kinds))
    for half in zip_longest(*kinds, fillvalue=()):
        known = [[each for each in contrasts if each.documents] for contrasts in half]
        # Swapping the judges of a document swaps them for all kinds.
        documents = _documents(chain(*known))
        signs = rng.choice([-1.0, 1.0], (SWAPS, len(documents)))
        signs = np.vstack([np.ones(len(documents)), signs])
        for kind, contrasts in enumerate(known):
            n = len(_documents(contrasts))
            places = [np.searchsorted(documents, each.documents) for each in contrasts]
            pairs = zip(contrasts, places, strict=True)
            gains = [n * each.swapped(signs[:, own]) for each, own in pairs]
            sums[:, kind] += np.mean(gains, axis=0) if n else 0
            untied[kind] += min((each.n_untied for each in contrasts), default=0)
            sizes[kind] += n
    tested = np.flatnonzero(sizes)
    if not tested.size:
        return NO_GAIN
    means = sums[:, tested] / sizes[tested]
    best, draws = tested[means[0].argmax()], means.max(axis=1)
    value, n, half_width = float(draws[0]), int(sizes[best]), math.inf
    n_untied = float(untied[tested].min())
    if n > 1 and n_untied >= FEWEST_UNTIED:
        # A little larger, so that a draw that equals the gain but for rounding does not exceed it.
        # At a risk of .5 the draw is about 0 and may be negative.
        half_width = max(0.0, float(np.sort(draws)[::-1][int(risk * len(draws))])) * (1 + 1e-9)
        half_width *= 1 + RANKS_LEARNED / (n_untied - RANKS_LEARNED)
    low, high = value - half_width, value + half_width
    return Gain(value=value, low=low, high=high, n_documents=n, kind=int(best))


def _documents(contrasts: Iterable[Contrast]) -> list[str]:
    """The documents of all these contrasts, sorted."""
    return sorted({name for each in contrasts for name in each.documents})
