"""Workbooks (.xlsx): one sheet's cells as people see them, under its own rows and columns."""

import re
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data.tables.problems import Problems, RowsError, excerpt, joined_names
from data.tables.spreadsheet import GridRow, is_empty, letters_of, rows_under_header
from data.tables.text import Row, TableRow, as_plain_cell, check_columns
from dspy_judges.libraries import naming_libraries

if TYPE_CHECKING:
    from openpyxl.workbook import Workbook
    from openpyxl.worksheet.worksheet import Worksheet

# A workbook is a zip file, and honest ones unpack to a few times their size.
MAX_UNPACKED = 512 * 2**20
MAX_CELLS = 5_000_000
# The format's own limit.
MAX_CELL_LENGTH = 32_767
_SHEET = re.compile(r"(.+\.xls[xm]):([^/\\]+)", re.IGNORECASE | re.DOTALL)
_ENCRYPTED = b"\xd0\xcf\x11\xe0"


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """The file and the sheet of `FILE.xlsx:SHEET`; None where no sheet is named."""
    named = None if path.exists() else _SHEET.fullmatch(str(path))
    return (Path(named[1]), named[2]) if named else (path, None)


def workbook_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield a sheet's rows under the header's names, numbered as in the sheet.

    Cells are strings, numbers and truth values; dates are written as 2024-01-31 and percentages as
    85%. What is merged downwards stands in every row. The sheet is the one named, or the only one
    that holds a table.
    """
    file, name = split_sheet(path)
    workbook = _open(file, problems, values=True)
    if workbook is None:
        return
    problems.unit, problems.lettered = "row", True
    sheet = _choose_sheet(workbook, name, problems)
    if sheet is None:
        return
    formulas = None
    if _holds_formulas(file) and (again := _open(file, problems, values=False)) is not None:
        formulas = again[sheet.title]
    yield from rows_under_header(_grid(sheet, formulas, problems), problems)


def _open(path: Path, problems: Problems, *, values: bool) -> "Workbook | None":
    """The workbook with formulas' last values, or with the formulas; None, and a problem."""
    with naming_libraries():
        from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    advice = "save it as .xlsx anew, or export it as CSV"
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > MAX_UNPACKED:
            fault = f"unpacks to {size / 2**20:,.0f} MiB, more than {MAX_UNPACKED / 2**20:,.0f}"
            problems.add("too-long", fault, "export it as CSV")
            return None
        return load_workbook(path, data_only=values)
    except zipfile.BadZipFile:
        with path.open("rb") as file:
            encrypted = file.read(4) == _ENCRYPTED
        fault = "is no .xlsx workbook"
        fault += " (an older .xls, or one with a password)" if encrypted else ""
        advice = "save it as .xlsx anew, or under the ending that it has the format of"
        problems.add("bad-xlsx", fault, advice)
    # Whatever a damaged file makes the library stumble over.
    except (
        InvalidFileException,
        OSError,
        SyntaxError,
        LookupError,
        ValueError,
        TypeError,
    ) as error:
        reason = (str(error).splitlines() or [""])[0]
        problems.add("bad-xlsx", f"cannot be read as .xlsx ({excerpt(reason)})", advice)
    except (AttributeError, zipfile.LargeZipFile, NotImplementedError, RuntimeError) as error:
        problems.add("bad-xlsx", f"cannot be read as .xlsx ({type(error).__name__})", advice)
    return None


