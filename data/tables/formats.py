"""Rows of JSON Lines, JSON, CSV and TSV files, read strictly, each with the line it starts on."""

import codecs
import csv
import errno
import json
from collections.abc import Iterable, Iterator
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from data.tables.problems import Problems

# No table has such a line; a file without line ends must not fill the memory.
LONGEST_LINE = 64 * 2**20
# Of a JSON array, which is read whole, and of any other JSON file.
MOST_CHARACTERS = 512 * 2**20
LONGEST_FILE = 256 * 2**20
MOST_BRACKETS = 200_000

_OTHER_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_ONE_LINE = "write one JSON object a line"
_QUOTES = "quote fields that hold separators or line breaks, and double the quotes inside"


Row = dict[str, object]


class TableRow(NamedTuple):
    """One row and the line it starts on (its number, in a file without lines); both from 1."""

    line: int
    cells: Row


class Line(NamedTuple):
    """A line with its end, and its number from 1."""

    number: int
    text: str


class Digest(Protocol):
    """A hash of the bytes read so far, as `hashlib` has them."""

    def update(self, block: bytes, /) -> None: ...


def open_regular(path: Path) -> BinaryIO:
    """Open a file; OSError for pipes and devices, too, which may never end."""
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "no regular file, which alone is read", str(path))
    return path.open("rb")


def read_lines(path: Path, problems: Problems, digest: Digest | None = None) -> Iterator[Line]:
    """Yield each line of a UTF-8 file; what is no line of a table goes to `problems`."""
    with open_regular(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(LONGEST_LINE + 1), b""), 1):
            if digest is not None:
                digest.update(raw)
            if len(raw) > LONGEST_LINE:
                what = f"the line is longer than {LONGEST_LINE // 2**20} MiB"
                way_out = "end every row with a line break, or use Parquet"
                problems.add("too-long", what, way_out, line=number)
                return
            text = _decode_line(raw, number, problems)
            if text is None:
                return
            yield Line(number, text)


def _decode_line(raw: bytes, number: int, problems: Problems) -> str | None:
    if number == 1:
        raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        problems.add(
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


class _DuplicateKeyError(ValueError):
    """A key stands twice in one object, and only one could be kept."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key[:60]!r} stands twice in one object; keep one")
        self.key = key


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    cells = dict(pairs)
    if len(cells) != len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKeyError(next(name for name in names if names.count(name) > 1))
    return cells


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def decode_json(text: str | bytes) -> Any:
    """What a JSON text holds; ValueError also where a key stands twice, or it nests too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_unique)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


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


def json_lines(lines: Iterable[Line], problems: Problems) -> Iterator[TableRow]:
    """Yield one object a line; blank lines are passed over."""
    for number, text in lines:
        stripped = text.strip()
        if not stripped:
            continue
        if _is_mostly_brackets(stripped):
            what = "has more brackets than any row has"
            problems.add("too-deep", what, _ONE_LINE, line=number)
            continue
        value = _parse(stripped, number, problems)
        if value is not None:
            yield from _row(value[0], number, problems)


def json_rows(lines: Iterable[Line], problems: Problems) -> Iterator[TableRow]:
    """Yield an array's objects, or those of JSON Lines under the name .json."""
    lines = iter(lines)
    head: list[Line] = []
    for line in lines:
        head.append(line)
        if line.text.strip():
            break
    lines = chain(head, lines)
    if not head or head[-1].text.lstrip()[:1] != "[":
        return json_lines(lines, problems)
    return _array_items("".join(_bounded(lines, problems)), problems)


def _bounded(lines: Iterable[Line], problems: Problems) -> Iterator[str]:
    """The lines of a file that is read whole, as long as it is no longer than that allows."""
    size = 0
    for line in lines:
        size += len(line.text)
        if size > MOST_CHARACTERS:
            what = f"is longer than {MOST_CHARACTERS:,} characters"
            problems.add("too-long", what, "write JSON Lines, which are read one by one")
            return
        yield line.text


