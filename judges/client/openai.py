"""The chat-completions protocol over aiohttp: requests, bounded answers, and what errors mean."""

import asyncio
import errno
import logging
import math
import re
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass
from weakref import WeakKeyDictionary

import aiohttp
import msgspec
from msgspec import Struct

from judges.client.keys import Redactor
from judges.client.prices import token_bound
from judges.client.protocol import (
    OPENAI_REASONING,
    REFUSAL,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    NoConnectionsError,
    RefusedError,
    Reply,
    RespelledError,
    Sampling,
    ThrottledError,
    Token,
    TransientError,
    UnreachableError,
    Usage,
    is_reasoning,
)

LEAST_ANSWER_BYTES, MAX_ANSWER_BYTES = 2 * 2**20, 32 * 2**20
BYTES_PER_TOKEN = 256  # with its own JSON around it
LONGEST_EXCERPT, LONGEST_SEARCHED, LONGEST_WORD = 300, 10_000, 200
OTHER_FILES = 64  # that this process may open beside its connections
# No request takes that many tokens; a count above it is an error, and would end any budget.
MOST_TOKENS = 100_000_000
ROUNDING = 1e-3  # a log-probability so little above 0 is 0
NEVER = -9999.0  # the log-probability of what cannot be

# How answers name the tokens of a kind: OpenAI, LiteLLM and OpenRouter, DeepSeek.
CACHE_READS = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
CACHE_WRITES = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
THOUGHTS = ("reasoning_tokens",)

# What errors say. SAID is what their reader is shown, in this order; NAMED is searched as well.
SAID = ("error", "message", "detail", "loc", "msg")
GEMINI = ("details", "violations", "quotaId")
NAMED = (*SAID, "param", "code", "type", "status", "innererror", *GEMINI)
QUOTA = re.compile(r"insufficient[_ ](?:quota|credit|balance)|PerDay", re.I)
# Gemini words a limit on requests a minute alike; there it says how long to wait.
PLAN = re.compile(r"check your plan|billing", re.I)
FLAGGED = re.compile(r"flagged|moderation|content.?(?:filter|policy|management)", re.I)
TOO_LONG = re.compile(r"context[ _](?:length|window|size)", re.I)
TOO_LARGE = re.compile(r"too (?:large|high)|at most|less than|<=|between|exceed|\bmaximum\b", re.I)
TOKEN_LIMIT = re.compile(r"\bmax_(?:completion_)?tokens\b")
ALTERNATIVES = re.compile(r"top_?logprobs\D{1,120}(?:0 (?:and|to|-) )?(\d{1,3})\b", re.I)
SEVERAL = re.compile(r"\bn\b|multiple (?:choices|completions|candidates)|candidate_?count", re.I)
NO_SYSTEM = re.compile(
    r"system['\"`]? (?:role|message|prompt|instruction)|role['\"`:]{0,3} ?['\"`]?system|"
    r"developer instruction|roles must alternate",
    re.I,
)
# "try again in 1.5s", "Please retry in 1m30s", "try again in 250ms".
WAIT = re.compile(
    r"(?:try again|retry)[^.\d]{0,20} (?:in|after) ((?:\d{1,9}(?:\.\d+)? ?(?:ms|[dhms])[a-z]* ?)+)",
    re.I,
)
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
NO_LOGPROBS = (
    "the plan 'weighted' needs log-probabilities: use --plan one or --plan mean with this model"
)

_log = logging.getLogger(__name__)


