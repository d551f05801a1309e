"""Tables in and out: every format, one row at a time, whole or not at all."""

import csv
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.tables.landing import land, write_whole
from judges.tables.rows import Row, RowsError, read_rows
from judges.tables.writer import RowWriter, partial_of

ROWS: list[Row] = [
    {"id": 1, "text": 'a, "b"\nc\té', "score": 1.5, "why": None},
    {"id": 2, "text": "", "score": None, "why": "no text"},
]
FORMATS = ("jsonl", "csv", "tsv", "parquet")


def write(path: Path, rows: list[Row], *, overwrite: bool = False, cut: bool = False) -> Path:
    columns = list(rows[0]) if rows else []
    with RowWriter(path, columns=columns, overwrite=overwrite) as writer:
        for row in rows:
            writer.write(row)
        if cut:
            b"\xff".decode()
    return path


def as_text(row: Row) -> Row:
    """A row as CSV keeps it: everything is text, and nothing is empty text."""
    return {name: "" if value is None else str(value) for name, value in row.items()}


@pytest.mark.parametrize("form", FORMATS)
def test_rows_come_back_as_written(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"t.{form}", ROWS)
    wanted = [as_text(row) for row in ROWS] if form in {"csv", "tsv"} else ROWS
    assert list(read_rows(path)) == wanted
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


@settings(max_examples=40, deadline=None)
@given(rows=st.lists(st.fixed_dictionaries({"a": TEXT, "b": TEXT}), min_size=1, max_size=5))
@pytest.mark.parametrize("form", FORMATS)
def test_any_text_comes_back(
    form: str, rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("any") / f"t.{form}", rows)
    assert list(read_rows(path)) == rows


def test_lone_surrogates_stay_escaped_in_jsonl(tmp_path: Path) -> None:
    path = write(tmp_path / "t.jsonl", [{"a": "x\ud800y"}])
    assert "\\ud800" in path.read_text(encoding="utf-8")
    assert list(read_rows(path)) == [{"a": "x\ud800y"}]


def test_parquet_keeps_types_over_many_batches(tmp_path: Path) -> None:
    rows: list[Row] = [{"id": i, "why": None if i < 1500 else "late"} for i in range(2500)]
    assert list(read_rows(write(tmp_path / "t.parquet", rows))) == rows


def test_a_parquet_column_that_changes_its_type_is_one_clear_error(tmp_path: Path) -> None:
    rows: list[Row] = [{"id": i if i < 1500 else "x"} for i in range(2500)]
    with pytest.raises(RowsError, match=r"a column changes its type .* write JSONL instead"):
        write(tmp_path / "t.parquet", rows)
    assert not (tmp_path / "t.parquet").exists()


def test_long_cells_are_read(tmp_path: Path) -> None:
    long = "word " * 100_000
    assert list(read_rows(write(tmp_path / "t.csv", [{"a": long}]))) == [{"a": long}]


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("t.jsonl", b'{"a": 1}\n\n{"a": \n', "t.jsonl, line 3: not JSON"),
        ("t.jsonl", b"[1]\n", "line 1: no mapping"),
        ("t.jsonl", b'{"a": "\xff"}\n', r"line 1: not UTF-8 text \(byte 7\)"),
        ("t.jsonl", b"[" * 100_000, "line 1: not JSON"),
        ("t.csv", b"", "empty; the first line names the columns"),
        ("t.csv", b"a,b\n1,2\n1\n", "line 3: 1 values for 2 columns"),
        ("t.csv", b"a,a\n1,2\n", "two columns have the same name"),
        ("t.csv", b"a,b\n\xff,2\n", "not UTF-8 text"),
        ("t.csv", b'a,b\n"1,2\n', "line 2: unexpected end of data"),
        ("t.parquet", b"PAR1 no", "no Parquet file"),
        ("t.xlsx", b"", "no known format; use one of .jsonl"),
        ("t", b"", "no known format"),
    ],
)
def test_a_bad_table_is_one_clear_error(name: str, raw: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(RowsError, match=why) as caught:
        list(read_rows(tmp_path / name))
    assert "\n" not in str(caught.value)
    assert str(tmp_path / name) in str(caught.value)


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n", encoding="utf-8-sig")
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n', encoding="utf-8-sig")
    assert next(iter(read_rows(tmp_path / "t.csv"))) == {"a": "1", "b": "2"}
    assert next(iter(read_rows(tmp_path / "t.jsonl"))) == {"a": 1}


@pytest.mark.parametrize("form", FORMATS)
def test_a_run_cut_short_leaves_its_rows_aside_and_the_name_free(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"t.{form}"
    with pytest.raises(UnicodeDecodeError):
        write(path, [{"a": "x"}], cut=True)
    assert not path.exists()
    assert partial_of(path).exists()


def test_a_run_without_a_row_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    with pytest.raises(UnicodeDecodeError):
        write(path, [], cut=True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_written_over_unless_asked(form: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"t.{form}", [{"a": "old"}])
    with pytest.raises(FileExistsError, match="exists already"):
        write(path, [{"a": "new"}])
    assert list(read_rows(path)) == [{"a": "old"}]
    write(path, [{"a": "new"}], overwrite=True)
    assert list(read_rows(path)) == [{"a": "new"}]


def test_a_row_with_a_column_more_is_refused_where_columns_are_fixed(tmp_path: Path) -> None:
    with pytest.raises(RowsError, match="column 'b', which the first row lacks"):
        write(tmp_path / "t.csv", [{"a": 1}, {"a": 1, "b": 2}])


def test_nested_values_are_json_in_a_csv(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", [{"a": {"b": [1]}, "n": float("nan")}])
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "n"], [json.dumps({"b": [1]}), ""]]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("old")
    with pytest.raises(FileExistsError):
        write_whole(tmp_path / "taken", b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "old"


def test_landing_works_where_links_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    (tmp_path / "new").write_text("new")
    land(tmp_path / "new", tmp_path / "there")
    assert (tmp_path / "there").read_text() == "new"
    (tmp_path / "new").write_text("newer")
    with pytest.raises(FileExistsError):
        land(tmp_path / "new", tmp_path / "there")
