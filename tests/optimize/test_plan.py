"""optimize.plan from files to printed lines."""

import json
from pathlib import Path

import numpy as np
import pytest
from command_runs import json_of, run
from files import read_jsonl, write_jsonl

from optimize.plan import command as plan

N = 200
# Each fourth output fails; either judge passes a fifth of these, each another.
TRUE = [int(n % 4 > 0) for n in range(N)]
LABELS = ("--labels", "done.jsonl")
LINE = (*LABELS, "--scores", "a.jsonl", "--target-width", ".15")


@pytest.fixture(autouse=True)
def folder(here):
    write_outputs(1)
    scores = [true ^ (n % 20 == 4) for n, true in enumerate(TRUE)]
    rows = [{"id": f"o{n}", "dimension": "ok", "score": score} for n, score in enumerate(scores)]
    write_jsonl("a.jsonl", rows)


def write_outputs(of_document):
    rows = [{"id": f"o{n}", "group": f"g{n // of_document}", "output": f"T {n}"} for n in range(N)]
    write_jsonl("outputs.jsonl", rows)


def write_labels(numbers, of=lambda n: {}):
    words, who = ("fail", "pass"), {"dimension": "ok", "annotator": "Ann", "labelled_at": "2026"}
    rows = [{"id": f"o{n}", **who, "rating": words[TRUE[n]], **of(n)} for n in numbers]
    write_jsonl("done.jsonl", rows)


def lines_of(*words, code=0):
    result = run(plan, "outputs.jsonl", *words)
    assert result.code == code
    return [result.last] if code else result.stdout.splitlines()


def test_each_figure_has_a_line_before_the_label_command():
    write_labels(range(60))
    labelled, title, rate, balanced, tpr, tnr, sample, command = lines_of(*LINE)
    assert labelled == "Labelled: 60 of 200 documents, 60 of 200 outputs."
    assert title == "More documents (outputs) for a width of 0.15:"
    assert rate.startswith("true rate          0.7")
    assert balanced.startswith("balanced accuracy  0.900 [")
    # An interval shrinks by the root of the number of documents.
    width = float(balanced.split()[-4].rstrip(":"))
    assert balanced.endswith(f"({balanced.split()[-2]})")
    assert int(balanced.split()[-2]) == pytest.approx(60 * (width / 0.15) ** 2 - 60, abs=1)
    assert tpr.endswith(": reached")
    assert tnr.endswith(": not by all 140 left")
    assert sample.endswith("outputs, drawn at random; next:")
    n = int(sample.split()[1])
    assert n == max(int(line.split()[-2]) for line in (rate, balanced, tpr, tnr) if "about" in line)
    assert command == "dspy-judges label outputs.next.jsonl --dimension ok --out done.jsonl"
    rows = read_jsonl("outputs.next.jsonl")
    assert len(rows) == n
    assert all(int(row["id"][1:]) >= 60 for row in rows)
    assert set(rows[0]) == {"id", "group", "output"}
    assert lines_of(*LINE)[-1] == command
    # Labels may have any form.
    wide = [f"o{n},{'pass' if TRUE[n] else 'fail'}" for n in range(60)]
    Path("done.csv").write_text("\n".join(["id,ok", *wide]))
    *figures, separate, _, _, command = lines_of("--labels", "done.csv", *LINE[2:])
    assert figures == [labelled, title, rate, balanced, tpr, tnr]
    assert separate.startswith("The next labels go into a file of their own. To use those in done")
    assert command.endswith("--out outputs.ok.jsonl")


def test_whole_documents_are_written_together():
    write_outputs(4)
    write_labels(range(100))
    lines = lines_of(*LINE, "--target-width", "0.1", "--out", "next.jsonl")
    assert lines[0] == "Labelled: 25 of 50 documents, 100 of 200 outputs."
    balanced = lines_of(*LINE, "--target-width", "0.14", "--out", "few.jsonl")[3]
    assert balanced.endswith("width 0.162: about 9 (36)")
    groups = [row["group"] for row in read_jsonl("next.jsonl")]
    assert groups == [group for group in dict.fromkeys(groups) for _ in range(4)]


def test_without_labels_a_random_first_round_is_drawn():
    labelled, round_line, sample, command = first = lines_of()
    assert labelled == "Labelled: 0 of 200 documents, 0 of 200 outputs."
    assert round_line == "A plan needs 20 labelled documents, so a random round comes first."
    assert sample == "outputs.next.jsonl: 30 documents, 30 outputs, drawn at random; next:"
    assert command.endswith("label outputs.next.jsonl --dimension NAME --out outputs.NAME.jsonl")
    assert lines_of() == first
    write_labels(range(12))
    (line,) = lines_of(*LABELS, code=1)
    assert "outputs.next.jsonl exists already; delete it, or name another --out" in line
    sample = lines_of(*LINE, "--out", "next.jsonl")[2]
    assert sample.startswith("next.jsonl: 18 documents")
    write_labels(range(40))  # without scores only the mean is planned
    _, _, rate, _, _ = lines_of(*LABELS, "--out", "more.jsonl")
    assert rate.startswith("true rate          0.750 [")


