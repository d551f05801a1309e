"""The OpenAI-compatible endpoint over HTTP: who may ask, what is answered, errors in its form."""

import asyncio
import hmac
import json
import logging
import socket
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

from aiohttp import web

from judges.errors import JudgesError
from judges.inference.budget import BudgetSpentError
from judges.models.redaction import Redactor
from judges.protocol import FatalModelError
from judges.serving.answers import (
    Answer,
    ChatRequest,
    RequestError,
    ServedModel,
    completion_body,
    read_request,
)

MAX_BODY_BYTES = 8 * 2**20
# Seconds that requests under way get once the server ends.
GRACE = 3.0
LONGEST_REASON = 300
T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = logging.getLogger(__name__)
# What each status is called in OpenAI's errors.
ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    429: "insufficient_quota",
    500: "server_error",
    502: "upstream_error",
}


class Workers:
    """Runs work that blocks, each in a thread of its own, so many at once.

    The threads are daemons: what a model never answers does not keep the process from ending.
    """

    def __init__(self, most_at_once: int) -> None:
        self._free = asyncio.Semaphore(most_at_once)

    async def run(self, work: Callable[[], T]) -> T:
        async with self._free:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[T] = loop.create_future()

            def settle(error: BaseException | None, value: T | None) -> None:
                if future.done():
                    return
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(value)  # type: ignore[arg-type]

            def target() -> None:
                error, value = None, None
                try:
                    value = work()
                except BaseException as raised:  # noqa: BLE001 - raised again where it is awaited
                    error = raised
                with suppress(RuntimeError):  # the loop has been closed
                    loop.call_soon_threadsafe(settle, error, value)

            threading.Thread(target=target, name="serving", daemon=True).start()
            return await future


class Endpoint:
    """The routes of one served model.

    `key`, if any, is what every request but /health has to carry. Only hosts that no name on the
    internet can point to are answered (see `is_own_host`), and only JSON, which no page of another
    site can send without asking first.
    """

    def __init__(
        self, model: ServedModel, *, host: str, concurrency: int = 64, key: str | None = None
    ) -> None:
        self._model = model
        self._host = host
        self._key = key
        self._workers = Workers(concurrency)
        self._started = int(time.time())
        self.n_answered = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._guarded])
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/models/{name:.+}", self._one_model)
        app.router.add_get("/health", self._health)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let in who may ask, and put every error into OpenAI's form."""
        try:
            self._check(request)
            return await handler(request)
        except RequestError as error:
            return _error(error.status, str(error), error.code, error.param)
        except BudgetSpentError as error:
            return _error(429, str(error), "insufficient_quota")
        except FatalModelError as error:
            return _error(502, str(error), "upstream_error")
        except JudgesError as error:
            return _error(422, str(error), "judgement_failed")
        except web.HTTPRequestEntityTooLarge:
            return _error(413, f"a body of more than {MAX_BODY_BYTES:,} bytes", "too_large")
        except web.HTTPException as error:
            return _error(error.status, f"{request.method} {request.path}: {error.reason}", "http")
        except Exception as error:  # noqa: BLE001 - one request's fault ends no server
            reason = Redactor().redact(" ".join(f"{type(error).__name__}: {error}".split()))
            _log.error("a request could not be answered (%s)", reason[:LONGEST_REASON])
            return _error(500, f"a fault of the server ({type(error).__name__})", "server_error")

    def _check(self, request: web.Request) -> None:
        host = request.headers.get("Host", "")
        if not is_own_host(host, self._host):
            raise RequestError(
                f"Host {host[:100]!r} is not this server; use its address, as in 127.0.0.1",
                status=403,
                code="wrong_host",
            )
        origin = request.headers.get("Origin")
        if origin is not None and not is_own_host(_authority(origin), self._host):
            raise RequestError("pages of other sites are not answered", status=403, code="origin")
        if self._key is not None and request.path != "/health":
            sent = request.headers.get("Authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(sent.encode("utf-8", "replace"), self._key.encode()):
                raise RequestError(
                    "no valid key in the Authorization header", status=401, code="invalid_api_key"
                )

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if request.content_type != "application/json":
            raise RequestError(
                "send Content-Type: application/json", status=415, code="unsupported_media_type"
            )
        chat = read_request(await _body(request))
        self._check_name(chat.model)
        answer = await self._workers.run(lambda: self._model.answer(chat))
        self.n_answered += 1
        return await self._respond(request, chat, answer)

    async def _respond(
        self, request: web.Request, chat: ChatRequest, answer: Answer
    ) -> web.StreamResponse:
        head = {"id": f"chatcmpl-{uuid4().hex}", "created": int(time.time())}
        body = completion_body(answer, chat)
        if not chat.stream:
            return _json({**head, "object": "chat.completion", **body})
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
        )
        head |= {"object": "chat.completion.chunk", "model": chat.model}
        with_usage = bool(chat.stream_options and chat.stream_options.include_usage)
        with suppress(ConnectionError):  # the client has gone
            await response.prepare(request)
            for choice in body["choices"]:
                message = choice["message"]
                delta = {name: message[name] for name in message if name != "refusal"}
                for part, reason in ((delta, None), ({}, choice["finish_reason"])):
                    chunk = {"index": choice["index"], "delta": part, "finish_reason": reason}
                    if part:
                        chunk["logprobs"] = choice["logprobs"]
                    await _send(response, {**head, "choices": [chunk]})
            if with_usage:
                await _send(response, {**head, "choices": [], "usage": body["usage"]})
            await response.write(b"data: [DONE]\n\n")
            await response.write_eof()
        return response

    async def _models(self, request: web.Request) -> web.Response:
        return _json({"object": "list", "data": [self._entry(name) for name in self._model.names]})

    async def _one_model(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._check_name(name)
        return _json(self._entry(name))

    async def _health(self, request: web.Request) -> web.Response:
        return _json({"status": "ok"})

    def _entry(self, name: str) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._started,
            "owned_by": "dspy-judges",
            "meta": self._model.about,
        }

    def _check_name(self, name: str) -> None:
        if name not in self._model.names:
            raise RequestError(
                f"no model {name[:100]!r} here; there is {', '.join(self._model.names)}",
                status=404,
                code="model_not_found",
                param="model",
            )


