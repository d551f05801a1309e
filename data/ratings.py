"""Ratings in a table: a column a dimension (wide), or a row an annotator and dimension (long)."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from data.cells import (
    DOT,
    RatingsByAnnotator,
    as_object,
    is_blank,
    is_name,
    rating_parts,
    read_json,
    read_ratings,
    value_in,
)
from data.columns import NESTED, Columns, is_known_text
from data.tables.problems import CellError, Problems, excerpt
from data.tables.text import TableRow
from data.values import RatingCells, Scale, Values

_NO_DIMENSION = ("id", "group", "system", *NESTED)

# dimension -> annotator -> rating
Ratings = dict[str, RatingsByAnnotator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What the caller asks of a file; a scale under the name "*" is every other dimension's.

    `texts` are required, and no other; None: every text of a usual name is. `values` are the
    caller's words and what they count.
    """

    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    texts: Collection[str] | None = None
    values: Values = field(default_factory=dict)

    def reads(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def scale(self, dimension: str) -> Scale | None:
        return self.scales.get(dimension, self.scales.get("*"))


@dataclass(frozen=True, slots=True)
class RatingColumns:
    """Where a table keeps its ratings; `nested` is in rising order of precedence.

    A dimension in several flat columns has one annotator in each.
    """

    nested: tuple[str, ...]
    flat: Mapping[str, tuple[str, ...]]

    def all(self) -> set[str]:
        return {*self.nested, *(column for columns in self.flat.values() for column in columns)}


def find_ratings(columns: Columns, dimensions: Collection[str] | None) -> RatingColumns:
    """Return a table's rating columns: those of the dimensions, or all that can be told apart.

    A flat column is a rating where it is asked for by name, mapped, or mostly numbers (or lists of
    them, one for each annotator); the last only in a table without nested ratings. A column mapped
    to a name of the user's own is a text only where its cells read as one.
    """
    nested = tuple(column for name in NESTED if (column := columns.find(name)) is not None)
    used = columns.used((*_NO_DIMENSION, "annotator"))
    flat = {
        name: mapped
        for name, mapped in columns.mapping.items()
        if name not in (*_NO_DIMENSION, "annotator")
        and all(columns.has(column) for column in mapped)
        and (_are_ratings(columns, name, mapped) if dimensions is None else name in dimensions)
    }
    for name in dimensions or ():
        cased = columns.cased(name)
        if name not in flat and not columns.has(name) and cased is not None:
            flat[name] = (cased,)
    for column in columns.table.columns:
        if column in used or column in columns.mapping:
            continue
        if dimensions is None:
            is_dimension = (
                not nested and columns.is_numeric(column) and column not in columns.counts
            )
        else:
            is_dimension = column in dimensions
        if is_dimension:
            flat[column] = (column,)
    return RatingColumns(nested, flat)


def _are_ratings(columns: Columns, name: str, mapped: tuple[str, ...]) -> bool:
    """Whether what is mapped to a name of the user's own are ratings, sound or faulty."""
    if is_known_text(name):
        return False
    root, dot, _ = mapped[0].partition(DOT)
    return (
        len(mapped) > 1
        or (dot != "" and root in NESTED)
        or columns.is_numeric(mapped[0])
        or not any(isinstance(value, str) for value in columns.values(mapped[0]))
        or not columns.is_prose(mapped[0])
    )


@dataclass(slots=True)
class RatingReader:
    """Reads rows' ratings, and counts what deserves a note."""

    columns: Columns
    rating_columns: RatingColumns
    problems: Problems
    options: ReadOptions
    n_conflicting: int = field(default=0, init=False)
    # By dimension and column.
    _cells: dict[tuple[str, str], RatingCells] = field(default_factory=dict, init=False)
    _alike: dict[str, bool] = field(default_factory=dict, init=False)

    def read(self, row: TableRow) -> Ratings:
        """Return a row's ratings; faulty ones are noted, and left out."""
        ratings: Ratings = {}
        for column in self.rating_columns.nested:
            nested = self._read_nested(row, column)
            for dimension, by_annotator in nested.items():
                before = ratings.get(dimension)
                if before is not None and abs(_mean(before) - _mean(by_annotator)) > 0.01:
                    self.n_conflicting += 1
            ratings |= nested
        for dimension, columns in self.rating_columns.flat.items():
            if dimension in self.columns.mapping or dimension not in ratings:
                by_annotator = self._read_flat(row, dimension, columns)
                ratings |= {dimension: by_annotator} if by_annotator else {}
        return ratings

    def _read_flat(
        self, row: TableRow, dimension: str, columns: tuple[str, ...]
    ) -> RatingsByAnnotator:
        """A dimension's ratings in one row, from a cell or from one column an annotator."""
        if len(columns) == 1:
            return self._read_cell(row, dimension, columns[0], value_in(row, columns[0]))
        by_column: RatingsByAnnotator = {}
        if not self._are_alike(dimension, columns):
            return {}
        for column in columns:
            ratings = self._read_cell(row, dimension, column, value_in(row, column))
            if len(ratings) > 1:
                fault = "holds several ratings, and is one annotator's column of several"
                advice = "give one column with lists, or a number in each column"
                self.problems.add("not-a-number", fault, advice, line=row.line, field=column)
            elif ratings:
                by_column[column] = next(iter(ratings.values()))
        return by_column

    def _are_alike(self, dimension: str, columns: tuple[str, ...]) -> bool:
        """Whether annotators' columns hold ratings of one kind; a problem where they do not."""
        if dimension in self._alike:
            return self._alike[dimension]
        first, *others = ((column, self._column_cells(dimension, column)) for column in columns)
        unlike = next(
            ((name, cells) for name, cells in others if not cells.is_like(first[1])), None
        )
        self._alike[dimension] = unlike is None
        if unlike is not None:
            fault = f"holds {unlike[1].holds}, and column {excerpt(first[0])} {first[1].holds}"
            advice = (
                f"map columns of one kind to {dimension}, or say what words count with --values"
            )
            self.problems.add("not-a-number", fault, advice, field=unlike[0])
        return unlike is None

    def _read_nested(self, row: TableRow, column: str) -> Ratings:
        """The ratings by dimension of a cell that holds an object; {} where blank or faulty."""
        value = value_in(row, column)
        if is_blank(value):
            return {}
        try:
            if isinstance(value, str):
                value = read_json(value)
            if is_blank(value):
                return {}
            if not isinstance(value, Mapping):
                advice = (
                    "write an object of dimensions and their ratings; what a tool keeps of its "
                    "annotations is read from its export as CSV"
                )
                raise CellError("no-object", "is no object", advice, value)
        except CellError as error:
            self.problems.add_cell(error, line=row.line, field=column)
            return {}
        ratings: Ratings = {}
        renamed = {column for columns in self.columns.mapping.values() for column in columns}
        for key, rating in value.items():
            dimension, path = str(key), f"{column}{DOT}{key}"
            if self.options.reads(dimension) and path not in renamed:
                by_annotator = self._read_cell(row, dimension, path, rating)
                ratings |= {dimension: by_annotator} if by_annotator else {}
        return ratings

    def _read_cell(
        self, row: TableRow, dimension: str, column: str, value: object
    ) -> RatingsByAnnotator:
        try:
            return read_ratings(
                value, self._column_cells(dimension, column), self.options.scale(dimension)
            )
        except CellError as error:
            self.problems.add_cell(error, line=row.line, field=column)
            return {}

    def _column_cells(self, dimension: str, column: str) -> RatingCells:
        """What reads the cells of a column; `column` is dotted for a key inside another."""
        if (dimension, column) not in self._cells:
            root, _, key = column.partition(DOT)
            if root in self.rating_columns.nested and not self.columns.has_flat(column):
                nested = (as_object(value) or {} for value in self.columns.values(root))
                values = [cells.get(key) for cells in nested]
            else:
                values = list(self.columns.values(column))
            parts = (part for value in values for part in rating_parts(value))
            self._cells[dimension, column] = RatingCells(
                parts, self.options.values, decimal_commas=self.columns.has_decimal_commas
            )
        return self._cells[dimension, column]

    def notes(self) -> list[str]:
        """Say how the cells of each column were understood, where it is not plain."""
        n_columns = Counter(dimension for dimension, _ in self._cells)
        return [
            f"{dimension}{f' ({column})' if n_columns[dimension] > 1 else ''}: {note}"
            for (dimension, column), cells in self._cells.items()
            for note in cells.notes()
        ]


def _mean(by_annotator: RatingsByAnnotator) -> float:
    return sum(by_annotator.values()) / len(by_annotator)


def read_long(
    columns: Columns, problems: Problems, options: ReadOptions
) -> tuple[dict[str, Ratings], list[str]]:
    """Read a long table's ratings, by id of the output, and notes on how they were understood.

    Without annotators' names, they are numbered in the order of the rows.
    """
    ratings: dict[str, Ratings] = {}
    names = ("id", "dimension", "annotator", "rating")
    item_in, dimension_in, annotator_in, rating_in = (columns.find(name) or name for name in names)
    values: dict[str, list[object]] = {}
    for row in columns.table.rows:
        values.setdefault(str(row.cells.get(dimension_in)).strip(), []).append(
            row.cells.get(rating_in)
        )
    # Dimensions may have scales of their own, and words.
    cells = {
        dimension: RatingCells(
            of_dimension, options.values, decimal_commas=columns.has_decimal_commas
        )
        for dimension, of_dimension in values.items()
        if options.reads(dimension)
    }
    for row in columns.table.rows:
        item, dimension = row.cells.get(item_in), row.cells.get(dimension_in)
        if not (is_name(item) and is_name(dimension)):
            column, value = (dimension_in, dimension) if is_name(item) else (item_in, item)
            advice = "say of which output and on which dimension the rating is"
            problems.add("no-name", "is no name", advice, line=row.line, field=column, value=value)
            continue
        by_annotator = ratings.setdefault(str(item).strip(), {}).setdefault(
            str(dimension).strip(), {}
        )
        value = row.cells.get(rating_in)
        name = str(dimension).strip()
        if name not in cells:
            continue
        try:
            number = cells[name].read(value, options.scale(name))
        except CellError as error:
            problems.add_cell(error, line=row.line, field=rating_in)
            continue
        if number is None:
            continue
        annotator = _annotator(row, annotator_in, by_annotator)
        if annotator in by_annotator:
            fault = f"is a second rating of {excerpt(item)} on {excerpt(dimension)} by "
            fault += excerpt(annotator)
            advice = "keep one of the two"
            problems.add("twice", fault, advice, line=row.line, field=rating_in, value=value)
        by_annotator[annotator] = number
    notes = [f"{name}: {note}" for name, of_name in cells.items() for note in of_name.notes()]
    return _sorted(ratings), notes


def read_annotator_rows(
    columns: Columns, problems: Problems, reader: RatingReader
) -> dict[str, Ratings]:
    """Read by id of the output what each row's annotator gave it."""
    ratings: dict[str, Ratings] = {}
    item_in, annotator_in = columns.find("id") or "", columns.find("annotator") or ""
    for row in columns.table.rows:
        item = row.cells.get(item_in)
        row_ratings = reader.read(row)
        if not is_name(item):
            continue
        of_item = ratings.setdefault(str(item).strip(), {})
        for dimension, cell_ratings in row_ratings.items():
            by_annotator = of_item.setdefault(dimension, {})
            annotator = _annotator(row, annotator_in, by_annotator)
            several = len(cell_ratings) > 1
            if annotator in by_annotator or several:
                fault = "holds several ratings of " if several else "is a second rating of "
                fault += f"{excerpt(item)} on {excerpt(dimension)} by {excerpt(annotator)}"
                advice = "give one number a row" if several else "keep one of the two"
                problems.add("twice", fault, advice, line=row.line, field=annotator_in)
            by_annotator[annotator] = next(iter(cell_ratings.values()))
    return _sorted(ratings)


def _annotator(row: TableRow, column: str, by_annotator: RatingsByAnnotator) -> str:
    """The row's annotator, or where nobody is named the number that comes next."""
    annotator = row.cells.get(column)
    return str(len(by_annotator) + 1) if is_blank(annotator) else str(annotator).strip()


def _sorted(ratings: dict[str, Ratings]) -> dict[str, Ratings]:
    """Annotators by name, so that the order of the rows does not matter."""
    return {
        item: {
            dimension: dict(sorted(by_annotator.items(), key=lambda rating: str(rating[0])))
            for dimension, by_annotator in by_dimension.items()
            if by_annotator
        }
        for item, by_dimension in ratings.items()
    }
