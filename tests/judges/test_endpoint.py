"""The endpoint model against a real HTTP server: format, faults, and where the key must not go."""

import asyncio
import gzip
import itertools
import json
import logging
import math
import socket
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web
from judges.client.dialect import Dialect
from judges.client.openai_format import read_completion, read_error, read_rate_limits, seconds
from openai_replies import Body, error
from openai_server import OpenAIServer, ServingBytes

from judges.client.client import Client, Request, Response
from judges.client.openai import EndpointModel, chat_url, max_answer_bytes
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Sampling,
    ThrottledError,
    Token,
    TooLongError,
    TransientError,
    UnreachableError,
    UnsupportedRequestError,
    Usage,
    open_model,
)

ASKED: list[Message] = [{"role": "user", "content": "Rate it from 1 to 5."}]
KEY = "sk-planted-0123456789abcdef"


def complete(sampling: Sampling | None = None, **settings: Any) -> Completion:
    async def once() -> Completion:
        model = open_model("openai/judge-1", **settings)
        try:
            return await model.complete(ASKED, sampling or Sampling())
        finally:
            await model.close()

    return asyncio.run(once())


def test_the_reply_its_tokens_and_their_alternatives_are_read(openai_server: OpenAIServer) -> None:
    openai_server.judge = lambda body: "4"
    answer = complete(Sampling(top_logprobs=3))
    assert answer.replies[0].text == "4"
    assert answer.replies[0].finish_reason == "stop"
    # The server's 4 has probability 1/2, its neighbours 1/4 each.
    assert answer.replies[0].tokens[0].top == pytest.approx(
        {"4": -0.6931, "3": -1.3863, "5": -1.3863}, abs=1e-4
    )
    assert (answer.tokens_in, answer.tokens_out, answer.model) == (5, 1, "judge-1")


def test_twenty_samples_are_one_request(openai_server: OpenAIServer) -> None:
    openai_server.judge = lambda body: [str(1 + i % 5) for i in range(20)]
    answer = complete(Sampling(n=20, temperature=2.0, seed=7))
    assert [reply.text for reply in answer.replies] == [str(1 + i % 5) for i in range(20)]
    (seen,) = openai_server.log
    assert seen.body | {"messages": None} == {
        "model": "judge-1",
        "messages": None,
        "max_tokens": 512,
        "temperature": 2.0,
        "seed": 7,
        "n": 20,
    }


def test_the_key_goes_into_the_header_and_not_into_the_body(openai_server: OpenAIServer) -> None:
    complete()
    (seen,) = openai_server.log
    assert seen.headers["Authorization"] == "Bearer sk-local-test-key-0123456789"
    assert "sk-local" not in seen.asked


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("429", ThrottledError),
        ("500", TransientError),
        ("503", TransientError),
        ("drop", TransientError),
        ("malformed", TransientError),
        ("hang", TransientError),
    ],
)
def test_what_may_pass_is_a_passing_error(
    openai_server: OpenAIServer, fault: str, kind: type[ModelError]
) -> None:
    openai_server.fault = lambda number, body: fault
    with pytest.raises(kind):
        complete(timeout=0.3)


def test_the_servers_wish_to_wait_is_passed_on(openai_server: OpenAIServer) -> None:
    openai_server.fault = lambda number, body: "429"
    openai_server.retry_after = "2.5"
    with pytest.raises(ThrottledError) as caught:
        complete()
    assert caught.value.retry_after == 2.5


