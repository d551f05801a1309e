"""Providers whom only DSPy's clients ask: what they answer, and what they bill by kind of token."""

import asyncio
import json

import pytest
from aiohttp import web
from files import write_jsonl
from openai_replies import completion
from serving import AnyPath, serving

import judges
from judges.__main__ import main
from judges.client.dspy import open_dspy
from judges.protocol import Sampling

CLAUDE, GEMINI = "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"
ROUTED = "openrouter/openai/gpt-4o-mini"
ROWS = [{"document": "A.", "summary": f"This summary is worth {i}."} for i in (1, 2, 3)]


def provider_of(respond):
    """A server; `respond` gets a request's number and the rating that its text names."""

    def answer(number, text):
        response = respond(number, text.partition("worth ")[2][:1])
        status, body = response if isinstance(response, tuple) else (200, response)
        return web.json_response(body, status=status)

    return serving(AnyPath(answer))


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    for name in ("ANTHROPIC", "GEMINI", "OPENROUTER"):
        monkeypatch.setenv(f"{name}_API_KEY", "sk-local-test-key-0123456789")


def claude(*content, stop="end_turn", counts=(50, 4, 0, 2000)):
    """An answer of Anthropic's, whose counts of cached tokens are apart from those read."""
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens")
    return {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [{"type": "text", "text": c} if isinstance(c, str) else c for c in content],
        "stop_reason": stop,
        "usage": dict(zip((*names, "cache_read_input_tokens"), counts, strict=True)),
    }


def gemini(*parts, finish="STOP"):
    """An answer of Gemini's, whose thoughts are apart from the tokens written."""
    content = {"role": "model", "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 2050,
            "cachedContentTokenCount": 2000,
            "candidatesTokenCount": 4,
            "thoughtsTokenCount": 100,
            "totalTokenCount": 2154,
        },
        "modelVersion": "gemini-2.5-flash",
    }


def refusal(message, status=429):
    error = {"code": status, "message": message, "status": "RESOURCE_EXHAUSTED"}
    return status, {"error": error}


QUOTA = "You exceeded your current quota, please check your plan and billing details."
THOUGHT = {"type": "thinking", "thinking": "1 or 2?", "signature": "s"}
RIGHT = {
    "Claude's thoughts": (CLAUDE, lambda _, rating: claude(THOUGHT, rating)),
    "Gemini's thoughts": (
        GEMINI,
        lambda _, rating: gemini({"text": "1 or 2?", "thought": True}, rating),
    ),
    "a limit a minute in the words of a quota": (
        GEMINI,
        lambda n, rating: refusal(f"{QUOTA} Please retry in 0.05s.") if n == 0 else gemini(rating),
    ),
    "one answer that is no answer": (CLAUDE, lambda n, rating: claude(rating) if n else ["what?"]),
}
# What the row that is worth 2 gets, where the others are answered, and the reason in its row.
WITHHELD = {
    "a reply held back": (GEMINI, gemini, gemini(finish="SAFETY"), "Candidate blocked: SAFETY"),
    "a prompt held back": (
        GEMINI,
        gemini,
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}},
        "Prompt blocked: PROHIBITED_CONTENT",
    ),
    "a text that moderation flags": (
        ROUTED,
        lambda rating: completion({"model": "openai/gpt-4o-mini", "messages": []}, [rating]),
        refusal("it requires moderation and your input was flagged for x", 403),
        "your input was flagged",
    ),
    "a text refused as a request": (
        CLAUDE,
        claude,
        refusal("messages: text content must be non-empty", 400),
        "must be non-empty",
    ),
}


def judge_all(lm, respond):
    with provider_of(respond) as provider:
        options = {"lm": lm, "api_base": provider.url, "concurrency": 1, "cache": "none"}
        return list(judges.load("relevance").judge_all(ROWS, **options))


@pytest.mark.parametrize(("lm", "respond"), RIGHT.values(), ids=RIGHT)
def test_an_answer_in_a_providers_own_form_is_read(lm, respond):
    assert [judgement.score for judgement in judge_all(lm, respond)] == [1, 2, 3]


