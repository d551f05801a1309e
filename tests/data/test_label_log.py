"""Files as a label page writes them: the last label counts, documents weigh as they were drawn.

The files go through every command that reads labels.
"""

from collections.abc import Mapping
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from command_runs import output_of, run
from files import refusal, write_jsonl

import data
import judges
from judges.labels.preparation import UNIFORM_SAMPLING, DocumentSampling, document_weights
from judges.labels.readers import is_constructed, read_items
from optimize.__main__ import command as tune
from optimize.check import command as check
from optimize.verify import command as verify

Row = dict[str, Any]


def log_line(item: str, who: str, rating: object, **more: object) -> Row:
    """A label as the page writes it."""
    texts = {"document": f"Text {item[0]}.", "summary": f"Short {item}."}
    time = f"2026-11-23T18:{len(more)}0:00.123Z"
    return {
        **{"id": item, "group": item[0], "system": "s", **texts, "dimension": "helpful"},
        **{"annotator": who, "rating": rating, "labelled_at": time, **more},
    }


LABEL_LOG = [
    log_line("a1", "Anna", 4),
    log_line("a1", "Ben", 3, comment="It rambles."),
    log_line("a2", "Anna", 1, comment="Too short."),
    log_line("a1", "Anna", 2, comment="I misread it.", changed_after="annotators"),
    log_line("b1", "Ben", 5),
    log_line("a2", "Anna", None),
    log_line("b1", "Ben", None),
    log_line("b1", "Ben", 1),
]


@pytest.mark.parametrize("is_beside", [False, True])
def test_the_last_line_counts_and_null_takes_a_label_back(is_beside):
    texts = [
        {"Output": row["id"], "document": row["document"], "summary": row["summary"]}
        for row in LABEL_LOG[:5:2]
    ]
    log = write_jsonl("log.jsonl", LABEL_LOG)
    labelled = data.read_labels(log)
    if is_beside:  # the column of ids in the first file has another name than that in the log
        labelled = data.read_labels(texts, annotations=log, map={"id": "Output"})
    assert [(one.annotators, one.ratings) for one in labelled.outputs] == [
        ({"helpful": ("Anna", "Ben")}, {"helpful": (2, 3)}),
        ({}, {}),
        ({"helpful": ("Ben",)}, {"helpful": (1,)}),
    ]
    assert labelled.outputs[0].comments["helpful"] == ("I misread it.", "It rambles.")
    notes = " ".join(labelled.notes)
    assert "1 label changed after the annotator saw others' labels: agreement is not blind" in notes
    assert "no rating on helpful: 1 of 3 outputs" in notes
    assert is_beside or not any(one.comments for one in labelled.outputs[1:])


def test_times_and_sampling_columns_are_no_texts():
    weight = {"sampling_weight": 2.5, "sampling_from": 90}
    rows = [row | (weight if row["id"] == "b1" else {}) for row in LABEL_LOG]
    pd.DataFrame(rows).to_csv("log.csv", index=False)
    for source in (rows, "log.csv"):
        for labelled in (data.read_labels(source), read_items(source)):
            assert {*labelled.items[0].texts} == {"document", "summary"}
            assert not any("left out" in note for note in labelled.notes)
            assert labelled.reading.unread == ()


def test_of_pairs_the_last_vote_counts():
    pair = {"prompt": "Why?", "response_a": "So.", "response_b": "No.", "labelled_at": "now"}
    votes = ["p Anna A", "p Ben B", "q Anna A", "p Anna tie", "q Anna "]
    names = ("id", "annotator", "preferred")
    rows = [dict(zip(names, each.split(" "), strict=True)) for each in votes]
    comments = [f"{row['annotator']}: {row['preferred']}" for row in rows]
    labelled = data.read_pairs(
        [{**pair, **row, "comment": why} for row, why in zip(rows, comments, strict=True)]
    )
    assert [(one.id, one.votes) for one in labelled.pairs] == [("p", ("tie", "B"))]
    assert labelled.pairs[0].comments == ("Anna: tie", "Ben: B")
    assert "left out 1 pair without a vote" in labelled.notes


