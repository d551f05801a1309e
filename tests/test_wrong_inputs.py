"""What a new user does wrong first: one line, exit 1 or 2, and nothing written over."""

import codecs
import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from data.commands import main as data_command
from judges.__main__ import main as judges_command
from optimize.commands.tune import command as tune
from optimize.commands.verify import command as verify

ROWS: list[dict[str, Any]] = [
    {
        "id": f"d{d}s{s}",
        "group": f"d{d}",
        "system": f"s{s}",
        "document": f"Talk {d}; on the weather, in town.",
        "summary": "It rained, and then it cleared up. " * (1 + s),
        "relevance": 1 + (d + s) % 5,
    }
    for d in range(6)
    for s in range(3)
]


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
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AZURE_OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    Path("in.jsonl").write_text(as_jsonl())
    Path("in.csv").write_text(as_csv())
    return tmp_path


READABLE: dict[str, bytes] = {
    "a byte order mark": codecs.BOM_UTF8 + as_csv().encode(),
    "semicolons": as_csv(";").encode(),
    "tabs": as_csv("\t").encode(),
    "Windows line ends": as_csv(end="\r\n").encode(),
    "semicolons, Windows line ends and a mark": codecs.BOM_UTF8 + as_csv(";", "\r\n").encode(),
}


@pytest.mark.parametrize("name", READABLE)
def test_tables_as_spreadsheets_write_them_are_read_by_every_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("rows.csv").write_bytes(READABLE[name])
    ask = ["score", "fluency", "relevance", "--out"]
    assert judges_command([*ask, "a.jsonl", "--data", "rows.csv"]) == 0
    assert judges_command([*ask, "b.jsonl", "--data", "in.csv"]) == 0
    assert Path("a.jsonl").read_text() == Path("b.jsonl").read_text()
    assert data_command(["check", "rows.csv", "--scale", "1-5"]) == 0
    capsys.readouterr()
    assert verify(["relevance", "--data", "rows.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert verify(["relevance", "--data", "in.csv", "--json"]) == 0
    assert told["correlations"] == json.loads(capsys.readouterr().out)["correlations"]


def changed(**cells: object) -> list[dict[str, Any]]:
    return [{**row, **cells} if number == 4 else row for number, row in enumerate(ROWS)]


# What `score` and `optimize` say of a file; None where scoring has no quarrel with it.
FAULTY: dict[str, tuple[str, bytes, str | None, str]] = {
    "an empty file": ("x.csv", b"", "empty; the first line names", "holds no rows"),
    "a header alone": ("x.csv", as_csv().splitlines()[0].encode(), "no rows", "holds no rows"),
    "no lines": ("x.jsonl", b"", "no rows", "holds no rows"),
    "no Parquet": ("x.parquet", b"PAR1", "no Parquet file", "cannot be read as Parquet"),
    "UTF-16": (
        "x.csv",
        as_csv().encode("utf-16"),
        "not UTF-8 text (byte 0); save the file as UTF-8",
        "is not UTF-8; save the file as UTF-8",
    ),
    "UTF-16 in JSONL": (
        "x.jsonl",
        as_jsonl().encode("utf-16"),
        "line 1: not UTF-8 text (byte 0); save the file as UTF-8",
        "is not UTF-8; save the file as UTF-8",
    ),
    "no text at all": ("x.jsonl", bytes(range(256)), "line 1: not JSON", "is not JSON"),
    "a number too long": (
        "x.jsonl",
        as_jsonl(changed(id=0)).replace('"id": 0', '"id": ' + "9" * 5000).encode(),
        "line 5: not JSON",
        "line 5: holds a number too long to read",
    ),
    "an id twice": (
        "x.csv",
        as_csv(rows=[*ROWS, ROWS[0]]).encode(),
        None,
        "line 20, field 'id': 'd0s0' is the id of line 2 too",
    ),
    "an id without end": (
        "x.csv",
        as_csv(rows=changed(id="x" * 5000)).encode(),
        None,
        "line 6, field 'id': has 5,000 characters",
    ),
    "a rating that is NaN": (
        "x.csv",
        as_csv(rows=changed(relevance="NaN")).encode(),
        None,
        "line 6, field 'relevance': 'NaN' is not a number",
    ),
    "a rating that is NaN in JSON": (
        "x.jsonl",
        as_jsonl(changed(relevance=float("nan"))).encode(),
        None,
        "line 5, field 'relevance': nan is not a finite number",
    ),
    "a rating that is true": (
        "x.jsonl",
        as_jsonl(changed(relevance=True)).encode(),
        None,
        "True is not a number; write 1 for true and 0 for false",
    ),
    "a row too short": (
        "x.csv",
        as_csv().encode() + b"a,b\n",
        "line 20: 2 values for 6 columns",
        "line 20: has 2 cells, the header 6",
    ),
    "a quote left open": (
        "x.csv",
        as_csv().encode() + b'a,b,"c\n',
        "line 20: unexpected end of data",
        "line 20: cannot be read",
    ),
    "a format not known": ("x.xlsx", b"PK", "says no known format", "is of no format known here"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_file_is_one_line_and_leaves_nothing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, content, scoring, labels = FAULTY[name]
    Path(file).write_bytes(content)
    before = {path.name for path in Path().iterdir()}
    code = judges_command(["score", "fluency", "--data", file, "--out", "o.jsonl"])
    err = capsys.readouterr().err
    if scoring is None:
        assert code == 0
        Path("o.jsonl").unlink()
    else:
        assert (code, err.count("\n")) == (1, 1)
        assert f"judges: {file}" in err
        assert scoring in err
    for command in (tune, verify):
        judge = ["relevance"] if command is verify else ["--dimension", "relevance"]
        assert command([*judge, "--data", file]) == 1
        err = capsys.readouterr().err
        assert err.count("\n") == 1
        assert f": {file}" in err
        assert labels in err
    assert {path.name for path in Path().iterdir()} == before


def test_a_number_that_is_none_becomes_null_in_jsonl_and_a_huge_one_is_told_in_parquet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("x.jsonl").write_text(as_jsonl(changed(relevance=float("nan"))))
    assert judges_command(["score", "fluency", "--data", "x.jsonl", "--out", "o.jsonl"]) == 0
    rows = [json.loads(line) for line in Path("o.jsonl").read_text().splitlines()]
    assert [row["relevance"] for row in rows].count(None) == 1
    Path("x.jsonl").write_text(as_jsonl(changed(relevance=10**400)))
    assert judges_command(["score", "fluency", "--data", "x.jsonl", "--out", "o.parquet"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "a column changes its type" in last
    assert "write JSONL instead" in last
    assert judges_command(["score", "fluency", "--data", "in.csv", "--out", "o.pq"]) == 0
    assert pq.read_table("o.pq").num_rows == len(ROWS)


SCORE = ["score", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]
WRONG: dict[str, tuple[Callable[[list[str]], int], list[str], int, str]] = {
    "no call at all": (judges_command, [*SCORE, "--max-calls", "0"], 2, "must be 1 or more"),
    "calls below nothing": (judges_command, [*SCORE, "--max-calls", "-1"], 2, "must be 1 or more"),
    "a seed that is none": (judges_command, [*SCORE, "--seed", "x"], 2, "'x' is no whole number"),
    "a seed below nothing": (judges_command, [*SCORE, "--seed", "-1"], 2, "must be 0 or more"),
    "a cost that is none": (judges_command, [*SCORE, "--max-cost", "nan"], 2, "above 0"),
    "none in flight": (judges_command, [*SCORE, "--concurrency", "0"], 2, "must be 1 or more"),
    "half a flag": (judges_command, [*SCORE, "--conc", "3"], 2, "unrecognized arguments: --conc"),
    "a key as a flag": (
        judges_command,
        [*SCORE, "--api-key", "sk-planted-0123456789"],
        2,
        "unrecognized arguments: --api-key [key]",
    ),
    "no name": (judges_command, ["score", "", *SCORE[2:]], 2, "no judge's name is empty"),
    "an empty definition": (judges_command, ["score", "e.yaml", *SCORE[2:]], 1, "e.yaml: empty"),
    "no such model": (judges_command, [*SCORE, "--lm", "gpt"], 1, "as in openai/gpt-4.1-mini"),
    "no key": (judges_command, [*SCORE, "--lm", "openai/x"], 1, "OPENAI_API_KEY is not set"),
    "no address": (
        judges_command,
        [*SCORE, "--lm", "openai/x", "--api-base", "local"],
        1,
        "'local' is no address; write http://HOST:PORT/v1",
    ),
    "replies over the output": (
        judges_command,
        [*SCORE, "--journal", "o.jsonl"],
        2,
        "--journal is --out or --data itself",
    ),
    "replies over something else": (
        judges_command,
        [*SCORE, "--journal", "notes.txt"],
        1,
        "notes.txt is no reply journal",
    ),
    "no folder": (judges_command, [*SCORE[:-1], "no/o.jsonl"], 1, "the folder no does not exist"),
    "a folder that cannot be": (judges_command, [*SCORE[:-1], "/proc/o.jsonl"], 1, "/proc/o.jsonl"),
    "no such config": (judges_command, [*SCORE, "--config", "no.yaml"], 1, "no.yaml: No such file"),
    "something else as a journal": (judges_command, ["journal", "in.csv"], 1, "is it a journal?"),
    "an export to no folder": (
        judges_command,
        ["export", "fluency", "--to", "messages", "--out", "no/x.json"],
        1,
        "no/x.json: No such file or directory",
    ),
    "a map of one word": (data_command, ["check", "in.csv", "--map", "x"], 2, "is not NAME=COLUMN"),
    "a report to no folder": (
        verify,
        ["relevance", "--report", "no/x.html"],
        2,
        "no/x.html: the folder no does not exist",
    ),
    "a journal that is none": (
        verify,
        ["relevance", "--resume", "in.csv"],
        1,
        "in.csv is no reply journal",
    ),
    "more than perfect": (verify, ["relevance", "--min-spearman", "2"], 2, "between -1 and 1"),
    "no calls to verify": (verify, ["relevance", "--max-calls", "0"], 2, "must be 1 or more"),
    "no such scores": (
        verify,
        ["--scores", "no.jsonl", "--dimension", "relevance"],
        1,
        "no.jsonl: No such file or directory",
    ),
    "scores in UTF-16": (
        verify,
        ["--scores", "u16.jsonl", "--dimension", "relevance"],
        1,
        "u16.jsonl, line 1: not UTF-8 text; save the file as UTF-8",
    ),
    "replies in UTF-16": (
        verify,
        ["--replies", "u16.jsonl", "--dimension", "relevance"],
        1,
        "u16.jsonl, line 1: not UTF-8 text; save the file as UTF-8",
    ),
    "a map to no column": (
        tune,
        ["--dimension", "relevance", "--data", "in.csv", "--map", "relevance=relevanse"],
        1,
        "did you mean 'relevance'? name yours with --map relevance=COLUMN",
    ),
    "an unwritable folder": (
        tune,
        ["--dimension", "relevance", "--out", "/proc/no/run"],
        1,
        "/proc/no/run: cannot be written to",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_usage_is_one_line_and_writes_over_nothing(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, arguments, code, says = WRONG[name]
    Path("e.yaml").write_text("")
    Path("notes.txt").write_text("a last line without an end")
    Path("u16.jsonl").write_bytes(as_jsonl().encode("utf-16"))
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
    after = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert {file: after[file] for file in before} == before


def test_a_config_may_give_what_the_command_requires(capsys: pytest.CaptureFixture[str]) -> None:
    Path("c.yaml").write_text("data: in.jsonl\nout: o.jsonl\nmap: {summary: document}\n")
    assert judges_command(["score", "fluency", "--config", "c.yaml"]) == 0
    assert judges_command(["score", "fluency", "--config=c.yaml", "--out", "p.jsonl"]) == 0
    assert Path("o.jsonl").read_text() == Path("p.jsonl").read_text()


def test_what_score_writes_can_be_verified_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    ask = ["score", "relevance", "fluency", "--data", "in.jsonl", "--out", "o.jsonl"]
    assert judges_command(ask) == 0
    capsys.readouterr()
    recorded = ["--scores", "o.jsonl", "--data", "in.jsonl", "--dimension", "relevance", "--json"]
    assert verify(recorded) == 0
    told = json.loads(capsys.readouterr().out)
    assert verify(["relevance", "--data", "in.jsonl", "--json"]) == 0
    assert told["correlations"] == json.loads(capsys.readouterr().out)["correlations"]
