"""Open a model by its name; what a kind of model needs is imported only when it is named.

Which model a judge's texts go to, and where, is its user's choice alone: a file may name a plain
model of a known provider, and what else it names is asked only once its user has named it too.
"""

import os
import re
import shlex
from dataclasses import replace
from functools import lru_cache

from judges.client.keys import KEY_FOR_NAME, Redactor, read_key
from judges.client.protocol import FatalModelError, Model
from judges.client.providers import (
    EMBEDDED_MODELS,
    PROVIDERS,
    THROUGH_DSPY,
    Provider,
    endpoint_of,
    provider_of,
)

TIMEOUT = 120.0
LONGEST_QUOTED = 200
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")


def open_model(
    lm: str,
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    timeout: float = TIMEOUT,
) -> Model:
    """Open `embedded`, `openai/NAME`, `azure/NAME`, or any model DSPy knows.

    `api_base` or OPENAI_BASE_URL points `openai/NAME` at any compatible server. Keys come from the
    environment (OPENAI_API_KEY and its like, or the variable `api_key_env`). Raises
    FatalModelError where the set-up is wrong.
    """
    check_name(lm)
    if lm in EMBEDDED_MODELS:
        return _embedded_model()
    provider, name = provider_of(lm, api_base)
    if not name or lm.startswith("/"):
        raise FatalModelError(
            f"no model {lm!r}: say embedded or PROVIDER/NAME, as in openai/gpt-4.1-mini"
        )
    if provider.client == "chat":
        from judges.client.openai import EndpointModel

        if api_key_env:
            provider = replace(provider, key_variable=_key_variable(api_key_env))
        return EndpointModel(name, provider, api_base=api_base, timeout=timeout)
    from judges.client.dspy import DspyModel

    key = read_key(_key_variable(api_key_env)) if api_key_env else None
    return DspyModel(lm, api_base=api_base, api_key=key, timeout=timeout)


def _key_variable(name: str) -> str:
    """The name, where it is one and is set; a key in its place is not repeated."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or Redactor().holds(name):
        raise FatalModelError("api_key_env names an environment variable, and never a key itself")
    if not os.environ.get(name):
        raise FatalModelError(f"{name}, which is to hold the key, is not set")
    return name


@lru_cache(maxsize=1)
def _embedded_model() -> Model:
    """The one of this process, since its weights take time to read."""
    from judges.embedded import EmbeddedModel

    return EmbeddedModel()


def check_name(lm: str) -> None:
    """Raise FatalModelError for a key in a model's place, where it would be written down."""
    if Redactor().holds(lm):
        raise FatalModelError(f"the model's name {KEY_FOR_NAME}")


def is_plain(lm: str) -> bool:
    """Whether this is the embedded model, or a known provider's name without address or path."""
    provider, _, name = lm.partition("/")
    return lm in EMBEDDED_MODELS or (provider in PROVIDERS and bool(_NAME.fullmatch(name)))


def check_plain(lm: str) -> None:
    """Raise FatalModelError for a model that only a file names and that is no provider's own."""
    if not is_plain(lm):
        raise FatalModelError(
            f"its file names the model {quoted(lm)}, which is no plain PROVIDER/NAME of a known "
            f"provider; to ask it all the same, name it yourself: --lm {quoted(lm)} "
            "(in code: lm=...)"
        )


def check_endpoint(lm: str, recorded: str, api_base: str | None) -> None:
    """Raise FatalModelError where a recorded endpoint is not the one that would be asked.

    An endpoint that the user names, as an argument or in the environment, is asked whatever is
    recorded.
    """
    endpoint = endpoint_of(lm)
    provider = PROVIDERS.get(lm.partition("/")[0], Provider())
    named = api_base or os.environ.get(provider.address_variable)
    if named or recorded == endpoint:
        return
    if recorded == THROUGH_DSPY:
        raise FatalModelError(f"it was made at the provider's own endpoint; this is {endpoint}")
    address = quoted(recorded.removeprefix(THROUGH_DSPY).strip())
    current = "the provider's own" if endpoint == THROUGH_DSPY else endpoint or "another"
    raise FatalModelError(
        f"it was made with the endpoint {address}, and not {current}: "
        f"say which to ask, as in --api-base {address} (in code: api_base=...)"
    )


def quoted(name: str) -> str:
    """What a file names, in a message: short, fit to be typed again, and without any key."""
    clean = Redactor().redact(name)
    short = clean if len(clean) <= LONGEST_QUOTED else f"{clean[:LONGEST_QUOTED]}..."
    return shlex.quote(short)
