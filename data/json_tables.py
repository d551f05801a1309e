"""Read JSON Lines, and a JSON array of objects, row by row with the line each starts on."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path

from data.lines import LineFile, is_mostly_brackets
from data.problems import Problems
from data.tables import Row, Table, gather, source_name

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
