"""Reads the value in one cell of a table: as an id, a rating, a text, or JSON."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from judges.labels.values import looks_like_number
from judges.tables.problems import UnreadableError
from judges.tables.text import Record, decode_json
from judges.tables.text import is_blank as is_blank

AnyValue = TypeVar("AnyValue")
# A path `a.b` stands for the key `b` of the JSON objects in the column `a`.
KEY_SEPARATOR = "."
# The keys of objects are looked up in this number of rows, since rows may have different keys.
MAX_INSPECTED_ROWS = 1000
# A list of more than 100 numbers is not read as ratings, because it may be an embedding.
_MAX_LISTED_RATINGS = 100


def without_keys(mapping: Mapping[str, AnyValue], keys: Container[str]) -> dict[str, AnyValue]:
    """Return a copy of `mapping` without the given keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def value_at(record: Mapping[str, object], path: str) -> object:
    """Return the value at a path of keys, such as `a.b`, in a row or an object, else None."""
    # A key may itself contain a dot, so look for the whole path first.
    if path in record or KEY_SEPARATOR not in path:
        return record.get(path)
    first_key, _, inner_path = path.partition(KEY_SEPARATOR)
    inner_object = as_object(record.get(first_key))
    return None if inner_object is None else value_at(inner_object, inner_path)


def first_value(record: Mapping[str, object], paths: Iterable[str]) -> object:
    """Return the value at the first of these paths that is not blank; None if all are blank."""
    values = (value_at(record, path) for path in paths)
    return next((value for value in values if not is_blank(value)), None)


def as_list(value: object) -> list[object]:
    """Return the list in a cell; [] for a blank cell, and a list of one for any other value."""
    value = decode_if_json(value)
    if isinstance(value, list):
        return value
    return [] if is_blank(value) else [value]


def objects_in(value: object) -> list[Record]:
    """Return the JSON objects in a cell that holds one object or a list of objects."""
    return [element for element in as_list(value) if isinstance(element, dict)]


def is_id_or_name(value: object) -> bool:
    """Return whether a cell can be an id or a name: a non-blank string or an integer."""
    return isinstance(value, str | int) and not isinstance(value, bool) and not is_blank(value)


def holds_ratings(value: object, *, parse_strings: bool) -> bool:
    """Return whether a cell looks like a rating, or like a list with one rating per annotator.

    With `parse_strings`, a string such as "4" also looks like a rating, unless it is in a list.
    """
    value = decode_if_json(value)
    if not isinstance(value, list | tuple):
        return looks_like_number(value, parse_strings=parse_strings)
    if len(value) > _MAX_LISTED_RATINGS:
        return False
    return all(is_blank(item) or looks_like_number(item, parse_strings=False) for item in value)


def as_object(value: object) -> Mapping[str, object] | None:
    """Return the JSON object in a cell, also if it is written as a string; None without one."""
    value = decode_if_json(value)
    return value if isinstance(value, Mapping) else None


def decode_if_json(value: object, *, strict: bool = False) -> object:
    """Decode a string that holds a JSON list or object; return any other value unchanged.

    With `strict`, a string that starts like JSON but is not valid JSON raises UnreadableError.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    with suppress(ValueError):
        return decode_json(value)
    if strict:
        advice = "correct the JSON, or write each value in a column of its own"
        raise UnreadableError("bad-json", "is not JSON", advice, value)
    return value


def split_by_annotator(value: object) -> list[tuple[str | None, object]]:
    """Split a cell with ratings or votes into pairs (annotator, rating or vote).

    In an object, the keys are the annotators' names. In a list, the annotators are called 1, 2, and
    so on. A single rating has the annotator None. Raises UnreadableError for invalid JSON.
    """
    value = decode_if_json(value, strict=True)
    if isinstance(value, Mapping):
        return sorted({str(name): rating for name, rating in value.items()}.items())
    if isinstance(value, list | tuple):
        return [(str(position), rating) for position, rating in enumerate(value, 1)]
    return [(None, value)]


def as_text(cell: object) -> object:
    """Convert a number, a bool or a list of texts to one text; return other cells unchanged."""
    if hasattr(cell, "tolist"):  # a NumPy array or scalar in a data frame
        cell = cell.tolist()
    # In a data frame, a missing text is NaN. Only NaN does not equal itself.
    if isinstance(cell, bool | int | float) and cell == cell:
        return str(cell)
    return join_texts(cell) or cell


def join_texts(value: object) -> str | None:
    """Join a list of texts, such as reviews, into one text with blank lines between them.

    If the cell is an object with one key, the value at this key is read. Returns None for a cell
    without a list of texts.
    """
    elements = [*value.values()] if isinstance(value, Mapping) and len(value) == 1 else value
    if not isinstance(elements, list | tuple):
        return None
    texts = [element for element in elements if not is_blank(element)]
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return "\n\n".join(texts)
