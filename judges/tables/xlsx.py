"""Read the rows of one sheet of a workbook (.xlsx), with the values that a spreadsheet shows."""

import re
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any  # for openpyxl's sheets and cells, which have no type hints

from dspy_judges import bounds
from judges.tables.problems import Problems, UnreadableError, excerpt, joined_names, size_error
from judges.tables.spreadsheet import GridRow, rows_under_header
from judges.tables.text import TableRow, is_blank

# Matches FILE.xlsx:SHEET.
_PATH_WITH_SHEET = re.compile(r"(.+\.xls[xm]):([^/\\]+)", re.IGNORECASE | re.DOTALL)
# Upper bounds on the XML tags in those two files inside a workbook that are slow to read. Any other
# file inside the workbook may have four tags for each cell.
_MAX_TAGS = {"xl/styles.xml": bounds.MAX_STYLE_TAGS, "xl/sharedstrings.xml": 2 * bounds.MAX_CELLS}
# Matches a merged range of cells in the XML of a sheet.
_MERGED_RANGE = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="(\w+:\w+)"')


def split_sheet(path: Path) -> tuple[Path, str | None]:
    """Split `FILE.xlsx:SHEET` into the file and the sheet's name, or None if no sheet is named."""
    path_match = None if path.exists() else _PATH_WITH_SHEET.fullmatch(str(path))
    return (Path(path_match[1]), path_match[2]) if path_match else (path, None)


def workbook_rows(path: Path, problems: Problems) -> Iterator[TableRow]:
    """Yield the rows of a sheet, with their row numbers in the sheet.

    The sheet is the one that `path` names, else the only visible sheet with a table. Cells are
    strings, numbers and bools. Dates are strings such as 2024-01-31, and percentages are strings
    such as 85%. If a cell is merged over several rows, each of these rows has its value.
    """
    from openpyxl import load_workbook

    file, sheet_name = split_sheet(path)
    try:
        _check_size(file)
        with warnings.catch_warnings():
            # openpyxl's warnings are about contents that are not read here, such as print areas.
            warnings.simplefilter("ignore")
            # In read-only mode, openpyxl creates no empty cells, whatever size a sheet claims.
            workbook = load_workbook(file, read_only=True, data_only=True)
            grid = _read_grid(workbook, sheet_name, problems)
            workbook.close()
    except UnreadableError:
        raise
    except Exception as error:
        # If the file is damaged, openpyxl may raise any exception.
        fault = f"cannot be read as .xlsx ({type(error).__name__}: {excerpt(str(error))})"
        advice = "save it as .xlsx again, or export it as CSV"
        raise UnreadableError("bad-xlsx", fault, advice) from error
    yield from rows_under_header(grid, problems)


def _check_size(file: Path) -> None:
    """Raise UnreadableError if a workbook is too large to be read."""
    with zipfile.ZipFile(file) as archive:
        n_bytes = sum(zip_entry.file_size for zip_entry in archive.infolist())
        if n_bytes > bounds.MAX_BYTES:
            max_mib = bounds.MAX_BYTES >> 20
            raise size_error(f"unpacks to {n_bytes >> 20:,} MiB, more than {max_mib}")
        for file_name in archive.namelist():
            max_tags = _MAX_TAGS.get(file_name.lower(), 4 * bounds.MAX_CELLS)
            n_tags = archive.read(file_name).count(b"<")
            if n_tags > max_tags:
                raise size_error(f"has {n_tags:,} XML tags in {file_name}, more than {max_tags:,}")


def _read_grid(workbook: Any, sheet_name: str | None, problems: Problems) -> list[GridRow]:
    """Return the rows of the named sheet; by default, of the only visible sheet with a table."""
    grid_by_sheet: dict[Any, list[GridRow]] = {}
    for sheet in workbook.worksheets:
        is_read = sheet.title == sheet_name if sheet_name else sheet.sheet_state == "visible"
        if is_read:
            grid_by_sheet[sheet] = _filled_rows(sheet)
    table_sheets = [sheet for sheet, grid in grid_by_sheet.items() if _holds_table(grid)]
    if len(table_sheets) > 1 or not grid_by_sheet:
        fault = f"has the sheets {joined_names(workbook.sheetnames)}"
        advice = "name the sheet with the labels, as FILE.xlsx:SHEET"
        raise UnreadableError("no-sheet", fault, advice)
    sheet = [*table_sheets, *grid_by_sheet][0]
    if sheet_name is None and len(workbook.sheetnames) > 1:
        unread_names = joined_names([name for name in workbook.sheetnames if name != sheet.title])
        problems.notes.append(f"sheet {excerpt(sheet.title)} was read, and not {unread_names}")
    return _fill_merged_cells(sheet, grid_by_sheet[sheet])


def _holds_table(grid: Sequence[GridRow]) -> bool:
    """Return whether at least two rows have at least two filled cells each."""
    return sum(len(row.filled_cells) > 1 for row in grid) > 1


def _filled_rows(sheet: Any) -> list[GridRow]:
    """Return the rows of a sheet that are not empty, padded with None to the same length."""
    # Without this call, openpyxl would rely on the dimensions in the file, which may be wrong.
    sheet.reset_dimensions()
    rows: list[tuple[int, list[object]]] = []
    n_columns = n_cells = 0
    for row_number, row in enumerate(sheet.iter_rows(max_row=bounds.MAX_CELLS), 1):
        cells = [_shown_value(cell) for cell in row]
        while cells and is_blank(cells[-1]):
            cells.pop()
        if cells:
            rows.append((row_number, cells))
        n_columns, n_cells = max(n_columns, len(cells)), n_cells + len(row)
        if n_columns > bounds.MAX_COLUMNS or max(n_cells, len(rows) * n_columns) > bounds.MAX_CELLS:
            limits_text = f"{bounds.MAX_COLUMNS:,} columns or {bounds.MAX_CELLS:,} cells"
            raise size_error(f"has more than {limits_text}", row_number)
    return [GridRow(line, cells + [None] * (n_columns - len(cells))) for line, cells in rows]


def _fill_merged_cells(sheet: Any, grid: list[GridRow]) -> list[GridRow]:
    """Copy the value of each merged range into all rows of the range."""
    from openpyxl.utils import range_boundaries

    n_columns, last_line_of_grid = (len(grid[0].cells), grid[-1].line) if grid else (0, 0)
    with sheet._get_source() as sheet_file:
        range_names = _MERGED_RANGE.findall(sheet_file.read())
    merged_ranges = [range_boundaries(name.decode()) for name in range_names]
    cells_by_line = {row.line: row.cells for row in grid}
    for column, first_line, _, last_line in merged_ranges:
        if column > n_columns or first_line not in cells_by_line:
            continue
        merged_value = cells_by_line[first_line][column - 1]
        for line in range(first_line + 1, min(last_line, last_line_of_grid) + 1):
            cells = cells_by_line.get(line)
            if cells and is_blank(cells[column - 1]):
                cells[column - 1] = merged_value
    return grid


def _shown_value(cell: Any) -> object:
    """Return the value of a cell as a spreadsheet shows it."""
    value = cell.value
    if value is None or isinstance(value, bool | str):
        return value
    if not isinstance(value, int | float):
        return str(value).removesuffix(" 00:00:00")
    # In a number format, a percent sign in quotes or after a backslash is plain text.
    if "%" in re.sub(r'"[^"]*"|\\.', "", str(cell.number_format)):
        return f"{round(value * 100, 9):.12g}%"
    return int(value) if float(value).is_integer() else value
