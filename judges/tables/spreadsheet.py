"""Grids of cells, as spreadsheets keep and export them, to rows under a header; CSV."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from dspy_judges import bounds
from judges.tables.encoding import open_text
from judges.tables.problems import Problems, UnreadableError, count, excerpt
from judges.tables.text import TableRow, is_blank, without_mark

# What stands before a header stands in the first rows.
_HEAD_ROWS = 20
_SAMPLE_LINES = 200
_DELIMITERS = (",", ";", "\t", "|")
_QUOTES = "quote fields that hold separators or line breaks, and double the quotes inside"


class GridRow(NamedTuple):
    """A row of cells and where it stands, from 1."""

    line: int
    cells: list[object]


def n_filled(row: GridRow) -> int:
    return sum(not is_blank(cell) for cell in row.cells)


def rows_under_header(grid: Iterable[GridRow], problems: Problems) -> Iterator[TableRow]:
    """Yield the rows below a grid's header under its names; empty rows are passed over.

    Titles above the header are noted; columns without a name that hold something are a problem.
    """
    filled_rows = filter(n_filled, grid)
    head = list(islice(filled_rows, _HEAD_ROWS))
    if not head:
        return
    # The header is the first row that is more than half as full as rows usually are.
    widths = Counter(map(n_filled, head))
    usual = max(widths, key=lambda width: (widths[width], width))
    header_at = next(i for i, row in enumerate(head) if 2 * n_filled(row) > usual)
    for line, cells in head[:header_at]:
        title = excerpt(next(cell for cell in cells if not is_blank(cell)))
        note = f"{problems.unit} {line} ({title}) above the header is read as a title"
        problems.notes.append(note)
    names = ["" if cell is None else str(cell).strip() for cell in head[header_at].cells]
    n_needed = max(i for i, name in enumerate(names, 1) if name)
    if twice := [name for name, n in Counter(names).items() if name and n > 1]:
        advice = "give every column its own name, in one row"
        raise UnreadableError("twice", "names two columns", advice, twice[0], head[header_at].line)
    nameless: set[int] = set()
    for line, cells in chain(head[header_at + 1 :], filled_rows):
        if len(cells) < n_needed or not all(map(is_blank, cells[len(names) :])):
            fault = f"has {count(len(cells), 'cell')}, the header {len(names)}"
            problems.add("ragged", fault, f"leave the row out, or {_QUOTES}", line=line)
            continue
        named = list(zip(names, cells, strict=False))
        # A first column without a name numbers the rows, and is no loss.
        nameless.update(
            i for i, (name, cell) in enumerate(named) if i and not name and not is_blank(cell)
        )
        yield TableRow(line, {name: cell for name, cell in named if name})
    if nameless:
        fault = f"has no name over {count(len(nameless), 'column')} that hold something"
        problems.add("no-name", fault, "name every column here", line=head[header_at].line)


def csv_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield rows under the header's names, all cells texts.

    The delimiter is a comma, a semicolon, a tab or a bar: the one that cuts the most of the first
    rows into equally many cells.
    """
    # The limit is the process's own, and far below the length of a document.
    csv.field_size_limit(bounds.MAX_BYTES)
    with open_text(path, problems, western=True) as lines:
        problems.unit = "row"  # as spreadsheets number them, whatever lines their cells have
        sample = list(islice(lines, _SAMPLE_LINES))
        problems.delimiter = max(_DELIMITERS, key=lambda delimiter: _evenness(sample, delimiter))
        yield from rows_under_header(_records(chain(sample, lines), problems.delimiter), problems)


def _evenness(sample: Sequence[str], delimiter: str) -> tuple[float, int]:
    """The largest share of rows that the delimiter cuts into equally many cells, and how many."""
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
