"""A bad file gets one error that names file, line, field, value and the way out."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from files import file_of, refusal
from hypothesis import given
from hypothesis import strategies as st

import data

GOOD = {"id": "a", "group": "g", "document": "A text.", "summary": "Short.", "relevance": 3}


def lines(*rows: Mapping[str, object] | str) -> Path:
    texts = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    return file_of("".join(f"{text}\n" for text in texts), "labels.jsonl")


def refusal_of(*rows: Mapping[str, object], **how: object) -> str:
    message = refusal(lines(*rows), **{"dimensions": ["relevance"], **how})
    assert len(message) < 400
    assert "; " in message, "the way out comes after a semicolon"
    return message.removeprefix("labels.jsonl")


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        ("relevance", 7, "7 is off the scale"),
        ("relevance", "fair", "'fair' is not a num"),
        ("relevance", True, "True is not a number like the others"),
        ("id", "a", "'a' is the id of line 1 too"),
        ("id", " ", "is empty"),
        ("id", ["b"], "['b'] is not a name"),
        ("document", "", "is empty"),
        ("document", None, "is missing"),
        ("document", "\ud83d", "'\\ud83d' is not valid Unicode"),
        ("group", None, "is empty"),
    ],
)
def test_a_faulty_cell_is_named_by_line_and_field(field, value, fault):
    message = refusal_of(
        *(GOOD, {**GOOD, "id": "b", field: value}, {**GOOD, "id": "c"}),
        scales={"relevance": (1, 5)},
    )
    assert message.startswith(f", line 2, field '{field}': {fault}")


def test_a_missing_column_names_those_there():
    row = {"id": "a", "document": "A text.", "summary": "Short."}
    message = refusal_of(row)
    assert "'relevance': no output has a rating on it; there are ratings on none" in message
    assert "--map relevance=COLUMN" in message
    row = {"id": "a", "article": "A text.", "relevanse": 3}
    assert "no output has a rating on it; there are ratings on relevanse" in refusal_of(row)
    columns = "the columns are id, article, relevanse; name your column with --map relevance=COLUMN"
    assert columns in refusal_of(row, map={"relevance": "relevance"})
    message = refusal_of(row, map={"relevance": "relevanse"}, texts=("summary",))
    assert "field 'summary': there is no such column, but the judge reads it" in message
    assert "no column holds texts" in refusal_of({"id": "a", "relevance": 3})


def test_rows_with_repeated_texts_are_outputs_and_are_noted():
    cells = {"one": "pass", "two": "fail", "three": "pass"}
    texts = [*cells.items(), ("one", "pass"), ("three", "Fail"), ("four", "pass")]
    rows = [{"input": "Q?", "output": text, "label": label} for text, label in texts]
    with_ids = [{**row, "id": f"r{place}"} for place, row in enumerate(rows)]
    for each in (rows, with_ids):
        labelled = data.read_labels(lines(*each))
        assert len(labelled.outputs) == 6
        note = "2 rows repeat another row's texts (lines 4, 5). Labels of the same texts differ: "
        assert f"{note}fail, pass (lines 3, 5)" in labelled.notes
    alike = data.read_labels(lines(*rows[:2], rows[3]))
    assert alike.notes[0].endswith("repeats another row's texts (line 3)")
    message = refusal_of(*({**row, "annotator": "x"} for row in rows))
    assert message.startswith(", line 4, field 'label': 'pass' is a second rating of '1'")
    labels = [{**row, "annotator": name} for row in rows[:2] for name in ("x", "y")]
    assert [len(output.ratings["label"]) for output in data.read_labels(labels).outputs] == [2, 2]
    numbered = [{**row, "id": f"r{place}"} for place, row in enumerate(labels)]
    with pytest.raises(data.LabelError, match="has the same texts as row 1, so both may"):
        data.read_labels(numbered)
    joined = data.read_labels(numbered, map={"id": "#row"})
    assert [len(output.ratings["label"]) for output in joined.outputs] == [2, 2]


@pytest.mark.parametrize(("column", "n_pairs"), [("Task ID", 2), ("form_id", 1), ("batch_id", 1)])
def test_equal_texts_are_one_pair_unless_they_are_of_two_tasks(column, n_pairs):
    # Two people vote on each of two tasks with the same texts. Forms and batches are no tasks: each
    # row is a form, and each person had all rows in one batch.
    texts = {"prompt": "What burnt?", "response_a": "A barn.", "response_b": "A house."}
    ids = {"Task ID": "1122", "form_id": "1234", "batch_id": "1212"}[column]
    votes = zip("xyxy", ids, "ABAB", strict=True)
    rows = [{**texts, "annotator": who, column: name, "winner": vote} for who, name, vote in votes]
    labelled = data.read_pairs(rows)
    assert [len(pair.votes) for pair in labelled.pairs] == [4 / n_pairs] * n_pairs
    n_joined = "2 rows" if n_pairs == 2 else "3 rows"
    assert f"joined {n_joined} without an id to a row of the same texts" in labelled.notes


def test_all_problems_are_found_at_once_and_the_first_is_told():
    faulty = [{**GOOD, "relevance": 9}, GOOD, {**GOOD, "id": "b", "document": ""}, "{"]
    with pytest.raises(data.LabelError, match=r"\(and 3 more: dspy-judges check ") as error:
        data.read_labels(lines(*faulty), scales={"*": (1, 5)})
    problems = [(problem.kind, problem.line) for problem in error.value.problems]
    assert problems == [("bad-json", 4), ("off-scale", 1), ("twice", 2), ("no-text", 3)]


def test_nested_and_long_rows_without_ratings_or_that_disagree_are_refused():
    row = {name: GOOD[name] for name in GOOD if name != "relevance"}
    rows = [{**row, "ratings": {"relevance": 3}}, {**row, "id": "b", "ratings": "three"}]
    assert "line 2, field 'ratings': 'three' is not an object" in refusal_of(*rows)
    rating = {"id": "a", "dimension": "d", "annotator": "x", "rating": 1}
    row = {**rating, "document": "A text."}
    for change, fault in (
        ({"rating": 2}, "2 is a second rating of 'a' on 'd' by 'x'; keep"),
        ({"annotator": "y", "document": "Another."}, "field 'document': 'Another.' differs from"),
        ({"dimension": None}, "line 2: has no id, or no dimension"),
    ):
        assert fault in refusal_of(row, {**row, **change}, dimensions=["d"])
    assert "give the file of outputs, and this one" in refusal_of(rating, dimensions=["d"])


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
KNOWN = st.sampled_from([*WIDE, *LONG, *PAIR])


def error_of(read: Callable[[Path], object], path: Path) -> str:
    try:
        read(path)
    except data.LabelError as error:
        return str(error)
    return ""


@given(st.lists(st.dictionaries(KNOWN | st.text(max_size=60), cells, max_size=9), max_size=4))
def test_no_json_makes_a_reader_fail_but_with_a_label_error(rows):
    path = lines(*rows)
    errors = [error_of(data.read_labels, path), error_of(data.read_pairs, path)]
    assert any(errors), "no file is both"
    assert "".join(errors).isprintable()


@given(raw=st.binary(max_size=80), ending=st.sampled_from(["jsonl", "json", "csv", "parquet"]))
def test_no_bytes_make_a_reader_fail_but_with_a_label_error(raw, ending):
    head = b"id,document,relevance\n" if ending == "csv" else b""
    assert f" {error_of(data.read_labels, file_of(head + raw, f'labels.{ending}'))}".isprintable()
