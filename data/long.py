"""The long shape: one row for each id, dimension and annotator, with the texts or without."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from data.columns import Columns
from data.numbers import NO_MARKS, Fault, Marks, Scale, is_blank, read_number
from data.problems import Problems, shown
from data.tables import Row

_LONG = ("id", "dimension", "annotator", "rating")

# id -> dimension -> who gave what
Ratings = dict[str, dict[str, Marks]]


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
            way_out = "say of which output and on which dimension the rating is"
            place = columns.find(name) or name
            problems.add("no-name", "is no name", way_out, line=line, field=place, value=cell)
            continue
        given = marks.setdefault(str(item), {}).setdefault(str(dimension), {})
        if is_blank(value):
            continue
        number = read_number(value, scales.get(str(dimension), scales.get("*")))
        if isinstance(number, Fault):
            kind, what, way_out, cell = number
            problems.add(kind, what, way_out, line=line, field=field, value=cell)
            continue
        who = str(len(given) + 1) if is_blank(annotator) else str(annotator)
        if who in given:
            what = f"is a second rating of {shown(item)} on {shown(dimension)} by {shown(who)}"
            problems.add("twice", what, "keep one of the two", line=line, field=field, value=value)
        given[who] = number
    return {
        item: {dimension: _marks(given) for dimension, given in rated.items() if given}
        for item, rated in marks.items()
    }


def fold(columns: Columns, problems: Problems) -> Columns:
    """Return one row for each id, with everything the long rows say of it beside ratings."""
    key = columns.find("id")
    spent = {columns.find(name) for name in _LONG[1:]}
    kept = [column for column in columns.table.columns if column not in spent]
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
                problems.add(
                    "two-texts",
                    f"differs from another row of the id {shown(item)}",
                    "write the same in every row of an id, or give other outputs other ids",
                    line=row.line,
                    field=column,
                    value=value,
                )
    folded = replace(
        columns.table,
        columns=tuple(kept),
        rows=tuple(Row(line, cells) for line, cells in rows.values()),
    )
    mapping = {name: column for name, column in columns.mapping.items() if column not in spent}
    return Columns(folded, mapping)


def _cells(columns: Columns) -> Iterator[tuple[int, object, object, object, object]]:
    item, dimension, annotator, rating = (columns.find(name) or name for name in _LONG)
    for line, cells in columns.table.rows:
        yield line, cells.get(item), cells.get(dimension), cells.get(annotator), cells.get(rating)


def _is_name(value: object) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool) and not is_blank(value)


def _marks(given: Mapping[str, float]) -> Marks:
    if not given:
        return NO_MARKS
    # Sorted, so that the order of the rows does not matter.
    names = sorted(given)
    return Marks(tuple(given[name] for name in names), tuple(names))
