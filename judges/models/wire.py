"""The chat-completions format: a request's body, an answer's replies, an error's meaning."""

import json
import logging
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from judges.engine.prices import estimate_tokens, most_tokens
from judges.models.protocol import (
    Completion,
    LastingError,
    Message,
    ModelError,
    PassingError,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    Token,
)

REASONING = re.compile(r"(?:.*/)?(?:o[1345](?:-|\Z)|gpt-5(?!.*-chat))")
LONGEST_EXCERPT = 300
_log = logging.getLogger(__name__)
_doubted: set[str] = set()
MOST_READ = 100_000  # of an error that is no JSON
REFUSALS = ("context_length_exceeded", "content_filter", "content_policy_violation", "string_above")
# No request takes that many tokens; a count above it is an error, and would end any budget.
MOST_TOKENS = 100_000_000
LONGEST_WORD = 200  # of a model's name, and of why a reply ended
ROUNDING = 1e-3  # a log-probability so little above 0 is 0
NEVER = -9999.0  # the log-probability of what cannot be, for which JSON has no number
TOO_LONG = re.compile(r"context (?:length|window)|too many tokens|maximum.{0,20} tokens", re.I)


@dataclass(slots=True)
class Dialect:
    """Which of the format's spellings a model takes, learned from its complaints."""

    most_tokens: str = "max_tokens"
    temperature: bool = True
    seed: bool = True

    @classmethod
    def of(cls, model: str) -> "Dialect":
        """Start from the name: OpenAI's reasoning models take another spelling."""
        if REASONING.match(model):
            return cls(most_tokens="max_completion_tokens", temperature=False)
        return cls()

    def body(self, model: str, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": model,
            "messages": messages,
            self.most_tokens: sampling.max_tokens,
        }
        if sampling.temperature is not None and self.temperature:
            body["temperature"] = sampling.temperature
        if self.seed:
            body["seed"] = sampling.seed
        if sampling.n > 1:
            body["n"] = sampling.n
        if sampling.top_logprobs:
            body["logprobs"] = True
            body["top_logprobs"] = sampling.top_logprobs
        return body

    def learn(self, body: Mapping[str, Any], answer: bytes) -> None:
        """Take a 400's complaint about a request to heart, if that helps.

        Only what leaves the request's meaning alone: a limit's other spelling, and the seed.
        Raises PassingError where the request should be sent again, spelled otherwise.
        """
        error = _error_of(answer)
        text = f"{error.get('param')} {error.get('message')}"
        if "max_tokens" in body and "max_completion_tokens" in text:
            self.most_tokens = "max_completion_tokens"
        elif "seed" in body and re.search(r"\bseed\b", text):
            self.seed = False
        else:
            return
        raise PassingError("the endpoint wants the request spelled otherwise", 0.0)


class _ShapeError(ValueError):
    """A part of an answer that is not what the format says; the message says which."""


def read_completion(answer: bytes, messages: Sequence[Message], sampling: Sampling) -> Completion:
    """Read replies and counts; raises PassingError where the body is malformed or empty.

    Whatever an endpoint may send, no other error than a ModelError leaves this function.
    """
    try:
        body = json.loads(answer)
        replies = tuple(_reply(choice) for choice in body["choices"])
    except RecursionError:
        raise PassingError("malformed answer (nested too deeply)", billed=True) from None
    except _ShapeError as error:
        raise PassingError(f"malformed answer ({error})", billed=True) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PassingError(f"malformed answer ({type(error).__name__})", billed=True) from None
    _check(replies, sampling)
    tokens_in, tokens_out = read_usage(body, messages, replies)
    return Completion(
        replies=replies,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        model=_word(body.get("model")),
    )


def read_usage(
    body: Mapping[str, Any], messages: Sequence[Message], replies: Sequence[Reply]
) -> tuple[int, int]:
    """Read what a request took: tokens read and written.

    Counts that are lacking are estimated. Those that cannot be true (negative, of texts yet 0,
    huge, no numbers) become the most that the texts can take, so that a limit on cost still binds.
    """
    written: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
    usage = body.get("usage")
    counts = usage if isinstance(usage, Mapping) else {}
    if usage is not None and not isinstance(usage, Mapping):
        _doubt("usage", type(usage).__name__)
        return most_tokens(messages), most_tokens(written)
    return (
        _count("prompt_tokens", counts, messages),
        _count("completion_tokens", counts, written),
    )


