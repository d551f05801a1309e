"""Spreadsheets as people export them: encodings, delimiters, titles above the header, workbooks."""

import math
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook, load_workbook

import data
from data.tables.formats import RowWriter, read_rows
from judges.parsing.recorded import RecordingError, read_replies, read_scores

HEADER = "id,document,summary,engaging"
ROWS = ["a,Café au lait,Short one,4", "b,Another text,Short two,2"]
RATINGS = {"a": (4,), "b": (2,)}


def ratings(path: Path, dimension: str = "engaging", **how: Any) -> dict[str, tuple[float, ...]]:
    labelled = data.read_labels(path, dimensions=[dimension], **how)
    return {item.id: item.ratings.get(dimension, ()) for item in labelled.outputs}


def refusal(path: Path, **how: Any) -> str:
    with pytest.raises(data.LabelError) as caught:
        ratings(path, **how)
    return str(caught.value).removeprefix(str(path))


def csv_of(folder: Path, text: str, encoding: str = "utf-8", name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode(encoding))
    return path


def workbook(folder: Path, **sheets: Sequence[Sequence[object]]) -> Path:
    book = Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(folder / "labels.xlsx")
    return folder / "labels.xlsx"


CELLS = [line.split(",") for line in (HEADER, *ROWS)]
TABLE: list[list[object]] = [CELLS[0], *[[*cells[:3], int(cells[3])] for cells in CELLS[1:]]]


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", None),
        ("utf-8-sig", None),
        ("utf-16", "read as UTF-16"),
        ("utf-16-le", "read as UTF-16-LE"),
        ("utf-32", "read as UTF-32"),
        ("cp1252", "read as Windows-1252, since it is not UTF-8 ('Café' on line 2)"),
    ],
)
@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_an_encoding_is_found_out_and_noted(
    encoding: str, note: str | None, ends: str, tmp_path: Path
) -> None:
    path = csv_of(tmp_path, ends.join([HEADER, *ROWS, ""]), encoding)
    labelled = data.read_labels(path)
    assert labelled.outputs[0].texts["document"] == "Café au lait"
    assert ratings(path) == RATINGS
    if ends != "\r" or note is None:
        assert [one.split("; ")[0] for one in labelled.notes] == ([note] if note else [])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["labels.csv", "labels.tsv", "labels.txt"])
def test_the_delimiter_is_the_one_that_cuts_rows_evenly(
    delimiter: str, name: str, tmp_path: Path
) -> None:
    header = delimiter.join(["id", "document", "summary", "engaging"])
    others = "".join(other for other in ",;\t|" if other != delimiter)
    rows = [
        delimiter.join([item, f"One{others}two{others[0]}", "Short", rating])
        for item, rating in (("a", "4"), ("b", "2"))
    ]
    assert ratings(csv_of(tmp_path, "\n".join([header, *rows]), name=name)) == RATINGS


def test_a_first_line_may_name_the_delimiter(tmp_path: Path) -> None:
    lines = ["sep=;", HEADER.replace(",", ";"), "a;x, y;z;4", "b;u, v;w;good"]
    message = refusal(csv_of(tmp_path, "\r\n".join(lines)))
    assert message.startswith(", line 4, field 'engaging': 'good'")


def test_titles_above_the_header_are_passed_over_and_noted(tmp_path: Path) -> None:
    text = "Round 3,,,\n,,,\n" + "\n".join([HEADER, *ROWS]) + "\n,,,\n"
    path = csv_of(tmp_path, text)
    assert ratings(path) == RATINGS
    assert "line 1 ('Round 3') above the header is read as a title" in data.read_labels(path).notes


def test_a_header_of_two_rows_names_columns_by_both(tmp_path: Path) -> None:
    spanning = ["", "", "", "Anna", "", "Ben", ""]
    below = ["id", "document", "summary", "flow", "tone", "flow", "tone"]
    rows = [["a", "One", "Short", 1, 2, 3, 4], ["b", "Two", "Other", 5, 4, 3, 2]]
    for upper, lower in (
        (spanning, below),
        (below[:3] + spanning[3:], ["", "", "", *below[3:]]),
    ):
        path = workbook(tmp_path, Sheet=[upper, lower, *rows])
        mapping = {"tone": ["Anna tone", "Ben tone"]}
        assert ratings(path, "tone", map=mapping) == {"a": (2, 4), "b": (4, 2)}
    merged = workbook(tmp_path, Sheet=[below[:3] + spanning[3:], ["", "", "", *below[3:]], *rows])
    book = load_workbook(merged)
    for area in ("A1:A2", "B1:B2", "C1:C2", "D1:E1", "F1:G1"):
        book.active.merge_cells(area)
    book.save(merged)
    assert ratings(merged, "flow", map={"flow": ["Anna flow", "Ben flow"]})["a"] == (1, 3)


def test_two_columns_of_a_name_are_refused_by_their_letters(tmp_path: Path) -> None:
    path = workbook(tmp_path, Sheet=[[*TABLE[0], "engaging"], *[[*row, 1] for row in TABLE[1:]]])
    assert refusal(path).startswith(", row 1, field 'engaging': names two columns (D, E); give")


def test_a_workbook_reads_as_the_csv_it_could_be(tmp_path: Path) -> None:
    path = workbook(tmp_path, Sheet=TABLE)
    assert ratings(path) == RATINGS
    csv_path = csv_of(tmp_path, "\n".join([HEADER, *ROWS]))
    assert data.read_labels(path).outputs == data.read_labels(csv_path).outputs


