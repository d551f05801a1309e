"""The duties of an optimizer, for ours and for the one on the page docs/extend.md."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import judges
from judges.labels.types import LabelledOutput, LabelledSet
from optimize.__main__ import command
from optimize.inputs.flags import SettingsError
from optimize.measuring.exports import TOOLS, read_scores
from optimize.search.optimizer import find_optimizer, optimizer_name
from optimize.statistics.correlations import COEFFICIENTS, summary_level
from optimize.testing import OptimizerContract

PAGE = (Path(__file__).parents[2] / "docs" / "extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def defined(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "extension"}
    exec(block, names)
    return names


class TestRank(OptimizerContract):
    optimizer = staticmethod(find_optimizer("rank"))


class TestGepa(OptimizerContract):
    optimizer = staticmethod(find_optimizer("gepa"))


class TestHillClimbOfThePage(OptimizerContract):
    optimizer = staticmethod(defined(BLOCKS[0])["hill_climb"])

    def test_it_finds_the_line_that_helps(self) -> None:
        exploration, *_ = self.explore()
        assert "kindness and candour" in exploration.finalists[0].instruction


def test_the_examples_of_the_page_have_at_most_forty_lines() -> None:
    assert all(len(block.splitlines()) <= 40 for block in BLOCKS)


def test_an_optimizer_of_the_users_tunes_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hill.py").write_text(BLOCKS[0], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    flags = ["--dimension", "relevance", "--max-calls", "400", "--out", str(tmp_path / "run")]
    assert command([*flags, "--optimizer", "hill:hill_climb"]) == 0
    judge = judges.load(tmp_path / "run")
    assert judge.provenance["optimizer"] == "hill:hill_climb"


@pytest.mark.parametrize("name", ["hill_climb", "nowhere:explore", "optimize.items:nothing"])
def test_an_optimizer_that_is_not_found_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(SettingsError, match=f"--optimizer .?{name}"):
        find_optimizer(name)


def test_a_function_that_no_module_has_is_no_optimizer() -> None:
    def inner(problem: Any) -> Any: ...

    with pytest.raises(SettingsError, match="inner"):
        optimizer_name(inner)


def test_a_coefficient_of_the_users_is_measured_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = dict(COEFFICIENTS)
    defined(BLOCKS[3])
    monkeypatch.setitem(COEFFICIENTS, "concordance", COEFFICIENTS.pop("concordance"))
    assert COEFFICIENTS.keys() - ours.keys() == {"concordance"}
    # Of 1 2 3 and 2 3 4 the covariance is 2/3, the variances 2/3 each, and the shift 1.
    judge, people = np.array([1.0, 2, 3]), np.array([2.0, 3, 4])
    value = summary_level(judge, people, np.zeros(3), coefficient="concordance").value
    assert value == pytest.approx(2 * (2 / 3) / (2 / 3 + 2 / 3 + 1))


def test_results_of_a_tool_of_the_users_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = list(TOOLS)
    monkeypatch.setattr("optimize.measuring.exports.TOOLS", tools)
    defined(BLOCKS[4])
    rows = [
        {"id": f"o{n}", "output": text, "completion": "", "marks": {"tone": {"score": n}}}
        for n, text in enumerate(["It rains.", "The town met."])
    ]
    (tmp_path / "acme.json").write_text(json.dumps({"runs": rows}), encoding="utf-8")
    outputs = tuple(
        LabelledOutput(
            id=row["id"],
            document_id=row["id"],
            system=None,
            texts={"output": row["output"]},
            ratings={"tone": (1.0,)},
        )
        for row in rows
    )
    labelled = LabelledSet(name="labels", sha256="", outputs=outputs)
    lines: list[str] = []
    scores = read_scores(tmp_path / "acme.json", "tone", labelled, lines.append)
    assert scores == {"o0": 0.0, "o1": 1.0}
    assert "acme.json (Acme): 'tone'; matched 2 of 2" in lines[0]


def test_a_model_of_the_users_is_named_by_its_providers_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("judges.client.open._openers", {})
    defined(BLOCKS[2])
    frame = pd.DataFrame([{"document": "It rains.", "summary": text} for text in ("Rain.", "Sun.")])
    judge = judges.load("relevance")
    assert judge.score(frame, lm="acme/echo", cache="none").tolist() == [4.0, 4.0]
