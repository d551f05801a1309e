"""One shell for every command: results on stdout, one line on stderr for what fails, exit codes."""

import errno
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from textwrap import TextWrapper

from judges.errors import JudgesError
from judges.inference.progress import quiet_notes, trace_of, visible, write_line, write_note
from judges.models.redaction import Redactor

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
