"""Which column holds the labels of a dimension that no column is called."""

import pytest

import data
from data import LabelError

MORE = {"latency_s": 1.5, "tokens": 90, "model": "m", "date": "2026-10-01"}


def rows(**labels: tuple[object, object]) -> list[dict[str, object]]:
    """Eight outputs, each with the first or the second value of every label."""
    return [
        {"input": f"{n}+{n}?", "output": 2 * n}
        | MORE
        | {name: values[n % 2] for name, values in labels.items()}
        for n in range(8)
    ]


@pytest.mark.parametrize(
    "column",
    ["label", "Verdict", "human_label", "is_correct", "final grade", "Urteil", "is_polite", "ok"],
)
def test_the_one_column_of_labels_is_taken_and_named(column: str) -> None:
    labelled = data.read_labels(rows(**{column: ("yes", "no")}), dimensions=["polite"])
    assert labelled.words == {"polite": ("yes", "no")}
    assert f"no column is called polite: its labels are read from {column!r}" in labelled.notes
    assert labelled.outputs[3].texts["output"] == "6"


def test_a_label_inside_an_object_is_found_by_its_name() -> None:
    nested = [{**row, "feedback": {"score": n % 2}} for n, row in enumerate(rows())]
    assert data.read_labels(nested, dimensions=["polite"]).words == {"polite": ("1", "0")}


def test_of_several_columns_the_flag_says_which() -> None:
    with pytest.raises(LabelError, match="--map polite=label or --map polite=verdict"):
        data.read_labels(rows(label=("yes", "no"), verdict=("yes", "no")), dimensions=["polite"])


def test_a_lone_column_of_another_name_is_not_taken_for_labels() -> None:
    judged = rows(gpt4_verdict=("yes", "no"))
    with pytest.raises(LabelError, match="--map polite=latency_s or"):
        data.read_labels(judged, dimensions=["polite"])


@pytest.mark.parametrize(("name", "column"), [("relevnce", "label"), ("relevance", "coherence")])
def test_labels_are_not_taken_for_a_misspelled_name_nor_from_another_dimension(
    name: str, column: str
) -> None:
    with pytest.raises(LabelError, match="no output has a rating on it"):
        data.read_labels(rows(**{column: (1, 0)}), dimensions=[name])


def test_times_and_an_object_of_labels_are_no_texts_and_its_leaf_is_named() -> None:
    cells = ('{"user": "a", "feedback": "pass"}', '{"user": "b", "feedback": "fail"}')
    times, none = ("2024-03-01T10:00:00Z", "2024-03-02"), (None, None)
    nested = rows(metadata=cells, ts=times, latency_s=none, tokens=none)
    with pytest.raises(
        LabelError, match=r"no column has a known name .*; .* --map label=metadata\.feedback, or"
    ):
        data.read_labels(nested)
    labelled = data.read_labels(nested, map={"label": "metadata.feedback"})
    assert [*labelled.reading.texts] == ["input", "output"]


def test_columns_of_labels_are_asked_about_by_a_flag_that_reads_them() -> None:
    both = rows(label=("pass", "fail"), human_label=("pass", "fail"))
    with pytest.raises(LabelError, match=r"label, human_label hold labels; .* --map label=label"):
        data.read_labels(both)
    assert data.read_labels(both, map={"label": "label"}).dimensions == ("label",)


def test_a_column_of_few_values_that_repeat_is_no_text_and_is_a_system_by_its_name() -> None:
    rows = [
        {"Frage": f"Frage {n // 2}, bitte?", "Antwort": f"Antwort {n}.", "Urteil": n % 2}
        for n in range(12)
    ]
    bots = [{**row, "Bot": ("alt", "neu")[n % 2]} for n, row in enumerate(rows)]
    labelled = data.read_labels(bots)
    assert labelled.systems == ("alt", "neu")
    assert {*labelled.reading.texts} == {"frage", "antwort"}
    others = [{"Fassung" if name == "Bot" else name: row[name] for name in row} for row in bots]
    labelled = data.read_labels(others)
    assert labelled.reading.unread == ("Fassung",)
    # What a bot says is a text, whatever its column is called.
    said = [{**row, "Bot": f"I am the bot, and this is what I say to that, {row}"} for row in rows]
    assert data.read_labels(said).reading.texts["Bot"] == "Bot"
