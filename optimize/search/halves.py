"""The search on either half of the labels, and the test of what it finds on the other half."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from judges.client import BudgetSpentError
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import (
    Evaluator,
    Goal,
    SearchBudgetSpentError,
    SearchProblem,
    informative_documents,
    objective,
)
from optimize.search.gate import Finalist, ShipDecision, decide, stopped
from optimize.search.optimizer import CrossFit, Exploration, LastRound, Optimizer
from optimize.statistics.balanced import best_threshold, verdicts


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


def search_halves(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """Search with an optimizer on either half of the labels, and decide what ships."""
    budget = problem.evaluator.budget
    everything = budget.limit
    halves = (problem, replace(problem, train=problem.dev, dev=problem.train))
    explorations: list[Exploration] = []
    finalists: list[list[Finalist]] = []
    with suppress(BudgetSpentError, SearchBudgetSpentError):
        for half in halves:
            budget.limit = everything if explorations else budget.spent + budget.left / 2
            explorations.append(optimizer(half))
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
