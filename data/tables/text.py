"""Lines of text; JSON Lines and JSON, read strictly, each row with its first line; text written."""

import codecs
import csv
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

from data.tables.encoding import UTF8, find_encoding, open_regular
from data.tables.problems import Problems, RowsError

# No table has such a line; a file without line ends must not fill the memory.
MAX_LINE_LENGTH = 64 * 2**20
# Of a JSON array, which is read whole, and of any other JSON file.
MAX_CHARACTERS = 512 * 2**20
MAX_FILE_LENGTH = 256 * 2**20
MAX_BRACKETS = 200_000
# What a spreadsheet takes for a formula when it opens a file of plain cells.
FORMULAS = ("=", "+", "-", "@")

_OBJECT_A_LINE = "write one JSON object a line"
_ARRAY_OR_LINES = "write one array of objects, or one JSON object a line"

Row = dict[str, object]
# A line's number from 1, and its text with its end.
Line = tuple[int, str]


class TableRow(NamedTuple):
    """One row and the line it starts on (its number, in a file without lines); both from 1."""

    line: int
    cells: Row


def read_lines(path: Path, problems: Problems, encoding: str = UTF8) -> Iterator[Line]:
    """Yield each line of a file; what is no line of a table goes to `problems`."""
    with open_regular(path) as file:
        if encoding != UTF8:
            yield from _decoded_lines(file, encoding, problems)
            return
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE_LENGTH + 1), b""), 1):
            if len(raw) > MAX_LINE_LENGTH:
                _add_long_line(number, problems)
                return
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            try:
                yield number, raw.decode("utf-8")
                continue
            except UnicodeDecodeError as error:
                fault = f"byte {error.start + 1} of the line ({raw[error.start]:02X} in hexadecimal"
                fault += ") is not UTF-8"
                problems.add("not-utf8", fault, "save the file as UTF-8", line=number)
            yield number, raw.decode("utf-8", errors="replace")


def _decoded_lines(file: BinaryIO, encoding: str, problems: Problems) -> Iterator[Line]:
    """The lines of a file in another encoding than UTF-8."""
    number = 0
    try:
        with TextIOWrapper(file, encoding=encoding, newline="\n") as decoded:
            lines = iter(lambda: decoded.readline(MAX_LINE_LENGTH + 1), "")
            for number, text in enumerate(lines, 1):
                if len(text) > MAX_LINE_LENGTH:
                    _add_long_line(number, problems)
                    return
                yield number, text.removeprefix("\ufeff") if number == 1 else text
    except UnicodeError:
        fault, advice = f"is not {encoding.upper()}, as it begins", "save the file as UTF-8"
        problems.add("not-utf8", fault, advice, line=number + 1)


def _add_long_line(number: int, problems: Problems) -> None:
    fault = f"the line is longer than {MAX_LINE_LENGTH // 2**20} MiB"
    advice = "end every row with a line break, or use Parquet"
    problems.add("too-long", fault, advice, line=number)


