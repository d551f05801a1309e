"""Batch files against a stand-in for the provider: the same judgements, and nothing twice."""

import json
import re
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from unittest.mock import Mock

import pytest
from behaving_model import count_answers
from files import read_jsonl

import judges
from dspy_judges.errors import OptionError
from judges.__main__ import main
from judges.batch import Batch
from judges.client import Price, Session, endpoint_of
from judges.client.store import Store
from judges.protocol import FatalModelError
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import RowWriter

LM = "openai/judge-1"
ROWS = [{"document": f"Document {i}.", "summary": f"Summary {i}."} for i in range(25)]
SCORE = ["score", "relevance", "--data", "in.jsonl", "--out", "out.jsonl", "--lm", LM]
# Dollars a token read and written.
PRICE = Price(per_token_in=1e-6, per_token_out=4e-6)


def judge_all(store, *, batch=None, rows=ROWS):
    with Session(store=store, models={LM: batch} if batch else None, cache="none") as session:
        return list(judges.load("relevance").judge_rows(rows, session.client(LM)))


@contextmanager
def batch_of(folder, **options):
    with Session(store=folder / "store", **options) as session:
        yield Batch(folder / "out.csv", LM, session, price=PRICE)


def submit(folder, rows=ROWS, **limits):
    with batch_of(folder, **limits) as batch:
        judge_all(None, batch=batch, rows=rows)
        n = batch.book_requests()
        batch.submit()
        return n


def collect(folder):
    with batch_of(folder) as batch:
        return batch.collect_answers()


def cost(store):
    with closing(Store(store)) as opened_store:
        return sum(total.cost for total in opened_store.totals())


def test_a_batch_gives_the_same_judgements_at_half_the_price(openai_server, tmp_path):
    assert submit(tmp_path, [*ROWS, ROWS[0]]) == 25  # the row that comes twice is asked once
    assert collect(tmp_path) == []
    judgements = judge_all(tmp_path / "store")
    assert openai_server.log == []
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    assert judgements == judge_all(tmp_path / "asked")
    assert len(openai_server.log) == 25
    costs = [cost(tmp_path / name) for name in ("store", "asked")]
    # A price is known for the batch alone.
    assert costs == pytest.approx([openai_server.dollars(PRICE) / 2, 0])


def test_only_what_has_no_answer_is_queued_again_or_asked_live(openai_server, tmp_path):
    openai_server.fault = lambda number, body: {1: "500", 2: "drop"}.get(number)
    submit(tmp_path)
    faulty, gaps = sorted(collect(tmp_path))
    assert "faulty" in faulty
    assert "23 of 25 requests answered" in gaps
    openai_server.fault = lambda number, body: "500" if number == 0 else None
    assert submit(tmp_path) == 2
    assert len(collect(tmp_path)) == 1
    openai_server.fault = lambda number, body: None
    assert all(each.failure is None for each in judge_all(tmp_path / "store"))
    assert len(openai_server.log) == 1


def test_a_batch_that_the_provider_refused_says_why(openai_server, tmp_path):
    submit(tmp_path)
    why = {"code": "invalid", "message": "Enqueued token limit\nreached.", "line": None}
    failure = {"status": "failed", "errors": {"object": "list", "data": [why, why | {"line": 2}]}}
    openai_server.batches["batch_0"] |= failure
    openai_server.batch_delay = 9
    (reason,) = set(collect(tmp_path))
    assert "batch_0 failed, 0 of 25 requests answered; Enqueued token limit reached.; En" in reason


def test_lines_of_any_shape_lose_no_other_lines(openai_server, tmp_path, monkeypatch):
    submit(tmp_path)
    keep = openai_server._keep
    deep = json.loads("[" * 700 + "]" * 700)

    def spoil(content, purpose):
        lines = content.decode().splitlines()
        responses = ({"status_code": 200, "body": deep}, [1], {"status_code": 200, "body": {}})
        for i, response in enumerate(responses):
            lines[i] = json.dumps({**json.loads(lines[i]), "response": response})
        odd = ["[" * 5000, "[]", "9" * 5000, "{", '{"custom_id": "../x"}', "null", '{"x": NaN']
        return keep("\n".join(odd + lines).encode(), purpose)

    monkeypatch.setattr(openai_server, "_keep", spoil)
    assert len(collect(tmp_path)) == 3
    assert count_answers(tmp_path / "store") == {LM: 22}


@pytest.mark.parametrize("was_started", [True, False])
def test_a_killed_submission_starts_one_batch(was_started, openai_server, tmp_path, monkeypatch):
    old = {"object": "batch", "created_at": 1, "metadata": None, "status": "completed"}
    openai_server.batches = {f"old_{i}": {**old, "id": f"old_{i}"} for i in range(250)}
    writes = count(1)

    def write(path, content, *, overwrite):
        if next(writes) == 2:  # the batch has just been started, and is not noted
            raise KeyboardInterrupt
        write_atomically(path, content, overwrite=overwrite)

    with monkeypatch.context() as patch:
        patch.setattr("judges.batch.write_atomically", write)
        with pytest.raises(KeyboardInterrupt):
            submit(tmp_path)
    if not was_started:
        openai_server.batches.popitem()
    with batch_of(tmp_path) as batch:
        assert batch.state.run_id
        for _ in range(2):
            batch.submit()
    assert len(openai_server.batches) == 251
    assert openai_server.pages == 1  # the newest batches come first; older ones are not listed
    assert collect(tmp_path) == []


