"""Start the requests of a run in batches, and return their responses in the order of the run."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from judges.client.budget import BudgetSpentError
from judges.client.event_loop import event_loop, is_loop_thread
from judges.client.monitor import FailureMonitor
from judges.protocol import Request, Response

# The most unanswered requests, as a multiple of the concurrency, since some wait for a retry.
READ_AHEAD_FACTOR = 3
# The most requests in a window, in which each stays until all earlier ones are answered.
MAX_WINDOW_REQUESTS = 4096
# The number of requests that are passed to the event loop's thread at once.
START_BATCH_SIZE = 64
POLL_SECONDS = 0.02
# Seconds between a response and waking the thread that waits for it. Further responses arrive
# meanwhile, and waking the thread for each of them would take longer than reading them.
WAKE_DELAY_SECONDS = 0.002
# Seconds to wait for the answers to requests in flight when the user stops the run.
GRACE_SECONDS = 5.0


class InFlightCounter:
    """The number of a run's requests that were sent and are not answered yet.

    `is_stopped` is set when the run ends. Requests that wait to be sent are then given up.
    `spent_error` is the error of the first request that the budget did not allow; no later request
    of the run is sent, even if it is cheaper.
    """

    def __init__(self) -> None:
        self.number, self.is_stopped = 0, False
        self.spent_error: BudgetSpentError | None = None

    def wait(self, seconds: float) -> None:
        """Wait until no request is in flight, but at most this many seconds."""
        # The garbage collector may close a generator in any thread. The event loop's thread must
        # not wait here, since it is the thread that reads the answers.
        deadline = time.monotonic() + (0.0 if is_loop_thread() else seconds)
        while self.number and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


@dataclass(slots=True, eq=False)
class _PendingRequest:
    # None once there is an outcome, to free memory: the outcome may not be taken for a long time.
    request: Request | None
    outcome: Response | BaseException | None = None


class RequestWindow:
    """The requests of a run that were started, and whose responses were not taken yet."""

    def __init__(
        self,
        answer: Callable[[Request, InFlightCounter], Awaitable[Response]],
        concurrency: int,
        monitor: FailureMonitor | None,
    ) -> None:
        self._in_flight = InFlightCounter()
        self._answer, self._monitor = answer, monitor
        self._max_unanswered = READ_AHEAD_FACTOR * concurrency
        self._pending: deque[_PendingRequest] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        # Two numbers without a lock, since only one thread changes each of them.
        self._n_added = self._n_answered = 0
        self._fatal_error: Exception | None = None
        # The error of a request that failed alone, because the budget was spent.
        self._spent_error: BudgetSpentError | None = None
        self._awake, self._wake_is_scheduled = threading.Event(), False

    @property
    def _is_ready(self) -> bool:
        """Whether the first request has an outcome, or an error has ended the run."""
        return self._fatal_error is not None or (
            bool(self._pending) and self._pending[0].outcome is not None
        )

    @property
    def _has_room(self) -> bool:
        n_unanswered, n_in_window = self._n_added - self._n_answered, len(self._pending)
        if n_unanswered >= self._max_unanswered or n_in_window >= MAX_WINDOW_REQUESTS:
            return False
        return self._monitor is None or self._monitor.may_send_more(n_in_window)

    def start_requests(self, requests: Iterator[Request]) -> bool:
        """Start requests while there is room; returns whether the window has any request."""
        batch: list[_PendingRequest] = []
        while self._has_room and not self._is_ready:
            if (request := next(requests, None)) is None:
                break
            batch.append(_PendingRequest(request))
            self._pending.append(batch[-1])
            self._n_added += 1
            # Requests are passed to the event loop's thread in batches, since waking it is slow.
            if len(batch) == START_BATCH_SIZE:
                event_loop().call_soon_threadsafe(self._create_tasks, batch)
                batch = []
        if batch:
            event_loop().call_soon_threadsafe(self._create_tasks, batch)
        return bool(self._pending)

    def take_response(self) -> Response | None:
        """Remove the first request, and return its response or raise its error.

        If the first request has no outcome, wait until any request has one, and return None. An
        error that ends the run is raised at once. A BudgetSpentError is raised only if no later
        request was answered; otherwise only its own request fails, such as one that is a retry.
        """
        if self._fatal_error is not None:
            raise self._fatal_error
        outcome = self._pending[0].outcome
        outcomes = [outcome]
        if isinstance(outcome, BudgetSpentError):  # the outcomes of all later requests count, too
            outcomes = [entry.outcome for entry in self._pending]
        if None in outcomes:
            self._awake.wait()
            self._awake.clear()
            return None
        self._pending.popleft()
        if isinstance(outcome, BudgetSpentError) and any(isinstance(o, Response) for o in outcomes):
            self._spent_error = outcome
            return Response(values=(), failures=(str(outcome),))
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def check_budget(self) -> None:
        """Raise BudgetSpentError if a request failed alone because the budget was spent."""
        if self._spent_error is not None:
            raise self._spent_error

    def close(self, grace_seconds: float | None = None) -> None:
        """Send no more requests, and wait at most `grace_seconds` (5) for answers to sent ones."""
        self._in_flight.is_stopped = True
        if self._tasks:
            self._in_flight.wait(GRACE_SECONDS if grace_seconds is None else grace_seconds)
            event_loop().call_soon_threadsafe(self._cancel)
            # Meanwhile, the cancelled requests are recorded as unanswered.
            self._in_flight.wait(GRACE_SECONDS)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _create_tasks(self, entries: Sequence[_PendingRequest]) -> None:
        for entry in entries:
            task = asyncio.create_task(self._answer_request(entry))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer_request(self, entry: _PendingRequest) -> None:
        assert entry.request is not None
        try:
            entry.outcome = await self._answer(entry.request, self._in_flight)
        except BaseException as error:  # noqa: BLE001 - `take_response` raises the error again
            entry.outcome = error
            if isinstance(error, Exception) and not isinstance(error, BudgetSpentError):
                self._fatal_error = error
        entry.request = None
        self._n_answered += 1
        if not self._wake_is_scheduled:
            self._wake_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY_SECONDS, self._wake)

    def _wake(self) -> None:
        self._wake_is_scheduled = False
        self._awake.set()