@pytest.mark.parametrize(("lm", "respond", "withheld", "reason"), WITHHELD.values(), ids=WITHHELD)
def test_what_is_refused_to_one_text_fails_its_row_alone(lm, respond, withheld, reason):
    judgements = judge_all(lm, lambda _, rating: withheld if rating == "2" else respond(rating))
    assert [judgement.failure is None for judgement in judgements] == [True, False, True]
    assert reason in str(judgements[1].failure)


def score(lm, base, n_rows, folder, *flags):
    """The exit code of the command over so many rows."""
    rows = [{"document": f"Document {i}.", "summary": f"Summary {i}."} for i in range(n_rows)]
    files = [write_jsonl(folder / "rows.jsonl", rows), "--out", str(folder / "out.jsonl"), "--json"]
    return main(["score", "relevance", "--lm", lm, "--api-base", base, *flags, "--data", *files])


@pytest.mark.parametrize(
    ("lm", "answer", "tokens", "dollars"),
    [
        (CLAUDE, claude("4"), (2050, 4), 50 * 3 + 2000 * 0.3 + 4 * 15),
        (GEMINI, gemini("4"), (2050, 104), 50 * 0.3 + 2000 * 0.03 + 104 * 2.5),
    ],
)
def test_dspys_clients_are_counted_and_paid_by_kind(lm, answer, tokens, dollars, tmp_path, capsys):
    with provider_of(lambda *_: answer) as provider:
        assert score(lm, provider.url, 3, tmp_path, "--max-cost", "1") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["tokens"] == {"in": 3 * tokens[0], "out": 3 * tokens[1]}
    assert record["cost_usd"] == pytest.approx(3 * dollars / 1e6)


def test_anthropic_gets_a_mark_where_what_all_rows_share_ends(caplog):
    system = {"role": "system", "content": "You rate."}
    message = {"role": "user", "content": "This one."}

    async def ask(model):
        for example in ((), (message, {"role": "assistant", "content": "3"})):
            await model.complete([system, *example, message], Sampling(seed=7))

    with provider_of(lambda *_: claude("4")) as provider:
        asyncio.run(ask(open_dspy(CLAUDE, provider.url)))
    mark = {"cache_control": {"type": "ephemeral"}}
    first, second = map(json.loads, provider.log)
    assert first["system"][0].items() >= mark.items()
    assert second["messages"][1]["content"][-1].items() >= mark.items()
    assert "cache_control" not in json.dumps([first["messages"], second["messages"][-1]])
    # The Messages API has no seed, which is said once.
    assert caplog.text.count("takes no such seed (DSPy has dropped it)") == 1


@pytest.mark.parametrize("limit", [0.05, 1.0])
def test_what_anthropic_bills_is_reported_and_within_limits(limit, tmp_path, capsys, short_waits):
    bills = []

    def respond(number, _):
        """Anthropic with a cache of prompts, faults and refusals, at list prices."""
        if number % 5 == 4:
            fault = {"type": "overloaded_error", "message": "Overloaded"}
            return 529, {"type": "error", "error": fault}
        # The first request puts the prompt there, and the next ones read it.
        reads, writes = (1500, 0) if number else (0, 1500)
        bills.append((40 * 3 + reads * 0.3 + writes * 3.75 + 60 * 15) / 1e6)
        stop = "refusal" if number % 7 == 6 else "max_tokens" if number % 11 == 10 else "end_turn"
        text = "4" if stop == "end_turn" else "It is"
        return claude(text, stop=stop, counts=(40, 60, writes, reads))

    with provider_of(respond) as provider:
        code = score(CLAUDE, provider.url, 60, tmp_path, "--max-cost", str(limit))
    output = capsys.readouterr()
    assert sum(bills) <= limit
    if code:
        assert "of the budget of $0.05 is spent" in output.err
        # The next request fits no more: one with 2,048 tokens, at $15 a million, and a prompt of
        # at most 2,000 bytes, at $3.75.
        assert sum(bills) > limit - 2048 * 15e-6 - 2000 * 3.75e-6
    else:
        cost = json.loads(output.out)["cost_usd"]
        assert cost == pytest.approx(sum(bills), rel=0.01)
