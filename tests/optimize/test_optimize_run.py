"""Whole runs on the starter set: the folder, and what test labels may touch."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import data
from judges.judge import Judge
from judges.labels.types import LabelledSet
from judges.loading import load
from optimize.__main__ import command

FEW = ["--dimension", "relevance", "--max-calls", "1500"]
FILES = {
    "config.json",
    "splits.json",
    "trials.jsonl",
    "judge.json",
    "summary.json",
    "judgements.jsonl",
    "report.html",
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing stopped; tests only read it."""
    folder = tmp_path_factory.mktemp("finished") / "whole"
    assert command([*FEW, "--out", str(folder)]) == 0
    return folder


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def test_a_run_prints_its_scorecard_and_leaves_a_whole_folder(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(FEW) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "Its errors: runs/relevance-001/report.html"
    assert len(out.splitlines()) <= 24
    assert len(err.splitlines()) <= 6
    assert max(map(len, out.splitlines())) <= 80
    for word in (
        "unseen systems",
        "Shipped: the",
        "judge calls",
        "Cross-validated on",
    ):
        assert word in " ".join(out.split())
    folder = here / "runs" / "relevance-001"
    assert {path.name for path in folder.iterdir()} == FILES
    summary = read(folder / "summary.json")
    assert set(summary) == {
        *("dimension", "lm", "optimizer", "seed", "level", "objective"),
        *("data", "seed_judge", "tuned_judge"),
        *(
            "gain",
            "order",
            "scales",
            "shipped",
            "why",
            "risk",
            "ship",
            "lm_calls",
            "proposer_calls",
            "cached_calls",
            "tokens",
            "cost_usd",
            "spending",
            "seconds",
        ),
    }
    cell = {"coefficient", "level", "value", "low", "high", "n_outputs", "n_documents"}
    for judge in ("seed_judge", "tuned_judge"):
        for split in ("test", "test_unseen_systems"):
            undefined = {"n_undefined", "n_failed", "n_zero", "undefined"}
            assert set(summary[judge][split]) == cell | undefined
    assert summary["lm_calls"] <= 1500
    assert summary["cost_usd"] == 0
    assert sum(row["calls"] for row in summary["spending"]) == (
        summary["lm_calls"] + summary["proposer_calls"]
    )
    splits = read(folder / "splits.json")
    parts = [set(splits[name]) for name in ("train", "dev", "test", "test_unseen_systems")]
    assert sum(map(len, parts)) == len(set().union(*parts))

    # The frozen judge stands by itself, with where it comes from.
    judge = load(folder)
    assert isinstance(judge, Judge)
    assert judge.provenance is not None
    assert judge.provenance["shipped"] == summary["shipped"]
    # The starter set's labels are nobody's, and everything that is left behind says so.
    assert judge.provenance["data"]["constructed"] is True
    assert judge.constructed == (summary["shipped"] == "tuned")
    assert "These labels were made from known faults" in " ".join(out.split())
    page = (folder / "report.html").read_text(encoding="utf-8")
    todo = page.partition("Next:</b>")[2].partition("</section>")[0]
    words = re.sub(r"<[^>]*>", "", todo)
    assert "Tune on labels of your own: dspy-judges tune --dimension" in words
    assert "judges.load" not in todo


def test_scrambled_test_labels_change_neither_trials_nor_choice(
    here: Path, finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    splits = read(finished / "splits.json")
    tested = {*splits["test"], *splits["test_unseen_systems"]}
    labelled = data.starter()
    ratings = [output.ratings for output in labelled.outputs if output.id in tested]
    turned = iter(ratings[7:] + ratings[:7])
    scrambled = tuple(
        replace(output, ratings=next(turned)) if output.id in tested else output
        for output in labelled.outputs
    )

    def starter() -> LabelledSet:
        return replace(labelled, outputs=scrambled)

    monkeypatch.setattr("optimize.inputs.labelled.starter", starter)
    assert command([*FEW, "--out", "scrambled"]) == 0
    scrambled_run = here / "scrambled"
    assert (finished / "trials.jsonl").read_bytes() == (scrambled_run / "trials.jsonl").read_bytes()
    true, other = (read(run / "summary.json") for run in (finished, scrambled_run))
    assert (true["shipped"], true["why"]) == (other["shipped"], other["why"])
    assert true["seed_judge"]["test"] != other["seed_judge"]["test"]
    assert load(finished).prompt == load(scrambled_run).prompt


def test_pairs_are_tuned_at_dataset_level_with_accuracy_beside(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["--pairwise", "tldr_concise", "--max-calls", "1500", "--out", "pairs"]) == 0
    out = capsys.readouterr().out
    assert "68 pairs" in out
    assert max(map(len, out.splitlines())) <= 80
    summary = read(here / "pairs" / "summary.json")
    assert summary["level"] == "dataset"
    assert set(summary["accuracy"]) == {"seed_judge", "tuned_judge"}
    assert summary["seed_judge"]["test_unseen_systems"] is None
