"""Workbooks (.xlsx): the rows of one sheet, with its cells as people see them."""

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from dspy_judges import bounds
from judges.tables.problems import Problems, UnreadableError, beyond, excerpt, joined_names
from judges.tables.spreadsheet import GridRow, rows_under_header
from judges.tables.text import TableRow, is_blank

_SHEET = re.compile(r"(.+\.xls[xm]):([^/\\]+)", re.IGNORECASE | re.DOTALL)
# Upper bounds on XML elements of parts that are slow to read; a cell has four elements.
_ELEMENTS = {"xl/styles.xml": bounds.MAX_FORMATS, "xl/sharedstrings.xml": bounds.MAX_CELLS}


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


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """The file and the sheet of `FILE.xlsx:SHEET`; None where no sheet is named."""
    match = None if path.exists() else _SHEET.fullmatch(str(path))
    return (Path(match[1]), match[2]) if match else (path, None)


def workbook_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a sheet, numbered as in the sheet.

    Cells are strings, numbers and truth values, with dates as 2024-01-31 and percentages as 85%.
    The sheet is the one named, or the only one.
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
            grid = _rows(_sheet_of(workbook.worksheets, sheet))
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


def _sheet_of(all_sheets: Sequence[Sheet], name: str | None) -> Sheet:
    """The sheet of that name, or the only visible one; UnreadableError where there are several."""
    visible = [sheet for sheet in all_sheets if sheet.sheet_state == "visible"]
    named = [sheet for sheet in all_sheets if sheet.title == name]
    sheets = visible if name is None else named
    if len(sheets) != 1:
        fault = f"has the sheets {joined_names([sheet.title for sheet in all_sheets])}"
        raise UnreadableError("no-sheet", fault, "name the one with the labels, as FILE.xlsx:SHEET")
    return sheets[0]


def _rows(sheet: Sheet) -> list[GridRow]:
    """The rows of a sheet that hold anything, each up to its last cell that does."""
    # The size in the file may be wrong.
    sheet.reset_dimensions()
    grid: list[GridRow] = []
    n_cells = 0
    for number, row in enumerate(sheet.iter_rows(max_row=bounds.MAX_CELLS), 1):
        cells = [_value_of(cell) for cell in row]
        while cells and is_blank(cells[-1]):
            cells.pop()
        if cells:
            grid.append(GridRow(number, cells))
        n_cells += len(row)
        if len(cells) > bounds.MAX_COLUMNS or n_cells > bounds.MAX_CELLS:
            most = f"{bounds.MAX_COLUMNS:,} columns or {bounds.MAX_CELLS:,} cells"
            raise beyond(f"has more than {most}", number)
    width = max((len(row.cells) for row in grid), default=0)
    if width * len(grid) > bounds.MAX_CELLS:
        raise beyond(f"has more than {bounds.MAX_CELLS:,} cells")
    return [GridRow(line, cells + [None] * (width - len(cells))) for line, cells in grid]


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
