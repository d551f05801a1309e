"""What a run spends on what: counted with each request, over threads, kills and resumes."""

from pathlib import Path
from typing import Any

import pytest

from judges.client.budget import Account, Budget, Reservation, Spending
from judges.client.prices import Price
from judges.client.protocol import Message, Sampling, Usage
from optimize.run.spending import spending_summary

DOLLAR = Price(per_token_in=1.0, per_token_out=1.0)
THIRD = Price(per_token_in=1 / 3e6, per_token_out=1 / 7e6)
ASKED: list[Message] = [{"role": "user", "content": "x" * 40}]


def send(account: Account) -> Reservation:
    reservation = account.reserve(ASKED, Sampling(max_tokens=10))
    assert reservation is not None
    return reservation


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


def test_what_was_spent_before_a_kill_stays_with_its_purpose(tmp_path: Path) -> None:
    budget = Budget(path=tmp_path / "budget.json")
    judge, proposer = budget.account("judge", DOLLAR), budget.account("proposer", DOLLAR)
    proposer.purpose = "proposals"
    with judge.spending_on("search"):
        judge.settle(send(judge), Usage(10, 1))
        send(judge)
    proposer.settle(send(proposer), Usage(3, 3))
    budget.close()
    resumed = Budget(path=tmp_path / "budget.json")
    judge, proposer = resumed.account("judge", DOLLAR), resumed.account("proposer", DOLLAR)
    with judge.spending_on("dev"):
        judge.settle(send(judge), Usage(20, 1))
    # The second of search was under way: its prompt is as long as the others', 15 tokens each.
    assert judge.spending() == [row("search", 2, 10, 1, 11 + 16), row("dev", 1, 20, 1, 21)]
    assert proposer.spending() == [row("proposals", 1, 3, 3, 6)]
    resumed.close()


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
