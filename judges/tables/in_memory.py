"""Rows in memory, read like those of a file: DataFrames, data sets, lists of dicts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from judges.tables.problems import RowsError, excerpt
from judges.tables.text import Row, plain_value

if TYPE_CHECKING:
    import pandas as pd

    # A DataFrame, one mapping a row, or a Hugging Face data set, whose library ships no types.
    Rows: TypeAlias = pd.DataFrame | Sequence[Mapping[str, object]]
else:
    Rows = object

_FRAME, _DATASET = ("pandas", "DataFrame"), ("datasets", "Dataset")


def is_in_memory(source: object) -> bool:
    """Whether `rows_in_memory` can read it."""
    return isinstance(source, list | tuple) or _kind(source) in (_FRAME, _DATASET)


def name_of(source: object) -> str:
    """The name of a table in messages."""
    if isinstance(source, list | tuple):
        return "rows"
    return type(source).__name__ if is_in_memory(source) else str(source)


def rows_in_memory(source: Any) -> list[Row]:
    """The rows as plain data for JSON, with missing values as None.

    A frame's named index is a column. RowsError names a row that is not a mapping.
    """
    rows: Iterable[object] = source
    if _kind(source) == _DATASET:
        # The format "arrow" decodes no pictures and sounds.
        batches = source.with_format("arrow").iter(batch_size=1000)
        rows = (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="lossy"))
    elif _kind(source) == _FRAME:
        is_named = source.index.name is not None and source.index.name not in source.columns
        frame = source.reset_index() if is_named else source
        if not frame.columns.is_unique:
            double = frame.columns[frame.columns.duplicated()][0]
            raise RowsError(f"{name_of(source)}: two columns are called {double!r}; rename one")
        rows = frame.to_dict("records")
    plain = [plain_value(row) for row in rows]
    for number, row in enumerate(plain, start=1):
        if not isinstance(row, dict):
            where = f"{name_of(source)}, row {number}"
            raise RowsError(f"{where}: {excerpt(row)} is not a mapping from columns")
    return plain


def as_json_lines(rows: Iterable[Row]) -> bytes:
    """The rows as a JSON Lines file, always the same for the same rows."""
    return b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)


def _kind(source: object) -> tuple[str, str]:
    """The library and the name of an object's class, without importing the library."""
    return type(source).__module__.partition(".")[0], type(source).__name__
