"""Whatever ends a run early, what was paid for is kept: full disks, faults, two runs at once."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import data
from judges.catalog import find
from judges.dimension import Dimension
from judges.engine.ledger import BudgetSpentError
from judges.frozen import MOST_BYTES, dumps
from judges.judge import Judge
from judges.loading import load
from judges.prompt import MOST_DEMOS
from judges.sampling import SamplingPlan
from optimize.commands.tune import command
from optimize.run.settings import Settings
from optimize.search.allowance import plan
from optimize.search.candidates import Candidate, Instruction
from optimize.search.entrants import whole_set
from optimize.search.items import Item, Items

FEW = ["--dimension", "relevance", "--data", "few.jsonl", "--max-calls", "400"]
SUBJECT = find("relevance")
assert isinstance(SUBJECT, Dimension)
SEED = Judge.of(SUBJECT)
FREE = plan(Settings(dimension="relevance"))


def write_few(folder: Path) -> None:
    """The starter set's first documents, by five of its systems."""
    outputs = [one for one in data.starter().outputs if one.ratings.get("relevance")]
    documents = sorted({one.document_id for one in outputs})[:18]
    systems = sorted({one.system or "" for one in outputs})[:5]
    rows = [
        {
            "id": one.id,
            "group": one.document_id,
            "system": one.system,
            **one.texts,
            "relevance": one.rating("relevance"),
        }
        for one in outputs
        if one.document_id in documents and one.system in systems
    ]
    (folder / "few.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


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
    shown = whole_set(items, SEED.prompt, FREE)
    candidate = Candidate(instruction=Instruction(text=SEED.prompt.instruction), shown=shown)
    judge = replace(SEED, prompt=candidate.prompt(SEED.prompt), plan=SamplingPlan(kind="weighted"))
    return judge, len(dumps(judge).encode())


def test_a_search_shows_no_more_than_a_frozen_judge_holds() -> None:
    assert max(FREE.demo_sizes) == MOST_DEMOS
    texts = [{"document": f"d{n}", "summary": f"s{n}"} for n in range(MOST_DEMOS + 100)]
    judge, _ = frozen_with(texts)
    assert len(judge.prompt.demos) == MOST_DEMOS


@pytest.mark.parametrize(
    "letter", ["\N{PILE OF POO}", "\x01", "##]]", "\ud800"], ids=["wide", "escaped", "ours", "half"]
)
def test_a_frozen_judge_holds_what_was_shown_whatever_its_letters(letter: str) -> None:
    # 2.9 million letters: as many as a search may show, and past the file's size as UTF-8 or JSON.
    texts = [
        {"document": letter * (3600 // len(letter)), "summary": f"s{number}"}
        for number in range(800)
    ]
    judge, size = frozen_with(texts)
    assert len(judge.prompt.demos) > 200
    assert size <= MOST_BYTES


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
        patched.setattr("optimize.report.writing.render", raising(KeyError("colour")))
        assert command([*FEW, "--out", "run"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "report.html could not be drawn" in said.splitlines()[-1]
    assert "python -m optimize.report run" in said.splitlines()[-1]
    assert_same_judge(here / "run", whole)
    from optimize.commands.report import main

    assert main(["run"]) == 0
    assert (here / "run" / "report.html").exists()


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
    from optimize.run import outcome

    measure = outcome.measure

    def poor(*told: Any, test: bool = True) -> outcome.Measured:
        if test:
            raise BudgetSpentError("the budget is spent; raise it and resume")
        return measure(*told, test=False)

    with monkeypatch.context() as patched:
        patched.setattr(outcome, "measure", poor)
        assert command([*FEW, "--out", "run"]) == 1
    summary = json.loads((here / "run" / "summary.json").read_text())
    assert summary["tuned_judge"]["test"] is None
    assert summary["tuned_judge"]["dev"] is not None
    assert isinstance(load(here / "run"), Judge)
    assert command(["--resume", "--out", "run"]) == 0
    assert_same_judge(here / "run", whole)


def test_probes_that_fail_lose_neither_judge_nor_report(
    here: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("optimize.run.gathering.probe", raising(BudgetSpentError("spent")))
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
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    told = ["--dimension", "relevance", "--data", "rows.jsonl", "--scale", "2000-2005"]
    assert command([*told, "--out", "run"]) in (1, 2)
    assert "1000" in capsys.readouterr().err.splitlines()[-1]
    assert not (here / "run").exists()
