"""The one way in for replies: complete(messages, sampling) -> replies with token counts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypedDict

from dspy_judges.errors import JudgesError

# Where `openai/NAME` answers unless its user names another endpoint.
OPENAI = "https://api.openai.com/v1"
# Between the seeds of one request's samples: far more than it is sent again.
SAMPLE_SEED_STEP = 10_007

# How endpoints call a reply that they stopped: its limit reached, withheld, or broken off.
OUT_OF_TOKENS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
CUT_SHORT = OUT_OF_TOKENS | {"incomplete", "error", "other", "content_filter", "safety"}
# What a reply that is the model's refusal ends with.
REFUSAL = "refusal"

EMBEDDED = "embedded"
# OpenAI's models that think first; and, by the names in use, anybody's.
OPENAI_REASONING = re.compile(r"(?:.*/)?(?:o[1345](?:-|\Z)|gpt-5(?!.*-chat))")
REASONING = re.compile(
    r"reasoner|\br1\b|magistral|\bqwq|\bqwen3|thinking|gpt-oss|gemini-(?:2\.5|3)|grok-(?:3-mini|4)"
    r"|minimax-m|kimi-k2|\bglm-",
    re.I,
)


def is_embedded(lm: str) -> bool:
    """Whether a model's name or endpoint is that of the embedded model, of any version."""
    return lm.partition("-")[0] == EMBEDDED


def is_reasoning(lm: str) -> bool:
    """Whether a model's name is of those that think before they answer, which takes tokens."""
    return bool(OPENAI_REASONING.match(lm) or REASONING.search(lm))


class Message(TypedDict):
    """One chat message; `content` is always plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How to draw replies: part of a reply's identity, like its messages.

    `top_logprobs` is how many alternatives to ask for at each token; `seed` distinguishes fresh
    asks of the same prompt. `temperature` and `reasoning_effort` None leave it to the model.
    """

    temperature: float | None = 0.0
    n: int = 1
    top_logprobs: int = 0
    max_tokens: int = 512
    seed: int = 0
    reasoning_effort: str | None = None


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
        """Whether the endpoint stopped the reply before the model had ended it."""
        return self.finish_reason.lower() in CUT_SHORT

    @property
    def out_of_tokens(self) -> bool:
        """Whether it reached the request's limit on tokens."""
        return self.finish_reason.lower() in OUT_OF_TOKENS


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens that a request took; in the provider's cache of prompts, those read and put."""

    tokens_in: int
    tokens_out: int
    cache_reads: int = 0
    cache_writes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Usage):
    """The answer to one request: n replies, what they took, and who answered."""

    replies: tuple[Reply, ...]
    model: str


class Model(Protocol):
    """What answers chat messages: an endpoint, any dspy.LM, the embedded model, a recording.

    `name` is the model's exact name and `endpoint` where it answers; both enter a request's key.
    `native_n`: n replies cost one request. `has_logprobs` None: only asking tells. A model that
    answers in this process, at once and for free, has `in_process` true as well.
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
    """A request that got no usable answer; `usage` is what it took, where the answer told."""

    usage: Usage | None = None


class TransientError(ModelError):
    """What may pass when asked again: 5xx, a dropped or hung connection, a malformed body.

    `retry_after` is the server's own wish, in seconds; `billed`: the provider may charge for it.
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
    """No connection at all: no such host, nobody listening."""


class FatalModelError(ModelError):
    """What asking again cannot mend: 401, 403, 404, a quota that is gone. Ends the run."""


class RefusedError(ModelError):
    """This request alone is not answered (context too long, content refused): a failed row."""
