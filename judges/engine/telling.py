"""--verbose: each retry, failure and rate limit of a run's requests, a line on stderr.

From Python, the same lines are records of the logger `judges`, at the level INFO.
"""

import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from judges.models.secrets import Secrets

LONGEST = 400
_UNSEEN = re.compile(
    r"\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class _Lines(logging.Handler):
    """One short line a record, above the progress line where there is one."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._secrets = Secrets()
        # As it is now: DSPy's optimizers are run with theirs turned away.
        self._stream = sys.stderr

    def emit(self, record: logging.LogRecord) -> None:
        said = visible(self._secrets.blot(" ".join(record.getMessage().split())))
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


def visible(text: str) -> str:
    """The text with what would move a terminal's cursor or turn its letters round, written out.

    Judges, labels and replies may be a stranger's: their escapes are shown and not sent.
    """
    return _UNSEEN.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def trace_of(error: BaseException) -> str:
    """Where an error arose, fit to be shown."""
    return visible(Secrets().blot("".join(traceback.format_exception(error))))
