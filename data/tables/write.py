"""Write rows to JSONL, CSV, TSV or Parquet; the file gets its name only when it is whole."""

import csv
import errno
import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

from data.tables.atomic_write import land
from data.tables.formats import Row
from data.tables.problems import RowsError

FORMATS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
}
DELIMITERS = {"csv": ",", "tsv": "\t"}
BATCH = 1000
# What a spreadsheet takes for a formula when it opens a file of plain cells.
FORMULAS = ("=", "+", "-", "@")


class Sink(Protocol):
    """One format's way to take rows."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class RowWriter:
    """Takes rows into `PATH.partial`, which becomes PATH when all went well.

    `columns` are all a flat format's columns, in order; JSONL needs none. `inert`: cells of CSV and
    TSV that a spreadsheet would run as formulas are written with an apostrophe before them.
    """

    def __init__(
        self,
        path: Path,
        *,
        columns: Sequence[str],
        overwrite: bool = False,
        inert: bool = False,
    ) -> None:
        self.path = path
        self.partial = partial_of(path)
        self.written = 0
        self._overwrite = overwrite
        self._sink = _open(path, self.partial, columns, inert=inert)

    def write(self, row: Row) -> None:
        with self._named():
            self._sink.write(row)
        self.written += 1

    @contextmanager
    def _named(self) -> Iterator[None]:
        """An error of writing says which file it was."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise OSError(error.errno or errno.EIO, reason, str(self.partial)) from error

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            with self._named():
                self._sink.close()
            land(self.partial, self.path, overwrite=self._overwrite)
            return
        # What went wrong is told already, and a full disk fails here once more.
        with suppress(OSError, RowsError):
            self._sink.close()
        if self.written == 0:
            self.partial.unlink(missing_ok=True)


def partial_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")


def format_of(path: Path) -> str:
    """jsonl, csv, tsv or parquet, by the name's ending."""
    try:
        return FORMATS[path.suffix.lower()]
    except KeyError:
        raise RowsError(
            f"{path}: its ending says no known format; use one of {', '.join(FORMATS)}"
        ) from None


def flat(path: Path) -> bool:
    """Whether a file's format holds plain columns only."""
    return format_of(path) != "jsonl"


def _open(path: Path, partial: Path, columns: Sequence[str], *, inert: bool) -> Sink:
    form = format_of(path)
    if form == "jsonl":
        return _Jsonl(partial)
    if form == "parquet":
        return _Parquet(partial, columns)
    return _Separated(partial, columns, DELIMITERS[form], inert=inert)


class _Jsonl:
    def __init__(self, partial: Path) -> None:
        self._file: IO[str] = partial.open("w", encoding="utf-8", newline="\n")

    def write(self, row: Row) -> None:
        # Lone surrogates, which JSON can escape and UTF-8 cannot hold, stay escaped.
        try:
            self._file.write(_line(row, ensure_ascii=False))
        except UnicodeEncodeError:
            self._file.write(_line(row, ensure_ascii=True))

    def close(self) -> None:
        self._file.close()


def _line(row: Row, *, ensure_ascii: bool) -> str:
    """One row as JSON, which has no NaN: a number that is none is null."""
    try:
        return _dumped(row, ensure_ascii) + "\n"
    except ValueError:
        return _dumped(_finite(row), ensure_ascii) + "\n"


def _dumped(row: object, ensure_ascii: bool) -> str:
    return json.dumps(row, ensure_ascii=ensure_ascii, allow_nan=False, default=_plain)


def _plain(value: object) -> object:
    """What Parquet may hold and JSON does not."""
    return float(value) if isinstance(value, Decimal) and value.is_finite() else str(value)


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class _Separated:
    def __init__(
        self, partial: Path, columns: Sequence[str], delimiter: str, *, inert: bool
    ) -> None:
        self._columns = columns
        self._shown = _inert if inert else _cell
        self._file = partial.open("w", encoding="utf-8", newline="", errors="replace")
        self._writer = csv.writer(_UnixLines(self._file), delimiter=delimiter)
        self._writer.writerow([self._shown(name) for name in columns])

    def write(self, row: Row) -> None:
        _check_columns(row, self._columns)
        self._writer.writerow([self._shown(row.get(name)) for name in self._columns])

    def close(self) -> None:
        self._file.close()


class _UnixLines:
    """Ends lines plainly; csv quotes a lone carriage return only if its own line ends have one."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, line: str) -> int:
        return self._file.write(line.removesuffix("\r\n") + "\n")


class _Parquet:
    """Rows in batches; the first batch settles the types."""

    def __init__(self, partial: Path, columns: Sequence[str]) -> None:
        self._partial = partial
        self._columns = columns
        self._batch: list[Row] = []
        self._writer: Any = None

    def write(self, row: Row) -> None:
        _check_columns(row, self._columns)
        self._batch.append(row)
        if len(self._batch) >= BATCH:
            self._flush()

    def close(self) -> None:
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        data = {name: [row.get(name) for row in self._batch] for name in self._columns}
        self._batch = []
        try:
            if self._writer is None:
                table = pa.table(data)
                self._writer = pq.ParquetWriter(self._partial, _without_null(table.schema))
            self._writer.write_table(pa.table(data, schema=self._writer.schema))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
            raise RowsError(
                f"{self._partial}: a column changes its type ({str(error).splitlines()[0]}); "
                "write JSONL instead"
            ) from error


def _without_null(schema: Any) -> Any:
    """A column that is empty in the first batch holds text later, if anything."""
    import pyarrow as pa

    return pa.schema(
        [
            field.with_type(pa.string()) if pa.types.is_null(field.type) else field
            for field in schema
        ]
    )


def _check_columns(row: Row, columns: Sequence[str]) -> None:
    if unknown := row.keys() - set(columns):
        raise RowsError(
            f"a row has the column {sorted(unknown)[0]!r}, which the first row lacks; "
            "write JSONL instead"
        )


def _cell(value: object) -> object:
    if value is None or value != value:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value


def _inert(value: object) -> object:
    """A cell that no spreadsheet runs; numbers stay what they are."""
    cell = _cell(value)
    if not isinstance(cell, str) or not cell.lstrip().startswith(FORMULAS):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
