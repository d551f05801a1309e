"""Files that keep every label ever given: an annotator's last line counts, null takes it back."""

from typing import Any

import pandas as pd
import pytest
from jsonl import write_jsonl
from label_files import refusal

import data
from judges.labels.readers import read_items

Row = dict[str, Any]


def line(item: str, who: str, rating: object, **more: object) -> Row:
    """A label as the page writes it."""
    texts = {"document": f"Text {item[0]}.", "summary": f"Short {item}."}
    time = f"2026-11-23T18:{len(more)}0:00.123Z"
    return {
        **{"id": item, "group": item[0], "system": "s", **texts, "dimension": "helpful"},
        **{"annotator": who, "rating": rating, "labelled_at": time, **more},
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


@pytest.mark.parametrize("is_beside", [False, True])
def test_the_last_line_counts_and_null_takes_a_label_back(is_beside: bool) -> None:
    texts = [{n: row[n] for n in ("id", "document", "summary")} for row in LOG[:5:2]]
    log = write_jsonl("log.jsonl", LOG)
    labelled = data.read_labels(texts, annotations=log) if is_beside else data.read_labels(log)
    assert [(one.annotators, one.ratings) for one in labelled.outputs] == [
        ({"helpful": ("Anna", "Ben")}, {"helpful": (2, 3)}),
        ({}, {}),
        ({"helpful": ("Ben",)}, {"helpful": (1,)}),
    ]
    assert labelled.outputs[0].comments["helpful"] == ("I misread it.", "It rambles.")
    notes = " ".join(labelled.notes)
    assert "1 label changed after seeing others' labels: agreement is not blind" in notes
    assert "no rating on helpful: 1 of 3 outputs" in notes
    assert is_beside or not any(one.comments for one in labelled.outputs[1:])


def test_what_says_when_and_how_is_no_text_and_no_column_that_differs() -> None:
    drawn = {"sampling_weight": 2.5, "sampling_from": 90}
    rows = [row | (drawn if row["id"] == "b1" else {}) for row in LOG]
    pd.DataFrame(rows).to_csv("log.csv", index=False)
    for source in (rows, "log.csv"):
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
    assert "is a second rating of 'a1' on 'helpful' by 'Anna'" in refusal(rows)


def test_of_pairs_the_last_vote_counts() -> None:
    pair = {"prompt": "Why?", "response_a": "So.", "response_b": "No.", "labelled_at": "now"}
    votes = ["p Anna A", "p Ben B", "q Anna A", "p Anna tie", "q Anna "]
    rows = [
        {
            "id": item,
            **pair,
            "annotator": who,
            "preferred": vote or None,
            "comment": f"{who}: {vote}",
        }
        for item, who, vote in (line.split(" ") for line in votes)
    ]
    labelled = data.read_pairs(rows)
    assert [(one.id, one.votes) for one in labelled.pairs] == [("p", ("tie", "B"))]
    assert labelled.pairs[0].comments == ("Anna: tie", "Ben: B")
    assert "left out for lack of a vote: 1 pair" in labelled.notes
