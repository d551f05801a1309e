"""Rows of JSONL, JSON, CSV and TSV files, read strictly, each with the line it starts on."""

import codecs
import csv
import errno
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from data.tables.problems import DataError, Problems, Unit

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


# Columns that libraries write for themselves, or that have no name.
_PRIVATE = ("__", "Unnamed:")


class Row(NamedTuple):
    """One row and the line it starts on (its number, in a file without lines); both from 1."""

    line: int
    cells: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file. In an untyped one (CSV, TSV) every cell is a string."""

    name: str
    file: str
    sha256: str
    typed: bool
    unit: Unit
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def gather(rows: Iterable[Row]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Return all columns, in order of first appearance, and the rows, equal strings kept once."""
    # Sixteen systems' rows repeat one document sixteen times.
    once: dict[str, str] = {}
    columns: dict[str, None] = {}
    # Rows mostly have the same columns, so what becomes of them is settled once.
    settled: dict[tuple[str, ...], tuple[str, ...]] = {}
    kept = []
    for row in rows:
        names = tuple(row.cells)
        if names not in settled:
            settled[names] = tuple(name for name in names if _is_public(name))
            columns.update(dict.fromkeys(settled[names]))
        cells = {}
        for name in settled[names]:
            value = row.cells[name]
            cells[name] = once.setdefault(value, value) if isinstance(value, str) else value
        kept.append(Row(row.line, cells))
    return tuple(columns), tuple(kept)


def _is_public(name: str) -> bool:
    return bool(name.strip()) and not name.startswith(_PRIVATE)


def source_name(path: str | Path) -> str:
    """A short name for a file or data set, for results and run folders."""
    text = str(path)
    return text.removeprefix("hf:") if text.startswith("hf:") else Path(text).stem or text


def no_rows(problems: Problems) -> None:
    """Note that a file holds no rows."""
    problems.add("empty-file", "holds no rows", "give a file with one row for each output or pair")


MOST_CHARACTERS = 512 * 2**20
_ONE_LINE = "write one JSON object a line"


class _TwiceError(ValueError):
    """A key stands twice in one object, and only one could be kept."""


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    cells = dict(pairs)
    if len(cells) != len(pairs):
        names = [name for name, _ in pairs]
        raise _TwiceError(next(name for name in names if names.count(name) > 1))
    return cells


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def read_jsonl(path: Path, problems: Problems) -> Table:
    """Read one object a line; blank lines are passed over."""
    lines = LineFile(path, problems)
    columns, rows = gather(_rows(lines, problems))
    return _table(path, problems, columns, rows, lines.sha256)


def read_json(path: Path, problems: Problems) -> Table:
    """Read an array of objects, or JSON Lines under the name .json."""
    with path.open("rb") as file:
        head = file.read(1024).removeprefix(codecs.BOM_UTF8).lstrip()
    if head[:1] != b"[":
        return read_jsonl(path, problems)
    lines = LineFile(path, problems)
    text = "".join(_bounded(lines, problems))
    if is_mostly_brackets(text):
        problems.add("too-deep", "has more brackets than rows have", _ONE_LINE)
        text = "[]"
    columns, rows = gather(_items(text, problems))
    return _table(path, problems, columns, rows, lines.sha256)


def _bounded(lines: LineFile, problems: Problems) -> Iterator[str]:
    """The lines of a file that is read whole, as long as it is no longer than that allows."""
    size = 0
    for line in lines:
        size += len(line.text)
        if size > MOST_CHARACTERS:
            what = f"is longer than {MOST_CHARACTERS:,} characters"
            problems.add("too-long", what, "write JSON Lines, which are read one by one")
            return
        yield line.text


def _table(
    path: Path, problems: Problems, columns: tuple[str, ...], rows: tuple[Row, ...], sha256: str
) -> Table:
    return Table(
        name=source_name(path),
        file=problems.file,
        sha256=sha256,
        typed=True,
        unit="line",
        columns=columns,
        rows=rows,
    )


