"""Open models and their clients on one budget and one store.

Libraries for a kind of model are imported only when such a model is named.

Users alone choose the model and the address that texts are sent to. A judge's file may name a plain
model of a known provider; any other model is asked only once the user has named it, too.
"""

import os
import re
import threading
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from dspy_judges.errors import OptionError
from judges.client.budget import Budget
from judges.client.client import TIMEOUT, Client, FailureMonitor, answers_in_process, at_end
from judges.client.keys import (
    EMBEDDED_MODELS,
    KEY_FOR_NAME,
    PROVIDERS,
    Provider,
    Redactor,
    hide,
    holds_secret,
    read_key,
    without_secrets,
)
from judges.client.prices import Price, find_price, price_of
from judges.client.store import CACHE_VARIABLE, ReplyCache, Store, open_cache
from judges.protocol import SYSTEM_ONE, FatalModelError, Model, is_decision, is_embedded

if TYPE_CHECKING:
    import dspy

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
# Providers of DSPy's whose models a file may name by itself. Providers whose model names may be an
# address, a file or a program (huggingface, custom, ...) are left out.
DSPY_PROVIDERS = frozenset(
    {
        *("anthropic", "bedrock", "cerebras", "cohere", "deepseek", "fireworks_ai", "gemini"),
        *("groq", "mistral", "moonshot", "nvidia_nim", "ollama", "ollama_chat", "openrouter"),
        *("perplexity", "together_ai", "vertex_ai", "xai"),
    }
)
# Models by the arguments that they were opened with; a model keeps its connections, and what it
# learned about requests.
_models: dict[tuple[object, ...], Model] = {}
_clients: dict[tuple[Model, str | None], Client] = {}
_inherited: list[object] = []
_openers: dict[str, Callable[[str], Model]] = {}
# Locked while a model or a client is opened, so that threads share the first one.
_opening = threading.RLock()
LIMITS = ("max_calls", "max_cost", "concurrency", "max_tokens")


def add_provider(prefix: str, opener: Callable[[str], Model]) -> None:
    """Let PREFIX/NAME name models of your own, in this process.

    A judge's file cannot choose such a model by itself; its user names it (`lm=`).

    Args:
        prefix: The provider's word before the slash.
        opener: Takes NAME and returns its model (see `judges.protocol.Model`). It is called once
            for each name.
    """
    _openers[prefix] = opener


def open_model(lm: str, *, api_base: str | None = None, api_key_env: str | None = None) -> Model:
    """The model of a name; the process has one for the same arguments.

    The name is "embedded", "openai/NAME", "azure/NAME", "litellm_proxy/NAME", that of any model
    which DSPy knows, or that of a decision model: "decisions/NAME" (OpenAI's form) or
    "systemone/NAME". `api_key_env` names the variable with the key (the provider's own). Raises
    FatalModelError where the name, the address or the key cannot be right.
    """
    check_name(lm)
    if api_base is not None and not api_base.strip():
        raise FatalModelError(
            "the address is empty: name one by api_base (--api-base), or leave that out"
        )
    prefix, _, name = lm.partition("/")
    if lm in EMBEDDED_MODELS:
        from judges.embedded import EmbeddedModel

        return _open_once((EMBEDDED_MODELS,), EmbeddedModel)
    if opener := _openers.get(prefix):
        return _open_once((lm,), partial(opener, name))
    provider = PROVIDERS.get(prefix)
    if api_key_env:
        _check_variable(api_key_env)
    variable = api_key_env or (provider.key_variable if provider else "")
    return _open_with_key(lm, api_base, variable, read_key(variable) if variable else "")


def _open_once(arguments: tuple[object, ...], opener: Callable[[], Model]) -> Model:
    with _opening:
        if arguments not in _models:
            _models[arguments] = opener()
            at_end.add(close_models)
        return _models[arguments]


def _open_with_key(lm: str, api_base: str | None, variable: str, key: str) -> Model:
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        base = provider.base(api_base)
        opener = partial(_endpoint_model, lm, provider, base, variable, key)
        return _open_once((lm, base or api_base, variable, key), opener)
    from judges.client.dspy import open_dspy

    return _open_once((lm, api_base, variable, key), partial(open_dspy, lm, api_base, key))


