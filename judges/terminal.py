"""What commands print: results, errors, notes and progress lines; and their exit codes."""

import logging
import re
import shutil
import signal
import sys
import textwrap
import threading
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TextIO

from dspy_judges.errors import JudgesError
from judges.client import Redactor

if TYPE_CHECKING:
    from judges.client import Budget
    from judges.judgement import AnyJudgement

DONE_EXIT_CODE, FAILED_EXIT_CODE = 0, 1
LINE_WIDTH = 80
PROGRESS_DELAY_SECONDS = 2.0  # seconds before a progress line appears in a terminal or notebook
# Control characters, direction marks and lone surrogates.
INVISIBLE_PATTERN = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\ud800-\udfff]"
)

_logger = logging.getLogger("judges")
_is_quiet = False


def escape_invisible(text: str) -> str:
    """Escape control characters, since a text with them could control the terminal."""
    return INVISIBLE_PATTERN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def wrap_lines(*texts: str, title: str = "") -> list[str]:
    """Wrap each text to lines of 80 columns, beside a title; a longer word gets its own line."""
    wrapper = textwrap.TextWrapper(
        LINE_WIDTH,
        initial_indent=title,
        subsequent_indent=" " * len(title),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line for text in texts for line in wrapper.wrap(text)]


def print_output(*lines: str) -> None:
    print(escape_invisible("\n".join(lines)))


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


def print_notes(notes: Iterable[str]) -> None:
    for note in notes:
        print_note(f"note: {note}")


class _StderrHandler(logging.StreamHandler[TextIO]):
    # The handler prints to the stderr that it began with: DSPy's optimizers replace `sys.stderr`.
    def emit(self, record: logging.LogRecord) -> None:
        line = textwrap.shorten(record.getMessage(), 400, placeholder=" ...")
        print_error(line, self.stream)


@contextmanager
def verbose_logging(is_verbose: bool, log_level: int = logging.INFO) -> Iterator[None]:
    """Print log records in this context, if `is_verbose` is true and no outer context does so."""
    if not is_verbose or any(isinstance(handler, _StderrHandler) for handler in _logger.handlers):
        yield
        return
    handler, earlier_level = _StderrHandler(), _logger.level
    handler.setLevel(log_level)
    _logger.addHandler(handler)
    _logger.setLevel(log_level)
    try:
        yield
    finally:
        _logger.removeHandler(handler)
        _logger.setLevel(earlier_level)


class Progress:
    """A progress line with the dollars spent of a `budget`; no line if `stream` is None.

    If the total number is not known, `n_total` is 0, and the line shows how many are done. The
    function `refresh` may change the line's title and counts before each update. If
    `interactive_only` is true, the line appears only in a terminal or a notebook, after a delay.
    """

    def __init__(
        self,
        title: str,
        n_total: int,
        stream: TextIO | None,
        *,
        unit: str = "rows",
        budget: "Budget | None" = None,
        refresh: "Callable[[Progress], None]" = lambda progress: None,
        interactive_only: bool = False,
    ) -> None:
        from tqdm import tqdm  # imported late, since a help text does not need it

        self.title, self.n_total = title, n_total
        self.n_done = self.n_failed = 0
        self._budget, self._refresh = budget, refresh
        # Without a log handler, warnings would be printed into the progress line.
        self._warnings = verbose_logging(not _logger.hasHandlers(), logging.WARNING)
        is_notebook = type(stream).__module__.startswith("ipykernel.")
        is_interactive = stream is not None and (stream.isatty() or is_notebook)
        total_format = "{desc}: {n:,} of {total:,} {unit} [{elapsed}<{remaining}{postfix}]"
        self._bar = tqdm(
            desc=escape_invisible(title),
            total=n_total,
            file=stream,
            disable=_is_quiet or stream is None or (interactive_only and not is_interactive),
            ncols=shutil.get_terminal_size().columns - 1,
            unit=unit,
            # Seconds between two updates; outside a terminal each update is a new line.
            mininterval=0.25 if is_interactive else 30.0,
            miniters=1,
            delay=PROGRESS_DELAY_SECONDS if interactive_only else 0.0,
            bar_format=total_format if n_total else "{desc}: {n:,} {unit} [{elapsed}{postfix}]",
        )

    def step(self, *, failed: bool = False) -> None:
        self.n_done += 1
        self.n_failed += failed
        self._update()

    def track(self, judgements: Iterable["AnyJudgement"]) -> Iterator["AnyJudgement"]:
        """Yield the judgements, and count each one that was made and each one that failed."""
        for judgement in judgements:
            self.step(failed=judgement.failure is not None)
            yield judgement

    def _update(self) -> None:
        self._refresh(self)
        bar, budget, bar_notes = self._bar, self._budget, []
        bar.total, bar.desc = max(self.n_total, self.n_done), escape_invisible(self.title)
        if budget is not None and (budget.spent or budget.max_cost):
            limit_text = f" of {dollars_text(budget.max_cost)}" if budget.max_cost else ""
            bar_notes.append(dollars_text(budget.spent) + limit_text)
        if self.n_failed:
            bar_notes.append(f"{self.n_failed:,} failed")
        bar.set_postfix_str(", ".join(bar_notes), refresh=False)
        bar.update(self.n_done - bar.n)

    def __enter__(self) -> "Progress":
        self._warnings.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._warnings.__exit__(None, None, None)
        self._update()
        self._bar.close()


