"""Open models by their names, addresses and API keys.

Libraries that only some models need are imported when the first of these models is opened.

Only the user decides to which model and address texts are sent. A judge's file may name a model of
a known provider. Any other model that a judge's file names is used only if the user names it, too.
"""

import os
import re
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from judges.client.event_loop import exit_functions
from judges.client.keys import (
    KEY_IN_NAME_PROBLEM,
    PROVIDERS,
    Redactor,
    endpoint_digest,
    endpoint_of,
    read_key,
    register_secrets,
    url_has_secret,
    url_without_secrets,
)
from judges.protocol import SYSTEM_ONE, FatalModelError, Model, is_decision_model, is_embedded

if TYPE_CHECKING:
    import dspy

_PLAIN_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
# DSPy's providers whose models may be used if only a judge's file names them, not the user. Other
# providers, such as huggingface, have model names that may be an address, a file or a program.
_PROVIDER_NAMES = (
    "anthropic bedrock cerebras cohere deepseek fireworks_ai gemini groq mistral moonshot"
    " nvidia_nim ollama ollama_chat openrouter perplexity together_ai vertex_ai xai"
)
DSPY_PROVIDERS = frozenset(_PROVIDER_NAMES.split())
# The models that are open, by the process id, the opener and its arguments. Models are shared
# because they keep connections open and learn which requests their endpoint accepts. After a fork,
# the child process opens its own models, and leaves the parent's connections open.
_model_by_call: dict[tuple[object, ...], Model] = {}
_opener_by_prefix: dict[str, Callable[[str], Model]] = {}


def add_provider(prefix: str, opener: Callable[[str], Model]) -> None:
    """Register your own models, within this process, under the names PREFIX/NAME.

    If a judge's file names such a model, the model is used only if the user names it, too (`lm=`).

    Args:
        prefix: The part of the models' names before the slash.
        opener: A function that is called once for each NAME, and returns its model (see
            `judges.protocol.Model`).
    """
    _opener_by_prefix[prefix] = opener


def open_model(lm: str, *, api_base: str | None = None, api_key_env: str | None = None) -> Model:
    """Open the model `lm`; within a process, the same arguments return the same object.

    "embedded" is this project's small statistical model, which needs no network. "openai/NAME",
    "azure/NAME" and "litellm_proxy/NAME" are chat models; "decisions/NAME" and "systemone/NAME" are
    models that give probabilities. DSPy opens all other models. `api_key_env` is the environment
    variable with the API key, by default the provider's usual one. Raises FatalModelError if the
    name, the address or the key is malformed.
    """
    check_model_name(lm)
    if api_base is not None and not api_base.strip():
        advice = "give an address by api_base (--api-base), or leave it out"
        raise FatalModelError(f"the address is empty: {advice}")
    prefix, _, name = lm.partition("/")
    if is_embedded(lm):
        from judges.embedded.model import EmbeddedModel

        return _open_once(EmbeddedModel)
    if opener := _opener_by_prefix.get(prefix):
        return _open_once(opener, name)
    if api_key_env:
        _check_key_variable(api_key_env)
    provider = PROVIDERS.get(prefix)
    key_variable = api_key_env or (provider.key_variable if provider else "")
    return _open_with_key(lm, api_base, key_variable, read_key(key_variable))


def _open_with_key(lm: str, api_base: str | None, key_variable: str, api_key: str) -> Model:
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        address = provider.base_url(api_base)
        return _open_once(_open_endpoint_model, lm, address, key_variable, api_key)
    from judges.client.dspy import open_dspy

    return _open_once(open_dspy, lm, api_base, api_key)


def _open_once(opener: Callable[..., Model], *arguments: str | None) -> Model:
    """Return `opener(*arguments)`; a process calls it only once with the same arguments."""
    call = (os.getpid(), opener, *arguments)
    exit_functions.add(close_models)
    if model := _model_by_call.get(call):
        return model
    # Two threads may open a model at the same time; both get the one that is stored first.
    return _model_by_call.setdefault(call, opener(*arguments))


def open_lm(lm: "dspy.LM") -> tuple[Model, str | None]:
    """Return the model behind a `dspy.LM` or `dspy.experimental.TypeSafe`, and its `api_base`."""
    if not getattr(lm, "supports_decision_requests", False):
        from judges.client.dspy import DspyModel

        model = DspyModel(lm)
        return model, model.api_base
    key_variable = "TYPESAFE_API_KEY"
    api_key = lm.api_key or read_key(key_variable)
    register_secrets([api_key])
    model_name = f"{SYSTEM_ONE}/{lm.model}"
    return _open_with_key(model_name, lm.base_url, key_variable, api_key), lm.base_url


