"""Whole runs on the starter set: the folder, and what test labels may touch."""

import json
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

import data
import optimize
from judges.loading import load
from optimize.__main__ import command

FEW = ["--dimension", "relevance", "--max-calls", "1500"]
FILES = {"config.json", "splits.json", "judge.json", "summary.json", "report.html"}
FILES |= {"trials.jsonl", "judgements.jsonl"}
KEYS = {"dimension", "lm", "optimizer", "seed", "level", "objective", "data", "seed_judge", "gain"}
KEYS |= {"tuned_judge", "order", "scales", "shipped", "why", "risk", "ship", "lm_calls", "tokens"}
KEYS |= {"proposer_calls", "cached_calls", "cost_usd", "spending", "seconds"}
CELL = {"coefficient", "level", "value", "low", "high", "n_outputs", "n_documents", "n_failed"}
CELL |= {"n_undefined", "n_zero", "undefined"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a run that nothing stopped, which tests only read, and what it printed."""
    out, err = StringIO(), StringIO()
    with chdir(tmp_path_factory.mktemp("finished")), redirect_stdout(out), redirect_stderr(err):
        assert command(FEW) == 0
        return Path("runs", "relevance-001").resolve(), out.getvalue(), err.getvalue()


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def test_a_run_prints_its_scorecard_and_writes_a_complete_folder(finished):
    folder, out, err = finished
    lines = out.splitlines()
    assert lines[-1] == "Its errors: runs/relevance-001/report.html"
    assert (len(lines) <= 24, len(err.splitlines()) <= 6) == (True, True)
    assert max(map(len, lines)) <= 80
    screen = " ".join(out.split())
    for words in ("unseen systems", "Shipped: the", "judge calls", "Cross-validated on"):
        assert words in screen
    assert {path.name for path in folder.iterdir()} == FILES
    summary = read(folder / "summary.json")
    assert {*summary} == KEYS
    for judge in ("seed_judge", "tuned_judge"):
        for split in ("test", "test_unseen_systems"):
            assert {*summary[judge][split]} == CELL
    assert summary["lm_calls"] <= 1500
    assert summary["cost_usd"] == 0
    calls = sum(row["calls"] for row in summary["spending"])
    assert calls == summary["lm_calls"] + summary["proposer_calls"]
    splits = read(folder / "splits.json")
    parts = [set(splits[name]) for name in ("train", "dev", "test", "test_unseen_systems")]
    assert sum(map(len, parts)) == len(set().union(*parts))

    # The frozen judge stands by itself, with where it comes from.
    judge = load(folder)
    assert judge.provenance["shipped"] == summary["shipped"]
    # The starter set's labels are nobody's, and everything that is left behind says so.
    assert judge.provenance["data"]["constructed"] is True
    assert judge.uses_constructed_labels == (summary["shipped"] == "tuned")
    assert "These labels were constructed" in screen
    page = (folder / "report.html").read_text(encoding="utf-8")
    todo = page.partition("Next:</b>")[2].partition("</section>")[0]
    words = re.sub(r"<[^>]*>", "", todo)
    assert "Tune on labels of your own: dspy-judges tune --dimension" in words
    assert "judges.load" not in todo


def test_tune_in_python_returns_what_the_command_writes_and_prints(here, finished):
    folder, out, _ = finished
    run = optimize.tune("relevance", quiet=True, max_calls=1500)
    assert run.summary == read(run.folder / "summary.json")
    assert run.summary | {"seconds": 0} == read(folder / "summary.json") | {"seconds": 0}
    assert (run.judge, run.report.is_file()) == (load(run.folder), True)
    seconds = re.compile(r"in \d+ s")
    assert seconds.sub("", str(run)) == seconds.sub("", repr(run)) == seconds.sub("", out.strip())


def test_shuffled_test_labels_change_neither_the_trials_nor_the_decision(
    here, finished, monkeypatch
):
    folder, *_ = finished
    splits = read(folder / "splits.json")
    ids = {*splits["test"], *splits["test_unseen_systems"]}
    labelled = data.starter()
    ratings = [output.ratings for output in labelled.outputs if output.id in ids]
    order = iter(ratings[7:] + ratings[:7])
    outputs = [
        replace(output, ratings=next(order)) if output.id in ids else output
        for output in labelled.outputs
    ]
    shuffle = replace(labelled, outputs=tuple(outputs))
    monkeypatch.setattr("optimize.inputs.labelled.starter", lambda: shuffle)
    assert command([*FEW, "--out", "scrambled"]) == 0
    trials = [(run / "trials.jsonl").read_bytes() for run in (folder, here / "scrambled")]
    assert trials[0] == trials[1]
    true, other = (read(run / "summary.json") for run in (folder, here / "scrambled"))
    assert (true["shipped"], true["why"]) == (other["shipped"], other["why"])
    assert true["seed_judge"]["test"] != other["seed_judge"]["test"]
    assert load(folder).prompt == load("scrambled").prompt
