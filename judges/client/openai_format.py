"""The chat-completions format: a request's body, an answer's replies, an error's meaning."""

import json
import logging
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from judges.client.prices import most_likely_tokens, token_bound
from judges.client.protocol import (
    REFUSAL,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RateLimit,
    RateLimits,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    Token,
    TooLongError,
    TransientError,
    UnsupportedRequestError,
    Usage,
)

LONGEST_EXCERPT = 300
LONGEST_SEARCHED = 10_000  # of an error's text for keys, before its first words are shown
LONGEST_WORD = 200  # of a model's name, and of why a reply ended
# No request takes that many tokens; a count above it is an error, and would end any budget.
MOST_TOKENS = 100_000_000
ROUNDING = 1e-3  # a log-probability so little above 0 is 0
NEVER = -9999.0  # the log-probability of what cannot be, for which JSON has no number
CONTENT_REFUSALS = ("content_filter", "content_policy_violation")
REFUSALS = ("context_length_exceeded", "string_above")
FLAGGING = frozenset({400, 403, 422})
# How others say that a text is withheld for what it says: OpenRouter, Azure, DeepSeek, Alibaba.
FLAGGED = re.compile(
    r"(?:input|prompt|content|request|message|text)s? (?:was|were|has been) (?:flagged|blocked"
    r"|filtered)|content management policy|ResponsibleAIPolicyViolation|content exists risk"
    r"|data_inspection_failed",
    re.I,
)
TOO_LONG = re.compile(
    r"context (?:length|window|size)|too many tokens|maximum.{0,20} tokens|prompt is too long", re.I
)
# OpenAI's and vLLM's words for a context that is full with the reply's limit, not with the prompt.
CONTEXT_SIZE = re.compile(r"context (?:length|window|size) (?:is|of) (\d{2,9}) tokens", re.I)
PROMPT_SIZE = re.compile(
    r"(\d{1,9}) (?:tokens )?(?:in the messages|input tokens|of text input|from the input)", re.I
)
LEAST_ROOM = 16
QUOTA = re.compile(r"check your plan|billing|insufficient (?:quota|credit|balance)", re.I)
# "try again in 1.5s", "Please retry in 34.07s", and the bare "34s" of Gemini's details.
WAIT = re.compile(
    r"(?:\A|(?:try again|retry)[^.\d]{0,20}\b(?:in|after) )"
    r"((?:\d{1,6}(?:\.\d{1,9})? ?(?:ms|milli\w+|sec\w*|s|min\w*|m|hours?|h|days?|d) ?)+)"
    r"(?![A-Za-z])",
    re.I,
)
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|milli|[smhd]|\Z)", re.I)
UNITS = {"": 1.0, "ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
NO_LOGPROBS = (
    "; the plan 'weighted' needs log-probabilities: use the plan 'one' or 'mean' with this model"
)
# What an error inside an answer of status 200 calls itself, and the status that it stands for.
STATUSES = (
    ("quota", 429),
    ("rate", 429),
    ("exhausted", 429),
    ("api_key", 401),
    ("auth", 401),
    ("not_found", 404),
    ("invalid", 400),
    ("context_length", 400),
    ("content", 400),
)

# How answers name the tokens of a kind: OpenAI, LiteLLM and OpenRouter, DeepSeek.
CACHE_READS = ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens")
CACHE_WRITES = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
THOUGHTS = ("reasoning_tokens",)

_log = logging.getLogger(__name__)
# The counts that have been warned of.
_implausible_counts: set[str] = set()
ModelErrorT = TypeVar("ModelErrorT", bound=ModelError)


class _ShapeError(ValueError):
    """A part of an answer that is not what the format says; the message says which."""


class ErrorBodyError(TransientError):
    """A body that holds an error in place of replies; `status` is the one it should have had."""

    def __init__(self, status: int) -> None:
        super().__init__(f"an error ({status}) in an answer of status 200", billed=True)
        self.status = status


def read_completion(
    answer: bytes, messages: Sequence[Message], sampling: Sampling, *, thinks: bool = False
) -> Completion:
    """Read replies and counts; a reply may be empty, and hide thoughts of a model that `thinks`.

    Raises TransientError where the body is malformed, and ErrorBodyError where it holds an error.
    Whatever an endpoint may send, no other error than a ModelError leaves this function.
    """
    body: Any = None
    try:
        body = _unwrapped(_loads(answer))
        if not isinstance(body, dict):
            raise _ShapeError("no JSON object")
        if body.get("error") and not body.get("choices"):
            raise _with_usage(ErrorBodyError(_status_inside(_error_of(body))), body)
        replies = tuple(_reply(choice) for choice in body["choices"])
        if not replies:
            raise _ShapeError("it holds no choices")
        hidden = sampling.n * sampling.max_tokens if thinks else 0
        usage = read_usage(body.get("usage"), messages, replies, hidden)
        return Completion(replies=replies, model=_word(body.get("model")), **asdict(usage))
    except RecursionError:
        reason = "nested too deeply"
    except json.JSONDecodeError:
        reason = _kind_of(answer)
    except _ShapeError as error:
        reason = str(error)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = type(error).__name__
    raise _with_usage(TransientError(f"malformed answer ({reason})", billed=True), body)


def _loads(answer: bytes) -> Any:
    """The JSON of a body; what is no UTF-8 in it (half a sign, cut by a token) becomes U+FFFD."""
    try:
        return json.loads(answer)
    except UnicodeDecodeError:
        return json.loads(answer.decode("utf-8", "replace"))


def _kind_of(answer: bytes) -> str:
    """What a body is that is no JSON."""
    start = answer.lstrip()[:15].lower()
    if start.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, as a proxy or a login sends: is the address right, /v1 at its end?"
    if start.startswith((b"data:", b"event:", b": ")):
        return "a stream of events, which was not asked for"
    return "no JSON, or cut short" if start else "an empty body"


def _reply(choice: Mapping[str, Any]) -> Reply:
    # Azure's filters leave it out.
    withheld = choice.get("finish_reason") == "content_filter"
    message = choice["message"] if "message" in choice or not withheld else {}
    content, refusal = message.get("content"), message.get("refusal")
    if isinstance(content, list):
        # Mistral's models give parts, thoughts among them.
        content = "".join(_part_text(part) for part in content)
    text = content or refusal or ""
    if not isinstance(text, str):
        raise _ShapeError("its content is no text")
    logprobs = (choice.get("logprobs") or {}).get("content") or ()
    return Reply(
        text=_without_surrogates(text),
        tokens=tuple(map(token_of, logprobs)),
        finish_reason=REFUSAL
        if refusal and not content
        else _word(choice.get("finish_reason")) or "stop",
    )


def _part_text(part: Mapping[str, Any]) -> str:
    """The text of one part of a message's content; "" for a thought or a picture."""
    text = part["text"] if part["type"] in {"text", "output_text"} else ""
    if not isinstance(text, str):
        raise _ShapeError("its content is no text")
    return text


def token_of(token: Mapping[str, Any]) -> Token:
    """A token as the format has it."""
    top = token.get("top_logprobs") or (token,)
    pairs = ((alternative["token"], alternative["logprob"]) for alternative in top)
    return read_token(token["token"], token.get("logprob"), pairs)


def read_token(text: object, logprob: object, top: Iterable[tuple[object, object]]) -> Token:
    """A token and its likeliest alternatives, itself among them; raises ValueError.

    Two tokens of a vocabulary may be spelled alike: their probabilities add up.
    """
    own, alternatives = _token_text(text), dict[str, float]()
    listed = ((_token_text(name), read_logprob(value)) for name, value in top)
    for name, value in dict.fromkeys(listed):
        known = alternatives.get(name)
        alternatives[name] = value if known is None else _sum_of_logs(known, value)
    # What was drawn may not be among the few that are listed, or only in another spelling.
    if own not in alternatives and logprob is not None:
        value, listed_mass = read_logprob(logprob), math.fsum(map(math.exp, alternatives.values()))
        if value not in alternatives.values() and listed_mass + math.exp(value) <= 1:
            alternatives[own] = value
    return Token(own, alternatives)


def _sum_of_logs(first: float, second: float) -> float:
    """The logarithm of the sum of two probabilities, at most that of 1."""
    high, low = max(first, second), min(first, second)
    return min(0.0, high + math.log1p(math.exp(low - high)))


def read_logprob(value: object) -> float:
    """A log-probability: 0 or less; ValueError for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _ShapeError("a log-probability is no number")
    if not value <= ROUNDING:  # not a number, among others
        raise _ShapeError("a log-probability is above 0 or undefined")
    return min(0.0, float(max(value, NEVER)))


def _token_text(text: object) -> str:
    if not isinstance(text, str):
        raise _ShapeError("a token is no text")
    return _without_surrogates(text)


def _word(value: object) -> str:
    return _without_surrogates(value[:LONGEST_WORD]) if isinstance(value, str) else ""


def _without_surrogates(text: str) -> str:
    """JSON can spell lone surrogates, and no file can hold them."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def read_usage(
    usage: object, messages: Sequence[Message], replies: Sequence[Reply], hidden: int = 0
) -> Usage:
    """Read what a request took.

    Counts that are lacking are estimated at the most that is likely, up to `hidden` tokens where
    thoughts may have been written as well. Those that cannot be true (negative, of texts yet 0,
    huge, no numbers) become the most that the texts can take, so that a limit on cost still binds.
    """
    written: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
    if usage is not None and not isinstance(usage, Mapping):
        _warn_of_count("usage", type(usage).__name__)
        return Usage(token_bound(messages), token_bound(written), estimated=True)
    counts = usage or {}
    tokens_out = _count("completion_tokens", counts, written)
    lacking = [name for name in ("prompt_tokens", "completion_tokens") if counts.get(name) is None]
    if "completion_tokens" in lacking:
        tokens_out = max(tokens_out, hidden)
    result = _usage(
        counts,
        _count("prompt_tokens", counts, messages),
        tokens_out,
        max_tokens_in=token_bound(messages),
    )
    if lacking:
        _warn_of_lack()
    return replace(result, estimated=bool(lacking))


