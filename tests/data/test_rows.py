"""Rows out and in: written one at a time, whole or not at all; damaged files are one line."""

import csv
import json
import multiprocessing
import os
import resource
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openpyxl import Workbook

from dspy_judges.files import claim_file
from judges.tables.atomic_write import in_use, write_atomically
from judges.tables.formats import RowWriter, partial_path, read_records, read_table, read_table_rows
from judges.tables.problems import Problems, RowsError
from judges.tables.text import Row, read_json_file

ROWS: list[Row] = [
    {"id": 1, "text": 'a, "b"\nc\té', "score": 1.5, "why": None},
    {"id": 2, "text": "", "score": None, "why": "no text"},
]
FORMATS = ("jsonl", "csv", "parquet")


def write(path: Path, rows: list[Row], *, cut: bool = False) -> Path:
    columns = list(rows[0]) if rows else []
    with RowWriter(path, columns=columns) as writer:
        for row in rows:
            writer.write(row)
        if cut:
            raise KeyboardInterrupt
    return path


def read_rows(path: Path) -> Iterator[Row]:
    return (row.cells for row in read_table_rows(path))


def fault(path: Path) -> str:
    """The one problem of a file, which is one short line."""
    problems = Problems(str(path))
    read_table(path, problems)
    (problem,) = problems
    assert str(problem).isprintable()
    assert len(str(problem)) < 300 + len(str(path))
    return str(problem).removeprefix(str(path))


@pytest.mark.parametrize("form", FORMATS)
def test_rows_come_back_as_written(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"t.{form}", ROWS)
    # In CSV everything is text, and nothing is empty text.
    as_texts = [{name: "" if v is None else str(v) for name, v in row.items()} for row in ROWS]
    assert list(read_rows(path)) == (as_texts if form == "csv" else ROWS)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


# A row of empty cells is none, and a title is short.
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30).filter(lambda t: t.strip())


@given(rows=st.lists(st.fixed_dictionaries({"a": TEXT, "b": TEXT}), min_size=1, max_size=5))
@pytest.mark.parametrize("form", FORMATS)
def test_any_text_comes_back(
    form: str, rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("any") / f"t.{form}", rows)
    assert list(read_rows(path)) == rows


def test_no_cell_of_csv_is_a_formula_and_its_text_comes_back(tmp_path: Path) -> None:
    formula = '=HYPERLINK("http://evil")'
    texts = ["+cmd", "@SUM(1)", " -x", "'=1", formula, "-1.5", "- so", "'tis fine"]
    rows: list[Row] = [{formula: text, "n": -1.5, "m": "-2"} for text in texts]
    path = write(tmp_path / "t.csv", rows)
    with path.open(newline="") as file:
        head, *cells = csv.reader(file)
    assert head == [f"'{formula}", "n", "m"]
    written = ["'+cmd", "'@SUM(1)", "' -x", "''=1", f"'{formula}", "-1.5", "'- so", "'tis fine"]
    assert [row[0] for row in cells] == written
    assert cells[0][1:] == ["-1.5", "-2"], "numbers stay numbers"
    assert [row[formula] for row in read_rows(path)] == texts


