"""The search on each half of the labels, with tests of what it finds on the other half."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain

from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import SPENT, SearchProblem, first_documents
from optimize.search.gate import Finalist, QuestionTest, ShipDecision, decide, out_of_budget
from optimize.search.optimizer import CrossFit, Exploration, LastRound, Optimizer, find_optimizer
from optimize.search.questions import NotTestedError, ask_questions, asking_cost
from optimize.statistics.balanced import best_threshold, verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: the tuned judge, whether it ships, and why.

    `tuned` is the untuned judge if no candidate was better. `untuned` has its threshold.
    `last_rounds` has the last round of each half, if the optimizer counts rounds.
    """

    tuned: Candidate
    untuned: Candidate
    decision: ShipDecision
    n_tried: int
    last_rounds: Sequence[LastRound] = ()


def search_halves(optimizer: Optimizer, problem: SearchProblem) -> SearchResult:
    """Run the optimizer on each half of the labels, ask questions, and decide which judge ships."""
    halves = (problem, replace(problem, train=problem.dev, dev=problem.train))
    explorations, finalists = _explore(optimizer, halves)
    shows_all = any(each.cross_fit for each in explorations)
    questions, note = (None, "") if shows_all else _ask(halves, explorations)
    ids = {name for each in explorations for name in each.candidate_ids}
    tested = [*chain(*finalists), *(questions.finalists if questions else ())]
    n_tried = len(ids.union(each.candidate.id for each in tested))
    fallback = _untested(explorations, finalists, n_tried)
    tuned, decision = decide(problem, finalists, n_tried, fallback, questions)
    if note:
        decision = replace(decision, why=f"{decision.why} {note}")
    items = problem.labelled if shows_all else problem.train
    untuned = replace(problem.untuned, threshold=problem.threshold(problem.untuned, items))
    return SearchResult(
        tuned=untuned if tuned.id == untuned.id else tuned,
        untuned=untuned,
        decision=decision,
        n_tried=n_tried,
        last_rounds=[each.last_round for each in explorations if each.last_round],
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


def _ask(
    halves: Sequence[SearchProblem], explorations: Sequence[Exploration]
) -> tuple[QuestionTest | None, str]:
    """The test of questions, or a sentence that says why there is none; "" if none can be asked."""
    # The budget may have ended before a half was explored.
    nothing = Exploration(finalists=(), candidate_ids=())
    try:
        return ask_questions(halves, [*explorations, nothing, nothing][: len(halves)]), ""
    except NotTestedError as error:
        return None, str(error)
    except SPENT:
        return None, "Questions were not tested: the limit does not reach for them."


def _untested(
    explorations: Sequence[Exploration], finalists: Sequence[Sequence[Finalist]], n_tried: int
) -> ShipDecision | None:
    """The decision if the budget prevented the test of the finalists; None if it did not."""
    if len(finalists) < len(explorations):
        return out_of_budget(
            f"The budget ended before the best of {n_tried} candidates had been judged on "
            "documents held out from them."
        )
    n_too_dear = sum(each.n_too_dear for each in explorations)
    if n_too_dear and not any(finalists):
        return out_of_budget(
            f"{n_too_dear} of {n_tried} candidates did better on train, but judging dev and test "
            "with any of them costs more than the limit."
        )
    return None


def score_finalists(problem: SearchProblem, exploration: Exploration) -> list[Finalist]:
    """Score and record the finalists and the untuned judge on items that they did not learn from.

    There are as many finalists as the budget can score on all of dev, and at least one. If the
    budget does not reach for all documents, those that can tell judges apart come first.
    """
    if not exploration.finalists:
        return []
    evaluator, goal, cross_fit = problem.evaluator, problem.goal, exploration.cross_fit

    def cost(judge: Candidate) -> float:
        calibration = calibration_items(problem, judge)
        return evaluator.cost(judge, problem.dev) + evaluator.cost(judge, calibration)

    remaining = evaluator.budget.remaining - cost(problem.untuned)
    affordable: list[Candidate] = []
    for candidate in exploration.finalists:
        if cost(candidate) <= remaining or not affordable:
            affordable.append(candidate)
            remaining -= cost(candidate)
    judges = [problem.untuned, *affordable]
    for judge in judges if not cross_fit else ():
        calibration = calibration_items(problem, judge)
        # With a small limit the test comes first, and thresholds stay where they are.
        if evaluator.cost(judge, calibration) <= evaluator.budget.remaining / 2:
            evaluator.scores(judge, calibration)
    dev = problem.labelled if cross_fit else problem.dev
    part = first_documents(
        dev,
        goal,
        evaluator.budget.remaining,
        lambda items: sum(evaluator.cost(judge, items) for judge in judges),
    )
    _, untuned = _judged(problem, problem.untuned, part, cross_fit)
    finalists = []
    for each in affordable:
        candidate, scores = _judged(problem, each, part, cross_fit)
        finalist = Finalist(candidate=candidate, items=part, scores=scores, untuned=untuned)
        finalists.append(finalist)
        finalist.record(problem, "dev")
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
