"""Find the prices of models in the table that LiteLLM bundles, and estimate numbers of tokens.

The table is read as a file, since importing LiteLLM takes two seconds and may use the network.
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
from judges.protocol import Message, Usage, is_decision_model, is_embedded

PRICE_TABLE_FILE = "model_prices_and_context_window_backup.json"
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4  # an estimate of the tokens that an endpoint adds to each message
FRAMING_BYTES_PER_MESSAGE = 16  # an upper bound on the tokens that an endpoint adds to each message
# Matches a name in the table such as input_cost_per_token_above_200k_tokens.
LONG_PROMPT_RATE_NAME = re.compile(r"(.+)_above_(\d{1,6})k_tokens")
DATE_SUFFIX = re.compile(r"-\d{4}-?\d{2}-?\d{2}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model, in US dollars per input token and per output token.

    Input tokens that are read from or written to the provider's prompt cache may have prices of
    their own. A request of more than `long_prompt_tokens` costs `long_prompt_factor` times as much.
    """

    per_token_in: float
    per_token_out: float
    per_token_cache_read: float | None = None
    per_token_cache_write: float | None = None
    long_prompt_tokens: float = math.inf
    long_prompt_factor: float = 1.0

    @property
    def is_free(self) -> bool:
        return self.worst_cost(1, 1) == 0

    def cost(self, tokens_in: float, tokens_out: float) -> float:
        """Return the US dollars for tokens, without special prices for caching or long prompts."""
        return tokens_in * self.per_token_in + tokens_out * self.per_token_out

    def cost_of(self, usage: Usage) -> float:
        """Return the US dollars for a request, with special prices for caching or long prompts."""
        cost = self.cost(usage.tokens_in, usage.tokens_out)
        if self.per_token_cache_read is not None:
            cost += usage.cache_read_tokens * (self.per_token_cache_read - self.per_token_in)
        if self.per_token_cache_write is not None:
            cost += usage.cache_write_tokens * (self.per_token_cache_write - self.per_token_in)
        return cost * self.long_prompt_factor if usage.tokens_in > self.long_prompt_tokens else cost

    def worst_cost(self, tokens_in: int, tokens_out: int) -> float:
        """Return the most US dollars that a request of at most this many tokens can cost."""
        cost = self.cost_of(Usage(tokens_in, tokens_out))
        return max(cost, self.cost_of(Usage(tokens_in, tokens_out, cache_write_tokens=tokens_in)))


FREE = Price(per_token_in=0.0, per_token_out=0.0)
# Prices that LiteLLM's table lacks (https://developers.openai.com/api/docs/pricing, November 2026).
DECISION_PRICES = {"decisions/gpt-6-luna": Price(per_token_in=0.1e-6, per_token_out=0.0)}


def read_price(text: str) -> tuple[float, float]:
    """Read a price IN,OUT such as "0.4,1.6"; raises ValueError unless both are 0 or more."""
    return _check_price(tuple(float(number) for number in text.split(",")))


def price_of(dollars: tuple[float, float] | Price | None) -> Price | None:
    """Return the Price for a pair: US dollars per million input tokens and output tokens."""
    if dollars is None or isinstance(dollars, Price):
        return dollars
    try:
        dollars_in, dollars_out = _check_price(dollars)
    except (TypeError, ValueError):
        raise OptionError(
            f"price {dollars!r}: write (IN, OUT), US dollars per million input and output tokens, "
            "as in (0.4, 1.6)"
        ) from None
    return Price(per_token_in=dollars_in / 1e6, per_token_out=dollars_out / 1e6)


def _check_price(dollars: tuple[float, ...]) -> tuple[float, float]:
    """Return the two amounts of a price; raises an error unless both are 0 or more."""
    dollars_in, dollars_out = dollars
    if not (0 <= dollars_in < math.inf and 0 <= dollars_out < math.inf):
        raise ValueError(dollars)
    return dollars_in, dollars_out


@lru_cache(maxsize=64)
def find_price(model: str) -> Price | None:
    """Return a model's price, or None. The name may lack the provider, and may end in a date."""
    if is_embedded(model):
        return FREE
    if is_decision_model(model):
        return DECISION_PRICES.get(DATE_SUFFIX.sub("", model))
    prefix, _, name = model.rpartition("/")
    provider_in_name = prefix.rpartition("/")[2]
    for name_in_table in (model, DATE_SUFFIX.sub("", model), name, DATE_SUFFIX.sub("", name)):
        table_entry = _price_table().get(name_in_table, {})
        if "input_cost_per_token" not in table_entry or "output_cost_per_token" not in table_entry:
            continue
        provider = str(table_entry.get("litellm_provider"))
        # Another provider's model with the same name may have another price.
        has_same_provider = "/" in name_in_table or provider.startswith(provider_in_name)
        # Perplexity also bills web searches, for which the table has no price.
        if has_same_provider and provider != "perplexity":
            return _read_table_entry(table_entry)
    return None


def choose_price(lm: str, lms: Collection[str], price: Price | None) -> Price | None:
    """Return the price of `lm`, one of a run's models `lms`; the user may have given `price`.

    If the run has several paid models, the user's price is for those that the table lacks.
    """
    n_paid_models = len({model for model in lms if not is_embedded(model)})
    if is_embedded(lm) or n_paid_models > 1:
        return find_price(lm) or price
    return price or find_price(lm)


def _read_table_entry(table_entry: Mapping[str, object]) -> Price:
    """Read an entry of the price table, where a cache price of 0 means that it is unknown."""
    rates = {name: rate for name, rate in table_entry.items() if isinstance(rate, int | float)}
    long_prompt_tokens: list[int] = []
    long_prompt_factors: list[float] = []
    for name, rate in rates.items():
        match = LONG_PROMPT_RATE_NAME.fullmatch(name)
        if match and (usual_rate := rates.get(match[1])):
            long_prompt_tokens.append(int(match[2]) * 1000)
            long_prompt_factors.append(rate / usual_rate)
    reasoning_rate = rates.get("output_cost_per_reasoning_token", 0.0)
    return Price(
        per_token_in=float(rates["input_cost_per_token"]),
        # Output has the higher of two rates: responses do not count reasoning tokens separately.
        per_token_out=float(max(rates["output_cost_per_token"], reasoning_rate)),
        per_token_cache_read=rates.get("cache_read_input_token_cost") or None,
        per_token_cache_write=rates.get("cache_creation_input_token_cost") or None,
        long_prompt_tokens=min(long_prompt_tokens, default=math.inf),
        long_prompt_factor=max(long_prompt_factors, default=1.0),
    )


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Return the approximate number of tokens of a prompt, at four characters per token."""
    n_characters = sum(len(message["content"]) for message in messages)
    return -(-n_characters // CHARACTERS_PER_TOKEN) + TOKENS_PER_MESSAGE * len(messages)


def max_prompt_tokens(messages: Sequence[Message]) -> int:
    """Return an upper bound on a prompt's tokens: its bytes, since a token has at least one."""
    n_bytes = sum(len(message["content"].encode("utf-8", "replace")) for message in messages)
    return n_bytes + FRAMING_BYTES_PER_MESSAGE * len(messages)


@lru_cache(maxsize=1)
def _price_table() -> dict[str, dict[str, object]]:
    litellm_spec = find_spec("litellm")
    if litellm_spec is None or litellm_spec.origin is None:
        return {}
    path = Path(litellm_spec.origin).with_name(PRICE_TABLE_FILE)
    table_json = path.read_bytes() if path.exists() else b"{}"
    return msgspec.json.decode(table_json, type=dict[str, dict[str, object]])