def configured_lm() -> "dspy.LM | None":
    """Return the LM that `dspy.configure` or `dspy.context` set; None if no LM is set."""
    settings = getattr(sys.modules.get("dspy"), "settings", None)
    return None if settings is None else settings.lm


def _open_endpoint_model(lm: str, address: str, key_variable: str, api_key: str) -> Model:
    from judges.client.decisions import DecisionModel
    from judges.client.openai import EndpointModel

    prefix, _, name = lm.partition("/")
    provider, model_class, problem = PROVIDERS[prefix], EndpointModel, ""
    if is_decision_model(lm):
        # A decision model's name keeps its prefix: a chat model may have the same name without it.
        name, model_class = lm, DecisionModel
    url_parts, endpoint = urlsplit(address), url_without_secrets(address)
    safe_address = Redactor().redact(endpoint)
    needs_key = prefix not in (SYSTEM_ONE, "litellm_proxy")
    address_advice = f"set {provider.address_variable}, or give an address by api_base (--api-base)"
    if not address:
        problem = f"no address is given; {address_advice}"
    elif url_parts.scheme not in {"http", "https"} or not url_parts.hostname:
        problem = f"{safe_address!r} is not an address; write http://HOST:PORT/v1 or https://..."
    elif url_has_secret(address):
        advice = f"set the key in {key_variable}"
        problem = f"the address {safe_address} holds a password or a key; {advice}"
    elif needs_key and not api_key and address == (provider.address or address):
        problem = f"{key_variable} is not set; set it, or {address_advice}"
    if problem:
        raise FatalModelError(f"{name}: {problem}")
    return model_class(name, address + provider.path, endpoint, api_key, key_variable)


async def close_models() -> None:
    """Close this process's models and their connections; must run on the clients' event loop."""
    for call in [call for call in _model_by_call if call[0] == os.getpid()]:
        await _model_by_call.pop(call).close()


def _check_key_variable(variable: str) -> None:
    """Raise FatalModelError if `variable` is an API key itself, or is not set."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", variable) or Redactor().has_secret(variable):
        problem = "must be the name of an environment variable, and never a key itself"
        raise FatalModelError(f"api_key_env {problem}")
    if not os.environ.get(variable):
        raise FatalModelError(f"{variable}, which should hold the key, is not set")


@lru_cache
def check_model_name(lm: str) -> None:
    """Raise FatalModelError if a model's name is malformed or contains an API key."""
    if Redactor().has_secret(lm):
        raise FatalModelError(f"the model's name {KEY_IN_NAME_PROBLEM}")
    if not is_embedded(lm) and not all(lm.partition("/")):
        advice = "write embedded or PROVIDER/NAME, as in openai/gpt-4.1-mini"
        raise FatalModelError(f"no model {lm!r}: {advice}")


def is_allowed_in_file(lm: str) -> bool:
    """Return whether the model `lm` may be used if only a judge's file names it, not the user."""
    # The pattern excludes model names that are addresses, paths or programs.
    has_known_provider = lm.partition("/")[0] in {*PROVIDERS, *DSPY_PROVIDERS}
    return is_embedded(lm) or (has_known_provider and bool(_PLAIN_MODEL_NAME.fullmatch(lm)))


def check_model_of_file(
    judge_name: str, lm: str, api_base: str | None, tuned_endpoint: str | None
) -> None:
    """Raise FatalModelError if a judge's file alone would decide where texts are sent.

    A judge's file may come from a stranger. So the user must name a model whose name could be an
    address, a path or a program. And the user must give the address of the model (`api_base`) if
    the judge was tuned at an address other than the default (`tuned_endpoint`).
    """
    if not is_allowed_in_file(lm):
        raise FatalModelError(
            f"{judge_name}: the judge's file sets the model {lm[:200]!r}, which is not a plain "
            "PROVIDER/NAME of a known provider; if you trust it, name the model yourself: --lm "
            "MODEL (lm=...)"
        )
    endpoint = endpoint_of(lm)
    if not api_base and tuned_endpoint not in (None, "", endpoint, endpoint_digest(endpoint)):
        raise FatalModelError(
            f"{judge_name}: it was tuned at another address, and requests would now go to "
            f"{endpoint}; give the address of its model: --api-base URL, or in Python "
            "judge.with_model(api_base=...)"
        )
