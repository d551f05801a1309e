"""Reads the ratings in a table.

A long table has one row per annotator and dimension. A wide one has ratings in nested columns
(objects of ratings) or in flat ones (a column per dimension or per annotator).
"""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from judges.labels.cells import (
    DOT,
    RatingsByAnnotator,
    as_object,
    is_blank,
    is_name,
    split_by_annotator,
    value_in,
)
from judges.labels.columns import ColumnNames, Columns
from judges.labels.names import tokens
from judges.labels.rating_columns import Headers, RatingColumns
from judges.labels.values import (
    VERDICTS,
    RatingCells,
    Scale,
    Values,
    is_missing_value,
    normalize_word,
)
from judges.tables.problems import Problems, UnreadableError, excerpt
from judges.tables.text import TableRow

# Names of dimensions on which "yes" is probably bad.
_BAD_DIMENSION = re.compile(
    r"(?!.*\b(?:no|not|non|free|without|keine?)\b).*\b(?:bad\b|bugs?\b|harm(?!less)|halluc|toxi|"
    r"unsafe|danger|error|mistake|wrong|fail|fals|incorrect|inaccura|spam|offens|violat|abus|hate|"
    r"insult|inappropriate|bias|defect|leak|fabricat|problem|issue|flag|irrelevan|fehler|schädlich)"
)
# Thumbs up and down, if a column holds no other numbers.
_THUMBS = {"1": 1.0, "1.0": 1.0, "+1": 1.0, "-1": 0.0, "-1.0": 0.0}
# dimension -> annotator -> rating
Ratings = dict[str, RatingsByAnnotator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file is to be read.

    `map` maps our names to the file's columns, and `values` maps words to the numbers that they
    stand for. Only these `dimensions` are read (None: all). `scales` maps dimensions to their
    scales; the key "*" is for all other dimensions. `texts` must be in every row (None: texts with
    usual names must). `annotations` is a long file with the ratings. If `labelled` is False, labels
    are not needed and not read.
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
class TableRatings:
    """The ratings in a table by the output's id, and notes on how cells were read.

    `words` maps each dimension that has only the values 1 and 0 to the words for these.
    """

    by_item: dict[str, Ratings]
    notes: list[str]
    words: dict[str, tuple[str, str]]
    columns: Columns


class RatingCell(NamedTuple):
    """One rating, or a cell with several: its output, dimension and annotator (None: not named)."""

    line: int
    item: str
    dimension: str
    column: str
    annotator: str | None
    value: object


def read_ratings(
    columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
) -> TableRatings:
    """Return a table's ratings, and add a problem for each cell that cannot be read.

    If each row is by one annotator, annotators without a name get numbers in the order of the rows.
    """
    cells = [*_split_cells(columns, layout, options, problems)] if options.labelled else []
    values: dict[str, list[object]] = defaultdict(list)
    for cell in cells:
        values[cell.dimension].append(cell.value)
    readers = {name: _make_reader(columns, options, name, v) for name, v in values.items()}
    by_item: dict[str, Ratings] = defaultdict(lambda: defaultdict(dict))
    for cell in cells:
        with problems.collect(line=cell.line, field=cell.column):
            rating = readers[cell.dimension].read(cell.value, options.scale(cell.dimension))
            if rating is not None:
                by_annotator = by_item[cell.item][cell.dimension]
                name = (
                    _annotator_name(cell, by_annotator)
                    if columns.has_row_per_annotator
                    else cell.annotator
                )
                by_annotator[name] = rating
    if columns.has_row_per_annotator:
        by_item = {item: _sort_annotators(ratings) for item, ratings in by_item.items()}
    notes = [f"{name}: {note}" for name, reader in readers.items() for note in reader.notes()]
    words = {name: pair for name, reader in readers.items() if (pair := reader.two_values)}
    for name, pair in words.items():
        _check_words((name, *layout.flat.get(name, ())), pair, options.values, problems)
    return TableRatings(by_item, notes, words, columns)


def _annotator_name(cell: RatingCell, by_annotator: RatingsByAnnotator) -> str:
    """A row's annotator, by name or number; raises UnreadableError for a second rating by them."""
    if cell.annotator in by_annotator:
        names = map(excerpt, (cell.item, cell.dimension, cell.annotator))
        fault = "is a second rating of {} on {} by {}".format(*names)
        raise UnreadableError("twice", fault, "keep one of the two", cell.value)
    return cell.annotator or str(len(by_annotator) + 1)


def _sort_annotators(ratings: Ratings) -> Ratings:
    """Sort the ratings by the annotator's name, so that the order of the rows does not matter."""
    return {name: dict(sorted(by.items(), key=str)) for name, by in ratings.items()}


def _make_reader(
    columns: Columns, options: ReadOptions, name: str, values: Sequence[object]
) -> RatingCells:
    """The reader of a dimension's cells.

    If they hold only 1 and -1, these are thumbs up and down, unless the scale has negative numbers.
    """
    numbers = {
        _THUMBS.get(normalize_word(value)) for value in values if not is_missing_value(value)
    }
    low, _ = options.scale(name) or (0, 1)
    are_thumbs = numbers == {1, 0} and low >= 0
    words = {**_THUMBS, **options.values} if are_thumbs else options.values
    return RatingCells(values, words, decimal_commas=columns.table.delimiter == ";")


def _check_words(
    names: Headers, words: tuple[str, str], values: Values, problems: Problems
) -> None:
    """Add a problem if the word that counts 1 may be the bad one.

    The names of the dimension and of its columns tell, or `values` that contradict a known pair.
    """
    good, bad = words
    if f"{bad}/{good}" in VERDICTS:
        fault = (
            f"{good!r} counts 1 and {bad!r} 0 by --values, but the word for 1 must be the good one"
        )
        advice = "leave these --values out: TNR is the share of failures that a judge finds"
        problems.add("turned", fault, advice, field=names[0])
    bad_names = [name for name in names if _BAD_DIMENSION.match(" ".join(tokens(name)))]
    is_clear = f"{good}/{bad}" in VERDICTS or not {good, bad}.isdisjoint(
        map(normalize_word, values)
    )
    if bad_names and not is_clear:
        fail, success = (f"--values {good}={number},{bad}={1 - number}" for number in (0, 1))
        advice = f"say {fail} ({good} is a fail) or {success}"
        problems.add("which-word", "may be the name of something bad", advice, value=bad_names[0])


def _split_cells(
    columns: Columns, layout: RatingColumns, options: ReadOptions, problems: Problems
) -> Iterator[RatingCell]:
    """Yield every rating on its own; a cell may hold several, as a list or an object."""
    if columns.is_long:
        cells = _long_cells(columns, problems)
    else:
        cells = _wide_cells(columns, layout, problems)
    for cell in cells:
        with problems.collect(line=cell.line, field=cell.column):
            for annotator, value in (
                split_by_annotator(cell.value) if options.reads(cell.dimension) else ()
            ):
                yield cell._replace(annotator=cell.annotator or annotator, value=value)


def _long_cells(columns: Columns, problems: Problems) -> Iterator[RatingCell]:
    """Yield each row's cell of ratings; a row without an id or a dimension is a problem."""
    column = str(columns.find("rating"))
    for row in columns.table.rows:
        dimension = columns.cell(row, "dimension")
        if is_name(dimension) and is_name(columns.cell(row, "id")):
            yield _rating_cell(
                columns, row, str(dimension).strip(), column, columns.cell(row, "rating")
            )
        else:
            advice = "give every rating the id of its output and a dimension"
            problems.add("no-name", "has no id, or no dimension", advice, line=row.line)


def _wide_cells(
    columns: Columns, layout: RatingColumns, problems: Problems
) -> Iterator[RatingCell]:
    """Yield each row's cells of ratings, from one place per dimension.

    A mapped column comes before nested ones, and these before any other column. If several nested
    columns rate a dimension, the last one counts.
    """
    for row in columns.table.rows:
        nested = {cell.dimension: cell for cell in _nested_cells(columns, row, layout, problems)}
        flat = {n: h for n, h in layout.flat.items() if n in columns.mapping or n not in nested}
        for name in {**nested, **flat}:
            if name in flat:
                yield from _flat_cells(columns, row, name, flat[name])
            else:
                yield nested[name]


def _flat_cells(
    columns: Columns, row: TableRow, dimension: str, headers: Headers
) -> Iterator[RatingCell]:
    """Yield a row's cells for a dimension; if it has several columns, each is one annotator's."""
    for column in headers:
        cell = _rating_cell(columns, row, dimension, column, value_in(row, column))
        yield cell._replace(annotator=column) if len(headers) > 1 else cell


def _nested_cells(
    columns: Columns, row: TableRow, layout: RatingColumns, problems: Problems
) -> Iterator[RatingCell]:
    """Yield the ratings in a row's objects, without comments and keys that a mapping names."""
    excluded = {*columns.used_columns(()), *columns.comments}
    for column in layout.nested:
        value = value_in(row, column)
        by_name = as_object(value)
        if by_name is None and not is_missing_value(value):
            advice = "write an object of dimensions and their ratings"
            fault = "is not an object"
            problems.add("no-object", fault, advice, line=row.line, field=column, value=value)
        for name, part in (by_name or {}).items():
            path = f"{column}{DOT}{name}"
            if path not in excluded and not is_missing_value(part):
                yield _rating_cell(columns, row, str(name), path, part)


def _rating_cell(
    columns: Columns, row: TableRow, dimension: str, column: str, value: object
) -> RatingCell:
    name = columns.cell(row, "annotator")
    annotator = None if is_blank(name) else str(name).strip()
    return RatingCell(row.line, columns.item_key(row), dimension, column, annotator, value)
