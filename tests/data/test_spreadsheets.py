"""Tables as people export them: formats, encodings, delimiters, titles, workbooks."""

import json
import math
from collections.abc import Callable
from datetime import date
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import csv_of, file_of, refusal, workbook, write_jsonl
from openpyxl import load_workbook

import data
from judges.__main__ import main
from judges.labels.readers import read_items
from judges.tables.formats import Table, read_table
from judges.tables.in_memory import as_json_lines, rows_in_memory
from judges.tables.problems import Problems
from optimize.measuring.recorded import RecordingError, read_own_scores

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


NUMBERED_ROWS = "".join(f"{n or ''},{line}\n" for n, line in enumerate(TEXT.splitlines()))
CP1252 = "read as Windows-1252, since it is not UTF-8 ('a,Café au lait' on line 2); if"


@pytest.mark.parametrize(
    ("content", "note"),
    [
        (TEXT, ""),
        (TEXT.encode("utf-8-sig"), ""),
        (TEXT.encode("utf-16"), ""),
        (TEXT.encode("cp1252"), CP1252),
        (TEXT.replace("\n", "\r\n"), ""),
        (TEXT.replace(",", ";"), ""),
        (TEXT.replace(",", "\t"), ""),
        (TEXT.replace(",", "|"), ""),
        # Blank lines; empty columns and rows at the end; rows that end early.
        (TEXT.replace("\n", "\n\n") + "\n", ""),
        (TEXT.replace("\n", ",,\n") + ",,,,,\n" * 3, ""),
        (TEXT.replace("mark\n", "mark,,\n"), ""),
        (f"Round 3,,,\n,,,\n{TEXT}", "row 1 ('Round 3') above the header is read as a title"),
        # The numbers of a DataFrame's rows.
        (NUMBERED_ROWS, ""),
    ],
)
def test_an_export_is_read_as_it_was_meant(content, note):
    path = file_of(content, "labels.txt" if "|" in str(content) else "labels.csv")
    assert rows_of(path) == CELLS
    assert [each[: len(note)] for each in read(path)[2]] == ([note] if note else [])


SPANNING_HEADERS = ",,,Anna,,Ben,\nid,document,summary,flow,tone,flow,tone\na,One,S,1,2,3,4\n"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            TEXT.replace("Another", "Schöner Käse").encode("mac_roman"),
            ", line 2: 'a,CafŽ au lait' is not UTF-8; save the file as UTF-8",
        ),
        (TEXT.encode() + b"c,Caf\xe9,x,3\n", ", line 4: 'c,Café,x,3\\n' is not UTF-8; save"),
        (TEXT.replace("\n", ",why\n").replace("mark,why", "mark,"), "has no name above 1 column"),
        (f"{TEXT}\nExported by Ben\n", ", row 5: has 1 cell, but the header has 4; leave the row"),
        (SPANNING_HEADERS, ", row 2: 'flow' names two columns; give every column its own name"),
    ],
)
def test_an_export_of_no_certain_meaning_is_refused(content, problem):
    assert problem in read(file_of(content))[1][0]


def test_rows_have_the_numbers_that_a_spreadsheet_shows():
    path = file_of('id,document\n"a","Two\nlines, quoted ""so"""\n\nb,x,y\nc\nd,Long\n')
    table, problems, _ = read(path)
    assert table is not None
    assert table.rows[0].cells["document"] == 'Two\nlines, quoted "so"'
    assert [row.line for row in table.rows] == [2, 6]
    assert [problem.partition(":")[0] for problem in problems] == [", row 4", ", row 5"]


TABLE: list[list[object]] = [CELLS[0], *[[*cells[:3], int(cells[3])] for cells in CELLS[1:]]]


def test_a_problem_in_a_workbook_has_the_sheets_own_row():
    faulty = ["b", "Another text", "Short two", "poor"]
    path = workbook(["Round 3"], [], TABLE[0], TABLE[1], [], faulty)
    assert ", row 6, field 'mark': 'poor' " in refusal(path, dimensions=["mark"])


