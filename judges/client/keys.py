"""Find the address and API key of each provider, and keep keys out of everything that is written.

A key is a value that was passed in code, or that an environment variable holds whose name ends in
_KEY, _TOKEN or _SECRET. Exactly these values are removed from texts; a text that only looks like a
key is kept.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from judges.protocol import OPENAI_ADDRESS, Completion, FatalModelError, Reply, is_embedded

EMBEDDED_MODELS = frozenset({"embedded", "embedded-1"})

MASK = "[key]"
KEY_IN_NAME_PROBLEM = "holds a key: name the model, and give its key in the environment"
# A shorter value counts as a placeholder ("none", "not-needed"), which may occur in replies.
SHORTEST_SECRET = 12
SECRET_SUFFIXES = ("_KEY", "_TOKEN", "_SECRET")
SECRET_NAME = re.compile(r"key|token|secret|passw|sig|authorization", re.IGNORECASE)
# Keys that were passed in code or read from environment variables with other names.
_keys_from_code: set[str] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """The address and key of a provider that our own client asks.

    `address_variable` is the environment variable that can replace `address`, `path` is appended to
    the address, and `key_variable` is the environment variable with the key.
    """

    address: str = ""
    address_variable: str
    path: str = "/chat/completions"
    key_variable: str

    def base(self, api_base: str | None = None) -> str:
        """The address: the user's, else that in the environment, else the provider's own."""
        base = api_base or os.environ.get(self.address_variable) or self.address
        return base.rstrip("/").removesuffix("/v1" if self.path.startswith("/v1/") else "")


_OPENAI = Provider(
    address=OPENAI_ADDRESS, address_variable="OPENAI_BASE_URL", key_variable="OPENAI_API_KEY"
)
# The providers that our own client asks; the models of all others are asked through DSPy.
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
    "decisions": replace(_OPENAI, address=OPENAI_ADDRESS.removesuffix("/v1"), path="/v1/decisions"),
    # Many servers have this protocol, each at an address of its own.
    "systemone": Provider(
        address_variable="SYSTEMONE_BASE_URL",
        path="/v1/systemone",
        key_variable="SYSTEMONE_API_KEY",
    ),
}


def gives_n_replies(lm: str) -> bool:
    """Whether one request to this model can bring several replies; through DSPy it cannot."""
    return lm.partition("/")[0] in PROVIDERS or is_embedded(lm)


def endpoint_of(lm: str, api_base: str | None = None) -> str:
    """The attribute `endpoint` that the model would have, without opening the model."""
    if lm in EMBEDDED_MODELS:
        return lm
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        return without_secrets(provider.base(api_base))
    # If the user gives no address, only DSPy knows where the model is asked.
    return f"dspy.LM {without_secrets(api_base)}" if api_base else "dspy.LM"


class Redactor:
    """Removes secrets from texts: `values`, keys in the environment, and keys passed in code."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        keys = (v for name, v in os.environ.items() if name.upper().endswith(SECRET_SUFFIXES))
        values = {value.strip() for value in (*values, *keys, *_keys_from_code)}
        secrets = (value for value in values if len(value) >= SHORTEST_SECRET)
        # Longest first, since one secret may be the beginning of another.
        self._secrets = sorted(secrets, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def holds(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)

    def redact_completion(self, completion: Completion) -> Completion:
        """The answer with keys redacted, since a server may repeat a key in it."""
        texts = [completion.model]
        for reply in completion.replies:
            texts += (reply.text, reply.finish_reason)
            # A key may be spread over several tokens.
            texts.append("".join([token.text for token in reply.tokens]))
            texts += [text for token in reply.tokens for text in token.top]
        joined_texts = "\0".join(texts)
        if not any(secret in joined_texts for secret in self._secrets):
            return completion
        replies = [
            Reply(text=self.redact(reply.text), finish_reason=self.redact(reply.finish_reason))
            for reply in completion.replies
        ]
        return replace(completion, model=self.redact(completion.model), replies=tuple(replies))


def read_key(name: str) -> str:
    """The key in an environment variable; "" if the variable is not set.

    Raises FatalModelError if the value cannot be a key.
    """
    value = os.environ.get(name, "").strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise FatalModelError(
            f"{name}: its value cannot be a key (it has a space, a line break or a curly quote)"
        )
    hide_secrets([value])  # the variable may have a name that does not look like that of a key
    return value


def hide_secrets(secrets: Iterable[str]) -> None:
    """Redact these values in everything that this process writes from now on."""
    _keys_from_code.update(secrets)


def secrets_among(arguments: Mapping[str, object]) -> list[str]:
    """The API keys and header values among the arguments of a client."""
    secrets: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            is_headers = name.endswith("headers")
            # All header values count as secret, by a name that says so.
            secrets += secrets_among({f"{is_headers * 'key '}{key}": v for key, v in value.items()})
        elif isinstance(value, str) and SECRET_NAME.search(name):
            secrets += [value, *value.split()]
    return secrets


def without_secrets(url: str) -> str:
    """The address without user name, query and fragment, which may hold a password or a key."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def holds_secret(url: str) -> bool:
    """Whether an address contains a password or a key, so that it must not be written to a file."""
    parts = urlsplit(url)
    in_query = any(SECRET_NAME.search(name) for name, _ in parse_qsl(parts.query))
    return "@" in parts.netloc or in_query or Redactor().holds(url)
