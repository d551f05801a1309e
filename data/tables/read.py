"""Open a table by its path's ending: row by row, so that size is no matter, or checked whole."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from data.tables.arrow import HUB, dataset_rows, is_dataset
from data.tables.formats import READABLE, Format
from data.tables.problems import Problems
from data.tables.text import Row, TableRow, json_lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file, no two of one number, and the columns that are no library's own."""

    name: str
    sha256: str
    typed: bool
    columns: tuple[str, ...]
    rows: tuple[TableRow, ...]


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a file; raises RowsError, or OSError where it cannot be opened."""
    problems = Problems(str(path), strict=True)
    form = _format_of(path, problems)
    n_rows = 0
    for row in form.read(path, problems) if form else ():
        n_rows += 1
        yield row.cells
    if not n_rows:
        _add_empty(problems)


def read_json_lines(path: Path) -> Iterator[TableRow]:
    """Yield the objects of a file of JSON Lines, whatever its name; raises as `read_rows`."""
    return json_lines(path, Problems(str(path), strict=True))


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
    if not path.exists():
        problems.add("no-file", "does not exist", "check the path")
        return None
    form = _format_of(path, problems)
    if form is None:
        return None
    problems.unit = form.unit
    rows: Iterable[TableRow] = form.read(path, problems)
    if not form.typed:
        # Spreadsheets end in blank rows.
        rows = (row for row in rows if any(row.cells.values()))
    try:
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        columns, kept_rows = _read_all(rows)
    except OSError as error:
        problems.add("unreadable", f"cannot be read ({error.strerror})", "check its permission")
        return None
    if len({row.line for row in kept_rows}) < len(kept_rows):
        # A JSON array may stand on one line, and its rows are known by their numbers.
        problems.unit = "row"
        kept_rows = tuple(TableRow(number, row.cells) for number, row in enumerate(kept_rows, 1))
    name = path.stem or str(path)
    return Table(name=name, sha256=sha256, typed=form.typed, columns=columns, rows=kept_rows)


def _read_dataset(path: str, problems: Problems) -> Table:
    """Read a Hugging Face data set; the hash is that of its rows.

    Its files depend on the library's version.
    """
    problems.unit = "row"
    columns, rows = _read_all(dataset_rows(path, problems))
    digest = hashlib.sha256()
    for row in rows:
        digest.update(json.dumps(row.cells, sort_keys=True, default=str).encode() + b"\n")
    name = path.removeprefix(HUB) if path.startswith(HUB) else Path(path).stem or path
    return Table(name=name, sha256=digest.hexdigest(), typed=True, columns=columns, rows=rows)


def _format_of(path: Path, problems: Problems) -> Format | None:
    form = READABLE.get(path.suffix.lower())
    if path.exists() and not path.is_file():
        problems.add("no-file", "is not a regular file", "give a file")
        return None
    if form is None:
        advice = f"give one of {', '.join(READABLE)}"
        problems.add("no-format", "is of no format known here", advice)
    return form


def _add_empty(problems: Problems) -> None:
    problems.add("empty-file", "holds no rows", "give a file with one row for each output or pair")


# Columns that libraries write for themselves, or that have no name.
_PRIVATE = ("__", "Unnamed:")


def _read_all(rows: Iterable[TableRow]) -> tuple[tuple[str, ...], tuple[TableRow, ...]]:
    """Return all columns, in order of first appearance, and the rows, equal strings kept once."""
    # Sixteen systems' rows repeat one document sixteen times.
    strings: dict[str, str] = {}
    columns: dict[str, None] = {}
    # Rows mostly have the same columns, so which of them are public is settled once.
    public: dict[tuple[str, ...], tuple[str, ...]] = {}
    kept_rows = []
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
        kept_rows.append(TableRow(row.line, cells))
    return tuple(columns), tuple(kept_rows)