def _usage(
    counts: Mapping[str, Any], tokens_in: int, tokens_out: int, *, max_tokens_in: int = 0
) -> Usage:
    """All tokens that were read and written, and how many of them were of a kind with a price."""
    reads, writes = (_named_count(counts, names) for names in (CACHE_READS, CACHE_WRITES))
    if reads + writes > tokens_in:
        if tokens_in + reads + writes <= max_tokens_in:
            tokens_in += reads + writes  # Anthropic counts them apart
        else:
            reads = writes = 0  # more than the texts can take
    tokens_out += _uncounted_thoughts(counts, tokens_in, tokens_out)
    thoughts = min(_named_count(counts, THOUGHTS), tokens_out)
    return Usage(tokens_in, tokens_out, reads, writes, thoughts)


def _named_count(counts: Mapping[str, Any], names: Sequence[str]) -> int:
    """The first of these that is a count, beside the others or in their details."""
    details = [counts.get(name) for name in ("prompt_tokens_details", "completion_tokens_details")]
    places = (counts, *(place for place in details if isinstance(place, Mapping)))
    counted = (_plausible(place.get(name)) for place in places for name in names)
    return next((count for count in counted if count), 0)


def _count(name: str, counts: Mapping[str, Any], texts: Sequence[Message]) -> int:
    value = counts.get(name)
    if value is None:
        return most_likely_tokens(texts)
    least = 1 if any(text["content"] for text in texts) else 0
    if (count := _plausible(value, least)) is not None:
        return count
    if isinstance(value, int) and abs(value) > MOST_TOKENS:
        # Neither repr() nor str() of an endless number: Python refuses it.
        written = "a huge number"
    elif isinstance(value, list | dict):
        written = type(value).__name__
    else:
        written = _word(value) or repr(value)[:LONGEST_EXCERPT]
    _warn_of_count(name, written)
    return token_bound(texts)


