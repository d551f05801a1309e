"""Which column holds the labels of a dimension that no column is called; outputs without labels."""

import itertools

import numpy as np
import pandas as pd
import pytest
from command_runs import run
from files import refusal

import data
from judges.labels.readers import read_items
from optimize.__main__ import command as tune
from optimize.check import command as check
from optimize.items import annotation_matrix

OTHER_CELLS = {"latency_s": 1.5, "tokens": 90, "model": "m", "date": "2026-10-01"}
EMPTY_CELLS = {"latency_s": (None, None), "tokens": (None, None)}


def rows(**labels: tuple[object, object]) -> list[dict[str, object]]:
    """Eight outputs, each with the first or the second value of every label."""
    return [
        {"input": f"{n}+{n}?", "output": 2 * n, **OTHER_CELLS}
        | {name: values[n % 2] for name, values in labels.items()}
        for n in range(8)
    ]


@pytest.mark.parametrize(
    "column",
    ["label", "Verdict", "human_label", "is_correct", "final grade", "Urteil", "is_polite", "ok"],
)
def test_the_one_column_of_labels_is_taken_and_named(column):
    labelled = data.read_labels(rows(**{column: ("yes", "no")}), dimensions=["polite"])
    assert labelled.words == {"polite": ("yes", "no")}
    assert f"no column is called polite: its labels are read from {column!r}" in labelled.notes
    assert labelled.outputs[3].texts["output"] == "6"


@pytest.mark.parametrize(
    ("labels", "name", "message"),
    [
        (("label", "verdict"), "polite", "--map polite=label or --map polite=verdict"),
        # A lone column of another name, and labels of a misspelled name or of another dimension.
        (("gpt4_verdict",), "polite", "--map polite=latency_s or"),
        (("label",), "relevnce", "no output has a rating on it"),
        (("coherence",), "relevance", "no output has a rating on it"),
    ],
)
def test_labels_of_no_sure_dimension_are_asked_for(labels, name, message):
    values = (1, 0) if name.startswith("rel") else ("yes", "no")
    assert message in refusal(rows(**dict.fromkeys(labels, values)), dimensions=[name])


@pytest.mark.parametrize(
    ("columns", "question"),
    [
        ({"Quality": ("Excellent", "Poor"), "QA reviewed?": ("Y", "N")}, "Quality, QA reviewed?"),
        ({"Stars": ("★★★★★", "★★"), "Verified": (True, False)}, "Stars, Verified"),
        ({"label": ("ship", "hold"), "approved": ("yes", "no")}, "label, approved"),
        ({"label": ("pass", "fail"), "human_label": ("pass", "fail")}, "label, human_label"),
    ],
)
def test_two_columns_that_may_hold_the_labels_are_asked_about(columns, question):
    table, (name, *_) = rows(**columns, **EMPTY_CELLS), columns
    message = refusal(table)
    assert f"{question} may hold the labels; " in message
    assert f"name those that do, as in --map {name}={name} or --map" in message
    good, bad = columns[name]
    labelled = data.read_labels(table, map={name: name}, values={good: 1, bad: 0})
    assert [one.rating(name) for one in labelled.outputs] == [1, 0] * 4


@pytest.mark.parametrize(
    "columns",
    [
        {"QA reviewed?": ("Y", "N"), "Topic": ("rooms", "meals")},
        {"relevance": (4, 2), "Quality": ("Excellent", "Poor")},
        {"relevance": (4, 2), "embedding": ([0.1] * 101, [0.2] * 101)},
        *(
            {"relevance": (4, 2), number_name: (3, 5)}
            for number_name in ("Fall-Nr.", "Frage-Nr", "case_number", "Ticketnummer")
        ),
    ],
)
def test_other_columns_that_hold_no_labels_leave_no_doubt(columns):
    table, (name, _) = rows(**columns, **EMPTY_CELLS), columns
    assert data.read_labels(table).dimensions == (name,)


