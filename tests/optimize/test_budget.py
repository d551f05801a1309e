"""Limits on calls and dollars, held against a server that counts requests and tokens itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from openai_replies import Body
from openai_server import WITHHELD, OpenAIServer, some_faults
from processes import until

from judges.client.budget import (
    Budget,
    BudgetFileError,
    BudgetSpentError,
)
from judges.client.prices import Price, find_price
from judges.client.protocol import Sampling, Usage
from optimize.cli.tune import command

LM = "openai/gpt-4.1-mini"
BILLED = (*WITHHELD, "429", "500", "503")
DOLLAR = Price(per_token_in=1.0, per_token_out=1.0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("judges.client.retrying.FIRST_WAIT", 0.002)
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
    assert tuned("--max-cost", "1") == 0
    assert 0.1 < served(openai_server) <= 1
    summary = read(here / "run" / "summary.json")
    assert summary["cost_usd"] == pytest.approx(served(openai_server), rel=0.01)
    check_spending(summary)
    page = (here / "run" / "report.html").read_text(encoding="utf-8")
    assert "both judges measured on held-out labels" in page


def test_a_budget_that_ends_before_the_seed_is_measured_is_one_line_and_can_be_raised(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    # Each request is refused eleven times before it is answered: 800 calls bring 66 replies.
    openai_server.models = ("gpt-4.1-mini",)
    met: dict[str, int] = {}

    def eleven_times(number: int, body: Body) -> str | None:
        asked = json.dumps(body, sort_keys=True)
        met[asked] = met.get(asked, 0) + 1
        return "429" if met[asked] <= 11 else None

    openai_server.fault, openai_server.retry_after = eleven_times, "0.001"
    assert tuned("--max-calls", "800", "--concurrency", "4") == 1
    assert len(openai_server.log) == 800
    line = capsys.readouterr().err.splitlines()[-1]
    assert "the budget of 800 calls is spent" in line
    assert "--resume --out run" in line
    openai_server.fault = lambda number, body: None
    assert tuned("--resume", "--max-calls", "1600") == 0
    assert len(openai_server.log) <= 1600
    assert (here / "run" / "report.html").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
@pytest.mark.parametrize("limit", [("--max-calls", "800"), ("--max-cost", "0.3")])
def test_limits_hold_over_a_run_that_is_killed_twice_and_resumed(
    here: Path, openai_server: OpenAIServer, limit: tuple[str, str]
) -> None:
    serve(openai_server, 0.2)
    openai_server.latency = 0.005
    arguments = [sys.executable, "-m", "optimize", "--dimension", "relevance", "--lm", LM]
    start = [*arguments, "--out", "run", "--concurrency", "8", *limit]
    for run, number in ((start, 40), ([*start, "--resume"], 100)):
        process = subprocess.Popen(run, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        until(lambda number=number: len(openai_server.log) > number)  # type: ignore[misc]
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    assert command([*start[3:], "--resume"]) == 0
    summary = read(here / "run" / "summary.json")
    check_spending(summary)
    # A request that was counted and not yet sent when the process died is counted all the same.
    counted = summary["lm_calls"] + summary["proposer_calls"]
    assert len(openai_server.log) <= counted <= len(openai_server.log) + 2 * 8
    assert counted <= 800 or limit[0] == "--max-cost"
    assert served(openai_server) <= 0.3 or limit[0] == "--max-calls"
    # The server served what has been answered, and at most what was under way at the two kills.
    confirmed = summary["cost_usd"] - summary.get("cost_unconfirmed_usd", 0.0)
    assert confirmed <= served(openai_server) * 1.001
    assert served(openai_server) <= summary["cost_usd"] * 1.01


def test_what_was_under_way_when_a_process_died_counts_at_its_worst(tmp_path: Path) -> None:
    path = tmp_path / "budget.json"
    asked = [{"role": "user", "content": "x" * 84}]
    budget = Budget(max_calls=3, path=path)
    one = budget.account("judge", DOLLAR)
    settled = one.reserve(asked, Sampling(max_tokens=50))  # type: ignore[arg-type]
    assert settled is not None
    one.settle(settled, Usage(21, 10))
    one.reserve(asked, Sampling(max_tokens=50))  # type: ignore[arg-type]
    # The process dies here, and leaves this.
    left = tmp_path / "left.json"
    left.write_bytes(path.read_bytes())
    with pytest.raises(BudgetFileError, match="another run is spending"):
        Budget(path=path)
    budget.close()
    resumed = Budget(max_calls=3, path=left)
    after = resumed.account("judge", DOLLAR)
    assert (after.calls, after.tokens_in, after.tokens_out, after.cost) == (2, 21, 10, 31)
    assert after.cost_unconfirmed == 84 + 16 + 50
    # Its prompt is as long as the one that took 21 tokens, and replies take 10.
    assert after.cost_likely == 31 + 21 + 10
    after.reserve(asked, Sampling(max_tokens=50))  # type: ignore[arg-type]
    with pytest.raises(BudgetSpentError, match="3 calls is spent"):
        after.reserve(asked, Sampling(max_tokens=50))  # type: ignore[arg-type]
    resumed.close()


def test_a_judge_that_cannot_be_read_ends_the_run_early_with_its_reason_and_a_reply(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.models = ("gpt-4.1-mini",)
    openai_server.judge = lambda body: "I would rather talk about the weather."
    assert tuned() == 1
    err = capsys.readouterr().err
    assert "48 of the first 48 judgements failed, 48 of them: rating: no rating" in err
    assert "one reply: 'I would rather talk about the weather.'" in err
    assert "Traceback" not in err
    # 48 judgements, each asked three times at most.
    assert len(openai_server.log) <= 3 * 48
    # What was paid for is there: the run resumes, and asks nothing again before it ends again.
    asked = len(openai_server.log)
    assert tuned("--resume") == 1
    assert len(openai_server.log) == asked