def test_a_problem_in_a_workbook_has_the_sheets_own_row_and_column(tmp_path: Path) -> None:
    rows = [["Round 3"], [], TABLE[0], TABLE[1], [], ["b", "Another text", "Short two", "poor"]]
    message = refusal(workbook(tmp_path, Sheet=rows))
    assert message.startswith(", row 6, column D 'engaging': 'poor' ")


def test_of_several_sheets_the_one_with_the_table_is_read_or_named(tmp_path: Path) -> None:
    path = workbook(tmp_path, ReadMe=[["How we rated"], ["Carefully"]], Marks=TABLE)
    assert ratings(path) == RATINGS
    assert "sheet 'Marks' was read, and not ReadMe" in data.read_labels(path).notes
    path = workbook(tmp_path, Pilot=[TABLE[0], ["z", "T", "S", 1]], Marks=TABLE)
    message = refusal(path)
    assert "has 2 sheets with tables: Pilot, Marks; name one, as in" in message
    assert ratings(Path(f"{path}:marks")) == RATINGS
    assert "there is no sheet 'Other'; there are Pilot, Marks" in refusal(Path(f"{path}:Other"))


def edited(path: Path, cells: Mapping[str, object], **formats: str) -> Path:
    book = load_workbook(path)
    for place, value in cells.items():
        book.active[place] = value
    for place, number_format in formats.items():
        book.active[place].number_format = number_format
    book.save(path)
    return path


def test_a_formula_without_its_value_is_refused_by_its_cell(tmp_path: Path) -> None:
    path = edited(workbook(tmp_path, Sheet=TABLE), {"D3": "=1+1"})
    assert refusal(path).startswith(": '=1+1' cell D3 is a formula without its value") or (
        ", row 3: '=1+1' cell D3 is a formula without its value" in refusal(path)
    )


def test_cells_are_what_people_see(tmp_path: Path) -> None:
    """Whole numbers without a point, dates as ids, numbers kept as text."""
    path = workbook(tmp_path, Sheet=TABLE)
    edited(path, {"A2": date(2024, 5, 4), "A3": 7.0, "D2": "4", "D3": 2.0})
    assert ratings(path) == {"2024-05-04": (4,), "7": (2,)}
    # Kept as 0.857 and shown as 85.7%; the last cell of the sheet is empty, and coloured.
    edited(path, {"D2": 0.857, "D3": 0.5}, D2="0.0%", D3="0%", D1048576="0%")
    assert ratings(path) == {"2024-05-04": (85.7,), "7": (50,)}
    edited(path, {"D3": date(2024, 5, 4)}, D3="d-mmm")
    assert ", row 3, column D 'engaging': '2024-05-04' is a date" in refusal(path)


def test_what_is_merged_downwards_stands_in_every_row_and_hidden_rows_are_noted(
    tmp_path: Path,
) -> None:
    rows = [TABLE[0], ["a", "One text", "Short", 4], ["b", None, "Other", 2]]
    path = workbook(tmp_path, Sheet=rows)
    book = load_workbook(path)
    book.active.merge_cells("B2:B3")
    book.active.row_dimensions[3].hidden = True
    book.save(path)
    labelled = data.read_labels(path)
    assert [item.texts["document"] for item in labelled.outputs] == ["One text", "One text"]
    assert "1 cells read as what they are merged with" in labelled.notes
    assert "rows that the sheet hides were read, too: 1" in labelled.notes


def test_rows_come_back_from_a_workbook_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "=1+1", "n": 3, "x": 0.25, "none": None},
        {"id": "b", "text": "+4\nlines\x07", "n": -1, "x": 1e-9, "none": "at last"},
    ]
    path = tmp_path / "out.xlsx"
    with RowWriter(path, columns=list(rows[0])) as writer:
        for row in rows:
            writer.write(row)
    rows[1]["text"] = "+4\nlines\ufffd"
    assert list(read_rows(path)) == rows
    assert load_workbook(path).active["B2"].data_type == "s"


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_scores_and_replies_may_stand_in_sheets(ending: str, tmp_path: Path) -> None:
    scores, flat, replies = (tmp_path / f"{name}.{ending}" for name in ("a", "b", "c"))
    rows: dict[Path, list[dict[str, object]]] = {
        scores: [
            {"id": "x", "dimension": "engaging", "score": "3,5"},
            {"id": "y", "dimension": "engaging", "score": "n/a"},
            {"id": "x", "dimension": "other", "score": "yes"},
        ],
        # As `judges score` writes them.
        flat: [{"id": 7, "engaging": 4.5, "engaging_failure": None}],
        replies: [{"id": "x", "replies": '["4", "5"]'}, {"id": "y", "replies": "Rating: 4"}],
    }
    for path, of_path in rows.items():
        with RowWriter(path, columns=list(of_path[0])) as writer:
            for row in of_path:
                writer.write(row)
    assert read_scores(scores, "engaging") == pytest.approx({"x": 3.5, "y": math.nan}, nan_ok=True)
    assert read_scores(flat, "engaging") == {"7": 4.5}
    assert [reply.replies for reply in read_replies(replies)] == [("4", "5"), ("Rating: 4",)]
    with RowWriter(scores, columns=["id", "score"], overwrite=True) as writer:
        writer.write({"id": "x", "score": "fair"})
    with pytest.raises(RecordingError, match="2: the score 'fair' is not a number; write a plain"):
        read_scores(scores, "engaging")


MAPPED = {"engaging": "rater ANNA,Rater Ben", "id": "Item"}
SHEET = "Item,document,summary,Rater Anna,Rater Ben\na,One,Short,up,4\nb,Two,Other,down,2\n"
