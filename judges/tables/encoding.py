"""Open text files in the encoding of their bytes."""

import codecs
from pathlib import Path
from typing import TextIO

from dspy_judges import bounds
from dspy_judges.files import open_regular
from judges.tables.problems import Problems, UnreadableError


def open_text(path: Path, problems: Problems) -> TextIO:
    """Open a text file without changing line ends; UnreadableError if its encoding is unknown.

    It is UTF-8, or UTF-16 with a byte order mark.
    """
    problems.unit = "line"
    with open_regular(path) as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return path.open(encoding="utf-16", newline="")
        file.seek(0)
        lines = iter(lambda: file.readline(bounds.MAX_BYTES + 1), b"")
        for number, line in enumerate(lines, 1):
            _check_line(number, line)
    return path.open(encoding="utf-8-sig", newline="")


def _check_line(number: int, line: bytes) -> None:
    """Raise UnreadableError for a line that is too long or no UTF-8."""
    if len(line) > bounds.MAX_BYTES:
        fault = f"the line is longer than {bounds.MAX_BYTES >> 20} MiB"
        advice = "end every row with a line break, or use Parquet"
        raise UnreadableError("too-large", fault, advice, line=number)
    try:
        line.decode()
    except UnicodeDecodeError as error:
        place = line[max(0, error.start - 9) : error.start + 9].decode("cp1252", "replace")
        advice = "save the file as UTF-8"
        raise UnreadableError("not-utf8", "is not UTF-8", advice, place, number) from None
