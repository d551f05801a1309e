"""The words of a command line that say how to read a file: --map NAME=COLUMN, --scale LOW-HIGH."""

import argparse
import re
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from data.cells import Scale
from data.columns import ColumnNames

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_BOUNDS = re.compile(rf"({_NUMBER})\s*(?::|-|–|\.\.)\s*({_NUMBER})")


class Parser(argparse.ArgumentParser):
    """Ends with 2 and one line; a flag's name is written out."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {' '.join(message.split())} (--help lists the flags)\n")


def map_option(text: str) -> tuple[str, str]:
    """Read `NAME=COLUMN`; for argparse's `type`."""
    name, equals, column = text.partition("=")
    if not (name and equals and column):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COLUMN, as in document=article")
    return name, column


def read_mapping(pairs: Iterable[tuple[str, str]]) -> dict[str, str | list[str]]:
    """Our names and their columns; a name given several columns has them all, in that order."""
    columns: dict[str, list[str]] = {}
    for name, column in pairs:
        if column not in columns.setdefault(name, []):
            columns[name].append(column)
    return {name: many[0] if len(many) == 1 else many for name, many in columns.items()}


def map_flags(mapping: Mapping[str, ColumnNames] | None) -> list[str]:
    """The words of the command line that say `mapping`."""
    words = []
    for name, columns in (mapping or {}).items():
        for column in [columns] if isinstance(columns, str) else columns:
            words += ["--map", f"{name}={column}"]
    return words


def scale_flags(scales: Mapping[str, Scale] | None) -> list[str]:
    """The words of a command line that state `scales`, as in --scale relevance=1-5."""
    words = []
    for name, (low, high) in (scales or {}).items():
        ends = f"{low:g}:{high:g}" if low < 0 else f"{low:g}-{high:g}"
        words += ["--scale", ends if name == "*" else f"{name}={ends}"]
    return words


def read_bounds(text: str) -> Scale | None:
    """Read `LOW-HIGH` or `LOW:HIGH`, as in 1-5, 0:1 or -1:1; None where it is neither."""
    match = _BOUNDS.fullmatch(text.strip())
    if match is None:
        return None
    low, high = float(match[1]), float(match[2])
    return (low, high) if low < high else None


def scale_option(text: str) -> tuple[str, Scale]:
    """Read `LOW-HIGH`, for every dimension, or `DIMENSION=LOW-HIGH`; for argparse's `type`."""
    name, equals, bounds = text.rpartition("=")
    scale = read_bounds(bounds)
    if scale is None or (equals and not name):
        raise argparse.ArgumentTypeError(f"{text!r} is not LOW-HIGH, as in 1-5 or relevance=1-5")
    return name or "*", scale


def join_scale(arguments: list[str], flag: str = "--scale") -> list[str]:
    """Join the flag to a value such as -1:1, which argparse takes for a flag."""
    words: list[str] = []
    for word in arguments:
        if words and words[-1] == flag and _BOUNDS.fullmatch(word.rpartition("=")[2]):
            words[-1] = f"{flag}={word}"
        else:
            words.append(word)
    return words
