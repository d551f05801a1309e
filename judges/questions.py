"""Questions that a judge answers beside its rating, and what each answer counts in the score."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from dspy_judges.errors import JudgesError
from judges.prompt import VALID_NAME, Field, FieldValue, are_verdict_words

# The most questions of a judge, and the most characters of a question. Questions cost tokens, and a
# stranger's file could make every row expensive.
MAX_QUESTIONS, MAX_QUESTION_LENGTH = 16, 500
# The largest weight of an answer. With a larger one, scores would be off every scale.
MAX_SLOPE = 1e6
# A score may be off its scale by this much, because of rounding.
MAX_ROUNDING_ERROR = 1e-6


class QuestionError(JudgesError, ValueError):
    """A question cannot be asked, or weights do not fit a judge's answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about an output, which a judge answers in addition to its rating.

    Args:
        name: At most 64 lower-case letters, digits and underscores.
        text: The question. The texts that the judge reads must be enough to answer it.
        answers: Two words, the good one first; or two to ten ratings in ascending order, the best
            last; or ("A", "B") if the judge compares two outputs.
        anchors: A dict from a rating to what earns it; not every rating needs an anchor.

    Raises:
        QuestionError: The name, the text or the answers cannot be used.

    Examples:
        >>> Question(name="states_deadline", text="does the reply say until when to ask")
        >>> Question(name="tone", text="how friendly it is", answers=(1, 2, 3), anchors={1: "rude"})
    """

    name: str
    text: str
    answers: tuple[FieldValue, ...] = ("yes", "no")
    anchors: Mapping[int, str] = dataclass_field(default_factory=dict)

    def __post_init__(self) -> None:
        if problem := question_problem(self.field):
            raise QuestionError(f"question {self.name!r} {problem}")
        if unknown_ratings := sorted(self.anchors.keys() - {*self.answers}):
            raise QuestionError(
                f"question {self.name!r} has anchors {unknown_ratings}, which are not among its "
                "answers"
            )

    @property
    def field(self) -> Field:
        """The field of a prompt that asks the question."""
        text = field_description(self.text, self.anchors.items())
        return Field(name=self.name, description=text, role="output", choices=tuple(self.answers))


def field_description(text: str, anchors: Iterable[tuple[object, str]]) -> str:
    """Return the description of a field: its text, and what earns each of its answers."""
    anchors_text = "; ".join(f"{answer} = {meaning}" for answer, meaning in anchors if meaning)
    return f"{text} ({anchors_text})" if anchors_text else text


def question_problem(field: Field) -> str | None:
    """Return why a prompt's field cannot be a question; None if the field can be a question."""
    if not VALID_NAME.match(field.name):
        return "needs a name of lower-case letters, digits and underscores"
    if not field.description.strip() or len(field.description) > MAX_QUESTION_LENGTH:
        return f"has a text of {len(field.description)} characters, not 1 to {MAX_QUESTION_LENGTH}"
    choices = field.allowed_values
    if field.is_pairwise or are_verdict_words(choices):
        return None
    # Each rating must be a digit: plans weigh the probabilities of single tokens.
    are_digits = all(type(choice) is int and 0 <= choice <= 9 for choice in choices)
    if are_digits and len(choices) >= 2 and list(choices) == sorted(set(choices)):
        return None
    return (
        f"has the answers {list(choices)!s:.60}; use two words, the good one first, or 2 to 10 "
        "ascending ratings from 0 to 9"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShare:
    """How much one of a judge's answers counts in the judge's score.

    The answer is to a question, or it is the judge's rating, verdict or choice. `share`, in [0, 1],
    is how far the answer can move the score, divided by how far all answers together can move it.
    `loss` is how much rho or balanced accuracy falls without the question, on the labels that the
    judge was tuned on; None if the loss was not measured.
    """

    name: str
    text: str
    answers: Sequence[FieldValue]
    share: float
    loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """The weights of a score: `intercept` plus the sum of `slope * answer` over all answers.

    Args:
        intercept: The score if every answer is 0; it must be 0 for a pairwise judge.
        slopes: The slope of each answer, 0 or more, by the answer's name. The judge's rating,
            verdict or choice is one of the answers. An answer that is left out has the slope 0.
    """

    intercept: float
    slopes: Mapping[str, float]

    def score(self, answers: Mapping[str, float]) -> float:
        """Return the score of these answers."""
        weighted_answers = (slope * answers[name] for name, slope in self.slopes.items())
        # The score is rounded, so that the errors of floating-point numbers cannot break a tie.
        return round(self.intercept + math.fsum(weighted_answers), 12)

    def shares(self, fields: Sequence[Field]) -> dict[str, float]:
        """Return how far each answer can move the score, as shares whose sum is 1."""
        effects = {}
        for field in fields:
            min_answer, max_answer = field.answer_range
            effects[field.name] = self.slopes.get(field.name, 0.0) * (max_answer - min_answer)
        total_effect = math.fsum(effects.values()) or 1.0
        return {name: effect / total_effect for name, effect in effects.items()}

    def describe(
        self, fields: Sequence[Field], loss_by_answer: Mapping[str, float]
    ) -> list[AnswerShare]:
        """Return how much each answer counts; `loss_by_answer` maps an answer's name to a loss."""
        shares = self.shares(fields)
        return [
            AnswerShare(
                name=field.name,
                text=field.description,
                answers=field.allowed_values,
                share=round(shares[field.name], 6),
                loss=loss_by_answer.get(field.name),
            )
            for field in fields
        ]

    def decisive_answer(
        self, answers: Mapping[str, float], fields: Sequence[Field], threshold: float | None = None
    ) -> str:
        """Return the answer that counted most for the score, as a text such as "tone = 1".

        This answer moved the score furthest towards the side of `threshold` on which the score
        lies. By default, the threshold is halfway between the lowest and the highest score that
        the weights can give. Each answer is compared with a baseline: if the threshold lies at
        30 % of the range of scores, the baseline lies at 30 % of the answer's range.
        """
        min_score, max_score = self._score_range(fields)
        score_span = max_score - min_score
        threshold_position = 0.5 if threshold is None else (threshold - min_score) / score_span
        effects = {}
        for field in fields:
            min_answer, max_answer = field.answer_range
            baseline = min_answer + threshold_position * (max_answer - min_answer)
            slope = self.slopes.get(field.name, 0.0)
            effects[field.name] = slope * (answers[field.name] - baseline)
        direction = 1.0 if math.fsum(effects.values()) >= 0 else -1.0
        field = max(fields, key=lambda field: direction * effects[field.name])
        return f"{field.name} = {field.nearest_choice(answers[field.name])}"

    def problem(self, fields: Sequence[Field]) -> str | None:
        """Return why the weights do not fit a prompt with these fields; None if they fit.

        Every possible score has to lie on the scale of the last field, the judge's own answer.
        """
        if unknown_names := sorted(self.slopes.keys() - {field.name for field in fields}):
            return f"a weight for {unknown_names[0][:64]!r}, which the judge does not answer"
        if not all(0 <= slope <= MAX_SLOPE for slope in self.slopes.values()):
            return "a weight that is negative, too large or not a number"
        min_score, max_score = self._score_range(fields)
        (scale_min, scale_max), max_error = fields[-1].answer_range, MAX_ROUNDING_ERROR
        if not scale_min - max_error <= min_score < max_score <= scale_max + max_error:
            scores_text = f"scores from {min_score:g} to {max_score:g}"
            return f"weights with {scores_text}, not {scale_min:g} to {scale_max:g}"
        if fields[-1].is_pairwise and self.intercept:
            return "an intercept, which would prefer one output of every pair"
        return None

    def _score_range(self, fields: Sequence[Field]) -> tuple[float, float]:
        min_score = self.score({field.name: field.answer_range[0] for field in fields})
        max_score = self.score({field.name: field.answer_range[1] for field in fields})
        return min_score, max_score
