"""What a model costs, by the table that litellm bundles, and how many tokens a text takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.client.prices import FREE, Price, find_price, token_bound
from judges.protocol import Message, Usage

CLAUDE = "anthropic/claude-sonnet-4-5"


def test_each_kind_costs_what_the_table_says() -> None:
    # Dollars for a million tokens: gpt-4.1-mini .40 in, .10 cached, 1.60 out; Claude Sonnet 4.5
    # 3 in, .30 cached, 3.75 written to the cache, 15 out.
    openai, anthropic = find_price("openai/gpt-4.1-mini"), find_price(CLAUDE)
    assert openai is not None
    assert anthropic is not None
    dollars = openai.cost_of(Usage(1_000_000, 1000, cache_reads=500_000))
    assert dollars == pytest.approx(0.20 + 0.05 + 0.0016)
    dollars = anthropic.cost_of(Usage(1_000_000, 0, cache_reads=600_000, cache_writes=300_000))
    assert dollars == pytest.approx(0.30 + 0.18 + 1.125)
    # Nothing costs more than what is reserved for it.
    assert anthropic.worst_cost(1000, 10) >= anthropic.cost_of(Usage(1000, 10, cache_writes=1000))


def test_prices_are_found_under_either_name_and_never_made_up() -> None:
    mini = find_price("openai/gpt-4o-mini")
    assert mini is not None
    # litellm 1.106.2's table: 0.15 and 0.60 dollars for a million tokens.
    assert mini.cost(10**6, 10**6) == pytest.approx(0.75)
    assert find_price("gpt-4o-mini") == mini
    assert find_price("embedded") == FREE
    assert find_price("openai/no-such-model") is None
    assert find_price("somewhere/gpt-4o-mini") is None
    assert find_price("openrouter/openai/gpt-4o-mini-2031-01-01") == mini
    assert find_price("openai/openai/gpt-4o-mini") == mini
    claude = find_price("claude-sonnet-4-5")
    assert find_price("anthropic/claude-sonnet-4-5") == claude is not None
    assert find_price("deepseek/claude-sonnet-4-5") is None


def test_a_long_prompt_has_the_price_of_long_prompts() -> None:
    # litellm 1.106.2's table, dollars for a million tokens: 1.25 and 10, above 200,000 tokens read
    # 2.5 and 15: the dearer of the two factors, 2 and 1.5, holds for both.
    pro = find_price("gemini/gemini-2.5-pro")
    assert pro is not None
    assert pro.cost_of(Usage(200_000, 100)) == pytest.approx(200_000 * 1.25e-6 + 100 * 10e-6)
    assert pro.cost_of(Usage(200_001, 100)) == pytest.approx(200_001 * 2.5e-6 + 100 * 20e-6)
    assert pro.worst_cost(200_001, 100) == pro.cost_of(Usage(200_001, 100))
    assert pro.worst_cost(100, 100) == pytest.approx(100 * 1.25e-6 + 100 * 10e-6)
    # A total of many requests says nothing of their lengths.
    assert pro.cost(10**6, 0) == pytest.approx(1.25)


def test_a_model_that_searches_for_every_request_has_no_price_by_the_token() -> None:
    assert find_price("perplexity/sonar") is None


def test_thoughts_that_cost_more_than_other_tokens_make_all_tokens_so_dear() -> None:
    # litellm 1.106.2's table: 0.2 dollars for a million tokens written, 0.5 for thoughts.
    qwen = find_price("dashscope/qwen-turbo")
    assert qwen is not None
    assert qwen.per_token_out == 5e-7


def test_free_is_what_costs_nothing_for_any_kind_of_token() -> None:
    assert FREE.is_free
    assert not Price(per_token_in=0.0, per_token_out=1e-9).is_free
    assert not Price(per_token_in=0.0, per_token_out=0.0, per_cache_write=1e-9).is_free


@given(st.text())
def test_no_prompt_takes_more_tokens_than_the_bound(text: str) -> None:
    asked: list[Message] = [{"role": "user", "content": text}]
    assert token_bound(asked) >= len(text.encode("utf-8", "replace")) + 16
