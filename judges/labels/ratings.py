"""Reads ratings from a table: long (a row an annotator and dimension), nested or flat."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from judges.labels.cells import (
    DOT,
    RatingsByAnnotator,
    as_object,
    is_blank,
    is_name,
    rating_parts,
    value_in,
)
from judges.labels.columns import ColumnNames, Columns
from judges.labels.names import tokens
from judges.labels.rating_columns import Headers, RatingColumns
from judges.labels.values import VERDICTS, RatingCells, Scale, Values, says_nothing, word_of
from judges.tables.problems import Problems, UnreadableError, excerpt
from judges.tables.text import TableRow

# Names of dimensions on which yes is probably bad.
_BAD = re.compile(
    r"(?!.*\b(?:no|not|non|free|without|keine?)\b).*\b(?:bad\b|bugs?\b|harm(?!less)|halluc|toxi|"
    r"unsafe|danger|error|mistake|wrong|fail|fals|incorrect|inaccura|spam|offens|violat|abus|hate|"
    r"insult|inappropriate|bias|defect|leak|fabricat|problem|issue|flag|irrelevan|fehler|schädlich)"
)
# Thumbs, if a column holds nothing else.
_THUMBS = {"1": 1.0, "1.0": 1.0, "+1": 1.0, "-1": 0.0, "-1.0": 0.0}
# dimension -> annotator -> rating
Ratings = dict[str, RatingsByAnnotator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a caller wants a file to be read.

    `map` gives our names the file's columns, and `values` says what the caller's words count. A
    scale under "*" holds for all other dimensions. `texts` must stand in every row (None: every
    text with a usual name must). `annotations` is a long file of ratings. Labels are passed over,
    and none is needed, unless `labelled`.
    """

    map: Mapping[str, ColumnNames] = field(default_factory=dict)
    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    texts: Collection[str] | None = None
    annotations: str | Path | None = None
    values: Values = field(default_factory=dict)
    labelled: bool = True

    def reads(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def scale(self, dimension: str) -> Scale | None:
        return self.scales.get(dimension, self.scales.get("*"))


@dataclass(frozen=True, slots=True)
class ReadRatings:
    """The ratings of a table's `columns` by id of the output, and notes on how cells were read.

    `words` holds the words for 1 and 0 of each dimension that has only these two values.
    """

    by_item: dict[str, Ratings]
    notes: list[str]
    words: dict[str, tuple[str, str]]
    columns: Columns


class _Cell(NamedTuple):
    """A cell of ratings: of which output, on which dimension, by whom (None: nobody is named)."""

    line: int
    item: str
    dimension: str
    column: str
    annotator: str | None
    value: object


class RatingReader:
    """Reads a table's ratings.

    Where each row is one annotator's, annotators without a name are numbered in the rows' order.
    """

    def __init__(
        self, columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
    ) -> None:
        self._columns, self._layout = columns, layout
        self._options, self._problems = options, problems

    def read(self) -> ReadRatings:
        """Return the ratings, and add a problem for each cell that holds none."""
        cells = [*self._single_ratings()] if self._options.labelled else []
        values: dict[str, list[object]] = defaultdict(list)
        for cell in cells:
            values[cell.dimension].append(cell.value)
        readers = {name: self._reader(name, of_name) for name, of_name in values.items()}
        by_item: dict[str, Ratings] = defaultdict(lambda: defaultdict(dict))
        for cell in cells:
            scale = self._options.scale(cell.dimension)
            try:
                rating = readers[cell.dimension].read(cell.value, scale)
            except UnreadableError as error:
                self._problems.add_error(error, line=cell.line, field=cell.column)
                continue
            if rating is not None:
                by_annotator = by_item[cell.item][cell.dimension]
                by_annotator[self._annotator(cell, by_annotator)] = rating
        if self._columns.is_by_annotator:
            by_item = {item: _sorted(ratings) for item, ratings in by_item.items()}
        notes = [f"{name}: {note}" for name, reader in readers.items() for note in reader.notes()]
        pairs = {name: reader.two_values for name, reader in readers.items()}
        words = {name: pair for name, pair in pairs.items() if pair is not None}
        for name, pair in words.items():
            self._check_words((name, *self._layout.flat.get(name, ())), pair)
        return ReadRatings(by_item, notes, words, self._columns)

    def _annotator(self, cell: _Cell, by_annotator: RatingsByAnnotator) -> str | None:
        """Who gave a rating: in a row of one annotator a name or a number, who rates once."""
        if not self._columns.is_by_annotator:
            return cell.annotator
        if cell.annotator is None:
            return str(len(by_annotator) + 1)
        if cell.annotator in by_annotator:
            names = map(excerpt, (cell.item, cell.dimension, cell.annotator))
            fault = "is a second rating of {} on {} by {}".format(*names)
            error = UnreadableError("twice", fault, "keep one of the two", cell.value)
            self._problems.add_error(error, line=cell.line, field=cell.column)
        return cell.annotator

    def _reader(self, name: str, values: list[object]) -> RatingCells:
        """The reader of a dimension; +1 and -1 alone are thumbs, unless its scale is signed."""
        given = {_THUMBS.get(word_of(value)) for value in values if not says_nothing(value)}
        low, _ = self._options.scale(name) or (0, 1)
        are_thumbs = given == {1, 0} and low >= 0
        words = {**_THUMBS, **self._options.values} if are_thumbs else self._options.values
        return RatingCells(values, words, decimal_commas=self._columns.table.delimiter == ";")

    def _check_words(self, names: Headers, words: tuple[str, str]) -> None:
        """Add a problem where, by the names of dimension and columns, the word for 1 may be bad."""
        good, bad = words
        if f"{bad}/{good}" in VERDICTS:
            fault = f"{good!r} counts 1 and {bad!r} 0 by --values, and what counts 1 is good"
            advice = "leave these --values out: TNR is the share of failures that a judge finds"
            self._problems.add("turned", fault, advice, field=names[0])
        bad_names = [name for name in names if _BAD.match(" ".join(tokens(name)))]
        is_said = not {good, bad}.isdisjoint(map(word_of, self._options.values))
        if bad_names and not is_said and f"{good}/{bad}" not in VERDICTS:
            fail, success = (f"--values {good}={number},{bad}={1 - number}" for number in (0, 1))
            advice = f"say {fail} ({good} is a fail) or {success}"
            self._problems.add("which-word", "may name what is bad", advice, value=bad_names[0])

    def _single_ratings(self) -> Iterator[_Cell]:
        """Yield every rating on its own: a cell may hold several, as a list or an object."""
        for cell in self._long_cells() if self._columns.is_long else self._wide_cells():
            try:
                parts = rating_parts(cell.value)
            except UnreadableError as error:
                self._problems.add_error(error, line=cell.line, field=cell.column)
                continue
            for annotator, value in parts:
                yield cell._replace(annotator=cell.annotator or annotator, value=value)

    def _long_cells(self) -> Iterator[_Cell]:
        """Yield the cell of every row that names an output and a dimension."""
        for row in self._columns.table.rows:
            dimension = self._columns.cell(row, "dimension")
            if not (is_name(dimension) and is_name(self._columns.cell(row, "id"))):
                advice = "say of which output and on which dimension the rating is"
                fault = "has no id, or no dimension"
                self._problems.add("no-name", fault, advice, line=row.line)
            elif self._options.reads(name := str(dimension).strip()):
                rating = self._columns.cell(row, "rating")
                yield self._cell(row, name, str(self._columns.find("rating")), rating)

    def _wide_cells(self) -> Iterator[_Cell]:
        """Yield the cells of every row by dimension: mapped columns first, then nested, then any.

        Of several nested columns with a rating on a dimension, the last one counts.
        """
        for row in self._columns.table.rows:
            cells = {cell.dimension: [cell] for cell in self._nested_cells(row)}
            for name, headers in self._layout.flat.items():
                if name in self._columns.mapping or name not in cells:
                    cells[name] = [*self._flat_cells(row, name, headers)]
            yield from chain.from_iterable(cells.values())

    def _flat_cells(self, row: TableRow, dimension: str, headers: Headers) -> Iterator[_Cell]:
        """Yield a row's ratings on a dimension; each of several columns is one annotator's."""
        for column in headers:
            cell = self._cell(row, dimension, column, value_in(row, column))
            yield cell._replace(annotator=column) if len(headers) > 1 else cell

    def _nested_cells(self, row: TableRow) -> Iterator[_Cell]:
        """Yield the ratings in a row's objects, but comments and what a mapping names."""
        others = {*self._columns.used(()), *self._columns.comments}
        for column in self._layout.nested:
            value = value_in(row, column)
            by_name = as_object(value)
            if by_name is None and not says_nothing(value):
                fault, advice = "is no object", "write an object of dimensions and their ratings"
                error = UnreadableError("no-object", fault, advice, value)
                self._problems.add_error(error, line=row.line, field=column)
            for name, part in (by_name or {}).items():
                path, is_read = f"{column}{DOT}{name}", self._options.reads(str(name))
                if is_read and path not in others and not says_nothing(part):
                    yield self._cell(row, str(name), path, part)

    def _cell(self, row: TableRow, dimension: str, column: str, value: object) -> _Cell:
        name, item = self._columns.cell(row, "annotator"), self._columns.item_key(row)
        annotator = None if is_blank(name) else str(name).strip()
        return _Cell(row.line, item, dimension, column, annotator, value)


def _sorted(ratings: Ratings) -> Ratings:
    """The ratings by annotator's name, so that the order of the rows does not matter."""
    return {name: dict(sorted(of_name.items(), key=str)) for name, of_name in ratings.items()}
