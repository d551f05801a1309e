"""Open models, and open clients that share one budget and one store.

A library that only some models need is imported when the first of these models is opened.

Only the user decides to which model and address texts are sent. A judge's file may name a model of
a known provider. Other models in a judge's file are used only if the user names them as well.
"""

import os
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from dspy_judges.errors import OptionError
from judges.client.budget import Budget
from judges.client.client import TIMEOUT, Client, answers_in_process
from judges.client.event_loop import exit_functions
from judges.client.keys import (
    EMBEDDED_MODELS,
    KEY_IN_NAME_PROBLEM,
    PROVIDERS,
    Provider,
    Redactor,
    hide_secrets,
    holds_secret,
    read_key,
    without_secrets,
)
from judges.client.monitor import FailureMonitor
from judges.client.prices import Price, find_price, price_of
from judges.client.store import CACHE_VARIABLE, ReplyCache, Store, open_cache
from judges.protocol import SYSTEM_ONE, FatalModelError, Model, is_decision, is_embedded

if TYPE_CHECKING:
    import dspy

_PLAIN_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
# DSPy's providers whose models are used if only a judge's file names them, and not the user. The
# list lacks providers whose model names may be an address, a file or a program (huggingface, ...).
DSPY_PROVIDERS = frozenset(
    {
        *("anthropic", "bedrock", "cerebras", "cohere", "deepseek", "fireworks_ai", "gemini"),
        *("groq", "mistral", "moonshot", "nvidia_nim", "ollama", "ollama_chat", "openrouter"),
        *("perplexity", "together_ai", "vertex_ai", "xai"),
    }
)
# The open models; the keys are the process and the arguments that they were opened with. Models are
# shared because they keep connections open and learn which requests their endpoint accepts. After a
# fork, the child process opens its own models, and leaves the parent's connections open.
_models: dict[tuple[object, ...], Model] = {}
_clients: dict[tuple[Model, str | None], Client] = {}
_opener_by_prefix: dict[str, Callable[[str], Model]] = {}
LIMIT_NAMES = ("max_calls", "max_cost", "concurrency", "max_tokens")


def add_provider(prefix: str, opener: Callable[[str], Model]) -> None:
    """Register your own models, within this process, under the names PREFIX/NAME.

    If a judge's file names such a model, it is used only if the user names it as well (`lm=`).

    Args:
        prefix: The part of the models' names before the slash.
        opener: A function that takes NAME and returns the model (see `judges.protocol.Model`). The
            function is called once for each name.
    """
    _opener_by_prefix[prefix] = opener


def open_model(lm: str, *, api_base: str | None = None, api_key_env: str | None = None) -> Model:
    """The model with the name `lm`; within a process, the same arguments return the same object.

    The name is "embedded", "openai/NAME", "azure/NAME", "litellm_proxy/NAME", the name of any model
    that DSPy supports, or the name of a decision model: "decisions/NAME" (OpenAI's protocol) or
    "systemone/NAME". `api_key_env` is the environment variable with the API key, by default the
    provider's usual variable. Raises FatalModelError if the name, the address or the key is
    malformed.
    """
    check_name(lm)
    if api_base is not None and not api_base.strip():
        raise FatalModelError(
            "the address is empty: give an address by api_base (--api-base), or leave it out"
        )
    prefix, _, name = lm.partition("/")
    if lm in EMBEDDED_MODELS:
        from judges.embedded import EmbeddedModel

        return _open_once((EMBEDDED_MODELS,), EmbeddedModel)
    if opener := _opener_by_prefix.get(prefix):
        return _open_once((lm,), partial(opener, name))
    provider = PROVIDERS.get(prefix)
    if api_key_env:
        _check_key_variable(api_key_env)
    key_variable = api_key_env or (provider.key_variable if provider else "")
    key = read_key(key_variable) if key_variable else ""
    return _open_with_key(lm, api_base, key_variable, key)


def _open_once(arguments: tuple[object, ...], opener: Callable[[], Model]) -> Model:
    key = (os.getpid(), *arguments)
    exit_functions.add(close_models)
    # Two threads may open a model at the same time; both get the one that is stored first.
    return _models.get(key) or _models.setdefault(key, opener())


def _open_with_key(lm: str, api_base: str | None, key_variable: str, key: str) -> Model:
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        base = provider.base(api_base)
        opener = partial(_open_endpoint_model, lm, provider, base, key_variable, key)
        return _open_once((lm, base or api_base, key_variable, key), opener)
    from judges.client.dspy import open_dspy

    return _open_once((lm, api_base, key_variable, key), partial(open_dspy, lm, api_base, key))


