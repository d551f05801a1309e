"""Run an optimizer on each half of the labels, and test its finalists on the other half."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from dspy_judges.errors import SettingsError
from optimize.figures.by_judge import ByJudge, JudgeName
from optimize.items import Items
from optimize.search.budget import BUDGET_ERRORS
from optimize.search.candidates import Candidate
from optimize.search.gate import QuestionTest, ShipDecision, decide
from optimize.search.optimizer import MAX_FINALISTS, Exploration, LastRound, Optimizer
from optimize.search.problem import CandidateTrial, SearchProblem, first_documents
from optimize.search.questions import (
    QuestionsNotTestedError,
    ask_questions,
    question_test_cost,
)
from optimize.statistics.intervals import Vector

# For the test of its finalists, a half reserves FINALISTS_COST times the cost of judging the other
# half with the untuned judge, but at most the share MAX_TEST_SHARE of its budget. The 1 is for the
# untuned judge, which is tested, too.
FINALISTS_COST, MAX_TEST_SHARE = 1 + 1.2 * MAX_FINALISTS, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: the best judge that it found, and the decision whether it ships."""

    tuned_candidate: Candidate
    untuned_candidate: Candidate
    decision: ShipDecision
    n_tried: int
    last_round: LastRound | None = None

    @property
    def shipped(self) -> JudgeName:
        return "tuned" if self.decision.ships else "untuned"

    @property
    def judges(self) -> ByJudge[Candidate]:
        return ByJudge(untuned=self.untuned_candidate, tuned=self.tuned_candidate)


