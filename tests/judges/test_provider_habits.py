"""The habits of chat providers, each from end to end: `judges score` against a local server.

Of every habit either all scores are right, or rows or the run fail in one clear line: never a
traceback, a wrong score, a storm of requests or a silent minute.
"""

import asyncio
import json
import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from aiohttp import web
from jsonl import write_jsonl
from openai_replies import Body, completion
from openai_server import OpenAIServer

import judges
from judges.__main__ import main

N_ROWS = 8
RATED = re.compile(r"This summary is worth (\d)")
Respond = Callable[[int, Body], web.Response | None]


def opinion(body: Body) -> str:
    """The rating that the last text under judgement is worth."""
    return RATED.findall(body["messages"][-1]["content"])[-1]


def say(status: int, body: object, **headers: str) -> web.Response:
    return web.json_response(body, status=status, headers=headers)


def fail(status: int, message: str, *, param: str | None = None, code: str = "") -> web.Response:
    body = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return say(status, {"error": body})


def always(answer: Callable[[], web.Response]) -> Respond:
    return lambda number, body: answer()


def first(count: int, answer: Callable[[], web.Response]) -> Respond:
    return lambda number, body: answer() if number < count else None


def when(field: str, answer: Callable[[], web.Response]) -> Respond:
    """Refuse requests that have a field."""
    return lambda number, body: answer() if field in body else None


def replying(make: Callable[[Body, Body], None]) -> Respond:
    """The judge's answer, changed by `make(answer, body)`."""

    def respond(number: int, body: Body) -> web.Response:
        answer = completion(body, [opinion(body)] * (body.get("n") or 1))
        make(answer, body)
        return say(200, answer)

    return respond


def message(**changes: object) -> Callable[[Body, Body], None]:
    def make(answer: Body, body: Body) -> None:
        for choice in answer["choices"]:
            choice["message"] |= changes

    return make


@dataclass(frozen=True)
class Habit:
    """What an endpoint does and what must come out: scores right, or `line` and the exit code."""

    name: str
    respond: Respond
    flags: tuple[str, ...] = ()
    line: str = ""  # on stderr, or as every row's failure
    code: int = 0
    failed_rows: bool = False
    max_requests: int = N_ROWS + 1
    scores: tuple[float, ...] | None = None


def ending(name: str, respond: Respond, line: str, flags: tuple[str, ...] = ()) -> Habit:
    """A habit that ends the run, after a few requests at most."""
    return Habit(name, respond, flags=flags, line=line, code=1, max_requests=5)