def _holds_formulas(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        sheets = (name for name in archive.namelist() if name.startswith("xl/worksheets/sheet"))
        return any(re.search(rb"<(\w+:)?f[ >]", archive.read(name)) for name in sheets)


def _choose_sheet(workbook: "Workbook", name: str | None, problems: Problems) -> "Worksheet | None":
    """The sheet of this name, or the only one with a table; None, and a problem, where neither."""
    sheets: dict[str, Worksheet] = {sheet.title: sheet for sheet in workbook.worksheets}
    if name is not None:
        title = next((title for title in sheets if title.casefold() == name.casefold()), None)
        if title is None:
            fault = f"there is no sheet {excerpt(name)}; there are {joined_names([*sheets])}"
            problems.add("no-sheet", fault, "name one of them after the file's name and a colon")
            return None
        return sheets[title]
    tables = [
        title
        for title, sheet in sheets.items()
        if sheet.max_row > 1 and sheet.max_column > 1 and sheet.sheet_state == "visible"
    ]
    if not tables:
        tables = [title for title, sheet in sheets.items() if sheet.max_row > 1] or [*sheets][:1]
    if len(tables) > 1:
        file = problems.file
        fault = f"has {len(tables)} sheets with tables: {joined_names(tables)}"
        largest = max(tables, key=lambda title: sheets[title].max_row * sheets[title].max_column)
        problems.add("no-sheet", fault, f"name one, as in '{file}:{largest}'")
        return None
    if not tables:
        return None
    others = [title for title in sheets if title != tables[0]]
    if others:
        problems.notes.append(
            f"sheet {excerpt(tables[0])} was read, and not {joined_names(others)}"
        )
    return sheets[tables[0]]


def _grid(
    sheet: "Worksheet", formulas: "Worksheet | None", problems: Problems
) -> Iterator[GridRow]:
    """The rows of a sheet that hold anything, with what is merged downwards in each of them."""
    # Of the cells that exist: people colour empty ones down to the last row.
    places = [place for place, cell in sheet._cells.items() if cell.value is not None]
    n_rows, n_columns = (max((place[i] for place in places), default=0) for i in (0, 1))
    if n_rows * n_columns > MAX_CELLS:
        fault = f"has {n_rows:,} rows and {n_columns:,} columns, more than are read"
        problems.add("too-long", fault, "move what is far below or aside, or export it as CSV")
        return
    merged, n_merged = _merged_cells(sheet, n_rows), 0
    n_hidden = 0
    for number, row in enumerate(sheet.iter_rows(max_row=n_rows, max_col=n_columns), 1):
        cells = []
        for index, cell in enumerate(row):
            value = _value_of(cell)
            if is_empty(value) and (source := merged.get((number, index + 1))) is not None:
                value = _value_of(sheet.cell(*source))
                n_merged += not is_empty(value)
            if value is None and formulas is not None:
                formula = formulas.cell(number, index + 1)
                if formula.data_type == "f":
                    fault = f"cell {letters_of(index)}{number} is a formula without its value"
                    advice = (
                        "open the file in a spreadsheet program and save it, or write the value"
                    )
                    problems.add("no-value", fault, advice, line=number, value=str(formula.value))
            cells.append(value)
        if all(map(is_empty, cells)):
            continue
        dimension = sheet.row_dimensions.get(number)
        n_hidden += dimension is not None and bool(dimension.hidden)
        yield GridRow(number, cells)
    if n_merged:
        problems.notes.append(f"{n_merged:,} cells read as what they are merged with")
    if n_hidden:
        problems.notes.append(f"rows that the sheet hides were read, too: {n_hidden:,}")


def _merged_cells(sheet: "Worksheet", n_rows: int) -> dict[tuple[int, int], tuple[int, int]]:
    """From each cell that is merged with one above it to that one: rows and columns from 1."""
    return {
        (row, area.min_col): (area.min_row, area.min_col)
        for area in sheet.merged_cells.ranges
        for row in range(area.min_row + 1, min(area.max_row, n_rows) + 1)
    }


def _value_of(cell: Any) -> object:
    """What people see in a cell, as far as it bears on its meaning."""
    value = cell.value
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        if "%" in str(cell.number_format):
            return f"{round(value * 100, 9):.12g}%"
        return int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(value, datetime):
        whole_day = value.time() == time()
        return value.date().isoformat() if whole_day else value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else str(getattr(value, "text", value))


class WorkbookSink:
    """Writes rows to the one sheet of a new workbook; texts are never formulas."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        with naming_libraries():
            from openpyxl import Workbook

        self._path, self._columns = path, columns
        self._workbook = Workbook(write_only=True)
        self._sheet: Any = self._workbook.create_sheet("rows")
        self._append([str(name) for name in columns])

    def write(self, row: Row) -> None:
        check_columns(row, self._columns)
        self._append([as_plain_cell(row.get(name)) for name in self._columns])

    def close(self) -> None:
        with self._path.open("wb") as file:
            self._workbook.save(file)

    def _append(self, values: Sequence[object]) -> None:
        from openpyxl.cell import WriteOnlyCell
        from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

        cells = []
        for value in values:
            if not isinstance(value, str):
                cells.append(value)
                continue
            if len(value) > MAX_CELL_LENGTH:
                raise RowsError(
                    f"{self._path}: a text has {len(value):,} characters, and a cell of .xlsx "
                    f"holds {MAX_CELL_LENGTH:,}; write .csv or .jsonl instead"
                )
            cell = WriteOnlyCell(self._sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value) or None)
            if value:
                cell.data_type = "s"
            cells.append(cell)
        self._sheet.append(cells)
