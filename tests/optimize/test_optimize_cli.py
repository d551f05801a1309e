"""python -m optimize from the outside: flags, folders, one clear line for whatever fails."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonl import write_jsonl
from processes import run_python

from optimize.cli.tune import command
from optimize.run.settings import Settings, SettingsError, resolve

DIMENSION = """
name: liveliness
definition: how lively the reply is
inputs: {context: the talk so far, response: the reply}
scale: [1, 3]
"""


def rows(documents: int, systems: int = 4, **changes: object) -> list[dict[str, Any]]:
    return [
        {
            "id": f"d{document}s{system}",
            "group": f"d{document}",
            "system": f"s{system}",
            "context": f"Talk number {document} about the weather in town {document}.",
            "response": f"Reply {system}. " + "It rained and then it cleared up. " * system,
            "ratings": {"liveliness": 1 + (system + document) % 3},
            **changes,
        }
        for document in range(documents)
        for system in range(systems)
    ]


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
    "constant ratings": (rows(12, ratings={"liveliness": 2}), "every rating"),
    "a rating outside the scale": (broken(lambda r: r[5]["ratings"].update(liveliness=9)), "9"),
    "a rating that is no number": (broken(lambda r: r[5]["ratings"].update(liveliness="x")), "x"),
    "a duplicate id": (broken(lambda r: r[3].update(id="d0s0")), "d0s0"),
    "empty texts": (broken(lambda r: [row.update(response=" ") for row in r]), "response"),
    "a missing text": (broken(lambda r: [row.pop("response") for row in r]), "response"),
    "no such rating": (rows(12, ratings={"charm": 2}), "liveliness"),
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
        (["--dimension", "relevanse"], 2, "relevance"),
        (["--dimension", "missing.yaml"], 1, "missing.yaml"),
        ([*OWN, "--max-calls", "0"], 2, "--max-calls 0"),
        ([*OWN, "--optimizer", "magic"], 2, "rank, gepa, miprov2, bootstrap"),
        ([*OWN, "--level", "word"], 2, "--level 'word'"),
        ([*OWN, "--map", "oops"], 2, "NAME=COLUMN"),
        ([*OWN, "--weighted", "--samples", "4"], 2, "--weighted"),
        ([*OWN, "--api-base", "http://me:secret@host/v1"], 2, "OPENAI_API_KEY"),
        ([*OWN, "--config", "none.yaml"], 2, "none.yaml"),
        ([*OWN, "--resume"], 1, "no run to resume"),
        (["--resume"], 2, "--out"),
        (["--pairwise", "own.yaml", "--data", "labels.jsonl"], 2, "--dimension"),
        (["--dimension", "own.yaml", "--data", "nowhere.jsonl"], 1, "nowhere.jsonl"),
        ([*OWN, "--out", "own.yaml"], 1, "is a file"),
        ([*OWN, "--out", "/proc/none/run"], 1, "cannot be written"),
        ([*OWN, "--max-calls", "3"], 2, "--max-calls 3"),
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


def test_flags_beat_the_file_which_beats_the_defaults(here: Path) -> None:
    (here / "c.yaml").write_text("seed: 7\nmax-calls: 900\nlm: openai/a\n", encoding="utf-8")
    told = resolve({"dimension": "relevance", "seed": 3, "config": "c.yaml"})
    assert (told.seed, told.max_calls, told.lm, told.level) == (3, 900, "openai/a", "auto")


def test_a_file_with_an_unknown_setting_is_refused(here: Path) -> None:
    (here / "c.yaml").write_text("sead: 7\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="sead"):
        resolve({"dimension": "relevance", "config": "c.yaml"})


def test_a_resumed_run_keeps_what_it_was_told() -> None:
    saved = Settings(dimension="relevance", seed=4, max_calls=500).to_json()
    assert resolve({"resume": True, "out": "r"}, saved).seed == 4
    with pytest.raises(SettingsError, match="--seed 5"):
        resolve({"resume": True, "seed": 5}, saved)


def test_a_users_own_data_folder_is_no_trouble(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "labels.jsonl").write_text("{}\n", encoding="utf-8")
    done = run_python("-m", "optimize", "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_what_is_left_out_of_a_file_is_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_jsonl(
        here / "labels.jsonl", broken(lambda made: [row["ratings"].clear() for row in made[:8]])
    )
    assert command([*OWN, "--max-calls", "300"]) == 0
    assert "note: no rating on liveliness: 8 of 48 outputs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("max-calls: many", "--max-calls 'many': expected a whole number"),
        ("max-calls: 1.5", "--max-calls 1.5: expected a whole number"),
        ("max-cost: free", "--max-cost 'free': expected a number"),
        ("max-cost: .nan", "--max-cost nan: expected a number"),
        ("seed: true", "--seed True: expected a whole number"),
        ("seed: -1", "--seed -1: must be 0 or more"),
        ("weighted: maybe", "--weighted 'maybe': expected true or false"),
        ("temperature: 11", "--temperature 11: must be within 0 and 10"),
        ("lm: ''", "--lm '': expected a name"),
        ("lm: [a, b]", "--lm ['a', 'b']: expected a name"),
        ("map: liveliness", "--map liveliness: expected NAME=COLUMN"),
        ("map: {liveliness: 3}", "expected our names and their columns"),
        ("map: [liveliness]", "--map liveliness: expected NAME=COLUMN"),
        ("scale: 7", "--scale 7: expected a name"),
        ("colour: red", "c.yaml: unknown setting 'colour'"),
        ("- a", "c.yaml: expected settings"),
        ("a: [", "c.yaml: cannot be read"),
    ],
)
def test_a_value_of_the_wrong_kind_is_one_line_that_names_it(
    here: Path, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    (here / "c.yaml").write_text(line, encoding="utf-8")
    assert command([*OWN, "--config", "c.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert says in err
    assert "None" not in err


def test_a_file_may_map_columns_either_way_and_give_a_scale(here: Path) -> None:
    for line in ("map: {a: b}", "map: [a=b]"):
        (here / "c.yaml").write_text(f"{line}\nscale: [0, 100]\n", encoding="utf-8")
        told = resolve({"dimension": "relevance", "config": "c.yaml"})
        assert (told.map, told.scale) == ({"a": "b"}, "0:100")
