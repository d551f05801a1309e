"""The search, and whether the judge that it finds ships in place of the untuned one.

Every labelled document of train and dev decides, and none is judged there by a judge that learned
from it. A search therefore runs twice, on train for dev to judge and on dev for train to judge (a
judge that shows all labels has versions that leave a document out). Were the judges so found no
better than the untuned one, swapping the two on any document would be as likely, which is what the
test rests on (`optimize.statistics.intervals`). It is asked once, about the mean gain of either
half's finalists: there is no choice among them to pay for, and their mean is surer than one of
them. Test labels have no part in it.
"""

import itertools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module

import numpy as np

from judges.client import BudgetSpentError
from judges.prompt import Prompt
from optimize.figures.as_json import DIGITS, json_number
from optimize.inputs.flags import RISK
from optimize.items import Items, Vector
from optimize.search.candidates import EVERYTHING, Candidate, DemoSet, draw_demo_set
from optimize.search.evaluator import (
    Evaluator,
    Goal,
    SearchBudgetSpentError,
    SearchOptions,
    SearchProblem,
    contrast,
    informative_documents,
    is_reliable,
    objective,
)
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.correlations import Mask, read_rows
from optimize.statistics.intervals import Contrast, stream

# How many candidates of a search meet documents held out from them.
N_FINALISTS = 3
SWAPS = 2000
# Where rho over all outputs rests on fewer documents, judges that are no better ship too often: in
# .12 with 6, in up to .29 with any number (benchmarks/gate.py).
FEWEST_UNTIED = 10
# A rho over all outputs takes the means and spreads of ranks from the documents as well, which
# swaps leave out of account: without this correction up to .136 ship at a risk of .10.
RANKS_LEARNED = 3
# Versions of a judge that shows all labels.
FOLDS = 4
# What a judge has to gain for each further multiple of the untuned judge's price: one of 2.5 times
# the price has to gain .03.
GAIN_FOR_COST = 0.02
# The gain in rho, or balanced accuracy, that is planned for, and how likely it should ship.
GAIN, LIKELY = 0.1, 0.8
# The share of outputs on which two judges of two values differ.
DISAGREEMENT = 0.25
# Standard deviation of the difference of two judges' rho in one document, times the root of its
# outputs less one: .79 to 1.02 between GPT-4o-mini and Llama 3.1 on SummEval's four dimensions
# (4, 8 or 16 outputs), .91 between tuned and untuned judges of benchmarks/simulated.py (5 or 12).
# Over all outputs it is times the root of the outputs (benchmarks/gate.py).
SPREAD = 1.0

# The `explore` of each module learns from train and leaves finalists, within the evaluator's
# budget. It is imported when its name is chosen, since DSPy takes half a second.
OPTIMIZERS = {"rank": "optimize.search.rank_search", "gepa": "optimize.search.gepa"}


def largest_demo_set(items: Items, untuned: Prompt, options: SearchOptions) -> DemoSet:
    """All of the items that can be shown, or as many of all levels as a prompt takes."""
    rng = stream(options.seed, EVERYTHING)
    longest = options.longest_demos
    return draw_demo_set(items, untuned, options.max_demos, rng, max_characters=longest)


class CrossFit:
    """Versions of a judge that shows all labels of train and dev, each without a fold of them."""

    def __init__(self, everything: Items, untuned: Prompt, options: SearchOptions) -> None:
        self._everything, self._untuned, self._options = everything, untuned, options
        names = everything.documents
        order = stream(options.seed, "parts", "documents").permutation(len(names))
        self._fold_of = {names[index]: place % FOLDS for place, index in enumerate(order)}
        self.demo_set = largest_demo_set(everything, untuned, options)

    @cached_property
    def is_feasible(self) -> bool:
        """Whether everything can be shown, and each version shows something."""
        if self.demo_set.kind != EVERYTHING or len(self._everything.documents) < 2 * FOLDS:
            return False
        return all(demo_set.demos for demo_set in self._demo_sets.values())

    @cached_property
    def _demo_sets(self) -> dict[int, DemoSet]:
        """What the version without each fold shows."""
        others = (
            (fold, self._everything.of_rows(np.flatnonzero(~own).tolist()))
            for fold, own in self._folds(self._everything)
        )
        return {n: largest_demo_set(rest, self._untuned, self._options) for n, rest in others}

    def _folds(self, items: Items) -> Iterator[tuple[int, Mask]]:
        """Each fold, and which items are of it."""
        folds = np.array([self._fold_of[name] for name in items.document_ids])
        return ((fold, folds == fold) for fold in set(folds.tolist()))

    def verdicts(self, scores: Vector, items: Items) -> Vector:
        """Verdicts in the items' order, each by the threshold that the other folds teach."""
        passes = np.empty(len(items))
        for _, own in self._folds(items):
            passes[own] = verdicts(scores[own], best_threshold(scores[~own], items.human[~own]))
        return passes

    def scores(self, evaluator: Evaluator, candidate: Candidate, items: Items) -> Vector:
        """Scores in the items' order, each by the version that does not show its document.

        Raises SearchBudgetSpentError where they cannot be paid.
        """
        scores = np.empty(len(items))
        for fold, own in self._folds(items):
            version = replace(candidate, demo_set=self._demo_sets[fold])
            scores[own] = evaluator.scores(version, items.of_rows(np.flatnonzero(own).tolist()))
        return scores


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRound:
    """What a search's last round brought: by how much the best candidate on train became better.

    `error` is the standard error of its gain there; `cost` is in the budget's unit. `is_final`: the
    search ended since the round gained less than the error, and not for want of money.
    """

    gain: float
    error: float
    cost: float
    is_final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What an optimizer ends with: finalists, best first.

    `tried` are the ids of all candidates scored. `n_too_dear` candidates did better than the
    untuned judge on train and cost too much to be finalists. With `cross_fit` the one finalist
    shows labels of dev as well, and versions of it are judged. `last_round` is None where rounds
    are not counted.
    """

    finalists: Sequence[Candidate]
    tried: Collection[str]
    cross_fit: CrossFit | None = None
    n_too_dear: int = 0
    last_round: LastRound | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search ends with: the tuned judge, whether to ship it, and why.

    `tuned` is the untuned judge where there is no other; `untuned` has its threshold.
    `last_rounds` are of either half, where rounds are counted.
    """

    tuned: Candidate
    untuned: Candidate
    decision: ShipDecision
    n_tried: int
    last_rounds: Sequence[LastRound] = ()


