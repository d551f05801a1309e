"""A command's first moments: closed streams, and Ctrl-C while its modules are loaded."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

INTERRUPTED = 130


def open_streams() -> None:
    """Where stdout or stderr is closed (>&-), write to nowhere: Python has no stream there."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


@contextmanager
def loading_time() -> Iterator[None]:
    """Nothing is under way yet, and an import that is interrupted may swallow the interrupt."""
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
