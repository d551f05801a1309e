"""Ask models at OpenAI-compatible endpoints, and read the replies and errors in their responses."""

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from typing import Annotated, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from msgspec import Meta, Struct

from judges.client.keys import Redactor
from judges.client.log import warn_once
from judges.client.prices import max_prompt_tokens
from judges.protocol import (
    MAX_NAME_LENGTH,
    OPENAI_REASONING_MODELS,
    Completion,
    CompletionChoice,
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
)

MAX_RESPONSE_BYTES = 8 * 2**20  # several times the size of the largest regular response
# The most characters of an error response that are searched for the patterns in ERROR_RULES.
MAX_SEARCHED_CHARACTERS = 10_000
# The parts of a request that can be left out, each with a pattern that matches the error messages
# of endpoints that do not accept the part.
ERROR_PATTERN_BY_REQUEST_PART = {
    "max_tokens": r"use .?max_completion_tokens",
    "temperature": r"\btemperature\b",
    "seed": r"\bseed\b",
    "reasoning_effort": r"\breasoning_effort\b",
    "n": r"\bn\b|multiple (?:choices|completions|candidates)|candidate_?count",
    "system message": r"\bsystem\b|developer instruction|roles must alternate",
}
# The JSON fields of an error response that describe the error.
GEMINI_FIELDS = ("details", "violations", "quotaId")
ERROR_FIELDS = ("error", "message", "detail", "loc", "msg", "param", "code", *GEMINI_FIELDS)
# A LiteLLM proxy answers 401 with these words if the provider refuses the proxy's own key.
PROXY_KEY_ERROR = "litellm.AuthenticationError"
# Templates of error messages; `read_error` fills in the fields in braces.
REDIRECT_MESSAGE = "{origin}: the endpoint redirects; give the new address by --api-base"
KEY_MESSAGE = (
    "{origin}: the key in {model.key_variable} is missing or was not accepted for {model.name}"
)
TOP_UP_MESSAGE = "{message}; run the same command again when the account has more credit"
NO_LOGPROBS_MESSAGE = (
    "{message}; the plan 'weighted' needs 20 log-probabilities for each token: use --plan one or "
    "--plan mean with this model"
)
SHORTER_REPLY_MESSAGE = "{message}; a smaller --max-tokens leaves more room for the text"
REPLY_TOO_LONG_PATTERN = r"context.*in the completion|max_\w*tokens\W.*(?:too large|context)"

# Each rule has HTTP statuses, a pattern for the error text, the exception to raise, and its
# message. The first rule whose statuses and pattern fit a response is used.
ERROR_RULES: tuple[tuple[Collection[int], str, type[ModelError], str], ...] = (
    (range(300, 400), "", FatalModelError, REDIRECT_MESSAGE),
    ({401}, "", FatalModelError, KEY_MESSAGE),
    ({402}, "", FatalModelError, TOP_UP_MESSAGE),
    # Gemini has the same message for a limit per minute and for a spent quota. The message says
    # when to retry only if the limit is per minute.
    ({429}, r"insufficient[_ ](?:quota|credit|balance)|PerDay", FatalModelError, TOP_UP_MESSAGE),
    ({429}, r"check your plan(?!.*retry (?:in|after))", FatalModelError, TOP_UP_MESSAGE),
    # The owner of a LiteLLM proxy can limit the spending of a key.
    (range(500), r"budget has been exceeded|Exceeded\w*Budget", FatalModelError, TOP_UP_MESSAGE),
    ({429}, "", ThrottledError, "{message}"),
    ({400, 422}, "(?-i:logprobs)", FatalModelError, NO_LOGPROBS_MESSAGE),
    # The message of a LiteLLM proxy for an unknown model.
    ({400, 413, 422}, "invalid model name passed in", FatalModelError, "{message}"),
    # The model's context has room for the prompt, but not for the prompt and the longest reply.
    ({400, 422}, REPLY_TOO_LONG_PATTERN, RefusedError, SHORTER_REPLY_MESSAGE),
    ({400, 413, 422}, "", RefusedError, "{message}"),
    # OpenRouter answers 403 if its moderation refuses one text; any other 403 is about the key.
    ({403}, "flagged|moderation|content.?(?:filter|policy)", RefusedError, "{message}"),
    ({408, 409, 425}, "", TransientError, "{message}"),
    (range(400, 500), "", FatalModelError, "{message}"),
)

