"""Keep keys out of everything that is written: errors, replies, journals, reports and logs."""

import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from urllib.parse import parse_qsl, unquote, urlsplit, urlunsplit

from judges.protocol import Completion, FatalModelError, Reply, Token

MASK = "[key]"
KEY_FOR_NAME = "holds a key: name the model, and give its key in the environment"
# A shorter value is a placeholder ("none", "x"), and may well be a word or number of a reply.
SHORTEST_SECRET = 8
# As much of a longer one gives it away: excerpts and replies are cut short.
START_LENGTH = 12
# An error's text may be long and anything: where a pattern looks for what follows a repeat, the
# repeat has a bound, or it would be tried from every place to the end.
# The forms of keys, whoever they belong to: a provider's prefix or a header's word, then characters
# drawn at random. Prose has the first ("Bearer certificates", "sk-learn-compatible-estimators").
KEY_FORM = re.compile(
    r"\b(?:sk|pk|rk|csk|gsk|xai|pplx|nvapi|hf|r8|fw|ghp|gho|ghs|github_pat|glpat|xox[abp])[-_]"
    r"(?P<body>[\w-]{16,})"
    r"|\bAIza(?P<google>[\w-]{30,})|\bAKIA(?P<aws>[A-Z0-9]{16})\b"
    r"|\b(?i:bearer)\s+(?P<bearer>[\w.~+/-]{16,}=*)"
    r"|\beyJ(?P<jwt>[\w-]{16,1000}\.[\w-]{10,4000}\.[\w-]+)"
)
# As providers show a key that they refuse.
MASKED_KEY = re.compile(r"\b(?:sk|pk|rk|gsk|xai)-[\w.-]{0,60}\*{2}[\w*.-]*")
# Of neighbouring characters, how many are of two kinds (lower case, upper case, digits): about half
# of those drawn at random, and a seventh in words and dates.
MIXED_SHARE = 0.3
SHORTEST_RANDOM = 16
SECRET_IN_URL = re.compile(
    r"(?<=://)[^/\s@'\"]+(?=@)|(?i:(?<=[?&])[\w-]{0,60}(?:key|token|secret|passw|sig)[\w-]{0,60}="
    r"[^&\s'\"]+)"
)
SECRET_QUERY_NAME = re.compile(r"key|token|secret|passw|sig", re.IGNORECASE)
SECRET_VARIABLE = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)\Z")
WORDS = re.compile(r"(?:[A-Z]?[a-z]+|[A-Z]+)(?:[-_ .](?:[A-Z]?[a-z]+|[A-Z]+))*")
LONGEST_WORDS = 24
# The keys that this process was given in code, beside those of its environment.
_keys_from_code: set[str] = set()


class Redactor:
    """The values nobody may see: `values`, and the environment's keys, tokens and passwords."""

    def __init__(self, values: Iterable[str] = (), *, url: str = "") -> None:
        secrets = {*values, *_secrets_in(url), *environment(), *_keys_from_code}
        # Longest first, since one may be the beginning of another.
        self._secrets = sorted(filter(_is_secret, secrets), key=len, reverse=True)
        self._starts = [_start_of(secret) for secret in self._secrets]

    def remove_keys(self, text: str) -> str:
        """Take the very values out of a model's text, and leave the rest as it is."""
        if not self._stands_in(text):
            return text
        for secret in self._secrets:
            for start, end in reversed(list(_spans(secret, text))):
                text = text[:start] + MASK + text[end:]
        return text

    def redact(self, text: str) -> str:
        """Take them out of a message, and with them whatever looks like a key."""
        text = MASKED_KEY.sub(MASK, SECRET_IN_URL.sub(MASK, self.remove_keys(text)))
        return KEY_FORM.sub(lambda match: MASK if _is_random(match) else match.group(), text)

    def holds(self, text: str) -> bool:
        """Whether it has one of these values, or what is drawn like a key."""
        return self.remove_keys(text) != text or any(map(_is_random, KEY_FORM.finditer(text)))

    def redact_data(self, value: object) -> object:
        """The same plain data with `redact` done to every text in it."""
        if isinstance(value, str):
            return self.redact(value) if self.holds(value) else value
        if isinstance(value, Mapping):
            return {
                self.redact_data(name): self.redact_data(entry) for name, entry in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.redact_data(entry) for entry in value]
        return value

    def clean(self, completion: Completion) -> Completion:
        """The same answer without them: a server may repeat a request's headers in its reply."""
        replies = completion.replies
        if not (self._stands_in(completion.model) or any(map(self._stands_in_reply, replies))):
            return completion
        return replace(
            completion,
            model=self.remove_keys(completion.model),
            replies=tuple(
                replace(
                    reply,
                    text=self.remove_keys(reply.text),
                    finish_reason=self.remove_keys(reply.finish_reason),
                    tokens=tuple(self._masked_tokens(reply.tokens)),
                )
                for reply in replies
            ),
        )

    def _stands_in(self, text: str) -> bool:
        return any(start in text for start in self._starts)

    def _stands_in_reply(self, reply: Reply) -> bool:
        joined = "".join([token.text for token in reply.tokens])
        alternatives = "\0".join([text for token in reply.tokens for text in token.top])
        return any(map(self._stands_in, (reply.text, reply.finish_reason, joined, alternatives)))

    def _masked_tokens(self, tokens: Iterable[Token]) -> Iterator[Token]:
        """Tokens that spell the struck text: those that a secret runs through become one."""
        tokens = list(tokens)
        joined = "".join(token.text for token in tokens)
        spans = [span for secret in self._secrets for span in _spans(secret, joined)]
        end = 0
        masked: tuple[int, int] | None = None
        for token in tokens:
            start, end = end, end + len(token.text)
            span = next((span for span in spans if span[0] < end and start < span[1]), None)
            if span is None:
                top = {self.remove_keys(text): logprob for text, logprob in token.top.items()}
                yield Token(token.text, top)
            elif span != masked:
                masked = span
                yield Token(MASK, {MASK: 0.0})


