"""Check decoded JSON or YAML against a shape: exact keys, types, lengths, finite numbers.

A check takes a value and the path to it, and raises ShapeError naming that path. Small and without
dependencies, since loading a judge must stay cheap.
"""

import re
from collections.abc import Callable, Mapping

LONGEST_MESSAGE = 500

Check = Callable[[object, str], None]


class ShapeError(ValueError):
    """A value that is not of its shape; the message names its path and what belongs there."""


def text(most: int, *, empty: bool = False, pattern: re.Pattern[str] | None = None) -> Check:
    """A string of at most `most` characters, encodable, not blank unless `empty`."""

    def check(value: object, path: str) -> None:
        if not isinstance(value, str):
            raise ShapeError(f"{path} is {_shown(value)}; a text belongs there")
        if len(value) > most:
            raise ShapeError(f"{path} has {len(value):,} characters; the most is {most:,}")
        if not (empty or value.strip()):
            raise ShapeError(f"{path} is empty")
        if re.search("[\ud800-\udfff]", value):
            raise ShapeError(f"{path} holds a broken character (a lone surrogate)")
        if pattern and not pattern.fullmatch(value):
            raise ShapeError(f"{path} is {_shown(value)}, which is not of its form")

    return check


def whole(low: int, high: int) -> Check:
    """An integer within bounds; true and false are none."""

    def check(value: object, path: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise ShapeError(f"{path} is {_shown(value)}; a whole number {low} to {high} belongs")

    return check


def number(low: float, high: float) -> Check:
    """A finite number within bounds."""

    def check(value: object, path: str) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ShapeError(f"{path} is {_shown(value)}; a number belongs there")
        # Compared, which infinite and endless numbers and NaN stand, rather than computed with.
        if not low <= value <= high:
            raise ShapeError(f"{path} is {_shown(value)}; it must be within {low:g} and {high:g}")

    return check


def one_of(*choices: object) -> Check:
    def check(value: object, path: str) -> None:
        # By type too, since 1 == True == 1.0.
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            wanted = " or ".join(repr(choice) for choice in choices)
            raise ShapeError(f"{path} is {_shown(value)}; {wanted} belongs there")

    return check


def either(*checks: Check) -> Check:
    """What the first check that passes accepts; the last one's complaint is reported."""

    def check(value: object, path: str) -> None:
        for attempt in checks[:-1]:
            try:
                return attempt(value, path)
            except ShapeError:
                continue
        return checks[-1](value, path)

    return check


def nothing(value: object, path: str) -> None:
    if value is not None:
        raise ShapeError(f"{path} is {_shown(value)}; null belongs there")


def list_of(item: Check, *, least: int = 0, most: int) -> Check:
    def check(value: object, path: str) -> None:
        if not isinstance(value, list):
            raise ShapeError(f"{path} is {_shown(value)}; a list belongs there")
        if not least <= len(value) <= most:
            raise ShapeError(f"{path} has {len(value)} entries; it takes {least} to {most}")
        for place, entry in enumerate(value):
            item(entry, f"{path}[{place}]")

    return check


def keys(
    required: Mapping[str, Check],
    optional: Mapping[str, Check] | None = None,
    *,
    others: Check | None = None,
) -> Check:
    """A mapping with all the required keys and some of the optional ones.

    Further keys are refused, or held to `others`.
    """
    known = {**required, **(optional or {})}

    def check(value: object, path: str) -> None:
        entries = _mapping(value, path)
        for missing in sorted(required.keys() - entries.keys()):
            raise ShapeError(f"{path} lacks {missing!r}")
        for name in entries:
            if name not in known and others is None:
                raise ShapeError(f"{path} has the unknown key {_shown(name)}; {_near(known)}")
        for name, entry in entries.items():
            known.get(name, others or nothing)(entry, f"{path}.{name}")

    return check


def named(item: Check, *, name: Check, most: int) -> Check:
    """A mapping from any names to one kind of value."""

    def check(value: object, path: str) -> None:
        entries = _mapping(value, path)
        if len(entries) > most:
            raise ShapeError(f"{path} has {len(entries)} keys; the most is {most}")
        for key, entry in entries.items():
            name(key, f"a key of {path}")
            item(entry, f"{path}.{key}")

    return check


def free(*, depth: int, most: int) -> Check:
    """Anything plain: texts, finite numbers, true, false, null, and lists and mappings of these."""
    leaf = either(one_of(True, False, None), number(-1e300, 1e300), text(20_000, empty=True))

    def check(value: object, path: str) -> None:
        if not isinstance(value, list | dict):
            return leaf(value, path)
        if depth == 0:
            raise ShapeError(f"{path} is nested too deeply")
        inner = free(depth=depth - 1, most=most)
        if isinstance(value, list):
            return list_of(inner, most=most)(value, path)
        return named(inner, name=text(200), most=most)(value, path)

    return check


def shortened(message: object) -> str:
    """A message that quotes a file, cut where the file made it long."""
    text = str(message)
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."


def check_size(value: object, path: str, *, most: int) -> None:
    """Raise ShapeError where lists and mappings hold more than `most` values in all."""
    size, holders = 0, [value]
    while holders:
        holder = holders.pop()
        if isinstance(holder, list | dict):
            size += len(holder)
            if size > most:
                raise ShapeError(f"{path} holds more than {most:,} values")
            holders.extend(holder.values() if isinstance(holder, dict) else holder)


def _mapping(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ShapeError(f"{path} is {_shown(value)}; a mapping belongs there")
    return value


def _near(known: Mapping[str, Check]) -> str:
    return f"known: {', '.join(known)}"


def _shown(value: object) -> str:
    """A value in a message: short, on one line, and never a whole document."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**50:
        return "a number of more than 50 digits"  # Python writes none of thousands
    shown = repr(value[:60] if isinstance(value, str | bytes) else value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