def test_a_refused_key_is_lasting_and_told_in_one_line_without_it(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    openai_server.key = "another"
    with pytest.raises(FatalModelError) as caught:
        complete()
    message = str(caught.value)
    assert "OPENAI_API_KEY" in message
    assert "401" in message
    assert "\n" not in message
    assert KEY not in message


def test_an_unknown_model_is_lasting_and_named(openai_server: OpenAIServer) -> None:
    openai_server.models = ()
    with pytest.raises(FatalModelError, match=r"404 .* no model 'judge-1'"):
        complete()


def test_nobody_listening_is_unreachable() -> None:
    with pytest.raises(UnreachableError, match=r"no connection to http://127\.0\.0\.1:9/v1"):
        complete(api_base="http://127.0.0.1:9/v1")


def test_no_key_for_openai_itself_is_said_before_any_request() -> None:
    with pytest.raises(FatalModelError, match="OPENAI_API_KEY is not set"):
        open_model("openai/gpt-4.1-mini")


@pytest.mark.parametrize(
    ("status", "code", "message", "kind"),
    [
        (400, "context_length_exceeded", "Too long.", TooLongError),
        (400, "", "This model's maximum context length is 8192 tokens.", TooLongError),
        (400, "content_filter", "Filtered.", RefusedError),
        (413, "", "Too large.", TooLongError),
        (400, "unsupported_value", "stop must be a list", UnsupportedRequestError),
        (403, "", "Your region is not supported.", FatalModelError),
        (402, "", "Pay first.", FatalModelError),
        (429, "insufficient_quota", "Quota exceeded.", FatalModelError),
        (429, "rate_limit_exceeded", "Slow down.", ThrottledError),
        (408, "", "Took too long.", TransientError),
        (529, "overloaded", "Overloaded.", TransientError),
    ],
)
def test_an_error_means_the_request_the_run_or_nothing_yet(
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: str,
    message: str,
    kind: type[ModelError],
) -> None:
    monkeypatch.setattr(
        openai_server, "_refusal", lambda request, body: error(status, message, code)
    )
    with pytest.raises(kind) as caught:
        complete()
    assert type(caught.value) is kind


@pytest.mark.parametrize("name", ["o1", "o3-mini", "o4-mini", "gpt-5", "gpt-5-mini", "gpt-5.1"])
def test_reasoning_models_are_known_by_name(name: str) -> None:
    body = Dialect.of(name).body(name, ASKED, Sampling())
    assert body["max_completion_tokens"] == 512
    assert "temperature" not in body


@pytest.mark.parametrize("name", ["gpt-4o", "gpt-4.1-mini", "gpt-5-chat-latest", "olmo-2"])
def test_other_models_are_not_taken_for_reasoning_ones(name: str) -> None:
    assert Dialect.of(name) == Dialect()


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "a web page"),
        (b" \n<HTML><body>Bad gateway", "a web page"),
        (b'data: {"choices": []}\n\ndata: [DONE]', "a stream of events"),
        (b": PROCESSING\n\n", "a stream of events"),
        (b"", "an empty body"),
        (b'{"choices": [', "cut short"),
        (b'"4"', "no JSON object"),
    ],
)
def test_a_body_that_is_no_json_is_called_what_it_is(body: bytes, reason: str) -> None:
    with pytest.raises(TransientError, match=reason):
        read_completion(body, ASKED, Sampling())


def test_content_in_parts_is_their_text_without_the_thoughts() -> None:
    # As Mistral's models that think first give it.
    parts: list[dict[str, object]] = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "1 or 2?"}]},
        {"type": "text", "text": "Rating: "},
        {"type": "text", "text": "4"},
    ]
    body = {"choices": [{"message": {"content": parts}}]}
    (reply,) = read_completion(json.dumps(body).encode(), ASKED, Sampling()).replies
    assert reply.text == "Rating: 4"
    parts.append({"type": "text", "text": ["5"]})
    with pytest.raises(TransientError):
        read_completion(json.dumps(body).encode(), ASKED, Sampling())


def test_half_a_letter_in_an_answer_spoils_no_more_than_the_letter() -> None:
    body = b'{"choices":[{"message":{"content":"4 - caf\xc3"}}]}'
    assert read_completion(body, ASKED, Sampling()).replies[0].text == "4 - caf\ufffd"


def ask_once(server: OpenAIServer, fault: str) -> tuple[Response, Client]:
    server.fault = lambda number, body: fault
    with Client(open_model("openai/judge-1"), fresh_samples=2) as runner:
        return runner.ask(Request(ASKED, Sampling(), lambda reply: reply.text)), runner


