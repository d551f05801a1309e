"""Whatever ends a run early, what was paid for is kept: full disks, faults, two runs at once."""

import errno
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jsonl import write_jsonl
from openai_server import OpenAIServer
from processes import TIMEOUT

import data
from data.tables.atomic_write import InUseError, in_use
from data.tables.formats import RowWriter
from judges.__main__ import main
from judges.catalog import find
from judges.dimension import Dimension
from judges.frozen import MAX_BYTES
from judges.inference.budget import BudgetSpentError
from judges.judge import Judge
from judges.loading import load
from judges.models import journal
from judges.models.prices import Price
from judges.prompt import MAX_DEMOS, Prompt
from judges.scoring import SamplingPlan
from optimize.cli.tune import command
from optimize.items import Item, Items
from optimize.run.final_table import FinalTable, measure_finally
from optimize.run.run_budget import search_options
from optimize.run.settings import Settings
from optimize.search.candidates import Candidate
from optimize.search.demos import largest_demo_set
from optimize.search.evaluator import Evaluator, ItemScore, Pricing, SearchBudget
from optimize.search.finalists import CrossFit

FEW = ["--dimension", "relevance", "--data", "few.jsonl", "--max-calls", "400"]
SUBJECT = find("relevance")
assert isinstance(SUBJECT, Dimension)
SEED = Judge.of(SUBJECT)
FREE = search_options(Settings(dimension="relevance"))


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


def frozen_with(texts: list[dict[str, str]]) -> tuple[Judge, int]:
    """The judge that shows as much of these outputs as a search may, read back, and its bytes."""
    rng = random.Random(0)
    items = Items(
        tuple(
            Item(
                id=str(number),
                document_id=f"d{number // 4}",
                system=f"s{number % 4}",
                texts=one,
                human=float(rng.randint(1, 5)),
            )
            for number, one in enumerate(texts)
        )
    )
    shown = largest_demo_set(items, SEED.prompt, FREE)
    candidate = Candidate(instruction=SEED.prompt.instruction, demo_set=shown)
    judge = replace(SEED, prompt=candidate.prompt(SEED.prompt), plan=SamplingPlan(kind="weighted"))
    return judge, len(judge.dumps().encode())


def test_a_search_shows_no_more_than_a_frozen_judge_holds() -> None:
    assert max(FREE.demo_sizes) == MAX_DEMOS
    texts = [{"document": f"d{n}", "summary": f"s{n}"} for n in range(MAX_DEMOS + 100)]
    judge, _ = frozen_with(texts)
    assert len(judge.prompt.demos) == MAX_DEMOS