def _count(name: str, counts: Mapping[str, Any], texts: Sequence[Message]) -> int:
    value = counts.get(name)
    if value is None:
        return estimate_tokens(texts)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    least = 1 if any(text["content"] for text in texts) else 0
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST_TOKENS:
        return value
    # Neither repr() nor str() of an endless number: Python refuses it.
    huge = isinstance(value, int) and abs(value) > MOST_TOKENS
    _doubt(name, "a huge number" if huge else _word(value) or repr(value)[:LONGEST_EXCERPT])
    return most_tokens(texts)


def _doubt(name: str, value: str) -> None:
    """Warn of a count that cannot be true, the first time that one does."""
    if name in _doubted:
        return
    _doubted.add(name)
    _log.warning(
        "an answer's %s cannot be true (%s); such are counted as the most that the texts can take",
        name,
        value,
    )


def _check(replies: Sequence[Reply], sampling: Sampling) -> None:
    if any(reply.text.strip() for reply in replies):
        return
    reasons = {reply.finish_reason for reply in replies}
    if reasons == {"content_filter"}:
        raise RefusedError("the endpoint's content filter withheld the reply")
    if reasons == {"length"}:
        raise RefusedError(
            f"no text within max_tokens={sampling.max_tokens}; a reasoning model needs more"
        )
    raise PassingError("empty reply", billed=True)


def _reply(choice: Mapping[str, Any]) -> Reply:
    message = choice["message"]
    content = message.get("content") or message.get("refusal") or ""
    if not isinstance(content, str):
        raise _ShapeError("its content is no text")
    logprobs = (choice.get("logprobs") or {}).get("content") or ()
    return Reply(
        text=_mended(content),
        tokens=tuple(
            Token(
                _text(token["token"]),
                {_text(top["token"]): _logprob(top["logprob"]) for top in _tops(token)},
            )
            for token in logprobs
        ),
        finish_reason=_word(choice.get("finish_reason")) or "stop",
    )


def _tops(token: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return token.get("top_logprobs") or (token,)


def _logprob(value: object) -> float:
    """A log-probability: 0 or less."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _ShapeError("a log-probability is no number")
    if not value <= ROUNDING:  # not a number, among others
        raise _ShapeError("a log-probability is above 0 or undefined")
    return min(0.0, float(max(value, NEVER)))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise _ShapeError("a token is no text")
    return _mended(value)


def _word(value: object) -> str:
    return _mended(value[:LONGEST_WORD]) if isinstance(value, str) else ""


def _mended(text: str) -> str:
    """Without lone surrogates, which JSON can spell and no file can hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


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
    error = _error_of(answer)
    code = str(error.get("code") or error.get("type") or "")
    said = redacted(
        # Cut only afterwards: a key cut short would not be known for one.
        str(error.get("message") or answer[:MOST_READ].decode("utf-8", "replace"))
    )
    said = " ".join(said.split())[:LONGEST_EXCERPT]
    where = f"{status} from {endpoint}"
    if status == 401:
        return LastingError(f"{where}: the key in {key_name} was not accepted for {model}")
    if code == "insufficient_quota" or status == 402:
        return LastingError(f"{where}: the account's quota is used up ({said})")
    if status == 429:
        return ThrottledError(f"{where}: too many requests", seconds(retry_after))
    if status >= 500 or status in {408, 409, 425}:
        return PassingError(f"{where}: {said}", seconds(retry_after))
    if any(word in code for word in REFUSALS) or status == 413 or TOO_LONG.search(said):
        return RefusedError(f"{where}: {said}")
    if status == 404:
        return LastingError(f"{where}: no model {model!r} there ({said})")
    return LastingError(f"{where} for {model}: {said}")


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


def _error_of(answer: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(answer)
    except (ValueError, RecursionError):
        return {}
    error = body.get("error", body) if isinstance(body, dict) else {}
    return error if isinstance(error, dict) else {"message": str(error)}