def open_lm(lm: "dspy.LM") -> tuple[Model, str | None]:
    """The model that an LM of DSPy's asks, and its `api_base`.

    The server of a `dspy.experimental.TypeSafe` is asked without DSPy, with the LM's own key.
    """
    if not getattr(lm, "supports_decision_requests", False):
        from judges.client.dspy import DspyModel

        model = DspyModel(lm)
        return model, model.api_base
    variable = "TYPESAFE_API_KEY"
    hide([key := lm.api_key or read_key(variable)])
    return _open_with_key(f"{SYSTEM_ONE}/{lm.model}", lm.base_url, variable, key), lm.base_url


def _endpoint_model(lm: str, provider: Provider, base: str, variable: str, key: str) -> Model:
    from judges.client.decisions import DecisionModel
    from judges.client.openai import EndpointModel

    form, _, name = lm.partition("/")
    kind = EndpointModel
    if is_decision(lm):  # its name keeps the form: the same address may answer chats as well
        kind, name = DecisionModel, lm
    endpoint = without_secrets(base)
    if not base:
        raise FatalModelError(
            f"{name}: no address is given; set {provider.address_variable}, or name it by api_base "
            "(--api-base)"
        )
    if urlsplit(base).scheme not in {"http", "https"} or not urlsplit(base).hostname:
        raise FatalModelError(
            f"{name}: {Redactor().redact(endpoint)!r} is not an address; write "
            "http://HOST:PORT/v1 or https://..."
        )
    if holds_secret(base):
        raise FatalModelError(
            f"{name}: the address {endpoint} holds a password or a key; give the key by {variable}"
        )
    needs_key = form not in (SYSTEM_ONE, "litellm_proxy")
    if not key and needs_key and base == (provider.address or base):
        raise FatalModelError(
            f"{name}: {variable} is not set; set it, or name another endpoint by api_base "
            "(--api-base)"
        )
    return kind(name, url=base + provider.path, endpoint=endpoint, key=key, key_variable=variable)


async def close_models() -> None:
    """Close the connections of all models on the running event loop, and forget the models."""
    models = list(_models.values())
    _models.clear()
    for model in models:
        await model.close()