def test_the_sheet_with_the_table_is_read():
    path = workbook(["How we rated"], ["Carefully"])
    book = load_workbook(path)
    book.create_sheet("Marks")
    for row in TABLE:
        book["Marks"].append(row)
    book.save(path)
    assert rows_of(path) == TABLE
    assert read(path)[2] == ["sheet 'Marks' was read, and not Sheet"]
    book["Sheet"].delete_rows(1, 2)
    for row in (TABLE[0], ["z", "T", "S", 1]):
        book["Sheet"].append(row)
    book.save(path)
    note = ": has the sheets Sheet, Marks; name the sheet with the labels, as FILE.xlsx:SHEET"
    assert read(path)[1] == read(Path(f"{path}:Other"))[1] == [note]
    assert rows_of(Path(f"{path}:Marks")) == TABLE


def test_cells_are_what_people_see():
    """Whole numbers without a point, dates, percentages, numbers kept as text, truth."""
    rows = [[date(2024, 5, 4), "T", "S", 0.857], [7.0, "T", "S", "4"], ["c", "T", True, 85]]
    path = workbook(TABLE[0], *rows)
    book = load_workbook(path)
    # A cell far below is empty, and coloured.
    for place, form in {"D2": "0.0%", "D4": '0"%"', "D300000": "0%"}.items():
        book.active[place].number_format = form
    book.save(path)
    expected = ["2024-05-04", "T", "S", "85.7%"], [7, "T", "S", "4"], rows[2]
    assert rows_of(path)[1:] == [*expected]


def test_what_is_merged_downwards_stands_in_every_row():
    rows = [TABLE[0], ["a", "One text", "S", 4], ["b", None, "T", 2], ["c", "Two", "U", 1]]
    assert rows_of(workbook(*rows, merge="B2:B3"))[2] == ["b", "One text", "T", 2]


def test_scores_may_stand_in_sheets():
    scores = ("x", "engaging", "3,5"), ("y", "engaging", ""), ("x", "other", "yes")
    path = file_of(csv_of(("id", "dimension", "score"), *scores), "scores.csv")
    judgements = read_own_scores(path, "engaging").judgement_by_id
    assert (judgements["x"].score, judgements["y"].failure) == (3.5, "no score")
    # As `judges score` writes them.
    flat = file_of("id,engaging,engaging_failure\n7,4.5,\n", "flat.csv")
    assert read_own_scores(flat, "engaging").judgement_by_id["7"].score == 4.5
    with pytest.raises(RecordingError, match=r"2: expected .*, with a number as score"):
        read_own_scores(file_of("id,score\nx,fair\n", "faulty.csv"), "engaging")


# The same labels come out of every format.
Rows = list[dict[str, object]]

ROWS: Rows = [
    {"id": f"d{d}-s{s}", "group": f"d{d}", "system": f"s{s}", "relevance": (d + s) % 5 + 1}
    | {"document": f"Text {d}, with a comma; a semicolon\tand a tab."}
    | {"summary": f'Short "quoted" {s}.\nSecond line.'}
    for d in range(3)
    for s in range(2)
]


def write_cells(separator: str, name: str) -> Callable[[Rows], Path]:
    def write(rows: Rows) -> Path:
        cells = ([row[name] for name in rows[0]] for row in rows)
        return file_of(csv_of([*rows[0]], *cells, delimiter=separator), name)

    return write


def of_frame(write: str, name: str) -> Callable[[Rows], Path]:
    def save(rows: Rows) -> Path:
        getattr(pd.DataFrame(rows), write)(name, index=False)
        return Path(name)

    return save


FORMATS: dict[str, Callable[[Rows], str | Path]] = {
    "jsonl": lambda rows: write_jsonl("labels.jsonl", rows),
    "json": lambda rows: file_of(json.dumps(rows, indent=1), "labels.json"),
    "csv": write_cells(",", "labels.csv"),
    "csv with semicolons": write_cells(";", "labels.csv"),
    "tsv": write_cells("\t", "labels.tsv"),
    "parquet": of_frame("to_parquet", "labels.parquet"),
    "xlsx": of_frame("to_excel", "labels.xlsx"),
}


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_every_format_gives_the_same_outputs(write):
    path = write(ROWS)
    labelled = data.read_labels(path)
    first = labelled.outputs[0]
    assert labelled.outputs == data.read_labels(ROWS).outputs
    assert (first.id, first.document_id, first.system) == ("d0-s0", "d0", "s0")
    assert first.texts == {"document": ROWS[0]["document"], "summary": ROWS[0]["summary"]}
    assert first.ratings == {"relevance": (1.0,)}
    assert labelled.name == "labels"
    assert len(labelled.sha256) == 64
    items = read_items(path).items
    assert [item.texts for item in items] == [output.texts for output in labelled.outputs]
    # Rows without ids are numbered, and so are their scores.
    path = write([{n: cell for n, cell in row.items() if n != "id"} for row in ROWS])
    assert [output.id for output in data.read_labels(path).outputs] == [*"123456"]
    assert main(["score", "relevance", "--data", str(path), "--out", "scored.jsonl"]) == 0
    assert [*read_own_scores(Path("scored.jsonl"), "relevance").judgement_by_id] == [*"123456"]