def _array_items(text: str, problems: Problems) -> Iterator[TableRow]:
    """Walk an array's items, so that each is known by its line."""
    if _is_mostly_brackets(text):
        problems.add("too-deep", "has more brackets than rows have", _ONE_LINE)
        return
    place, line = text.index("[") + 1, 1 + text.count("\n", 0, text.index("["))
    while True:
        start = _skip(text, place, " \t\r\n,")
        line, place = line + text.count("\n", place, start), start
        if text[place : place + 1] == "]":
            return
        value = _parse(text, line, problems, place)
        if value is None:
            return
        yield from _row(value[0], line, problems)
        line, place = line + text.count("\n", place, value[1]), value[1]


def _skip(text: str, place: int, passed: str) -> int:
    while place < len(text) and text[place] in passed:
        place += 1
    return place


def _is_mostly_brackets(text: str) -> bool:
    """Whether JSON would take dozens of times its own size in memory."""
    most = max(MOST_BRACKETS, len(text) // 20)
    return len(text) > MOST_BRACKETS and text.count("[") + text.count("{") > most


def _parse(
    text: str, line: int, problems: Problems, place: int | None = None
) -> tuple[object, int] | None:
    """One value and where it ends; without `place` the text must hold that one value alone."""
    try:
        if place is None:
            return _DECODER.decode(text), len(text)
        return _DECODER.raw_decode(text, place)
    except _DuplicateKeyError as error:
        problems.add("twice", "stands twice in one object", "keep one", line=line, field=error.key)
    except RecursionError:
        problems.add("too-deep", "is nested too deeply", _ONE_LINE, line=line)
    except json.JSONDecodeError as error:
        excerpt = error.doc[error.pos : error.pos + 40]
        what = f"is not JSON: {error.msg} at character {error.colno}"
        problems.add("bad-json", what, _ONE_LINE, line=line, value=excerpt)
    except ValueError:
        # Python refuses integers of thousands of digits.
        problems.add("bad-json", "holds a number too long to read", "shorten it", line=line)
    return None


def _row(value: object, line: int, problems: Problems) -> Iterator[TableRow]:
    if isinstance(value, dict):
        yield TableRow(line, value)
    else:
        problems.add("no-object", "is no JSON object", _ONE_LINE, line=line, value=value)


def delimited_rows(
    lines: Iterable[Line], problems: Problems, delimiter: str | None = None
) -> Iterator[TableRow]:
    """Yield rows of cells, all of them texts, under the header's names.

    Without a delimiter it is what the first line has most of: a comma, a semicolon or a tab.
    """
    # The limit is the process's own, and far below the length of a document.
    csv.field_size_limit(LONGEST_LINE)
    texts = _spreadsheet_lines(lines)
    first = next(texts, "")
    delimiter = delimiter or max(",;\t", key=first.count)
    records = csv.reader(chain([first], texts), delimiter=delimiter, strict=True)
    line = 1
    header: list[str] = []
    try:
        for cells in records:
            start, line = line, records.line_num + 1
            blank = not any(cells)
            if not header:
                header = [] if blank else _header(cells, start, problems)
                if not (header or blank):
                    return
            elif cells and len(cells) == len(header):
                yield TableRow(start, dict(zip(header, cells, strict=True)))
            elif not blank:
                what = f"has {len(cells)} cells, the header {len(header)}"
                problems.add("ragged", what, _QUOTES, line=start)
    except csv.Error as error:
        problems.add("bad-csv", f"cannot be read: {error}", _QUOTES, line=line)


def _spreadsheet_lines(lines: Iterable[Line]) -> Iterator[str]:
    """Lines as spreadsheets end them, which may be by a carriage return alone."""
    for _, text in lines:
        if "\r" in text[:-2]:
            yield from StringIO(text, newline="")
        else:
            yield text


def _header(cells: list[str], line: int, problems: Problems) -> list[str]:
    """The columns' names; none where two columns have the same."""
    names = [cell.strip() for cell in cells]
    twice = sorted({name for name in names if name and names.count(name) > 1})
    for name in twice:
        what = "names two columns"
        problems.add("twice", what, "give every column its own name", line=line, field=name)
    if names.count("") > 1:
        # As pandas calls them.
        names = [name or f"Unnamed: {place}" for place, name in enumerate(names)]
    return [] if twice else names
