"""Tuning from Python: the same run as the command's, as an object."""

import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import pytest
from jsonl import write_jsonl
from processes import run_python
from rating_files import weather_rows

import judges
import optimize
from judges.__main__ import main as judges_command
from judges.labels.types import LabelError
from judges.protocol import ModelError

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


def test_a_definition_in_code_is_tuned_and_resumed_and_a_changed_one_starts_anew(labels, capfd):
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


def test_a_run_that_cannot_start_or_got_no_reply_leaves_no_folder(labels, monkeypatch):
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


def test_if_the_untuned_judge_ships_the_tuned_judge_has_its_own_file(capfd):
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
