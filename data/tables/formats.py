"""Tables by their path's ending: one entry a format, which reading, writing and help follow."""

import errno
import hashlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol

from data.tables.arrow import HUB, ParquetSink, dataset_rows, is_dataset, parquet_rows
from data.tables.atomic_write import move_into_place
from data.tables.encoding import open_regular
from data.tables.in_memory import Rows, as_json_lines, is_in_memory, name_of, rows_in_memory
from data.tables.problems import Problems, RowsError, Unit
from data.tables.spreadsheet import UNNAMED, csv_rows, is_empty
from data.tables.text import (
    DelimitedSink,
    JsonLinesSink,
    Row,
    TableRow,
    json_lines,
    json_rows,
)
from data.tables.xlsx import WorkbookSink, split_sheet, workbook_rows


class Sink(Protocol):
    """An open file that takes rows."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class Format(NamedTuple):
    """A format's endings, the usual one first, and how it is read and written.

    `open_writer` opens a file to write under a path; None where the format is read only. In an
    untyped format (CSV, TSV, .xlsx) a string may be a number; a flat one holds columns alone,
    settled at the start.
    """

    endings: tuple[str, ...]
    read: Callable[[Path, Problems], Iterator[TableRow]]
    open_writer: Callable[[Path, Sequence[str], bool], Sink] | None = None
    typed: bool = True
    flat: bool = True
    unit: Unit = "line"


FORMATS = (
    Format((".jsonl", ".ndjson"), json_lines, lambda path, *_: JsonLinesSink(path), flat=False),
    Format((".json",), json_rows, flat=False),
    Format((".csv",), csv_rows, DelimitedSink, typed=False),
    Format((".tsv", ".tab"), csv_rows, partial(DelimitedSink, delimiter="\t"), typed=False),
    # Spreadsheets' "Unicode text" has tabs.
    Format((".txt",), csv_rows, typed=False),
    Format(
        (".xlsx", ".xlsm"),
        workbook_rows,
        lambda path, columns, _: WorkbookSink(path, columns),
        typed=False,
        unit="row",
    ),
    Format(
        (".parquet", ".pq"),
        parquet_rows,
        lambda path, columns, _: ParquetSink(path, columns),
        unit="row",
    ),
)
READABLE = {ending: form for form in FORMATS for ending in form.endings}
WRITABLE = {ending: form for ending, form in READABLE.items() if form.open_writer is not None}


def _in_words(formats: Iterable[Format]) -> str:
    *first, last = (form.endings[0] for form in formats)
    return f"{', '.join(first)} or {last}" if first else last


# For help texts: the usual endings of what is read, what is written, and what is read alone.
READ_ENDINGS = _in_words(FORMATS)
WRITTEN_ENDINGS = _in_words(form for form in FORMATS if form.open_writer is not None)
READ_ONLY_ENDINGS = _in_words(form for form in FORMATS if form.open_writer is None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file, no two of one number, and the columns that are no library's own."""

    name: str
    sha256: str
    typed: bool
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]
    # How the file was understood, where that is not plain.
    notes: tuple[str, ...] = ()
    # What sets the cells of a line apart; empty where nothing does.
    delimiter: str = ""


def read_rows(path: Path, notes: list[str] | None = None) -> Iterator[Row]:
    """Yield the cells of a file's rows (see `read_table_rows`)."""
    return (row.cells for row in read_table_rows(path, notes))


def read_table_rows(path: Path, notes: list[str] | None = None) -> Iterator[TableRow]:
    """Yield the rows of a file; raises RowsError, or OSError where it cannot be opened.

    `notes` is given what to know of how the file was understood.
    """
    problems = Problems(str(path), strict=True)
    problems.notes = [] if notes is None else notes
    form = _format_of(path, problems)
    n_rows = 0
    for row in form.read(path, problems) if form else ():
        n_rows += 1
        yield row
    if not n_rows:
        _add_empty(problems)


def read_json_lines(path: Path) -> Iterator[TableRow]:
    """Yield the objects of a file of JSON Lines, whatever its name; raises as `read_rows`."""
    return json_lines(path, Problems(str(path), strict=True))


