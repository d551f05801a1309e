"""What a run may spend: planned, counted, and held against a server that counts as well."""

import json
from collections import Counter
from pathlib import Path

import pytest
from command_runs import run
from files import read_jsonl
from openai_server import WITHHELD, some_faults

from dspy_judges.errors import SettingsError
from judges.client.budget import Budget
from judges.client.prices import Price, find_price
from judges.protocol import Sampling, Usage
from optimize.__main__ import command
from optimize.figures.as_json import to_json
from optimize.search.budget import CALLS, DOLLARS
from optimize.tuning.budget import plan_budget
from optimize.tuning.budget_text import budget_json, budget_lines, planned_line
from optimize.tuning.models import spending_summary
from optimize.tuning.preparation import prepare_run
from optimize.tuning.settings import read_settings

LM = "openai/gpt-4.1-mini"
RUN = ["--dimension", "relevance", "--lm", LM]


def plan(figures=None, **settings):
    settings = {"lm": LM, **settings}
    run = prepare_run(read_settings({"dimension": "relevance", **settings}))
    return plan_budget(run, measured_tokens=figures)


def test_a_run_reserves_its_final_measurement_and_plans_judgements_by_purpose():
    free, paid = plan(lm="embedded"), plan(max_cost=1.0)
    n_test = free.run.n_held_out
    # The untuned judge and one that shows the labels; six added lines on 16 outputs.
    calls = {"search": 2 * len(free.run.train_and_dev), "test": 2 * n_test, "probes": 6 * 16}
    assert {row.purpose: row.calls for row in free.expected_by_purpose} == calls
    assert free.expected_total.cost_usd == 0
    assert paid.search_budget.limit == pytest.approx(paid.limit - paid.reserved_cost)
    assert paid.reserved_cost >= 2 * n_test * paid.pricing.untuned_price
    assert paid.reserved_calls == 2 * n_test
    assert paid.expected_total.cost_usd <= paid.limit <= 1.0 == paid.limit_in_dollars


@pytest.mark.parametrize(
    ("name", "flag", "step"), [("max_cost", "--max-cost", 0.01), ("max_calls", "--max-calls", 1)]
)
def test_a_limit_too_small_names_the_smallest_useful_one(name, flag, step):
    with pytest.raises(SettingsError, match=f"the smallest useful limit is {flag} ") as error:
        plan(**{name: step})
    smallest = float(str(error.value).rpartition(" ")[2])
    assert plan(**{name: smallest}).search_budget.limit > 0
    with pytest.raises(SettingsError, match="too little to learn"):
        plan(**{name: smallest - step})


DECISIONS = ["--lm", "systemone/x", "--price", "0.1,0", "--proposer-lm", LM]


@pytest.mark.usefixtures("here", "short_waits", "decision_server")
@pytest.mark.parametrize("limit", [["--max-cost", "0.01"], ["--max-calls", "1"]])
@pytest.mark.parametrize("lm", [["--lm", LM], DECISIONS])
@pytest.mark.parametrize(
    "subject", [["--dimension", "relevance"], ["--pairwise", "tldr_concise"]], ids=str
)
def test_the_smallest_useful_limit_races_a_proposal(openai_server, subject, lm, limit):
    openai_server.models = ("gpt-4.1-mini",)
    flags = [*subject, *lm, "--out", "run"]
    smallest = run(command, *flags, *limit).err.split()[-1]
    assert run(command, *flags, limit[0], smallest).code == 0
    instructions = [
        trial["instruction"] for trial in read_jsonl("run/trials.jsonl") if trial["stage"] == "race"
    ]
    assert "It is what it is." in instructions


def test_a_running_budget_is_planned_from_measured_costs():
    expected = plan(max_cost=2.0).pricing
    tokens_in, tokens_out = expected.untuned_tokens
    dearer = plan((tokens_in, tokens_out + 2000), max_cost=4.0)
    # 2,000 tokens at 1.6 dollars a million.
    assert dearer.pricing.untuned_price == pytest.approx(expected.untuned_price + 0.0032)
    assert dearer.expected_by_purpose[0].calls < plan(max_cost=4.0).expected_by_purpose[0].calls


def test_with_max_calls_alone_the_budget_is_in_calls():
    for lm in (LM, "openai/x"):
        budget = plan(lm=lm, max_calls=2000)
        assert (budget.pricing.unit, budget.search_budget.proposal_cost) == (CALLS, 1)
        # A twentieth is kept for replies that have to be asked for again.
        assert budget.search_budget.limit + budget.reserved_cost == pytest.approx(0.95 * 2000)
        assert "at most 2,000 calls" in planned_line(budget)
    assert plan(max_calls=2000, max_cost=1.0).pricing.unit is DOLLARS
    # A model with a price for output tokens alone is not free, unless it writes none.
    assert plan(price="0,1.6").pricing.unit is DOLLARS
    assert plan(lm="systemone/x", price="0,1.6").pricing.is_free