# The server spreads half of a rating's probability over its two neighbours: 1 and 5 lose the one
# that is off the scale.
WEIGHTED = tuple({1: 4 / 3, 5: 14 / 3}.get(i % 5 + 1, i % 5 + 1) for i in range(N_ROWS))
SAMPLES = ("--plan", "mean", "--samples", "3")
PARAMETERS = [
    Habit(
        "temperature refused by OpenAI",
        when(
            "temperature",
            lambda: fail(
                400,
                "Unsupported value: 'temperature' does not support 0 with this model. Only the "
                "default (1) value is supported.",
                param="temperature",
                code="unsupported_value",
            ),
        ),
        line="judge-1 takes no temperature (asked without, so runs repeat less exactly)",
    ),
    Habit(
        "temperature of a mean refused",
        when("temperature", lambda: fail(400, "temperature is not supported")),
        flags=SAMPLES,
        line="no temperature (replies are drawn at its own, not at 1)",
    ),
    ending(
        "temperature too high",
        always(lambda: fail(400, "temperature must be between 0 and 1")),
        flags=("--plan", "mean", "--samples", "3", "--temperature", "2"),
        line="temperature must be between 0 and 1",
    ),
    Habit(
        "seed unrecognized by OpenAI",
        when("seed", lambda: fail(400, "Unrecognized request argument supplied: seed")),
        line="judge-1 takes no seed (asked without, so runs repeat less exactly)",
    ),
    Habit(
        "seed extra_forbidden by Mistral",
        when(
            "seed",
            lambda: say(
                422,
                {
                    "detail": [
                        {
                            "type": "extra_forbidden",
                            "loc": ["body", "seed"],
                            "msg": "Extra inputs are not permitted",
                            "input": 0,
                        }
                    ]
                },
            ),
        ),
        line="judge-1 takes no seed",
    ),
    Habit(
        "n refused",
        when("n", lambda: fail(400, "'n' : number must be at most 1", param="n")),
        flags=SAMPLES,
        line="judge-1 takes one reply a request",
        max_requests=3 * N_ROWS + 1,
    ),
    Habit(
        "n ignored",
        replying(lambda answer, body: answer.update(choices=answer["choices"][:1])),
        flags=SAMPLES,
        max_requests=3 * N_ROWS + 1,
    ),
    ending(
        "logprobs refused",
        when("logprobs", lambda: fail(400, "logprobs is not supported with this model")),
        flags=("--plan", "weighted"),
        line="the plan 'weighted' needs log-probabilities",
    ),
    ending(
        "logprobs left out",
        replying(lambda answer, body: [c.pop("logprobs") for c in answer["choices"]]),
        flags=("--plan", "weighted"),
        line="gives no log-probabilities, which the plan 'weighted' needs",
    ),
    Habit(
        "top_logprobs at most 5",
        lambda number, body: (
            fail(400, "top_logprobs must be less than or equal to 5", param="top_logprobs")
            if body.get("top_logprobs", 0) > 5
            else None
        ),
        flags=("--plan", "weighted"),
        line="judge-1 takes 5 alternatives for a token at most",
        scores=WEIGHTED,
    ),
    Habit(
        "max_tokens refused",
        when(
            "max_tokens",
            lambda: fail(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
                "'max_completion_tokens' instead.",
                param="max_tokens",
                code="unsupported_parameter",
            ),
        ),
        line="judge-1 takes max_completion_tokens for a limit",
    ),
    Habit(
        "replies of 64 tokens at most",
        lambda number, body: (
            fail(400, "max_tokens must be less than or equal to `64`", param="max_tokens")
            if body["max_tokens"] > 64
            else None
        ),
        line="judge-1 takes limits up to 64 tokens",
    ),
    Habit(
        "no system role",
        lambda number, body: (
            fail(400, "System role not supported") if "system" in roles(body) else None
        ),
        line="judge-1 takes no system message",
    ),
    Habit(
        "no developer instruction",
        lambda number, body: (
            say(400, [{"error": {"code": 400, "message": DEVELOPER, "status": "INVALID_ARGUMENT"}}])
            if "system" in roles(body)
            else None
        ),
        line="judge-1 takes no system message",
    ),
    Habit(
        "everything refused in turn",
        lambda number, body: next(
            (
                fail(400, f"Unsupported parameter: '{name}'", param=name)
                for name in ("max_tokens", "temperature", "seed", "n")
                if name in body
            ),
            None,
        ),
        flags=SAMPLES,
        line="max_completion_tokens for a limit; no temperature",
        max_requests=3 * N_ROWS + 4,
    ),
    ending(
        "a parameter that is none of ours",
        always(lambda: fail(400, "Field 'tenant' is required", param="tenant")),
        line="Field 'tenant' is required",
    ),
]
DEVELOPER = "Developer instruction is not enabled for models/gemma-3"


def roles(body: Body) -> set[str]:
    return {message["role"] for message in body["messages"]}


def finished(reason: str, text: str | None) -> Callable[[Body, Body], None]:
    def make(answer: Body, body: Body) -> None:
        for choice in answer["choices"]:
            choice["finish_reason"] = reason
            choice["message"]["content"] = text

    return make


def thinking(tokens: int, cut: str) -> Respond:
    """Needs so many tokens; with fewer, what came until then is `cut`."""

    def respond(number: int, body: Body) -> web.Response | None:
        limit = body.get("max_tokens") or body["max_completion_tokens"]
        if limit >= tokens:
            return None
        return replying(finished("length", cut))(number, body)

    return respond


def wrapped(prefix: str, suffix: str = "") -> Callable[[Body, Body], None]:
    def make(answer: Body, body: Body) -> None:
        for choice in answer["choices"]:
            choice["message"]["content"] = f"{prefix}{opinion(body)}{suffix}"

    return make


def error_inside(code: object, message: str, **more: object) -> web.Response:
    return say(200, {"error": {"code": code, "message": message, **more}})


