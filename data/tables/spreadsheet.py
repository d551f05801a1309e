"""Grids of cells, as spreadsheets keep and export them, to rows under a header; CSV and TSV."""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from data.tables.encoding import find_encoding, open_regular
from data.tables.problems import Problems, count, excerpt, joined_names
from data.tables.text import MAX_LINE_LENGTH, TableRow, read_lines

# What stands before a header stands in the first rows.
_HEAD_ROWS = 20
_SAMPLE_LINES = 200
_SAMPLE_LENGTH = 2**18
_DELIMITERS = (",", ";", "\t", "|")
_NAMES_DELIMITER = re.compile(r'\ufeff?"?sep=(.)"?\s*', re.IGNORECASE)
_QUOTES = "quote fields that hold separators or line breaks, and double the quotes inside"
# As pandas calls a column without a name.
UNNAMED = "Unnamed: "
_NUMBER = re.compile(r"[-+\d.,%/ ]*\d[-+\d.,%/ ]*")
_ZIP, _OLD_WORKBOOK = b"PK\x03\x04", b"\xd0\xcf\x11\xe0"
_LONG_NAME, _LONG_SPACES = 40, 5
# Below a header, in tables of Markdown.
_RULE = re.compile(r"\s*:?-{2,}:?\s*")
_MARKS = "\ufeff\u200b\u200e\u200f"


class GridRow(NamedTuple):
    """A row of cells and where it stands, from 1."""

    line: int
    cells: Sequence[object]


def is_empty(cell: object) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip().strip(_MARKS))


def rows_under_header(grid: Iterable[GridRow], problems: Problems) -> Iterator[TableRow]:
    """Yield the rows below a grid's header under its names; rows without cells are passed over.

    Rows of a title above the header are passed over with a note. Of a header in two rows, the upper
    of which spans several columns, each name is made of both.
    """
    grid = iter(grid)
    head: list[GridRow] = []
    for row in grid:
        if head or _filled(row):
            head.append(row)
        if len(head) == _HEAD_ROWS:
            break
    if not head:
        return
    n_before, n_header = _find_header(head)
    header_at = n_before + n_header
    titles = [row for row in head[:n_before] if _filled(row)]
    names = _header([*titles[-1:], *head[n_before:header_at]], n_header, problems)
    if titles:
        rows = ", ".join(f"{row.line} ({excerpt(_first(row))})" for row in titles)
        noun, verb = (problems.unit, "is") if len(titles) == 1 else (f"{problems.unit}s", "are")
        problems.notes.append(f"{noun} {rows} above the header {verb} read as a title")
    if names is None:
        return
    if problems.lettered:
        problems.letters = {name: letters_of(index) for index, name in enumerate(names)}
    if header_at < len(head) and _is_rule(head[header_at]):
        header_at += 1
    if _looks_like_data(names, head[header_at:]):
        name_list = joined_names([name for name in names if name])
        advice = "put the columns' names in the first row"
        problems.add("no-header", f"begins with a row of data, not of names ({name_list})", advice)
        return
    for row in chain(head[header_at:], grid):
        if list(row.cells[:1]) == names[:1] and [_name(cell) for cell in row.cells] == names:
            advice = "leave the row out, or give what follows as a file of its own"
            problems.add("two-headers", "repeats the header", advice, line=row.line)
            continue
        if len(row.cells) == len(names) or (
            len(row.cells) > len(names) and all(map(is_empty, row.cells[len(names) :]))
        ):
            yield TableRow(row.line, dict(zip(names, row.cells, strict=False)))
        elif _filled(row):
            fault = f"has {count(len(row.cells), 'cell')}, the header {len(names)}"
            advice = f"leave the row out, or {_QUOTES}" if len(_filled(row)) == 1 else _QUOTES
            problems.add("ragged", fault, advice, line=row.line)


