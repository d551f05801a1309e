"""Batch files against a stand-in for the provider: the same judgements, and nothing twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from openai_server import OpenAIServer

import judges
from data.tables.atomic_write import write_atomically
from judges.__main__ import main
from judges.inference import batch
from judges.inference.runner import Runner
from judges.judgement import Judgement, Verdict
from judges.models import FatalModelError, Model, open_model
from judges.models.journal import Journal
from judges.protocol import UnreachableError

LM = "openai/judge-1"
ROWS = [{"document": f"Document {i}.", "summary": f"Summary {i}."} for i in range(25)]


def judge_all(model: Model, journal: Path, rows: Sequence[dict[str, str]] = ROWS) -> list[object]:
    judge = judges.load("relevance")
    with Journal(journal) as replies, Runner(model, journal=replies) as runner:
        return list(judge.judge_rows(rows, runner))


def scores(said: Sequence[object]) -> list[float]:
    return [one.score for one in said if isinstance(one, Judgement) and one.failure is None]


def submit(folder: Path, rows: Sequence[dict[str, str]] = ROWS) -> batch.State:
    said = judge_all(batch.queue(LM, folder / "batch"), folder / "journal", rows)
    assert all(isinstance(one, Judgement | Verdict) for one in said)
    return batch.submit(folder / "batch")


def collect(folder: Path) -> batch.Collected:
    with Journal(folder / "journal") as replies:
        return batch.collect(folder / "batch", replies)


def test_a_batch_gives_the_judgements_that_asking_gives(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    state = submit(tmp_path, [*ROWS, ROWS[0]])
    assert (state.n_requests, state.done) == (25, False)  # the row that comes twice is asked once
    assert batch.status(tmp_path / "batch").done
    collected = collect(tmp_path)
    assert (collected.n_answered, collected.n_missing, collected.failures) == (25, 0, {})
    said = judge_all(batch.collected(tmp_path / "batch"), tmp_path / "journal")
    assert openai_server.log == []
    assert said == judge_all(open_model(LM), tmp_path / "asked")
    assert len(openai_server.log) == 25


def test_what_the_batch_failed_or_left_out_is_a_failed_row_that_says_so(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = lambda number, body: {1: "500", 2: "drop"}.get(number)
    submit(tmp_path)
    collected = collect(tmp_path)
    assert (collected.n_answered, collected.n_missing, len(collected.failures)) == (23, 1, 1)
    said = judge_all(batch.collected(tmp_path / "batch"), tmp_path / "journal")
    failures = sorted(one.failure for one in said if isinstance(one, Judgement) and one.failure)
    assert len(said) == 25
    assert "not answered by the batch; submit again" in failures[0]
    assert "the batch failed it: faulty" in failures[1]


def test_lines_of_any_shape_lose_no_other_lines(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(tmp_path)
    keep = openai_server._keep
    deep = "[" * 700 + "]" * 700

    def spoil(content: bytes, purpose: str) -> dict[str, Any]:
        lines = content.decode().splitlines()
        key = '"custom_id": "' + json.loads(lines[0])["custom_id"] + '"'
        odd = ["[" * 5000, "[]", "9" * 5000, "{", '{"custom_id": "../x"}', "null", '{"x": NaN']
        first = f'{{{key}, "response": {{"status_code": 200, "body": {deep}}}}}'
        second = json.dumps({**json.loads(lines[1]), "response": [1]})
        third = f'{lines[2][:-1]}, "error": {{"message": {deep}}}}}'
        return keep("\n".join([*odd, first, second, third, *lines[3:]]).encode(), purpose)

    monkeypatch.setattr(openai_server, "_keep", spoil)
    collected = collect(tmp_path)
    assert (collected.n_answered, collected.n_missing, len(collected.failures)) == (22, 0, 3)
    assert len(scores(judge_all(batch.collected(tmp_path / "batch"), tmp_path / "journal"))) == 22


def test_only_what_is_missing_is_queued_again_or_asked_live(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = lambda number, body: "500" if number < 4 else None
    submit(tmp_path)
    collect(tmp_path)
    openai_server.fault = lambda number, body: "500" if number < 1 else None
    assert submit(tmp_path).n_requests == 4
    assert collect(tmp_path).n_answered == 3
    openai_server.fault = lambda number, body: None
    assert len(scores(judge_all(open_model(LM), tmp_path / "journal"))) == 25
    assert len(openai_server.log) == 1


def test_submitting_again_starts_no_batch_twice(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.inference.batch.MOST_REQUESTS", 10)
    n_written = 0

    def killed(path: Path, content: bytes, *, overwrite: bool) -> None:
        nonlocal n_written
        n_written += 1
        if n_written == 4:  # the first part is noted; the second has just been started
            raise KeyboardInterrupt
        write_atomically(path, content, overwrite=overwrite)

    with monkeypatch.context() as patched:
        patched.setattr("judges.inference.batch.write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            submit(tmp_path)
    assert len(openai_server.batches) == 2
    state = batch.submit(tmp_path / "batch")
    assert [part.n_requests for part in state.parts] == [10, 10, 5]
    assert len(openai_server.batches) == 3
    assert batch.submit(tmp_path / "batch") == state
    assert collect(tmp_path).n_answered == 25


def test_a_batch_under_way_is_neither_collected_nor_replaced(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.batch_delay = 1000
    submit(tmp_path)
    with pytest.raises(FatalModelError, match=r"not all batches are finished.*in_progress"):
        collect(tmp_path)
    with pytest.raises(FatalModelError, match="collect them first"):
        batch.queue(LM, tmp_path / "batch")
    assert "0 of 25 requests answered" in str(batch.status(tmp_path / "batch"))


def test_the_set_up_is_checked_in_one_line(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FatalModelError, match="openai/NAME"):
        batch.queue("anthropic/claude", tmp_path)
    with pytest.raises(FatalModelError, match="submit first"):
        batch.status(tmp_path / "nothing")
    judge_all(batch.queue(LM, tmp_path / "b", api_base="http://127.0.0.1:9/v1"), tmp_path / "j")
    with pytest.raises(UnreachableError, match="no connection to"):
        batch.submit(tmp_path / "b", api_base="http://127.0.0.1:9/v1")


def test_no_key_is_written(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-planted-99887766554433")
    submit(tmp_path)
    collect(tmp_path)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or b"sk-planted" not in path.read_bytes()


def test_a_batch_takes_the_key_the_limit_and_the_effort_that_its_user_names(
    openai_server: OpenAIServer, table_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("ROUTER_KEY", "sk-router-0123456789abcdef")
    files = ["score", "relevance", "--data", "in.jsonl", "--out", "out.jsonl", "--lm", LM]
    request = ["--api-key-env", "ROUTER_KEY", "--max-tokens", "99", "--reasoning-effort", "low"]
    for step in ("submit", "status", "collect"):
        assert main([*files, *request, "--batch-api", step]) == 0
    (content,) = (part for name, part in openai_server.files.items() if b"custom_id" in part[:20])
    body = json.loads(content.splitlines()[0])["body"]
    assert (body["max_tokens"], body["reasoning_effort"]) == (99, "low")
    lines = Path("out.jsonl").read_text().splitlines()
    assert all(json.loads(line)["judgements"]["relevance"]["score"] for line in lines)


def test_what_a_provider_says_of_a_batch_moves_no_cursor(
    openai_server: OpenAIServer,
    table_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = batch._progress

    def hostile(part: batch.Part, answer: Any) -> batch.Part:
        return replace(progress(part, answer), status="validating\x1b[2J")

    monkeypatch.setattr("judges.inference.batch._progress", hostile)
    files = ["score", "relevance", "--data", "in.jsonl", "--out", "out.jsonl", "--lm", LM]
    for step in ("submit", "status"):
        assert main([*files, "--batch-api", step]) == 0
        assert "validating\\u001b[2J" in capsys.readouterr().out


def test_a_batch_of_a_model_that_reasons_leaves_room_for_it(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    judge_all(batch.queue("openai/qwq-32b", tmp_path / "batch"), tmp_path / "journal", ROWS[:1])
    (line,) = (tmp_path / "batch" / "part-000.jsonl").read_text().splitlines()
    assert json.loads(line)["body"]["max_tokens"] == 4096


def test_an_upload_that_fails_is_no_batch_and_submitting_again_goes_on(
    openai_server: OpenAIServer,
    table_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("judges.inference.batch.MOST_REQUESTS", 4)
    start, n_started = batch._start, 0

    def start_once(*arguments: Any) -> Any:
        nonlocal n_started
        n_started += 1
        if n_started == 2:
            raise UnreachableError("no connection")
        return start(*arguments)

    monkeypatch.setattr("judges.inference.batch._start", start_once)
    files = ["score", "relevance", "--data", "in.jsonl", "--out", "out.jsonl", "--lm", LM]
    assert main([*files, "--batch-api", "submit"]) == 1
    assert main([*files, "--batch-api", "status"]) == 1
    assert "not all of it is submitted; --batch-api submit goes on" in capsys.readouterr().err
    assert main([*files, "--batch-api", "collect"]) == 1
    assert main([*files, "--batch-api", "submit"]) == 0
    assert n_started == 3
    assert len(openai_server.batches) == 2
    for step in ("status", "collect"):
        assert main([*files, "--batch-api", step]) == 0
