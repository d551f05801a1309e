"""Rows under a header from grids of cells, as in CSV files and spreadsheets."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from dspy_judges import bounds
from judges.tables.encoding import open_text
from judges.tables.problems import Problems, UnreadableError, count
from judges.tables.text import TableRow, is_blank, without_mark

_SAMPLE_LINES = 200
_DELIMITERS = (",", ";", "\t", "|")
_QUOTES = "quote fields that hold separators or line breaks, and double the quotes inside"


class GridRow(NamedTuple):
    """A row of cells and its line, from 1."""

    line: int
    cells: list[object]


def n_filled(row: GridRow) -> int:
    return sum(not is_blank(cell) for cell in row.cells)


def rows_under_header(grid: Iterable[GridRow], problems: Problems) -> Iterator[TableRow]:
    """Yield the rows below a grid's first row, the header, without empty rows.

    A column that holds something under no name is a problem, but a first one, which may number the
    rows, is left out.
    """
    rows = filter(n_filled, grid)
    header = next(rows, GridRow(1, ["id"]))
    names = _column_names(header)
    n_named = max(place for place, name in enumerate(names, 1) if name)
    unnamed = {place for place, name in enumerate(names) if place and not name}
    nameless: set[int] = set()
    for line, cells in rows:
        filled = {place for place, cell in enumerate(cells) if not is_blank(cell)}
        if len(cells) < n_named or max(filled) >= len(names):
            fault = f"has {count(len(cells), 'cell')}, the header {len(names)}"
            problems.add("ragged", fault, f"leave the row out, or {_QUOTES}", line=line)
        else:
            nameless |= filled & unnamed
            yield TableRow(line, {n: cell for n, cell in zip(names, cells, strict=False) if n})
    if nameless:
        fault = f"has no name over {count(len(nameless), 'column')} that hold something"
        problems.add("no-name", fault, "name every column here", line=header.line)


def _column_names(header: GridRow) -> list[str]:
    """The names in a header, "" for an empty cell; UnreadableError where two are the same."""
    names = ["" if cell is None else str(cell).strip() for cell in header.cells]
    [(name, n)] = Counter(filter(None, names)).most_common(1)
    if n > 1:
        advice = "give every column its own name, in one row"
        raise UnreadableError("twice", "names two columns", advice, name, header.line)
    return names


def csv_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a CSV file, with texts as cells.

    The delimiter is a comma, a semicolon, a tab or a bar: the one that splits most of the first
    rows into equally many cells.
    """
    # The default limit is far below the length of a document; this one holds for the process.
    csv.field_size_limit(bounds.MAX_BYTES)
    with open_text(path, problems) as lines:
        problems.unit = "row"  # as in a spreadsheet, where a row may have several lines
        sample = list(islice(lines, _SAMPLE_LINES))
        delimiter = max(_DELIMITERS, key=lambda each: _evenness(sample, each))
        yield from rows_under_header(_records(chain(sample, lines), delimiter), problems)


def _evenness(sample: Sequence[str], delimiter: str) -> tuple[float, int]:
    """The largest share of rows that a delimiter splits into the same number of cells, and it."""
    try:
        records = list(csv.reader(sample, delimiter=delimiter))
    except csv.Error:
        return 0, 0
    widths = Counter(len(cells) for cells in records if any(map(str.strip, cells)))
    shares = ((n / widths.total(), width) for width, n in widths.items() if width > 1)
    return max(shares, default=(0, 0))


def _records(lines: Iterable[str], delimiter: str) -> Iterator[GridRow]:
    number = 0
    try:
        for number, cells in enumerate(csv.reader(lines, delimiter=delimiter, strict=True), 1):
            yield GridRow(number, [without_mark(cell) for cell in cells])
    except csv.Error as error:
        fault = f"cannot be read: {error}"
        raise UnreadableError("bad-csv", fault, _QUOTES, line=number + 1) from error
