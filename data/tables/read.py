"""Open a table by its path's ending: row by row, so that size is no matter, or checked whole."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.tables.arrow import HUB, dataset_rows, is_dataset, parquet_rows
from data.tables.formats import (
    Digest,
    Line,
    Row,
    TableRow,
    delimited_rows,
    json_lines,
    json_rows,
    read_lines,
)
from data.tables.problems import Problems, RowsError, Unit

Reader = Callable[[Path, Problems, Digest | None], Iterable[TableRow]]


class Format(NamedTuple):
    """How to read a format. In an untyped one (CSV, TSV) every cell is a string."""

    read: Reader
    typed: bool = True
    unit: Unit = "line"


def _from_lines(rows: Callable[[Iterable[Line], Problems], Iterable[TableRow]]) -> Reader:
    return lambda path, problems, digest: rows(read_lines(path, problems, digest), problems)


_TABS: Reader = _from_lines(lambda lines, problems: delimited_rows(lines, problems, "\t"))
FORMATS: Mapping[str, Format] = {
    ".jsonl": Format(_from_lines(json_lines)),
    ".ndjson": Format(_from_lines(json_lines)),
    ".json": Format(_from_lines(json_rows)),
    ".csv": Format(_from_lines(delimited_rows), typed=False),
    ".tsv": Format(_TABS, typed=False),
    ".parquet": Format(parquet_rows, unit="row"),
    ".pq": Format(parquet_rows, unit="row"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file, and the columns that are no library's own."""

    name: str
    file: str
    sha256: str
    typed: bool
    unit: Unit
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


class _Refusal(Problems):
    """Raises RowsError at the first problem."""

    def add(self, *args: object, **details: object) -> None:
        super().add(*args, **details)  # type: ignore[arg-type]
        raise RowsError(str(self[-1]))


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; raises RowsError, or OSError where it cannot be opened."""
    problems = _Refusal(str(path))
    form = _format_of(path, problems)
    n_rows = 0
    for row in form.read(path, problems, None) if form else ():
        n_rows += 1
        yield row.cells
    if not n_rows:
        _add_empty(problems)


def read_json_lines(path: Path) -> Iterator[TableRow]:
    """Yield the objects of a file of JSON Lines, whatever its name; raises as `read_rows`."""
    problems = _Refusal(str(path))
    return json_lines(read_lines(path, problems), problems)


def read_table(path: str | Path, problems: Problems) -> Table | None:
    """Read a file's rows; None where there is nothing to read, and `problems` says why."""
    if is_dataset(str(path)):
        table: Table | None = _read_dataset(str(path), problems)
    else:
        table = _read_file(Path(path), problems)
    if table is not None and not table.rows and not problems:
        _add_empty(problems)
    return table if table is not None and table.rows else None


def _read_file(path: Path, problems: Problems) -> Table | None:
    digest = hashlib.sha256()
    if not path.exists():
        problems.add("no-file", "does not exist", "check the path")
        return None
    form = _format_of(path, problems)
    if form is None:
        return None
    problems.unit = form.unit
    rows: Iterable[TableRow] = form.read(path, problems, digest)
    if not form.typed:
        # Spreadsheets end in them.
        rows = (row for row in rows if any(row.cells.values()))
    try:
        columns, gathered = _gather(rows)
    except OSError as error:
        problems.add("unreadable", f"cannot be read ({error.strerror})", "check its permission")
        return None
    return Table(
        name=path.stem or str(path),
        file=problems.file,
        sha256=digest.hexdigest(),
        typed=form.typed,
        unit=form.unit,
        columns=columns,
        rows=gathered,
    )


def _read_dataset(path: str, problems: Problems) -> Table:
    """Read a Hugging Face data set; the hash is that of its rows.

    Its files depend on the library's version.
    """
    problems.unit = "row"
    columns, rows = _gather(dataset_rows(path, problems))
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row.cells, sort_keys=True, default=str).encode() + b"\n")
    return Table(
        name=path.removeprefix(HUB) if path.startswith(HUB) else Path(path).stem or path,
        file=problems.file,
        sha256=digest.hexdigest(),
        typed=True,
        unit="row",
        columns=columns,
        rows=rows,
    )


def _format_of(path: Path, problems: Problems) -> Format | None:
    form = FORMATS.get(path.suffix.lower())
    if path.exists() and not path.is_file():
        problems.add("no-file", "is no regular file", "give a file")
    elif form is None:
        way_out = f"give one of {', '.join(FORMATS)}"
        problems.add("no-format", "is of no format known here", way_out)
    else:
        return form
    return None


def _add_empty(problems: Problems) -> None:
    problems.add("empty-file", "holds no rows", "give a file with one row for each output or pair")


# Columns that libraries write for themselves, or that have no name.
_PRIVATE = ("__", "Unnamed:")


def _gather(rows: Iterable[TableRow]) -> tuple[tuple[str, ...], tuple[TableRow, ...]]:
    """Return all columns, in order of first appearance, and the rows, equal strings kept once."""
    # Sixteen systems' rows repeat one document sixteen times.
    strings: dict[str, str] = {}
    columns: dict[str, None] = {}
    # Rows mostly have the same columns, so which of them are public is settled once.
    public: dict[tuple[str, ...], tuple[str, ...]] = {}
    gathered = []
    for row in rows:
        names = tuple(row.cells)
        if names not in public:
            public[names] = tuple(
                name for name in names if name.strip() and not name.startswith(_PRIVATE)
            )
            columns.update(dict.fromkeys(public[names]))
        cells: Row = {}
        for name in public[names]:
            value = row.cells[name]
            cells[name] = strings.setdefault(value, value) if isinstance(value, str) else value
        gathered.append(TableRow(row.line, cells))
    return tuple(columns), tuple(gathered)