UNTUNED = "Shipped: the untuned judge."
GOES_ON = "The same command again with a larger limit goes on from there."


def search(optimizer: str, problem: SearchProblem) -> SearchResult:
    """Search with the optimizer of this name on either half of the labels, and decide."""
    explore: Callable[[SearchProblem], Exploration] = import_module(OPTIMIZERS[optimizer]).explore
    budget = problem.evaluator.budget
    everything = budget.limit
    halves = (problem, replace(problem, train=problem.dev, dev=problem.train))
    explorations: list[Exploration] = []
    finalists: list[list[Finalist]] = []
    with suppress(BudgetSpentError, SearchBudgetSpentError):
        for half in halves:
            budget.limit = everything if explorations else budget.spent + budget.left / 2
            explorations.append(explore(half))
            budget.limit = everything
            finalists.append(score_finalists(half, explorations[-1]))
            if explorations[-1].cross_fit:
                break
    budget.limit = everything
    tried = {name for each in explorations for name in each.tried}
    n_tried = len(tried.union(each.candidate.id for half in finalists for each in half))
    prevented = None
    if len(finalists) < len(explorations):
        why = f"The budget ended before the best of {n_tried} candidates had been judged on "
        prevented = stopped(f"{why}documents held out from them.")
    elif not any(finalists) and (n_too_dear := sum(each.n_too_dear for each in explorations)):
        why = f"{n_too_dear} of {n_tried} candidates did better on train, but judging dev and test "
        prevented = stopped(f"{why}with any of them costs more than the limit.")
    tuned, decision = decide(problem, finalists, n_tried, prevented)
    taught = problem.labelled if any(each.cross_fit for each in explorations) else problem.train
    untuned = replace(problem.untuned, threshold=problem.threshold(problem.untuned, taught))
    tuned = untuned if tuned.id == untuned.id else tuned
    return SearchResult(
        tuned=tuned,
        untuned=untuned,
        decision=decision,
        n_tried=n_tried,
        last_rounds=[each.last_round for each in explorations if each.last_round],
    )


def score_finalists(problem: SearchProblem, exploration: Exploration) -> list[Finalist]:
    """Score the finalists and the untuned judge on what taught them nothing, and write it down.

    As many finalists as can all be scored on dev, but the first always, on as many documents as the
    budget reaches for: those that can tell judges apart come first.
    """
    if not exploration.finalists:
        return []
    evaluator, goal, cross_fit = problem.evaluator, problem.goal, exploration.cross_fit

    def needed(judge: Candidate) -> float:
        taught = taught_by(problem, judge)
        return evaluator.cost(judge, problem.dev) + evaluator.cost(judge, taught)

    left = evaluator.budget.left - needed(problem.untuned)
    affordable: list[Candidate] = []
    for candidate in exploration.finalists:
        if needed(candidate) <= left or not affordable:
            affordable.append(candidate)
            left -= needed(candidate)
    judges = [problem.untuned, *affordable]
    for judge in judges if not cross_fit else ():
        taught = taught_by(problem, judge)
        # Where a limit is small, what tests them comes first, and thresholds stay where they are.
        if evaluator.cost(judge, taught) <= evaluator.budget.left / 2:
            evaluator.scores(judge, taught)
    dev = problem.labelled if cross_fit else problem.dev
    part = affordable_documents(evaluator, judges, dev, goal)
    untuned = evaluator.scores(problem.untuned, part)
    _, untuned = at_threshold(problem, problem.untuned, untuned, part, cross_fit)
    finalists = []
    for candidate in affordable:
        if cross_fit:
            scores = cross_fit.scores(evaluator, candidate, part)
        else:
            scores = evaluator.scores(candidate, part)
        candidate, scores = at_threshold(problem, candidate, scores, part, cross_fit)
        finalist = Finalist(candidate=candidate, items=part, scores=scores, untuned=untuned)
        finalists.append(finalist)
        problem.record_candidate(
            "dev",
            candidate,
            value=objective(scores, part, goal),
            gain=finalist.gain(goal).value,
            n_documents=len(part.documents),
        )
    return finalists


