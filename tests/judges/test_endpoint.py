"""The chat protocol's client: answers as sent byte for byte, addresses, keys and connections."""

import asyncio
import json
import math

import pytest
from aiohttp import web
from refusals import refuses
from serving import AnyPath, serving

from judges.client.open import close_models, open_model
from judges.protocol import (
    FatalModelError,
    ModelError,
    Sampling,
    TransientError,
    UnreachableError,
    Usage,
)

PROMPT = [{"role": "user", "content": "Rate it from 1 to 5."}]
KEY = "sk-planted-0123456789abcdef"
SOUND = {"choices": [{"message": {"content": "four"}, "finish_reason": "stop"}], "model": "judge-1"}


PLAIN = Sampling()


def complete(sampling=PLAIN, lm="openai/judge-1", **options):
    async def once():
        model = open_model(lm, **options)
        try:
            return await model.complete(PROMPT, sampling)
        finally:
            await close_models()

    return asyncio.run(once())


def read(body, sampling=PLAIN):
    """What is made of an answer's body."""
    model = open_model("openai/judge-1", api_base="http://127.0.0.1:9/v1")
    return model.read_completion(body, PROMPT, sampling)


def usage_of(counts, sampling=PLAIN):
    """What an answer with these counts of tokens is said to have taken."""
    answer = read(json.dumps({**SOUND, "usage": counts}).encode(), sampling)
    return Usage(
        answer.tokens_in, answer.tokens_out, answer.cache_read_tokens, answer.cache_write_tokens
    )


def test_twenty_samples_are_one_request(openai_server):
    openai_server.judge = lambda body: [str(1 + i % 5) for i in range(20)]
    fields = {"n": 20, "temperature": 2.0, "seed": 7, "reasoning_effort": "low"}
    answer = complete(Sampling(**fields))
    assert [reply.text for reply in answer.replies] == [str(1 + i % 5) for i in range(20)]
    (entry,) = openai_server.log
    fields |= {"model": "judge-1", "messages": PROMPT, "max_tokens": 512}
    assert entry.body == fields
    assert entry.headers["Authorization"] == "Bearer sk-local-test-key-0123456789"


def test_azure_is_asked_at_its_own_address_with_its_own_key(openai_server, monkeypatch):
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", openai_server.url.removesuffix("/v1"))
    complete(lm="azure/judge-1")
    (entry,) = openai_server.log
    assert entry.headers["Authorization"] == f"Bearer {KEY}"
    assert entry.path == "/openai/v1/chat/completions"
    openai_server.key = "another"
    with pytest.raises(FatalModelError, match="AZURE_OPENAI_API_KEY") as error:
        complete(lm="azure/judge-1")
    assert KEY not in str(error.value)


def test_litellms_proxy_gives_log_probabilities_with_and_without_a_key(openai_server, monkeypatch):
    monkeypatch.setenv("LITELLM_PROXY_API_BASE", openai_server.url)
    for key, header in ((KEY, f"Bearer {KEY}"), ("", None)):
        monkeypatch.setenv("LITELLM_PROXY_API_KEY", key)
        answer = complete(Sampling(top_logprobs=20), lm="litellm_proxy/judge-1")
        assert answer.replies[0].tokens
        assert openai_server.log[-1].headers.get("Authorization") == header


@pytest.mark.parametrize(
    ("lm", "options", "message"),
    [
        ("openai/m", {}, "OPENAI_API_KEY is not set"),
        ("azure/m", {"api_base": "http://127.0.0.1:9"}, "AZURE_OPENAI_API_KEY is not set"),
        ("openai/m", {"api_base": ""}, "the address is empty"),
        ("groq/m", {"api_base": " "}, "the address is empty"),
        ("embedded", {"api_base": ""}, "the address is empty"),
        ("openai/m", {"api_base": "localhost:8000"}, "'localhost:8000' is not an address"),
        ("azure/m", {}, "no address is given; set AZURE_OPENAI_ENDPOINT"),
        ("openai/m", {"api_key_env": "UNSET_KEY"}, "UNSET_KEY, which should hold the key"),
        ("openai/m", {"api_key_env": KEY}, "the name of an environment variable"),
        ("gpt-4o", {}, "no model 'gpt-4o': write embedded or PROVIDER/NAME"),
    ],
)
def test_a_wrong_set_up_is_said_before_any_request(lm, options, message):
    with pytest.raises(FatalModelError, match=message) as error:
        open_model(lm, **options)
    assert KEY not in str(error.value)