VALUE_BY_DOCUMENT = {"a": 1.0, "b": 0.0, "c": 4.0, "d": 2.0, "e": 7.0, "f": 1.0, "g": 5.0}
Draws = dict[str, DocumentSampling]


def weighted_mean(draws: Mapping[str, DocumentSampling]) -> float:
    weights = document_weights(draws)
    return sum(weight * VALUE_BY_DOCUMENT[name] for name, weight in weights.items()) / len(weights)


def next_draws(draws: Draws) -> list[Draws]:
    """Every outcome, all equally likely, of a draw of one document from each of two strata.

    Which strata is decided by the labels so far, and their documents' chances differ.
    """
    left = [name for name in VALUE_BY_DOCUMENT if name not in draws]
    first = 1 + (sum(VALUE_BY_DOCUMENT[name] for name in draws) > 5) * (len(left) > 3)
    strata = left[:first], left[first:]
    sizes = [DocumentSampling(len(stratum), len(left)) for stratum in strata]
    return [draws | dict(zip(sample, sizes, strict=True)) for sample in product(*strata)]


def outcomes(rounds: int) -> list[tuple[float, Draws]]:
    """Every outcome with its chance: two documents at random, and then so many rounds."""
    if not rounds:
        pairs = [*combinations(VALUE_BY_DOCUMENT, 2)]
        return [(1 / len(pairs), dict.fromkeys(pair, UNIFORM_SAMPLING)) for pair in pairs]
    before = [(chance, next_draws(draws)) for chance, draws in outcomes(rounds - 1)]
    return [(chance / len(after), draws) for chance, after in before for draws in after]


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_over_all_outcomes_the_mean_is_that_of_all_documents(rounds):
    mean = sum(chance * weighted_mean(draws) for chance, draws in outcomes(rounds))
    assert mean == pytest.approx(
        sum(VALUE_BY_DOCUMENT.values()) / len(VALUE_BY_DOCUMENT), abs=1e-12
    )


def output(item: str, **cells: object) -> dict[str, object]:
    """An output of the document that its id begins with."""
    return {"id": item, "group": item[0], "document": f"Text {item[0]}.", "summary": item} | cells


def draw(weight: object, size: object) -> dict[str, object]:
    return {"sampling_weight": weight, "sampling_from": size}


OUTPUTS = [
    *(output("a1", **draw(None, None)), output("a2")),
    *(output("b1", **draw(2, 8)), output("c1", **draw("6.0", "8")), output("c2", **draw(6, 8))),
    *(output("d1", **draw(4, 8)), output("e1")),
]
RATINGS = {"a1": 1, "a2": 2, "b1": 3, "c1": 4, "c2": 5}
# Of 3 labelled documents 2 are drawn from 8, and a is before them, so that all are 9. It counts
# 3 (1/3 + 2/3 * 1/9); b and c 3 * 2/3 * 8/9 in the ratio of 2 to 6.
WEIGHTS = {"a": 11 / 9, "b": 4 / 9, "c": 12 / 9}


def test_the_labelled_documents_of_a_file_weigh_by_its_columns():
    plain = [output(str(row["id"])) for row in OUTPUTS]
    draws = [{n: c for n, c in row.items() if n == "id" or "sampling" in n} for row in OUTPUTS]
    label = {"dimension": "good", "annotator": "x"}
    labels = [row | label | {"rating": RATINGS[row["id"]]} for row in draws if row["id"] in RATINGS]  # type: ignore[index]
    long = write_jsonl("labels.jsonl", labels)
    rated = [row | {"good": RATINGS.get(str(row["id"]))} for row in OUTPUTS]
    for labelled in (
        data.read_labels(rated, dimensions=["good"]),
        data.read_labels(plain, annotations=long),
        data.read_labels(OUTPUTS, annotations=long),
    ):
        weights = {one.document_id: one.weight for one in labelled.outputs if one.ratings}
        assert weights == pytest.approx(WEIGHTS)
        assert labelled.outputs[2].texts == {"document": "Text b.", "summary": "b1"}
        assert any("drawn with unequal chances" in note for note in labelled.notes)


