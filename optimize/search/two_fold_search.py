"""Run the search on each half of the labels, and test its finalists on the other half."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import BUDGET_ERRORS, SearchProblem, first_documents
from optimize.search.gate import Finalist, ShipDecision, decide
from optimize.search.optimizer import (
    N_FINALISTS,
    ByJudge,
    CrossFit,
    Exploration,
    JudgeName,
    LastRound,
    Optimizer,
    find_optimizer,
)
from optimize.search.questions import NotTestedError, ask_questions, asking_cost
from optimize.statistics.balanced import best_threshold, verdicts

GO_ON = "The same command again with a larger limit goes on from there."


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: the tuned judge, whether it ships, and why.

    Attributes:
        tuned: The tuned judge; the untuned judge if no candidate was better.
        untuned: The untuned judge, with its threshold.
        decision: Whether the tuned judge ships, and why.
        n_tried: How many candidates were tried.
        last_round: The last rounds of both halves as one: mean gain and error, total cost.
    """

    tuned: Candidate
    untuned: Candidate
    decision: ShipDecision
    n_tried: int
    last_round: LastRound | None = None

    @property
    def shipped(self) -> JudgeName:
        """The name in JSON of the judge that ships."""
        return "tuned" if self.decision.ship else "seed"

    @property
    def judges(self) -> ByJudge[Candidate]:
        """The untuned and the tuned judge."""
        return ByJudge(untuned=self.untuned, tuned=self.tuned)