def test_it_is_said_what_can_be_tuned_with_a_decision_model(here, short_waits, capsys, monkeypatch):
    note = "systemone/x writes no instruction"
    settings: dict[str, object] = {"lm": "systemone/x", "price": "0.1,0"}
    both = f"{note}: questions and demonstrations can be tuned. Name a chat model"
    assert both in " ".join(budget_lines(plan(**settings)))
    assert note not in " ".join(budget_lines(plan(**settings, proposer_lm=LM)))
    with monkeypatch.context() as patch:
        patch.setattr("optimize.tuning.budget_text.candidate_questions", lambda *_: ())
        lines = budget_lines(plan(**settings, max_demos=0))
    assert f"{note}: nothing can be tuned" in " ".join(lines)
    lm = ["--lm", "systemone/x", "--api-base", "http://127.0.0.1:9/v1", "--price", "0.1,0"]
    assert command([*RUN[:2], *lm]) == 1
    # The note comes before a call is paid for.
    err = capsys.readouterr().err
    assert err.index(note) < err.index("no connection")


def test_a_dry_run_needs_no_key_and_sends_nothing(here, openai_server, monkeypatch, capsys):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert command([*RUN, "--max-cost", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for word in ("search", "proposals", "test", "expected", "at most: $2.00", "A gain of 0.1 rho"):
        assert word in out
    assert "if 24 calls are in flight" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert command([*RUN, "--dry-run", "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)
    assert estimate["cost_usd"]["expected"] <= estimate["cost_usd"]["at_most"]
    assert command([*RUN[:2], "--lm", "openai/x", "--max-cost", "1", "--dry-run"]) == 2
    assert "--max-cost: the price of openai/x is not known" in capsys.readouterr().err
    assert not openai_server.log
    assert not list(here.iterdir())


def test_gepa_is_planned_to_spend_its_whole_budget():
    budget = plan(max_cost=20.0, optimizer="gepa")
    planned = {row.purpose: row.cost_usd for row in budget.expected_by_purpose}
    search_cost = planned["search"] + planned["proposals"]
    assert search_cost == pytest.approx(budget.search_budget.limit, rel=0.01)


def test_the_calls_of_a_users_optimizer_are_not_planned():
    own = "optimize.search.rank_search:explore"
    budget = plan(lm="embedded", optimizer=own)
    assert [row.purpose for row in budget.expected_by_purpose] == ["test", "probes"]
    text = " ".join(" ".join(budget_lines(budget)).split())
    assert f"How many calls {own} makes is not known in advance; at most 19,760 calls." in text
    assert "expected" not in text
    assert budget_json(budget)["calls"] == {"expected": None, "at_most": None}
    assert planned_line(plan(max_cost=2.0, optimizer=own)) == (
        f"planned: the calls of {own}, not known in advance, at most $2.00"
    )


REQUEST = b"", [{"role": "user", "content": "x" * 40}], Sampling(max_tokens=10)


def test_spending_by_purpose_sums_to_the_totals_exactly():
    budget, third = Budget(), Price(per_token_in=1 / 3e6, per_token_out=1 / 7e6)
    judge, proposer = budget.account("judge", third), budget.account("proposer", third)
    proposer.purpose = "proposals"
    for number, purpose in enumerate(("test", "search", "probes", "search", "probes", "probes")):
        with judge.spending_on(purpose):
            judge.settle(judge.book(*REQUEST), Usage(1001 + number, 13))
    proposer.settle(proposer.book(*REQUEST), Usage(2222, 101))
    summary = to_json(spending_summary(judge, proposer))
    rows = summary["spending"]
    assert [row["purpose"] for row in rows] == ["search", "proposals", "test", "probes"]
    assert sum(row["calls"] for row in rows) == judge.total.calls + proposer.total.calls
    assert summary["tokens"]["in"] == sum(row["tokens_in"] for row in rows)
    assert summary["cost_usd"] == round(sum(row["cost_usd"] for row in rows), 6)


@pytest.fixture
def tune(here, short_waits, openai_server):
    openai_server.models = ("gpt-4.1-mini",)
    return lambda *arguments: run(command, *RUN, "--out", "run", *arguments)


def test_a_limit_in_dollars_holds_for_faulty_replies(openai_server, tune):
    # Faults of every billed and unbilled kind, the first time only.
    openai_server.fault = some_faults(0.3, (*WITHHELD, "429", "500", "503"))
    openai_server.cached, openai_server.thoughts = 0.5, 30
    assert tune("--max-cost", "0.6").code == 0
    price = find_price(LM)
    assert 0.1 < openai_server.dollars(price) <= 0.6
    summary = json.loads(Path("run/summary.json").read_text(encoding="utf-8"))
    assert summary["cost_usd"] == pytest.approx(openai_server.dollars(price), rel=0.01)
    calls = summary["lm_calls"] + summary["proposer_calls"]
    assert calls == sum(row["calls"] for row in summary["spending"])


def test_a_budget_too_small_can_be_raised(openai_server, tune):
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


def test_unreadable_replies_end_a_run_early_and_are_shown(openai_server, tune):
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