def test_what_json_has_not_is_written_as_text_or_null(tmp_path: Path) -> None:
    row: Row = {"half": "x\ud800y", "nan": float("nan"), "when": pd.Timestamp(2024, 5, 4)}
    path = write(tmp_path / "t.jsonl", [row])
    read = {"half": "x\ud800y", "nan": None, "when": "2024-05-04T00:00:00"}
    assert list(read_rows(path)) == [read]
    path = write(tmp_path / "t.csv", [{"a": {"b": [1]}, "n": float("nan"), "c": "x"}])
    assert list(read_rows(path)) == [{"a": json.dumps({"b": [1]}), "n": "", "c": "x"}]


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_cut_short_leaves_its_rows_aside_and_the_name_free(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    with pytest.raises(KeyboardInterrupt):
        write(path, [], cut=True)
    assert not list(tmp_path.iterdir()), "without a row nothing is left"
    with pytest.raises(KeyboardInterrupt):
        write(path, [{"a": "x"}], cut=True)
    assert [file.name for file in tmp_path.iterdir()] == [partial_path(path).name]


def plant(path: Path, kind: str) -> Path:
    """Put what a stranger may leave under a name; returns the file that no run may touch."""
    victim = path.with_name("victim")
    if kind == "link":
        victim.write_text("kept")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(victim)
    return victim


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_rows_go_through_no_link_and_wait_for_no_pipe(kind: str, form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    victim = plant(partial_path(path), kind)
    write(path, ROWS)
    assert not path.is_symlink()
    assert len(list(read_rows(path))) == len(ROWS)
    assert (victim.read_text() if victim.exists() else "") == ("kept" if kind == "link" else "")


@pytest.mark.parametrize("kind", ["link", "dangling link", "pipe"])
def test_no_file_is_claimed_through_a_link_and_none_is_emptied(kind: str, tmp_path: Path) -> None:
    victim = plant(tmp_path / ".o.lock", kind)
    with pytest.raises(OSError, match=r"delete it: '.*\.o\.lock'"), in_use(tmp_path / "o"):
        pass
    assert (victim.read_text() if victim.exists() else "") == ("kept" if kind == "link" else "")
    assert claim_file(tmp_path / ".o.lock", replace=True).read_bytes() == b""
    own = tmp_path / "own"
    own.write_text("kept")
    assert claim_file(own).read_text() == "kept"


def test_a_file_lands_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    write_atomically(path, b"old")
    with pytest.raises(FileExistsError, match="taken exists already"):
        write_atomically(path, b"new")
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (b"old", [path])
    write_atomically(path, b"new", overwrite=True)
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (b"new", [path])
    with pytest.raises(OSError, match="none/x'"):
        write_atomically(tmp_path / "none" / "x", b"new")


JSON_ROWS = [{"a": "1"}, {"a": "two\nlines"}]


@pytest.mark.parametrize(
    "raw",
    [
        b'[{"a": "1"}, {"a": "two\\nlines"}]',
        b'\n[\n {"a": "1"},\n {"a": "two\\nlines"}\n]\n',
        b'{"a": "1"}\n\n{"a": "two\\nlines"}\r\n',
        '\ufeff[{"a": "1"}, {"a": "two\\nlines"}]'.encode(),
        '[{"a": "1"}, {"a": "two\\nlines"}]'.encode("utf-16"),
    ],
)
def test_json_is_an_array_or_an_object_a_line(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(raw)
    assert list(read_rows(tmp_path / "t.json")) == JSON_ROWS


OBJECTS = json.dumps({"document": {"0": "T"}, "mark": {"0": 3}}).encode()


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("t.jsonl", b'{"a": 1}\n\n{"a": \n', ", line 3: '' is not JSON: Expecting value"),
        ("t.jsonl", b"[1]\n", ", line 1: [1] is not a JSON object; write one"),
        ("t.jsonl", b'{"a": "\xff"}\n', """, line 1: '{"a": "ÿ"}\\n' is not UTF-8; save the"""),
        ("t.jsonl", b"[" * 100_000, ", line 1: is nested too deeply"),
        ("t.jsonl", b'{"b": 1, "b": 2}', ", line 1: has the same key twice in one object"),
        ("t.jsonl", b'{"x": ' + b"1" * 5000 + b"}", ", line 1: holds a number too long to read"),
        (
            "t.json",
            b'[{"a": 1}]\n\n{"a": 2}\n',
            ", line 3: '{\"a\": 2}\\n' is not JSON: Extra data",
        ),
        ("t.json", b'[{"a": 1}, {"a": ]', ", line 1: ']' is not JSON"),
        (
            "t.json",
            OBJECTS,
            ": is not an array of objects; write one object per line, or an array, as Da",
        ),
        ("t.csv", b"", ": holds no rows; give a file"),
        ("t.csv", b"a,b\n", ": holds no rows; give a file"),
        ("t.csv", b"a,b\n1,2\n1\n", ", row 3: has 1 cell, but the header has 2; leave the row"),
        (
            "t.csv",
            b"a,b\n1,2\n1,2,3\n",
            ", row 3: has 3 cells, but the header has 2; leave the row",
        ),
        ("t.csv", b"a,a\n1,2\n", ", row 1: 'a' names two columns; give every column"),
        ("t.csv", b'a,b\n"1,2\n', ", row 2: cannot be read: unexpected end of data; quote"),
        ("t.csv", b"PK\x03\x04\0\xff", ", line 1: 'PK\\x03\\x04\\x00ÿ' is not UTF-8; save"),
        ("t.csv.gz", b"\x1f\x8b\x08", ": has an unknown format; save it as .xlsx or as CSV"),
        ("t.xlsx", b"x", ": cannot be read as .xlsx (BadZipFile: 'File is not a zip file'); save"),
        ("t.parquet", b"PAR1 no", ": cannot be read as Parquet"),
        ("t.ods", b"", ": has an unknown format; save it as .xlsx or as CSV"),
        ("t", b"", ": has an unknown format"),
    ],
)
def test_a_bad_table_is_one_clear_line(name: str, raw: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(raw)
    assert fault(tmp_path / name).startswith(why)
    with pytest.raises(RowsError) as caught:
        list(read_rows(tmp_path / name))
    assert str(caught.value).startswith(f"{tmp_path / name}{why}")


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv"])
def test_a_line_without_end_is_refused_with_the_way_out(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspy_judges.bounds.MAX_BYTES", 2**20)
    path = tmp_path / f"x.{form}"
    path.write_bytes(b"id,text\n" + b"a" * 3_000_000)
    assert ", line 2: the line is longer than 1 MiB; end every row" in fault(path)


@pytest.mark.parametrize("form", [*FORMATS, "xlsx"])
def test_what_may_never_end_is_not_read(form: str, tmp_path: Path) -> None:
    pipe, device = tmp_path / f"pipe.{form}", tmp_path / f"zero.{form}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        assert fault(path) == ": is not a regular file; give a file"
        with pytest.raises(RowsError, match="not a regular file"):
            list(read_records(path))
        with pytest.raises(OSError, match="not a regular file"):
            read_json_file(path)


def small_workbook(path: Path) -> Path:
    book = Workbook()
    for row in (["id", "document", "mark"], ["a", "T", 4], ["b", None, 2]):
        book.active.append(row)
    book.active.merge_cells("B2:B3")
    book.save(path)
    return path


def with_sheet(path: Path, edit: Callable[[bytes], bytes]) -> Path:
    """The workbook with the XML of its first sheet edited."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/worksheets/sheet1.xml"] = edit(parts["xl/worksheets/sheet1.xml"])
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, raw in parts.items():
            archive.writestr(name, raw)
    assert path.stat().st_size < 2_000_000
    return path


EVERYWHERE = b"A1:XFD1048576"
LAST_ROW = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
FAR_ROW = LAST_ROW.replace(b"XFD", b"A")
AREA = b'<mergeCell ref="%s"/>' % EVERYWHERE
BOMBS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "one merged area": (lambda xml: xml.replace(b"B2:B3", EVERYWHERE), ""),
    "a cell in the last place": (
        lambda xml: xml.replace(b"</sheetData>", LAST_ROW),
        "has more than 1,000 columns or 1,048,576 cells",
    ),
    "many merged areas": (
        lambda xml: xml.replace(b"</sheetData>", FAR_ROW).replace(
            b"</mergeCells>", AREA * 10_000 + b"</mergeCells>"
        ),
        "merges more than 1,048,576 cells; leave out",
    ),
    "blanks": (
        lambda xml: xml.replace(b"</sheetData>", b" " * 2**27 + b"</sheetData>"),
        "unpacks to 128 MiB, more than 128; leave out",
    ),
}


def peak_of_reading(path: str) -> tuple[list[str], int]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problems = Problems(path)
    read_table(path, problems)
    return [*map(str, problems)], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


@pytest.fixture(scope="module")
def child() -> Iterator[ProcessPoolExecutor]:
    """A process of its own, whose memory is measured, and which a file may end."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("name", BOMBS)
def test_a_workbook_that_claims_to_be_huge_is_read_or_refused_in_little_memory(
    name: str, tmp_path: Path, child: ProcessPoolExecutor
) -> None:
    edit, refusal = BOMBS[name]
    path = with_sheet(small_workbook(tmp_path / "x.xlsx"), edit)
    problems, growth = child.submit(peak_of_reading, str(path)).result()
    assert [refusal in problem for problem in problems] == ([True] if refusal else [])
    assert growth < 200_000


@pytest.mark.parametrize("kind", ["texts", "rows"])
def test_a_small_parquet_file_does_not_fill_the_memory(
    kind: str, tmp_path: Path, child: ProcessPoolExecutor
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "x.parquet"
    if kind == "rows":
        pq.write_table(pa.table({"x": pa.nulls(2_000_000)}), path)
    else:
        texts = pa.DictionaryArray.from_arrays(pa.array([0] * 100), ["a" * 30_000_000])
        pq.write_table(pa.table({"x": texts}), path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 50_000
    problems, growth = child.submit(peak_of_reading, str(path)).result()
    assert "takes more than 128 MiB of memory; leave out" in problems[0]
    # 3 GB if it were unpacked.
    assert growth < 500_000
