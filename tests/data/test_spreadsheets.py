"""Spreadsheets as people export them: encodings, delimiters, titles above the header, workbooks."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import pytest
from openpyxl import Workbook, load_workbook

import data
from judges.tables.formats import RowWriter, Table, read_table
from judges.tables.problems import Problems
from optimize.measuring.recorded import RecordingError, read_replies, read_scores

HEADER = "id,document,summary,mark"
TEXT = f"{HEADER}\na,Café au lait,Short one,4\nb,Another text,Short two,2\n"
CELLS = [line.split(",") for line in TEXT.splitlines()]


def read(path: Path) -> tuple[Table | None, list[str], list[str]]:
    """The table of a file, its problems without the file's name, and its notes."""
    problems = Problems(str(path))
    table = read_table(path, problems)
    texts = [str(problem).removeprefix(str(path)) for problem in problems]
    assert all(map(str.isprintable, texts))
    return table, texts, problems.notes


def rows_of(path: Path) -> list[list[object]]:
    """The columns of a file without a problem, and the cells of its rows."""
    table, problems, _ = read(path)
    assert table is not None, problems
    assert not problems
    return [list(table.columns), *[list(row.cells.values()) for row in table.rows]]


def refusal(path: Path) -> str:
    _, (problem, *_), _ = read(path)
    return problem


class Export(NamedTuple):
    """A file's bytes, and its note or the one problem that refuses it; its rows are `CELLS`."""

    content: str | bytes
    note: str = ""
    problem: str = ""
    name: str = "labels.csv"


