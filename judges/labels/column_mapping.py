"""Checks the columns that the user names with --map, and advises how to correct them."""

from collections.abc import Collection

from judges.labels.cells import KEY_SEPARATOR
from judges.labels.columns import ROLE_NAMES, ROW_NUMBER_COLUMN, VOTE_COLUMNS, Columns
from judges.labels.names import OUTPUT_NAMES, SOURCE_NAMES, is_source_or_output, map_flag, name_key
from judges.tables.problems import Problems, joined_names


def check_user_columns(columns: Columns, problems: Problems) -> None:
    """Add a problem for each name that is mapped to a missing column, or to too many columns."""
    for name, user_columns in columns.columns_by_name.items():
        for column in user_columns:
            are_row_numbers = (name, column) == ("id", ROW_NUMBER_COLUMN)
            exists = column in columns.table.columns or are_row_numbers
            if not exists and all(cell is None for cell in columns.cells_in(column)):
                add_missing_column(columns, problems, column, name)
        needs_one = is_source_or_output(name) or name in ROLE_NAMES.difference(VOTE_COLUMNS)
        if needs_one and len(user_columns) > 1:
            fault = f"is mapped to {len(user_columns)} columns ({joined_names(user_columns)})"
            advice = f"give one --map {name}=COLUMN; only ratings and votes may have several"
            problems.add("two-columns", fault, advice, field=name)


def add_missing_column(
    columns: Columns, problems: Problems, column: str, name: str, reason: str = ""
) -> None:
    """Add the problem that the column for `name` is missing or holds no texts."""
    exists = columns.has_column(column) and None not in columns.cells_in(column)
    fault = "this column is not read as a text" if exists else "there is no such column"
    fault += f"{reason}; the columns are {columns.column_names_text}"
    problems.add("no-column", fault, map_flag_advice(columns, name), field=column)


def map_flag_advice(columns: Columns, name: str) -> str:
    """Return advice to name a column with --map; the advice names the likely column, if any."""
    key, columns_and_keys = name_key(name), [*columns.nested_key_paths]
    synonyms: Collection[str] = ()
    for usual_names in (SOURCE_NAMES, OUTPUT_NAMES):
        if key in usual_names:
            synonyms, columns_and_keys = usual_names, [*columns.table.columns, *columns_and_keys]
    for column in columns_and_keys:
        column_key = name_key(column.rpartition(KEY_SEPARATOR)[2])
        # A key such as `rel` may be short for `relevance`.
        if column_key in synonyms or key.startswith(column_key):
            return f"name your column with {map_flag(name, [column])}"
    return f"name your column with {map_flag(name, ['COLUMN'])}"
