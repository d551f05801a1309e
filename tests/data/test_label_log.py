"""Files that keep every label ever given: an annotator's last line counts, null takes it back."""

from pathlib import Path

import pandas as pd
import pytest
from jsonl import write_jsonl

import data
from judges.labels.readers import read_items

Row = dict[str, object]


def line(item: str, who: str, rating: object, **more: object) -> Row:
    """A label as the page writes it."""
    return {
        **{"id": item, "group": item[0], "system": "s", "document": f"Text {item[0]}."},
        **{"summary": f"Short {item}.", "dimension": "helpful", "annotator": who},
        **{"rating": rating, "labelled_at": f"2026-11-23T18:{len(more)}0:00.123Z", **more},
    }


LOG = [
    line("a1", "Anna", 4),
    line("a1", "Ben", 3, comment="It rambles."),
    line("a2", "Anna", 1, comment="Too short."),
    line("a1", "Anna", 2, comment="I misread it.", changed_after="annotators"),
    line("b1", "Ben", 5),
    line("a2", "Anna", None),
    line("b1", "Ben", None),
    line("b1", "Ben", 1),
]


def test_the_last_line_counts_and_null_takes_a_label_back() -> None:
    labelled = data.read_labels(LOG)
    assert [(o.annotators, o.ratings) for o in labelled.outputs[::2]] == [
        ({"helpful": ("Anna", "Ben")}, {"helpful": (2, 3)}),
        ({"helpful": ("Ben",)}, {"helpful": (1,)}),
    ]
    assert labelled.outputs[1].ratings == {}
    assert [output.comments.get("helpful") for output in labelled.outputs] == [
        ("I misread it.", "It rambles."),
        None,
        None,
    ]
    assert labelled.notes == (
        "1 label changed after seeing others' labels: agreement is not blind",
        "no rating on helpful: 1 of 3 outputs",
    )


def test_what_says_when_and_how_is_no_text_and_no_column_that_differs(tmp_path: Path) -> None:
    said = {"sampling_weight": 2.5, "sampling_from": 90}
    rows = [row | (said if row["id"] == "b1" else {}) for row in LOG]
    pd.DataFrame(rows).to_csv(tmp_path / "log.csv", index=False)
    for source in (rows, tmp_path / "log.csv"):
        for labelled in (data.read_labels(source), read_items(source)):
            assert {*labelled.items[0].texts} == {"document", "summary"}
            assert not any("left out" in note for note in labelled.notes)
            assert labelled.reading.unread == ()


def test_a_sheet_with_a_row_an_annotator_keeps_the_last_row_too() -> None:
    texts = {"id": 1, "document": "Text.", "summary": "Short.", "labelled_at": "today"}
    rows = [{**texts, "annotator": "Anna", "helpful": n, "clear": n} for n in (1, 2)]
    labelled = data.read_labels(rows, dimensions=["helpful", "clear"])
    assert [output.ratings for output in labelled.outputs] == [{"helpful": (2,), "clear": (2,)}]


def test_two_labels_of_one_annotator_stay_refused_where_no_time_is_known() -> None:
    rows = [{name: row[name] for name in row if name != "labelled_at"} for row in LOG]
    with pytest.raises(data.LabelError, match="is a second rating of 'a1' on 'helpful' by 'Anna'"):
        data.read_labels(rows)


def test_a_log_beside_the_outputs_brings_ratings_and_comments(tmp_path: Path) -> None:
    texts = {"document", "summary", "id"}
    outputs = [{name: row[name] for name in row if name in texts} for row in LOG[:3:2]]
    outputs += [{"id": "b1", "document": "Text b.", "summary": "Short b1.", "comment": "mine"}]
    labelled = data.read_labels(outputs, annotations=write_jsonl(tmp_path / "log.jsonl", LOG))
    assert [output.ratings for output in labelled.outputs] == [
        {"helpful": (2, 3)},
        {},
        {"helpful": (1,)},
    ]
    assert labelled.outputs[0].comments["helpful"] == ("I misread it.", "It rambles.")
    assert any("1 label changed after seeing others'" in note for note in labelled.notes)


def test_of_pairs_the_last_vote_counts() -> None:
    pair = {"prompt": "Why?", "response_a": "So.", "response_b": "No.", "labelled_at": "now"}
    votes = [("p", "Anna", "A"), ("p", "Ben", "B"), ("q", "Anna", "A"), ("p", "Anna", "tie")]
    rows = [
        {"id": item, **pair, "annotator": who, "preferred": vote, "comment": f"{who}: {vote}"}
        for item, who, vote in [*votes, ("q", "Anna", None)]
    ]
    labelled = data.read_pairs(rows)
    assert [(one.id, one.votes) for one in labelled.pairs] == [("p", ("tie", "B"))]
    assert labelled.pairs[0].comments == ("Anna: tie", "Ben: B")
    assert "left out for lack of a vote: 1 pair" in labelled.notes
