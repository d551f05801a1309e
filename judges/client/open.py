"""Open models and their clients as a user asked for them, on one budget and one store.

What a kind of model needs is imported only when it is named.

Which model a judge's texts go to, and where, is its user's choice alone: a file may name a plain
model of a known provider, and what else it names is asked only once its user has named it too.
"""

import os
import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from dspy_judges.errors import OptionError
from judges.client.budget import Budget
from judges.client.client import (
    TIMEOUT,
    Client,
    FailureMonitor,
    answers_in_process,
    at_end,
)
from judges.client.keys import (
    EMBEDDED_MODELS,
    KEY_FOR_NAME,
    PROVIDERS,
    Provider,
    Redactor,
    holds_secret,
    read_key,
    without_secrets,
)
from judges.client.prices import Price, find_price, price_of
from judges.client.store import CACHE_VARIABLE, ReplyCache, Store, open_cache
from judges.protocol import FatalModelError, Model, is_embedded

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
# Those that DSPy asks and whose models a file may name by itself. A provider whose model names may
# hold an address, a file or a program (huggingface, custom, ...) is none of them.
KNOWN_TO_DSPY = frozenset(
    {
        *("anthropic", "bedrock", "cerebras", "cohere", "deepseek", "fireworks_ai", "gemini"),
        *("groq", "mistral", "moonshot", "nvidia_nim", "ollama", "ollama_chat", "openrouter"),
        *("perplexity", "together_ai", "vertex_ai", "xai"),
    }
)
# By what they were opened with: a model keeps its connections, and what it has learned.
_opened: dict[tuple[object, ...], Model] = {}
_clients: dict[tuple[Model, str | None], Client] = {}
_inherited: list[object] = []
# Held while a model or its client is opened, so that threads that ask for it first get one.
_opening = threading.RLock()
LIMITS = ("max_calls", "max_cost", "concurrency", "max_tokens")


def open_model(lm: str, *, api_base: str | None = None, api_key_env: str | None = None) -> Model:
    """The model `embedded`, `openai/NAME`, `azure/NAME`, or any that DSPy knows; one a process.

    `api_base` or OPENAI_BASE_URL points `openai/NAME` at any compatible server. Keys come from the
    environment (OPENAI_API_KEY and its like, or the variable `api_key_env`). Raises
    FatalModelError where the set-up is wrong.
    """
    check_name(lm)
    if api_base is not None and not api_base.strip():
        raise FatalModelError(
            "the address is empty: name one by api_base (--api-base), or leave that out"
        )
    if lm in EMBEDDED_MODELS:
        from judges.embedded import EmbeddedModel

        return _opened.setdefault((EMBEDDED_MODELS,), EmbeddedModel())
    prefix, _, name = lm.partition("/")
    provider = PROVIDERS.get(prefix)
    if api_key_env:
        _check_variable(api_key_env)
    variable = api_key_env or (provider.key_variable if provider else "")
    key = read_key(variable) if variable else ""
    url = provider.base(api_base) if provider else api_base
    opened_with = lm, url, variable, key
    with _opening:
        if opened_with not in _opened:
            model: Model
            if provider:
                model = _endpoint_model(name, provider, provider.base(api_base), variable, key)
            else:
                from judges.client.dspy import open_dspy

                model = open_dspy(lm, api_base, key)
            _opened[opened_with] = model
            at_end.add(close_models)
        return _opened[opened_with]


def _endpoint_model(name: str, provider: Provider, base: str, variable: str, key: str) -> Model:
    from judges.client.openai import EndpointModel

    endpoint = without_secrets(base)
    if not base:
        raise FatalModelError(
            f"{name}: no address is given; set {provider.address_variable}, or name it by api_base "
            "(--api-base)"
        )
    if urlsplit(base).scheme not in {"http", "https"} or not urlsplit(base).hostname:
        raise FatalModelError(
            f"{name}: {Redactor().redact(endpoint)!r} is no address; write http://HOST:PORT/v1 or "
            "https://..."
        )
    if holds_secret(base):
        raise FatalModelError(
            f"{name}: the address {endpoint} holds a password or a key; give the key by {variable}"
        )
    if not key and base == (provider.address or base):
        raise FatalModelError(
            f"{name}: {variable} is not set; set it, or name another endpoint by api_base "
            "(--api-base)"
        )
    return EndpointModel(
        name, url=base + provider.path, endpoint=endpoint, key=key, key_variable=variable
    )