@pytest.mark.parametrize(
    ("fault", "requests", "why"),
    [
        # Asked again with twice as many tokens, up to eight times the limit.
        ("truncated", 4, "no text within max_tokens=4096; a reasoning model needs more"),
        # Asking again brings the same.
        ("filtered", 1, "the endpoint's content filter withheld the reply"),
        ("refusal", 1, "the model refused: 'I cannot help with that.'"),
        # Asked once more, and not as if the line were down.
        ("null", 3, "empty reply"),
        ("empty", 3, "empty reply"),
    ],
)
def test_a_reply_without_text_is_a_failed_judgement_and_paid_for(
    openai_server: OpenAIServer, fault: str, requests: int, why: str
) -> None:
    answer, runner = ask_once(openai_server, fault)
    assert answer.error == why
    assert len(openai_server.log) == runner.account.calls == requests
    assert runner.account.tokens_in == openai_server.tokens_in
    assert runner.account.tokens_out == openai_server.tokens_out > 0


QUOTA = "You exceeded your current quota, please check your plan and billing details."


def inside(code: object, message: str = "No.", **more: object) -> bytes:
    return json.dumps({"error": {"code": code, "message": message, **more}}).encode()


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (inside("insufficient_quota"), FatalModelError, "quota is used up"),
        (inside(402), FatalModelError, "quota is used up"),
        (inside(401), FatalModelError, "was not accepted"),
        (inside(429), ThrottledError, "too many requests"),
        (inside("rate_limit_exceeded"), ThrottledError, "too many requests"),
        (inside("503"), TransientError, "503 from"),
        (inside("overloaded"), TransientError, "500 from"),
        (inside("context_length_exceeded"), TooLongError, "400 from"),
        (inside(404), FatalModelError, "no model 'judge-1'"),
        (b'{"error":"upstream died","choices":[]}', TransientError, "upstream died"),
    ],
)
def test_an_error_in_an_answer_of_status_200_is_that_error(
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    body: bytes,
    kind: type[ModelError],
    said: str,
) -> None:
    answer = web.Response(body=body, content_type="application/json")
    monkeypatch.setattr(openai_server, "_refusal", lambda request, body: answer)
    with pytest.raises(kind, match=said) as caught:
        complete()
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("error", "kind", "wait"),
    [
        # Gemini's form is a list; without a word on when to ask again the quota is gone.
        ({"code": 429, "message": QUOTA, "status": "RESOURCE_EXHAUSTED"}, FatalModelError, None),
        # Its limit on requests a minute is worded alike, and says when.
        (
            {"code": 429, "message": QUOTA, "details": [{"retryDelay": "34s"}]},
            ThrottledError,
            34.0,
        ),
        (
            {
                "code": 429,
                "message": QUOTA,
                "details": [{"quotaId": "RequestsPerDay"}, {"retryDelay": "34s"}],
            },
            FatalModelError,
            None,
        ),
        ({"code": 429, "message": "Limit reached. Please try again in 1.5s."}, ThrottledError, 1.5),
        ({"code": 429, "message": "Please retry in 250ms"}, ThrottledError, 0.25),
        ({"code": 429, "message": "Slow down."}, ThrottledError, None),
    ],
)
def test_a_quota_that_is_gone_ends_at_once_and_a_rate_limit_waits(
    error: Body, kind: type[ModelError], wait: float | None
) -> None:
    for body in ({"error": error}, [{"error": error}]):
        raised = read_error(
            429, None, json.dumps(body).encode(), model="m", endpoint="e", redacted=str
        )
        assert type(raised) is kind
        assert getattr(raised, "retry_after", None) == wait


@pytest.mark.parametrize("choices", [None, [], [{}], [{"message": {"content": 3}}]])
def test_an_answer_that_cannot_be_used_tells_what_it_took(choices: object) -> None:
    usage = {"prompt_tokens": 70, "completion_tokens": 9}
    body = json.dumps({"choices": choices, "usage": usage}).encode()
    with pytest.raises(TransientError) as caught:
        read_completion(body, ASKED, Sampling())
    assert caught.value.usage == Usage(70, 9)