def test_a_killed_collection_goes_on_by_the_same_command(openai_server, table_folder, monkeypatch):
    ask = [*SCORE, "--quiet", "--batch-api"]
    assert main([*ask, "submit"]) == 0

    with monkeypatch.context() as patch:
        patch.setattr(RowWriter, "write", Mock(side_effect=KeyboardInterrupt))
        assert main([*ask, "collect"]) == 130
    assert main([*ask, "collect"]) == 0
    assert openai_server.log == []
    assert len(read_jsonl("out.jsonl")) == 6


@pytest.mark.usefixtures("table_folder")
def test_a_strangers_batch_state_chooses_no_file_and_passes_no_limit(openai_server, capsys):
    Path("private").write_text("kept")
    Path("out.jsonl.batch.jsonl").symlink_to("private")
    state = {"run": "r", "lm": LM, "endpoint": endpoint_of(LM)}
    Path("out.jsonl.batch.json").write_text(json.dumps(state))
    ask = [*SCORE, "--batch-api", "submit"]
    assert main([*ask, "--max-calls", "5"]) == 1
    assert "the batch has 6 requests; --max-calls leaves 5" in capsys.readouterr().err
    assert openai_server.files == {}
    assert main(ask) == 0
    (content,) = openai_server.files.values()
    assert (content.count(b"custom_id"), Path("private").read_text()) == (6, "kept")


def test_the_set_up_is_checked_in_one_line(openai_server, tmp_path):
    with batch_of(tmp_path) as batch, pytest.raises(FatalModelError, match="no batch is submitted"):
        batch.collect_answers()
    with Session(store=tmp_path / "store") as session:
        with pytest.raises(FatalModelError, match="openai/NAME"):
            Batch(tmp_path / "out.csv", "anthropic/claude", session)
        elsewhere = Batch(tmp_path / "out.csv", LM, session, api_base="http://127.0.0.1:9/v1")
        judge_all(None, batch=elsewhere)
        elsewhere.book_requests()
        with pytest.raises(FatalModelError, match="Connection error"):
            elsewhere.submit()
        with pytest.raises(FatalModelError, match="its batch asks openai/judge-1 at http"):
            Batch(tmp_path / "out.csv", LM, session)


def test_a_batch_keeps_to_the_runs_remaining_limits(openai_server, tmp_path):
    with Session(store=tmp_path / "store", price=(1.0, 4.0), cache="none") as session:
        list(judges.load("relevance").judge_rows(ROWS[:5], session.client(LM)))
    bill = cost(tmp_path / "store")
    with pytest.raises(OptionError, match="has 20 requests; --max-calls leaves 19"):
        submit(tmp_path, max_calls=24)
    bodies = [line["body"] for line in read_jsonl(tmp_path / "out.csv.batch.jsonl")]
    # No token is shorter than a byte, and a message has some around its text.
    size = sum(len(message["content"]) for body in bodies for message in body["messages"])
    longest = sum(body["max_tokens"] for body in bodies)
    least = 0.5 * (size * 1e-6 + longest * 4e-6)
    with pytest.raises(OptionError, match=r"may cost .*; --max-cost leaves"):
        submit(tmp_path, max_cost=bill + least)
    assert submit(tmp_path, max_cost=bill + 1.1 * least) == 20
    # Until it is collected, all of it is taken; what was not answered is free.
    assert cost(tmp_path / "store") == pytest.approx(bill + least, rel=0.1)
    openai_server.fault = lambda number, body: "500" if number < 10 else None
    assert len(collect(tmp_path)) == 10
    assert cost(tmp_path / "store") == pytest.approx(bill + 0.5 * bill / 5 * 10, rel=0.05)


def test_a_batch_uses_the_flags_and_writes_no_key(openai_server, table_folder, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.setenv("ROUTER_KEY", "sk-router-0123456789abcdef")
    openai_server.batch_delay = 1000
    ask = [*SCORE, "--api-key-env", "ROUTER_KEY", "--max-tokens", "99"]
    ask += ["--reasoning-effort", "low", "--batch-api"]
    assert main([*ask, "submit"]) == main([*ask, "submit"]) == 0
    assert len(openai_server.batches) == 1
    assert main([*ask, "collect"]) == 1
    assert re.search("the batch is not finished.*0 of", capsys.readouterr().err)
    assert main(ask[:-1]) == 1
    assert "this output is submitted; add --batch-api collect" in capsys.readouterr().err
    openai_server.batch_delay = 0
    assert main([*ask, "collect"]) == 0
    assert openai_server.log == []
    (content,) = (part for part in openai_server.files.values() if b"custom_id" in part[:20])
    body = json.loads(content.splitlines()[0])["body"]
    assert (body["max_tokens"], body["reasoning_effort"]) == (99, "low")
    assert all(row["judgements"]["relevance"]["score"] for row in read_jsonl("out.jsonl"))
    files = [path for path in Path().rglob("*") if path.is_file()]
    assert all(b"sk-router" not in path.read_bytes() for path in files)
