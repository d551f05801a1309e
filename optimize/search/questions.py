"""Choose the questions that a judge answers besides its rating, and test whether they help.

All candidate questions are asked at once about every labelled output. Each document is then scored
by questions, weights and a threshold that were learned from other documents. Questions that the
proposer wrote from one half of the labels are tested on the other half, together with the
instruction that was found on the first half. So no score depends on the labels that it is compared
with, and the gate can treat questions like every other change.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dspy_judges.errors import JudgesError
from judges.prompt import Field
from optimize.items import Items, Vector
from optimize.search.answers import LabelledAnswers, labelled_answers
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Goal, SearchProblem, first_documents, is_reliable, objective
from optimize.search.gate import Finalist, QuestionTest
from optimize.search.optimizer import Exploration
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.correlations import Mask

# Upper bound on all questions that are asked at once; proposed ones are added up to it.
MOST_QUESTIONS = 12
# Upper bound on the outputs of each half that are asked about; more would hardly improve weights.
MOST_OUTPUTS = 300
# The cost of asking questions, as a multiple of judging these outputs once with the untuned judge
# (all questions are asked with the best instruction of each half, then the useful ones once more),
# and the largest share of the search's budget that is reserved for this.
ASKING_COST, ASKING_SHARE = 4.5, 0.35


class NotTestedError(JudgesError):
    """Questions cannot be tested; the message is a sentence that says why."""


def asking_cost(problem: SearchProblem, *, proposes: bool) -> float:
    """The cost to reserve for asking questions, in the budget's unit; 0 if there are none.

    `proposes` says whether the optimizer asks the proposer for questions.
    """
    proposes = proposes and problem.new_questions and problem.proposer is not None
    if not (problem.questions or problem.evaluator.untuned.questions or proposes):
        return 0.0
    n_outputs = sum(len(_outputs(half, problem.goal)) for half in (problem.train, problem.dev))
    cost = ASKING_COST * n_outputs * problem.evaluator.item_cost(problem.untuned)
    return min(cost, ASKING_SHARE * problem.evaluator.budget.remaining)


def ask_questions(
    halves: Sequence[SearchProblem], explorations: Sequence[Exploration]
) -> QuestionTest | None:
    """Ask questions with the best judge of each half, and test it on documents it did not see.

    Args:
        halves: The search problems of both halves.
        explorations: The result of the optimizer on each half.

    Returns:
        The judge that asks the useful questions, with its tests; None if there are no questions.

    Raises:
        NotTestedError: No question is worth asking, the judge fails on too many outputs when it
            asks them, or the limit cannot pay for them on test.
        SearchBudgetSpentError: Asking costs more than the budget has left.
    """
    problem, evaluator = halves[0], halves[0].evaluator
    parts = [_outputs(half.dev, problem.goal) for half in halves]
    items = Items(tuple(item for part in parts for item in part.items))
    judges = [_with_questions(*pair) for pair in zip(halves, explorations, strict=True)]
    if not all(each.questions for each in judges):
        return None
    untuned = evaluator.scores(problem.untuned, items)
    finalists: list[Finalist] = []
    useful: list[tuple[Field, ...]] = []
    for half, judge, part in zip(halves, judges, parts, strict=True):
        answers = _answers(half, judge, items, untuned)
        useful.append(_useful(answers, half))
        if not useful[-1]:
            n_asked = len(judge.questions or ())
            raise NotTestedError(f"None of {n_asked} questions improves on the rating alone.")
        tested = np.isin(items.document_ids, part.documents)
        untuned_scores = evaluator.scores(half.untuned, part)
        if half.goal == "balanced":
            rest = items.of_rows(np.flatnonzero(~tested))
            untuned_scores = verdicts(untuned_scores, half.threshold(half.untuned, rest))
        scores = held_out_scores(answers, tested, half)[tested]
        finalist = Finalist(candidate=judge, items=part, scores=scores, untuned=untuned_scores)
        finalist.record(half, "questions")
        finalists.append(finalist)
    best = max(range(len(halves)), key=lambda half: finalists[half].gain(problem.goal).value)
    candidate = replace(judges[best], questions=useful[best])
    if evaluator.item_cost(candidate) > problem.options.max_item_cost:
        raise NotTestedError("Questions were not tested: the limit does not pay for them on test.")
    evaluator.scores(candidate, items)
    weights = labelled_answers(problem, candidate, items).fit_weights()
    candidate = replace(candidate, weights=weights)
    candidate = replace(candidate, threshold=problem.threshold(candidate, items))
    return QuestionTest(candidate=candidate, finalists=tuple(finalists))


def _answers(
    problem: SearchProblem, judge: Candidate, items: Items, untuned: Vector
) -> LabelledAnswers:
    """The judge's answers to all of its questions.

    Raises NotTestedError if the judge fails on too many items.
    """
    if not is_reliable(problem.evaluator.scores(judge, items), untuned):
        judgements = problem.evaluator.judgements(judge, items)
        failures = [each.failure for each in judgements if each.failure]
        share = len(failures) / len(judgements)
        raise NotTestedError(
            f"Questions were not tested: with them {share:.0%} of the judgements failed, as in: "
            f"{failures[0]}."
        )
    return labelled_answers(problem, judge, items)


def held_out_scores(answers: LabelledAnswers, tested: Mask, problem: SearchProblem) -> Vector:
    """Cross-validated scores of the tested outputs; NaN for the rest.

    Each fold of the tested documents is scored by questions and weights that are learned from all
    other outputs. For balanced accuracy the result is verdicts, by a threshold learned likewise.
    """
    scores = np.full(len(answers.human), np.nan)
    for fold in set(answers.fold[tested].tolist()):
        in_fold = tested & (answers.fold == fold)
        rest = answers.of_rows(~in_fold)
        weights = rest.of_questions(_useful(rest, problem)).fit_weights()
        fitted = answers.scores(weights)
        if problem.goal == "balanced":
            fitted = verdicts(fitted, best_threshold(fitted[~in_fold], answers.human[~in_fold]))
        scores[in_fold] = fitted[in_fold]
    return scores


def _useful(answers: LabelledAnswers, problem: SearchProblem) -> tuple[Field, ...]:
    """The questions worth asking; all of them if the judge's questions may not change."""
    return answers.useful_questions() if problem.new_questions else answers.fields[:-1]


