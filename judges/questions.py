"""Questions that a judge answers in the same reply as its rating, and what each answer is worth."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dspy_judges.errors import JudgesError
from judges.prompt import LETTERS, NAME, Field, Value, are_words, rating_of

# A longer list of questions costs more than its last ones are worth, and a stranger's file could
# make every row dear.
MAX_QUESTIONS, MAX_QUESTION_LENGTH = 16, 500
# Larger ones, of which no score stays on a scale, could overflow in a sum.
MAX_SLOPE = 1e6
# What rounding may add to a score beyond the ends of its scale.
ROUNDING = 1e-6


class QuestionError(JudgesError, ValueError):
    """A question that cannot be asked, or weights that do not fit a judge's answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that an output has or lacks, which a judge answers beside its rating.

    Args:
        name: Lower-case letters, digits and underscores, at most 64.
        text: What is asked. It has to be answerable from the texts that the judge reads.
        answers: Two words, the one that speaks for the output first; or two to ten ratings,
            ascending, the best last; or ("A", "B") if the judge compares two outputs.
        anchors: What earns each rating, for the ratings that need it.

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
                f"question {self.name!r} has anchors {unknown}, which it has no answers for"
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
    """Why a field of a prompt cannot be a question; None if it can."""
    choices = field.options
    # One digit is one token.
    is_scale = all(type(choice) is int and 0 <= choice <= 9 for choice in choices)
    if not NAME.match(field.name):
        return "has no name of lower-case letters, digits and underscores"
    if not field.description.strip() or len(field.description) > MAX_QUESTION_LENGTH:
        return f"has a text of {len(field.description)} characters, not 1 to {MAX_QUESTION_LENGTH}"
    if is_scale and len(choices) >= 2 and list(choices) == sorted(set(choices)):
        return None
    if choices == LETTERS or (len(choices) == 2 and not is_scale and are_words(choices)):
        return None
    return (
        f"has the answers {list(choices)}; they are two words, the good one first, or 2 to 10 "
        "ascending ratings from 0 to 9"
    )


def number_of(choice: Value, choices: tuple[Value, ...]) -> float:
    """The number of an answer: its rating, 1 or 0 of two words, 1 or -1 for the letters A and B."""
    if choices == LETTERS:
        return 1.0 if choice == LETTERS[0] else -1.0
    return float(rating_of(choice, choices))


def nearest(number: float, choices: tuple[Value, ...]) -> Value:
    """The answer whose number is nearest."""
    return min(choices, key=lambda choice: abs(number_of(choice, choices) - number))


def answer_range(field: Field) -> tuple[float, float]:
    """The smallest and the largest number of an answer to this field."""
    numbers = [number_of(choice, field.options) for choice in field.options]
    return min(numbers), max(numbers)


def _ends(choices: Sequence[Field]) -> tuple[dict[str, float], dict[str, float]]:
    """The smallest and the largest number of each answer, by its field."""
    ranges = {each.name: answer_range(each) for each in choices}
    return {n: low for n, (low, _) in ranges.items()}, {n: high for n, (_, high) in ranges.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerShare:
    """One of a judge's answers: to a question, or (the last) its own rating, verdict or choice.

    `share` is its part of the weights, in [0, 1]. `loss` is by how much a tuned judge's figure on
    the labels that teach would be lower without the question; None where it was not measured.
    """

    name: str
    text: str
    answers: Sequence[Value]
    share: float
    loss: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerWeights:
    """A score as a sum of answers: `intercept` plus `slope * answer` over all answers.

    Args:
        intercept: What the score is where every answer is 0; 0 for a judge that compares.
        slopes: The slope of each answer by its name, 0 or more. The judge's own rating or verdict
            is among them, and a name that is not there counts nothing.
    """

    intercept: float
    slopes: Mapping[str, float]

    def score(self, answers: Mapping[str, float]) -> float:
        """The score of these answers."""
        terms = (slope * answers[name] for name, slope in self.slopes.items())
        # To 12 digits, because the order of a sum must not break a tie.
        return round(self.intercept + math.fsum(terms), 12)

    def shares(self, choices: Sequence[Field]) -> dict[str, float]:
        """The share of each answer in what all answers together can move the score; they sum to 1.

        `choices` are the fields of the prompt that are chosen from a few answers.
        """
        lows, highs = _ends(choices)
        moves = self._moves(highs, lows)
        total = math.fsum(moves.values()) or 1.0
        return {name: move / total for name, move in moves.items()}

    def describe(self, choices: Sequence[Field], losses: Mapping[str, float]) -> list[AnswerShare]:
        """What each answer is worth; `losses` are of the questions, by name."""
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

    def decisive(
        self, answers: Mapping[str, float], choices: Sequence[Field], threshold: float | None = None
    ) -> str:
        """The answer that moved the score furthest to the side on which it lies: "tone = 1".

        The sides meet at `threshold`, by default halfway between the lowest and the highest score
        that the weights can give. Each answer is compared with one as far up its own range.
        """
        lows, highs = _ends(choices)
        lowest, highest = self.score(lows), self.score(highs)
        share = 0.5 if threshold is None else (threshold - lowest) / (highest - lowest)
        base = {name: low + share * (highs[name] - low) for name, low in lows.items()}
        moves = self._moves(answers, base)
        side = 1.0 if math.fsum(moves.values()) >= 0 else -1.0
        name = max(moves, key=lambda name: side * moves[name])
        options = next(each.options for each in choices if each.name == name)
        return f"{name} = {nearest(answers[name], options)}"

    def _moves(self, answers: Mapping[str, float], base: Mapping[str, float]) -> dict[str, float]:
        """By how much each answer moves the score from that of the answers in `base`."""
        return {n: self.slopes.get(n, 0.0) * (answers[n] - middle) for n, middle in base.items()}

    def problem(self, choices: Sequence[Field]) -> str | None:
        """Why these weights do not fit a prompt with these choices; None if they do.

        Every score has to lie on the scale of the answer, which is the last of the choices.
        """
        lows, highs = _ends(choices)
        if unknown := sorted(self.slopes.keys() - lows.keys()):
            return f"a weight for {unknown[0][:64]!r}, which the judge does not answer"
        if not all(0 <= slope <= MAX_SLOPE for slope in self.slopes.values()):
            return "a weight that is negative, too large or no number"
        lowest, highest = self.score(lows), self.score(highs)
        low, high = answer_range(choices[-1])
        if not (low - ROUNDING <= lowest < highest <= high + ROUNDING):
            return (
                f"weights whose scores go from {lowest:g} to {highest:g}, not {low:g} to {high:g}"
            )
        if choices[-1].choices == LETTERS and self.intercept:
            return "an intercept, which would prefer one output of every pair"
        return None
