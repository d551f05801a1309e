"""Reads rows in memory like the rows of a file: DataFrames, data sets, lists of dicts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from judges.tables.problems import RowsError, excerpt
from judges.tables.text import Row, plain_value

if TYPE_CHECKING:
    import pandas as pd

    # A DataFrame, a list with a mapping per row, or a Hugging Face data set (which has no types).
    Rows: TypeAlias = pd.DataFrame | Sequence[Mapping[str, object]]
else:
    Rows = object

_FRAME, _DATASET = ("pandas", "DataFrame"), ("datasets", "Dataset")


def is_in_memory(source: object) -> bool:
    """Whether `rows_in_memory` can read `source`; else it is the path of a file."""
    return isinstance(source, list | tuple) or _class_name(source) in (_FRAME, _DATASET)


def name_of(source: object) -> str:
    """Return the name of a table for messages: a file's path, or the type of rows in memory."""
    if isinstance(source, list | tuple):
        return "rows"
    return type(source).__name__ if is_in_memory(source) else str(source)


def rows_in_memory(source: Any) -> list[Row]:
    """Return the rows as plain data for JSON, with missing values as None.

    If the index of a DataFrame has a name, it is a column. Raises RowsError for a row that is not a
    mapping, and for two columns with the same name.
    """
    rows: Iterable[object] = source
    if _class_name(source) == _DATASET:
        # In the format "arrow", images and sounds are not decoded.
        batches = source.with_format("arrow").iter(batch_size=1000)
        rows = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="lossy"))
    elif _class_name(source) == _FRAME:
        is_named = source.index.name is not None and source.index.name not in source.columns
        frame = source.reset_index() if is_named else source
        if not frame.columns.is_unique:
            duplicate = frame.columns[frame.columns.duplicated()][0]
            raise RowsError(f"{name_of(source)}: two columns are called {duplicate!r}; rename one")
        rows = frame.to_dict("records")
    plain: list[Row] = []
    for number, row in enumerate(map(plain_value, rows), start=1):
        if not isinstance(row, dict):
            where = f"{name_of(source)}, row {number}"
            raise RowsError(f"{where}: {excerpt(row)} is not a mapping from columns to cells")
        plain.append(row)
    return plain


def as_json_lines(rows: Iterable[Row]) -> bytes:
    """Return the bytes of a JSON Lines file with these rows; the same rows give the same bytes."""
    return b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)


def _class_name(source: object) -> tuple[str, str]:
    """Return the library and the name of an object's class, without importing the library."""
    return type(source).__module__.partition(".")[0], type(source).__name__
