"""The formats of tables: one entry each, which reading, writing and help texts follow."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from data.tables.arrow import ParquetSink, parquet_rows
from data.tables.problems import Problems, Unit
from data.tables.text import (
    DelimitedSink,
    JsonLinesSink,
    Row,
    TableRow,
    csv_rows,
    json_lines,
    json_rows,
    tsv_rows,
)


class Sink(Protocol):
    """An open file that takes rows."""

    def write(self, row: Row) -> None: ...

    def close(self) -> None: ...


class Format(NamedTuple):
    """A format's endings, the usual one first, and how it is read and written.

    `sink` opens a file to write under a path; None where the format is read only. In an untyped
    format (CSV, TSV) every cell is a string; a flat one holds columns alone, settled at the start.
    """

    endings: tuple[str, ...]
    read: Callable[[Path, Problems], Iterator[TableRow]]
    sink: Callable[[Path, Sequence[str], bool], Sink] | None = None
    typed: bool = True
    flat: bool = True
    unit: Unit = "line"


FORMATS = (
    Format((".jsonl", ".ndjson"), json_lines, lambda path, *_: JsonLinesSink(path), flat=False),
    Format((".json",), json_rows, flat=False),
    Format((".csv",), csv_rows, DelimitedSink, typed=False),
    Format((".tsv",), tsv_rows, partial(DelimitedSink, delimiter="\t"), typed=False),
    Format(
        (".parquet", ".pq"),
        parquet_rows,
        lambda path, columns, _: ParquetSink(path, columns),
        unit="row",
    ),
)
READABLE = {ending: form for form in FORMATS for ending in form.endings}
WRITABLE = {ending: form for ending, form in READABLE.items() if form.sink is not None}


def _in_words(formats: Iterable[Format]) -> str:
    *first, last = (form.endings[0] for form in formats)
    return f"{', '.join(first)} or {last}" if first else last


# For help texts: the usual endings of what is read, what is written, and what is read alone.
READ_ENDINGS = _in_words(FORMATS)
WRITTEN_ENDINGS = _in_words(form for form in FORMATS if form.sink is not None)
READ_ONLY_ENDINGS = _in_words(form for form in FORMATS if form.sink is None)
