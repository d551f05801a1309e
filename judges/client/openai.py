"""The chat-completions protocol over aiohttp: requests, answers of bounded size, and errors."""

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Annotated, Protocol, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from msgspec import Meta, Struct

from judges.client.keys import Redactor
from judges.client.prices import token_bound
from judges.protocol import (
    LONGEST_WORD,
    OPENAI_REASONING,
    ChatBody,
    Choice,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
    Usage,
    reply_of,
)

MAX_ANSWER_BYTES = 8 * 2**20  # several times what replies and their alternatives take
LONGEST_EXCERPT, LONGEST_SEARCHED = 300, 10_000
OTHER_FILES = 64  # that this process may open beside its connections

# Parts of a request that can be left out, and how an endpoint that refuses one names it.
OPTIONAL = {
    "max_tokens": r"use .?max_completion_tokens",
    "temperature": r"\btemperature\b",
    "seed": r"\bseed\b",
    "reasoning_effort": r"\breasoning_effort\b",
    "n": r"\bn\b|multiple (?:choices|completions|candidates)|candidate_?count",
    "system message": r"\bsystem\b|developer instruction|roles must alternate",
}
# The fields of an error that describe it.
GEMINI = ("details", "violations", "quotaId")
ERROR_FIELDS = ("error", "message", "detail", "loc", "msg", "param", "code", *GEMINI)
# LiteLLM's proxy answers 401 for its own key at a provider, too.
PROXY_KEY = "litellm.AuthenticationError"
TOP_UP = "; the same command goes on once the account has more"
NO_LOGPROBS = (
    "; the plan 'weighted' needs 20 log-probabilities a token: use --plan one or --plan mean with "
    "this model"
)

_log = logging.getLogger(__name__)
_warn_once = lru_cache(_log.warning)


class Spelling:
    """How requests are spelled for one model, learned from the errors that it answers with.

    `left_out` are the names that requests go without, and `changes` says so in sentences.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.changes: list[str] = []
        self.left_out: set[str] = set()
        if OPENAI_REASONING.match(model):
            self.leave_out("max_tokens")
            self.leave_out("temperature")

    def body(self, messages: Sequence[Message], sampling: Sampling) -> ChatBody:
        """The request without what the model is known to refuse."""
        limit = "max_completion_tokens" if "max_tokens" in self.left_out else "max_tokens"
        if "system message" in self.left_out:
            messages = _without_system_message(messages)
        fields = {limit: sampling.max_tokens} | sampling.fields()
        fields = {name: value for name, value in fields.items() if name not in self.left_out}
        return cast(ChatBody, {"model": self.model, "messages": messages, **fields})

    def learn(self, body: ChatBody, answer: bytes) -> bool:
        """Learn from a 400 or 422 what to leave out; returns whether to send the request again.

        Log-probabilities are never left out: a plan that needs them is not changed in silence.
        """
        names = set(body)
        if body["messages"][0]["role"] == "system":
            names.add("system message")
        if not self.left_out.isdisjoint(names):
            return True  # it was sent before another request's error taught the same
        error = complaint(answer)
        for name, cue in OPTIONAL.items():
            if name in names and re.search(cue, error, re.I):
                self.leave_out(name)
                return True
        return False

    def leave_out(self, name: str) -> None:
        """Leave a parameter out from now on."""
        self.left_out.add(name)
        if name != "max_tokens":  # max_completion_tokens takes its place
            self.note(f"no {name} (requests go without it)")

    def note(self, change: str) -> None:
        """Log once that a request is spelled differently for this endpoint."""
        if change not in self.changes:
            self.changes.append(change)
            # A warning reaches stderr even where logging is not set up.
            _log.warning("%s takes %s", self.model, change)


class EndpointModel:
    """Chat completions at one address; its key goes nowhere else.

    All requests run on one event loop, and connections are kept until `close`. The caller sets the
    timeout and sends at most `most_connections` requests at once: the system's limit on open files,
    less a few for other uses.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(self, name: str, *, url: str, endpoint: str, key: str, key_variable: str) -> None:
        self.name = name
        self.endpoint = endpoint
        self.key, self.key_variable = bool(key), key_variable
        self.spelling = Spelling(name)
        self.changes = self.spelling.changes
        self.secrets = Redactor([key])
        self.most_connections = _most_connections()
        self._url, self._proxy = url, _proxy(url)
        # A compressed answer could unpack to any size.
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
        """The replies and token counts, without keys; TransientError if there are no replies."""
        try:
            body = _ANSWER.decode(answer.decode("utf-8", "replace"))
            replies = [reply_of(choice) for choice in body.choices]
            if not replies:
                raise ValueError("no replies")
        except (ValueError, RecursionError) as error:
            raise malformed(answer, self.secrets, f"{error}; ") from None
        usage = read_usage(body.usage, messages, replies, sampling)
        return self.completion(replies, body.model, usage)

    def completion(self, replies: Sequence[Reply], model: object, usage: Usage) -> Completion:
        """The completion without keys; `model` is what the endpoint calls the model."""
        name = self.secrets.redact(str(model or ""))[:LONGEST_WORD]
        return self.secrets.clean(Completion(replies=tuple(replies), model=name, **asdict(usage)))

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
            # A redirect would send the documents to a host that the user did not name.
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
            # aiohttp quotes malformed data, over several lines.
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
    """The proxy for a URL, from the environment; None for an address on this machine."""
    host = urlsplit(url).hostname or ""
    is_local = host in {"localhost", "127.0.0.1", "::1"}
    return None if is_local or proxy_bypass(host) else getproxies().get(urlsplit(url).scheme)


class _Answer(Struct):
    choices: list[Choice]
    model: str | None = None
    usage: object = None