MACINTOSH = TEXT.replace("Another", "Schöner Käse").encode("mac_roman")
EXPORTS = {
    "UTF-8": Export(TEXT),
    "UTF-8 with a mark": Export(TEXT.encode("utf-8-sig")),
    "UTF-16": Export(TEXT.encode("utf-16")),
    "Windows-1252": Export(
        TEXT.encode("cp1252"),
        "read as Windows-1252, since it is not UTF-8 ('a,Café au lait' on line 2); if",
    ),
    "a code page of the Macintosh": Export(
        MACINTOSH, problem=", line 2: 'a,CafŽ au lait' is not UTF-8; save the file as UTF-8"
    ),
    "UTF-8 that is damaged": Export(
        TEXT.encode() + b"c,Caf\xe9,x,3\n", problem=", line 4: 'c,Café,x,3\\n' is not UTF-8; save"
    ),
    "line ends of Windows": Export(TEXT.replace("\n", "\r\n")),
    "semicolons": Export(TEXT.replace(",", ";")),
    "tabs under the name .csv": Export(TEXT.replace(",", "\t")),
    "bars": Export(TEXT.replace(",", "|"), name="labels.txt"),
    "blank lines": Export(TEXT.replace("\n", "\n\n") + "\n"),
    "empty columns and rows at the end": Export(TEXT.replace("\n", ",,\n") + ",,,,,\n" * 3),
    "rows that end early": Export(TEXT.replace("mark\n", "mark,,\n")),
    "a title above the header": Export(
        f"Round 3,,,\n,,,\n{TEXT}", "row 1 ('Round 3') above the header is read as a title"
    ),
    "a column without a name": Export(
        TEXT.replace("\n", ",why\n").replace("mark,why", "mark,"),
        problem="has no name above 1 column",
    ),
    "the numbers of a DataFrame's rows": Export(
        "".join(f"{n or ''},{line}\n" for n, line in enumerate(TEXT.splitlines()))
    ),
    "a line below the table": Export(
        f"{TEXT}\nExported by Ben\n",
        problem=", row 5: has 1 cell, but the header has 4; leave the row out, or quote fields",
    ),
    "names that span columns": Export(
        ",,,Anna,,Ben,\nid,document,summary,flow,tone,flow,tone\na,One,S,1,2,3,4\n",
        "row 1 ('Anna') above the header is read as a title",
        ", row 2: 'flow' names two columns; give every column its own name, in one row",
    ),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_read_as_it_was_meant_or_refused_in_one_line(
    name: str, tmp_path: Path
) -> None:
    export = EXPORTS[name]
    path = tmp_path / export.name
    content = export.content
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    if export.problem:
        assert export.problem in refusal(path)
    else:
        assert rows_of(path) == CELLS
    _, _, notes = read(path)
    assert [note[: len(export.note)] for note in notes] == ([export.note] if export.note else [])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_cuts_rows_evenly(delimiter: str, tmp_path: Path) -> None:
    others = "".join(other for other in ",;\t|" if other != delimiter)
    rows = [["id", "document"], ["a", f"One{others}two{others[0]}"], ["b", f"x{others[1]}"]]
    path = tmp_path / "labels.csv"
    path.write_text("".join(f"{delimiter.join(row)}\n" for row in rows))
    assert rows_of(path) == rows


def test_rows_are_known_by_their_numbers_in_a_spreadsheet_whatever_lines_their_cells_have(
    tmp_path: Path,
) -> None:
    path = tmp_path / "labels.csv"
    path.write_text('id,document\n"a","Two\nlines, quoted ""so"""\n\nb,x,y\nc\nd,Long\n')
    table, problems, _ = read(path)
    assert table is not None
    assert table.rows[0].cells["document"] == 'Two\nlines, quoted "so"'
    assert [row.line for row in table.rows] == [2, 6]
    assert [problem.partition(";")[0] for problem in problems] == [
        ", row 4: has 3 cells, but the header has 2",
        ", row 5: has 1 cell, but the header has 2",
    ]


def workbook(folder: Path, **sheets: Sequence[Sequence[object]]) -> Path:
    book = Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(folder / "labels.xlsx")
    return folder / "labels.xlsx"


def edited(path: Path, cells: Mapping[str, object], **formats: str) -> Path:
    book = load_workbook(path)
    for place, value in cells.items():
        book.active[place] = value
    for place, number_format in formats.items():
        book.active[place].number_format = number_format
    book.save(path)
    return path


TABLE: list[list[object]] = [CELLS[0], *[[*cells[:3], int(cells[3])] for cells in CELLS[1:]]]


def test_a_workbook_reads_as_the_csv_it_could_be(tmp_path: Path) -> None:
    assert rows_of(workbook(tmp_path, Sheet=TABLE)) == TABLE
    (tmp_path / "labels.csv").write_text(TEXT)
    outputs = [data.read_labels(tmp_path / f"labels.{end}").outputs for end in ("csv", "xlsx")]
    assert outputs[0] == outputs[1]


def test_a_problem_in_a_workbook_has_the_sheets_own_row(tmp_path: Path) -> None:
    rows = [["Round 3"], [], TABLE[0], TABLE[1], [], ["b", "Another text", "Short two", "poor"]]
    path = workbook(tmp_path, Sheet=rows)
    with pytest.raises(data.LabelError, match=r"row 6, field 'mark': 'poor' "):
        data.read_labels(path, dimensions=["mark"])
    assert read(path)[2] == ["row 1 ('Round 3') above the header is read as a title"]


def test_of_several_sheets_the_one_with_the_table_is_read_or_named(tmp_path: Path) -> None:
    path = workbook(tmp_path, ReadMe=[["How we rated"], ["Carefully"]], Marks=TABLE)
    assert rows_of(path) == TABLE
    assert read(path)[2] == ["sheet 'Marks' was read, and not ReadMe"]
    path = workbook(tmp_path, Pilot=[TABLE[0], ["z", "T", "S", 1]], Marks=TABLE)
    asked = ": has the sheets Pilot, Marks; name the sheet with the labels, as FILE.xlsx:SHEET"
    assert refusal(path) == asked
    assert rows_of(Path(f"{path}:Marks")) == TABLE
    assert refusal(Path(f"{path}:Other")) == asked


def test_cells_are_what_people_see(tmp_path: Path) -> None:
    """Whole numbers without a point, dates, percentages, numbers kept as text, truth."""
    path = workbook(tmp_path, Sheet=[*TABLE, ["c", "T", True, 2.5]])
    cells = {"A2": date(2024, 5, 4), "A3": 7.0, "D2": 0.857, "D3": "4"}
    # The last cell of the sheet is empty, and coloured.
    edited(path, cells, D2="0.0%", D1048576="0%")
    assert [[row[0], *row[2:]] for row in rows_of(path)[1:]] == [
        ["2024-05-04", "Short one", "85.7%"],
        [7, "Short two", "4"],
        ["c", True, 2.5],
    ]


def test_what_is_merged_downwards_stands_in_every_row(tmp_path: Path) -> None:
    rows = [TABLE[0], ["a", "One text", "S", 4], ["b", None, "T", None], ["c", "Two", "U", 1]]
    path = workbook(tmp_path, Sheet=rows)
    book = load_workbook(path)
    for area in ("B2:B3", "D2:D3"):
        book.active.merge_cells(area)
    book.save(path)
    assert rows_of(path)[1:] == [rows[1], ["b", "One text", "T", 4], rows[3]]


def test_scores_and_replies_may_stand_in_sheets(tmp_path: Path) -> None:
    scores, flat, replies = (tmp_path / f"{name}.csv" for name in ("a", "b", "c"))
    rows: dict[Path, list[dict[str, object]]] = {
        scores: [
            {"id": "x", "dimension": "engaging", "score": "3.5"},
            {"id": "y", "dimension": "engaging", "score": None},
            {"id": "x", "dimension": "other", "score": "yes"},
        ],
        # As `judges score` writes them.
        flat: [{"id": 7, "engaging": 4.5, "engaging_failure": None}],
        replies: [{"id": "y", "replies": "Rating: 4"}],
    }
    for path, of_path in rows.items():
        with RowWriter(path, columns=list(of_path[0])) as writer:
            for row in of_path:
                writer.write(row)
    assert read_scores(scores, "engaging") == pytest.approx({"x": 3.5, "y": math.nan}, nan_ok=True)
    assert read_scores(flat, "engaging") == {"7": 4.5}
    assert [reply.replies for reply in read_replies(replies)] == [("Rating: 4",)]
    with RowWriter(scores, columns=["id", "score"]) as writer:
        writer.write({"id": "x", "score": "fair"})
    with pytest.raises(RecordingError, match=r"2: expected .*, with a number as score"):
        read_scores(scores, "engaging")
