"""Many requests to one model: in order, streaming, within limits, and resumable.

account = Budget(max_calls=1000).account()
with Client(model, journal=Journal("replies.jsonl"), account=account) as runner:
    for response in runner.run(requests): ...
"""

import asyncio
import os
import random
import re
import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, TypeVar

from judges.client.budget import Account, Budget, BudgetSpentError
from judges.client.cache import ReplyCache
from judges.client.journal import Journal
from judges.client.limits import Limiter
from judges.client.protocol import FatalModelError, Model, is_embedded
from judges.client.retrying import RetryingClient
from judges.client.sampler import Request, Response, Sampler
from judges.judgement import shortened

__all__ = ["Client", "FailingRunError", "FailureMonitor", "Request", "Response"]

T = TypeVar("T")
STOP_TIMEOUT = 5.0
# Seconds to let more responses come before the other thread is woken: threads that take turns for
# every single response cost more than the responses.
WAKE_DELAY = 0.002
MOST_WAITING = 4096
ATTEMPTS = 6  # at a request, its first among them
# Requests under way for each one in flight: some of them wait to be sent again.
QUEUED_PER_SLOT = 3
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9
# Before many requests a few go alone: what an endpoint takes is learned before all are under way.
MANY_REQUESTS, PREFLIGHT, PREFLIGHT_SECONDS = 20, 3, 3.0
QUOTED = re.compile(r"(?:,? in|:)? ['\"].*", re.DOTALL)


class LoopThread:
    """An event loop in a daemon thread, closed with its owner or with the interpreter."""

    def __init__(self, owner: object, close: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self._thread = threading.Thread(target=self.loop.run_forever, name="judges", daemon=True)
        self._thread.start()
        self.close = weakref.finalize(owner, _stop_loop, self.loop, self._thread, close)

    def is_current(self) -> bool:
        """Whether this is the loop's own thread, which must not wait for itself."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


def _stop_loop(
    loop: asyncio.AbstractEventLoop,
    thread: threading.Thread,
    close: Callable[[], Coroutine[Any, Any, None]],
) -> None:
    async def stop() -> None:
        await _cancel(asyncio.all_tasks() - {asyncio.current_task()})
        await close()
        loop.stop()

    if not thread.is_alive():
        return  # a forked child has no such thread
    asyncio.run_coroutine_threadsafe(stop(), loop)
    if thread is not threading.current_thread():
        thread.join(STOP_TIMEOUT)
        if not thread.is_alive():
            loop.close()


async def _cancel(tasks: Iterable[asyncio.Task[Any] | None]) -> None:
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


class PendingRequest:
    """A request's place in the order, and what became of it."""

    __slots__ = ("outcome", "request")

    def __init__(self, request: Request) -> None:
        # None once answered: responses may wait long, and requests are large.
        self.request: Request | None = request
        self.outcome: Response | BaseException | None = None


class RequestQueue:
    """Requests under way; they are answered in any order, and leave in the order they came.

    One thread adds, waits and takes; the loop's thread answers. At most `most_under_way` are under
    way, and at most MOST_WAITING wait for the first, which may hang.
    """

    def __init__(
        self,
        thread: LoopThread,
        answer: Callable[[Request], Coroutine[Any, Any, Response]],
        most_under_way: int,
    ) -> None:
        self._thread = thread
        self._answer = answer
        self.most_under_way = most_under_way
        self._places: deque[PendingRequest] = deque()
        self._unstarted: deque[PendingRequest] = deque()
        self._start_scheduled = False
        self._n_added = 0
        self._n_answered = 0
        # What wakes the waiting thread: this place answered, so many answered, or a fatal error.
        self._awaited: PendingRequest | None = None
        self._wake_at = 0
        self._fatal: BaseException | None = None
        self._awake = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._places)

    def has_room(self) -> bool:
        under_way = self._n_added - self._n_answered
        return under_way < self.most_under_way and len(self._places) < MOST_WAITING

    def add(self, request: Request) -> None:
        self._n_added += 1
        place = PendingRequest(request)
        self._places.append(place)
        self._unstarted.append(place)
        if not self._start_scheduled:
            self._start_scheduled = True
            self._thread.loop.call_soon_threadsafe(self._start)

    def ready(self) -> bool:
        return self._fatal is not None or (
            bool(self._places) and self._places[0].outcome is not None
        )

    def take(self) -> Response:
        """Remove the first response, which is ready; raises what its request raised.

        What ends a run is raised at once, save an empty budget, which waits for its turn.
        """
        if self._fatal is not None:
            raise self._fatal
        outcome = self._places.popleft().outcome
        if isinstance(outcome, Response):
            return outcome
        assert outcome is not None
        raise outcome

    def wait(self, *, refill: bool, timeout: float | None = None) -> None:
        """Wait until the first response is ready.

        If `refill`, or until half of the requests under way are done and there is room for more;
        at most `timeout` seconds.
        """
        self._awake.clear()
        self._awaited = self._places[0]
        refill = refill and len(self._places) < MOST_WAITING
        self._wake_at = self._n_added - self.most_under_way // 2 if refill else -1
        # Looked at once more: the other thread may not have seen what is awaited now.
        if not (self.ready() or 0 <= self._wake_at <= self._n_answered):
            self._awake.wait(timeout)

    def stop(self, idle: Callable[[], bool], grace: float) -> None:
        """Wait up to `grace` seconds until `idle`, then cancel whatever is left."""
        if self._thread.loop.is_running():  # or else the loop's own end cancelled all
            stopped = self._thread.submit(self._stop(idle, grace))
            # The garbage collector may close a forgotten generator in any thread.
            if not self._thread.is_current():
                stopped.result()

    def _start(self) -> None:
        self._start_scheduled = False
        while self._unstarted:
            task = self._thread.loop.create_task(self._run(self._unstarted.popleft()))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _run(self, place: PendingRequest) -> None:
        assert place.request is not None
        try:
            place.outcome = await self._answer(place.request)
        except BaseException as error:  # noqa: BLE001 - raised again by `take`
            place.outcome = error
            if not isinstance(error, BudgetSpentError | asyncio.CancelledError):
                self._fatal = error
        place.request = None
        self._n_answered += 1
        if place is self._awaited or self._fatal is not None or self._n_answered == self._wake_at:
            self._thread.loop.call_later(WAKE_DELAY, self._awake.set)

    async def _stop(self, idle: Callable[[], bool], grace: float) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + grace
        while not idle() and loop.time() < until:
            await asyncio.sleep(0.01)
        await _cancel(self._tasks)