@pytest.mark.parametrize(
    "letter", ["\N{PILE OF POO}", "\x01", "\ud800"], ids=["wide", "escaped", "half"]
)
def test_a_frozen_judge_holds_what_was_shown_whatever_its_letters(letter: str) -> None:
    # 2.9 million letters: as many as a search may show, and past the file's size as UTF-8 or JSON.
    texts = [
        {"document": letter * (3600 // len(letter)), "summary": f"s{number}"}
        for number in range(800)
    ]
    judge, size = frozen_with(texts)
    assert len(judge.prompt.demos) > 200
    assert size <= MAX_BYTES


def test_an_output_too_long_for_the_file_is_not_shown() -> None:
    texts = [{"document": "d", "summary": "x" * 1_000_001}, {"document": "d", "summary": "short"}]
    judge, _ = frozen_with(texts)
    assert [demo["summary"] for demo in judge.prompt.demos] == ["short"]


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_report_that_cannot_be_drawn_loses_no_judge(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("optimize.report.run_report.render", raising(KeyError("colour")))
        assert command([*FEW, "--out", "run"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "report.html could not be drawn" in said.splitlines()[-1]
    assert "python -m optimize.report run" in said.splitlines()[-1]
    assert_same_judge(here / "run", whole)
    from optimize.cli.report import command as main

    assert main(["run"]) == 0
    assert (here / "run" / "report.html").exists()


def test_an_interruption_while_drawing_leaves_the_judge_and_its_summary(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("optimize.report.run_report.render", raising(KeyboardInterrupt()))
        assert command([*FEW, "--out", "run"]) == 130
    assert not (here / "run" / "report.html").exists()
    assert_same_judge(here / "run", whole)


def assert_same_judge(folder: Path, whole: Path) -> None:
    ours, theirs = (json.loads((one / "judge.json").read_text()) for one in (folder, whole))
    for one in (ours, theirs):
        # When it was begun.
        one["provenance"].pop("started")
        one.pop("digest")
    assert ours == theirs
    same = [json.loads((one / "summary.json").read_text()) for one in (folder, whole)]
    assert same[0] | {"seconds": 0} == same[1] | {"seconds": 0}


def test_a_run_whose_budget_ends_at_the_final_table_has_its_judge(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from optimize.run import pipeline

    measure = pipeline.measure_finally

    def poor(*told: Any, test: bool = True) -> FinalTable:
        if test:
            raise BudgetSpentError("the budget is spent; raise it and resume")
        return measure(*told, test=False)

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "measure_finally", poor)
        assert command([*FEW, "--out", "run"]) == 1
    summary = json.loads((here / "run" / "summary.json").read_text())
    assert summary["tuned_judge"]["test"] is None
    assert summary["tuned_judge"]["dev"] is not None
    assert isinstance(load(here / "run"), Judge)
    assert command(["--resume", "--out", "run"]) == 0
    assert_same_judge(here / "run", whole)


def test_texts_that_are_longer_on_test_than_on_dev_do_not_end_the_final_table() -> None:
    def items(split: str) -> Items:
        return Items(
            tuple(
                Item(
                    id=f"{split}-{d}-{i}",
                    document_id=f"{split}-{d}",
                    system=None,
                    texts={},
                    human=float(i),
                )
                for d in range(5)
                for i in range(4)
            )
        )

    def judge_items(prompt: Prompt, items: Sequence[Item]) -> Iterable[ItemScore]:
        for item in items:
            longer = item.id.startswith("test")
            yield ItemScore(score=item.human, tokens_in=130 if longer else 100, tokens_out=1)

    pricing = Pricing(price=Price(per_token_in=1, per_token_out=1), tokens_in=100, tokens_out=1)
    evaluator = Evaluator(
        seed=SEED.prompt,
        judge=judge_items,
        calls_per_item=1,
        budget=SearchBudget(1e6),
        pricing=pricing,
    )
    seed, tuned = (Candidate(instruction=text) for text in (SEED.prompt.instruction, "Rate it."))
    labels = SimpleNamespace(dev=items("dev"), test=items("test"), unseen=None)
    for candidate in (seed, tuned):
        evaluator.scores(candidate, labels.dev)
    run: Any = SimpleNamespace(
        prepared=SimpleNamespace(labels=labels, level="summary", settings=SimpleNamespace(seed=0)),
        seed=seed,
        judge=SEED,
    )
    result: Any = SimpleNamespace(cross_fit=CrossFit(Items(()), SEED.prompt, FREE), tuned=tuned)
    table = measure_finally(run, evaluator, result)
    assert table.seed["test"] is not None
    assert table.tuned["test"] is not None
    assert evaluator.budget.spent == 2 * 20 * 131


def test_probes_that_fail_lose_neither_judge_nor_report(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimize.run.pipeline.probe", raising(BudgetSpentError("spent")))
    assert command([*FEW, "--out", "run"]) == 0
    assert (here / "run" / "report.html").exists()
    ours, theirs = (
        json.loads((one / "judge.json").read_text())["program"] for one in (here / "run", whole)
    )
    assert ours == theirs


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


FULL = OSError(errno.ENOSPC, "No space left on device")


def full_at(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full when the file of this name is written."""
    from data.tables import atomic_write
    from optimize.search import trial_log

    write_out, write_all, trial_as_json = (
        atomic_write._write_out,
        journal.write_all,
        trial_log.as_json,
    )

    def whole_write(file: Any, content: bytes, path: Path) -> None:
        if path.name == name:
            raise OSError(FULL.errno, FULL.strerror, str(path))
        write_out(file, content, path)

    def journal_write(file: int, line: bytes) -> None:
        if name == "replies.jsonl" and os.fstat(file).st_size > 20_000:
            raise FULL
        write_all(file, line)

    def trial_line(value: object) -> str:
        if name == "trials.jsonl":
            raise OSError(FULL.errno, FULL.strerror, name)
        return trial_as_json(value)

    monkeypatch.setattr(atomic_write, "_write_out", whole_write)
    monkeypatch.setattr(journal, "write_all", journal_write)
    monkeypatch.setattr(trial_log, "as_json", trial_line)


def test_a_full_disk_names_the_file_and_a_resumed_run_has_the_same_judge(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    begin = [*FEW, "--out", "run"]
    for name in ("replies.jsonl", "trials.jsonl", "judge.json", "summary.json", "judgements.jsonl"):
        with monkeypatch.context() as patched:
            full_at(name, patched)
            assert command(begin) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert name in last
        assert "No space left" in last
        assert "--resume --out run" in last
        begin = ["--resume", "--out", "run"]
    assert command(begin) == 0
    assert_same_judge(here / "run", whole)


def test_changed_labels_are_not_resumed_with(
    here: Path, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(whole, here / "run")
    before = (here / "run" / "judge.json").read_bytes()
    rows = (here / "few.jsonl").read_text().splitlines()
    (here / "few.jsonl").write_text("\n".join([rows[1], rows[0], *rows[2:]]) + "\n")
    assert command(["--resume", "--out", "run"]) == 1
    assert "few has changed since the run was begun" in capsys.readouterr().err
    assert (here / "run" / "judge.json").read_bytes() == before


SCORE = ["score", "relevance", "--data", "few.jsonl", "--out", "o.jsonl"]


def test_scoring_resumes_no_file_but_its_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("o.jsonl", "o.jsonl.partial"):
        (here / name).write_text("a year's work\n")
        assert main([*SCORE, "--resume"]) == 1
        assert "not of a run that can be resumed" in capsys.readouterr().err.splitlines()[-1]
        assert (here / name).read_text() == "a year's work\n"
        (here / name).unlink()
    # Cut off in its middle, it goes on: but by the same judge on the same rows.
    written = RowWriter.write

    def cut(writer: RowWriter, row: Any) -> None:
        if writer.written == 5:
            raise KeyboardInterrupt
        written(writer, row)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(RowWriter, "write", cut)
        assert main(SCORE) == 130
    partial = (here / "o.jsonl.partial").read_bytes()
    rows = (here / "few.jsonl").read_text()
    for change, told in (
        (["score", "fluency", *SCORE[2:], "--map", "summary=summary"], "judges"),
        ([*SCORE, "--seed", "4"], "seed"),
    ):
        assert main([*change, "--resume"]) == 1
        assert f"a run with other {told}" in capsys.readouterr().err.splitlines()[-1]
    (here / "few.jsonl").write_text(rows + rows)
    assert main([*SCORE, "--resume"]) == 1
    assert "other data" in capsys.readouterr().err.splitlines()[-1]
    assert (here / "o.jsonl.partial").read_bytes() == partial
    (here / "few.jsonl").write_text(rows)
    assert main([*SCORE, "--resume"]) == 0
    assert len((here / "o.jsonl").read_text().splitlines()) == len(rows.splitlines())
    assert {path.name for path in here.iterdir()} == {"few.jsonl", "o.jsonl"}


def test_a_full_disk_while_scoring_names_file_and_resume(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("data.tables.text.JsonLinesSink.write", raising(FULL))
        assert main(SCORE) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert "o.jsonl.partial: No space left on device" in last
    assert "--resume" in last
    assert main([*SCORE, "--resume"]) == 0


HOLD = """
import sys, time
from pathlib import Path
from data.tables.atomic_write import in_use
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


@pytest.mark.parametrize(
    "second", [["--out", "o.jsonl"], ["--out", "p.jsonl"]], ids=["one output", "one journal"]
)
def test_two_processes_scoring_at_once_pay_nothing_twice(
    here: Path, second: list[str], openai_server: OpenAIServer
) -> None:
    openai_server.latency = 0.3
    asked = ["score", "relevance", "--data", "few.jsonl", "--lm", "openai/judge-1"]
    asked += ["--journal", "r.jsonl", "--concurrency", "4"]
    codes, said = run_both([[*asked, "--out", "o.jsonl"], [*asked, *second]], "judges")
    assert sorted(codes) == [0, 1]
    last = said[codes.index(1)].splitlines()[-1]
    assert "is in use by another run" in last or "exists already" in last or "unfinished" in last
    assert set(openai_server.n_answered.values()) == {1}


def run_both(both: list[list[str]], module: str) -> tuple[list[int], list[str]]:
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for arguments in both
    ]
    said = [process.communicate(timeout=TIMEOUT)[1] for process in processes]
    assert not any("Traceback" in one for one in said)
    return [process.returncode for process in processes], said


def test_two_processes_in_one_run_folder_end_well_or_say_who_holds_it(
    here: Path, whole: Path
) -> None:
    codes, said = run_both([[*FEW, "--out", "run"]] * 2, "optimize")
    assert sorted(codes) == [0, 1]
    last = said[codes.index(1)].splitlines()[-1]
    assert "is in use by another run" in last or "holds a run already" in last
    assert_same_judge(here / "run", whole)
