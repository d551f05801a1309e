"""The search on each half of the labels, with tests of what it finds on the other half."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import SPENT, SearchProblem, first_documents
from optimize.search.gate import Finalist, ShipDecision, decide
from optimize.search.optimizer import (
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

    `tuned` is the untuned judge if no candidate was better. `untuned` has its threshold.
    `last_round` has the means of both halves' last rounds, and what these cost together.
    """

    tuned: Candidate
    untuned: Candidate
    decision: ShipDecision
    n_tried: int
    last_round: LastRound | None = None

    @property
    def shipped(self) -> JudgeName:
        """The judge that ships."""
        return "tuned" if self.decision.ship else "seed"

    @property
    def judges(self) -> dict[JudgeName, Candidate]:
        """Both judges by their names in JSON."""
        return {"seed": self.untuned, "tuned": self.tuned}


def two_fold_search(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """Run the optimizer on each half of the labels, ask questions, and decide which judge ships."""
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
    except SPENT:
        note = " Questions were not tested: the limit does not reach for them."
    tested = [*chain(*finalists), *(questions.finalists if questions else ())]
    ids = {each.candidate.id for each in tested}.union(
        *(each.candidate_ids for each in explorations)
    )
    fallback = _out_of_budget(explorations, finalists, len(ids))
    tuned, decision = decide(problem, finalists, len(ids), fallback, questions)
    is_starved = bool(explorations) and all(each.is_starved for each in explorations)
    if is_starved and not (decision.ship or decision.limit_reached):
        note += f" The limit paid for no proposed instruction. {GO_ON}"
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
    """What the optimizer finds on each half, and the test of its finalists, until the limit."""
    budget, explorations = halves[0].evaluator.budget, list[Exploration]()
    finalists: list[list[Finalist]] = []
    limit = budget.limit
    reserve = asking_cost(halves[0], proposes=optimizer is find_optimizer("rank"))
    with budget.reserving(reserve), suppress(*SPENT):
        most = budget.limit
        for half in halves:
            budget.limit = most if explorations else budget.total_cost + budget.remaining / 2
            explorations.append(optimizer(half))
            budget.limit = most
            finalists.append(score_finalists(half, explorations[-1]))
            if explorations[-1].cross_fit:
                break
    budget.limit = limit
    return explorations, finalists


def _out_of_budget(
    explorations: Sequence[Exploration], finalists: Sequence[Sequence[Finalist]], n_tried: int
) -> ShipDecision | None:
    """The decision if the budget prevented the test of the finalists; None if it did not."""
    n_too_dear = sum(each.n_too_dear for each in explorations)
    if len(finalists) < len(explorations):
        what = (
            f"The budget ended before the best of {n_tried} candidates had been judged on "
            "documents held out from them."
        )
    elif n_too_dear and not any(finalists):
        what = (
            f"{n_too_dear} of {n_tried} candidates did better on train, but judging dev and test "
            "with any of them costs more than the limit."
        )
    else:
        return None
    reason = f"{what} {GO_ON}"
    return ShipDecision(ship=False, reason=reason, limit_reached=True)


def score_finalists(problem: SearchProblem, exploration: Exploration) -> list[Finalist]:
    """Score and record the finalists and the untuned judge on items that they did not learn from.

    There are as many finalists as the budget can score on all of dev, and at least one. If the
    budget does not reach for all documents, those that can tell judges apart come first.
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
        # With a small limit the test comes first, and thresholds stay where they are.
        if evaluator.cost(judge, calibration[judge.id]) <= budget.remaining / 2:
            evaluator.scores(judge, calibration[judge.id])
    part = first_documents(
        dev,
        problem.goal,
        budget.remaining,
        lambda items: sum(evaluator.cost(judge, items) for judge in judges),
    )
    _, untuned = _judged(problem, problem.untuned, part, cross_fit)
    finalists = []
    for judge in judges[1:]:
        candidate, scores = _judged(problem, judge, part, cross_fit)
        finalist = Finalist(candidate=candidate, items=part, scores=scores, untuned=untuned)
        finalist.record(problem, "dev")
        finalists.append(finalist)
    return finalists


def _judged(
    problem: SearchProblem, judge: Candidate, items: Items, cross_fit: CrossFit | None
) -> tuple[Candidate, Vector]:
    """The judge with its threshold, and its scores of the items; of two values its verdicts.

    A threshold is never learned on the items themselves, or on documents that the prompt shows.
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
    """The items of train that teach a threshold: those scored in races, or all if none was."""
    if problem.goal != "balanced":
        return Items(())
    names = [name for name in problem.train.documents if name not in candidate.documents]
    items = problem.train.of_documents(names)
    return problem.evaluator.scored_items(candidate, items) or items
