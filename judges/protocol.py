"""The one way in for replies: complete(messages, sampling) -> replies with token counts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypedDict

from msgspec import Struct

from dspy_judges.errors import JudgesError

# The endpoint of `openai/NAME` unless the user names another.
OPENAI = "https://api.openai.com/v1"
FRESH_ASKS = 2  # new requests after replies that cannot be read
# Step between the seeds of one request's samples; it exceeds any retry count, so that seeds never
# collide.
SAMPLE_SEED_STEP = 10_007

# Finish reasons of a reply that the endpoint stopped: at its limit, withheld, or broken off.
OUT_OF_TOKENS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
CUT_SHORT = OUT_OF_TOKENS | {"incomplete", "error", "other", "content_filter", "safety"}
LONGEST_WORD = 200  # characters of a finish reason, or of a model's name in an answer
# The finish reason of a reply in which the model refuses.
REFUSAL = "refusal"

EMBEDDED = "embedded"
# Forms in which decision models are asked: OpenAI's, and System One's. Names begin with them.
DECISIONS, SYSTEM_ONE = "decisions", "systemone"
# max_tokens is multiplied by it for a model that thinks before it answers.
REASONING_FACTOR = 8
# Names of models that think first: OpenAI's, and those of others.
OPENAI_REASONING = re.compile(r"(?:.*/)?(?:o[1345](?:-|\Z)|gpt-5(?!.*-chat))")
REASONING = re.compile(
    r"reasoner|\br1\b|magistral|\bqwq|\bqwen3|thinking|gpt-oss|gemini-(?:2\.5|3)|grok-(?:3-mini|4)"
    r"|minimax-m|kimi-k2|\bglm-",
    re.I,
)


def is_embedded(lm: str) -> bool:
    """Whether a name or an endpoint is that of the embedded model, in any version."""
    return lm.partition("-")[0] == EMBEDDED


def is_decision(lm: str) -> bool:
    """Whether a name is that of a decision model: it gives probabilities and writes no text."""
    return lm.partition("/")[0] in (DECISIONS, SYSTEM_ONE)


def is_reasoning(lm: str) -> bool:
    """Whether a model of that name thinks before it answers, which takes tokens."""
    return bool(OPENAI_REASONING.match(lm) or REASONING.search(lm))


class Message(TypedDict):
    """One chat message; `content` is always plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatBody(TypedDict):
    """The body of a chat-completions request, which has the `fields` of a `Sampling`, too."""

    model: str
    messages: Sequence[Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to draw replies: part of a reply's identity, like its messages.

    `top_logprobs` is the number of alternatives for each token, and `seed` tells repeated requests
    apart. None leaves `temperature` or `reasoning_effort` to the model.
    """

    temperature: float | None = 0.0
    n: int = 1
    top_logprobs: int = 0
    max_tokens: int = 512
    seed: int = 0
    reasoning_effort: str | None = None

    def fields(self) -> dict[str, str | float]:
        """The fields of a chat-completions body, without those that are left to the model."""
        fields = {
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            "seed": self.seed,
            "n": self.n if self.n > 1 else None,
            "reasoning_effort": self.reasoning_effort,
            "logprobs": True if self.top_logprobs else None,
            "top_logprobs": self.top_logprobs or None,
        }
        return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token, and its likeliest alternatives with natural log-probabilities."""

    text: str
    top: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One raw reply; `tokens` is empty unless log-probabilities were asked for and given."""

    text: str
    tokens: tuple[Token, ...] = ()
    finish_reason: str = "stop"

    @property
    def truncated(self) -> bool:
        """Whether the endpoint stopped the reply before its end."""
        return self.finish_reason.lower() in CUT_SHORT

    @property
    def out_of_tokens(self) -> bool:
        """Whether it reached the request's limit on tokens."""
        return self.finish_reason.lower() in OUT_OF_TOKENS


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a request, and those read from and written to the provider's prompt cache."""

    tokens_in: int
    tokens_out: int
    cache_reads: int = 0
    cache_writes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Usage):
    """The answer to one request: n replies, their tokens, and the model that answered."""

    replies: tuple[Reply, ...]
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The outcome of one request, also where it failed.

    `values[i]` is what `accept` returned for `replies[i]`; further replies could not be read, for
    the reasons in `failures`. `cached`: nothing was sent, since the store or the cache had the
    answer.
    """

    replies: tuple[Reply, ...] = ()
    values: tuple[object, ...]
    failures: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = False

    @property
    def error(self) -> str | None:
        """Why a request without any value failed; None for any other."""
        return None if self.values else next(iter(self.failures), "no reply")


class _Alternative(Struct):
    token: str
    logprob: float


class _Token(_Alternative):
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(Struct):
    content: list[_Token] | None = None


class _Part(Struct):
    """A part of a message: Mistral's reasoning models send thoughts and text as parts."""

    type: str
    text: str = ""


class _Message(Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class Choice(Struct):
    message: _Message | None = None  # missing where Azure's filters withhold it
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


def reply_of(choice: Choice) -> Reply:
    """The reply in a choice; its refusal where it has no text."""
    message, logprobs = choice.message or _Message(), choice.logprobs or _Logprobs()
    refusal = "" if message.text else message.refusal or ""
    return Reply(
        text=message.text or refusal,
        tokens=tuple(map(_token_of, logprobs.content or ())),
        finish_reason=REFUSAL if refusal else (choice.finish_reason or "stop")[:LONGEST_WORD],
    )


def _token_of(answer: _Token) -> Token:
    """A token with its likeliest alternatives, which include the token itself."""
    top: dict[str, float] = {}
    for each in (*(answer.top_logprobs or ()), answer):
        top.setdefault(each.token, each.logprob)
    return Token(answer.token, top)


class Model(Protocol):
    """Anything that answers chat messages: an endpoint, any dspy.LM, the embedded model.

    Attributes:
        name: The model's exact name, which is part of a request's key.
        endpoint: Where it answers, which is part of the key, too.
        native_n: Whether n replies cost one request.
        has_logprobs: Whether it gives log-probabilities; None where only a request shows it.

    A model that answers in this process, at once and for free, also has `in_process` true.
    """

    name: str
    endpoint: str
    native_n: bool
    has_logprobs: bool | None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        ...

    async def close(self) -> None: ...


class ModelError(JudgesError):
    """A request without a usable answer.

    `usage` counts its tokens where the answer told them, and `billed` says whether the provider may
    charge for it all the same.
    """

    usage: Usage | None = None
    billed = False


class TransientError(ModelError):
    """A failure that a retry may mend: 5xx, a broken or hung connection, a malformed body.

    `retry_after` is the server's, in seconds.
    """

    def __init__(
        self, message: str, retry_after: float | None = None, *, billed: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.billed = billed


class ThrottledError(TransientError):
    """Too many requests (429)."""


class UnreachableError(TransientError):
    """No connection: no such host, or no server at its port."""


class FatalModelError(ModelError):
    """A failure that no retry mends: 401, 403, 404, a spent quota. It ends the run."""


class RefusedError(ModelError):
    """A failure of this request alone: a context too long, content refused. Its row fails."""