def test_a_label_inside_an_object_is_named_by_its_path():
    cells = ('{"user": "a", "feedback": "pass"}', '{"user": "b", "feedback": "fail"}')
    table = rows(metadata=cells, ts=("2024-03-01T10:00:00Z", "2024-03-02"), **EMPTY_CELLS)
    message = refusal(table)
    assert "no column of labels was recognised" in message
    assert " --map label=metadata.feedback, or" in message
    labelled = data.read_labels(table, map={"label": "metadata.feedback"})
    assert [*labelled.reading.texts] == ["input", "output"]
    # A label inside an object is found by its name.
    table = rows(feedback=({"score": 0}, {"score": 1}))
    assert data.read_labels(table, dimensions=["polite"]).words == {"polite": ("1", "0")}


def test_a_column_of_few_repeated_values_is_no_text():
    def read(name: str, *values: str) -> data.LabelledSet:
        return data.read_labels(
            [
                {"Frage": f"Frage {n // 2}, bitte?", "Antwort": f"Antwort {n}."}
                | {"Urteil": n % 2, name: values[n % len(values)]}
                for n in range(12)
            ]
        )

    labelled = read("Bot", "alt", "neu")
    assert labelled.systems == ("alt", "neu")
    assert {*labelled.reading.texts} == {"frage", "antwort"}
    assert read("Fassung", "alt", "neu").reading.unread == ("Fassung",)
    # What a bot says is a text, whatever its column is called.
    table = read("Bot", *(f"I am the bot, and this is what I say to that, {n}" for n in range(12)))
    assert table.reading.texts["Bot"] == "Bot"


ITEM_TEXTS = [{"document": f"Text {n // 2}.", "summary": f"Short {n}."} for n in range(4)]
ITEMS = [
    {"id": f"o{n}", "group": f"g{n // 2}", "system": "AB"[n % 2], **text}
    for n, text in enumerate(ITEM_TEXTS)
]

LABEL_COLUMNS: list[dict[str, object]] = [
    {},
    {"ratings": {"relevance": 3}, "annotations": {"relevance": [3, 2]}},
    {"relevance": 1e6, "fluency": "four"},
    {"label": "so-so", "mood": "grim"},
    {"pass": True, "critique": "It is far too short for anybody to use."},
    {"llm_reason": "It follows the text closely in all it says.", "llm_score": 0.7},
    {"dimension": "good", "annotator": "Anna", "rating": 4, "labelled_at": "2026-11-23"},
]


@pytest.mark.parametrize("labels", LABEL_COLUMNS)
def test_outputs_need_no_label_and_labels_are_no_texts(labels):
    items = read_items([row | labels for row in ITEMS])
    assert isinstance(items, data.LabelledSet)
    assert [dict(item.texts) for item in items.outputs] == ITEM_TEXTS
    for row, item in zip(ITEMS, items.outputs, strict=True):
        assert (item.document_id, item.system) == (row["group"], row["system"])
        assert (item.ratings, item.comments) == ({}, {})


def test_a_mapping_makes_a_text_of_what_may_be_a_label():
    rows = [row | {"genre": "news"} for row in ITEMS]
    assert read_items(rows).reading.unread == ("genre",)
    items = read_items(rows, map={"context": "genre"}).items
    assert {item.texts["context"] for item in items} == {"news"}
    rows = [row | {"annotator": who, "relevance": 2} for row in ITEMS for who in ("Anna", "Ben")]
    assert [item.id for item in read_items(rows).items] == ["o0", "o1", "o2", "o3"]


def test_lists_of_votes_are_no_text_that_an_annotator_sees():
    rows = [
        {"prompt": f"Why {n}?", "answer_1": "Yes.", "answer_2": "No.", "stimmen": [*votes]}
        for n, votes in enumerate(itertools.product(("1", "2", "gleich"), repeat=3))
    ]
    assert {*read_items(rows, pairwise=True).items[0].texts} == {"prompt"}


