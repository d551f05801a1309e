"""What a model costs, from the price table that litellm bundles, and how many tokens a text takes.

The table is read as a file: importing litellm costs two seconds and may fetch from the network.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from judges.client.protocol import Completion, Message, Usage, is_embedded

TABLE = "model_prices_and_context_window_backup.json"
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
FRAMING_BYTES = 16
LONG_PROMPT = re.compile(r"input_cost_per_token_above_(\d{1,6})k_tokens")
DATE = re.compile(r"-\d{4}-?\d{2}-?\d{2}\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for one token read and for one token written.

    The others are of tokens that are read from the provider's cache of prompts, put there, and
    thought before the answer; None: as other tokens read or written. `beyond` is a number of tokens
    and the price of a request that reads more than so many, which all of its tokens have. A request
    itself costs `per_request`.
    """

    per_token_in: float
    per_token_out: float
    per_cache_read: float | None = None
    per_cache_write: float | None = None
    per_thought: float | None = None
    beyond: "tuple[int, Price] | None" = None
    per_request: float = 0.0

    def at(self, tokens_in: float) -> "Price":
        """The price of a request that reads so many tokens."""
        return self.beyond[1] if self.beyond and tokens_in > self.beyond[0] else self

    @property
    def is_free(self) -> bool:
        return self.worst(10**9, 1) == 0

    def cost(self, tokens_in: float, tokens_out: float, requests: float) -> float:
        """What so many requests cost in all of whose tokens nothing else is known."""
        tokens = tokens_in * self.per_token_in + tokens_out * self.per_token_out
        return tokens + requests * self.per_request

    def cost_of(self, usage: Usage | Completion) -> float:
        """What a request has cost, each kind of token at its own price."""
        price = self.at(usage.tokens_in)
        kinds = (
            (usage.cache_reads, price.per_cache_read, price.per_token_in),
            (usage.cache_writes, price.per_cache_write, price.per_token_in),
            (usage.thoughts, price.per_thought, price.per_token_out),
        )
        extra = sum(n * (own - plain) for n, own, plain in kinds if own is not None)
        return price.cost(usage.tokens_in, usage.tokens_out, 1) + extra

    def worst(self, tokens_in: int, tokens_out: int) -> float:
        """The most that a request of so many tokens can cost, or of fewer, whatever their kinds."""
        most = (
            self.per_request
            + tokens_in * max(self.per_token_in, self.per_cache_write or 0.0)
            + tokens_out * max(self.per_token_out, self.per_thought or 0.0)
        )
        own = self.at(tokens_in)
        return most if own is self else max(most, own.worst(tokens_in, tokens_out))


FREE = Price(per_token_in=0.0, per_token_out=0.0)


def read_price(text: str) -> tuple[float, float]:
    """IN,OUT: US dollars for a million tokens read and written; ValueError for anything else."""
    numbers = [float(part) for part in text.split(",")]
    if len(numbers) != 2 or not all(0 <= value < math.inf for value in numbers):
        raise ValueError(text)
    return numbers[0], numbers[1]


def price_of(dollars: tuple[float, float] | Price | None) -> Price | None:
    """The price of so many US dollars for a million tokens read and written."""
    if dollars is None or isinstance(dollars, Price):
        return dollars
    return Price(per_token_in=dollars[0] / 1e6, per_token_out=dollars[1] / 1e6)


@lru_cache(maxsize=64)
def find_price(model: str) -> Price | None:
    """A model's price by its name, or by that without its provider or date; None if unknown."""
    if is_embedded(model):
        return FREE
    prefix, _, name = model.rpartition("/")
    maker = prefix.rpartition("/")[2]
    for listed in (model, DATE.sub("", model), name, DATE.sub("", name)):
        entry = _table().get(listed, {})
        # Another provider's model of the same name may have another price.
        by_maker = "/" in listed or str(entry.get("litellm_provider")).startswith(maker)
        if by_maker and "input_cost_per_token" in entry and "output_cost_per_token" in entry:
            return _price_in(entry)
    return None


def _price_in(entry: Mapping[str, Any]) -> Price:
    """The price of an entry, with that of its longer prompts ("..._above_200k_tokens")."""
    price = _tier(entry, "")
    long = next(filter(None, map(LONG_PROMPT.fullmatch, entry)), None)
    if long is None:
        return price
    return replace(price, beyond=(int(long[1]) * 1000, _tier(entry, f"_above_{long[1]}k_tokens")))


def _tier(entry: Mapping[str, Any], suffix: str) -> Price:
    """The prices under names that end so; 0 stands for one that is not known."""

    def rate(name: str) -> float | None:
        return float(entry.get(f"{name}{suffix}") or 0.0) or None

    searches = entry.get("search_context_cost_per_query") or {}
    # Perplexity's models search for every request, the others only where they are asked to.
    searching = entry.get("litellm_provider") == "perplexity"
    return Price(
        per_token_in=rate("input_cost_per_token") or float(entry["input_cost_per_token"]),
        per_token_out=rate("output_cost_per_token") or float(entry["output_cost_per_token"]),
        per_cache_read=rate("cache_read_input_token_cost"),
        per_cache_write=rate("cache_creation_input_token_cost"),
        per_thought=rate("output_cost_per_reasoning_token"),
        per_request=float(searches.get("search_context_size_low") or 0.0) if searching else 0.0,
    )


def estimate_tokens(messages: Sequence[Message]) -> int:
    """Guess what a prompt takes, for dry runs: a token is about four characters of English."""
    characters = sum(len(message["content"]) for message in messages)
    return -(-characters // CHARACTERS_PER_TOKEN) + TOKENS_PER_MESSAGE * len(messages)


def token_bound(messages: Sequence[Message]) -> int:
    """Bound what a prompt can take: a byte-level tokenizer makes no token of less than a byte."""
    size = 0
    for message in messages:
        text = message["content"]
        size += len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return size + FRAMING_BYTES * len(messages)


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).parent / TABLE
    if not path.exists():
        return {}
    table: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return table
