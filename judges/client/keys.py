"""Find the address and API key of each provider, and keep keys out of everything that is written.

A value counts as an API key if Python code passes it as a key, or if it is in an environment
variable whose name ends in _KEY, _TOKEN or _SECRET.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlsplit

from judges.protocol import OPENAI_ADDRESS, FatalModelError, is_embedded

KEY_MASK = "[key]"
# The most characters of a server's answer that an error message quotes.
MAX_EXCERPT_CHARACTERS = 300
KEY_IN_NAME_PROBLEM = "contains an API key: set the key in the environment, not in the name"
# A value of fewer characters counts as a placeholder, such as "none" or "not-needed", and is not
# redacted, since the same word may occur in replies.
MIN_SECRET_LENGTH = 12
SECRET_SUFFIXES = ("_KEY", "_TOKEN", "_SECRET")
SECRET_NAME_PATTERN = re.compile(r"key|token|secret|passw|sig|authorization", re.IGNORECASE)
# API keys that code passed, or that were read from variables without one of the SECRET_SUFFIXES.
_registered_keys: set[str] = set()


@dataclass(frozen=True, slots=True)
class Provider:
    """The address and the API key of a provider to which our own client sends requests.

    The environment variable `address_variable` replaces the default `address`. `path` is appended
    to the address. The environment variable `key_variable` has the API key.
    """

    address_variable: str
    key_variable: str
    path: str = "/chat/completions"
    address: str = ""

    def base_url(self, api_base: str | None = None) -> str:
        """Return `api_base`, else the address in the environment, else the default address."""
        base_url = api_base or os.environ.get(self.address_variable) or self.address
        return base_url.rstrip("/").removesuffix("/v1" if self.path.startswith("/v1/") else "")


_OPENAI = Provider("OPENAI_BASE_URL", "OPENAI_API_KEY", address=OPENAI_ADDRESS)
# Our own client sends requests to these providers. Requests to others go through DSPy.
PROVIDERS: Mapping[str, Provider] = {
    "openai": _OPENAI,
    "azure": Provider(
        "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "/openai/v1/chat/completions"
    ),
    "litellm_proxy": Provider("LITELLM_PROXY_API_BASE", "LITELLM_PROXY_API_KEY"),
    "decisions": replace(_OPENAI, address=OPENAI_ADDRESS.removesuffix("/v1"), path="/v1/decisions"),
    # Many servers implement System One's protocol, so there is no default address.
    "systemone": Provider("SYSTEMONE_BASE_URL", "SYSTEMONE_API_KEY", "/v1/systemone"),
}


def gives_n_replies(lm: str) -> bool:
    """Return whether the model `lm` can send several replies to one request; DSPy cannot."""
    return lm.partition("/")[0] in PROVIDERS or is_embedded(lm)


def endpoint_of(lm: str, api_base: str | None = None) -> str:
    """Return the address of the model `lm`, as in the attribute `endpoint` of the opened model."""
    if is_embedded(lm):
        return lm
    if provider := PROVIDERS.get(lm.partition("/")[0]):
        return url_without_secrets(provider.base_url(api_base))
    # If the user gives no address, only DSPy knows the address that requests are sent to.
    return f"dspy.LM {url_without_secrets(api_base)}" if api_base else "dspy.LM"


def endpoint_digest(endpoint: str) -> str:
    """Return a digest of the endpoint if it is an address, else the endpoint itself."""
    if "://" not in endpoint:
        return endpoint
    return f"sha256:{hashlib.sha256(endpoint.encode()).hexdigest()[:16]}"


class Redactor:
    """Replaces API keys and the given `values` in texts by KEY_MASK."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        key_variables = [name for name in os.environ if name.upper().endswith(SECRET_SUFFIXES)]
        values = (*values, *_registered_keys, *(os.environ[name] for name in key_variables))
        secrets = {value.strip() for value in values}
        long_secrets = [secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH]
        # Long secrets are replaced first, since a short secret may be the beginning of a long one.
        self._secrets = sorted(long_secrets, key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, KEY_MASK)
        return text

    def excerpt(self, text: str) -> str:
        """Return the beginning of a text on one line, with secrets replaced."""
        return " ".join(self.redact(text).split())[:MAX_EXCERPT_CHARACTERS]

    def has_secret(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)


def read_key(key_variable: str) -> str:
    """Return the API key in a variable, else ""; raises FatalModelError if the key is malformed."""
    api_key = os.environ.get(key_variable, "").strip()
    if not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        reason = "it has a space, a line break or a curly quote"
        raise FatalModelError(f"{key_variable}: its value cannot be a key ({reason})")
    register_secrets([api_key])  # since the variable's name may have none of SECRET_SUFFIXES
    return api_key


def register_secrets(secrets: Iterable[str]) -> None:
    """Make every new `Redactor` in this process redact these values."""
    _registered_keys.update(secrets)


def secrets_among(arguments: Mapping[str, object]) -> list[str]:
    """Return the API keys and header values among the keyword arguments of an API client."""
    secrets: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            secrets += secrets_among(value)
            if name.endswith("headers"):
                secrets += " ".join(map(str, value.values())).split()
        elif isinstance(value, str) and SECRET_NAME_PATTERN.search(name):
            secrets += [value, *value.split()]
    return secrets


def url_without_secrets(url: str) -> str:
    """Return the URL without user name, password, query and fragment, which may be secret."""
    url_parts = urlsplit(url)
    host = url_parts.netloc.rpartition("@")[2]
    return url_parts._replace(netloc=host, query="", fragment="").geturl()


def url_has_secret(url: str) -> bool:
    """Return whether a URL contains a password or a key, and so must not be written to a file."""
    url_parts = urlsplit(url)
    query_names = " ".join(name for name, _ in parse_qsl(url_parts.query))
    has_secret_name = SECRET_NAME_PATTERN.search(query_names) is not None
    return "@" in url_parts.netloc or has_secret_name or Redactor().has_secret(url)
