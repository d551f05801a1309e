"""The habits of chat providers: each as an answer to one request, and what is made of it."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate

import pytest
from aiohttp import web
from openai_replies import Body, completion
from openai_server import OpenAIServer

from judges.client.openai import EndpointModel
from judges.protocol import (
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Sampling,
    ThrottledError,
    TransientError,
)

ASKED: list[Message] = [
    {"role": "system", "content": "You rate."},
    {"role": "user", "content": "Rate it from 1 to 5."},
]
MEAN = Sampling(n=3, temperature=1.0)
WEIGHTED = Sampling(top_logprobs=20)
Respond = Callable[[Body], web.Response | None]


def endpoint(base: str, name: str = "judge-1") -> EndpointModel:
    return EndpointModel(
        name, url=f"{base}/chat/completions", endpoint=base, key="", key_variable="OPENAI_API_KEY"
    )


def say(status: int, body: object, **headers: str) -> web.Response:
    return web.json_response(
        body, status=status, headers={name.replace("_", "-"): v for name, v in headers.items()}
    )


def fail(status: int, message: str, *, param: str | None = None, code: str = "") -> Respond:
    body = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return lambda _: say(status, {"error": body})


def when(field: str, refuse: Respond) -> Respond:
    """Refuse requests that have a field."""
    return lambda body: refuse(body) if field in body else None


def with_system(refuse: Respond) -> Respond:
    return lambda body: refuse(body) if body["messages"][0]["role"] == "system" else None


def replying(top: Body | None = None, choice: Body | None = None, **message: object) -> Respond:
    """A sound answer with other fields."""

    def respond(body: Body) -> web.Response:
        answer = completion(body, ["4"] * (body.get("n") or 1)) | (top or {})
        for each in answer["choices"]:
            each |= choice or {}
            each["message"] |= message
        return say(200, answer)

    return respond


@dataclass(frozen=True)
class Habit:
    """What an endpoint does; the replies, or the kind of error and its words, that come of it.

    `changes` are what is learned, `sent` fields of the last request (None: left out).
    """

    name: str
    respond: Respond
    sampling: Sampling = field(default_factory=Sampling)
    texts: tuple[str, ...] = ("4",)
    error: type[ModelError] | None = None
    said: str = "."
    changes: tuple[str, ...] = ()
    sent: Body = field(default_factory=dict)
    wait: float | None = None
    finish: str = "stop"


WITHOUT = "(requests go without it)"
UNSUPPORTED = "Unsupported parameter: '{}' is not supported with this model."
FORBIDDEN = {
    "type": "extra_forbidden",
    "loc": ["body", "seed"],
    "msg": "Extra inputs are not permitted",
    "input": {"temperature": 0},
}
SPELLINGS = [
    Habit(
        "temperature refused by OpenAI",
        when(
            "temperature",
            fail(400, "Unsupported value: 'temperature' does not support 0 with this model."),
        ),
        changes=(f"no temperature {WITHOUT}",),
        sent={"temperature": None, "seed": 0},
    ),
    Habit(
        "seed forbidden by Mistral, which repeats the request",
        when("seed", lambda _: say(422, {"detail": [FORBIDDEN]})),
        changes=(f"no seed {WITHOUT}",),
        sent={"seed": None, "temperature": 0},
    ),
    Habit(
        "n refused",
        when("n", fail(400, "'n' : number must be at most 1", param="n")),
        MEAN,
        changes=(f"no n {WITHOUT}",),
        sent={"n": None},
    ),
    Habit(
        "logprobs refused, which no plan gives up in silence",
        when("logprobs", fail(400, "logprobs is not supported with this model")),
        WEIGHTED,
        error=FatalModelError,
        said="use --plan one or --plan mean",
    ),
    Habit(
        "fewer alternatives than the plan needs",
        when("top_logprobs", fail(400, "top_logprobs must be less than or equal to 5")),
        WEIGHTED,
        error=FatalModelError,
        said="equal to 5; the plan 'weighted' needs 20",
    ),
    Habit(
        "max_tokens refused",
        when(
            "max_tokens",
            fail(400, f"{UNSUPPORTED.format('max_tokens')} Use 'max_completion_tokens' instead."),
        ),
        sent={"max_completion_tokens": 512, "max_tokens": None},
    ),
    Habit(
        "no system role",
        with_system(fail(400, "System role not supported")),
        changes=(f"no system message {WITHOUT}",),
        sent={"messages": [{"role": "user", "content": "You rate.\n\nRate it from 1 to 5."}]},
    ),
    Habit(
        "everything refused in turn",
        lambda body: next(
            (
                fail(400, f"{UNSUPPORTED.format(name)} Use max_completion_tokens.", param=name)(
                    body
                )
                for name in ("max_tokens", "temperature", "seed", "n")
                if name in body
            ),
            None,
        ),
        MEAN,
        changes=(f"no temperature {WITHOUT}", f"no seed {WITHOUT}", f"no n {WITHOUT}"),
    ),
]
REPLIES = [
    Habit("null content", replying(content=None), texts=("",)),
    Habit("no message, as Azure's filter gives", replying(choice={"message": {}}), texts=("",)),
    Habit(
        "a refusal in its own field",
        replying(content=None, refusal="I cannot rate this."),
        texts=("I cannot rate this.",),
        finish="refusal",
    ),
    Habit("thoughts in reasoning_content", replying(reasoning_content="Say 1? Say 2?")),
]
CONTENT_FILTERED = {"message": "The response was filtered", "code": "content_filter"}
VLLM_CONTEXT = (
    "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context "
    "length is 700 tokens and your request has 400 input tokens (512 > 700 - 400)."
)


def throttled(message: str = "Slow down.", details: object = None, **headers: str) -> Respond:
    body = {"error": {"message": message, "code": 429, "details": details}}
    return lambda _: say(429, body, **headers)


ERRORS = [
    Habit(
        "no key",
        fail(401, "Incorrect API key provided"),
        error=FatalModelError,
        said="judge-1 needs a key, and OPENAI_API_KEY is not set",
    ),
    Habit(
        "no such model, in vLLM's words",
        lambda _: say(404, {"object": "error", "message": "`judge-1` is unknown."}),
        error=FatalModelError,
        said=r"404 from .* for judge-1: `judge-1` is unknown\.",
    ),
    Habit(
        "OpenAI's quota",
        fail(429, "You exceeded it.", code="insufficient_quota"),
        error=FatalModelError,
        said="You exceeded it. insufficient_quota; the same command goes on",
    ),
    Habit(
        "Gemini's limit a day",
        throttled(
            "Retry in 34s.", [{"violations": [{"quotaId": "PerDay"}]}, {"quotaId": "PerDay"}]
        ),
        error=FatalModelError,
        said="PerDay; the same command",
    ),
    *(
        Habit(
            f"a spent budget of LiteLLM's proxy as {status}",
            fail(status, "Budget has been exceeded! Current cost: 2.0, Max budget: 1.0"),
            error=FatalModelError,
            said="Max budget: 1.0; the same command goes on when the account has more credit",
        )
        for status in (400, 422, 429)
    ),
    Habit(
        "a model that LiteLLM's proxy does not have",
        fail(400, "/chat/completions: Invalid model name passed in model=judge-1."),
        error=FatalModelError,
        said="Invalid model name",
    ),
    Habit(
        "a key of LiteLLM's proxy that its provider refuses",
        fail(401, "litellm.AuthenticationError: OpenAIException - Incorrect API key provided"),
        error=FatalModelError,
        said="Incorrect API key provided; the provider refuses the proxy's key, not yours",
    ),
    Habit("a rate limit", throttled(), error=ThrottledError),
    *(
        Habit(
            f"a wait until {what}",
            lambda body, wait=wait: throttled(**{"Retry-After": wait()})(body),
            error=ThrottledError,
            wait=seconds,
        )
        for what, wait, seconds in [
            ("a date", lambda: formatdate(time.time() + 30, usegmt=True), 30.0),
            ("a date that is past", lambda: "Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
            ("no date", lambda: "soon", None),
        ]
    ),
    Habit(
        "overloaded", fail(529, "Overloaded"), error=TransientError, said="529 from .*Overloaded"
    ),
    Habit(
        "a context too long", fail(400, VLLM_CONTEXT), error=RefusedError, said="maximum context"
    ),
    Habit(
        "flagged by OpenRouter's moderation",
        fail(403, "Your input was flagged"),
        error=RefusedError,
        said="was flagged",
    ),
]


async def ask(model: EndpointModel, sampling: Sampling) -> Completion:
    """Ask once, and close the model."""
    try:
        return await model.complete(ASKED, sampling)
    finally:
        await model.close()


@pytest.mark.parametrize(
    "habit", [*SPELLINGS, *REPLIES, *ERRORS], ids=lambda habit: habit.name.replace(" ", "-")
)
def test_a_habit_gives_right_replies_or_one_clear_line(
    habit: Habit, openai_server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    openai_server.judge = lambda body: "4"
    openai_server.habit = lambda number, body: habit.respond(body)
    model = endpoint(openai_server.url)
    if habit.error is None:
        answer = asyncio.run(ask(model, habit.sampling))
        assert tuple(reply.text for reply in answer.replies) == habit.texts
        assert answer.replies[0].finish_reason == habit.finish
    else:
        with pytest.raises(habit.error, match=habit.said) as caught:
            asyncio.run(ask(model, habit.sampling))
        assert type(caught.value) is habit.error
        assert "\n" not in str(caught.value)
        assert getattr(caught.value, "retry_after", None) == (
            None if habit.wait is None else pytest.approx(habit.wait, abs=1.1)
        )
    assert tuple(model.changes) == habit.changes
    warned = [record.getMessage() for record in caplog.records]
    assert [line for line in warned if "judge-1 takes" in line] == [
        f"judge-1 takes {change}" for change in habit.changes
    ]
    assert {name: openai_server.log[-1].body.get(name) for name in habit.sent} == habit.sent


def test_what_was_learned_is_kept_and_known_to_requests_that_were_under_way(
    openai_server: OpenAIServer,
) -> None:
    openai_server.habit = lambda number, body: SPELLINGS[0].respond(body)
    openai_server.latency = 0.05
    model = endpoint(openai_server.url)

    async def twice() -> None:
        await asyncio.gather(*(model.complete(ASKED, Sampling(seed=seed)) for seed in range(3)))
        await ask(model, Sampling())

    asyncio.run(twice())
    assert ["temperature" in seen.body for seen in openai_server.log] == [True] * 3 + [False] * 4
    assert len(model.changes) == 1


@pytest.mark.parametrize("name", ["o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5.1"])
def test_openais_reasoning_models_are_known_by_name(name: str) -> None:
    model = endpoint("http://127.0.0.1:9/v1", name)
    body = model.request_format.body(ASKED, Sampling())
    assert body["max_completion_tokens"] == 512
    assert body.keys().isdisjoint({"temperature", "max_tokens"})
    assert model.changes == [f"no temperature {WITHOUT}"]


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "olmo-2"])
def test_other_models_are_not_taken_for_reasoning_ones(name: str) -> None:
    body = endpoint("http://127.0.0.1:9/v1", name).request_format.body(ASKED, Sampling())
    assert (body["max_tokens"], body["temperature"]) == (512, 0.0)