def read_records(path: Path) -> Iterator[tuple[str, Row]]:
    """Yield each row and where it stands; of JSON Lines, or of the table that the name ends in.

    Raises as `read_rows`.
    """
    problems = Problems(str(path), strict=True)
    file, _ = split_sheet(path)
    form = READABLE.get(file.suffix.lower(), FORMATS[0])
    # Not every library asks whether a file may never end.
    open_regular(file).close()
    for line, cells in form.read(path, problems):
        yield f"{problems.file}, {form.unit} {line}", cells


def read_table(path: "str | Path | Rows", problems: Problems) -> Table | None:
    """Read a file's rows; None where there is nothing to read, and `problems` says why."""
    if is_in_memory(path):
        table: Table | None = _read_memory(path, problems)
    elif is_dataset(str(path)):
        table = _read_dataset(str(path), problems)
    else:
        table = _read_file(Path(str(path)), problems)
    if table is not None and not table.rows and not problems:
        _add_empty(problems)
    return table if table is not None and table.rows else None


def _read_file(path: Path, problems: Problems) -> Table | None:
    """The file as a table; None, and a problem, where it cannot be read."""
    file, _ = split_sheet(path)
    if not file.exists():
        problems.add("no-file", "does not exist", "check the path")
        return None
    form = _format_of(path, problems)
    if form is None:
        return None
    problems.unit = form.unit
    rows: Iterable[TableRow] = form.read(path, problems)
    if not form.typed:
        # Spreadsheets end in blank rows.
        rows = (row for row in rows if not all(map(is_empty, row.cells.values())))
    try:
        with file.open("rb") as opened:
            sha256 = hashlib.file_digest(opened, "sha256").hexdigest()
        columns, kept_rows, unnamed = _read_all(rows)
    except OSError as error:
        problems.add("unreadable", f"cannot be read ({error.strerror})", "check its permission")
        return None
    if len({row.line for row in kept_rows}) < len(kept_rows):
        # A JSON array may stand on one line, and its rows are known by their numbers.
        problems.unit = "row"
        kept_rows = tuple(TableRow(number, row.cells) for number, row in enumerate(kept_rows, 1))
    if unnamed:
        problems.notes.append(f"columns without a name are not read: {len(unnamed)}")
    return Table(
        name=file.stem or str(file),
        sha256=sha256,
        typed=form.typed,
        columns=columns,
        rows=kept_rows,
        notes=tuple(problems.notes),
        delimiter=problems.delimiter,
    )


def _read_dataset(path: str, problems: Problems) -> Table:
    """Read a Hugging Face data set; the hash is that of its rows.

    Its files depend on the library's version.
    """
    problems.unit = "row"
    columns, rows, _ = _read_all(dataset_rows(path, problems))
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row.cells, sort_keys=True, default=str).encode() + b"\n")
    name = path.removeprefix(HUB) if path.startswith(HUB) else Path(path).stem or path
    return Table(name=name, sha256=digest.hexdigest(), typed=True, columns=columns, rows=rows)


def _read_memory(source: object, problems: Problems) -> Table:
    """Read rows that are in memory; the hash is that of the file that would hold them."""
    problems.unit = "row"
    plain = rows_in_memory(source)
    numbered = (TableRow(number, row) for number, row in enumerate(plain, start=1))
    columns, rows, _ = _read_all(numbered)
    sha256 = hashlib.sha256(as_json_lines(plain)).hexdigest()
    return Table(name=name_of(source), sha256=sha256, typed=True, columns=columns, rows=rows)


def _format_of(path: Path, problems: Problems) -> Format | None:
    """The format by the name's ending; None, and a problem, where it is unknown or no file."""
    file, _ = split_sheet(path)
    form = READABLE.get(file.suffix.lower())
    if file.exists() and not file.is_file():
        problems.add("no-file", "is not a regular file", "give a file")
        return None
    unpack = _UNPACK.get(_first_bytes(file)) if form is None or form.unit == "line" else None
    if unpack is not None:
        unpacked = file.stem if form is None else f"unpacked{file.suffix}"
        words = f"{unpack} < {shlex.quote(str(file))} > {shlex.quote(unpacked)}"
        problems.add("no-format", "is compressed", f"unpack it first: {words}")
        return None
    if form is None:
        advice = f"give one of {', '.join(READABLE)}"
        if file.suffix.lower() in _OTHER_SPREADSHEETS:
            advice = "save it as .xlsx or as CSV"
        problems.add("no-format", "is of no format known here", advice)
    return form


