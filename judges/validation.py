"""The types that files of judges and definitions share, and errors told in one line.

Types are msgspec's: quick to import, since loading a judge must stay cheap, and strict.
"""

from typing import Annotated

from msgspec import Meta

from dspy_judges.errors import JudgesError

MAX_MESSAGE_LENGTH = 500
# What names of judges and texts look like, and the numbers that may be ratings.
Word = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")]
Text = Annotated[str, Meta(max_length=20_000, pattern=r"\S")]
Rating = Annotated[int, Meta(ge=-1000, le=1000)]


class InvalidDataError(JudgesError, ValueError):
    """A value that is not what belongs there."""


def shortened(message: object) -> str:
    """A message that quotes a file, on one line and cut where the file made it long."""
    text = " ".join(str(message).split())
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 3]}..."
