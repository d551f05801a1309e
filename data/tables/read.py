"""Open a table by its path's ending: checked whole, or row by row so that size is no matter."""

import csv
import json
from collections.abc import Iterator, Mapping
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from data.tables.arrow import is_dataset, read_dataset, read_parquet
from data.tables.formats import Table, no_rows, read_csv, read_json, read_jsonl, read_tsv
from data.tables.problems import DataError, Problems

READERS = {
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".json": read_json,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".pq": read_parquet,
}


def open_table(path: str | Path, problems: Problems) -> Table | None:
    """Read a file's rows; None where there is nothing to read, and `problems` says why."""
    table = _read(str(path), problems)
    if table is not None:
        problems.unit = table.unit
        if not table.rows and not problems.found:
            no_rows(problems)
    return table if table is not None and table.rows else None


def _read(path: str, problems: Problems) -> Table | None:
    if is_dataset(path):
        problems.unit = "row"
        return read_dataset(path, problems)
    file = Path(path)
    reader = READERS.get(file.suffix.lower())
    if not file.exists():
        problems.add("no-file", "does not exist", "check the path")
    elif not file.is_file():
        problems.add("no-file", "is no regular file", "give a file")
    elif reader is None:
        formats = ", ".join(READERS)
        problems.add("no-format", "is of no format known here", f"give one of {formats}")
    else:
        try:
            return reader(file, problems)
        except OSError as error:
            problems.add("unreadable", f"cannot be read ({error.strerror})", "check its permission")
    return None


Row = dict[str, object]

FORMATS: Mapping[str, str] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
LONGEST_FIELD = 64 * 2**20
UTF8 = "save the file as UTF-8"


class RowsError(DataError, ValueError):
    """A table that cannot be read or written; the message names file, line and the way out."""


def decode_json(text: str | bytes) -> Any:
    """What a JSON text holds; ValueError also where a key stands twice, or it nests too deeply."""
    try:
        return json.loads(text, object_pairs_hook=_once)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice[:60]!r} stands twice in one object; keep one")
    return made


def format_of(path: Path) -> str:
    """jsonl, csv, tsv or parquet, by the name's ending."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise RowsError(
            f"{path}: its ending says no known format; use one of {', '.join(FORMATS)}"
        ) from None


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield a file's lines with their numbers; RowsError where one is longer than any row is."""
    from data.tables.formats import LineError, read_lines  # not needed by a judge in production

    try:
        yield from read_lines(path)
    except LineError as error:
        raise RowsError(str(error)) from error


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; raises RowsError, or OSError where it cannot be opened."""
    form = format_of(path)
    if path.is_dir():
        raise RowsError(f"{path}: a folder; give a file")
    if path.exists() and not path.is_file():
        raise RowsError(f"{path}: no regular file; pipes and devices are not read")
    if form == "jsonl":
        return _read_jsonl(path)
    if form == "parquet":
        return _read_parquet(path)
    return _read_separated(path, None if form == "csv" else DELIMITERS[form])


def _read_jsonl(path: Path) -> Iterator[Row]:
    for number, raw in numbered_lines(path):
        line = _decoded(path, number, raw).strip()
        if not line:
            continue
        try:
            row = decode_json(line)
        except ValueError as error:
            raise RowsError(f"{path}, line {number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise RowsError(f"{path}, line {number}: no mapping from column to value")
        yield row


def _decoded(path: Path, number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8-sig" if number == 1 else "utf-8")
    except UnicodeDecodeError as error:
        raise RowsError(
            f"{path}, line {number}: not UTF-8 text (byte {error.start}); {UTF8}"
        ) from error


def _read_separated(path: Path, delimiter: str | None) -> Iterator[Row]:
    """Without a delimiter, the one that the header has most of: a comma, semicolon or tab."""
    # The limit is the process's own, and far below the length of a document.
    csv.field_size_limit(LONGEST_FIELD)
    lines = _text_lines(path)
    first = next(lines, "")
    reader = csv.reader(
        chain([first], lines), delimiter=delimiter or max(",;\t", key=first.count), strict=True
    )
    try:
        names = next(reader, None)
        if not names:
            raise RowsError(f"{path}: empty; the first line names the columns")
        if len(set(names)) != len(names):
            raise RowsError(f"{path}: two columns have the same name")
        for values in reader:
            if not values:
                continue
            if len(values) != len(names):
                raise RowsError(
                    f"{path}, line {reader.line_num}: {len(values)} values for {len(names)} columns"
                )
            yield dict(zip(names, values, strict=True))
    except csv.Error as error:
        raise RowsError(f"{path}, line {reader.line_num}: {error}") from error


def _text_lines(path: Path) -> Iterator[str]:
    """The lines as spreadsheets end them, which may be by a carriage return alone."""
    for number, raw in numbered_lines(path):
        text = _decoded(path, number, raw)
        if "\r" in text[:-2]:
            yield from StringIO(text, newline="")
        else:
            yield text


def _read_parquet(path: Path) -> Iterator[Row]:
    import pyarrow as pa

    from data.tables.arrow import UnpacksError, parquet_cells

    try:
        yield from parquet_cells(path)
    except UnpacksError as error:
        raise RowsError(f"{path}: {error}") from error
    except pa.ArrowException as error:
        raise RowsError(f"{path}: no Parquet file: {str(error).splitlines()[0]}") from error
