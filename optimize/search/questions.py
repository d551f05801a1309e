"""Choose the questions that a judge answers in addition to its rating, and test whether they help.

For each labelled output, one request asks all questions. The score is a weighted sum of the answers
and of the judge's own answer, which is its rating, verdict or preference. Weights are learned from
human labels. They are never negative, and are shrunk towards the judge's own answer
(`optimize.statistics.panel_weights`). To learn them, answers and labels are centred: within each
document if the goal is summary-level rho, otherwise over all outputs. Pairs are not centred.

Each document is scored with questions, weights and a threshold that were learned from other
documents. Questions and an instruction that came from one half of the labels are tested on the
other half. So no score depends on the labels that it is compared with, and the gate can test
questions like any other change.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dspy_judges.errors import JudgesError
from judges.prompt import Field
from judges.questions import AnswerWeights
from optimize.items import Items
from optimize.search.budget import SearchBudgetSpentError
from optimize.search.candidates import Candidate
from optimize.search.gate import QuestionTest
from optimize.search.optimizer import QUESTION_WRITERS, Exploration, Optimizer
from optimize.search.problem import CandidateTrial, SearchProblem, first_documents, objective
from optimize.statistics.balanced import best_threshold, verdicts
from optimize.statistics.intervals import Codes, Mask, Matrix, Vector, random_generator
from optimize.statistics.panel_weights import fit_joining_weights, group_means

MAX_QUESTIONS_TESTED = 12  # in one request; if there are more, the proposer's are left out first
MAX_OUTPUTS_ASKED = 300  # of each half, for the test of questions; more hardly improve the weights
# The test of questions asks all questions with the best instruction of each half, and then the
# useful ones again. It costs about this many times as much as judging the same outputs once with
# the untuned judge. At most the share QUESTION_TEST_SHARE of the search's budget is reserved.
QUESTION_TEST_COST, QUESTION_TEST_SHARE = 4.5, 0.35
MIN_ASKED_SHARE = 0.5  # of the outputs for this test; questions are not tested on fewer
N_WEIGHT_FOLDS = 5  # folds of documents; each is scored with weights learned from the others
# Questions with a smaller share of the weights are dropped. When questions with random answers were
# added to recorded judges, one in eighty of these questions was not dropped.
MIN_WEIGHT_SHARE = 0.1
# Lower bound on the slope that maps scores to the rating scale, so that scores stay distinct.
MIN_SCORE_SLOPE = 0.05
FOLD_SEED = 0  # fixed, so that every candidate has the same folds


class QuestionsNotTestedError(JudgesError):
    """Raised if questions cannot be tested; the message is the reason."""


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """A judge's answers and the human labels on the same outputs (or pairs), as arrays.

    `answers` has a row for each output (NaN if the judgement failed) and a column for each of the
    `choice_fields`: the questions, and last the judge's own answer. Outputs with the same code in
    `group_codes` are ranked together. All outputs of a document have the same code in `fold_codes`.
    `may_drop` says whether useless questions may be dropped.
    """

    answers: Matrix
    human: Vector
    group_codes: Codes
    fold_codes: Codes
    choice_fields: tuple[Field, ...]
    may_drop: bool = True

    def fit_weights(self) -> AnswerWeights:
        """Fit the weights of the answers to the human labels.

        The scores with these weights get the mean and standard deviation of the labels, as far as
        the scores stay on the rating scale.
        """
        has_answers: Mask = np.asarray(~np.isnan(self.answers).any(axis=1))
        if not has_answers.any():
            return AnswerWeights(intercept=0.0, slopes={self.choice_fields[-1].name: 1.0})
        slopes = self._fit_slopes(has_answers)
        answer_ranges = np.array([field.answer_range for field in self.choice_fields])
        lowest_score, highest_score = answer_ranges[-1]
        # Scale the slopes so that the weighted sum has the range of the judge's own answer.
        sum_range = float(slopes @ (answer_ranges[:, 1] - answer_ranges[:, 0]))
        slopes *= (highest_score - lowest_score) / sum_range
        is_pairwise = self.choice_fields[-1].is_pairwise
        score_shift = 0.0 if is_pairwise else lowest_score - float(slopes @ answer_ranges[:, 0])
        scores, human = score_shift + self.answers[has_answers] @ slopes, self.human[has_answers]
        line_slope, intercept = 1.0, 0.0
        if score_sd := float(scores.std()):
            line_slope = min(1.0, max(MIN_SCORE_SLOPE, float(human.std()) / score_sd))
        if not is_pairwise:
            offset = float(human.mean()) - line_slope * float(scores.mean())
            # Clip the offset, because otherwise a score could leave the rating scale.
            offset = float(np.clip(offset, *(answer_ranges[-1] * (1 - line_slope))))
            intercept = float(offset + line_slope * score_shift)
        fields_with_slopes = zip(self.choice_fields, (line_slope * slopes).tolist(), strict=True)
        slope_by_name = {field.name: slope for field, slope in fields_with_slopes if slope > 0}
        return AnswerWeights(intercept=intercept, slopes=slope_by_name)

    def _fit_slopes(self, rows: Mask) -> Vector:
        """Return each answer's slope: 0 for questions if nothing can be learned from the labels."""
        own_answer_only: Vector = np.eye(len(self.choice_fields))[-1]
        answers, human = self.answers[rows], self.human[rows]
        if not self.choice_fields[-1].is_pairwise:
            columns = np.column_stack([answers, human])
            columns -= group_means(columns, self.group_codes[rows])
            answers, human = columns[:, :-1], columns[:, -1]
        answer_sd = np.sqrt((answers**2).mean(axis=0))
        is_varied = answer_sd > 0
        if not is_varied[-1]:
            return own_answer_only
        standardised_answers = answers[:, is_varied] / answer_sd[is_varied]
        prior_weights = own_answer_only[is_varied]
        has_two_choices = len(self.choice_fields[-1].choices or ()) == 2
        if has_two_choices and standardised_answers[:, -1] @ human <= 0:
            # The answers to questions may be useful even if the judge's verdict is not, for example
            # because the judge passes nearly everything. So all answers get equal prior weights.
            prior_weights = np.full(is_varied.sum(), 1 / is_varied.sum())
        if standardised_answers @ prior_weights @ human <= 0:
            return own_answer_only
        weights = np.zeros(len(self.choice_fields))
        weights[is_varied] = fit_joining_weights(standardised_answers, human, prior_weights)
        slopes: Vector = np.divide(weights, answer_sd, out=np.zeros_like(weights), where=is_varied)
        return slopes

    def scores_with(self, weights: AnswerWeights) -> Vector:
        """Compute the score of every output with these weights; NaN if the judgement failed."""
        slopes = np.array([weights.slopes.get(field.name, 0.0) for field in self.choice_fields])
        scores: Vector = np.round(weights.intercept + self.answers @ slopes, 12)
        return scores

    def of_rows(self, rows: Mask) -> "LabelledAnswers":
        array_names = "answers", "human", "group_codes", "fold_codes"
        return replace(self, **{name: getattr(self, name)[rows] for name in array_names})

    def of_questions(self, questions: Sequence[Field]) -> "LabelledAnswers":
        """Select the answers to some of the questions; the judge's own answer is kept."""
        choice_fields = (*questions, self.choice_fields[-1])
        columns = [self.choice_fields.index(field) for field in choice_fields]
        return replace(self, answers=self.answers[:, columns], choice_fields=choice_fields)

    def of_useful_questions(self) -> "LabelledAnswers":
        """Drop questions until each has at least `MIN_WEIGHT_SHARE` of the weights."""
        questions = self.choice_fields[:-1]
        weight_shares = self.fit_weights().shares(self.choice_fields)
        is_useful = {name: share >= MIN_WEIGHT_SHARE for name, share in weight_shares.items()}
        useful_questions = [question for question in questions if is_useful[question.name]]
        if not self.may_drop or len(useful_questions) == len(questions):
            return self
        return self.of_questions(useful_questions).of_useful_questions()


