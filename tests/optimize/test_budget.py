"""Limits on calls and dollars, held against a server that counts requests and tokens itself."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai_replies import Body
from openai_server import WITHHELD, OpenAIServer, some_faults

from judges.client.prices import find_price
from optimize.__main__ import command

LM = "openai/gpt-4.1-mini"
BILLED = (*WITHHELD, "429", "500", "503")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 0.002)
    return tmp_path


def serve(server: OpenAIServer, share: float) -> None:
    """A judge and a proposer with faults of every billed and unbilled kind, the first time only."""
    server.models = ("gpt-4.1-mini",)
    server.fault = some_faults(share, BILLED)


def served(server: OpenAIServer) -> float:
    """Dollars of all tokens that the server gave out."""
    price = find_price(LM)
    assert price is not None
    return server.dollars(price)


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def check_spending(summary: dict[str, Any]) -> None:
    """The purposes' sums are the totals, and every call has one."""
    rows = summary["spending"]
    assert {"test"} <= {row["purpose"] for row in rows}
    assert "unknown" not in {row["purpose"] for row in rows}
    assert sum(row["calls"] for row in rows) == summary["lm_calls"] + summary["proposer_calls"]
    proposals = sum(row["calls"] for row in rows if row["purpose"] == "proposals")
    assert proposals == summary["proposer_calls"]
    assert sum(row["tokens_in"] for row in rows) == summary["tokens"]["in"]
    assert sum(row["tokens_out"] for row in rows) == summary["tokens"]["out"]
    assert round(sum(row["cost_usd"] for row in rows), 6) == summary["cost_usd"]


def tuned(*arguments: str) -> int:
    return command(["--dimension", "relevance", "--lm", LM, "--out", "run", *arguments])


def test_a_limit_on_dollars_holds_for_faulty_replies_and_the_dollars_are_told_truly(
    here: Path, openai_server: OpenAIServer
) -> None:
    serve(openai_server, 0.3)
    openai_server.cached, openai_server.thoughts = 0.5, 30
    assert tuned("--max-cost", "0.6") == 0
    assert 0.1 < served(openai_server) <= 0.6
    summary = read(here / "run" / "summary.json")
    assert summary["cost_usd"] == pytest.approx(served(openai_server), rel=0.01)
    check_spending(summary)


def test_a_budget_that_ends_before_the_seed_is_measured_is_one_line_and_can_be_raised(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each request is refused eleven times before it is answered: 900 calls bring 75 replies.
    openai_server.models = ("gpt-4.1-mini",)
    met: dict[str, int] = {}

    def eleven_times(number: int, body: Body) -> str | None:
        asked = json.dumps(body, sort_keys=True)
        met[asked] = met.get(asked, 0) + 1
        return "429" if met[asked] <= 11 else None

    openai_server.fault, openai_server.retry_after = eleven_times, "0.001"
    assert tuned("--max-calls", "900", "--concurrency", "4") == 1
    assert len(openai_server.log) == 900
    line = capsys.readouterr().err.splitlines()[-1]
    assert "the budget of 900 calls is spent" in line
    assert "the same command with a larger budget goes on" in line
    openai_server.fault = lambda number, body: None
    assert tuned("--max-calls", "1600") == 0
    assert len(openai_server.log) <= 1600
    assert (here / "run" / "report.html").exists()


def test_a_judge_that_cannot_be_read_ends_the_run_early_with_its_reason_and_a_reply(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.models = ("gpt-4.1-mini",)
    openai_server.judge = lambda body: "I would rather talk about the weather."
    assert tuned() == 1
    err = capsys.readouterr().err
    assert "48 of the first 48 judgements failed" in err
    assert "no rating from 1 to 5 in 'I would rather talk about the weather.'" in err
    assert "Traceback" not in err
    # 48 judgements, each asked three times at most.
    assert len(openai_server.log) <= 3 * 48
    # What was paid for is there: the run goes on, and asks nothing again before it ends again.
    asked = len(openai_server.log)
    assert tuned() == 1
    assert len(openai_server.log) == asked