@pytest.mark.parametrize(
    ("weight", "size", "fault"),
    [
        *((weight, 8, "are not two numbers above 0") for weight in (0, -1, "inf", "two", None)),
        (2, None, "are not two numbers above 0"),
        (3, 8, "differ from another row of the document 'a'"),
    ],
)
def test_nonsense_is_refused_with_a_way_out(weight, size, fault):
    rows = [output("a0", good=0, **draw(2, 8)), output("a1", good=1, **draw(weight, size))]
    message = refusal(rows, dimensions=["good"])
    assert message.startswith(f"rows, row 2: [{weight!r}, {size}] {fault}; correct sampling_weight")
    assert "or remove both: then all documents count alike" in message


COMMENT = "It leaves out the point."
LABEL = {"comment": COMMENT, "annotator": "Anna", "labelled_at": "2026-11-23T18:20:00.123Z"}


def lines() -> list[dict[str, Any]]:
    """Passes and fails of 180 starter outputs by two annotators, the first of which is changed."""
    items = read_items("starter")
    rows: list[dict[str, Any]] = []
    for rated, item in zip(data.starter().outputs[:180], items.outputs, strict=False):
        texts = {"id": item.id, "group": item.document_id, "system": item.system, **item.texts}
        for who, low in (("Anna", 2.9), ("Ben", 3.1)):
            rating = "pass" if rated.rating("relevance") > low else "fail"
            rows.append(
                texts | LABEL | {"dimension": "helpful", "annotator": who, "rating": rating}
            )
    return [*rows, rows[0] | {"changed_after": "annotators"}, rows[1] | {"rating": None}]


def test_a_label_log_of_passes_and_fails_tunes_a_verdict_judge():
    file = write_jsonl("outputs.helpful.jsonl", lines())
    assert "180 outputs rated by 2 annotators: " in output_of(check, file)
    output_of(tune, "--dimension", "helpful", "--data", file, "--out", "run", "--max-calls", "500")
    assert COMMENT in Path("run/report.html").read_text()
    assert "further outputs; these are not measured" in output_of(verify, "run", "--data", file)
    judge = judges.load("run")
    assert (judge.subject.words, judge.texts) == (("pass", "fail"), ("document", "summary"))
    assert COMMENT in Path("run/misses.csv").read_text()
    items = read_items("starter_unlabelled")
    rated = [
        LABEL | {"id": item.id, "dimension": "helpful", "rating": "pass" if n % 3 else "fail"}
        for n, item in enumerate(items.items)
    ]
    long = write_jsonl("long.jsonl", rated)
    out = output_of(verify, "run", "--data", "starter_unlabelled", "--annotations", long)
    assert "people: It leaves out" in out
    labelled = data.read_labels("starter_unlabelled", annotations=long)
    assert not is_constructed(labelled.sha256)
    assert not is_constructed(items.sha256)


def test_a_file_without_labels_is_told_how_to_get_some():
    result = run(check, "starter_unlabelled")
    problem = "no column of labels was recognised; the columns are id, group, system"
    assert (result.code, problem in result.out) == (1, True)
    assert "or give labels: dspy-judges label FILE --dimension NAME" in result.out


@pytest.mark.parametrize("flags", [(), ("--map", "label=Verdict"), ("--dimension", "Verdict")])
def test_a_column_of_labels_that_nobody_has_filled_in_is_called_empty(flags):
    rows = [{"question": f"What is {n}?", "answer": f"{n}.", "Verdict": ""} for n in range(9)]
    result = run(check, write_jsonl("sheet.jsonl", rows), *flags)
    assert (result.code, "(empty: Verdict)" in result.out) == (1, True), result.out
    assert "did you mean" not in result.out


def test_the_unlabelled_starter_set_does_not_name_the_systems():
    items, starter = read_items("starter_unlabelled"), data.starter()
    assert (len(items.items), len(items.documents)) == (30, 10)
    names = " ".join(f"{item.id} {item.document_id} {item.system}" for item in items.items)
    assert not any(system in names for system in starter.systems)
    # Every text is one of the starter set's.
    texts = {output.texts["summary"] for output in starter.outputs}
    assert {item.texts["summary"] for item in items.items} <= texts