def collect_answers(problem: SearchProblem, candidate: Candidate, items: Items) -> LabelledAnswers:
    """Judge the items with the candidate, and return its answers with people's labels."""
    choice_fields = candidate.prompt(problem.evaluator.untuned_prompt).choices
    judgements = problem.evaluator.judgements(candidate, items)
    answers = [
        [(judgement.answers or {}).get(field.name, math.nan) for field in choice_fields]
        for judgement in judgements
    ]
    document_codes = np.unique(items.document_ids, return_inverse=True)[1]
    n_documents = int(document_codes.max(initial=-1)) + 1
    fold_by_document = random_generator(FOLD_SEED, "answers").permutation(n_documents)
    return LabelledAnswers(
        answers=np.array(answers, float).reshape(-1, len(choice_fields)),
        human=items.human,
        group_codes=document_codes * (problem.goal == "summary"),
        fold_codes=fold_by_document[document_codes] % N_WEIGHT_FOLDS,
        choice_fields=choice_fields,
        may_drop=problem.may_add_questions,
    )


def question_test_cost(problem: SearchProblem, optimizer: Optimizer) -> float:
    """Return the cost to reserve for the test of questions; 0 if there will be no questions."""
    evaluator, writes_questions = problem.evaluator, optimizer in QUESTION_WRITERS
    may_write = writes_questions and problem.may_add_questions and problem.proposer is not None
    if not (may_write or problem.questions or evaluator.untuned_prompt.question_fields):
        return 0.0
    n_outputs = sum(map(len, _items_to_ask(problem)))
    asking_cost = n_outputs * evaluator.item_cost(problem.untuned)
    largest_reserve = QUESTION_TEST_SHARE * evaluator.budget.remaining
    return min(QUESTION_TEST_COST * asking_cost, largest_reserve)


