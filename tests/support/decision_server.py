"""A local server of decision models in both of their forms, strict, with faults on order: a plugin.

Tests use the fixture `decision_server`; `python tests/support/decision_server.py` serves by hand.
A request is refused for whatever its form's documentation does not allow.
"""

import argparse
import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import pytest
from aiohttp import web
from msgspec import Meta, Struct
from openai_replies import Body, place
from openai_replies import error as openai_error
from openai_server import OpenAIServer, Serving

# The limits of OpenAI's `input_json`.
MOST_BYTES, MOST_VALUES, MOST_LEVELS = 256 * 1024, 10_000, 32
HUGE = 9 * 2**20
Text = Annotated[str, Meta(min_length=1)]
Opinion = Callable[[Any, str, Sequence[str]], Sequence[float]]


class _Noul(Struct, tag_field="type", tag="noul", forbid_unknown_fields=True):
    instructions: Text
    criteria: dict[Literal["true", "false"], str | None] | None = None


class _Score(Struct, tag_field="type", tag="score", forbid_unknown_fields=True):
    instructions: Text
    criteria: Annotated[list[Text], Meta(min_length=2, max_length=10)]


class _Choice(Struct, tag_field="type", tag="choice", forbid_unknown_fields=True):
    instructions: Text
    criteria: Annotated[dict[Text, str | None], Meta(min_length=2, max_length=255)]


class _SystemOne(Struct, forbid_unknown_fields=True):
    model: Text
    state: str | dict[str, Any] | list[Any]
    questions: Annotated[dict[Text, _Noul | _Score | _Choice], Meta(min_length=1, max_length=400)]


class _Predicate(Struct, tag_field="type", tag="predicate", forbid_unknown_fields=True):
    instructions: Text
    name: Text = ""


class _Level(Struct, forbid_unknown_fields=True):
    label: Text
    description: str = ""


class _Levels(Struct, tag_field="type", tag="score", forbid_unknown_fields=True):
    instructions: Text
    levels: Annotated[list[_Level], Meta(min_length=2, max_length=10)]
    name: Text = ""


class _Value(Struct, forbid_unknown_fields=True):
    value: str | bool
    description: str = ""


class _Choices(Struct, tag_field="type", tag="choice", forbid_unknown_fields=True):
    instructions: Text
    choices: Annotated[list[_Value], Meta(min_length=2, max_length=255)]
    name: Text = ""


class _InputText(Struct, tag_field="type", tag="input_text", forbid_unknown_fields=True):
    text: str


class _InputJson(Struct, tag_field="type", tag="input_json", forbid_unknown_fields=True):
    data: dict[str, Any] | list[dict[str, Any]]


class _Message(Struct, forbid_unknown_fields=True):
    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[_InputText | _InputJson]
    type: Literal["message"] = "message"


class _Decisions(Struct, forbid_unknown_fields=True):
    model: Text
    input: str | list[_Message]
    questions: Annotated[list[_Predicate | _Levels | _Choices], Meta(min_length=1, max_length=400)]


def form_of(body: Body) -> str:
    return "decisions" if "input" in body else "systemone"


def complaint(body: Body) -> str | None:
    """What the documentation of its form does not allow in a request; None if nothing."""
    try:
        if form_of(body) == "systemone":
            msgspec.convert(body, _SystemOne)
            return None
        read = msgspec.convert(body, _Decisions)
    except msgspec.ValidationError as wrong:
        return str(wrong)
    names = Counter(question.name for question in read.questions if question.name)
    if twice := [name for name, n in names.items() if n > 1]:
        return f"the name {twice[0]!r} occurs twice - at `$.questions`"
    for question in read.questions:
        values = [each.value for each in getattr(question, "choices", ())]
        if len(set(values)) < len(values):
            return "choices are not unique - at `$.questions[...].choices`"
    for message in read.input if isinstance(read.input, list) else ():
        for part in message.content if isinstance(message.content, list) else ():
            if isinstance(part, _InputJson) and (reason := _too_large(part.data)):
                return f"{reason} - at `$.input[...].content[...].data`"
    return None


def _too_large(data: object) -> str | None:
    n_values, levels, layer = 0, 0, [data]
    while layer:
        n_values += len(layer)
        containers = [each for each in layer if isinstance(each, dict | list)]
        levels += bool(containers)
        layer = [
            value
            for each in containers
            for value in (each.values() if isinstance(each, dict) else each)
        ]
    if n_values > MOST_VALUES or levels > MOST_LEVELS:
        return f"{n_values} values on {levels} levels"
    size = len(msgspec.json.encode(data))
    return f"{size} bytes of JSON" if size > MOST_BYTES else None


