"""A limit on the requests in flight, which follows the endpoint's 429s."""

import asyncio
import time
from collections import deque


class Throttle:
    """Limits the requests in flight: fewer after a 429, and more again with every answer."""

    def __init__(self, max_in_flight: int) -> None:
        # The highest limit, the present one, and the number of requests in flight.
        self._max_limit, self._limit, self._n_in_flight = max_in_flight, float(max_in_flight), 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._opens_at = self._narrowed_at = 0.0
        # The number of bursts of 429s since the last answer.
        self.n_bursts = 0

    async def __aenter__(self) -> float:
        """Wait until a request may be sent; returns the time on entering, for `narrow`."""
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
        """Raise the limit by 2 % after an answer, up to the highest one."""
        self.n_bursts = 0
        self._limit = min(self._max_limit, 1.02 * self._limit)

    def narrow(self, entered_at: float, wait: float) -> None:
        """Send nothing for `wait` seconds, and lower the limit by 30 % once for a burst of 429s.

        A 429 belongs to an earlier burst if its request entered before the limit was last lowered.
        """
        now = time.monotonic()
        self._opens_at = max(self._opens_at, now + wait)
        if entered_at >= self._narrowed_at:
            self._narrowed_at, self.n_bursts = now, self.n_bursts + 1
            self._limit = max(1.0, 0.7 * self._limit)

    def _admit(self) -> None:
        """Admit the requests that have waited longest, as far as the limit allows."""
        while self._waiting and self._n_in_flight < int(self._limit):
            if not (admitted := self._waiting.popleft()).done():
                self._n_in_flight += 1
                admitted.set_result(None)
