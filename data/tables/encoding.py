"""In which encoding a text file is: told by its bytes, and noted where it is not UTF-8."""

import codecs
import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from data.tables.problems import Problems, excerpt

UTF8 = "utf-8"
WESTERN = "cp1252"
# Longer marks first: UTF-32's little-endian one begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_CHUNK = 2**20
_HEAD = 4096
_HIGH = re.compile(rb"[\x80-\xff]")
_UTF8_SEQUENCE = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
# Between two letters Windows-1252 has accented letters and apostrophes; the old code pages of
# Macintosh and DOS have their accented letters where it has symbols.
_ACCENTED = re.compile(rb"(?<=[A-Za-z])[\xc0-\xff](?=[a-z])")
_SYMBOL_IN_WORD = re.compile(
    rb"(?<=[A-Za-z])[\x80\x82-\x84\x86-\x8b\x8e\x95\x98-\x9b\x9e-\xa1\xa4](?=[a-z])"
    # After a small letter there are no capitals, nor a florin sign or a circumflex alone.
    rb"|(?<=[a-z])[\x83\x88\x8a\x8e\x9f](?![a-z])"
)
# Western words have one or two accented letters in a row; other alphabets' have nothing else.
_FOREIGN_WORD = re.compile(rb"[\x80-\xff]{3,}")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]*[\xc0-\xff][A-Za-z\x80-\xff]*")


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.open("rb")


def find_encoding(path: Path, problems: Problems, *, legacy: bool) -> str:
    """The encoding's name for Python, with a note where it is not UTF-8.

    UTF-16 and UTF-32 are known by their marks, UTF-16 also by its zeros. `legacy`: what is not
    UTF-8 may be Windows-1252, as spreadsheets save it; what is neither stays UTF-8, and reading
    its lines says where it is not.
    """
    with open_regular(path) as file:
        head = file.read(_HEAD)
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    encoding = encoding or _unmarked_utf16(head)
    if encoding is not None:
        problems.notes.append(f"read as {encoding.upper()}")
        return encoding
    if not legacy or _is_utf8(path):
        return UTF8
    raw = path.read_bytes()
    if not _is_western(raw):
        return UTF8
    sample = _WORD.search(raw) or _HIGH.search(raw)
    assert sample is not None
    line = 1 + raw.count(b"\n", 0, sample.start())
    word = excerpt(sample[0].decode(WESTERN))
    problems.notes.append(
        f"read as Windows-1252, since it is not UTF-8 ({word} on line {line}); if that is wrong, "
        "save the file as UTF-8"
    )
    return WESTERN


def _unmarked_utf16(head: bytes) -> str | None:
    """UTF-16 without a mark: in a header's first names every other byte is zero."""
    zeros = [byte == 0 for byte in head[:8]]
    if zeros == [False, True] * 4:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False] * 4 else None


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from iter(lambda: file.read(_CHUNK), b"")


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder(UTF8)()
    try:
        for chunk in _chunks(path):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _is_western(raw: bytes) -> bool:
    """Whether bytes that are not UTF-8 are text in Windows-1252, as far as bytes can tell."""
    try:
        raw.decode(WESTERN)
    except UnicodeDecodeError:
        return False
    # The last is a letter of few words, and of many files that are no text.
    if b"\0" in raw or b"\xff" in raw:
        return False
    n_high = len(_HIGH.findall(raw))
    # A file of UTF-8 with a few broken characters is neither.
    if 10 * sum(map(len, _UTF8_SEQUENCE.findall(raw))) > n_high:
        return False
    if 5 * sum(map(len, _FOREIGN_WORD.findall(raw))) > n_high:
        return False
    return len(_SYMBOL_IN_WORD.findall(raw)) <= len(_ACCENTED.findall(raw))
