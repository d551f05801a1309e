"""The address and key of each provider; and how keys are kept out of everything that is written.

A key is a value from code, or from an environment variable whose name ends in _KEY, _TOKEN or
_SECRET. Exactly these values are removed, and nothing that only looks like a key.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from judges.protocol import OPENAI, Completion, FatalModelError, Reply, is_embedded

EMBEDDED_MODELS = frozenset({"embedded", "embedded-1"})

MASK = "[key]"
KEY_FOR_NAME = "holds a key: name the model, and give its key in the environment"
# A shorter value is a placeholder ("none", "not-needed"), and may be a word of a reply.
SHORTEST_SECRET = 12
SECRET_VARIABLE = ("_KEY", "_TOKEN", "_SECRET")
SECRET_NAME = re.compile(r"key|token|secret|passw|sig|authorization", re.IGNORECASE)
# Keys that were passed in code, beside those of the environment.
_keys_from_code: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a provider that our own client asks is reached.

    The environment variable `address_variable` replaces `address`, `path` is added to either, and
    `key_variable` names the environment variable with the key.
    """

    address: str = ""
    address_variable: str
    path: str = "/chat/completions"
    key_variable: str

    def base(self, api_base: str | None = None) -> str:
        """The address by the user, else by the environment, else the provider's own."""
        base = api_base or os.environ.get(self.address_variable) or self.address
        return base.rstrip("/").removesuffix("/v1" if self.path.startswith("/v1/") else "")


_OPENAI = Provider(
    address=OPENAI, address_variable="OPENAI_BASE_URL", key_variable="OPENAI_API_KEY"
)
# Providers that our own client asks; DSPy asks all others.
PROVIDERS: Mapping[str, Provider] = {
    "openai": _OPENAI,
    "azure": Provider(
        address_variable="AZURE_OPENAI_ENDPOINT",
        path="/openai/v1/chat/completions",
        key_variable="AZURE_OPENAI_API_KEY",
    ),
    "litellm_proxy": Provider(
        address_variable="LITELLM_PROXY_API_BASE", key_variable="LITELLM_PROXY_API_KEY"
    ),
    "decisions": replace(_OPENAI, address=OPENAI.removesuffix("/v1"), path="/v1/decisions"),
    # Many servers speak it, at addresses of their own.
    "systemone": Provider(
        address_variable="SYSTEMONE_BASE_URL",
        path="/v1/systemone",
        key_variable="SYSTEMONE_API_KEY",
    ),
}


def gives_n_replies(lm: str) -> bool:
    """Whether n replies cost one request, by the model's name; through DSPy they cost n."""
    return lm.partition("/")[0] in PROVIDERS or is_embedded(lm)


def endpoint_of(lm: str, api_base: str | None = None) -> str:
    """The `endpoint` of a model, without opening it."""
    if lm in EMBEDDED_MODELS:
        return lm
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        return without_secrets(provider.base(api_base))
    # Without an address of the user's, DSPy alone knows it.
    return f"dspy.LM {without_secrets(api_base)}" if api_base else "dspy.LM"


class Redactor:
    """Removes secrets from texts: `values`, and the keys of the environment and of this process."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        keys = (v for name, v in os.environ.items() if name.upper().endswith(SECRET_VARIABLE))
        secrets = {value.strip() for value in (*values, *keys, *_keys_from_code)}
        # Longest first, since one may be the beginning of another.
        long = (secret for secret in secrets if len(secret) >= SHORTEST_SECRET)
        self._secrets = sorted(long, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def holds(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)

    def clean(self, completion: Completion) -> Completion:
        """The answer without keys, which a server may repeat in it."""
        texts = [completion.model]
        for reply in completion.replies:
            texts += (reply.text, reply.finish_reason)
            # A key may be spread over several tokens.
            texts.append("".join([token.text for token in reply.tokens]))
            texts += [text for token in reply.tokens for text in token.top]
        whole = "\0".join(texts)
        if not any(secret in whole for secret in self._secrets):
            return completion
        replies = [
            Reply(text=self.redact(reply.text), finish_reason=self.redact(reply.finish_reason))
            for reply in completion.replies
        ]
        return replace(completion, model=self.redact(completion.model), replies=tuple(replies))


def read_key(name: str) -> str:
    """The key in an environment variable, "" if unset; FatalModelError if it cannot be a key."""
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise FatalModelError(
            f"{name}: its value cannot be a key (it has a space, a line break or a curly quote)"
        )
    hide([value])  # the variable may have any name
    return value


def hide(secrets: Iterable[str]) -> None:
    """Keep these values out of everything that this process writes from now on."""
    _keys_from_code.update(secrets)


def secrets_among(arguments: Mapping[str, object]) -> list[str]:
    """The keys and header values among a client's arguments."""
    secrets: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            is_headers = name.endswith("headers")
            secrets += secrets_among({f"{is_headers * 'key '}{key}": v for key, v in value.items()})
        elif isinstance(value, str) and SECRET_NAME.search(name):
            secrets += [value, *value.split()]
    return secrets


def without_secrets(url: str) -> str:
    """The address without user, query and fragment, which may hold a password or a key."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def holds_secret(url: str) -> bool:
    """Whether an address holds a password or a key, and so must not be written down."""
    parts = urlsplit(url)
    in_query = any(SECRET_NAME.search(name) for name, _ in parse_qsl(parts.query))
    return "@" in parts.netloc or in_query or Redactor().holds(url)