def ask_questions(
    halves: Sequence[SearchProblem], explorations: Sequence[Exploration]
) -> QuestionTest:
    """Ask questions with the best judge of each half, and test the judges on unseen documents.

    The judge in the result asks only the useful questions, and has judged the outputs again. If the
    budget does not pay for judging again, the judge asks all questions, but only the useful ones
    have a weight. The result has no trials if there are no questions. Raises
    QuestionsNotTestedError if no question helps or the judge fails too often, and
    SearchBudgetSpentError if a limit is too small.
    """
    problem, evaluator = halves[0], halves[0].evaluator
    candidates = list(map(_best_judge_with_questions, halves, explorations))
    if not all(candidate.questions for candidate in candidates):
        return QuestionTest()
    dev_items, train_items = _items_to_ask(problem)
    judges, asked_share = _affordable_judges(problem, candidates, dev_items + train_items)
    items_by_half = _items_to_ask(problem, asked_share)
    items = items_by_half[0] + items_by_half[1]
    evaluator.scores(problem.untuned, items)
    trials, useful_answers = list[CandidateTrial](), list[LabelledAnswers]()
    for half, judge, test_items in zip(halves, judges, items_by_half, strict=True):
        trial, answers = _test_on_half(half, judge, items, test_items)
        trials.append(trial)
        useful_answers.append(answers)
    best_half = max(range(len(trials)), key=lambda index: trials[index].gain)
    candidate, answers = judges[best_half], useful_answers[best_half]
    useful_judge = replace(candidate, questions=answers.choice_fields[:-1])
    if evaluator.cost(useful_judge, items) <= evaluator.budget.remaining:
        candidate, answers = useful_judge, collect_answers(problem, useful_judge, items)
    if evaluator.item_price(candidate) > problem.options.max_item_price:
        raise SearchBudgetSpentError("the limit does not pay for asking questions on test")
    candidate = replace(candidate, weights=answers.fit_weights())
    candidate = problem.with_threshold(candidate, items)
    return QuestionTest(candidate=candidate, trials=tuple(trials))


def _test_on_half(
    half: SearchProblem, judge: Candidate, items: Items, test_items: Items
) -> tuple[CandidateTrial, LabelledAnswers]:
    evaluator, untuned = half.evaluator, half.untuned
    answers = collect_answers(half, judge, items)
    both_scores = evaluator.scores(judge, items), evaluator.scores(untuned, items)
    if not CandidateTrial(judge, items, *both_scores, half.goal).is_reliable:
        failures = [each.failure for each in evaluator.judgements(judge, items) if each.failure]
        raise QuestionsNotTestedError(
            f"when the judge was asked questions, {len(failures) / len(items):.0%} of its "
            f"judgements failed, for example: {failures[0]}"
        )
    useful_answers = answers.of_useful_questions()
    if len(useful_answers.choice_fields) == 1:  # only the judge's own answer is left
        raise QuestionsNotTestedError(f"none of {len(judge.questions or ())} questions helps")
    is_tested = np.isin(items.document_ids, test_items.documents)
    untuned = half.with_threshold(untuned, items.of_rows(np.flatnonzero(~is_tested)))
    untuned_scores = half.scores_or_verdicts(untuned, test_items)
    scores = scores_on_folds(answers, is_tested, half)[is_tested]
    trial = CandidateTrial(judge, test_items, scores, untuned_scores, half.goal)
    trial.record(half, "questions")
    return trial, useful_answers