IN_MEMORY: dict[str, Callable[[Rows], object]] = {
    "a DataFrame": pd.DataFrame,
    "a DataFrame with an index": lambda rows: pd.DataFrame(rows).set_index("id"),
    "a DataFrame of polars": lambda rows: pytest.importorskip("polars").DataFrame(rows),
    "a Dataset": datasets.Dataset.from_list,
    "NumPy's numbers": lambda rows: (
        [
            row | {"relevance": np.int64(row["relevance"]), "Ben": np.float64(row["Ben"])}
            for row in rows
        ]
    ),
}


@pytest.mark.parametrize("form", IN_MEMORY.values(), ids=IN_MEMORY)
def test_labels_in_memory_are_read_as_those_of_a_file(form):
    rows = [row | {"Ben": math.nan if n == 4 else 2.0} for n, row in enumerate(ROWS)]
    how = {"map": {"relevance": ["relevance", "Ben"]}, "dimensions": ["relevance"]}
    file = file_of(as_json_lines(rows_in_memory(rows)), "rows.jsonl")
    in_memory = data.read_labels(form(rows), **how)
    assert in_memory.outputs == data.read_labels(file, **how).outputs
    # The one rating that is missing is not made up.
    assert in_memory.outputs[4].ratings["relevance"] == (float(rows[4]["relevance"]),)
    faulty = pd.DataFrame([*rows[:4], rows[4] | {"relevance": "five"}])
    assert refusal(faulty, **how).startswith("DataFrame, row 5, field 'relevance': 'five'")


def test_a_parquet_file_with_two_columns_of_a_name_is_refused():
    columns = [pa.array(["a"]), pa.array(["x"]), *[pa.array([3])] * 2]
    table = pa.Table.from_arrays(columns, ["id", "summary", "relevance", "relevance"])
    pq.write_table(table, "labels.parquet")
    assert "'relevance' names two columns" in refusal(Path("labels.parquet"))


def test_a_set_of_the_hub_may_need_its_split(monkeypatch):
    whole, names = datasets.Dataset.from_list(ROWS), list[str]()
    parts = {"test": whole}

    def load_dataset(name, split):
        names.append(name)
        if split and split not in parts:
            raise ValueError(f"Unknown split {split}")
        return parts[split] if split else datasets.DatasetDict(parts)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    labelled = data.read_labels("hf:owner/name")
    assert labelled.outputs == data.read_labels("hf:owner/name:test").outputs
    assert labelled.outputs == data.read_labels(ROWS).outputs
    assert names == ["owner/name", "owner/name"]
    parts["rest"] = whole.select([0])
    message = refusal("hf:owner/name")
    assert "has the splits rest, test" in message
    assert "hf:owner/name:rest" in message
    assert "Unknown split other" in refusal("hf:owner/name:other")
    assert len(data.read_labels("hf:owner/name:rest").outputs) == 1


def test_a_frame_whose_columns_are_numbers_is_mapped_by_them():
    frame = pd.DataFrame([["Q?", "One.", 3], ["R?", "Two.", 1]])
    labelled = data.read_labels(frame, map={"human": 2, "input": 0, "output": 1})
    assert [one.ratings["human"] for one in labelled.outputs] == [(3,), (1,)]
    assert data.read_labels(frame, map={"human": [2]}).dimensions == ("human",)
    message = refusal(frame, map={"human": 7})
    assert "field '7': there is no such column; the columns are 0, 1" in message
