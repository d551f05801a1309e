"""Asks in, answers out in the same order, over an event loop in a thread of its own.

The caller's thread may have a running event loop (a notebook has), and may stop for minutes between
two answers: neither disturbs requests in flight.
"""

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from judges.engine.asks import Answer, Ask
from judges.engine.ledger import BudgetSpentError

T = TypeVar("T")
STOPPING = 5.0
# Seconds to let more answers come before the other thread is woken: threads that take turns for
# every single answer cost more than the answers.
TOGETHER = 0.002
WINDOW = 4096


class Background:
    """An event loop in a daemon thread, closed with its owner or with the interpreter."""

    def __init__(self, owner: object, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self._thread = threading.Thread(target=self.loop.run_forever, name="judges", daemon=True)
        self._thread.start()
        self.close = weakref.finalize(owner, _shut, self.loop, self._thread, close)

    def here(self) -> bool:
        """Whether this is the loop's own thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def call(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


def _shut(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    close: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def stop() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await close()
        loop.stop()

    if not thread.is_alive():
        return  # a forked child has no such thread
    asyncio.run_coroutine_threadsafe(stop(), loop)
    if thread is not threading.current_thread():
        thread.join(STOPPING)
        if not thread.is_alive():
            loop.close()


class Slot:
    """An ask's place in the order, and what became of it."""

    __slots__ = ("ask", "outcome")

    def __init__(self, ask: Ask) -> None:
        self.ask: Ask | None = ask  # None once answered: answers may wait long, and asks are large
        self.outcome: Answer | BaseException | None = None


class Flow:
    """A window of asks under way; slots complete in any order and leave in the order they came.

    One thread offers, waits and takes; the loop's thread answers. At most `ahead` asks are under
    way, and at most WINDOW slots wait for the first, which may hang.
    """

    def __init__(
        self,
        background: Background,
        answer: Callable[[Ask], Coroutine[Any, Any, Answer]],
        ahead: int,
    ) -> None:
        self._background = background
        self._loop = background.loop
        self._ahead = ahead
        self._offers = 0
        self._outcomes = 0
        self._wake_at = 0
        self._answer = answer
        self._window: deque[Slot] = deque()
        self._offered: deque[Slot] = deque()
        self._called = False
        self._awaited: Slot | None = None
        self._wake: Callable[[], object] = lambda: None
        self._tasks: set[asyncio.Task[None]] = set()
        self._fatal: BaseException | None = None

    def __len__(self) -> int:
        return len(self._window)

    def room(self) -> bool:
        return self._offers - self._outcomes < self._ahead and len(self._window) < WINDOW

    def offer(self, ask: Ask) -> None:
        self._offers += 1
        slot = Slot(ask)
        self._window.append(slot)
        self._offered.append(slot)
        if not self._called:
            self._called = True
            self._loop.call_soon_threadsafe(self._start)

    def ready(self) -> bool:
        return self._fatal is not None or (
            bool(self._window) and self._window[0].outcome is not None
        )

    def take(self) -> Answer:
        """Remove the first answer, which is ready; raises what its ask raised.

        What ends a run is raised at once, save an empty budget, which waits for its turn.
        """
        if self._fatal is not None:
            raise self._fatal
        outcome = self._window.popleft().outcome
        if isinstance(outcome, Answer):
            return outcome
        assert outcome is not None
        raise outcome

    def when_ready(self, wake: Callable[[], object], *, refill: bool) -> None:
        """Call `wake`, from either thread, as soon as the first slot is ready.

        If `refill`, also when half of the asks under way are done and there is room for more.
        """
        self._wake = wake
        self._awaited = self._window[0]
        refill = refill and len(self._window) < WINDOW
        self._wake_at = self._offers - self._ahead // 2 if refill else -1
        if self.ready() or 0 <= self._wake_at <= self._outcomes:
            wake()

    def _start(self) -> None:
        self._called = False
        while self._offered:
            task = self._loop.create_task(self._run(self._offered.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, slot: Slot) -> None:
        assert slot.ask is not None
        try:
            slot.outcome = await self._answer(slot.ask)
        except BaseException as error:  # noqa: BLE001 - raised again by `take`
            slot.outcome = error
            if not isinstance(error, BudgetSpentError | asyncio.CancelledError):
                self._fatal = error
        slot.ask = None
        self._outcomes += 1
        if slot is self._awaited or self._fatal is not None or self._outcomes == self._wake_at:
            self._loop.call_later(TOGETHER, lambda: self._wake())

    def stop(self, idle: Callable[[], bool], patience: float) -> Future[None]:
        """Wait up to `patience` seconds until `idle`, then cancel whatever is left."""
        self._wake = lambda: None
        if self._loop.is_running():
            stopped = self._background.call(self._stop(idle, patience))
            # The garbage collector may close a forgotten generator in any thread.
            if not self._background.here():
                return stopped
        nothing: Future[None] = Future()  # the loop's own end cancelled all
        nothing.set_result(None)
        return nothing

    async def _stop(self, idle: Callable[[], bool], patience: float) -> None:
        until = self._loop.time() + patience
        while not idle() and self._loop.time() < until:
            await asyncio.sleep(0.01)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