_log = logging.getLogger(__name__)


class RequestFormat:
    """Makes the JSON bodies of requests, and learns from errors which parts a model refuses.

    `omitted_parts` are the parts of requests that are left out. `changes` describes this in words.
    """

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name
        self.changes: list[str] = []
        self.omitted_parts: set[str] = set()
        if OPENAI_REASONING_MODELS.match(model_name):
            self.omit_part("max_tokens")
            self.omit_part("temperature")

    def make_body(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        """Return the JSON body of a request, without the parts in `omitted_parts`."""
        if "system message" in self.omitted_parts:
            messages = _without_system_message(messages)
        request_fields = sampling.request_fields()
        if "max_tokens" in self.omitted_parts:
            request_fields = {"max_completion_tokens": sampling.max_tokens, **request_fields}
        for request_part in self.omitted_parts:
            request_fields.pop(request_part, None)
        return {"model": self.model_name, "messages": messages, **request_fields}

    def learn_from(self, request_body: Mapping[str, Any], response_body: bytes) -> bool:
        """Learn from a response with status 400 or 422 which part of the request to leave out.

        Returns whether the request should be sent again. Log-probabilities are never left out,
        since the judge that asked for them needs them.
        """
        request_parts = set(request_body)
        messages = request_body["messages"]
        if _without_system_message(messages) != messages:
            request_parts.add("system message")
        if not self.omitted_parts.isdisjoint(request_parts):
            return True  # another request with the same part has failed since this one was sent
        error_text = read_error_text(response_body)
        for request_part, pattern in ERROR_PATTERN_BY_REQUEST_PART.items():
            if request_part in request_parts and re.search(pattern, error_text, re.I):
                self.omit_part(request_part)
                return True
        return False

    def omit_part(self, request_part: str) -> None:
        self.omitted_parts.add(request_part)
        if request_part != "max_tokens":  # requests have max_completion_tokens instead
            self.log_change(f"no {request_part} (requests go without it)")

    def log_change(self, change: str) -> None:
        """Log how requests to this model differ from other requests; each change only once."""
        if change not in self.changes:
            self.changes.append(change)
            # A warning, since Python prints warnings to stderr even if logging is not configured.
            _log.warning("%s takes %s", self.model_name, change)


class HttpModel:
    """A model that is asked over HTTP; turns the endpoint's error responses into exceptions."""

    _url = ""  # where this project sends the requests; "" if DSPy sends them

    def __init__(self, name: str, endpoint: str, key_variable: str, api_key: str = "") -> None:
        self.name, self.endpoint, self.key_variable = name, endpoint, key_variable
        self.redactor, self.request_format = Redactor([api_key]), RequestFormat(name)

    def read_error(self, status: int, retry_after: float | None, error_body: bytes) -> ModelError:
        """Return the exception for an HTTP error; the message is one line, with keys redacted."""
        error_text = read_error_text(error_body)
        origin = f"{status} from {self.endpoint}"
        message = f"{origin} for {self.name}: {self.redactor.excerpt(error_text)}"
        if self._url and status == 401 and PROXY_KEY_ERROR in error_text:
            return FatalModelError(f"{message}; the provider refuses the proxy's key, not yours")
        if self._url and status == 404 and "/v1" not in self._url:
            return FatalModelError(f"{message}; addresses usually end in /v1 (--api-base)")
        for statuses, pattern, error_class, template in ERROR_RULES:
            if status in statuses and re.search(pattern, error_text, re.IGNORECASE | re.DOTALL):
                full_message = template.format(message=message, origin=origin, model=self)
                if issubclass(error_class, TransientError):
                    return error_class(full_message, retry_after)
                return error_class(full_message)
        return TransientError(message, retry_after, may_be_billed=not 500 <= status < 600)

    def make_completion(self, replies: list[Reply], model_name: object, usage: Usage) -> Completion:
        """Return a completion with keys redacted, since a server may quote a key in an answer."""
        redacted_name = self.redactor.redact(str(model_name or ""))[:MAX_NAME_LENGTH]
        redacted_replies = tuple([self._redact_reply(reply) for reply in replies])
        return Completion(replies=redacted_replies, model=redacted_name, **asdict(usage))

    def _redact_reply(self, reply: Reply) -> Reply:
        """Return the reply with API keys redacted; a reply that contains a key loses its tokens."""
        # The tokens are joined before the search, since a key may span several tokens.
        texts = [reply.text, reply.finish_reason, "".join([token.text for token in reply.tokens])]
        for token in reply.tokens:
            texts += token.top_logprobs
        if not self.redactor.has_secret("\0".join(texts)):
            return reply
        redact = self.redactor.redact
        return Reply(text=redact(reply.text), finish_reason=redact(reply.finish_reason))

    def malformed_response(self, response_body: bytes, problem: str = "") -> TransientError:
        """Return the exception for an unreadable response; its message quotes the response."""
        response_text = response_body[:MAX_SEARCHED_CHARACTERS].decode("utf-8", "replace")
        beginning = self.redactor.excerpt(response_text)
        reason = f"{problem}the answer begins {beginning!r}" if beginning else "the answer is empty"
        return TransientError(f"malformed answer ({reason})", may_be_billed=True)


class EndpointModel(HttpModel):
    """A model behind a chat-completions endpoint; the API key is sent to this endpoint only.

    All requests must run on one event loop. Connections stay open until `close` is called.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(self, name: str, url: str, endpoint: str, api_key: str, key_variable: str) -> None:
        super().__init__(name, endpoint, key_variable, api_key)
        self.changes = self.request_format.changes  # `tune` writes them to summary.json
        host = urlsplit(url).hostname or ""
        bypasses_proxy = host in {"localhost", "127.0.0.1", "::1"} or proxy_bypass(host)
        proxy = getproxies().get(urlsplit(url).scheme)
        self._url, self._proxy = url, None if bypasses_proxy else proxy
        # Compressed responses are not accepted, since one could unpack to any size.
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._session: aiohttp.ClientSession | None = None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        request_body = self.request_format.make_body(messages, sampling)
        status, headers, response_body = await self._post(msgspec.json.encode(request_body))
        if 200 <= status < 300:
            return self.read_completion(response_body, messages, sampling)
        if status in {400, 422} and self.request_format.learn_from(request_body, response_body):
            return await self.complete(messages, sampling)
        raise self.read_error(status, read_retry_after(headers), response_body)

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def read_completion(
        self, response_body: bytes, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        """Read the replies and token counts in a response; raises TransientError if malformed."""
        try:
            response_text = response_body.decode("utf-8", "replace")
            response = msgspec.json.decode(response_text, type=_ChatCompletion)
            replies = [choice.as_reply() for choice in response.choices]
            if not replies:
                raise ValueError("no replies")
        except (ValueError, RecursionError) as error:
            raise self.malformed_response(response_body, f"{error}; ") from None
        usage = read_usage(response.usage, messages, replies, sampling)
        return self.make_completion(replies, response.model, usage)

    async def _post(self, request_json: bytes) -> tuple[int, Mapping[str, str], bytes]:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        try:
            # Redirects are refused, since the user named only this host to send documents to.
            async with self._session.post(
                self._url, data=request_json, proxy=self._proxy, allow_redirects=False
            ) as response:
                response_body = bytearray()
                async for chunk in response.content.iter_any():
                    response_body += chunk
                    if len(response_body) > MAX_RESPONSE_BYTES:
                        message = f"an answer of more than {MAX_RESPONSE_BYTES:,} bytes"
                        raise TransientError(message, may_be_billed=True)
                return response.status, response.headers, bytes(response_body)
        except aiohttp.ClientConnectorError as error:
            raise UnreachableError(f"no connection to {self.endpoint}: {error.os_error}") from None
        except aiohttp.ClientError as error:
            # aiohttp's message may quote several lines of malformed data, so it is shortened.
            reason = self.redactor.excerpt(f"{type(error).__name__}: {error}")
            message = f"connection to {self.endpoint} lost ({reason})"
            raise TransientError(message, may_be_billed=True) from None


class _ChatCompletion(Struct):
    choices: list[CompletionChoice]
    model: str | None = None
    usage: object = None


# The number of tokens of one request. If an endpoint reports more, this must be an error, which
# would use up the whole budget.
TokenCount = Annotated[int, Meta(ge=0, le=100_000_000)]


class _InputTokenDetails(Struct):
    cached_tokens: TokenCount | None = None
    cache_write_tokens: TokenCount | None = None
    cache_creation_tokens: TokenCount | None = None  # DSPy's name for cache_write_tokens


class _ReportedUsage(Struct):
    prompt_tokens: Annotated[int, Meta(ge=1, le=100_000_000)]
    completion_tokens: TokenCount
    total_tokens: TokenCount | None = None
    prompt_tokens_details: _InputTokenDetails | None = None


def read_usage(
    raw_usage: object, messages: Sequence[Message], replies: Sequence[Reply], sampling: Sampling
) -> Usage:
    """Return the token counts that an endpoint reports; if it reports none, an upper bound.

    The upper bound counts `max_tokens` for each reply, since a reply may have hidden reasoning.
    """
    try:
        usage = msgspec.convert(raw_usage, _ReportedUsage)
    except msgspec.ValidationError:
        warn_once("the model's answers report no token counts: an upper bound is counted instead")
        reply_messages = [Message(role="assistant", content=reply.text) for reply in replies]
        max_tokens_out = max(max_prompt_tokens(reply_messages), sampling.n * sampling.max_tokens)
        return Usage(max_prompt_tokens(messages), max_tokens_out)
    # Gemini and xAI count reasoning tokens, which are billed as output, only in the total.
    tokens_out = max(usage.completion_tokens, (usage.total_tokens or 0) - usage.prompt_tokens)
    details = usage.prompt_tokens_details or _InputTokenDetails()
    # Cached tokens are cheaper, so no more of them are counted than the prompt has tokens.
    cache_read_tokens = min(details.cached_tokens or 0, usage.prompt_tokens)
    cache_write_tokens = details.cache_write_tokens or details.cache_creation_tokens or 0
    cache_write_tokens = min(cache_write_tokens, usage.prompt_tokens - cache_read_tokens)
    return Usage(usage.prompt_tokens, tokens_out, cache_read_tokens, cache_write_tokens)


def read_error_text(response_body: bytes) -> str:
    """Return the description of an error: the strings in the JSON of a response, else its text."""
    description = ""
    with suppress(ValueError, RecursionError):
        description = " ".join(_error_strings(msgspec.json.decode(response_body)))
    return (description or response_body.decode("utf-8", "replace"))[:MAX_SEARCHED_CHARACTERS]


def _error_strings(json_value: object) -> Iterator[str]:
    """Yield the strings in the JSON of an error: those in lists and in the fields ERROR_FIELDS."""
    if isinstance(json_value, str):
        yield json_value
    elif isinstance(json_value, list):
        for element in json_value:
            yield from _error_strings(element)
    elif isinstance(json_value, dict):
        for name in ERROR_FIELDS:
            yield from _error_strings(json_value.get(name))


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by the header Retry-After; None if it is missing or malformed."""
    header_value = headers.get("retry-after", "")
    with suppress(ValueError):
        return max(0.0, float(header_value))
    with suppress(ValueError):
        return max(0.0, parsedate_to_datetime(header_value).timestamp() - time.time())
    return None


def _without_system_message(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the messages with the system message, if any, joined to the user message after it."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    content = f"{messages[0]['content']}\n\n{messages[1]['content']}"
    return [{"role": "user", "content": content}, *messages[2:]]
