"""--verbose: each retry, failure and rate limit of a run's requests, a line on stderr.

From Python, the same lines are records of the logger `judges`, at the level INFO.
"""

import logging
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from judges.models.secrets import Secrets

LONGEST = 400


class _Lines(logging.Handler):
    """One short line a record, above the progress line where there is one."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._secrets = Secrets()
        # As it is now: DSPy's optimizers are run with theirs turned away.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        said = self._secrets.blot(" ".join(record.getMessage().split()))
        said = said if len(said) <= LONGEST else f"{said[: LONGEST - 3]}..."
        start = "\r\x1b[2K" if self._stream.isatty() else ""
        self._stream.write(f"{start}{time.strftime('%H:%M:%S')} {said}\n")
        self._stream.flush()


@contextmanager
def telling(wanted: bool = True) -> Iterator[None]:
    """Show them while the block runs, if wanted."""
    if not wanted:
        yield
        return
    logger, lines = logging.getLogger("judges"), _Lines()
    level, spread = logger.level, logger.propagate
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(lines)
        logger.setLevel(level)
        logger.propagate = spread


def trace_of(error: BaseException) -> str:
    """Where an error arose, fit to be shown."""
    return Secrets().blot("".join(traceback.format_exception(error)))
