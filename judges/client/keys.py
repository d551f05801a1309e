"""Where models are asked and with which key; and keys kept out of everything that is written.

A key is a value in use: one given in code, or one of an environment variable whose name ends in
_KEY, _TOKEN or _SECRET. Exactly these values are taken out, and nothing that only looks like one.
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
# The keys that this process was given in code, beside those of its environment.
_keys_from_code: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """How a provider of the chat protocol is reached.

    `address` is its own, unless `address_variable` of the environment names another, and `path`
    follows it. `key_variable` holds the key.
    """

    address: str = ""
    address_variable: str
    path: str = "/chat/completions"
    key_variable: str

    def base(self, api_base: str | None = None) -> str:
        """The address to ask, as its user, the environment or the provider names it."""
        return (api_base or os.environ.get(self.address_variable) or self.address).rstrip("/")


# Those that our own client asks.
PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        address=OPENAI, address_variable="OPENAI_BASE_URL", key_variable="OPENAI_API_KEY"
    ),
    "azure": Provider(
        address_variable="AZURE_OPENAI_ENDPOINT",
        path="/openai/v1/chat/completions",
        key_variable="AZURE_OPENAI_API_KEY",
    ),
}


def gives_n_replies(lm: str) -> bool:
    """Whether n replies cost one request, as far as a model's name tells; DSPy sends n."""
    return lm.partition("/")[0] in PROVIDERS or is_embedded(lm)


def endpoint_of(lm: str, api_base: str | None = None) -> str:
    """Where a model answers, as its `endpoint` says, without opening it."""
    if lm in EMBEDDED_MODELS:
        return lm
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        return without_secrets(provider.base(api_base))
    # DSPy alone knows the address where its user names none.
    return f"dspy.LM {without_secrets(api_base)}" if api_base else "dspy.LM"


class Redactor:
    """The values nobody may see: `values`, and the keys of the environment and of this process."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        named = (v for name, v in os.environ.items() if name.upper().endswith(SECRET_VARIABLE))
        secrets = {value.strip() for value in (*values, *named, *_keys_from_code)}
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
        """The same answer without keys, which a server may repeat in it."""
        texts = [completion.model]
        for reply in completion.replies:
            texts += (reply.text, reply.finish_reason)
            # Tokens spell a key piece by piece.
            texts.append("".join([token.text for token in reply.tokens]))
            texts += [text for token in reply.tokens for text in token.top]
        whole = "\0".join(texts)
        if not any(secret in whole for secret in self._secrets):
            return completion
        cleaned = [
            Reply(text=self.redact(reply.text), finish_reason=self.redact(reply.finish_reason))
            for reply in completion.replies
        ]
        return replace(completion, model=self.redact(completion.model), replies=tuple(cleaned))


def read_key(name: str) -> str:
    """A variable's key, fit for a header; raises FatalModelError where it cannot be one."""
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise FatalModelError(
            f"{name}: holds what no key does (a space, a line break, a curly quote)"
        )
    hide([value])  # a variable may have any name
    return value


def hide(secrets: Iterable[str]) -> None:
    """Keep these values out of whatever this process writes from now on."""
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
    """Drop what may hold a password or a key: user, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def holds_secret(url: str) -> bool:
    """Whether an address holds a password or a key, and so must not be written down."""
    parts = urlsplit(url)
    in_query = any(SECRET_NAME.search(name) for name, _ in parse_qsl(parts.query))
    return "@" in parts.netloc or in_query or Redactor().holds(url)
