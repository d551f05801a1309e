"""The habits of chat providers: each as an answer to one request, and what is made of it."""

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate

import pytest
from aiohttp import web
from openai_replies import Body, completion
from refusals import refuses

from judges.client.openai import EndpointModel
from judges.protocol import (
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    TransientError,
)

PROMPT: list[Message] = [
    {"role": "system", "content": "You rate."},
    {"role": "user", "content": "Rate it from 1 to 5."},
]
MEAN = Sampling(n=3, temperature=1.0)
WEIGHTED_PLAN = Sampling(top_logprobs=20)
Respond = Callable[[Body], web.Response | None]


def endpoint(base: str, name: str = "judge-1") -> EndpointModel:
    return EndpointModel(name, f"{base}/chat/completions", base, "", "OPENAI_API_KEY")


def fail(status: int, message: str, **others: object) -> Respond:
    """A refusal; the header Retry-After is by `wait`."""
    headers = {"Retry-After": str(others.pop("wait"))} if "wait" in others else {}
    body = {"error": {"message": message, "type": "invalid_request_error", **others}}
    return lambda _: web.json_response(body, status=status, headers=headers)


def when(field: str, refuse: Respond) -> Respond:
    """Refuse requests that have a field."""
    return lambda body: refuse(body) if field in body else None


def with_system(refuse: Respond) -> Respond:
    return lambda body: refuse(body) if body["messages"][0]["role"] == "system" else None


def replying(choice: Body | None = None, **message: object) -> Respond:
    """A sound answer with other fields."""

    def respond(body: Body) -> web.Response:
        answer = completion(body, ["4"])
        for each in answer["choices"]:
            each |= choice or {}
            each["message"] |= message
        return web.json_response(answer)

    return respond


def vllm_knows_none(body: Body) -> web.Response:
    return web.json_response({"object": "error", "message": "no judge-1"}, status=404)


def refuse_in_turn(body: Body) -> web.Response | None:
    for name in ("max_tokens", "temperature", "seed", "n"):
        if name in body:
            return fail(400, UNSUPPORTED.format(name), param=name)(body)
    return None


UNSUPPORTED = "Unsupported parameter: '{}'. Use 'max_completion_tokens' instead."
FORBIDDEN = {"type": "extra_forbidden", "loc": ["body", "seed"], "input": {"temperature": 0}}
# What is refused, what requests go without, and fields of the last request (None: left out).
SPELLINGS: dict[str, tuple[Respond, list[str], Body]] = {
    "temperature refused by OpenAI": (
        when("temperature", fail(400, "'temperature' does not support 0 with this model.")),
        ["temperature"],
        {"temperature": None, "seed": 0, "n": 3},
    ),
    "seed forbidden by Mistral, which repeats the request": (
        when("seed", lambda _: web.json_response({"detail": [FORBIDDEN]}, status=422)),
        ["seed"],
        {"seed": None, "temperature": 1},
    ),
    "no system role": (
        with_system(fail(400, "System role not supported")),
        ["system message"],
        {"messages": [{"role": "user", "content": "You rate.\n\nRate it from 1 to 5."}]},
    ),
    "everything refused in turn": (
        refuse_in_turn,
        ["temperature", "seed", "n"],
        {"max_completion_tokens": 512, "max_tokens": None, "n": None},
    ),
}
WITHOUT = "no {} (requests go without it)"
REPLIES = {
    "null content": (replying(content=None), "", "stop"),
    "no message, as Azure's filter gives": (replying({"message": {}}), "", "stop"),
    "its own refusal": (replying(content=None, refusal="I do not."), "I do not.", "refusal"),
    "thoughts in reasoning_content": (replying(reasoning_content="Say 1? Say 2?"), "4", "stop"),
}
VLLM_CONTEXT = (
    "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context "
    "length is 700 tokens and your request has 400 input tokens (512 > 700 - 400)."
)
OPENAI_CONTEXT = (
    "This model's maximum context length is 700 tokens. However, you requested 912 tokens (400 in "
    "the messages, 512 in the completion)."
)
AT_MOST_5 = "top_logprobs must be less than or equal to 5"
GEMINI_DAY = [{"violations": [{"quotaId": "PerDay"}]}, {"quotaId": "PerDay"}]
SPENT = "Budget has been exceeded! Current cost: 2.0, Max budget: 1.0"
SPENT_MESSAGE = "Max budget: 1.0; run the same command again when the account has more credit"
REFUSED_KEY = "Incorrect API key provided"
PROXY_KEY = f"litellm.AuthenticationError: OpenAIException - {REFUSED_KEY}"
GONE = "/chat/completions: Invalid model name passed in model=judge-1."
FATAL: dict[str, tuple[Respond, str]] = {
    "logprobs refused": (when("logprobs", fail(400, "logprobs is not supported")), "--plan mean"),
    "few alternatives": (when("top_logprobs", fail(400, AT_MOST_5)), "'weighted' needs 20"),
    "no key": (fail(401, REFUSED_KEY), "the key in OPENAI_API_KEY is missing or was not"),
    "no such model, in vLLM's words": (vllm_knows_none, "404 from .* for judge-1: no judge-1"),
    "OpenAI's quota": (
        fail(429, "Pay.", code="insufficient_quota"),
        "_quota; run the same command",
    ),
    "Gemini's limit a day": (
        fail(429, "Retry.", details=GEMINI_DAY),
        "PerDay; run the same command",
    ),
    "a spent budget of LiteLLM's proxy as 400": (fail(400, SPENT), SPENT_MESSAGE),
    "a spent budget of LiteLLM's proxy as 429": (fail(429, SPENT), SPENT_MESSAGE),
    "a model that LiteLLM's proxy does not have": (fail(400, GONE), "Invalid model name"),
    "a key of LiteLLM's proxy for its provider": (fail(401, PROXY_KEY), "refuses the proxy's key"),
}
PASSING: dict[str, tuple[Respond, str, type[ModelError]]] = {
    "a rate limit": (fail(429, "Slow down."), "Slow down", ThrottledError),
    "overloaded": (fail(529, "Overloaded"), "529 from .*Overloaded", TransientError),
    "a context too long": (fail(400, VLLM_CONTEXT), "a smaller --max-tokens leaves", RefusedError),
    "a context too long for OpenAI": (fail(400, OPENAI_CONTEXT), "a smaller --max-", RefusedError),
    "a text too long alone": (fail(400, "It has 900 input tokens."), "tokens.$", RefusedError),
    "OpenRouter's moderation": (fail(403, "It was flagged"), "was flagged", RefusedError),
}


