"""What a new user tells a command wrong: one line, exit 1 or 2, and nothing written over."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rating_files import weather_rows

from judges.__main__ import main as judges_command
from optimize.__main__ import command as tune
from optimize.check import main as data_command
from optimize.compare import command as compare

ROWS = weather_rows(6, 3)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with labels, an empty definition, notes without a line end, and UTF-16."""
    monkeypatch.chdir(tmp_path)
    labels = "".join(json.dumps(row) + "\n" for row in ROWS)
    Path("in.jsonl").write_text(labels)
    Path("u16.jsonl").write_bytes(labels.encode("utf-16")[:41])
    Path("in.csv").write_text("id,document,summary,relevance\na,Text.,Short.,3\n")
    rated = "Text.,Short.,1,good\nText.,Longer.,2,bad\n"
    Path("two.csv").write_text(f"document,summary,helpful,label\n{rated}")
    Path("e.yaml").write_text("")
    Path("notes.txt").write_text("a last line without an end")
    return tmp_path


SCORE = ["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]
NOWHERE = ["--api-base", "http://127.0.0.1:9/v1"]
MEAN = [*SCORE, "--plan", "mean"]
# What every command over a table refuses, with the exit code and the reason.
REFUSED: dict[str, tuple[list[str], int, str]] = {
    "an unknown judge": (["score", "nope", *SCORE[2:]], 2, "no judge 'nope'"),
    "a missing file": (
        ["score", "fluency", "--data", "x.csv", "--out", "o.csv"],
        1,
        "x.csv: does not exist",
    ),
    "a missing column": (
        [*SCORE, "--map", "summary=x"],
        1,
        "no column 'x', which the judge 'fluency' reads; columns: document, group, id, relevance",
    ),
    "a format not known": ([*SCORE[:-1], "o.xls"], 1, "files are written as .jsonl"),
    "no output": (SCORE[:-2], 2, "--out FILE is needed"),
    "output over input": ([*SCORE[:-1], "./in.jsonl"], 1, "in.jsonl exists already"),
    "a finished output whose judge is gone": (
        ["score", "gone.yaml", *SCORE[2:-1], "in.jsonl"],
        1,
        "in.jsonl exists already, and does not say which judge",
    ),
    "a pairwise judge to score": (
        ["score", "tldr_concise", *SCORE[2:]],
        2,
        "use: dspy-judges winrate",
    ),
    "a rating judge to compare": (["winrate", *SCORE[1:]], 2, "use: dspy-judges score"),
    "a judge twice": (["score", "fluency", *SCORE[1:]], 2, "two judges"),
    "three times the same reply": (
        [*MEAN, "--samples", "3", "--temperature", "0"],
        2,
        "draws the same reply every time",
    ),
    "a model without its provider, in a dry run": (
        [*SCORE, "--lm", "gpt-4.1-mini", "--dry-run"],
        1,
        "no model 'gpt-4.1-mini': write embedded or PROVIDER/NAME",
    ),
    "a price not known": (
        [*SCORE, "--lm", "openai/own", "--max-cost", "1", *NOWHERE],
        1,
        "max_cost needs the model's price",
    ),
    "an empty address": (
        [*SCORE, "--lm", "openai/own", "--api-base", ""],
        2,
        "--api-base: is empty: give http://HOST:PORT/v1, or leave out the flag",
    ),
    "a key in an address": (
        [*SCORE, "--lm", "openai/own", "--api-base", "http://me:word@host/v1"],
        2,
        "--api-base: holds a password or a key",
    ),
    "a folder as a judge": (["score", ".", *SCORE[2:]], 1, "judge.json: No such file"),
    "a batch of no output": ([*SCORE[:-2], "--batch-api", "collect"], 2, "--out FILE is needed"),
    "no command": (["nope"], 2, "invalid choice: 'nope'"),
}
WRONG: dict[str, tuple[Callable[[list[str]], int], list[str], int, str]] = {
    **{name: (judges_command, *refused) for name, refused in REFUSED.items()},
    "no call at all": (judges_command, [*SCORE, "--max-calls", "0"], 2, "number, 1 or more"),
    "a key as a flag": (
        judges_command,
        [*SCORE, "--api-key", "sk-planted-4f9c2b7e1d6a8035"],
        2,
        "unrecognized arguments: --api-key; did you mean --api-key-env?",
    ),
    "an empty definition": (
        judges_command,
        ["score", "e.yaml", *SCORE[2:]],
        1,
        "e.yaml: Expected `object`",
    ),
    "no money": (
        judges_command,
        [*SCORE, "--lm", "openai/x", "--price", "1,1", *NOWHERE, "--max-cost", "0"],
        1,
        "with a limit of $0 nothing may be spent: only free models, recorded replies and",
    ),
    "no key": (judges_command, [*SCORE, "--lm", "openai/x"], 1, "OPENAI_API_KEY is not set"),
    "no address": (
        judges_command,
        [*SCORE, "--lm", "openai/x", "--api-base", "local"],
        1,
        "'local' is not an address; write http://HOST:PORT/v1",
    ),
    "a map of one word": (data_command, ["check", "in.csv", "--map", "x"], 2, "is not NAME=COLUMN"),
    "a map to no column": (
        tune,
        ["--dimension", "relevance", "--data", "in.csv", "--map", "relevance=relevanse"],
        1,
        "name your column with --map relevance=COLUMN",
    ),
    "a name that is nearly a column's, beside a column called label": (
        tune,
        ["--dimension", "helpfull", "--data", "two.csv", "--dry-run"],
        2,
        "(did you mean helpful?)",
    ),
    "a judge without its provider, in a dry run": (
        tune,
        ["--dimension", "relevance", "--lm", "gpt-4.1-mini", "--dry-run"],
        1,
        "no model 'gpt-4.1-mini': write embedded or PROVIDER/NAME",
    ),
    "a proposer without its provider, in a dry run": (
        tune,
        ["--dimension", "relevance", "--lm", "openai/x", "--proposer-lm", "gpt-5", "--dry-run"],
        1,
        "no model 'gpt-5': write embedded or PROVIDER/NAME",
    ),
    "two judges, one without its provider, in a dry run": (
        compare,
        ["--dimension", "relevance", "--lm", "gpt-5", "--lm", "embedded", "--dry-run"],
        1,
        "no model 'gpt-5': write embedded or PROVIDER/NAME",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_one_line_and_writes_over_nothing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, arguments, code, says = WRONG[name]
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    try:
        ended = command(arguments)
    except SystemExit as stopped:
        ended = int(stopped.code or 0)
    out, err = capsys.readouterr()
    assert ended == code, err
    assert out == ""
    assert "Traceback" not in err
    assert says in err.splitlines()[-1]
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_verbose_shows_where_an_error_arose(capsys: pytest.CaptureFixture[str]) -> None:
    assert judges_command([*SCORE[:3], "x.csv", *SCORE[4:], "--verbose"]) == 1
    assert "Traceback" in capsys.readouterr().err
