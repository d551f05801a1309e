"""What models take and return: messages and sampling parameters, replies and token counts."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypedDict

from msgspec import Struct, convert

from dspy_judges.errors import JudgesError

# The address at which `openai/NAME` models are asked, unless the user gives another address.
OPENAI_ADDRESS = "https://api.openai.com/v1"
# The most times that a request is sent again because its reply cannot be read.
MAX_REQUEST_REPEATS = 2
# The difference between the seeds of two samples of one request. It is large, since a repeated
# request adds 1 to the seed, and no two samples may have the same seed.
SAMPLE_SEED_STEP = 10_007

# Finish reasons of a reply that ended at the limit of tokens, and of any reply that was cut short.
OUT_OF_TOKENS = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
CUT_SHORT_REASONS = OUT_OF_TOKENS | {"incomplete", "error", "other", "content_filter", "safety"}
# Finish reasons, and models' names in responses, are cut off after this many characters.
MAX_NAME_LENGTH = 200
# The finish reason of a reply in which the model refuses to answer.
REFUSAL = "refusal"

# The name of the model that runs offline in this process.
EMBEDDED = "embedded"
# The name of a decision model begins with one of these words, which name its wire format.
OPENAI_DECISIONS, SYSTEM_ONE = "decisions", "systemone"
# For a reasoning model, which thinks before it answers, max_tokens is multiplied by this factor.
REASONING_TOKENS_FACTOR = 8
# The names of reasoning models: OpenAI's, and those of other providers.
OPENAI_REASONING_MODELS = re.compile(r"(?:.*/)?(?:o[1345](?:-|\Z)|gpt-5(?!.*-chat))")
OTHER_REASONING_MODELS = re.compile(
    r"reasoner|\br1\b|magistral|\bqwq|\bqwen3|thinking|gpt-oss|gemini-(?:2\.5|3)|grok-(?:3-mini|4)"
    r"|minimax-m|kimi-k2|\bglm-",
    re.I,
)


def is_embedded(lm: str) -> bool:
    """Return whether this name, of a model or an endpoint, means the offline embedded model."""
    return lm in (EMBEDDED, "embedded-1")


def is_decision_model(lm: str) -> bool:
    """Return whether `lm` names a decision model, which gives probabilities instead of text."""
    return lm.partition("/")[0] in (OPENAI_DECISIONS, SYSTEM_ONE)


def is_reasoning_model(lm: str) -> bool:
    """Return whether `lm` names a reasoning model, which writes thoughts before its reply."""
    return bool(OPENAI_REASONING_MODELS.match(lm) or OTHER_REASONING_MODELS.search(lm))


def max_tokens_factor(lm: str) -> int:
    """Return the factor of `max_tokens`: a reasoning model also needs tokens for its thoughts."""
    return REASONING_TOKENS_FACTOR if is_reasoning_model(lm) else 1


class Message(TypedDict):
    """A chat message, whose content is always plain text."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """The sampling parameters of a request, which are part of its cache key.

    `n` is the number of replies. `top_logprobs` is the number of likeliest tokens that are returned
    for each position. `seed` also makes the cache keys of repeated requests differ. A
    `temperature` or `reasoning_effort` of None means the model's own default.
    """

    temperature: float | None = 0.0
    n: int = 1
    top_logprobs: int = 0
    max_tokens: int = 512
    seed: int = 0
    reasoning_effort: str | None = None

    def request_fields(self) -> dict[str, str | float]:
        """Return the parameters, except those that are None, as fields of a chat request."""
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
    """A generated token, with the log-probabilities of the likeliest tokens at its position."""

    text: str
    top_logprobs: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A model's reply; `tokens` is empty unless log-probabilities were requested and returned."""

    text: str
    tokens: tuple[Token, ...] = ()
    finish_reason: str = "stop"

    @property
    def is_truncated(self) -> bool:
        """Whether the endpoint stopped the reply before its end."""
        return self.finish_reason.lower() in CUT_SHORT_REASONS

    @property
    def is_out_of_tokens(self) -> bool:
        """Whether the reply was cut short at the request's limit of tokens."""
        return self.finish_reason.lower() in OUT_OF_TOKENS


@dataclass(frozen=True, slots=True)
class Request:
    """A request: its messages, its sampling parameters, and how its replies are read.

    `read_reply` returns what a reply says. If `read_reply` raises NoScoreError, the request is sent
    again, with the messages that `restate_messages` returns. At temperature 0, the same messages
    would bring the same reply.
    """

    messages: Sequence[Message]
    sampling: Sampling
    read_reply: Callable[[Reply], object]
    restate_messages: Callable[[Sequence[Message]], Sequence[Message]] | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of a request (`tokens_in`) and its replies (`tokens_out`).

    Of the request's tokens, `cache_read_tokens` were read from the provider's prompt cache, and
    `cache_write_tokens` were written to it.
    """

    tokens_in: int
    tokens_out: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion(Usage):
    """A model's response to one request: the replies, the token counts, and the model's name."""

    replies: tuple[Reply, ...]
    model: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The outcome of one request, whether or not it was answered.

    `values` has what the request's `read_reply` returned for each reply. `failures` has the reasons
    why other replies could not be read, or why the request was not answered.
    """

    values: tuple[object, ...]
    failures: tuple[str, ...] = ()
    tokens_in: int = 0
    tokens_out: int = 0

    @property
    def failure(self) -> str | None:
        """The reason why the request gave no value; None if there is a value."""
        return None if self.values else next(iter(self.failures), "no reply")


