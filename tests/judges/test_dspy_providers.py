"""What providers answer whom only DSPy's clients ask, from a judge's rows and back."""

from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from openai_replies import completion
from openai_server import Serving

import judges
from judges.client.protocol import FatalModelError
from judges.judgement import AnyJudgement

CLAUDE, GEMINI = "anthropic/claude-sonnet-4-5", "gemini/gemini-2.5-flash"
ROUTED = "openrouter/openai/gpt-4o-mini"
ROWS = [{"document": "A.", "summary": f"This summary is worth {i}."} for i in (1, 2, 3)]
Respond = Callable[[int, str], object]


class Provider:
    """Answers any path; `respond` gets the request's number and the rating that its text names."""

    def __init__(self, respond: Respond) -> None:
        self.respond = respond
        self.n_requests = 0
        self.url = ""

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/{path:.*}", self._answer)
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        number, self.n_requests = self.n_requests, self.n_requests + 1
        answer = self.respond(number, (await request.text()).partition("worth ")[2][:1])
        status, body = answer if isinstance(answer, tuple) else (200, answer)
        return web.json_response(body, status=status)


def claude(*content: dict[str, Any], stop: str = "end_turn") -> dict[str, Any]:
    return {
        "id": "msg_0",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": list(content),
        "stop_reason": stop,
        "usage": {"input_tokens": 200, "output_tokens": 2},
    }


def gemini(*parts: dict[str, Any], finish: str = "STOP") -> dict[str, Any]:
    content = {"role": "model", "parts": list(parts)}
    return {
        "candidates": [{"content": content, "finishReason": finish, "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 200,
            "candidatesTokenCount": 2,
            "totalTokenCount": 202,
        },
        "modelVersion": "gemini-2.5-flash",
    }


def text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def routed(rating: str) -> dict[str, Any]:
    return completion({"model": "openai/gpt-4o-mini", "messages": []}, [rating])


def refused(message: str, status: int = 429) -> tuple[int, dict[str, Any]]:
    error = {"code": status, "message": message, "status": "RESOURCE_EXHAUSTED"}
    return status, {"error": error}


QUOTA = "You exceeded your current quota, please check your plan and billing details."
THOUGHT = {"type": "thinking", "thinking": "1 or 2?", "signature": "s"}
HIDDEN = {"type": "redacted_thinking", "data": "c2VjcmV0"}
RIGHT: list[tuple[str, str, Respond]] = [
    ("Claude's thoughts", CLAUDE, lambda _, rating: claude(THOUGHT, text(rating))),
    ("Claude's hidden thoughts", CLAUDE, lambda _, rating: claude(HIDDEN, text(rating))),
    (
        "Gemini's thoughts",
        GEMINI,
        lambda _, rating: gemini({"text": "1 or 2?", "thought": True}, {"text": rating}),
    ),
    (
        "a limit a minute in the words of a quota",
        GEMINI,
        lambda number, rating: (
            refused(f"{QUOTA} Please retry in 0.05s.") if number == 0 else gemini({"text": rating})
        ),
    ),
    (
        "one answer that is no answer",
        CLAUDE,
        lambda number, rating: ["what?"] if number == 0 else claude(text(rating)),
    ),
]


def score(
    lm: str, respond: Respond, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[AnyJudgement], int]:
    """Every row's judgement, and how many requests came."""
    for name in ("ANTHROPIC", "GEMINI", "OPENROUTER"):
        monkeypatch.setenv(f"{name}_API_KEY", "sk-local-test-key-0123456789")
    provider = Provider(respond)
    with Serving(provider):  # type: ignore[arg-type]
        options: Any = {"lm": lm, "api_base": provider.url, "concurrency": 1, "cache": "none"}
        return list(judges.load("relevance").judge_all(ROWS, **options)), provider.n_requests


@pytest.mark.parametrize(("lm", "respond"), [row[1:] for row in RIGHT], ids=[r[0] for r in RIGHT])
def test_an_answer_in_a_providers_own_form_is_read(
    lm: str, respond: Respond, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgements, _ = score(lm, respond, monkeypatch)
    assert [judgement.score for judgement in judgements] == [1, 2, 3]


WITHHELD: list[tuple[str, str, Respond, str]] = [
    (
        "a reply held back",
        GEMINI,
        lambda _, rating: gemini(finish="SAFETY") if rating == "2" else gemini({"text": rating}),
        "Candidate blocked: SAFETY",
    ),
    (
        "a prompt held back",
        GEMINI,
        lambda _, rating: (
            {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}
            if rating == "2"
            else gemini({"text": rating})
        ),
        "Prompt blocked: PROHIBITED_CONTENT",
    ),
    (
        "a text that the router's moderation flags",
        ROUTED,
        lambda _, rating: (
            refused("it requires moderation and your input was flagged for x", 403)
            if rating == "2"
            else routed(rating)
        ),
        "your input was flagged",
    ),
    (
        "a text that is refused as a request",
        CLAUDE,
        lambda _, rating: (
            refused("messages: text content must be non-empty", 400)
            if rating == "2"
            else claude(text(rating))
        ),
        "must be non-empty",
    ),
]


@pytest.mark.parametrize(
    ("lm", "respond", "reason"), [row[1:] for row in WITHHELD], ids=[row[0] for row in WITHHELD]
)
def test_what_is_refused_to_one_text_fails_its_row_alone(
    lm: str, respond: Respond, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    judgements, _ = score(lm, respond, monkeypatch)
    assert [judgement.failure is None for judgement in judgements] == [True, False, True]
    assert reason in str(judgements[1].failure)


@pytest.mark.parametrize("words", ["insufficient balance", "check your plan and billing details"])
def test_a_quota_that_is_gone_ends_the_run_at_once(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    with pytest.raises(FatalModelError, match=words):
        score(GEMINI, lambda *_: asked.append(1) or refused(words), monkeypatch)
    assert len(asked) <= len(ROWS)  # those under way, and none again
