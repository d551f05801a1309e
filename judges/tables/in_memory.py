"""Read DataFrames, data sets and lists of dicts as rows, like those of a file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from judges.tables.problems import RowsError, excerpt
from judges.tables.text import Record, plain_value

if TYPE_CHECKING:
    import pandas as pd

    # A pandas or polars DataFrame, a sequence with one mapping for each row, or a Hugging Face data
    # set. The type does not name polars, which may not be installed, or datasets, which is untyped.
    Rows: TypeAlias = pd.DataFrame | Sequence[Mapping[str, object]]
else:
    Rows = object

# The classes of tables that can be read, as LIBRARY.CLASS.
_TABLE_CLASSES = ("pandas.DataFrame", "polars.DataFrame", "datasets.Dataset")


def is_in_memory(table: object) -> bool:
    """Return whether `table` holds rows in memory, and is not the path of a file."""
    return isinstance(table, list | tuple) or _class_name(table) in _TABLE_CLASSES


def table_name(table: object) -> str:
    """Return a table's name for messages: a file's path, "rows" for a list, or a class's name."""
    if isinstance(table, list | tuple):
        return "rows"
    return type(table).__name__ if is_in_memory(table) else str(table)


def rows_in_memory(table: Any) -> list[Record]:
    """Return the rows as data that JSON can hold; a DataFrame's named index becomes a column."""
    rows: Iterable[object] = table
    name = table_name(table)
    if _class_name(table) == "datasets.Dataset":
        # In the format "arrow", a data set yields its images and sounds without decoding them.
        batches = table.with_format("arrow").iter(batch_size=1000)
        rows = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="lossy"))
    elif _class_name(table) == "polars.DataFrame":
        rows = table.to_dicts()
    elif _class_name(table) == "pandas.DataFrame":
        index_name = table.index.name
        has_new_index_name = index_name is not None and index_name not in table.columns
        frame = table.reset_index() if has_new_index_name else table
        if not frame.columns.is_unique:
            repeated_name = frame.columns[frame.columns.duplicated()][0]
            raise RowsError(f"{name}: two columns are called {repeated_name!r}; rename one")
        rows = frame.to_dict("records")
    records: list[Record] = []
    for row_number, row in enumerate(map(plain_value, rows), start=1):
        if not isinstance(row, dict):
            raise RowsError(
                f"{name}, row {row_number}: {excerpt(row)} is not a mapping from columns to cells"
            )
        records.append(row)
    return records


def as_json_lines(rows: Iterable[Record]) -> bytes:
    """Return the bytes of a JSON Lines file with these rows; the same rows give the same bytes."""
    return b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)


def _class_name(table: object) -> str:
    """Return the names of an object's library and class, as in "pandas.DataFrame"."""
    return f"{type(table).__module__.partition('.')[0]}.{type(table).__name__}"
