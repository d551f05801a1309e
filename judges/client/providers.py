"""The providers whose models a user may name, as data: a new one is one entry of PROVIDERS.

A prefix, an address, where the key is kept, and which client asks: our own (the chat-completions
format over HTTP) or DSPy's, which knows address and key by itself.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from judges.client.keys import without_secrets
from judges.client.protocol import OPENAI, is_embedded

EMBEDDED_MODELS = frozenset({"embedded", "embedded-1"})
# The endpoint of a model whose address DSPy knows.
THROUGH_DSPY = "dspy.LM"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a provider's models are reached; only `client` counts for DSPy's.

    `address` is the provider's own, unless `address_variable` of the environment names another;
    addresses at one of `hosts` are its own whatever the model is called. `path` follows the
    address, with the model's name for {name} and its query's version for {version}, which
    `version_variable` may name. `key_variable` holds the key, sent as `key_form` in `key_header`.
    """

    client: Literal["chat", "dspy"] = "dspy"
    address: str = ""
    address_variable: str = ""
    hosts: tuple[str, ...] = ()
    path: str = "/chat/completions"
    version: str = ""
    version_variable: str = ""
    key_variable: str = ""
    key_header: str = "Authorization"
    key_form: str = "Bearer {key}"

    def base(self, api_base: str | None = None) -> str:
        """The address to ask, as its user, the environment or the provider names it."""
        return (api_base or os.environ.get(self.address_variable) or self.address).rstrip("/")


# Whose models a file may name by itself. A provider whose model names may hold an address, a file
# or a program (huggingface, custom, ...) is none of them; its user may name it all the same.
PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        client="chat",
        address=OPENAI,
        address_variable="OPENAI_BASE_URL",
        key_variable="OPENAI_API_KEY",
    ),
    "azure": Provider(
        client="chat",
        address_variable="AZURE_OPENAI_ENDPOINT",
        hosts=(".openai.azure.com", ".cognitiveservices.azure.com"),
        path="/openai/deployments/{name}/chat/completions",
        version="2024-10-21",
        version_variable="OPENAI_API_VERSION",
        key_variable="AZURE_OPENAI_API_KEY",
        key_header="api-key",
        key_form="{key}",
    ),
    "anthropic": Provider(),
    "bedrock": Provider(),
    "cerebras": Provider(),
    "cohere": Provider(),
    "deepseek": Provider(),
    "fireworks_ai": Provider(),
    "gemini": Provider(),
    "groq": Provider(),
    "mistral": Provider(),
    "moonshot": Provider(),
    "nvidia_nim": Provider(),
    "ollama": Provider(),
    "ollama_chat": Provider(),
    "openrouter": Provider(),
    "perplexity": Provider(),
    "together_ai": Provider(),
    "vertex_ai": Provider(),
    "xai": Provider(),
}


def provider_of(lm: str, api_base: str | None = None) -> tuple[Provider, str]:
    """Whose model this is, and its name there; whom PROVIDERS does not list, DSPy may know."""
    prefix, _, name = lm.partition("/")
    base = api_base or os.environ.get("OPENAI_BASE_URL") or ""
    for provider in PROVIDERS.values():
        if any(host in base for host in provider.hosts):
            return provider, name or lm
    return PROVIDERS.get(prefix, Provider()), name


def gives_n_replies(lm: str) -> bool:
    """Whether n replies cost one request, as far as a model's name tells; DSPy sends n."""
    prefix, _, name = lm.partition("/")
    known = PROVIDERS.get(prefix, Provider()).client == "chat" and bool(name)
    return known or is_embedded(lm)


def endpoint_of(lm: str, api_base: str | None = None) -> str:
    """Where a model answers, as its `endpoint` says, without opening it."""
    if lm in EMBEDDED_MODELS:
        return lm
    provider, name = provider_of(lm, api_base)
    if provider.client == "chat" and name:
        return without_secrets(provider.base(api_base))
    return dspy_endpoint(api_base)


def dspy_endpoint(api_base: str | None) -> str:
    """The endpoint of what DSPy asks; it alone knows the address where its user names none."""
    return f"{THROUGH_DSPY} {without_secrets(api_base)}" if api_base else THROUGH_DSPY
