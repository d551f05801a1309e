"""Open a model by its name; what a kind of model needs is imported only when it is named.

Which model a judge's texts go to, and where, is its user's choice alone: a file may name a plain
model of a known provider, and what else it names is asked only once its user has named it too.
"""

import os
import re
import shlex
from functools import lru_cache

from judges.models.redaction import KEY_FOR_NAME, Redactor, without_secrets
from judges.protocol import OPENAI, FatalModelError, Model

TIMEOUT = 120.0
LONGEST_SHOWN = 200
EMBEDDED = frozenset({"embedded", "embedded-1"})
# Whose models a file may name by itself. A provider whose model names may hold an address, a file
# or a program (huggingface, custom, ...) is none of them.
PROVIDERS = frozenset(
    {
        *("openai", "azure", "anthropic", "gemini", "vertex_ai", "bedrock", "groq", "mistral"),
        *("cohere", "deepseek", "together_ai", "fireworks_ai", "openrouter", "xai", "perplexity"),
        *("cerebras", "nvidia_nim", "moonshot", "ollama", "ollama_chat"),
    }
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@+-]*(?:/[A-Za-z0-9][A-Za-z0-9._:@+-]*)*")
_THROUGH_DSPY = "dspy.LM"


def open_model(lm: str, *, api_base: str | None = None, timeout: float = TIMEOUT) -> Model:
    """Open `embedded`, `openai/NAME`, `azure/NAME`, `replay:FILE`, or any model DSPy knows.

    `api_base` or OPENAI_BASE_URL points `openai/NAME` at any compatible server. Keys come from the
    environment (OPENAI_API_KEY and its like). Raises FatalModelError where the set-up is wrong.
    """
    check_name(lm)
    provider, _, name = lm.partition("/")
    if lm in EMBEDDED:
        return _embedded_model()
    if lm.startswith("replay:"):
        from judges.models.replay import ReplayModel

        return ReplayModel(lm.removeprefix("replay:"))
    if (provider == "azure" and name) or _is_azure(api_base):
        from judges.models.azure import AzureModel

        return AzureModel(name or lm, api_base=api_base, timeout=timeout)
    if provider == "openai" and name:
        from judges.models.endpoint import EndpointModel

        return EndpointModel(name, api_base=api_base, timeout=timeout)
    if not (provider and name):
        raise FatalModelError(
            f"no model {lm!r}: say embedded, replay:FILE or PROVIDER/NAME, as in "
            "openai/gpt-4.1-mini"
        )
    from judges.models.dspy_lm import DspyModel

    return DspyModel(lm, api_base=api_base, timeout=timeout)


@lru_cache(maxsize=1)
def _embedded_model() -> Model:
    """The one of this process, since its weights take time to read."""
    from judges.models.embedded import EmbeddedModel

    return EmbeddedModel()


def check_name(lm: str) -> None:
    """Raise FatalModelError for a key in a model's place, where it would be written down."""
    if Redactor().holds(lm):
        raise FatalModelError(f"the model's name {KEY_FOR_NAME}")


def is_plain(lm: str) -> bool:
    """Whether this is the embedded model, or a known provider's name without address or path."""
    provider, _, name = lm.partition("/")
    return lm in EMBEDDED or (provider in PROVIDERS and bool(_NAME.fullmatch(name)))


def endpoint_of(lm: str, api_base: str | None = None) -> str:
    """Where a model answers, as its `endpoint` says, without opening it."""
    provider, _, name = lm.partition("/")
    if lm in EMBEDDED or lm.startswith("replay:"):
        return lm
    if (provider == "azure" and name) or _is_azure(api_base):
        base = api_base or os.environ.get("AZURE_OPENAI_ENDPOINT", "")
    elif provider == "openai" and name:
        base = api_base or os.environ.get("OPENAI_BASE_URL") or OPENAI
    else:
        return f"{_THROUGH_DSPY} {without_secrets(api_base)}" if api_base else _THROUGH_DSPY
    return without_secrets(base.rstrip("/"))


def check_model(lm: str, flag: str = "--lm") -> None:
    """Raise FatalModelError for a model that only a file names and that is no provider's own."""
    if not is_plain(lm):
        raise FatalModelError(
            f"its file names the model {shown(lm)}, which is no plain PROVIDER/NAME of a known "
            f"provider; to ask it all the same, name it yourself: {flag} {shown(lm)} "
            f"(in code: {_argument(flag)}=...)"
        )


def check_endpoint(
    lm: str, recorded: str, api_base: str | None, flag: str = "--api-base", what: str = "it"
) -> None:
    """Raise FatalModelError where a recorded endpoint is not the one that would be asked.

    An endpoint that the user names is asked, whatever is recorded.
    """
    if api_base or recorded == endpoint_of(lm) or _named_by_environment(lm):
        return
    address = shown(recorded.removeprefix(_THROUGH_DSPY).strip())
    other = endpoint_of(lm)
    other = "the provider's own" if other == _THROUGH_DSPY else other
    if recorded == _THROUGH_DSPY:
        raise FatalModelError(f"{what} was made at the provider's own endpoint; this is {other}")
    raise FatalModelError(
        f"{what} was made with the endpoint {address}, and not {other or 'another'}: "
        f"say which to ask, as in {flag} {address} (in code: {_argument(flag)}=...)"
    )


def _named_by_environment(lm: str) -> bool:
    names = {"openai": "OPENAI_BASE_URL", "azure": "AZURE_OPENAI_ENDPOINT"}
    return bool(os.environ.get(names.get(lm.partition("/")[0], "")))


def shown(named: str) -> str:
    """What a file names, in a message: short, fit to be typed again, and without any key."""
    shown = Redactor().redact(named)
    return shlex.quote(shown if len(shown) <= LONGEST_SHOWN else f"{shown[:LONGEST_SHOWN]}...")


def _argument(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def _is_azure(api_base: str | None) -> bool:
    base = api_base or os.environ.get("OPENAI_BASE_URL") or ""
    return ".openai.azure.com" in base or ".cognitiveservices.azure.com" in base
