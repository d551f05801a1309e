"""The chat-completions protocol over aiohttp: requests, bounded answers, and what errors mean."""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Annotated, Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from msgspec import Meta, Struct

from judges.client.keys import Redactor
from judges.client.prices import token_bound
from judges.protocol import (
    OPENAI_REASONING,
    REFUSAL,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    Token,
    TransientError,
    UnreachableError,
    Usage,
)

MAX_ANSWER_BYTES = 8 * 2**20  # several times what replies and their alternatives take
LONGEST_EXCERPT, LONGEST_SEARCHED, LONGEST_WORD = 300, 10_000, 200
OTHER_FILES = 64  # that this process may open beside its connections

# What requests can do without, and how a refusal names it.
OPTIONAL = {
    "max_tokens": r"use .?max_completion_tokens",
    "temperature": r"\btemperature\b",
    "seed": r"\bseed\b",
    "reasoning_effort": r"\breasoning_effort\b",
    "n": r"\bn\b|multiple (?:choices|completions|candidates)|candidate_?count",
    "system message": r"\bsystem\b|developer instruction|roles must alternate",
}
# The fields of an error that say what is wrong.
GEMINI = ("details", "violations", "quotaId")
SAID = ("error", "message", "detail", "loc", "msg", "param", "code", *GEMINI)
# OpenRouter's moderation of a text; any other 403 is about the key.
FLAGGED = re.compile(r"flagged|moderation|content.?(?:filter|policy)", re.I)
# Gemini words a limit on requests a minute alike, and says there when to come again.
QUOTA = re.compile(
    r"insufficient[_ ](?:quota|credit|balance)|PerDay|check your plan(?!.*retry (?:in|after))",
    re.IGNORECASE | re.DOTALL,
)
NO_LOGPROBS = (
    "the plan 'weighted' needs 20 log-probabilities a token: use --plan one or --plan mean with "
    "this model"
)

_log = logging.getLogger(__name__)
_warn_once = lru_cache(_log.warning)


