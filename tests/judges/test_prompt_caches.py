"""Providers' own caches of prompts: marked where they want marks, counted, and priced by kind."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from aiohttp import web
from openai_replies import completion
from openai_server import OpenAIServer, Serving

from judges.__main__ import main
from judges.client.dspy import open_dspy
from judges.client.protocol import Message, Sampling

CLAUDE, GEMINI = "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"
ASKED: list[Message] = [{"role": "user", "content": "word " * 2000}]


def test_what_a_run_reports_is_what_its_cached_and_reasoning_tokens_cost(
    openai_server: OpenAIServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    openai_server.models = ("gpt-4.1-mini",)
    served = []

    def answer(number: int, body: dict[str, Any]) -> web.Response:
        made = completion(body, ["4"])
        counts = made["usage"]
        counts["completion_tokens"] += 100
        counts["completion_tokens_details"] = {"reasoning_tokens": 100}
        cached = counts["prompt_tokens"] // 2 if number else 0
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
        plain = counts["prompt_tokens"] - cached
        served.append((plain * 0.4 + cached * 0.1 + counts["completion_tokens"] * 1.6) / 1e6)
        counts["total_tokens"] = counts["prompt_tokens"] + counts["completion_tokens"]
        return web.json_response(made)

    openai_server.habit = answer
    data, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows(20).to_json(data, orient="records", lines=True)
    flags = ["--data", str(data), "--out", str(out), "--lm", "openai/gpt-4.1-mini", "--json"]
    assert main(["score", "relevance", *flags, "--max-cost", "1"]) == 0
    reported = json.loads(capsys.readouterr().out)["cost_usd"]
    assert reported == pytest.approx(sum(served), rel=0.001)


def rows(count: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "document": [f"Document {i}." for i in range(count)],
            "summary": [f"Summary {i}." for i in range(count)],
        }
    )


class Provider:
    """Stands for a provider that only DSPy's client asks: any path, one way to answer."""

    def __init__(self, respond: Callable[[dict[str, Any]], web.Response]) -> None:
        self.respond = respond
        self.log: list[dict[str, Any]] = []
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        self.log.append(await request.json())
        return self.respond(self.log[-1])


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "sk-local-test-key-0123456789")


def claude(
    body: dict[str, Any],
    counts: tuple[int, int, int, int] = (50, 4, 0, 2000),
    reply: str = "4",
    stop: str = "end_turn",
) -> web.Response:
    """An answer of Anthropic's, whose counts of cached tokens are apart from those read."""
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens")
    usage = dict(zip((*names, "cache_read_input_tokens"), counts, strict=True))
    return web.json_response(
        {
            "id": "msg_0",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "text", "text": reply}],
            "stop_reason": stop,
            "usage": usage,
        }
    )


def gemini(body: dict[str, Any]) -> web.Response:
    """An answer of Gemini's, whose thoughts are apart from the tokens written."""
    parts = [{"text": "4"}]
    return web.json_response(
        {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": 2050,
                "cachedContentTokenCount": 2000,
                "candidatesTokenCount": 4,
                "thoughtsTokenCount": 100,
                "totalTokenCount": 2154,
            },
            "modelVersion": "gemini-2.5-flash",
        }
    )


@pytest.mark.parametrize(
    ("lm", "respond", "tokens", "dollars"),
    [
        (CLAUDE, claude, (2050, 4), 50 * 3 + 2000 * 0.3 + 4 * 15),
        (GEMINI, gemini, (2050, 104), 50 * 0.3 + 2000 * 0.03 + 104 * 2.5),
    ],
)
def test_dspys_clients_are_counted_and_paid_by_kind(
    lm: str,
    respond: Callable[[dict[str, Any]], web.Response],
    tokens: tuple[int, int],
    dollars: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data, out = tmp_path / "rows.jsonl", tmp_path / "out.jsonl"
    rows(3).to_json(data, orient="records", lines=True)
    provider = Provider(respond)
    with Serving(provider):  # type: ignore[arg-type]
        flags = ["--data", str(data), "--out", str(out), "--api-base", provider.url, "--lm", lm]
        assert main(["score", "relevance", *flags, "--json", "--max-cost", "1"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["tokens"] == {"in": 3 * tokens[0], "out": 3 * tokens[1]}
    assert record["cost_usd"] == pytest.approx(3 * dollars / 1e6)


def test_anthropic_gets_a_mark_where_what_all_rows_share_ends(
    caplog: pytest.LogCaptureFixture,
) -> None:
    provider = Provider(claude)
    bare: list[Message] = [
        {"role": "system", "content": "You rate."},
        {"role": "user", "content": "This one."},
    ]
    shown: list[Message] = [
        bare[0],
        {"role": "user", "content": "An example."},
        {"role": "assistant", "content": "3"},
        bare[1],
    ]
    with Serving(provider):  # type: ignore[arg-type]
        model = open_dspy(CLAUDE, provider.url)

        async def ask() -> None:
            for messages in (bare, shown):
                await model.complete(messages, Sampling(seed=7))

        asyncio.run(ask())
    mark = {"cache_control": {"type": "ephemeral"}}
    first, second = provider.log
    assert first["system"][0].items() >= mark.items()
    assert "cache_control" not in json.dumps(first["messages"])
    assert second["messages"][1]["content"][-1].items() >= mark.items()
    assert "cache_control" not in json.dumps(second["messages"][-1])
    # The Messages API has no seed, which is said once.
    assert caplog.text.count("takes no such seed (DSPy has dropped it)") == 1


class Billed:
    """Anthropic with a cache of prompts and faults; `dollars` are what it bills at list prices."""

    def __init__(self) -> None:
        self.requests = 0
        self.dollars = 0.0

    def __call__(self, body: dict[str, Any]) -> web.Response:
        self.requests += 1
        if self.requests % 5 == 0:
            fault = {"type": "overloaded_error", "message": "Overloaded"}
            return web.json_response({"type": "error", "error": fault}, status=529)
        # The first request puts the prompt there, and the next ones read it.
        reads, writes = (0, 1500) if self.requests == 1 else (1500, 0)
        self.dollars += (40 * 3 + reads * 0.3 + writes * 3.75 + 60 * 15) / 1e6
        refused, cut = self.requests % 7 == 0, self.requests % 11 == 0
        stop = "refusal" if refused else "max_tokens" if cut else "end_turn"
        return claude(body, (40, 60, writes, reads), "It is" if refused or cut else "4", stop)


@pytest.mark.parametrize("limit", [0.05, 1.0])
def test_what_anthropic_bills_is_reported_and_never_above_the_limit(
    limit: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 0.002)
    data, out, server = tmp_path / "rows.jsonl", tmp_path / "out.jsonl", Billed()
    rows(60).to_json(data, orient="records", lines=True)
    provider = Provider(server)
    with Serving(provider):  # type: ignore[arg-type]
        flags = ["--data", str(data), "--out", str(out), "--api-base", provider.url]
        run = ["score", "relevance", *flags, "--lm", CLAUDE, "--max-cost", str(limit), "--json"]
        ended = main(run)
    assert server.dollars <= limit
    captured = capsys.readouterr()
    if ended:
        assert "of the budget of $0.05 is spent" in captured.err
        # The next request fits no more: one with 2,048 tokens, at $15 a million, and a prompt of
        # at most 2,000 bytes, at $3.75.
        assert server.dollars > limit - 2048 * 15e-6 - 2000 * 3.75e-6
    else:
        reported = json.loads(captured.out)["cost_usd"]
        assert reported == pytest.approx(server.dollars, rel=0.01)
