"""Decide when a request may be sent: how many may be in flight, and how long a retry waits."""

import asyncio
import random
import time
from collections import deque

from judges.client.log import warn_once
from judges.protocol import FatalModelError, ThrottledError, TransientError

# The wait before the first retry, the longest wait, and the shortest wait that is logged.
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, MIN_LOGGED_WAIT_SECONDS = 0.5, 60.0, 20.0
# The longest wait that a Retry-After header can set.
MAX_HEADER_WAIT_SECONDS = 600.0

# Seeded by the system, so that processes whose requests fail together do not retry together.
_rng = random.SystemRandom()


class Throttle:
    """Limits the requests in flight: a 429 lowers the limit, and every answer raises it again."""

    def __init__(self, max_in_flight: int) -> None:
        # `_limit` is the number of requests that may be in flight now.
        self._max_limit, self._limit, self._n_in_flight = max_in_flight, float(max_in_flight), 0
        self._waiting_requests: deque[asyncio.Future[None]] = deque()
        self._resumes_at = self._lowered_at = 0.0
        # The number of bursts of 429s since the last answer; a burst lowers the limit only once.
        self.n_bursts = 0

    async def __aenter__(self) -> float:
        """Wait until a request may be sent, and return the time of sending for `lower_limit`."""
        admission = asyncio.get_running_loop().create_future()
        self._waiting_requests.append(admission)
        self._admit_requests()
        try:
            await admission
            while (wait_seconds := self._resumes_at - time.monotonic()) > 0:
                await asyncio.sleep(wait_seconds)
        except asyncio.CancelledError:
            if admission.done() and not admission.cancelled():
                await self.__aexit__()
            raise
        return time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        self._n_in_flight -= 1
        self._admit_requests()

    def raise_limit(self) -> None:
        """Raise the limit by 2 % after an answer, at most to the highest limit."""
        self.n_bursts = 0
        self._limit = min(self._max_limit, 1.02 * self._limit)

    def lower_limit(self, sent_at: float, wait_seconds: float) -> None:
        """After a 429, send nothing for `wait_seconds`, and lower the limit by 30 %.

        The limit is not lowered again for requests that were sent before it was last lowered.
        """
        now = time.monotonic()
        self._resumes_at = max(self._resumes_at, now + wait_seconds)
        if sent_at >= self._lowered_at:
            self._lowered_at = now
            self.n_bursts += 1
            self._limit = max(1.0, 0.7 * self._limit)

    def _admit_requests(self) -> None:
        while self._waiting_requests and self._n_in_flight < int(self._limit):
            admission = self._waiting_requests.popleft()
            if not admission.done():
                self._n_in_flight += 1
                admission.set_result(None)


def retry_wait(error: TransientError, n_failures: int) -> float:
    """Return the seconds until the next attempt: Retry-After or a backoff, with jitter.

    A Retry-After of more than ten minutes is ignored; after a 429, it raises FatalModelError.
    """
    retry_after = error.retry_after or 0.0
    if isinstance(error, ThrottledError) and retry_after > MAX_HEADER_WAIT_SECONDS:
        raise FatalModelError(
            f"{error}; the endpoint asks clients to wait {retry_after / 60:.0f} minutes "
            "(Retry-After): run the same command again after that"
        ) from error
    wait_seconds = min(FIRST_WAIT_SECONDS * 2.0 ** (n_failures - 1), MAX_WAIT_SECONDS)
    wait_seconds *= _rng.uniform(0.5, 1.0)
    if 0 < retry_after <= MAX_HEADER_WAIT_SECONDS:
        wait_seconds = retry_after + _rng.uniform(0.0, min(0.1 * retry_after, 1.0))
    if wait_seconds >= MIN_LOGGED_WAIT_SECONDS:
        warn_once(f"{error}; waiting {wait_seconds:.0f} s before the next attempt")
    return wait_seconds