def two_fold_search(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """Run the optimizer on each half, test its finalists and questions, and decide what ships."""
    halves = (problem, replace(problem, train=problem.dev, dev=problem.train))
    explorations, finalists = _explore(optimizer, halves)
    shows_all = any(each.cross_fit for each in explorations)
    questions, note = None, ""
    try:
        # The budget may have ended before a half was explored.
        explored = [*explorations, Exploration(), Exploration()][: len(halves)]
        questions = None if shows_all else ask_questions(halves, explored)
    except NotTestedError as error:
        note = f" {error}"
    except BUDGET_ERRORS:
        note = " Questions were not tested: the limit does not pay for them."
    tested = [*chain(*finalists), *(questions.finalists if questions else ())]
    ids = {each.candidate.id for each in tested}.union(
        *(each.candidate_ids for each in explorations)
    )
    out_of_budget = _out_of_budget(explorations, finalists, len(ids))
    tuned, decision = decide(problem, finalists, len(ids), out_of_budget, questions)
    is_starved = bool(explorations) and all(each.is_starved for each in explorations)
    if is_starved and not (decision.ship or decision.limit_reached):
        note += f" The limit was too small for any proposed instruction. {GO_ON}"
        decision = replace(decision, limit_reached=True)
    items = problem.labelled if shows_all else problem.train
    untuned = replace(problem.untuned, threshold=problem.threshold(problem.untuned, items))
    return SearchResult(
        tuned=untuned if tuned.id == untuned.id else tuned,
        untuned=untuned,
        decision=replace(decision, reason=decision.reason + note),
        n_tried=len(ids),
        last_round=LastRound.of_both([each.last_round for each in explorations]),
    )


def _explore(
    optimizer: Optimizer, halves: Sequence[SearchProblem]
) -> tuple[list[Exploration], list[list[Finalist]]]:
    """Run the optimizer on each half, and test its finalists on the other half.

    The lists end early if the budget does.
    """
    budget, explorations = halves[0].evaluator.budget, list[Exploration]()
    finalists: list[list[Finalist]] = []
    limit = budget.limit
    is_rank = optimizer is find_optimizer("rank")
    with budget.reserving(asking_cost(halves[0], proposes=is_rank)), suppress(*BUDGET_ERRORS):
        whole_limit = budget.limit
        for half in halves:
            # The first half may spend only half of the budget.
            budget.limit = whole_limit if explorations else budget.total_cost + budget.remaining / 2
            # The rank search knows its finalists, and reserves what their own test costs.
            with budget.reserving(0 if is_rank else _test_cost(half)):
                explorations.append(optimizer(half))
            budget.limit = whole_limit
            finalists.append(score_finalists(half, explorations[-1]))
            if explorations[-1].cross_fit:
                break
    budget.limit = limit
    return explorations, finalists


def _test_cost(problem: SearchProblem) -> float:
    """The usual cost of testing the finalists on dev, at most half of what remains."""
    evaluator = problem.evaluator
    cost = (1 + N_FINALISTS) * evaluator.item_cost(problem.untuned) * len(problem.dev)
    return min(cost, evaluator.budget.remaining / 2)


def _out_of_budget(
    explorations: Sequence[Exploration], finalists: Sequence[Sequence[Finalist]], n_tried: int
) -> ShipDecision | None:
    """The decision if the budget prevented the test of the finalists; otherwise None."""
    n_too_expensive = sum(each.n_too_expensive for each in explorations)
    if len(finalists) < len(explorations):
        cause = (
            f"The budget ended before the best of {n_tried} candidates had been judged on "
            "documents held out from them."
        )
    elif n_too_expensive and not any(finalists):
        cause = (
            f"{n_too_expensive} of {n_tried} candidates did better on train, but judging dev and "
            "test with any of them costs more than the limit."
        )
    else:
        return None
    return ShipDecision(ship=False, reason=f"{cause} {GO_ON}", limit_reached=True)


def score_finalists(problem: SearchProblem, exploration: Exploration) -> list[Finalist]:
    """Score and record the finalists and the untuned judge on items that they did not learn from.

    The budget limits how many finalists are scored on all of dev. The first finalist is always
    scored; if the budget does not pay for all documents, those that can tell judges apart come
    first.
    """
    if not exploration.finalists:
        return []
    evaluator, cross_fit = problem.evaluator, exploration.cross_fit
    budget, dev = evaluator.budget, problem.labelled if cross_fit else problem.dev
    calibration = {
        judge.id: calibration_items(problem, judge)
        for judge in (problem.untuned, *exploration.finalists)
    }

    def cost(judge: Candidate) -> float:
        items = calibration[judge.id]
        return evaluator.cost(judge, problem.dev) + evaluator.cost(judge, items)

    judges, remaining = [problem.untuned], budget.remaining - cost(problem.untuned)
    for candidate in exploration.finalists:
        if cost(candidate) <= remaining or len(judges) == 1:
            judges.append(candidate)
            remaining -= cost(candidate)
    for judge in () if cross_fit else judges:
        # Under a small limit the test has priority, and thresholds rest on the scores so far.
        if evaluator.cost(judge, calibration[judge.id]) <= budget.remaining / 2:
            evaluator.scores(judge, calibration[judge.id])
    part = first_documents(
        dev,
        problem.goal,
        budget.remaining,
        lambda items: sum(evaluator.cost(judge, items) for judge in judges),
    )
    _, untuned = _judge_items(problem, problem.untuned, part, cross_fit)
    finalists = []
    for judge in judges[1:]:
        candidate, scores = _judge_items(problem, judge, part, cross_fit)
        finalist = Finalist(candidate=candidate, items=part, scores=scores, untuned=untuned)
        finalist.record(problem, "dev")
        finalists.append(finalist)
    return finalists


def _judge_items(
    problem: SearchProblem, judge: Candidate, items: Items, cross_fit: CrossFit | None
) -> tuple[Candidate, Vector]:
    """The judge with its threshold, and its scores on the items.

    For balanced accuracy the scores are verdicts. Their threshold is never learned on the items
    themselves, nor on documents that the prompt shows.
    """
    if cross_fit and judge.demo_set.demos:
        scores = cross_fit.scores(problem.evaluator, judge, items)
    else:
        scores = problem.evaluator.scores(judge, items)
    if problem.goal != "balanced":
        return judge, scores
    if cross_fit:
        threshold = best_threshold(scores, items.human)
        return replace(judge, threshold=threshold), cross_fit.verdicts(scores, items)
    threshold = problem.threshold(judge, calibration_items(problem, judge))
    return replace(judge, threshold=threshold), verdicts(scores, threshold)


def calibration_items(problem: SearchProblem, candidate: Candidate) -> Items:
    """The items of train from which a threshold is learned.

    These are the items that the candidate was scored on, or all items if there are none. Documents
    in its demonstrations are left out.
    """
    if problem.goal != "balanced":
        return Items(())
    names = [name for name in problem.train.documents if name not in candidate.documents]
    items = problem.train.of_documents(names)
    return problem.evaluator.scored_items(candidate, items) or items
