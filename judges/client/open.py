"""Open a model by its name; what a kind of model needs is imported only when it is named.

Which model a judge's texts go to, and where, is its user's choice alone: a file may name a plain
model of a known provider, and what else it names is asked only once its user has named it too.
"""

import os
import re
import shlex
from functools import lru_cache
from urllib.parse import urlsplit

from judges.client.keys import (
    EMBEDDED_MODELS,
    KEY_FOR_NAME,
    PROVIDERS,
    THROUGH_DSPY,
    Provider,
    Redactor,
    endpoint_of,
    holds_secret,
    read_key,
    without_secrets,
)
from judges.client.protocol import FatalModelError, Model

TIMEOUT = 120.0
LONGEST_QUOTED = 200
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


def open_model(
    lm: str,
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    timeout: float = TIMEOUT,
) -> Model:
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
        return _embedded_model()
    prefix, _, name = lm.partition("/")
    if not prefix or not name:
        raise FatalModelError(
            f"no model {lm!r}: say embedded or PROVIDER/NAME, as in openai/gpt-4.1-mini"
        )
    provider = PROVIDERS.get(prefix)
    if api_key_env:
        _check_variable(api_key_env)
    variable = api_key_env or (provider.key_variable if provider else "")
    key = read_key(variable) if variable else ""
    url = provider.url(provider.base(api_base), name) if provider else api_base
    opening = lm, url, variable, key, timeout
    if opening not in _opened:
        if provider:
            model = _endpoint_model(name, provider, provider.base(api_base), variable, key, timeout)
        else:
            from judges.client.dspy import DspyModel

            model = DspyModel(lm, api_base=api_base, api_key=key or None, timeout=timeout)
        _opened[opening] = model
    return _opened[opening]


def _endpoint_model(
    name: str, provider: Provider, base: str, variable: str, key: str, timeout: float
) -> Model:
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
        name,
        url=provider.url(base, name),
        endpoint=endpoint,
        headers={provider.key_header: provider.key_form.format(key=key)} if key else {},
        key=key,
        key_variable=variable,
        timeout=timeout,
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


@lru_cache(maxsize=1)
def _embedded_model() -> Model:
    """The one of this process, since its weights take time to read."""
    from judges.embedded import EmbeddedModel

    return EmbeddedModel()


@lru_cache
def check_name(lm: str) -> None:
    """Raise FatalModelError for a key in a model's place, where it would be written down."""
    if Redactor().holds(lm):
        raise FatalModelError(f"the model's name {KEY_FOR_NAME}")


def check_plain(lm: str) -> None:
    """Raise FatalModelError for a model that only a file names and that is no provider's own."""
    known = lm.partition("/")[0] in {*PROVIDERS, *KNOWN_TO_DSPY} and _NAME.fullmatch(lm)
    if lm not in EMBEDDED_MODELS and not known:
        raise FatalModelError(
            f"its file names the model {_quoted(lm)}, which is no plain PROVIDER/NAME of a known "
            f"provider; to ask it all the same, name it yourself: --lm {_quoted(lm)} "
            "(in code: lm=...)"
        )


def check_endpoint(lm: str, recorded: str, api_base: str | None) -> None:
    """Raise FatalModelError where a judge's run asked elsewhere, so that no text goes to another.

    An endpoint that the user names, as an argument or in the environment, is asked in any case.
    """
    endpoint, provider = endpoint_of(lm), PROVIDERS.get(lm.partition("/")[0])
    named = api_base or (provider and os.environ.get(provider.address_variable))
    if not named and recorded != endpoint:
        address = _quoted(recorded.removeprefix(THROUGH_DSPY).strip())
        raise FatalModelError(
            f"it was made with the endpoint {address}, and not {endpoint or 'another'}: say which "
            f"to ask, as in --api-base {address} (in code: api_base=...)"
        )


def _quoted(name: str) -> str:
    """What a file names, in a message: short, fit to be typed again, and without any key."""
    clean = Redactor().redact(name)
    return shlex.quote(clean if len(clean) <= LONGEST_QUOTED else f"{clean[:LONGEST_QUOTED]}...")
