"""Send chat-completions requests through aiohttp, and read their answers and errors."""

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
    MAX_NAME_LENGTH,
    OPENAI_REASONING_MODELS,
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

MAX_ANSWER_BYTES = 8 * 2**20  # several times the size of the largest regular answer
# The most characters of an answer that an error quotes, and that are searched for a known error.
LONGEST_EXCERPT, LONGEST_SEARCHED = 300, 10_000
OTHER_FILES = 64  # files that this process may open in addition to its connections

# Parts of a request that can be left out, each with a pattern of the error by which an endpoint
# refuses it.
OPTIONAL_PARTS = {
    "max_tokens": r"use .?max_completion_tokens",
    "temperature": r"\btemperature\b",
    "seed": r"\bseed\b",
    "reasoning_effort": r"\breasoning_effort\b",
    "n": r"\bn\b|multiple (?:choices|completions|candidates)|candidate_?count",
    "system message": r"\bsystem\b|developer instruction|roles must alternate",
}
# The fields of an error answer that describe the error.
GEMINI_FIELDS = ("details", "violations", "quotaId")
ERROR_FIELDS = ("error", "message", "detail", "loc", "msg", "param", "code", *GEMINI_FIELDS)
# LiteLLM's proxy also answers 401, with these words, if a provider refuses the proxy's own key.
PROXY_KEY_ERROR = "litellm.AuthenticationError"
TOP_UP_ADVICE = "; the same command goes on when the account has more credit"
NO_LOGPROBS_ADVICE = (
    "; the plan 'weighted' needs 20 log-probabilities for each token: use --plan one or --plan "
    "mean with this model"
)

_log = logging.getLogger(__name__)
_warn_once = lru_cache(_log.warning)