def _looks_like_data(names: Sequence[str], rows: Sequence[GridRow]) -> bool:
    """Whether a header has a number above numbers, and a text as long as no name is."""
    numbers = [
        index
        for index, name in enumerate(names)
        if name and _is_numeric(name) and all(_is_number_at(row, index) for row in rows)
    ]
    texts = (name for name in names if len(name) > _LONG_NAME and name.count(" ") > _LONG_SPACES)
    return bool(rows and numbers) and any(not name.rstrip().endswith(("?", ")")) for name in texts)


def _is_number_at(row: GridRow, index: int) -> bool:
    return index < len(row.cells) and _is_numeric(row.cells[index])


def letters_of(index: int) -> str:
    """A spreadsheet's letters for a column, counted from 0: A to Z, AA, AB and so on."""
    letters = ""
    index += 1
    while index:
        index, place = divmod(index - 1, 26)
        letters = chr(ord("A") + place) + letters
    return letters


def _first(row: GridRow) -> object:
    return next(cell for cell in row.cells if not is_empty(cell))


def _filled(row: GridRow) -> set[int]:
    return {index for index, cell in enumerate(row.cells) if not is_empty(cell)}


def _find_header(head: Sequence[GridRow]) -> tuple[int, int]:
    """How many rows of a title come first, and in how many rows the header stands."""
    widths = Counter(len(_filled(row)) for row in head if _filled(row))
    usual = max(widths, key=lambda width: (widths[width], width))
    n_before = next(i for i, row in enumerate(head) if 2 * len(_filled(row)) > usual)
    if any(_is_numeric(cell) for cell in head[n_before].cells if not is_empty(cell)):
        return 0, 1
    top = _filled(head[n_before])
    if n_before + 1 < len(head):
        below = _filled(head[n_before + 1])
        width = max(top | below) + 1
        gaps = set(range(width)) - top
        cells = head[n_before + 1].cells
        # Cells that span columns leave those beside them empty, cells that span rows those below.
        spans_rows = any(
            index not in below or _name(cells[index]) == _name(head[n_before].cells[index])
            for index in top
        )
        # One such cell beside another is a header too, where the rest of the row is empty.
        own = [
            index
            for index in below
            if index not in top or _name(cells[index]) != _name(head[n_before].cells[index])
        ]
        few = len(gaps) == 1 and len(own) > 1 and 2 * len(own) <= len(top)
        spans_columns = (len(gaps) > 1 or few) and gaps == below - top
        if spans_rows and spans_columns and not any(_is_numeric(cells[index]) for index in below):
            return n_before, 2
    return n_before, 1


def _is_rule(row: GridRow) -> bool:
    cells = [str(row.cells[index]) for index in _filled(row)]
    return bool(cells) and all(map(_RULE.fullmatch, cells))


def _is_numeric(cell: object) -> bool:
    return not isinstance(cell, str) or bool(_NUMBER.fullmatch(cell.strip()))


def _header(rows: Sequence[GridRow], n_header: int, problems: Problems) -> list[str] | None:
    """The columns' names; None, and a problem, where two columns have the same.

    `rows` end with the header's own, before which a title may stand that spans columns.
    """
    *above, last = rows[-2:] if len(rows) > 1 else rows
    names = [_name(cell) for cell in last.cells]
    if above:
        spanning = _spread(above[0], len(last.cells))
        if n_header == 2:
            width = max(len(names), max(_filled(above[0])) + 1)
            names += [""] * (width - len(names))
            own = [_name(cell) for cell in above[0].cells] + [""] * width
            names = [
                own[i] if name in ("", own[i]) else f"{spanning[i]} {name}".strip()
                for i, name in enumerate(names)
            ]
        elif len(_filled(above[0])) > 1:
            repeated = {name for name, number in Counter(names).items() if number > 1}
            names = [
                f"{spanning[i]} {name}".strip() if name in repeated and name else name
                for i, name in enumerate(names)
            ]
    duplicates = sorted(name for name, number in Counter(names).items() if name and number > 1)
    for name in duplicates:
        columns = [letters_of(i) for i, other in enumerate(names) if other == name]
        fault = f"names {'two' if len(columns) == 2 else len(columns)} columns"
        fault += f" ({', '.join(columns)})" if problems.lettered else ""
        problems.add("twice", fault, "give every column its own name", line=last.line, field=name)
    if names.count("") > 1:
        names = [name or f"{UNNAMED}{index}" for index, name in enumerate(names)]
    return None if duplicates else names


