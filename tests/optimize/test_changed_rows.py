"""verify NEW --against OLD --changed FILE: the rows to label, and the swap by their labels."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonl import write_jsonl

from optimize.statistics.changed import interval_here, rows_to_label, terms_of
from optimize.verify import command

pytestmark = pytest.mark.usefixtures("here")

# 400 outputs on 100 documents; the old judge is right everywhere, the new one is not on every tenth
# pass, so that 20 outputs change.
PEOPLE = [1, 0] * 200
NEW = [0 if n % 20 == 0 else label for n, label in enumerate(PEOPLE)]
CHANGED = [n for n in range(400) if n % 20 == 0]


def flags(new: Sequence[float] = NEW, old: Sequence[float] = PEOPLE) -> list[str]:
    rows = [
        {"id": f"r{n}", "group": f"d{n // 4}", "question": f"Why {n}?", "output": f"Because {n}."}
        for n in range(len(old))
    ]
    words = ["--dimension", "safe", "--data", write_jsonl("rows.jsonl", rows), "--against", "old"]
    for name, scores in (("new", new), ("old", old)):
        numbers = [{"id": f"r{n}", "dimension": "safe", "score": s} for n, s in enumerate(scores)]
        words += ["--scores", write_jsonl(f"{name}.jsonl", numbers)]
    return words


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = command(list(arguments))
    out, err = capsys.readouterr()
    return code, " ".join(out.split()), " ".join(err.split())


def labelled(rows: Sequence[int], people: Sequence[int] = PEOPLE) -> str:
    entries = [
        {"id": f"r{n}", "output": f"Because {n}.", "safe": ("fail", "pass")[people[n]]}
        for n in rows
    ]
    return write_jsonl("labelled.jsonl", entries)


def test_the_outputs_that_change_are_written_for_the_label_page(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = ended(capsys, *flags(), "--changed", "changed.jsonl")
    written = [json.loads(line) for line in Path("changed.jsonl").read_text().splitlines()]
    assert code == 3
    assert {row["id"] for row in written} == {f"r{n}" for n in CHANGED}
    assert written[0].keys() == {"id", "group", "question", "output"}
    assert "new and old differ on 20 of 400 outputs (5%)" in out
    assert out.endswith("dspy-judges label changed.jsonl --dimension safe")
    assert "no changed output has a label yet" in err


def test_the_same_command_again_writes_the_same_rows(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*flags(), "--changed", "changed.jsonl"]
    ended(capsys, *words)
    before = Path("changed.jsonl").read_bytes()
    code, _, _ = ended(capsys, *words)
    assert (code, Path("changed.jsonl").read_bytes()) == (3, before)


def test_where_many_change_a_random_part_is_drawn_that_decides(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = random.Random(0)
    old = [rng.choice((0, 1)) for _ in range(2000)]
    new = [1 - label if n % 4 == 0 else label for n, label in enumerate(old)]
    ended(capsys, *flags(new, old), "--changed", "changed.jsonl", "--margin", "0.1")
    # A quarter changes: (2.486 * .25 / .1)^2 = 38.6 labels.
    assert len(Path("changed.jsonl").read_text().splitlines()) == 39


def test_all_labels_of_changed_rows_give_the_difference_of_these_outputs_exactly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [*flags(), "--changed", labelled(CHANGED)]
    code, out, err = ended(capsys, *words)
    assert code == 1, err
    assert "20 of these outputs have a label: new alone is right on 0, old alone on 20" in out
    assert "Difference in accuracy -0.050 on these outputs, exactly" in out
    result = json.loads("{" + capture_json(capsys, words))
    assert result["swap"] == "worse"
    assert (result["difference"]["value"], result["here"]["low"]) == (-0.05, -0.05)


def capture_json(capsys: pytest.CaptureFixture[str], words: Sequence[str]) -> str:
    capsys.readouterr()
    command([*words, "--json"])
    return capsys.readouterr().out.partition("{")[2]


def test_a_judge_that_wins_what_changes_passes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, *flags(PEOPLE, NEW), "--changed", labelled(CHANGED))
    assert code == 0
    assert out.startswith("On documents like these new is better than old.")


def test_judges_that_agree_everywhere_need_no_label(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ended(capsys, *flags(PEOPLE, PEOPLE), "--changed", "changed.jsonl")
    assert code == 0, out
    assert not Path("changed.jsonl").exists()
    assert "differ on 0 of 400 outputs" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--changed", "labelled.jsonl"], "2 labels are on outputs that do not change, or"),
        (["--changed", "rows.jsonl"], "it holds no labels on safe, and its rows are not the rows"),
        (["--changed", "changed.csv"], "name a file that ends in .jsonl"),
        (["--changed", "changed.jsonl", "--pairwise", "safe"], "is for judges of pass or fail"),
    ],
)
def test_what_is_no_file_of_changed_rows_is_refused(
    capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    labelled([*CHANGED, 1, 2])
    about = [word for word in flags() if "--pairwise" not in words or word not in ("--dimension",)]
    if "--pairwise" in words:
        about.remove("safe")
    code, _, err = ended(capsys, *about, *words)
    assert code in (1, 2)
    assert said in err


def test_scores_on_a_scale_are_refused_with_what_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, err = ended(capsys, *flags([5.0, *map(float, NEW[1:])]), "--changed", "changed.jsonl")
    assert code == 2
    assert "rank correlation" in err
    assert "dspy-judges plan" in err


def test_a_judge_that_passes_nearly_everything_is_not_certified_by_accuracy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Of 400 outputs people fail 40; the new judge passes them all, and fails 40 passes less.
    people = [0 if n % 10 == 0 else 1 for n in range(400)]
    old = [0 if n % 10 in (0, 1) else 1 for n in range(400)]
    changed = [n for n in range(400) if n % 10 in (0, 1)]
    words = flags([1] * 400, old)
    code, out, _ = ended(capsys, *words, "--changed", labelled(changed, people), "--margin", ".1")
    assert code == 3
    assert "new is clearly worse on fails: of those labelled it gets 40 wrong" in out
    result = json.loads("{" + capture_json(capsys, [*words, "--changed", "labelled.jsonl"]))
    assert result["clear_loss"] == {"word": "fails", "n_gained": 0, "n_lost": 40}


def test_rows_that_have_no_label_yet_are_passed_over(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*flags(), "--changed", labelled(CHANGED)]
    rows = [json.loads(line) for line in Path("labelled.jsonl").read_text().splitlines()]
    write_jsonl(
        "labelled.jsonl",
        [{**row, "safe": row["safe"] if n < 7 else None} for n, row in enumerate(rows)],
    )
    _, out, _ = ended(capsys, *words)
    assert "7 of these outputs have a label" in out
    assert out.endswith("Next: label the other 13 outputs that were drawn")


def test_changed_needs_two_judges(capsys: pytest.CaptureFixture[str]) -> None:
    about = ["--scores", "new.jsonl", "--dimension", "safe", "--data", "rows.jsonl"]
    code, _, err = ended(capsys, *about, "--changed", "changed.jsonl")
    assert code == 2
    assert "--against OLD" in err


gains = st.lists(st.tuples(st.booleans(), st.sampled_from((-1, 0, 1)), st.integers(0, 5)))


@given(gains.filter(lambda rows: any(changed for changed, _, _ in rows)))
def test_with_all_labels_the_terms_mean_the_difference_over_all_rows(
    rows: list[tuple[bool, int, int]],
) -> None:
    changed, gain, document = (np.array(column) for column in zip(*rows, strict=True))
    difference = float(np.where(changed, gain, 0).mean())
    terms, least = terms_of(gain.astype(float), changed, document)
    here: Any = interval_here(gain.astype(float), changed)
    assert terms.mean() == pytest.approx(difference)
    assert (here.low, here.high) == (pytest.approx(difference), pytest.approx(difference))
    assert terms.size == np.unique(document).size
    assert least > 0


def test_more_margin_and_fewer_changes_take_fewer_labels() -> None:
    # (2.486 * share / margin)^2, at least 30.
    assert rows_to_label(200, 1000, 0.03) == 275
    assert rows_to_label(2000, 10_000, 0.03) == 275
    assert rows_to_label(1000, 10_000, 0.03) == 69
    assert rows_to_label(100, 10_000, 0.03) == 30
    assert rows_to_label(10, 10_000, 0.03) == 30
