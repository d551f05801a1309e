"""A local server of decision models in both of their forms, strict, with faults on order: a plugin.

A request is refused for whatever its form's documentation does not allow.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import pytest
from aiohttp import web
from openai_replies import Body, place
from openai_replies import error as openai_error
from openai_server import OpenAIServer
from serving import serving

# The limit of OpenAI's `input_json`.
MOST_BYTES = 256 * 1024
Opinion = Callable[[Any, str, Sequence[str]], Sequence[float]]


def _object(tag: str | None = None, **fields: Any) -> Any:
    """A JSON object of these fields alone, with its tag as its type; (kind, None) may be absent."""
    members = [
        (name, *kind) if isinstance(kind, tuple) else (name, kind) for name, kind in fields.items()
    ]
    options = {"tag_field": "type", "tag": tag, "forbid_unknown_fields": True, "kw_only": True}
    return msgspec.defstruct("Object", members, **options)


def _some(kind: Any, least: int, most: int) -> Any:
    return Annotated[kind, msgspec.Meta(min_length=least, max_length=most)]


TEXT = Annotated[str, msgspec.Meta(min_length=1)]
MAYBE_TEXT = (str | None, None)
NOUL = _object(
    "noul", instructions=TEXT, criteria=(dict[Literal["true", "false"], str | None] | None, None)
)
SCORE = _object("score", instructions=TEXT, criteria=_some(list[TEXT], 2, 10))
CHOICE = _object("choice", instructions=TEXT, criteria=_some(dict[TEXT, str | None], 2, 255))
SYSTEM_ONE = _object(
    model=TEXT,
    state=str | dict[str, Any] | list[Any],
    questions=_some(dict[TEXT, NOUL | SCORE | CHOICE], 1, 400),
)
PREDICATE = _object("predicate", name=TEXT, instructions=TEXT)
LEVELS = _some(list[_object(label=TEXT, description=MAYBE_TEXT)], 2, 10)
LEVELS = _object("score", name=TEXT, instructions=TEXT, levels=LEVELS)
CHOICES = _some(list[_object(value=str | bool, description=MAYBE_TEXT)], 2, 255)
CHOICES = _object("choice", name=TEXT, instructions=TEXT, choices=CHOICES)
PART = _object("input_text", text=str) | _object("input_json", data=dict[str, Any])
MESSAGE = _object(role=Literal["system", "developer", "user", "assistant"], content=list[PART])
DECISIONS = _object(
    model=TEXT, input=list[MESSAGE], questions=_some(list[PREDICATE | LEVELS | CHOICES], 1, 400)
)


def form_of(body: Body) -> str:
    return "decisions" if "input" in body else "systemone"


def complaint(body: Body) -> str | None:
    """What the documentation of its form does not allow in a request; None if nothing."""
    form = form_of(body)
    try:
        msgspec.convert(body, DECISIONS if form == "decisions" else SYSTEM_ONE)
    except msgspec.ValidationError as wrong:
        return str(wrong)
    size = len(msgspec.json.encode(state_of(body)))
    if form == "decisions" and size > MOST_BYTES:
        return f"{size} bytes of JSON - at `$.input[...].content[...].data`"
    return None


def believe(state: Any, name: str, options: Sequence[str]) -> list[float]:
    """The probability of each option, by a hash of the state: the default opinion."""
    start = place(json.dumps(state))
    parts = [0.1 + place(f"{option} {name} {start}") for option in options]
    return [round(part / sum(parts), 6) for part in parts]


def options_of(question: Body) -> list[str]:
    """What a question may be answered with: a score's levels by their places."""
    criteria = question.get("criteria") or question.get("levels") or question.get("choices") or ()
    if question["type"] in ("noul", "predicate"):
        return ["true", "false"]
    if question["type"] == "score":
        return [str(n) for n in range(len(criteria))]
    return [each["value"] if isinstance(each, dict) else each for each in criteria]


def questions_of(body: Body) -> dict[str, Body]:
    questions = body["questions"]
    return questions if isinstance(questions, dict) else {each["name"]: each for each in questions}


def state_of(body: Body) -> Any:
    """What the questions are about."""
    if form_of(body) == "systemone":
        return body["state"]
    (message,) = body["input"]
    (part,) = message["content"]
    return part["data"]


def _answer(question: Body, p: Sequence[float]) -> Body:
    """The answer to a question, in System One's form."""
    kind, by_option = question["type"], dict(zip(options_of(question), p, strict=True))
    if kind in ("noul", "predicate"):
        return {"type": "noul", "noul": p[0]}
    answer: Body = {"type": kind, "confidence": max(p), "probabilities": by_option}
    if kind == "score":
        labels = question.get("criteria") or [level["label"] for level in question["levels"]]
        answer["legend"] = dict(zip(by_option, labels, strict=True))
    return answer


def _decision(name: str, answer: Body) -> Body:
    """An answer in OpenAI's form, which lists the options, a level by its place and label."""
    if answer["type"] == "noul":
        answer |= {"type": "predicate", "probability": answer.pop("noul")}
    if "probabilities" in answer:
        legend = answer.pop("legend", {})
        answer["probabilities"] = [
            {"value": int(option), "label": legend[option], "probability": p}
            if option in legend
            else {"value": option, "probability": p}
            for option, p in answer["probabilities"].items()
        ]
    return {"name": name, **answer}


def _spoil(reply: Body, fault: str) -> None:
    """Make a sound reply in System One's form wrong, by the fault's name."""
    answers, name = reply["answers"], next(iter(reply["answers"]))
    match fault:
        case "missing":
            del answers[name]
        case "refusal":
            answers[name] = {"type": "refusal"}
        case "extra":
            answers["unasked"] = {"type": "noul", "noul": 0.5}
        case "twice":  # in OpenAI's form by the same name
            answers["again"] = {**answers[name], "name": name}
        case "no usage":
            del reply["usage"]
        case "absurd usage":
            reply["usage"] = {"input_tokens": 10**15, "output_tokens": -3}
        case _:
            for answer in answers.values():
                _spoil_answer(answer, fault)