class _DuplicateKeyError(ValueError):
    """A key stands twice in one object, and only one could be kept."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key[:60]!r} stands twice in one object; keep one")
        self.key = key


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    cells = dict(pairs)
    if len(cells) != len(pairs):
        names = [name for name, _ in pairs]
        raise _DuplicateKeyError(next(name for name in names if names.count(name) > 1))
    return cells


_DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys)


def decode_json(text: str | bytes) -> Any:
    """What a JSON text holds; ValueError also where a key stands twice, or it nests too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def read_json_file(path: Path) -> Any:
    """A regular file's one JSON value; raises OSError, or ValueError where it holds none."""
    with open_regular(path) as file:
        raw = file.read(MAX_FILE_LENGTH + 1)
    if len(raw) > MAX_FILE_LENGTH:
        raise ValueError(f"longer than {MAX_FILE_LENGTH // 2**20} MiB")
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def json_lines(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield one object a line; blank lines are passed over."""
    encoding = find_encoding(path, problems, legacy=False)
    yield from _json_objects(read_lines(path, problems, encoding), problems, _OBJECT_A_LINE)


def json_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield an array's objects, or those of JSON Lines under the name .json."""
    lines = read_lines(path, problems, find_encoding(path, problems, legacy=False))
    head: list[Line] = []
    for line in lines:
        head.append(line)
        if line[1].strip():
            break
    lines = chain(head, lines)
    if head and head[-1][1].lstrip().startswith("["):
        yield from _array_objects(lines, problems)
        return
    first = list(islice((line for line in lines if line[1].strip()), 2))
    lines = chain(first, lines)
    if not (len(first) == 2 and _is_json(first[0][1])):
        text_lines = list(_limited(lines))
        rows = _rows_inside("".join(text for _, text in text_lines), problems)
        if rows is not None:
            yield from rows
            return
        lines = iter(text_lines)
    yield from _json_objects(lines, problems, _ARRAY_OR_LINES)


def _limited(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines of an object that spans them, as long as one is read whole."""
    size = 0
    for line in lines:
        size += len(line[1])
        yield line
        if size > MAX_CHARACTERS:
            return


def _is_json(text: str) -> bool:
    try:
        _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return False
    return True


def _rows_inside(text: str, problems: Problems) -> list[TableRow] | None:
    """The rows of the one list of objects that one object holds; None where the text is no such."""
    if _is_mostly_brackets(text):
        return None
    try:
        whole = _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return None
    if not isinstance(whole, dict):
        return None
    lists = {
        name: value
        for name, value in whole.items()
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value)
    }
    others = [value for value in whole.values() if isinstance(value, str) and len(value) > 60]
    if len(lists) == 1 and not others:
        ((name, rows),) = lists.items()
        problems.unit = "row"
        problems.notes.append(f"the rows are those inside {name!r}")
        return [TableRow(number, row) for number, row in enumerate(rows, 1)]
    if len(whole) > 1 and all(isinstance(value, dict) for value in whole.values()):
        fault = "is one object of objects, which may be rows or columns"
        advice = "write an array of rows, as DataFrame.to_json(FILE, orient='records') does"
        problems.add("no-object", fault, advice)
        return []
    return None


def _json_objects(lines: Iterable[Line], problems: Problems, advice: str) -> Iterator[TableRow]:
    """Yield each line's object as a row; what is no object goes to `problems`."""
    for number, text in lines:
        stripped = text.strip()
        if not stripped:
            continue
        if _is_mostly_brackets(stripped):
            problems.add("too-deep", "has more brackets than any row has", advice, line=number)
            continue
        try:
            cells = _DECODER.decode(stripped)
        except (ValueError, RecursionError) as error:
            _add_json_problem(error, number, advice, problems)
            continue
        if _is_object(cells, number, advice, problems):
            yield TableRow(number, cells)


def _array_objects(lines: Iterable[Line], problems: Problems) -> Iterator[TableRow]:
    """Yield the objects of a JSON array with the line each begins on; faults go to `problems`."""
    parts: list[str] = []
    size = 0
    for _, part in lines:
        size += len(part)
        if size > MAX_CHARACTERS:
            fault = f"is longer than {MAX_CHARACTERS:,} characters"
            problems.add("too-long", fault, "write JSON Lines, which are read one by one")
            break
        parts.append(part)
    text = "".join(parts)
    if _is_mostly_brackets(text):
        problems.add("too-deep", "has more brackets than rows have", _ARRAY_OR_LINES)
        return
    position = text.index("[") + 1
    line = 1 + text.count("\n", 0, position)
    while True:
        start = _skip(text, position, " \t\r\n,")
        line += text.count("\n", position, start)
        if text.startswith("]", start):
            end = _skip(text, start + 1, " \t\r\n")
            if end < len(text):
                line += text.count("\n", start, end)
                fault, after = "follows the end of the array", text[end : end + 40]
                problems.add("bad-json", fault, _ARRAY_OR_LINES, line=line, value=after)
            return
        try:
            cells, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            _add_json_problem(error, line, _ARRAY_OR_LINES, problems)
            return
        if _is_object(cells, line, _ARRAY_OR_LINES, problems):
            yield TableRow(line, cells)
        line += text.count("\n", start, position)


def _skip(text: str, position: int, passed: str) -> int:
    while position < len(text) and text[position] in passed:
        position += 1
    return position


def _is_mostly_brackets(text: str) -> bool:
    """Whether JSON would take dozens of times its own size in memory."""
    limit = max(MAX_BRACKETS, len(text) // 20)
    return len(text) > MAX_BRACKETS and text.count("[") + text.count("{") > limit


def _add_json_problem(error: Exception, line: int, advice: str, problems: Problems) -> None:
    """Add in plain words why a line could not be read as JSON."""
    if isinstance(error, _DuplicateKeyError):
        problems.add("twice", "stands twice in one object", "keep one", line=line, field=error.key)
    elif isinstance(error, RecursionError):
        problems.add("too-deep", "is nested too deeply", advice, line=line)
    elif isinstance(error, json.JSONDecodeError):
        fault = f"is not JSON: {error.msg} at character {error.colno}"
        excerpt = error.doc[error.pos : error.pos + 40]
        problems.add("bad-json", fault, advice, line=line, value=excerpt)
    else:
        # Python refuses integers of thousands of digits.
        problems.add("bad-json", "holds a number too long to read", "shorten it", line=line)


def _is_object(value: object, line: int, advice: str, problems: Problems) -> bool:
    if not isinstance(value, dict):
        problems.add("no-object", "is no JSON object", advice, line=line, value=value)
    return isinstance(value, dict)


class JsonLinesSink:
    """Writes a row as one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8", newline="\n")

    def write(self, row: Row) -> None:
        # Lone surrogates, which JSON can escape and UTF-8 cannot hold, stay escaped.
        try:
            self._file.write(_json_line(row, ensure_ascii=False))
        except UnicodeEncodeError:
            self._file.write(_json_line(row, ensure_ascii=True))

    def close(self) -> None:
        self._file.close()


def _json_line(row: Row, *, ensure_ascii: bool) -> str:
    """One row as JSON, which has no NaN: a number that is none is null."""
    try:
        return _dump(row, ensure_ascii) + "\n"
    except ValueError:
        return _dump(_without_nan(row), ensure_ascii) + "\n"


def _dump(row: object, ensure_ascii: bool) -> str:
    return json.dumps(row, ensure_ascii=ensure_ascii, allow_nan=False, default=_plain_value)


def _plain_value(value: object) -> object:
    """What Parquet may hold and JSON does not."""
    return float(value) if isinstance(value, Decimal) and value.is_finite() else str(value)


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class DelimitedSink:
    """Writes rows of cells.

    `inert`: cells that a spreadsheet would run as formulas get an apostrophe before them.
    """

    def __init__(
        self, path: Path, columns: Sequence[str], inert: bool, delimiter: str = ","
    ) -> None:
        self._columns = columns
        self._cell = _escape_formula if inert else as_plain_cell
        self._file = path.open("w", encoding="utf-8", newline="", errors="replace")
        self._writer = csv.writer(_UnixLines(self._file), delimiter=delimiter)
        self._writer.writerow([self._cell(name) for name in columns])

    def write(self, row: Row) -> None:
        check_columns(row, self._columns)
        self._writer.writerow([self._cell(row.get(name)) for name in self._columns])

    def close(self) -> None:
        self._file.close()


class _UnixLines:
    """Ends lines plainly; csv quotes a lone carriage return only if its own line ends have one."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        return self._file.write(line.removesuffix("\r\n") + "\n")


def check_columns(row: Row, columns: Sequence[str]) -> None:
    """Raise RowsError for a row with a column of its own, where columns are fixed."""
    if unknown := row.keys() - set(columns):
        raise RowsError(
            f"a row has the column {sorted(unknown)[0]!r}, which the first row lacks; "
            "write JSONL instead"
        )


def as_plain_cell(value: object) -> object:
    """A value as plain cells hold it: nothing for what is missing, JSON for what nests."""
    if value is None or value != value:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _escape_formula(value: object) -> object:
    """A cell that no spreadsheet runs; numbers stay what they are."""
    cell = as_plain_cell(value)
    if not isinstance(cell, str) or not cell.lstrip().startswith(FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
