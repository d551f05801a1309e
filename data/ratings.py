"""Ratings in a table: a column a dimension (wide), or a row an annotator and dimension (long)."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from data.columns import (
    DOT,
    LINE,
    NO_RATINGS,
    SOURCES,
    CellRatings,
    Columns,
    Fault,
    Scale,
    cell,
    is_blank,
    is_known_text,
    read_cell_ratings,
    read_json,
    read_number,
)
from data.tables.problems import Problems, excerpt, joined_names
from data.tables.text import TableRow

_LONG = ("id", "dimension", "annotator", "rating")
# What says of which document and by whom an output is.
_WHOSE = ("group", "system", "system_a", "system_b")

# id -> dimension -> who gave what
Ratings = dict[str, dict[str, CellRatings]]


def is_long(columns: Columns) -> bool:
    """Whether a table is long: it names dimensions in one column and rates them in another."""
    return columns.find("dimension") is not None and columns.find("rating") is not None


def read_long(columns: Columns, problems: Problems, scales: Mapping[str, Scale]) -> Ratings:
    """Read every rating; without annotators' names, they are numbered in the order of the rows."""
    marks: dict[str, dict[str, dict[str, float]]] = {}
    field = columns.find("rating") or "rating"
    for line, item, dimension, annotator, value in _cells(columns):
        if not (_is_name(item) and _is_name(dimension)):
            name, cell = ("dimension", dimension) if _is_name(item) else ("id", item)
            advice = "say of which output and on which dimension the rating is"
            place = columns.find(name) or name
            problems.add("no-name", "is no name", advice, line=line, field=place, value=cell)
            continue
        given = marks.setdefault(str(item), {}).setdefault(str(dimension), {})
        if is_blank(value):
            continue
        number = read_number(value, scales.get(str(dimension), scales.get("*")))
        if isinstance(number, Fault):
            kind, what, advice, cell = number
            problems.add(kind, what, advice, line=line, field=field, value=cell)
            continue
        who = str(len(given) + 1) if is_blank(annotator) else str(annotator)
        if who in given:
            what = (
                f"is a second rating of {excerpt(item)} on {excerpt(dimension)} by {excerpt(who)}"
            )
            problems.add("twice", what, "keep one of the two", line=line, field=field, value=value)
        given[who] = number
    return {
        item: {dimension: _cell_ratings(given) for dimension, given in rated.items() if given}
        for item, rated in marks.items()
    }


def has_annotator_rows(columns: Columns) -> bool:
    """Whether each row is what one annotator gave one output, dimensions (or a vote) in columns."""
    column = columns.find("annotator")
    return (
        column is not None
        and not is_long(columns)
        and any(not is_blank(value) for value in columns.cells(column))
    )


def identify(
    columns: Columns, problems: Problems, texts: Mapping[str, str], *, of: str = "output"
) -> Columns:
    """Give the rows of one output (or pair) one id where rows are several annotators' or numbered.

    Rows without ids of their own belong together where group, systems and texts are the same. Ids
    that number the rows, so that most outputs have several, are a problem.
    """
    numbered = columns.mapping.get("id") == (LINE,)
    several = is_long(columns) or has_annotator_rows(columns)
    key = [column for name in _WHOSE if (column := columns.find(name)) is not None]
    key += [column for column in texts.values() if column not in key]
    written = [column for name, column in texts.items() if name not in SOURCES]
    if not (written and (several or numbered)):
        if several and numbered:
            what = "cannot be told apart without texts: each output has a row for each annotator"
            problems.add("no-id", what, "name the output's id with --map id=COLUMN", field="id")
        return columns
    first: dict[tuple[str, ...], TableRow] = {}
    lines: list[int] = []
    for row in columns.table.rows:
        content = tuple(str(row.cells.get(column)) for column in key)
        lines.append(first.setdefault(content, row).line)
    if several and numbered:
        rows = tuple(
            TableRow(row.line, {**row.cells, LINE: str(line)})
            for row, line in zip(columns.table.rows, lines, strict=True)
        )
        table = replace(columns.table, columns=(*columns.table.columns, LINE), rows=rows)
        return Columns(table, columns.mapping)
    own = columns.find("id")
    if own is None and not numbered:
        # The reader of the rows says so.
        return columns
    ids = {row.line: row.line if own is None else row.cells.get(own) for row in columns.table.rows}
    again = [
        (row, line)
        for row, line in zip(columns.table.rows, lines, strict=True)
        if ids[line] != ids[row.line]
    ]
    # A few outputs may well be the same; most are not, unless each has a row for each annotator.
    numbering = len(set(map(str, ids.values()))) == len(lines)
    if numbering and 2 * len(again) >= len(lines) - 1 > 0 and (several or len(key) > len(written)):
        row, line = again[0]
        advice = "give all rows of an output its id, or match rows by their texts: --map id=#line"
        if not several:
            advice = (
                f"where rows are several annotators', name who gave them with --map "
                f"annotator=COLUMN; else give every {of} an id"
            )
        problems.add(
            "rows-of-annotators",
            f"holds the same texts as {problems.unit} {line}, and so do {len(again):,} of "
            f"{len(lines):,} rows: each would count as an {of} of its own",
            advice,
            line=row.line,
            field=own or "id",
        )
    return columns


