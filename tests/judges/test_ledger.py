"""An account: what is spent, and that no limit is ever passed; prices and token estimates."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judges.client.budget import (
    ENOUGH_ANSWERS,
    LOST_FACTOR,
    Account,
    Budget,
    BudgetSpentError,
    Reservation,
)
from judges.client.prices import FREE, Price
from judges.client.protocol import Completion, Message, Sampling

DOLLAR = Price(per_token_in=1.0, per_token_out=1.0)
ASKED: list[Message] = [{"role": "user", "content": "x" * 84}]  # at most 84 + 16 = 100 tokens


def took(tokens_in: int, tokens_out: int) -> Completion:
    return Completion(replies=(), tokens_in=tokens_in, tokens_out=tokens_out, model="m")


def learned(account: Account, requests: int) -> Account:
    """The account after so many requests that cost nothing: twice so many may be in flight."""
    for _ in range(requests):
        reserved = account.reserve(ASKED, Sampling(max_tokens=1))
        assert reserved is not None
        account.settle(reserved, took(0, 0))
    return account


def test_with_a_limit_on_dollars_answers_tell_what_requests_cost_before_many_are_in_flight() -> (
    None
):
    """An endpoint that ignores max_tokens bills ten times the worst of the first request alone."""
    account = Budget(max_cost=10_000.0).account(price=DOLLAR)
    first = account.reserve(ASKED, Sampling(max_tokens=100))
    assert first is not None
    assert account.reserve(ASKED, Sampling(max_tokens=100)) is None
    account.settle(first, took(100, 1_900))
    pair = [account.reserve(ASKED, Sampling(max_tokens=100)) for _ in range(3)]
    assert [one is None for one in pair] == [False, False, True]
    assert pair[0] is not None
    assert pair[0].cost == pytest.approx(2_000.0)
    # Without a limit on dollars nothing waits.
    free = Budget(max_calls=50).account(price=DOLLAR)
    assert None not in [free.reserve(ASKED, Sampling(max_tokens=100)) for _ in range(50)]


def test_a_request_is_reserved_at_its_worst_and_settled_at_what_it_took() -> None:
    account = Budget(max_cost=1000.0).account(price=DOLLAR)
    reserved = account.reserve(ASKED, Sampling(n=2, max_tokens=50))
    assert reserved is not None
    assert reserved.cost == 200  # 100 in, 2 x 50 out
    account.settle(reserved, took(30, 12))
    assert (account.calls, account.tokens_in, account.tokens_out, account.cost) == (1, 30, 12, 42)
    assert account.budget.reserved == 0


def test_what_does_not_fit_waits_for_what_is_in_flight_and_then_ends_the_run() -> None:
    account = learned(Budget(max_cost=320.0).account(price=DOLLAR), 1)
    sampling = Sampling(max_tokens=50)  # at worst 150
    first, second = account.reserve(ASKED, sampling), account.reserve(ASKED, sampling)
    assert first is not None
    assert second is not None
    assert (first.cost, second.cost) == (150, 150)
    assert account.reserve(ASKED, sampling) is None
    account.settle(first, took(60, 10))
    third = account.reserve(ASKED, sampling)  # 70 + 150 + 150 > 320
    assert third is None
    account.settle(second, took(100, 50))
    with pytest.raises(BudgetSpentError, match=r"\$220\.0000 of the budget of \$320 is spent"):
        account.reserve(ASKED, sampling)
    assert account.calls == 1 + 2


def test_what_may_have_been_billed_counts_against_the_budget_and_is_told_apart() -> None:
    account = Budget(max_cost=1000.0).account(price=DOLLAR)
    for billed in (True, False):
        reserved = account.reserve(ASKED, Sampling(max_tokens=50))
        assert reserved is not None
        account.forfeit(reserved, billed=billed)
    assert (account.cost, account.cost_unconfirmed, account.budget.cost) == (0, 150, 150)


def test_lost_requests_are_booked_by_what_others_took_once_enough_were_answered() -> None:
    account = Budget(max_cost=10_000.0).account(price=DOLLAR)
    for _ in range(3):
        lost = account.reserve(ASKED, Sampling(max_tokens=50))
        assert lost is not None
        account.forfeit(lost, billed=True)
    for number in range(ENOUGH_ANSWERS):
        # 150 dollars each at worst, until it is known that they take 11.
        assert account.budget.cost == 3 * 150 + 11 * number
        reserved = account.reserve(ASKED, Sampling(max_tokens=50))
        assert reserved is not None
        account.settle(reserved, took(10, 1))
    expected = 11 * ENOUGH_ANSWERS + LOST_FACTOR * 3 * 11
    assert account.budget.cost == pytest.approx(expected)
    assert account.cost_unconfirmed == 450


@settings(deadline=None)
@given(
    limit=st.integers(0, 2000),
    used=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=40),
    together=st.integers(1, 8),
)
def test_no_order_of_requests_passes_a_budget(
    limit: int, used: list[tuple[int, int]], together: int
) -> None:
    account = Budget(max_cost=float(limit), max_calls=30).account(price=DOLLAR)
    open_: list[tuple[Reservation, Completion]] = []
    try:
        for tokens in used:
            while (reserved := account.reserve(ASKED, Sampling(max_tokens=50))) is None:
                account.settle(*open_.pop(0))
            open_.append((reserved, took(*tokens)))
            if len(open_) >= together:
                account.settle(*open_.pop(0))
    except BudgetSpentError:
        pass
    for one in open_:
        account.settle(*one)
    assert account.budget.cost <= limit
    assert account.calls <= 30


def test_a_dollar_budget_without_a_price_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="give the price"):
        Budget(max_cost=1.0).account()
    with pytest.raises(ValueError, match="price"):
        Budget(max_cost=1.0).account(price=DOLLAR).budget.account()


def test_an_unknown_price_is_no_zero() -> None:
    assert Budget().account().cost is None
    assert Budget().account(price=FREE).cost == 0


def test_requests_in_flight_together_that_exceed_their_worst_raise_the_next_ones_only_once() -> (
    None
):
    """Each took 10 times the 200 dollars at worst: so may the next one, and not 10 ** 40 times."""
    account = learned(Budget(max_cost=100_000.0).account(price=DOLLAR), 20)
    sampling = Sampling(max_tokens=100)
    flying = [account.reserve(ASKED, sampling) for _ in range(40)]
    for one in flying:
        assert one is not None
        account.settle(one, took(100, 1_900))
    following = account.reserve(ASKED, sampling)
    assert following is not None
    assert following.cost == pytest.approx(2_000.0)
