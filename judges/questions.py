"""Questions that a judge answers in the same reply as its rating, and weights of the answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dspy_judges.errors import JudgesError
from judges.prompt import LETTERS, NAME, Field, Value, are_words, rating_of

# In a longer list, the last questions are not worth their cost, and a stranger's file could make
# every row expensive.
MAX_QUESTIONS, MAX_QUESTION_LENGTH = 16, 500
# The largest weight. A larger one would lead off every scale, and could overflow in a sum.
MAX_SLOPE = 1e6
# By rounding, a score may leave its scale by this much.
ROUNDING = 1e-6


class QuestionError(JudgesError, ValueError):
    """A question cannot be asked, or weights do not fit a judge's answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about an output, which a judge answers in addition to its rating.

    Args:
        name: Lower-case letters, digits and underscores, at most 64.
        text: The question. It must be possible to answer it from the texts that the judge reads.
        answers: Two words, of which the first speaks for the output; or two to ten ratings in
            ascending order, the best last; or ("A", "B") if the judge compares two outputs.
        anchors: A text for a rating that says what earns it; ratings may be left out.

    Raises:
        QuestionError: The name, the text or the answers cannot be used.

    Example:
        >>> Question(name="states_deadline", text="does the reply say until when to ask")
        >>> Question(name="tone", text="how friendly it is", answers=(1, 2, 3), anchors={1: "rude"})
    """

    name: str
    text: str
    answers: tuple[Value, ...] = ("yes", "no")
    anchors: Mapping[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if problem := question_problem(self.field):
            raise QuestionError(f"question {self.name!r} {problem}")
        if unknown := sorted(self.anchors.keys() - {*self.answers}):
            raise QuestionError(
                f"question {self.name!r} has anchors {unknown}, which are not among its answers"
            )

    @property
    def field(self) -> Field:
        """The field of a prompt that asks the question."""
        meanings = "; ".join(f"{rating} = {text}" for rating, text in self.anchors.items() if text)
        description = f"{self.text} ({meanings})" if meanings else self.text
        return Field(
            name=self.name, description=description, role="output", choices=tuple(self.answers)
        )


def question_problem(field: Field) -> str | None:
    """The reason why a field of a prompt cannot be a question; None if it can."""
    choices = field.options
    # Ratings have one digit, since a digit is always one token.
    is_scale = all(type(choice) is int and 0 <= choice <= 9 for choice in choices)
    if not NAME.match(field.name):
        return "needs a name of lower-case letters, digits and underscores"
    if not field.description.strip() or len(field.description) > MAX_QUESTION_LENGTH:
        return f"has a text of {len(field.description)} characters, not 1 to {MAX_QUESTION_LENGTH}"
    if is_scale and len(choices) >= 2 and list(choices) == sorted(set(choices)):
        return None
    if choices == LETTERS or (len(choices) == 2 and not is_scale and are_words(choices)):
        return None
    return (
        f"has the answers {list(choices)}; use two words, the good one first, or 2 to 10 "
        "ascending ratings from 0 to 9"
    )


def number_of(choice: Value, choices: tuple[Value, ...]) -> float:
    """An answer as a number: a rating itself, two words as 1 and 0, letters A and B as 1 and -1."""
    if choices == LETTERS:
        return 1.0 if choice == LETTERS[0] else -1.0
    return float(rating_of(choice, choices))


def nearest(number: float, choices: tuple[Value, ...]) -> Value:
    """The choice whose number (see `number_of`) is nearest to `number`."""
    return min(choices, key=lambda choice: abs(number_of(choice, choices) - number))


def answer_range(field: Field) -> tuple[float, float]:
    """The smallest and the largest number that an answer to this field can be."""
    numbers = [number_of(choice, field.options) for choice in field.options]
    return min(numbers), max(numbers)


def _extremes(choices: Sequence[Field]) -> tuple[dict[str, float], dict[str, float]]:
    """The smallest and the largest number that each answer can be, by its field."""
    ranges = {each.name: answer_range(each) for each in choices}
    return {n: low for n, (low, _) in ranges.items()}, {n: high for n, (_, high) in ranges.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShare:
    """How much one of a judge's answers counts in its score.

    The answer is to a question, or is the judge's own rating, verdict or choice (the last). `share`
    is its part of how far all answers can move the score, in [0, 1]. `loss` is by how much the
    figure of a tuned judge would be lower without the question, on the labels that the judge was
    tuned on; None if it was not measured.
    """

    name: str
    text: str
    answers: Sequence[Value]
    share: float
    loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """The weights of a score that is a sum: `intercept` plus `slope * answer` over all answers.

    Args:
        intercept: The score if every answer is 0; it must be 0 for a judge that compares.
        slopes: The slope of each answer by its name, 0 or more. The judge's own rating, verdict or
            choice is one of the answers. An answer without a slope does not count.
    """

    intercept: float
    slopes: Mapping[str, float]

    def score(self, answers: Mapping[str, float]) -> float:
        """The score of these answers."""
        terms = (slope * answers[name] for name, slope in self.slopes.items())
        # It is rounded, so that the order in which terms are added cannot break a tie.
        return round(self.intercept + math.fsum(terms), 12)

    def shares(self, choices: Sequence[Field]) -> dict[str, float]:
        """The share of each answer in how far all answers together can move the score.

        The shares sum to 1. `choices` are the prompt's output fields that have choices.
        """
        lows, highs = _extremes(choices)
        moves = self._score_changes(highs, lows)
        total = math.fsum(moves.values()) or 1.0
        return {name: move / total for name, move in moves.items()}

    def describe(self, choices: Sequence[Field], losses: Mapping[str, float]) -> list[AnswerShare]:
        """How much each answer counts; `losses` has the loss without each question, by name."""
        shares = self.shares(choices)
        return [
            AnswerShare(
                name=each.name,
                text=each.description,
                answers=each.options,
                share=round(shares[each.name], 6),
                loss=losses.get(each.name),
            )
            for each in choices
        ]

    def decisive_answer(
        self, answers: Mapping[str, float], choices: Sequence[Field], threshold: float | None = None
    ) -> str:
        """The answer that counted most for the score, as a text such as "tone = 1".

        A score is above or below `threshold`, which by default is halfway between the lowest and
        the highest score that the weights can give. The answer that counted most is the one that
        moved the score furthest to that side. How far an answer moves the score is measured from
        the point of its own range that is as high as the threshold is in the range of the scores.
        """
        lows, highs = _extremes(choices)
        lowest, highest = self.score(lows), self.score(highs)
        share = 0.5 if threshold is None else (threshold - lowest) / (highest - lowest)
        base = {name: low + share * (highs[name] - low) for name, low in lows.items()}
        moves = self._score_changes(answers, base)
        sign = 1.0 if math.fsum(moves.values()) >= 0 else -1.0
        name = max(moves, key=lambda name: sign * moves[name])
        options = next(each.options for each in choices if each.name == name)
        return f"{name} = {nearest(answers[name], options)}"

    def _score_changes(
        self, answers: Mapping[str, float], base: Mapping[str, float]
    ) -> dict[str, float]:
        """By how much each answer moves the score from the score of the answers in `base`."""
        return {name: self.slopes.get(name, 0.0) * (answers[name] - base[name]) for name in base}

    def problem(self, choices: Sequence[Field]) -> str | None:
        """The reason why these weights do not fit a prompt with these choices; None if they do.

        Every possible score has to lie on the scale of the answer, which is the last choice.
        """
        lows, highs = _extremes(choices)
        if unknown := sorted(self.slopes.keys() - lows.keys()):
            return f"a weight for {unknown[0][:64]!r}, which the judge does not answer"
        if not all(0 <= slope <= MAX_SLOPE for slope in self.slopes.values()):
            return "a weight that is negative, too large or not a number"
        lowest, highest = self.score(lows), self.score(highs)
        low, high = answer_range(choices[-1])
        if not (low - ROUNDING <= lowest < highest <= high + ROUNDING):
            return (
                f"weights whose scores go from {lowest:g} to {highest:g}, not {low:g} to {high:g}"
            )
        if choices[-1].choices == LETTERS and self.intercept:
            return "an intercept, which would prefer one output of every pair"
        return None