def _rows(lines: LineFile, problems: Problems) -> Iterator[Row]:
    for number, text in lines:
        stripped = text.strip()
        if not stripped:
            continue
        if is_mostly_brackets(stripped):
            what = "has more brackets than any row has"
            problems.add("too-deep", what, _ONE_LINE, line=number)
            continue
        value = _parse(stripped, number, problems)
        if value is not None:
            yield from _row(value[0], number, problems)


def _items(text: str, problems: Problems) -> Iterator[Row]:
    """Walk an array's items, so that each is known by its line."""
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


def _parse(
    text: str, line: int, problems: Problems, place: int | None = None
) -> tuple[object, int] | None:
    """One value and where it ends; without `place` the text must hold that one value alone."""
    try:
        if place is None:
            return _DECODER.decode(text), len(text)
        return _DECODER.raw_decode(text, place)
    except _TwiceError as error:
        problems.add("twice", "stands twice in one object", "keep one", line=line, field=str(error))
    except RecursionError:
        problems.add("too-deep", "is nested too deeply", _ONE_LINE, line=line)
    except json.JSONDecodeError as error:
        shown = error.doc[error.pos : error.pos + 40]
        what = f"is not JSON: {error.msg} at character {error.colno}"
        problems.add("bad-json", what, _ONE_LINE, line=line, value=shown)
    except ValueError:
        # Python refuses integers of thousands of digits.
        problems.add("bad-json", "holds a number too long to read", "shorten it", line=line)
    return None


def _row(value: object, line: int, problems: Problems) -> Iterator[Row]:
    if isinstance(value, dict):
        yield Row(line, value)
    else:
        problems.add("no-object", "is no JSON object", _ONE_LINE, line=line, value=value)


_LINE_ENDS = "save the file with line feeds at the ends of lines, and quote fields that hold any"
_QUOTES = "quote fields that hold separators or line breaks, and double the quotes inside"


def read_csv(path: Path, problems: Problems) -> Table:
    """Read comma-separated values; semicolons or tabs where the header is split by those."""
    return _read(path, problems, None)


def read_tsv(path: Path, problems: Problems) -> Table:
    """Read tab-separated values."""
    return _read(path, problems, "\t")


def _read(path: Path, problems: Problems, delimiter: str | None) -> Table:
    lines = LineFile(path, problems)
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        columns, rows = gather(_delimited_rows(lines, problems, delimiter))
    finally:
        csv.field_size_limit(before)
    return Table(
        name=source_name(path),
        file=problems.file,
        sha256=lines.sha256,
        typed=False,
        unit="line",
        columns=columns,
        rows=rows,
    )


def _delimited_rows(lines: LineFile, problems: Problems, delimiter: str | None) -> Iterator[Row]:
    texts = (line.text for line in lines)
    first = next(texts, None)
    if first is None:
        return
    records = csv.reader(
        _chain(first, texts), delimiter=delimiter or _delimiter(first), strict=True
    )
    line = 1
    header: list[str] = []
    try:
        for cells in records:
            start, line = line, records.line_num + 1
            if not any(cells):
                continue
            if not header:
                header = [name.strip() for name in cells]
                if not _distinct(header, start, problems):
                    return
            elif len(cells) == len(header):
                yield Row(start, dict(zip(header, cells, strict=True)))
            else:
                _ragged(cells, header, start, problems)
    except csv.Error as error:
        if "new-line character" in str(error):
            problems.add("bad-csv", "has a line end of its own kind", _LINE_ENDS, line=line)
        else:
            problems.add("bad-csv", f"cannot be read: {error}", _QUOTES, line=line)


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _distinct(header: list[str], line: int, problems: Problems) -> bool:
    twice = sorted({name for name in header if name and header.count(name) > 1})
    for name in twice:
        what = "names two columns"
        problems.add("twice", what, "give every column its own name", line=line, field=name)
    return not twice


def _ragged(cells: list[str], header: list[str], line: int, problems: Problems) -> None:
    problems.add("ragged", f"has {len(cells)} cells, the header {len(header)}", _QUOTES, line=line)