async def close_models() -> None:
    """Close, on the running loop, the connections of all models, and forget them."""
    models = list(_opened.values())
    _opened.clear()
    for model in models:
        await model.close()


def _check_variable(name: str) -> None:
    """Raise FatalModelError for a variable that is not set, and a key in its place, unrepeated."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or Redactor().holds(name):
        raise FatalModelError("api_key_env names an environment variable, and never a key itself")
    if not os.environ.get(name):
        raise FatalModelError(f"{name}, which is to hold the key, is not set")


@lru_cache
def check_name(lm: str) -> None:
    """Raise FatalModelError for what names no model, and for a key, which would be written down."""
    if Redactor().holds(lm):
        raise FatalModelError(f"the model's name {KEY_FOR_NAME}")
    if lm not in EMBEDDED_MODELS and not all(lm.partition("/")):
        raise FatalModelError(
            f"no model {lm!r}: say embedded or PROVIDER/NAME, as in openai/gpt-4.1-mini"
        )


def is_plain(lm: str) -> bool:
    """Whether a file may name this model by itself: embedded, or a known provider's plain name.

    It holds no address, no path and no program.
    """
    known = lm.partition("/")[0] in {*PROVIDERS, *KNOWN_TO_DSPY}
    return lm in EMBEDDED_MODELS or (known and bool(_NAME.fullmatch(lm)))


class ModelOptions(TypedDict, total=False):
    """How a model is opened; everything may be left out.

    `lm` (the embedded model) and `api_base` name it, `max_calls` and `max_cost` (US dollars) bound
    what it may take, `concurrency` is how many requests are under way at once. `store` is a file
    that keeps every request and reply, so that the next start with it pays for nothing twice.
    `cache` is the folder of the replies that runs share (the user's own unless given; "none": no
    such). `api_key_env` names the environment variable with the key, `price` is in US dollars for a
    million tokens read and written, where no table knows it; `max_tokens` of a reply and
    `reasoning_effort` are the model's own unless given.
    """

    lm: str | None
    api_base: str | None
    max_calls: int | None
    max_cost: float | None
    concurrency: int
    store: Path | str | None
    cache: Path | str | None
    api_key_env: str | None
    price: tuple[float, float] | Price | None
    max_tokens: int | None
    reasoning_effort: str | None


class Options(ModelOptions, total=False):
    """How a judge is run over many rows: its model, and the rows.

    `seed` is the model's, `map` says which column holds which text.
    """

    seed: int
    map: dict[str, str] | None


class Session:
    """Clients, made when first asked for, that share one budget and one store.

    `models` are open already, by their names or their roles. Unless `keep_going`, a run whose
    judgements fail, almost all of them, ends with FailingRunError.
    """

    def __init__(
        self,
        *,
        keep_going: bool = True,
        models: Mapping[str, Model] | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        self._options = ModelOptions(**{"concurrency": 64, **options})
        check_limits(**{name: self._options.get(name) for name in LIMITS})
        path = options.get("store")
        self.store = Store(path) if path else None
        self.budget = Budget(options.get("max_calls"), options.get("max_cost"), self.store)
        # That of all clients, once one of them asks a model elsewhere.
        self.cache: ReplyCache | None = None
        self._keep_going = keep_going
        self._models = models or {}
        self._clients: dict[str, Client] = {}

    def client(
        self,
        lm: str,
        /,
        *,
        role: str | None = None,
        keep_going: bool | None = None,
        free: bool = False,
        **own: Unpack[ModelOptions],
    ) -> Client:
        """What asks `lm`; the same one every time for a role, which its account is named by.

        Its `own` options beat the session's; an `api_base` of "" is the provider's own. What is
        `free` takes nothing of the session's limits.
        """
        role = role or lm
        if role in self._clients:
            return self._clients[role]
        given = ModelOptions(**{name: v for name, v in own.items() if v is not None})  # type: ignore[typeddict-item]
        options = ModelOptions(**{**self._options, **given})
        base = options.get("api_base") or None
        model = (
            self._models.get(role)
            or self._models.get(lm)
            or open_model(lm, api_base=base, api_key_env=options.get("api_key_env"))
        )
        cacheable = bool(getattr(model, "cacheable", not answers_in_process(model)))
        if cacheable and self.cache is None:
            self.cache = open_cache(options.get("cache"))
        budget = Budget() if free else self.budget
        price = None if is_embedded(lm) else price_of(options.get("price"))
        keep_going = self._keep_going if keep_going is None else keep_going
        client = self._clients[role] = Client(
            model,
            account=budget.account(role, price or find_price(lm)),
            cache=self.cache if cacheable else None,
            concurrency=options["concurrency"],
            monitor=None if keep_going else FailureMonitor(),
            timeout=getattr(model, "timeout", None) or TIMEOUT,
            max_tokens=options.get("max_tokens") or getattr(model, "max_tokens", None),
            reasoning_effort=options.get("reasoning_effort"),
        )

        def open_sibling(other: str, other_base: str | None) -> Client:
            """What asks another model; a price given is this one's, where no table knows it."""
            if other == lm and other_base in (base, given.get("api_base")):
                return client
            at = f" at {other_base}" if other_base else ""
            siblings = {**given, "api_base": other_base or ""}
            if listed := find_price(other):
                siblings["price"] = listed
            return self.client(
                other,
                role=f"{role}: {other}{at}",
                keep_going=keep_going,
                free=is_embedded(other),
                **siblings,
            )

        client.open_sibling = open_sibling
        return client

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shared_client(lm: str, api_base: str | None = None) -> Client:
    """The client of this process for a model, without limits: made once, whoever asks it."""
    with _opening:
        # Another address or key in the environment makes another model.
        asked = open_model(lm, api_base=api_base), os.environ.get(CACHE_VARIABLE)
        if asked not in _clients:
            _clients[asked] = Session(lm=lm, api_base=api_base).client(lm)
        return _clients[asked]