def _plausible(value: object, least: int = 0) -> int | None:
    """A count of tokens that may be true."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST_TOKENS:
        return value
    return None


def _uncounted_thoughts(counts: Mapping[str, Any], tokens_in: int, tokens_out: int) -> int:
    """Tokens of thoughts that the count of completion tokens leaves out, billed like the others.

    Gemini and xAI leave them out; their total, or the count of thoughts itself, tells.
    """
    details = counts.get("completion_tokens_details")
    thoughts = _plausible(details.get("reasoning_tokens")) if isinstance(details, Mapping) else None
    total = None if counts.get("prompt_tokens") is None else _plausible(counts.get("total_tokens"))
    missing = (total or 0) - tokens_in - tokens_out
    if missing <= 0 and thoughts is not None and thoughts > tokens_out:
        return thoughts  # more thoughts than tokens: they cannot be among them
    return max(0, missing)


def _warn_of_count(name: str, value: str) -> None:
    """Warn of a count that cannot be true, only the first time of its name."""
    if name in _implausible_counts:
        return
    _implausible_counts.add(name)
    _log.warning(
        "an answer's %s cannot be true (%s); such are counted as the most that the texts can take",
        name,
        value,
    )


def _warn_of_lack() -> None:
    """Warn once of answers that do not tell what they took."""
    if "" in _implausible_counts:
        return
    _implausible_counts.add("")
    _log.warning(
        "answers do not say how many tokens they took: counted at the most that is likely, so "
        "tokens and dollars are estimates"
    )


def _with_usage(error: ModelErrorT, body: object) -> ModelErrorT:
    """The error with what it took, where the body tells in numbers that may be true."""
    counts = body.get("usage") if isinstance(body, Mapping) else None
    if isinstance(counts, Mapping):
        tokens_in = _plausible(counts.get("prompt_tokens"))
        tokens_out = _plausible(counts.get("completion_tokens"))
        if tokens_in is not None and tokens_out is not None:
            error.usage = _usage(counts, tokens_in, tokens_out)
    return error


def read_error(
    status: int,
    retry_after: str | None,
    answer: bytes,
    *,
    model: str,
    endpoint: str,
    redacted: Callable[[str], str],
    key_name: str = "OPENAI_API_KEY",
) -> ModelError:
    """Say what an error answer means for the request, the run, and the reader; never the key."""
    body = _decode(answer)
    error = _error_of(body)
    message = _message(error)
    # Cut far beyond what is shown: a key cut short may not be known for one.
    text = redacted((message or answer.decode("utf-8", "replace"))[:LONGEST_SEARCHED])
    excerpt = " ".join(text.split())[:LONGEST_EXCERPT]
    where = f"{status} from {endpoint}"
    if 300 <= status < 400:
        return FatalModelError(
            f"{where}: it redirects, and texts and keys follow nowhere; name the address itself "
            "by --api-base"
        )
    if not 400 <= status <= 599:
        return TransientError(f"{where}: no answer of the format, and no error", billed=True)
    wait = seconds(retry_after)
    if wait is None:
        wait = _wait_in(error)
    code = _code(error)
    flagged = status in FLAGGING and FLAGGED.search(f"{code} {excerpt}")
    result: ModelError
    if status == 401:
        result = FatalModelError(f"{where}: the key in {key_name} was not accepted for {model}")
    elif (
        code == "insufficient_quota"
        or status == 402
        # Gemini words a limit on requests a minute as it words a quota; there it says how long to
        # wait, while a day's share that is used up is waited for in vain.
        or (status == 429 and (b"PerDay" in answer or (wait is None and QUOTA.search(message))))
    ):
        result = FatalModelError(
            f"{where}: the account's quota is used up ({excerpt}); resume once there is more"
        )
    elif status == 429:
        result = ThrottledError(f"{where}: too many requests ({excerpt})", wait)
    elif status >= 500 or status in {408, 409, 425}:
        result = TransientError(f"{where}: {excerpt}", wait)
    elif flagged or any(word in code for word in CONTENT_REFUSALS):
        result = RefusedError(f"{where}: {excerpt}")
    elif any(word in code for word in REFUSALS) or status == 413 or TOO_LONG.search(excerpt):
        refused = f"{where}: {excerpt}"
        result = TooLongError(refused, _room(text))
    elif status == 404:
        result = FatalModelError(f"{where}: no model {model!r} there ({excerpt})")
    elif status in {400, 422}:
        advice = NO_LOGPROBS if "logprobs" in complaint_of(answer)[1] else ""
        result = UnsupportedRequestError(f"{where} for {model}: {excerpt}{advice}")
    else:
        result = FatalModelError(f"{where} for {model}: {excerpt}")
    return _with_usage(result, body)


def _code(error: Mapping[str, Any]) -> str:
    """An error's own name for itself; a number says no more than the status does."""
    inner = error.get("innererror")
    inner_code = inner.get("code") if isinstance(inner, Mapping) else None  # Azure's
    names = (error.get("code"), error.get("type"), error.get("status"), inner_code)
    return next((name for name in names if isinstance(name, str) and not name.isdecimal()), "")


