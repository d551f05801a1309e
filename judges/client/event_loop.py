"""The one event loop of the process, in a daemon thread, on which all clients send requests."""

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")
# Seconds from a response until it is committed and the thread that waits for it is woken. Responses
# that arrive in this time are handled together, which is faster than one by one.
WAKE_DELAY_SECONDS = 0.002
_loop_lock = threading.Lock()
# Functions that are called on the event loop when the interpreter exits.
exit_functions: set[Callable[[], Awaitable[None]]] = set()


def event_loop() -> asyncio.AbstractEventLoop:
    """Return the process's event loop; the first call starts it in a daemon thread."""
    with _loop_lock:
        return _loop_and_thread()[0]


def is_loop_thread() -> bool:
    return threading.current_thread() is _loop_and_thread()[1]


@lru_cache(maxsize=1)
def _loop_and_thread() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="judges", daemon=True)
    thread.start()
    atexit.register(_end_loop, loop, os.getpid())
    return loop, thread


def _end_loop(loop: asyncio.AbstractEventLoop, process_id: int) -> None:
    async def close_all() -> None:
        # Libraries that the clients use may have left unfinished tasks on the loop.
        for task in (tasks := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*tasks, *(close() for close in exit_functions), return_exceptions=True)
        loop.stop()

    if os.getpid() == process_id:
        asyncio.run_coroutine_threadsafe(close_all(), loop)
        _loop_and_thread()[1].join(1.0)


if hasattr(os, "register_at_fork"):
    # A fork copies no threads, so the child process starts an event loop in a new thread.
    os.register_at_fork(after_in_child=_loop_and_thread.cache_clear)


def run_at_once(coroutine: Coroutine[object, None, T]) -> T:
    """Run a coroutine that never waits, without an event loop, and return its result."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a model that answers in this process must not wait for anything")
