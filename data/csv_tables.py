"""Read CSV and TSV strictly: an unclosed quote or a ragged row is a problem, not a long field."""

import csv
from collections.abc import Iterator
from pathlib import Path

from data.lines import LONGEST_LINE, LineFile
from data.problems import Problems
from data.tables import Row, Table, gather, source_name

_LINE_ENDS = "save the file with line feeds at the ends of lines, and quote fields that hold any"
_QUOTES = "quote fields that hold separators or line breaks, and double the quotes inside"


def read_csv(path: Path, problems: Problems) -> Table:
    """Read comma-separated values; semicolons or tabs where the header is split by those."""
    return _read(path, problems, None)


def read_tsv(path: Path, problems: Problems) -> Table:
    """Read tab-separated values."""
    return _read(path, problems, "\t")


def _read(path: Path, problems: Problems, delimiter: str | None) -> Table:
    lines = LineFile(path, problems)
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        columns, rows = gather(_delimited_rows(lines, problems, delimiter))
    finally:
        csv.field_size_limit(before)
    return Table(
        name=source_name(path),
        file=problems.file,
        sha256=lines.sha256,
        typed=False,
        unit="line",
        columns=columns,
        rows=rows,
    )


def _delimited_rows(lines: LineFile, problems: Problems, delimiter: str | None) -> Iterator[Row]:
    texts = (line.text for line in lines)
    first = next(texts, None)
    if first is None:
        return
    records = csv.reader(
        _chain(first, texts), delimiter=delimiter or _delimiter(first), strict=True
    )
    line = 1
    header: list[str] = []
    try:
        for cells in records:
            start, line = line, records.line_num + 1
            if not any(cells):
                continue
            if not header:
                header = [name.strip() for name in cells]
                if not _distinct(header, start, problems):
                    return
            elif len(cells) == len(header):
                yield Row(start, dict(zip(header, cells, strict=True)))
            else:
                _ragged(cells, header, start, problems)
    except csv.Error as error:
        if "new-line character" in str(error):
            problems.add("bad-csv", "has a line end of its own kind", _LINE_ENDS, line=line)
        else:
            problems.add("bad-csv", f"cannot be read: {error}", _QUOTES, line=line)


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


def _delimiter(header: str) -> str:
    return max(",;\t", key=header.count)


def _distinct(header: list[str], line: int, problems: Problems) -> bool:
    twice = sorted({name for name in header if name and header.count(name) > 1})
    for name in twice:
        what = "names two columns"
        problems.add("twice", what, "give every column its own name", line=line, field=name)
    return not twice


def _ragged(cells: list[str], header: list[str], line: int, problems: Problems) -> None:
    problems.add("ragged", f"has {len(cells)} cells, the header {len(header)}", _QUOTES, line=line)
