"""Find the header in a CSV file or spreadsheet, and read the rows below it."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from dspy_judges import bounds
from judges.tables.problems import Problems, UnreadableError, check_unique, count_text, excerpt
from judges.tables.text import TableRow, is_blank, open_text, without_apostrophe

# The number of rows that are searched for the header.
_MAX_SEARCHED_ROWS = 20
# The number of lines of a CSV file from which the delimiter is detected.
_N_FIRST_LINES = 200
_DELIMITERS = (",", ";", "\t", "|")
_QUOTING_ADVICE = "quote cells that hold separators or line breaks, and double the quotes inside"


class GridRow(NamedTuple):
    """The cells of a row; `line` is the row's number in the file, from 1."""

    line: int
    cells: list[object]

    @property
    def filled_cells(self) -> dict[int, object]:
        """The cells that are not blank, by their positions in the row, from 0."""
        return {index: cell for index, cell in enumerate(self.cells) if not is_blank(cell)}


def rows_under_header(grid: Iterable[GridRow], problems: Problems) -> Iterator[TableRow]:
    """Find the header in a grid, and yield the rows below it that are not empty."""
    filled_rows = (row for row in grid if row.filled_cells)
    first_rows = list(islice(filled_rows, _MAX_SEARCHED_ROWS))
    if not first_rows:
        return
    header_index = _header_index(first_rows)
    for row in first_rows[:header_index]:
        title = excerpt(next(iter(row.filled_cells.values())))
        note = f"{problems.unit} {row.line} ({title}) above the header is read as a title"
        problems.notes.append(note)
    header = first_rows[header_index]
    column_names = ["" if cell is None else str(cell).strip() for cell in header.cells]
    check_unique(filter(None, column_names), header.line)
    # A row must have a cell, which may be empty, in every column up to the last one with a name.
    n_needed_cells = 1 + max(map(column_names.index, filter(None, column_names)))
    unnamed_columns = set[int]()
    for row in chain(first_rows[header_index + 1 :], filled_rows):
        filled_cells = row.filled_cells
        if len(row.cells) < n_needed_cells or max(filled_cells) >= len(column_names):
            cells_text = count_text(len(row.cells), "cell")
            fault = f"has {cells_text}, but the header has {len(column_names)}"
            problems.add("ragged", fault, f"leave the row out, or {_QUOTING_ADVICE}", line=row.line)
            continue
        # A first column without a name holds row numbers, and is not read.
        unnamed_columns.update(index for index in filled_cells if index and not column_names[index])
        names_and_cells = zip(column_names, row.cells, strict=False)
        yield TableRow(row.line, {name: cell for name, cell in names_and_cells if name})
    if unnamed_columns:
        columns_text = count_text(len(unnamed_columns), "column")
        fault = f"has no name above {columns_text} with filled cells"
        problems.add("no-name", fault, "name every column here", line=header.line)


def _header_index(first_rows: Sequence[GridRow]) -> int:
    """Return the index of the first row with more than half the usual number of filled cells."""
    cell_counts = [len(row.filled_cells) for row in first_rows]
    n_rows_by_n_cells = Counter(cell_counts)
    usual_n_cells = max(n_rows_by_n_cells, key=lambda n: (n_rows_by_n_cells[n], n))
    return next(index for index, n_cells in enumerate(cell_counts) if 2 * n_cells > usual_n_cells)


def csv_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a CSV file; all cells are strings, or None if they are empty."""
    # By default, the csv module refuses cells as long as a document. Its limit can only be set for
    # the whole process, not for one reader.
    csv.field_size_limit(bounds.MAX_BYTES)
    with open_text(path, problems, may_be_windows_1252=True) as lines:
        problems.unit = "row"  # not "line", since a row may extend over several lines
        first_lines = list(islice(lines, _N_FIRST_LINES))
        # The best delimiter gives the largest share of rows with the same number of cells.
        problems.delimiter = max(_DELIMITERS, key=partial(_share_of_equal_rows, first_lines))
        grid = _csv_grid(chain(first_lines, lines), problems.delimiter)
        yield from rows_under_header(grid, problems)


def _share_of_equal_rows(lines: Sequence[str], delimiter: str) -> tuple[float, int]:
    """Return the share of rows with the most frequent number of cells, and that number."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter))
    except csv.Error:
        return 0, 0
    n_rows_by_n_cells = Counter(len(cells) for cells in rows if any(map(str.strip, cells)))
    n_rows = n_rows_by_n_cells.total()
    shares = ((n / n_rows, n_cells) for n_cells, n in n_rows_by_n_cells.items() if n_cells > 1)
    return max(shares, default=(0, 0))


def _csv_grid(lines: Iterable[str], delimiter: str) -> Iterator[GridRow]:
    row_number = 0
    try:
        for row_number, cells in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), 1):
            yield GridRow(row_number, [without_apostrophe(cell) or None for cell in cells])
    except csv.Error as error:
        fault = f"cannot be read: {error}"
        raise UnreadableError("bad-csv", fault, _QUOTING_ADVICE, line=row_number + 1) from error