class Spelling:
    """How one model takes requests, learned from what it refuses.

    `changes` says what differs from what was asked for; `refused` are names that are left out.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.changes: list[str] = []
        self.refused: set[str] = set()
        if OPENAI_REASONING.match(model):
            self.refuse("max_tokens")
            self.refuse("temperature")

    def body(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        """The request as the model takes it, as far as is known."""
        limit = "max_completion_tokens" if "max_tokens" in self.refused else "max_tokens"
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _joined(messages) if "system message" in self.refused else messages,
            limit: sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "n": sampling.n if sampling.n > 1 else None,
            "reasoning_effort": sampling.reasoning_effort,
            "logprobs": True if sampling.top_logprobs else None,
            "top_logprobs": sampling.top_logprobs or None,
        }
        return {
            name: value
            for name, value in body.items()
            if value is not None and name not in self.refused
        }

    def learn(self, body: Mapping[str, Any], answer: bytes) -> bool:
        """Whether what a 400 or 422 answered to a request is mended by asking again, respelled.

        Log-probabilities are never given up: a plan that needs them is not changed in silence.
        """
        asked = dict(body)
        if body["messages"][0]["role"] == "system":
            asked["system message"] = True
        if not self.refused.isdisjoint(asked):
            return True  # sent before the refusal of another request had taught the same
        said = complaint(answer)
        for name, cue in OPTIONAL.items():
            if name in asked and re.search(cue, said, re.I):
                self.refuse(name)
                return True
        return False

    def refuse(self, name: str) -> None:
        """Leave a parameter out from now on."""
        self.refused.add(name)
        if name != "max_tokens":  # max_completion_tokens takes its place
            self.note(f"no {name} (requests go without it)")

    def note(self, change: str) -> None:
        """Say a change, once."""
        if change not in self.changes:
            self.changes.append(change)
            # A warning reaches stderr, also where nobody set up logging.
            _log.warning("%s takes %s", self.model, change)


class EndpointModel:
    """Chat completions at one address; its key goes nowhere else.

    Asked on one event loop, where connections are kept until `close`. Who asks sets the timeout,
    and keeps to `most_connections` at once: the system's limit on files, less a few for others.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(self, name: str, *, url: str, endpoint: str, key: str, key_variable: str) -> None:
        self.name = name
        self.endpoint = endpoint
        self.key_variable = key_variable
        self.spelling = Spelling(name)
        self.changes = self.spelling.changes
        self.secrets = Redactor([key])
        self.most_connections = _most_connections()
        self._url, self._proxy = url, _proxy(url)
        # A packed answer could grow without limit.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        body = self.spelling.body(messages, sampling)
        status, headers, answer = await self._post(msgspec.json.encode(body))
        if 200 <= status < 300:
            return self.read_answer(answer, messages, sampling)
        if status in {400, 422} and self.spelling.learn(body, answer):
            return await self.complete(messages, sampling)
        raise read_error(self, status, retry_after_of(headers), answer)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def read_answer(
        self, answer: bytes, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        """Replies and counts, without keys; raises TransientError where it holds no replies."""
        try:
            body = _ANSWER.decode(answer.decode("utf-8", "replace"))
            replies = tuple([_reply(choice) for choice in body.choices])
            if not replies:
                raise ValueError("no replies")
        except (ValueError, RecursionError) as error:
            start = _excerpt(answer[:LONGEST_SEARCHED].decode("utf-8", "replace"), self.secrets)
            reason = f"{error}; it begins {start!r}" if start else "nothing"
            raise TransientError(f"malformed answer ({reason})", billed=True) from None
        usage = read_usage(body.usage, messages, replies, sampling)
        model = self.secrets.redact(body.model or "")[:LONGEST_WORD]
        counts = usage.tokens_in, usage.tokens_out, usage.cache_reads, usage.cache_writes
        return self.secrets.clean(Completion(*counts, replies=replies, model=model))

    async def _post(self, data: bytes) -> tuple[int, Mapping[str, str], bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        try:
            # A redirect would take the documents to a host that nobody named.
            async with self._session.post(
                self._url, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                answer = bytearray()
                async for chunk in response.content.iter_any():
                    answer += chunk
                    if len(answer) > MAX_ANSWER_BYTES:
                        raise TransientError(
                            f"an answer of more than {MAX_ANSWER_BYTES:,} bytes", billed=True
                        )
                return response.status, response.headers, bytes(answer)
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(f"no connection to {self.endpoint}: {error.os_error}") from None
        except aiohttp.ClientError as error:
            # The library quotes what it could not read, over several lines.
            reason = _excerpt(f"{type(error).__name__}: {error}", self.secrets)
            raise TransientError(
                f"connection to {self.endpoint} lost ({reason})", billed=True
            ) from None


def _most_connections() -> int:
    try:
        from resource import RLIMIT_NOFILE, getrlimit
    except ImportError:  # Windows
        return 500
    return max(1, getrlimit(RLIMIT_NOFILE)[0] - OTHER_FILES)


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for a URL; none for this machine."""
    host = urlsplit(url).hostname or ""
    is_local = host in {"localhost", "127.0.0.1", "::1"}
    return None if is_local or proxy_bypass(host) else getproxies().get(urlsplit(url).scheme)


class Alternative(Struct):
    token: str
    logprob: float


class TokenAnswer(Alternative):
    """A token as the protocol has it."""

    top_logprobs: list[Alternative] | None = None


class _Logprobs(Struct):
    content: list[TokenAnswer] | None = None


class _Part(Struct):
    """Mistral's models that think give parts, thoughts among them."""

    type: str
    text: str = ""


class _Message(Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None


class _Choice(Struct):
    message: _Message | None = None  # Azure's filters leave it out
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Answer(Struct):
    choices: list[_Choice]
    model: str | None = None
    usage: Any = None


# No request takes more tokens than that; a count above it is an error, and would end any budget.
Count = Annotated[int, Meta(ge=0, le=100_000_000)]


class _Details(Struct):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cache_creation_tokens: Count | None = None  # as DSPy says it


class _Counts(Struct):
    prompt_tokens: Annotated[int, Meta(ge=1, le=100_000_000)]
    completion_tokens: Count
    total_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def _reply(choice: _Choice) -> Reply:
    message = choice.message or _Message()
    content = message.content or ""
    if isinstance(content, list):
        content = "".join(part.text for part in content if part.type == "text")
    tokens = (choice.logprobs and choice.logprobs.content) or ()
    reason = (choice.finish_reason or "stop")[:LONGEST_WORD]
    return Reply(
        text=content or message.refusal or "",
        tokens=tuple(map(token_of, tokens)),
        finish_reason=REFUSAL if message.refusal and not content else reason,
    )


def token_of(answer: TokenAnswer) -> Token:
    """A token and its likeliest alternatives, itself among them."""
    top: dict[str, float] = {}
    for each in (*(answer.top_logprobs or ()), answer):
        top.setdefault(each.token, each.logprob)
    return Token(answer.token, top)


def read_usage(
    counts: object, messages: Sequence[Message], replies: Sequence[Reply], sampling: Sampling
) -> Usage:
    """What an answer took as its endpoint counts it; else the most that it may have taken.

    Thoughts, which are not shown, may then have used all that `max_tokens` allows.
    """
    try:
        counted = msgspec.convert(counts, _Counts)
    except msgspec.ValidationError:
        _warn_once("answers do not say how many tokens they took: each is counted at its most")
        written: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
        most = max(token_bound(written), sampling.n * sampling.max_tokens)
        return Usage(token_bound(messages), most)
    # Gemini and xAI count thoughts in the total alone; they are billed like the others.
    all_written = (counted.total_tokens or 0) - counted.prompt_tokens
    details = counted.prompt_tokens_details or _Details()
    # No more than were read: each has a price below that of a token read.
    cached = min(details.cached_tokens or 0, counted.prompt_tokens)
    written_to_cache = details.cache_write_tokens or details.cache_creation_tokens or 0
    return Usage(
        counted.prompt_tokens,
        max(counted.completion_tokens, all_written),
        cached,
        min(written_to_cache, counted.prompt_tokens - cached),
    )


class Asked(Protocol):
    """Who answered with an error: a model, and where its key is kept."""

    name: str
    endpoint: str
    key_variable: str
    secrets: Redactor


def read_error(asked: Asked, status: int, wait: float | None, answer: bytes) -> ModelError:
    """What an error answer, which asks to `wait` so many seconds, means; a line without keys."""
    said = complaint(answer)
    where = f"{status} from {asked.endpoint}"
    what = f"{where} for {asked.name}: {_excerpt(said, asked.secrets)}"
    if 300 <= status < 400:
        return FatalModelError(f"{where}: it redirects; name the new address by --api-base")
    if status == 401:
        return FatalModelError(
            f"{where}: the key in {asked.key_variable} was not accepted for {asked.name}"
        )
    if status == 402 or (status == 429 and QUOTA.search(said)):
        return FatalModelError(f"{what}; the same command goes on once the account has more")
    if status == 429:
        return ThrottledError(what, wait)
    if status in {400, 422} and "logprobs" in said:
        return FatalModelError(f"{what}; {NO_LOGPROBS}")
    if status in {400, 413, 422} or (status == 403 and FLAGGED.search(said)):
        return RefusedError(what)
    if 400 <= status < 500 and status not in {408, 409, 425}:
        return FatalModelError(what)
    return TransientError(what, wait, billed=not 400 <= status < 600)


def _excerpt(said: str, secrets: Redactor) -> str:
    return " ".join(secrets.redact(said).split())[:LONGEST_EXCERPT]


def complaint(answer: bytes) -> str:
    """What an error answer says, with the names of what it is about."""
    said = ""
    with suppress(ValueError, RecursionError):
        said = " ".join(_texts(msgspec.json.decode(answer)))
    return (said or answer.decode("utf-8", "replace"))[:LONGEST_SEARCHED]


def _texts(value: object) -> Iterator[str]:
    """The texts of an error, whichever of the forms in use it has."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in SAID:
            yield from _texts(value.get(name))


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds an answer asks to wait (it may name a date); None where it does not say."""
    text = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _joined(messages: Sequence[Message]) -> Sequence[Message]:
    """The same with the system's message at the head of the user's first."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    joined = f"{messages[0]['content']}\n\n{messages[1]['content']}"
    return [{"role": "user", "content": joined}, *messages[2:]]
