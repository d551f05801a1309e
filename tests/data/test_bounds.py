"""Small files that would take the machine are read or refused in one line that names the bound."""

import json
import multiprocessing
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import edit, file_of, refusal, workbook

from judges.tables.formats import read_table, read_table_rows
from judges.tables.problems import Problems, RowsError

ROW = {"id": "1", "document": "A text.", "summary": "Short."}
SIZE_ADVICE = "leave out columns that no judge reads, or split the file"


def lines(*rows: object) -> Path:
    return file_of("".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")


def in_workbook(old: bytes, new: bytes, part: str = "worksheets/sheet1.xml") -> Path:
    """A workbook in one part of which `new` stands before `old`."""
    book = workbook(["id", "document", "mark"], ["a", "T", 4], ["b", None, 2], merge="B2:B3")
    return edit(book, old, new + old, part)


def one_text(n_rows: int, length: int) -> Path:
    """A Parquet file that holds a text once, and says that it stands in all rows."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * n_rows), ["a" * length])
    pq.write_table(pa.table({"x": texts}), "x.parquet", compression="zstd", store_schema=False)
    return Path("x.parquet")


MANY_NAMES = [f"c{i}" for i in range(1001)]
MANY_BRACKETS = b"[]," * 1_600_000 + b"[]]"
DEEP_JSON = '{"a": 1}\n{"a": ' + "[" * 101 + "]" * 101 + "}\n"
MANY_STYLES = b'<xf numFmtId="0" fontId="0"/>' * 100_000
END, LAST = b"</sheetData>", b'<row r="1048576"><c r="%s1048576"><v>1</v></c></row>'
COLUMNS_FAULT = f"has more than 1,000 columns; {SIZE_ADVICE}"
# Each is packed into, or written as, a few kilobytes to a few megabytes.
TOO_LARGE: dict[str, tuple[Callable[[], Path], str]] = {
    "brackets": (
        lambda: file_of(b"[" + MANY_BRACKETS, "x.json"),
        "128 MiB or 3,000,000 commas and",
    ),
    "a line": (
        lambda: file_of(b'{"a": [' + MANY_BRACKETS + b"}", "x.jsonl"),
        "or 3,000,000 commas and",
    ),
    "depth": (lambda: file_of(DEEP_JSON, "x.jsonl"), ", line 2: is nested too deeply"),
    "columns of CSV": (lambda: file_of(f"{','.join(MANY_NAMES)}\n" * 2), COLUMNS_FAULT),
    "columns of all rows": (
        lambda: lines(*({n: 1} for n in MANY_NAMES)),
        f", line 1001: {COLUMNS_FAULT}",
    ),
    "a wide row": (
        lambda: in_workbook(END, b'<row r="9"><c r="XFD9"><v>1</v></c></row>'),
        ", row 9: has more than 1,000 columns or 1,048,576 cells; leave out",
    ),
    "formats": (
        lambda: in_workbook(b"</cellXfs>", MANY_STYLES, "styles.xml"),
        "XML tags in xl/styles.xml, more than 100,000; leave out",
    ),
}
# Of these, rows that are not kept are any number.
TOO_MUCH_MEMORY: dict[str, tuple[Callable[[], Path], str]] = {
    "last cell": (
        lambda: in_workbook(END, LAST % b"XFD"),
        ", row 1048576: has more than 1,000 columns or 1,048,576 cells; leave out",
    ),
    "blanks": (
        lambda: in_workbook(END, b" " * 2**27),
        "unpacks to 128 MiB, more than 128; leave out",
    ),
    "one row": (lambda: one_text(1, 135_000_000), "has a row of more than 128 MiB; leave out"),
    # 3 GB if it were unpacked.
    "one text": (lambda: one_text(100, 30_000_000), "takes more than 128 MiB of memory; leave out"),
}


def reading(path: Path) -> tuple[list[str], int]:
    """The problems of a file, in order, and the kilobytes that reading it takes."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    problems = Problems(str(path))
    read_table(path, problems)
    return [*map(str, problems)], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


@pytest.fixture(scope="module")
def child() -> Iterator[ProcessPoolExecutor]:
    """A process of its own, whose memory is measured, and which a file may end."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("name", [*TOO_LARGE, *TOO_MUCH_MEMORY])
def test_what_is_too_big_is_refused_in_little_memory(name, child):
    content, fault = (TOO_LARGE | TOO_MUCH_MEMORY)[name]
    path = content().resolve()
    assert path.stat().st_size < 8_000_000
    problems, growth = child.submit(reading, path).result()
    assert fault in problems[0]
    assert growth < (500_000 if path.suffix == ".parquet" else 200_000)
    if name in TOO_LARGE:
        with pytest.raises(RowsError, match=fault.split(";")[0].removeprefix(", ")):
            [*read_table_rows(path)]


def test_an_area_over_all_cells_is_read_in_little_memory(child):
    path = edit(in_workbook(b"", b""), b"B2:B3", b"A1:XFD1048576").resolve()
    problems, growth = child.submit(reading, path).result()
    assert problems == []
    assert growth < 200_000


@pytest.mark.parametrize(
    ("bound", "value", "row", "fault"),
    [
        # A row counts 10,000 for its text, 64 for its cell, and 192 for itself: 102 fit.
        ("MAX_BYTES", 2**20, {"x": "a" * 10_000}, "line 103: takes more than 1 MiB of memory"),
        # And 64 without a text.
        ("MAX_BYTES", 2**14, {"x": None}, "line 65: takes more than "),
    ],
)
def test_a_table_in_memory_is_bounded_and_a_stream_is_not(bound, value, row, fault, monkeypatch):
    path = lines(*[row] * 120)
    monkeypatch.setattr(f"dspy_judges.bounds.{bound}", value)
    assert sum(1 for _ in read_table_rows(path)) == 120
    message = refusal(path)
    assert fault in message
    assert SIZE_ADVICE in message


def test_problems_without_end_are_no_list(monkeypatch):
    monkeypatch.setattr("dspy_judges.bounds.MAX_PROBLEMS", 10)
    path = file_of(f"[{'1, ' * 20} 1]", "x.json")
    with pytest.raises(
        RowsError, match=r"row 1: 1 is not a .*\(the first of more than 10 problems\)"
    ):
        read_table(path, Problems(str(path)))
