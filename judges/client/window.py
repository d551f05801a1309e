"""A window on the requests of a run: answered in any order, and taken in the order of the run."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from judges.client.budget import BudgetSpentError
from judges.client.event_loop import event_loop, is_event_loop
from judges.client.monitor import FailureMonitor
from judges.protocol import Request, Response

# The most unanswered requests in a window, as a multiple of the requests in flight: some requests
# wait for a retry, and meanwhile others are sent.
READ_AHEAD = 3
# The most requests in a window. Answered requests stay in the window until all earlier requests are
# answered.
MAX_WAITING = 4096
# The number of requests that are passed to the event loop's thread at once.
START_BATCH = 64
POLL_SECONDS = 0.02
# Seconds between a response and waking the thread that waits for it. Further responses arrive
# meanwhile, and waking the thread for each of them would take longer than reading them.
WAKE_DELAY = 0.002
# Seconds to wait for the answers to requests in flight when the user stops the run.
GRACE_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class _Entry:
    # Set to None once there is an outcome, to free memory: the outcome may wait long to be taken.
    request: Request | None
    outcome: Response | BaseException | None = None


class Window:
    """The requests of a run that were started, and whose responses were not taken yet.

    Requests are answered in any order, and their responses are taken in the order of the run.
    """

    def __init__(
        self,
        answer: Callable[[Request, "Window"], Awaitable[Response]],
        concurrency: int,
        monitor: FailureMonitor | None,
    ) -> None:
        self.stopped = False
        # The number of requests that were sent to the model and are not answered yet.
        self.n_sent = 0
        self._answer_request, self._monitor = answer, monitor
        self._max_unanswered = READ_AHEAD * concurrency
        self._entries: deque[_Entry] = deque()
        self._unstarted_entries: list[_Entry] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_added = self._n_answered = 0
        self._fatal_error: Exception | None = None
        self._awake, self._wake_is_scheduled = threading.Event(), False

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def ready(self) -> bool:
        """Whether the first request has an outcome, or an error has ended the run."""
        return self._fatal_error is not None or (
            bool(self._entries) and self._entries[0].outcome is not None
        )

    @property
    def has_room(self) -> bool:
        """Whether another request may be added."""
        n_unanswered = self._n_added - self._n_answered
        if n_unanswered >= self._max_unanswered or len(self) >= MAX_WAITING:
            return False
        return self._monitor is None or self._monitor.has_room(len(self))

    def add(self, request: Request) -> None:
        self._n_added += 1
        self._entries.append(_Entry(request))
        self._unstarted_entries.append(self._entries[-1])
        if len(self._unstarted_entries) == START_BATCH:
            self.start()

    def start(self) -> None:
        """Pass all added requests to the event loop's thread at once, since waking it is slow."""
        if self._unstarted_entries:
            entries, self._unstarted_entries = self._unstarted_entries, []
            event_loop().call_soon_threadsafe(self._start, entries)

    def wait(self) -> None:
        """Wait until more requests have outcomes."""
        self._awake.wait()
        self._awake.clear()

    def take(self) -> Response:
        """Remove the first request, and return its response or raise its error.

        The window must be `ready`. If an error of any request ends the run, the error is raised at
        once; but BudgetSpentError is raised only when its request is the first.
        """
        if self._fatal_error is not None:
            raise self._fatal_error
        outcome = self._entries.popleft().outcome
        if isinstance(outcome, Response):
            return outcome
        assert outcome is not None
        raise outcome

    def close(self, grace_seconds: float | None = None) -> None:
        """Send no more requests, and wait at most `grace_seconds` (5) for answers to sent ones."""
        self.stopped = True
        if self._tasks:
            self._wait_for_sent(GRACE_SECONDS if grace_seconds is None else grace_seconds)
            event_loop().call_soon_threadsafe(self._cancel)
            # Cancelled requests are recorded as unanswered meanwhile.
            self._wait_for_sent(GRACE_SECONDS)

    def _wait_for_sent(self, seconds: float) -> None:
        # The garbage collector may close a generator in any thread. The event loop's thread must
        # not wait here, since it is the thread that reads the answers.
        deadline = time.monotonic() + (0.0 if is_event_loop() else seconds)
        while self.n_sent and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start(self, entries: Sequence[_Entry]) -> None:
        for entry in entries:
            task = asyncio.create_task(self._answer(entry))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, entry: _Entry) -> None:
        assert entry.request is not None
        try:
            entry.outcome = await self._answer_request(entry.request, self)
        except BaseException as error:  # noqa: BLE001 - `take` raises the error again
            entry.outcome = error
            if isinstance(error, Exception) and not isinstance(error, BudgetSpentError):
                self._fatal_error = error
        entry.request = None
        self._n_answered += 1
        if not self._wake_is_scheduled:
            self._wake_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY, self._wake)

    def _wake(self) -> None:
        self._wake_is_scheduled = False
        self._awake.set()
