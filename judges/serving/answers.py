"""What a chat request gets: a frozen judge's rating and score, or the embedded model's reply."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from judges.dimension import Dimension
from judges.errors import JudgesError
from judges.inference.runner import ModelRequest, Runner
from judges.judge import Judge, RowJudge
from judges.judgement import AnyJudgement, Verdict
from judges.judging import unusable
from judges.models.openai_format import NEVER
from judges.models.prices import CHARACTERS_PER_TOKEN, estimate_tokens
from judges.models.providers import EMBEDDED_MODELS
from judges.panel import Panel
from judges.prompt import SLOT, reply_form
from judges.protocol import Completion, Message, Reply, Sampling, Token
from judges.validation import InvalidDataError, converted, decode_json, quoted

MAX_BRACKETS = 200_000
# A name before a JSON value, at the beginning of a line: how MLflow sends inputs and outputs.
LABEL = re.compile(r"\s*(inputs|outputs):\s*")
TAKES = (
    "one user message with the texts as a JSON object, as in {texts}, or the "
    "judge's own messages (python -m judges show)"
)


class RequestError(JudgesError, ValueError):
    """A request that gets no reply: the status and the code that say so, and the parameter."""

    def __init__(
        self, message: str, *, status: int = 400, code: str = "invalid_value", param: str = ""
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param = status, code, param


class TextPart(Struct):
    type: Literal["text"]
    text: str


class ChatMessage(Struct):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None

    def plain(self) -> Message:
        """The message in the roles and the one text that prompts have."""
        content = self.content or ""
        if not isinstance(content, str):
            content = "".join(part.text for part in content)
        role: Any = "system" if self.role == "developer" else self.role
        return Message(role=role, content=content)


class JsonSchema(Struct):
    schema: dict[str, Any] = {}


class ResponseFormat(Struct):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class ChatRequest(Struct):
    """A chat-completions request, as far as it is heeded; other sampling parameters are not."""

    model: str
    messages: Annotated[list[ChatMessage], Meta(min_length=1)]
    n: Annotated[int, Meta(ge=1, le=128)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Meta(ge=0, le=10)] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    max_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Meta(ge=1)] | None = None
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    response_format: ResponseFormat | None = None
    stop: str | list[str] | None = None
    tools: list[Any] | None = None
    functions: list[Any] | None = None

    @property
    def n_replies(self) -> int:
        return self.n or 1

    @property
    def limit(self) -> int | None:
        """The most tokens of a reply."""
        return self.max_completion_tokens or self.max_tokens

    @property
    def n_alternatives(self) -> int:
        """How many alternatives of the chosen token a reply carries; 0: no log-probabilities."""
        return max(1, self.top_logprobs or 0) if self.logprobs else 0


def read_request(body: bytes) -> ChatRequest:
    """Read a request's body; raises RequestError."""
    try:
        value = decode_json(body, max_brackets=MAX_BRACKETS)
        request = converted(value, ChatRequest, "the request")
    except InvalidDataError as error:
        raise RequestError(str(error), code="invalid_request") from None
    for name in ("tools", "functions", "stop"):
        if getattr(request, name):
            raise RequestError(f"{name} are not served; leave them out", param=name)
    return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Replies, and what a judge says beside its rating: the score, as `judges score` writes it."""

    completion: Completion
    judgement: Mapping[str, object] | None = None


class ServedModel(Protocol):
    """What the endpoint serves: under which names, what it is, and its answers, in any thread."""

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def about(self) -> Mapping[str, object]: ...

    def answer(self, request: ChatRequest) -> Answer:
        """Answer one request; raises RequestError, BudgetSpentError and ModelError."""
        ...


@dataclass(frozen=True, slots=True)
class ServedEmbedded:
    """The embedded model, for prompts of this project's form and of DSPy's adapters."""

    runner: Runner
    names: tuple[str, ...] = tuple(sorted(EMBEDDED_MODELS))
    about: Mapping[str, object] = field(default_factory=lambda: {"kind": "embedded"})

    def answer(self, request: ChatRequest) -> Answer:
        sampling = Sampling(
            temperature=request.temperature,
            n=request.n_replies,
            top_logprobs=request.n_alternatives,
            seed=request.seed or 0,
        )
        messages = [message.plain() for message in request.messages]
        response = self.runner.ask(ModelRequest(messages, sampling, accept=lambda reply: reply))
        if not response.replies:
            raise RequestError(
                response.error or "no reply", status=422, code="no_reply", param="messages"
            )
        return Answer(
            completion=Completion(
                replies=tuple(cut_short(reply, request.limit) for reply in response.replies),
                tokens_in=response.tokens_in,
                tokens_out=response.tokens_out,
                model=self.names[-1],
            )
        )


@dataclass(frozen=True, slots=True)
class ServedJudge:
    """A judge as a model: it reads texts and replies with its rating, whatever its kind."""

    judge: Judge
    judge_rows: RowJudge
    names: tuple[str, ...]
    about: Mapping[str, object]

    @classmethod
    def of(cls, judge: Judge, judge_rows: RowJudge) -> "ServedJudge":
        digest = sha256(judge.dumps().encode()).hexdigest()
        about = {
            "kind": judge.kind,
            "reads": list(judge.row_keys),
            "lm": judge.lm,
            "digest": digest,
        }
        return cls(judge, judge_rows, (judge.name,), about)

    def answer(self, request: ChatRequest) -> Answer:
        """Judge the texts of the last message; a failed judgement is an error, never a rating."""
        last = request.messages[-1]
        if last.role != "user":
            raise RequestError("the last message is to be the user's", param="messages")
        texts = read_texts(self.judge, last.plain()["content"])
        (judgement,) = self.judge_rows([texts])
        if judgement.failure is not None:
            raise RequestError(
                f"{self.judge.name}: {judgement.failure}",
                status=422,
                code="judgement_failed",
                param="messages",
            )
        reply = write_reply(self.judge, judgement, request)
        sent = estimate_tokens([message.plain() for message in request.messages])
        return Answer(
            completion=Completion(
                replies=(cut_short(reply, request.limit),) * request.n_replies,
                tokens_in=sent,
                tokens_out=request.n_replies * (len(reply.text) // CHARACTERS_PER_TOKEN + 1),
                model=self.judge.name,
            ),
            judgement={"score": judgement.score} | judgement.as_json(),
        )


def read_texts(judge: Judge, content: str) -> dict[str, object]:
    """A judge's texts in a user message; raises RequestError where they are not all there.

    They stand as one JSON object, as MLflow sends inputs and outputs, or where the judge's own
    last message has its slots.
    """
    start = content.lstrip()
    texts: object
    if start.startswith("{"):
        texts = _read_json(content)
    elif LABEL.match(content):
        texts = _read_labelled(judge, content)
    else:
        texts = _read_rendered(judge, content)
    example = json.dumps(dict.fromkeys(judge.row_keys, "..."))
    takes = f"the judge {judge.name} takes {TAKES.format(texts=example)}"
    if not isinstance(texts, dict):
        raise RequestError(f"the last message holds no texts; {takes}", param="messages")
    missing = [name for name in judge.row_keys if name not in texts]
    unknown = [quoted(name) for name in texts if name not in judge.row_keys]
    if missing or unknown:
        raise RequestError(
            f"the judge {judge.name} reads {', '.join(judge.row_keys)}"
            + (f"; not given: {', '.join(missing)}" if missing else "")
            + (f"; not known: {', '.join(unknown[:5])}" if unknown else ""),
            param="messages",
        )
    if reason := unusable(judge.subject, texts):
        raise RequestError(f"{judge.name}: {reason}", param="messages")
    return texts


def _read_json(content: str) -> object:
    try:
        return decode_json(content.encode("utf-8", "replace"), max_brackets=MAX_BRACKETS)
    except InvalidDataError as error:
        raise RequestError(f"the last message: {error}", param="messages") from None


def _read_labelled(judge: Judge, content: str) -> dict[str, object]:
    """Texts after `inputs:` and `outputs:`; what is no object is the judge's first or last text."""
    decoder, texts, place = json.JSONDecoder(), dict[str, object](), 0
    while label := LABEL.match(content, place):
        try:
            value, place = decoder.raw_decode(content, label.end())
        except (ValueError, RecursionError):
            raise RequestError(f"no JSON after {label[1]}:", param="messages") from None
        name = judge.texts[0 if label[1] == "inputs" else -1]
        texts |= value if isinstance(value, dict) else {name: value}
    if content[place:].strip():
        raise RequestError("more stands after inputs and outputs", param="messages")
    return texts


