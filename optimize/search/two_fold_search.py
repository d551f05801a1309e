"""Run an optimizer on each half of the labels, and test its finalists on the other half."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

from optimize.figures.by_judge import ByJudge, JudgeName
from optimize.items import Items
from optimize.search.budget import BUDGET_ERRORS
from optimize.search.candidates import Candidate
from optimize.search.gate import QuestionTest, ShipDecision, decide
from optimize.search.optimizer import (
    MAX_FINALISTS,
    QUESTION_WRITERS,
    Exploration,
    LastRound,
    Optimizer,
)
from optimize.search.problem import CandidateTrial, SearchProblem, first_documents
from optimize.search.questions import QuestionsNotTestedError, ask_questions, question_test_cost
from optimize.statistics.intervals import Vector


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: the tuned judge (or the untuned one), whether it ships, and why.

    `untuned` has the threshold that was learned for the untuned judge. `last_round` combines the
    last rounds of both halves.
    """

    tuned_candidate: Candidate
    untuned_candidate: Candidate
    decision: ShipDecision
    n_tried: int
    last_round: LastRound | None = None

    @property
    def shipped(self) -> JudgeName:
        """The name of the judge that ships, as in JSON: "tuned" or "seed"."""
        return "tuned" if self.decision.ships else "seed"

    @property
    def judges(self) -> ByJudge[Candidate]:
        return ByJudge(untuned=self.untuned_candidate, tuned=self.tuned_candidate)


def two_fold_search(optimizer: Optimizer, search_problem: SearchProblem) -> SearchResult:
    """Run the optimizer on both halves, test what it finds, and decide which judge ships."""
    first_half = replace(search_problem, add_record=partial(search_problem.add_record, half=1))
    second_half = replace(search_problem, add_record=partial(search_problem.add_record, half=2))
    half_problems = (
        first_half,
        replace(second_half, train=search_problem.dev, dev=search_problem.train),
    )
    explorations, trials = _explore_halves(optimizer, half_problems)
    # A limit that ended a search without finalists was too small, whatever the optimizer says.
    has_refused = search_problem.evaluator.budget.has_refused and not any(trials)
    was_cut_short = has_refused or all(each.limit_reached for each in explorations)
    shows_all = any(exploration.cross_validation for exploration in explorations)
    questions, why_untested, limit_reached = _test_questions(half_problems, explorations)
    question_trials = questions.trials if questions else ()
    tried_ids = {trial.candidate.id for trial in chain(*trials, question_trials)}
    for exploration in explorations:
        tried_ids |= set(exploration.candidate_ids)
    n_tried = len(tried_ids - {search_problem.untuned.id})
    are_all_tested = len(trials) == len(explorations)
    tuned, decision = decide(search_problem, trials if are_all_tested else [], n_tried, questions)
    reason = decision.reason + why_untested
    if not are_all_tested and not questions:
        limit_reached = True
        reason = (
            "The limit ended the search before a candidate was tested on documents held out from "
            f"it ({n_tried} tried).{why_untested}"
        )
    elif was_cut_short and not decision.ships:
        limit_reached = True
        reason += " The limit was too small to try more candidates."
    threshold_items = search_problem.train_and_dev if shows_all else search_problem.train
    untuned = search_problem.with_threshold(search_problem.untuned, threshold_items)
    return SearchResult(
        tuned_candidate=untuned if tuned.id == untuned.id else tuned,
        untuned_candidate=untuned,
        decision=replace(decision, reason=reason, limit_reached=limit_reached),
        n_tried=n_tried,
        last_round=LastRound.combine([exploration.last_round for exploration in explorations]),
    )


def _test_questions(
    half_problems: Sequence[SearchProblem], explorations: Sequence[Exploration]
) -> tuple[QuestionTest | None, str, bool]:
    """Return the test of questions, else why there is none, and whether a limit is the reason."""
    if any(exploration.cross_validation for exploration in explorations):
        return None, "", False  # no half is left that the judge did not learn from
    # If the budget ended before a half was explored, an empty exploration stands for the half.
    both_explorations = [*explorations, Exploration(), Exploration()][: len(half_problems)]
    try:
        return ask_questions(half_problems, both_explorations), "", False
    except QuestionsNotTestedError as error:
        return None, f" Questions do not ship: {error}.", False
    except BUDGET_ERRORS as error:
        return None, f" Questions were not tested: {error}.", True