def test_nothing_is_planned_if_nothing_is_needed():
    write_labels(range(N))
    lines = lines_of(*LINE, "--target-width", "0.01")
    assert lines[2].endswith(": not reached")
    assert lines[-1] == "Nothing is left to label."
    write_labels(range(100))
    lines = lines_of(*LINE, "--target-width", "0.9")
    assert all(line.endswith(": reached") for line in lines[2:-1])
    assert lines[-1] == "Nothing more to label."
    assert not Path("outputs.next.jsonl").exists()


def test_missing_fails_are_planned_before_a_narrower_interval():
    write_labels([n for n in range(60) if n % 4 or n < 16])  # four fails
    figures = json_of(plan, "outputs.jsonl", *LINE)["figures"]
    # Six fails are lacking, and 4 of 49 documents had one.
    assert figures["TNR"]["low"] is None
    assert figures["TNR"]["more_documents"] == figures["balanced accuracy"]["more_documents"] == 74


def test_ratings_are_planned_by_mean_and_rho():
    rng = np.random.default_rng(0)
    ratings = rng.integers(1, 6, 60).tolist()
    tone = {"dimension": "tone", "rating_scale": "1-5"}
    write_labels(range(60), lambda n: {**tone, "rating": ratings[n]})
    scores = [*(np.array(ratings) + rng.normal(size=60)).tolist(), *rng.uniform(1, 5, 140).tolist()]
    rows = [{"id": f"o{n}", "score": round(score, 2)} for n, score in enumerate(scores)]
    lines = lines_of(*LABELS, "--scores", write_jsonl("tone.jsonl", rows))
    assert [line.split("  ")[0] for line in lines[2:4]] == ["true mean", "dataset-level rho"]
    assert lines[-1].endswith("--dimension tone --scale 1-5 --out done.jsonl")
    assert max(map(len, lines[:-1])) <= 80


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["--target-width", "0"], 2, "a number above 0 is wanted"),
        (["--scores", "a.jsonl"], 2, "--scores needs --dimension NAME if no labels name it"),
        (["--labels", "two.jsonl"], 2, "has labels on kind, ok: name one with --dimension"),
        ([*LABELS, "--scores", "else.jsonl"], 1, "no id is the id of an output in outputs"),
        (["--labels", "weighted.jsonl"], 2, "its documents were drawn with unequal chances"),
    ],
)
def test_wrong_usage_gives_one_line(words, code, reason):
    write_labels(range(40))
    rows = read_jsonl("done.jsonl")
    write_jsonl("two.jsonl", [*rows, *({**row, "dimension": "kind"} for row in rows)])
    write_jsonl("else.jsonl", [{"id": "x", "score": 1}])
    weights = [{"sampling_weight": 5 + n % 3, "sampling_from": 200} for n in range(40)]
    write_jsonl("weighted.jsonl", map(dict.__or__, rows, weights))
    (line,) = lines_of(*words, code=code)
    assert reason in line
    assert not Path("outputs.next.jsonl").exists()


def test_a_mapping_may_name_columns_of_labels_to_come():
    mapping = ("--map", "ok=verdict", "--map", "output=T", "--map", "group=group")
    (line,) = lines_of(*mapping, code=1)
    assert "'T': there is no such column" in line
    result = run(plan, "outputs.jsonl", *mapping[:2])
    assert "Labelled: 0 of 200 documents" in result.stdout
    assert "note: ok is not read: there is no column verdict" in result.err


def test_a_mapping_may_name_columns_of_both_files():
    outputs = [{"nr": f"o{n}", "reply": f"A{n}."} for n in range(9)]
    labels = [{"nr": f"o{n}", "Ann": "pass", "Ben": "fail"} for n in range(4)]
    mapping = ("--map", "ok=Ann,Ben", "--map", "output=reply", "--json")
    apart = write_jsonl("all.jsonl", outputs), "--labels", write_jsonl("labels.jsonl", labels)
    result = run(plan, *apart, *mapping)
    assert json.loads(result.stdout)["n_labelled"] == 4
    assert "tied on 4 outputs, each of which counts half a pass" in result.err
    # Labels in the file of outputs count, too.
    rows = [row | label for row, label in zip(outputs, [*labels, *[{}] * 5], strict=True)]
    together = json_of(plan, write_jsonl("all.jsonl", rows), *mapping[:-1])
    assert (together["n_labelled"], together["n_documents"], together["dimension"]) == (4, 9, "ok")


def test_a_definition_names_its_dimension_and_stays_in_the_label_command():
    write_labels(range(60))
    definition = "name: ok\ndefinition: polite\ninputs: {output: a text}\nscale: [pass, fail]\n"
    Path("ok.yaml").write_text(definition)
    for spec, words in (("ok=is polite", "'ok=is polite'"), ("ok.yaml", "ok.yaml")):
        *_, command = lines_of(*LINE, "--dimension", spec)
        assert command.endswith(f"--dimension {words} --out done.jsonl")
