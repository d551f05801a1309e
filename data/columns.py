"""Which column of a table means what: ids, texts and flat ratings, by name or by a mapping."""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from data.numbers import is_blank, is_rating
from data.problems import Problems, listed, shown
from data.tables import Row, Table

# What systems were given, by the names people use for it, the most telling first.
SOURCES = (
    "document",
    "context",
    "post",
    "query",
    "prompt",
    "article",
    "dialogue",
    "question",
    "instruction",
)
OUTPUTS = ("summary", "response", "output", "answer", "reply", "completion", "generation")
# A dotted name reaches into a nested column.
DOT = "."

_ALIASES = {
    "group": ("document_id", "doc_id", "group_id"),
    "system": ("system_id", "model", "model_id"),
    "system_a": ("model_a", "generator_1"),
    "system_b": ("model_b", "generator_2"),
}
# `--map id=#line` numbers the rows of a file without ids.
LINE = "#line"


@dataclass(frozen=True, slots=True)
class Columns:
    """A table's columns and the user's names for some of them."""

    table: Table
    mapping: Mapping[str, str]

    def find(self, name: str) -> str | None:
        """Return the column that holds `name`: as mapped, under that name, or an alias of it."""
        for column in (self.mapping.get(name), name, *_ALIASES.get(name, ())):
            if column is not None and self.has(column):
                return column
        return None

    def has(self, column: str) -> bool:
        """Whether the table has the column, or the nested column that a dotted name starts with."""
        known = self.table.columns
        return column in known or (DOT in column and column.partition(DOT)[0] in known)

    def taken(self, names: Iterable[str]) -> set[str]:
        """Return the columns that hold these names, and all that a mapping gave another name."""
        found = (self.find(name) for name in names)
        return {one for one in found if one is not None} | set(self.mapping.values())

    def texts(self, taken: set[str], *, ratings: Iterable[str] = ()) -> dict[str, str]:
        """Return every text's name and column: all string columns that serve nothing else."""
        spent = taken | set(ratings)
        found = {}
        for column in self.table.columns:
            if column not in spent and column not in self.mapping and self._is_text(column):
                found[column] = column
        for name, column in self.mapping.items():
            if name not in _ROLES and column not in set(ratings) and self._is_text(column):
                found[name] = column
        return found

    def numeric(self, column: str) -> bool:
        """Whether most of a column's cells are ratings; a known text's never are."""
        if column in SOURCES or column in OUTPUTS:
            return False
        present = numbers = 0
        for value in self.cells(column):
            if not is_blank(value):
                present += 1
                numbers += is_rating(value, typed=self.table.typed)
        return 2 * numbers >= present > 0

    def cells(self, column: str) -> Iterable[object]:
        return (cell(row, column) for row in self.table.rows)

    def _is_text(self, column: str) -> bool:
        if column in SOURCES or column in OUTPUTS:
            return True
        return not self.numeric(column) and any(
            isinstance(value, str) for value in self.cells(column)
        )


_ROLES = frozenset(
    {"id", "group", "system", "system_a", "system_b", "ratings", "annotations", "votes"}
    | {"preferred", "preference", "response_a", "response_b", "dimension", "annotator", "rating"}
)


def cell(row: Row, column: str) -> object:
    """Return a row's cell; a dotted column that the row lacks reaches into a nested one."""
    if column in row.cells or DOT not in column:
        return row.cells.get(column)
    value: object = row.cells
    for key in column.split(DOT):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Note every mapping to a column that the file does not have."""
    for name, column in columns.mapping.items():
        if not columns.has(column) and not (name == "id" and column == LINE):
            missing_column(columns.table.columns, problems, column, f"--map {name}=COLUMN")


def missing_column(
    known: Sequence[str], problems: Problems, column: str, way_out: str, also: str = ""
) -> None:
    """Note that there is no such column, and which ones there are."""
    near = difflib.get_close_matches(column, known, n=1)
    hint = f"did you mean {shown(near[0])}? " if near else ""
    problems.add(
        "no-column",
        f"there is no such column{also}; there are {listed(known)}",
        f"{hint}name yours with {way_out}",
        field=column,
    )