def _first_bytes(path: Path) -> bytes:
    """What tells a compressed file; empty where it cannot be read, which its reader says."""
    try:
        with path.open("rb") as file:
            return file.read(2)
    except OSError:
        return b""


def _add_empty(problems: Problems) -> None:
    problems.add("empty-file", "holds no rows", "give a file with one row for each output or pair")


# Columns that libraries write for themselves, or that have no name.
_PRIVATE = ("__", UNNAMED.strip())
_UNPACK = {b"\x1f\x8b": "gunzip", b"BZ": "bunzip2", b"\xfd7": "unxz", b"(\xb5": "unzstd"}
_OTHER_SPREADSHEETS = (".xls", ".ods", ".numbers", ".gsheet", ".sav", ".dta")


def _read_all(
    rows: Iterable[TableRow],
) -> tuple[tuple[str, ...], tuple[TableRow, ...], tuple[str, ...]]:
    """All columns by first appearance, the rows, and columns without a name that hold something.

    Equal strings are kept once. A first column without a name numbers the rows, and is no loss.
    """
    # Sixteen systems' rows repeat one document sixteen times.
    strings: dict[str, str] = {}
    columns: dict[str, None] = {}
    # Rows mostly have the same columns, so which of them are public is settled once.
    public: dict[tuple[str, ...], tuple[str, ...]] = {}
    nameless: dict[tuple[str, ...], tuple[str, ...]] = {}
    unnamed: dict[str, None] = {}
    kept_rows = []
    for row in rows:
        names = tuple(row.cells)
        if names not in public:
            public[names] = tuple(
                name for name in names if name.strip() and not name.startswith(_PRIVATE)
            )
            columns.update(dict.fromkeys(public[names]))
            nameless[names] = tuple(
                name for name in names[1:] if not name.strip() or name.startswith(UNNAMED)
            )
        for name in nameless[names]:
            if name not in unnamed and not is_empty(row.cells[name]):
                unnamed[name] = None
        cells: Row = {}
        for name in public[names]:
            value = row.cells[name]
            cells[name] = strings.setdefault(value, value) if isinstance(value, str) else value
        kept_rows.append(TableRow(row.line, cells))
    return tuple(columns), tuple(kept_rows), tuple(unnamed)


class RowWriter:
    """Takes rows into `PATH.partial`, which becomes PATH when all went well.

    `columns` are all a flat format's columns, in order; JSONL needs none. `inert`: cells of CSV and
    TSV that a spreadsheet would run as formulas are written with an apostrophe before them.
    `overwrite`: a file at PATH is replaced at the end; otherwise leaving raises FileExistsError.
    """

    def __init__(
        self,
        path: Path,
        *,
        columns: Sequence[str],
        overwrite: bool = False,
        inert: bool = True,
    ) -> None:
        open_writer = written_format(path).open_writer
        assert open_writer is not None
        self.path = path
        self.partial_path = partial_path(path)
        self.written = 0
        self._overwrite = overwrite
        self._file = open_writer(self.partial_path, columns, inert)

    def write(self, row: Row) -> None:
        with self._named():
            self._file.write(row)
        self.written += 1

    @contextmanager
    def _named(self) -> Iterator[None]:
        """An error of writing says which file it was."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno or errno.EIO, reason, str(self.partial_path)) from error

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._named():
                self._file.close()
            move_into_place(self.partial_path, self.path, overwrite=self._overwrite)
            return
        # What went wrong is said already, and a full disk fails here once more.
        with suppress(OSError, RowsError):
            self._file.close()
        if self.written == 0:
            self.partial_path.unlink(missing_ok=True)


def partial_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def written_format(path: Path) -> Format:
    """The format by the name's ending; RowsError where none is written under it."""
    try:
        return WRITABLE[path.suffix.lower()]
    except KeyError:
        raise RowsError(
            f"{path}: its ending says no known format; use one of {', '.join(WRITABLE)}"
        ) from None
