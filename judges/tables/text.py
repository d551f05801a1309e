"""Read text files, JSON and YAML strictly, and write rows as JSON Lines and CSV."""

import codecs
import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from dspy_judges import bounds
from dspy_judges.files import open_regular, read_bytes
from judges.tables.problems import Problems, UnreadableError, excerpt

# Matches a cell that a spreadsheet would run as a formula.
_FORMULA = re.compile(r"'*(?:\s*[=+\-@]|[\t\r])")
_OBJECTS_ADVICE = (
    "write one object per line, or one array, as DataFrame.to_json(FILE, orient='records') does"
)
# If a JSON file is the reply of a web API, its rows are under one of these keys.
_ROW_KEYS = ("data", "events")

_WINDOWS_1252 = "cp1252"  # Python's name for Windows-1252
# The number of bytes that are searched for signs that a file is not in Windows-1252.
_N_SAMPLE_BYTES = 2**20
# Matches bytes that are unlikely in Windows-1252: zero bytes, four or more non-ASCII bytes in a
# row, and, within words, bytes that are letters only in Macintosh and DOS encodings.
_UNLIKELY_IN_WINDOWS_1252 = re.compile(
    rb"\0|[\x80-\xff]{4,}"
    rb"|((?<=[A-Za-z])[\x80-\x91\x93-\x95\x98\x99\x9b]|[\x83\x86-\x88])(?=[a-z])"
)

# The cells of a row, by the names of their columns.
Record = dict[str, object]


def is_blank(value: object) -> bool:
    """Return whether a cell is None, or a string of only white space."""
    return value is None or (isinstance(value, str) and not value.strip())


class TableRow(NamedTuple):
    """The cells of a row, with the row's location.

    `line` is where the user finds the row: its row in a spreadsheet, which counts the header, or
    its line in a JSON Lines file. Messages call this number a row or a line. `number` counts only
    rows with data, from 1, and is the id of a row without an id.
    """

    line: int
    cells: Record
    number: int = 0


def _object_with_unique_keys(keys_and_values: list[tuple[str, object]]) -> dict[str, object]:
    """Return the JSON object with these keys and values. Raises ValueError if a key is repeated."""
    json_object = dict(keys_and_values)
    if len(json_object) != len(keys_and_values):
        raise ValueError("has the same key twice in one object")
    return json_object


def decode_json(text: str) -> object:
    """Decode JSON. Raises ValueError if the text is invalid or too large, or repeats a key."""
    max_punctuation = bounds.MAX_JSON_PUNCTUATION
    if len(text) > bounds.MAX_BYTES or sum(map(text.count, ",[{")) > max_punctuation:
        limits_text = f"{bounds.MAX_BYTES >> 20} MiB or {max_punctuation:,} commas and brackets"
        raise ValueError(f"has more than {limits_text}")
    try:
        value = json.loads(text, object_pairs_hook=_object_with_unique_keys)
    except RecursionError as error:
        raise ValueError("is nested too deeply") from error
    bounds.estimate_memory(value)
    return value


def read_json_file(path: Path) -> object:
    """Read a JSON file; raises OSError, or ValueError if the JSON is invalid."""
    return decode_json(read_bytes(path, bounds.MAX_BYTES).decode())


