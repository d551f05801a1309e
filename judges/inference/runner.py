"""Many asks to one model: in order, streaming, within limits, and resumable.

account = Budget(max_calls=1000).account()
with Runner(model, journal=Journal("replies.jsonl"), account=account) as runner:
    for response in runner.run(requests): ...
"""

import asyncio
import os
import random
import re
import threading
import weakref
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from judges.inference.budget import Account, Budget, BudgetSpentError
from judges.inference.client import ModelRequest, ModelResponse, RetryingClient
from judges.inference.limits import Limiter
from judges.models.journal import Journal
from judges.parsing.text import shortened
from judges.protocol import FatalModelError, Model, is_embedded

T = TypeVar("T")
STOP_TIMEOUT = 5.0
# Seconds to let more answers come before the other thread is woken: threads that take turns for
# every single answer cost more than the answers.
WAKE_DELAY = 0.002
WINDOW = 4096


__all__ = ["FailingRunError", "FailureMonitor", "ModelRequest", "ModelResponse", "Runner"]

Value = TypeVar("Value")
ENOUGH_TO_TELL, ALMOST_ALL = 48, 0.9
QUOTED = re.compile(r"(?:,? in|:)? ['\"].*", re.DOTALL)
AHEAD = 3  # asks under way for each request in flight: some of them wait to be asked again


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
        thread.join(STOP_TIMEOUT)
        if not thread.is_alive():
            loop.close()


class Slot:
    """An ask's place in the order, and what became of it."""

    __slots__ = ("ask", "outcome")

    def __init__(self, ask: ModelRequest) -> None:
        self.ask: ModelRequest | None = (
            ask  # None once answered: answers may wait long, and asks are large
        )
        self.outcome: ModelResponse | BaseException | None = None


