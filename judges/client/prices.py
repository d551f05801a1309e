"""Find the prices of models in the table that litellm bundles, and estimate numbers of tokens.

The table is read as a file, since importing litellm takes two seconds and may use the network.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import msgspec

from dspy_judges.errors import OptionError
from judges.protocol import Message, Usage, is_decision, is_embedded

TABLE_FILE = "model_prices_and_context_window_backup.json"
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4  # an estimate of the tokens that an endpoint adds to each message
FRAMING_BYTES = 16  # an upper bound on the tokens that an endpoint adds to each message
# A key of the table for the price of long prompts, such as input_cost_per_token_above_200k_tokens.
LONG_PROMPT_RATE_NAME = re.compile(r"(.+)_above_(\d{1,6})k_tokens")
DATE_SUFFIX = re.compile(r"-\d{4}-?\d{2}-?\d{2}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model, in US dollars per input token and per output token.

    `per_cache_read` and `per_cache_write` are the prices of input tokens that are read from, or
    written to, the provider's prompt cache; None means the price of other input tokens. A request
    with more than `long_prompt` input tokens costs `long_factor` times as much.
    """

    per_token_in: float
    per_token_out: float
    per_cache_read: float | None = None
    per_cache_write: float | None = None
    long_prompt: float = math.inf
    long_factor: float = 1.0

    @property
    def is_free(self) -> bool:
        return self.worst_cost(1, 1) == 0

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """US dollars for numbers of tokens, without special prices for caching or long prompts."""
        return tokens_in * self.per_token_in + tokens_out * self.per_token_out

    def cost_of(self, usage: Usage) -> float:
        """The US dollars for one request, including its cached tokens and its long prompt."""
        cost = self.cost(usage.tokens_in, usage.tokens_out)
        if self.per_cache_read is not None:
            cost += usage.cache_reads * (self.per_cache_read - self.per_token_in)
        if self.per_cache_write is not None:
            cost += usage.cache_writes * (self.per_cache_write - self.per_token_in)
        return cost * self.long_factor if usage.tokens_in > self.long_prompt else cost

    def worst_cost(self, tokens_in: int, tokens_out: int) -> float:
        """The most US dollars that a request with at most these numbers of tokens can cost."""
        cost = self.cost_of(Usage(tokens_in, tokens_out))
        return max(cost, self.cost_of(Usage(tokens_in, tokens_out, cache_writes=tokens_in)))


FREE = Price(per_token_in=0.0, per_token_out=0.0)
# Prices that the table lacks (from https://developers.openai.com/api/docs/pricing, November 2026).
DECISION_PRICES = {"decisions/gpt-6-luna": Price(per_token_in=0.1e-6, per_token_out=0.0)}


def read_price(text: str) -> tuple[float, float]:
    """Read a price such as "0.4,1.6": dollars per million input and per million output tokens.

    Raises ValueError if the text is not two numbers of 0 or more.
    """
    numbers = [float(part) for part in text.split(",")]
    if len(numbers) != 2 or not all(0 <= value < math.inf for value in numbers):
        raise ValueError(text)
    return numbers[0], numbers[1]


def price_of(dollars: tuple[float, float] | Price | None) -> Price | None:
    """The price for a pair: dollars per million input tokens and per million output tokens.

    Raises OptionError if it is not a pair of numbers of 0 or more.
    """
    if dollars is None or isinstance(dollars, Price):
        return dollars
    try:
        text = dollars if isinstance(dollars, str) else ",".join(map(str, dollars))
        dollars = read_price(text)
    except (TypeError, ValueError):
        raise OptionError(
            f"price {dollars!r}: write (IN, OUT), US dollars per million input and output tokens, "
            "as in (0.4, 1.6)"
        ) from None
    return Price(per_token_in=dollars[0] / 1e6, per_token_out=dollars[1] / 1e6)


@lru_cache(maxsize=64)
def find_price(model: str) -> Price | None:
    """The price of a model; None if it is unknown.

    The name may be with or without the provider ("openai/...") and a date ("...-2025-04-14").
    """
    if is_embedded(model):
        return FREE
    if is_decision(model):
        return DECISION_PRICES.get(DATE_SUFFIX.sub("", model))
    prefix, _, name = model.rpartition("/")
    named_provider = prefix.rpartition("/")[2]
    for key in (model, DATE_SUFFIX.sub("", model), name, DATE_SUFFIX.sub("", name)):
        entry = _price_table().get(key, {})
        provider = str(entry.get("litellm_provider"))
        # Another provider's model with the same name may have another price.
        has_same_provider = "/" in key or provider.startswith(named_provider)
        # Perplexity's models search the web for every request, which costs more than the tokens.
        has_prices = "input_cost_per_token" in entry and "output_cost_per_token" in entry
        if has_same_provider and has_prices and provider != "perplexity":
            return _price_of_entry(entry)
    return None


def choose_price(lm: str, asked: Collection[str], price: Price | None) -> Price | None:
    """The price of `lm`, one of the `asked` models, if the user gave a price.

    The user's price is that of the only paid model. If there are several, it is the price of those
    that no table lists.
    """
    n_paid_models = len({model for model in asked if not is_embedded(model)})
    if is_embedded(lm) or n_paid_models > 1:
        return find_price(lm) or price
    return price or find_price(lm)


def _price_of_entry(entry: Mapping[str, object]) -> Price:
    """The price in an entry of the table; a cache price of 0 there means that it is unknown."""
    rates = {name: value for name, value in entry.items() if isinstance(value, int | float)}
    long_prompt_rates = [
        (int(match[2]) * 1000, rate / rates[match[1]])
        for name, rate in rates.items()
        if (match := LONG_PROMPT_RATE_NAME.fullmatch(name)) and rates.get(match[1])
    ]
    reasoning_rate = rates.get("output_cost_per_reasoning_token", 0.0)
    return Price(
        per_token_in=float(rates["input_cost_per_token"]),
        # The higher rate, since answers do not say how many tokens are reasoning tokens.
        per_token_out=float(max(rates["output_cost_per_token"], reasoning_rate)),
        per_cache_read=rates.get("cache_read_input_token_cost") or None,
        per_cache_write=rates.get("cache_creation_input_token_cost") or None,
        long_prompt=min((tokens for tokens, _ in long_prompt_rates), default=math.inf),
        long_factor=max((factor for _, factor in long_prompt_rates), default=1.0),
    )


def estimate_tokens(messages: Sequence[Message]) -> int:
    """The approximate number of tokens of a prompt, at four characters per token."""
    n_characters = sum(len(message["content"]) for message in messages)
    return -(-n_characters // CHARACTERS_PER_TOKEN) + TOKENS_PER_MESSAGE * len(messages)


def token_bound(messages: Sequence[Message]) -> int:
    """An upper bound on the tokens of a prompt: its bytes, since a token has at least one byte."""
    n_bytes = FRAMING_BYTES * len(messages)
    for message in messages:
        content = message["content"]
        n_bytes += len(content) if content.isascii() else len(content.encode("utf-8", "replace"))
    return n_bytes


@lru_cache(maxsize=1)
def _price_table() -> dict[str, dict[str, object]]:
    spec = find_spec("litellm")
    path = Path(spec.origin).with_name(TABLE_FILE) if spec and spec.origin else None
    table_json = path.read_bytes() if path and path.exists() else b"{}"
    return msgspec.json.decode(table_json, type=dict[str, dict[str, object]])
