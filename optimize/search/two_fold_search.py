"""Run an optimizer on each half of the labels, and test its finalists on the other half."""

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

HOW_TO_CONTINUE = "To continue from there, run the same command again with a larger limit."


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: the tuned judge, whether it ships, and why.

    Attributes:
        tuned: The tuned judge. If no candidate was better, this is the untuned judge.
        untuned: The untuned judge, with the threshold that was learned for it.
        decision: Whether the tuned judge ships, and why.
        n_tried: How many candidates were tried.
        last_round: The last rounds of both halves, combined by `LastRound.of_both`.
    """

    tuned: Candidate
    untuned: Candidate
    decision: ShipDecision
    n_tried: int
    last_round: LastRound | None = None

    @property
    def shipped(self) -> JudgeName:
        """The name of the judge that ships, as in JSON: "tuned" or "seed"."""
        return "tuned" if self.decision.ship else "seed"

    @property
    def judges(self) -> ByJudge[Candidate]:
        """The untuned judge and the tuned judge."""
        return ByJudge(untuned=self.untuned, tuned=self.tuned)


def two_fold_search(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """Run the optimizer on both halves, test what it finds, and decide which judge ships."""
    halves = (problem, replace(problem, train=problem.dev, dev=problem.train))
    explorations, finalists = _explore(optimizer, halves)
    shows_all = any(exploration.cross_fit for exploration in explorations)
    questions, extra_sentence = None, ""
    try:
        # If the budget ended before a half was explored, an empty exploration stands for it.
        both_explorations = [*explorations, Exploration(), Exploration()][: len(halves)]
        questions = None if shows_all else ask_questions(halves, both_explorations)
    except NotTestedError as error:
        extra_sentence = f" {error}"
    except BUDGET_ERRORS:
        extra_sentence = " Questions were not tested: the limit does not pay for them."
    tested_finalists = [*chain(*finalists), *(questions.finalists if questions else ())]
    candidate_ids = {finalist.candidate.id for finalist in tested_finalists}.union(
        *(exploration.candidate_ids for exploration in explorations)
    )
    out_of_budget = _out_of_budget(explorations, finalists, len(candidate_ids))
    tuned, decision = decide(problem, finalists, len(candidate_ids), out_of_budget, questions)
    is_starved = bool(explorations) and all(exploration.is_starved for exploration in explorations)
    if is_starved and not (decision.ship or decision.limit_reached):
        extra_sentence += (
            f" The limit was too small for any proposed instruction. {HOW_TO_CONTINUE}"
        )
        decision = replace(decision, limit_reached=True)
    threshold_items = problem.labelled if shows_all else problem.train
    untuned = replace(
        problem.untuned, threshold=problem.threshold(problem.untuned, threshold_items)
    )
    return SearchResult(
        tuned=untuned if tuned.id == untuned.id else tuned,
        untuned=untuned,
        decision=replace(decision, reason=decision.reason + extra_sentence),
        n_tried=len(candidate_ids),
        last_round=LastRound.of_both([exploration.last_round for exploration in explorations]),
    )


def _explore(
    optimizer: Optimizer, halves: Sequence[SearchProblem]
) -> tuple[list[Exploration], list[list[Finalist]]]:
    """Run the optimizer on each half, and test its finalists on the other half.

    Returns the explorations and the finalists of the halves. If the budget is spent before the end,
    the lists have fewer than two entries.
    """
    budget, explorations = halves[0].evaluator.budget, list[Exploration]()
    finalists: list[list[Finalist]] = []
    initial_limit = budget.limit
    is_rank = optimizer is find_optimizer("rank")
    with budget.reserving(asking_cost(halves[0], proposes=is_rank)), suppress(*BUDGET_ERRORS):
        shared_limit = budget.limit
        for half in halves:
            # The first half may spend only half of the budget.
            budget.limit = (
                shared_limit if explorations else budget.total_cost + budget.remaining / 2
            )
            # The rank search itself reserves the cost of testing its finalists.
            with budget.reserving(0 if is_rank else _test_cost(half)):
                explorations.append(optimizer(half))
            budget.limit = shared_limit
            finalists.append(score_finalists(half, explorations[-1]))
            if explorations[-1].cross_fit:
                break
    budget.limit = initial_limit
    return explorations, finalists


def _test_cost(problem: SearchProblem) -> float:
    """The usual cost of testing the finalists on dev, but at most half of the remaining budget."""
    evaluator = problem.evaluator
    cost = (1 + N_FINALISTS) * evaluator.item_cost(problem.untuned) * len(problem.dev)
    return min(cost, evaluator.budget.remaining / 2)


def _out_of_budget(
    explorations: Sequence[Exploration], finalists: Sequence[Sequence[Finalist]], n_tried: int
) -> ShipDecision | None:
    """The decision if the budget did not suffice to test the finalists; otherwise None."""
    n_too_expensive = sum(exploration.n_too_expensive for exploration in explorations)
    if len(finalists) < len(explorations):
        cause = (
            f"The budget ended before the best of {n_tried} candidates had been judged on "
            "documents held out from them."
        )
    elif n_too_expensive and not any(finalists):
        cause = (
            f"{n_too_expensive} of {n_tried} candidates beat the untuned judge on train, but "
            "judging dev and test with any of them costs more than the limit."
        )
    else:
        return None
    return ShipDecision(ship=False, reason=f"{cause} {HOW_TO_CONTINUE}", limit_reached=True)


def score_finalists(problem: SearchProblem, exploration: Exploration) -> list[Finalist]:
    """Score the finalists and the untuned judge on items they did not learn from, and record this.

    Only as many finalists are scored as the budget can pay for on all of dev. The first finalist is
    always scored. If the budget cannot pay for all documents, informative documents come first
    (`informative_documents`).
    """
    if not exploration.finalists:
        return []
    evaluator, cross_fit = problem.evaluator, exploration.cross_fit
    budget, dev = evaluator.budget, problem.labelled if cross_fit else problem.dev
    items_for_threshold = {
        judge.id: calibration_items(problem, judge)
        for judge in (problem.untuned, *exploration.finalists)
    }

    def cost(judge: Candidate) -> float:
        items = items_for_threshold[judge.id]
        return evaluator.cost(judge, problem.dev) + evaluator.cost(judge, items)

    judges, remaining_budget = [problem.untuned], budget.remaining - cost(problem.untuned)
    for candidate in exploration.finalists:
        if cost(candidate) <= remaining_budget or len(judges) == 1:
            judges.append(candidate)
            remaining_budget -= cost(candidate)
    for judge in () if cross_fit else judges:
        # If little of the budget is left, it is kept for the test, and thresholds are learned from
        # the scores that are known already.
        if evaluator.cost(judge, items_for_threshold[judge.id]) <= budget.remaining / 2:
            evaluator.scores(judge, items_for_threshold[judge.id])
    test_items = first_documents(
        dev,
        problem.goal,
        budget.remaining,
        lambda items: sum(evaluator.cost(judge, items) for judge in judges),
    )
    _, untuned = _judge_items(problem, problem.untuned, test_items, cross_fit)
    finalists = []
    for judge in judges[1:]:
        candidate, scores = _judge_items(problem, judge, test_items, cross_fit)
        finalist = Finalist(candidate=candidate, items=test_items, scores=scores, untuned=untuned)
        finalist.record(problem, "dev")
        finalists.append(finalist)
    return finalists


def _judge_items(
    problem: SearchProblem, judge: Candidate, items: Items, cross_fit: CrossFit | None
) -> tuple[Candidate, Vector]:
    """Score the items with a judge, and learn the judge's threshold.

    Returns the judge with its threshold, and the scores. For balanced accuracy the scores are
    verdicts. The threshold for the verdicts is learned neither on the items themselves nor on
    documents that the prompt shows.
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
    """Select the items of train from which a candidate's threshold is learned.

    Items are selected if the candidate has been scored on them; if the candidate has no scores, all
    items of train are selected. Documents that the candidate's demonstrations show are left out. If
    the goal is not balanced accuracy, no items are selected.
    """
    if problem.goal != "balanced":
        return Items(())
    names = [name for name in problem.train.documents if name not in candidate.documents]
    items = problem.train.of_documents(names)
    return problem.evaluator.scored_items(candidate, items) or items
