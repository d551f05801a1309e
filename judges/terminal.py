"""What people see in a terminal: results, errors, notes and progress; how a command ends."""

import errno
import logging
import os
import re
import shutil
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from textwrap import TextWrapper
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from dspy_judges.errors import JudgesError
from judges.client import Redactor

if TYPE_CHECKING:
    from judges.client import Budget

DONE, FAILED = 0, 1
# A command that a signal ends has the exit code 128 and the signal's number: 130 after Ctrl-C.
STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
QUIET = "print no progress and no notes"
LONGEST_LINE = 400
# Seconds between two lines: on a terminal one is rewritten, elsewhere they pile up.
TERMINAL_INTERVAL, FILE_INTERVAL = 0.25, 30.0
INVISIBLE = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)

_log = logging.getLogger("judges")
_quiet = False
_shown: list["Progress"] = []  # the progress lines of this process, the one that moves last


def visible(text: str) -> str:
    """The text with what would move a terminal's cursor or turn its letters round, written out.

    Judges, labels and replies may be a stranger's: their escapes are shown and not sent.
    """
    return INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


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
    _write(text, sys.stderr)


def print_note(text: str) -> None:
    """Print to stderr what its reader can do without: nothing under --quiet."""
    if not _quiet:
        print_error(text)


def _write(text: str, stream: TextIO) -> None:
    """Write a line; where there is a progress line, above that."""
    line = visible(Redactor().redact(text))
    if _shown:
        _shown[-1].write_above(line)
    else:
        stream.write(f"{line}\n")
        stream.flush()


@contextmanager
def quiet_notes(quiet: bool = True) -> Iterator[None]:
    """Neither progress nor notes while the block runs, if `quiet`."""
    global _quiet
    before, _quiet = _quiet, _quiet or quiet
    try:
        yield
    finally:
        _quiet = before


class _LogLines(logging.Handler):
    """Prints one short line a record."""

    def __init__(self, level: int) -> None:
        super().__init__(level)
        # As it is now: DSPy's optimizers are run with theirs turned away.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        line = " ".join(record.getMessage().split())
        line = line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 3]}..."
        clock = time.strftime("%H:%M:%S ") if self.level == logging.INFO else ""
        _write(clock + line, self._stream)


@contextmanager
def verbose_logging(verbose: bool = True) -> Iterator[None]:
    """Show what is logged while the block runs, if `verbose`."""
    if not verbose:
        yield
        return
    handler, level, propagate = _LogLines(logging.INFO), _log.level, _log.propagate
    _log.addHandler(handler)
    _log.setLevel(logging.INFO)
    _log.propagate = False
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)
        _log.propagate = propagate


class _Lines:
    """A stream on which lines pile up, for what would rewrite one."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        if line := text.strip():
            self._stream.write(f"{line}\n")

    def flush(self) -> None:
        self._stream.flush()


class Progress:
    """One line that is rewritten on a terminal; elsewhere a line now and then, and the last.

    Used as a context manager, so that the last figures stay. Of a `budget` the dollars are shown.
    `refresh` is called before each line, to bring name, total and counts up to date.
    """

    def __init__(
        self,
        name: str,
        total: int,
        stream: TextIO,
        *,
        unit: str = "rows",
        budget: "Budget | None" = None,
        refresh: "Callable[[Progress], None]" = lambda progress: None,
    ) -> None:
        from tqdm import tqdm  # which a help text does without

        self.name, self.total = name, total
        self.done = self.failed = 0
        self._stream, self._budget, self._refresh = stream, budget, refresh
        rewritten = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._interval = TERMINAL_INTERVAL if rewritten else FILE_INTERVAL
        self._drawn_at = time.monotonic()
        # Warnings that nobody handles would be written into the line.
        self._warnings = _LogLines(logging.WARNING)
        # As the environment says where a terminal does not tell, which tqdm takes for no width.
        columns, rows = shutil.get_terminal_size()
        self._bar = tqdm(
            desc=visible(name),
            total=total,
            file=stream if rewritten else _Lines(stream),
            disable=_quiet,
            ncols=columns - 1,
            nrows=rows,
            unit=unit,
            bar_format="{desc}: {n:,} of {total:,} {unit} [{elapsed}<{remaining}{postfix}]",
        )

    def step(self, *, failed: bool = False) -> None:
        """Count one more, and draw where it is time to."""
        self.done += 1
        self.failed += failed
        if time.monotonic() - self._drawn_at >= self._interval:
            self._drawn_at = time.monotonic()
            self._update()
            self._bar.refresh()

    def write_above(self, line: str) -> None:
        self._bar.write(line, file=self._stream)
        self._stream.flush()

    def _update(self) -> None:
        self._refresh(self)
        bar, budget = self._bar, self._budget
        bar.n, bar.total, bar.desc = self.done, max(self.total, self.done), visible(self.name)
        parts = [f"{self.failed:,} failed"] if self.failed else []
        if budget is not None and (budget.cost or budget.max_cost):
            limit = f" of {dollars_text(budget.max_cost)}" if budget.max_cost else ""
            parts.insert(0, f"{dollars_text(budget.cost)}{limit}")
        bar.set_postfix_str(", ".join(parts), refresh=False)

    def __enter__(self) -> "Progress":
        _shown.append(self)
        if not _log.hasHandlers():
            _log.addHandler(self._warnings)
        return self

    def __exit__(self, *_: object) -> None:
        _log.removeHandler(self._warnings)
        _shown.remove(self)
        self._update()
        self._bar.close()


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


def run_command(
    name: str,
    work: Callable[[], int],
    *,
    verbose: bool = False,
    quiet: bool = False,
    interrupted: Callable[[], str] = lambda: "interrupted",
) -> int:
    """The exit code of `work`, or of what ended it: 1 failed, 2 wrong usage, 130 interrupted.

    What a user can mend is one line; with `verbose`, after its traceback. Any other exception is a
    mistake of this project and passes through. `quiet`: neither progress nor notes.
    """
    with _stoppable() as signals:
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
            return 128 + next(iter(signals), signal.SIGINT)
        except (JudgesError, OSError) as error:
            code = error.exit_code if isinstance(error, JudgesError) else FAILED
            if isinstance(error, OSError) and error.errno == errno.ENOSPC and not error.filename:
                # Only stdout has no name; what is left would be tried once more at the exit.
                error.filename = "stdout"
                _discard_stdout()
            if verbose and code == FAILED:
                print_error("".join(traceback.format_exception(error)).rstrip())
            print_error(f"{name}: {_one_line(error)}")
            return code


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does; a second signal ends at once.

    Yields a list that gets the signal's number. What a parent has had ignored (nohup) stays so.
    """
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    before = {
        number: handler
        for name in STOPPING
        if in_main
        and (number := getattr(signal, name, None))
        and (handler := signal.getsignal(number)) not in (signal.SIG_IGN, None)
    }
    for number in before:
        signal.signal(number, stop)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _one_line(error: BaseException) -> str:
    """An error's message without line breaks; a file's name first where the system has no other."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def _discard_stdout() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
