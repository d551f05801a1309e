"""dspy-judges tune from the outside: flags, folders, one clear line for whatever fails."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonl import write_jsonl
from rating_files import weather_rows

from dspy_judges.errors import UsageError
from judges.cli.main import parser as judges_parser
from judges.loading import load
from judges.scoring import SamplingPlan
from optimize.__main__ import command
from optimize.tuning.settings import read_settings

DIMENSION = """
name: liveliness
definition: how lively the reply is
inputs: {context: the talk so far, response: the reply}
scale: [1, 3]
"""


def rows(documents: int, systems: int = 4, **changes: object) -> list[dict[str, Any]]:
    made = weather_rows(documents, systems, "liveliness", ("context", "response"))
    return [row | changes for row in made]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(DIMENSION, encoding="utf-8")
    write_jsonl(tmp_path / "labels.jsonl", rows(12))
    return tmp_path


OWN = ["--dimension", "own.yaml", "--data", "labels.jsonl"]


def broken(change: Callable[[list[dict[str, Any]]], object]) -> list[dict[str, Any]]:
    lines = rows(12)
    change(lines)
    return lines


BAD_LABELS = {
    "one document only": (rows(1, 8), "1 document"),
    "constant ratings": (rows(12, liveliness=2), "every label on liveliness is 2"),
    "a rating outside the scale": (broken(lambda r: r[5].update(liveliness=9)), "9"),
    "a missing text": (broken(lambda r: [row.pop("response") for row in r]), "response"),
    "no such rating": (rows(12, liveliness=None, charm=2), "liveliness"),
}


@pytest.mark.parametrize("name", BAD_LABELS)
def test_labels_that_cannot_carry_a_run_get_one_line_and_no_folder(
    here: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    lines, says = BAD_LABELS[name]
    write_jsonl(here / "labels.jsonl", lines)
    assert command(OWN) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1, err
    assert says in err
    assert not (here / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "--dimension NAME or --pairwise NAME"),
        # A dimension that a file has alone need not be named.
        (["--data", "labels.jsonl"], 2, "no judge 'liveliness' in the catalogue: say in one line"),
        (["--dimension", "relevanse"], 2, "relevance"),
        (["--dimension", "missing.yaml"], 1, "missing.yaml"),
        ([*OWN, "--max-calls", "0"], 2, "--max-calls '0': expected int >= 1"),
        ([*OWN, "--max-tokens", "proposer=x"], 2, "--max-tokens proposer='x': expected int"),
        ([*OWN, "--map", "oops"], 2, "NAME=COLUMN"),
        ([*OWN, "--plan", "weighted", "--samples", "4"], 2, "--plan mean"),
        ([*OWN, "--api-base", "http://me:secret@host/v1"], 2, "OPENAI_API_KEY"),
        (["--pairwise", "own.yaml", "--data", "labels.jsonl"], 2, "--dimension"),
        (["--dimension", "own.yaml", "--data", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        ([*OWN, "--out", "own.yaml"], 1, "own.yaml: File exists"),
        ([*OWN, "--out", "/proc/none/run"], 1, "/proc/none: No such file"),
        ([*OWN, "--max-calls", "3"], 2, "--max-calls 3"),
        ([*OWN, "--optimizer", "gepa"], 2, "--optimizer gepa: the embedded model cannot follow"),
        ([*OWN, "--proposer-lm", "openai/m"], 2, "--proposer-lm: the embedded model cannot follow"),
    ],
)
def test_what_a_user_can_mend_is_said_in_one_line(
    here: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    says: str,
) -> None:
    assert command(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err.splitlines()[-1], err
    assert "Traceback" not in err
    assert "secret" not in err


def test_a_wrong_flag_is_one_line_and_usage(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        command(["--sead", "1"])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_what_is_left_out_of_a_file_is_told_and_the_named_plan_is_followed_and_frozen(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl(
        here / "labels.jsonl", broken(lambda made: [row.pop("liveliness") for row in made[:8]])
    )
    plan = ["--plan", "mean", "--samples", "3"]
    assert command([*OWN, "--max-calls", "300", "--out", "run", *plan]) == 0
    assert "note: no rating on liveliness: 8 of 48 outputs" in capsys.readouterr().err
    assert load("run").plan == SamplingPlan(kind="mean", samples=3, temperature=1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_calls": "many"}, "--max-calls 'many': expected int"),
        ({"max_calls": 0}, "--max-calls 0: expected int >= 1"),
        ({"max_cost": float("nan")}, "--max-cost nan: expected float >= 0"),
        ({"seed": True}, "--seed True: expected int"),
        ({"temperature": 11}, "--temperature 11: expected float <= 10"),
        ({"lm": ""}, "--lm '': expected str of length >= 1"),
        ({"proposer_max_tokens": "x"}, "--max-tokens proposer='x': expected int"),
        ({"map": "liveliness"}, "--map 'liveliness' is not NAME=COLUMN"),
        ({"map": ["liveliness"]}, "--map 'liveliness' is not NAME=COLUMN"),
        ({"level": "word"}, "--level 'word': choose from summary, dataset, system, auto"),
        ({"scale": "7"}, "--scale 7: expected LOW-HIGH"),
        ({"colour": "red"}, "there is no setting 'colour'"),
        ({"plan": "mean"}, "--plan mean and --samples N go together"),
        ({"samples": 3}, "--plan mean and --samples N go together"),
        ({"plan": "one", "samples": 3}, "--plan mean and --samples N go together"),
        ({"plan": "best"}, "--plan 'best': choose from one, mean, weighted"),
        *(({"risk": risk}, "--risk") for risk in (0, -0.1, 0.51, True, "much")),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_line_that_names_it(
    wrong: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        read_settings({"dimension": "relevance", **wrong})


@pytest.mark.parametrize(
    ("flag", "words", "value"),
    [
        ("max_cost", (".3", "+.3", "3e-1", "0.30"), 0.3),
        ("temperature", (".5", "5e-1", "+0.5"), 0.5),
        ("risk", (".1", "1e-1"), 0.1),
        ("risk", ("0.5",), 0.5),
        ("max_calls", ("1000", "1e3", "+1000", "1000."), 1000),
    ],
)
def test_every_command_takes_numbers_as_people_write_them(
    flag: str, words: tuple[str, ...], value: float
) -> None:
    for word in words:
        given = read_settings({"dimension": "relevance", flag: word})
        assert getattr(given, flag) == value
        if flag != "risk":
            ask = ["score", "fluency", "--data", "x", f"--{flag.replace('_', '-')}", word]
            assert getattr(judges_parser().parse_args(ask), flag) == value


def test_columns_are_mapped_by_pairs_and_by_a_file(here: Path) -> None:
    (here / "map.yaml").write_text("votes: [ann, bob]\nsummary: text\n", encoding="utf-8")
    settings = read_settings(
        {"dimension": "relevance", "map": ["map.yaml", "id=key"], "scale": (0, 100)}
    )
    assert settings.map == {"votes": ["ann", "bob"], "summary": "text", "id": "key"}
    assert settings.scale == "0:100"
    (here / "map.yaml").write_text("- a\n", encoding="utf-8")
    with pytest.raises(
        UsageError, match=r"--map map\.yaml: holds no mapping; write one `name: column` per line"
    ):
        read_settings({"dimension": "relevance", "map": ["map.yaml"]})