REPLIES = [
    Habit(
        "null content",
        replying(message(content=None)),
        line="empty reply",
        failed_rows=True,
        max_requests=3 * N_ROWS,
    ),
    Habit(
        "a refusal in its own field",
        replying(message(content=None, refusal="I cannot rate this.")),
        line="the model refused: 'I cannot rate this.'",
        failed_rows=True,
    ),
    Habit(
        "filtered with status 400",
        always(lambda: fail(400, "The response was filtered", code="content_filter")),
        line="The response was filtered",
        failed_rows=True,
    ),
    Habit(
        "filtered without any message",
        lambda number, body: say(
            200,
            completion(body, [""]) | {"choices": [{"index": 0, "finish_reason": "content_filter"}]},
        ),
        line="content filter withheld the reply",
        failed_rows=True,
    ),
    Habit(
        "status 200 with a rate limit inside",
        first(2, lambda: error_inside(429, "Rate limited upstream", metadata={})),
        max_requests=N_ROWS + 2,
    ),
    Habit("thoughts in reasoning_content", replying(message(reasoning_content="Say 1? Say 2?"))),
    Habit("thoughts in reasoning", replying(message(reasoning="Rating: 1"))),
    Habit("a closed thought", replying(wrapped("<think>Rating: 1 or 2?</think>\n\n"))),
    Habit("a thought only closed", replying(wrapped("It may be a 1.\n</think>\n\n"))),
    Habit(
        "a thought cut short",
        thinking(1000, "<think>It may be a 1"),
        line="judge-1 thinks or writes at length: asked with up to 1,024 tokens in place of 512",
        max_requests=N_ROWS + 3,
    ),
    Habit(
        "thoughts that use up the limit",
        thinking(3000, ""),
        line="asked with up to 4,096 tokens in place of 512",
        max_requests=N_ROWS + 3 * 3,
    ),
    Habit(
        "thoughts without end",
        thinking(10**9, ""),
        line="no text within max_tokens=4096; a reasoning model needs more",
        failed_rows=True,
        max_requests=N_ROWS + 3 * 3,
    ),
    Habit(
        "a reply cut short",
        thinking(600, "The rating of this summary"),
        max_requests=2 * N_ROWS,
        line="judge-1 thinks or writes at length",
    ),
    Habit(
        "a thought left open",
        replying(wrapped("<think>It may be a ")),
        line="a thought without its end",
        failed_rows=True,
        max_requests=3 * N_ROWS,
    ),
    Habit(
        "no rating",
        replying(wrapped("I would say ", " or so, or none")),
        line="no rating from 1 to 5",
        failed_rows=True,
        max_requests=3 * N_ROWS,
    ),
]

VLLM_CONTEXT = (
    "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context "
    "length is 700 tokens and your request has 400 input tokens (512 > 700 - 400)."
)


def too_many(message: str = "Rate limit reached.", **headers: str) -> Callable[[], web.Response]:
    body = {"error": {"message": message, "type": "requests", "code": "rate_limit_exceeded"}}
    return lambda: say(429, body, **{name.replace("_", "-"): v for name, v in headers.items()})


def in_a_second() -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=1), usegmt=True)


WAITS = [
    Habit("Retry-After in seconds", first(1, too_many(Retry_After="0.2"))),
    Habit(
        "Retry-After as a date",
        first(1, lambda: too_many(Retry_After=in_a_second())()),
    ),
    Habit("retry-after-ms", first(1, too_many(retry_after_ms="200", Retry_After="60"))),
    Habit("a wait in prose", first(1, too_many("Please try again in 0.2s. Visit the page."))),
    ending(
        "a wait of a day in prose",
        always(too_many("Limit 200 a day. Please try again in 7h12m0s.")),
        line="it wants to be asked again in 7 hours",
    ),
    ending(
        "Retry-After of an hour",
        always(too_many(Retry_After="3600")),
        line="it wants to be asked again in 60 minutes",
    ),
    Habit(
        "a quota that ends within the run",
        lambda number, body: (
            fail(429, "Quota exceeded.", code="insufficient_quota") if number >= 4 else None
        ),
        line="the account's quota is used up (Quota exceeded.); resume once there is more",
        code=1,
        max_requests=8,
    ),
    ending(
        "OpenAI's quota",
        always(lambda: fail(429, "You exceeded it.", code="insufficient_quota")),
        line="the account's quota is used up (You exceeded it.)",
    ),
    Habit("a gateway's page (502)", first(1, lambda: web.Response(status=502, text="<html>"))),
    Habit("unavailable (503)", first(1, lambda: fail(503, "Loading model"))),
    Habit(
        "context too long",
        lambda number, body: (
            fail(400, "maximum context length is 10 tokens", code="context_length_exceeded")
            if "worth 1" in body["messages"][-1]["content"]
            else None
        ),
        scores=tuple(math.nan if i % 5 == 0 else i % 5 + 1 for i in range(N_ROWS)),
    ),
    Habit(
        "context full with the limit, by vLLM",
        lambda number, body: fail(400, VLLM_CONTEXT) if body["max_tokens"] > 300 else None,
        max_requests=2 * N_ROWS,
    ),
    Habit(
        "context full with the limit, by OpenAI",
        lambda number, body: (
            fail(
                400,
                "This model's maximum context length is 700 tokens. However, you requested 912 "
                "tokens (400 in the messages, 512 in the completion).",
                code="context_length_exceeded",
            )
            if body["max_tokens"] > 300
            else None
        ),
        max_requests=2 * N_ROWS,
    ),
    ending(
        "a wrong key",
        always(lambda: fail(401, "Incorrect API key provided: sk-local")),
        line="the key in OPENAI_API_KEY was not accepted for judge-1",
    ),
    ending(
        "a forbidden model",
        always(lambda: fail(403, "Project has no access to model judge-1")),
        line="Project has no access to model",
    ),
]


