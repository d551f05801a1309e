"""Reads JSON Lines, JSON and YAML strictly, and writes JSON Lines and CSV."""

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from dspy_judges import bounds
from dspy_judges.files import read_bytes
from judges.tables.encoding import open_text
from judges.tables.problems import Problems, UnreadableError

# A cell that a spreadsheet would run as a formula.
_FORMULA = re.compile(r"'*(?:\s*[=+\-@]|[\t\r])")
_OBJECTS = (
    "write one object per line, or an array, as DataFrame.to_json(FILE, orient='records') does"
)
# Under these keys, a web API's reply has the rows.
_ROW_KEYS = ("data", "events")

Row = dict[str, object]


def is_blank(value: object) -> bool:
    """Whether a cell is None, or a string of only white space."""
    return value is None or (isinstance(value, str) and not value.strip())


class TableRow(NamedTuple):
    """A row: its line in the file (or row in the sheet) and its number among the rows, from 1."""

    line: int
    cells: Row
    number: int = 0


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its pairs; ValueError if a key is repeated."""
    cells = dict(pairs)
    if len(cells) != len(pairs):
        raise ValueError("has the same key twice in one object")
    return cells


def decode_json(text: str) -> object:
    """Decode JSON; raises ValueError if it is invalid, repeats a key, or exceeds the bounds."""
    if len(text) > bounds.MAX_BYTES or sum(map(text.count, ",[{")) > bounds.MAX_MARKS:
        limits = f"{bounds.MAX_BYTES >> 20} MiB or {bounds.MAX_MARKS:,} commas and brackets"
        raise ValueError(f"has more than {limits}")
    try:
        value = json.loads(text, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    bounds.memory_of(value)
    return value


def read_json_file(path: Path) -> object:
    """Read a JSON file; raises OSError or ValueError."""
    return decode_json(read_bytes(path, bounds.MAX_BYTES).decode())


def read_yaml_file(path: Path, *, as_written: bool = False) -> object:
    """Read a YAML file; raises OSError or ValueError.

    With `as_written`, all scalars are strings.
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
    # PyYAML raises Python's own errors for impossible dates and numbers.
    except (yaml.YAMLError, TypeError, LookupError, AttributeError) as error:
        raise ValueError(str(error)) from error


def json_lines(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the object on each line, without blank lines."""
    with open_text(path, problems, may_be_western=False) as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            with problems.collect():
                yield from _object_rows(number, _json_value(line, number), problems)


def json_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the objects in an array, or on the lines of a .json file that holds JSON Lines."""
    with open_text(path, problems, may_be_western=False) as file:
        text = file.read(bounds.MAX_BYTES + 1)
    try:
        rows = decode_json(text)
    except ValueError as error:
        if str(error).startswith("Extra data") and not text.lstrip().startswith("["):
            yield from json_lines(path, problems)
            return
        raise _json_fault(error, getattr(error, "lineno", None)) from error
    if isinstance(rows, dict):
        # The object may be a web API's reply.
        rows = next((rows[name] for name in _ROW_KEYS if isinstance(rows.get(name), list)), rows)
    if not isinstance(rows, list):
        raise UnreadableError("no-object", "is not an array of objects", _OBJECTS)
    problems.unit = "row"
    for number, value in enumerate(rows, 1):
        yield from _object_rows(number, value, problems)


def _json_value(line: str, number: int) -> object:
    try:
        return decode_json(line)
    except ValueError as error:
        raise _json_fault(error, number) from error


def _object_rows(number: int, value: object, problems: Problems) -> Iterator[TableRow]:
    if isinstance(value, dict):
        yield TableRow(number, value)
    else:
        problems.add("no-object", "is not a JSON object", _OBJECTS, line=number, value=value)


def _json_fault(error: ValueError, line: int | None) -> UnreadableError:
    """Return the error for a text that is not JSON."""
    if isinstance(error, json.JSONDecodeError):
        fault = f"is not JSON: {error.msg} at character {error.colno}"
        return UnreadableError("bad-json", fault, _OBJECTS, error.doc[error.pos :][:40], line)
    # Python refuses integers with thousands of digits.
    fault = "holds a number too long to read" if "digits" in str(error) else str(error)
    return UnreadableError("bad-json", fault, "correct it, or leave it out", line=line)


class JsonLinesSink:
    """Writes each row as a JSON object on one line."""

    def __init__(self, path: Path) -> None:
        # UTF-8 cannot encode lone surrogates, so they are written as escapes.
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, row: Row) -> None:
        self._file.write(json.dumps(plain_value(row), ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._file.close()


def plain_value(value: object) -> object:
    """Return a value as plain data for JSON.

    A missing value (NaN, NA) becomes None, and a value of a type that JSON lacks its text.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain_value(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(part) for part in value]
    if hasattr(value, "tolist"):
        # A NumPy array or scalar.
        return plain_value(value.tolist())
    if type(value).__name__ == "NAType" or value != value:
        return None
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return float(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class CsvSink:
    """Writes rows of cells so that a spreadsheet does not run any cell as a formula."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._columns = columns
        self._file = path.open("w", encoding="utf-8", newline="", errors="replace")
        self._writer = csv.writer(self._file)
        self._writer.writerow([_without_formula(name) for name in columns])

    def write(self, row: Row) -> None:
        self._writer.writerow([_without_formula(row.get(name)) for name in self._columns])

    def close(self) -> None:
        self._file.close()


def _without_formula(value: object) -> object:
    """Return the cell to write: "" for a missing value, JSON for a list or object.

    A text that looks like a formula gets an apostrophe before it.
    """
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


def without_apostrophe(cell: str) -> str:
    """Remove the apostrophe that `CsvSink` puts before a formula."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