def _spoil_answer(answer: Body, fault: str) -> None:
    shares = answer.get("probabilities", {})
    if fault == "type":
        answer["type"] = "box"
    elif fault in ("sum", "nan"):
        probability = 1.0 if fault == "sum" else float("nan")
        (shares or answer)[next(iter(shares), "noul")] = probability
    elif fault == "wrong option" and shares:
        answer["probabilities"] = {"other": shares.pop(next(iter(shares))), **shares}
    elif fault == "order" and shares:
        answer["probabilities"] = dict([*shares.items()][::-1])
    elif fault == "labels" and "legend" in answer:  # as a server would that turns the scale
        legend = answer["legend"]
        answer["legend"] = dict(zip(legend, [*legend.values()][::-1], strict=True))


HTML = "<html><body>502 Bad Gateway</body></html>"


@dataclass
class DecisionServer(OpenAIServer):
    """Decision models at /v1/decisions (both forms) and, unless `moved`, at /v1/systemone.

    `opinion` gives the probability of each option of a question, by the state, the question's name
    and its options. Faults are 429, 500, hang, drop, "html" and those of `_spoil`. `tokens_in` is
    the bill; requests that hang or are dropped are on it, too.
    """

    opinion: Opinion = believe
    moved: bool = False

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/decisions", self._chat)
        if not self.moved:
            app.router.add_post("/v1/systemone", self._chat)
        return app

    def _refusal(self, request: web.Request, body: Body) -> web.Response | None:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key is not None and key != self.key:
            return self._error(body, 401, f"Incorrect API key provided: {key}.")
        if reason := complaint(body):
            self.invalid.append(reason)
            return self._error(body, 400 if form_of(body) == "decisions" else 422, reason)
        return None

    def _error(self, body: Body, status: int, message: str) -> web.Response:
        """An error as the form of the request has it."""
        if form_of(body) == "decisions":
            return openai_error(status, message, "invalid_request_error", self.retry_after)
        text, _, where = message.partition(" - at ")
        detail: Any = {"error_type": "error", "message": message}
        if status == 422:
            detail = [{"loc": ["body", where], "msg": text, "type": "value_error"}]
        headers = {"Retry-After": self.retry_after} if self.retry_after else {}
        return web.json_response({"detail": detail}, status=status, headers=headers)

    def _texts(self, body: Body) -> Sequence[str]:
        return ()

    def _reply(self, body: Body) -> Body:
        """The answers to all questions in System One's form, whose tokens are billed."""
        tokens = len(msgspec.json.encode(body)) // 4
        self.tokens_in += tokens
        state = state_of(body)
        answers = {
            name: _answer(question, self.opinion(state, name, options_of(question)))
            for name, question in questions_of(body).items()
        }
        usage = {"input_tokens": tokens, "output_tokens": 0}
        return {"model": body["model"], "answers": answers, "usage": usage}

    def _completion(self, body: Body, texts: Sequence[str]) -> Body:
        return self._in_form(body, self._reply(body))

    def _in_form(self, body: Body, reply: Body) -> Body:
        """A reply in the form of the request."""
        if form_of(body) == "systemone":
            return reply
        return {**reply, "answers": [_decision(*each) for each in reply["answers"].items()]}

    def _faulty(self, fault: str, request: web.Request, body: Body) -> web.StreamResponse:
        if fault == "drop":
            return super()._faulty(fault, request, body)
        if fault.isdigit():
            return self._error(body, int(fault), "Try again later.")
        reply = self._reply(body)
        if fault == "html":
            return web.Response(text=HTML, content_type="text/html")
        _spoil(reply, fault)
        return web.json_response(self._in_form(body, reply))

    def _note(self, request: web.Request, body: Body, outcome: str) -> None:
        if outcome in ("drop", "hang"):  # an answer that never came may be billed
            self._completion(body, ())
        super()._note(request, body, outcome)


class DecidingLM:
    """A model in this process that DSPy asks typed questions, as `dspy.experimental.TypeSafe`.

    It answers by an opinion as the server does, and keeps what it was asked.

    `base_url` and `api_key` are what a judge reads of it, which asks the server itself.
    """

    supports_decision_requests = True

    def __init__(self, opinion: Opinion = believe, base_url: str = "", api_key: str = "") -> None:
        self.opinion, self.base_url, self.api_key = opinion, base_url, api_key
        self.model = "jev"
        self.requests: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []

    def __call__(self, state: Mapping[str, Any], questions: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append((state, questions))
        answers: dict[str, Any] = {}
        for name, question in questions.items():
            options = options_of(question)
            p = self.opinion(state, name, options)
            by_option = dict(zip(options, p, strict=True))
            answers[name] = {"probabilities": by_option, "confidence": max(p)}
            if question["type"] == "noul":
                answers[name] = {"noul": p[0]}
        return answers

    async def acall(self, state: Mapping[str, Any], questions: Mapping[str, Any]) -> dict[str, Any]:
        return self(state, questions)


@pytest.fixture
def decision_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecisionServer]:
    """A server to which the addresses and keys of both forms point.

    The test fails if any request was not allowed by its form's documentation.
    """
    server = DecisionServer()
    with serving(server):
        for form in ("OPENAI", "SYSTEMONE"):
            monkeypatch.setenv(f"{form}_BASE_URL", server.url)
            monkeypatch.setenv(f"{form}_API_KEY", "sk-local-test-key-0123456789")
        yield server
    assert not server.invalid, server.invalid