def names_twice(raw: bytes) -> list[str]:
    """The keys that occur twice in an object of a JSON document."""
    twice = list[str]()

    def read(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        twice.extend(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        return dict(pairs)

    json.loads(raw, object_pairs_hook=read)
    return twice


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
    listed = body["questions"]
    return listed if isinstance(listed, dict) else {each["name"]: each for each in listed}


def state_of(body: Body) -> Any:
    """What the questions are about."""
    if form_of(body) == "systemone":
        return body["state"]
    (message,) = body["input"]
    (part,) = message["content"]
    return part["data"]


def _answer(question: Body, options: Sequence[str], p: Sequence[float]) -> Body:
    """The answer to a question, in the form that the question has."""
    kind = question["type"]
    if kind in ("noul", "predicate"):
        return {"type": kind, "noul" if kind == "noul" else "probability": p[0]}
    answer = {"type": kind, "confidence": max(p)}
    if kind == "score":
        answer["score"] = sum(place * each for place, each in enumerate(p))
    else:
        answer["choice"] = options[max(range(len(p)), key=p.__getitem__)]
    if "criteria" in question:
        if kind == "score":
            answer["legend"] = dict(zip(options, question["criteria"], strict=True))
        return {**answer, "probabilities": dict(zip(options, p, strict=True))}
    entries = [
        {"value": option, "probability": each} for option, each in zip(options, p, strict=True)
    ]
    if kind == "score":
        for n, (entry, level) in enumerate(zip(entries, question["levels"], strict=True)):
            entry |= {"value": n, "label": level["label"]}
    return {**answer, "probabilities": entries}


def _answers(reply: Body) -> list[Body]:
    listed = reply["answers"]
    return list(listed.values()) if isinstance(listed, dict) else listed


def _put(reply: Body, value: float) -> None:
    """Set the first probability of each answer."""
    for answer in _answers(reply):
        listed = answer.get("probabilities")
        if isinstance(listed, list):
            listed[0]["probability"] = value
        elif listed is None:
            answer["noul" if "noul" in answer else "probability"] = value
        else:
            listed[next(iter(listed))] = value


def _options(reply: Body, change: Callable[[list[Any]], list[Any]]) -> None:
    """Change the options of each answer that lists them, as pairs or entries."""
    for answer in _answers(reply):
        listed = answer.get("probabilities")
        if isinstance(listed, list):
            answer["probabilities"] = change(listed)
        elif listed is not None:
            answer["probabilities"] = dict(change(list(listed.items())))


def _wrong(options: list[Any], name: str = "other") -> list[Any]:
    first, *others = options
    return [{**first, "value": name} if isinstance(first, dict) else (name, first[1]), *others]


def _turn_labels(reply: Body) -> None:
    """Give each level the label of its counterpart, as a server would that turns the scale."""
    for answer in _answers(reply):
        entries = answer.get("probabilities")
        if answer["type"] == "score" and isinstance(entries, list):
            labels = [entry["label"] for entry in reversed(entries)]
            for entry, label in zip(entries, labels, strict=True):
                entry["label"] = label


def _lose(reply: Body) -> None:
    listed = reply["answers"]
    listed.pop(next(iter(listed)) if isinstance(listed, dict) else 0)


def _refuse(reply: Body) -> None:
    listed = reply["answers"]
    key: Any = next(iter(listed)) if isinstance(listed, dict) else 0
    listed[key] = {"type": "refusal"} | {k: v for k, v in listed[key].items() if k == "name"}


def _add(reply: Body, name: str, answer: Body) -> None:
    listed = reply["answers"]
    if isinstance(listed, dict):
        listed[name] = answer
    else:
        listed.append({**answer, "name": name})


def _twice(reply: Body) -> None:
    if isinstance(reply["answers"], list):
        reply["answers"].append(dict(reply["answers"][0]))


# What is done to a sound reply, by the fault's name.
SPOILS: Mapping[str, Callable[[Body], object]] = {
    "missing": _lose,
    "refusal": _refuse,
    "sum": lambda reply: _put(reply, 1.0),
    "nan": lambda reply: _put(reply, float("nan")),
    "negative": lambda reply: _put(reply, -0.2),
    "wrong option": lambda reply: _options(reply, _wrong),
    "missing option": lambda reply: _options(reply, lambda options: options[1:]),
    "many options": lambda reply: _options(
        reply,
        lambda options: options + [_wrong(options, f"other\n{n}")[0] for n in range(2_000)],
    ),
    "order": lambda reply: _options(reply, lambda options: options[::-1]),
    "labels": _turn_labels,
    "type": lambda reply: [each.update(type="box") for each in _answers(reply)],
    "extra": lambda reply: _add(reply, "unasked", {"type": "noul", "noul": 0.5}),
    "twice": _twice,
    "no usage": lambda reply: reply.pop("usage"),
    "absurd usage": lambda reply: reply.update(usage={"input_tokens": 10**15, "output_tokens": -3}),
    "huge": lambda reply: reply.update(padding="x" * HUGE),
}
TEXTS = {
    "html": "<html><body>502 Bad Gateway</body></html>",
    "nested": '{"answers": ' + "[" * 100_000 + "]" * 100_000 + "}",
}


@dataclass
class DecisionServer(OpenAIServer):
    """Decision models at /v1/decisions (both forms) and, unless `moved`, at /v1/systemone.

    `opinion` gives the probability of each option of a question, by the state, the question's name
    and its options. Faults are 429, 500, hang and drop, "echo" (the key in the answer), and those
    of SPOILS and TEXTS. `tokens_in` is the bill; requests that hang or are dropped are on it, too.
    """

    opinion: Opinion = believe
    moved: bool = False

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/decisions", self._chat)
        if not self.moved:
            app.router.add_post("/v1/systemone", self._chat)
        return app

    async def _answer(self, request: web.Request, body: Body) -> tuple[str, web.StreamResponse]:
        if twice := names_twice(await request.read()):
            return "422", self._error(body, 422, f"{twice[0]!r} occurs twice")
        return await super()._answer(request, body)

    def _refusal(self, request: web.Request, body: Body) -> web.Response | None:
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.key is not None and shown != self.key:
            return self._error(body, 401, f"Incorrect API key provided: {shown}.")
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

    def _completion(self, body: Body, texts: Sequence[str]) -> Body:
        """The answers to all questions, whose tokens are billed."""
        tokens = len(msgspec.json.encode(body)) // 4
        self.tokens_in += tokens
        answers = {}
        for name, question in questions_of(body).items():
            options = options_of(question)
            p = self.opinion(state_of(body), name, options)
            answers[name] = _answer(question, options, p)
        usage: Body = {"input_tokens": tokens, "output_tokens": 0}
        if form_of(body) == "systemone":
            return {"model": body["model"], "answers": answers, "usage": usage}
        usage |= {
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": tokens,
        }
        listed = [{"name": name, **answer} for name, answer in answers.items()]
        return {"model": body["model"], "answers": listed, "usage": usage}

    def _faulty(self, fault: str, request: web.Request, body: Body) -> web.StreamResponse:
        if fault == "drop":
            return super()._faulty(fault, request, body)
        if fault.isdigit():
            return self._error(body, int(fault), "Try again later.")
        reply = self._completion(body, ())
        if fault in TEXTS:
            return web.Response(text=TEXTS[fault], content_type="text/html")
        if fault == "echo":
            reply["model"] = key = request.headers["Authorization"]
            _options(reply, partial(_wrong, name=key))
        else:
            SPOILS[fault](reply)
        return web.json_response(reply)

    def _note(self, request: web.Request, body: Body, done: str) -> None:
        if done in ("drop", "hang"):  # an answer that never came may be billed
            self._completion(body, ())
        super()._note(request, body, done)


@pytest.fixture
def decision_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DecisionServer]:
    """A server to which the addresses and keys of both forms point.

    The test fails if any request was not allowed by its form's documentation.
    """
    server = DecisionServer()
    with Serving(server):
        for form in ("OPENAI", "SYSTEMONE"):
            monkeypatch.setenv(f"{form}_BASE_URL", server.url)
            monkeypatch.setenv(f"{form}_API_KEY", "sk-local-test-key-0123456789")
        yield server
    assert not server.invalid, server.invalid


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before every answer")
    given = parser.parse_args()
    # The same for every text, which is quick.
    server = DecisionServer(
        latency=given.latency,
        opinion=lambda state, name, options: [1 / len(options)] * len(options),
    )
    with Serving(server, given.port):
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
