"""Functions that read one cell of a table: as a name, as ratings, as text, or as JSON."""

from collections.abc import Container, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from judges.labels.values import looks_like_number
from judges.tables.problems import UnreadableError
from judges.tables.text import Record, decode_json
from judges.tables.text import is_blank as is_blank

AnyValue = TypeVar("AnyValue")
# Maps each annotator's name to their rating. A rating without a name has the key None; it may be
# the mean of several annotators.
RatingsByAnnotator = dict[str | None, float]

# A column name `a.b` stands for the key `b` of the JSON objects in the column `a`.
KEY_SEPARATOR = "."
# A list of more than 100 numbers is not read as ratings: it may be an embedding.
MAX_ANNOTATORS = 100


def without_keys(mapping: Mapping[str, AnyValue], keys: Container[str]) -> dict[str, AnyValue]:
    """Return a copy of `mapping` without the given keys."""
    return {key: value for key, value in mapping.items() if key not in keys}


def value_at(cells: Mapping[str, object], path: str) -> object:
    """Return the value at a dotted path of keys, such as `a.b`; None if a key is missing."""
    # A name that contains a dot may be a plain key.
    if path in cells or KEY_SEPARATOR not in path:
        return cells.get(path)
    key, _, inner_path = path.partition(KEY_SEPARATOR)
    nested = as_object(cells.get(key))
    return None if nested is None else value_at(nested, inner_path)


def first_value(cells: Mapping[str, object], paths: Iterable[str]) -> object:
    """Return the first value at these paths that is not blank; None if all are blank."""
    values = (value_at(cells, path) for path in paths)
    return next((value for value in values if not is_blank(value)), None)


def as_list(value: object) -> list[object]:
    """Return a cell as a list: its own list, [] for a blank cell, or a list of its single value."""
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


def holds_ratings(value: object, *, is_typed: bool) -> bool:
    """Return whether a cell looks like a rating, or like a list with one rating per annotator."""
    value = decode_if_json(value)
    if not isinstance(value, list | tuple):
        return looks_like_number(value, is_typed=is_typed)
    if len(value) > MAX_ANNOTATORS:
        return False
    return all(is_blank(element) or looks_like_number(element, is_typed=True) for element in value)


def as_object(value: object) -> Mapping[str, object] | None:
    """Return the JSON object in a cell, which may be a string of JSON; None for any other cell."""
    value = decode_if_json(value)
    return value if isinstance(value, Mapping) else None


def decode_if_json(value: object, *, strict: bool = False) -> object:
    """Decode a string that holds a JSON list or object; return any other value unchanged.

    With `strict`, raise UnreadableError for a string that starts like JSON but is not valid JSON.
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
    """Split a cell of ratings into pairs (annotator, rating).

    The annotators of a list are called 1, 2, ...; a single rating has the annotator None. Raises
    UnreadableError if the cell starts like JSON but is not valid JSON.
    """
    value = decode_if_json(value, strict=True)
    if isinstance(value, Mapping):
        return sorted({str(name): rating for name, rating in value.items()}.items())
    if isinstance(value, list | tuple):
        return [(str(position), rating) for position, rating in enumerate(value, 1)]
    return [(None, value)]


def as_text(cell: object) -> object:
    """Return a number, `true` or a list of texts as one text; any other cell unchanged."""
    if hasattr(cell, "tolist"):  # a NumPy array or scalar in a data frame
        cell = cell.tolist()
    # In a data frame, a missing text is NaN, the only number that does not equal itself.
    if isinstance(cell, bool | int | float) and cell == cell:
        return str(cell)
    return join_texts(cell) or cell


def join_texts(value: object) -> str | None:
    """Join a list of texts, such as reviews, into one text with blank lines between them.

    An object with one key gives the text at that key. Returns None for any other cell.
    """
    if isinstance(value, Mapping) and len(value) == 1:
        value = [*value.values()]
    if not isinstance(value, list | tuple):
        return None
    texts = [element for element in value if not is_blank(element)]
    if not texts or not all(isinstance(text, str) for text in texts):
        return None
    return "\n\n".join(texts)
