"""Workbooks (.xlsx): the rows of one sheet, with its cells as people see them."""

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Protocol

from dspy_judges import bounds
from judges.tables.problems import Problems, UnreadableError, beyond, excerpt, joined_names
from judges.tables.spreadsheet import GridRow, n_filled, rows_under_header
from judges.tables.text import TableRow, is_blank

_SHEET = re.compile(r"(.+\.xls[xm]):([^/\\]+)", re.IGNORECASE | re.DOTALL)
# Upper bounds on XML elements of parts that are slow to read; a cell has four elements.
_ELEMENTS = {"xl/styles.xml": bounds.MAX_FORMATS, "xl/sharedstrings.xml": bounds.MAX_CELLS}
# The merged areas of a sheet.
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="(\w+:\w+)"')


class Cell(Protocol):
    """A cell of openpyxl, which has no types."""

    value: object
    number_format: object


class Sheet(Protocol):
    """A sheet of openpyxl."""

    title: str
    sheet_state: str

    def reset_dimensions(self) -> None: ...
    def iter_rows(self, *, max_row: int) -> Iterator[Sequence[Cell]]: ...
    def _get_source(self) -> AbstractContextManager[BinaryIO]: ...


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """The file and the sheet of `FILE.xlsx:SHEET`; None where no sheet is named."""
    match = None if path.exists() else _SHEET.fullmatch(str(path))
    return (Path(match[1]), match[2]) if match else (path, None)


def workbook_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a sheet, numbered as in the sheet.

    Cells are strings, numbers and truth values, with dates as 2024-01-31 and percentages as 85%.
    Every row has the cells that are merged over it. The sheet is the one named, or the only one
    with a table.
    """
    from openpyxl import load_workbook

    file, sheet = split_sheet(path)
    try:
        _check_size(file)
        with warnings.catch_warnings():
            # Warnings about parts that a table does not need, such as print areas.
            warnings.simplefilter("ignore")
            # The read-only mode loads no cells that the file only claims to have.
            workbook = load_workbook(file, read_only=True, data_only=True)
            grid = _grid(workbook.worksheets, workbook.sheetnames, sheet, problems)
            workbook.close()
    except UnreadableError:
        raise
    except Exception as error:
        # A damaged file may raise anything in the library.
        fault = f"cannot be read as .xlsx ({type(error).__name__}: {excerpt(str(error))})"
        advice = "save it as .xlsx again, or export it as CSV"
        raise UnreadableError("bad-xlsx", fault, advice) from error
    yield from rows_under_header(grid, problems)


def _check_size(file: Path) -> None:
    """Raise UnreadableError where a workbook is too large for the library."""
    with zipfile.ZipFile(file) as archive:
        if (size := sum(part.file_size for part in archive.infolist())) > bounds.MAX_BYTES:
            raise beyond(f"unpacks to {size >> 20:,} MiB, more than {bounds.MAX_BYTES >> 20}")
        for name in archive.namelist():
            with archive.open(name) as part:
                n_elements = sum(chunk.count(b"<") for chunk in iter(lambda: part.read(2**20), b""))
            if n_elements > (most := _ELEMENTS.get(name.lower(), 4 * bounds.MAX_CELLS)):
                raise beyond(f"has {n_elements:,} XML elements in {name}, more than {most:,}")


def _grid(
    sheets: Sequence[Sheet], titles: Sequence[str], name: str | None, problems: Problems
) -> list[GridRow]:
    """The rows of the sheet of that name, or of the only visible one with a table."""
    grids = {
        sheet: _rows(sheet)
        for sheet in sheets
        if (sheet.sheet_state == "visible" if name is None else sheet.title == name)
    }
    tables = [sheet for sheet, grid in grids.items() if sum(n_filled(row) > 1 for row in grid) > 1]
    if len(tables) > 1 or not grids:
        fault = f"has the sheets {joined_names(titles)}"
        raise UnreadableError("no-sheet", fault, "name the one with the labels, as FILE.xlsx:SHEET")
    sheet = (tables or [*grids])[0]
    others = [title for title in titles if title != sheet.title]
    if name is None and others:
        note = f"sheet {excerpt(sheet.title)} was read, and not {joined_names(others)}"
        problems.notes.append(note)
    return _with_merged(sheet, grids[sheet])


def _rows(sheet: Sheet) -> list[GridRow]:
    """The rows of a sheet that hold anything, all of the same length."""
    # The size in the file may be wrong.
    sheet.reset_dimensions()
    grid: list[tuple[int, list[object]]] = []
    width = n_cells = 0
    for number, row in enumerate(sheet.iter_rows(max_row=bounds.MAX_CELLS), 1):
        cells = [_value_of(cell) for cell in row]
        while cells and is_blank(cells[-1]):
            cells.pop()
        if cells:
            grid.append((number, cells))
        width, n_cells = max(width, len(cells)), n_cells + len(row)
        if width > bounds.MAX_COLUMNS or max(n_cells, len(grid) * width) > bounds.MAX_CELLS:
            most = f"{bounds.MAX_COLUMNS:,} columns or {bounds.MAX_CELLS:,} cells"
            raise beyond(f"has more than {most}", number)
    return [GridRow(number, cells + [None] * (width - len(cells))) for number, cells in grid]


def _with_merged(sheet: Sheet, grid: list[GridRow]) -> list[GridRow]:
    """The rows of a sheet, with merged cells filled downwards."""
    from openpyxl.utils import range_boundaries

    width, n_rows = (len(grid[0].cells), grid[-1].line) if grid else (0, 0)
    with sheet._get_source() as source:
        areas = [range_boundaries(area.decode()) for area in _MERGED.findall(source.read())]
    if sum(max(0, min(area[3], n_rows) - area[1]) for area in areas) > bounds.MAX_CELLS:
        raise beyond(f"merges more than {bounds.MAX_CELLS:,} cells")
    cells_at = {row.line: row.cells for row in grid}
    for column, top, _, bottom in areas:
        for line in range(top + 1, min(bottom, n_rows) + 1) if column <= width else ():
            if line in cells_at and is_blank(cells_at[line][column - 1]) and top in cells_at:
                cells_at[line][column - 1] = cells_at[top][column - 1]
    return grid


def _value_of(cell: Cell) -> object:
    """The value of a cell as people see it."""
    value = cell.value
    if value is None or isinstance(value, bool | str):
        return value
    if not isinstance(value, int | float):
        return str(value).removesuffix(" 00:00:00")
    if "%" in str(cell.number_format):
        return f"{round(value * 100, 9):.12g}%"
    return int(value) if float(value).is_integer() else value
