"""What a run prints on stderr: a progress line, and with --verbose a line for each retry."""

import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from judges.models.redaction import Redactor

LONGEST_LINE = 400
# Seconds between two lines: on a terminal one is rewritten, elsewhere they pile up.
TERMINAL_INTERVAL, FILE_INTERVAL = 0.5, 30.0
INVISIBLE = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class _LogLines(logging.Handler):
    """One short line a record, above the progress line where there is one."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._secrets = Redactor()
        # As it is now: DSPy's optimizers are run with theirs turned away.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        line = visible(self._secrets.redact(" ".join(record.getMessage().split())))
        line = line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 3]}..."
        start = "\r\x1b[2K" if self._stream.isatty() else ""
        self._stream.write(f"{start}{time.strftime('%H:%M:%S')} {line}\n")
        self._stream.flush()


@contextmanager
def verbose_logging(verbose: bool = True) -> Iterator[None]:
    """Show what is logged while the block runs, if `verbose`."""
    if not verbose:
        yield
        return
    logger, handler = logging.getLogger("judges"), _LogLines()
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


def visible(text: str) -> str:
    """The text with what would move a terminal's cursor or turn its letters round, written out.

    Judges, labels and replies may be a stranger's: their escapes are shown and not sent.
    """
    return INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def trace_of(error: BaseException) -> str:
    """Where an error arose, fit to be shown."""
    return visible(Redactor().redact("".join(traceback.format_exception(error))))


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
        self._interval = TERMINAL_INTERVAL if self._terminal else FILE_INTERVAL
        self._next = self._started + self._interval

    def step(self, *, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self._interval
            self._write(now)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._write(time.monotonic())
        if self._terminal:
            self.stream.write("\n")
        self.stream.flush()

    def line(self, seconds: float) -> str:
        """The line as it stands after so many seconds."""
        rate = self.done / seconds if seconds > 0 else 0.0
        total = f"/{self.total:,}" if self.total is not None else ""
        line = f"{self.name}: {self.done:,}{total} {self.unit}, {rate:,.0f}/s"
        if self.failed:
            line += f", {self.failed:,} failed"
        if self.total and rate and self.done < self.total:
            line += f", {_duration((self.total - self.done) / rate)} left"
        return line

    def _write(self, now: float) -> None:
        line = self.line(now - self._started)
        self.stream.write(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
        self.stream.flush()


def _duration(seconds: float) -> str:
    minutes, remainder = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{remainder:02}" if hours else f"{minutes}:{remainder:02}"