def _outputs(items: Items, goal: Goal) -> Items:
    """The items to ask questions about, at most `MOST_OUTPUTS`.

    All items are returned if even the first document has more outputs than that.
    """
    return first_documents(items, goal, MOST_OUTPUTS, len) or items


def _with_questions(half: SearchProblem, exploration: Exploration) -> Candidate:
    """The half's best candidate without demonstrations, with all questions.

    Demonstrations would need answers to the questions, and nobody has given any.
    """
    questions = half.evaluator.untuned.questions
    if half.new_questions:
        questions = (*questions, *half.questions, *exploration.questions)
    by_name: dict[str, Field] = {}
    for field in questions:
        by_name.setdefault(field.name, field)
    leaders = (each for each in exploration.finalists if not each.demo_set.demos)
    max_questions = max(MOST_QUESTIONS, len(half.questions))
    return replace(next(leaders, half.untuned), questions=tuple(by_name.values())[:max_questions])


def losses(problem: SearchProblem, candidate: Candidate, items: Items) -> dict[str, float]:
    """By how much the objective on these items would fall without each question, by name.

    Scores are cross-validated. Only items that the candidate has been scored on count.
    """
    items = problem.evaluator.scored_items(candidate, items)
    answers = labelled_answers(problem, candidate, items)
    all_rows, fixed_problem = np.ones(len(items), bool), replace(problem, new_questions=False)

    def figure(questions: Sequence[Field]) -> float:
        scores = held_out_scores(answers.of_questions(questions), all_rows, fixed_problem)
        return objective(scores, items, problem.goal)

    questions = answers.fields[:-1]
    total = figure(questions)
    return {q.name: total - figure([each for each in questions if each != q]) for q in questions}
