"""Open the clients of a run by its options: clients with the same budget, store and cache."""

import os
from collections.abc import Collection, Mapping
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import TypedDict, Unpack, cast

from dspy_judges.errors import OptionError
from judges.client.budget import Budget
from judges.client.client import TIMEOUT_SECONDS, Client
from judges.client.open import open_model
from judges.client.prices import Price, choose_price, price_of
from judges.client.store import CACHE_VARIABLE, Store, open_reply_cache
from judges.protocol import Model, ModelTraits, is_decision_model, is_embedded

LIMIT_NAMES = ("max_calls", "max_cost", "concurrency", "max_tokens")
# The clients that all callers in this process share, by the model and the folder of the cache.
_shared_clients: dict[tuple[Model, str | None], Client] = {}


class ModelOptions(TypedDict, total=False):
    """The options that choose a model and its limits; each option may be left out.

    Args:
        lm: The model: "embedded" (this project's small statistical model, which needs no network),
            "openai/NAME", or any model that DSPy supports. Default: the model that the judge names.
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
    """Opens clients for several models; the clients share one budget and one store.

    Args:
        keep_going: If false, a run also ends if almost all requests fail, or if a model stops
            answering.
        models: Models that are already open, by their names or roles.
        lms: The names of all models of the run; the option `price` is for some of them (see
            `choose_price`). By default the price is for every model.
        **options: The `ModelOptions`. The limits hold for all clients of the session together.
    """

    def __init__(
        self,
        *,
        keep_going: bool = True,
        models: Mapping[str, Model] | None = None,
        lms: Collection[str] = (),
        **options: Unpack[ModelOptions],
    ) -> None:
        self._options = ModelOptions(**{"concurrency": 64, **options})
        check_limits(**{name: self._options.get(name) for name in LIMIT_NAMES})
        store_path = options.get("store")
        self.store = Store(store_path) if store_path else None
        self.budget = Budget(options.get("max_calls"), options.get("max_cost"), self.store)
        self._keep_going = keep_going
        self._models, self._lms = models or {}, lms
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
        """Return the client that sends requests to the model `lm`.

        The same `role`, by default `lm`, always gives the same client and account. Requests of an
        `unlimited` client do not count towards the session's limits. `overrides` replace options of
        the session; an `api_base` of "" is the provider's default address.
        """
        role = role or lm
        if role not in self._clients:
            budget = Budget() if unlimited else self.budget
            self._clients[role] = self._open_client(lm, role, budget, overrides)
        return self._clients[role]

    def _open_client(self, lm: str, role: str, budget: Budget, overrides: ModelOptions) -> Client:
        given_overrides = {name: value for name, value in overrides.items() if value is not None}
        options = cast(ModelOptions, {**self._options, **given_overrides})
        for name in ("max_tokens", "reasoning_effort"):
            if is_decision_model(lm) and options.get(name) is not None:
                raise OptionError(f"{name}: {lm} is a decision model, which writes no text")
        model = self._models.get(role) or self._models.get(lm)
        if model is None:
            api_base = options.get("api_base") or None
            model = open_model(lm, api_base=api_base, api_key_env=options.get("api_key_env"))
        traits = ModelTraits.of(model)
        is_cacheable = not traits.in_process if traits.cacheable is None else traits.cacheable
        token_price = choose_price(lm, self._lms, price_of(options.get("price")))
        return Client(
            model,
            account=budget.account(role, token_price),
            cache=open_reply_cache(options.get("cache")) if is_cacheable else None,
            concurrency=options["concurrency"],
            keep_going=self._keep_going,
            timeout=traits.timeout or TIMEOUT_SECONDS,
            max_tokens=options.get("max_tokens") or traits.max_tokens,
            reasoning_effort=options.get("reasoning_effort"),
            open_client_for=partial(self._open_client_for, role, lm, overrides),
        )

    def _open_client_for(
        self, role: str, role_lm: str, overrides: ModelOptions, lm: str, api_base: str | None
    ) -> Client:
        """Return a client for a panel's judge: that of `role` if model and address are the same."""
        role_api_base = overrides.get("api_base")
        role_addresses = (role_api_base, role_api_base or self._options.get("api_base"))
        if lm == role_lm and api_base in role_addresses:
            return self._clients[role]
        options = ModelOptions(**{**overrides, "api_base": api_base or ""})
        role = f"{role}: {lm} at {api_base}" if api_base else f"{role}: {lm}"
        return self.client(lm, role=role, unlimited=is_embedded(lm), **options)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shared_client(lm: str, api_base: str | None = None) -> Client:
    """Return a client without limits for the model; all callers in this process share it."""
    # If the address or the key in the environment changes, `open_model` returns another model,
    # which needs another client.
    model_and_cache = open_model(lm, api_base=api_base), os.environ.get(CACHE_VARIABLE)
    if model_and_cache not in _shared_clients:
        _shared_clients.setdefault(model_and_cache, Session(api_base=api_base).client(lm))
    return _shared_clients[model_and_cache]


def check_limits(**limits: object) -> None:
    """Raise OptionError unless `max_cost` is a number >= 0 and each other limit an integer >= 1."""
    for name, value in limits.items():
        if value is None and name != "concurrency":
            continue  # no limit
        is_valid, expected = isinstance(value, Integral) and int(value) >= 1, "a whole number, 1"
        if name == "max_cost":
            is_valid, expected = isinstance(value, Real) and float(value) >= 0, "a number, 0"
        if isinstance(value, bool) or not is_valid:
            raise OptionError(f"{name} {value!r}: expected {expected} or more")


def read_options(
    options: Mapping[str, object], texts: Collection[str] = ()
) -> tuple[Options, dict[str, str]]:
    """Return the checked options without `map`, and the column of each text from `map`.

    Raises TypeError for an unknown option, and OptionError for a wrong seed or `map`.
    """
    for name in options:
        if name not in Options.__annotations__:
            option_names = ", ".join(Options.__annotations__)
            raise TypeError(f"there is no option {name!r}; the options are {option_names}")
    seed = options.get("seed", 0)
    if not isinstance(seed, Integral) or seed < 0:
        raise OptionError(f"seed {seed!r}: expected a whole number, 0 or more")
    remaining_options = cast(Options, {**options})
    column_by_text = remaining_options.pop("map", None) or {}
    if not isinstance(column_by_text, Mapping):
        raise OptionError(f"map {column_by_text!r}: expected a dict, text name to column")
    for name in column_by_text:
        if name not in (*texts, "id"):
            raise OptionError(f"map: the judge reads {', '.join(texts)}, and no {name!r}")
    return remaining_options, {name: str(column) for name, column in column_by_text.items()}
