"""What a run may spend and on what: planned before its first request, counted with each."""

import json

import pytest

from dspy_judges.errors import SettingsError
from judges.client.budget import Budget
from judges.client.prices import Price
from judges.protocol import Sampling, Usage
from optimize.__main__ import command
from optimize.figures.as_json import to_json
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


def test_a_free_run_plans_its_judgements_by_purpose():
    budget = plan(lm="embedded")
    labels = budget.run.labels
    n_test = labels.n_held_out
    # The untuned judge and one that shows the labels; six added lines on 16 outputs.
    calls = {"search": 2 * len(labels.train_and_dev), "test": 2 * n_test, "probes": 6 * 16}
    assert {row.purpose: row.calls for row in budget.expected_by_purpose} == calls
    assert budget.expected_total.cost_usd == 0


def test_the_cost_of_the_final_measurement_is_reserved_and_the_search_may_spend_the_rest():
    budget = plan(max_cost=1.0)
    assert budget.search_budget.limit == pytest.approx(budget.limit - budget.reserved_cost)
    n_test = budget.run.labels.n_held_out
    assert budget.reserved_cost >= 2 * n_test * budget.pricing.untuned_price
    assert budget.reserved_calls == 2 * n_test
    assert budget.expected_total.cost_usd <= budget.limit <= 1.0 == budget.limit_in_dollars


@pytest.mark.parametrize(
    ("name", "flag", "step"), [("max_cost", "--max-cost", 0.01), ("max_calls", "--max-calls", 1)]
)
def test_the_error_on_a_limit_that_is_too_small_names_the_smallest_useful_limit(name, flag, step):
    with pytest.raises(SettingsError, match=f"the smallest useful limit is {flag} ") as error:
        plan(**{name: step})
    smallest = float(str(error.value).rpartition(" ")[2])
    assert plan(**{name: smallest}).search_budget.limit > 0
    with pytest.raises(SettingsError, match="too little to learn"):
        plan(**{name: smallest - step})


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
        assert (budget.pricing.is_in_dollars, budget.search_budget.proposal_cost) == (False, 1)
        # A twentieth is kept for replies that have to be asked for again.
        assert budget.search_budget.limit + budget.reserved_cost == pytest.approx(0.95 * 2000)
        assert "at most 2,000 calls" in planned_line(budget)
    assert plan(max_calls=2000, max_cost=1.0).pricing.is_in_dollars
    # A model with a price for output tokens alone is not free.
    assert plan(price="0,1.6").pricing.is_in_dollars


def test_a_plan_and_a_run_say_that_a_decision_model_writes_no_instruction(
    here, short_waits, capsys
):
    note = "systemone/x writes no instruction"
    settings = {"lm": "systemone/x", "price": "0.1,0"}
    assert note in " ".join(budget_lines(plan(**settings)))
    assert note not in " ".join(budget_lines(plan(**settings, proposer_lm=LM)))
    lm = ["--lm", "systemone/x", "--api-base", "http://127.0.0.1:9/v1", "--price", "0.1,0"]
    assert command([*RUN[:2], *lm]) == 1
    # The note comes before a call is paid for.
    err = capsys.readouterr().err
    assert err.index(note) < err.index("no connection")


def test_a_dry_run_needs_no_key_and_sends_and_writes_nothing(
    here, openai_server, monkeypatch, capsys
):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert command([*RUN, "--max-cost", "2", "--dry-run"]) == 0
    out = capsys.readouterr().out
    for word in ("search", "proposals", "test", "expected", "at most: $2.00", "A gain of 0.1 rho"):
        assert word in out
    assert max(map(len, out.splitlines())) <= 80
    assert command([*RUN, "--dry-run", "--json"]) == 0
    estimate = json.loads(capsys.readouterr().out)
    assert estimate["cost_usd"]["expected"] <= estimate["cost_usd"]["at_most"]
    assert command([*RUN[:2], "--lm", "openai/x", "--max-cost", "1", "--dry-run"]) == 2
    assert "--max-cost: the price of openai/x is not known" in capsys.readouterr().err
    assert not openai_server.log
    assert not list(here.iterdir())


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
