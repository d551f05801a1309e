"""An output field of a DSPy program as an answer: a rating, or a choice between two values."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

import dspy
from dspy.adapters.types.decision import decision_type
from dspy.experimental import Noul, Score
from pydantic.fields import FieldInfo

from dspy_judges.errors import JudgesError
from judges.modules import choice_probabilities
from judges.prompt import A_OR_B, FieldValue
from optimize.items import Items

# Demonstrations make a wide range of people's ratings coarser, but leave at least this many steps.
MIN_COARSE_STEPS = 100


class ProgramError(JudgesError, TypeError):
    """Raised if a program cannot be tuned; the message says why, and which programs can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramAnswer:
    """An output field of the program that is a rating, or a choice between two values.

    `values` are the values that the program may write, in order; () if the type is int or float.
    The first value of a choice counts 1, and the second one 0.
    """

    name: str
    values: tuple[FieldValue, ...] = ()
    is_choice: bool = False

    @property
    def is_pairwise(self) -> bool:
        """Whether the answer is one of two outputs, A or B."""
        return self.values == A_OR_B

    def score(self, value: Any) -> float:
        """Return the score of an answer of the program; raises ValueError if it has no score."""
        if probability_by_value := choice_probabilities(value, self.values):
            return math.fsum(p * self.score(option) for option, p in probability_by_value.items())
        if self.is_choice:
            return 1.0 - self.values.index(value)
        score = float(value)
        if not math.isfinite(score) or (self.values and value not in self.values):
            raise ValueError(f"{value!r} is not a rating on the scale")
        return score

    def label_score(self, label: FieldValue | float) -> float:
        """Convert people's label to a score; raises ValueError if it is not a label.

        The label of a choice is one of its two values, "tie", or the share of people who chose the
        first value; for pairs, it may also be a margin. The label of a rating is a number.
        """
        if self.is_choice and label in (*self.values, "tie"):
            return 0.5 if label == "tie" else self.score(label)
        number = math.nan
        with suppress(TypeError, ValueError):
            number = float(label)
        is_label, labels_text = math.isfinite(number), "a number"
        if self.is_choice or [*map(str, self.values)] == ["0", "1"]:
            lowest = -1 if self.is_pairwise else 0
            is_label = lowest <= number <= 1
            labels_text = f"{', '.join(map(repr, self.values))}, or a number from {lowest} to 1"
        if not is_label:
            raise ValueError(f"{label!r} is not a label; write {labels_text}")
        # For pairs, the number is a margin between A and B in [-1, 1].
        return (number + 1) / 2 if self.is_pairwise else number

    def value_for_rating(self, rating: int) -> FieldValue:
        """Return the value that the program writes for this rating."""
        if self.is_choice:
            return self.values[1 - rating]
        return next((value for value in self.values if int(value) == rating), rating)

    def scale(self, items: Items) -> tuple[int, ...]:
        """Return the ratings in demonstrations: the field's choices, or else people's ratings."""
        if self.is_choice:
            return 0, 1
        if self.values:
            return tuple(map(int, self.values))
        lowest, highest = math.floor(items.human.min()), math.ceil(items.human.max())
        step = max(1, (highest - lowest) // MIN_COARSE_STEPS)
        return tuple(range(lowest, max(highest, lowest + 1) + 1, step))


def find_rated_answer(
    program_name: str, signature: dspy.Signature, output: str | None = None
) -> ProgramAnswer:
    """Return the output field that people labelled: `output`, else the only rating or choice."""
    field_by_name = signature.output_fields
    answers = [answer for answer in read_answers(signature) if output in (None, answer.name)]
    if len(answers) == 1:
        return answers[0]
    typed_fields = []
    for name, info in field_by_name.items():
        typed_fields.append(f"{name}: {getattr(info.annotation, '__name__', info.annotation)}")
    program_text = f"{program_name} writes {', '.join(typed_fields)}"
    if output not in (None, *field_by_name):
        raise ProgramError(f"{program_text}, and has no output {output!r}")
    raise ProgramError(
        f"{program_text}, of which {len(answers)} are the rating or choice that people labelled: "
        f"give one output a type, as in '... -> {name}: int', Literal[1, 2, 3, 4, 5], float, or a "
        f"Literal with two labels, and name it, as in RankOptimizer(output={name!r})"
    )


def read_answers(signature: dspy.Signature) -> list[ProgramAnswer]:
    """Return all outputs of the program that are ratings or choices."""
    answers = (_read_answer(name, info) for name, info in signature.output_fields.items())
    return [answer for answer in answers if answer is not None]


def _read_answer(name: str, field_info: FieldInfo) -> ProgramAnswer | None:
    """Return an output field as an answer; None if it is neither a rating nor a choice of two."""
    if field_info.annotation in (int, float):
        return ProgramAnswer(name=name)
    decision_class = decision_type(field_info)  # a bool or a Literal has a decision type, too
    if decision_class is None:
        return None
    if issubclass(decision_class, Score):
        return ProgramAnswer(name=name, values=_ratings_of_levels(decision_class.criteria()))
    if issubclass(decision_class, Noul):
        return ProgramAnswer(name=name, values=(True, False), is_choice=True)
    values = get_args(decision_class.model_fields["value"].annotation)
    if len(values) > 1 and all(re.fullmatch(r"-?\d+", str(value)) for value in values):
        return ProgramAnswer(name=name, values=tuple(sorted(values, key=int)))
    if len(values) != 2:
        return None
    return ProgramAnswer(name=name, values=values, is_choice=True)


def _ratings_of_levels(levels: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers that begin a dspy.Score's levels ("1: poor"), else the levels' indices."""
    matches = [re.match(r"-?\d+(?=:|\Z)", str(level)) for level in levels]
    numbers = [int(match[0]) for match in matches if match]
    if len(numbers) == len(levels) and numbers == sorted(set(numbers)):
        return tuple(numbers)
    return tuple(range(len(levels)))