def at_threshold(
    problem: SearchProblem,
    candidate: Candidate,
    scores: Vector,
    items: Items,
    cross_fit: CrossFit | None,
) -> tuple[Candidate, Vector]:
    """For balanced accuracy the candidate with its threshold, and its verdicts.

    The threshold is learned on what teaches and is not shown, never on the items themselves.
    """
    if problem.goal != "balanced":
        return candidate, scores
    if cross_fit:
        threshold = best_threshold(scores, items.human)
        return replace(candidate, threshold=threshold), cross_fit.verdicts(scores, items)
    threshold = problem.threshold(candidate, taught_by(problem, candidate))
    return replace(candidate, threshold=threshold), verdicts(scores, threshold)


def taught_by(problem: SearchProblem, candidate: Candidate) -> Items:
    """What teaches a threshold: of train what races have met, or all where they have not met it."""
    if problem.goal != "balanced":
        return Items(())
    names = [name for name in problem.train.documents if name not in candidate.documents]
    items = problem.train.of_documents(names)
    known = problem.evaluator.known(candidate, items)
    return known if len(known) else items


def affordable_documents(
    evaluator: Evaluator, judges: Sequence[Candidate], items: Items, goal: Goal
) -> Items:
    """The items of the documents that all these judges can be scored on within the budget."""
    affordable, left = [], evaluator.budget.left
    for document in dict.fromkeys((*informative_documents(items, goal), *items.documents)):
        part = items.of_documents([document])
        left -= sum(evaluator.cost(judge, part) for judge in judges)
        if left < 0:
            break
        affordable.append(document)
    return items.of_documents(affordable)


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
        why = f"{UNTUNED} {tried} fall short of it by {by}."
    else:
        why = (
            f"{UNTUNED} {tried} beat it by {by}. If tuning did nothing, more than {share} would "
            "show as much."
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


def fewest_documents(risk: float) -> int:
    """How many documents can show a gain at this risk.

    Of n documents the best swap is one of 2 to the power of n, so the test can give no smaller
    chance than that: 4 documents give 1/16, which .10 allows, and 6 give 1/64, which .025 does.
    """
    return max(2, math.ceil(-math.log2(risk)))


def power(n_documents: int, outputs: float, gain: float, risk: float = RISK) -> float:
    """How likely a judge ships whose rho is truly higher by `gain`, 0 to 1.

    `n_documents` are those of train and dev. By the t test of differences that have the spread
    `SPREAD` for each of a document's `outputs`, within documents each beyond the first.
    """
    from scipy.special import nctdtr, stdtrit

    if n_documents < fewest_documents(risk):
        return 0.0
    error = SPREAD / math.sqrt(n_documents * outputs)
    freedom = n_documents - 1
    return float(1 - nctdtr(freedom, gain / error, stdtrit(freedom, 1 - risk)))


def documents_for(power_wanted: float, outputs: float, gain: float, risk: float) -> int:
    """The fewest documents of train and dev that have so much power."""
    sizes = itertools.count(fewest_documents(risk))
    return next(n for n in sizes if power(n, outputs, gain, risk) >= power_wanted)


def chance_of_gain(
    everything: Items, learned: Items, *, goal: Goal, risk: float = RISK
) -> tuple[str, int]:
    """How likely a gain ships, in words, and how many documents make it likely."""
    n_learned, what = len(learned.places), "rho"
    outputs = len(learned) / n_learned
    if goal == "balanced":
        # The spread of balanced accuracy is the root of DISAGREEMENT / (4 p (1 - p)) an output.
        rate, what = float(learned.human.mean()), "balanced accuracy"
        outputs *= 4 * rate * (1 - rate) / DISAGREEMENT
    elif goal != "dataset":
        outputs = max(1.0, outputs - 1)
    chance = power(n_learned, outputs, GAIN, risk)
    likely = documents_for(LIKELY, outputs, GAIN, risk)
    if goal == "dataset":
        untied = read_rows(learned.human, learned.human, learned.document_ids).n_untied
        chance *= untied >= FEWEST_UNTIED
        # Where no document has another label than the commonest, at least ten times as many.
        likely = max(likely, math.ceil(FEWEST_UNTIED * n_learned / max(untied, 1)))
    likely = math.ceil(likely * len(everything.places) / n_learned)
    chance_now = f"A gain of {GAIN:g} {what} ships with a chance of {chance:.0%}"
    return f"{chance_now}; with {likely:,} labelled documents, {LIKELY:.0%}.", likely


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
