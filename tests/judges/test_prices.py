"""What a model costs, by the table that litellm bundles, and how many tokens a text takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.client.prices import find_price, max_prompt_tokens
from judges.protocol import Message, Usage


# In the table of litellm 1.106.2, dollars for a million tokens: gpt-4.1-mini .40 in, .10 cached,
# 1.60 out; Claude Sonnet 4.5 3 in, .30 cached, 3.75 written to the cache, 15 out; Gemini 2.5 Pro
# 1.25 and 10, above 200,000 tokens read 2.5 and 15: the dearer of the two factors, 2 and 1.5,
# holds for both.
@pytest.mark.parametrize(
    ("name", "usage", "dollars"),
    [
        (
            "openai/gpt-4.1-mini",
            Usage(1_000_000, 1000, cache_read_tokens=500_000),
            0.2 + 0.05 + 0.0016,
        ),
        (
            "anthropic/claude-sonnet-4-5",
            Usage(1_000_000, 0, cache_read_tokens=600_000, cache_write_tokens=300_000),
            0.30 + 0.18 + 1.125,
        ),
        ("gemini/gemini-2.5-pro", Usage(200_000, 100), 200_000 * 1.25e-6 + 100 * 10e-6),
        ("gemini/gemini-2.5-pro", Usage(200_001, 100), 200_001 * 2.5e-6 + 100 * 20e-6),
    ],
)
def test_each_kind_and_length_costs_what_the_table_says(name, usage, dollars):
    assert find_price(name).cost_of(usage) == pytest.approx(dollars)


def test_nothing_costs_more_than_what_is_reserved_for_it():
    claude, pro = find_price("anthropic/claude-sonnet-4-5"), find_price("gemini/gemini-2.5-pro")
    assert claude.worst_cost(1000, 10) >= claude.cost_of(Usage(1000, 10, cache_write_tokens=1000))
    for tokens in (100, 200_001):
        assert pro.worst_cost(tokens, 100) == pro.cost_of(Usage(tokens, 100))
    # A total of many requests says nothing of their lengths.
    assert pro.cost(10**6, 0) == pytest.approx(1.25)
    # Thoughts, of which a million cost 0.5 dollars where other tokens cost 0.2, make all so dear.
    assert find_price("dashscope/qwen-turbo").per_token_out == 5e-7


def test_prices_are_found_under_either_name_and_never_made_up():
    mini, claude = find_price("openai/gpt-4o-mini"), find_price("claude-sonnet-4-5")
    assert mini.cost(10**6, 10**6) == pytest.approx(0.15 + 0.60)
    for name in ("gpt-4o-mini", "openrouter/openai/gpt-4o-mini-2031-01-01"):
        assert find_price(name) == mini
    assert find_price("openai/openai/gpt-4o-mini") == mini
    assert find_price("anthropic/claude-sonnet-4-5") == claude is not None
    unknown = ("openai/no-such-model", "somewhere/gpt-4o-mini", "deepseek/claude-sonnet-4-5")
    # The last one asks a fee for every request, and not by the token alone.
    assert {find_price(name) for name in (*unknown, "perplexity/sonar")} == {None}


@given(st.text())
def test_no_prompt_takes_more_tokens_than_the_bound(text):
    messages: list[Message] = [{"role": "user", "content": text}]
    assert max_prompt_tokens(messages) >= len(text.encode("utf-8", "replace")) + 16
