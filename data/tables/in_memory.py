"""Rows that are in memory, as labels of a file are read: DataFrames, data sets, lists of dicts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from data.tables.problems import RowsError, excerpt
from data.tables.text import Row, plain_value

if TYPE_CHECKING:
    import pandas as pd

    class DatasetLike(Protocol):
        """What is known of a Hugging Face Dataset, which ships no types."""

        @property
        def column_names(self) -> Any: ...

    # A DataFrame, a Hugging Face Dataset, or one mapping a row.
    Rows: TypeAlias = pd.DataFrame | DatasetLike | Sequence[Mapping[str, Any]]
else:
    Rows = object


def is_in_memory(source: object) -> bool:
    """Whether it is a table that `rows_in_memory` reads."""
    return isinstance(source, list | tuple) or _library(source) != ""


def name_of(source: object) -> str:
    """What messages call a table."""
    if isinstance(source, list | tuple):
        return "rows"
    return type(source).__name__ if _library(source) else str(source)


def rows_in_memory(source: object) -> list[Row]:
    """The rows as JSON has them; RowsError names a row that is none.

    What marks a missing value (None, NaN, NaT, NA) is null. A frame's named index is a column.
    """
    rows = [plain_value(row) for row in _rows(source)]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            where = f"{name_of(source)}, row {number}"
            raise RowsError(f"{where}: {excerpt(row)} is no mapping from columns")
    return rows


def as_json_lines(rows: Iterable[Row]) -> bytes:
    """The file that holds these rows, the same for the same rows."""
    return b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)


def _rows(source: Any) -> Iterable[object]:
    if _library(source) == "datasets":
        # As Arrow, since nothing here needs the pictures or sounds that iterating would decode.
        batches = source.with_format("arrow").iter(batch_size=1000)
        return (row for batch in batches for row in batch.to_pylist(maps_as_pydicts="lossy"))
    if _library(source) == "pandas":
        frame = source if source.index.name is None else source.reset_index()
        if not frame.columns.is_unique:
            twice = frame.columns[frame.columns.duplicated()][0]
            raise RowsError(f"{name_of(source)}: two columns are called {twice!r}; rename one")
        source = frame.to_dict("records")
    rows: Iterable[object] = source
    return rows


def _library(source: object) -> str:
    """Whose table it is, by its class's module, so that no library is imported to ask."""
    for kind in type(source).__mro__:
        library = kind.__module__.partition(".")[0]
        if (library, kind.__name__) in {("pandas", "DataFrame"), ("datasets", "Dataset")}:
            return library
    return ""
