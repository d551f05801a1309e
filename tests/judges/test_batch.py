"""Batch files against a stand-in for the provider: the same judgements, and nothing twice."""

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from openai_server import OpenAIServer

import judges
from data.tables.atomic_write import write_atomically
from dspy_judges.errors import OptionError
from judges.__main__ import main
from judges.batch import Batch, QueueModel, State
from judges.client import FatalModelError, Price, Session
from judges.client.store import Store
from judges.judgement import AnyJudgement

LM = "openai/judge-1"
ROWS = [{"document": f"Document {i}.", "summary": f"Summary {i}."} for i in range(25)]
SCORE = ["score", "relevance", "--data", "in.jsonl", "--out", "out.jsonl", "--lm", LM]
# Dollars a token read and written.
PRICE = Price(per_token_in=1e-6, per_token_out=4e-6)


def judge_all(
    store: Path | None,
    *,
    queue: QueueModel | None = None,
    rows: Sequence[dict[str, str]] = ROWS,
    lm: str = LM,
) -> list[AnyJudgement]:
    with Session(store=store, models={lm: queue} if queue else None, cache="none") as session:
        return list(judges.load("relevance").judge_rows(rows, session.client(lm)))


def queue(
    folder: Path, rows: Sequence[dict[str, str]] = ROWS, lm: str = LM
) -> tuple[Batch, QueueModel]:
    batch = Batch(folder / "out.csv", lm)
    with closing(Store(folder / "store")) as store:
        model = batch.queue(store, PRICE)
        judge_all(None, queue=model, rows=rows, lm=lm)
    return batch, model


def submit(folder: Path, rows: Sequence[dict[str, str]] = ROWS) -> State:
    return queue(folder, rows)[0].submit()


def collect(folder: Path) -> list[str]:
    with closing(Store(folder / "store")) as store:
        return Batch(folder / "out.csv", LM).collect(store, PRICE)


def test_a_batch_gives_the_judgements_that_asking_gives_at_half_the_price(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    state = submit(tmp_path, [*ROWS, ROWS[0]])
    assert (state.n_requests, state.done) == (25, False)  # the row that comes twice is asked once
    assert Batch(tmp_path / "out.csv", LM).refresh().done
    assert collect(tmp_path) == []
    judgements = judge_all(tmp_path / "store")
    assert openai_server.log == []
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert judgements == judge_all(tmp_path / "asked")
    assert len(openai_server.log) == 25
    spent = [
        sum(total.cost for total in Store(tmp_path / name).totals()) for name in ("store", "asked")
    ]
    usual = openai_server.tokens_in * 1e-6 + openai_server.tokens_out * 4e-6
    assert spent == pytest.approx([usual / 2, 0])  # a price is known for the batch alone


def test_only_what_has_no_answer_is_queued_again_or_asked_live(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    openai_server.fault = lambda number, body: {1: "500", 2: "drop"}.get(number)
    submit(tmp_path)
    reasons = sorted(collect(tmp_path))
    assert len(reasons) == 2
    assert "faulty" in reasons[0]
    assert "not answered: openai/judge-1: 23 of 25 requests answered" in reasons[1]
    openai_server.fault = lambda number, body: "500" if number == 0 else None
    assert submit(tmp_path).n_requests == 2
    assert len(collect(tmp_path)) == 1
    openai_server.fault = lambda number, body: None
    assert all(each.failure is None for each in judge_all(tmp_path / "store"))
    assert len(openai_server.log) == 1


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
        third = json.dumps({**json.loads(lines[2]), "response": {"status_code": 200, "body": {}}})
        return keep("\n".join([*odd, first, second, third, *lines[3:]]).encode(), purpose)

    monkeypatch.setattr(openai_server, "_keep", spoil)
    assert len(collect(tmp_path)) == 3
    assert Store.answered(tmp_path / "store") == {LM: 22}


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
    batch = Batch(tmp_path / "out.csv", LM)
    assert batch.state.run
    assert batch.submit() == batch.submit()
    assert len(openai_server.batches) == 1
    assert collect(tmp_path) == []


def test_the_set_up_is_checked_in_one_line(openai_server: OpenAIServer, tmp_path: Path) -> None:
    with pytest.raises(FatalModelError, match="openai/NAME"):
        Batch(tmp_path / "out.csv", "anthropic/claude")
    elsewhere = Batch(tmp_path / "out.csv", LM, api_base="http://127.0.0.1:9/v1")
    with closing(Store(tmp_path / "store")) as store:
        judge_all(None, queue=elsewhere.queue(store))
    with pytest.raises(FatalModelError, match="Connection error"):
        elsewhere.submit()
    with pytest.raises(FatalModelError, match="its batch asks openai/judge-1 at http"):
        Batch(tmp_path / "out.csv", LM)
    with pytest.raises(FatalModelError, match="no batch is submitted"):
        elsewhere.refresh()


def test_what_a_batch_may_cost_is_checked_before_it_is_submitted(
    openai_server: OpenAIServer, tmp_path: Path
) -> None:
    _, model = queue(tmp_path)
    with pytest.raises(OptionError, match="25 requests are more than max_calls 24"):
        model.check(24, None)
    with (tmp_path / "out.csv.batch.jsonl").open() as lines:
        bodies = [json.loads(line)["body"] for line in lines]
    # No token is shorter than a byte, and a message has some around its text.
    size = sum(len(message["content"]) for body in bodies for message in body["messages"])
    longest = sum(body["max_tokens"] for body in bodies)
    least = 0.5 * (size * 1e-6 + longest * 4e-6)
    with pytest.raises(OptionError, match=rf"the batch may cost \${least:.2f}"):
        model.check(25, least)
    model.check(25, 1.1 * least)


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
    assert openai_server.log == []
    (content,) = (part for part in openai_server.files.values() if b"custom_id" in part[:20])
    body = json.loads(content.splitlines()[0])["body"]
    assert (body["max_tokens"], body["reasoning_effort"]) == (99, "low")
    lines = Path("out.jsonl").read_text().splitlines()
    assert all(json.loads(line)["judgements"]["relevance"]["score"] for line in lines)
    for path in Path().rglob("*"):
        assert path.is_dir() or b"sk-router" not in path.read_bytes()
