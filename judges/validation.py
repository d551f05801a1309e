"""Check what a file holds before any of it is used: strict JSON, plain values within bounds, types.

Types are msgspec's: quick to import, since loading a judge must stay cheap, and strict.
"""

import json
import re
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from judges.errors import JudgesError

MAX_MESSAGE_LENGTH = 500
# A judge or a definition has few values, not deep, and each is checked.
MAX_VALUES = 200_000
MAX_DEPTH = 10
T = TypeVar("T")
# What names of judges and texts look like, and the numbers that may be ratings.
Word = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,63}\Z")]
Rating = Annotated[int, Meta(ge=-1000, le=1000)]
_WORD = re.compile(r"\w{1,64}")
_SURROGATE = re.compile("[\ud800-\udfff]")
# How msgspec names the place of what it refuses: - at `$.messages[0].role`.
_PLACE = re.compile(r" - at (`key` in )?`\$([\w.\[\]]*)`\Z")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")

_TYPE_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
}


class InvalidDataError(JudgesError, ValueError):
    """A value that is not what belongs there; the message names its place."""


def decode_json(raw: bytes, *, max_brackets: int) -> object:
    """The one value of a JSON text: no key twice, no NaN or Infinity; raises InvalidDataError."""
    # Twenty bytes of JSON may take a thousand in memory.
    if raw.count(b"[") + raw.count(b"{") > max_brackets:
        raise InvalidDataError(f"more than {max_brackets:,} brackets")
    try:
        return json.loads(
            raw.decode("utf-8"), object_pairs_hook=_unique_keys, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise InvalidDataError(f"not UTF-8 text (byte {error.start})") from error
    except json.JSONDecodeError as error:
        problem = f"not JSON, or cut short: {error.msg} at line {error.lineno}"
        raise InvalidDataError(problem) from error
    except RecursionError as error:
        raise InvalidDataError("nested too deeply") from error
    except InvalidDataError:
        raise
    except ValueError as error:  # a number of more digits than Python reads
        raise InvalidDataError(f"not plain JSON: {error}") from error


def check_plain(value: object, where: str, *, max_characters: int = 20_000) -> None:
    """Raise InvalidDataError for what is no plain data, or more, deeper or longer than allowed.

    Plain are texts that UTF-8 can hold, finite numbers, true, false, null, and lists and mappings
    of these.
    """
    size = 0
    pending = [(value, where, 0)]
    while pending:
        entry, path, depth = pending.pop()
        if not isinstance(entry, dict | list):
            _check_leaf(entry, path, max_characters)
            continue
        size += len(entry)
        if size > MAX_VALUES:
            raise InvalidDataError(f"{where} holds more than {MAX_VALUES:,} values")
        if depth >= MAX_DEPTH:
            raise InvalidDataError(f"{path} is nested too deeply")
        if isinstance(entry, list):
            pending += [(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(entry)]
            continue
        for key, inner in entry.items():
            _check_leaf(key, f"a key of {path}", max_characters)
            name = key if _WORD.fullmatch(str(key)) else quoted(key)
            pending.append((inner, f"{path}.{name}", depth + 1))


def converted(value: object, kind: type[T], where: str) -> T:
    """The value as its type; raises InvalidDataError, which names the place and the value."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InvalidDataError(shortened(_explained(str(error), value, kind, where))) from None


def shortened(message: object) -> str:
    """A message that quotes a file, on one line and cut where the file made it long."""
    text = " ".join(str(message).split())
    return text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 3]}..."


def quoted(value: object) -> str:
    """A value in a message: short, on one line, and never a whole document."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**50:
        return "a number of more than 50 digits"  # Python writes none of thousands
    text = repr(value[:60] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise InvalidDataError("a key stands twice in one mapping")
    return mapping


def _refuse_constant(name: str) -> object:
    raise InvalidDataError(f"{name} is no number of JSON")


def _check_leaf(value: object, path: str, max_characters: int) -> None:
    """Raise InvalidDataError unless it is a number, true, false, null or a sound, short text."""
    if isinstance(value, str):
        if len(value) > max_characters:
            raise InvalidDataError(
                f"{path} has {len(value):,} characters; the most is {max_characters:,}"
            )
        if _SURROGATE.search(value):
            raise InvalidDataError(f"{path} holds a broken character (a lone surrogate)")
    elif value is not None and not isinstance(value, int | float):
        raise InvalidDataError(f"{path} is {quoted(value)}; plain text or a number belongs there")
    # Compared, which infinite and endless numbers and NaN stand, rather than computed with.
    elif value is not None and not -1e300 <= value <= 1e300:
        raise InvalidDataError(f"{path} is {quoted(value)}; a finite number belongs there")


def _explained(problem: str, value: Any, kind: Any, where: str) -> str:
    """What msgspec refuses, in plain words and with what stands there."""
    at = _PLACE.search(problem)
    path, problem = (at[2], problem[: at.start()]) if at else ("", problem)
    words, where = _plainly(problem, kind, path), where + path.replace("[...]", "")
    if at and at[1]:
        return f"{where} has a key of another kind: {words}"
    if "[...]" in path:  # some entry of a mapping, whose key msgspec does not name
        return f"{where} has a value of another kind: {words}"
    if problem.startswith("Object "):
        return f"{where} {words}"
    for name, number in _STEP.findall(path):
        value = value[name] if name else value[int(number)]
    if isinstance(value, list | str) and "length" in problem:
        unit = "entries" if isinstance(value, list) else "characters"
        return f"{where} has {len(value):,} {unit}: {words}"
    return f"{where} is {quoted(value)}; {words}"


def _plainly(problem: str, kind: Any, path: str) -> str:
    """A problem of msgspec's in plain words; `path` is where in the value it lies, "" for all."""
    holder = get_origin(kind) or kind
    if match := re.fullmatch(r"Object contains unknown field `(.*)`", problem, re.DOTALL):
        known = "" if path else f"; known: {', '.join(holder.__struct_fields__)}"
        return f"has the unknown key {quoted(match[1])}{known}"
    if match := re.fullmatch(r"Object missing required field `(\w+)`", problem):
        return f"lacks {match[1]!r}"
    if match := re.fullmatch(r"Expected `([\w |]+)`, got `.*`", problem):
        words = [_TYPE_WORDS.get(name, name) for name in match[1].split(" | ")]
        return f"{' or '.join(words)} belongs there"
    if problem.startswith("Invalid enum value"):
        annotation = get_type_hints(holder).get(path.removeprefix("."))
        values = " or ".join(map(repr, get_args(annotation))) or "one of a few words"
        return f"{values} belongs there"
    if problem.endswith(r"matching regex '\\S'"):
        return "a text that is not blank belongs there"
    return problem.replace("Expected `str` matching regex", "its form is")
