"""Ratings in every shape: nested, flat, mapped, long, and joined from a second file."""

from typing import Any

import pandas as pd
import pytest
from files import file_of, refusal, write_jsonl

import data


def output(item: str = "a", **cells: object) -> dict[str, object]:
    return {"id": item, "group": "g", "document": "A text.", "summary": "Short.", **cells}


def ratings(source: Any, **how: Any) -> list[Any]:
    return [dict(one.ratings) for one in data.read_labels(source, **how).outputs]


def test_annotations_go_before_their_mean():
    first = output("a", ratings={"relevance": 2.0}, annotations={"relevance": [1, 2, 3]})
    second = output("b", ratings={"relevance": 2.5}, annotations=None)
    outputs = data.read_labels([first, second]).outputs
    assert outputs[0].ratings == {"relevance": (1.0, 2.0, 3.0)}
    assert outputs[0].annotators == {"relevance": ("1", "2", "3")}
    assert (outputs[1].ratings, outputs[1].annotators) == ({"relevance": (2.5,)}, {})


LONG = [
    {"id": "a", "dimension": "relevance", "annotator": "x", "rating": 4},
    {"id": "a", "dimension": "relevance", "annotator": "y", "rating": 2},
    {"id": "b", "dimension": "relevance", "annotator": "x", "rating": 5},
    {"id": "b", "dimension": "fluency", "annotator": "x", "rating": None},
]


def test_a_long_files_dimension_is_found_by_its_judges_name():
    rows = [output("a", dimension="Is Coherent?", rating=4, annotator="x", comment="Clear.")]
    (read,) = data.read_labels(rows, dimensions=["is_coherent"]).outputs
    assert (read.ratings, read.comments) == ({"is_coherent": (4.0,)}, {"is_coherent": ("Clear.",)})


def test_a_long_file_replaces_the_ratings_of_its_outputs():
    before = {"relevance": 1, "coherence": 2}
    outputs = [output("a", ratings=before), output("b"), output("c", ratings={"relevance": 3})]
    long = write_jsonl("long.jsonl", LONG)
    labelled = data.read_labels(outputs, annotations=long)
    # Two files' labels are never mixed.
    read = [one.ratings for one in labelled.outputs]
    assert read == [{"relevance": (4.0, 2.0)}, {"relevance": (5.0,)}, {}]
    assert labelled.notes[0].startswith("the labels in this file (ratings) are not read")
    assert labelled.sha256 != data.read_labels(outputs).sha256
    message = refusal(outputs, annotations=long, dimensions=["coherence"])
    assert "no output has a rating on it in the file of" in message
    labelled = data.read_labels([output("b")], annotations=long)
    assert "left out 1 rated id without an output, such as 'a'" in labelled.notes
    assert labelled.outputs[0].ratings == {"relevance": (5.0,)}
    message = refusal([output("c")], annotations=long)
    assert "'a' is the id of a rated output, but this file has none of" in message


def test_a_mapping_and_values_reach_the_file_that_has_them():
    # Each file has its own name for the ids, and only the second one names who rated.
    texts = {"article": "A long text.", "summary": "Short."}
    items = [{"Item": "a", **texts}, {"Item": "b", **texts}]
    rows = "a,x,safe\na,y,unsafe\nb,x,safe\n"
    answers = file_of(f"Task,E-mail,How safe?\n{rows}", "answers.csv")
    assert "no column of ids; the columns are Task, E-mail" in refusal(items, annotations=answers)
    how: dict[str, Any] = {"map": {"id": "Task"}, "values": {"safe": 1, "unsafe": 0}}
    message = refusal([output("a")], annotations=answers, **how)
    assert "'a' is the id of row 2 too; keep one of the two rows, or name" in message
    how["map"] |= {"annotator": "E-mail", "document": "article", "safety": "How safe?"}
    labelled = data.read_labels(items, annotations=answers, **how)
    # In the first file, `id` is another usual name, `item`.
    assert [one.ratings for one in labelled.outputs] == [{"safety": (1, 0)}, {"safety": (1,)}]
    assert labelled.outputs[0].annotators == {"safety": ("x", "y")}
    assert labelled.outputs[0].texts == {"document": "A long text.", "summary": "Short."}
    how["map"] |= {"system": "bot"}
    assert "field 'bot': there is no such column" in refusal(items, annotations=answers, **how)


@pytest.mark.parametrize(
    ("second", "advice"),
    [
        ("id,quality\na,excellent\nb,fair\nc,poor\n", "--map label=quality --values 'excellent"),
        ("id,mood,tone\na,3,4\nb,2,3\n", "mood, tone may hold the labels; name those that do"),
        ("id,label\na,safe\nb,unsafe\n", "which word is good, as in --values 'safe=1,unsafe=0'"),
        ("id,winner\na,A\nb,B\n", "are read only from the pairs' own file; add the column winner"),
    ],
)
def test_a_second_file_without_ratings_is_told_and_not_the_first(second, advice):
    labels = file_of(second, "second.csv")
    message = refusal([output("a"), output("b"), output("c")], annotations=labels)
    assert message.startswith("second.csv: ")
    assert advice in message