def ask(
    model: EndpointModel, *samplings: Sampling, messages: list[Message] = PROMPT
) -> list[Reply]:
    """Ask at once with each, and close the model; the first replies."""

    async def replies() -> list[Reply]:
        try:
            answers = [model.complete(messages, sampling) for sampling in samplings]
            return [answer.replies[0] for answer in await asyncio.gather(*answers)]
        finally:
            await model.close()

    return asyncio.run(replies())


@pytest.mark.parametrize(("respond", "without", "fields"), SPELLINGS.values(), ids=SPELLINGS)
def test_a_refused_field_is_left_out_or_respelt(respond, without, fields, openai_server, caplog):
    openai_server.judge = lambda body: "4"
    openai_server.habit = lambda number, body: respond(body)
    model = endpoint(openai_server.url)
    (reply,) = ask(model, MEAN)
    assert (reply.text, reply.finish_reason) == ("4", "stop")
    assert model.request_format.changes == [WITHOUT.format(name) for name in without]
    messages = [record.getMessage() for record in caplog.records]
    lines = [f"judge-1 takes {change}" for change in model.request_format.changes]
    assert [line for line in messages if "judge-1 takes" in line] == lines
    assert {name: openai_server.log[-1].body.get(name) for name in fields} == fields


@pytest.mark.parametrize(("respond", "text", "finish"), REPLIES.values(), ids=REPLIES)
def test_a_reply_of_another_shape_is_read(respond, text, finish, openai_server):
    openai_server.habit = lambda number, body: respond(body)
    (reply,) = ask(endpoint(openai_server.url), Sampling())
    assert (reply.text, reply.finish_reason) == (text, finish)


@pytest.mark.parametrize(
    ("respond", "words", "error"),
    [*((*case, FatalModelError) for case in FATAL.values()), *PASSING.values()],
    ids=[*FATAL, *PASSING],
)
def test_a_failure_is_of_the_right_kind(respond, words, error, openai_server):
    openai_server.habit = lambda number, body: respond(body)
    model = endpoint(openai_server.url)
    with refuses(error, words) as failure:
        ask(model, WEIGHTED_PLAN)
    assert type(failure.value) is error
    assert getattr(failure.value, "retry_after", None) is None
    assert not model.request_format.changes


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        (lambda: formatdate(time.time() + 30, usegmt=True), pytest.approx(30.0, abs=1.1)),
        (lambda: "Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        (lambda: "soon", None),
    ],
)
def test_a_wait_until_a_date_is_one_of_seconds(wait, seconds, openai_server):
    openai_server.habit = lambda number, body: fail(429, "Slow down.", wait=wait())(body)
    with pytest.raises(ThrottledError) as error:
        ask(endpoint(openai_server.url), Sampling())
    assert error.value.retry_after == seconds


def test_what_was_learned_is_known_to_requests_that_were_under_way(openai_server):
    refuse, *_ = SPELLINGS["temperature refused by OpenAI"]
    openai_server.habit = lambda number, body: refuse(body)
    openai_server.latency = 0.05
    model = endpoint(openai_server.url)
    ask(model, *(Sampling(seed=seed) for seed in range(3)))
    ask(model, Sampling())
    assert ["temperature" in entry.body for entry in openai_server.log] == [True] * 3 + [False] * 4
    assert len(model.request_format.changes) == 1


REASONING = ["o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5.1"]
OTHERS = ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "olmo-2"]


@pytest.mark.parametrize("name", REASONING + OTHERS)
def test_openais_reasoning_models_are_known_by_name(name):
    model = endpoint("http://127.0.0.1:9/v1", name)
    body = model.request_format.make_body(PROMPT, Sampling())
    fields = {key: value for key, value in body.items() if "max" in key or key == "temperature"}
    if name in REASONING:
        assert fields == {"max_completion_tokens": 512}
        assert model.request_format.changes == [WITHOUT.format("temperature")]
    else:
        assert fields == {"max_tokens": 512, "temperature": 0.0}
