"""Whole runs by command and from Python: the folder, its judges, what test labels may touch."""

import json
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from files import write_jsonl
from processes import run_python
from rating_files import weather_rows

import data
import judges
import optimize
from judges.__main__ import main as judges_command
from judges.labels.types import LabelError
from judges.protocol import ModelError
from optimize.__main__ import command

SAY = "Say how plain the words of the summary are."
PLAIN = replace(judges.load("fluency").subject, name="plain_words", instruction=SAY)
SHORTER = replace(judges.load("tldr_concise").subject, name="shorter_one")
NAMED = {"plain_words": "plainness"}
CALLS = 900


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with chdir(tmp_path_factory.mktemp("tuning")):
        yield


@pytest.fixture(scope="module")
def labels(folder):
    return write_jsonl("plain.jsonl", weather_rows(27, 6, "plainness"))


def but_seconds(summary):
    return {**summary, "seconds": 0}


def test_a_changed_definition_starts_a_new_run(labels, capfd):
    flags = {"data": labels, "map": NAMED, "max_calls": CALLS}
    plain = optimize.tune(PLAIN, **flags)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("runs/plain_words-001: summary-level rho, 162 outputs\n")
    assert plain.judge.subject == PLAIN
    # As a kill before its end leaves it.
    plain.report.unlink()
    other = replace(PLAIN, instruction="Say how few words there are.")
    with pytest.raises(optimize.RunFolderError, match="it had another definition"):
        optimize.tune(other, out=plain.folder, **flags)
    assert optimize.tune(other, **flags).folder != plain.folder
    again = optimize.tune(PLAIN, **flags)
    assert again.folder == plain.folder
    assert but_seconds(again.summary) == but_seconds(plain.summary)


def test_a_comparison_is_tuned_on_pairs():
    run = optimize.tune(SHORTER, quiet=True, max_calls=600)
    assert (run.judge.subject, run.judge.kind) == (SHORTER, "pairwise")
    assert run.summary["level"] == "dataset"
    assert run.summary["seed_judge"]["test_unseen_systems"] is None
    assert run.summary["accuracy"].keys() == {"seed_judge", "tuned_judge"}
    assert "68 pairs" in str(run)
    assert max(map(len, str(run).splitlines())) <= 80


def test_a_run_that_cannot_start_leaves_no_folder(labels, monkeypatch):
    for source in ("nowhere.jsonl", None):
        with pytest.raises((LabelError, FileNotFoundError)):
            optimize.tune(PLAIN, data=source, out="not-begun", quiet=True)
        assert not Path("not-begun").exists()

    def unreachable(prepared_run, folder, *rest):
        assert (folder / "config.json").is_file()
        raise ModelError("nobody answers")

    monkeypatch.setattr("optimize.tuning.pipeline.tune_and_save", unreachable)
    with pytest.raises(ModelError):
        optimize.tune(PLAIN, data=labels, map=NAMED, out="no-answer", quiet=True)
    assert not Path("no-answer").exists()


def test_a_tuned_judge_that_does_not_ship_has_its_own_file(capfd):
    flags = {"quiet": True, "max_calls": CALLS, "risk": 1e-6, "out": "kept"}
    run = optimize.tune("fluency", **flags)
    assert capfd.readouterr() == ("", "")
    assert (run.summary["shipped"], run.summary["risk"]) == ("seed", 1e-6)
    assert "kept/report.html; tuned.json did not ship" in str(run)
    tuned, own = judges.load("kept/tuned.json"), run.judge.provenance
    why = tuned.provenance["why"]
    assert why == "tuned, but not shipped: " + own["why"].partition("judge. ")[2]
    # "seed" would say that it learned from no labels, and take their mark away.
    assert tuned.provenance | {"why": "", "shipped": "seed"} == {**own, "why": ""}
    assert tuned.uses_constructed_labels
    assert not Path("kept/finalists").exists()
    before = json.loads(Path("kept/config.json").read_text())
    write_jsonl("rows.jsonl", [{"summary": "It is a fluent sentence."}])
    score = ["score", "kept/tuned.json", "--data", "rows.jsonl", "--out", "scored.jsonl"]
    assert judges_command(score) == 0
    run.report.unlink()
    choice = optimize.tune("fluency", **flags, ship="tuned")
    settings = before["settings"] | {"ship": "tuned"}
    assert json.loads(Path("kept/config.json").read_text()) == before | {"settings": settings}
    assert choice.summary["shipped"] == choice.judge.provenance["ship"] == "tuned"
    assert choice.judge.prompt == tuned.prompt
    for text in (choice.judge.provenance["why"], choice.report.read_text()):
        assert "by ship=tuned" in text
    assert len(str(choice).splitlines()) <= 24


def test_every_public_name_can_be_imported_and_importing_none_loads_dspy():
    for name in optimize.__all__:
        assert getattr(optimize, name).__name__ == name
    assert optimize.__all__ == sorted(optimize.__all__)
    heavy = "import optimize, sys; print({'dspy', 'scipy', 'pandas'} & set(sys.modules))"
    assert run_python("-c", heavy, check=True).stdout == "set()\n"


@pytest.mark.parametrize("value", [None, 3, Path("fluency")])
def test_the_error_on_an_invalid_dimension_says_what_is_needed(value):
    with pytest.raises(TypeError, match=r"a catalogue name, FILE\.yaml, .*not "):
        optimize.tune(value, quiet=True)


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
    judge = judges.load(folder)
    assert judge.provenance["shipped"] == summary["shipped"]
    # The starter set's labels are nobody's, and everything that is left behind says so.
    assert judge.provenance["data"]["constructed"] is True
    assert judge.uses_constructed_labels == (summary["shipped"] == "tuned")
    assert "These labels were constructed" in screen


def test_tune_in_python_returns_what_the_command_writes_and_prints(here, finished):
    folder, out, _ = finished
    run = optimize.tune("relevance", quiet=True, max_calls=1500)
    assert run.summary == read(run.folder / "summary.json")
    assert but_seconds(run.summary) == but_seconds(read(folder / "summary.json"))
    assert (run.judge, run.report.is_file()) == (judges.load(run.folder), True)
    seconds = re.compile(r"in \d+ s")
    assert seconds.sub("", str(run)) == seconds.sub("", repr(run)) == seconds.sub("", out.strip())


def test_shuffled_test_labels_change_no_decision(here, finished, monkeypatch):
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
    assert judges.load(folder).prompt == judges.load("scrambled").prompt