def test_the_reply_its_tokens_and_their_alternatives_are_read(openai_server):
    openai_server.judge = lambda body: "4"
    answer = complete(Sampling(top_logprobs=3))
    (reply,) = answer.replies
    assert (reply.text, reply.finish_reason) == ("4", "stop")
    # The server's 4 has probability 1/2, its neighbours 1/4 each.
    shares = {text: math.exp(value) for text, value in reply.tokens[0].top_logprobs.items()}
    assert shares == pytest.approx({"4": 0.5, "3": 0.25, "5": 0.25})
    assert (answer.tokens_in, answer.tokens_out, answer.model) == (5, 1, "judge-1")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "the answer begins '<!DOCTYPE html>"),
        (b'data: {"choices": []}\n\ndata: [DONE]', "the answer begins 'data: "),
        (b"", r"malformed answer \(the answer is empty\)"),
        (b'{"choices": null, "usage": {}}', "malformed"),
        (b'{"choices": []}', "no replies"),
        (b'{"error": {"message": "Rate limited upstream"}}', "Rate limited upstream"),
        (b'{"choices": [', "truncated"),
        (b"\x80\x81", "JSON is malformed"),
        (b"[]", "Expected `object`"),
        (b"[" * 100_000, "malformed answer"),
        (b'{"usage":' + b"[" * 100_000, "recursion"),
        (b'{"choices":{"message":{"content":"4"}}}', "malformed"),
        (b'{"choices":[{"message":{"content":["4"]}}]}', "malformed"),
        (b'{"choices":[{"message":{"content":"4"},"logprobs":["4"]}]}', "malformed"),
        (b'{"choices":[{"message":{"content":"4 \\ud800"}}]}', "malformed"),
    ],
)
def test_a_body_that_is_no_answer_is_called_what_it_is(body, reason):
    with refuses(TransientError, reason, limit=500) as error:
        read(body)
    assert error.value.may_be_billed


def counts(*numbers):
    return dict(zip(("prompt_tokens", "completion_tokens", "total_tokens"), numbers, strict=False))


CACHE = {"prompt_tokens_details": {"cached_tokens": 1500, "cache_write_tokens": 400}}


@pytest.mark.parametrize(
    ("reply", "usage"),
    [
        (counts(100, 5), Usage(100, 5)),
        # Gemini counts 605 in all, of which 100 were read and 5 shown; OpenAI's total says no more.
        (counts(100, 5, 605), Usage(100, 505)),
        (counts(2000, 300, 2300) | CACHE, Usage(2000, 300, 1500, 400)),
    ],
)
def test_tokens_of_each_kind_are_read(reply, usage):
    assert usage_of(reply) == usage


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [5, 1],
        "five",
        counts(-5, -1),
        counts(10**400, 10**400),
        counts(10**12, 1e300),
        counts(True, False),
        counts(0, 0),
        counts("5", [1], 10**9),
    ],
)
def test_impossible_token_counts_become_the_most_that_may_be_billed(reply):
    # 20 bytes asked, 16 for the message's framing, and thoughts up to the limit of each reply.
    assert usage_of(reply, Sampling(n=2, max_tokens=1000)) == Usage(36, 2000)
    # An endpoint that heeds no limit has written 4 bytes and their framing.
    assert usage_of(reply, Sampling(max_tokens=1)) == Usage(36, 20)


def test_nobody_listening_is_unreachable():
    with pytest.raises(UnreachableError, match=r"no connection to http://127\.0\.0\.1:9/v1"):
        complete(api_base="http://127.0.0.1:9/v1")


def test_a_404_at_an_address_without_v1_says_how_addresses_end(openai_server):
    with pytest.raises(FatalModelError, match=r"404 .* usually end in /v1"):
        complete(api_base=openai_server.url.removesuffix("/v1"))


HUGE, DEEP = b" " * 9 * 2**20, b'{"error":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        *((HUGE, status, "more than 8,388,") for status in (200, 500)),
        *((DEEP, status, f"{status} from") for status in (400, 429, 500)),
    ],
)
def test_a_huge_or_deep_answer_is_an_error_in_a_line(body, status, words):
    server = AnyPath(lambda *_: web.Response(status=status, body=body))
    with serving(server), refuses(ModelError, words, limit=500):
        complete(api_base=server.url)
