"""Learn from human labels how much each answer of a judge counts in the judge's score.

The score is a weighted sum of the answers to the questions and of the judge's own answer, which is
its rating, verdict or preference. If the goal is summary-level rho, answers and labels are centred
within each document, otherwise over all outputs; the margins of pairs are not centred. Weights are
never negative, and are shrunk towards the judge's own answer (`optimize.statistics.panel_weights`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from judges.judgement import AnyJudgement
from judges.prompt import LETTERS, Field, Prompt
from judges.questions import AnswerWeights, answer_range
from optimize.items import Items
from optimize.search.candidates import Candidate
from optimize.search.problem import Goal, SearchProblem
from optimize.statistics.intervals import Codes, Mask, Matrix, Vector, stream
from optimize.statistics.panel_weights import centred, fit_joining_weights

N_FOLDS = 5
# Questions with a smaller share of the weights are dropped. Of questions with random answers, which
# were added to recorded judges, one in eighty is kept.
MIN_WEIGHT_SHARE = 0.1
# Lower bound on the slope that maps scores to the rating scale, so that scores stay distinct.
MIN_SCORE_SLOPE = 0.05
# The seed of the folds is fixed, so that every candidate has the same folds.
FOLD_SEED = 0


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """A judge's answers and the human labels on the same outputs (or pairs), as arrays.

    `answers` has a row for each output (NaN if the judgement failed) and a column for each of the
    `fields`: the questions, and last the judge's own answer. `group` holds the outputs that are
    ranked together, and `fold` whole documents.
    """

    answers: Matrix
    human: Vector
    group: Codes
    fold: Codes
    fields: tuple[Field, ...]

    @classmethod
    def of(
        cls, prompt: Prompt, items: Items, judgements: Sequence[AnyJudgement], goal: Goal
    ) -> "LabelledAnswers":
        """Collect the answers of the judgements, one judgement for each item."""
        field_names = [field.name for field in prompt.choices]
        answer_rows = [
            [(judgement.answers or {}).get(name, math.nan) for name in field_names]
            for judgement in judgements
        ]
        documents = np.unique(items.document_ids, return_inverse=True)[1]
        shuffled = stream(FOLD_SEED, "answers").permutation(int(documents.max(initial=-1)) + 1)
        return cls(
            answers=np.array(answer_rows, float).reshape(-1, len(field_names)),
            human=items.human,
            group=documents if goal == "summary" else np.zeros_like(documents),
            fold=shuffled[documents] % N_FOLDS,
            fields=prompt.choices,
        )

    def fit_weights(self) -> AnswerWeights:
        """Fit the weights of the answers to the human labels.

        The scores get the mean and standard deviation of the labels, if they can stay on the rating
        scale.
        """
        has_answers: Mask = np.asarray(~np.isnan(self.answers).any(axis=1))
        if not has_answers.any():
            return AnswerWeights(intercept=0.0, slopes={self.fields[-1].name: 1.0})
        slopes = self._fit_slopes(has_answers)
        low, high = np.array([answer_range(field) for field in self.fields]).T
        lowest, highest = low[-1], high[-1]
        # Scale the slopes so that the weighted sum has the range of the judge's own answer.
        slopes *= (highest - lowest) / float(slopes @ (high - low))
        is_pairwise = self.fields[-1].choices == LETTERS
        shift = 0.0 if is_pairwise else lowest - float(slopes @ low)
        scores, human = shift + self.answers[has_answers] @ slopes, self.human[has_answers]
        line_slope, intercept = 1.0, 0.0
        if score_sd := float(scores.std()):
            line_slope = min(1.0, max(MIN_SCORE_SLOPE, float(human.std()) / score_sd))
        if not is_pairwise:
            offset = float(human.mean()) - line_slope * float(scores.mean())
            # Clip the offset, because otherwise a score could leave the rating scale.
            offset = min(max(offset, lowest * (1 - line_slope)), highest * (1 - line_slope))
            intercept = float(offset + line_slope * shift)
        fields_with_slopes = zip(self.fields, (line_slope * slopes).tolist(), strict=True)
        slopes_by_name = {field.name: slope for field, slope in fields_with_slopes if slope > 0}
        return AnswerWeights(intercept=intercept, slopes=slopes_by_name)

    def _fit_slopes(self, rows: Mask) -> Vector:
        """Return the answers' relative slopes; only the judge's own if labels teach nothing."""
        own_answer_only = np.zeros(len(self.fields))
        own_answer_only[-1] = 1.0
        answers, human, group = self.answers[rows], self.human[rows], self.group[rows]
        if self.fields[-1].choices != LETTERS:
            centred_columns = centred(np.column_stack([answers, human]), group)
            answers, human = centred_columns[:, :-1], centred_columns[:, -1]
        answer_sd = np.sqrt((answers**2).mean(axis=0))
        is_varied = answer_sd > 0
        if not is_varied[-1]:
            return own_answer_only
        standardised = answers[:, is_varied] / answer_sd[is_varied]
        prior = own_answer_only[is_varied]
        if len(self.fields[-1].choices or ()) == 2 and standardised[:, -1] @ human <= 0:
            # The answers to questions may be useful even if the judge's verdict is not, for example
            # because the judge passes nearly everything. So all answers get equal prior weights.
            prior = np.full(is_varied.sum(), 1 / is_varied.sum())
        if standardised @ prior @ human <= 0:
            return own_answer_only
        weights = np.zeros(len(self.fields))
        weights[is_varied] = fit_joining_weights(standardised, human, prior)
        slopes: Vector = np.divide(weights, answer_sd, out=np.zeros_like(weights), where=is_varied)
        return slopes

    def scores(self, weights: AnswerWeights) -> Vector:
        """Compute the score of every output with these weights; NaN if the judgement failed."""
        slopes = np.array([weights.slopes.get(field.name, 0.0) for field in self.fields])
        scores: Vector = np.round(weights.intercept + self.answers @ slopes, 12)
        return scores

    def of_rows(self, rows: Mask) -> "LabelledAnswers":
        """Select the answers on some of the outputs, by a mask."""
        vectors = "answers", "human", "group", "fold"
        return replace(self, **{name: getattr(self, name)[rows] for name in vectors})

    def of_questions(self, questions: Sequence[Field]) -> "LabelledAnswers":
        """Select the answers to some of the questions; the judge's own answer is kept."""
        fields = (*questions, self.fields[-1])
        columns = [self.fields.index(field) for field in fields]
        return replace(self, answers=self.answers[:, columns], fields=fields)

    def of_useful_questions(self) -> "LabelledAnswers":
        """Drop questions with too small a share of the weights, fitting anew each time."""
        questions = self.fields[:-1]
        shares = self.fit_weights().shares(self.fields)
        useful = [field for field in questions if shares[field.name] >= MIN_WEIGHT_SHARE]
        if len(useful) == len(questions):
            return self
        return self.of_questions(useful).of_useful_questions()


def collect_answers(problem: SearchProblem, candidate: Candidate, items: Items) -> LabelledAnswers:
    """Judge the items with the candidate, and return its answers."""
    judgements = problem.evaluator.judgements(candidate, items)
    prompt = candidate.prompt(problem.evaluator.untuned)
    return LabelledAnswers.of(prompt, items, judgements, problem.goal)
