"""Output of the commands: results, errors, notes, progress and exit codes."""

import logging
import re
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from dspy_judges.errors import JudgesError
from judges.client import Redactor

if TYPE_CHECKING:
    from judges.client import Budget

DONE, FAILED = 0, 1
PATIENCE = 2.0
QUIET = "print no progress and no notes"
INVISIBLE = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)

_log = logging.getLogger("judges")
_quiet = False


def visible(text: str) -> str:
    """The text with control characters written out, which could steer a terminal."""
    return INVISIBLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def print_output(text: str) -> None:
    """Print a result to stdout."""
    print(visible(text))


def print_lines(lines: Iterable[str]) -> None:
    """Print a result of several lines to stdout."""
    print_output("\n".join(lines))


def print_error(text: str, stream: TextIO | None = None) -> None:
    """Print an error to stderr, without keys and control characters."""
    line, stream = visible(Redactor().redact(text)), stream or sys.stderr
    if tqdm := sys.modules.get("tqdm"):
        tqdm.tqdm.write(line, file=stream)  # above a progress line
    else:
        print(line, file=stream)
    stream.flush()


def print_note(text: str) -> None:
    """Print a note to stderr, unless --quiet is set."""
    if not _quiet:
        print_error(text)


class _LogLines(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        # Today's stderr, since it is redirected while DSPy's optimizers run.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        line = textwrap.shorten(record.getMessage(), 400, placeholder=" ...")
        print_error(line, self._stream)


@contextmanager
def verbose_logging(verbose: bool = True, level: int = logging.INFO) -> Iterator[None]:
    """Print log records while the block runs, if `verbose` and nothing prints them yet."""
    if not verbose or any(isinstance(handler, _LogLines) for handler in _log.handlers):
        yield
        return
    handler, before = _LogLines(level), _log.level
    _log.addHandler(handler)
    _log.setLevel(level)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(before)


class Progress:
    """A progress line on stderr, as a context manager, so that the last figures stay.

    With a `budget` it shows dollars. `refresh` is called before each line and may change the name,
    the total and the counts. With `only_live` only a terminal or a notebook shows it, and only
    after PATIENCE seconds.
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
        only_live: bool = False,
    ) -> None:
        from tqdm import tqdm  # which a help text does not need

        self.name, self.total = name, total
        self.n_done = self.n_failed = 0
        self._budget, self._refresh = budget, refresh
        # Without a handler, warnings would be printed into the line.
        self._warnings = verbose_logging(not _log.hasHandlers(), logging.WARNING)
        is_live = stream.isatty() or type(stream).__module__.startswith("ipykernel.")
        self._bar = tqdm(
            desc=visible(name),
            total=total,
            file=stream,
            disable=_quiet or (only_live and not is_live),
            ncols=shutil.get_terminal_size().columns - 1,
            unit=unit,
            # Seconds between two lines, which only a terminal overwrites.
            mininterval=0.25 if is_live else 30.0,
            miniters=1,
            delay=PATIENCE if only_live else 0.0,
            bar_format="{desc}: {n:,} of {total:,} {unit} [{elapsed}<{remaining}{postfix}]",
        )

    def step(self, *, failed: bool = False) -> None:
        """Count one more, and print the line if it is time to."""
        self.n_done += 1
        self.n_failed += failed
        self._update()

    def _update(self) -> None:
        self._refresh(self)
        bar, budget = self._bar, self._budget
        bar.total, bar.desc = max(self.total, self.n_done), visible(self.name)
        parts = [f"{self.n_failed:,} failed"] if self.n_failed else []
        if budget is not None and (budget.cost or budget.max_cost):
            limit = f" of {dollars_text(budget.max_cost)}" if budget.max_cost else ""
            parts.insert(0, f"{dollars_text(budget.cost)}{limit}")
        bar.set_postfix_str(", ".join(parts), refresh=False)
        bar.update(self.n_done - bar.n)

    def __enter__(self) -> "Progress":
        self._warnings.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._warnings.__exit__(None, None, None)
        self._update()
        self._bar.close()


def dollars_text(dollars: float) -> str:
    """Dollars with two decimals, or four for less than a cent."""
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def run_command(
    name: str,
    work: Callable[[], int],
    *,
    verbose: bool = False,
    quiet: bool = False,
    interrupted: str = "interrupted",
) -> int:
    """Run a command; returns its exit code, or 1 failed, 2 wrong usage, 130 interrupted.

    A JudgesError or OSError is printed on one line, with `verbose` after its traceback. Any other
    exception is a fault of this project and is raised. `quiet` hides progress and notes.
    """
    global _quiet
    with _stoppable() as signals, verbose_logging(verbose):
        before, _quiet = _quiet, quiet
        try:
            return work()
        except KeyboardInterrupt as error:
            print_error(f"{name}: {str(error) or interrupted}")
            return 128 + next(iter(signals), signal.SIGINT)
        except (JudgesError, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.strerror and error.filename is not None:
                reason = f"{error.filename}: {error.strerror}"
            code = error.exit_code if isinstance(error, JudgesError) else FAILED
            if verbose and code == FAILED:
                print_error("".join(traceback.format_exception(error)).rstrip())
            print_error(f"{name}: {reason}")
            return code
        finally:
            _quiet = before


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does; a second one ends at once.

    Yields a list that gets the signal's number. Signals that a parent ignores (nohup) stay ignored.
    """
    signals: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signals.append(number)
        for each in before:
            signal.signal(each, signal.SIG_DFL)
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    names = ("SIGINT", "SIGTERM", "SIGHUP") if in_main else ()
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    before = {n: old for n, old in handlers.items() if old not in (signal.SIG_IGN, None)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield signals
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
