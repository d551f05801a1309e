"""The pending requests of a run, answered in any order and taken in the order of the run."""

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
# The most requests in a window. Answered requests stay there until all earlier ones are answered.
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
class _Slot:
    # Set to None once there is an outcome, to free memory: the outcome may wait long to be taken.
    request: Request | None
    outcome: Response | BaseException | None = None


class Window:
    """The pending requests of a run: answered in any order, and taken in the order of the run."""

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
        self._slots: deque[_Slot] = deque()
        self._unstarted: list[_Slot] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_added = self._n_answered = 0
        self._fatal: Exception | None = None
        self._awake, self._wake_is_scheduled = threading.Event(), False

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def ready(self) -> bool:
        """Whether the first request has an outcome, or an error has ended the run."""
        return self._fatal is not None or (bool(self._slots) and self._slots[0].outcome is not None)

    @property
    def has_room(self) -> bool:
        """Whether another request may be added."""
        n_unanswered = self._n_added - self._n_answered
        if n_unanswered >= self._max_unanswered or len(self) >= MAX_WAITING:
            return False
        return self._monitor is None or self._monitor.has_room(len(self))

    def add(self, request: Request) -> None:
        self._n_added += 1
        self._slots.append(_Slot(request))
        self._unstarted.append(self._slots[-1])
        if len(self._unstarted) == START_BATCH:
            self.start()

    def start(self) -> None:
        """Pass all added requests to the event loop's thread at once, since waking it is slow."""
        if self._unstarted:
            slots, self._unstarted = self._unstarted, []
            event_loop().call_soon_threadsafe(self._start, slots)

    def wait(self) -> None:
        """Wait until more requests have outcomes."""
        self._awake.wait()
        self._awake.clear()

    def take(self) -> Response:
        """Remove the first request; return its response or raise its error.

        May only be called if the window is `ready`. An error of any request that ends the run is
        raised at once, except BudgetSpentError, which is raised when its request is the first.
        """
        if self._fatal is not None:
            raise self._fatal
        outcome = self._slots.popleft().outcome
        if isinstance(outcome, Response):
            return outcome
        assert outcome is not None
        raise outcome

    def close(self, grace: float | None = None) -> None:
        """Send no more requests, and wait at most `grace` seconds (default: 5) for due answers."""
        self.stopped = True
        if self._tasks:
            self._await_sent(GRACE_SECONDS if grace is None else grace)
            event_loop().call_soon_threadsafe(self._cancel)
            self._await_sent(GRACE_SECONDS)  # so that cancelled requests are recorded as unanswered

    def _await_sent(self, seconds: float) -> None:
        # The garbage collector may close a generator in any thread. The event loop's thread must
        # not wait here, since it is the thread that reads the answers.
        deadline = time.monotonic() + (0.0 if is_event_loop() else seconds)
        while self.n_sent and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start(self, slots: Sequence[_Slot]) -> None:
        for slot in slots:
            task = asyncio.create_task(self._answer(slot))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, slot: _Slot) -> None:
        assert slot.request is not None
        try:
            slot.outcome = await self._answer_request(slot.request, self)
        except BaseException as error:  # noqa: BLE001 - `take` raises the error again
            slot.outcome = error
            if isinstance(error, Exception) and not isinstance(error, BudgetSpentError):
                self._fatal = error
        slot.request = None
        self._n_answered += 1
        if not self._wake_is_scheduled:
            self._wake_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY, self._wake)

    def _wake(self) -> None:
        self._wake_is_scheduled = False
        self._awake.set()
