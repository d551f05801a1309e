"""Which questions a judge is to ask beside its rating, and whether they help.

All candidate questions are asked at once, of every labelled output. Each document is then scored by
questions, weights and a threshold that the other documents teach. Questions that were written for
labels of one half are tested on the other half, with the instruction that was found without it. So
the gate can compare these scores with the untuned judge's as it does for every other change.
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

# Proposed questions are added up to this many.
MOST_QUESTIONS = 12
# How many outputs of each half are asked about: more teach weights hardly better.
MOST_OUTPUTS = 300
# What asking costs, as a multiple of judging these outputs once with the untuned judge: all
# questions with the instruction of either half, then the useful ones. And the largest share of the
# search's budget that is reserved for it.
ASKING_COST, ASKING_SHARE = 4.5, 0.35


class NotTestedError(JudgesError):
    """Questions that the gate cannot decide about; the message is a sentence that says why."""


def asking_cost(problem: SearchProblem, *, proposes: bool) -> float:
    """What to reserve for asking questions, in the budget's unit; 0 if there are none to ask.

    `proposes` says that the optimizer has a proposer write questions.
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
    """Ask questions, and score the judges that ask them on documents that did not teach them.

    `explorations` are what the optimizer found on each of `halves`. Returns None if there is
    nothing to ask.

    Raises:
        NotTestedError: No question is worth asking, the judge fails on too many outputs where it
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
            raise NotTestedError(f"None of {n_asked} questions adds to what the rating tells.")
        tested = np.isin(items.document_ids, part.documents)
        own = evaluator.scores(half.untuned, part)
        if half.goal == "balanced":
            rest = items.of_rows(np.flatnonzero(~tested))
            own = verdicts(own, half.threshold(half.untuned, rest))
        scores = held_out_scores(answers, tested, half)[tested]
        finalist = Finalist(candidate=judge, items=part, scores=scores, untuned=own)
        finalist.record(half, "questions")
        finalists.append(finalist)
    best = max(range(len(halves)), key=lambda half: finalists[half].gain(problem.goal).value)
    candidate = replace(judges[best], questions=useful[best])
    if evaluator.item_cost(candidate) > problem.options.max_item_cost:
        raise NotTestedError("Questions were not tested: the limit does not pay for them on test.")
    evaluator.scores(candidate, items)
    weights = labelled_answers(problem, candidate, items).weights()
    candidate = replace(candidate, weights=weights)
    candidate = replace(candidate, threshold=problem.threshold(candidate, items))
    return QuestionTest(candidate=candidate, finalists=tuple(finalists))


def _answers(
    problem: SearchProblem, judge: Candidate, items: Items, untuned: Vector
) -> LabelledAnswers:
    """Ask a judge all of its questions; NotTestedError if it fails on too many items."""
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
    """Scores of the tested rows, NaN for the others; of two values verdicts.

    Each fold of the tested documents is scored by questions, weights and a threshold that all other
    rows teach.
    """
    scores = np.full(len(answers.human), np.nan)
    for fold in set(answers.fold[tested].tolist()):
        own = tested & (answers.fold == fold)
        others = answers.of_rows(~own)
        weights = others.of_questions(_useful(others, problem)).weights()
        joined = answers.joined(weights)
        if problem.goal == "balanced":
            joined = verdicts(joined, best_threshold(joined[~own], answers.human[~own]))
        scores[own] = joined[own]
    return scores


def _useful(answers: LabelledAnswers, problem: SearchProblem) -> tuple[Field, ...]:
    """The questions worth asking, or all of them if the judge's questions are fixed."""
    return answers.useful() if problem.new_questions else answers.fields[:-1]


def _outputs(items: Items, goal: Goal) -> Items:
    """The items to ask about; all of them if a single document has more than the bound."""
    return first_documents(items, goal, MOST_OUTPUTS, len) or items


def _with_questions(half: SearchProblem, exploration: Exploration) -> Candidate:
    """The half's best candidate without demonstrations, with all questions.

    Demonstrations are left out because nobody has answered the questions for them.
    """
    questions = half.evaluator.untuned.questions
    if half.new_questions:
        questions = (*questions, *half.questions, *exploration.questions)
    bank: dict[str, Field] = {}
    for field in questions:
        bank.setdefault(field.name, field)
    leaders = (each for each in exploration.finalists if not each.demo_set.demos)
    most = max(MOST_QUESTIONS, len(half.questions))
    return replace(next(leaders, half.untuned), questions=tuple(bank.values())[:most])


def losses(problem: SearchProblem, candidate: Candidate, items: Items) -> dict[str, float]:
    """What the candidate's figure on these items would lose without each of its questions.

    Scores are by weights from other documents. Only items that it has been scored on count.
    """
    items = problem.evaluator.scored_items(candidate, items)
    answers = labelled_answers(problem, candidate, items)
    everything, fixed = np.ones(len(items), bool), replace(problem, new_questions=False)

    def figure(questions: Sequence[Field]) -> float:
        scores = held_out_scores(answers.of_questions(questions), everything, fixed)
        return objective(scores, items, problem.goal)

    questions = answers.fields[:-1]
    whole = figure(questions)
    return {q.name: whole - figure([each for each in questions if each != q]) for q in questions}
