"""Batch files against a stand-in for the provider: the same judgements, and nothing twice."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer

import judges
from data.tables.atomic_write import write_atomically
from judges.__main__ import main
from judges.batch import Batch, State
from judges.client.client import Client
from judges.client.journal import Journal
from judges.client import FatalModelError, Model, UnreachableError, open_model
from judges.judgement import Judgement, Verdict

LM = "openai/judge-1"
ROWS = [{"document": f"Document {i}.", "summary": f"Summary {i}."} for i in range(25)]
SCORE = ["score", "relevance", "--data", "in.jsonl", "--out", "out.jsonl", "--lm", LM]


def judge_all(model: Model, journal: Path, rows: Sequence[dict[str, str]] = ROWS) -> list[object]:
    judge = judges.load("relevance")
    with Journal(journal) as replies, Client(model, journal=replies) as runner:
        return list(judge.judge_rows(rows, runner))


def scores(judgements: Sequence[object]) -> list[float]:
    return [one.score for one in judgements if isinstance(one, Judgement) and one.failure is None]


def submit(folder: Path, rows: Sequence[dict[str, str]] = ROWS) -> State:
    batch = Batch(folder / "batch", lm=LM)
    judgements = judge_all(batch.queue(), folder / "journal", rows)
    assert all(isinstance(one, Judgement | Verdict) for one in judgements)
    return batch.submit()


def collect(folder: Path) -> tuple[Mapping[str, str], list[object]]:
    """The failures, and every row judged with what was collected."""
    batch = Batch(folder / "batch")
    with Journal(folder / "journal") as replies:
        failures = batch.collect(replies)
    return failures, judge_all(batch.collected(failures), folder / "journal")


def test_a_batch_gives_the_judgements_that_asking_gives(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    state = submit(tmp_path, [*ROWS, ROWS[0]])
    assert (state.n_requests, state.done) == (25, False)  # the row that comes twice is asked once
    assert Batch(tmp_path / "batch").refresh().done
    failures, judgements = collect(tmp_path)
    assert failures == {}
    assert openai_server.log == []
    assert judgements == judge_all(open_model(LM), tmp_path / "asked")
    assert len(openai_server.log) == 25


def test_what_the_batch_failed_or_left_out_is_a_failed_row_that_says_so(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = lambda number, body: {1: "500", 2: "drop"}.get(number)
    submit(tmp_path)
    failures, judgements = collect(tmp_path)
    assert len(failures) == 1
    reasons = sorted(str(one.failure) for one in judgements if getattr(one, "failure", None))
    assert len(judgements) == 25
    assert "not answered by the batch" in reasons[0]
    assert "the batch failed it: faulty" in reasons[1]


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
    failures, judgements = collect(tmp_path)
    assert (len(failures), len(scores(judgements))) == (3, 22)


def test_only_what_is_missing_is_queued_again_or_asked_live(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = lambda number, body: "500" if number < 4 else None
    submit(tmp_path)
    collect(tmp_path)
    openai_server.fault = lambda number, body: "500" if number < 1 else None
    assert submit(tmp_path).n_requests == 4
    assert len(collect(tmp_path)[0]) == 1
    openai_server.fault = lambda number, body: None
    assert len(scores(judge_all(open_model(LM), tmp_path / "journal"))) == 25
    assert len(openai_server.log) == 1


def test_a_submission_killed_at_any_write_starts_one_batch(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_written = 0

    def killed(path: Path, content: bytes, *, overwrite: bool) -> None:
        nonlocal n_written
        n_written += 1
        if n_written == 2:  # the batch has just been started, and is not noted
            raise KeyboardInterrupt
        write_atomically(path, content, overwrite=overwrite)

    with monkeypatch.context() as patched:
        patched.setattr("judges.batch.write_atomically", killed)
        with pytest.raises(KeyboardInterrupt):
            submit(tmp_path)
    batch = Batch(tmp_path / "batch")
    assert batch.waiting
    assert batch.submit() == batch.submit()
    assert len(openai_server.batches) == 1
    assert len(scores(collect(tmp_path)[1])) == 25


def test_the_set_up_is_checked_in_one_line(
    openai_server: OpenAIServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FatalModelError, match="openai/NAME"):
        Batch(tmp_path, lm="anthropic/claude")
    with pytest.raises(FatalModelError, match="submit first"):
        Batch(tmp_path / "nothing")
    nowhere = Batch(tmp_path / "b", lm=LM, api_base="http://127.0.0.1:9/v1")
    judge_all(nowhere.queue(), tmp_path / "j")
    with pytest.raises(UnreachableError, match="no connection to"):
        nowhere.submit()
    with pytest.raises(FatalModelError, match=r"not at http.*say which to ask"):
        Batch(tmp_path / "b")
    with pytest.raises(FatalModelError, match="not submitted"):
        Batch(tmp_path / "b", api_base="http://127.0.0.1:9/v1").refresh()
    monkeypatch.setattr("judges.batch.MOST_REQUESTS", 10)
    with pytest.raises(FatalModelError, match=r"a batch takes 10 requests .* split the table"):
        submit(tmp_path)


def test_the_command_takes_key_limit_and_effort_and_writes_no_key(
    openai_server: OpenAIServer,
    table_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("ROUTER_KEY", "sk-router-0123456789abcdef")
    openai_server.batch_delay = 1000
    ask = [*SCORE, "--api-key-env", "ROUTER_KEY", "--max-tokens", "99"]
    ask += ["--reasoning-effort", "low", "--batch-api"]
    assert main([*ask, "submit"]) == 0
    assert main([*ask, "submit"]) == 0
    assert len(openai_server.batches) == 1
    assert main([*ask, "collect"]) == 1
    assert "the batch is not finished; openai/judge-1: 0 of" in capsys.readouterr().err
    openai_server.batch_delay = 0
    assert main([*ask, "status"]) == 0
    assert "requests answered; batch" in capsys.readouterr().out
    assert main([*ask, "collect"]) == 0
    (content,) = (part for part in openai_server.files.values() if b"custom_id" in part[:20])
    body = json.loads(content.splitlines()[0])["body"]
    assert (body["max_tokens"], body["reasoning_effort"]) == (99, "low")
    lines = Path("out.jsonl").read_text().splitlines()
    assert all(json.loads(line)["judgements"]["relevance"]["score"] for line in lines)
    for path in Path().rglob("*"):
        assert path.is_dir() or b"sk-router" not in path.read_bytes()


def test_a_batch_of_a_model_that_reasons_leaves_room_for_it(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    batch = Batch(tmp_path / "batch", lm="openai/qwq-32b")
    judge_all(batch.queue(), tmp_path / "journal", ROWS[:1])
    (line,) = (tmp_path / "batch" / "requests.jsonl").read_text().splitlines()
    assert json.loads(line)["body"]["max_tokens"] == 4096