@asynccontextmanager
async def listening(app: web.Application, host: str, port: int) -> AsyncIterator[str]:
    """Listen on a host and a port (0: any that is free); yields the address with /v1."""
    # Its own logger writes tracebacks that quote what a client has sent, keys among it.
    silent = logging.Logger("silent", logging.CRITICAL + 1)
    runner = web.AppRunner(app, access_log=None, logger=silent, shutdown_timeout=GRACE)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        host_text = f"[{bound[0]}]" if ":" in str(bound[0]) else bound[0]
        yield f"http://{host_text}:{bound[1]}/v1"
    finally:
        await runner.cleanup()


def is_loopback(host: str) -> bool:
    """Whether a host's name or address is this machine's alone."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_own_host(authority: str, bound: str) -> bool:
    """Whether a request names this server as a browser under a foreign name could not (rebinding).

    Addresses cannot be rebound, names can: besides localhost only the name that the server was
    bound to, or the machine's own where others may ask.
    """
    try:
        host = urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return False
    if is_loopback(host):
        return True
    if is_loopback(bound):
        return False
    try:
        return bool(ip_address(host))
    except ValueError:
        return host in {bound.lower(), socket.gethostname().lower()}


def _authority(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


async def _body(request: web.Request) -> bytes:
    try:
        return await request.read()
    except (ValueError, web.RequestPayloadError, asyncio.IncompleteReadError) as error:
        # What calls itself packed and is not.
        raise RequestError(f"the body cannot be read ({type(error).__name__})") from None


async def _send(response: web.StreamResponse, chunk: object) -> None:
    await response.write(f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode())


def _json(body: object, status: int = 200) -> web.Response:
    return web.Response(
        body=json.dumps(body, ensure_ascii=False).encode("utf-8", "replace"),
        status=status,
        content_type="application/json",
    )


def _error(status: int, message: str, code: str, param: str = "") -> web.Response:
    """An error as OpenAI writes one, on one line and without keys."""
    text = Redactor().redact(" ".join(message.split()))
    kind = ERROR_TYPES.get(status, "invalid_request_error")
    response = _json(
        {"error": {"message": text, "type": kind, "param": param or None, "code": code}}, status
    )
    if status == 429:
        response.headers["x-should-retry"] = "false"  # a budget does not come back by waiting
    return response
