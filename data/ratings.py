"""The wide shape: ratings in nested columns, in flat ones, or joined from a long file."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from data.columns import DOT, Columns, cell, is_known_text
from data.long import Ratings, is_long
from data.numbers import Fault, Marks, Scale, is_blank, read_json, read_marks
from data.problems import Problems
from data.tables import Row

_NESTED = ("ratings", "annotations")
_OTHERS = ("id", "group", "system", *_NESTED)


@dataclass(frozen=True, slots=True)
class RatingColumns:
    """Where a table keeps its ratings; `nested` is in rising order of precedence.

    A dimension in several flat columns has one annotator in each.
    """

    nested: tuple[str, ...]
    flat: Mapping[str, tuple[str, ...]]

    @property
    def taken(self) -> set[str]:
        return {*self.nested, *(column for columns in self.flat.values() for column in columns)}


def find_ratings(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return a table's rating columns: those of the dimensions, or all that can be told apart.

    A flat column is a rating where it is asked for by name, mapped, or mostly numbers (or lists of
    them, one for each annotator); the last only in a table without nested ratings. A column mapped
    to a name of the user's own is a text only where its cells read as one.
    """
    found = (columns.find(name) for name in _NESTED)
    nested = tuple(name for name in found if name is not None)
    taken = columns.taken((*_OTHERS, "annotator"))
    flat = {
        name: mapped
        for name, mapped in columns.mapping.items()
        if name not in _OTHERS
        and all(columns.has(column) for column in mapped)
        and (_rates(columns, name, mapped) if dimensions is None else name in dimensions)
    }
    for name in dimensions or ():
        cased = columns.cased(name)
        if name not in flat and not columns.has(name) and cased is not None:
            flat[name] = (cased,)
    for column in columns.table.columns:
        if column in taken or column in columns.mapping:
            continue
        if (dimensions is None and not nested and columns.numeric(column)) or (
            dimensions is not None and column in dimensions
        ):
            flat[column] = (column,)
    return RatingColumns(nested, flat)


def holds_ratings(columns: Columns) -> bool:
    """Whether a table has ratings that nobody need name: nested or long ones."""
    return is_long(columns) or any(columns.find(name) is not None for name in _NESTED)


def _rates(columns: Columns, name: str, mapped: tuple[str, ...]) -> bool:
    """Whether what is mapped to a name of the user's own are ratings, sound or faulty."""
    if is_known_text(name):
        return False
    first = mapped[0]
    return (
        len(mapped) > 1
        or _is_nested(first)
        or columns.numeric(first)
        or not any(isinstance(value, str) for value in columns.cells(first))
        or not columns.is_prose(first)
    )


def _is_nested(column: str) -> bool:
    return DOT in column and column.partition(DOT)[0] in _NESTED


@dataclass(slots=True)
class RatingReader:
    """Reads one row's ratings on the dimensions asked for, and counts what deserves a note."""

    columns: Columns
    found: RatingColumns
    problems: Problems
    dimensions: Collection[str] | None
    scales: Mapping[str, Scale]
    joined: Ratings | None = None
    n_differing: int = field(default=0, init=False)

    def read(self, row: Row, item: str) -> dict[str, Marks]:
        """Return who gave what, by dimension; a joined file's word goes before the row's own."""
        rated: dict[str, Marks] = {}
        for column in self.found.nested:
            nested = self._nested(row, column)
            for dimension, marks in nested.items():
                before = rated.get(dimension)
                if before is not None and abs(_mean(before) - _mean(marks)) > 0.01:
                    self.n_differing += 1
            rated |= nested
        for dimension, columns in self.found.flat.items():
            if dimension in self.columns.mapping or dimension not in rated:
                rated |= self._flat(row, dimension, columns)
        if self.joined is not None:
            own = self.joined.get(item, {})
            rated |= {name: marks for name, marks in own.items() if self._is_asked(name)}
        return rated

    def _flat(self, row: Row, dimension: str, columns: tuple[str, ...]) -> dict[str, Marks]:
        if len(columns) == 1:
            return self._cell(row, dimension, columns[0], cell(row, columns[0]))
        ratings: dict[str, float] = {}
        for column in columns:
            marks = self._cell(row, dimension, column, cell(row, column)).get(dimension)
            if marks is not None and len(marks.ratings) > 1:
                what = "holds several ratings, and is one annotator's column of several"
                way_out = "give one column with lists, or a number in each column"
                self._note(row, column, Fault("not-a-number", what, way_out))
            elif marks is not None:
                ratings[column] = marks.ratings[0]
        return {dimension: Marks(tuple(ratings.values()), tuple(ratings))} if ratings else {}

    def _nested(self, row: Row, column: str) -> dict[str, Marks]:
        value = cell(row, column)
        if isinstance(value, str) and not is_blank(value):
            value = read_json(value)
        if isinstance(value, Fault):
            self._note(row, column, value)
            return {}
        if is_blank(value):
            return {}
        if not isinstance(value, Mapping):
            way_out = "write an object of dimensions and their ratings"
            self._note(row, column, Fault("no-object", "is no object", way_out, value))
            return {}
        rated: dict[str, Marks] = {}
        renamed = {column for columns in self.columns.mapping.values() for column in columns}
        for dimension, given in _items(value):
            if self._is_asked(dimension) and f"{column}{DOT}{dimension}" not in renamed:
                rated |= self._cell(row, dimension, f"{column}{DOT}{dimension}", given)
        return rated

    def _cell(self, row: Row, dimension: str, column: str, value: object) -> dict[str, Marks]:
        marks = read_marks(value, self.scales.get(dimension, self.scales.get("*")))
        if isinstance(marks, Fault):
            self._note(row, column, marks)
            return {}
        return {dimension: marks} if marks.ratings else {}

    def _is_asked(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def _note(self, row: Row, column: str, fault: Fault) -> None:
        self.problems.add(
            fault.kind, fault.what, fault.way_out, line=row.line, field=column, value=fault.value
        )


def _items(value: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    return ((str(dimension), given) for dimension, given in value.items())


def _mean(marks: Marks) -> float:
    return sum(marks.ratings) / len(marks.ratings)