@pytest.mark.parametrize(
    ("counts", "tokens_out"),
    [
        # Of Gemini's kind: 605 in all, of which 100 were read and 5 shown; xAI's; OpenAI's.
        ({"total_tokens": 605}, 505),
        ({"completion_tokens_details": {"reasoning_tokens": 500}}, 505),
        ({"total_tokens": 605, "completion_tokens_details": {"reasoning_tokens": 500}}, 505),
        ({"total_tokens": 105, "completion_tokens_details": {"reasoning_tokens": 4}}, 5),
        ({"total_tokens": "605", "completion_tokens_details": ["?"]}, 5),
        ({"total_tokens": -1, "completion_tokens_details": {"reasoning_tokens": 1e300}}, 5),
    ],
)
def test_thoughts_beside_the_completions_tokens_are_billed(
    counts: dict[str, object], tokens_out: int
) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, **counts}
    answer = read_completion(answer_with(usage=usage), ASKED, Sampling())
    assert (answer.tokens_in, answer.tokens_out) == (100, tokens_out)
    body = json.dumps({"error": {}, "usage": usage}).encode()
    raised = read_error(500, None, body, model="m", endpoint="e", redacted=str)
    assert raised.usage is not None
    assert (raised.usage.tokens_in, raised.usage.tokens_out) == (100, tokens_out)


@pytest.mark.parametrize(
    "reason", ["length", "MAX_TOKENS", "max_output_tokens", "model_length", "error", "SAFETY"]
)
def test_a_reply_that_its_endpoint_broke_off_is_cut_short(reason: str) -> None:
    choices = [{"message": {"content": "4"}, "finish_reason": reason}]
    answer = read_completion(answer_with(choices=choices), ASKED, Sampling())
    assert answer.replies[0].truncated


def test_an_error_that_tells_its_usage_is_billed_by_it() -> None:
    body = json.dumps({"error": {}, "usage": {"prompt_tokens": 7, "completion_tokens": 2}})
    raised = read_error(500, None, body.encode(), model="m", endpoint="e", redacted=str)
    assert raised.usage == Usage(7, 2)