def _room(text: str) -> int:
    """How many tokens a reply may take where the prompt alone fits the context; else 0."""
    size, prompt = CONTEXT_SIZE.search(text), PROMPT_SIZE.search(text)
    room = int(size[1]) - int(prompt[1]) if size and prompt else 0
    return room if room >= LEAST_ROOM else 0


def complaint_of(answer: bytes) -> tuple[str, str]:
    """Which parameter an error names ("" if none), and all its words, the parameter's among them.

    FastAPI's servers, Mistral's among them, list what is wrong with the place of each.
    """
    body = _decode(answer)
    error = _error_of(body)
    message = error.get("message")
    source = message if isinstance(message, dict) else error
    details = source.get("detail")
    words = [_message(error)]
    param = error.get("param")
    parameter = param if isinstance(param, str) else ""
    if isinstance(details, str):
        words.append(details)
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, Mapping):
            place = detail.get("loc")
            names = [part for part in place if isinstance(part, str)] if place else []
            parameter = parameter or (names[-1] if names else "")
            words += [".".join(names), str(_word(detail.get("msg")))]
    return parameter, " ".join([parameter, *words])[:LONGEST_SEARCHED]


def _wait_in(error: Mapping[str, Any]) -> float | None:
    """How long an error's own words ask to wait: in prose, or in Gemini's details."""
    details = error.get("details")
    delays = [
        detail.get("retryDelay")
        for detail in (details if isinstance(details, list) else ())
        if isinstance(detail, Mapping)
    ]
    texts = (text for text in (*delays, error.get("message")) if isinstance(text, str))
    return next((wait for text in texts if (wait := wait_in_words(text)) is not None), None)


