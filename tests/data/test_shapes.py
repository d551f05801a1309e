"""Ratings in every shape: nested, flat, mapped, long, and joined from a second file."""

import json
from collections.abc import Mapping
from pathlib import Path

import pandas as pd
import pytest
from jsonl import write_jsonl

import data


def write(path: Path, *rows: Mapping[str, object]) -> Path:
    write_jsonl(path, rows)
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


def test_a_dotted_mapping_reaches_into_a_nested_column(tmp_path: Path) -> None:
    path = write(
        tmp_path / "labels.jsonl", output(ratings={"Rel": 4, "Flu": 2}, crowd={"rel": [1, 2]})
    )
    renamed = data.read_labels(path, map={"relevance": "ratings.Rel"})
    assert renamed.outputs[0].ratings == {"relevance": (4.0,), "Flu": (2.0,)}
    crowd = data.read_labels(path, map={"relevance": "crowd.rel"}, dimensions=["relevance"])
    assert crowd.outputs[0].ratings == {"relevance": (1.0, 2.0)}


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
    # Two files' labels on one dimension are never mixed.
    assert labelled.outputs[2].ratings == {}
    assert labelled.sha256 != data.read_labels(outputs).sha256


def test_joined_ratings_without_an_output_are_noted_and_refused_if_all_are(tmp_path: Path) -> None:
    long = write(tmp_path / "long.jsonl", *LONG)
    labelled = data.read_labels(write(tmp_path / "b.jsonl", output("b")), annotations=long)
    assert "left out 1 rated id without an output, such as 'a'" in labelled.notes
    assert labelled.outputs[0].ratings == {"relevance": (5.0,)}
    with pytest.raises(
        data.LabelError, match="'a' is rated, but no output has this id or any other"
    ):
        data.read_labels(write(tmp_path / "c.jsonl", output("c")), annotations=long)


def test_a_second_label_of_an_output_is_refused_unless_annotators_are_told_apart(
    tmp_path: Path,
) -> None:
    outputs, labels = write(tmp_path / "outputs.jsonl", output("a")), ["pass", "fail"]
    twice = write(tmp_path / "twice.jsonl", *({"id": "a", "label": label} for label in labels))
    with pytest.raises(data.LabelError, match=r"line 2, field 'id': 'a' is rated twice; keep one"):
        data.read_labels(outputs, annotations=twice)
    rows = [{"id": "a", "label": label, "annotator": label} for label in labels]
    labelled = data.read_labels(outputs, annotations=write(tmp_path / "two.jsonl", *rows))
    assert labelled.outputs[0].ratings == {"label": (0.0, 1.0)}


def test_with_ratings_leaves_out_what_has_none(tmp_path: Path) -> None:
    path = write(tmp_path / "labels.jsonl", output("a", ratings={"relevance": 4}), output("b"))
    labelled = data.read_labels(path)
    assert [one.id for one in data.with_ratings(labelled, "relevance").outputs] == ["a"]
    with pytest.raises(data.LabelError, match="no output is rated on 'fluency', only on relevance"):
        data.with_ratings(labelled, "fluency")


def test_a_flat_column_may_hold_a_list_with_one_rating_an_annotator(tmp_path: Path) -> None:
    ratings = [[4, 5, 3], [2, None, 3.5], [1]]
    rows = [output(str(place), relevance=given) for place, given in enumerate(ratings)]
    path = write(tmp_path / "labels.jsonl", *rows)
    frame = pd.DataFrame(rows)
    frame.to_parquet(tmp_path / "labels.parquet")
    frame.assign(relevance=[json.dumps(given) for given in ratings]).to_csv(
        tmp_path / "labels.csv", index=False
    )
    for file in (path, tmp_path / "labels.parquet", tmp_path / "labels.csv"):
        for dimensions in (None, ["relevance"]):
            labelled = data.read_labels(file, dimensions=dimensions)
            assert labelled.dimensions == ("relevance",)
            rated = [one.ratings["relevance"] for one in labelled.outputs]
            assert rated == [(4, 5, 3), (2, 3.5), (1,)]
            assert labelled.outputs[1].annotators["relevance"] == ("1", "3")
    mapped = data.read_labels(path, map={"charm": "relevance"})
    assert mapped.outputs[0].ratings == {"charm": (4, 5, 3)}


