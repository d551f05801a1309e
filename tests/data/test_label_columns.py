"""Which column holds the labels of a dimension that no column is called."""

import pytest
from label_files import refusal

import data

MORE = {"latency_s": 1.5, "tokens": 90, "model": "m", "date": "2026-10-01"}


def rows(**labels: tuple[object, object]) -> list[dict[str, object]]:
    """Eight outputs, each with the first or the second value of every label."""
    return [
        {"input": f"{n}+{n}?", "output": 2 * n, **MORE}
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
    nested = rows(feedback=({"score": 0}, {"score": 1}))
    assert data.read_labels(nested, dimensions=["polite"]).words == {"polite": ("1", "0")}


@pytest.mark.parametrize(
    ("labels", "name", "asked"),
    [
        (("label", "verdict"), "polite", "--map polite=label or --map polite=verdict"),
        # A lone column of another name, and labels of a misspelled name or of another dimension.
        (("gpt4_verdict",), "polite", "--map polite=latency_s or"),
        (("label",), "relevnce", "no output has a rating on it"),
        (("coherence",), "relevance", "no output has a rating on it"),
    ],
)
def test_labels_of_no_sure_dimension_are_asked_for(
    labels: tuple[str, ...], name: str, asked: str
) -> None:
    values = (1, 0) if name.startswith("rel") else ("yes", "no")
    assert asked in refusal(rows(**dict.fromkeys(labels, values)), dimensions=[name])


def test_times_and_an_object_of_labels_are_no_texts_and_its_leaf_is_named() -> None:
    cells = ('{"user": "a", "feedback": "pass"}', '{"user": "b", "feedback": "fail"}')
    none, times = (None, None), ("2024-03-01T10:00:00Z", "2024-03-02")
    nested = rows(metadata=cells, ts=times, latency_s=none, tokens=none)
    message = refusal(nested)
    assert "no column has a known name " in message
    assert " --map label=metadata.feedback, or" in message
    labelled = data.read_labels(nested, map={"label": "metadata.feedback"})
    assert [*labelled.reading.texts] == ["input", "output"]


def test_columns_of_labels_are_asked_about_by_a_flag_that_reads_them() -> None:
    both = rows(label=("pass", "fail"), human_label=("pass", "fail"))
    message = refusal(both)
    assert "label, human_label hold labels; " in message
    assert " --map label=label" in message
    assert data.read_labels(both, map={"label": "label"}).dimensions == ("label",)


def test_a_column_of_few_values_that_repeat_is_no_text_and_is_a_system_by_its_name() -> None:
    def read(name: str, *values: str) -> data.LabelledSet:
        texts = (
            {"Frage": f"Frage {n // 2}, bitte?", "Antwort": f"Antwort {n}."} for n in range(12)
        )
        labels = ({"Urteil": n % 2, name: values[n % len(values)]} for n in range(12))
        return data.read_labels([text | label for text, label in zip(texts, labels, strict=True)])

    labelled = read("Bot", "alt", "neu")
    assert labelled.systems == ("alt", "neu")
    assert {*labelled.reading.texts} == {"frage", "antwort"}
    assert read("Fassung", "alt", "neu").reading.unread == ("Fassung",)
    # What a bot says is a text, whatever its column is called.
    said = read("Bot", *(f"I am the bot, and this is what I say to that, {n}" for n in range(12)))
    assert said.reading.texts["Bot"] == "Bot"