def dollars_text(dollars: float) -> str:
    """Return an amount in dollars with two decimals; amounts below one cent have four."""
    return f"${dollars:,.2f}" if dollars >= 0.01 or not dollars else f"${dollars:.4f}"


def run_command(
    command_name: str,
    command: Callable[[Namespace], int],
    flags: Namespace,
    *,
    interrupt_message: str = "interrupted",
) -> int:
    """Run a command, and return its exit code; an error that a user can fix is one line on stderr.

    With --verbose, the traceback is printed, too; with --quiet, progress and notes are hidden. An
    interrupted command prints `interrupt_message`; its exit code is 128 plus the signal's number.
    """
    global _is_quiet
    verbose, quiet = getattr(flags, "verbose", False), getattr(flags, "quiet", False)
    with _stop_on_signals() as received_signals, verbose_logging(verbose):
        was_quiet, _is_quiet = _is_quiet, quiet
        try:
            return command(flags)
        except KeyboardInterrupt as error:
            print_error(f"{command_name}: {str(error) or interrupt_message}")
            return 128 + next(iter(received_signals), signal.SIGINT)
        except (JudgesError, OSError) as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, OSError) and error.strerror and error.filename is not None:
                reason = f"{error.filename}: {error.strerror}"
            exit_code: int = getattr(error, "exit_code", FAILED_EXIT_CODE)
            if verbose and exit_code == FAILED_EXIT_CODE:
                print_error("".join(traceback.format_exception(error)).rstrip())
            print_error(f"{command_name}: {reason}")
            return exit_code
        finally:
            _is_quiet = was_quiet


@contextmanager
def _stop_on_signals() -> Iterator[list[int]]:
    """Raise KeyboardInterrupt on SIGINT, SIGTERM and SIGHUP; a second signal ends the process."""
    received_signals: list[int] = []
    earlier_handlers: dict[int, Any] = {}

    def interrupt(signal_number: int, frame: FrameType | None) -> None:
        received_signals.append(signal_number)
        for handled_signal in earlier_handlers:
            signal.signal(handled_signal, signal.SIG_DFL)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        sighup = getattr(signal, "SIGHUP", signal.SIGTERM)  # Windows has no SIGHUP
        for signal_number in {signal.SIGINT, signal.SIGTERM, sighup}:
            handler = signal.getsignal(signal_number)
            if handler not in (signal.SIG_IGN, None):  # nohup ignores SIGHUP, which stays ignored
                earlier_handlers[signal_number] = handler
                signal.signal(signal_number, interrupt)
    try:
        yield received_signals
    finally:
        for signal_number, handler in earlier_handlers.items():
            signal.signal(signal_number, handler)
