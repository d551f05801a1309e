"""Start a command: set the module search path, guard stdout and stderr, and handle Ctrl-C."""

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

INTERRUPTED_EXIT_CODE = 130
# The environment variable that lists the modules a command imports first, separated by commas.
EXTENSIONS_VARIABLE = "DSPY_JUDGES_EXTENSIONS"
PROJECT_FOLDER = Path(__file__).resolve().parents[1]


class _OutputStream(io.FileIO):
    """A standard stream that discards text once its reader has ended; a full disk is an error."""

    def write(self, text_bytes: Any, /) -> int:
        try:
            return super().write(text_bytes)
        except OSError as error:
            # From now on, all text goes to the null device, including the buffered text.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError) or self.fileno() == 2:
                return len(text_bytes)
            sys.exit(f"dspy-judges: stdout: {error.strerror}")


def wrap_output_streams() -> None:
    """Let a command go on after a program that reads its output, such as `head`, has ended.

    Characters that the output's encoding lacks are written as escapes of Python.
    """
    for stream_name in ("stdout", "stderr"):
        stream = getattr(sys, stream_name)
        if stream is None:  # closed by the caller (>&-)
            setattr(sys, stream_name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif stream is getattr(sys, f"__{stream_name}__"):
            stream.flush()
            binary_stream = io.BufferedWriter(_OutputStream(stream.fileno(), "w", closefd=False))
            text_options: Any = {"errors": "backslashreplace", "line_buffering": True}
            text_stream = io.TextIOWrapper(binary_stream, stream.encoding, **text_options)
            setattr(sys, stream_name, text_stream)


def run(function_path: str, arguments: Sequence[str] | None = None) -> int:
    """Call a command's function, written MODULE:FUNCTION, and return the exit code.

    The exit code is 0 for done, 1 for failed or below a required value, 2 for wrong usage, 3 for
    undecided, and 130 for interrupted. By default, `arguments` are those of the process. A module
    that `python -m` starts calls this function before it imports libraries: from then on, a file in
    the working folder cannot hide a library.
    """
    wrap_output_streams()
    try:
        working_folder = Path.cwd()
    except FileNotFoundError:
        sys.exit("dspy-judges: the working folder is gone; change to one that exists")
    # `python -m` searches the working folder first, where a user's datasets.py would hide the
    # library of that name. So the working folder is moved to the end of `sys.path`.
    is_searched_first = Path(sys.path[0]).resolve() == working_folder
    if is_searched_first and working_folder != PROJECT_FOLDER and not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))
    # The project's matrices are so small that several threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module_name, _, function_name = function_path.partition(":")
    with exit_on_ctrl_c():
        extension_names = os.environ.get(EXTENSIONS_VARIABLE, "").split(",")
        for extension in filter(None, map(str.strip, extension_names)):
            try:
                import_module(extension)
            except (ImportError, ValueError) as error:
                sys.exit(f"dspy-judges: {EXTENSIONS_VARIABLE}={extension}: {error}")
        run_command = getattr(import_module(module_name), function_name)
    exit_code: int = run_command(sys.argv[1:] if arguments is None else list(arguments))
    return exit_code


@contextmanager
def exit_on_ctrl_c() -> Iterator[None]:
    """End the process at once on Ctrl-C: an import could swallow the KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier_handler = signal.signal(signal.SIGINT, _exit_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier_handler)


def _exit_at_once(signal_number: int, frame: object) -> None:
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED_EXIT_CODE)
