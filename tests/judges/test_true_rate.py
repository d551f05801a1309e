"""The true rate: what the judge passes, corrected for its errors, or why it is not."""

import json
from pathlib import Path

import numpy as np
import pytest

from dspy_judges.__main__ import main
from judges.judge import Judge
from judges.loading import load
from judges.true_rate import corrected_rate, errors_by_document
from optimize.run import tune

RUNS = 200


def labels(both: int, people: int, alone: int, neither: int) -> list[list[int]]:
    """Documents of one output, so many of each kind."""
    return [
        [1, 0, 0, 0, both],
        [0, 1, 0, 0, people],
        [0, 0, 1, 0, alone],
        [0, 0, 0, 1, neither],
    ]


def test_the_rate_is_what_would_be_passed_so_often_with_these_errors() -> None:
    # TPR .9, TNR .8: a true rate of .6 is passed at .6 * .9 + .4 * .2 = .62.
    rate = corrected_rate([1] * 62 + [0] * 38, range(100), labels(90, 10, 20, 80))
    assert rate.judge == pytest.approx(0.62)
    assert rate.value == pytest.approx(0.6)
    assert rate.low < 0.6 < rate.high
    ends = f"[{100 * rate.low:.0f}, {100 * rate.high:.0f}]"
    assert str(rate) == (
        f"the judge passes 62%; people would pass 60% {ends}, "
        "if it errs as often here as on the test labels"
    )


def test_a_judge_that_does_not_err_leaves_the_rate_and_an_interval_about_as_wide_as_a_shares() -> (
    None
):
    rate = corrected_rate([1] * 50 + [0] * 50, range(100), labels(5000, 0, 0, 5000))
    assert rate.value == pytest.approx(0.5)
    # 1.96 * sqrt(.25 / 100) = .098 on either side.
    assert (rate.high - rate.low) / 2 == pytest.approx(0.098, abs=0.005)


def test_the_rate_stays_between_none_and_all() -> None:
    assert corrected_rate([1] * 200, range(200), labels(80, 20, 5, 95)).value == 1
    assert corrected_rate([0] * 200, range(200), labels(80, 20, 5, 95)).value == 0


@pytest.mark.parametrize(
    ("tested", "why"),
    [
        (labels(50, 50, 50, 50), "no better than chance"),
        (labels(20, 80, 80, 20), "no better than chance"),
        (labels(55, 45, 45, 55), "no better than chance"),
        (labels(90, 10, 1, 8), "9 fails, and 10 are needed"),
        (labels(9, 0, 1, 90), "9 passes, and 10 are needed"),
        ([], "not tested on labels"),
    ],
)
def test_a_rate_that_the_test_labels_do_not_allow_is_withheld_and_says_why(
    tested: list[list[int]], why: str
) -> None:
    rate = corrected_rate([1] * 62 + [0] * 38, range(100), tested)
    assert why in rate.withheld
    assert np.isnan([rate.value, rate.low, rate.high]).all()
    assert str(rate).startswith("the judge passes 62%; not corrected for its errors: ")


def test_documents_with_the_same_counts_stand_in_one_row_and_failed_judgements_in_none() -> None:
    passes = [1, 0, 1, 0, np.nan, 1]
    assert errors_by_document(passes, [1, 0, 1, 0, 1, 0], ["a", "a", "b", "b", "b", "c"]) == [
        [1, 0, 0, 1, 2],
        [0, 0, 1, 0, 1],
    ]


@pytest.mark.parametrize(("base_rate", "outputs"), [(0.8, 1), (0.5, 4)])
def test_the_interval_holds_the_truth_in_about_95_of_100_cases(
    base_rate: float, outputs: int
) -> None:
    """Documents whose outputs are alike both in quality and in how the judge sees them."""
    rng = np.random.default_rng([7, outputs])

    def drawn(n: int) -> tuple[list[float], list[float], list[int]]:
        documents = np.repeat(np.arange(n // outputs), outputs)
        share, lenient = rng.beta(3 * base_rate, 3 - 3 * base_rate, n), rng.uniform(-0.1, 0.1, n)
        human = rng.random(n) < share[documents]
        passes = rng.random(n) < np.where(human, 0.88, 0.2) + lenient[documents]
        return passes.astype(float).tolist(), human.astype(float).tolist(), documents.tolist()

    held = 0
    for _ in range(RUNS):
        new = drawn(400)
        rate = corrected_rate(new[0], new[2], errors_by_document(*drawn(160)))
        held += rate.low <= base_rate <= rate.high
    # Three binomial standard errors of 200 draws are .046; it may hold a little more.
    assert held / RUNS >= 0.95 - 0.046


def test_a_run_on_passes_and_fails_freezes_its_threshold_and_tells_score_how_the_judge_errs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    words = {1: "The council met on Monday and closed the bridge for repair works", 0: "Buy now"}
    rows = [
        {
            "id": str(n),
            "document": f"The council met on Monday in town {n} and closed the bridge for repair.",
            "summary": f"{words[passes]} {n}" if rng.random() < 0.9 else f"A bridge {n}",
            "relevance": passes,
        }
        for n, passes in enumerate(rng.integers(0, 2, 160).tolist())
    ]
    run = tune("relevance", rows, out=tmp_path / "run", scale="0-1", quiet=True)
    assert run.summary["objective"] == "balanced"
    judge = run.judge
    assert 0 < judge.threshold < 1
    tested = judge.provenance["tested"] if judge.provenance else None
    assert sum(sum(row[:4]) * row[4] for row in tested) == len(run.judgements)
    table = tmp_path / "rows.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    command = ["score", str(run.folder), "--data", str(table), "--out"]
    assert main([*command, str(tmp_path / "a.jsonl")]) == 0
    assert "as often here as on the test labels" in capsys.readouterr().out
    # Asked otherwise it errs otherwise.
    assert main([*command, str(tmp_path / "b.jsonl"), "--plan", "one", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["judges"]["relevance"]["pass_rate"]
    assert told["value"] is None
    assert "not tested on labels with this model and plan" in told["withheld"]


def test_a_threshold_is_part_of_the_frozen_judge(tmp_path: Path) -> None:
    untuned = load("relevance")
    assert '"threshold"' not in untuned.dumps()
    moved = Judge(subject=untuned.subject, prompt=untuned.prompt, threshold=0.3)
    assert load(moved.save(tmp_path / "judge.json")).threshold == 0.3
