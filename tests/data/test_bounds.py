"""Small files that would take the machine are refused in one line that names the bound."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from openpyxl import Workbook

from data import LabelError, read_labels
from judges.labels.flags import read_map_file
from judges.tables.formats import read_records, read_table, read_table_rows
from judges.tables.problems import Problems, RowsError

ROW = {"id": "1", "document": "A text.", "summary": "Short."}
WAY_OUT = "leave out columns that no judge reads, or split the file"


def lines(*rows: object) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def workbook(part: str, old: bytes, new: bytes) -> bytes:
    """A workbook in one part of which `new` stands before `old`."""
    plain, edited = io.BytesIO(), io.BytesIO()
    book = Workbook()
    book.active.append([*ROW])
    book.active.append([*ROW.values()])
    book.save(plain)
    with zipfile.ZipFile(plain) as before, zipfile.ZipFile(edited, "w", zipfile.ZIP_DEFLATED) as z:
        for name in before.namelist():
            raw = before.read(name)
            z.writestr(name, raw.replace(old, new + old) if name == part else raw)
    return edited.getvalue()


NAMES = [f"c{i}" for i in range(1001)]
STYLES = b'<xf numFmtId="0" fontId="0"/>' * 100_000
WIDE = b'<row r="9"><c r="XFD9"><v>1</v></c></row>'
# Each is packed into, or written as, a few kilobytes to a few megabytes.
HUGE: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "brackets": (
        "x.json",
        lambda: b"[" + b"[]," * 1_600_000 + b"[]]",
        "has more than 128 MiB or 3,000,000 commas",
    ),
    "a line of brackets": (
        "x.jsonl",
        lambda: b'{"a": [' + b"[]," * 1_600_000 + b"[]]}\n",
        ", line 1: has more than 128 MiB or 3,000,000 commas and brackets",
    ),
    "depth": (
        "x.jsonl",
        lambda: lines(ROW) + b'{"a": ' + b"[" * 101 + b"]" * 101 + b"}\n",
        ", line 2: is nested too deeply",
    ),
    "columns of CSV": (
        "x.csv",
        lambda: f"{','.join(NAMES)}\n{','.join(NAMES)}\n".encode(),
        f"has more than 1,000 columns; {WAY_OUT}",
    ),
    "columns of all rows together": (
        "x.jsonl",
        lambda: lines(*({name: 1} for name in NAMES)),
        f", line 1001: has more than 1,000 columns; {WAY_OUT}",
    ),
    "a workbook's formats": (
        "x.xlsx",
        lambda: workbook("xl/styles.xml", b"</cellXfs>", STYLES),
        "XML elements in xl/styles.xml, more than 100,000; leave out",
    ),
    "a workbook's columns": (
        "x.xlsx",
        lambda: workbook("xl/worksheets/sheet1.xml", b"</sheetData>", WIDE),
        ", row 9: has more than 1,000 columns or 1,048,576 cells; leave out",
    ),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_file_beyond_a_bound_is_refused_by_every_reader(name: str, tmp_path: Path) -> None:
    file, content, fault = HUGE[name]
    path = tmp_path / file
    path.write_bytes(content())
    problems = Problems(str(path))
    read_table(path, problems)
    assert fault in str(problems[0])
    with pytest.raises(RowsError, match=fault.split(";")[0].removeprefix(", ")):
        [*read_records(path)]


def test_rows_that_are_not_kept_have_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspy_judges.bounds.MAX_BYTES", 2**20)
    path = tmp_path / "x.jsonl"
    # Each counts 10,000 for its text, 64 for its cell, and 192 for itself: 102 fit.
    path.write_bytes(lines(*[{"x": "a" * 10_000}] * 120))
    assert sum(1 for _ in read_table_rows(path)) == 120
    with pytest.raises(LabelError, match=f"line 103: takes more than 1 MiB of memory; {WAY_OUT}"):
        read_labels(path)


def test_a_table_that_is_held_has_so_many_cells_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dspy_judges.bounds.MAX_CELLS", 30)
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(*[ROW | {"b": 1, "c": 2}] * 40))
    assert sum(1 for _ in read_table_rows(path)) == 40
    n_columns = len(ROW) + 2
    first = 30 // n_columns + 1
    with pytest.raises(LabelError, match=f"line {first}: has more than 30 cells; {WAY_OUT}"):
        read_labels(path)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: &a [x, x]\nb: &b [*a, *a]\n", r"has an alias, \*a: write out what it stands for"),
        ("a: " + "[" * 101 + "]" * 101, "nested too deeply"),
        ("a: " + "x" * 200_000, "more than 200,000 bytes"),
    ],
)
def test_a_mapping_beyond_a_bound_is_refused(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "map.yaml"
    path.write_text(text)
    with pytest.raises(LabelError, match=fault):
        read_map_file(path)


def test_problems_without_end_are_no_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dspy_judges.bounds.MAX_PROBLEMS", 10)
    path = tmp_path / "x.json"
    path.write_text(f"[{'1, ' * 20} 1]")
    with pytest.raises(
        RowsError, match=r"row 1: 1 is not a .*\(the first of more than 10 problems\)"
    ):
        read_table(path, Problems(str(path)))
