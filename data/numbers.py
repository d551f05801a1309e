"""Read people's numbers strictly: what is no plain finite number is a problem, never a guess."""

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from data.problems import NOTHING

Scale = tuple[float, float]
# A longer list of numbers is no set of ratings but, say, an embedding.
MOST_ANNOTATORS = 100

# Not float(), which takes "nan", "1_000" and other alphabets' digits.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Fault(NamedTuple):
    """Why a cell is no rating; the caller knows where it stands."""

    kind: str
    what: str
    way_out: str
    value: object = NOTHING


class Marks(NamedTuple):
    """The ratings of one cell and who gave them; no annotators where it is one bare number."""

    ratings: tuple[float, ...] = ()
    annotators: tuple[str, ...] = ()


NO_MARKS = Marks()


def is_blank(value: object) -> bool:
    """Whether a cell says nothing: null, or nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def is_number(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a number; in an untyped file every cell is a string."""
    if isinstance(value, str):
        return not typed and bool(_NUMBER.fullmatch(value.strip()))
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def is_rating(value: object, *, typed: bool) -> bool:
    """Whether a cell looks like a rating: a number, or a short list with one per annotator."""
    if not typed and isinstance(value, str) and value.lstrip()[:1] == "[":
        value = read_json(value)
        typed = True
    if not isinstance(value, list | tuple):
        return is_number(value, typed=typed)
    given = [one for one in value if not is_blank(one)]
    return len(value) <= MOST_ANNOTATORS and all(is_number(one, typed=typed) for one in given)


def read_marks(value: object, scale: Scale | None) -> Marks | Fault:
    """Read one dimension's cell: a number, a list with one per annotator, or {annotator: number}.

    A null among them is an annotator who gave none. A string holds a number, or JSON.
    """
    if is_blank(value):
        return NO_MARKS
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        value = read_json(value)
        if isinstance(value, Fault):
            return value
    if isinstance(value, Mapping):
        return _several([(str(name), value[name]) for name in sorted(value, key=str)], scale)
    if isinstance(value, list | tuple):
        return _several([(str(place), one) for place, one in enumerate(value, 1)], scale)
    number = read_number(value, scale)
    return number if isinstance(number, Fault) else Marks((number,))


def read_json(text: str) -> object | Fault:
    """Parse a cell that holds JSON."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return Fault("bad-json", "is not JSON", "write it as JSON, or give flat columns", text)
    return value


def read_number(value: object, scale: Scale | None) -> float | Fault:
    """Read one rating; a Fault where it is no finite number, or off the scale."""
    if isinstance(value, str):
        if not _NUMBER.fullmatch(value.strip()):
            return Fault("not-a-number", "is not a number", _way_out(value.strip()), value)
        value = float(value)
    if isinstance(value, bool):
        return Fault("not-a-number", "is not a number", "write 1 for true and 0 for false", value)
    if not isinstance(value, int | float | Decimal):
        return Fault("not-a-number", "is not a number", "write a plain number, or null", value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return Fault(
            "not-finite", "is not a finite number", "leave it empty where there is none", value
        )
    if scale is not None and not scale[0] <= number <= scale[1]:
        low, high = scale
        return Fault(
            "off-scale",
            f"is off the scale {low:g} to {high:g}",
            "mend the rating, or state the scale that people were given",
            value,
        )
    return number


def _way_out(text: str) -> str:
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


def _several(marks: list[tuple[str, object]], scale: Scale | None) -> Marks | Fault:
    ratings, annotators = [], []
    for annotator, value in marks:
        if is_blank(value):
            continue
        number = read_number(value, scale)
        if isinstance(number, Fault):
            return number
        ratings.append(number)
        annotators.append(annotator)
    return Marks(tuple(ratings), tuple(annotators))
