"""Keep keys out of everything that is written: errors, replies, journals, reports and logs.

A key is a value in use: one given in code, or one of an environment variable whose name ends in
_KEY, _TOKEN or _SECRET. Exactly these values are taken out, and nothing that only looks like one.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from judges.client.protocol import Completion, FatalModelError, Reply

MASK = "[key]"
KEY_FOR_NAME = "holds a key: name the model, and give its key in the environment"
# A shorter value is a placeholder ("none", "x"), and may well be a word or number of a reply.
SHORTEST_SECRET = 8
LONGEST_WORD = 24
SECRET_VARIABLE = re.compile(r"_(?:KEY|TOKEN|SECRET)\Z", re.IGNORECASE)
SECRET_NAME = re.compile(r"key|token|secret|passw|sig|authorization", re.IGNORECASE)
# The keys that this process was given in code, beside those of its environment.
_keys_from_code: set[str] = set()


class Redactor:
    """The values nobody may see: `values`, and the keys of the environment and of this process."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        named = (value for name, value in os.environ.items() if SECRET_VARIABLE.search(name))
        secrets = {value.strip() for value in (*values, *named, *_keys_from_code)}
        # Longest first, since one may be the beginning of another.
        self._secrets = sorted(filter(_is_secret, secrets), key=len, reverse=True)

    def redact(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def holds(self, text: str) -> bool:
        return any(secret in text for secret in self._secrets)

    def clean(self, completion: Completion) -> Completion:
        """The same answer without keys, which a server may repeat in it."""
        return replace(
            completion,
            model=self.redact(completion.model),
            replies=tuple(map(self._clean_reply, completion.replies)),
        )

    def _clean_reply(self, reply: Reply) -> Reply:
        # Tokens spell a key piece by piece: a reply with one has no probabilities.
        spelled = self.holds("".join(token.text for token in reply.tokens))
        offered = self.holds("\0".join(text for token in reply.tokens for text in token.top))
        return replace(
            reply,
            text=self.redact(reply.text),
            finish_reason=self.redact(reply.finish_reason),
            tokens=() if spelled or offered else reply.tokens,
        )


def read_key(name: str, key: str | None = None) -> str:
    """A key fit for a header; raises FatalModelError where it cannot be one."""
    value = (key or os.environ.get(name) or "").strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise FatalModelError(
            f"{name}: holds what no key does (a space, a line break, a curly quote)"
        )
    # A variable may have any name.
    hide([value])
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


def _is_secret(value: str) -> bool:
    """Whether it is no placeholder and no word of prose, such as "not-needed"."""
    is_word = len(value) < LONGEST_WORD and re.sub(r"[-_ .]", "", value).isalpha()
    return len(value) >= SHORTEST_SECRET and not is_word
