"""A bad file gets one error that names file, line, field, value and the way out."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

import data

GOOD = {"id": "a", "group": "g", "document": "A text.", "summary": "Short.", "relevance": 3}


def file_of(folder: Path, *rows: Mapping[str, object] | str) -> Path:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path = folder / "labels.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refused(path: str | Path, **how: object) -> str:
    with pytest.raises(data.LabelError) as caught:
        data.read_labels(path, **{"dimensions": ["relevance"], **how})  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.isprintable(), "one line, and nothing that steers a terminal"
    assert len(message) < 400 + 2 * len(str(path))
    assert "; " in message, "the way out comes after a semicolon"
    return message.removeprefix(str(path))


# The second row's fault, and what the message says of it.
ROWS: dict[str, tuple[Mapping[str, object], str]] = {
    "a rating off the scale": ({"relevance": 7}, ", line 2, field 'relevance': 7 is off the scale"),
    "a word as a rating": ({"relevance": "fair"}, "line 2, field 'relevance': 'fair' is not a num"),
    "a truth value as a rating": (
        {"relevance": True},
        "line 2, field 'relevance': True is not a number like the others",
    ),
    "an id used twice": ({"id": "a"}, ", line 2, field 'id': 'a' is the id of line 1 too"),
    "an empty id": ({"id": " "}, ", line 2, field 'id': is empty"),
    "an empty text": ({"document": ""}, ", line 2, field 'document': is empty"),
    "a missing text": ({"document": None}, ", line 2, field 'document': is missing"),
    "half a character": (
        {"document": "\ud83d"},
        ", line 2, field 'document': '\\ud83d' is not valid Unicode",
    ),
    "an empty group": ({"group": None}, ", line 2, field 'group': is empty"),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_faulty_cell_is_named_with_its_line_field_and_value(name: str, tmp_path: Path) -> None:
    change, message = ROWS[name]
    path = file_of(tmp_path, GOOD, {**GOOD, "id": "b", **change}, {**GOOD, "id": "c"})
    assert message in refused(path, scales={"relevance": (1, 5)})


def test_rows_without_any_rating_are_said_to_have_none(tmp_path: Path) -> None:
    path = file_of(tmp_path, {"id": "a", "document": "A text.", "summary": "Short."})
    message = refused(path, dimensions=("relevance",))
    assert "'relevance': no output has a rating on it; there are ratings on none" in message
    assert "--map relevance=COLUMN" in message


def test_a_missing_column_names_those_there(tmp_path: Path) -> None:
    row = {"id": "a", "article": "A text.", "relevanse": 3}
    path = file_of(tmp_path, row)
    message = refused(path)
    assert "'relevance': no output has a rating on it; there are ratings on relevanse" in message
    message = refused(path, map={"relevance": "relevance"})
    assert (
        "the columns are id, article, relevanse; name your column with --map relevance=COLUMN"
        in message
    )
    message = refused(path, map={"relevance": "relevanse"}, texts=("summary",))
    assert "field 'summary': there is no such column, but the judge reads it" in message
    assert "no column holds texts" in refused(file_of(tmp_path, {"id": "a", "relevance": 3}))


def test_rows_that_repeat_the_texts_of_another_are_outputs_and_their_labels_are_told(
    tmp_path: Path,
) -> None:
    labels = ("pass", "fail", "pass", "pass", "Fail", "pass")
    texts = ("one", "two", "three", "one", "three", "four")
    rows = [{"input": "Q?", "output": t, "label": w} for t, w in zip(texts, labels, strict=True)]
    labelled = data.read_labels(file_of(tmp_path, *rows))
    assert len(labelled.outputs) == 6
    told = "2 rows repeat another row's texts (lines 4, 5). 1 pair disagrees: fail, pass"
    assert f"{told} (lines 3, 5)" in labelled.notes
    with_ids = [{**row, "id": f"r{place}"} for place, row in enumerate(rows)]
    assert f"{told} (lines 3, 5)" in data.read_labels(file_of(tmp_path, *with_ids)).notes
    alike = data.read_labels(file_of(tmp_path, *rows[:2], rows[3]))
    assert alike.notes[0].endswith("repeats another row's texts (lines 3). Their labels agree")
    by = [{**row, "annotator": "x"} for row in rows]
    message = refused(file_of(tmp_path, *by))
    assert message.startswith(", line 4, field 'id': has the same texts as line 1, so both may")


def test_all_problems_are_found_at_once_and_the_first_is_told(tmp_path: Path) -> None:
    rows = [{**GOOD, "id": "a", "relevance": 9}, {**GOOD, "id": "a"}, {**GOOD, "id": "b"}, "{"]
    rows[2]["document"] = ""  # type: ignore[index]
    path = file_of(tmp_path, *rows)  # type: ignore[arg-type]
    with pytest.raises(data.LabelError, match=r"\(and 3 more: dspy-judges check ") as caught:
        data.read_labels(path, scales={"*": (1, 5)})
    assert [problem.kind for problem in caught.value.problems] == [
        "bad-json",
        "off-scale",
        "twice",
        "no-text",
    ]
    assert [problem.line for problem in caught.value.problems] == [4, 1, 2, 3]


def test_long_rows_that_disagree_are_refused(tmp_path: Path) -> None:
    row = {"id": "a", "document": "A text.", "dimension": "d", "annotator": "x", "rating": 1}
    path = file_of(tmp_path, row, {**row, "rating": 2})
    assert "2 is a second rating of 'a' on 'd' by 'x'; keep" in refused(path, dimensions=["d"])
    path = file_of(tmp_path, row, {**row, "annotator": "y", "document": "Another."})
    assert "line 2, field 'document': 'Another.' differs from" in refused(path, dimensions=["d"])
    path = file_of(tmp_path, {"id": "a", "dimension": "d", "annotator": "x", "rating": 1})
    assert "give the file of outputs, and this one" in refused(path, dimensions=["d"])


def test_pairs_and_outputs_are_told_apart(tmp_path: Path) -> None:
    pair = {"id": "a", "prompt": "Hi?", "response_a": "x", "response_b": "y", "preferred": "A"}
    assert "holds pairs of candidates" in refused(file_of(tmp_path, pair))
    with pytest.raises(data.LabelError, match="holds rated outputs, not pairs; read it with"):
        data.read_pairs(file_of(tmp_path, {**GOOD, "ratings": {"relevance": 3}}))


cells = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
WIDE = ["id", "group", "system", "document", "summary", "ratings", "annotations", "relevance"]
LONG = ["dimension", "annotator", "rating"]
PAIR = ["prompt", "votes", "response_a", "response_b", "preferred"]
KNOWN = [*WIDE, *LONG, *PAIR]


def error_of(read: Callable[[Path], object], path: Path) -> data.LabelError | None:
    try:
        read(path)
    except data.LabelError as error:
        return error
    return None


@given(
    rows=st.lists(
        st.dictionaries(st.sampled_from(KNOWN) | st.text(max_size=60), cells, max_size=9),
        max_size=4,
    )
)
def test_no_json_makes_a_reader_fail_but_with_a_label_error(rows: list[dict[str, object]]) -> None:
    with TemporaryDirectory() as folder:
        path = file_of(Path(folder), *rows)
        errors = [error_of(data.read_labels, path), error_of(data.read_pairs, path)]
    assert any(errors), "no file is both"
    assert all(error is None or str(error).isprintable() for error in errors)


@given(raw=st.binary(max_size=80), ending=st.sampled_from(["jsonl", "json", "csv", "parquet"]))
def test_no_bytes_make_a_reader_fail_but_with_a_label_error(raw: bytes, ending: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"labels.{ending}"
        path.write_bytes(b"id,document,relevance\n" + raw if ending == "csv" else raw)
        error = error_of(data.read_labels, path)
    assert error is None or str(error).isprintable()
