"""What a model costs, from the price table that litellm bundles, and how many tokens a text takes.

The table is read as a file: importing litellm costs two seconds and may fetch from the network.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from judges.client.protocol import Completion, Message, Usage, is_embedded
from judges.client.providers import PROVIDERS, Provider

TABLE = "model_prices_and_context_window_backup.json"
CHARACTERS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
# No text of weight takes more tokens than one for so many of its bytes.
BYTES_PER_TOKEN = 3
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
        if self.beyond is None or tokens_in <= self.beyond[0]:
            return self
        return self.beyond[1].at(tokens_in)

    @property
    def is_free(self) -> bool:
        """Whether no request costs anything: neither a token of any kind nor the request itself."""
        kinds = (self.per_cache_read, self.per_cache_write, self.per_thought)
        rates = (self.per_token_in, self.per_token_out, *kinds, self.per_request)
        return not any(rates) and (self.beyond is None or self.beyond[1].is_free)

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
        return price.cost(usage.tokens_in, usage.tokens_out, 0) + extra + self.per_request

    def worst(self, tokens_in: int, tokens_out: int) -> float:
        """The most that a request of so many tokens can cost, or of fewer, whatever their kinds."""
        if self.beyond is not None and tokens_in > self.beyond[0]:
            threshold, dearer = self.beyond
            shorter = replace(self, beyond=None).worst(threshold, tokens_out)
            return max(shorter, self.per_request + dearer.worst(tokens_in, tokens_out))
        return (
            self.per_request
            + tokens_in * max(self.per_token_in, self.per_cache_write or 0.0)
            + tokens_out * max(self.per_token_out, self.per_thought or 0.0)
        )


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
    """Look up a model's price under every name that the table may have for it; None if unknown."""
    if is_embedded(model):
        return FREE
    table = _table()
    for name in _names(model, table):
        entry = table.get(name, {})
        if "input_cost_per_token" in entry and "output_cost_per_token" in entry:
            return _price_in(entry)
    return None


def _price_in(entry: Mapping[str, Any]) -> Price:
    """The price of an entry, with those of its longer prompts ("..._above_200k_tokens")."""
    thousands = sorted(int(match[1]) for match in map(LONG_PROMPT.fullmatch, entry) if match)
    beyond: tuple[int, Price] | None = None
    for number in reversed(thousands):
        beyond = number * 1000, _tier(entry, f"_above_{number}k_tokens", beyond)
    price = _tier(entry, "", beyond)
    if entry.get("litellm_provider") == "perplexity":
        # Its models search for every request, as little as can be unless asked for more.
        searches = entry.get("search_context_cost_per_query") or {}
        return replace(price, per_request=_rate(searches, "search_context_size_low") or 0.0)
    return price


def _tier(entry: Mapping[str, Any], suffix: str, beyond: tuple[int, Price] | None) -> Price:
    """The prices under names that end so; one that stands under none is that of short prompts."""
    names = ("input_cost_per_token", "output_cost_per_token")
    per_token_in, per_token_out = (
        float(entry[name + suffix] if entry.get(name + suffix) else entry[name]) for name in names
    )
    kinds = (
        "cache_read_input_token_cost",
        "cache_creation_input_token_cost",
        "output_cost_per_reasoning_token",
    )
    read, write, thought = (_rate(entry, kind + suffix) for kind in kinds)
    return Price(
        per_token_in=per_token_in,
        per_token_out=per_token_out,
        per_cache_read=read,
        per_cache_write=write,
        per_thought=thought,
        beyond=beyond,
    )


def _rate(entry: Mapping[str, Any], name: str) -> float | None:
    """A price of the table; 0 stands there for one that is not known."""
    return float(entry.get(name) or 0.0) or None


def _names(model: str, table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The names under which the table may know a model, the likeliest first.

    A router's model costs what its provider's does; a dated one what it does without its date, and
    the table writes names in small letters.
    """
    prefix, _, name = model.partition("/")
    yield model
    # The table knows the models of those that our own client asks by their names alone, and many of
    # other providers'.
    asked_by_us = PROVIDERS.get(prefix, Provider()).client == "chat"
    provider = str(table.get(name, {}).get("litellm_provider", ""))
    if asked_by_us or (prefix in PROVIDERS and provider == prefix):
        yield name
    if "/" in name and (asked_by_us or prefix == "openrouter"):
        yield from _names(name, table)
    elif (undated := DATE.sub("", model)) != model:
        yield from _names(undated, table)
    elif model.lower() != model:
        yield from _names(model.lower(), table)


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


def most_likely_tokens(messages: Sequence[Message]) -> int:
    """The most that a prompt is likely to take: beyond a guess, and short of the bound."""
    return -(-token_bound(messages) // BYTES_PER_TOKEN)


def _table() -> dict[str, dict[str, Any]]:
    spec = find_spec("litellm")
    if spec is None or spec.origin is None:
        return {}
    path = Path(spec.origin).parent / TABLE
    if not path.exists():
        return {}
    table: dict[str, dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return table
