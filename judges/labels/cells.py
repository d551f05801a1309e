"""Reads one cell: as a name, ratings by annotator, texts, or JSON."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from judges.labels.values import looks_like_rating
from judges.tables.problems import UnreadableError
from judges.tables.text import Row, TableRow, decode_json
from judges.tables.text import is_blank as is_blank

T = TypeVar("T")
# Annotator -> rating; None for a single number without a name, which may be a mean.
RatingsByAnnotator = dict[str | None, float]

# A dotted name reaches into a nested column.
DOT = "."
# A longer list of numbers is, say, an embedding.
MAX_ANNOTATORS = 100


def without(mapping: Mapping[str, T], names: Container[str]) -> dict[str, T]:
    """Return a mapping without some names."""
    return {name: value for name, value in mapping.items() if name not in names}


def value_in(row: TableRow, column: str) -> object:
    """Return a row's cell; a dotted name that is no column reaches into a nested cell."""
    return value_at(row.cells, column)


def value_at(cells: Mapping[str, object], path: str) -> object:
    """Return what stands at a path of keys with dots between them; None if nothing does."""
    # A key may hold dots itself.
    if path in cells or DOT not in path:
        return cells.get(path)
    column, _, rest = path.partition(DOT)
    nested = as_object(cells.get(column))
    return None if nested is None else value_at(nested, rest)


def first_value(cells: Mapping[str, object], paths: Iterable[str]) -> object:
    """Return what stands at the first of some paths that holds something; None without one."""
    values = (value_at(cells, path) for path in paths)
    return next((value for value in values if not is_blank(value)), None)


def list_in(value: object) -> list[object]:
    """Return the list in a cell; any other value is a list of one, and a blank cell of none."""
    value = from_json(value)
    return value if isinstance(value, list) else [] if is_blank(value) else [value]


def objects_in(value: object) -> list[Row]:
    """Return the objects in a cell that holds one, or a list."""
    return [each for each in list_in(value) if isinstance(each, dict)]


def is_name(value: object) -> bool:
    """Whether a cell can name an output, a document, a system or a dimension."""
    return isinstance(value, str | int) and not isinstance(value, bool) and not is_blank(value)


def is_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a rating: a number, or a short list with one per annotator."""
    value = from_json(value)
    if not isinstance(value, list | tuple):
        return looks_like_rating(value, typed=typed)
    parts = [part for part in value if not is_blank(part)]
    return len(value) <= MAX_ANNOTATORS and all(looks_like_rating(p, typed=True) for p in parts)


def as_object(value: object) -> Mapping[str, object] | None:
    """Return the object in a cell, which may be written as JSON; None if there is none."""
    value = from_json(value)
    return value if isinstance(value, Mapping) else None


def from_json(value: object, *, strict: bool = False) -> object:
    """Return the list or object that a string has as JSON, and any other value itself.

    With `strict`, a string that starts like JSON and is none raises UnreadableError.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    with suppress(ValueError):
        return decode_json(value)
    if strict:
        advice = "write it as JSON, or give flat columns"
        raise UnreadableError("bad-json", "is not JSON", advice, value)
    return value


def rating_parts(value: object) -> list[tuple[str | None, object]]:
    """Return the (annotator, rating) pairs of a cell: a number, a list, or {annotator: rating}.

    Raises UnreadableError for broken JSON.
    """
    value = from_json(value, strict=True)
    if isinstance(value, Mapping):
        return sorted({str(name): part for name, part in value.items()}.items())
    if isinstance(value, list | tuple):
        return [(str(place), part) for place, part in enumerate(value, 1)]
    return [(None, value)]


def join_texts(value: object) -> str | None:
    """Join a cell's list of texts, such as reviews, or return an object's only text; else None."""
    if isinstance(value, Mapping) and len(value) == 1:
        value = [*value.values()]
    if not isinstance(value, list | tuple):
        return None
    parts = [part for part in value if not is_blank(part)]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n\n".join(texts) or None if len(texts) == len(parts) else None