def test_tokens_are_estimated_at_most_where_the_endpoint_does_not_count(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.openai_format._implausible_counts", set())
    body = b'{"choices":[{"message":{"content":"four"}}]}'
    answer = read_completion(body, ASKED, Sampling())
    # 20 bytes and 16 for the message, three a token; 4 and 16.
    assert (answer.tokens_in, answer.tokens_out, answer.estimated) == (12, 7, True)
    # A model that thinks may have written as much as it was allowed.
    answer = read_completion(body, ASKED, Sampling(n=2, max_tokens=500), thinks=True)
    assert (answer.tokens_in, answer.tokens_out) == (12, 1000)
    usage = {"prompt_tokens": 9, "completion_tokens": 5}
    answer = read_completion(answer_with(usage=usage), ASKED, Sampling(), thinks=True)
    assert (answer.tokens_in, answer.tokens_out, answer.estimated) == (9, 5, False)
    (record,) = caplog.records
    assert "tokens and dollars are estimates" in record.getMessage()


def test_a_query_in_the_address_stays_behind_the_path() -> None:
    assert chat_url("https://host/v1?v=2") == "https://host/v1/chat/completions?v=2"


def test_a_date_to_retry_after_is_read_and_nonsense_is_not() -> None:
    from datetime import UTC, datetime

    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert seconds("Thu, 01 Jan 2026 00:00:30 GMT", now) == 30
    assert seconds("1.5") == 1.5
    assert seconds("-3") == 0
    assert seconds("soon") is seconds("inf") is seconds("nan") is None
    assert seconds(None) is None


def answer_with(**changes: object) -> bytes:
    """A sound answer with something else in the place of some of its parts."""
    sound = {
        "choices": [{"message": {"content": "four"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1},
        "model": "judge-1",
    }
    return json.dumps({**sound, **changes}).encode()


@pytest.mark.parametrize(
    "counts",
    [
        [5, 1],
        "five",
        True,
        {"prompt_tokens": -5, "completion_tokens": -1},
        {"prompt_tokens": 10**400, "completion_tokens": 10**400},
        {"prompt_tokens": 10**12, "completion_tokens": 1e300},
        {"prompt_tokens": True, "completion_tokens": False},
        {"prompt_tokens": 0, "completion_tokens": 0},
        {"prompt_tokens": "5", "completion_tokens": [1]},
        {"prompt_tokens": float("nan"), "completion_tokens": float("inf")},
    ],
)
def test_a_count_that_cannot_be_true_is_the_most_the_texts_can_take(counts: object) -> None:
    answer = read_completion(answer_with(usage=counts), ASKED, Sampling())
    # 20 bytes asked and 4 written, and 16 for each message's framing.
    assert (answer.tokens_in, answer.tokens_out) == (36, 20)


def test_a_count_that_cannot_be_true_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.openai_format._implausible_counts", set())
    for count in (-1, -2, -3):
        read_completion(
            answer_with(usage={"prompt_tokens": count, "completion_tokens": 1}), ASKED, Sampling()
        )
    (record,) = caplog.records
    assert "prompt_tokens cannot be true (-1)" in record.getMessage()


def with_logprob(value: str) -> bytes:
    tops = f'{{"token":"4","logprob":{value}}}'
    return (
        '{"choices":[{"message":{"content":"4"},"logprobs":{"content":[{"token":"4","logprob":0,'
        f'"top_logprobs":[{tops}]}}]}}}}]}}'
    ).encode()


@pytest.mark.parametrize("value", ["NaN", "Infinity", "0.5", "1e999", '"0"', "true", "[]", "null"])
def test_a_log_probability_that_is_none_makes_a_malformed_answer(value: str) -> None:
    with pytest.raises(TransientError, match="log-probability"):
        read_completion(with_logprob(value), ASKED, Sampling(top_logprobs=5))


@pytest.mark.parametrize("value", ["-Infinity", "-1e999", f"-{10**400}", "-9999"])
def test_a_log_probability_without_end_is_one_of_what_never_comes(value: str) -> None:
    (reply,) = read_completion(with_logprob(value), ASKED, Sampling(top_logprobs=5)).replies
    assert reply.tokens[0].top == {"4": -9999.0}


def read_first_token(token: dict[str, object]) -> Token:
    choice = {"message": {"content": "4"}, "logprobs": {"content": [token]}}
    body = json.dumps({"choices": [choice]}).encode()
    return read_completion(body, ASKED, Sampling(top_logprobs=5)).replies[0].tokens[0]


def listed(*alternatives: tuple[str, float]) -> list[dict[str, object]]:
    return [{"token": token, "logprob": math.log(p)} for token, p in alternatives]


def test_alternatives_spelled_alike_add_up_and_one_listed_twice_counts_once() -> None:
    # A letter and the byte of it are two tokens of many vocabularies.
    top = listed(("4", 0.5), ("3", 0.25), ("4", 0.125), ("3", 0.25))
    read = read_first_token({"token": "4", "logprob": math.log(0.5), "top_logprobs": top})
    assert {word: math.exp(p) for word, p in read.top.items()} == pytest.approx(
        {"4": 0.625, "3": 0.25}
    )


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        (0.1, {"5": 0.6, "3": 0.25, "4": 0.1}),  # beside few alternatives it is left out
        (0.25, {"5": 0.6, "3": 0.25}),  # listed, in another spelling
        (0.5, {"5": 0.6, "3": 0.25}),  # more than there can be: it is counted otherwise
    ],
)
def test_the_token_drawn_counts_where_the_list_lacks_it(
    own: float, expected: dict[str, float]
) -> None:
    top = listed(("5", 0.6), ("3", 0.25))
    read = read_first_token({"token": "4", "logprob": math.log(own), "top_logprobs": top})
    assert {word: math.exp(p) for word, p in read.top.items()} == pytest.approx(expected)


@pytest.mark.parametrize(
    ("remaining", "limit"),
    [("nan", "nan"), ("-1", "-1"), ("0", "0"), ("inf", "60"), ("-inf", "60"), ("nan", "60")],
)
def test_a_limit_that_is_none_is_not_kept_to(remaining: str, limit: str) -> None:
    headers = {
        "x-ratelimit-remaining-requests": remaining,
        "x-ratelimit-limit-requests": limit,
        "x-ratelimit-remaining-tokens": "5",
        "x-ratelimit-limit-tokens": "10",
    }
    assert set(read_rate_limits(headers) or {}) == {"tokens"}


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"{}",
        b'{"choices":[{}]}',
        b'{"choices":[{"message":{"content":3}}]}',
        b"[" * 100_000,
        b'{"choices":' * 100_000,
        b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"usage":' + b"9" * 5_000 + b"}",
        b'{"choices":{"message":{"content":"4"}}}',
        b'{"choices":"4"}',
        b'{"choices":[{"message":{"content":["4"]}}]}',
        b'{"choices":[{"message":["4"]}]}',
        b'{"choices":[{"message":{"content":"4"},"logprobs":{"content":[{"token":4,"logprob":0}]}}]}',
        b'{"choices":[{"message":{"content":"4"},"logprobs":["4"]}]}',
        b'\xff\xfe{"choices"',
        b"\x80\x81",
        b"null",
        b"NaN",
    ],
)
def test_deep_endless_and_misshapen_answers_are_malformed(body: bytes) -> None:
    with pytest.raises(TransientError):
        read_completion(body, ASKED, Sampling(top_logprobs=5))


