"""A small progress line on stderr: how many rows, how fast, how long still."""

import time
from types import TracebackType
from typing import TextIO

EVERY = 0.5


class Progress:
    """Rewrites one line on a terminal; elsewhere, where lines pile up, says little.

    Used as a context manager, so that the last figures stay.
    """

    def __init__(self, name: str, total: int | None, stream: TextIO, *, unit: str = "rows") -> None:
        self.name = name
        self.total = total
        self.stream = stream
        self.unit = unit
        self.done = 0
        self.failed = 0
        self._started = time.monotonic()
        self._terminal = stream.isatty()
        self._next = self._started + (EVERY if self._terminal else 30.0)

    def step(self, *, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed
        now = time.monotonic()
        if now >= self._next:
            self._next = now + (EVERY if self._terminal else 30.0)
            self._write(now)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._write(time.monotonic())
        if self._terminal:
            self.stream.write("\n")
        self.stream.flush()

    def line(self, seconds: float) -> str:
        """The line as it stands after so many seconds."""
        rate = self.done / seconds if seconds > 0 else 0.0
        of = f"/{self.total:,}" if self.total is not None else ""
        said = f"{self.name}: {self.done:,}{of} {self.unit}, {rate:,.0f}/s"
        if self.failed:
            said += f", {self.failed:,} failed"
        if self.total and rate and self.done < self.total:
            said += f", {_span((self.total - self.done) / rate)} left"
        return said

    def _write(self, now: float) -> None:
        said = self.line(now - self._started)
        self.stream.write(f"\r\x1b[2K{said}" if self._terminal else f"{said}\n")
        self.stream.flush()


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
