"""Outputs and pairs for somebody who is to label them: every text, and nothing of labels."""

import pytest
from label_files import refusal

import data
from judges.labels.readers import read_items

TEXTS = [{"document": f"Text {n // 2}.", "summary": f"Short {n}."} for n in range(4)]
ROWS = [
    {"id": f"o{n}", "group": f"g{n // 2}", "system": "AB"[n % 2], **text}
    for n, text in enumerate(TEXTS)
]

LABELS: dict[str, dict[str, object]] = {
    "none": {},
    "nested": {"ratings": {"relevance": 3}, "annotations": {"relevance": [3, 2]}},
    "a number off every scale": {"relevance": 1e6, "fluency": "four"},
    "words of nobody's": {"label": "so-so", "mood": "grim"},
    "verdicts and critiques": {"pass": True, "critique": "It is far too short for anybody to use."},
    "a model's": {"llm_reason": "It follows the text closely in all it says.", "llm_score": 0.7},
    "ours": {"dimension": "good", "annotator": "Anna", "rating": 4, "labelled_at": "2026-11-23"},
}


@pytest.mark.parametrize("name", LABELS)
def test_outputs_need_no_label_and_labels_in_the_file_are_no_texts(name: str) -> None:
    items = read_items([row | LABELS[name] for row in ROWS])
    assert isinstance(items, data.LabelledSet)
    assert [dict(item.texts) for item in items.outputs] == TEXTS
    for row, item in zip(ROWS, items.outputs, strict=True):
        assert (item.document_id, item.system) == (row["group"], row["system"])
        assert (item.ratings, item.comments) == ({}, {})


def test_what_may_be_a_label_is_a_text_where_its_user_says_so() -> None:
    rows = [row | {"genre": "news"} for row in ROWS]
    assert read_items(rows).reading.unread == ("genre",)
    shown = read_items(rows, map={"context": "genre"}).items
    assert {item.texts["context"] for item in shown} == {"news"}


def test_rows_of_several_annotators_are_one_output() -> None:
    rows = [row | {"annotator": who, "relevance": 2} for row in ROWS for who in ("Anna", "Ben")]
    assert [item.id for item in read_items(rows).items] == ["o0", "o1", "o2", "o3"]


@pytest.mark.parametrize("voted", [{}, {"votes": ["A", "B"]}, {"preferred": "nobody"}])
def test_pairs_need_no_vote(voted: dict[str, object]) -> None:
    sides = {"answer_1": "Yes.", "answer_2": "No.", "model_a": "x", "model_b": "y"}
    rows = [{"prompt": f"Why {n}?", **sides, **voted} for n in range(3)]
    pairs = read_items(rows, pairwise=True)
    assert isinstance(pairs, data.LabelledPairs)
    first = pairs.pairs[0]
    assert (first.texts, first.response_a) == ({"prompt": "Why 0?"}, "Yes.")
    assert first.response_b == "No."
    assert {pair.votes for pair in pairs.pairs} == {()}
    assert pairs.systems == ("x", "y")
    told = "holds pairs of candidates, answer_1, answer_2; give pairs"
    assert told in refusal(rows, read=read_items)
    assert "no two columns of candidates" in refusal(ROWS, read=read_items, pairwise=True)


@pytest.mark.parametrize(("part", "judged"), [("turn", "output"), ("conversation", "conversation")])
def test_conversations_are_texts_as_a_judge_reads_them(part: str, judged: str) -> None:
    turns = [{"role": "user", "content": "Is it open?"}, {"role": "assistant", "content": "No."}]
    items = read_items([{"id": 1, "messages": turns, "label": "bad"}], map={"judge": part})
    assert items.items[0].texts[judged].endswith("No.")
    assert "label" not in items.items[0].texts