def open_lm(lm: "dspy.LM") -> tuple[Model, str | None]:
    """The model behind a `dspy.LM`, and the LM's `api_base`.

    If the LM is a `dspy.experimental.TypeSafe`, our own client sends the requests to the LM's
    server, with the LM's key.
    """
    if not getattr(lm, "supports_decision_requests", False):
        from judges.client.dspy import DspyModel

        model = DspyModel(lm)
        return model, model.api_base
    key_variable = "TYPESAFE_API_KEY"
    hide_secrets([key := lm.api_key or read_key(key_variable)])
    name = f"{SYSTEM_ONE}/{lm.model}"
    return _open_with_key(name, lm.base_url, key_variable, key), lm.base_url


def _open_endpoint_model(
    lm: str, provider: Provider, base: str, key_variable: str, key: str
) -> Model:
    from judges.client.decisions import DecisionModel
    from judges.client.openai import EndpointModel

    prefix, _, name = lm.partition("/")
    model_class = EndpointModel
    # A decision model keeps the prefix in its name, since a chat model at the same address may have
    # the same name.
    if is_decision(lm):
        model_class, name = DecisionModel, lm
    endpoint = without_secrets(base)
    if not base:
        raise FatalModelError(
            f"{name}: no address is given; set {provider.address_variable}, or give the address by "
            "api_base (--api-base)"
        )
    if urlsplit(base).scheme not in {"http", "https"} or not urlsplit(base).hostname:
        raise FatalModelError(
            f"{name}: {Redactor().redact(endpoint)!r} is not an address; write http://HOST:PORT/v1 "
            f"or https://... by api_base (--api-base) or {provider.address_variable}"
        )
    if holds_secret(base):
        raise FatalModelError(
            f"{name}: the address {endpoint} holds a password or a key; set the key in "
            f"{key_variable}"
        )
    needs_key = prefix not in (SYSTEM_ONE, "litellm_proxy")
    if not key and needs_key and base == (provider.address or base):
        raise FatalModelError(
            f"{name}: {key_variable} is not set; set it, or name another endpoint by api_base "
            "(--api-base)"
        )
    url = base + provider.path
    return model_class(name, url=url, endpoint=endpoint, key=key, key_variable=key_variable)


async def close_models() -> None:
    """Close this process's models and their connections; must run on the clients' event loop."""
    for key in [key for key in _models if key[0] == os.getpid()]:
        await _models.pop(key).close()


def _check_key_variable(name: str) -> None:
    """Raise FatalModelError unless `name` is a variable that is set, and not an API key itself."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or Redactor().holds(name):
        raise FatalModelError(
            "api_key_env must be the name of an environment variable, and never a key itself"
        )
    if not os.environ.get(name):
        raise FatalModelError(f"{name}, which should hold the key, is not set")


@lru_cache
def check_name(lm: str) -> None:
    """Raise FatalModelError if a model's name is malformed or contains an API key."""
    if Redactor().holds(lm):
        raise FatalModelError(f"the model's name {KEY_IN_NAME_PROBLEM}")
    if lm not in EMBEDDED_MODELS and not all(lm.partition("/")):
        raise FatalModelError(
            f"no model {lm!r}: write embedded or PROVIDER/NAME, as in openai/gpt-4.1-mini"
        )


def is_allowed_in_file(lm: str) -> bool:
    """Whether the model `lm` may be used if only a judge's file names it, and not the user.

    This is true for the embedded model, and for models of known providers unless the model's name
    could be an address, a path or a program.
    """
    is_listed = lm.partition("/")[0] in {*PROVIDERS, *DSPY_PROVIDERS}
    return lm in EMBEDDED_MODELS or (is_listed and bool(_PLAIN_MODEL_NAME.fullmatch(lm)))