def _explore_halves(
    optimizer: Optimizer, half_problems: Sequence[SearchProblem]
) -> tuple[list[Exploration], list[list[CandidateTrial]]]:
    """Run the optimizer on each half, and test its finalists on the other half.

    If the budget is spent before the end, the lists have fewer than two entries.
    """
    budget = half_problems[0].evaluator.budget
    initial_limit = budget.limit
    explorations: list[Exploration] = []
    trials: list[list[CandidateTrial]] = []
    question_cost = question_test_cost(
        half_problems[0], optimizer_asks=optimizer in QUESTION_WRITERS
    )
    with budget.reserving(question_cost), suppress(*BUDGET_ERRORS):
        # The first half may spend only half of the budget.
        limits = budget.total_cost + budget.remaining / 2, budget.limit
        for half_problem, limit in zip(half_problems, limits, strict=True):
            budget.limit = limit
            item_cost = half_problem.evaluator.item_cost(half_problem.untuned)
            usual_cost = (1 + MAX_FINALISTS) * item_cost * len(half_problem.dev)
            test_reserve = min(usual_cost, budget.remaining / 2)
            with budget.reserving(test_reserve):
                explorations.append(optimizer(replace(half_problem, test_reserve=test_reserve)))
            budget.limit = limits[-1]
            trials.append(score_finalists(half_problem, explorations[-1]))
            if explorations[-1].cross_validation:
                break
    budget.limit = initial_limit
    return explorations, trials


def score_finalists(
    search_problem: SearchProblem, exploration: Exploration
) -> list[CandidateTrial]:
    """Score the finalists and the untuned judge on items they did not learn from, and record this.

    Finalists that fail too often are left out. Only as many finalists are scored as the budget can
    pay for on all of dev, but always the first.
    """
    if not exploration.finalists:
        return []
    evaluator, folds = search_problem.evaluator, exploration.cross_validation
    budget, dev = evaluator.budget, search_problem.train_and_dev if folds else search_problem.dev
    candidates, remaining_budget = list[Candidate](), budget.remaining
    for candidate in (search_problem.untuned, *exploration.finalists):
        cost = evaluator.cost(candidate, search_problem.dev)
        cost += evaluator.cost(candidate, calibration_items(search_problem, candidate))
        if cost <= remaining_budget or len(candidates) < 2:
            candidates.append(candidate)
            remaining_budget -= cost
    for candidate in candidates:
        items = calibration_items(search_problem, candidate)
        # If little of the budget is left, the rest is kept for the test, and thresholds are learned
        # from the scores that are known already.
        if evaluator.cost(candidate, items) <= budget.remaining / 2:
            evaluator.scores(candidate, items)
    test_items = first_documents(
        dev,
        search_problem.goal,
        budget.remaining,
        lambda items: sum(evaluator.cost(candidate, items) for candidate in candidates),
    )
    judge = folds.judge if folds else partial(_judge_items, search_problem)
    _, untuned_scores = judge(search_problem.untuned, test_items)
    trials = []
    for candidate in candidates[1:]:
        candidate, scores = judge(candidate, test_items)
        trial = CandidateTrial(candidate, test_items, scores, untuned_scores, search_problem.goal)
        trial.record(search_problem, "dev")
        if trial.is_reliable:
            trials.append(trial)
    return trials


def _judge_items(
    search_problem: SearchProblem, candidate: Candidate, items: Items
) -> tuple[Candidate, Vector]:
    """Return the candidate with its threshold, and its scores or verdicts on the items.

    The threshold is learned neither on the items themselves nor on documents that the prompt shows.
    """
    scores = search_problem.evaluator.scores(candidate, items)
    candidate = search_problem.with_threshold(
        candidate, calibration_items(search_problem, candidate)
    )
    return candidate, search_problem.apply_threshold(scores, candidate.threshold)


def calibration_items(search_problem: SearchProblem, candidate: Candidate) -> Items:
    """Return items of train to learn a threshold from: scored items, else all. Empty for rho."""
    if search_problem.goal != "balanced":
        return Items(())
    items = candidate.unseen(search_problem.train)
    return search_problem.evaluator.scored_items(candidate, items) or items
