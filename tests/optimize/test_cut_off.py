"""Whatever ends a run early, what was paid for is kept: full disks, faults, two runs at once."""

import errno
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonl import write_jsonl

import data
from judges.tables.atomic_write import InUseError, in_use
from optimize.__main__ import command
from optimize.tuning.folder import Trials

FEW = ["--dimension", "relevance", "--data", "few.jsonl", "--max-calls", "400"]


def write_few(folder: Path) -> None:
    """The starter set's first documents, by five of its systems."""
    outputs = [output for output in data.starter().outputs if output.ratings.get("relevance")]
    documents = sorted({output.document_id for output in outputs})[:18]
    systems = sorted({output.system or "" for output in outputs})[:5]
    rows = [
        {
            "id": output.id,
            "group": output.document_id,
            "system": output.system,
            **output.texts,
            "relevance": output.rating("relevance"),
        }
        for output in outputs
        if output.document_id in documents and output.system in systems
    ]
    write_jsonl(folder / "few.jsonl", rows)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_few(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    write_few(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        assert command([*FEW, "--out", "run"]) == 0
    return folder / "run"


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def assert_same_judge(folder: Path, whole: Path) -> None:
    ours, theirs = (json.loads((one / "judge.json").read_text()) for one in (folder, whole))
    for one in (ours, theirs):
        # When it was begun.
        one["provenance"].pop("started")
        one.pop("digest")
    assert ours == theirs
    same = [json.loads((one / "summary.json").read_text()) for one in (folder, whole)]
    assert same[0] | {"seconds": 0} == same[1] | {"seconds": 0}


def test_what_could_not_be_frozen_is_refused_before_anything_is_asked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Ratings past a thousand are none that a frozen judge takes.
    rows = [
        {
            "id": f"{d}-{s}",
            "group": f"d{d}",
            "document": f"text {d}",
            "summary": f"c {s}",
            "relevance": r,
        }
        for d in range(12)
        for s, r in enumerate((2000, 2003, 2005))
    ]
    write_jsonl("rows.jsonl", rows)
    told = ["--dimension", "relevance", "--data", "rows.jsonl", "--scale", "2000-2005"]
    assert command([*told, "--out", "run"]) in (1, 2)
    assert "1000" in capsys.readouterr().err.splitlines()[-1]
    assert not (here / "run").exists()


def test_a_full_disk_names_the_file_and_the_same_command_goes_on(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from optimize.tuning import folder as run_folder

    write = run_folder.write_atomically
    for name in ("config.json", "summary.json"):

        def full(path: Path, content: bytes, *, overwrite: bool, name: str = name) -> None:
            if path.name == name:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            write(path, content, overwrite=overwrite)

        with monkeypatch.context() as patched:
            patched.setattr(run_folder, "write_atomically", full)
            assert command([*FEW, "--out", "run"]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"dspy-judges tune: run/{name}: No space left on device"
    assert command([*FEW, "--out", "run"]) == 0
    assert "goes on with run" in capsys.readouterr().err
    assert_same_judge(here / "run", whole)


def test_trials_in_a_strangers_folder_go_through_no_link(tmp_path: Path) -> None:
    (victim := tmp_path / "victim").write_text("kept")
    (path := tmp_path / "trials.jsonl").symlink_to(victim)
    Trials(path).record("search")
    assert (victim.read_text(), path.read_text().count("search")) == ("kept", 1)


HOLD = """
import sys, time
from pathlib import Path
from judges.tables.atomic_write import in_use
with in_use(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_who_holds_a_file_is_told_and_the_dead_hold_none(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    other = subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(InUseError, match="in use by another run"), in_use(path):
        pass
    other.kill()
    other.communicate()
    with in_use(path):
        with pytest.raises(InUseError, match="in use by another run"), in_use(path):
            pass
        with in_use(tmp_path):
            pass
    assert list(tmp_path.iterdir()) == []


def test_a_second_process_in_a_run_folder_is_told_who_holds_it(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from optimize.tuning import pipeline

    tune, codes = pipeline.run, []

    def while_another_starts(*words: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(pipeline, "run", tune)
            codes.append(command([*FEW, "--out", "run"]))
        return tune(*words)

    monkeypatch.setattr(pipeline, "run", while_another_starts)
    assert command([*FEW, "--out", "run"]) == 0
    assert codes == [1]
    assert "is in use by another run" in capsys.readouterr().err
    assert_same_judge(here / "run", whole)