def test_with_ratings_leaves_out_what_has_none():
    labelled = data.read_labels([output("a", ratings={"relevance": 4}), output("b")])
    assert [one.id for one in data.with_ratings(labelled, "relevance").outputs] == ["a"]
    with pytest.raises(data.LabelError, match="no output is rated on 'fluency', only on relevance"):
        data.with_ratings(labelled, "fluency")


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv"])
@pytest.mark.parametrize("dimensions", [None, ["relevance"]])
def test_a_column_may_hold_a_rating_an_annotator(ending, dimensions):
    lists = [[4, 5, 3], [2, None, 3.5], [1]]
    rows = [output(str(place), relevance=cell) for place, cell in enumerate(lists)]
    file = write_jsonl("labels.jsonl", rows)
    if ending == "parquet":
        pd.DataFrame(rows).to_parquet(file := "labels.parquet")
    if ending == "csv":
        cells = ["[4, 5, 3]", "[2, null, 3.5]", "[1]"]
        pd.DataFrame(rows).assign(relevance=cells).to_csv(file := "labels.csv", index=False)
    labelled = data.read_labels(file, dimensions=dimensions)
    assert labelled.dimensions == ("relevance",)
    assert [one.ratings["relevance"] for one in labelled.outputs] == [(4, 5, 3), (2, 3.5), (1,)]
    assert labelled.outputs[1].annotators["relevance"] == ("1", "3")
    assert ratings(file, map={"charm": "relevance"})[0] == {"charm": (4, 5, 3)}


@pytest.mark.parametrize("dimensions", [None, ["engaging"]])
def test_several_columns_have_one_annotator_each(dimensions):
    rows = "a,Text,Short,1,3\nb,Text,Other,4,\nc,Text,Third,,\n"
    path = file_of(f"id,document,summary,A,B\n{rows}")
    labelled = data.read_labels(path, map={"engaging": ["A", "B"]}, dimensions=dimensions)
    read = [one.ratings.get("engaging") for one in labelled.outputs]
    assert read == [(1, 3), (4,), None]
    assert labelled.outputs[0].annotators == {"engaging": ("A", "B")}
    assert labelled.reading.ratings == {"engaging": ("A", "B")}
    message = refusal(path, map={"document": ["A", "B"]})
    assert "'document': is mapped to 2 columns" in message


def test_annotators_who_may_have_used_different_scales_are_told():
    rows = [output(str(n), charm=[1 + n % 5, 20 * (n % 6)]) for n in range(12)]
    note = "charm: the highest rating by '1' is 5, and by '2' 100; if they used different scales"
    assert any(map(note.__lt__, data.read_labels(rows).notes))
    alike = [output(str(n), charm=[n % 2, n % 5]) for n in range(12)]
    assert not any("different scales" in note for note in data.read_labels(alike).notes)


HEADER = "id,document,summary,system,worker,relevance,fluency,comment,seen\n"
TWO_ROWS_OF_A = "a,One,Short,s1,ann,1,5,so so,May\na,One,Short,s1,bob,3,,fine,June\n"
ROWS_OF_B_AND_C = "b,One,Other,s2,ann,4,4,,May\nc,Two,Short,s1,bob,5,2,yes,May\n"


def test_rows_of_several_annotators_are_one_output_not_several():
    dimensions = ["relevance", "fluency"]
    labelled = data.read_labels(
        file_of(HEADER + TWO_ROWS_OF_A + ROWS_OF_B_AND_C), dimensions=dimensions
    )
    rated = [(one.ratings["relevance"], one.annotators["relevance"]) for one in labelled.outputs]
    assert rated == [((1, 3), ("ann", "bob")), ((4,), ("ann",)), ((5,), ("bob",))]
    assert labelled.outputs[0].ratings["fluency"] == (5,)
    assert len(labelled.documents) == 2
    assert labelled.outputs[0].comments["relevance"] == ("so so", "fine")
    assert labelled.reading.unread == ("seen",)


@pytest.mark.parametrize("is_nested", [True, False])
def test_a_key_inside_ratings_is_read_by_its_path(is_nested):
    cell = '"{""rel"": 2, ""flu"": 4}"'
    flat = file_of(f"id,document,summary,ratings\na,One,Short,{cell}\n")
    source = [output(ratings={"rel": 2, "flu": 4})] if is_nested else flat
    for mapping in ({}, {"relevance": "rel"}):
        message = refusal(source, dimensions=["relevance"], map=mapping)
        assert "ratings.rel" in message
        assert "; name your column with --map relevance=COLUMN" in message
    assert "there is no such column" in refusal(source, map={"relevance": "ratings.nope"})
    assert "charm=COLUMN" in refusal(source, map={"charm": "ratings.nope"})
    assert ratings(source, map={"both": "ratings.rel,ratings.flu"}) == [{"both": (2, 4)}]
    mapping = {"relevance": "ratings.rel"}
    assert ratings(source, dimensions=["relevance"], map=mapping) == [{"relevance": (2,)}]
    assert ratings(source, map=mapping) == [{"relevance": (2,), "flu": (4,)}]


@pytest.mark.parametrize(
    "cells",
    [
        {"annotations": {"label": "fail", "comment": "rude"}},
        # A model's reasons are no comments of people.
        {"label": "fail", "gpt4_reason": "It thinks so.", "critique": "rude"},
    ],
)
def test_a_comment_of_people_is_on_its_label_and_no_rating(cells):
    labelled = data.read_labels([{"input": f"{n}?", "output": f"{n}.", **cells} for n in range(3)])
    assert labelled.dimensions == ("label",)
    assert {one.comments["label"] for one in labelled.outputs} == {("rude",)}


@pytest.mark.parametrize(
    ("dimensions", "comments"),
    [(None, {"fluency": ("It stumbles.",)}), (["fluency"], {"fluency": ("It stumbles.",)}),
     (["relevance"], {})],
)  # fmt: skip
def test_a_second_files_comment_belongs_to_its_columns_dimension(dimensions, comments):
    rows = [{"id": "a", "relevance": 5, "fluency": 2, "fluency_comment": "It stumbles."}]
    second = write_jsonl("second.jsonl", rows)
    first, *_ = data.read_labels([output("a")], annotations=second, dimensions=dimensions).outputs
    assert first.comments == comments
