"""The files that the label page writes go through every command that reads labels."""

from pathlib import Path
from typing import Any

import pytest
from jsonl import write_jsonl

import data
import judges
from judges.dimension import Dimension
from judges.labels.readers import is_constructed, read_items
from optimize import check
from optimize.__main__ import command as tune
from optimize.verify import command as verify

SAID = "It leaves out the point."


def lines(value: str, *, words: bool = False) -> list[dict[str, Any]]:
    """Labels of 180 starter outputs by two annotators, the first of which is changed."""
    items = read_items("starter")
    assert isinstance(items, data.LabelledSet)
    rows: list[dict[str, Any]] = []
    for rated, item in zip(data.starter().outputs[:180], items.outputs, strict=False):
        texts = {"id": item.id, "group": item.document_id, "system": item.system, **item.texts}
        for who, low in (("Anna", 2.9), ("Ben", 3.1)):
            rating: object = round(rated.rating("relevance"))
            if words:
                rating = "pass" if rated.rating("relevance") > low else "fail"
            label = {"dimension": value, "annotator": who, "rating": rating, "comment": SAID}
            rows.append(texts | label | {"labelled_at": "2026-11-23T18:20:00.123Z"})
    return [*rows, rows[0] | {"changed_after": "annotators"}, rows[1] | {"rating": None}]


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert check.main(arguments) == 0
    return " ".join(capsys.readouterr().out.split())


def test_ratings_are_checked_tuned_on_and_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_jsonl(tmp_path / "outputs.relevance.jsonl", lines("relevance"))
    page = checked(capsys, file)
    assert "relevance: 1 to 5, 180 outputs rated by 2 annotators" in page
    assert "text document; text summary; ratings rating comments comment" in page
    assert "1 label changed after seeing others'" in page
    assert "not read" not in page
    flags = ["--dimension", "relevance", "--data", file]
    assert tune([*flags, "--out", str(tmp_path / "run"), "--max-calls", "500"]) == 0
    assert SAID in (tmp_path / "run" / "report.html").read_text()
    capsys.readouterr()
    assert verify([str(tmp_path / "run"), "--data", file]) == 0
    assert "more outputs, which are left out" in capsys.readouterr().out


def test_pass_and_fail_are_a_judge_of_these_words_also_beside_the_outputs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_jsonl(tmp_path / "outputs.helpful.jsonl", lines("helpful", words=True))
    assert "2 annotators: " in checked(capsys, file)
    run = str(tmp_path / "run")
    assert tune(["--dimension", "helpful", "--data", file, "--out", run, "--max-calls", "500"]) == 0
    judge = judges.load(run)
    assert isinstance(judge.subject, Dimension)
    assert (judge.subject.words, judge.texts) == (("pass", "fail"), ("document", "summary"))
    assert SAID in (tmp_path / "run" / "misses.csv").read_text()
    beside = ["--data", "starter_unlabelled", "--annotations"]
    items = read_items("starter_unlabelled")
    rated = [
        {"id": item.id, "dimension": "helpful", "annotator": "Anna", "labelled_at": "now"}
        | {"rating": "pass" if n % 3 else "fail", "comment": SAID}
        for n, item in enumerate(items.items)
    ]
    long = write_jsonl(tmp_path / "long.jsonl", rated)
    capsys.readouterr()
    assert verify([run, *beside, long]) == 0
    assert "people: It leaves out" in capsys.readouterr().out
    labelled = data.read_labels("starter_unlabelled", annotations=long)
    assert not is_constructed(labelled.sha256)
    assert not is_constructed(items.sha256)


def test_votes_are_checked_and_tuned_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"id": pair.id, "group": pair.document_id, **pair.texts, "annotator": who}
        | {"system_a": pair.system_a, "system_b": pair.system_b, "preferred": pair.votes[0]}
        | {"response_a": pair.response_a, "response_b": pair.response_b, "comment": SAID}
        | {"labelled_at": "2026-11-23T18:20:00.123Z"}
        for pair in data.starter_pairs().pairs
        for who in ("Anna", "Ben")
    ]
    rows.append(rows[0] | {"preferred": None})
    file = write_jsonl(tmp_path / "pairs.better.jsonl", rows)
    page = checked(capsys, file)
    assert "68 pairs for 34 documents by 9 systems" in page
    assert "text post; text response_a; text response_b; ratings votes from preferred" in page
    flags = ["--pairwise", "better=It tells more of what matters.", "--data", file]
    assert tune([*flags, "--out", str(tmp_path / "run"), "--max-calls", "500"]) == 0
    assert SAID in (tmp_path / "run" / "report.html").read_text()


def test_a_file_without_labels_is_told_how_to_get_some(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["starter_unlabelled"]) == 1
    said = capsys.readouterr().out
    columns = "id, group, system, document, summary"
    assert f"no column has a known name for labels; the columns are {columns}" in said
    assert "or give labels: dspy-judges label FILE --dimension NAME" in said


def test_the_unlabelled_set_tells_nothing_of_its_faults() -> None:
    items = read_items("starter_unlabelled")
    assert (len(items.items), len(items.documents)) == (30, 10)
    told = {name for item in items.items for name in (item.id, item.document_id, str(item.system))}
    starter = data.starter()
    assert not any(system in name for name in told for system in starter.systems)
    # Every text is one of the starter set's.
    known = {output.texts["summary"] for output in starter.outputs}
    assert {item.texts["summary"] for item in items.items} <= known
