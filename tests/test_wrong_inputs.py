"""Files as people have them: read where they can be, else one line, and nothing is left behind."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from jsonl import read_jsonl
from rating_files import weather_rows

from judges.__main__ import main as judges_command
from optimize.__main__ import command as tune
from optimize.verify import command as verify

ROWS = weather_rows(6, 3)


def as_csv(delimiter: str = ",", end: str = "\n", rows: list[dict[str, Any]] = ROWS) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def as_jsonl(rows: list[dict[str, Any]] = ROWS) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("in.jsonl").write_text(as_jsonl())
    Path("in.csv").write_text(as_csv())
    return tmp_path


def changed(**cells: object) -> list[dict[str, Any]]:
    return [{**row, **cells} if number == 4 else row for number, row in enumerate(ROWS)]


# What every command says of a file; the labels' faults alone leave scoring it undisturbed.
FAULTY: dict[str, tuple[str, bytes, str]] = {
    "an empty file": ("x.csv", b"", "holds no rows"),
    "UTF-16 cut short": (
        "x.csv",
        as_csv().encode("utf-16") + b"\n",
        "cannot be read as utf-16-le (truncated data); save the file as UTF-8",
    ),
    "a quote left open": ("x.csv", as_csv().encode() + b'a,b,"c\n', "row 20: cannot be read"),
    "a format not known": ("x.ods", b"PK", "has an unknown format"),
}
FAULTY_LABELS: dict[str, tuple[str, bytes, str]] = {
    "an id twice": (
        "x.csv",
        as_csv(rows=[*ROWS, ROWS[0]]).encode(),
        "row 20, field 'id': 'd0s0' is the id of row 2 too",
    ),
}


@pytest.mark.parametrize("name", [*FAULTY, *FAULTY_LABELS])
def test_a_faulty_file_is_one_line_and_leaves_nothing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content, message = (FAULTY | FAULTY_LABELS)[name]
    Path(file).write_bytes(content)
    before = {path.name for path in Path().iterdir()}
    code = judges_command(["score", "fluency", "--data", file, "--out", "o.jsonl"])
    err = capsys.readouterr().err
    if name in FAULTY_LABELS:
        assert code == 0
        Path("o.jsonl").unlink()
    else:
        assert (code, err.count("\n")) == (1, 1)
        assert f": {file}" in err
        assert message in err
    for command in (tune, verify):
        judge = ["relevance"] if command is verify else ["--dimension", "relevance"]
        assert command([*judge, "--data", file]) == 1
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f": {file}" in err
        assert message in err
    assert {path.name for path in Path().iterdir()} == before


def test_a_number_that_is_none_becomes_null_in_jsonl_and_a_huge_one_is_told_in_parquet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("x.jsonl").write_text(as_jsonl(changed(relevance=float("nan"))))
    assert judges_command(["score", "fluency", "--data", "x.jsonl", "--out", "o.jsonl"]) == 0
    rows = read_jsonl("o.jsonl")
    assert [row["relevance"] for row in rows].count(None) == 1
    Path("x.jsonl").write_text(as_jsonl(changed(relevance=10**400)))
    assert judges_command(["score", "fluency", "--data", "x.jsonl", "--out", "o.parquet"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "the column 'relevance' holds values of several types" in last
    assert "write .csv or .jsonl" in last
    assert judges_command(["score", "fluency", "--data", "in.csv", "--out", "o.pq"]) == 0
    assert pq.read_table("o.pq").num_rows == len(ROWS)


DEEP = '{"id": ' + "[" * 100_000
HUGE = '{"id": "1", "dimension": "relevance", "score": ' + "9" * 400 + "}\n"


@pytest.mark.parametrize(
    ("content", "flag"),
    [
        ('{"document": "d", "summary": "s", "summary": "t"}\n', ""),
        (DEEP, ""),
        (DEEP, "--scores"),
        (DEEP, "--replies"),
        (HUGE, "--scores"),
    ],
    ids=["doubled", "deep row", "deep scores", "deep replies", "huge score"],
)
def test_json_that_no_reader_takes_is_one_line(
    content: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("a.jsonl").write_text(content)
    if flag:
        ended = verify([flag, "a.jsonl", "--data", "in.jsonl", "--dimension", "relevance"])
    else:
        ended = judges_command(["score", "relevance", "--data", "a.jsonl", "--out", "o.jsonl"])
    assert ended in (1, 2)
    assert "a.jsonl, line 1" in capsys.readouterr().err.splitlines()[-1]
