"""The duties of optimizers, models, coefficients and exports: ours and those of docs/extend.md."""

import json
import math
import os
import re
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pytest
from command_runs import output_of
from files import read_jsonl
from processes import run_python

import judges
from dspy_judges.errors import SettingsError
from judges.client.open import open_model
from judges.embedded.model import EmbeddedModel
from judges.labels import export_reader, tool_exports
from judges.labels.tool_exports import LABEL_EXPORTS, PLACES
from judges.testing import LabelExportContract, ModelContract
from optimize import tune
from optimize.__main__ import command
from optimize.measuring.exports import COLUMNS_BY_CONTENT, Tool
from optimize.search.budget import SearchBudgetSpentError
from optimize.search.optimizer import Exploration, find_optimizer, optimizer_name
from optimize.statistics.coefficients import COEFFICIENTS
from optimize.testing import CoefficientContract, OptimizerContract, ToolContract

PAGE = (Path(__file__).parents[2] / "docs" / "extend.md").read_text(encoding="utf-8")
TEXT_JUDGE = judges.load("fluency")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def define(block):
    names: dict[str, Any] = {"__name__": "extension"}
    exec(block, names)
    return names


class TestRank(OptimizerContract):
    optimizer = staticmethod(find_optimizer("rank"))


class TestGepa(OptimizerContract):
    optimizer = staticmethod(find_optimizer("gepa"))


class TestHillClimbOfThePage(OptimizerContract):
    optimizer = staticmethod(define(BLOCKS[0])["hill_climb"])

    def test_hill_climbing_finds_the_line_that_helps(self):
        exploration, *_ = self.explore()
        assert "kindness and candour" in exploration.finalists[0].instruction


LIMIT = "The limit was too small to try more"
# The untuned judge, which the optimizer also lists, does not count as tried.
TRIED = "No reliable candidate beat the untuned judge on train ({} tried)."


@pytest.mark.parametrize(("max_calls", "why"), [(160, LIMIT), (200, LIMIT), (400, TRIED)])
def test_a_users_optimizer_keeps_its_limit(here, monkeypatch, max_calls, why):
    Path("hill.py").write_text(BLOCKS[0], encoding="utf-8")
    monkeypatch.syspath_prepend(here)
    flags = ["--dimension", "relevance", "--max-calls", str(max_calls), "--out", "run"]
    printed = output_of(command, *flags, "--optimizer", "hill:hill_climb")
    trials = read_jsonl("run/trials.jsonl")
    assert why.format(len({trial["candidate"] for trial in trials})) in printed
    assert judges.load("run").provenance["optimizer"] == "hill:hill_climb"
    assert all(trial["value"] is not None for trial in trials)
    assert why is LIMIT or {trial["half"] for trial in trials} == {1, 2}


def spend_all(problem):
    """Change the instruction until the budget ends."""
    candidate = problem.untuned
    with suppress(SearchBudgetSpentError):
        while True:
            problem.evaluator.scores(candidate, problem.train)
            candidate = replace(candidate, instruction=f"{candidate.instruction} Be kind.")
    return Exploration(finalists=[candidate], candidate_ids=[candidate.id])


def test_finalists_are_tested_if_an_optimizer_spends_all(tmp_path):
    tune("relevance", optimizer=spend_all, out=tmp_path / "run", max_calls=1000)
    trials = read_jsonl(tmp_path / "run" / "trials.jsonl")
    flags = [trial["n_documents"] > 0 for trial in trials if trial["stage"] == "dev"]
    assert flags == [True, True]


NOT_A_FUNCTION = "hill_climb"


def return_a_list(problem):
    return [problem.untuned]


@pytest.mark.parametrize(
    ("find", "optimizer", "says"),
    [
        (find_optimizer, "hill_climb", "--optimizer .?hill_climb"),
        (find_optimizer, "nowhere:explore", "--optimizer .?nowhere:explore"),
        (find_optimizer, "optimize.items:nothing", "--optimizer .?optimize.items:nothing"),
        (find_optimizer, f"{__name__}:NOT_A_FUNCTION", "NOT_A_FUNCTION is not a function"),
        (optimizer_name, lambda problem: problem, "lambda"),  # which no module has
        (optimizer_name, 5, "optimizer :5: define it"),
        (tune, return_a_list, "returned <class 'list'>, not an Exploration"),
    ],
)
def test_what_is_no_optimizer_is_refused_in_one_line(here, find, optimizer, says):
    arguments = {"dimension": "relevance", "out": "run"} if find is tune else {}
    with pytest.raises(SettingsError, match=says):
        find(**arguments, optimizer=optimizer) if arguments else find(optimizer)


class TestCoefficients(CoefficientContract):
    @pytest.fixture(autouse=True, params=COEFFICIENTS)
    def _each(self, request):
        self.coefficient = COEFFICIENTS[request.param]


class TestConcordanceOfThePage(CoefficientContract):
    with pytest.MonkeyPatch.context() as _patch:
        _patch.setattr("optimize.statistics.coefficients.COEFFICIENTS", dict(COEFFICIENTS))
        coefficient = define(BLOCKS[3])["COEFFICIENTS"]["concordance"]


