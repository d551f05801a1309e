"""What a run would take, before anything is sent: requests, tokens, and the price by model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from judges.engine.prices import CHARACTERS_PER_TOKEN, estimate_tokens, find_price
from judges.judge import Judge

# Shown beside the chosen model, for choosing.
OTHERS = (
    "openai/gpt-4.1-nano",
    "openai/gpt-4.1-mini",
    "openai/gpt-4.1",
    "openai/gpt-5-mini",
    "openai/gpt-5",
)
# Replies are short: a rating alone, or a sentence and a choice in their frames.
BARE_REPLY = 4
WORDED_REPLY = 60
NATIVE_N = ("embedded", "openai/", "azure/", "replay:")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Requests and tokens of one judge over a table; a token is taken as four characters."""

    judge: str
    lm: str
    requests: int
    tokens_in: int
    tokens_out: int

    def price(self, lm: str) -> float | None:
        """US dollars with a model; None where its price is unknown."""
        price = find_price(lm)
        return price.cost(self.tokens_in, self.tokens_out) if price else None


def estimate_run(judge: Judge, *, n_rows: int, characters: int, orders: int = 1) -> Estimate:
    """Estimate for so many rows whose texts together have so many characters."""
    samples = judge.plan.samples if judge.plan else 1
    asks = n_rows * orders
    requests = asks if judge.lm.startswith(NATIVE_N) else asks * samples
    static = estimate_tokens(judge.template())
    reply = WORDED_REPLY if len(judge.prompt.outputs) > 1 else BARE_REPLY
    read = static * asks + characters * orders // CHARACTERS_PER_TOKEN
    return Estimate(
        judge=judge.name,
        lm=judge.lm,
        requests=requests,
        tokens_in=read * requests // max(asks, 1),
        tokens_out=reply * asks * samples,
    )


def total_price(estimates: Iterable[Estimate], lm: str | None = None) -> float | None:
    """The price of all with their own models, or with `lm` for every one."""
    prices = [one.price(lm or one.lm) for one in estimates]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


def estimate_line(estimates: list[Estimate], discount: float = 1.0) -> str:
    """One line for stderr."""
    models = ", ".join(sorted({one.lm for one in estimates}))
    return (
        f"estimate: {sum(one.requests for one in estimates):,} requests, "
        f"about {sum(one.tokens_in for one in estimates):,} tokens in and "
        f"{sum(one.tokens_out for one in estimates):,} out; "
        f"{models} {_price_text(estimates, discount=discount)}"
    )


def estimate_table(estimates: list[Estimate]) -> str:
    """Every judge's share, then the price with its own and with other models."""
    lines = [f"{'judge':<22}{'requests':>10}{'tokens in':>14}{'tokens out':>12}"]
    lines += [
        f"{one.judge:<22}{one.requests:>10,}{one.tokens_in:>14,}{one.tokens_out:>12,}"
        for one in estimates
    ]
    lines.append("")
    chosen = sorted({one.lm for one in estimates})
    lines.append(f"{' and '.join(chosen):<36}{_price_text(estimates):>12}   (chosen)")
    lines += [
        f"{lm:<36}{_price_text(estimates, lm):>12}"
        for lm in OTHERS
        if chosen != [lm] and total_price(estimates, lm) is not None
    ]
    lines.append("(a token is taken as four characters; nothing has been sent)")
    return "\n".join(lines)


def estimate_record(estimates: list[Estimate]) -> Mapping[str, object]:
    """The same for --json."""
    return {
        "requests": sum(one.requests for one in estimates),
        "tokens": {
            "in": sum(one.tokens_in for one in estimates),
            "out": sum(one.tokens_out for one in estimates),
        },
        "cost_usd": total_price(estimates),
        "cost_usd_by_model": {lm: total_price(estimates, lm) for lm in OTHERS},
        "judges": {one.judge: {"lm": one.lm, "requests": one.requests} for one in estimates},
    }


def _price_text(estimates: list[Estimate], lm: str | None = None, discount: float = 1.0) -> str:
    price = total_price(estimates, lm)
    if price is None:
        return "price unknown"
    price *= discount
    if price == 0:
        return "free"
    return f"${price:,.2f}" if price >= 0.01 else "under $0.01"
