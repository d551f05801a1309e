"""Keep keys out of everything that is written: errors, replies, journals, reports and logs."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from judges.models.protocol import Completion, LastingError, Reply, Token

# A shorter value is a placeholder ("none", "x"), and may well be a word or number of a reply.
LEAST = 8
# As much of a longer one gives it away: excerpts and replies are cut short.
HEAD = 12
BLOT = "[key]"
# What keys look like, whoever they belong to.
LOOKS = re.compile(r"\b(?:sk|pk|rk|gsk|xai)-[\w*.-]{6,}|\b(?:hf|ghp)_\w{16,}|(?i:\bbearer\s+)\S+")
IN_QUERY = re.compile(r"key|token|secret|passw|sig", re.IGNORECASE)
NAMES = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)\Z")


class Secrets:
    """The values nobody may see: those given, and the environment's keys, tokens and passwords."""

    def __init__(self, given: Iterable[str] = (), *, url: str = "") -> None:
        held = {*given, *_in_url(url), *environment()}
        # Longest first, since one may be the beginning of another.
        self._held = sorted((one for one in held if len(one) >= LEAST), key=len, reverse=True)

    def strike(self, text: str) -> str:
        """Take the very values out of a model's text, and leave the rest as it is."""
        for one in self._held:
            for start, end in reversed(list(_spans(one, text))):
                text = text[:start] + BLOT + text[end:]
        return text

    def blot(self, text: str) -> str:
        """Take them out of a message, and with them whatever looks like a key."""
        return LOOKS.sub(BLOT, self.strike(text))

    def clean(self, completion: Completion) -> Completion:
        """The same answer without them: a server may repeat a request's headers in its reply."""
        if not any(self._in(reply) for reply in completion.replies):
            return replace(completion, model=self.strike(completion.model))
        return replace(
            completion,
            model=self.strike(completion.model),
            replies=tuple(self._cleaned(reply) for reply in completion.replies),
        )

    def _in(self, reply: Reply) -> bool:
        whole = "".join(token.text for token in reply.tokens)
        tops = (text for token in reply.tokens for text in token.top)
        return any(one[:HEAD] in text for one in self._held for text in (reply.text, whole, *tops))

    def _cleaned(self, reply: Reply) -> Reply:
        return replace(reply, text=self.strike(reply.text), tokens=tuple(self._tokens(reply)))

    def _tokens(self, reply: Reply) -> Iterator[Token]:
        """Tokens that spell the struck text: those that a secret runs through become one."""
        whole = "".join(token.text for token in reply.tokens)
        spans = [span for one in self._held for span in _spans(one, whole)]
        end = 0
        told: tuple[int, int] | None = None
        for token in reply.tokens:
            start, end = end, end + len(token.text)
            hit = next((span for span in spans if span[0] < end and start < span[1]), None)
            if hit is None:
                top = {self.strike(text): logprob for text, logprob in token.top.items()}
                yield Token(token.text, top)
            elif hit != told:
                told = hit
                yield Token(BLOT, {BLOT: 0.0})


def _spans(secret: str, text: str) -> Iterator[tuple[int, int]]:
    """Where it stands, whole or cut short."""
    head = secret[:HEAD]
    start = text.find(head)
    while start >= 0:
        end = start + len(head)
        while end < len(text) and end - start < len(secret) and text[end] == secret[end - start]:
            end += 1
        yield start, end
        start = text.find(head, end)


def environment(values: Mapping[str, str] | None = None) -> list[str]:
    """What the environment keeps under names of keys, tokens and passwords."""
    values = os.environ if values is None else values
    return [value.strip() for name, value in values.items() if NAMES.search(name.upper())]


def read_key(name: str, given: str | None = None) -> str:
    """A key fit for a header; raises LastingError where it cannot be one."""
    key = (given or os.environ.get(name) or "").strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise LastingError(f"{name}: holds what no key does (a space, a line break, a curly quote)")
    return key


def without_secrets(url: str) -> str:
    """Drop what may hold a password or a key: user, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def holds_secret(url: str) -> bool:
    """Whether an address holds a password or a key, and so must not be written down."""
    parts = urlsplit(url)
    return "@" in parts.netloc or any(IN_QUERY.search(name) for name, _ in parse_qsl(parts.query))


def _in_url(url: str) -> list[str]:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    password = user.partition(":")[2]
    values = [value for _, value in parse_qsl(parts.query)]
    return [one for one in (user, password, unquote(password), *values) if one]
