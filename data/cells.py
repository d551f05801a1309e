"""What stands in one cell: a name, a number, ratings by annotator, a vote, texts, or JSON."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal

from data.tables.problems import CellError
from data.tables.text import TableRow
from data.types import Vote

Scale = tuple[float, float]
# Annotator -> rating. None is nobody named: a single number, which may be a mean.
RatingsByAnnotator = dict[str | None, float]

# A dotted name reaches into a nested column.
DOT = "."
# `--map id=#line` numbers the rows of a file without ids.
LINE = "#line"
# A longer list of numbers is no set of ratings but, say, an embedding.
MAX_ANNOTATORS = 100

# Not float(), which takes "nan", "1_000" and other alphabets' digits.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_VOTES: dict[str, Vote] = {
    "a": "A",
    "b": "B",
    "tie": "tie",
    # AlpacaEval's numbers.
    "1": "A",
    "2": "B",
    "1.5": "tie",
    "1.0": "A",
    "2.0": "B",
    # Chatbot Arena's words.
    "model_a": "A",
    "model_b": "B",
    "tie (bothbad)": "tie",
}


def value_in(row: TableRow, column: str) -> object:
    """Return a row's cell; a dotted column that the row lacks reaches into a nested one."""
    if column in row.cells or DOT not in column:
        return row.cells.get(column)
    value: object = row.cells
    for key in column.split(DOT):
        nested = as_object(value)
        if nested is None:
            return None
        value = nested.get(key)
    return value


def is_blank(value: object) -> bool:
    """Whether a cell says nothing: null, or nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def is_name(value: object) -> bool:
    """Whether a cell can name an output, a document, a system or a dimension."""
    return isinstance(value, str | int) and not isinstance(value, bool) and not is_blank(value)


def is_number(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a number; in an untyped file every cell is a string."""
    if isinstance(value, str):
        return not typed and bool(_NUMBER.fullmatch(value.strip()))
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a rating: a number, or a short list with one per annotator."""
    if not typed and isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = read_json(value)
        except CellError:
            return False
        typed = True
    if not isinstance(value, list | tuple):
        return is_number(value, typed=typed)
    return len(value) <= MAX_ANNOTATORS and all(
        is_blank(part) or is_number(part, typed=typed) for part in value
    )


def as_object(value: object) -> Mapping[str, object] | None:
    """An object, also where an untyped file holds it as JSON; None where the cell holds none."""
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            value = read_json(value)
        except CellError:
            return None
    return value if isinstance(value, Mapping) else None


def read_json(text: str) -> object:
    """Parse a cell that holds JSON; raises CellError."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        advice = "write it as JSON, or give flat columns"
        raise CellError("bad-json", "is not JSON", advice, text) from None
    return value


def read_ratings(value: object, scale: Scale | None) -> RatingsByAnnotator:
    """Read one dimension's cell: a number, a list with one per annotator, or {annotator: number}.

    A null among them is an annotator who gave none. A string holds a number, or JSON. Raises
    CellError.
    """
    if is_blank(value):
        return {}
    if isinstance(value, str) and value.lstrip().startswith(("[", "{")):
        value = read_json(value)
    if isinstance(value, Mapping):
        by_name = {str(name): part for name, part in value.items()}
        parts: Iterable[tuple[object, object]] = sorted(by_name.items())
    elif isinstance(value, list | tuple):
        parts = enumerate(value, 1)
    else:
        return {None: read_number(value, scale)}
    return {
        str(annotator): read_number(part, scale) for annotator, part in parts if not is_blank(part)
    }


def read_number(value: object, scale: Scale | None) -> float:
    """Read one rating; raises CellError where it is no finite number, or off the scale."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value.strip()):
            raise CellError("not-a-number", "is not a number", _number_advice(value.strip()), value)
        value = float(value)
    if isinstance(value, bool):
        advice = "write 1 for true and 0 for false"
        raise CellError("not-a-number", "is not a number", advice, value)
    if not isinstance(value, int | float | Decimal):
        advice = "write a plain number, or null"
        raise CellError("not-a-number", "is not a number", advice, value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        advice = "leave it empty where there is none"
        raise CellError("not-finite", "is not a finite number", advice, value)
    if scale is not None and not scale[0] <= number <= scale[1]:
        fault = f"is off the scale {scale[0]:g} to {scale[1]:g}"
        advice = "mend the rating, or state the scale that people were given"
        raise CellError("off-scale", fault, advice, value)
    return number


def _number_advice(text: str) -> str:
    """How to write as a number what people write for one."""
    word = text.casefold()
    if word in ("true", "yes", "false", "no"):
        return f"write {int(word in ('true', 'yes'))} for {text}"
    if word in ("na", "n/a", "nan", "none", "null", "-", "?"):
        return "leave the cell empty where there is no rating"
    if re.fullmatch(r"[+-]?\d{1,3}(?:,\d{3})+", text, re.ASCII):
        without = text.replace(",", "")
        if text.count(",") > 1:
            return f"write {without}, without commas"
        return f"write {without} or {text.replace(',', '.')}, as is meant"
    if re.fullmatch(r"[+-]?\d+,\d+", text, re.ASCII):
        return f"write {text.replace(',', '.')}, with a point"
    if part := re.fullmatch(r"([+-]?\d+(?:\.\d+)?)\s*(?:%|/|out of|of|stars?\b).*", word, re.ASCII):
        return f"write {part[1]} alone, and say the scale with --scale"
    return "write a plain number, or leave it empty"


def read_votes(value: object) -> tuple[Vote, ...]:
    """Read every vote of a cell, none where nobody voted; raises CellError."""
    votes: list[Vote] = []
    for part in _vote_words(value):
        if is_blank(part):
            continue
        vote = None if isinstance(part, bool) else _VOTES.get(str(part).strip().lower())
        if vote is None:
            advice = "write A, B or tie (or 1, 2 and 1.5)"
            raise CellError("no-vote", "is no vote", advice, part)
        votes.append(vote)
    return tuple(votes)


def _vote_words(value: object) -> Iterator[object]:
    """A cell's votes as written: a list, a JSON list, words with separators, or one vote."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        value = read_json(value)
    if isinstance(value, list | tuple):
        yield from value
    elif isinstance(value, str) and value.strip().lower() not in _VOTES:
        yield from re.split(r"[,;|\s]+", value.strip())
    else:
        yield value


def join_texts(value: object) -> str | None:
    """Several texts of a cell, such as reviews, as one; None where it holds anything else."""
    if not isinstance(value, list | tuple):
        return None
    if any(part is not None and not isinstance(part, str) for part in value):
        return None
    return "\n\n".join(part for part in value if not is_blank(part)) or None
