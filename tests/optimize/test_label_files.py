"""The files that the label page writes go through every command that reads labels."""

from pathlib import Path
from typing import Any

import pytest
from command_runs import output_of, run
from jsonl import write_jsonl

import data
import judges
from judges.labels.readers import is_constructed, read_items
from optimize.__main__ import command as tune
from optimize.check import command as check
from optimize.verify import command as verify

pytestmark = pytest.mark.usefixtures("here")
COMMENT = "It leaves out the point."
LABEL = {"comment": COMMENT, "annotator": "Anna", "labelled_at": "2026-11-23T18:20:00.123Z"}


def lines(value: str, *, words: bool = False) -> list[dict[str, Any]]:
    """Labels of 180 starter outputs by two annotators, the first of which is changed."""
    items = read_items("starter")
    rows: list[dict[str, Any]] = []
    for rated, item in zip(data.starter().outputs[:180], items.outputs, strict=False):
        texts = {"id": item.id, "group": item.document_id, "system": item.system, **item.texts}
        mark = rated.rating("relevance")
        for who, low in (("Anna", 2.9), ("Ben", 3.1)):
            rating = ("pass" if mark > low else "fail") if words else round(mark)
            rows.append(texts | LABEL | {"dimension": value, "annotator": who, "rating": rating})
    return [*rows, rows[0] | {"changed_after": "annotators"}, rows[1] | {"rating": None}]


def test_ratings_are_checked_and_the_last_rating_counts():
    file = write_jsonl("outputs.relevance.jsonl", lines("relevance"))
    page = output_of(check, file)
    assert "relevance: 1 to 5, 180 outputs rated by 2 annotators" in page
    assert "text document; text summary; ratings rating comments comment" in page
    assert "1 label changed after the annotator saw others'" in page
    assert "not read" not in page
    labelled = data.read_labels(file).outputs
    assert [len(output.ratings["relevance"]) for output in labelled] == [1] + [2] * 179


def test_labels_of_pass_and_fail_give_a_verdict_judge_with_these_words():
    file = write_jsonl("outputs.helpful.jsonl", lines("helpful", words=True))
    assert "2 annotators: " in output_of(check, file)
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


def test_the_error_on_a_file_without_labels_says_how_to_get_some():
    result = run(check, "starter_unlabelled")
    problem = "no column of labels was recognised; the columns are id, group, system"
    assert (result.code, problem in result.out) == (1, True)
    assert "or give labels: dspy-judges label FILE --dimension NAME" in result.out


def test_the_unlabelled_starter_set_does_not_name_the_systems():
    items, starter = read_items("starter_unlabelled"), data.starter()
    assert (len(items.items), len(items.documents)) == (30, 10)
    names = " ".join(f"{item.id} {item.document_id} {item.system}" for item in items.items)
    assert not any(system in names for system in starter.systems)
    # Every text is one of the starter set's.
    texts = {output.texts["summary"] for output in starter.outputs}
    assert {item.texts["summary"] for item in items.items} <= texts
