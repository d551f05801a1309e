"""Limits on calls and dollars, held against a server that counts requests and tokens itself."""

import json
from collections import Counter
from pathlib import Path

import pytest
from command_runs import run
from openai_server import WITHHELD, some_faults

from judges.client.prices import find_price
from optimize.__main__ import command

LM = "openai/gpt-4.1-mini"
BILLED = (*WITHHELD, "429", "500", "503")


@pytest.fixture(autouse=True)
def _quick(here, short_waits, openai_server):
    openai_server.models = ("gpt-4.1-mini",)


def tune(*arguments):
    return run(command, "--dimension", "relevance", "--lm", LM, "--out", "run", *arguments)


def test_a_limit_in_dollars_holds_for_faulty_replies_and_the_cost_is_reported_truly(
    openai_server,
):
    # Faults of every billed and unbilled kind, the first time only.
    openai_server.fault = some_faults(0.3, BILLED)
    openai_server.cached, openai_server.thoughts = 0.5, 30
    assert tune("--max-cost", "0.6").code == 0
    price = find_price(LM)
    assert 0.1 < openai_server.dollars(price) <= 0.6
    summary = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    assert summary["cost_usd"] == pytest.approx(openai_server.dollars(price), rel=0.01)
    calls = summary["lm_calls"] + summary["proposer_calls"]
    assert calls == sum(row["calls"] for row in summary["spending"])


def test_a_budget_too_small_for_the_untuned_judge_gives_one_line_and_can_be_raised(
    openai_server,
):
    # Each request is refused eleven times before it is answered: 900 calls bring 75 replies.
    counts = Counter[str]()

    def eleven_times(number, body):
        counts[request := json.dumps(body, sort_keys=True)] += 1
        return "429" if counts[request] <= 11 else None

    openai_server.fault, openai_server.retry_after = eleven_times, "0.001"
    result = tune("--max-calls", "900", "--concurrency", "4")
    assert (result.code, len(openai_server.log)) == (1, 900)
    line = result.stderr.splitlines()[-1]
    assert "the budget of 900 calls is spent" in line
    assert "run the same command again with a larger budget" in line
    openai_server.fault = lambda number, body: None
    assert tune("--max-calls", "1600").code == 0
    assert len(openai_server.log) <= 1600
    assert Path("run/report.html").exists()


def test_a_judge_with_unreadable_replies_ends_the_run_early_and_shows_a_reply(openai_server):
    openai_server.judge = lambda body: "I would rather talk about the weather."
    result = tune()
    assert result.code == 1
    assert "48 of the first 48 judgements failed" in result.err
    assert "no rating from 1 to 5 in 'I would rather talk about the weather.'" in result.err
    assert "fix the model or the judge, then name another --out" in result.err
    # 48 judgements, each asked three times at most.
    n_requests = len(openai_server.log)
    assert n_requests <= 3 * 48
    # What was paid for is there: the run goes on, and asks nothing again before it ends again.
    assert tune().code == 1
    assert len(openai_server.log) == n_requests
