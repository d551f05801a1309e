"""verify NEW --against OLD --changed FILE: the rows to label, and the swap by their labels."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import json_of, output_of, run
from files import read_jsonl, write_jsonl
from hypothesis import given
from hypothesis import strategies as st
from judge_cases import tuned_on
from rating_files import verdict_flags

import judges
from judges.definition import make_dimension
from judges.frozen import texts_digest
from judges.labels.readers import read_items
from optimize.measuring.changed_swap import (
    gain_contributions,
    interval_on_these_rows,
    rows_to_label,
)
from optimize.verify import command

pytestmark = pytest.mark.usefixtures("here")

# 400 outputs on 100 documents; the old judge is right everywhere, the new one is not on every tenth
# pass, so that 20 outputs change.
PEOPLE = [1, 0] * 200
NEW = [0 if n % 20 == 0 else label for n, label in enumerate(PEOPLE)]
CHANGED = [n for n in range(400) if n % 20 == 0]


def flags(new: Sequence[float] = NEW, old: Sequence[float] = PEOPLE) -> list[str]:
    return [*verdict_flags(None, outputs_per_document=4, new=new, old=old), "--against", "old"]


def label_file(rows: Sequence[int], people: Sequence[int] = PEOPLE) -> str:
    entries = [
        {"id": f"r{n}", "output": f"Because {n}.", "safe": ("fail", "pass")[people[n]]}
        for n in rows
    ]
    return write_jsonl("labelled.jsonl", entries)


def test_the_same_changed_outputs_are_always_drawn():
    words = [*flags(), "--changed", "changed.jsonl"]
    first, second = (run(command, *words) for _ in range(2))
    rows = read_jsonl("changed.jsonl")
    assert first.code == second.code == 3
    assert {row["id"] for row in rows} == {f"r{n}" for n in CHANGED}
    assert len(rows) == len(CHANGED)
    assert rows[0].keys() == {"id", "group", "output", "drawn_for_swap"}
    # The label page repeats a row's fields in each line of its file.
    assert read_items("changed.jsonl").outputs[0].row["drawn_for_swap"]
    # Both judges differ on these rows, so no figure on them holds for others.
    write_jsonl("labels.jsonl", [{**row, "safe": "fail"} for row in rows])
    new = ["--scores", "new.jsonl", "--dimension", "safe", "--data", "labels.jsonl"]
    assert "has only rows on which two judges differ" in run(command, *new).err
    assert "new and old differ on 20 of 400 outputs (5%)" in first.out
    assert first.out.endswith("dspy-judges label changed.jsonl --dimension safe")
    assert "no changed output has a label yet" in first.err
    # A twentieth changes: (2.486 * .05 / .01)^2 = 155 labels, and 20 of 400 outputs change.
    more = run(command, *words[:-1], "more.jsonl", "--margin", "0.01").out
    assert "about 3,100 outputs have that many changes" in " ".join(more.split())
    # A quarter of 800 changes: (2.486 * .25 / .1)^2 = 39 labels, so 39 of 200 are drawn.
    new = [1 - label if n % 8 in (0, 3) else label for n, label in enumerate(PEOPLE * 2)]
    run(command, *flags(new, PEOPLE * 2), "--changed", "drawn.jsonl", "--margin", "0.1")
    assert len(read_jsonl("drawn.jsonl")) == 39


def test_with_labels_on_all_changed_rows_the_difference_is_exact():
    words = [*flags(), "--changed", label_file(CHANGED)]
    end = run(command, *words)
    assert end.code == 1, end.err
    assert "20 of these outputs have a label: new alone is right on 0, old alone on 20" in end.out
    assert "-0.050 on these outputs, 90% interval [-0.050, -0.050]." in " ".join(end.out.split())
    result = json_of(command, *words, code=1)
    assert result["swap"] == "worse"
    assert (result["difference"]["value"], result["here"]["low"]) == (-0.05, -0.05)
    # Rows without a label are left out.
    rows = read_jsonl("labelled.jsonl")
    write_jsonl("labelled.jsonl", [*rows[:7], *(row | {"safe": None} for row in rows[7:])])
    out = run(command, *words).out
    assert "7 of these outputs have a label" in out
    assert out.endswith("Next: Label the other 13 outputs that were drawn.")


def test_winning_or_no_changed_rows_pass_a_swap():
    out = output_of(command, *flags(PEOPLE, NEW), "--changed", label_file(CHANGED))
    assert out.startswith("On documents like these new is better than old.")
    out = output_of(command, *flags(PEOPLE, PEOPLE), "--changed", "changed.jsonl")
    assert "differ on 0 of 400 outputs" in out
    assert not Path("changed.jsonl").exists()


def test_a_file_that_does_not_hold_the_changed_rows_is_refused():
    about = flags()
    label_file([*CHANGED, 1, 2])
    pairwise = ["--pairwise", "safe", *about[2:]]
    for words, file, code, reason in (
        (about, "labelled.jsonl", 1, "2 labels are on outputs whose verdict is unchanged, or"),
        (about, "rows.jsonl", 2, "it holds no labels on safe, and its rows are not the rows"),
        (about, "changed.csv", 2, "name a file that ends in .jsonl"),
        (pairwise, "changed.jsonl", 2, "is for judges of pass or fail"),
        ([*about[:4], "--scores", "new.jsonl"], "changed.jsonl", 2, "--against OLD"),
    ):
        result = run(command, *words, "--changed", file)
        assert (result.code, reason in result.err) == (code, True), result.err
    result = run(command, *flags([5.0, *map(float, NEW[1:])]), "--changed", "changed.jsonl")
    assert (result.code, "(dspy-judges plan). A rank correlation" in result.err) == (2, True)


def test_a_judge_that_passes_nearly_everything_is_not_certified_by_accuracy() -> None:
    # Of 400 outputs people fail 40; the new judge passes them all, and fails 40 passes less.
    people = [0 if n % 10 == 0 else 1 for n in range(400)]
    rows = [n for n in range(400) if n % 10 in (0, 1)]
    old = [0 if n in rows else 1 for n in range(400)]
    words = [*flags([1] * 400, old), "--changed", label_file(rows, people)]
    end = run(command, *words, "--margin", ".1")
    assert end.code == 3
    assert "worse on fails: of the labelled fails, 40 are right only by old" in end.out
    result = json_of(command, *words, code=3)
    assert result["clear_loss"] == {"word": "fails", "n_gained": 0, "n_lost": 40}


gains = st.lists(st.tuples(st.booleans(), st.sampled_from((-1, 0, 1)), st.integers(0, 5)))


@given(gains.filter(lambda rows: any(changes for changes, _, _ in rows)))
def test_the_mean_contribution_is_the_difference_over_all_rows(rows):
    changes, gain, document = (np.array(column) for column in zip(*rows, strict=True))
    difference = float(np.where(changes, gain, 0).mean())
    contributions, least = gain_contributions(gain.astype(float), changes, document)
    here: Any = interval_on_these_rows(gain.astype(float), changes)
    assert contributions.mean() == pytest.approx(difference)
    assert (here.low, here.high) == (pytest.approx(difference), pytest.approx(difference))
    assert contributions.size == np.unique(document).size
    assert least > 0


def test_a_larger_margin_and_fewer_changes_need_fewer_labels() -> None:
    # (2.486 * share / margin)^2, at least 30.
    sizes = (200, 1000), (2000, 10_000), (1000, 10_000), (100, 10_000), (10, 10_000)
    assert [rows_to_label(*each, 0.03) for each in sizes] == [275, 275, 69, 30, 30]


def test_tuned_on_outputs_are_left_out_before_a_judge_is_asked(here):
    rows = [{"id": f"r{n}", "document": f"Why {n}?", "summary": f"Because {n}."} for n in range(60)]
    keys = (texts_digest({"d": row["document"], "s": row["summary"]}) for row in rows[:20])
    judge = judges.load(tuned_on(here / "judge.json", keys))
    subject = make_dimension("relevance", ("pass", "fail"), ["document", "summary"], "is it good")
    verdict_judge = replace(judges.Judge.of(subject), provenance=judge.provenance)
    path = str(verdict_judge.save(here / "verdict.json"))
    data = ["--data", write_jsonl("rows.jsonl", rows), "--changed", "changed.jsonl"]
    old = [{"id": row["id"], "dimension": "relevance", "score": 0} for row in rows]
    recording = ["--scores", f"old={write_jsonl('old.jsonl', old)}", "--against", "old"]
    result = run(command, path, *recording, *data)
    assert "left out 20 outputs that a judge was tuned on" in result.err
    assert "of 40 outputs" in result.out