def _affordable_judges(
    problem: SearchProblem, judges: Sequence[Candidate], items: Items
) -> tuple[Sequence[Candidate], float]:
    """Return the judges, without reasoning if it costs too much, and the share of items to use."""
    evaluator, budget = problem.evaluator, problem.evaluator.budget

    def cost_of(candidates: Sequence[Candidate]) -> float:
        judge_by_id = {judge.id: judge for judge in (problem.untuned, *candidates)}
        return sum(evaluator.cost(judge, items) for judge in judge_by_id.values())

    if cost_of(judges) > budget.remaining:
        # In a candidate, None stands for the untuned judge's form of reasoning.
        is_untuned_form = evaluator.untuned_prompt.reasoning == "none"
        judges = [replace(judge, reasoning=None if is_untuned_form else "none") for judge in judges]
    cost = cost_of(judges)
    budget.check_cost(MIN_ASKED_SHARE * cost)  # before the first half is judged for nothing
    share = budget.remaining / cost if cost else 1.0
    return judges, max(MIN_ASKED_SHARE, min(1.0, share))


def scores_on_folds(answers: LabelledAnswers, is_tested: Mask, problem: SearchProblem) -> Vector:
    """Return cross-validated scores or verdicts of the tested outputs; NaN for the others."""
    scores = np.full(len(answers.human), np.nan)
    for fold in set(answers.fold_codes[is_tested].tolist()):
        is_in_fold = is_tested & (answers.fold_codes == fold)
        weights = answers.of_rows(~is_in_fold).of_useful_questions().fit_weights()
        fold_scores = answers.scores_with(weights)
        if problem.goal == "balanced":
            threshold = best_threshold(fold_scores[~is_in_fold], answers.human[~is_in_fold])
            fold_scores = verdicts(fold_scores, threshold)
        scores[is_in_fold] = fold_scores[is_in_fold]
    return scores


def _items_to_ask(problem: SearchProblem, items_share: float = 1.0) -> list[Items]:
    """Select documents of dev and of train with about `MAX_OUTPUTS_ASKED * items_share` outputs."""
    items_by_half = []
    for items in (problem.dev, problem.train):
        n_outputs = len(first_documents(items, problem.goal, MAX_OUTPUTS_ASKED, len))
        items_by_half.append(first_documents(items, problem.goal, items_share * n_outputs, len))
    return items_by_half


def _best_judge_with_questions(half: SearchProblem, exploration: Exploration) -> Candidate:
    """Return the best candidate of a half that has no demonstrations, with questions added."""
    questions = half.evaluator.untuned_prompt.question_fields
    if half.may_add_questions:
        questions = (*questions, *half.questions, *exploration.questions)
    question_by_name: dict[str, Field] = {}
    for question in questions:
        question_by_name.setdefault(question.name, question)
    max_questions = max(MAX_QUESTIONS_TESTED, len(half.questions))
    # Demonstrations would need answers to the questions, which nobody has given.
    finalists_without_demos = (each for each in exploration.finalists if not each.demo_set.demos)
    candidate = next(finalists_without_demos, half.untuned)
    return replace(candidate, questions=tuple(question_by_name.values())[:max_questions])


def question_losses(problem: SearchProblem, candidate: Candidate, items: Items) -> dict[str, float]:
    """Return how much the objective on cross-validated scores would fall without each question."""
    items = problem.evaluator.scored_items(candidate, items)
    answers = replace(collect_answers(problem, candidate, items), may_drop=False)
    is_tested = np.ones(len(items), bool)

    def objective_with(questions: Sequence[Field]) -> float:
        scores = scores_on_folds(answers.of_questions(questions), is_tested, problem)
        return objective(scores, items, problem.goal)

    questions, loss_by_name = answers.choice_fields[:-1], dict[str, float]()
    for question in questions:
        other_questions = [other for other in questions if other != question]
        loss_by_name[question.name] = objective_with(questions) - objective_with(other_questions)
    return loss_by_name
