"""Many asks to one model: in order, streaming, within limits, and resumable.

with Runner(model, journal=Journal("replies.jsonl"), ledger=Ledger(max_calls=1000)) as runner:
    for answer in runner.run(asks): ...
"""

import asyncio
import os
import random
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from types import TracebackType
from typing import Any, TypeVar

from judges.engine.asker import Asker
from judges.engine.asks import Answer, Ask
from judges.engine.flow import Background, Flow
from judges.engine.journal import Journal
from judges.engine.ledger import BudgetSpentError, Ledger
from judges.engine.limiter import Limiter
from judges.models.protocol import LastingError, Model
from judges.parsing.text import shortened

__all__ = ["Answer", "Ask", "FailingRunError", "FailureMonitor", "Runner"]

Value = TypeVar("Value")
ENOUGH_TO_TELL, ALMOST_ALL = 48, 0.9
QUOTED = re.compile(r"(?:,? in|:)? ['\"].*", re.DOTALL)
AHEAD = 3  # asks under way for each request in flight: some of them wait to be asked again


class FailingRunError(LastingError):
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

    def add(self, answer: Answer) -> None:
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
            raise FailingRunError(self._told())

    def _told(self) -> str:
        reason, count = self._reasons.most_common(1)[0]
        reply = self._replies.get(reason)
        quoted = f"; one reply: {shortened(reply)}" if reply else ""
        return (
            f"{self.failed} of the first {self.answered} judgements failed, {count} of them: "
            f"{reason}{quoted}; mend the model or the judge, or go on with --keep-going"
        )


class Runner:
    """Asks one model, with retries, a journal and a budget; use it from any thread.

    An ask that cannot be answered is an Answer with `error`. LastingError (wrong key, no such
    model) and BudgetSpentError end a run: what was answered before is in the journal. So does
    Ctrl-C. `rng` draws the jitter of waits between attempts. `monitor` ends a run that fails.
    """

    def __init__(
        self,
        model: Model,
        *,
        journal: Journal | None = None,
        ledger: Ledger | None = None,
        concurrency: int = 64,
        timeout: float = 120.0,
        attempts: int = 6,
        fresh_asks: int = 2,
        rng: random.Random | None = None,
        monitor: FailureMonitor | None = None,
    ) -> None:
        self.model = model
        self._monitor = monitor
        self.journal = journal
        self.ledger = ledger or Ledger()
        self.concurrency = concurrency
        self._timeout = timeout
        here = getattr(model, "in_process", model.endpoint == "embedded")
        self._limiter = None if here else Limiter(concurrency)
        self._asker = Asker(
            model,
            journal=journal,
            ledger=self.ledger,
            limiter=self._limiter,
            timeout=timeout,
            attempts=attempts,
            fresh_asks=fresh_asks,
            rng=rng or random.Random(0),
        )
        self._background: Background | None = None
        self._starting = threading.Lock()

    def ask(self, ask: Ask) -> Answer:
        """Answer a single ask, from any thread."""
        if self._limiter is None:
            return _at_once(self._asker.answer(ask))
        answer = self._loop().call(self._asker.answer(ask))
        try:
            return answer.result()
        except BaseException:
            answer.cancel()
            raise

    async def ask_async(self, ask: Ask) -> Answer:
        """Answer a single ask, from any event loop."""
        if self._limiter is None:
            return await self._asker.answer(ask)
        return await asyncio.wrap_future(self._loop().call(self._asker.answer(ask)))

    def run(self, asks: Iterable[Ask]) -> Iterator[Answer]:
        """Yield an answer for each ask, in order; at most a window of asks is read ahead.

        Works where an event loop is already running, and stops cleanly on Ctrl-C.
        """
        if self._limiter is None:
            for ask in asks:
                yield self._seen(_at_once(self._asker.answer(ask)))
            return
        flow, patience = self._flow(), 0.0
        awake = threading.Event()
        coming = iter(asks)
        try:
            while (more := self._fill(flow, coming)) or flow:
                if flow.ready():
                    yield self._seen(flow.take())
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

    async def stream(self, asks: Iterable[Ask]) -> AsyncIterator[Answer]:
        """Do the same within an event loop, without blocking it."""
        if self._limiter is None:
            for ask in asks:
                yield self._seen(await self._asker.answer(ask))
                await asyncio.sleep(0)
            return
        flow, patience = self._flow(), 0.0
        loop, awake = asyncio.get_running_loop(), asyncio.Event()
        coming = iter(asks)
        try:
            while (more := self._fill(flow, coming)) or flow:
                if flow.ready():
                    yield self._seen(flow.take())
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _fill(self, flow: Flow, coming: Iterator[Ask]) -> bool:
        """Read ahead until the window is full or an answer is ready; False when none is left."""
        while flow.room():
            if self._monitor is not None and not self._monitor.room(len(flow)):
                break
            ask = next(coming, None)
            if ask is None:
                return False
            flow.offer(ask)
            if flow.ready():
                break
        return True

    def _seen(self, answer: Answer) -> Answer:
        if self._monitor is not None:
            self._monitor.add(answer)
        return answer

    def _flow(self) -> Flow:
        return Flow(self._loop(), self._asker.answer, AHEAD * self.concurrency)

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


def _at_once(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        answer: Value = done.value
        return answer
    coroutine.close()
    raise RuntimeError("a model that answers in this process must not wait for anything")
