"""A command's first moments: where modules are found, closed streams, Ctrl-C during imports."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

INTERRUPTED = 130
HOME = Path(__file__).resolve().parents[1]


def run(target: str, words: Sequence[str] | None = None) -> int:
    """The exit code of MODULE:FUNCTION, called with the command line's words.

    0 done, 1 failed or fell short, 2 wrong usage, 3 undecided, 130 interrupted.
    """
    # `python -m` searches the working folder first: a user's datasets.py would hide the library.
    first = Path(sys.path[0] or ".").resolve()
    if first == Path.cwd() and first != HOME and not sys.flags.safe_path:
        sys.path.append(sys.path.pop(0))
    for name in ("stdout", "stderr"):
        # Closed by the caller (>&-): Python has no stream there.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    # Matrices here are small: more threads would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    module, _, function = target.partition(":")
    with loading_time():
        command = getattr(import_module(module), function)
    code: int = command(sys.argv[1:] if words is None else list(words))
    return code


@contextmanager
def loading_time() -> Iterator[None]:
    """End at once on Ctrl-C: nothing is under way yet, and an import may swallow the interrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _end(number: int, frame: object) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)