class FailingRunError(FatalModelError):
    """Almost nothing that came could be used; the run ends before it has cost much."""


class FailureMonitor:
    """Ends a run whose requests fail, almost all of them, from its beginning on.

    `add` raises FailingRunError once 48 have been answered and 90 % of all so far have failed.
    """

    def __init__(self) -> None:
        self.answered = self.failed = 0
        self._reasons: Counter[str] = Counter()
        self._replies: dict[str, str] = {}

    def has_room(self, under_way: int) -> bool:
        """Whether another may be sent; until one succeeds, as many as it takes to tell."""
        return self.failed < self.answered or self.answered + under_way < MIN_RESPONSES

    def add(self, response: Response) -> None:
        self.answered += 1
        if response.error is None:
            return
        self.failed += 1
        # What a message quotes of a reply differs from one to the next.
        reason = QUOTED.sub("", response.error)
        self._reasons[reason] += 1
        if response.replies and response.replies[-1].text.strip():
            self._replies.setdefault(reason, response.replies[-1].text)
        if self.answered >= MIN_RESPONSES and self.failed >= MAX_FAILURE_RATE * self.answered:
            raise FailingRunError(self._message())

    def _message(self) -> str:
        reason, count = self._reasons.most_common(1)[0]
        reply = self._replies.get(reason)
        quoted = f"; one reply: {shortened(reply)}" if reply else ""
        return (
            f"{self.failed} of the first {self.answered} judgements failed, {count} of them: "
            f"{reason}{quoted}; mend the model or the judge"
        )


@dataclass(slots=True)
class ResponseTotals:
    """What responses took; `cached` of them were not sent, and their tokens count all the same."""

    responses: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def add(self, response: Response) -> None:
        self.responses += 1
        self.cached += response.cached
        self.tokens_in += response.tokens_in
        self.tokens_out += response.tokens_out


