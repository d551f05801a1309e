"""No limit is ever passed, by the provider's own count; and what a model costs."""

import asyncio
import zlib
from dataclasses import replace

import pytest
from behaving_model import Model, asks, echo, number, values_of
from hypothesis import given
from hypothesis import strategies as st

from judges.client.budget import Booking, Budget, BudgetSpentError
from judges.client.client import Client
from judges.client.prices import FREE, Price, find_price, max_prompt_tokens
from judges.client.store import Store
from judges.protocol import Completion, Message, Request, Sampling, TransientError, Usage

DOLLAR = Price(per_token_in=1.0, per_token_out=1.0)
PROMPT = [{"role": "user", "content": "x" * 84}]  # at most 84 + 16 = 100 tokens
SHORT = Sampling(max_tokens=50)  # at worst 150 dollars
LOST, REFUSED = TransientError("", may_be_billed=True), TransientError("")


def took(tokens_in, tokens_out):
    return Completion(replies=(), tokens_in=tokens_in, tokens_out=tokens_out, model="m")


def account_of(max_cost):
    return Budget(max_cost=max_cost).account(token_price=DOLLAR)


def book(account, sampling=SHORT):
    booking = account.book(b"key", PROMPT, sampling)
    assert booking is not None
    return booking


def test_a_request_is_booked_at_its_worst_cost():
    account = account_of(1000.0)
    booking = book(account, Sampling(n=2, max_tokens=50))
    assert booking.reserved_cost == account.total.cost_unconfirmed == 200
    account.settle(booking, took(30, 12))
    account.settle(book(account), took(60, 10))
    total = account.total
    assert (total.calls, total.tokens_in, total.answered_cost) == (2, 90, 112)
    assert total.cost_unconfirmed == total.open_calls == 0


def test_a_request_over_budget_waits_and_then_ends_the_run():
    account = account_of(390.0)
    account.settle(book(account), took(60, 10))
    first, second = book(account), book(account)
    assert account.book(b"", PROMPT, SHORT) is None  # 70 + 150 + 150, and 150
    account.settle(second, REFUSED)
    account.settle(first, took(80, 20))
    account.settle(book(account), LOST)  # it stays booked at its worst
    total = account.total
    assert (total.calls, total.answered_cost, total.cost_unconfirmed) == (4, 170, 150)
    spent = r"\$320\.0000 of .* \$390 is spent \(at most \$150\.0000 of it for unanswered"
    limit = rf"{spent} requests\) and the next .* \$150\.0000; each start has"
    with pytest.raises(BudgetSpentError, match=limit):
        account.book(b"", PROMPT, SHORT)
    account.budget.max_cost = 690.0
    account.budget.set_aside(cost=300.0)
    with pytest.raises(
        BudgetSpentError, match=r"\$150\.0000; the rest is reserved for later steps of the run$"
    ):
        account.book(b"", PROMPT, SHORT)


def test_with_a_limit_of_zero_only_what_is_free_is_sent():
    budget = Budget(max_cost=0)
    free, dear = budget.account("free", FREE), budget.account("paid", DOLLAR)
    free.settle(book(free), took(60, 10))
    with pytest.raises(BudgetSpentError, match=r"of the budget of \$0 is spent and the next"):
        dear.book(b"", PROMPT, SHORT)


ends_of_requests = st.sampled_from(["answered", "lost", "refused", "killed"])
outcomes = st.tuples(ends_of_requests, st.integers(0, 100), st.integers(0, 50), st.integers(0, 7))


@given(limit=st.integers(0, 2000), ends=st.lists(outcomes, max_size=30))
def test_no_order_of_outcomes_and_kills_passes_a_limit(limit, ends, tmp_path_factory):
    """A provider bills all that it may have answered; a kill leaves all that was under way."""
    path = tmp_path_factory.mktemp("budget") / "s"
    bill = n_sent = 0
    store, open_ = Store(path), list[Booking]()
    account = Budget(12, float(limit), store).account(token_price=DOLLAR)
    try:
        for outcome, tokens_in, tokens_out, which in ends:
            while len(open_) < 7 and (booking := account.book(b"key", PROMPT, SHORT)) is not None:
                open_.append(booking)
                n_sent += 1
            one = open_.pop(which % len(open_))
            if outcome == "answered":
                account.settle(one, took(tokens_in, tokens_out))
            elif outcome != "killed":
                account.settle(one, LOST if outcome == "lost" else REFUSED)
            else:
                bill += (tokens_in + tokens_out) * len(open_)
                store.close()
                store, open_ = Store(path), []
                account = Budget(12, float(limit), store).account(token_price=DOLLAR)
            bill += (tokens_in + tokens_out) * (outcome != "refused")
    except BudgetSpentError:
        pass
    store.close()
    assert bill <= limit
    assert n_sent <= 12