def _name(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        cell = int(cell)
    return "" if cell is None else str(cell).strip().strip(_MARKS).strip()


def _spread(row: GridRow, width: int) -> list[str]:
    """A row's names, each also over the empty cells after it."""
    names, name = [], ""
    for index in range(max(width, len(row.cells))):
        name = (_name(row.cells[index]) if index < len(row.cells) else "") or name
        names.append(name)
    return names


def csv_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield rows under the header's names, all cells texts.

    The delimiter is a comma, a semicolon, a tab or a bar: the one that cuts the most of the first
    rows into equally many cells, or what a first line `sep=;` says.
    """
    with open_regular(path) as file:
        mark = file.read(4)
    if mark in (_ZIP, _OLD_WORKBOOK):
        fault = "is a workbook, whatever its name" if mark == _ZIP else "is an old workbook (.xls)"
        problems.add("no-format", fault, "save it as CSV, or under a name that ends in .xlsx")
        return
    lines = _spreadsheet_lines(path, problems)
    sample: list[str] = []
    size = 0
    for line in islice(lines, _SAMPLE_LINES):
        sample.append(line)
        size += len(line)
        if size > _SAMPLE_LENGTH:
            break
    # The limit is the process's own, and far below the length of a document.
    csv.field_size_limit(MAX_LINE_LENGTH)
    named = _NAMES_DELIMITER.fullmatch(sample[0]) if sample else None
    delimiter = named[1] if named else _find_delimiter(sample)
    problems.delimiter = delimiter
    grid = _cells(chain(sample[1:] if named else sample, lines), delimiter, problems, bool(named))
    yield from rows_under_header(grid, problems)


def _spreadsheet_lines(path: Path, problems: Problems) -> Iterator[str]:
    """Lines as spreadsheets end them, which may be by a carriage return alone."""
    encoding = find_encoding(path, problems, legacy=True)
    for _, text in read_lines(path, problems, encoding):
        if "\r" in text[:-2]:
            yield from StringIO(text, newline="")
        else:
            yield text


def _find_delimiter(sample: Sequence[str]) -> str:
    """The delimiter that cuts the most rows into equally many cells, and of those the most."""

    def evenness(delimiter: str) -> tuple[float, int]:
        widths: list[int] = []
        try:
            for cells in csv.reader(sample, delimiter=delimiter):
                if any(map(str.strip, cells)):
                    widths.append(len(cells))
        except csv.Error:
            return 0.0, 0
        # The last row of a sample may be cut short.
        widths = widths[:-1] if len(sample) >= _SAMPLE_LINES and len(widths) > 2 else widths
        shares = Counter(width for width in widths if width > 1)
        if not shares:
            return 0.0, 0
        width, number = max(shares.items(), key=lambda item: (item[1], item[0]))
        return number / len(widths), width

    return max(_DELIMITERS, key=evenness)


def _cells(
    lines: Iterable[str], delimiter: str, problems: Problems, starts_later: bool
) -> Iterator[GridRow]:
    records = csv.reader(lines, delimiter=delimiter, strict=True)
    n_before = int(starts_later)
    line = 1 + n_before
    try:
        for cells in records:
            start, line = line, records.line_num + 1 + n_before
            yield GridRow(start, cells)
    except csv.Error as error:
        problems.add("bad-csv", f"cannot be read: {error}", _QUOTES, line=line)