class Client:
    """Asks one model, with retries, a journal and a budget; use it from any thread.

    A request that cannot be answered is a Response with `error`. FatalModelError (wrong key,
    no such model) and BudgetSpentError end a run: what was answered before is in the journal. So
    does Ctrl-C. `rng` draws the jitter of waits between attempts. `monitor` ends a run that fails.
    `cache` brings replies of other runs, though none for a model in this process. `max_tokens` and
    `reasoning_effort` stand in the place of what requests say. `totals` are of the responses that
    `run` has yielded.
    """

    def __init__(
        self,
        model: Model,
        *,
        journal: Journal | None = None,
        cache: ReplyCache | None = None,
        account: Account | None = None,
        concurrency: int = 64,
        timeout: float = 120.0,
        attempts: int = ATTEMPTS,
        fresh_samples: int = 2,
        rng: random.Random | None = None,
        monitor: FailureMonitor | None = None,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
    ) -> None:
        self.model = model
        self.journal = journal
        served: str | None = ""
        if cache is not None and hasattr(model, "served"):
            served = model.served()
        self.cache = cache if is_cacheable(model) and served is not None else None
        self.account = account or Budget().account()
        self.concurrency = concurrency
        self._timeout = timeout
        self._monitor = monitor
        self._limiter = None if answers_in_process(model) else Limiter(concurrency)
        self.totals = ResponseTotals()
        self._client = RetryingClient(
            model,
            account=self.account,
            limiter=self._limiter,
            timeout=timeout,
            attempts=attempts,
            rng=rng or random.Random(0),
        )
        self._tried = False
        self._sampler = Sampler(
            self._client,
            journal=journal,
            cache=self.cache,
            served=served or "",
            fresh_samples=fresh_samples,
            max_tokens=max_tokens,
            reasoning_effort=reasoning_effort,
        )
        self._thread: LoopThread | None = None
        self._thread_lock = threading.Lock()
        # From another model's name and endpoint to what asks it on the same budget and journal,
        # where a session opened this one.
        self.open_sibling: Callable[[str, str | None], Client] | None = None

    @property
    def latency(self) -> float | None:
        """Mean seconds from sending to the answer, of the calls answered here; None: none was."""
        return self._client.latency

    @property
    def waiting(self) -> str:
        """What requests wait for before they are sent again, and for how long; empty: nothing."""
        return self._client.waiting

    def ask(self, request: Request) -> Response:
        """Answer a single request, from any thread."""
        if self._limiter is None:
            return _run_now(self._sampler.answer(request))
        response = self._loop_thread().submit(self._sampler.answer(request))
        try:
            return response.result()
        except BaseException:
            response.cancel()
            raise

    async def ask_async(self, request: Request) -> Response:
        """Answer a single request, from any event loop."""
        if self._limiter is None:
            return await self._sampler.answer(request)
        return await asyncio.wrap_future(self._loop_thread().submit(self._sampler.answer(request)))

    def run(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Yield a response for each request, in order; few are read ahead.

        Works where an event loop is already running, and stops cleanly on Ctrl-C.
        """
        if self._limiter is None:
            for request in requests:
                yield self._counted(_run_now(self._sampler.answer(request)))
            return
        limiter, grace = self._limiter, 0.0
        queue = RequestQueue(
            self._loop_thread(), self._sampler.answer, QUEUED_PER_SLOT * self.concurrency
        )
        remaining = iter(requests)
        preflight = False
        if not self._tried:
            self._tried = True
            many = min(MANY_REQUESTS, queue.most_under_way)
            first = list(islice(remaining, many))
            remaining = chain(first, remaining)
            if preflight := len(first) == many:
                queue.most_under_way = min(PREFLIGHT, self.concurrency)
        try:
            while (more := self._fill(queue, remaining)) or queue:
                if not queue.ready():
                    queue.wait(refill=more, timeout=PREFLIGHT_SECONDS if preflight else None)
                preflight = False
                queue.most_under_way = QUEUED_PER_SLOT * self.concurrency
                if queue.ready():
                    yield self._counted(queue.take())
        except (BudgetSpentError, FailingRunError):
            grace = self._timeout  # what is in flight is paid for: let it arrive
            raise
        finally:
            queue.stop(lambda: limiter.busy == 0, grace)
            self._flush()

    def close(self) -> None:
        """End the thread and its connections; the runner may be used again all the same."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.close()
        self._flush()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _fill(self, queue: RequestQueue, remaining: Iterator[Request]) -> bool:
        """Read ahead until the queue is full or a response is ready; False when none is left."""
        while queue.has_room():
            if self._monitor is not None and not self._monitor.has_room(len(queue)):
                break
            request = next(remaining, None)
            if request is None:
                return False
            queue.add(request)
            if queue.ready():
                break
        return True

    def _counted(self, response: Response) -> Response:
        self.totals.add(response)
        if self._monitor is not None:
            self._monitor.add(response)
        return response

    def _loop_thread(self) -> LoopThread:
        with self._thread_lock:
            if self._thread is None or self._thread.process != os.getpid():
                self._thread = LoopThread(self, self.model.close)
            return self._thread

    def _flush(self) -> None:
        if self.journal is not None:
            self.journal.flush()


def is_cacheable(model: Model) -> bool:
    """Whether runs may share a model's replies."""
    return bool(getattr(model, "cacheable", not answers_in_process(model)))


def answers_in_process(model: Model) -> bool:
    """Whether a model answers in this process, at once and for free."""
    return bool(getattr(model, "in_process", is_embedded(model.endpoint)))


def _run_now(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    raise RuntimeError("a model that answers in this process must not wait for anything")