def read_annotator_rows(
    columns: Columns, problems: Problems, read: Callable[[TableRow], Mapping[str, CellRatings]]
) -> Ratings:
    """Join the rows of each id; `read` gives a row's ratings, all by the row's annotator."""
    key, whose = columns.find("id"), columns.find("annotator") or ""
    joined: dict[str, dict[str, dict[str, float]]] = {}
    for row in columns.table.rows:
        item, annotator = row.cells.get(key or ""), row.cells.get(whose)
        rated = read(row)
        if not _is_name(item):
            continue
        of = joined.setdefault(str(item), {})
        for dimension, marks in rated.items():
            given = of.setdefault(dimension, {})
            who = str(len(given) + 1) if is_blank(annotator) else str(annotator)
            if who in given or len(marks.ratings) > 1:
                what = f"{excerpt(item)} on {excerpt(dimension)} by {excerpt(who)}"
                several = len(marks.ratings) > 1
                problems.add(
                    "twice",
                    f"holds several ratings of {what}"
                    if several
                    else f"is a second rating of {what}",
                    "give one number a row" if several else "keep one of the two",
                    line=row.line,
                    field=whose,
                )
            given[who] = marks.ratings[0]
    return {
        item: {dimension: _cell_ratings(given) for dimension, given in of.items()}
        for item, of in joined.items()
    }


def fold(
    columns: Columns,
    problems: Problems,
    *,
    spent: Collection[str | None] = (),
    texts: Collection[str] = (),
    notes: list[str],
) -> Columns:
    """Return one row for each id, with everything its rows say of it beside ratings.

    What only some outputs' rows agree on, such as an annotator's comment, is left out and noted,
    unless it is one of `texts` or says whose the output is.
    """
    key = columns.find("id")
    spent = {*spent, *(columns.find(name) for name in _LONG[1:])}
    kept = [column for column in columns.table.columns if column not in spent]
    needed = {*texts, *(columns.find(name) for name in _WHOSE)}
    differing: dict[str, None] = {}
    rows: dict[str | int, tuple[int, dict[str, object]]] = {}
    for row in columns.table.rows:
        item = row.cells.get(key or "")
        # What is no name is nobody's, and refused when the row is read.
        own = str(item) if _is_name(item) else row.line
        _, cells = rows.setdefault(own, (row.line, {}))
        for column in kept:
            value = row.cells.get(column)
            if is_blank(value):
                continue
            if cells.setdefault(column, value) != value:
                if column not in needed:
                    differing[column] = None
                    continue
                problems.add(
                    "two-texts",
                    f"differs from another row of the id {excerpt(item)}",
                    "write the same in every row of an id, or give other outputs other ids",
                    line=row.line,
                    field=column,
                    value=value,
                )
    if differing:
        left_out = joined_names([f"column {column!r}" for column in differing])
        notes.append(f"not one for each id, so left out: {left_out}")
    kept = [column for column in kept if column not in differing]
    folded = replace(
        columns.table,
        columns=tuple(kept),
        rows=tuple(
            TableRow(line, {name: cells[name] for name in kept if name in cells})
            for line, cells in rows.values()
        ),
    )
    mapping = {
        name: mapped
        for name, mapped in columns.mapping.items()
        if not {*mapped} & {*spent, *differing}
    }
    return Columns(folded, mapping)


