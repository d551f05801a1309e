"""A queue that sends the requests of a run ahead of time, and returns the responses in order."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass

from dspy_judges.errors import option_name
from judges.client.budget import BudgetSpentError
from judges.client.event_loop import WAKE_DELAY_SECONDS, event_loop, is_loop_thread
from judges.protocol import FatalModelError, Request, Response

# At most this many times `concurrency` requests are unfinished: some wait for a retry.
MAX_READ_AHEAD_FACTOR = 3
# The most requests in a queue; a request stays there until all requests before it are answered.
MAX_QUEUE_LENGTH = 4096
POLL_SECONDS = 0.02
# Seconds to wait for the answers to requests in flight when the user stops the run.
GRACE_SECONDS = 5.0
# A run stops after MIN_RESPONSES or more responses if MAX_FAILURE_RATE of them are failures.
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9


@dataclass(eq=False)
class RunState:
    """The state of one run, which all requests of the run share.

    `n_in_flight` requests were sent and are not answered yet. `spent_error` is set if the budget
    does not allow a request. Nothing is sent once `spent_error` is set or `is_stopped` is true.
    """

    n_in_flight: int = 0
    is_stopped: bool = False
    spent_error: BudgetSpentError | None = None

    def wait_for_answers(self, max_seconds: float) -> None:
        """Wait until no request is in flight, but at most `max_seconds`."""
        # The garbage collector may close a generator in any thread. The event loop's thread must
        # not wait here, since it is the thread that reads the answers.
        deadline = time.monotonic() + (0.0 if is_loop_thread() else max_seconds)
        while self.n_in_flight and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


AnswerFunction = Callable[[Request, RunState], Coroutine[object, None, Response]]


class FailingRunError(FatalModelError):
    """Almost every request of a run fails, so the run stops before it costs much."""


class FailureMonitor:
    """Counts the responses of a run; `record` raises FailingRunError if almost all are failures."""

    def __init__(self, *, has_store: bool = False) -> None:
        self.n_responses = self.n_failed = 0
        # The store keeps the replies, so the same command would fail in the same way.
        self._advice = f", then name another {option_name('out')}" if has_store else ""

    def may_send_more(self, n_pending: int) -> bool:
        """Return whether to send another request; `n_pending` requests have no response yet."""
        if self.n_responses >= MIN_RESPONSES or self.n_failed < self.n_responses:
            return True
        # Until a request succeeds, at most MIN_RESPONSES are sent: then `record` stops the run.
        return self.n_responses + n_pending < MIN_RESPONSES

    def record(self, error: str | None) -> None:
        self.n_responses += 1
        self.n_failed += error is not None
        if error is None or self.n_responses < MIN_RESPONSES:
            return
        if self.n_failed >= MAX_FAILURE_RATE * self.n_responses:
            raise FailingRunError(
                f"{self.n_failed} of the first {self.n_responses} judgements failed, as in: "
                f"{error}; fix the model or the judge{self._advice}"
            )


class RequestQueue:
    """The requests of a run that were started, and whose responses the caller has not taken yet."""

    def __init__(
        self, answer: AnswerFunction, concurrency: int, failure_monitor: FailureMonitor | None
    ) -> None:
        self.run_state = RunState()
        self._answer, self._failure_monitor = answer, failure_monitor
        self._max_unfinished = MAX_READ_AHEAD_FACTOR * concurrency
        self._futures: deque[Future[Response]] = deque()
        # These two numbers need no lock, since only one thread changes each of them.
        self._n_started = self._n_finished = 0
        self._fatal_error: Exception | None = None
        self._answer_event, self._wake_is_scheduled = threading.Event(), False

    @property
    def _has_room(self) -> bool:
        n_unfinished, n_pending = self._n_started - self._n_finished, len(self._futures)
        if n_unfinished >= self._max_unfinished or n_pending >= MAX_QUEUE_LENGTH:
            return False
        return self._failure_monitor is None or self._failure_monitor.may_send_more(n_pending)

    def start_requests(self, requests: Iterator[Request]) -> bool:
        """Start requests while the queue has room; returns whether the queue has any request."""
        while self._has_room and not (self._futures and self._futures[0].done()):
            if (request := next(requests, None)) is None:
                break
            coroutine = self._answer(request, self.run_state)
            future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
            future.add_done_callback(self._count_finished)
            self._futures.append(future)
            self._n_started += 1
        return bool(self._futures)

    def _count_finished(self, future: Future[Response]) -> None:
        error = None if future.cancelled() else future.exception()
        if isinstance(error, Exception) and not isinstance(error, BudgetSpentError):
            self._fatal_error = error
        self._n_finished += 1
        if is_loop_thread() and not self._wake_is_scheduled:
            self._wake_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY_SECONDS, self._wake)

    def _wake(self) -> None:
        self._wake_is_scheduled = False
        self._answer_event.set()

    def take_response(self) -> Response | None:
        """Remove the first request, and return its response or raise its error.

        If the first request is not answered yet, wait until any request is answered, and return
        None. A BudgetSpentError is raised only if no request after the first was answered.
        """
        if self._fatal_error is not None:
            raise self._fatal_error
        if not self._futures[0].done():
            self._answer_event.wait()
            self._answer_event.clear()
            return None
        try:
            return self._futures.popleft().result()
        except BudgetSpentError as error:
            if all(future.exception() for future in wait(self._futures).done):
                raise
            return Response(values=(), failures=(str(error),))

    def close(self, max_seconds: float | None) -> None:
        """Send no more requests, and wait up to `max_seconds` (by default 5) for answers."""
        self.run_state.is_stopped = True
        if self._n_started > self._n_finished:
            self.run_state.wait_for_answers(max_seconds or GRACE_SECONDS)
            for future in self._futures:
                future.cancel()
            # The cancelled requests need some time to be recorded as unanswered.
            self.run_state.wait_for_answers(GRACE_SECONDS)
