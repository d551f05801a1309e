"""What a run spends on what: counted with each request, whenever its answer comes."""

from typing import Any

import pytest
from optimize.run.spending import spending_summary

from judges.client.budget import Account, Booking, Budget, Spending
from judges.client.prices import Price
from judges.client.protocol import Message, Sampling, Usage

DOLLAR = Price(per_token_in=1.0, per_token_out=1.0)
THIRD = Price(per_token_in=1 / 3e6, per_token_out=1 / 7e6)
ASKED: list[Message] = [{"role": "user", "content": "x" * 40}]


def send(account: Account) -> Booking:
    booking = account.book(b"", ASKED, Sampling(max_tokens=10))
    assert booking is not None
    return booking


def row(purpose: str, calls: int, tokens_in: int, tokens_out: int, cost: float) -> Spending:
    return Spending(
        purpose=purpose, calls=calls, tokens_in=tokens_in, tokens_out=tokens_out, cost=cost
    )


def sums(rows: list[dict[str, Any]]) -> dict[str, Any]:
    names = ("calls", "tokens_in", "tokens_out", "cost_usd")
    return {name: sum(row[name] for row in rows) for name in names}


def test_a_request_is_counted_for_what_it_was_sent_for_whenever_its_answer_comes() -> None:
    account = Budget().account(price=DOLLAR)
    with account.spending_on("search"):
        late = send(account)
    with account.spending_on("dev"):
        account.settle(send(account), Usage(7, 2))
        account.settle(late, Usage(10, 1))
    assert account.spending() == [row("search", 1, 10, 1, 11), row("dev", 1, 7, 2, 9)]


def test_the_sums_by_purpose_are_the_totals_to_the_last_digit() -> None:
    budget = Budget()
    judge, proposer = budget.account("judge", THIRD), budget.account("proposer", THIRD)
    proposer.purpose = "proposals"
    for index, purpose in enumerate(("test", "seed", "search", "dev", "probes")):
        with judge.spending_on(purpose):
            for number in range(index + 1):
                judge.settle(send(judge), Usage(1001 + number, 13))
    proposer.settle(send(proposer), Usage(2222, 101))
    summary = spending_summary(judge, proposer)
    purposes = [spent["purpose"] for spent in summary["spending"]]
    assert purposes == ["seed", "search", "proposals", "dev", "test", "probes"]
    total = sums(summary["spending"])
    assert total["calls"] == judge.calls + proposer.calls
    assert summary["tokens"] == {"in": total["tokens_in"], "out": total["tokens_out"]}
    assert summary["cost_usd"] == round(total["cost_usd"], 6)
    assert summary["cost_usd"] == pytest.approx((judge.cost or 0) + (proposer.cost or 0), abs=4e-6)