def added(
    top: Body | None = None,
    choice: Body | None = None,
    message: Body | None = None,
    left_out: tuple[str, ...] = (),
) -> Callable[[Body, Body], None]:
    """The official answer with a server's own fields, and without what it leaves out."""

    def make(answer: Body, body: Body) -> None:
        for name in left_out:
            answer.pop(name, None)
        answer |= top or {}
        for each in answer["choices"]:
            each |= choice or {}
            each["message"] |= message or {}
            for name in left_out:
                each["message"].pop(name, None)

    return make


def every_token(change: Callable[[Body], None]) -> Callable[[Body, Body], None]:
    """The official answer with its log-probabilities changed, token by token."""

    def make(answer: Body, body: Body) -> None:
        for choice in answer["choices"]:
            for token in choice["logprobs"]["content"]:
                change(token)

    return make


def with_ids(token: Body) -> None:
    """As llama.cpp gives them: each with its number, in bytes as well."""
    for number, each in enumerate((token, *token["top_logprobs"])):
        each |= {"id": number, "bytes": list(each["token"].encode())}


def with_impossible(token: Body) -> None:
    """As vLLM gives them: what cannot be has no logarithm, and parts of letters no text."""
    token["top_logprobs"] += [
        {"token": "9", "logprob": -9999.0, "bytes": [57]},
        {"token": "", "logprob": -30.5, "bytes": [240, 159]},
    ]


VLLM_UNKNOWN_MODEL = {
    "object": "error",
    "message": "The model `judge-1` does not exist.",
    "type": "NotFoundError",
    "param": None,
    "code": 404,
}
CONTEXT_FULL = "the request exceeds the available context size, try increasing it"
LOCAL = [
    Habit("thoughts in thinking", replying(message(thinking="Rating: 1", thinking_blocks=[]))),
    Habit(
        "content in parts, as Mistral gives it",
        lambda number, body: say(
            200,
            completion(body, [""])
            | {"choices": [{"message": {"content": [{"type": "text", "text": opinion(body)}]}}]},
        ),
    ),
    Habit("nothing but the choices", replying(added(left_out=("usage", "id", "model", "created")))),
    Habit(
        "log-probabilities of llama.cpp",
        replying(every_token(with_ids)),
        flags=("--plan", "weighted"),
        scores=WEIGHTED,
    ),
    Habit(
        "log-probabilities of vLLM",
        replying(every_token(with_impossible)),
        flags=("--plan", "weighted"),
        scores=WEIGHTED,
    ),
    Habit(
        "no alternatives beside the token",
        replying(every_token(lambda token: token.update(top_logprobs=None))),
        flags=("--plan", "weighted"),
    ),
    ending(
        "vLLM's errors",
        always(lambda: say(404, VLLM_UNKNOWN_MODEL)),
        line="no model 'judge-1' there (The model `judge-1` does not exist.)",
    ),
    Habit(
        "llama.cpp's context full",
        lambda number, body: (
            say(
                400,
                {
                    "error": {
                        "code": 400,
                        "message": CONTEXT_FULL,
                        "type": "exceed_context_size_error",
                        "n_prompt_tokens": 900,
                        "n_ctx": 512,
                    }
                },
            )
            if "worth 1" in body["messages"][-1]["content"]
            else None
        ),
        scores=tuple(math.nan if i % 5 == 0 else i % 5 + 1 for i in range(N_ROWS)),
    ),
]

