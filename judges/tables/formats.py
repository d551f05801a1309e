"""Read and write tables in all supported formats; the ending of a path decides the format."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, count, starmap
from pathlib import Path
from typing import NamedTuple

from dspy_judges import bounds
from dspy_judges.files import claim_file
from judges.tables.arrow import HUB_PREFIX, ParquetSink, load_dataset, parquet_rows
from judges.tables.in_memory import Rows, as_json_lines, is_in_memory, rows_in_memory, table_name
from judges.tables.problems import Problems, RowsError, UnreadableError, size_error
from judges.tables.spreadsheet import csv_rows
from judges.tables.text import CsvSink, JsonLinesSink, Record, TableRow, json_rows, jsonl_rows
from judges.tables.xlsx import split_sheet, workbook_rows

# Columns whose names begin like this were added by libraries such as pandas, and are not read.
_ADDED_COLUMN_PREFIXES = ("__", "Unnamed: ")
_EMPTY_FILE_ADVICE = "give a file with one row for each output or pair"

Sink = JsonLinesSink | CsvSink | ParquetSink


class Format(NamedTuple):
    """A file format of tables: its file name endings, and the functions to read and write it.

    `open_writer` is None if the format can only be read. `is_typed` is false for CSV and .xlsx,
    where a string may stand for a number. `is_flat` is true if rows cannot differ in their columns.
    """

    endings: tuple[str, ...]
    read_rows: Callable[[Path, Problems], Iterator[TableRow]]
    open_writer: Callable[[Path, Sequence[str]], Sink] | None = None
    is_typed: bool = True
    is_flat: bool = True


FORMATS = (
    Format((".jsonl", ".ndjson"), jsonl_rows, lambda path, _: JsonLinesSink(path), is_flat=False),
    Format((".json",), json_rows, is_flat=False),
    Format((".csv",), csv_rows, CsvSink, is_typed=False),
    # Excel's format "Unicode text" has tabs between cells, and the ending .txt.
    Format((".tsv", ".tab", ".txt"), csv_rows, is_typed=False),
    Format((".xlsx", ".xlsm"), workbook_rows, is_typed=False),
    Format((".parquet", ".pq"), parquet_rows, ParquetSink),
)
READABLE_FORMATS = {ending: each for each in FORMATS for ending in each.endings}
WRITABLE_FORMATS = {ending: each for ending, each in READABLE_FORMATS.items() if each.open_writer}
# The usual endings of readable files, for help texts.
READABLE_ENDINGS = ".jsonl, .json, .csv, .tsv, .xlsx or .parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows and columns of one table, without the columns that libraries such as pandas add.

    `file` names the table in messages. `is_typed` is false if strings may stand for numbers.
    `delimiter` is "" if the file is no CSV.
    """

    name: str
    file: str = ""
    sha256: str
    is_typed: bool
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    delimiter: str = ""

    def with_rows(self, rows: Iterable[TableRow]) -> "Table":
        """Return the table with other rows, and with the columns of these rows."""
        new_rows = tuple(rows)
        columns = dict.fromkeys(chain.from_iterable(row.cells for row in new_rows))
        return replace(self, rows=new_rows, columns=tuple(columns))


def read_table_rows(path: Path, notes: list[str] | None = None) -> Iterator[TableRow]:
    """Yield the rows of a file, and append notes on how it was read to `notes`.

    Raises RowsError for an empty file, and for a file that cannot be read.
    """
    problems, number = Problems(str(path)), 0
    problems.notes = [] if notes is None else notes
    with _collect_errors(problems):
        rows = _limit_rows(_find_format(path).read_rows(path, problems), are_kept=False)
        for number, row in enumerate(rows, start=1):
            if problems:
                break
            yield row._replace(number=number)
    if number == 0 and not problems:
        problems.add("empty-file", "holds no rows", _EMPTY_FILE_ADVICE)
    if problems:
        raise RowsError(str(problems[0]))


