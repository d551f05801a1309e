"""Rows out and in: written one at a time, whole or not at all; damaged files are one line."""

import csv
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from files import file_of
from hypothesis import given
from hypothesis import strategies as st

from dspy_judges.files import claim_file
from judges.tables.atomic_write import exclusive_lock, write_atomically
from judges.tables.formats import RowWriter, partial_path, read_table, read_table_rows
from judges.tables.problems import Problems, RowsError
from judges.tables.text import Record, read_json_file

ROWS: list[Record] = [
    {"id": 1, "text": 'a, "b"\nc\té', "score": 1.5, "why": None},
    {"id": 2, "text": "", "score": None, "why": "no text"},
]
FORMATS = ("jsonl", "csv", "parquet")
in_every_format = pytest.mark.parametrize("form", FORMATS)


def write(path: Path, rows: list[Record], *, cut: bool = False) -> Path:
    with RowWriter(path, columns=list(rows[0]) if rows else []) as writer:
        for row in rows:
            writer.write(row)
        if cut:
            raise KeyboardInterrupt
    return path


def read_rows(path: Path) -> Iterator[Record]:
    return (row.cells for row in read_table_rows(path))


def fault(path: Path) -> str:
    """The one problem of a file, which is one short line."""
    problems = Problems(str(path))
    read_table(path, problems)
    (problem,) = problems
    assert str(problem).isprintable()
    assert len(str(problem)) < 300
    return str(problem).removeprefix(str(path))


@in_every_format
def test_rows_come_back_as_written(form):
    path = write(Path(f"t.{form}"), ROWS)
    # In CSV everything is text, and an empty cell is a missing one, as in every other format.
    as_texts = [{name: str(v) if v else None for name, v in row.items()} for row in ROWS]
    assert list(read_rows(path)) == (as_texts if form == "csv" else ROWS)
    assert [*Path().iterdir()] == [path]


# A row of empty cells is none, and a title is short.
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda t: t.strip())


@in_every_format
@given(rows=st.lists(st.fixed_dictionaries({"a": TEXT, "b": TEXT}), min_size=1, max_size=5))
def test_any_text_comes_back(form, rows):
    path = write(Path(f"t.{form}"), rows)
    assert list(read_rows(path)) == rows
    path.unlink()


def test_no_cell_of_csv_is_a_formula():
    formula = '=HYPERLINK("http://evil")'
    texts = ["+cmd", "@SUM(1)", " -x", "'=1", formula, "-1.5", "- so", "'tis fine"]
    path = write(Path("t.csv"), [{formula: text, "n": -1.5, "m": "-2"} for text in texts])
    with path.open(newline="") as file:
        head, *cells = csv.reader(file)
    assert head == [f"'{formula}", "n", "m"]
    contents = ["'+cmd", "'@SUM(1)", "' -x", "''=1", f"'{formula}", "-1.5", "'- so", "'tis fine"]
    assert [row[0] for row in cells] == contents
    assert cells[0][1:] == ["-1.5", "-2"], "numbers stay numbers"
    assert [row[formula] for row in read_rows(path)] == texts


def test_what_json_has_not_is_written_as_text_or_null():
    row: Record = {"half": "x\ud800y", "nan": float("nan"), "when": pd.Timestamp(2024, 5, 4)}
    read = {"half": "x\ud800y", "nan": None, "when": "2024-05-04T00:00:00"}
    assert list(read_rows(write(Path("t.jsonl"), [row]))) == [read]
    path = write(Path("t.csv"), [{"a": {"b": [1]}, "n": float("nan"), "c": "x"}])
    assert list(read_rows(path)) == [{"a": json.dumps({"b": [1]}), "n": None, "c": "x"}]


@in_every_format
def test_a_run_cut_short_leaves_its_rows_aside(form):
    path = Path(f"t.{form}")
    for rows, left in (([], []), ([{"a": "x"}], [partial_path(path).name])):
        with pytest.raises(KeyboardInterrupt):
            write(path, rows, cut=True)
        assert [file.name for file in Path().iterdir()] == left


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_no_file_is_claimed_through_a_link_and_none_is_emptied(kind, tmp_path):
    # What a stranger may leave under the name of a file that a run makes for itself.
    victim, lock = tmp_path / "victim", tmp_path / ".o.lock"
    if kind == "link":
        victim.write_text("kept")
    if kind == "pipe":
        os.mkfifo(lock)
    else:
        lock.symlink_to(victim)
    with pytest.raises(OSError, match=r"delete it: '.*\.o\.lock'"), exclusive_lock(tmp_path / "o"):
        pass
    assert [*map(Path.read_text, tmp_path.glob("victim"))] == ["kept"] * (kind == "link")
    assert claim_file(lock, replace=True).read_bytes() == b""
    own = tmp_path / "own"
    own.write_text("kept")
    assert claim_file(own).read_text() == "kept"


