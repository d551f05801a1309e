"""Parses the flags --map NAME=COLUMN, --values WORD=NUMBER and --scale 1-5, and mapping files."""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from judges.labels.columns import ColumnNames
from judges.labels.names import split_at_commas
from judges.labels.types import LabelError, Vote
from judges.labels.values import Scale
from judges.tables.text import read_yaml_file

# With `--scale any`, only the order of the labels counts.
ANY_SCALE = "any"
# The keys of a mapping file that name no column: the numbers for words, and the scale.
VALUES_KEY, SCALE_KEY = "values", "scale"
# An entry of a mapping: one or several columns (a data frame's columns may have numbers as names),
# or, for the key `values`, the number for each word.
MappingValue = ColumnNames | int | Mapping[str, object]
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_VOTE_BY_NAME: dict[str, Vote] = {"a": "A", "b": "B", "tie": "tie"}
_SCALE_PATTERN = re.compile(rf"({_NUMBER})\s*(?::|-|–|\.\.)\s*({_NUMBER})")


class LabelMapping(NamedTuple):
    """The parts of a mapping: the columns for each name, the meaning of words, and the scale."""

    columns: dict[str, ColumnNames]
    values: dict[str, float | Vote | None]
    scale: str | None


def read_mapping(arguments: Iterable[str]) -> dict[str, MappingValue]:
    """Read the arguments of --map, NAME=COLUMN or a mapping file, into one mapping.

    If NAME is repeated, it has several columns. NAME=COLUMN replaces a mapping file's entry for
    NAME. Raises LabelError for any other argument, and for an invalid mapping file.
    """
    file_entries: dict[str, MappingValue] = {}
    columns: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, column = argument.partition("=")
        if not equals and argument.endswith((".yaml", ".yml")):
            file_entries |= read_map_file(argument)
        elif not (name and column):
            raise LabelError(
                f"{argument!r} is not NAME=COLUMN, as in document=article, nor FILE.yaml"
            )
        elif column not in columns.setdefault(name, []):
            columns[name].append(column)
    return file_entries | {
        name: headers[0] if len(headers) == 1 else headers for name, headers in columns.items()
    }


def read_map_file(path: str | Path) -> dict[str, MappingValue]:
    """Return a mapping file's entries: the names with their columns, `values` and `scale`.

    Raises LabelError if the file cannot be read or an entry is not valid.
    """
    try:
        # Every scalar is read as a string, since `no`, `1` and `null` may be labels.
        content = read_yaml_file(Path(path))
    except OSError as error:
        raise LabelError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise LabelError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise LabelError(
            f"{path}: holds no mapping; write one `name: column` per line, as in document: article"
        )
    for name, entry in content.items():
        columns = entry if isinstance(entry, list) else [entry]
        are_columns = columns and all(isinstance(column, str) for column in columns)
        if not (are_columns or (name == VALUES_KEY and isinstance(entry, dict))):
            raise LabelError(f"{path}: {name} needs a column, or a list of columns")
    return content


def split_mapping(
    mapping: Mapping[str, MappingValue] | str | Path | None, values: Mapping[str, object] | None
) -> LabelMapping:
    """Split a mapping or a mapping file into its parts; `values` replace those of the mapping.

    Raises LabelError if the mapping file cannot be read, or if a word's number is not valid.
    """
    if isinstance(mapping, str | Path):
        mapping = read_map_file(mapping)
    columns: dict[str, ColumnNames] = {}
    value_by_word: dict[str, float | Vote | None] = {}
    scale: str | None = None
    for name, entry in (mapping or {}).items():
        if isinstance(entry, Mapping):
            value_by_word = read_values(entry)
        elif name == SCALE_KEY and (entry == ANY_SCALE or read_scale(str(entry))):
            # Any other entry is the column of a dimension with the name `scale`.
            scale = str(entry)
        else:
            columns[str(name)] = str(entry) if isinstance(entry, int) else entry
    return LabelMapping(columns, value_by_word | read_values(values or {}), scale)


def read_values(source: Iterable[str] | Mapping[str, object]) -> dict[str, float | Vote | None]:
    """Return the number or vote that each word stands for; None stands for a missing rating.

    `source` is a mapping, or arguments of --values, each `WORD=NUMBER,WORD=NUMBER,...`. `WORD=`
    means a missing rating. A word that contains a comma is quoted as in CSV. Raises LabelError if
    an argument has another form, or a word stands for two different numbers.
    """
    values: dict[str, float | Vote | None] = {}
    for word, meaning in _words_and_meanings(source):
        if not word:
            raise LabelError(f"{meaning!r} is not WORD=NUMBER, as in good=3 (or =A, =B, =tie)")
        if "=" in word and not isinstance(source, Mapping):
            raise LabelError(f"{word}={meaning}: write a comma between words, as in good=3,poor=1")
        value = _parse_meaning(meaning, word)
        if values.setdefault(word, value) != value:
            raise LabelError(f"{word!r} is given two different values; keep one of them")
    return values


def _words_and_meanings(source: Iterable[str] | Mapping[str, object]) -> list[tuple[str, object]]:
    if isinstance(source, Mapping):
        return [(str(word), meaning) for word, meaning in source.items()]
    parts = [part.rpartition("=") for text in source for part in split_at_commas(text)]
    return [(word.strip(), meaning.strip()) for word, _, meaning in parts]


def _parse_meaning(meaning: object, word: str) -> float | Vote | None:
    if meaning is None or meaning == "":
        return None
    if vote := _VOTE_BY_NAME.get(str(meaning).casefold()):
        return vote
    with suppress(ValueError):
        if math.isfinite(number := float(str(meaning))):
            return number
    raise LabelError(f"{word!r} is given the value {meaning!r}, which is not a number, A, B or tie")


def read_scale(text: str) -> Scale | None:
    """Read a scale `LOW-HIGH` or `LOW:HIGH`, such as 1-5 or -1:1; None for any other text."""
    bounds = _SCALE_PATTERN.fullmatch(text.strip())
    if bounds is None:
        return None
    low, high = float(bounds[1]), float(bounds[2])
    return (low, high) if low < high else None
