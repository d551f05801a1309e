"""The chat-completions format: a request's body, an answer's replies, an error's meaning."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from judges.engine.prices import estimate_tokens
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
MOST_READ = 100_000  # of an error that is no JSON
REFUSALS = ("context_length_exceeded", "content_filter", "content_policy_violation", "string_above")
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


def read_completion(answer: bytes, messages: Sequence[Message], sampling: Sampling) -> Completion:
    """Read replies and counts; raises PassingError where the body is malformed or empty."""
    try:
        body = json.loads(answer)
        replies = tuple(_reply(choice) for choice in body["choices"])
        usage = body.get("usage") or {}
        model = str(body.get("model") or "")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PassingError(f"malformed answer ({type(error).__name__})", billed=True) from None
    _check(replies, sampling)
    tokens_in, tokens_out = usage.get("prompt_tokens"), usage.get("completion_tokens")
    written: list[Message] = [{"role": "assistant", "content": reply.text} for reply in replies]
    return Completion(
        replies=replies,
        tokens_in=tokens_in if isinstance(tokens_in, int) else estimate_tokens(messages),
        tokens_out=tokens_out if isinstance(tokens_out, int) else estimate_tokens(written),
        model=model,
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
        raise TypeError("content is no text")
    logprobs = (choice.get("logprobs") or {}).get("content") or ()
    return Reply(
        text=content,
        tokens=tuple(
            Token(token["token"], {top["token"]: float(top["logprob"]) for top in _tops(token)})
            for token in logprobs
        ),
        finish_reason=str(choice.get("finish_reason") or "stop"),
    )


def _tops(token: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return token.get("top_logprobs") or (token,)


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
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max((date - (now or datetime.now(UTC))).total_seconds(), 0.0)


def _error_of(answer: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(answer)
    except ValueError:
        return {}
    error = body.get("error", body) if isinstance(body, dict) else {}
    return error if isinstance(error, dict) else {"message": str(error)}