def test_a_text_that_groups_outputs_is_still_a_text():
    rows = [
        {"artículo": f"Es begann vor {n // 2} Jahren in Rom.", "output": f"Rom {n}.", "tone": 3}
        for n in range(8)
    ]
    labelled = data.read_labels(rows, map={"group": "artículo"})
    assert len(labelled.documents) == 4
    assert rows[0]["artículo"] in labelled.outputs[0].texts.values()


@pytest.mark.parametrize("vote", [{}, {"votes": ["A", "B"]}, {"preferred": "nobody"}])
def test_pairs_need_no_vote(vote):
    sides = {"answer_1": "Yes.", "answer_2": "No.", "model_a": "x", "model_b": "y"}
    rows = [{"prompt": f"Why {n}?", **sides, **vote} for n in range(3)]
    pairs = read_items(rows, pairwise=True)
    assert isinstance(pairs, data.LabelledPairs)
    first = pairs.pairs[0]
    assert (first.texts, first.response_a) == ({"prompt": "Why 0?"}, "Yes.")
    assert first.response_b == "No."
    assert {pair.votes for pair in pairs.pairs} == {()}
    assert pairs.systems == ("x", "y")
    reason = "holds pairs of outputs, answer_1, answer_2; plan cannot plan pairs"
    assert reason in refusal(rows, read=read_items)
    assert "no two columns hold a pair's outputs" in refusal(ITEMS, read=read_items, pairwise=True)


def test_a_lone_rating_counts_for_its_named_annotator():
    ratings = [(0, "Anna", 4), (0, "Ben", 3), (1, "Anna", 2)]
    rated = [
        {"id": n, "input": f"{n}?", "output": f"{n}.", "annotator": name, "tone": rating}
        for n, name, rating in ratings
    ]
    matrix, names = annotation_matrix(data.read_labels(rated, dimensions=["tone"]), "tone")
    assert names == ("Anna", "Ben")
    assert np.array_equal(matrix, [[4, 3], [2, np.nan]], equal_nan=True)


TICKETS = [
    {
        "Sent": f"2026/11/{n + 1:02} 9:00:11 AM GMT+1",
        "trace_id": f"tr-{n:04}",
        "source": f"https://example.org/{n % 14}",
        "Customer message": f"Where is order {n}, please?",
        "Reply": f"It is on its way, number {n}.",
        "verdict": ("pass", "fail")[n % 2],
    }
    for n in range(28)
]


def test_identifiers_addresses_and_times_are_no_texts_and_may_be_named():
    labelled = data.read_labels(TICKETS)
    assert labelled.reading.texts == {"Customer message": "Customer message", "reply": "Reply"}
    assert labelled.reading.unread == ("Sent", "trace_id", "source")
    assert labelled.reading.likely_names == {"trace_id": "id", "source": "group"}
    assert data.read_labels(TICKETS, map={"address": "source"}).outputs[0].texts["address"]
    pd.DataFrame(TICKETS).to_csv("tickets.csv", index=False)
    flags = "--map 'input=Customer message', --map id=trace_id, --map group=source"
    for result in (run(check, "tickets.csv"), run(tune, "--data", "tickets.csv")):
        assert flags in " ".join(f"{result.out} {result.err}".split())


def test_votes_under_another_name_are_asked_for():
    rows = [{"ask": f"Why {n}?", "gpt": f"So {n}.", "bard": f"No {n}."} for n in range(6)]
    message = refusal([row | {"best": ("gpt", "bard")[n % 2]} for n, row in enumerate(rows)])
    assert "for pairs: --map votes=COLUMN --map response_a=COLUMN --map" in message


def test_a_judge_finds_the_column_that_it_was_named_after():
    labelled = data.read_labels(rows(**{"Verständlich?": (4, 2)}), dimensions=["verstandlich"])
    assert labelled.reading.ratings == {"verstandlich": ("Verständlich?",)}
    # A name in another script has no words that other columns could share.
    labelled = data.read_labels(rows(质量=(4, 2)), dimensions=["质量"])
    assert labelled.reading.ratings == {"质量": ("质量",)}
