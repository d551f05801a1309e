"""Functions that read a single cell: as a name, as ratings, as text, or as JSON."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from judges.labels.values import looks_like_rating
from judges.tables.problems import UnreadableError
from judges.tables.text import Row, TableRow, decode_json
from judges.tables.text import is_blank as is_blank

T = TypeVar("T")
# Annotator -> rating. The key is None for a number whose annotator is not named; it may be a mean.
RatingsByAnnotator = dict[str | None, float]

# In the name of a column, `a.b` means the key `b` of the objects in the column `a`.
DOT = "."
# A list with more numbers does not hold ratings; it may be an embedding.
MAX_ANNOTATORS = 100


def without_keys(mapping: Mapping[str, T], keys: Container[str]) -> dict[str, T]:
    """Return a copy of `mapping` without the given keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def value_in(row: TableRow, column: str) -> object:
    """Return a row's cell in a column.

    If there is no column `a.b`, return the value at the key `b` of the object in the column `a`.
    """
    return value_at(row.cells, column)


def value_at(cells: Mapping[str, object], path: str) -> object:
    """Return the value at a path of keys with dots between them, such as `a.b`; None if missing."""
    # A key may itself contain dots.
    if path in cells or DOT not in path:
        return cells.get(path)
    key, _, rest = path.partition(DOT)
    nested = as_object(cells.get(key))
    return None if nested is None else value_at(nested, rest)


def first_value(cells: Mapping[str, object], paths: Iterable[str]) -> object:
    """Return the first value at one of these paths that is not blank; None if there is none."""
    values = (value_at(cells, path) for path in paths)
    return next((value for value in values if not is_blank(value)), None)


def list_in(value: object) -> list[object]:
    """Return the list in a cell; [] for a blank cell, and [value] for any other value."""
    value = from_json(value)
    return value if isinstance(value, list) else [] if is_blank(value) else [value]


def objects_in(value: object) -> list[Row]:
    """Return the objects in a cell, which may hold one object or a list of objects."""
    return [element for element in list_in(value) if isinstance(element, dict)]


def is_name(value: object) -> bool:
    """Whether a cell can be the name of an output, a document, a system or a dimension."""
    return isinstance(value, str | int) and not isinstance(value, bool) and not is_blank(value)


def is_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a rating, or like a short list of ratings, one per annotator.

    In a `typed` format, such as JSON, a string does not count as a number.
    """
    value = from_json(value)
    if not isinstance(value, list | tuple):
        return looks_like_rating(value, typed=typed)
    parts = [part for part in value if not is_blank(part)]
    return len(value) <= MAX_ANNOTATORS and all(
        looks_like_rating(part, typed=True) for part in parts
    )


def as_object(value: object) -> Mapping[str, object] | None:
    """Return the object in a cell, which may be a string of JSON; None for any other cell."""
    value = from_json(value)
    return value if isinstance(value, Mapping) else None


def from_json(value: object, *, strict: bool = False) -> object:
    """Decode a string that holds a JSON list or object; return any other value unchanged.

    With `strict`, raise UnreadableError for a string that starts like JSON but is not valid JSON.
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
    """Split a cell into (annotator, value) pairs, with one value per annotator.

    The cell holds {annotator: rating}, a list (its annotators are called 1, 2, ...) or one value
    (its annotator is None). Raises UnreadableError if the cell is broken JSON.
    """
    value = from_json(value, strict=True)
    if isinstance(value, Mapping):
        return sorted({str(name): part for name, part in value.items()}.items())
    if isinstance(value, list | tuple):
        return [(str(number), part) for number, part in enumerate(value, 1)]
    return [(None, value)]


def join_texts(value: object) -> str | None:
    """Join a list of texts, such as reviews; return the only text of an object; else None."""
    if isinstance(value, Mapping) and len(value) == 1:
        value = [*value.values()]
    if not isinstance(value, list | tuple):
        return None
    parts = [part for part in value if not is_blank(part)]
    texts = [part for part in parts if isinstance(part, str)]
    return "\n\n".join(texts) or None if len(texts) == len(parts) else None