def _check_variable(name: str) -> None:
    """Raise FatalModelError if a variable is not set, or if its name is really a key."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or Redactor().holds(name):
        raise FatalModelError("api_key_env names an environment variable, and never a key itself")
    if not os.environ.get(name):
        raise FatalModelError(f"{name}, which should hold the key, is not set")


@lru_cache
def check_name(lm: str) -> None:
    """Raise FatalModelError for a name that no model has, or that contains a key."""
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
    is_listed = lm.partition("/")[0] in {*PROVIDERS, *DSPY_PROVIDERS}
    return lm in EMBEDDED_MODELS or (is_listed and bool(_NAME.fullmatch(lm)))


class ModelOptions(TypedDict, total=False):
    """Which model is asked, how, and within which limits; each option may be left out.

    Args:
        lm: The model: "embedded", "openai/NAME", or any that DSPy knows (the judge's own).
        api_base: The address of an OpenAI-compatible server (the provider's own).
        max_calls: The most requests, 1 or more (no limit).
        max_cost: The most US dollars, 0 or more, counted at their worst (no limit).
        concurrency: How many requests run at once, 1 or more (64).
        store: A file that keeps every request and reply: the next run with it pays for nothing
            twice.
        cache: The folder of replies that all runs share, or "none" (the user's own).
        api_key_env: The environment variable that holds the key (the provider's own).
        price: US dollars for a million tokens read, and for a million written (a table's).
        max_tokens: The most tokens of a reply, 1 or more (512; more after reasoning).
        reasoning_effort: "minimal", "low", "medium" or "high" (the model's own).
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
    """The options of a judge that runs over many rows: those of its model, and two of its own.

    Args:
        seed: The seed of the model's random draws, 0 or more (0).
        map: From a text's name to the column that holds it (columns of the texts' own names).
    """

    seed: int
    map: dict[str, str] | None


class Session:
    """Clients of several models that share one budget and one store.

    Args:
        keep_going: With false, a run ends once almost all judgements fail, or none is answered.
        models: Models that are open already, by name or role.
        **options: As in `ModelOptions`; the limits hold for all clients together.
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
        # Opened once a client asks a model outside this process.
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
        unlimited: bool = False,
        **own: Unpack[ModelOptions],
    ) -> Client:
        """The client that asks a model; a role, which names its account, always gets the same one.

        Requests of an `unlimited` client count towards none of the session's limits. Options in
        `own` replace the session's; an `api_base` of "" is the provider's own.
        """
        role = role or lm
        if role not in self._clients:
            own = cast(ModelOptions, {name: v for name, v in own.items() if v is not None})
            budget = Budget() if unlimited else self.budget
            self._clients[role] = client = self._make_client(lm, role, budget, own)

            def open_sibling(other: str, other_base: str | None) -> Client:
                """The client of another model, at its price in the table, else at this one's."""
                base = {**self._options, **own}.get("api_base") or None
                if other == lm and other_base in (base, own.get("api_base")):
                    return client
                at, is_free = f" at {other_base}" if other_base else "", is_embedded(other)
                options = ModelOptions(**{**own, "api_base": other_base or ""})
                options["price"] = find_price(other) or own.get("price")
                return self.client(other, role=f"{role}: {other}{at}", unlimited=is_free, **options)

            client.open_sibling = open_sibling
        return self._clients[role]

    def _make_client(self, lm: str, role: str, budget: Budget, own: ModelOptions) -> Client:
        options = ModelOptions(**{**self._options, **own})
        text_options = [n for n in ("max_tokens", "reasoning_effort") if options.get(n) is not None]
        if is_decision(lm) and text_options:
            raise OptionError(f"{text_options[0]}: {lm} is a decision model, which writes no text")
        base, key = options.get("api_base") or None, options.get("api_key_env")
        model = self._models.get(role) or self._models.get(lm)
        model = model or open_model(lm, api_base=base, api_key_env=key)
        cacheable = bool(getattr(model, "cacheable", not answers_in_process(model)))
        if cacheable and self.cache is None:
            self.cache = open_cache(options.get("cache"))
        price = None if is_embedded(lm) else price_of(options.get("price"))
        return Client(
            model,
            account=budget.account(role, price or find_price(lm)),
            cache=self.cache if cacheable else None,
            concurrency=options["concurrency"],
            monitor=None if self._keep_going else FailureMonitor(),
            timeout=getattr(model, "timeout", None) or TIMEOUT,
            max_tokens=options.get("max_tokens") or getattr(model, "max_tokens", None),
            reasoning_effort=options.get("reasoning_effort"),
        )

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shared_client(lm: str, api_base: str | None = None) -> Client:
    """The client of a model without limits that all callers in this process share."""
    with _opening:
        # Another address or key in the environment makes another model.
        key = open_model(lm, api_base=api_base), os.environ.get(CACHE_VARIABLE)
        if key not in _clients:
            _clients[key] = Session(lm=lm, api_base=api_base).client(lm)
        return _clients[key]


def check_limits(**limits: object) -> None:
    """Raise OptionError unless `max_cost` is a number >= 0, and any other an integer >= 1."""
    for name, value in limits.items():
        if value is None and name != "concurrency":
            continue
        is_valid, expected = isinstance(value, Integral) and int(value) >= 1, "a whole number, 1"
        if name == "max_cost":
            is_valid, expected = isinstance(value, Real) and float(value) >= 0, "a number, 0"
        if isinstance(value, bool) or not is_valid:
            raise OptionError(f"{name} {value!r}: expected {expected} or more")


def read_options(options: Mapping[str, object]) -> tuple[Options, dict[str, str]]:
    """The options without `map`, and `map`; TypeError for an unknown option, or OptionError."""
    for name in options:
        if name not in Options.__annotations__:
            names = ", ".join(Options.__annotations__)
            raise TypeError(f"no option {name!r}; there are {names}")
    seed = options.get("seed", 0)
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed {seed!r}: expected a whole number, 0 or more")
    values = cast(Options, {**options})
    mapping = values.pop("map", None) or {}
    return values, {name: str(column) for name, column in mapping.items()}


def _forget() -> None:
    """Leave the parent's models unused: closing their connections would close the parent's."""
    _inherited.append(dict(_models))
    _models.clear()
    _clients.clear()
    _opening.release()


if hasattr(os, "register_at_fork"):
    # A child has its own event loop, and would inherit a lock that another thread has locked.
    release = _opening.release
    os.register_at_fork(before=_opening.acquire, after_in_parent=release, after_in_child=_forget)