def two_fold_search(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """Run the optimizer on both halves, test what it finds, and decide which judge ships."""
    train, dev, add_record = problem.train, problem.dev, problem.add_record
    halves = (
        replace(problem, add_record=partial(add_record, half=1)),
        replace(problem, add_record=partial(add_record, half=2), train=dev, dev=train),
    )
    explorations, trials_by_half = _search_halves(optimizer, halves)
    is_cross_validated = any(exploration.cross_validation for exploration in explorations)
    # A cross-validated judge has learned from both halves, so neither can test it with questions.
    question_test = QuestionTest() if is_cross_validated else _test_questions(halves, explorations)
    all_trials = chain(question_test.trials, *trials_by_half)
    tried_ids = {trial.candidate.id for trial in all_trials}
    tried_ids.update(*(exploration.candidate_ids for exploration in explorations))
    n_tried = len(tried_ids - {problem.untuned.id})
    tuned, decision = _decide(problem, explorations, trials_by_half, n_tried, question_test)
    threshold_items = problem.train_and_dev if is_cross_validated else train
    untuned = problem.with_threshold(problem.untuned, threshold_items)
    return SearchResult(
        tuned_candidate=untuned if tuned.id == untuned.id else tuned,
        untuned_candidate=untuned,
        decision=decision,
        n_tried=n_tried,
        last_round=LastRound.combine([exploration.last_round for exploration in explorations]),
    )


def _decide(
    problem: SearchProblem,
    explorations: Sequence[Exploration],
    trials_by_half: Sequence[Sequence[CandidateTrial]],
    n_tried: int,
    question_test: QuestionTest,
) -> tuple[Candidate, ShipDecision]:
    """Choose the tuned judge, and decide whether it ships or the limit was too small to say."""
    is_tested = len(trials_by_half) == len(explorations)
    if not is_tested and not question_test.trials:
        reason = (
            "The limit ended the search before a candidate was tested on documents held out from "
            f"it ({n_tried} tried).{question_test.note}"
        )
        return problem.untuned, ShipDecision(ships=False, reason=reason, limit_reached=True)
    tuned, decision = decide(problem, trials_by_half if is_tested else [], n_tried, question_test)
    reason, limit_reached = decision.reason + question_test.note, question_test.limit_reached
    # If a limit ended the search without finalists, it was too small, even if no optimizer says so.
    has_refused_all = problem.evaluator.budget.has_refused and not any(trials_by_half)
    is_too_small = has_refused_all or all(each.limit_reached for each in explorations)
    if is_too_small and not decision.ships:
        limit_reached = True
        reason += " The limit was too small to try more candidates."
    return tuned, replace(decision, reason=reason, limit_reached=limit_reached)


def _test_questions(
    halves: Sequence[SearchProblem], explorations: Sequence[Exploration]
) -> QuestionTest:
    """Test questions. If they cannot be tested, the result has a note on the reason."""
    try:
        return ask_questions(halves, explorations)
    except QuestionsNotTestedError as error:
        return QuestionTest(note=f" Questions do not ship: {error}.")
    except BUDGET_ERRORS as error:
        return QuestionTest(note=f" Questions were not tested: {error}.", limit_reached=True)


def _search_halves(
    optimizer: Optimizer, halves: Sequence[SearchProblem]
) -> tuple[list[Exploration], list[list[CandidateTrial]]]:
    """Run the optimizer on each half, and test its finalists, until the budget is spent."""
    explorations = [Exploration(limit_reached=True) for _ in halves]  # until a half is explored
    trials_by_half = list[list[CandidateTrial]]()
    budget, question_cost = halves[0].evaluator.budget, question_test_cost(halves[0], optimizer)
    with budget.limited_to(budget.limit, reserve=question_cost), suppress(*BUDGET_ERRORS):
        # The first half may spend half of the budget, and the second half all that is left of it.
        limits = budget.total_cost + budget.remaining / 2, budget.limit
        for index, (half, limit) in enumerate(zip(halves, limits, strict=True)):
            dev_cost = half.evaluator.item_cost(half.untuned) * len(half.dev)
            reserve = min(FINALISTS_COST * dev_cost, MAX_TEST_SHARE * (limit - budget.total_cost))
            with budget.limited_to(limit, reserve=reserve):
                explorations[index] = exploration = optimizer(half)
            if not isinstance(exploration, Exploration):
                fault = f"the optimizer returned {type(exploration)}, not an Exploration"
                raise SettingsError(fault)
            if exploration.cross_validation:  # its test is the test of both halves
                return [exploration], [score_finalists(half, exploration)]
            with budget.limited_to(limit):
                trials_by_half.append(score_finalists(half, exploration))
    return explorations, trials_by_half


def score_finalists(half: SearchProblem, exploration: Exploration) -> list[CandidateTrial]:
    """Test the finalists on items that they did not learn from, and return the reliable trials."""
    if not exploration.finalists:
        return []
    evaluator, cross_validation = half.evaluator, exploration.cross_validation
    candidates = _affordable_finalists(half, exploration.finalists)
    for candidate in candidates:
        items = calibration_items(half, candidate)
        # If little of the budget is left, it is kept for the test, and thresholds are learned only
        # from items that the candidate has already been scored on.
        if evaluator.cost(candidate, items) <= evaluator.budget.remaining / 2:
            evaluator.scores(candidate, items)
    test_items = first_documents(
        half.train_and_dev if cross_validation else half.dev,
        half.goal,
        evaluator.budget.remaining,
        lambda items: sum(evaluator.cost(candidate, items) for candidate in candidates),
    )
    score = cross_validation.judge if cross_validation else partial(_score, half)
    _, untuned_scores = score(half.untuned, test_items)
    trials = []
    for finalist in candidates[1:]:
        candidate, scores = score(finalist, test_items)
        trial = CandidateTrial(candidate, test_items, scores, untuned_scores, half.goal)
        trial.record(half, "dev")
        trials.append(trial)
    return [trial for trial in trials if trial.is_reliable]


def _affordable_finalists(half: SearchProblem, finalists: Sequence[Candidate]) -> list[Candidate]:
    """Return the untuned judge, the first finalist, and any others that the budget can score."""
    evaluator, candidates = half.evaluator, list[Candidate]()
    remaining_budget = evaluator.budget.remaining
    for candidate in (half.untuned, *finalists):
        items = half.dev + calibration_items(half, candidate)
        cost = evaluator.cost(candidate, items)
        if cost <= remaining_budget or len(candidates) < 2:
            candidates.append(candidate)
            remaining_budget -= cost
    return candidates


def _score(half: SearchProblem, candidate: Candidate, items: Items) -> tuple[Candidate, Vector]:
    """Return the candidate with a threshold learned from train, and its scores or verdicts."""
    candidate = half.with_threshold(candidate, calibration_items(half, candidate))
    return candidate, half.scores_or_verdicts(candidate, items)


def calibration_items(half: SearchProblem, candidate: Candidate) -> Items:
    """Return the items of train from which a threshold is learned; none if the goal is rho."""
    if half.goal != "balanced":
        return Items(())
    items = candidate.unseen(half.train)
    return half.evaluator.scored_items(candidate, items) or items