class Spelling:
    """How one model takes requests, learned from what it refuses.

    `changes` says what differs from what was asked for; `refused` are names that are left out.
    """

    def __init__(self, model: str) -> None:
        self.model = model
        self.changes: list[str] = []
        self.refused: set[str] = set()
        self.token_limit = "max_tokens"
        self.most_alternatives = 20
        if OPENAI_REASONING.match(model):
            self.token_limit = "max_completion_tokens"
            self.refuse("temperature")

    def body(self, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        """The request as the model takes it, as far as is known."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": _without_system(messages) if "system" in self.refused else messages,
            self.token_limit: sampling.max_tokens,
            "temperature": sampling.temperature,
            "seed": sampling.seed,
            "n": sampling.n if sampling.n > 1 else None,
            "reasoning_effort": sampling.reasoning_effort,
        }
        if sampling.top_logprobs:
            body["logprobs"] = True
            body["top_logprobs"] = min(sampling.top_logprobs, self.most_alternatives)
        return {
            name: value
            for name, value in body.items()
            if value is not None and name not in self.refused
        }

    def learn(self, body: Mapping[str, Any], answer: bytes) -> bool:
        """Whether what a 400 or 422 answered to a request is mended by asking again, respelled.

        Log-probabilities are never given up: a plan that needs them is not changed in silence.
        """
        _, said = complaint(answer)
        has_system = body["messages"][0]["role"] == "system"
        alternatives = body.get("top_logprobs", 0)
        if (
            not self.refused.isdisjoint(body)
            or alternatives > self.most_alternatives
            or (has_system and "system" in self.refused)
        ):
            return True  # sent before the refusal of another request had taught the same
        if TOO_LONG.search(said):
            return False
        if match := ALTERNATIVES.search(said):
            if not 0 < int(match[1]) < alternatives:
                return False
            self.most_alternatives = int(match[1])
            self.note(f"{match[1]} alternatives for a token at most")
            return True
        if TOKEN_LIMIT.search(said):
            (other,) = {"max_tokens", "max_completion_tokens"} - {self.token_limit}
            if other in self.refused or TOO_LARGE.search(said):
                return False
            self.refused.add(self.token_limit)
            self.token_limit = other
            self.note(f"{other} for a limit")
            return True
        if body.get("temperature", 0) > 1 and "temperature" in said and TOO_LARGE.search(said):
            return False  # a lower one is taken, which is its user's choice
        for name in ("temperature", "seed", "reasoning_effort"):
            if name in body and re.search(rf"\b{name}\b", said):
                self.refuse(name, body[name])
                return True
        if "n" in body and SEVERAL.search(said):
            self.refused.add("n")
            self.note("one reply a request (several are asked for one by one)")
            return True
        if has_system and NO_SYSTEM.search(said):
            self.refused.add("system")
            self.note("no system message (joined to the first of the user)")
            return True
        return False

    def refuse(self, name: str, asked: object = None) -> None:
        """Leave a parameter out from now on; `asked` is what was asked for."""
        if name in self.refused:
            return
        self.refused.add(name)
        why = "asked without, so runs repeat less exactly"
        if name == "temperature" and asked:
            why = f"replies are drawn at its own, not at {asked:g}"
        self.note(f"no {name} ({why})")

    def note(self, change: str) -> None:
        """Say a change, once."""
        if change not in self.changes:
            self.changes.append(change)
            # A warning reaches stderr, also where nobody set up logging.
            _log.warning("%s takes %s", self.model, change)


class EndpointModel:
    """Chat completions at one address; its key is in `headers` and goes nowhere else.

    Connections are opened as they are needed, and kept until `close`. Who asks sets the timeout,
    and keeps to `most_connections` at once: the system's limit on files, less a few for others.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(
        self,
        name: str,
        *,
        url: str,
        endpoint: str,
        headers: Mapping[str, str],
        key: str,
        key_variable: str,
    ) -> None:
        self.name = name
        self.endpoint = endpoint
        self.key_variable = key_variable
        self.spelling = Spelling(name)
        self.changes = self.spelling.changes
        self.secrets = Redactor([key])
        self._url, self._proxy = url, _proxy(url)
        self._headers = {
            "Content-Type": "application/json",
            "Accept-Encoding": "gzip",
            **headers,
        }
        self.most_connections = _most_connections()
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
            WeakKeyDictionary()
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        body = self.spelling.body(messages, sampling)
        status, headers, answer = await self._post(body, max_answer_bytes(sampling))
        if 200 <= status < 300:
            return self.read_answer(answer, messages, sampling)
        if status in {400, 422} and self.spelling.learn(body, answer):
            raise RespelledError(f"{self.name} wants the request spelled otherwise")
        raise read_error(self, status, retry_after_of(headers), answer)

    async def close(self) -> None:
        """Close the connections opened on the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    def read_answer(
        self, answer: bytes, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        """Replies and counts, without keys; raises TransientError where it holds no replies."""
        try:
            body = _ANSWER.decode(answer.decode("utf-8", "replace"))
            replies = tuple(map(_reply, body.choices or ()))
        except (ValueError, RecursionError) as error:
            reason = _kind_of(answer) or error
            raise TransientError(f"malformed answer ({reason})", billed=True) from None
        hidden = sampling.n * sampling.max_tokens if is_reasoning(self.name) else 0
        usage = read_usage(body.usage, messages, replies, hidden)
        if not replies:
            said = _excerpt(complaint(answer)[0], self.secrets)
            failure = TransientError(
                f"{self.endpoint}: an error in an answer of status 200: {said}", billed=True
            )
            failure.usage = usage if body.usage else None
            raise failure
        model = (body.model or "")[:LONGEST_WORD]
        return self.secrets.clean(Completion(replies=replies, model=model, **asdict(usage)))

    async def _post(
        self, body: Mapping[str, Any], max_bytes: int
    ) -> tuple[int, Mapping[str, str], bytes]:
        data = msgspec.json.encode(body)
        try:
            # A redirect would take the documents to a host that nobody named.
            async with self._session().post(
                self._url, data=data, proxy=self._proxy, allow_redirects=False
            ) as response:
                return response.status, response.headers, await _read_body(response, max_bytes)
        except aiohttp.ClientConnectorError as error:
            if error.os_error.errno in {errno.EMFILE, errno.ENFILE}:
                raise NoConnectionsError(f"no connection is free: {error.os_error}") from None
            raise UnreachableError(f"no connection to {self.endpoint}: {error.os_error}") from None
        except aiohttp.ClientError as error:
            # The library quotes what it could not read, over several lines.
            reason = _excerpt(f"{type(error).__name__}: {error}", self.secrets)
            raise TransientError(
                f"connection to {self.endpoint} lost ({reason})", billed=True
            ) from None

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,  # which knows no limit
            )
        return self._sessions[loop]


def _most_connections() -> int:
    try:
        import resource
    except ImportError:  # Windows
        return 500
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(1, files - OTHER_FILES) if files != resource.RLIM_INFINITY else 10_000


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for a URL."""
    parts = urlsplit(url)
    if not parts.hostname or parts.hostname in {"localhost", "127.0.0.1", "::1"}:
        return None
    return None if proxy_bypass(parts.hostname) else getproxies().get(parts.scheme)


