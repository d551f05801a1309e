"""What a search may spend under --max-calls and --max-cost."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from optimize.run.run_budget import (
    FREE_CALLS,
    CallTokens,
    RunBudget,
    dearer_note,
    divide_budget,
    left_for_probes,
    search_options,
)

from judges.catalog import find
from judges.dimension import Dimension
from judges.judge import Judge
from judges.prompt import with_reasoning
from optimize.run.labels import Labels, split_labels
from optimize.run.settings import Settings, SettingsError

SUBJECT = find("relevance")
assert isinstance(SUBJECT, Dimension)
JUDGE = Judge.of(SUBJECT)
# Dollars that a search on the starter set has to have.
SMALLEST = 0.18


@pytest.fixture(scope="module")
def labels() -> Labels:
    return split_labels(Settings(dimension="relevance"), SUBJECT)


def settings(**told: Any) -> Settings:
    return Settings(dimension="relevance", **told)


def paid(labels: Labels, **told: Any) -> RunBudget:
    return divide_budget(settings(lm="openai/gpt-4.1-mini", **told), labels, JUDGE, 1)


def test_a_free_search_ends_by_itself(labels: Labels) -> None:
    assert divide_budget(settings(), labels, JUDGE, 1).search.limit == FREE_CALLS


def test_without_a_limit_a_paid_search_costs_what_so_few_labels_are_worth(labels: Labels) -> None:
    budget = paid(labels)
    assert budget.pricing is not None
    assert budget.in_dollars
    calls = budget.limit / budget.pricing.of_seed
    # Some times as many calls as there are labels, and not a fixed number.
    assert 5 < calls / len(labels.everything) < 25


def test_a_model_that_costs_nothing_but_what_it_writes_is_no_free_one(labels: Labels) -> None:
    budget = paid(labels, price="0,1.6", plan="mean", samples=2)
    assert budget.in_dollars
    assert budget.pricing is not None
    assert budget.pricing.of_seed == pytest.approx(1.6e-6 * budget.pricing.tokens_out)
    # Demonstrations are only read, so money bounds none of them.
    assert budget.options.longest_demos == search_options(settings(lm="openai/x")).longest_demos
    with pytest.raises(SettingsError, match="the smallest that can is --max-cost"):
        paid(labels, price="0,1.6", max_cost=1e-6)
    assert not divide_budget(settings(lm="openai/x", price="0,0"), labels, JUDGE, 1).in_dollars


def test_the_final_table_is_paid_first(labels: Labels) -> None:
    assert labels.unseen is not None
    once = len(labels.test) + len(labels.unseen)
    left = divide_budget(settings(max_calls=1000), labels, JUDGE, 1).search.limit
    # Both judges on test, and a twentieth for replies that have to be asked for again.
    assert left == 950 - 2 * once
    with pytest.raises(SettingsError, match=f"takes {once}"):
        divide_budget(settings(max_calls=once - 1), labels, JUDGE, 1)


def test_a_limit_too_small_to_learn_anything_names_the_smallest_that_can(labels: Labels) -> None:
    with pytest.raises(SettingsError) as refused:
        paid(labels, max_cost=0.001)
    smallest = str(refused.value).rpartition("--max-cost ")[2]
    assert float(smallest) == SMALLEST
    assert paid(labels, max_cost=SMALLEST).search.limit > 0
    with pytest.raises(SettingsError, match="the smallest that can is --max-calls"):
        paid(labels, max_calls=10)


def test_a_judge_that_proves_dearer_than_expected_is_refused_with_both_figures(
    labels: Labels,
) -> None:
    expected = paid(labels, max_cost=1).pricing
    assert expected is not None
    chosen = settings(lm="openai/gpt-4.1-mini", max_cost=0.5)
    measured = CallTokens(expected.tokens_in, expected.tokens_out + 2000)
    with pytest.raises(SettingsError) as refused:
        divide_budget(chosen, labels, JUDGE, 1, measured=measured)
    # 2,000 tokens at 1.6 dollars a million.
    dearer = (expected.of_seed + 0.0032) / expected.of_seed
    assert f"${expected.of_seed + 0.0032:.2g}, {dearer:.1f} times the " in str(refused.value)
    assert f"${expected.of_seed:.2g} expected" in str(refused.value)
    assert "the smallest that can is --max-cost" in str(refused.value)
    assert "--reasoning-effort" in str(refused.value)
    assert (
        dearer_note(expected, CallTokens(expected.tokens_in, expected.tokens_out), "dollars") == ""
    )


def test_more_money_is_never_less_to_search_with_or_to_show(labels: Labels) -> None:
    budgets = [paid(labels, max_cost=SMALLEST * 1.25**step) for step in range(30)]
    for less, more in pairwise(budgets):
        assert less.search.limit <= more.search.limit
        assert less.options.longest_demos <= more.options.longest_demos
        assert less.options.demo_sets <= more.options.demo_sets


def test_a_prompt_costs_what_it_shows_and_what_it_has_written(labels: Labels) -> None:
    pricing = paid(labels, max_cost=1.0).pricing
    assert pricing is not None
    seed = JUDGE.prompt
    text = "w " * 10_000
    demo = {"document": text, "summary": "s", "rating": 3}
    # 20,000 characters are 5,000 tokens read, at 0.4 dollars a million.
    assert pricing.extra(replace(seed, demos=(demo,)), seed) == pytest.approx(0.002, rel=0.01)
    thinking = pricing.extra(with_reasoning(seed, "steps"), seed)
    # Some 200 tokens written, at 1.6 dollars a million.
    assert thinking == pytest.approx(200 * 1.6e-6, rel=0.2)


def test_probes_get_what_is_left() -> None:
    assert left_for_probes(settings(), 500) is None
    assert left_for_probes(settings(max_calls=1000), 500) == 450