def check_limits(**limits: object) -> None:
    """Raise OptionError for a limit that is no number; all but `max_cost` are integers above 0."""
    for name, value in limits.items():
        if value is None and name != "concurrency":
            continue
        kind, least = (Real, 0) if name == "max_cost" else (Integral, 1)
        if isinstance(value, bool) or not isinstance(value, kind) or not value >= least:  # type: ignore[operator]
            expected = "a number, 0" if name == "max_cost" else "a whole number, 1"
            raise OptionError(f"{name} {value!r}: expected {expected} or more")


def read_options(options: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, str]]:
    """The options but `map`, and `map`; raises TypeError for an unknown one, and OptionError."""
    for name in options:
        if name not in Options.__annotations__:
            known = ", ".join(Options.__annotations__)
            raise TypeError(f"no option {name!r}; there are {known}")
    seed = options.get("seed", 0)
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed {seed!r}: expected a whole number, 0 or more")
    values: dict[str, Any] = {**options}
    mapping = values.pop("map", None) or {}
    return values, {name: str(column) for name, column in mapping.items()}


if hasattr(os, "register_at_fork"):
    # A child has its own loop. Its parent's models stay, unused: to close their connections here
    # would take them from the parent's loop.
    os.register_at_fork(after_in_child=lambda: _inherited.append(dict(_opened)))
    os.register_at_fork(after_in_child=_opened.clear)
    os.register_at_fork(after_in_child=_clients.clear)
    # No child inherits a lock that a thread of its parent holds.
    release = _opening.release
    os.register_at_fork(before=_opening.acquire, after_in_parent=release, after_in_child=release)
