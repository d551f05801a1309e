"""Measuring from Python: any judge's scores against labels, as objects with their counts."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rating_files import write_ratings

import data
import judges
import optimize
from optimize.verify import command

# Two documents, three outputs each. Within the first the judge reverses people's order (rho -1), in
# the second it agrees (rho 1), so the summary-level mean is 0. Over all six, ranks by people are
# 1 2 3 4 5 6 and by the judge 3 2 1 4 5 6: squared differences 4 + 0 + 4, rho = 1 - 6 * 8 / 210.
HUMAN = [[1, 2, 3], [4, 5, 6]]
JUDGE = [[3, 2, 1], [4, 5, 6]]
DATASET_RHO = 1 - 6 * 8 / 210


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_ratings("labels.jsonl", HUMAN)
    return tmp_path


def by_id(rows: list[list[Any]]) -> dict[str, Any]:
    return {f"d{d}s{s}": score for d, row in enumerate(rows) for s, score in enumerate(row)}


def test_scores_by_id_are_measured_at_every_level_the_data_has() -> None:
    result = optimize.measure(by_id(JUDGE), "labels.jsonl", dimension="charm")
    assert result.rho.level == "summary"
    assert result.rho.value == pytest.approx(0)
    assert result.at("dataset").value == pytest.approx(DATASET_RHO)
    assert (result.rho.n_outputs, result.rho.n_documents, result.rho.n_failed) == (6, 2, 0)
    # Three levels times three coefficients; two conventions at one of them.
    assert len(result.summary()["correlations"]) == 12
    frame = result.judgements.set_index("id")
    assert frame["score"].to_dict() == by_id(JUDGE)


def test_a_judge_that_leaves_outputs_out_does_not_choose_its_level() -> None:
    """Four of six have a score, two a document: by what is labelled, it is summary level still."""
    scores = by_id(JUDGE)
    del scores["d0s1"], scores["d1s0"]
    result = optimize.measure(scores, "labels.jsonl", dimension="charm")
    assert result.rho.level == "summary"
    # Within the first document 3, 1 for 1, 3; within the second in order.
    assert result.rho.value == pytest.approx(0)
    assert result.rho.n_outputs == 4


def test_a_failed_score_is_missing_and_counted() -> None:
    scores = {**by_id(JUDGE), "d0s0": math.nan, "d0s1": None}
    result = optimize.measure(scores, "labels.jsonl", dimension="charm")
    assert (result.rho.n_failed, result.rho.n_undefined, result.rho.n_documents) == (2, 1, 1)
    assert result.rho.value == pytest.approx(1)
    failures = result.judgements.set_index("id")["score_failure"].dropna()
    assert failures.to_dict() == dict.fromkeys(["d0s0", "d0s1"], "no score")


def test_a_series_by_id_and_a_set_that_was_read_will_do() -> None:
    labelled = data.read_labels("labels.jsonl", dimensions=["charm"])
    plain = optimize.measure(by_id(JUDGE), labelled, dimension="charm")
    series = optimize.measure(pd.Series(by_id(JUDGE)), labelled, dimension="charm")
    assert series.summary() == plain.summary()
    numbers = {name: np.float32(score) for name, score in by_id(JUDGE).items()}
    assert optimize.measure(numbers, labelled, dimension="charm").rho == plain.rho


def test_a_judge_is_measured_as_the_command_measures_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = optimize.measure("fluency", seed=3)
    assert command(["fluency", "--seed", "3", "--json"]) == 0
    gate = {"gate": None, "looks": 1, "passed": True} | {
        name: [] for name in ("held", "short", "undecided")
    }
    printed = {**result.summary(), **gate}
    assert printed == json.loads(capsys.readouterr().out)
    assert command(["fluency", "--seed", "3"]) == 0
    assert capsys.readouterr().out == f"{result}\n"
    frozen = judges.load("fluency").save("fluency.json")
    assert optimize.measure(frozen, seed=3).rho == result.rho


WRONG: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no judge": (lambda: optimize.measure(3), TypeError, "its name or file, or scores by id"),
    "scores of nothing": (lambda: optimize.measure({}), TypeError, "needs dimension=NAME"),
    "another dimension": (
        lambda: optimize.measure("fluency", dimension="charm"),
        TypeError,
        r"map=\{'fluency': COLUMN\}",
    ),
    "ids of others": (
        lambda: optimize.measure({"x": 1.0}, "labels.jsonl", dimension="charm"),
        data.LabelError,
        "no record's id is the id of a labelled output",
    ),
    "a score that is a text": (
        lambda: optimize.measure({"d0s0": "4"}, "labels.jsonl", dimension="charm"),
        TypeError,
        "the score of 'd0s0' is '4'; it must be a number",
    ),
    "a doubled id": (
        lambda: optimize.measure(
            pd.Series([1, 2], ["d0s0", "d0s0"]), "labels.jsonl", dimension="charm"
        ),
        data.LabelError,
        "an id has two scores",
    ),
    "no such level": (
        lambda: optimize.measure("fluency", level="word"),  # type: ignore[arg-type]
        optimize.SettingsError,
        "level word: these labels have the levels summary, dataset, system",
    ),
    "a scale that is none": (lambda: optimize.measure("fluency", scale=5), TypeError, "'0-100'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_measured_says_what_is_wanted(name: str) -> None:
    call, kind, says = WRONG[name]
    with pytest.raises(kind, match=says):
        call()