def environment(variables: Mapping[str, str] | None = None) -> list[str]:
    """What the environment keeps under names of keys, tokens and passwords."""
    secrets = []
    for name, value in (os.environ if variables is None else variables).items():
        if SECRET_VARIABLE.search(name.upper()):
            value = value.strip()
            # An address under such a name may hold a key, and is none.
            secrets += _secrets_in(value) if "://" in value else [value]
    return secrets


def read_key(name: str, key: str | None = None) -> str:
    """A key fit for a header; raises FatalModelError where it cannot be one."""
    value = (key or os.environ.get(name) or "").strip()
    if not value.isascii() or not value.isprintable() or " " in value:
        raise FatalModelError(
            f"{name}: holds what no key does (a space, a line break, a curly quote)"
        )
    if key:
        hide([value])
    return value


def hide(secrets: Iterable[str]) -> None:
    """Keep values that were given in code out of whatever this process writes from now on."""
    _keys_from_code.update(filter(_is_secret, map(str.strip, secrets)))


def secrets_among(arguments: Mapping[str, object]) -> list[str]:
    """What a client's arguments hold that nobody may see: keys, tokens, every header's words."""
    secrets: list[str] = []
    for name, value in arguments.items():
        if isinstance(value, Mapping):
            is_headers = name.endswith("headers")
            nested = {f"{'key' if is_headers else ''} {key}": entry for key, entry in value.items()}
            secrets += secrets_among(nested)
        elif isinstance(value, str) and SECRET_QUERY_NAME.search(name):
            secrets += [value, *value.split()]
        elif isinstance(value, str) and "://" in value:
            secrets += _secrets_in(value)
    return [secret for secret in secrets if _is_secret(secret)]


def without_secrets(url: str) -> str:
    """Drop what may hold a password or a key: user, query and fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def holds_secret(url: str) -> bool:
    """Whether an address holds a password or a key, and so must not be written down."""
    parts = urlsplit(url)
    in_query = any(SECRET_QUERY_NAME.search(name) for name, _ in parse_qsl(parts.query))
    return "@" in parts.netloc or in_query or Redactor().holds(url)


def _secrets_in(url: str) -> list[str]:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    password = user.partition(":")[2]
    # As the request's header has it, which a server may repeat.
    basic = b64encode(unquote(user).encode()).decode().rstrip("=") if user else ""
    values = [value for _, value in parse_qsl(parts.query)]
    return list(filter(None, (user, password, unquote(password), basic, *values)))


def _is_secret(value: str) -> bool:
    """Whether nobody may see it: a placeholder or a word of prose is no key."""
    words = len(value) < LONGEST_WORDS and WORDS.fullmatch(value)
    return len(value) >= SHORTEST_SECRET and not words


def _start_of(secret: str) -> str:
    """The beginning by which it is known when it is cut short."""
    start = secret[:START_LENGTH]
    return secret if WORDS.fullmatch(start.strip("-_ .")) else start


def _spans(secret: str, text: str) -> Iterator[tuple[int, int]]:
    """Where it stands, in full or cut short."""
    beginning = _start_of(secret)
    start = text.find(beginning)
    while start >= 0:
        end = start + len(beginning)
        while end < len(text) and end - start < len(secret) and text[end] == secret[end - start]:
            end += 1
        yield start, end
        start = text.find(beginning, end)


def _is_random(match: re.Match[str]) -> bool:
    """Whether what has a key's form is drawn like one, and not written like a word."""
    parts = re.findall(r"[A-Za-z0-9]+", next(filter(None, match.groups())))
    length = sum(map(len, parts))
    # Within what no hyphen parts: prose is made of words of one kind.
    kinds = [[(letter.isdigit(), letter.isupper()) for letter in part] for part in parts]
    changes = sum(before != after for part in kinds for before, after in pairwise(part))
    return length >= SHORTEST_RANDOM and changes >= MIXED_SHARE * (length - 1)