def _cells(columns: Columns) -> Iterator[tuple[int, object, object, object, object]]:
    item, dimension, annotator, rating = (columns.find(name) or name for name in _LONG)
    for line, cells in columns.table.rows:
        yield line, cells.get(item), cells.get(dimension), cells.get(annotator), cells.get(rating)


def _is_name(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and not is_blank(value)


def _cell_ratings(given: Mapping[str, float]) -> CellRatings:
    if not given:
        return NO_RATINGS
    # Sorted, so that the order of the rows does not matter.
    names = sorted(given)
    return CellRatings(tuple(given[name] for name in names), tuple(names))


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
    own = (columns.find(name) for name in _NESTED)
    nested = tuple(name for name in own if name is not None)
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
    rating_columns: RatingColumns
    problems: Problems
    dimensions: Collection[str] | None
    scales: Mapping[str, Scale]
    joined: Ratings | None = None
    n_differing: int = field(default=0, init=False)

    def read(self, row: TableRow, item: str) -> dict[str, CellRatings]:
        """Return who gave what, by dimension; a joined file's word goes before the row's own."""
        rated: dict[str, CellRatings] = {}
        for column in self.rating_columns.nested:
            nested = self._nested(row, column)
            for dimension, cell_ratings in nested.items():
                before = rated.get(dimension)
                if before is not None and abs(_mean(before) - _mean(cell_ratings)) > 0.01:
                    self.n_differing += 1
            rated |= nested
        for dimension, columns in self.rating_columns.flat.items():
            if dimension in self.columns.mapping or dimension not in rated:
                rated |= self._flat(row, dimension, columns)
        if self.joined is not None:
            own = self.joined.get(item, {})
            rated |= {
                name: cell_ratings for name, cell_ratings in own.items() if self._is_read(name)
            }
        return rated

    def _flat(
        self, row: TableRow, dimension: str, columns: tuple[str, ...]
    ) -> dict[str, CellRatings]:
        if len(columns) == 1:
            return self._cell(row, dimension, columns[0], cell(row, columns[0]))
        ratings: dict[str, float] = {}
        for column in columns:
            cell_ratings = self._cell(row, dimension, column, cell(row, column)).get(dimension)
            if cell_ratings is not None and len(cell_ratings.ratings) > 1:
                what = "holds several ratings, and is one annotator's column of several"
                advice = "give one column with lists, or a number in each column"
                self._note(row, column, Fault("not-a-number", what, advice))
            elif cell_ratings is not None:
                ratings[column] = cell_ratings.ratings[0]
        return {dimension: CellRatings(tuple(ratings.values()), tuple(ratings))} if ratings else {}

    def _nested(self, row: TableRow, column: str) -> dict[str, CellRatings]:
        value = cell(row, column)
        if isinstance(value, str) and not is_blank(value):
            value = read_json(value)
        if isinstance(value, Fault):
            self._note(row, column, value)
            return {}
        if is_blank(value):
            return {}
        if not isinstance(value, Mapping):
            advice = "write an object of dimensions and their ratings"
            self._note(row, column, Fault("no-object", "is no object", advice, value))
            return {}
        rated: dict[str, CellRatings] = {}
        renamed = {column for columns in self.columns.mapping.values() for column in columns}
        for dimension, given in _items(value):
            if self._is_read(dimension) and f"{column}{DOT}{dimension}" not in renamed:
                rated |= self._cell(row, dimension, f"{column}{DOT}{dimension}", given)
        return rated

    def _cell(
        self, row: TableRow, dimension: str, column: str, value: object
    ) -> dict[str, CellRatings]:
        cell_ratings = read_cell_ratings(value, self.scales.get(dimension, self.scales.get("*")))
        if isinstance(cell_ratings, Fault):
            self._note(row, column, cell_ratings)
            return {}
        return {dimension: cell_ratings} if cell_ratings.ratings else {}

    def _is_read(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def _note(self, row: TableRow, column: str, fault: Fault) -> None:
        self.problems.add(
            fault.kind, fault.what, fault.advice, line=row.line, field=column, value=fault.value
        )


def _items(value: Mapping[object, object]) -> Iterator[tuple[str, object]]:
    return ((str(dimension), given) for dimension, given in value.items())


def _mean(cell_ratings: CellRatings) -> float:
    return sum(cell_ratings.ratings) / len(cell_ratings.ratings)
