"""A file's rows before anybody asks what they mean, whatever format they came in."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from data.problems import Problems, Unit

# Columns that libraries write for themselves, or that have no name.
_PRIVATE = ("__", "Unnamed:")


class Row(NamedTuple):
    """One row and the line it starts on (its number, in a file without lines); both from 1."""

    line: int
    cells: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The rows of one file. In an untyped one (CSV, TSV) every cell is a string."""

    name: str
    file: str
    sha256: str
    typed: bool
    unit: Unit
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


def gather(rows: Iterable[Row]) -> tuple[tuple[str, ...], tuple[Row, ...]]:
    """Return all columns, in order of first appearance, and the rows, equal strings kept once."""
    # Sixteen systems' rows repeat one document sixteen times.
    once: dict[str, str] = {}
    columns: dict[str, None] = {}
    # Rows mostly have the same columns, so what becomes of them is settled once.
    settled: dict[tuple[str, ...], tuple[str, ...]] = {}
    kept = []
    for row in rows:
        names = tuple(row.cells)
        if names not in settled:
            settled[names] = tuple(name for name in names if _is_public(name))
            columns.update(dict.fromkeys(settled[names]))
        cells = {}
        for name in settled[names]:
            value = row.cells[name]
            cells[name] = once.setdefault(value, value) if isinstance(value, str) else value
        kept.append(Row(row.line, cells))
    return tuple(columns), tuple(kept)


def _is_public(name: str) -> bool:
    return bool(name.strip()) and not name.startswith(_PRIVATE)


def source_name(path: str | Path) -> str:
    """A short name for a file or data set, for results and run folders."""
    text = str(path)
    return text.removeprefix("hf:") if text.startswith("hf:") else Path(text).stem or text


def no_rows(problems: Problems) -> None:
    """Note that a file holds no rows."""
    problems.add("empty-file", "holds no rows", "give a file with one row for each output or pair")
