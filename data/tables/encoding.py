"""Text files opened in the encoding that their bytes tell, with a note where it is not UTF-8."""

import codecs
import errno
import re
from pathlib import Path
from typing import BinaryIO, TextIO

from data.tables.problems import Problems, UnreadableError, excerpt

# The most that is held in memory at once: one line, a JSON file, what a workbook unpacks to.
MAX_BYTES = 256 * 2**20
_WESTERN = "cp1252"
_SAMPLE = 2**20
# What Western text in Windows-1252 hardly has: letters of other alphabets in a row, broken UTF-8,
# and symbols within words, where Macintosh and DOS have their accented letters.
_NOT_WESTERN = re.compile(
    rb"[\x80-\xff]{4,}|[\xc2-\xf4][\x80-\x84\x86-\x90\x98-\x9f\xa1-\xba\xbc-\xbf]"
    rb"|(?<=[a-z])[\x83\x88\x8a\x8c\x8e\x9f]"
    rb"|(?<=[A-Za-z])[\x80-\x91\x93-\x95\x98\x99\x9b\xa0-\xa4](?=[a-z])"
)


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.open("rb")


def open_text(path: Path, problems: Problems, *, western: bool) -> TextIO:
    """Open a text file, line ends untouched; UnreadableError where it is no text known here.

    UTF-16 is known by its mark. `western`: what is not UTF-8 may be Windows-1252, as spreadsheets
    save it.
    """
    with open_regular(path) as file:
        head = file.read(2)
        if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16"
            problems.notes.append("read as UTF-16")
        else:
            file.seek(0)
            encoding = _eight_bit_encoding(file, problems, western)
    return path.open(encoding=encoding, newline="")


def _eight_bit_encoding(file: BinaryIO, problems: Problems, western: bool) -> str:
    """UTF-8 if every line is, else perhaps Windows-1252."""
    lines = iter(lambda: file.readline(MAX_BYTES + 1), b"")
    for number, line in enumerate(lines, 1):
        if len(line) > MAX_BYTES:
            fault = f"the line is longer than {MAX_BYTES // 2**20} MiB"
            advice = "end every row with a line break, or use Parquet"
            raise UnreadableError("too-long", fault, advice, line=number)
        try:
            # What begins in UTF-8 and goes on in another encoding is damaged.
            western = line.decode().isascii() and western
        except UnicodeDecodeError as error:
            if not (western and _is_western(line + file.read(_SAMPLE))):
                fault = f"byte {error.start + 1} of the line ({line[error.start]:02X} in "
                fault += "hexadecimal) is not UTF-8"
                advice = "save the file as UTF-8"
                raise UnreadableError("not-utf8", fault, advice, line=number) from None
            place = excerpt(line[max(0, error.start - 9) : error.start + 9].decode(_WESTERN))
            note = f"read as Windows-1252, since it is not UTF-8 ({place} on line {number})"
            problems.notes.append(f"{note}; if that is wrong, save the file as UTF-8")
            return _WESTERN
    return "utf-8-sig"


def _is_western(sample: bytes) -> bool:
    """Whether bytes that are not UTF-8 are Western text, as far as bytes can tell."""
    try:
        sample.decode(_WESTERN)
    except UnicodeDecodeError:
        return False
    n_high = sum(byte >= 0x80 for byte in sample)
    n_odd = sum(map(len, _NOT_WESTERN.findall(sample)))
    return b"\0" not in sample and 5 * n_odd <= n_high