HABITS = [*PARAMETERS, *REPLIES, *WAITS, *LOCAL]


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.name.replace(" ", "-"))
def test_a_habit_gives_right_scores_or_one_clear_line(
    habit: Habit,
    openai_server: OpenAIServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    openai_server.judge = opinion
    openai_server.habit = habit.respond
    rows = [
        {
            "id": str(i),
            "document": f"Document {i}.",
            "summary": f"This summary is worth {i % 5 + 1}.",
        }
        for i in range(N_ROWS)
    ]
    data, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    write_jsonl(data, rows)
    start = time.monotonic()
    files = ["--data", str(data), "--out", str(out)]
    code = main(
        ["score", "relevance", *files, "--lm", "openai/judge-1", "--concurrency", "1", *habit.flags]
    )
    assert time.monotonic() - start < 30
    captured = capsys.readouterr()
    lines = [*captured.err.splitlines(), *(record.getMessage() for record in caplog.records)]
    assert "Traceback" not in captured.err
    assert code == (1 if habit.failed_rows else habit.code), lines
    assert len(openai_server.log) <= habit.max_requests, len(openai_server.log)
    if habit.line:
        assert sum(habit.line in line for line in lines) == 1, lines
    if code and not habit.failed_rows:
        return
    judgements = [judgement(line) for line in out.read_text().splitlines()]
    if habit.failed_rows:
        assert all(one["score"] is None and habit.line in one["failure"] for one in judgements)
    else:
        expected = habit.scores or [i % 5 + 1 for i in range(N_ROWS)]
        scores = [math.nan if one["score"] is None else one["score"] for one in judgements]
        assert scores == pytest.approx(expected, nan_ok=True), judgements


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        (too_many(Retry_After="432"), 432),
        (too_many(retry_after_ms="432000"), 432),
        (too_many("Rate limit reached. Please try again in 6m0s."), 360),
    ],
)
def test_a_wait_of_minutes_is_kept_and_said_in_one_line(
    answer: Callable[[], web.Response],
    wait: float,
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    sleep, waits = asyncio.sleep, list[float]()

    async def shortened(seconds: float, result: object = None) -> None:
        waits.append(seconds)
        await sleep(min(seconds, 0.05))

    monkeypatch.setattr("asyncio.sleep", shortened)
    openai_server.habit = first(1, answer)
    assert score_one(openai_server, cache="none")[0] == 4
    assert wait <= max(waits) <= wait + 1
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"waiting {wait // 60} minutes, as it asks" in line


@pytest.mark.parametrize("fault", ["drop", "hang"])
def test_a_line_that_drops_or_hangs_is_asked_again(
    fault: str, openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.open.TIMEOUT", 0.3)
    openai_server.fault = lambda number, body: fault if number == 0 else None
    assert score_one(openai_server, cache="none")[0] == 4


def judgement(line: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(line)["judgements"]["relevance"]
    return result


def score_one(server: OpenAIServer, **options: Any) -> tuple[float, Body, dict[str, str]]:
    """The score of one row, and the request's body and headers."""
    server.judge = opinion
    frame = pd.DataFrame({"document": ["A."], "summary": ["This summary is worth 4."]})
    score = judges.load("relevance").score(frame, **{"lm": "openai/judge-1", **options})[0]
    return float(score), server.log[-1].body, dict(server.log[-1].headers)


def test_limit_effort_and_the_keys_variable_are_what_the_user_names(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROUTER_KEY", "sk-router-0123456789abcdef")
    score, body, headers = score_one(
        openai_server, max_tokens=99, reasoning_effort="low", api_key_env="ROUTER_KEY"
    )
    assert (score, body["max_tokens"], body["reasoning_effort"]) == (4, 99, "low")
    assert headers["Authorization"] == "Bearer sk-router-0123456789abcdef"


@pytest.mark.parametrize("name", ["UNSET_KEY", "sk-planted-0123456789abcdef"])
def test_a_variable_that_holds_no_key_is_refused_and_a_key_in_its_place_not_repeated(
    openai_server: OpenAIServer, name: str
) -> None:
    with pytest.raises(judges.client.FatalModelError) as caught:
        score_one(openai_server, api_key_env=name)
    assert "sk-planted" not in str(caught.value)
    assert not openai_server.log


@pytest.mark.parametrize(("name", "limit"), [("judge-1", 512), ("qwq-32b", 4096), ("o3", 4096)])
def test_models_known_to_reason_get_room_for_it(
    openai_server: OpenAIServer, name: str, limit: int
) -> None:
    openai_server.models = (name,)
    _, body, _ = score_one(openai_server, lm=f"openai/{name}")
    assert body.get("max_tokens", body.get("max_completion_tokens")) == limit


def test_a_price_of_ones_own_bounds_the_cost(openai_server: OpenAIServer, tmp_path: Path) -> None:
    data, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    write_jsonl(data, [{"document": "A.", "summary": "This summary is worth 4."}])
    openai_server.judge = opinion
    files = ["--data", str(data), "--out", str(out), "--lm", "openai/judge-1"]
    assert main(["score", "relevance", *files, "--max-cost", "1"]) == 1
    assert main(["score", "relevance", *files, "--max-cost", "1", "--price", "0.4,1.6"]) == 0


def test_what_an_endpoint_does_not_count_is_paid_for_and_called_unconfirmed(
    openai_server: OpenAIServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.judge = opinion
    openai_server.habit = replying(added(left_out=("usage",)))
    data, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    data.write_text(json.dumps({"document": "A.", "summary": "This summary is worth 4."}) + "\n")
    files = ["--data", str(data), "--out", str(out), "--lm", "openai/judge-1", "--json"]
    assert main(["score", "relevance", *files, "--price", "0.4,1.6"]) == 0
    record = json.loads(capsys.readouterr().out)
    tokens = record["tokens"]
    assert record["cost_usd"] == pytest.approx((0.4 * tokens["in"] + 1.6 * tokens["out"]) / 1e6)
    assert record["cost_unconfirmed_usd"] == record["cost_usd"] > 0


class TokensPerMinute:
    """A limit on tokens told in OpenAI's headers, refilled steadily or `at_once` every `minute`."""

    def __init__(self, size: int, minute: float, *, at_once: bool = False) -> None:
        self.size = size
        self.minute = minute
        self.at_once = at_once
        self.left = float(size)
        self.filled_at = time.monotonic()
        self.refused = 0

    def __call__(self, number: int, body: Body) -> web.Response:
        elapsed = time.monotonic() - self.filled_at
        if self.at_once and elapsed >= self.minute:
            self.left, self.filled_at = self.size, time.monotonic()
        elif not self.at_once:
            self.left = min(self.size, self.left + elapsed * self.size / self.minute)
            self.filled_at = time.monotonic()
        characters = sum(len(message["content"]) for message in body["messages"])
        tokens = characters / 4 + body["max_tokens"]
        accepted = tokens <= self.left
        self.left -= tokens if accepted else 0
        reset = (self.size - self.left) * self.minute / self.size
        if self.at_once:
            reset = max(0.0, self.minute - (time.monotonic() - self.filled_at))
        headers = {
            "x-ratelimit-limit-tokens": str(self.size),
            "x-ratelimit-remaining-tokens": str(int(self.left)),
            "x-ratelimit-reset-tokens": f"{reset * 1000:.0f}ms",
        }
        if not accepted:
            self.refused += 1
            wait = f"Rate limit reached on tokens per min. Please try again in {reset:.3f}s."
            return say(429, {"error": {"message": wait, "code": "rate_limit_exceeded"}}, **headers)
        return say(200, completion(body, [opinion(body)]), **headers)


@pytest.mark.parametrize("at_once", [False, True])
def test_a_limit_on_tokens_a_minute_is_kept_to_before_it_refuses(
    openai_server: OpenAIServer, at_once: bool
) -> None:
    # A request takes some 715 tokens, so that 20 fit and 100 take four refills.
    limit = openai_server.habit = TokensPerMinute(15_000, 0.6, at_once=at_once)
    openai_server.latency = 0.05
    frame = pd.DataFrame(
        {
            "document": [f"Document {i}." for i in range(100)],
            "summary": [f"This summary is worth {i % 5 + 1}." for i in range(100)],
        }
    )
    start = time.monotonic()
    scores = judges.load("relevance").score(frame, lm="openai/judge-1")
    seconds = time.monotonic() - start
    assert list(scores) == [i % 5 + 1 for i in range(100)]
    assert limit.refused < 5
    # The limit alone takes 3.8 refills where it refills steadily, 4 where it does at once: 2.4 s.
    assert seconds < 20