def _read_rendered(judge: Judge, content: str) -> dict[str, object] | None:
    """What stands in the slots of the judge's own last message; None where it is another."""
    names, fixed = split_template(judge)
    if not (names and content.startswith(fixed[0]) and content.endswith(fixed[-1])):
        return None
    rest = content[len(fixed[0]) : len(content) - len(fixed[-1])]
    values = []
    for separator in fixed[1:-1]:
        # A text that holds it could begin anywhere.
        if rest.count(separator) != 1:
            return None
        value, _, rest = rest.partition(separator)
        values.append(value)
    return dict(zip(names, [*values, rest], strict=True))


def split_template(judge: Judge) -> tuple[list[str], list[str]]:
    """The names of the slots in a judge's last message, and what stands around them.

    A panel's members have a message each: its texts come as JSON.
    """
    if isinstance(judge, Panel):
        return [], []
    parts = SLOT.split(judge.template()[-1]["content"])
    return parts[1::2], parts[0::2]


def write_reply(judge: Judge, judgement: AnyJudgement, request: ChatRequest) -> Reply:
    """The rating or choice in the judge's own form, or in the JSON that is asked for."""
    value, probabilities, reasons = summary_of(judge, judgement)
    form = request.response_format
    if form is not None and form.type != "text":
        return Reply(text=_json_reply(judgement, value, form))
    before, after = reply_form(judge.prompt, reasons or "")
    if not request.n_alternatives:
        return Reply(text=f"{before}{value}{after}")
    likeliest = sorted(probabilities, key=lambda choice: -probabilities[choice])
    top = {
        str(choice): math.log(probabilities[choice]) if probabilities[choice] > 0 else NEVER
        for choice in likeliest[: request.n_alternatives]
    }
    tokens = (Token(before, {}), Token(str(value), top), Token(after, {}))
    return Reply(
        text=f"{before}{value}{after}", tokens=tuple(token for token in tokens if token.text)
    )