class Billing(Model):
    """Answers 100 requests at once, then one in five of the others late, and bills every one."""

    dollars = 0

    async def complete(self, messages, sampling):
        prompt, number = messages[-1]["content"], self.calls
        chance = zlib.crc32(f"{prompt} {self.prompts[prompt]}".encode())
        answer = replace(await super().complete(messages, sampling), tokens_out=chance % 51)
        self.dollars += answer.tokens_in + answer.tokens_out
        if number >= 100 and chance % 5 == 0:
            await asyncio.sleep(1.0)
        return answer


@pytest.mark.parametrize(("limit", "concurrency"), [(50, 8), (5_000, 2), (20_000, 64)])
def test_what_nobody_waits_for_is_never_billed_above_the_limit(limit, concurrency):
    """A twelve-hundredth of the scale of life: a timeout of 0.1 s, and late answers after 1 s."""
    model, account = Billing(echo), account_of(limit)
    client = Client(model, account=account, concurrency=concurrency, timeout=0.1)
    with pytest.raises(BudgetSpentError):
        list(client.run(asks(limit, SHORT)))
    total = account.total
    assert model.dollars <= total.answered_cost + total.cost_unconfirmed <= limit
    # 10 tokens read of 20 bytes, and 25 of 50 written: at least a third of the worst.
    assert model.dollars > limit / 3 or limit < 70


def test_the_first_request_over_budget_ends_a_run():
    """So the rows that the limit did not reach are the last ones, and none counts as failed.

    Two short requests take 11 dollars each. The third may cost 300 + 16 + 50, more than the 78 that
    are left; the fourth would fit at 1 + 16 + 50.
    """
    model, prompts = Model(echo), ["1", "2", "3" * 300, "4"]
    requests = (Request([{"role": "user", "content": each}], SHORT, number) for each in prompts)
    client, responses = Client(model, account=account_of(100.0), concurrency=4), []
    with pytest.raises(BudgetSpentError, match="the next request may cost"):
        responses.extend(client.run(requests))
    assert (values_of(responses), model.calls) == ([1, 2], 2)


def test_what_timed_out_stays_booked_in_the_next_start(tmp_path, short_waits):
    store = Store(tmp_path / "s")
    account = Budget(store=store).account(token_price=DOLLAR)
    with account.spending_on("search"):
        client = Client(Model(echo, wait=60.0), account=account, timeout=0.02)
        response = client.ask(next(asks(1)))
    assert response.failure == "gave up after 6 attempts: no answer within 0.02 s"
    for budget in (account.budget, Budget(store=store)):
        (spending,) = budget.account(token_price=DOLLAR).spending()
        # Six attempts of 1 byte + 16 and 512 tokens.
        assert (spending.purpose, spending.calls, spending.cost_usd) == ("search", 6, 6 * 529)
        assert budget.total.spent == 6 * 529


def test_an_endpoint_that_ignores_max_tokens_is_noticed_early():
    """It bills ten times the 200 dollars at worst; refusals tell nothing of it."""
    account, sampling = account_of(100_000.0), Sampling(max_tokens=100)
    account.settle(book(account, sampling), REFUSED)
    first = book(account, sampling)
    assert account.book(b"", PROMPT, sampling) is None
    account.settle(first, took(100, 1_900))
    pair = book(account, sampling), book(account, sampling)
    assert pair[0].reserved_cost == pytest.approx(2_000.0)
    assert account.book(b"", PROMPT, sampling) is None
    for one in pair:
        account.settle(one, took(100, 1_900))
    assert book(account, sampling).reserved_cost == pytest.approx(2_000.0)  # and not 20,000


def test_an_unknown_price_is_no_zero():
    for price, dollars in ((None, None), (FREE, 0)):
        account = Budget().account(token_price=price)
        account.settle(book(account), took(30, 12))
        assert [row.cost_usd for row in account.spending()] == [dollars]
    with pytest.raises(ValueError, match="give the price"):
        Budget(max_cost=1.0).account()


# What a model costs, by the table that litellm bundles.


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
