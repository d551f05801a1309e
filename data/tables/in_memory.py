"""Rows that are in memory, as labels of a file are read: DataFrames, data sets, lists of dicts."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from data.tables.problems import RowsError, excerpt
from data.tables.text import Row

if TYPE_CHECKING:
    import pandas as pd

    class DatasetLike(Protocol):
        """What is known of a Hugging Face Dataset, which ships no types."""

        @property
        def column_names(self) -> Any: ...

        def __iter__(self) -> Iterator[Any]: ...

    # A DataFrame, a Hugging Face Dataset, or one mapping a row.
    Rows: TypeAlias = pd.DataFrame | DatasetLike | Sequence[Mapping[str, Any]]
else:
    Rows = object


def is_in_memory(source: object) -> bool:
    """Whether it is a table that `rows_in_memory` reads."""
    return _is_frame(source) or _is_dataset(source) or _is_rows(source)


def name_of(source: object) -> str:
    """What messages call a table in memory."""
    return "rows" if _is_rows(source) else type(source).__name__


def rows_in_memory(source: object) -> list[Row]:
    """The rows as JSON has them; RowsError names row, column and value that it cannot hold.

    What marks a missing value (None, NaN, NaT, NA) is null. A frame's named index is a column.
    """
    name = name_of(source)
    rows = []
    for number, cells in enumerate(_rows(source, name), start=1):
        row: Row = {}
        for column, value in cells.items():
            plain = _plain(value, f"{name}, row {number}, column {column!r}")
            row[str(column)] = plain
        rows.append(row)
    return rows


def as_json_lines(rows: Iterable[Row]) -> bytes:
    """The file that holds these rows, the same for the same rows."""
    return b"".join(json.dumps(row, allow_nan=False).encode() + b"\n" for row in rows)


def _rows(source: Any, name: str) -> Iterator[Mapping[Any, object]]:
    """Each row's cells by their columns."""
    if _is_frame(source):
        columns = [str(column) for column in source.columns]
        index = {str(source.index.name): source.index} if source.index.name is not None else {}
        if twice := sorted({c for c in columns if columns.count(c) > 1}):
            raise RowsError(f"{name}: two columns are called {twice[0]!r}; rename one")
        table = {**index, **dict(zip(columns, (source[c] for c in source.columns), strict=True))}
        for values in zip(*table.values(), strict=True):
            yield dict(zip(table, values, strict=True))
        return
    for number, row in enumerate(source, start=1):
        if not isinstance(row, Mapping):
            raise RowsError(f"{name}, row {number}: {excerpt(row)} is no mapping from columns")
        yield row


def _is_frame(source: object) -> bool:
    # By its module, so that pandas is not imported to ask.
    modules = {kind.__module__.partition(".")[0] for kind in type(source).__mro__}
    return "pandas" in modules and hasattr(source, "columns")


def _is_dataset(source: object) -> bool:
    return type(source).__module__.partition(".")[0] == "datasets" and hasattr(source, "features")


def _is_rows(source: object) -> bool:
    return isinstance(source, list | tuple)


def _plain(value: Any, where: str) -> Any:
    """The value as JSON has it; RowsError where it has no such value."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, where) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry, where) for entry in value]
    if hasattr(value, "tolist") and hasattr(value, "ndim") and value.ndim > 0:
        return [_plain(entry, where) for entry in value.tolist()]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    # A NumPy scalar is the number that it holds.
    value = value.item() if hasattr(value, "item") else value
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if math.isinf(value):
            raise RowsError(
                f"{where}: {value} is no number to rank by; leave it out, or correct it"
            )
        return None if math.isnan(value) else value
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise RowsError(f"{where}: {excerpt(value)} is neither text nor number; convert the column")
