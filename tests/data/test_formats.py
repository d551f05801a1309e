"""The same labels come out of every format."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import csv_of, file_of, refusal, write_jsonl

import data
from judges.__main__ import main
from judges.labels.readers import read_items
from judges.tables.in_memory import as_json_lines, rows_in_memory
from optimize.measuring.recorded import read_own_scores

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


def test_a_parquet_file_with_two_columns_of_a_name_is_refused():
    columns = [pa.array(["a"]), pa.array(["x"]), *[pa.array([3])] * 2]
    table = pa.Table.from_arrays(columns, ["id", "summary", "relevance", "relevance"])
    pq.write_table(table, "labels.parquet")
    assert "'relevance' names two columns" in refusal(Path("labels.parquet"))


def test_a_set_of_the_hub_reads_as_its_file_or_asks_for_its_split(monkeypatch):
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
