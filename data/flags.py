"""The words of a command line that say how to read a file: --map NAME=COLUMN, --scale LOW-HIGH."""

import argparse
import csv
import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from io import StringIO
from itertools import takewhile
from pathlib import Path
from typing import Any, NoReturn

from data.columns import ColumnNames, split_quoted
from data.types import Vote
from data.values import Scale, Values
from dspy_judges.commands import SCRIPT, as_called
from dspy_judges.version import __version__

# In a mapping, the words and what they count, beside names and columns.
VALUES = "values"
_MAX_MAP = 2**20
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_VOTES: dict[str, Vote] = {"a": "A", "b": "B", "tie": "tie"}
_BOUNDS = re.compile(rf"({_NUMBER})\s*(?::|-|–|\.\.)\s*({_NUMBER})")


class Parser(argparse.ArgumentParser):
    """Ends with 2 and one line; a flag's name is written out, and one mistyped is told its like."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("allow_abbrev", False)
        kwargs.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(*args, **kwargs)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        words = sys.argv[1:] if args is None else list(args)
        # Before what is missing is told: a flag that is mistyped may be the one that is.
        if self._subparsers is None and (mistyped := self._unknown_flag(words)):
            flag = mistyped.partition("=")[0]
            hint = did_you_mean(flag, self._option_string_actions)
            self.error(f"unrecognized arguments: {flag}{hint}")
        return super().parse_known_args(words, namespace)

    def _unknown_flag(self, words: Sequence[str]) -> str | None:
        """The first word before `--` that can only be a flag, and is none of ours."""
        before = takewhile(lambda word: word != "--", words)
        flags = (word for word in before if word.startswith("--") and " " not in word)
        return next(
            (w for w in flags if w.partition("=")[0] not in self._option_string_actions), None
        )

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def add_subparsers(self, **kwargs: Any) -> Any:
        return super().add_subparsers(**{"prog": self.prog, **kwargs})

    def _get_formatter(self) -> argparse.HelpFormatter:
        # A usage that goes on in further lines is set in by the name that it is called by.
        return self.formatter_class(prog=as_called(self.prog))

    def format_usage(self) -> str:
        return as_called(super().format_usage())

    def format_help(self) -> str:
        return as_called(super().format_help())

    def error(self, message: str) -> NoReturn:
        text = f"{self.prog}: {self.one_line(message)} (--help lists the flags)\n"
        self.exit(2, as_called(text))

    def one_line(self, message: str) -> str:
        """The message as it is printed."""
        return " ".join(message.split())


def add_version(parser: argparse.ArgumentParser) -> None:
    version = f"{SCRIPT} {__version__}"
    parser.add_argument("--version", action="version", version=version, help="print the version")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The end of a message about a word that is not known: which of the known it resembles."""
    close = get_close_matches(word, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def map_option(text: str) -> str:
    """The same text, where it is `NAME=COLUMN` or a mapping file; for argparse's `type`."""
    name, equals, column = text.partition("=")
    if not (name and equals and column) and not is_map_file(text):
        message = f"{text!r} is not NAME=COLUMN, as in document=article, nor FILE.yaml"
        raise argparse.ArgumentTypeError(message)
    return text


def is_map_file(text: str) -> bool:
    """Whether a word names a mapping file."""
    return "=" not in text and text.endswith((".yaml", ".yml"))


def read_mapping(words: Iterable[str]) -> dict[str, Any]:
    """Our names and their columns, from NAME=COLUMNs and mapping files; raises ValueError.

    A name given several columns has them all, in that order; a NAME=COLUMN beats a file. A file's
    values stand under `values`.
    """
    of_files: dict[str, Any] = {}
    columns: dict[str, list[str]] = {}
    for word in words:
        name, equals, column = word.partition("=")
        if is_map_file(word):
            of_files |= read_map_file(word)
        elif not (name and equals and column):
            raise ValueError(f"{word}: expected NAME=COLUMN, as in document=article, or FILE.yaml")
        elif column not in columns.setdefault(name, []):
            columns[name].append(column)
    return of_files | {name: m[0] if len(m) == 1 else m for name, m in columns.items()}


def read_map_file(path: str | Path) -> dict[str, Any]:
    """The mapping that `check --write-map` leaves: names and columns, and `values`.

    Raises ValueError.
    """
    import yaml

    try:
        with Path(path).open("rb") as file:
            content = yaml.safe_load(file.read(_MAX_MAP))
    except OSError as error:
        raise ValueError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: is no YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: write one `name: column` a line, as in document: article")
    mapping: dict[str, Any] = {}
    for name, columns in content.items():
        if name == VALUES and isinstance(columns, dict):
            mapping[VALUES] = dict(read_values(columns))
            continue
        many = columns if isinstance(columns, list) else [columns]
        if not many or not all(isinstance(column, str | int) for column in many):
            raise ValueError(f"{path}: {name} needs a column, or a list of columns")
        mapping[str(name)] = [*map(str, many)] if isinstance(columns, list) else str(columns)
    return mapping


def split_mapping(
    mapping: Mapping[str, Any] | str | Path | None, values: Values | None
) -> tuple[dict[str, ColumnNames], dict[str, float | Vote | None]]:
    """Columns and words of a mapping, or of its file; `values` beat its own. Raises ValueError."""
    if isinstance(mapping, str | Path):
        mapping = read_map_file(mapping)
    columns = dict(mapping or {})
    own = columns.pop(VALUES, {})
    if not isinstance(own, Mapping):
        return {**columns, VALUES: own}, dict(values or {})
    return columns, {**read_values(own), **(values or {})}


def map_flags(mapping: Mapping[str, ColumnNames] | None) -> list[str]:
    """The words of the command line that say `mapping`."""
    words = []
    for name, columns in (mapping or {}).items():
        for column in [columns] if isinstance(columns, str) else columns:
            words += ["--map", f"{name}={column}"]
    return words


def read_values(
    given: Iterable[str] | Mapping[Any, object] | None,
) -> dict[str, float | Vote | None]:
    """Words and what they count, from `WORD=NUMBER,...`s or a mapping; raises ValueError.

    A, B and tie are choices, and nothing is no rating. A word with a comma is quoted, as a cell of
    CSV is.
    """
    pairs: list[tuple[str, object]] = []
    if isinstance(given, Mapping):
        for word, counted in given.items():
            # YAML's yes and no are true and false.
            names = ("false", "no") if word is False else ("true", "yes")
            pairs += [
                (name, counted) for name in (names if isinstance(word, bool) else [str(word)])
            ]
    else:
        for pair in (pair for text in given or () for pair in split_quoted(text)):
            word, equals, counted = (part.strip() for part in pair.rpartition("="))
            if not (word and equals):
                raise ValueError(f"{pair!r} is not WORD=NUMBER, as in good=3 (or =A, =B, =tie)")
            pairs.append((word, counted))
    values: dict[str, float | Vote | None] = {}
    for word, counted in pairs:
        value = value_of(counted, word)
        if values.setdefault(word, value) != value:
            raise ValueError(f"{word!r} is given two values")
    return values


def values_option(text: str) -> str:
    """The same text, where `read_values` can read it; for argparse's `type`."""
    try:
        read_values([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def value_of(counted: object, word: str) -> float | Vote | None:
    """What a word counts, from a flag or a file; raises ValueError."""
    if counted is None or counted == "":
        return None
    vote = _VOTES.get(str(counted).casefold())
    if vote is not None:
        return vote
    try:
        number = math.nan if isinstance(counted, bool) else float(str(counted))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{word!r} counts {counted!r}, which is no number, nor A, B or tie")
    return number


def values_flags(values: Values | None) -> list[str]:
    """The words of the command line that say `values`."""
    if not values:
        return []
    pairs = []
    for word, counted in values.items():
        number = "" if counted is None else counted if isinstance(counted, str) else f"{counted:g}"
        pairs.append(join_quoted([f"{word}={number}"]))
    return ["--values", ",".join(pairs)]


def join_quoted(parts: Iterable[str]) -> str:
    """What `split_quoted` takes apart."""
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(list(parts))
    return line.getvalue()


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