class Flow:
    """A window of asks under way; slots complete in any order and leave in the order they came.

    One thread offers, waits and takes; the loop's thread answers. At most `ahead` asks are under
    way, and at most WINDOW slots wait for the first, which may hang.
    """

    def __init__(
        self,
        background: Background,
        answer: Callable[[ModelRequest], Coroutine[Any, Any, ModelResponse]],
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

    def offer(self, ask: ModelRequest) -> None:
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

    def take(self) -> ModelResponse:
        """Remove the first answer, which is ready; raises what its ask raised.

        What ends a run is raised at once, save an empty budget, which waits for its turn.
        """
        if self._fatal is not None:
            raise self._fatal
        outcome = self._window.popleft().outcome
        if isinstance(outcome, ModelResponse):
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
            self._loop.call_later(WAKE_DELAY, lambda: self._wake())

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


class FailingRunError(FatalModelError):
    """Almost nothing that came could be used; the run ends before it has cost much."""


class FailureMonitor:
    """Ends a run whose asks fail, almost all of them, from its beginning on.

    `add` raises FailingRunError once 48 asks have been answered and 90 % of all so far have failed.
    """

    def __init__(self) -> None:
        self.answered = self.failed = 0
        self._reasons: Counter[str] = Counter()
        self._replies: dict[str, str] = {}

    def room(self, under_way: int) -> bool:
        """Whether another ask may be sent; until one succeeds, as many as it takes to tell."""
        return self.failed < self.answered or self.answered + under_way < ENOUGH_TO_TELL

    def add(self, answer: ModelResponse) -> None:
        self.answered += 1
        if answer.error is None:
            return
        self.failed += 1
        # What a message quotes of a reply differs from one to the next.
        reason = QUOTED.sub("", answer.error)
        self._reasons[reason] += 1
        if answer.replies and answer.replies[-1].text.strip():
            self._replies.setdefault(reason, answer.replies[-1].text)
        if self.answered >= ENOUGH_TO_TELL and self.failed >= ALMOST_ALL * self.answered:
            raise FailingRunError(self._message())

    def _message(self) -> str:
        reason, count = self._reasons.most_common(1)[0]
        reply = self._replies.get(reason)
        quoted = f"; one reply: {shortened(reply)}" if reply else ""
        return (
            f"{self.failed} of the first {self.answered} judgements failed, {count} of them: "
            f"{reason}{quoted}; mend the model or the judge, or go on with --keep-going"
        )


class Runner:
    """Asks one model, with retries, a journal and a budget; use it from any thread.

    An ask that cannot be answered is an Answer with `error`. FatalModelError (wrong key, no such
    model) and BudgetSpentError end a run: what was answered before is in the journal. So does
    Ctrl-C. `rng` draws the jitter of waits between attempts. `monitor` ends a run that fails.
    """

    def __init__(
        self,
        model: Model,
        *,
        journal: Journal | None = None,
        account: Account | None = None,
        concurrency: int = 64,
        timeout: float = 120.0,
        attempts: int = 6,
        fresh_samples: int = 2,
        rng: random.Random | None = None,
        monitor: FailureMonitor | None = None,
    ) -> None:
        self.model = model
        self._monitor = monitor
        self.journal = journal
        self.account = account or Budget().account()
        self.concurrency = concurrency
        self._timeout = timeout
        here = getattr(model, "in_process", is_embedded(model.endpoint))
        self._limiter = None if here else Limiter(concurrency)
        self._client = RetryingClient(
            model,
            journal=journal,
            account=self.account,
            limiter=self._limiter,
            timeout=timeout,
            attempts=attempts,
            fresh_samples=fresh_samples,
            rng=rng or random.Random(0),
        )
        self._background: Background | None = None
        self._starting = threading.Lock()

    def ask(self, ask: ModelRequest) -> ModelResponse:
        """Answer a single ask, from any thread."""
        if self._limiter is None:
            return _run_now(self._client.answer(ask))
        answer = self._loop().call(self._client.answer(ask))
        try:
            return answer.result()
        except BaseException:
            answer.cancel()
            raise

    async def ask_async(self, ask: ModelRequest) -> ModelResponse:
        """Answer a single ask, from any event loop."""
        if self._limiter is None:
            return await self._client.answer(ask)
        return await asyncio.wrap_future(self._loop().call(self._client.answer(ask)))

    def run(self, asks: Iterable[ModelRequest]) -> Iterator[ModelResponse]:
        """Yield an answer for each ask, in order; at most a window of asks is read ahead.

        Works where an event loop is already running, and stops cleanly on Ctrl-C.
        """
        if self._limiter is None:
            for ask in asks:
                yield self._monitored(_run_now(self._client.answer(ask)))
            return
        flow, patience = self._flow(), 0.0
        awake = threading.Event()
        remaining = iter(asks)
        try:
            while (more := self._fill(flow, remaining)) or flow:
                if flow.ready():
                    yield self._monitored(flow.take())
                    continue
                awake.clear()
                flow.when_ready(awake.set, refill=more)
                awake.wait()
        except (BudgetSpentError, FailingRunError):
            patience = self._timeout  # what is in flight is paid for: let it arrive
            raise
        finally:
            flow.stop(self._idle, patience).result()
            self._flush()

    async def stream(self, asks: Iterable[ModelRequest]) -> AsyncIterator[ModelResponse]:
        """Do the same within an event loop, without blocking it."""
        if self._limiter is None:
            for ask in asks:
                yield self._monitored(await self._client.answer(ask))
                await asyncio.sleep(0)
            return
        flow, patience = self._flow(), 0.0
        loop, awake = asyncio.get_running_loop(), asyncio.Event()
        remaining = iter(asks)
        try:
            while (more := self._fill(flow, remaining)) or flow:
                if flow.ready():
                    yield self._monitored(flow.take())
                    continue
                awake.clear()
                flow.when_ready(lambda: loop.call_soon_threadsafe(awake.set), refill=more)
                await awake.wait()
        except (BudgetSpentError, FailingRunError):
            patience = self._timeout
            raise
        finally:
            await asyncio.wrap_future(flow.stop(self._idle, patience))
            self._flush()

    def close(self) -> None:
        """End the thread and its connections; the runner may be used again all the same."""
        background, self._background = self._background, None
        if background is not None:
            background.close()
        self._flush()

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, flow: Flow, remaining: Iterator[ModelRequest]) -> bool:
        """Read ahead until the window is full or an answer is ready; False when none is left."""
        while flow.room():
            if self._monitor is not None and not self._monitor.room(len(flow)):
                break
            ask = next(remaining, None)
            if ask is None:
                return False
            flow.offer(ask)
            if flow.ready():
                break
        return True

    def _monitored(self, answer: ModelResponse) -> ModelResponse:
        if self._monitor is not None:
            self._monitor.add(answer)
        return answer

    def _flow(self) -> Flow:
        return Flow(self._loop(), self._client.answer, AHEAD * self.concurrency)

    def _loop(self) -> Background:
        with self._starting:
            if self._background is None or self._background.process != os.getpid():
                self._background = Background(self, self.model.close)
            return self._background

    def _idle(self) -> bool:
        return self._limiter is None or self._limiter.busy == 0

    def _flush(self) -> None:
        if self.journal is not None:
            self.journal.flush()


def _run_now(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        answer: Value = done.value
        return answer
    coroutine.close()
    raise RuntimeError("a model that answers in this process must not wait for anything")
