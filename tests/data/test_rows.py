"""Tables in and out: every format, one row at a time, whole or not at all."""

import csv
import json
import os
import resource
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import data
from data.tables.atomic_write import move_into_place, write_atomically
from data.tables.formats import RowWriter, partial_path, read_rows
from data.tables.problems import RowsError
from data.tables.text import Row
from judges.models.journal import Journal, JournalError, describe
from judges.parsing.recorded import RecordingError, read_replies
from optimize.items import read_scores
from optimize.run.run_folder import CONFIG, RunFolderError, read_object

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
    "raw",
    [
        b'[{"a": "1"}, {"a": "two\\nlines"}]',
        b'\n[\n {"a": "1"},\n {"a": "two\\nlines"}\n]\n',
        b'{"a": "1"}\n{"a": "two\\nlines"}\n',
    ],
)
def test_json_is_read_as_an_array_or_a_line_each(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.json").write_bytes(raw)
    assert list(read_rows(tmp_path / "t.json")) == [{"a": "1"}, {"a": "two\nlines"}]


def test_columns_without_names_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,,\n1,2,3\n,,\n", encoding="utf-8")
    rows = list(read_rows(tmp_path / "t.csv"))
    assert rows[0] == {"a": "1", "Unnamed: 1": "2", "Unnamed: 2": "3"}
    assert len(rows) == 2, "a blank row is a row, unless it is of labels"


def test_lines_may_end_as_an_old_mac_ends_them(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'a,b\r1,2\r3,"4\r5"\r')
    assert list(read_rows(tmp_path / "t.csv")) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4\r5"}]


@pytest.mark.parametrize(
    ("name", "raw", "why"),
    [
        ("t.jsonl", b'{"a": 1}\n\n{"a": \n', "t.jsonl, line 3: .* is not JSON: .*; write one"),
        ("t.jsonl", b"[1]\n", "line 1: .* is no JSON object; write one"),
        (
            "t.jsonl",
            b'{"a": "\xff"}\n',
            "line 1: byte 8 of the line .FF in hexadecimal. is not UTF-8; save",
        ),
        ("t.jsonl", b"[" * 100_000, "line 1: is nested too deeply"),
        (
            "t.json",
            b'[{"a": 1}]\n\n{"a": 2}\n',
            "line 3: .* follows the end of the array; write one",
        ),
        ("t.json", b'[{"a": 1}] ]', "line 1: ']' follows the end of the array; write one array of"),
        ("t.json", b'[{"a": 1}, 2]', "line 1: 2 is no JSON object; write one array of objects, or"),
        ("t.json", b'[{"a": 1}, {"a": ]', "is not JSON: .*; write one array of objects, or"),
        ("t.csv", b"", "holds no rows; give a file"),
        ("t.csv", b"a,b\n1,2\n1\n", "line 3: has 1 cell, the header 2; leave the row"),
        ("t.csv", b"a,a\n1,2\n", "line 1, field 'a': names two columns"),
        ("t.csv", b"a,b\n\xff,2\n", "line 2: .* is not UTF-8; save"),
        ("t.csv", b'a,b\n"1,2\n', "line 2: cannot be read: unexpected end of data; quote"),
        ("t.parquet", b"PAR1 no", "cannot be read as Parquet"),
        ("t.ods", b"", "of no format known here; save it as .xlsx or as CSV"),
        ("t", b"", "of no format known here"),
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
    assert partial_path(path).exists()


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
        write_atomically(tmp_path / "taken", b"new")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
    assert (tmp_path / "taken").read_text() == "old"


def test_landing_works_where_links_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise PermissionError("no links here")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    (tmp_path / "new").write_text("new")
    move_into_place(tmp_path / "new", tmp_path / "there")
    assert (tmp_path / "there").read_text() == "new"
    (tmp_path / "new").write_text("newer")
    with pytest.raises(FileExistsError):
        move_into_place(tmp_path / "new", tmp_path / "there")


def bomb(path: Path, *, rows: int = 10_000, nested: bool = False) -> Path:
    """A Parquet file of a kilobyte that holds one text of a megabyte in every row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    places = pa.array([0] * rows, pa.int32())
    texts = pa.DictionaryArray.from_arrays(places, pa.array(["a" * 1_000_000]))
    if nested:
        texts = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), texts)
    pq.write_table(pa.table({"id": [1] * rows, "summary": texts}), path, compression="zstd")
    assert path.stat().st_size < 4000
    return path


@pytest.mark.parametrize("nested", [False, True])
def test_a_parquet_file_of_a_kilobyte_does_not_fill_the_memory(
    nested: bool, tmp_path: Path
) -> None:
    path = bomb(tmp_path / "x.parquet", nested=nested)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(RowsError, match=r"x\.parquet: unpacks to [\d,]+ MiB or more"):
        list(read_rows(path))
    with pytest.raises(data.LabelError, match="unpacks to"):
        data.read_labels(path)
    # 10 GB if it were unpacked; the unit is KiB on Linux, and bytes on a Mac.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000


def test_texts_that_repeat_in_every_row_of_parquet_are_read(tmp_path: Path) -> None:
    rows = list(read_rows(bomb(tmp_path / "x.parquet", rows=100)))
    assert [len(str(row["summary"])) for row in rows] == [1_000_000] * 100


def test_a_parquet_file_of_endless_rows_is_refused_unread(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": pa.nulls(20_000_000)}), tmp_path / "x.parquet")
    assert (tmp_path / "x.parquet").stat().st_size < 50_000
    with pytest.raises(RowsError, match="unpacks to"):
        next(read_rows(tmp_path / "x.parquet"))


@pytest.mark.parametrize("form", [*FORMATS, "xlsx"])
def test_what_may_never_end_is_not_read(form: str, tmp_path: Path) -> None:
    pipe, device = tmp_path / f"pipe.{form}", tmp_path / f"zero.{form}"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(RowsError, match="not a regular file"):
            list(read_rows(path))
        with pytest.raises(data.LabelError, match="not a regular file"):
            data.read_labels(path)
        with pytest.raises(OSError, match="not a regular file"):
            list(read_replies(path))
        with pytest.raises(OSError, match="not a regular file"):
            read_scores(path, "fluency")


def test_a_journal_and_a_run_folder_of_devices_are_refused(tmp_path: Path) -> None:
    for name in ("x.jsonl", CONFIG):
        (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(JournalError, match="not a regular file"):
        Journal(tmp_path / "x.jsonl")
    with pytest.raises(OSError, match="not a regular file"):
        describe(tmp_path / "x.jsonl")
    with pytest.raises(RunFolderError, match="not a regular file"):
        read_object(tmp_path)


@pytest.mark.parametrize("form", ["jsonl", "csv", "tsv"])
def test_a_line_without_end_is_refused_with_the_way_out(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("data.tables.text.MAX_LINE_LENGTH", 2**20)
    path = tmp_path / f"x.{form}"
    path.write_bytes(b"id,text\n" + b"a" * 3_000_000)
    with pytest.raises(
        RowsError, match=r"line 2: the line is longer than 1 MiB; end every|line 1: .* is not JSON"
    ):
        list(read_rows(path))


@pytest.mark.parametrize(
    "line", ["[" * 50_000, '{"a":' * 50_000, '{"a":[' + "[]," * 300_000 + "0]}"]
)
def test_a_line_of_brackets_is_refused_by_every_reader(line: str, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(line, encoding="utf-8")
    why = r"line 1: (is nested|has more brackets)"
    with pytest.raises(RowsError, match=why):
        list(read_rows(path))
    with pytest.raises(RecordingError, match=why):
        list(read_replies(path))
    with pytest.raises(data.LabelError, match=why):
        read_scores(path, "fluency")
    with pytest.raises(data.LabelError, match=why):
        data.read_labels(path)


@pytest.mark.parametrize("score", ["1e999", "9" * 400, "9" * 5000, "[]", '"x"', "{}"])
def test_a_score_that_no_number_holds_is_named_by_its_line(score: str, tmp_path: Path) -> None:
    path = tmp_path / "scores.jsonl"
    path.write_text(f'{{"id": "a", "score": {score}}}', encoding="utf-8")
    with pytest.raises(data.LabelError, match=r"scores\.jsonl, line 1: (expected|holds a number)"):
        read_scores(path, "fluency")
