"""Bytes to lines: hashed, decoded as UTF-8 and bounded, whatever a file holds."""

import codecs
import errno
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from data.errors import DataError
from data.problems import Problems

# No label file has such a line; a file without line ends must not fill the memory.
LONGEST_LINE = 64 * 2**20
LONGEST_FILE = 256 * 2**20  # of those read whole
MOST_BRACKETS = 200_000
_OTHER_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file, which alone is read", str(path))
    return path.open("rb")


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its number from 1; LineError where one is longer than any row is."""
    with open_regular(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if len(raw) > LONGEST_LINE:
                what = f"longer than {LONGEST_LINE // 2**20} MiB; end every row with a line break"
                raise LineError(f"{path}, line {number}: {what}")
            if is_mostly_brackets(raw):
                raise LineError(f"{path}, line {number}: more brackets than any row has")
            yield number, raw


def read_json_file(path: Path) -> Any:
    """A regular file's one JSON value; raises OSError, or ValueError where it holds none."""
    with open_regular(path) as file:
        raw = file.read(LONGEST_FILE + 1)
    if len(raw) > LONGEST_FILE:
        raise ValueError(f"longer than {LONGEST_FILE // 2**20} MiB")
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def is_mostly_brackets(raw: bytes | str) -> bool:
    """Whether JSON would take dozens of times its own size in memory."""
    if len(raw) <= MOST_BRACKETS:
        return False
    openings: list[Any] = ["[", "{"] if isinstance(raw, str) else [b"[", b"{"]
    return sum(raw.count(opening) for opening in openings) > max(MOST_BRACKETS, len(raw) // 20)


class LineError(DataError, ValueError):
    """A line that no row has; the message names file, line and the way out."""


class Line(NamedTuple):
    """A line with its end, and its number from 1."""

    number: int
    text: str


class LineFile:
    """A text file's lines; `sha256` is known once they are read."""

    def __init__(self, path: Path, problems: Problems) -> None:
        self._path, self._problems = path, problems
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def __iter__(self) -> Iterator[Line]:
        with self._path.open("rb") as file:
            for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
                self._hash.update(raw)
                if len(raw) > LONGEST_LINE:
                    self._too_long(number)
                    return
                text = self._decode(raw, number)
                if text is None:
                    return
                yield Line(number, text)

    def _decode(self, raw: bytes, number: int) -> str | None:
        if number == 1:
            raw = raw.removeprefix(codecs.BOM_UTF8)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self._problems.add(
                "not-utf8",
                f"at byte {error.start + 1} of the line is not UTF-8",
                "save the file as UTF-8",
                line=number,
                value=raw[error.start : error.start + 4],
            )
        # UTF-16 shows in the first line, and every other would only say the same.
        if number == 1 and raw.startswith(_OTHER_BOMS):
            return None
        return raw.decode("utf-8", errors="replace")

    def _too_long(self, number: int) -> None:
        self._problems.add(
            "too-long",
            f"the line is longer than {LONGEST_LINE // 2**20} MiB",
            "end every row with a line break, or use Parquet",
            line=number,
        )
