"""Start the requests of a run ahead of time, and return their responses in the order of the run."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass

from dspy_judges.errors import option_name
from judges.client.budget import BudgetSpentError
from judges.client.event_loop import event_loop, is_loop_thread
from judges.protocol import FatalModelError, Request, Response

# The most unanswered requests, as a multiple of the concurrency, since some wait for a retry.
MAX_READ_AHEAD_FACTOR = 3
# The most requests in a window, in which each stays until all earlier ones are answered.
MAX_WINDOW_REQUESTS = 4096
# The number of requests that are passed to the event loop's thread at once.
START_BATCH_SIZE = 64
POLL_SECONDS = 0.02
# Seconds between a response and waking the thread that waits for it, and committing its answer.
# Further responses arrive meanwhile, and each of them would take longer by itself.
WAKE_DELAY_SECONDS = 0.002
# Seconds to wait for the answers to requests in flight when the user stops the run.
GRACE_SECONDS = 5.0
# A run stops after at least this many responses, if at least this share of them are failures.
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9


@dataclass(eq=False)
class RunState:
    """What the requests of one run share.

    `n_in_flight` is the number of requests that were sent and are not answered yet. Once
    `is_stopped` is true, nothing more is sent. `spent_error` is the error of the first request that
    the budget did not allow; after this error, not even a cheaper request is sent.
    """

    n_in_flight: int = 0
    is_stopped: bool = False
    spent_error: BudgetSpentError | None = None

    def wait(self, seconds: float) -> None:
        """Wait until no request is in flight, but at most this many seconds."""
        # The garbage collector may close a generator in any thread. The event loop's thread must
        # not wait here, since it is the thread that reads the answers.
        deadline = time.monotonic() + (0.0 if is_loop_thread() else seconds)
        while self.n_in_flight and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


class FailingRunError(FatalModelError):
    """Almost every request of a run fails, so the run stops before it costs much."""


class FailureMonitor:
    """Counts the responses of a run; `record` raises FailingRunError if almost all are failures."""

    def __init__(self, *, has_store: bool = False) -> None:
        self.n_responses = self.n_failed = 0
        # The store keeps the replies, so that the same command would fail again.
        self._advice = f", then name another {option_name('out')}" if has_store else ""

    def may_send_more(self, n_pending: int) -> bool:
        """Return whether another request may be sent while `n_pending` requests are unrecorded.

        Until a request succeeds, only MIN_RESPONSES requests are sent, with which `record` can
        decide whether to stop the run.
        """
        if self.n_responses >= MIN_RESPONSES:
            return True
        return self.n_failed < self.n_responses or self.n_responses + n_pending < MIN_RESPONSES

    def record(self, error: str | None) -> None:
        self.n_responses += 1
        self.n_failed += error is not None
        limit = MAX_FAILURE_RATE * self.n_responses
        if error is not None and self.n_responses >= MIN_RESPONSES and self.n_failed >= limit:
            raise FailingRunError(
                f"{self.n_failed} of the first {self.n_responses} judgements failed, as in: "
                f"{error}; fix the model or the judge{self._advice}"
            )


class RequestWindow:
    """The requests of a run that were started, and whose responses were not taken yet."""

    def __init__(
        self,
        answer: Callable[[Request, RunState], Awaitable[Response]],
        concurrency: int,
        monitor: FailureMonitor | None,
    ) -> None:
        self.state = RunState()
        self._answer, self._monitor = answer, monitor
        self._max_unanswered = MAX_READ_AHEAD_FACTOR * concurrency
        self._pending: deque[Future[Response]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        # Two numbers without a lock, since only one thread changes each of them.
        self._n_started = self._n_answered = 0
        self._fatal_error: Exception | None = None
        self._has_news, self._wake_is_scheduled = threading.Event(), False

    @property
    def _has_room(self) -> bool:
        n_unanswered, n_pending = self._n_started - self._n_answered, len(self._pending)
        if n_unanswered >= self._max_unanswered or n_pending >= MAX_WINDOW_REQUESTS:
            return False
        return self._monitor is None or self._monitor.may_send_more(n_pending)

    def start_requests(self, requests: Iterator[Request]) -> bool:
        """Start requests while there is room; returns whether the window has any request."""
        batch: list[tuple[Request, Future[Response]]] = []
        while self._has_room and not (self._pending and self._pending[0].done()):
            if (request := next(requests, None)) is None:
                break
            future = Future[Response]()
            self._pending.append(future)
            self._n_started += 1
            batch.append((request, future))
            # Requests are passed to the event loop's thread in batches, since waking it is slow.
            if len(batch) == START_BATCH_SIZE:
                event_loop().call_soon_threadsafe(self._create_tasks, batch)
                batch = []
        if batch:
            event_loop().call_soon_threadsafe(self._create_tasks, batch)
        return bool(self._pending)

    def _create_tasks(self, batch: Sequence[tuple[Request, Future[Response]]]) -> None:
        for request, future in batch:
            task = asyncio.create_task(self._answer_request(request, future))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer_request(self, request: Request, future: Future[Response]) -> None:
        try:
            future.set_result(await self._answer(request, self.state))
        except BaseException as error:  # noqa: BLE001 - `take_response` raises the error again
            if isinstance(error, Exception) and not isinstance(error, BudgetSpentError):
                self._fatal_error = error
            future.set_exception(error)
        self._n_answered += 1
        if not self._wake_is_scheduled:
            self._wake_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY_SECONDS, self._wake)

    def _wake(self) -> None:
        self._wake_is_scheduled = False
        self._has_news.set()

    def take_response(self) -> Response | None:
        """Remove the first request, and return its response or raise its error.

        If the first request has no outcome yet, wait for the outcome of any request, and return
        None. A fatal error is raised at once. A BudgetSpentError is raised only if no later request
        was answered; otherwise only the request with this error fails.
        """
        if self._fatal_error is not None:
            raise self._fatal_error
        if not self._pending[0].done():
            self._has_news.wait()
            self._has_news.clear()
            return None
        try:
            return self._pending.popleft().result()
        except BudgetSpentError as error:
            if all(later.exception() for later in wait(self._pending).done):
                raise
            return Response(values=(), failures=(str(error),))

    def close(self, grace_seconds: float | None = None) -> None:
        """Send no more requests, and wait up to `grace_seconds` (5) for those in flight."""
        self.state.is_stopped = True
        if self._n_started > self._n_answered:
            self.state.wait(GRACE_SECONDS if grace_seconds is None else grace_seconds)
            event_loop().call_soon_threadsafe(self._cancel_tasks)
            # Meanwhile, the cancelled requests are recorded as unanswered.
            self.state.wait(GRACE_SECONDS)

    def _cancel_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
