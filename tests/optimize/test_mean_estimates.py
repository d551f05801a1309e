"""Means from few labels and many judgements, from their intervals to the lines of `estimate`."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import json_of, output_of, run
from files import read_jsonl, write_jsonl
from scipy import stats

from optimize.estimate import command as estimate
from optimize.statistics.intervals import Interval
from optimize.statistics.mean_estimates import (
    MeanEstimate,
    estimate_mean,
    n_labels_for_width,
    system_differences,
)


def test_sixteen_passing_labels_leave_a_wide_interval():
    label = np.append(np.ones(16), np.full(284, math.nan))
    score = (np.arange(300) % 10 > 0).astype(float)
    result = estimate_mean(label, score, bounds=(0, 1))
    assert result.value == 1
    # Of labels alone two documents are added that pass and two that fail, of three quarters each:
    # 17.5 of 19 pass, and the errors of 20 documents, squared, are scaled by 20 / 19.
    squares = 16 * (1.5 / 19) ** 2 + 2 * 0.75**2 * ((1.5 / 19) ** 2 + (17.5 / 19) ** 2)
    assert result.labels_only.interval.low == pytest.approx(
        17.5 / 19 - stats.t.ppf(0.975, 19) * (20 / 19 * squares) ** 0.5 / 19
    )
    assert result.interval.low < 0.85
    assert result.interval.high == 1
    number = n_labels_for_width(result, (1 - result.interval.low) / 2)
    assert number > 60


def test_labels_alone_have_students_interval_over_documents():
    labels = [4.0, 2, 5, 3, 3]
    expected = pytest.approx(tuple(stats.ttest_1samp(labels, 0).confidence_interval()))
    once = estimate_mean(labels, labels).interval
    # Each output twice under its document: no more is known than before.
    twice = estimate_mean(labels * 2, labels * 2, list(range(5)) * 2).interval
    assert [(each.low, each.high) for each in (once, twice)] == [expected, expected]


def test_with_the_labels_needed_the_interval_has_the_requested_width():
    def estimate_of(n_labels: int) -> MeanEstimate:
        human, noise = np.random.default_rng(n_labels).normal(size=(2, 40_000))
        label = np.where(np.arange(40_000) < n_labels, human, math.nan)
        return estimate_mean(label, human + 0.6 * noise)

    result = estimate_of(100)
    target = result.interval.half_width
    number = n_labels_for_width(result, target)
    # Half the width takes about four times the labels.
    assert number == pytest.approx(4 * result.n_labels, rel=0.05)
    again = estimate_of(number)
    assert again.interval.high - again.interval.low == pytest.approx(target, rel=0.15)
    assert n_labels_for_width(result, 1e-6) is None


def test_missing_values_are_counted_or_refused():
    result = estimate_mean([1, 2, 3, math.nan], [1, 2, math.nan, 4])
    assert (result.n_labels, result.n_judgements, result.n_failed) == (2, 1, 1)
    with pytest.raises(ValueError, match="1 labels on 1 documents"):
        estimate_mean([1, math.nan], [1, 2])
    constant = estimate_mean([1, 2, 3, 4, math.nan, math.nan], [3] * 6)
    assert (constant.weight, constant.value) == (0, 2.5)
    assert constant.interval == constant.labels_only.interval


def test_the_mean_of_fully_labelled_outputs_is_exact():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 1600).astype(float)
    result = estimate_mean(labels, rng.random(1600), np.repeat(np.arange(100), 16), bounds=(0, 1))
    assert result.given_interval == Interval(labels.mean(), labels.mean())
    assert result.interval.half_width > 0.01


def differences(names: tuple[str, ...], *vectors: Any, low: float = -9, high: float = 9) -> Any:
    weight = np.ones(len(vectors[0]))
    return system_differences(names, *vectors, weight=weight, bounds=(low, high))


def test_system_differences_use_common_documents_and_hold_simultaneously():
    document, system = np.repeat(np.arange(40), 3), np.tile(["a", "b", "c"], 40)
    system[(document >= 25) & (system == "c")] = "d"
    human, score = np.random.default_rng(7).normal(size=(2, 120))
    score[0] = math.nan
    results = differences(("a", "b", "c", "d"), human, score, document, system)
    # The judge failed on a's first. No document has an output of both c and d, and fewer than 15
    # documents do not tell a difference.
    assert [(each.system + each.subtracted_system, each.estimate.n_labels) for each in results] == [
        *(("ab", 39), ("ac", 24), ("ad", 15), ("bc", 25), ("bd", 15))
    ]
    fewer = np.where(document == 39, math.nan, human)
    assert differences(("a", "d"), fewer, score, document, system) == []
    estimate = results[0].estimate
    assert estimate.value == pytest.approx((human[3::3] - human[4::3]).mean())
    # Six pairs of systems: each interval has a confidence of 1 - .05 / 6.
    wider = stats.t.ppf(1 - 0.025 / 6, 39 + 4 - 1) / stats.t.ppf(0.975, 39 + 4 - 1)
    reach = results[0].simultaneous_interval.half_width / estimate.interval.half_width
    assert reach == pytest.approx(wider, rel=0.02)


def test_systems_with_equal_labels_on_a_few_documents_may_still_differ():
    # Nobody failed on 20 documents: either rate of fails may be 3 / 20 by the rule of three.
    document, system = np.repeat(np.arange(100), 2), np.tile(["a", "b"], 100)
    label = np.where(document < 20, 1.0, math.nan)
    vectors = label, np.ones(200), document, system
    (difference,) = differences(("a", "b"), *vectors, low=0, high=1)
    assert difference.estimate.value == 0
    assert 0.13 <= difference.estimate.interval.half_width <= 0.17


# The command `estimate`, from files to printed lines.
@pytest.fixture
def files(here: Path) -> list[str]:
    """60 documents by two systems, every third document rated by three people."""
    rng = np.random.default_rng(0)
    outputs: list[dict[str, object]] = []
    scores: list[dict[str, object]] = []
    for document, system in itertools.product(range(60), ("plain", "tuned")):
        quality = 2.5 + (system == "tuned") + rng.normal()
        marks = np.clip(np.round(quality + rng.normal(0, 0.5, 3)), 1, 5).tolist()
        name = f"{document}-{system}"
        about = {"id": name, "group": str(document), "system": system, "document": "text"}
        rated = {"annotations": {"clarity": marks} if document % 3 == 0 else {}}
        outputs.append({**about, "summary": f"summary {name}", **rated})
        score = None if document == 7 else round(quality + rng.normal(0, 0.5), 2)
        scores.append({"id": name, "dimension": "clarity", "score": score})
    return [
        *("--data", write_jsonl("labels.jsonl", outputs)),
        *("--scores", write_jsonl("scores.jsonl", scores)),
        *("--dimension", "clarity", "--scale", "1-5"),
    ]


def relabel(**columns: Any) -> None:
    """Change these columns of the labels, each to a value or by a function of the row."""
    rows = read_jsonl("labels.jsonl")
    new = [{k: v(row) if callable(v) else v for k, v in columns.items()} for row in rows]
    write_jsonl("labels.jsonl", [row | more for row, more in zip(rows, new, strict=True)])


def test_a_system_without_labels_has_no_mean(files):
    relabel(annotations=lambda row: {} if row["system"] == "plain" else row["annotations"])
    result, text = json_of(estimate, *files), output_of(estimate, *files)
    assert (result["systems"]["plain"], result["unlabelled_systems"]) == (None, ["plain"])
    assert "plain: too few labels (at least two documents" in text
    # 20 random labels would miss one of two systems with a chance of 2 / 2^20.
    assert "1 of 2 systems have no label" in text


def test_estimates_are_printed_with_interval_and_counts(files):
    mean = json_of(estimate, *files)["estimates"]["mean"]
    lines = run(estimate, *files).stdout.splitlines()
    first, condition, counts, alone, size, labels, plain, tuned, about = lines
    value, low, high, given_low = (f"{mean[n]:.3f}" for n in ("value", "low", "high", "given_low"))
    assert first == f"clarity: true mean of outputs like these {value} [{low}, {high}]"
    assert condition == "  if the labelled outputs are a random sample"
    # The judge failed on both outputs of one document.
    assert counts == "  40 outputs with labels, 78 without, 59 documents (2 not judged)"
    assert alone.startswith("  labels alone 2.")
    assert size == "  Even labels on all outputs would not halve the interval."
    assert labels.startswith(f"  of these 118 outputs themselves {value} [{given_low}, ")
    assert mean["low"] < mean["given_low"] < mean["given_high"] < mean["high"]
    assert ", 20 labels; tuned less plain +" in plain
    assert (tuned[:9], "less" in tuned) == ("tuned: 3.", False)
    assert about.startswith("Differences are on shared documents; ")
    relabel(annotations={"clarity": [3]})
    assert "of these 118 outputs themselves 3.000 [3.000, 3.000]" in output_of(estimate, *files)


def test_equal_labels_do_not_show_their_scale(here):
    rows = [{"id": f"{n}", "group": f"{n}", "output": f"text {n}"} for n in range(200)]
    outputs = write_jsonl("outputs.jsonl", rows)

    def text_of(name: str, label: int, *flags: str, **columns: Any) -> str:
        labels = [{"id": f"{n}", "dimension": name, "rating": label, **columns} for n in range(20)]
        scores = [{"id": f"{n}", "score": min(label, n % 10)} for n in range(200)]
        files = ["--annotations", write_jsonl("l.jsonl", labels), "--data", outputs]
        result = run(estimate, *files, "--scores", write_jsonl("s.jsonl", scores), *flags)
        return result.err if result.code else result.out

    text = text_of("clarity", 5, "--scale", "1-5")
    assert text.startswith("clarity: true mean of outputs like these 5.000 [4.")
    assert text_of("clarity", 5, rating_scale="1-5") == text
    question = "run from 5 to 5, and their scale is not known: add --scale LOW-HIGH"
    assert question in text_of("clarity", 5)
    # Of a catalogue's dimension from 1 to 5, labels and scores of 1 at most may be of 0-1.
    assert "run from 1 to 1, and their scale" in text_of("relevance", 1)
    assert "true rate of outputs" in text_of("relevance", 1, "--scale", "0-1")
    assert "true mean of outputs" in text_of("relevance", 5)


def test_the_error_on_bad_scores_names_them(files):
    for rows, message in (
        ([{"id": "0-plain", "dimension": "clarity"}], "scores.jsonl, line 1"),
        ([{"id": "x", "dimension": "other", "score": 1}], "no score on 'clarity'"),
        ([{"id": "x", "score": 1}, {"id": "x", "score": 2}], "'x' has two scores"),
        ([{"id": "elsewhere", "score": 1}], "no id is the id of an output"),
    ):
        write_jsonl("scores.jsonl", rows)
        result = run(estimate, *files)
        assert (result.code, message in result.err) == (1, True), result.err
