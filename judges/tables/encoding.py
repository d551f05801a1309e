"""Opens text files in the encoding that their bytes show."""

import codecs
import re
from pathlib import Path
from typing import BinaryIO, TextIO

from dspy_judges import bounds
from dspy_judges.files import open_regular
from judges.tables.problems import Problems, UnreadableError, excerpt

_WESTERN = "cp1252"
_SAMPLE = 2**20
# Bytes that are unlikely in Windows-1252: several non-ASCII letters in a row, or bytes that are
# letters in Macintosh and DOS encodings, inside words.
_NOT_WESTERN = re.compile(
    rb"\0|[\x80-\xff]{4,}"
    rb"|((?<=[A-Za-z])[\x80-\x91\x93-\x95\x98\x99\x9b]|[\x83\x86-\x88])(?=[a-z])"
)


def open_text(path: Path, problems: Problems, *, may_be_western: bool) -> TextIO:
    """Open a text file, and keep its line ends.

    A byte order mark shows UTF-16; other files are UTF-8. With `may_be_western`, a file that is
    not UTF-8 is read as Windows-1252, as spreadsheets save it, if its bytes make that likely.
    Raises UnreadableError for any other encoding.
    """
    problems.unit = "line"
    with open_regular(path) as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
        else:
            file.seek(0)
            encoding = _eight_bit_encoding(file, problems, may_be_western)
    return path.open(encoding=encoding, newline="")


def _eight_bit_encoding(file: BinaryIO, problems: Problems, may_be_western: bool) -> str:
    """Return UTF-8 if every line is valid, else Windows-1252 with a note; or UnreadableError."""
    lines = iter(lambda: file.readline(bounds.MAX_BYTES + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > bounds.MAX_BYTES:
            fault = f"the line is longer than {bounds.MAX_BYTES >> 20} MiB"
            advice = "end every row with a line break, or use Parquet"
            raise UnreadableError("too-large", fault, advice, line=number)
        try:
            # If a line before has non-ASCII UTF-8, invalid bytes mean that the file is damaged.
            may_be_western = line.decode().isascii() and may_be_western
        except UnicodeDecodeError as error:
            sample = line + file.read(_SAMPLE)
            place = line[max(0, error.start - 9) : error.start + 9].decode(_WESTERN, "replace")
            if not may_be_western or _NOT_WESTERN.search(sample):
                raise UnreadableError(
                    "not-utf8", "is not UTF-8", "save the file as UTF-8", place, number
                ) from None
            note = f"read as Windows-1252, since it is not UTF-8 ({excerpt(place)} on line {number}"
            problems.notes.append(f"{note}); if that is wrong, save the file as UTF-8")
            return _WESTERN
    return "utf-8-sig"
