"""Look through a table before anything is paid: its rows, columns, and how long its texts are."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from judges.judge import Judge
from judges.judging import find_columns, unusable
from judges.tables.rows import Row, RowsError, read_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What one pass over a table found.

    `columns` are all columns in the order met; `texts` says, for each judge, which column holds
    which of its texts; `usable` and `characters` count, for each judge, the rows it can judge and
    the characters of their texts.
    """

    n_rows: int
    columns: tuple[str, ...]
    texts: Mapping[str, Mapping[str, str]]
    usable: Mapping[str, int]
    characters: Mapping[str, int]


def survey(path: Path, judges: Sequence[Judge], mapping: Mapping[str, str]) -> Survey:
    """Read the whole file once; raises RowsError and MissingColumnError."""
    columns: dict[str, None] = {}
    texts: dict[str, dict[str, str]] = {}
    usable_rows = dict.fromkeys((judge.name for judge in judges), 0)
    characters = dict(usable_rows)
    n_rows = 0
    for row in read_rows(path):
        n_rows += 1
        if n_rows == 1:
            texts = {judge.name: find_columns(judge.subject, row, mapping) for judge in judges}
        columns.update(dict.fromkeys(row))
        for judge in judges:
            read = texts_of(row, texts[judge.name])
            if unusable(judge.subject, read) is None:
                usable_rows[judge.name] += 1
                characters[judge.name] += sum(len(str(text)) for text in read.values())
    if n_rows == 0:
        raise RowsError(f"{path}: no rows")
    return Survey(
        n_rows=n_rows,
        columns=tuple(columns),
        texts=texts,
        usable=usable_rows,
        characters=characters,
    )


def texts_of(row: Row, columns: Mapping[str, str]) -> Row:
    """A row's texts under the names by which a judge knows them."""
    return {name: row.get(column) for name, column in columns.items()}


def refuse_clash(path: Path, columns: Iterable[str], new: Iterable[str]) -> None:
    """No column of the table may be written over by a new one."""
    if taken := sorted(set(columns) & set(new)):
        raise RowsError(
            f"{path}: has a column {taken[0]!r} already, which a score would write over; "
            "give --prefix judge_, or write .jsonl"
        )