def csv_of(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_dimension_in_several_columns_has_one_annotator_in_each(tmp_path: Path) -> None:
    path = csv_of(
        tmp_path / "labels.csv",
        "id,document,summary,A,B\na,Text,Short,1,3\nb,Text,Other,4,\nc,Text,Third,,\n",
    )
    for dimensions in (None, ["engaging"]):
        labelled = data.read_labels(path, map={"engaging": ["A", "B"]}, dimensions=dimensions)
        assert [one.ratings for one in labelled.outputs] == [
            {"engaging": (1, 3)},
            {"engaging": (4,)},
            {},
        ]
        assert labelled.outputs[0].annotators == {"engaging": ("A", "B")}
        assert labelled.reading.ratings == {"engaging": ("A", "B")}
    with pytest.raises(data.LabelError, match="'document': is mapped to 2 columns"):
        data.read_labels(path, map={"document": ["A", "B"]})


ROWS_OF_TWO = (
    "id,document,summary,system,worker,relevance,fluency,comment,seen\n"
    "a,One,Short,s1,ann,1,5,so so,May\na,One,Short,s1,bob,3,,fine,June\n"
    "b,One,Other,s2,ann,4,4,,May\nc,Two,Short,s1,bob,5,2,yes,May\n"
)


def test_rows_of_several_annotators_are_one_output_not_several(tmp_path: Path) -> None:
    path = csv_of(tmp_path / "labels.csv", ROWS_OF_TWO)
    labelled = data.read_labels(path, dimensions=["relevance", "fluency"])
    rated = [(one.ratings["relevance"], one.annotators["relevance"]) for one in labelled.outputs]
    assert rated == [((1, 3), ("ann", "bob")), ((4,), ("ann",)), ((5,), ("bob",))]
    assert labelled.outputs[0].ratings["fluency"] == (5,)
    assert len(labelled.documents) == 2
    assert labelled.outputs[0].comments["relevance"] == ("so so", "fine")
    assert "left out, since rows of one id differ in it: column 'seen'" in labelled.notes
    # Ids that number the rows would make an output of each.
    rows = [f"{place},{line[2:]}" for place, line in enumerate(ROWS_OF_TWO.splitlines()[1:3])]
    numbered = csv_of(path, "\n".join([ROWS_OF_TWO.splitlines()[0], *rows]) + "\n")
    with pytest.raises(data.LabelError, match=r"texts as row 2.*the same id: --map id=COLUMN"):
        data.read_labels(numbered, dimensions=["relevance"])


def test_a_key_inside_ratings_is_named_in_the_error_and_read_by_its_dotted_name(
    tmp_path: Path,
) -> None:
    nested = write(tmp_path / "labels.jsonl", output(ratings={"rel": 2, "flu": 4}))
    flat = csv_of(
        tmp_path / "labels.csv",
        'id,document,summary,ratings\na,One,Short,"{""rel"": 2, ""flu"": 4}"\n',
    )
    for path in (nested, flat):
        for mapping in ({}, {"relevance": "rel"}):
            with pytest.raises(data.LabelError, match=r"--map relevance=ratings\.rel"):
                data.read_labels(path, dimensions=["relevance"], map=mapping)
        with pytest.raises(data.LabelError, match="there is no such column"):
            data.read_labels(path, map={"relevance": "ratings.nope"})
        mapping = {"relevance": "ratings.rel"}
        labelled = data.read_labels(path, dimensions=["relevance"], map=mapping)
        assert labelled.outputs[0].ratings == {"relevance": (2,)}


def test_a_comment_inside_annotations_is_on_its_label_and_no_rating(tmp_path: Path) -> None:
    said = {"label": "fail", "comment": "rude"}
    rows = [{"input": f"{n}?", "output": f"{n}.", "annotations": said} for n in range(3)]
    write_jsonl(tmp_path / "traces.jsonl", rows)
    labelled = data.read_labels(tmp_path / "traces.jsonl")
    assert labelled.dimensions == ("label",)
    assert {output.comments["label"] for output in labelled.outputs} == {("rude",)}


def test_a_models_reasons_are_no_comments_of_people(tmp_path: Path) -> None:
    said = {"label": "fail", "gpt4_reason": "It thinks so.", "critique": "rude"}
    rows = [{"input": f"{n}?", "output": f"{n}.", **said} for n in range(3)]
    write_jsonl(tmp_path / "sheet.jsonl", rows)
    labelled = data.read_labels(tmp_path / "sheet.jsonl")
    assert {output.comments["label"] for output in labelled.outputs} == {("rude",)}
