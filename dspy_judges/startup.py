"""Start a command: set the module search path, guard stdout and stderr, and handle Ctrl-C."""

import codecs
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

INTERRUPTED = 130
# The environment variable with modules that a command imports first, separated by commas.
EXTENSIONS = "DSPY_JUDGES_EXTENSIONS"
PROJECT_FOLDER = Path(__file__).resolve().parents[1]


class _Stream(io.FileIO):
    """A standard stream that drops its text once its reader is gone, so that the command goes on.

    Any other failure of stdout, such as a full disk, ends the process with one line on stderr and
    exit code 1.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # From here on, everything goes to the null device, the buffered text included.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError) or self.fileno() == 2:
                return len(data)
            sys.exit(f"dspy-judges: stdout: {error.strerror}")


def open_streams() -> None:
    """Let a command go on after the reader of stdout or stderr has gone.

    Characters that the stream's encoding lacks are written as JSON escapes, so that printed JSON
    stays valid.
    """
    codecs.register_error("json", lambda e: (json.dumps(e.object[e.start : e.end])[1:-1], e.end))  # type: ignore[attr-defined]
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller (>&-)
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
        elif stream is getattr(sys, f"__{name}__"):
            stream.flush()
            raw = io.BufferedWriter(_Stream(stream.fileno(), "w", closefd=False))
            options = {"encoding": stream.encoding, "errors": "json", "line_buffering": True}
            setattr(sys, name, io.TextIOWrapper(raw, **options))


def run(target: str, arguments: Sequence[str] | None = None) -> int:
    """Call `target`, a MODULE:FUNCTION, with command-line arguments, and return its exit code.

    The codes are 0 done, 1 failed or below a required value, 2 wrong usage, 3 undecided, and 130
    interrupted. `arguments` are by default those of this process.
    """
    open_streams()
    try:
        working_folder = Path.cwd()
    except FileNotFoundError:
        sys.exit("dspy-judges: the working folder is gone; change to one that exists")
    # `python -m` searches the working folder first, where a user's datasets.py would hide the
    # library of that name. So the working folder is moved to the end.
    is_first = Path(sys.path[0]).resolve() == working_folder
    if is_first and working_folder != PROJECT_FOLDER and not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))
    # All matrices are small, so that several threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module, _, function = target.partition(":")
    with exit_on_ctrl_c():
        for extension in filter(None, os.environ.get(EXTENSIONS, "").split(",")):
            try:
                import_module(extension)
            except ImportError as error:
                sys.exit(f"dspy-judges: {EXTENSIONS}={extension}: {error}")
        command = getattr(import_module(module), function)
    code: int = command(sys.argv[1:] if arguments is None else list(arguments))
    return code


@contextmanager
def exit_on_ctrl_c() -> Iterator[None]:
    """Within this context, Ctrl-C ends the process at once.

    An import may swallow a KeyboardInterrupt, and before the command runs nothing can be lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier_handler = signal.signal(signal.SIGINT, _exit_at_once)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier_handler)


def _exit_at_once(number: int, frame: object) -> None:
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
