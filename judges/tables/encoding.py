"""Open text files in the encoding that is detected from their bytes."""

import codecs
import re
from pathlib import Path
from typing import BinaryIO, TextIO

from dspy_judges import bounds
from dspy_judges.files import open_regular
from judges.tables.problems import Problems, UnreadableError, excerpt

_WINDOWS_1252 = "cp1252"  # Python's name for Windows-1252
# The number of bytes that are searched for signs that a file is not in Windows-1252.
_N_SAMPLE_BYTES = 2**20
# Matches bytes that are unlikely in Windows-1252: zero bytes, four or more non-ASCII bytes in a
# row, and, within words, bytes that are letters only in Macintosh and DOS encodings.
_UNLIKELY_IN_WINDOWS_1252 = re.compile(
    rb"\0|[\x80-\xff]{4,}"
    rb"|((?<=[A-Za-z])[\x80-\x91\x93-\x95\x98\x99\x9b]|[\x83\x86-\x88])(?=[a-z])"
)


def open_text(path: Path, problems: Problems, *, may_be_windows_1252: bool) -> TextIO:
    """Open a text file in UTF-16, UTF-8 or Windows-1252, without translating line breaks."""
    problems.unit = "line"
    with open_regular(path) as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
        else:
            file.seek(0)
            encoding = _detect_encoding(file, problems, may_be_windows_1252)
    return path.open(encoding=encoding, newline="")


def _detect_encoding(file: BinaryIO, problems: Problems, may_be_windows_1252: bool) -> str:
    """Return UTF-8 if all lines are valid UTF-8; else add a note, and return Windows-1252."""
    lines = iter(lambda: file.readline(bounds.MAX_BYTES + 1), b"")
    for line_number, line in enumerate(lines, 1):
        if len(line) > bounds.MAX_BYTES:
            fault = f"the line is longer than {bounds.MAX_BYTES >> 20} MiB"
            advice = "end every row with a line break, or use Parquet"
            raise UnreadableError("too-large", fault, advice, line=line_number)
        try:
            # A file with valid non-ASCII UTF-8 in one line is not in Windows-1252. If a later line
            # has invalid bytes, the file is damaged.
            may_be_windows_1252 = line.decode().isascii() and may_be_windows_1252
        except UnicodeDecodeError as error:
            sample_bytes = line + file.read(_N_SAMPLE_BYTES)
            bad_bytes = line[max(0, error.start - 9) : error.start + 9]
            bad_text = bad_bytes.decode(_WINDOWS_1252, "replace")
            if not may_be_windows_1252 or _UNLIKELY_IN_WINDOWS_1252.search(sample_bytes):
                raise UnreadableError(
                    "not-utf8", "is not UTF-8", "save the file as UTF-8", bad_text, line_number
                ) from None
            problems.notes.append(
                f"read as Windows-1252, since it is not UTF-8 ({excerpt(bad_text)} on line "
                f"{line_number}); if that is wrong, save the file as UTF-8"
            )
            return _WINDOWS_1252
    return "utf-8-sig"
