"""The start of a command: where modules are found, closed streams, Ctrl-C during imports."""

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
HOME = Path(__file__).resolve().parents[1]


class _Stream(io.FileIO):
    """A standard stream that drops its text once its reader is gone, so that the work goes on.

    Any other failure of stdout (a full disk) ends the process with one line on stderr and exit 1.
    """

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            # The buffer is dropped, too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError) or self.fileno() == 2:
                return len(data)
            sys.exit(f"dspy-judges: stdout: {error.strerror}")


def open_streams() -> None:
    """Make stdout and stderr outlive their readers, and escape characters beyond their encoding.

    The escapes are JSON's, so that printed JSON stays valid.
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
    """Call MODULE:FUNCTION with the arguments of the command line; returns its exit code.

    0 done, 1 failed or fell short, 2 wrong usage, 3 undecided, 130 interrupted.
    """
    open_streams()
    try:
        here = Path.cwd()
    except FileNotFoundError:
        sys.exit("dspy-judges: the working folder is gone; change to one that exists")
    # `python -m` searches the working folder first: a user's datasets.py would hide the library.
    if Path(sys.path[0]).resolve() == here != HOME and not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))
    # Matrices here are small, and more threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module, _, function = target.partition(":")
    with loading_time():
        for extension in filter(None, os.environ.get(EXTENSIONS, "").split(",")):
            try:
                import_module(extension)
            except ImportError as error:
                sys.exit(f"dspy-judges: {EXTENSIONS}={extension}: {error}")
        command = getattr(import_module(module), function)
    code: int = command(sys.argv[1:] if arguments is None else list(arguments))
    return code


@contextmanager
def loading_time() -> Iterator[None]:
    """End at once on Ctrl-C, since an import may swallow the interrupt and nothing is lost yet."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: object) -> None:
    with suppress(OSError):
        os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
