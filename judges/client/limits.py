"""How many requests may be in flight, and how long to wait for one."""

import asyncio
import logging
from collections import deque

# The limiter: what it narrows to at a 429 and widens to at an answer, and how early a timer fires.
NARROWING = 0.7
WIDENING = 1.02
TIMER_TOLERANCE = 0.01
# The timeout: a multiple of the slowest answer, which fades from one answer to the next, and no
# less than SHORTEST seconds; known after so many answers, and reviewed as often for what waits.
ENOUGH_ANSWERS = 32
TIMES_SLOWEST = 10.0
SHORTEST = 10.0
FADING = 0.999
REVIEW_INTERVAL = 0.5

_log = logging.getLogger(__name__)


class Limiter:
    """A gate for one event loop that narrows on 429 and widens on success.

    Each answer widens it by 2 %, and a 429 to a request sent since the last cut narrows it to
    70 %, so that one burst counts once. Two 429s with no answer between them close it for as long
    as the endpoint asked. A single one delays nobody else.
    """

    def __init__(self, concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency {concurrency}: at least one request must be in flight")
        self._concurrency = concurrency
        self._limit = float(concurrency)
        self._busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._cuts = 0
        self._throttled = False
        self._opens_at = 0.0

    @property
    def limit(self) -> int:
        return int(self._limit)

    @property
    def busy(self) -> int:
        return self._busy

    async def __aenter__(self) -> int:
        """Wait for a place; returns the number of cuts so far, to hand back to `throttled`."""
        if self._waiting or not self._has_room():
            place = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self._leave()
                raise
        else:
            self._busy += 1
        return self._cuts

    async def __aexit__(self, *_: object) -> None:
        self._leave()

    def answered(self) -> None:
        self._throttled = False
        if self._limit < self._concurrency:
            self._limit = min(self._limit * WIDENING, self._concurrency)

    def throttled(self, cuts: int, retry_after: float | None) -> None:
        """Note a 429 to a request that was sent when `cuts` cuts had been made."""
        if cuts == self._cuts:
            self._cuts += 1
            self._limit = max(self._limit * NARROWING, 1.0)
            _log.info("rate limit: %d requests in flight at most", self.limit)
        if self._throttled and retry_after:
            loop = asyncio.get_running_loop()
            self._opens_at = max(self._opens_at, loop.time() + retry_after)
            loop.call_at(self._opens_at, self._admit)
        self._throttled = True

    def _has_room(self) -> bool:
        return (
            self._busy < int(self._limit)
            # A timer may fire a tick early.
            and asyncio.get_running_loop().time() >= self._opens_at - TIMER_TOLERANCE
        )

    def _leave(self) -> None:
        self._busy -= 1
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._has_room():
            place = self._waiting.popleft()
            if not place.done():
                self._busy += 1
                place.set_result(None)


class AdaptiveTimeout:
    """Timeouts for one event loop that shorten, also for requests under way, as answers come.

    Once 32 answers have come, a request is given up after 10 times the slowest of late and no less
    than 10 s, twice that when asked again, and so on up to the limit. So a connection that hangs
    holds a place for seconds rather than minutes, while a slow reply gets its time in the end.
    """

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._slowest = 0.0
        self._answers = 0
        self._seconds = 0.0
        self._waits: dict[asyncio.Timeout, tuple[float, int]] = {}
        self._reviewing = False

    def begin(self, tries: int) -> asyncio.Timeout:
        """Open a wait, to be entered at once and to be ended by `end`."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        wait = asyncio.timeout_at(now + self.limit(tries))
        self._waits[wait] = (now, tries)
        if not self._reviewing:
            self._reviewing = True
            loop.call_later(REVIEW_INTERVAL, self._review)
        return wait

    @property
    def mean_wait(self) -> float | None:
        """Seconds that an answer took on average; None before the first."""
        return self._seconds / self._answers if self._answers else None

    def answered(self, wait: asyncio.Timeout) -> None:
        seconds = self.waited(wait)
        self._answers += 1
        self._seconds += seconds
        self._slowest = max(self._slowest * FADING, seconds)

    def waited(self, wait: asyncio.Timeout) -> float:
        return asyncio.get_running_loop().time() - self._waits[wait][0]

    def end(self, wait: asyncio.Timeout) -> None:
        del self._waits[wait]

    def limit(self, tries: int) -> float:
        if self._answers < ENOUGH_ANSWERS:
            return self._longest
        return min(max(TIMES_SLOWEST * self._slowest, SHORTEST) * 2.0**tries, self._longest)

    def _review(self) -> None:
        self._reviewing = bool(self._waits)
        if not self._reviewing:
            return
        for wait, (start, tries) in self._waits.items():
            end = start + self.limit(tries)
            if not wait.expired() and end < (wait.when() or end):
                wait.reschedule(end)
        asyncio.get_running_loop().call_later(REVIEW_INTERVAL, self._review)
