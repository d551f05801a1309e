"""Read JSON Lines, JSON and YAML strictly; write JSON Lines and CSV."""

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from dspy_judges import bounds
from dspy_judges.files import read_bytes
from judges.tables.encoding import open_text
from judges.tables.problems import Problems, UnreadableError

# A cell that a spreadsheet would read as a formula.
_FORMULA = re.compile(r"'*(?:\s*[=+\-@]|[\t\r])")
_OBJECTS = "write one object a line, or an array, as DataFrame.to_json(FILE, orient='records') does"
_PAGES = ("data", "events")

Row = dict[str, object]


def is_blank(value: object) -> bool:
    """Whether a cell is null or only white space."""
    return value is None or (isinstance(value, str) and not value.strip())


class TableRow(NamedTuple):
    """A row with its line (or its row in a sheet) and its number, both from 1."""

    line: int
    cells: Row
    number: int = 0


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    cells = dict(pairs)
    if len(cells) != len(pairs):
        raise ValueError("has a name twice in one object")
    return cells


def decode_json(text: str) -> Any:
    """The value of a JSON text; ValueError also for a repeated key, or beyond the bounds."""
    if len(text) > bounds.MAX_BYTES or sum(map(text.count, ",[{")) > bounds.MAX_MARKS:
        most = f"{bounds.MAX_BYTES >> 20} MiB or {bounds.MAX_MARKS:,} commas and brackets"
        raise ValueError(f"has more than {most}")
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    bounds.memory_of(value)
    return value


def read_json_file(path: Path) -> Any:
    """The JSON value in a regular file; raises OSError or ValueError."""
    return decode_json(read_bytes(path, bounds.MAX_BYTES).decode())


def read_yaml_file(path: Path, *, as_written: bool = False) -> Any:
    """The YAML value in a regular file; raises OSError or ValueError.

    With `as_written` all scalars are texts.
    """
    import yaml

    raw, depth = read_bytes(path, bounds.MAX_YAML_BYTES), 0
    try:
        for event in yaml.parse(raw):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > bounds.MAX_DEPTH:
                raise ValueError(f"nested too deeply (more than {bounds.MAX_DEPTH})")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"has an alias, *{event.anchor}: write out what it stands for")
        return yaml.load(raw, yaml.BaseLoader if as_written else yaml.SafeLoader)
    # PyYAML raises plain errors for impossible dates and numbers.
    except (yaml.YAMLError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(str(error)) from error


def json_lines(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the object of each line, without blank lines."""
    with open_text(path, problems, western=False) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            with problems.collect():
                yield from _if_object(number, _json_value(line, number), problems)


def json_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the objects of an array, or of JSON Lines under the name .json."""
    with open_text(path, problems, western=False) as file:
        text = file.read(bounds.MAX_BYTES + 1)
    try:
        rows = decode_json(text)
    except ValueError as error:
        if str(error).startswith("Extra data") and not text.lstrip().startswith("["):
            yield from json_lines(path, problems)
            return
        raise _json_fault(error, getattr(error, "lineno", None)) from error
    if isinstance(rows, dict):
        # Web APIs answer with a page of rows.
        rows = next((rows[name] for name in _PAGES if isinstance(rows.get(name), list)), rows)
    if not isinstance(rows, list):
        raise UnreadableError("no-object", "is not an array of objects", _OBJECTS)
    problems.unit = "row"
    for number, value in enumerate(rows, 1):
        yield from _if_object(number, value, problems)


def _json_value(line: str, number: int) -> object:
    try:
        return decode_json(line)
    except ValueError as error:
        raise _json_fault(error, number) from error


def _if_object(number: int, value: object, problems: Problems) -> Iterator[TableRow]:
    if isinstance(value, dict):
        yield TableRow(number, value)
    else:
        problems.add("no-object", "is not a JSON object", _OBJECTS, line=number, value=value)


def _json_fault(error: ValueError, line: int | None) -> UnreadableError:
    """The error for a text that could not be read as JSON."""
    if isinstance(error, json.JSONDecodeError):
        fault = f"is not JSON: {error.msg} at character {error.colno}"
        return UnreadableError("bad-json", fault, _OBJECTS, error.doc[error.pos :][:40], line)
    # Python's own error for integers of thousands of digits.
    fault = "holds a number too long to read" if "digits" in str(error) else str(error)
    return UnreadableError("bad-json", fault, "correct it, or leave it out", line=line)


class JsonLinesSink:
    """Writes each row as a JSON object on one line."""

    def __init__(self, path: Path) -> None:
        # Lone surrogates, which UTF-8 cannot hold, are written as escapes.
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, row: Row) -> None:
        self._file.write(json.dumps(plain_value(row), ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._file.close()


def plain_value(value: object) -> Any:
    """The value as plain data for JSON: null if it is missing, text if JSON has no such type."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(part) for part in value]
    if hasattr(value, "tolist"):
        # Arrays and scalars of NumPy.
        return plain_value(value.tolist())
    if type(value).__name__ == "NAType" or value != value:
        return None
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return float(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class CsvSink:
    """Writes rows of cells, none of which a spreadsheet runs as a formula."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._columns = columns
        self._file = path.open("w", encoding="utf-8", newline="", errors="replace")
        self._writer = csv.writer(self._file)
        self._writer.writerow([_inert(name) for name in columns])

    def write(self, row: Row) -> None:
        self._writer.writerow([_inert(row.get(name)) for name in self._columns])

    def close(self) -> None:
        self._file.close()


def _inert(value: object) -> object:
    """The cell to write: "" if missing, JSON if nested, and a formula behind an apostrophe."""
    cell = "" if value is None or value != value else value
    if isinstance(cell, dict | list):
        cell = json.dumps(plain_value(cell), ensure_ascii=False)
    if not isinstance(cell, str) or not _FORMULA.match(cell):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def without_mark(cell: str) -> str:
    """A cell without the apostrophe that `CsvSink` puts before a formula."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
