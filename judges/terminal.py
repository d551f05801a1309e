"""The output of commands: results, errors, notes, progress lines and exit codes."""

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

DONE, FAILED = 0, 1  # exit codes
PROGRESS_DELAY_SECONDS = 2.0  # seconds before a progress line appears in a terminal or notebook
QUIET_HELP = "print no progress and no notes"  # the help text of --quiet
# Control characters, direction marks and lone surrogates.
INVISIBLE_PATTERN = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)

_log = logging.getLogger("judges")
_is_quiet = False


def escape_invisible(text: str) -> str:
    """Return the text with control characters, which a terminal could execute, as escapes."""
    return INVISIBLE_PATTERN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def print_output(text: str) -> None:
    """Print a result to stdout."""
    print(escape_invisible(text))


def print_lines(lines: Iterable[str]) -> None:
    print_output("\n".join(lines))


def print_error(text: str, stream: TextIO | None = None) -> None:
    """Print an error to stderr, without API keys and control characters."""
    line, stream = escape_invisible(Redactor().redact(text)), stream or sys.stderr
    if tqdm := sys.modules.get("tqdm"):
        tqdm.tqdm.write(line, file=stream)  # prints above the progress line
    else:
        print(line, file=stream)
    stream.flush()


def print_note(text: str) -> None:
    """Print a note to stderr, unless --quiet is set."""
    if not _is_quiet:
        print_error(text)


class _StderrHandler(logging.Handler):
    def __init__(self, level: int) -> None:
        super().__init__(level)
        # stderr at this moment: it is redirected while DSPy's optimizers run.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        line = textwrap.shorten(record.getMessage(), 400, placeholder=" ...")
        print_error(line, self._stream)


@contextmanager
def verbose_logging(verbose: bool, level: int = logging.INFO) -> Iterator[None]:
    """Print log records within this context, if `verbose` is true and no outer context does so."""
    if not verbose or any(isinstance(handler, _StderrHandler) for handler in _log.handlers):
        yield
        return
    handler, earlier_level = _StderrHandler(level), _log.level
    _log.addHandler(handler)
    _log.setLevel(level)
    try:
        yield
    finally:
        _log.removeHandler(handler)
        _log.setLevel(earlier_level)


class Progress:
    """A progress line on a stream, with the dollars of a `budget`.

    `refresh` may change the name, the total and the counts before each update. If `only_live` is
    true, the line appears only in a terminal or a notebook, after PROGRESS_DELAY_SECONDS.
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
        from tqdm import tqdm  # imported late, since a help text does not need it

        self.name, self.total = name, total
        self.n_done = self.n_failed = 0
        self._budget, self._refresh = budget, refresh
        # Without a log handler, warnings would be printed into the progress line.
        self._warnings = verbose_logging(not _log.hasHandlers(), logging.WARNING)
        is_live = stream.isatty() or type(stream).__module__.startswith("ipykernel.")
        self._bar = tqdm(
            desc=escape_invisible(name),
            total=total,
            file=stream,
            disable=_is_quiet or (only_live and not is_live),
            ncols=shutil.get_terminal_size().columns - 1,
            unit=unit,
            # Seconds between two updates; outside a terminal each update is a new line.
            mininterval=0.25 if is_live else 30.0,
            miniters=1,
            delay=PROGRESS_DELAY_SECONDS if only_live else 0.0,
            bar_format="{desc}: {n:,} of {total:,} {unit} [{elapsed}<{remaining}{postfix}]",
        )

    def step(self, *, failed: bool = False) -> None:
        """Count one more row."""
        self.n_done += 1
        self.n_failed += failed
        self._update()

    def _update(self) -> None:
        self._refresh(self)
        bar, budget = self._bar, self._budget
        bar.total, bar.desc = max(self.total, self.n_done), escape_invisible(self.name)
        postfix_parts = [f"{self.n_failed:,} failed"] if self.n_failed else []
        if budget is not None and (budget.spent or budget.max_cost):
            limit = f" of {dollars_text(budget.max_cost)}" if budget.max_cost else ""
            postfix_parts.insert(0, f"{dollars_text(budget.spent)}{limit}")
        bar.set_postfix_str(", ".join(postfix_parts), refresh=False)
        bar.update(self.n_done - bar.n)

    def __enter__(self) -> "Progress":
        self._warnings.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._warnings.__exit__(None, None, None)
        self._update()
        self._bar.close()


def dollars_text(dollars: float) -> str:
    """Return an amount in dollars with two decimals, or with four below one cent."""
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def run_command(
    name: str,
    work: Callable[[], int],
    *,
    verbose: bool = False,
    quiet: bool = False,
    interrupted: str = "interrupted",
) -> int:
    """Run a command, and return its exit code; errors that a user can fix are one line on stderr.

    With `verbose`, a traceback comes first. After an interrupt, the message is `interrupted`, and
    the exit code is 128 plus the number of the signal. `quiet` hides progress and notes.
    """
    global _is_quiet
    with _stop_on_signals() as received_signals, verbose_logging(verbose):
        earlier_quiet, _is_quiet = _is_quiet, quiet
        try:
            return work()
        except KeyboardInterrupt as error:
            print_error(f"{name}: {str(error) or interrupted}")
            return 128 + next(iter(received_signals), signal.SIGINT)
        except (JudgesError, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.strerror and error.filename is not None:
                reason = f"{error.filename}: {error.strerror}"
            exit_code: int = getattr(error, "exit_code", FAILED)
            if verbose and exit_code == FAILED:
                print_error("".join(traceback.format_exception(error)).rstrip())
            print_error(f"{name}: {reason}")
            return exit_code
        finally:
            _is_quiet = earlier_quiet


@contextmanager
def _stop_on_signals() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on SIGTERM and SIGHUP, too; a second signal ends the process."""
    received_signals: list[int] = []

    def stop(signal_number: int, frame: FrameType | None) -> None:
        received_signals.append(signal_number)
        for handled_signal in earlier_handlers:
            signal.signal(handled_signal, signal.SIG_DFL)
        raise KeyboardInterrupt

    in_main_thread = threading.current_thread() is threading.main_thread()
    names = ("SIGINT", "SIGTERM", "SIGHUP") if in_main_thread else ()
    # Windows has no SIGHUP. Signals that are ignored, as with nohup, stay ignored.
    signals: list[int] = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in signals}
    earlier_handlers = {n: h for n, h in handlers.items() if h not in (signal.SIG_IGN, None)}
    for signal_number in earlier_handlers:
        signal.signal(signal_number, stop)
    try:
        yield received_signals
    finally:
        for signal_number, handler in earlier_handlers.items():
            signal.signal(signal_number, handler)
