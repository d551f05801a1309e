"""Limit the number of requests in flight, and lower the limit when the endpoint answers 429."""

import asyncio
import time
from collections import deque


class Throttle:
    """Limits the number of requests in flight.

    A 429 (too many requests) lowers the limit, and every answer raises it again.
    """

    def __init__(self, max_in_flight: int) -> None:
        # The highest limit, the current limit, and the number of requests in flight.
        self._max_limit, self._limit, self._n_in_flight = max_in_flight, float(max_in_flight), 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._opens_at = self._narrowed_at = 0.0
        # The number of bursts of 429s since the last answer; a burst is many 429s at about the same
        # time.
        self.n_bursts = 0

    async def __aenter__(self) -> float:
        """Wait until a request may be sent, and return the current time, which `narrow` needs."""
        self._waiting.append(admitted := asyncio.get_running_loop().create_future())
        self._admit()
        try:
            await admitted
            while (wait := self._opens_at - time.monotonic()) > 0:
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled():
                await self.__aexit__()
            raise
        return time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        self._n_in_flight -= 1
        self._admit()

    def widen(self) -> None:
        """Raise the limit by 2 % after an answer, at most to the highest limit."""
        self.n_bursts = 0
        self._limit = min(self._max_limit, 1.02 * self._limit)

    def narrow(self, entered_at: float, wait: float) -> None:
        """After a 429, send nothing for `wait` seconds, and lower the limit by 30 %.

        `entered_at` is the time when the request entered the throttle. If the limit has been
        lowered since, it is not lowered again, so that a burst of 429s lowers it only once.
        """
        now = time.monotonic()
        self._opens_at = max(self._opens_at, now + wait)
        if entered_at >= self._narrowed_at:
            self._narrowed_at, self.n_bursts = now, self.n_bursts + 1
            self._limit = max(1.0, 0.7 * self._limit)

    def _admit(self) -> None:
        """Admit waiting requests, the longest-waiting first, until the limit is reached."""
        while self._waiting and self._n_in_flight < int(self._limit):
            if not (admitted := self._waiting.popleft()).done():
                self._n_in_flight += 1
                admitted.set_result(None)
