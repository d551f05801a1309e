"""Whatever ends a run early, what was paid for is kept: full disks, faults, two runs at once."""

import errno
import json
from pathlib import Path

from command_runs import output_of, run
from jsonl import write_jsonl
from rating_files import weather_rows

from judges.tables.atomic_write import exclusive_lock
from optimize.__main__ import command
from optimize.tuning import folder as run_folder
from optimize.tuning.folder import Trials

FEW = ["--dimension", "relevance", "--data", "few.jsonl", "--max-calls", "400"]


def judge_of(folder):
    """The judge and the summary of a run, but for when it was begun and how long it took."""
    texts = (Path(folder, name).read_text() for name in ("judge.json", "summary.json"))
    frozen, summary = map(json.loads, texts)
    del frozen["provenance"]["started"], frozen["digest"], summary["seconds"]
    return [frozen, summary]


def test_a_judge_that_could_not_be_frozen_is_refused_before_any_call(here):
    # Ratings past a thousand are none that a frozen judge takes.
    rows = [row | {"relevance": 2000 + row["relevance"]} for row in weather_rows(12, 3)]
    flags = ["--dimension", "relevance", "--data", write_jsonl("rows.jsonl", rows)]
    result = run(command, *flags, "--scale", "2000-2005", "--out", "run")
    assert (result.code in (1, 2), "1000" in result.err) == (True, True)
    assert not (here / "run").exists()


def test_after_a_full_disk_the_run_resumes_to_the_same_result(here, monkeypatch):
    write_jsonl("few.jsonl", weather_rows(18, 5))
    write = run_folder.write_atomically

    def full(path, content, *, overwrite):
        if path.name == "summary.json":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write(path, content, overwrite=overwrite)

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "write_atomically", full)
        result = run(command, *FEW, "--out", "run")
    assert result.code == 1
    last = result.stderr.splitlines()[-1]
    assert last == "dspy-judges tune: run/summary.json: No space left on device"
    with Path("run/trials.jsonl").open("a") as trials:
        trials.write('{"trial": 1, "sta')  # as a kill within a write leaves it
    with exclusive_lock(Path("run")):
        result = run(command, *FEW, "--out", "run")
    assert (result.code, "is in use by another run" in result.err) == (1, True)
    result = run(command, *FEW, "--out", "run")
    assert (result.code, "continues with run" in result.err) == (0, True)
    output_of(command, *FEW, "--out", "whole")
    assert judge_of("run") == judge_of("whole")
    assert Path("run/trials.jsonl").read_bytes() == Path("whole/trials.jsonl").read_bytes()
    # What the embedded model says is kept nowhere.
    assert not Path("run/replies.sqlite").exists()


def test_trials_are_not_written_through_a_link(tmp_path):
    (victim := tmp_path / "victim").write_text("kept")
    (path := tmp_path / "trials.jsonl").symlink_to(victim)
    Trials(path).record("search")
    assert (victim.read_text(), path.read_text().count("search")) == ("kept", 1)