def summary_of(
    judge: Judge, judgement: AnyJudgement
) -> tuple[int | str, Mapping[int | str, float], str | None]:
    """The rating or choice to name, the probability of each, and the reasons.

    A mean is named by the rating closest to it; where there are no probabilities (one reply), that
    of the rating is 1.
    """
    if isinstance(judgement, Verdict):
        share = (1 + judgement.margin) / 2
        return judgement.preferred or "tie", {"A": share, "B": 1 - share}, judgement.comparison
    rating, subject = judgement.rating, judge.subject
    if rating is None:
        assert isinstance(subject, Dimension)
        shares = judgement.distribution
        # A map of scores may have taken the score off the scale; the shares stand on it.
        mean = math.fsum(r * p for r, p in shares.items()) if shares else judgement.score
        rating = min(subject.scale, key=lambda point: abs(point - mean))
    distribution = judgement.distribution or {rating: 1.0}
    return rating, dict(distribution.items()), judgement.rationale


def _json_reply(judgement: AnyJudgement, value: int | str, form: ResponseFormat) -> str:
    """The judgement as JSON, or what a schema asks for, told by types.

    A number is the score, an integer or one of a few values the rating or choice, a text the
    reasons.
    """
    schema = form.json_schema.schema if form.json_schema else {}
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not properties:
        return json.dumps({"score": judgement.score} | judgement.as_json(), ensure_ascii=False)
    reasons = judgement.comparison if isinstance(judgement, Verdict) else judgement.rationale
    values: dict[str, object] = {}
    for name, kind in properties.items():
        kind = kind if isinstance(kind, dict) else {}
        if "enum" in kind or kind.get("type") == "integer":
            values[name] = value
        elif kind.get("type") == "number":
            values[name] = judgement.score
        elif kind.get("type") == "string":
            values[name] = reasons or ""
        else:
            raise RequestError(
                f"the schema's {quoted(name)} is no number, integer, enum or string: a judge gives "
                "its score, its rating and its reasons",
                param="response_format",
            )
    return json.dumps(values, ensure_ascii=False)


def cut_short(reply: Reply, limit: int | None) -> Reply:
    """The reply within a limit on tokens, taken as four characters."""
    if limit is None or len(reply.text) <= limit * CHARACTERS_PER_TOKEN:
        return reply
    text = reply.text[: limit * CHARACTERS_PER_TOKEN]
    tokens, room = [], len(text)
    for token in reply.tokens:
        if len(token.text) > room:
            break
        room -= len(token.text)
        tokens.append(token)
    return replace(reply, text=text, tokens=tuple(tokens), finish_reason="length")


def completion_body(answer: Answer, request: ChatRequest) -> dict[str, Any]:
    """The parts of a response that depend on its replies: choices and usage."""
    completion, choices = answer.completion, []
    for index, reply in enumerate(completion.replies):
        message: dict[str, object] = {"role": "assistant", "content": reply.text, "refusal": None}
        if answer.judgement is not None:
            message["judgement"] = answer.judgement
        choices.append(
            {
                "index": index,
                "message": message,
                "finish_reason": reply.finish_reason,
                "logprobs": _logprobs(reply, request) if request.logprobs else None,
            }
        )
    usage = {
        "prompt_tokens": completion.tokens_in,
        "completion_tokens": completion.tokens_out,
        "total_tokens": completion.tokens_in + completion.tokens_out,
    }
    return {"model": request.model, "choices": choices, "usage": usage}


def _logprobs(reply: Reply, request: ChatRequest) -> dict[str, object]:
    """Log-probabilities in the form that they have in an answer; what is no choice is certain."""
    tokens = reply.tokens or (Token(reply.text, {}),)
    return {
        "content": [
            {
                **_token(token.text, token.top.get(token.text, NEVER if token.top else 0.0)),
                "top_logprobs": [
                    _token(text, logprob)
                    for text, logprob in list(token.top.items())[: request.top_logprobs or 0]
                ],
            }
            for token in tokens
        ],
        "refusal": None,
    }


def _token(text: str, logprob: float) -> dict[str, object]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}