class ModelOptions(TypedDict, total=False):
    """The options that choose a model and its limits; each of them may be left out.

    Args:
        lm: The model: "embedded", "openai/NAME", or any model that DSPy supports. Default: the
            model that the judge names.
        api_base: The address of an OpenAI-compatible server. Default: the provider's address.
        max_calls: The most requests, 1 or more. Default: no limit.
        max_cost: The most US dollars, 0 or more. Requests without an answer count at their
            worst-case cost. Default: no limit.
        concurrency: The most requests at the same time, 1 or more. Default: 64.
        store: A file that keeps every request and reply, so that the next run with this file pays
            for no request twice. Default: no file.
        cache: The folder with the cache of replies that all runs share, or "none". Default: a
            folder in the user's cache directory.
        api_key_env: The environment variable with the API key. Default: the provider's usual one.
        price: A pair: US dollars per million input tokens and per million output tokens. Default:
            the model's price in the table that LiteLLM bundles.
        max_tokens: The most tokens of a reply, 1 or more. Default: 512, or more with reasoning.
        reasoning_effort: "minimal", "low", "medium" or "high". Default: the model's default.
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
    """The options of a judge that runs over many rows: `ModelOptions`, `seed` and `map`.

    Args:
        seed: The seed for sampling from the model, 0 or more. Default: 0.
        map: A dictionary from the name of a text to the column that holds it. Default: each text
            is in the column with the text's name.
    """

    seed: int
    map: dict[str, str] | None


class Session:
    """Opens clients for several models, which share one budget and one store.

    Args:
        keep_going: If false, a run stops when almost all judgements fail, or when the endpoint
            stops answering.
        models: Models that are already open; the keys are model names or roles.
        **options: The `ModelOptions`. The limits hold for all clients of the session together.
    """

    def __init__(
        self,
        *,
        keep_going: bool = True,
        models: Mapping[str, Model] | None = None,
        **options: Unpack[ModelOptions],
    ) -> None:
        self._options = ModelOptions(**{"concurrency": 64, **options})
        check_limits(**{name: self._options.get(name) for name in LIMIT_NAMES})
        path = options.get("store")
        self.store = Store(path) if path else None
        self.budget = Budget(options.get("max_calls"), options.get("max_cost"), self.store)
        # The cache is opened together with the first client whose replies may be cached.
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
        **overrides: Unpack[ModelOptions],
    ) -> Client:
        """The client that sends requests to the model `lm`.

        The same role always gives the same client. The role is the name of the client's account in
        the budget, by default the model's name. Requests of an `unlimited` client do not count
        towards the session's limits. `overrides` replace options of the session; an `api_base` of
        "" means the provider's default address.
        """
        role = role or lm
        if role not in self._clients:
            overrides = cast(
                ModelOptions, {name: v for name, v in overrides.items() if v is not None}
            )
            budget = Budget() if unlimited else self.budget
            self._clients[role] = self._open_client(lm, role, budget, overrides)
        return self._clients[role]

    def _open_client(self, lm: str, role: str, budget: Budget, overrides: ModelOptions) -> Client:
        options = ModelOptions(**{**self._options, **overrides})
        for name in ("max_tokens", "reasoning_effort"):
            if is_decision(lm) and options.get(name) is not None:
                raise OptionError(f"{name}: {lm} is a decision model, which writes no text")
        base = options.get("api_base") or None
        model = self._models.get(role) or self._models.get(lm)
        model = model or open_model(lm, api_base=base, api_key_env=options.get("api_key_env"))
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
            open_sibling=partial(self._open_sibling, (lm, base), role, overrides),
        )

    def _open_sibling(
        self,
        first: tuple[str, str | None],
        first_role: str,
        overrides: ModelOptions,
        lm: str,
        api_base: str | None,
    ) -> Client:
        """The client for a further model of a panel, at the first one's price if it has none.

        `first` is the model and the address of the panel's first client.
        """
        if lm == first[0] and api_base in (first[1], overrides.get("api_base")):
            return self._clients[first_role]
        options = ModelOptions(**{**overrides, "api_base": api_base or ""})
        options["price"] = find_price(lm) or overrides.get("price")
        role = f"{first_role}: {lm}" + (f" at {api_base}" if api_base else "")
        return self.client(lm, role=role, unlimited=is_embedded(lm), **options)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shared_client(lm: str, api_base: str | None = None) -> Client:
    """A client of the model without limits; all callers in this process share it."""
    # If the address or the key in the environment has changed, `open_model` returns another model,
    # which needs another client.
    key = open_model(lm, api_base=api_base), os.environ.get(CACHE_VARIABLE)
    return _clients.get(key) or _clients.setdefault(key, Session(api_base=api_base).client(lm))


def check_limits(**limits: object) -> None:
    """Raise OptionError unless `max_cost` is a number >= 0 and each other limit an integer >= 1.

    Any limit but `concurrency` may be None, which means no limit.
    """
    for name, value in limits.items():
        if value is None and name != "concurrency":
            continue
        is_valid, expected = isinstance(value, Integral) and int(value) >= 1, "a whole number, 1"
        if name == "max_cost":
            is_valid, expected = isinstance(value, Real) and float(value) >= 0, "a number, 0"
        if isinstance(value, bool) or not is_valid:
            raise OptionError(f"{name} {value!r}: expected {expected} or more")


def read_options(options: Mapping[str, object]) -> tuple[Options, dict[str, str]]:
    """Check options, and return them without `map`, followed by the value of `map`.

    Raises TypeError for an unknown option, and OptionError for a wrong seed.
    """
    for name in options:
        if name not in Options.__annotations__:
            names = ", ".join(Options.__annotations__)
            raise TypeError(f"there is no option {name!r}; the options are {names}")
    seed = options.get("seed", 0)
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed {seed!r}: expected a whole number, 0 or more")
    other_options = cast(Options, {**options})
    column_of = other_options.pop("map", None) or {}
    return other_options, {name: str(column) for name, column in column_of.items()}