def read_yaml_file(path: Path) -> object:
    """Read a YAML file with all scalars as strings; raises OSError or ValueError."""
    import yaml

    yaml_bytes, depth = read_bytes(path, bounds.MAX_YAML_BYTES), 0
    try:
        for event in yaml.parse(yaml_bytes):
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > bounds.MAX_NESTING:  # reading a deep file takes minutes
                raise ValueError(f"nested too deeply (more than {bounds.MAX_NESTING})")
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"has an alias, *{event.anchor}: write out what it stands for")
        return yaml.load(yaml_bytes, yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        line_text = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        advice = "put a text in quotes if it contains a colon or begins with a sign such as [ or *"
        raise ValueError(f"{line_text}{error.problem}; {advice}") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


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


def jsonl_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the object on each line of a JSON Lines file; blank lines are skipped."""
    with open_text(path, problems, may_be_windows_1252=False) as lines:
        for line_number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            with problems.collect():
                try:
                    value = decode_json(line)
                except ValueError as error:
                    raise _json_error(error, line_number) from error
                yield from _object_rows(line_number, value, problems)


def json_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the objects in a .json file, which holds an array or JSON Lines."""
    with open_text(path, problems, may_be_windows_1252=False) as file:
        json_text = file.read(bounds.MAX_BYTES + 1)
    try:
        rows = decode_json(json_text)
    except ValueError as error:
        if str(error).startswith("Extra data") and not json_text.lstrip().startswith("["):
            yield from jsonl_rows(path, problems)
            return
        raise _json_error(error, getattr(error, "lineno", None)) from error
    if isinstance(rows, dict):
        rows = next((rows[key] for key in _ROW_KEYS if isinstance(rows.get(key), list)), rows)
    if not isinstance(rows, list):
        fault = f"is not an array of objects, and has none under {' or '.join(_ROW_KEYS)}"
        raise UnreadableError("no-object", fault, _OBJECTS_ADVICE)
    problems.unit = "row"
    for number, value in enumerate(rows, 1):
        yield from _object_rows(number, value, problems)


def _object_rows(line: int, value: object, problems: Problems) -> Iterator[TableRow]:
    """Yield an object as a row; for any other value, add a problem."""
    if isinstance(value, dict):
        yield TableRow(line, value)
    else:
        problems.add("no-object", "is not a JSON object", _OBJECTS_ADVICE, line=line, value=value)


def _json_error(error: ValueError, line: int | None) -> UnreadableError:
    if isinstance(error, json.JSONDecodeError):
        fault = f"is not JSON: {error.msg} at character {error.colno}"
        bad_text = error.doc[error.pos : error.pos + 40]
        return UnreadableError("bad-json", fault, _OBJECTS_ADVICE, bad_text, line)
    # Python refuses to read integers with thousands of digits; its message has the word "digits".
    fault = "holds a number too long to read" if "digits" in str(error) else str(error)
    return UnreadableError("bad-json", fault, "correct the value, or leave it out", line=line)


class JsonLinesSink:
    """Writes each row as a JSON object on one line."""

    def __init__(self, path: Path) -> None:
        # Lone surrogates, which UTF-8 cannot encode, are written as escapes.
        self._file = path.open("w", encoding="utf-8", errors="backslashreplace", newline="\n")

    def write(self, row: Record) -> None:
        self._file.write(json.dumps(plain_value(row), ensure_ascii=False) + "\n")

    def close(self) -> None:
        self._file.close()


def plain_value(value: object) -> object:
    """Convert a value to data that JSON can hold: NaN and NA to None, and other types to text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if hasattr(value, "tolist"):  # a NumPy array or scalar
        return plain_value(value.tolist())
    if type(value).__name__ == "NAType" or value != value:
        return None
    if isinstance(value, float | Decimal) and math.isfinite(value):
        return float(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class CsvSink:
    """Writes rows to a CSV file whose cells a spreadsheet does not run as formulas."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._columns = columns
        self._file = path.open("w", encoding="utf-8", newline="", errors="replace")
        self._writer = csv.writer(self._file)
        self._writer.writerow([_without_formula(name) for name in columns])

    def write(self, row: Record) -> None:
        self._writer.writerow([_without_formula(row.get(name)) for name in self._columns])

    def close(self) -> None:
        self._file.close()


def _without_formula(value: object) -> object:
    """Return a CSV cell; a string that a spreadsheet would run as a formula gets an apostrophe."""
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
    """Remove the apostrophe that `CsvSink` puts in front of what looks like a formula."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell
