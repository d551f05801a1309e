"""Reads and writes tables in every supported format, which the ending of a path tells."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

from dspy_judges import bounds
from dspy_judges.files import claim_file
from judges.tables.arrow import HUB, ParquetSink, load_dataset, parquet_rows
from judges.tables.in_memory import Rows, as_json_lines, is_in_memory, name_of, rows_in_memory
from judges.tables.problems import Problems, RowsError, UnreadableError, too_large
from judges.tables.spreadsheet import csv_rows
from judges.tables.text import CsvSink, JsonLinesSink, Row, TableRow, json_lines, json_rows
from judges.tables.xlsx import split_sheet, workbook_rows

# Columns with these prefixes were added by a library, such as pandas; they are not read.
_ADDED_PREFIXES = ("__", "Unnamed: ")

Sink = JsonLinesSink | CsvSink | ParquetSink


class Format(NamedTuple):
    """A format of tables: its endings, the usual one first, and how it is read and written.

    `open_writer` opens a new file with the given columns; it is None if the format can only be
    read. If `is_typed` is False (CSV, .xlsx), a string may be a number. A flat format has the same
    columns in every row.
    """

    endings: tuple[str, ...]
    read: Callable[[Path, Problems], Iterator[TableRow]]
    open_writer: Callable[[Path, Sequence[str]], Sink] | None = None
    is_typed: bool = True
    flat: bool = True


FORMATS = (
    Format((".jsonl", ".ndjson"), json_lines, lambda path, _: JsonLinesSink(path), flat=False),
    Format((".json",), json_rows, flat=False),
    Format((".csv",), csv_rows, CsvSink, is_typed=False),
    # Spreadsheets save "Unicode text" with tabs, as .txt.
    Format((".tsv", ".tab", ".txt"), csv_rows, is_typed=False),
    Format((".xlsx", ".xlsm"), workbook_rows, is_typed=False),
    Format((".parquet", ".pq"), parquet_rows, ParquetSink),
)
READABLE = {ending: table_format for table_format in FORMATS for ending in table_format.endings}
WRITABLE = {
    ending: table_format
    for ending, table_format in READABLE.items()
    if table_format.open_writer is not None
}
# The endings that help texts name.
READ_ENDINGS = ".jsonl, .json, .csv, .tsv, .xlsx or .parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows and columns of one file, without the columns that libraries add.

    `typed` says that a string in a cell is a string and never a number, as in JSON.
    """

    name: str
    sha256: str
    typed: bool
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()
    delimiter: str = ""


def read_table_rows(path: Path, notes: list[str] | None = None) -> Iterator[TableRow]:
    """Yield the rows of a file; raises RowsError if it cannot be read or has no rows.

    Notes on how the file was read are appended to `notes`.
    """
    problems = Problems(str(path), strict=True)
    problems.notes = [] if notes is None else notes
    row = None
    with _collect_errors(problems):
        rows = _bounded(_format_of(path, problems).read(path, problems), in_memory=False)
        for number, row in enumerate(rows, start=1):
            yield row._replace(number=number)
    if row is None:
        _add_empty(problems)