def test_verify_prints_a_coefficient_that_a_users_module_adds(tmp_path):
    (tmp_path / "concordance.py").write_text(BLOCKS[3], encoding="utf-8")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    env = {"DSPY_JUDGES_EXTENSIONS": "json, concordance", "PYTHONPATH": path}
    words = ("verify", "relevance", "--data", "starter", "--all")
    process = run_python("-m", "dspy_judges", *words, env=env)
    assert process.returncode == 0, process.stderr
    for level in ("summary", "dataset", "system"):
        assert f"{level}-level ccc 0." in process.stdout


TEXTS = {
    "a": {"input": "Why?", "output": "So."},
    "b": {"input": "How?", "output": "So."},
    "c": {"input": "When?", "output": "Now."},
}


class TestToolOfThePage(ToolContract):
    tool = define(BLOCKS[4])["TOOLS"].pop()
    metric = "tone"
    scores: ClassVar = {"a": 0.0, "b": 1.0, "c": math.nan}
    texts = TEXTS
    marks: ClassVar = {"a": [{"about": "tone", "points": 0}], "b": [{"about": "tone", "points": 1}]}
    results: ClassVar = {
        "runs": [
            {
                "key": name,
                "prompt": TEXTS[name]["input"],
                "completion": TEXTS[name]["output"],
                "marks": marks,
            }
            for name, marks in (*marks.items(), ("c", [{"about": "tone", "points": None}]))
        ]
    }


class TestToolInOneLine(ToolContract):
    """The columns alone would be those of Ragas; a metric's name is its key, whatever is in it."""

    tool = Tool("Acme", ("response", "grades"), "grades")
    metric = "tone"
    scores: ClassVar = {"a": 4.0, "b": 2.0, "c": math.nan}
    texts = TEXTS
    grades: ClassVar = {
        "a": {"tone": 4, "length": 1},
        "b": {"tone": {"score": 2, "name": "Tone of b"}},
        "c": {"tone": {"error": "no key"}},
    }
    results: ClassVar = [
        {
            "id": name,
            "user_input": TEXTS[name]["input"],
            "response": TEXTS[name]["output"],
            "grades": grades,
        }
        for name, grades in grades.items()
    ]


def test_the_page_lists_the_names_that_tools_need_not_declare():
    for content, columns in COLUMNS_BY_CONTENT.items():
        assert f"| `{content}` | {', '.join(f'`{name}`' for name in columns)} |" in PAGE


def look_at_length(problem):
    """Return the only instruction that a simple optimizer knows."""
    return Exploration(finalists=[replace(problem.untuned, instruction="Look at the length.")])


class TestOptimizerWithWordsOfItsOwn(OptimizerContract):
    optimizer = staticmethod(look_at_length)
    qualities = ("length", "source", "date", "name", "quote", "link")


def test_the_contract_says_in_which_words_an_optimizer_failed():
    suite = type("Suite", (OptimizerContract,), {"optimizer": staticmethod(look_at_length)})()
    with pytest.raises(AssertionError, match=r"rho .* kindness and candour, .* `qualities`"):
        suite.test_a_finalist_ranks_new_documents_better_than_the_untuned_judge()


class TestEmbeddedModel(ModelContract):
    model = EmbeddedModel
    question = TEXT_JUDGE.request({"summary": "Rain."})["messages"]


@pytest.mark.usefixtures("openai_server")
class TestEndpoint(ModelContract):
    model = partial(open_model, "openai/judge-1")
    unreachable = partial(open_model, "openai/judge-1", api_base="http://127.0.0.1:9/v1")


class TestModelOfThePage(ModelContract):
    model = partial(define(BLOCKS[2])["Echo"], "echo")


class TestLabelExportOfThePage(LabelExportContract):
    with pytest.MonkeyPatch.context() as _patch:
        _patch.setattr(tool_exports, "LABEL_EXPORTS", [*LABEL_EXPORTS])
        _patch.setattr(tool_exports, "PLACES", {**PLACES})
        exports = define(BLOCKS[5])["LABEL_EXPORTS"]
        places = tool_exports.PLACES
    rows = json.loads("".join(re.findall("^# (.*)", BLOCKS[5], re.MULTILINE)))
    dimension = "tone"
    ratings: ClassVar = {"a": (4.0,)}

    @pytest.fixture(autouse=True)
    def _declare(self, monkeypatch):
        monkeypatch.setattr(export_reader, "LABEL_EXPORTS", self.exports)
        monkeypatch.setattr(export_reader, "PLACES", self.places)


def test_a_users_model_is_named_by_its_provider_prefix():
    define(BLOCKS[2])
    frame = pd.DataFrame([{"document": "It rains.", "summary": text} for text in ("Rain.", "Sun.")])
    judge = judges.load("relevance")
    assert judge.score(frame, lm="acme/echo", cache="none").tolist() == [4.0, 4.0]