# Tokens of one request; a larger count is an error of the endpoint and would spend any budget.
Count = Annotated[int, Meta(ge=0, le=100_000_000)]


class _Details(Struct):
    cached_tokens: Count | None = None
    cache_write_tokens: Count | None = None
    cache_creation_tokens: Count | None = None  # DSPy's name for it


class _Counts(Struct):
    prompt_tokens: Annotated[int, Meta(ge=1, le=100_000_000)]
    completion_tokens: Count
    total_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def read_usage(
    counts: object, messages: Sequence[Message], replies: Sequence[Reply], sampling: Sampling
) -> Usage:
    """The tokens of an answer as its endpoint counts them, else an upper bound.

    The bound is `max_tokens` for each reply, since thoughts, which are not shown, may use it up.
    """
    try:
        usage = msgspec.convert(counts, _Counts)
    except msgspec.ValidationError:
        _warn_once("answers do not count their tokens: each is counted at its maximum")
        texts: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
        most = max(token_bound(texts), sampling.n * sampling.max_tokens)
        return Usage(token_bound(messages), most)
    # Gemini and xAI count thoughts, which are billed like other tokens, in the total alone.
    tokens_out = max(usage.completion_tokens, (usage.total_tokens or 0) - usage.prompt_tokens)
    details = usage.prompt_tokens_details or _Details()
    # Cached tokens are cheaper, so that an endpoint may not count more of them than it read.
    cache_reads = min(details.cached_tokens or 0, usage.prompt_tokens)
    cache_writes = details.cache_write_tokens or details.cache_creation_tokens or 0
    cache_writes = min(cache_writes, usage.prompt_tokens - cache_reads)
    return Usage(usage.prompt_tokens, tokens_out, cache_reads, cache_writes)


class ErrorSource(Protocol):
    """The model that an error is from, and the variable that holds its key."""

    name: str
    endpoint: str
    key_variable: str
    secrets: Redactor


# By status and complaint, the first that fits: the exception for an error, and what to do.
ERRORS: tuple[tuple[Collection[int], str, type[ModelError], str], ...] = (
    ({402}, "", FatalModelError, TOP_UP),
    # Gemini words a limit per minute like a quota that is spent, but says when to retry.
    ({429}, r"insufficient[_ ](?:quota|credit|balance)|PerDay", FatalModelError, TOP_UP),
    ({429}, r"check your plan(?!.*retry (?:in|after))", FatalModelError, TOP_UP),
    # The owner of LiteLLM's proxy sets limits.
    (range(500), r"budget has been exceeded|Exceeded\w*Budget", FatalModelError, TOP_UP),
    ({429}, "", ThrottledError, ""),
    ({400, 422}, "(?-i:logprobs)", FatalModelError, NO_LOGPROBS),
    # LiteLLM's proxy says so of an unknown model.
    ({400, 413, 422}, "invalid model name passed in", FatalModelError, ""),
    ({400, 413, 422}, "", RefusedError, ""),
    # OpenRouter's moderation refuses one text; any other 403 is about the key.
    ({403}, "flagged|moderation|content.?(?:filter|policy)", RefusedError, ""),
    ({408, 409, 425}, "", TransientError, ""),
    (range(400, 500), "", FatalModelError, ""),
)


def read_error(source: ErrorSource, status: int, wait: float | None, answer: bytes) -> ModelError:
    """The exception for an HTTP error, on one line without keys; `wait` is its Retry-After."""
    error = complaint(answer)
    where = f"{status} from {source.endpoint}"
    what = f"{where} for {source.name}: {_excerpt(error, source.secrets)}"
    if 300 <= status < 400:
        return FatalModelError(f"{where}: it redirects; name the new address by --api-base")
    if status == 401 and PROXY_KEY in error and isinstance(source, EndpointModel):
        return FatalModelError(f"{what}; that is the proxy's own key for its provider")
    if status == 401:
        variable, name = source.key_variable, source.name
        if getattr(source, "key", True):
            return FatalModelError(f"{where}: the key in {variable} was not accepted for {name}")
        return FatalModelError(f"{where}: {name} wants a key, and {variable} is not set")
    for statuses, pattern, kind, advice in ERRORS:
        if status in statuses and re.search(pattern, error, re.IGNORECASE | re.DOTALL):
            if issubclass(kind, TransientError):
                return kind(what, wait)
            return kind(f"{what}{advice}")
    return TransientError(what, wait, billed=not 500 <= status < 600)


def malformed(answer: bytes, secrets: Redactor, problem: str = "") -> TransientError:
    """The exception for an answer that cannot be read, with its beginning."""
    start = _excerpt(answer[:LONGEST_SEARCHED].decode("utf-8", "replace"), secrets)
    reason = f"{problem}it begins {start!r}" if start else "nothing"
    return TransientError(f"malformed answer ({reason})", billed=True)


def _excerpt(text: str, secrets: Redactor) -> str:
    return " ".join(secrets.redact(text).split())[:LONGEST_EXCERPT]


def complaint(answer: bytes) -> str:
    """The description in an error answer: its texts, or the whole body if it is not JSON."""
    text = ""
    with suppress(ValueError, RecursionError):
        text = " ".join(_texts(msgspec.json.decode(answer)))
    return (text or answer.decode("utf-8", "replace"))[:LONGEST_SEARCHED]


def _texts(value: object) -> Iterator[str]:
    """The texts of an error in any of the forms in use."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in ERROR_FIELDS:
            yield from _texts(value.get(name))


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait by the header Retry-After, which may be a date; None without one."""
    text = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _without_system_message(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with the system's at the beginning of the user's first one."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    content = f"{messages[0]['content']}\n\n{messages[1]['content']}"
    return [{"role": "user", "content": content}, *messages[2:]]