def read_records(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield the place of each row, such as `FILE, line 3`, and its cells.

    A file with an unknown ending is read as JSON Lines. Raises RowsError.
    """
    problems = Problems(str(path), strict=True)
    with _collect_errors(problems):
        rows = _format_of(path, problems, FORMATS[0]).read(path, problems)
        for row in _bounded(rows, in_memory=True):
            yield f"{problems.file}, {problems.unit} {row.line}", row.cells


def read_table(path: "str | Path | Rows", problems: Problems) -> Table | None:
    """Read a file or rows in memory; if they cannot be read, add a problem and return None."""
    with _collect_errors(problems):
        if is_in_memory(path) or str(path).startswith(HUB):
            plain = rows_in_memory(path if is_in_memory(path) else load_dataset(str(path)))
            # The hash of a JSON Lines file with these rows.
            sha256 = hashlib.sha256(as_json_lines(plain)).hexdigest()
            name, typed = Path(name_of(path)).name, True
            rows = _numbered(starmap(TableRow, enumerate(plain, start=1)))
        else:
            file = Path(str(path))
            table_format = _format_of(file, problems)
            with split_sheet(file)[0].open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            name, typed = split_sheet(file)[0].stem, table_format.is_typed
            rows = _numbered(_bounded(table_format.read(file, problems), in_memory=True))
        if rows:
            return Table(
                name=name,
                sha256=sha256,
                typed=typed,
                columns=tuple(dict.fromkeys(column for row in rows for column in row.cells)),
                rows=rows,
                notes=tuple(problems.notes),
                delimiter=problems.delimiter,
            )
        if not problems:
            _add_empty(problems)
    return None


def _numbered(rows: Iterable[TableRow]) -> tuple[TableRow, ...]:
    """Number the rows, and remove the columns that libraries add."""
    return tuple(
        TableRow(
            row.line,
            {
                n: cell
                for n, cell in row.cells.items()
                if n.strip() and not n.startswith(_ADDED_PREFIXES)
            },
            number,
        )
        for number, row in enumerate(rows, start=1)
    )


def _bounded(rows: Iterable[TableRow], *, in_memory: bool) -> Iterator[TableRow]:
    """Yield the rows; raises UnreadableError if they have too many columns.

    If all rows are kept in memory (`in_memory`), their number and size have bounds, too.
    """
    columns, n_cells, size = set[str](), 0, 0
    for row in rows:
        columns.update(row.cells)
        nested = (len(cell) for cell in row.cells.values() if isinstance(cell, dict))
        if max(len(columns), *nested, 0) > bounds.MAX_COLUMNS:
            raise too_large(f"has more than {bounds.MAX_COLUMNS:,} columns", row.line)
        n_cells += len(row.cells)
        if in_memory and n_cells > bounds.MAX_CELLS:
            raise too_large(f"has more than {bounds.MAX_CELLS:,} cells", row.line)
        size += 2 * bounds.VALUE_BYTES + bounds.memory_of(row.cells)
        if in_memory and size > bounds.MAX_BYTES:
            raise too_large(f"takes more than {bounds.MAX_BYTES >> 20} MiB of memory", row.line)
        yield row


@contextmanager
def _collect_errors(problems: Problems) -> Iterator[None]:
    """Add the errors that are raised while a file is read to `problems`."""
    try:
        with problems.collect():
            yield
    except UnicodeDecodeError as error:
        fault = f"cannot be read as {error.encoding} ({error.reason})"
        problems.add("not-utf8", fault, "save the file as UTF-8")
    except OSError as error:
        fault = f"cannot be read ({error.strerror})"
        problems.add("unreadable", fault, "check its permissions")


def _format_of(path: Path, problems: Problems, default: Format | None = None) -> Format:
    """Return the format by the name's ending; raises UnreadableError for an unknown one."""
    file, _ = split_sheet(path)
    if not file.exists():
        raise UnreadableError("no-file", "does not exist", "check the path")
    if not file.is_file():
        raise UnreadableError("no-file", "is not a regular file", "give a file")
    table_format = READABLE.get(file.suffix.lower(), default)
    if table_format is None:
        advice = f"save it as .xlsx or as CSV, or give one of {', '.join(READABLE)}"
        raise UnreadableError("no-format", "has an unknown format", advice)
    return table_format


def _add_empty(problems: Problems) -> None:
    problems.add("empty-file", "holds no rows", "give a file with one row for each output or pair")


class RowWriter:
    """Writes rows to `PATH.partial`, which is renamed to PATH when all are written.

    After an error the partial file is kept, unless it has no rows.
    """

    def __init__(self, path: Path, *, columns: Sequence[str]) -> None:
        open_writer = writable_format(path).open_writer
        assert open_writer is not None
        self.path, self.partial_path = path, partial_path(path)
        self.n_rows = 0
        self._file = open_writer(claim_file(self.partial_path, replace=True), columns)

    def write(self, row: Row) -> None:
        self._file.write(row)
        self.n_rows += 1

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._file.close()
            self.partial_path.replace(self.path)
            return
        # The error in the block is being raised. If the disk is full, closing would raise again.
        with suppress(OSError, RowsError):
            self._file.close()
        if self.n_rows == 0:
            self.partial_path.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def writable_format(path: Path) -> Format:
    """Return the format in which to write a path, by its ending; raises RowsError if unknown."""
    if (table_format := WRITABLE.get(path.suffix.lower())) is None:
        raise RowsError(f"{path}: files are written as {', '.join(WRITABLE)}; rename it")
    return table_format
