"""Local servers in a thread of this process, for tests and benchmarks."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from aiohttp import web


@contextmanager
def serving(server: Any) -> Iterator[Any]:
    """Run a server on a free port of 127.0.0.1 for the time of the `with` block.

    It says by `app()` what it answers, and its `url` is set once it runs.
    """
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def run() -> None:
        loops.append(asyncio.get_running_loop())
        runner = web.AppRunner(server.app(), access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        ready.set()
        await stop.wait()
        await runner.cleanup()

    # Answers that hang are cancelled when the loop ends.
    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    ready.wait()
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join()


class AnyPath:
    """A server that answers by a request's number and its text, whatever the path, and keeps both.

    `log` has the texts.
    """

    def __init__(self, answer: Callable[[int, str], web.Response]) -> None:
        self._answer, self.url = answer, ""
        self.log: list[str] = []

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._respond)
        return app

    async def _respond(self, request: web.Request) -> web.Response:
        self.log.append(await request.text())
        return self._answer(len(self.log) - 1, self.log[-1])