class RequestFormat:
    """The form of requests that a model accepts, learned from its errors.

    `left_out` has the names of the parts that requests go without, and `changes` a phrase for each.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.changes: list[str] = []
        self.left_out: set[str] = set()
        if OPENAI_REASONING_MODELS.match(model):
            self.leave_out("max_tokens")
            self.leave_out("temperature")

    def body(self, messages: Sequence[Message], sampling: Sampling) -> ChatBody:
        """The body of a request, without the parts that the model is known to refuse."""
        limit = "max_completion_tokens" if "max_tokens" in self.left_out else "max_tokens"
        if "system message" in self.left_out:
            messages = _without_system_message(messages)
        fields = {limit: sampling.max_tokens} | sampling.fields()
        fields = {name: value for name, value in fields.items() if name not in self.left_out}
        return cast(ChatBody, {"model": self.model, "messages": messages, **fields})

    def learn(self, body: ChatBody, answer: bytes) -> bool:
        """Learn from the answer to a 400 or 422 which part of the request to leave out.

        Returns whether the request should be sent again. Log-probabilities are never left out,
        since a plan that needs them must not be changed silently.
        """
        names = set(body)
        if body["messages"][0]["role"] == "system":
            names.add("system message")
        if not self.left_out.isdisjoint(names):
            return True  # the request was sent before this part was left out
        error = error_text(answer)
        for name, pattern in OPTIONAL_PARTS.items():
            if name in names and re.search(pattern, error, re.I):
                self.leave_out(name)
                return True
        return False

    def leave_out(self, name: str) -> None:
        """Leave a part out of all further requests."""
        self.left_out.add(name)
        if name != "max_tokens":  # max_completion_tokens takes its place
            self.note(f"no {name} (requests go without it)")

    def note(self, change: str) -> None:
        """Log once that requests to this model have a different form."""
        if change not in self.changes:
            self.changes.append(change)
            # A warning is printed to stderr even if logging is not configured.
            _log.warning("%s takes %s", self.model, change)


class EndpointModel:
    """A model behind a chat-completions endpoint; its key is sent to no other address.

    All requests must run on one event loop, and connections are kept until `close`. The caller sets
    the timeout, and sends at most `most_connections` requests at the same time. This is the
    system's limit on open files, less some files for other uses.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(self, name: str, *, url: str, endpoint: str, key: str, key_variable: str) -> None:
        self.name = name
        self.endpoint = endpoint
        self.key, self.key_variable = bool(key), key_variable
        self.request_format = RequestFormat(name)
        self.changes = self.request_format.changes
        self.redactor = Redactor([key])
        self.most_connections = _most_connections()
        self._url, self._proxy = url, _proxy(url)
        # No compression, since a compressed answer could unpack to any size.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one request; raises ModelError if there is no usable answer."""
        body = self.request_format.body(messages, sampling)
        status, headers, answer = await self._post(msgspec.json.encode(body))
        if 200 <= status < 300:
            return self.read_answer(answer, messages, sampling)
        if status in {400, 422} and self.request_format.learn(body, answer):
            return await self.complete(messages, sampling)
        raise read_error(self, status, retry_after_of(headers), answer)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def read_answer(
        self, answer: bytes, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        """The replies and token counts in an answer, with API keys redacted.

        Raises TransientError if it has no replies.
        """
        try:
            body = _ANSWER.decode(answer.decode("utf-8", "replace"))
            replies = [reply_of(choice) for choice in body.choices]
            if not replies:
                raise ValueError("no replies")
        except (ValueError, RecursionError) as error:
            raise malformed_answer(answer, self.redactor, f"{error}; ") from None
        usage = read_usage(body.usage, messages, replies, sampling)
        return self.completion(replies, body.model, usage)

    def completion(self, replies: Sequence[Reply], model: object, usage: Usage) -> Completion:
        """The completion with API keys redacted; `model` is the endpoint's name for the model."""
        name = self.redactor.redact(str(model or ""))[:MAX_NAME_LENGTH]
        return self.redactor.redact_completion(
            Completion(replies=tuple(replies), model=name, **asdict(usage))
        )

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
            # aiohttp's message may quote malformed data, over several lines.
            reason = _excerpt(f"{type(error).__name__}: {error}", self.redactor)
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


# A number of tokens in one request. A larger one is an error of the endpoint, and would spend any
# budget.
TokenCount = Annotated[int, Meta(ge=0, le=100_000_000)]


class _Details(Struct):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None
    cache_creation_tokens: TokenCount | None = None  # DSPy's name for it


class _Counts(Struct):
    prompt_tokens: Annotated[int, Meta(ge=1, le=100_000_000)]
    completion_tokens: TokenCount
    total_tokens: TokenCount | None = None
    prompt_tokens_details: _Details | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def read_usage(
    counts: object, messages: Sequence[Message], replies: Sequence[Reply], sampling: Sampling
) -> Usage:
    """The token counts that an endpoint reports, else an upper bound.

    The bound assumes `max_tokens` for each reply, since thoughts, which are not shown, may have
    used them all.
    """
    try:
        usage = msgspec.convert(counts, _Counts)
    except msgspec.ValidationError:
        _warn_once("answers do not count their tokens: each is counted at its maximum")
        texts: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
        max_tokens_out = max(token_bound(texts), sampling.n * sampling.max_tokens)
        return Usage(token_bound(messages), max_tokens_out)
    # Gemini and xAI count thoughts, which are billed like other output, only in the total.
    tokens_out = max(usage.completion_tokens, (usage.total_tokens or 0) - usage.prompt_tokens)
    details = usage.prompt_tokens_details or _Details()
    # Cached tokens are cheaper, so that no more of them are accepted than the request has.
    cache_reads = min(details.cached_tokens or 0, usage.prompt_tokens)
    cache_writes = details.cache_write_tokens or details.cache_creation_tokens or 0
    cache_writes = min(cache_writes, usage.prompt_tokens - cache_reads)
    return Usage(usage.prompt_tokens, tokens_out, cache_reads, cache_writes)


class ErrorSource(Protocol):
    """The model whose endpoint answered with an error, as `read_error` needs it."""

    name: str
    endpoint: str
    key_variable: str
    redactor: Redactor


# The exception for an error, and advice for the user, by its status and a pattern of its text. The
# first entry that matches counts.
ERRORS: tuple[tuple[Collection[int], str, type[ModelError], str], ...] = (
    ({402}, "", FatalModelError, TOP_UP_ADVICE),
    # Gemini uses the same words for a limit per minute and a spent quota, but then says when to
    # retry.
    ({429}, r"insufficient[_ ](?:quota|credit|balance)|PerDay", FatalModelError, TOP_UP_ADVICE),
    ({429}, r"check your plan(?!.*retry (?:in|after))", FatalModelError, TOP_UP_ADVICE),
    # The limits that the owner of a LiteLLM proxy has set.
    (range(500), r"budget has been exceeded|Exceeded\w*Budget", FatalModelError, TOP_UP_ADVICE),
    ({429}, "", ThrottledError, ""),
    ({400, 422}, "(?-i:logprobs)", FatalModelError, NO_LOGPROBS_ADVICE),
    # The words of LiteLLM's proxy for an unknown model.
    ({400, 413, 422}, "invalid model name passed in", FatalModelError, ""),
    ({400, 413, 422}, "", RefusedError, ""),
    # OpenRouter's moderation refuses one text; any other 403 is about the key.
    ({403}, "flagged|moderation|content.?(?:filter|policy)", RefusedError, ""),
    ({408, 409, 425}, "", TransientError, ""),
    (range(400, 500), "", FatalModelError, ""),
)


def read_error(
    source: ErrorSource, status: int, retry_after: float | None, answer: bytes
) -> ModelError:
    """The exception for an HTTP error; its message is one line, with API keys redacted."""
    error = error_text(answer)
    origin = f"{status} from {source.endpoint}"
    message = f"{origin} for {source.name}: {_excerpt(error, source.redactor)}"
    if 300 <= status < 400:
        return FatalModelError(f"{origin}: it redirects; name the new address by --api-base")
    if status == 401 and PROXY_KEY_ERROR in error and isinstance(source, EndpointModel):
        return FatalModelError(f"{message}; that is the proxy's own key for its provider")
    if status == 401:
        variable, name = source.key_variable, source.name
        if getattr(source, "key", True):
            return FatalModelError(f"{origin}: the key in {variable} was not accepted for {name}")
        return FatalModelError(f"{origin}: {name} needs a key, and {variable} is not set")
    for statuses, pattern, error_class, advice in ERRORS:
        if status in statuses and re.search(pattern, error, re.IGNORECASE | re.DOTALL):
            if issubclass(error_class, TransientError):
                return error_class(message, retry_after)
            return error_class(f"{message}{advice}")
    return TransientError(message, retry_after, billed=not 500 <= status < 600)


def malformed_answer(answer: bytes, redactor: Redactor, problem: str = "") -> TransientError:
    """The exception for an answer that cannot be read; it quotes the answer's beginning."""
    start = _excerpt(answer[:LONGEST_SEARCHED].decode("utf-8", "replace"), redactor)
    reason = f"{problem}it begins {start!r}" if start else "nothing"
    return TransientError(f"malformed answer ({reason})", billed=True)


def _excerpt(text: str, redactor: Redactor) -> str:
    return " ".join(redactor.redact(text).split())[:LONGEST_EXCERPT]


def error_text(answer: bytes) -> str:
    """The description of an error in its answer: its texts, or all of it if it is not JSON."""
    text = ""
    with suppress(ValueError, RecursionError):
        text = " ".join(_texts(msgspec.json.decode(answer)))
    return (text or answer.decode("utf-8", "replace"))[:LONGEST_SEARCHED]


def _texts(value: object) -> Iterator[str]:
    """The texts in the JSON of an error, whatever its form."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in ERROR_FIELDS:
            yield from _texts(value.get(name))


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """The seconds in the header Retry-After, which may be a date; None if there is none."""
    text = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(text))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    return None


def _without_system_message(messages: Sequence[Message]) -> Sequence[Message]:
    """The messages with the system message put before the text of the first user message."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    content = f"{messages[0]['content']}\n\n{messages[1]['content']}"
    return [{"role": "user", "content": content}, *messages[2:]]
