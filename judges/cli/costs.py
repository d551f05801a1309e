"""The estimated cost of judging a table, and its real cost afterwards."""

import math
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from judges.client import Session, gives_n_replies
from judges.client.prices import CHARACTERS_PER_TOKEN, Price, choose_price, estimate_tokens
from judges.panel import AnyJudge
from judges.scoring import estimate_reply_tokens
from judges.terminal import print_note


class CostEstimate(NamedTuple):
    """The estimated requests, tokens and cost of judging a table with the models `lms`.

    Four characters count as one token. The cost is None if a model's price is unknown.
    """

    lms: tuple[str, ...]
    n_requests: int
    tokens_in: int
    tokens_out: int
    cost_usd: float | None

    def as_json(self) -> dict[str, object]:
        return {
            "lm": [*self.lms],
            "requests": self.n_requests,
            "tokens": {"in": self.tokens_in, "out": self.tokens_out},
            "cost_usd": self.cost_usd,
        }

    def __str__(self) -> str:
        lm_names = ", ".join(self.lms)
        if self.cost_usd == 0:
            return f"estimate: {self.n_requests:,} judgements; {lm_names}, free"
        cost_text = "price unknown" if self.cost_usd is None else f"about ${self.cost_usd:,.4f}"
        return (
            f"estimate: {self.n_requests:,} requests, about {self.tokens_in:,} tokens in and "
            f"{self.tokens_out:,} out; {lm_names}, {cost_text}"
        )


def estimate_costs(
    judge: AnyJudge, *, n_rows: int, n_characters: int, lms: Collection[str], price: Price | None
) -> list[CostEstimate]:
    """Return an estimate for each model that a judge asks; `lms` are all models of the run."""
    n_orders = len(judge.subject.orders)
    n_prompts, estimates = n_rows * n_orders, []
    text_tokens = n_characters * n_orders // CHARACTERS_PER_TOKEN
    for single_judge in judge.single_judges:
        lm, plan = single_judge.lm, single_judge.plan
        n_samples = plan.samples if plan else 1
        # If a request brings only one reply, each sample pays for the prompt again.
        requests_per_prompt = 1 if gives_n_replies(lm) else n_samples
        template_tokens = estimate_tokens(single_judge.template()) * n_prompts
        tokens_in = (template_tokens + text_tokens) * requests_per_prompt
        tokens_out = estimate_reply_tokens(single_judge.prompt, lm) * n_prompts * n_samples
        lm_price = choose_price(lm, lms, price)
        cost = lm_price.cost(tokens_in, tokens_out) if lm_price else None
        n_requests = n_prompts * requests_per_prompt
        estimates.append(CostEstimate((lm,), n_requests, tokens_in, tokens_out, cost))
    return estimates


def total_estimate(estimates: Sequence[CostEstimate]) -> CostEstimate:
    """Return the sum of several estimates; the cost is None if any of their costs is None."""
    lms, n_requests, tokens_in, tokens_out, costs = zip(*estimates, strict=True)
    total_cost = None if None in costs else math.fsum(costs)
    all_lms = tuple(sorted(set().union(*lms)))
    return CostEstimate(all_lms, sum(n_requests), sum(tokens_in), sum(tokens_out), total_cost)


def run_cost_json(session: Session) -> dict[str, Any]:
    """Return a run's calls, tokens and cost for --json; earlier starts of the run count, too.

    `cost_usd` is None if a price is unknown. `cost_unconfirmed_usd` is the worst-case cost of
    requests that were not answered.
    """
    accounts, total = session.budget.accounts, session.budget.total
    prices_are_known = all(account.token_price for account in accounts.values())
    return {
        "lm": sorted(accounts),
        "lm_calls": total.calls,
        "cached_calls": total.cached_calls,
        "tokens": {"in": total.tokens_in, "out": total.tokens_out},
        "cost_usd": round(total.spent, 6) if prices_are_known else None,
        "cost_unconfirmed_usd": round(total.cost_unconfirmed, 6),
    }


def print_run_cost(session: Session) -> None:
    """Print how many requests the reply cache answered, and what all other requests cost."""
    if note := session.budget.total.cache_note:
        print_note(note)
    cost = run_cost_json(session)
    if cost["cost_usd"]:
        cost_note = f"cost: ${cost['cost_usd']:,.4f} for {cost['lm_calls']:,} calls"
        if unconfirmed_cost := cost["cost_unconfirmed_usd"]:
            cost_note += f", at most ${unconfirmed_cost:,.4f} of it for unanswered requests"
        print_note(cost_note)
