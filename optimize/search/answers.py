"""What each answer of a judge is worth in its score, learned from people's labels.

Answers are compared with labels within documents if the goal is a rho within documents, else over
all outputs; of pairs, margins are compared as they are. Weights are never negative, and are drawn
to the judge's own rating, verdict or choice alone (`optimize.statistics.joining`).
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
# A question whose share of the weights is smaller is dropped. Of eight questions that are answered
# at random beside three of recorded judges, one in eighty is kept.
SMALLEST_SHARE = 0.1
# The smallest slope of the line to people's scale, so that a score keeps telling outputs apart.
SMALLEST_SLOPE = 0.05
# The seed of the folds, which are the same for every candidate.
SEED = 0


@dataclass(frozen=True, slots=True)
class LabelledAnswers:
    """The answers (outputs, choices) of one prompt beside people's labels, as a fit needs them.

    `group` numbers what is ranked together, and `fold` the documents that are scored together by
    weights from the others. `fields` are the prompt's choices, the answer last.
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
        """The answers of these judgements; NaN where a judgement has failed."""
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

    def weights(self) -> AnswerWeights:
        """The weights that these rows teach.

        Scores have people's mean and spread as far as they stay on the scale.
        """
        known: Mask = np.asarray(~np.isnan(self.answers).any(axis=1))
        slopes = self._slopes(known)
        low, high = np.array([answer_range(field) for field in self.fields]).T
        lowest, highest = low[-1], high[-1]
        # The sum of answers put on the answer's scale, from end to end.
        slopes *= (highest - lowest) / float(slopes @ (high - low))
        compares = self.fields[-1].choices == LETTERS
        shift = 0.0 if compares else lowest - float(slopes @ low)
        scores, human = shift + self.answers[known] @ slopes, self.human[known]
        line, intercept = 1.0, 0.0
        if human.size and (spread := float(scores.std())):
            line = min(1.0, max(SMALLEST_SLOPE, float(human.std()) / spread))
        if human.size and not compares:
            start = float(human.mean()) - line * float(scores.mean())
            # Beyond these bounds a score could leave the scale.
            start = min(max(start, lowest * (1 - line)), highest * (1 - line))
            intercept = float(start + line * shift)
        pairs = zip(self.fields, (line * slopes).tolist(), strict=True)
        by_name = {field.name: slope for field, slope in pairs if slope > 0}
        return AnswerWeights(intercept=intercept, slopes=by_name)

    def _slopes(self, rows: Mask) -> Vector:
        """The slope of each answer, up to a common factor; that of the answer alone at least."""
        own = np.zeros(len(self.fields))
        own[-1] = 1.0
        answers, human, group = self.answers[rows], self.human[rows], self.group[rows]
        if not len(human):
            return own
        if self.fields[-1].choices != LETTERS:
            both = centred(np.column_stack([answers, human]), group)
            answers, human = both[:, :-1], both[:, -1]
        spread = np.sqrt((answers**2).mean(axis=0))
        used = spread > 0
        if not used[-1]:
            return own
        standard, prior = answers[:, used] / spread[used], own[used]
        if len(self.fields[-1].choices or ()) == 2 and standard[:, -1] @ human <= 0:
            # A judge that passes nearly everything has useful answers beside a useless verdict.
            prior = np.full(used.sum(), 1 / used.sum())
        if standard @ prior @ human <= 0:
            return own
        weights = np.zeros(len(self.fields))
        weights[used] = joining_weights(standard, human, prior)
        slopes: Vector = np.divide(weights, spread, out=np.zeros_like(weights), where=used)
        return slopes

    def joined(self, weights: AnswerWeights) -> Vector:
        """The scores of all rows by these weights; NaN where a judgement failed."""
        slopes = np.array([weights.slopes.get(field.name, 0.0) for field in self.fields])
        scores: Vector = np.round(weights.intercept + self.answers @ slopes, 12)
        return scores

    def of_rows(self, rows: Mask) -> "LabelledAnswers":
        """The same of these rows alone."""
        names = "answers", "human", "group", "fold"
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def of_questions(self, questions: Sequence[Field]) -> "LabelledAnswers":
        """The same with the answers to these questions alone, beside the judge's own answer."""
        fields = (*questions, self.fields[-1])
        columns = [self.fields.index(field) for field in fields]
        return replace(self, answers=self.answers[:, columns], fields=fields)

    def useful(self) -> tuple[Field, ...]:
        """The questions worth asking: those whose share of the weights is not too small.

        Weights are learned again without the others, until every share is large enough.
        """
        answers = self
        while True:
            shares = answers.weights().shares(answers.fields)
            questions = answers.fields[:-1]
            useful = tuple(each for each in questions if shares[each.name] >= SMALLEST_SHARE)
            if useful == questions:
                return useful
            answers = answers.of_questions(useful)


def labelled_answers(problem: SearchProblem, candidate: Candidate, items: Items) -> LabelledAnswers:
    """The candidate's answers on those of the items that it has been scored on."""
    scored = problem.evaluator.scored_items(candidate, items)
    judgements = problem.evaluator.judgements(candidate, scored)
    prompt = candidate.prompt(problem.evaluator.untuned)
    return LabelledAnswers.of(prompt, scored, judgements, problem.goal)