def max_answer_bytes(sampling: Sampling) -> int:
    """How long an answer may be: far longer than replies of `max_tokens` and their alternatives."""
    tokens = sampling.n * sampling.max_tokens * (1 + sampling.top_logprobs)
    return min(LEAST_ANSWER_BYTES + BYTES_PER_TOKEN * tokens, MAX_ANSWER_BYTES)


async def _read_body(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """A body as it comes, unpacked; no more than `max_bytes` are read of it, packed or not."""
    packing = response.headers.get("Content-Encoding", "identity").lower()
    if packing not in {"identity", "gzip"}:
        reason = f"malformed answer (packed as {packing[:LONGEST_WORD]!r}, unasked)"
        raise TransientError(reason, billed=True)
    inflate = zlib.decompressobj(wbits=31).decompress if packing == "gzip" else None
    body, n_received = bytearray(), 0
    async for chunk in response.content.iter_any():
        # Empty blocks, and what follows a packed body's end, unpack to nothing for ever.
        n_received += len(chunk)
        try:
            body += inflate(chunk, max_bytes + 1 - len(body)) if inflate else chunk
        except zlib.error as error:
            raise TransientError(f"malformed answer (not gzip: {error})", billed=True) from None
        if max(len(body), n_received) > max_bytes:
            raise TransientError(f"an answer of more than {max_bytes:,} bytes", billed=True)
    return bytes(body)


class Alternative(Struct):
    token: str
    logprob: float


class TokenAnswer(Alternative):
    """A token as the protocol has it."""

    top_logprobs: list[Alternative] | None = None


class _Logprobs(Struct):
    content: list[TokenAnswer] | None = None


class _Part(Struct):
    """Mistral's models give parts, thoughts among them."""

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
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: Any = None


_ANSWER = msgspec.json.Decoder(_Answer)


def _kind_of(answer: bytes) -> str:
    """What a body is that is no JSON, where that is known."""
    start = answer.lstrip()[:15].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, as a proxy or a login sends: is the address right, /v1 at its end?"
    if start.startswith((b"data:", b"event:", b": ")):
        return "a stream of events, which was not asked for"
    return "" if start else "an empty body"


def _reply(choice: _Choice) -> Reply:
    message = choice.message or _Message()
    content = message.content
    if isinstance(content, list):
        content = "".join(part.text for part in content if part.type in {"text", "output_text"})
    listed = (choice.logprobs and choice.logprobs.content) or ()
    return Reply(
        text=content or message.refusal or "",
        tokens=tuple(map(token_of, listed)),
        finish_reason=REFUSAL
        if message.refusal and not content
        else (choice.finish_reason or "stop")[:LONGEST_WORD],
    )


def token_of(answer: TokenAnswer) -> Token:
    """A token and its likeliest alternatives, itself among them; raises ValueError.

    Two tokens of a vocabulary may be spelled alike: their probabilities add up.
    """
    listed = ((each.token, each.logprob) for each in answer.top_logprobs or (answer,))
    mass: dict[str, float] = {}
    for text, value in dict.fromkeys(listed):
        if not value <= ROUNDING:  # not a number, among others
            raise ValueError("a log-probability is above 0 or undefined")
        mass[text] = min(1.0, mass.get(text, 0.0) + math.exp(value))
    # What was drawn may not be among the few that are listed, or only in another spelling.
    own = math.exp(min(answer.logprob, 0.0))
    if answer.token not in mass and sum(mass.values()) + own <= 1:
        mass[answer.token] = own
    return Token(answer.token, {text: math.log(p) if p else NEVER for text, p in mass.items()})


def read_usage(
    counts: object, messages: Sequence[Message], replies: Sequence[Reply], hidden: int = 0
) -> Usage:
    """What an answer took as its endpoint counts it, else at most.

    Counts that are lacking or cannot be true become the most that the texts can take, and `hidden`
    tokens where thoughts may have been written as well, so that a limit on cost still binds.
    """
    counted: dict[str, Any] = dict(counts) if isinstance(counts, Mapping) else {}
    for place in ("prompt_tokens_details", "completion_tokens_details"):
        details = counted.get(place)
        counted |= details if isinstance(details, Mapping) else {}
    written: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
    tokens_in = _count(counted.get("prompt_tokens"), least=1)
    tokens_out = _count(counted.get("completion_tokens"), least=any(r.text for r in replies))
    if tokens_in is None or tokens_out is None:
        _warn_once("answers do not say how many tokens they took: each is counted at its most")
    else:
        # Gemini and xAI count thoughts in the total alone; they are billed like the others.
        total = _count(counted.get("total_tokens")) or 0
        tokens_out += max(0, total - tokens_in - tokens_out)
    tokens_in = token_bound(messages) if tokens_in is None else tokens_in
    tokens_out = token_bound(written) + hidden if tokens_out is None else tokens_out
    reads, writes, thoughts = (
        next(filter(None, (_count(counted.get(name)) for name in names)), 0)
        for names in (CACHE_READS, CACHE_WRITES, THOUGHTS)
    )
    if reads + writes > tokens_in:
        tokens_in += reads + writes  # Anthropic counts them apart
    return Usage(tokens_in, tokens_out, reads, writes, min(thoughts, tokens_out))


def _count(value: object, least: int = 0) -> int | None:
    """A count of tokens that may be true."""
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return value if is_count and least <= value <= MOST_TOKENS else None  # type: ignore[operator,return-value]


@lru_cache
def _warn_once(warning: str) -> None:
    _log.warning(warning)


class Asked(Protocol):
    """Who answered with an error: a model, and where its key is kept."""

    name: str
    endpoint: str
    key_variable: str
    secrets: Redactor


def read_error(asked: Asked, status: int, wait: float | None, answer: bytes) -> ModelError:
    """What an error answer means for the request and the run, in one line without keys.

    `wait` is how many seconds it asks to wait, where it does not say so in its words.
    """
    said, named = complaint(answer)
    excerpt = _excerpt(said, asked.secrets)
    where = f"{status} from {asked.endpoint}"
    what = f"{where} for {asked.name}: {excerpt}"
    wait = wait_in(said) if wait is None else wait
    if 300 <= status < 400:
        return FatalModelError(
            f"{where}: it redirects, and texts and keys follow nowhere; name the address "
            "itself by --api-base"
        )
    if not 400 <= status <= 599:
        return TransientError(f"{where}: no answer of the format, and no error", billed=True)
    if status == 401:
        return FatalModelError(
            f"{where}: the key in {asked.key_variable} was not accepted for {asked.name}"
        )
    is_plan = wait is None and PLAN.search(said)
    if status == 402 or (status == 429 and (QUOTA.search(named) or is_plan)):
        return FatalModelError(
            f"{where}: the account's quota is used up ({excerpt}); the same command goes on "
            "once there is more"
        )
    if status == 429:
        return ThrottledError(f"{where}: too many requests ({excerpt})", wait)
    if status >= 500 or status in {408, 409, 425}:
        return TransientError(what, wait)
    if status == 404:
        return FatalModelError(f"{where}: no model {asked.name!r} there ({excerpt})")
    if status in {400, 422} and "logprobs" in named:
        return FatalModelError(f"{what}; {NO_LOGPROBS}")
    if status in {400, 413, 422} or (status == 403 and FLAGGED.search(named)):
        return RefusedError(what)
    return FatalModelError(what)


def _excerpt(said: str, secrets: Redactor) -> str:
    return " ".join(secrets.redact(said).split())[:LONGEST_EXCERPT]


def complaint(answer: bytes) -> tuple[str, str]:
    """What an error answer says to its reader, and that with the names of what it is about."""
    said = named = ""
    with suppress(ValueError, RecursionError):
        body = msgspec.json.decode(answer)
        said, named = (" ".join(_texts(body, names)) for names in (SAID, NAMED))
    raw = answer.decode("utf-8", "replace")
    return (said or raw)[:LONGEST_SEARCHED], (named or raw)[:LONGEST_SEARCHED]


def _texts(value: object, names: Sequence[str]) -> Iterator[str]:
    """The texts of an error under these names, whichever of the forms in use it has."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, names)
    elif isinstance(value, dict):
        for name in names:
            yield from _texts(value.get(name), names)


def wait_in(text: str) -> float | None:
    """How many seconds a text asks to wait; None where it does not say."""
    match = WAIT.search(text)
    if match is None:
        return None
    parts = re.findall(r"(\d+(?:\.\d+)?) ?(ms|[dhms])", match[1], re.I)
    return sum(float(number) * SECONDS[unit.lower()] for number, unit in parts)


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """How many seconds an answer asks to wait: a number, also in milliseconds, or a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            return max(0.0, seconds) if math.isfinite(seconds) else None
    # A year 0 or 10000, a zone of days.
    with suppress(ValueError, OverflowError, IndexError, TypeError, OSError):
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, date.timestamp() - time.time())
    return None


def _without_system(messages: Sequence[Message]) -> Sequence[Message]:
    """The same with the system's message at the head of the user's first."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    joined = f"{messages[0]['content']}\n\n{messages[1]['content']}"
    return [{"role": "user", "content": joined}, *messages[2:]]