def test_half_a_surrogate_pair_in_an_answer_becomes_a_question_mark() -> None:
    body = b'{"choices":[{"message":{"content":"4 \\ud800"},"finish_reason":[]}],"model":["x"]}'
    answer = read_completion(body, ASKED, Sampling())
    assert (answer.replies[0].text, answer.replies[0].finish_reason) == ("4 ?", "stop")
    assert answer.model == ""


@pytest.mark.parametrize(
    "header",
    [
        "Fri, 31 Dec 99999999999 23:59:59 GMT",
        "Fri, 31 Dec 9999 23:59:59 -9999",
        "Fri, 99 Foo 2026",
        "1" * 5000,
        "Fri, 31 Dec " + "9" * 5000,
        "\x00",
        ";" * 1000,
    ],
)
def test_a_date_to_retry_after_that_no_calendar_has_is_no_date(header: str) -> None:
    assert seconds(header) is None


def served(answer: Callable[[bytes], Iterable[bytes]], *, pause: float = 0, **options: Any) -> Any:
    """The answer, or the error, of a server that sends just this."""
    with ServingBytes(answer, pause) as base:
        try:
            return complete(api_base=base, **options)
        except ModelError as error:
            return error


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("name", "pack"),
    [("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate)],
)
def test_a_packed_answer_is_unpacked(name: str, pack: Callable[[bytes], bytes]) -> None:
    answer = served(lambda _: [http(pack(answer_with()), f"Content-Encoding: {name}")])
    assert answer.replies[0].text == "four"


@pytest.mark.parametrize("name", ["br", "zstd", "gzip, gzip", "rot13"])
def test_an_answer_packed_otherwise_than_asked_is_malformed(name: str) -> None:
    error = served(lambda _: [http(b"\x1b\x03", f"Content-Encoding: {name}")])
    assert isinstance(error, TransientError)
    assert f"packed as '{name}', unasked" in str(error)


def test_an_answer_that_is_not_packed_as_it_says_is_malformed() -> None:
    error = served(lambda _: [http(answer_with(), "Content-Encoding: gzip")])
    assert isinstance(error, TransientError)
    assert "not gzip" in str(error)


@pytest.mark.parametrize("status", ["200 OK", "500 No"])
def test_a_packed_answer_without_end_is_cut_off(status: str) -> None:
    # 1,000 to 1, so 100 MB of blanks in 100 KB.
    bomb = gzip.compress(b" " * 100_000_000)
    tracemalloc.start()
    error = served(lambda _: [http(bomb, "Content-Encoding: gzip", status=status)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(error, TransientError)
    assert peak < 40_000_000
    if status == "200 OK":
        # 2 MiB, and 256 bytes for each of 512 tokens.
        assert "more than 2,228,224 bytes" in str(error)


@pytest.mark.parametrize(
    "piece", [b"\0\0\0\xff\xff" * 13_000, b"what follows the end " * 3_000], ids=["empty", "tail"]
)
def test_a_packed_answer_that_unpacks_to_nothing_for_ever_is_cut_off(piece: bytes) -> None:
    def pieces(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
        # Ten bytes of header, then blocks of no bytes; or a whole body and more.
        yield gzip.compress(b"{}")[:10] if piece[:1] == b"\0" else gzip.compress(b"{}")
        while True:
            yield piece

    error = served(pieces)
    assert "more than 2,228,224 bytes" in str(error)


def test_an_answer_that_drips_is_given_up_in_time() -> None:
    def drip(_: bytes) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
        while True:
            yield b" "

    start = time.monotonic()
    error = served(drip, pause=0.05, timeout=0.5)
    assert isinstance(error, TransientError)
    assert "within 0.5 s" in str(error)
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("depth", [400, 700, 900, 100_000])
@pytest.mark.parametrize(
    "form", ['{"error":%s}', '{"error":{"message":%s}}', '{"error":{"param":%s}}']
)
@pytest.mark.parametrize("status", [200, 400, 429, 500])
def test_an_error_of_any_depth_is_an_error_in_a_line(depth: int, form: str, status: int) -> None:
    body = (form % ("[" * depth + "]" * depth)).encode()
    error = served(lambda _: [http(body, status=f"{status} No")])
    assert isinstance(error, ModelError)
    assert "\n" not in str(error)
    assert len(str(error)) < 500


@pytest.mark.parametrize("status", ["199 No", "206 Part", "204 None", "777 No"])
def test_a_status_that_is_no_error_ends_no_run(status: str) -> None:
    error = served(lambda _: [http(b"", status=status)], timeout=1)
    assert isinstance(error, TransientError)


def test_the_longest_answer_has_room_for_every_token_and_alternative_asked_for() -> None:
    assert max_answer_bytes(Sampling(max_tokens=4096, top_logprobs=20)) > 4096 * 21 * 200
    assert max_answer_bytes(Sampling(n=1000, max_tokens=100_000)) == 32 * 2**20


def test_debug_logs_hold_no_key(
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with caplog.at_level(logging.DEBUG):
        complete()
        openai_server.key = "another"
        with pytest.raises(FatalModelError):
            complete()
    assert KEY not in caplog.text


def test_azure_is_asked_through_its_deployment_with_its_own_key(
    openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", openai_server.url.removesuffix("/v1"))

    async def once() -> Completion:
        model = open_model("azure/judge-1")
        assert KEY not in repr(model)
        try:
            return await model.complete(ASKED, Sampling(n=2))
        finally:
            await model.close()

    openai_server.judge = lambda body: "4"
    assert [reply.text for reply in asyncio.run(once()).replies] == ["4", "4"]
    (seen,) = openai_server.log
    assert seen.headers["api-key"] == KEY
    assert seen.path == "/openai/deployments/judge-1/chat/completions"
    openai_server.fault = lambda number, body: "429"
    with pytest.raises(ThrottledError):
        asyncio.run(once())
    openai_server.key = "another"
    with pytest.raises(FatalModelError, match="AZURE_OPENAI_API_KEY") as caught:
        asyncio.run(once())
    assert KEY not in str(caught.value)
    assert len(openai_server.log) == 3  # the package's own retries are off
    monkeypatch.delenv("AZURE_OPENAI_API_KEY")
    with pytest.raises(FatalModelError, match="AZURE_OPENAI_API_KEY is not set"):
        open_model("azure/judge-1")


def listing(pieces: Iterable[bytes], pause: float = 0.0) -> str | None:
    """What `served` makes of a server whose list of models comes in these pieces."""
    returned = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                connection.recv(10_000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                for piece in pieces:
                    connection.sendall(piece)
                    if returned.wait(pause):
                        return

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        model = open_model(
            "openai/judge-1", api_base=f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        )
        assert isinstance(model, EndpointModel)
        try:
            return model.served()
        finally:
            returned.set()
            thread.join()


def test_a_list_of_models_of_any_shape_is_no_crash(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("judges.client.openai.SERVED_TIMEOUT", 20.0)
    assert listing([b'{"data": [{"id": "judge-1"}]}'])
    for body in (b"[" * 90_000, b'{"data": 3}', b'{"data": [[]]}', b"<html>", b""):
        assert listing([body]) is None
    assert "Traceback" not in capfd.readouterr().err


def test_a_list_of_models_that_drips_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each piece comes within the timeout, and all of them after 100 s.
    monkeypatch.setattr("judges.client.openai.SERVED_TIMEOUT", 0.3)
    start = time.monotonic()
    assert listing(itertools.repeat(b" ", 1000), pause=0.1) is None
    assert time.monotonic() - start < 30
