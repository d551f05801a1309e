"""RankOptimizer refuses what it cannot tune, in words that say what is wanted."""

from collections.abc import Mapping
from typing import Any

import dspy
import pytest

import judges
from optimize import RankOptimizer

STUDENT = judges.load("fluency").program()


def example(number: int, **changes: object) -> dspy.Example:
    cells: Mapping[str, Any] = {
        "summary": f"Summary number {number}.",
        "human": 1 + number % 5,
        "document_id": f"d{number // 4}",
        **changes,
    }
    return dspy.Example(**{name: cell for name, cell in cells.items() if cell is not None})


SOME = [example(number) for number in range(12)]


@pytest.mark.parametrize("student", [dspy.Predict("text -> rating"), None, "fluency"])
def test_another_program_than_a_judge_is_refused(student: Any) -> None:
    with pytest.raises(TypeError, match=r"judges\.load\('relevance'\)\.program\(\)") as caught:
        RankOptimizer().compile(student, trainset=SOME, valset=SOME)
    assert type(student).__name__ in str(caught.value)


@pytest.mark.parametrize(
    ("train", "val", "says"),
    [
        (SOME, [], "valset is empty"),
        ([], SOME, "trainset is empty"),
        ([example(1, human=None)], SOME, "train example 0 has no 'human'; an example has summary"),
        (SOME, [SOME[0], example(1, summary=None)], "val example 1 has no 'summary'"),
        (SOME, [example(0), example(1, human=float("nan"))], "val example 1 has human nan"),
        (SOME, [example(0), example(1, human="four")], "val example 1 has human 'four'"),
        (SOME, [example(number, human=3) for number in range(4)], "valset: human is 3 in every"),
    ],
)
def test_examples_that_cannot_carry_a_choice_are_refused(
    train: list[dspy.Example], val: list[dspy.Example], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        RankOptimizer().compile(STUDENT, trainset=train, valset=val)


def test_a_teacher_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no teacher"):
        RankOptimizer().compile(STUDENT, trainset=SOME, valset=SOME, teacher=STUDENT)


def test_the_configured_models_name_and_address_are_taken() -> None:
    lm = dspy.LM("openai/judge-1", api_base="http://127.0.0.1:9/v1", api_key="none")
    with dspy.context(lm=lm):
        assert RankOptimizer()._model() == ("openai/judge-1", "http://127.0.0.1:9/v1")
        assert RankOptimizer(lm="embedded")._model() == ("embedded", None)
