"""What people see in a terminal: a command's results, errors and notes, and its progress line."""

import errno
import logging
import os
import re
import shutil
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from textwrap import TextWrapper
from typing import TYPE_CHECKING, TextIO

from dspy_judges.errors import JudgesError
from judges.client import Redactor

if TYPE_CHECKING:
    from judges.client import Budget

LONGEST_LINE = 400
# Seconds between two lines: on a terminal one is rewritten, elsewhere they pile up.
TERMINAL_INTERVAL, FILE_INTERVAL = 0.5, 30.0
# A line fits every terminal.
WIDTH = 79
# Seconds by which the pace is known, and without an answer from which on that is said.
PACE_SECONDS, SILENT_SECONDS = 60.0, 3.0
INVISIBLE = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


_log = logging.getLogger("judges")


class _LogLines(logging.Handler):
    """One short line a record, above the progress line where there is one."""

    def __init__(self, level: int = logging.INFO, *, clock: bool = True) -> None:
        super().__init__(level)
        self._clock = clock
        self._secrets = Redactor()
        # As it is now: DSPy's optimizers are run with theirs turned away.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        line = visible(self._secrets.redact(" ".join(record.getMessage().split())))
        line = line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 3]}..."
        write_line(f"{time.strftime('%H:%M:%S ')}{line}" if self._clock else line, self._stream)


@contextmanager
def verbose_logging(verbose: bool = True) -> Iterator[None]:
    """Show what is logged while the block runs, if `verbose`."""
    if not verbose:
        yield
        return
    logger, handler = _log, _LogLines()
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


_shown: list["Progress"] = []  # the lines of this process; one at a time, as a rule
_quiet = False

QUIET = "print no progress and no notes"


@contextmanager
def quiet_notes(quiet: bool = True) -> Iterator[None]:
    """Neither progress nor notes while the block runs, if `quiet`."""
    global _quiet
    before, _quiet = _quiet, _quiet or quiet
    try:
        yield
    finally:
        _quiet = before


def write_note(text: str) -> None:
    """As `write_line`, where notes are wanted (`quiet_notes`)."""
    if not _quiet:
        write_line(text)


def write_line(text: str, stream: TextIO | None = None) -> None:
    """Write a line to stderr, above the progress line where there is one."""
    if _shown:
        _shown[-1].write_above(text)
        return
    stream = stream or sys.stderr
    stream.write(f"{text}\n")
    stream.flush()


class Progress:
    """Rewrites one line on a terminal; elsewhere, where lines pile up, says little.

    Used as a context manager, so that the last figures stay. A thread draws it, so that it moves
    though nothing is answered. `refresh` is called before each line, to bring its figures up to
    date; of a `budget` the dollars are shown, and `waiting` says what a run waits for (empty:
    nothing). A `total` that is not `exact` is an estimate.
    """

    def __init__(
        self,
        name: str,
        total: int | None,
        stream: TextIO,
        *,
        unit: str = "rows",
        exact: bool = True,
        budget: "Budget | None" = None,
        waiting: Callable[[], str] = lambda: "",
        refresh: "Callable[[Progress], None]" = lambda progress: None,
    ) -> None:
        self.name = name
        self.total = total
        self.stream = stream
        self.done = 0
        self.failed = 0
        self._unit, self._exact = unit, exact
        self._budget, self._waiting, self._refresh = budget, waiting, refresh
        self._drawn = not _quiet
        self._terminal = self._drawn and stream.isatty() and os.environ.get("TERM") != "dumb"
        self._interval = TERMINAL_INTERVAL if self._terminal else FILE_INTERVAL
        self._started = self._answered_at = time.monotonic()
        self._answered = 0
        # When so many were done, for as long back as tells the pace.
        self._pace: deque[tuple[float, int]] = deque()
        self._lock = threading.RLock()
        # Warnings nobody handles would be written into the line.
        self._warnings = _LogLines(logging.WARNING, clock=False)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def step(self, *, failed: bool = False) -> None:
        self.done += 1
        self.failed += failed

    def __enter__(self) -> "Progress":
        _shown.append(self)
        if not _log.hasHandlers():
            _log.addHandler(self._warnings)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        _shown.remove(self)
        _log.removeHandler(self._warnings)
        with self._lock:
            self._draw(time.monotonic(), ended=True)
            if self._terminal:
                self.stream.write("\n")
            self.stream.flush()

    def write_above(self, text: str) -> None:
        """Write another line, and the progress line below it again."""
        with self._lock:
            self.stream.write(f"\r\x1b[2K{text}\n" if self._terminal else f"{text}\n")
            if self._terminal and not self._ended.is_set():
                self._draw(time.monotonic())
            self.stream.flush()

    def line(self, now: float, *, ended: bool = False) -> str:
        """The line at a time of `time.monotonic`; `ended`: nothing more will come."""
        self._refresh(self)
        self._look(now)
        total = self.total
        count = f"{self.done:,}"
        if total is not None and not (ended and not self._exact):
            count += f" of {'' if self._exact else 'about '}{max(total, self.done):,}"
        took = f" in {duration_text(now - self._started)}" if ended else ""
        parts = [f"{self.name}: {count} {self._unit}{took}", self._dollars()]
        if not ended:
            parts += [self._wait(now), self._time_left(total)]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        line = parts[0]
        for part in parts[1:]:
            # What does not fit is left out: the line must not wrap.
            if part and len(line) + 2 + len(part) <= self._width():
                line += f", {part}"
        return line[: self._width()]

    def _look(self, now: float) -> None:
        """Note how far things are, to tell the pace and for how long nothing has been answered."""
        answered = self.done + (self._budget.answered if self._budget else 0)
        if answered != self._answered:
            self._answered, self._answered_at = answered, now
        self._pace.append((now, self.done))
        while now - self._pace[0][0] > PACE_SECONDS:
            self._pace.popleft()

    def _dollars(self) -> str:
        budget = self._budget
        if budget is None or not (budget.cost or budget.max_cost):
            return ""
        limit = f" of {dollars_text(budget.max_cost)}" if budget.max_cost else ""
        return f"{dollars_text(budget.cost)}{limit}"

    def _wait(self, now: float) -> str:
        silent = now - self._answered_at
        waiting = self._waiting()
        return waiting or (f"no reply for {silent:.0f} s" if silent >= SILENT_SECONDS else "")

    def _time_left(self, total: int | None) -> str:
        (then, done), (now, done_now) = self._pace[0], self._pace[-1]
        if not total or total <= done_now or done_now <= done:
            return ""
        seconds = (total - done_now) * (now - then) / (done_now - done)
        return f"about {duration_text(seconds)} left"

    def _width(self) -> int:
        if not self._terminal:
            return LONGEST_LINE
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns
        except (OSError, ValueError):
            columns = 0
        # Some terminals do not tell.
        return min(WIDTH, columns - 1) if columns > 1 else WIDTH

    def _run(self) -> None:
        """Draw until the end, at intervals; elsewhere than on a terminal look, and draw seldom."""
        drawn_at = self._started
        while not self._ended.wait(TERMINAL_INTERVAL):
            now = time.monotonic()
            with self._lock:
                if now - drawn_at >= self._interval:
                    drawn_at = now
                    self._draw(now)
                else:
                    self._refresh(self)
                    self._look(now)

    def _draw(self, now: float, *, ended: bool = False) -> None:
        if not self._drawn:
            return
        line = visible(self.line(now, ended=ended))
        self.stream.write(f"\r\x1b[2K{line}" if self._terminal else f"{line}\n")
        self.stream.flush()


