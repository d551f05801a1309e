"""A local OpenAI-compatible server with a scripted judge, faults on order and a log: a plugin.

Every request is checked against the official openai package's types.
"""

import asyncio
import json
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from openai_replies import Body, complaints, completion, error, follow, official_params
from serving import serving

from judges.client.prices import Price
from judges.protocol import Usage

# What comes well formed and holds no judgement; the tokens are billed all the same.
WITHHELD = ("empty", "null", "truncated", "cut", "filtered", "refusal", "garbage")
HANG = 3600.0
GARBAGE = "I would rather talk about the weather."


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """One request: what was asked, what was done about it, and whether it was answered well."""

    path: str
    body: Body
    headers: Mapping[str, str]
    outcome: str

    @property
    def is_answered(self) -> bool:
        return self.outcome == "answered"

    @property
    def text(self) -> str:
        """What makes two requests the same."""
        return json.dumps(self.body, sort_keys=True)


@dataclass
class OpenAIServer:
    """What the server does, open to change at any time, and what it saw.

    `judge` turns a request's body into a reply (or one for each of n). `fault` names a status,
    "drop", "hang", "malformed" or one of WITHHELD, or None, for the number of a request and its
    body. `key`, if set, is the only one accepted; a refusal repeats the key it was shown, as
    careless servers do. A share `cached` of every prompt comes from the provider's cache, and every
    reply takes `thoughts` beside its words. `tokens_in` and `tokens_out` are what was served, and
    would be billed; `tokens_cached` of those in are cheaper.
    """

    judge: Callable[[Body], str | Sequence[str]] = follow
    fault: Callable[[int, Body], str | None] = lambda number, body: None
    # What a provider answers in its own way: an answer in place of the judge's, or None.
    habit: Callable[[int, Body], web.Response | None] = lambda number, body: None
    latency: float = 0.0
    retry_after: str | None = None
    key: str | None = None
    cached: float = 0.0
    thoughts: int = 0
    models: tuple[str, ...] = ("judge-1",)
    log: list[JudgeEntry] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)
    batches: dict[str, Body] = field(default_factory=dict)
    batch_delay: int = 0
    pages: int = 0
    url: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0

    @property
    def n_answered(self) -> Counter[str]:
        """How often each distinct request was answered well."""
        return Counter(entry.text for entry in self.log if entry.is_answered)

    def app(self) -> web.Application:
        official_params()  # slow the first time
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._download)
        app.router.add_post("/v1/batches", self._submit)
        app.router.add_get("/v1/batches", self._batches)
        app.router.add_get("/v1/batches/{id}", self._batch)
        app.router.add_post("/openai/v1/chat/completions", self._chat)
        return app

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        outcome, response = await self._answer(request, body)
        self._note(request, body, outcome)
        return response

    async def _answer(self, request: web.Request, body: Body) -> tuple[str, web.StreamResponse]:
        refusal = self._refusal(request, body)
        if refusal is not None:
            return str(refusal.status), refusal
        special = self.habit(len(self.log), body)
        if special is not None:
            return str(special.status), special
        fault = self.fault(len(self.log), body)
        if self.latency:
            await asyncio.sleep(self.latency)
        if fault is not None:
            if fault == "hang":
                self._note(request, body, fault)
                await asyncio.sleep(HANG)
            return fault, self._faulty(fault, request, body)
        return "answered", web.json_response(self._completion(body, self._texts(body)))

    def _completion(self, body: Body, texts: Sequence[str]) -> Body:
        """An answer whose tokens are served, and billed."""
        answer = completion(body, texts)
        counts, thoughts = answer["usage"], self.thoughts * len(texts)
        cached = int(self.cached * counts["prompt_tokens"])
        counts["completion_tokens"] += thoughts
        counts["total_tokens"] += thoughts
        counts["prompt_tokens_details"] = {"cached_tokens": cached}
        counts["completion_tokens_details"] = {"reasoning_tokens": thoughts}
        self.tokens_in += counts["prompt_tokens"]
        self.tokens_out += counts["completion_tokens"]
        self.tokens_cached += cached
        return answer

    def dollars(self, price: Price) -> float:
        """What all that was served costs, each kind of token at its price."""
        return price.cost_of(Usage(self.tokens_in, self.tokens_out, self.tokens_cached))

    def _texts(self, body: Body) -> Sequence[str]:
        reply = self.judge(body)
        n = body.get("n") or 1
        return [reply] * n if isinstance(reply, str) else list(reply)[:n]

    def _refusal(self, request: web.Request, body: Body) -> web.Response | None:
        key = request.headers.get("Authorization", "").removeprefix("Bearer ")
        key = key or request.headers.get("api-key", "")  # Azure's way
        if self.key is not None and key != self.key:
            return error(401, f"Incorrect API key provided: {key}.", "invalid_api_key")
        wrong = complaints(body)
        if wrong:
            self.invalid.extend(wrong)
            return error(400, "; ".join(wrong), "invalid_request")
        if body["model"] not in self.models:
            return error(404, f"The model `{body['model']}` does not exist", "model_not_found")
        return None

    def _faulty(self, fault: str, request: web.Request, body: Body) -> web.StreamResponse:
        if fault == "drop":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if fault == "malformed":
            whole = json.dumps(self._completion(body, self._texts(body)))
            return web.Response(text=whole[: len(whole) // 2], content_type="application/json")
        if fault in WITHHELD:
            return web.json_response(self._withheld(fault, body))
        return error(int(fault), "Try again later.", "faulty", self.retry_after)

    def _withheld(self, fault: str, body: Body) -> Body:
        """An answer without a judgement; what it took to think is in its usage."""
        text = GARBAGE if fault in ("garbage", "cut") else ""
        answer, n_thoughts = self._completion(body, [text]), 40
        for name in ("completion_tokens", "total_tokens"):
            answer["usage"][name] += n_thoughts
        self.tokens_out += n_thoughts
        for choice in answer["choices"]:
            if fault in ("null", "refusal"):
                choice["message"]["content"] = None
            if fault == "refusal":
                choice["message"]["refusal"] = "I cannot help with that."
            if fault in ("truncated", "cut", "filtered"):
                choice["finish_reason"] = "content_filter" if fault == "filtered" else "length"
        return answer

    def _note(self, request: web.Request, body: Body, outcome: str) -> None:
        self.log.append(JudgeEntry(request.path, body, dict(request.headers), outcome))

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        part = form["file"]
        assert isinstance(part, web.FileField)
        with part.file as content:
            return web.json_response(self._keep(content.read(), str(form["purpose"])))

    def _keep(self, content: bytes, purpose: str) -> Body:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        about = {"object": "file", "created_at": 0, "status": "processed", "purpose": purpose}
        return {**about, "id": name, "bytes": len(content), "filename": f"{name}.jsonl"}

    async def _download(self, request: web.Request) -> web.Response:
        content = self.files.get(request.match_info["id"])
        if content is None:
            return error(404, "No such file", "not_found")
        return web.Response(body=content)

    async def _submit(self, request: web.Request) -> web.Response:
        request_body = json.loads(await request.read())
        name = f"batch_{len(self.batches)}"
        state = {"id": name, "object": "batch", "created_at": int(time.time()), "looked": 0}
        self.batches[name] = {"metadata": None, **request_body, **state, "status": "validating"}
        return web.json_response(self.batches[name])

    async def _batches(self, request: web.Request) -> web.Response:
        """A page of the batches, the newest first."""
        self.pages += 1
        names, after = list(self.batches)[::-1], request.query.get("after")
        first = names.index(after) + 1 if after else 0
        data = [self.batches[name] for name in names[first : first + 100]]
        more = len(names) > first + 100
        return web.json_response({"object": "list", "data": data, "has_more": more})

    async def _batch(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            return error(404, "No such batch", "not_found")
        batch["looked"] += 1
        if batch["looked"] > self.batch_delay and batch["status"] != "completed":
            self._complete(batch)
        elif batch["status"] == "validating":
            batch["status"] = "in_progress"
        return web.json_response(batch)

    def _complete(self, batch: Body) -> None:
        """Answer a batch's lines in the reverse order; those with a fault go to the error file."""
        good, bad = [], []
        lines = self.files[batch["input_file_id"]].decode().splitlines()
        for number, line in enumerate(reversed(lines)):
            request = json.loads(line)
            body = request["body"]
            self.invalid.extend(complaints(body))
            fault = self.fault(number, body)
            if fault == "drop":
                continue
            answer = completion(body, self._texts(body))
            answer = {"error": {"message": "faulty"}} if fault else answer
            response = {"status_code": 500 if fault else 200, "request_id": "r", "body": answer}
            line = {"id": f"line-{number}", "custom_id": request["custom_id"], "error": None}
            (bad if fault else good).append({**line, "response": response})
        batch["status"] = "completed"
        counts = {"total": len(lines), "completed": len(good)}
        batch["request_counts"] = {**counts, "failed": len(lines) - len(good)}
        for name, rows in (("output_file_id", good), ("error_file_id", bad)):
            if rows:
                content = "\n".join(map(json.dumps, rows)).encode()
                batch[name] = self._keep(content, "batch_output")["id"]


def hang_from(first: int) -> Callable[[int, Body], str | None]:
    """Answer no request from this one on: whoever asks cannot end before it is interrupted."""
    return lambda number, body: "hang" if number >= first else None


def some_faults(
    share: float, kinds: Sequence[str], *, once: bool = True
) -> Callable[[int, Body], str | None]:
    """Spoil a share of the requests, chosen by their text and seed; if `once`, the first time."""
    texts: set[str] = set()

    def fault(number: int, body: Body) -> str | None:
        content = json.dumps(body, sort_keys=True)
        chance = zlib.crc32(b"fault" + content.encode()) / 2**32
        if chance >= share or (once and content in texts):
            return None
        texts.add(content)
        return kinds[int(chance / share * len(kinds))]

    return fault


@pytest.fixture
def openai_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A server of the model `judge-1`; OPENAI_BASE_URL and OPENAI_API_KEY point to it.

    The test fails if any request did not conform to the official types.
    """
    with serving(OpenAIServer()) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-local-test-key-0123456789")
        yield server
    assert not server.invalid, server.invalid
