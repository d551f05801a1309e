"""Learn from people's labels how much each of a judge's answers counts in its score.

If the goal is summary-level rho, answers are compared with labels within each document, otherwise
over all outputs. The margins of pairs are compared without centring. Weights are never negative,
and are shrunk towards a prior by which the judge's own rating, verdict or preference counts alone
(`optimize.statistics.joining`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from judges.judgement import AnyJudgement
from judges.prompt import LETTERS, Field, Prompt
from judges.questions import AnswerWeights, answer_range
from optimize.items import Items, Vector
from optimize.search.candidates import Candidate
from optimize.search.evaluator import Goal, SearchProblem
from optimize.statistics.correlations import Codes, Mask
from optimize.statistics.intervals import Matrix, stream
from optimize.statistics.joining import centred, joining_weights

FOLDS = 5
# A question with a smaller share of the weights is dropped. If eight questions with random answers
# are added to three recorded judges, this keeps one random question in eighty.
SMALLEST_SHARE = 0.1
# The smallest slope of the line from scores to people's scale: a flatter line would make all scores
# nearly equal.
SMALLEST_SLOPE = 0.05
# The seed for drawing the folds, so that every candidate has the same folds.
SEED = 0


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """One prompt's answers on labelled outputs (or pairs), as arrays to fit weights to.

    Attributes:
        answers: Answers as numbers, of shape (outputs, fields); NaN if a judgement failed.
        human: People's labels.
        group: Numbers of the groups within which outputs are ranked: each document, or all outputs.
        fold: Numbers of the folds of documents; a fold is scored by weights from the other folds.
        fields: The prompt's fields with choices; the last one is the judge's own answer.
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
        """Collect the answers of these judgements; they are NaN if the judgement failed."""
        names = [field.name for field in prompt.choices]
        rows = [
            [(judgement.answers or {}).get(name, math.nan) for name in names]
            for judgement in judgements
        ]
        documents = np.unique(items.document_ids, return_inverse=True)[1]
        order = stream(SEED, "answers").permutation(int(documents.max(initial=-1)) + 1)
        return cls(
            answers=np.array(rows, float).reshape(-1, len(names)),
            human=items.human,
            group=documents if goal == "summary" else np.zeros_like(documents),
            fold=order[documents] % FOLDS,
            fields=prompt.choices,
        )

    def fit_weights(self) -> AnswerWeights:
        """Fit the weights of the answers to people's labels.

        The scores get the mean and the spread of people's labels, as far as the scale allows.
        """
        answered: Mask = np.asarray(~np.isnan(self.answers).any(axis=1))
        slopes = self._slopes(answered)
        low, high = np.array([answer_range(field) for field in self.fields]).T
        lowest, highest = low[-1], high[-1]
        # Scale the slopes so that the weighted sum spans the scale of the judge's own answer.
        slopes *= (highest - lowest) / float(slopes @ (high - low))
        is_pairwise = self.fields[-1].choices == LETTERS
        shift = 0.0 if is_pairwise else lowest - float(slopes @ low)
        scores, human = shift + self.answers[answered] @ slopes, self.human[answered]
        line_slope, intercept = 1.0, 0.0
        if human.size and (spread := float(scores.std())):
            line_slope = min(1.0, max(SMALLEST_SLOPE, float(human.std()) / spread))
        if human.size and not is_pairwise:
            offset = float(human.mean()) - line_slope * float(scores.mean())
            # Outside these bounds a score could leave the scale.
            offset = min(max(offset, lowest * (1 - line_slope)), highest * (1 - line_slope))
            intercept = float(offset + line_slope * shift)
        by_field = zip(self.fields, (line_slope * slopes).tolist(), strict=True)
        by_name = {field.name: slope for field, slope in by_field if slope > 0}
        return AnswerWeights(intercept=intercept, slopes=by_name)

    def _slopes(self, rows: Mask) -> Vector:
        """The slope of each answer, up to a common factor.

        If the labels teach nothing, only the judge's own answer has a slope.
        """
        own_answer = np.zeros(len(self.fields))
        own_answer[-1] = 1.0
        answers, human, group = self.answers[rows], self.human[rows], self.group[rows]
        if not len(human):
            return own_answer
        if self.fields[-1].choices != LETTERS:
            centred_columns = centred(np.column_stack([answers, human]), group)
            answers, human = centred_columns[:, :-1], centred_columns[:, -1]
        spread = np.sqrt((answers**2).mean(axis=0))
        varies = spread > 0
        if not varies[-1]:
            return own_answer
        standard, prior = answers[:, varies] / spread[varies], own_answer[varies]
        if len(self.fields[-1].choices or ()) == 2 and standard[:, -1] @ human <= 0:
            # A judge with a useless verdict, such as one that passes nearly everything, may still
            # give useful answers to its questions.
            prior = np.full(varies.sum(), 1 / varies.sum())
        if standard @ prior @ human <= 0:
            return own_answer
        weights = np.zeros(len(self.fields))
        weights[varies] = joining_weights(standard, human, prior)
        slopes: Vector = np.divide(weights, spread, out=np.zeros_like(weights), where=varies)
        return slopes

    def scores(self, weights: AnswerWeights) -> Vector:
        """The score of every output by these weights; NaN if its judgement failed."""
        slopes = np.array([weights.slopes.get(field.name, 0.0) for field in self.fields])
        scores: Vector = np.round(weights.intercept + self.answers @ slopes, 12)
        return scores

    def of_rows(self, rows: Mask) -> "LabelledAnswers":
        """The answers on the selected outputs only."""
        names = "answers", "human", "group", "fold"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def of_questions(self, questions: Sequence[Field]) -> "LabelledAnswers":
        """The answers to these questions only, with the judge's own answer."""
        fields = (*questions, self.fields[-1])
        columns = [self.fields.index(field) for field in fields]
        return replace(self, answers=self.answers[:, columns], fields=fields)

    def useful_questions(self) -> tuple[Field, ...]:
        """The questions worth asking: those with a large enough share of the weights.

        Questions with a small share are dropped and the weights are fitted again, until every
        share is large enough.
        """
        answers = self
        while True:
            shares = answers.fit_weights().shares(answers.fields)
            questions = answers.fields[:-1]
            useful = tuple(field for field in questions if shares[field.name] >= SMALLEST_SHARE)
            if useful == questions:
                return useful
            answers = answers.of_questions(useful)


def labelled_answers(problem: SearchProblem, candidate: Candidate, items: Items) -> LabelledAnswers:
    """The candidate's answers on the items that it has been scored on."""
    scored = problem.evaluator.scored_items(candidate, items)
    judgements = problem.evaluator.judgements(candidate, scored)
    prompt = candidate.prompt(problem.evaluator.untuned)
    return LabelledAnswers.of(prompt, scored, judgements, problem.goal)
