"""What a run spends, by purpose: told after it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from judges.client import Account, Spending
from optimize.figures import DIGITS
from optimize.run.models import PURPOSES


def spending_summary(*accounts: Account) -> dict[str, Any]:
    """Tokens and dollars for summary.json: in all, which is the sum of those by purpose.

    Dollars are at list price, and None where the price of a model that was asked is unknown. They
    hold the most that requests whose answer never came may have cost; where there were any,
    `cost_unconfirmed_usd` says how much that is.
    """
    rows = [row for account in accounts for row in account.spending()]
    rows = [rounded(row) for row in sorted(rows, key=_place)]
    total = total_spending(rows)
    summary: dict[str, Any] = {
        "tokens": {"in": total.tokens_in, "out": total.tokens_out},
        "cost_usd": None if total.cost is None else round(total.cost, DIGITS),
    }
    unconfirmed = round(sum(account.cost_unconfirmed for account in accounts), DIGITS)
    if total.cost is not None and unconfirmed > 0:
        summary["cost_unconfirmed_usd"] = unconfirmed
    return {**summary, "spending": [spending_row(row) for row in rows]}


def rounded(row: Spending) -> Spending:
    """The same with dollars as files hold them."""
    return replace(row, cost=None if row.cost is None else round(row.cost, DIGITS))


def spending_row(row: Spending) -> dict[str, Any]:
    """What JSON holds of it."""
    return {
        "purpose": row.purpose or "unknown",
        "calls": row.calls,
        "tokens_in": row.tokens_in,
        "tokens_out": row.tokens_out,
        "cost_usd": row.cost,
    }


def total_spending(rows: Sequence[Spending]) -> Spending:
    """All of them together; the cost is None where one is."""
    costs = [row.cost for row in rows if row.cost is not None]
    return Spending(
        purpose="all",
        calls=sum(row.calls for row in rows),
        tokens_in=sum(row.tokens_in for row in rows),
        tokens_out=sum(row.tokens_out for row in rows),
        cost=sum(costs) if len(costs) == len(rows) else None,
    )


def _place(row: Spending) -> int:
    """Where it stands among the others: what is of no known purpose, last."""
    return PURPOSES.index(row.purpose) if row.purpose in PURPOSES else len(PURPOSES)
