"""Open text files in the encoding that is detected from their bytes."""

import codecs
import re
from pathlib import Path
from typing import BinaryIO, TextIO

from dspy_judges import bounds
from dspy_judges.files import open_regular
from judges.tables.problems import Problems, UnreadableError, excerpt

_WINDOWS_1252 = "cp1252"  # Python's name for Windows-1252
# The number of bytes that are searched for signs of another encoding.
_SAMPLE_BYTES = 2**20
# Matches bytes that are unlikely in Windows-1252: zero bytes, four or more non-ASCII bytes in a
# row, and, within words, bytes that are letters only in Macintosh and DOS encodings.
_UNLIKELY_IN_WINDOWS_1252 = re.compile(
    rb"\0|[\x80-\xff]{4,}"
    rb"|((?<=[A-Za-z])[\x80-\x91\x93-\x95\x98\x99\x9b]|[\x83\x86-\x88])(?=[a-z])"
)


def open_text(path: Path, problems: Problems, *, may_be_windows_1252: bool) -> TextIO:
    """Open a text file in its encoding, without translating line breaks.

    The encoding is UTF-16 if the file begins with its byte order mark, else UTF-8. If the file is
    not UTF-8 and `may_be_windows_1252` is true, the encoding is Windows-1252, which spreadsheets
    write, unless the bytes make that unlikely. Raises UnreadableError for any other encoding.
    """
    problems.unit = "line"
    with open_regular(path) as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
        else:
            file.seek(0)
            encoding = _utf8_or_windows_1252(file, problems, may_be_windows_1252)
    return path.open(encoding=encoding, newline="")


def _utf8_or_windows_1252(file: BinaryIO, problems: Problems, may_be_windows_1252: bool) -> str:
    """Return the encoding: UTF-8 if all lines are valid UTF-8, else Windows-1252, with a note.

    Raises UnreadableError if a line is too long, or if the encoding is probably neither of these.
    """
    lines = iter(lambda: file.readline(bounds.MAX_BYTES + 1), b"")
    for line_number, line in enumerate(lines, 1):
        if len(line) > bounds.MAX_BYTES:
            fault = f"the line is longer than {bounds.MAX_BYTES >> 20} MiB"
            advice = "end every row with a line break, or use Parquet"
            raise UnreadableError("too-large", fault, advice, line=line_number)
        try:
            # Once a line has valid non-ASCII UTF-8, the file cannot be Windows-1252: invalid bytes
            # in a later line are damage.
            may_be_windows_1252 = line.decode().isascii() and may_be_windows_1252
        except UnicodeDecodeError as error:
            sample = line + file.read(_SAMPLE_BYTES)
            context = line[max(0, error.start - 9) : error.start + 9].decode(
                _WINDOWS_1252, "replace"
            )
            if not may_be_windows_1252 or _UNLIKELY_IN_WINDOWS_1252.search(sample):
                raise UnreadableError(
                    "not-utf8", "is not UTF-8", "save the file as UTF-8", context, line_number
                ) from None
            location = f"{excerpt(context)} on line {line_number}"
            problems.notes.append(
                f"read as Windows-1252, since it is not UTF-8 ({location}); if that is wrong, save "
                "the file as UTF-8"
            )
            return _WINDOWS_1252
    return "utf-8-sig"
