"""What a run over a table would take: requests, tokens and price, before anything is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judges.client import CHARACTERS_PER_TOKEN, Price, estimate_tokens, find_price, gives_n_replies
from judges.judge import Judge
from judges.panel import Panel
from judges.scoring import reply_tokens

# Their prices are shown beside the chosen model's, for choosing.
LISTED_MODELS = (
    "openai/gpt-4.1-nano",
    "openai/gpt-4.1-mini",
    "openai/gpt-4.1",
    "openai/gpt-5-mini",
    "openai/gpt-5",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requests and tokens of one judge over a table; a token is taken as four characters."""

    judge: str
    lm: str
    requests: int
    tokens_in: int
    tokens_out: int
    price: Price | None = None


def estimate_runs(
    judge: Judge, *, n_rows: int, characters: int, orders: int, price: Price | None = None
) -> list[Estimate]:
    """Of each judge that asks, for rows whose texts together have so many characters.

    `price` is of models that no table knows.
    """
    if not isinstance(judge, Panel):
        return [_estimate(judge, judge.name, n_rows * orders, characters * orders, price)]
    return [
        _estimate(
            member.judge,
            f"{judge.name}: {member.name}",
            n_rows * orders,
            characters * orders,
            find_price(member.judge.lm) or price,
        )
        for member in judge.members
    ]


def _estimate(
    judge: Judge, name: str, prompts: int, characters: int, price: Price | None
) -> Estimate:
    samples = judge.plan.samples if judge.plan else 1
    # Samples that are asked one by one pay for the prompt each time.
    times = 1 if gives_n_replies(judge.lm) else samples
    prompt_tokens = estimate_tokens(judge.template()) * prompts + characters // CHARACTERS_PER_TOKEN
    return Estimate(
        judge=name,
        lm=judge.lm,
        requests=prompts * times,
        tokens_in=prompt_tokens * times,
        tokens_out=reply_tokens(judge.prompt) * prompts * samples,
        price=price,
    )


def total_price(estimates: Sequence[Estimate], lm: str | None = None) -> float | None:
    """US dollars of all with their own models, or with `lm`; None where a price is unknown."""
    total = 0.0
    for estimate in estimates:
        price = find_price(lm) if lm else estimate.price or find_price(estimate.lm)
        if price is None:
            return None
        of_length = price.at(estimate.tokens_in / max(estimate.requests, 1))
        total += of_length.cost(estimate.tokens_in, estimate.tokens_out, 0)
        total += price.per_request * estimate.requests
    return total


def estimate_line(estimates: Sequence[Estimate], discount: float = 1.0) -> str:
    """One line for stderr."""
    requests, tokens_in, tokens_out = _totals(estimates)
    return (
        f"estimate: {requests:,} requests, about {tokens_in:,} tokens in and {tokens_out:,} out; "
        f"{', '.join(_models(estimates))} {_price_text(total_price(estimates), discount)}"
    )


def estimate_table(estimates: Sequence[Estimate]) -> str:
    """Every judge's share, then the price with its own and with other models."""
    lines = [f"{'judge':<22}{'requests':>10}{'tokens in':>14}{'tokens out':>12}"]
    lines += [
        f"{e.judge:<22}{e.requests:>10,}{e.tokens_in:>14,}{e.tokens_out:>12,}" for e in estimates
    ]
    models = _models(estimates)
    price = _price_text(total_price(estimates))
    lines += ["", f"{' and '.join(models):<36}{price:>12}   (chosen)"]
    for lm in LISTED_MODELS:
        listed_price = total_price(estimates, lm)
        if models != [lm] and listed_price is not None:
            lines.append(f"{lm:<36}{_price_text(listed_price):>12}")
    lines.append("(a token is taken as four characters; nothing has been sent)")
    return "\n".join(lines)


def estimate_record(estimates: Sequence[Estimate]) -> Mapping[str, object]:
    """The same for --json."""
    requests, tokens_in, tokens_out = _totals(estimates)
    return {
        "requests": requests,
        "tokens": {"in": tokens_in, "out": tokens_out},
        "cost_usd": total_price(estimates),
        "cost_usd_by_model": {lm: total_price(estimates, lm) for lm in LISTED_MODELS},
        "judges": {e.judge: {"lm": e.lm, "requests": e.requests} for e in estimates},
    }


def _totals(estimates: Sequence[Estimate]) -> tuple[int, int, int]:
    """Requests, tokens in and tokens out of all."""
    return (
        sum(estimate.requests for estimate in estimates),
        sum(estimate.tokens_in for estimate in estimates),
        sum(estimate.tokens_out for estimate in estimates),
    )


def _models(estimates: Sequence[Estimate]) -> list[str]:
    return sorted({estimate.lm for estimate in estimates})


def _price_text(price: float | None, discount: float = 1.0) -> str:
    """Dollars times `discount`, a factor, in words; `price` is None where unknown."""
    if price is None:
        return "price unknown"
    price *= discount
    if price == 0:
        return "free"
    return f"${price:,.2f}" if price >= 0.01 else "under $0.01"
