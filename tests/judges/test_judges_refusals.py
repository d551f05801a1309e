"""dspy-judges: what it refuses, how it ends early, and that it goes on from there."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from jsonl import read_jsonl
from openai_server import OpenAIServer
from scripted_model import Scripted

from judges.__main__ import main
from judges.client.protocol import Completion, FatalModelError, Message, Sampling

pytestmark = pytest.mark.usefixtures("table_folder")


MEAN = ["fluency", "--data", "in.csv", "--out", "o.csv", "--plan", "mean"]
FAILING = {
    "an unknown judge": (["nope", "--data", "in.csv", "--out", "o.csv"], 2, "no judge 'nope'"),
    "a missing file": (
        ["fluency", "--data", "x.csv", "--out", "o.csv"],
        1,
        "x.csv: does not exist",
    ),
    "a missing column": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--map", "summary=x"],
        1,
        "no column 'x', which the judge 'fluency' reads; columns: document, id, summary",
    ),
    "an unknown text to map": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--map", "sumary=x"],
        2,
        "--map sumary: no such text; they are summary",
    ),
    "a format not known": (
        ["fluency", "--data", "in.csv", "--out", "o.xls"],
        1,
        "files are written as .jsonl",
    ),
    "no output": (["fluency", "--data", "in.csv"], 2, "--out FILE is needed"),
    "output over input": (["fluency", "--data", "in.csv", "--out", "./in.csv"], 2, "--data itself"),
    "an output that is there": (
        ["fluency", "--data", "in.csv", "--out", "in.jsonl"],
        1,
        "in.jsonl exists already; delete it, or name another --out",
    ),
    "no folder for the output": (
        ["fluency", "--data", "in.csv", "--out", "x/o.csv"],
        1,
        "folder x",
    ),
    "a pairwise judge to score": (
        ["tldr_concise", "--data", "in.csv", "--out", "o.csv"],
        2,
        "use: dspy-judges winrate",
    ),
    "a judge twice": (
        ["fluency", "fluency", "--data", "in.csv", "--out", "o.csv"],
        2,
        "two judges",
    ),
    "samples of no mean": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--samples", "3"],
        2,
        "--plan mean and --samples N go together",
    ),
    "three times the same reply": (
        [*MEAN, "--samples", "3", "--temperature", "0"],
        2,
        "draws the same reply every time",
    ),
    "a plan that the model cannot follow": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--plan", "weighted"],
        1,
        "gives no log-probabilities, which the plan 'weighted' needs",
    ),
    "a price not known": (
        ["fluency", "--data", "in.csv", "--out", "o.csv", "--lm", "openai/own", "--max-cost", "1"],
        1,
        "max_cost needs the model's price",
    ),
    "a folder as a judge": ([".", "--data", "in.csv", "--out", "o.csv"], 1, "holds no judge.json"),
}


@pytest.mark.parametrize(("ask", "code", "why"), FAILING.values(), ids=FAILING)
def test_what_cannot_be_done_is_one_line_and_writes_nothing(
    scripted: Scripted, ask: list[str], code: int, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert main(["score", *ask]) == code
    out, err = capsys.readouterr()
    assert out == ""
    *progress, line = err.splitlines()
    assert line.startswith("dspy-judges ")
    assert why in line
    assert not any("Traceback" in said for said in progress)
    assert not scripted.asked
    left = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert {name: left[name] for name in before} == before
    journal = {"o.csv.replies.jsonl", "o.csv.replies.jsonl.budget.json"}
    assert left.keys() - before.keys() <= journal


def test_a_bad_row_stops_before_anything_is_sent(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path("in.jsonl").open("a") as file:
        file.write("{not json\n")
    assert main(["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]) == 1
    assert "in.jsonl, line 7: 'not json\\n' is not JSON: " in capsys.readouterr().err
    assert not scripted.asked


@pytest.mark.parametrize("ask", [["score", "fluency"], ["nope"], [], ["score", "--lm"]])
def test_wrong_usage_ends_with_two_and_one_line(
    ask: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(ask)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("dspy-judges")
    assert said.endswith("(--help lists the flags)\n")


def test_a_spent_budget_ends_resumably_and_pays_nothing_twice(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "relevance", "--data", "in.csv", "--out", "o.csv", "--lm", "openai/x"]
    assert main([*ask, "--max-calls", "4", "--concurrency", "1"]) == 1
    said = capsys.readouterr().err.splitlines()[-1]
    assert "budget of 4 calls is spent" in said
    assert "run the same with --resume" in said
    assert not Path("o.csv").exists()
    assert main(ask) == 1
    assert "left of an unfinished run: --resume continues" in capsys.readouterr().err
    # What counts is the columns that are read, not the words that name them.
    assert main([*ask, "--map", "summary=document", "--resume"]) == 1
    assert "of a run with other text columns" in capsys.readouterr().err
    assert main([*ask, "--map", "summary=summary", "--resume"]) == 0
    assert len(scripted.asked) == 6
    Path("o.csv").unlink()
    assert main(ask) == 0
    assert len(scripted.asked) == 6
    assert not Path("o.csv.partial").exists()


def test_an_interrupted_run_ends_with_130_and_resumes_to_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted(Scripted):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if len(self.asked) == 3:
                raise KeyboardInterrupt
            return await super().complete(messages, sampling)

        in_process = True

    async def at_once(seconds: float) -> None:
        """A model in this process does not wait."""

    monkeypatch.setattr("scripted_model.asyncio.sleep", at_once)
    models = [Interrupted(), Scripted()]
    monkeypatch.setattr("judges.client.open.open_model", lambda lm, api_base=None: models[0])
    ask = ["score", "relevance", "--data", "in.csv", "--lm", "openai/x"]
    assert main([*ask, "--out", "o.csv"]) == 130
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("dspy-judges score: interrupted: 3 of 6 rows are in o.csv.partial")
    models.pop(0)
    assert main([*ask, "--out", "o.csv", "--resume"]) == 0
    assert len(models[0].asked) == 3
    assert main([*ask, "--out", "whole.csv"]) == 0
    assert Path("o.csv").read_text() == Path("whole.csv").read_text()


def test_a_wrong_key_is_one_line_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Locked(Scripted):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            raise FatalModelError("401: wrong key")

    monkeypatch.setattr("judges.client.open.open_model", lambda lm, api_base=None: Locked())
    assert main(["score", "fluency", "--data", "in.csv", "--out", "o.csv", "--lm", "openai/x"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "dspy-judges score: 401: wrong key"
    assert not Path("o.csv.partial").exists()


def test_verbose_shows_where_an_error_arose(
    scripted: Scripted, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "fluency", "--data", "x.csv", "--out", "o.csv"]
    assert main([*ask, "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_scoring_over_http_keeps_the_key_out_of_every_file(
    openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ["score", "coherence", "--data", "in.jsonl", "--out", "o.jsonl", "--verbose", "--json"]
    assert main([*ask, "--lm", "openai/judge-1", "--reasoning", "brief"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert (result["lm_calls"], result["judges"]["coherence"]["n"]) == (6, 6)
    written = "".join(path.read_text(encoding="utf-8") for path in Path().iterdir())
    assert "sk-local" not in written + out + err
    assert read_jsonl("o.jsonl")[0]["judgements"]["coherence"]["rationale"] == "It is what it is."
