"""From Python: labels in memory, frames out, and what a user's own modules hide."""

import re
from inspect import signature
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import pandas as pd
import pytest
from files import file_of, refusal
from processes import run_python

import data
import optimize
from optimize.tuning.settings import Settings

ROOT = Path(__file__).parents[1]
TEXTS = ["The bridge is open.", "The town met.", "It rains."] * 4
ROWS: list[dict[str, Any]] = [
    {"Nr": f"o{i}", "group": f"d{i // 3}", "document": f"On day {i // 3} the town met."}
    | {"summary": text, "Anna": 1 + (i * 7) % 5, "Ben": 1 + (i * 5) % 5 if i != 4 else float("nan")}
    for i, text in enumerate(TEXTS)
]
MAP = {"id": "Nr", "relevance": ["Anna", "Ben"]}


def test_a_fault_in_memory_is_told_by_row_column_and_value():
    wrong = pd.DataFrame(ROWS)
    wrong["Anna"] = wrong["Anna"].astype(object)
    wrong.loc[6, "Anna"] = "five"
    message = refusal(wrong, map=MAP, dimensions=["relevance"])
    assert message.startswith("DataFrame, row 7, field 'Anna': 'five'")


def test_measure_says_how_a_flag_in_a_message_is_written_in_python():
    with pytest.raises(
        data.LabelError, match=r"In Python, write map=\{'NAME': 'COLUMN'\} for --map"
    ):
        optimize.measure("relevance", pd.DataFrame(ROWS), map={**MAP, "summary": "absent"})


def test_measure_takes_a_frame_and_gives_one_back():
    result = optimize.measure("relevance", pd.DataFrame(ROWS), map=MAP)
    frame = result.judgements
    assert list(frame["id"]) == [row["Nr"] for row in ROWS]
    assert frame["score"].tolist() == result.scored.scores.tolist()
    people = [np.nanmean([row["Anna"], row["Ben"]]) for row in ROWS]
    assert list(frame["human"]) == pytest.approx(people)
    assert list(frame["text_summary"]) == [row["summary"] for row in ROWS]
    assert frame["score_failure"].isna().all()


def test_the_keywords_of_tune_are_the_settings_of_a_run_with_their_defaults():
    parameters = signature(optimize.tune).parameters
    own = {"dimension", "pairwise", "data", "out", "quiet"}
    settings = {*Settings.__struct_fields__}
    assert parameters.keys() - own == settings - own
    defaults = Settings(dimension="relevance")
    for name in settings - own - {"map", "values", "lm"}:
        assert parameters[name].default == getattr(defaults, name), name


TONE = """\
name: tone
definition: how friendly the reply is
inputs: {query: the question, reply: the reply}
scale: [1, 5]
"""


@pytest.mark.usefixtures("here")
def test_the_pages_code_with_questions_runs():
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(import dataclasses\n.*?)```", page, re.DOTALL)
    file_of(TONE, "tone.yaml")
    names: dict[str, Any] = {"query": "When?", "reply": "On Monday, thank you."}
    exec(block, names)
    assert names["judge"].weights.slopes == {"thanks": 2.0, "rating": 0.5}
    assert isinstance(names["judge"].program(), dspy.Module)


def test_a_module_that_hides_judges_is_named_in_one_line(here):
    file_of("", "judges.py")
    process = run_python("-c", "import optimize; optimize.measure", env={"PYTHONPATH": str(ROOT)})
    hides = f"{here / 'judges.py'} hides the package 'judges' of dspy-judges; rename that file"
    assert process.stderr.splitlines()[-1] == f"ImportError: {hides}"