def dollars_text(dollars: float) -> str:
    """As prices are written; four decimals of less than a cent."""
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def duration_text(seconds: float) -> str:
    """In seconds, minutes or hours, the largest that there is one of."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def run_command(
    name: str,
    work: Callable[[], int],
    *,
    verbose: bool = False,
    quiet: bool = False,
    advice: Callable[[Exception], str] = lambda error: "",
    interrupted: Callable[[], str] = lambda: "interrupted",
) -> int:
    """The exit code of `work`, or of what ended it: 1 failed, 2 wrong usage, 130 interrupted.

    What a user can mend is one line, followed by what `advice` adds; with `verbose`, after its
    traceback. Any other exception is a mistake of this project and passes through. `quiet`: neither
    progress nor notes.
    """
    try:
        with quiet_notes(quiet):
            code = work()
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader (head, less) has seen enough; nothing more can be written to it.
        _discard_stdout()
        return DONE
    except KeyboardInterrupt as error:
        print_error(f"{name}: {error}" if str(error) else interrupted())
        return INTERRUPTED
    except (JudgesError, OSError) as error:
        code = error.exit_code if isinstance(error, JudgesError) else FAILED
        if isinstance(error, OSError) and error.filename is None and error.errno == errno.ENOSPC:
            # Only stdout has no name; or what is left would be tried once more at the exit.
            _discard_stdout()
            print_error(f"{name}: stdout: {error.strerror}")
            return FAILED
        if verbose and code == FAILED:
            print_error(trace_of(error).rstrip())
        print_error(f"{name}: {one_line(error)}{advice(error)}")
        return code


def one_line(error: BaseException) -> str:
    """An error's message without line breaks; a file's name first where the system has no other."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def print_output(text: str) -> None:
    """Print a result, its control characters made visible."""
    sys.stdout.write(visible(text) + "\n")
    sys.stdout.flush()


def print_lines(lines: Iterable[str]) -> None:
    """Print a result for people; on a terminal, what is wider goes on, set in, on a next line.

    A pipe and a file get each line whole: figures are quoted, and searched for, with their counts.
    """
    if sys.stdout.isatty():
        wrapper = TextWrapper(
            shutil.get_terminal_size((80, 24)).columns,
            subsequent_indent="    ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines = (part for line in lines for part in wrapper.wrap(line) or [""])
    print_output("\n".join(lines))


def print_error(text: str) -> None:
    """Print what is wrong to stderr, without keys and control characters."""
    write_line(_safe(text))


def print_note(text: str) -> None:
    """Print to stderr what its reader can do without: nothing under --quiet."""
    write_note(_safe(text))


def _safe(text: str) -> str:
    return visible(Redactor().redact(text))


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