def test_a_file_lands_whole_or_not_at_all():
    path = Path("taken")
    write_atomically(path, b"old")
    with pytest.raises(FileExistsError, match="taken exists already"):
        write_atomically(path, b"new")
    assert (path.read_bytes(), [*Path().iterdir()]) == (b"old", [path])
    write_atomically(path, b"new", overwrite=True)
    assert (path.read_bytes(), [*Path().iterdir()]) == (b"new", [path])
    with pytest.raises(OSError, match="none/x'"):
        write_atomically(Path("none", "x"), b"new")


@pytest.mark.parametrize(
    "raw",
    [
        b'\n[\n {"a": "1"},\n {"a": "two\\nlines"}\n]\n',
        b'{"a": "1"}\n\n{"a": "two\\nlines"}\r\n',
        '\ufeff[{"a": "1"}, {"a": "two\\nlines"}]'.encode(),
        '[{"a": "1"}, {"a": "two\\nlines"}]'.encode("utf-16"),
    ],
)
def test_json_is_an_array_or_an_object_a_line(raw):
    assert list(read_rows(file_of(raw, "t.json"))) == [{"a": "1"}, {"a": "two\nlines"}]


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("t.jsonl", b'{"a": 1}\n\n{"a": \n', ", line 3: '' is not JSON: Expecting value"),
        ("t.jsonl", b"[1]\n", ", line 1: [1] is not a JSON object; write one"),
        ("t.jsonl", b'{"a": "\xff"}\n', """, line 1: '{"a": "ÿ"}\\n' is not UTF-8; save the"""),
        ("t.jsonl", b"[" * 100_000, ", line 1: is nested too deeply"),
        ("t.jsonl", b'{"b": 1, "b": 2}', ", line 1: has the same key twice in one object"),
        ("t.jsonl", b'{"x": ' + b"1" * 5000 + b"}", ", line 1: holds a number too long to read"),
        ("t.json", b'[{"a": 1}]\n\n{"a": 2}\n', ", line 3: '{\"a\": 2}\\n' is not JSON: Extra"),
        ("t.json", b'[{"a": 1}, {"a": ]', ", line 1: ']' is not JSON"),
        ("t.json", b'{"document": {"0": "T"}, "mark": {"0": 3}}', ": is not an array of objects"),
        ("t.csv", b"", ": holds no rows; give a file"),
        ("t.csv", b"a,b\n", ": holds no rows; give a file"),
        ("t.csv", b"a,b\n1,2\n1\n", ", row 3: has 1 cell, but the header has 2; leave the row"),
        ("t.csv", b"a,b\n1,2\n1,2,3\n", ", row 3: has 3 cells, but the header has 2; leave the"),
        ("t.csv", b"a,a\n1,2\n", ", row 1: 'a' names two columns; give every column"),
        ("t.csv", b'a,b\n"1,2\n', ", row 2: cannot be read: unexpected end of data; quote"),
        ("t.csv", b"PK\x03\x04\0\xff", ", line 1: 'PK\\x03\\x04\\x00ÿ' is not UTF-8; save"),
        ("t.csv.gz", b"\x1f\x8b\x08", ": has an unknown format; save it as .xlsx or as CSV"),
        ("t.xlsx", b"x", ": cannot be read as .xlsx (BadZipFile: 'File is not a zip file'); save"),
        ("t.parquet", b"PAR1 no", ": cannot be read as Parquet"),
        ("t", b"", ": has an unknown format"),
    ],
)
def test_a_bad_table_is_one_clear_line(name, raw, why):
    path = file_of(raw, name)
    assert fault(path).startswith(why)
    with pytest.raises(RowsError) as error:
        list(read_rows(path))
    assert str(error.value).startswith(f"{path}{why}")


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv"])
def test_a_line_without_end_is_refused(form, monkeypatch):
    monkeypatch.setattr("dspy_judges.bounds.MAX_BYTES", 2**20)
    path = file_of(b"id,text\n" + b"a" * 3_000_000, f"x.{form}")
    assert ", line 2: the line is longer than 1 MiB; end every row" in fault(path)


@pytest.mark.parametrize("form", [*FORMATS, "xlsx"])
def test_what_may_never_end_is_not_read(form):
    path = Path(f"pipe.{form}")
    os.mkfifo(path)
    assert fault(path) == ": is not a regular file; give a file"
    with pytest.raises(OSError, match="not a regular file"):
        read_json_file(path)