def read_table(path: "str | Path | Rows", problems: Problems) -> Table | None:
    """Read a file, a data set or rows in memory; if that fails, add a problem and return None."""
    with _collect_errors(problems):
        if is_in_memory(path) or str(path).startswith(HUB_PREFIX):
            records = rows_in_memory(path if is_in_memory(path) else load_dataset(str(path)))
            # Rows in memory have the hash of a JSON Lines file with the same rows.
            sha256 = hashlib.sha256(as_json_lines(records)).hexdigest()
            name, is_typed = Path(table_name(path)).name, True
            rows: Iterable[TableRow] = starmap(TableRow, enumerate(records, start=1))
        else:
            path_with_sheet = Path(str(path))
            table_format = _find_format(path_with_sheet)
            file, _ = split_sheet(path_with_sheet)
            with file.open("rb") as stream:
                sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            name, is_typed = file.stem, table_format.is_typed
            rows = _limit_rows(table_format.read_rows(path_with_sheet, problems), are_kept=True)
        numbered_rows = tuple(map(_number_row, count(1), rows))
        if numbered_rows:
            columns = dict.fromkeys(chain.from_iterable(row.cells for row in numbered_rows))
            return Table(
                name=name,
                file=problems.file,
                sha256=sha256,
                is_typed=is_typed,
                columns=tuple(columns),
                rows=numbered_rows,
                delimiter=problems.delimiter,
            )
        if not problems:
            problems.add("empty-file", "holds no rows", _EMPTY_FILE_ADVICE)
    return None


def _number_row(number: int, row: TableRow) -> TableRow:
    """Number a row, and remove its cells in columns without a name or that a library added."""
    cells = {
        column: cell
        for column, cell in row.cells.items()
        if column.strip() and not column.startswith(_ADDED_COLUMN_PREFIXES)
    }
    return TableRow(row.line, cells, number)


def _limit_rows(rows: Iterable[TableRow], *, are_kept: bool) -> Iterator[TableRow]:
    """Yield the rows; raises UnreadableError if they have too many columns or are too large."""
    columns, n_bytes = set[str](), 0
    for row in rows:
        columns.update(row.cells)
        nested_key_counts = [len(cell) for cell in row.cells.values() if isinstance(cell, dict)]
        if max([len(columns), *nested_key_counts]) > bounds.MAX_COLUMNS:
            raise size_error(f"has more than {bounds.MAX_COLUMNS:,} columns", row.line)
        n_bytes += 2 * bounds.BYTES_PER_VALUE + bounds.estimate_memory(row.cells)
        if are_kept and n_bytes > bounds.MAX_BYTES:
            raise size_error(f"takes more than {bounds.MAX_BYTES >> 20} MiB of memory", row.line)
        yield row


@contextmanager
def _collect_errors(problems: Problems) -> Iterator[None]:
    """Add a problem for an error that is raised within this context, while a file is read."""
    try:
        with problems.collect():
            yield
    except UnicodeDecodeError as error:
        fault = f"cannot be read as {error.encoding} ({error.reason})"
        problems.add("not-utf8", fault, "save the file as UTF-8")
    except OSError as error:
        problems.add("unreadable", f"cannot be read ({error.strerror})", "check its permissions")


def _find_format(path: Path) -> Format:
    """Return a file's format; raises UnreadableError for a missing file or an unknown ending."""
    file, _ = split_sheet(path)
    if not file.exists():
        raise UnreadableError("no-file", "does not exist", "check the path")
    if not file.is_file():
        raise UnreadableError("no-file", "is not a regular file", "give a file")
    table_format = READABLE_FORMATS.get(file.suffix.lower())
    if table_format is None:
        advice = f"save it as .xlsx or as CSV, or give one of {', '.join(READABLE_FORMATS)}"
        raise UnreadableError("no-format", "has an unknown format", advice)
    return table_format


class RowWriter:
    """A context that writes rows to the file `PATH.partial`, and renames it to PATH at the end.

    If an error is raised within the context, the partial file is kept, unless it has no rows.
    """

    def __init__(self, path: Path, *, columns: Sequence[str]) -> None:
        open_writer = writable_format(path).open_writer
        assert open_writer is not None
        self.path, self.partial_path = path, partial_path(path)
        self.n_rows = 0
        self._file = open_writer(claim_file(self.partial_path, replace=True), columns)

    def write(self, row: Record) -> None:
        self._file.write(row)
        self.n_rows += 1

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, error_type: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self._file.close()
            self.partial_path.replace(self.path)
            return
        # On a full disk, closing the file raises a second error, which would hide the first error.
        with suppress(OSError, RowsError):
            self._file.close()
        if self.n_rows == 0:
            self.partial_path.unlink(missing_ok=True)


def batch_state_path(path: Path) -> Path:
    """Return the path of a batch's state file, if the batch's answers are written to `path`."""
    return path.with_name(f"{path.name}.batch.json")


def partial_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def writable_format(path: Path) -> Format:
    """Return the format in which to write a file; raises RowsError for an unknown ending."""
    if (table_format := WRITABLE_FORMATS.get(path.suffix.lower())) is None:
        raise RowsError(f"{path}: files are written as {', '.join(WRITABLE_FORMATS)}; rename it")
    return table_format
