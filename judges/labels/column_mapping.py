"""Checks a user's mapping of names to columns, and says how to mend it."""

from collections.abc import Mapping

from dspy_judges.column_names import name_key
from judges.labels.cells import KEY_SEPARATOR
from judges.labels.columns import (
    ROLE_NAMES,
    ROW_NUMBER_COLUMN,
    VOTE_COLUMNS,
    ColumnNames,
    Columns,
)
from judges.labels.names import OUTPUT_NAMES, SOURCE_NAMES, is_source_or_output, map_flag
from judges.tables.formats import Table
from judges.tables.problems import Problems, joined_names


def mapping_in_table(table: Table, mapping: Mapping[str, ColumnNames]) -> dict[str, ColumnNames]:
    """Return the entries of a mapping of two files whose columns this table has."""
    columns = Columns(table, mapping)
    entries = columns.mapping.items()
    return {name: mapping[name] for name, headers in entries if all(map(columns.has, headers))}


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Add a problem for each name that is mapped to a missing column, or to too many columns."""
    for name, headers in columns.mapping.items():
        for column in headers:
            exists = column in columns.table.columns or (name, column) == ("id", ROW_NUMBER_COLUMN)
            if not exists and all(value is None for value in columns.cells(column)):
                add_missing_column(columns, problems, column, name)
        if len(headers) > 1 and (is_source_or_output(name) or name in ROLE_NAMES - {*VOTE_COLUMNS}):
            fault = f"is mapped to {len(headers)} columns ({joined_names(headers)})"
            advice = f"give one --map {name}=COLUMN; only ratings and votes may have several"
            problems.add("two-columns", fault, advice, field=name)


def add_missing_column(
    columns: Columns, problems: Problems, column: str, name: str, reason: str = ""
) -> None:
    """Add the problem that the column for `name` is missing or holds no texts."""
    exists = columns.has(column) and not columns.cells(column).count(None)
    fault = "this column is not read as a text" if exists else "there is no such column"
    fault += f"{reason}; the columns are {columns.names_for_message}"
    problems.add("no-column", fault, mapping_advice(columns, name), field=column)


def mapping_advice(columns: Columns, name: str) -> str:
    """Return advice to map `name` with --map, and to which column if one seems to be meant."""
    usual_names = (SOURCE_NAMES, OUTPUT_NAMES)
    synonyms = next((names for names in usual_names if name_key(name) in names), ())
    is_text = synonyms or name in columns.judge_texts
    keys = columns.of_kind(columns.nested_keys, *(("text", "label") if is_text else ("rating",)))
    # Any other key may be another dimension's.
    suggestions = [key for key in keys if key.rpartition(KEY_SEPARATOR)[2] in name]
    if synonyms:
        names = (*columns.table.columns, *keys)
        suggestions = [c for c in names if name_key(c.rpartition(KEY_SEPARATOR)[2]) in synonyms]
    return f"name your column with {map_flag(name, suggestions[:1] or ['COLUMN'])}"
