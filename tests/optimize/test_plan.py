"""optimize.plan from files to printed lines."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonl import read_jsonl, write_jsonl

from optimize.plan import command as plan

N = 200
# Each fourth output fails; either judge passes a fifth of these, each another.
TRUE = [int(n % 4 > 0) for n in range(N)]
JUDGES = [[true ^ (n % 20 == wrong) for n, true in enumerate(TRUE)] for wrong in (4, 12)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_outputs(1)
    for name, scores in zip("ab", JUDGES, strict=True):
        rows = [{"id": f"o{n}", "dimension": "ok", "score": s} for n, s in enumerate(scores)]
        write_jsonl(f"{name}.jsonl", rows)
    return tmp_path


def write_outputs(of_document: int) -> None:
    rows = [{"id": f"o{n}", "group": f"g{n // of_document}", "output": f"T {n}"} for n in range(N)]
    write_jsonl("outputs.jsonl", rows)


def write_labels(numbers: Any, **columns: Any) -> None:
    words, who = ("fail", "pass"), {"dimension": "ok", "annotator": "Ann"}
    rows = [{"id": f"o{n}", **who, "rating": words[TRUE[n]], **columns} for n in numbers]
    write_jsonl("done.jsonl", rows)


def lines_of(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> list[str]:
    assert plan(["outputs.jsonl", *words]) == code
    captured = capsys.readouterr()
    return (captured.err if code else captured.out).splitlines()


LINE = ("--labels", "done.jsonl", "--scores", "a.jsonl", "--target-width", ".15")


def test_each_figure_has_a_line_and_the_last_line_labels_what_was_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(range(60))
    first, rate, balanced, tpr, tnr, written, command = lines_of(capsys, *LINE)
    assert first == "60 of 200 documents labelled; how many more give a width of 0.15:"
    assert rate.startswith("true rate          0.7")
    assert balanced.startswith("balanced accuracy  0.900 [")
    # An interval shrinks by the root of the number of documents.
    width = float(balanced.split()[-4].rstrip(":"))
    assert int(balanced.split()[-2]) == pytest.approx(60 * (width / 0.15) ** 2 - 60, abs=1)
    assert tpr.endswith(": reached")
    assert tnr.endswith(": not by all 140 left")
    assert written.endswith("outputs, drawn at random; next:")
    n = int(written.split()[1])
    assert n == max(int(line.split()[-2]) for line in (rate, balanced, tpr, tnr) if "about" in line)
    assert command == "dspy-judges label outputs.next.jsonl --dimension ok --out done.jsonl"
    rows = read_jsonl("outputs.next.jsonl")
    assert len(rows) == n
    assert all(int(row["id"][1:]) >= 60 for row in rows)
    assert set(rows[0]) == {"id", "group", "output"}
    assert lines_of(capsys, *LINE)[-1] == command


def test_whole_documents_are_written_together(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_outputs(4)
    write_labels(range(100))
    lines = lines_of(capsys, *LINE, "--target-width", "0.1", "--out", "next.jsonl")
    assert lines[0].startswith("25 of 50 documents labelled")
    groups = [row["group"] for row in read_jsonl("next.jsonl")]
    assert groups == [group for group in dict.fromkeys(groups) for _ in range(4)]


def test_labels_may_have_any_form(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_labels(range(60))
    long = lines_of(capsys, *LINE)
    wide = [{"id": row["id"], "ok": row["rating"]} for row in read_jsonl("done.jsonl")]
    write_jsonl("done.jsonl", wide)
    *figures, command = lines_of(capsys, *LINE)
    assert figures == long[:-1]
    assert command.endswith("--out outputs.ok.jsonl")  # this file cannot grow by the page


def test_without_labels_a_first_round_is_drawn_at_random(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said, written, command = lines_of(capsys)
    assert said == "0 of 200 documents labelled; a plan needs 20, so a random round comes first."
    assert written == "outputs.next.jsonl: 30 documents, 30 outputs, drawn at random; next:"
    assert command.endswith("label outputs.next.jsonl --dimension NAME --out outputs.NAME.jsonl")
    write_labels(range(12))
    written = lines_of(capsys, *LINE, "--out", "next.jsonl")[1]
    assert written.startswith("next.jsonl: 18 documents")


def test_when_all_are_labelled_nothing_is_left(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(range(N))
    lines = lines_of(capsys, *LINE, "--target-width", "0.01")
    assert lines[1].endswith(": not reached")
    assert lines[-1] == "Nothing is left to label."


def test_without_scores_the_mean_alone_is_planned(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(range(40))
    lines = lines_of(capsys, "--labels", "done.jsonl")
    assert lines[1].startswith("true rate          0.750 [")
    assert len(lines) == 4


def test_too_few_fails_are_asked_for_before_a_width(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels([n for n in range(60) if n % 4 or n < 16])  # four fails
    tnr = lines_of(capsys, *LINE, "--json")
    figures = json.loads("\n".join(tnr))["figures"]
    # Six fails are lacking, and 4 of 49 documents had one.
    assert figures["TNR"]["low"] is None
    assert figures["TNR"]["more_documents"] == figures["balanced accuracy"]["more_documents"]
    assert figures["TNR"]["more_documents"] == 74


def test_ratings_have_a_mean_and_a_rho(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    row = {"dimension": "tone", "annotator": "A", "rating_scale": "1-5"}
    rows = [{"id": f"o{n}", **row} for n in range(60)]
    given = rng.integers(1, 6, 60).tolist()
    write_jsonl("done.jsonl", [{**r, "rating": x} for r, x in zip(rows, given, strict=True)])
    scores = [*(np.array(given) + rng.normal(size=60)).tolist(), *rng.uniform(1, 5, 140).tolist()]
    rows = [{"id": f"o{n}", "score": round(score, 2)} for n, score in enumerate(scores)]
    write_jsonl("tone.jsonl", rows)
    lines = lines_of(capsys, "--labels", "done.jsonl", "--scores", "tone.jsonl")
    assert [line.split("  ")[0] for line in lines[1:3]] == ["true mean", "dataset-level rho"]
    assert lines[-1].endswith("--dimension tone --scale 1-5 --out done.jsonl")
    assert max(map(len, lines[:-1])) <= 80


def test_what_is_reached_needs_no_more(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_labels(range(100))
    lines = lines_of(capsys, *LINE, "--target-width", "0.9")
    assert all(line.endswith(": reached") for line in lines[1:-1])
    assert lines[-1] == "Nothing more to label."
    assert not Path("outputs.next.jsonl").exists()


def test_rows_without_ids_get_the_ids_that_labels_will_name(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_jsonl("outputs.jsonl", [{"input": f"I {n}", "output": f"T {n}"} for n in range(50)])
    lines_of(capsys)
    rows = read_jsonl("outputs.next.jsonl")
    assert len(rows) == 30
    assert all(row["output"] == f"T {int(row['id']) - 1}" for row in rows)


def test_a_plan_replaces_no_file_but_by_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = lines_of(capsys)
    assert lines_of(capsys) == first
    write_labels(range(12))
    (line,) = lines_of(capsys, "--labels", "done.jsonl", code=1)
    assert "outputs.next.jsonl exists already; name another file" in line


def test_later_random_draws_have_weights_where_earlier_ones_have(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(range(40))
    rows = [
        {**row, "sampling_weight": 5 + n % 3, "sampling_from": 200}
        for n, row in enumerate(read_jsonl("done.jsonl"))
    ]
    write_jsonl("done.jsonl", rows)
    lines = lines_of(capsys, *LINE)
    n = int(lines[-2].split()[1])
    drawn = read_jsonl("outputs.next.jsonl")
    assert {row["sampling_from"] for row in drawn} == {160}
    assert all(row["sampling_weight"] == pytest.approx(160 / n) for row in drawn)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--target-width", "0"], 2, "a number above 0 is wanted"),
        (["--scores", "a.jsonl"], 2, "--scores needs --dimension NAME if no labels name it"),
        (
            ["--labels", "done.jsonl", "--scores", "label.jsonl"],
            1,
            "no score on 'ok'; it has label",
        ),
        (["--labels", "done.jsonl", "--scores", "l.csv"], 1, "'ok' is not among id, label; use"),
        (["--labels", "two.jsonl"], 2, "holds labels on kind, ok: name one by --dimension"),
        (["--labels", "done.jsonl", "--scores", "else.jsonl"], 1, "no output of outputs has a"),
    ],
)
def test_a_wrong_use_is_one_line(
    words: list[str],
    code: int,
    said: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_labels(range(40))
    rows = read_jsonl("done.jsonl")
    write_jsonl("two.jsonl", [*rows, *({**row, "dimension": "kind"} for row in rows)])
    write_jsonl("else.jsonl", [{"id": "x", "score": 1}])
    write_jsonl("label.jsonl", [{"id": "o1", "dimension": "label", "score": 1}])
    Path("l.csv").write_text("id,label\no1,1\n")
    (line,) = lines_of(capsys, *words, code=code)
    assert said in line
    assert not Path("outputs.next.jsonl").exists()


def test_labels_in_the_file_itself_count(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [{"id": f"o{n}", "output": f"A{n}."} for n in range(9)]
    labels = ["pass" if n % 2 else None for n in range(9)]
    rows = [{**row, "label": label} for row, label in zip(rows, labels, strict=True)]
    write_jsonl("partly.jsonl", rows)
    assert plan(["partly.jsonl", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["n_labelled"], result["n_documents"]) == (4, 9)
