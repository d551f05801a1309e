"""The frozen judge: what goes in comes out, and what it sends stands in its file."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from frozen_cases import KINDS, MEAN, SAVED, TEXTS
from hypothesis import given
from hypothesis import strategies as st
from processes import run_python
from prompts import prompted
from question_cases import ROW, WEIGHED
from scripted_model import Scripted

import judges
from dspy_judges.errors import OptionError
from judges import frozen
from judges.catalog import FLUENCY, RELEVANCE
from judges.client.client import Client
from judges.frozen import JudgeFile
from judges.judge import Judge
from judges.protocol import Completion, Message, Sampling
from judges.scoring import SamplingPlan


def loaded(raw: bytes | str) -> Judge:
    file = frozen.loads(raw.encode() if isinstance(raw, str) else raw)
    assert isinstance(file, JudgeFile)
    return Judge.of_file(file)


@pytest.mark.parametrize("judge", KINDS.values(), ids=KINDS)
def test_every_kind_of_judge_comes_back_as_it_was(judge: Judge, tmp_path: Path) -> None:
    path = judge.save(tmp_path / "judge.json")
    again = judges.load(path)
    assert again == judge
    assert again.template() == judge.prompt.template()
    assert again.dumps() == path.read_text(encoding="utf-8")


@given(
    instruction=st.text(min_size=1, max_size=200).filter(lambda text: text.strip()),
    document=st.text(max_size=100),
    rating=st.integers(1, 5),
)
def test_any_instruction_and_demo_come_back(instruction: str, document: str, rating: int) -> None:
    demo = {"document": document, "summary": "\ud800 [[ ## x ## ]]", "rating": rating}
    judge = replace(
        prompted(Judge.of(RELEVANCE), instruction=f"x {instruction}", demos=[demo]), plan=MEAN
    )
    assert loaded(judge.dumps()) == judge


def test_loading_and_judging_in_a_new_process_leaves_dspy_alone(tmp_path: Path) -> None:
    weighed = WEIGHED.with_plan(SAVED.plan)
    cases = [(SAVED, TEXTS), (weighed, ROW)]
    paths = [str(judge.save(tmp_path / f"{n}.json")) for n, (judge, _) in enumerate(cases)]
    script = (
        "import sys, judges\n"
        f"for path, texts in {list(zip(paths, (TEXTS, ROW), strict=True))!r}:\n"
        "    said = judges.load(path)(**texts)\n"
        "    print(repr((said.score, said.answers)))\n"
        "heavy = {'dspy', 'pandas', 'scipy', 'litellm', 'openai', 'datasets', 'pydantic'}\n"
        "heavy |= {'yaml', 'data'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    done = run_python("-c", script)
    assert done.returncode == 0, done.stderr
    said = [judge(**texts) for judge, texts in cases]
    assert done.stdout.splitlines() == [repr((one.score, one.answers)) for one in said]


def test_undefined_correlations_are_null_and_numpy_numbers_plain() -> None:
    judge = replace(SAVED, provenance={"value": math.nan, "n": np.int64(3), "at": (1, 2)})
    assert loaded(judge.dumps()).provenance == {"value": None, "n": 3, "at": [1, 2]}


def test_a_judge_whose_prompt_is_not_its_subjects_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="and needs the fields"):
        Judge(subject=FLUENCY, prompt=RELEVANCE.prompt())
    with pytest.raises(ValueError, match="instruction is empty"):
        prompted(Judge.of(RELEVANCE), instruction=" \n")


def rendered_otherwise() -> Judge:
    """A judge whose file's messages its program would not render."""
    document = json.loads(SAVED.dumps())
    document["messages"] = [
        {"role": "system", "content": "Act as a {{strict}} judge. Reply with a number, 1 to 5."},
        {"role": "user", "content": "SUMMARY {{summary}} OF <s> {{document}}. Number:"},
    ]
    document["digest"] = frozen.digest(document)
    return loaded(json.dumps(document))


class Listening(Scripted):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[list[Message]] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        self.requests.append(list(messages))
        return await super().complete(messages, sampling)


def test_the_messages_of_the_file_are_sent_word_for_word_and_saved_so() -> None:
    judge, model = rendered_otherwise(), Listening()
    rows = [{"document": "{{summary}} <s>", "summary": "S"}]
    (result,) = judge.with_plan(SamplingPlan(kind="one")).judge_rows(rows, Client(model))
    assert result.failure is None
    ((system, user),) = model.requests
    assert system["content"] == "Act as a {{strict}} judge. Reply with a number, 1 to 5."
    # The text's own marker is broken and its own slot is not filled.
    assert user["content"] == "SUMMARY S OF <s> {{summary}} < s>. Number:"
    assert loaded(judge.dumps()) == judge != SAVED
    with pytest.raises(OptionError, match="a DSPy program would send other messages"):
        judge.program()
