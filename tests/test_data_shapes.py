"""Ratings in every shape: nested, flat, mapped, long, and joined from a second file."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest

import data


def write(path: Path, *rows: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def output(item: str = "a", **cells: object) -> dict[str, object]:
    return {"id": item, "group": "g", "document": "A text.", "summary": "Short.", **cells}


def csv_file(path: Path, header: str, *lines: str) -> Path:
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def test_annotations_go_before_their_mean_and_null_ones_leave_the_mean(tmp_path: Path) -> None:
    path = write(
        tmp_path / "labels.jsonl",
        output("a", ratings={"relevance": 2.0}, annotations={"relevance": [1, 2, 3]}),
        output("b", ratings={"relevance": 2.5}, annotations=None),
    )
    first, second = data.read_labels(path).outputs
    assert first.ratings == {"relevance": (1.0, 2.0, 3.0)}
    assert first.annotators == {"relevance": ("1", "2", "3")}
    assert second.ratings == {"relevance": (2.5,)}
    assert second.annotators == {}


def test_a_mean_that_is_not_its_annotations_is_noted(tmp_path: Path) -> None:
    path = write(
        tmp_path / "labels.jsonl",
        output(ratings={"relevance": 5}, annotations={"relevance": [1, 3]}),
    )
    labelled = data.read_labels(path)
    assert labelled.outputs[0].rating("relevance") == 2
    assert labelled.notes == ("1 rating unlike its annotations' mean, which counts",)


def test_annotators_may_have_names(tmp_path: Path) -> None:
    path = write(
        tmp_path / "labels.jsonl",
        output(annotations={"relevance": {"zoe": 5, "al": 3, "bo": None}}),
    )
    one = data.read_labels(path).outputs[0]
    assert one.ratings == {"relevance": (3.0, 5.0)}
    assert one.annotators == {"relevance": ("al", "zoe")}


def test_a_flat_column_is_a_dimension_where_it_is_mostly_numbers(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path / "labels.csv",
        "id,document,summary,genre,relevance",
        "a,Text one.,Short.,news,4",
        "b,Text two.,Brief.,forum,",
    )
    labelled = data.read_labels(path)
    assert labelled.dimensions == ("relevance",)
    assert labelled.outputs[0].texts["genre"] == "news"
    assert labelled.outputs[1].ratings == {}
    assert labelled.notes == ("no rating on relevance: 1 of 2 outputs",)


def test_numbers_written_by_a_system_stay_texts(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path / "labels.csv", "id,query,response,overall", "a,How many?,42,5", "b,Few?,7,1"
    )
    labelled = data.read_labels(path)
    assert labelled.dimensions == ("overall",)
    assert labelled.outputs[0].texts == {"query": "How many?", "response": "42"}


def test_a_mapping_renames_ids_texts_and_ratings(tmp_path: Path) -> None:
    path = csv_file(
        tmp_path / "labels.csv", "key,article,headline,mark,model", "a,Text.,Short.,4,big"
    )
    labelled = data.read_labels(
        path,
        mapping={"id": "key", "document": "article", "summary": "headline", "relevance": "mark"},
    )
    one = labelled.outputs[0]
    assert (one.id, one.system) == ("a", "big")
    assert one.texts == {"document": "Text.", "summary": "Short."}
    assert one.ratings == {"relevance": (4.0,)}


def test_a_dotted_mapping_reaches_into_a_nested_column(tmp_path: Path) -> None:
    path = write(
        tmp_path / "labels.jsonl",
        output(ratings={"Rel": 4, "Flu": 2}, crowd={"rel": [1, 2]}),
    )
    renamed = data.read_labels(path, mapping={"relevance": "ratings.Rel"})
    assert renamed.outputs[0].ratings == {"relevance": (4.0,), "Flu": (2.0,)}
    crowd = data.read_labels(path, mapping={"relevance": "crowd.rel"}, dimensions=["relevance"])
    assert crowd.outputs[0].ratings == {"relevance": (1.0, 2.0)}


def test_only_the_dimensions_asked_for_are_read_or_blamed(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.jsonl", output(ratings={"relevance": 4, "fluency": "bad"}))
    labelled = data.read_labels(path, dimensions=["relevance"])
    assert labelled.outputs[0].ratings == {"relevance": (4.0,)}
    with pytest.raises(data.LabelError, match=r"'ratings.fluency': 'bad' is not a number"):
        data.read_labels(path)


LONG = (
    {"id": "a", "dimension": "relevance", "annotator": "x", "rating": 4},
    {"id": "a", "dimension": "relevance", "annotator": "y", "rating": 2},
    {"id": "b", "dimension": "relevance", "annotator": "x", "rating": 5},
    {"id": "b", "dimension": "fluency", "annotator": "x", "rating": None},
)


def test_a_long_file_with_texts_in_every_row_folds_to_outputs(tmp_path: Path) -> None:
    rows = [{**row, "document": "A text.", "summary": f"By {row['id']}."} for row in LONG]
    labelled = data.read_labels(write(tmp_path / "long.jsonl", *rows))
    first, second = labelled.outputs
    assert first.ratings == {"relevance": (4.0, 2.0)}
    assert first.annotators == {"relevance": ("x", "y")}
    assert second.ratings == {"relevance": (5.0,)}
    assert second.texts == {"document": "A text.", "summary": "By b."}
    assert first.document_id == second.document_id


def test_a_long_csv_is_the_same_as_long_jsonl(tmp_path: Path) -> None:
    rows = [{**row, "document": "A text.", "summary": f"By {row['id']}."} for row in LONG]
    with (tmp_path / "long.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert (
        data.read_labels(tmp_path / "long.csv").outputs
        == data.read_labels(write(tmp_path / "long.jsonl", *rows)).outputs
    )


def test_long_ratings_are_the_same_in_any_order_of_rows(tmp_path: Path) -> None:
    texts = {"document": "A text.", "summary": "Short."}
    rows = [{**row, **texts} for row in LONG]
    forward = data.read_labels(write(tmp_path / "one.jsonl", *rows)).outputs
    backward = data.read_labels(write(tmp_path / "two.jsonl", *reversed(rows))).outputs
    assert sorted(forward, key=lambda one: one.id) == sorted(backward, key=lambda one: one.id)


def test_a_long_file_joins_a_file_of_outputs_and_replaces_its_ratings(tmp_path: Path) -> None:
    outputs = write(
        tmp_path / "outputs.jsonl",
        output("a", ratings={"relevance": 1, "coherence": 2}),
        output("b"),
        output("c", ratings={"relevance": 3}),
    )
    long = write(tmp_path / "long.jsonl", *LONG)
    labelled = data.read_labels(outputs, annotations=long)
    assert labelled.outputs[0].ratings == {"relevance": (4.0, 2.0), "coherence": (2.0,)}
    assert labelled.outputs[1].ratings == {"relevance": (5.0,)}
    assert labelled.outputs[2].ratings == {"relevance": (3.0,)}
    assert "not in the annotations: 1 of 3 outputs" in labelled.notes
    assert labelled.sha256 != data.read_labels(outputs).sha256


def test_joined_ratings_of_unknown_outputs_are_refused(tmp_path: Path) -> None:
    outputs = write(tmp_path / "outputs.jsonl", output("b"))
    long = write(tmp_path / "long.jsonl", *LONG)
    with pytest.raises(data.LabelError, match=r"'a' is rated, but no output has this id \(1 such"):
        data.read_labels(outputs, annotations=long)


def test_without_a_group_identical_source_texts_are_one_document(tmp_path: Path) -> None:
    rows = [
        {
            "id": str(place),
            "document": text,
            "summary": f"Short {place}.",
            "ratings": {"relevance": 3},
        }
        for place, text in enumerate(["One.", "Two.", "One."])
    ]
    labelled = data.read_labels(write(tmp_path / "labels.jsonl", *rows))
    first, second, third = (one.document_id for one in labelled.outputs)
    assert first == third != second
    assert labelled.grouped_by == "identical text 'document', since there is no group"


def test_without_group_or_source_each_row_is_a_document_and_that_is_said(tmp_path: Path) -> None:
    rows = [{"id": item, "tweet": "Hi.", "tone": 3 + place} for place, item in enumerate("ab")]
    labelled = data.read_labels(write(tmp_path / "labels.jsonl", *rows))
    assert labelled.documents == ("a", "b")
    assert labelled.grouped_by.startswith("each row is its own document")


def test_an_instruction_with_another_input_is_another_document(tmp_path: Path) -> None:
    rows = [
        {"id": item, "prompt": "Shorten this.", "input": item, "response": "Ok.", "overall": 1}
        for item in "ab"
    ]
    assert len(data.read_labels(write(tmp_path / "labels.jsonl", *rows)).documents) == 2


def test_groups_that_share_or_mix_texts_are_noted(tmp_path: Path) -> None:
    rows = [
        output("a", group="g", ratings={"relevance": 1}),
        output("b", group="h", ratings={"relevance": 2}),
        output("c", group="h", document="Another.", ratings={"relevance": 2}),
    ]
    notes = data.read_labels(write(tmp_path / "labels.jsonl", *rows)).notes
    assert notes[0].startswith("same text as another document: 2;")
    assert notes[1].startswith("more than one source text: 1 of 2 groups;")


def test_with_ratings_tells_how_many_it_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.jsonl", output("a", ratings={"relevance": 4}), output("b"))
    labelled = data.read_labels(path)
    rated = data.with_ratings(labelled, "relevance")
    assert [one.id for one in rated.labelled.outputs] == ["a"]
    assert rated.n_left_out == 1
    with pytest.raises(data.LabelError, match="no output is rated on 'fluency', only on relevance"):
        data.with_ratings(labelled, "fluency")


def test_a_flat_column_may_hold_a_list_with_one_rating_an_annotator(tmp_path: Path) -> None:
    marks = [[4, 5, 3], [2, None, 3.5], [1]]
    rows = [output(str(place), relevance=given) for place, given in enumerate(marks)]
    path = write(tmp_path / "labels.jsonl", *rows)
    frame = pd.DataFrame(rows)
    frame.to_parquet(tmp_path / "labels.parquet")
    frame.assign(relevance=[json.dumps(given) for given in marks]).to_csv(
        tmp_path / "labels.csv", index=False
    )
    for file in (path, tmp_path / "labels.parquet", tmp_path / "labels.csv"):
        for asked in (None, ["relevance"]):
            labelled = data.read_labels(file, dimensions=asked)
            assert labelled.dimensions == ("relevance",)
            rated = [one.ratings["relevance"] for one in labelled.outputs]
            assert rated == [(4, 5, 3), (2, 3.5), (1,)]
            assert labelled.outputs[1].annotators["relevance"] == ("1", "3")
    mapped = data.read_labels(path, mapping={"charm": "relevance"})
    assert mapped.outputs[0].ratings == {"charm": (4, 5, 3)}


def test_a_long_list_of_numbers_is_no_set_of_ratings(tmp_path: Path) -> None:
    row = output(relevance=4, embedding=[0.1] * 384)
    assert data.read_labels(write(tmp_path / "labels.jsonl", row)).dimensions == ("relevance",)
