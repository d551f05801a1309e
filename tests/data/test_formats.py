"""The same labels come out of every format."""

import csv
import json
import string
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl

import data
from judges.__main__ import main
from optimize.measuring.recorded import read_scores

Rows = list[dict[str, object]]

ROWS: Rows = [
    {
        "id": f"d{document}-s{system}",
        "group": f"d{document}",
        "system": f"s{system}",
        "document": f"Text {document}, with a comma; a semicolon\tand a tab.",
        "summary": f'Short "quoted" {system}.\nSecond line.',
        "relevance": (document + system) % 5 + 1,
    }
    for document in range(3)
    for system in range(2)
]


def jsonl(rows: Rows, folder: Path) -> Path:
    path = folder / "labels.jsonl"
    write_jsonl(path, rows)
    return path


def json_array(rows: Rows, folder: Path) -> Path:
    path = folder / "labels.json"
    path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    return path


def delimited(separator: str, name: str) -> Callable[[Rows, Path], Path]:
    def write(rows: Rows, folder: Path) -> Path:
        with (folder / name).open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
            writer.writeheader()
            writer.writerows(rows)
        return folder / name

    return write


def parquet(rows: Rows, folder: Path) -> Path:
    pd.DataFrame(rows).to_parquet(folder / "labels.parquet")
    return folder / "labels.parquet"


FORMATS = {
    "jsonl": jsonl,
    "json": json_array,
    "csv": delimited(",", "labels.csv"),
    "csv with semicolons": delimited(";", "labels.csv"),
    "tsv": delimited("\t", "labels.tsv"),
    "parquet": parquet,
}

# Any text a file can hold: no lone surrogates, not blank, and no NUL, which CSV cannot carry.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
sound_texts = texts.filter(lambda text: bool(text.strip()))
names = st.text(string.ascii_letters + string.digits + "-_:", min_size=1, max_size=8)
rows_of_texts = st.lists(
    st.fixed_dictionaries(
        {
            "id": names,
            "group": names,
            "system": names,
            "document": sound_texts,
            "summary": sound_texts,
            # Not with three decimals, which may be thousands where cells stand between semicolons.
            "relevance": st.integers(1, 5) | st.integers(10, 50).map(lambda tenths: tenths / 10),
        }
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda row: row["id"],
)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_outputs(name: str, tmp_path: Path) -> None:
    labelled = data.read_labels(FORMATS[name](ROWS, tmp_path))
    first = labelled.outputs[0]
    assert labelled.outputs == data.read_labels(jsonl(ROWS, tmp_path)).outputs
    assert (first.id, first.document_id, first.system) == ("d0-s0", "d0", "s0")
    assert first.texts == {"document": ROWS[0]["document"], "summary": ROWS[0]["summary"]}
    assert first.ratings == {"relevance": (1.0,)}
    assert labelled.name == "labels"
    assert len(labelled.sha256) == 64


@given(rows=rows_of_texts)
@pytest.mark.parametrize("name", FORMATS)
def test_any_text_survives_every_format(name: str, rows: Rows) -> None:
    with TemporaryDirectory() as folder:
        labelled = data.read_labels(FORMATS[name](rows, Path(folder)))
    for row, output in zip(rows, labelled.outputs, strict=True):
        assert output.texts == {"document": row["document"], "summary": row["summary"]}
        assert (output.id, output.document_id) == (row["id"], row["group"])
        assert output.rating("relevance") == pytest.approx(float(str(row["relevance"])))


def test_a_parquet_file_with_two_columns_of_a_name_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ["id", "summary", "relevance", "relevance"]
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["x"]), *[pa.array([3])] * 2], names)
    pq.write_table(table, tmp_path / "labels.parquet")
    with pytest.raises(data.LabelError, match="'relevance' names two columns"):
        data.read_labels(tmp_path / "labels.parquet")


def test_a_set_of_the_hub_reads_as_the_file_it_came_from_and_asks_for_its_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    asked = []
    whole = datasets.Dataset.from_list(ROWS)
    parts = {"test": whole}

    def load_dataset(name: str) -> object:
        asked.append(name)
        return datasets.DatasetDict(parts)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    labelled = data.read_labels("hf:owner/name")
    assert labelled.outputs == data.read_labels("hf:owner/name:test").outputs
    assert labelled.outputs == data.read_labels(jsonl(ROWS, tmp_path)).outputs
    assert asked == ["owner/name", "owner/name"]
    parts["rest"] = whole.select([0])
    with pytest.raises(data.LabelError, match=r"has the splits rest, test.*hf:owner/name:rest"):
        data.read_labels("hf:owner/name")
    with pytest.raises(data.LabelError, match="but not 'other'"):
        data.read_labels("hf:owner/name:other")
    assert len(data.read_labels("hf:owner/name:rest").outputs) == 1


@pytest.mark.parametrize("write", FORMATS.values(), ids=FORMATS)
def test_rows_without_ids_are_numbered_by_row_in_every_format(
    write: Callable[[Rows, Path], Path], tmp_path: Path
) -> None:
    path = write([{n: cell for n, cell in row.items() if n != "id"} for row in ROWS], tmp_path)
    assert [output.id for output in data.read_labels(path).outputs] == [*"123456"]
    scored = tmp_path / "scored.jsonl"
    assert main(["score", "relevance", "--data", str(path), "--out", str(scored)]) == 0
    assert [*read_scores(scored, "relevance")] == [*"123456"]


def test_a_frame_whose_columns_are_numbers_is_mapped_by_them() -> None:
    frame = pd.DataFrame([["Q?", "One.", 3], ["R?", "Two.", 1]])
    labelled = data.read_labels(frame, map={"human": 2, "input": 0, "output": 1})
    assert [one.ratings["human"] for one in labelled.outputs] == [(3,), (1,)]
    assert data.read_labels(frame, map={"human": [2]}).dimensions == ("human",)
    with pytest.raises(
        data.LabelError, match="field '7': there is no such column; the columns are 0, 1"
    ):
        data.read_labels(frame, map={"human": 7})