def wait_in_words(text: str) -> float | None:
    """How long a text asks to wait; None where it does not say."""
    match = WAIT.search(text)
    return duration(match[1]) if match else None


def duration(text: str) -> float | None:
    """Read "6m0s", "1.5s", "20ms", "12" as seconds; None for anything else."""
    parts = DURATION.findall(text)
    return sum(float(number) * UNITS[unit.lower()] for number, unit in parts) if parts else None


def _status_inside(error: Mapping[str, Any]) -> int:
    """The status that an error in an answer of status 200 should have had."""
    number = error.get("code")
    if isinstance(number, str) and number.isdecimal():
        number = int(number[:4])
    if isinstance(number, int) and not isinstance(number, bool) and 400 <= number <= 599:
        return number
    return next((status for word, status in STATUSES if word in _code(error).lower()), 500)


def seconds(retry_after: str | None, now: datetime | None = None) -> float | None:
    """Read a Retry-After header, which is a number of seconds or a date; None if neither."""
    if not retry_after:
        return None
    try:
        number = float(retry_after)
        return max(number, 0.0) if math.isfinite(number) else None
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(retry_after)
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max((date - (now or datetime.now(UTC))).total_seconds(), 0.0)
    except (ValueError, OverflowError, IndexError, TypeError):  # year 0, year 10000, a zone of days
        return None


def retry_after_of(headers: Mapping[str, str]) -> str | None:
    """The Retry-After of an answer, also as some give it: in milliseconds."""
    milliseconds = headers.get("retry-after-ms")
    if milliseconds:
        with suppress(ValueError):
            return str(float(milliseconds) / 1000)
    return headers.get("Retry-After")


def read_rate_limits(headers: Mapping[str, str]) -> RateLimits | None:
    """The limits that an answer's headers tell, in OpenAI's form; None where they tell none.

    A reset that is not told is the minute that limits are counted by.
    """
    limits = {}
    for kind in ("requests", "tokens"):
        left = headers.get(f"x-ratelimit-remaining-{kind}")
        if left is None:
            continue
        with suppress(ValueError):
            remaining = float(left)
            size = max(float(headers.get(f"x-ratelimit-limit-{kind}") or remaining), remaining)
            reset = duration(headers.get(f"x-ratelimit-reset-{kind}") or "60s")
            # Of 0 or -1 is what knows no limit.
            if math.isfinite(remaining) and 0 < size < math.inf:
                limits[kind] = RateLimit(
                    size, max(remaining, 0.0), 60.0 if reset is None else reset
                )
    return limits or None


def _decode(answer: bytes) -> object:
    try:
        return _unwrapped(_loads(answer))
    except (ValueError, RecursionError):
        return {}


def _unwrapped(body: Any) -> Any:
    """Gemini wraps an error's body in a list."""
    return body[0] if isinstance(body, list) and body else body


def _error_of(body: object) -> Mapping[str, Any]:
    error = body.get("error", body) if isinstance(body, dict) else {}
    return error if isinstance(error, dict) else {"message": error}


def _message(error: Mapping[str, Any]) -> str:
    """Only if it is a text: Python cannot write down all that JSON can nest."""
    message = error.get("message")
    return message if isinstance(message, str) else ""
