"""How long to wait for an answer: up to a limit, or far longer than answers have been taking."""

import asyncio

ENOUGH = 32
TIMES = 10.0
LEAST = 10.0
FADING = 0.999
REVIEW = 0.5


class Patience:
    """Timeouts for one event loop that shorten, also for requests under way, as answers come.

    Once 32 answers have come, a request is given up after 10 times the slowest of late and no less
    than 10 s, twice that when asked again, and so on up to the limit. So a connection that hangs
    holds a place for seconds rather than minutes, while a slow reply gets its time in the end.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._slowest = 0.0
        self._answers = 0
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
            loop.call_later(REVIEW, self._review)
        return wait

    def answered(self, wait: asyncio.Timeout) -> None:
        self._answers += 1
        self._slowest = max(self._slowest * FADING, self.waited(wait))

    def waited(self, wait: asyncio.Timeout) -> float:
        return asyncio.get_running_loop().time() - self._waits[wait][0]

    def end(self, wait: asyncio.Timeout) -> None:
        del self._waits[wait]

    def limit(self, tries: int) -> float:
        if self._answers < ENOUGH:
            return self._most
        return min(max(TIMES * self._slowest, LEAST) * 2.0**tries, self._most)

    def _review(self) -> None:
        self._reviewing = bool(self._waits)
        if not self._reviewing:
            return
        for wait, (start, tries) in self._waits.items():
            end = start + self.limit(tries)
            if not wait.expired() and end < (wait.when() or end):
                wait.reschedule(end)
        asyncio.get_running_loop().call_later(REVIEW, self._review)