class _TokenAlternative(Struct):
    token: str
    logprob: float


class _TokenLogprob(_TokenAlternative):
    top_logprobs: list[_TokenAlternative] | None = None

    def as_token(self) -> Token:
        top_logprobs: dict[str, float] = {}  # of the likeliest tokens and of the token itself
        for alternative in (*(self.top_logprobs or ()), self):
            top_logprobs.setdefault(alternative.token, alternative.logprob)
        return Token(self.token, top_logprobs)


class _Logprobs(Struct):
    content: list[_TokenLogprob] | None = None


class _ContentPart(Struct):
    """A part of a message's content: some models send their thoughts and their text as parts."""

    type: str
    text: str = ""


class _ReplyMessage(Struct):
    content: str | list[_ContentPart] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class CompletionChoice(Struct):
    message: _ReplyMessage | None = None  # missing if Azure's content filter withholds it
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None

    def as_reply(self) -> Reply:
        """Return the choice as a Reply; a message without text has the text of its refusal."""
        message = self.message or _ReplyMessage()
        text, finish_reason = message.text, (self.finish_reason or "stop")[:MAX_NAME_LENGTH]
        if not text and message.refusal:
            text, finish_reason = message.refusal, REFUSAL
        token_logprobs = (self.logprobs and self.logprobs.content) or ()
        tokens = tuple([logprob.as_token() for logprob in token_logprobs])
        return Reply(text=text, tokens=tokens, finish_reason=finish_reason)


def reply_from_output(output: Any) -> Reply:
    """Convert a string, a chat choice, or an output of vLLM to a Reply."""
    if isinstance(output, str):
        return Reply(text=output)
    if not isinstance(text := getattr(output, "text", None), str):
        return convert(output, CompletionChoice, from_attributes=True).as_reply()
    # For each position, vLLM maps the ids of the likeliest tokens to these tokens.
    tokens = []
    for token_id, token_by_id in zip(output.token_ids, output.logprobs or (), strict=False):
        top_logprobs = {token.decoded_token: token.logprob for token in token_by_id.values()}
        tokens.append(Token(token_by_id[token_id].decoded_token, top_logprobs))
    return Reply(text=text, tokens=tuple(tokens), finish_reason=output.finish_reason or "stop")


class Model(Protocol):
    """A model that answers chat messages: an endpoint, any dspy.LM, or the embedded model.

    Attributes:
        name: The model's exact name, which is part of a request's key.
        endpoint: The address at which the model answers, which is also part of a request's key.
        native_n: Whether one request can bring several replies.
        has_logprobs: Whether the model gives log-probabilities; None if that is not known yet.

    A model may also have any of the attributes of `ModelTraits`.
    """

    name: str
    endpoint: str
    native_n: bool
    has_logprobs: bool | None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one request, without retries; raises ModelError if there is no usable answer."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraits:
    """The optional attributes of a model, with the values for models without them.

    Attributes:
        in_process: Whether the model answers within this process, at once and for free.
        identity: What a request's key has in place of the endpoint; None stands for the endpoint.
        cacheable: Whether the user's cache keeps the replies. Default: true unless `in_process`.
        temperature: The temperature for a judge without a plan; None is the model's own.
        timeout: The seconds after which an unanswered request is sent again. Default: 120.
        max_tokens: The limit of tokens of a reply, unless the user sets one; None: the usual limit.
    """

    in_process: bool = False
    identity: str | None = None
    cacheable: bool | None = None
    temperature: float | None = 0.0
    timeout: float | None = None
    max_tokens: int | None = None

    @classmethod
    def of(cls, model: Model) -> "ModelTraits":
        """Return the traits of a model."""
        names = [name for name in cls.__slots__ if hasattr(model, name)]
        return cls(**{name: getattr(model, name) for name in names})


class ModelError(JudgesError):
    """A request got no usable answer; `may_be_billed` says whether the request may cost money."""

    may_be_billed = False


class TransientError(ModelError):
    """A failure that a retry may overcome. The server asks to wait `retry_after` seconds."""

    def __init__(
        self, message: str, retry_after: float | None = None, *, may_be_billed: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.may_be_billed = may_be_billed


class ThrottledError(TransientError):
    """The endpoint refuses a request because there were too many requests (status 429)."""


class UnreachableError(TransientError):
    """No connection can be made: the host does not exist, or no server listens at its port."""


class FatalModelError(ModelError):
    """A failure that ends the run, since retries cannot help: 401, 403, 404, a spent quota."""


class RefusedError(ModelError):
    """A failure of one request only: its text is too long, or its content is refused."""
