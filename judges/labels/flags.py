"""Reads flags that say how to read a file: --map NAME=COLUMN, --values WORD=NUMBER, --scale 1-5."""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from judges.labels.columns import ColumnNames
from judges.labels.names import split_quoted
from judges.labels.types import LabelError, Vote
from judges.labels.values import Scale
from judges.tables.text import read_yaml_file

Entry = TypeVar("Entry")
# Further keys of a mapping file: the numbers that words stand for, and the scale.
VALUES, SCALE = "values", "scale"
# An entry of a mapping: columns (a data frame may call one by a number), or the numbers of words.
MapEntry = ColumnNames | int | Mapping[str, object]
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_VOTES: dict[str, Vote] = {"a": "A", "b": "B", "tie": "tie"}
_BOUNDS = re.compile(rf"({_NUMBER})\s*(?::|-|–|\.\.)\s*({_NUMBER})")


def read_mapping(arguments: Iterable[str]) -> dict[str, MapEntry]:
    """Read the arguments of --map, each NAME=COLUMN or a mapping file, into one mapping.

    A name may have several columns. NAME=COLUMN replaces the columns that a file gives the name. A
    file's values are under the key `values`. Raises LabelError, a ValueError, for other arguments.
    """
    from_files: dict[str, MapEntry] = {}
    columns: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, column = argument.partition("=")
        if not equals and argument.endswith((".yaml", ".yml")):
            from_files |= read_map_file(argument)
        elif not (name and column):
            raise LabelError(
                f"{argument!r} is not NAME=COLUMN, as in document=article, nor FILE.yaml"
            )
        elif column not in columns.setdefault(name, []):
            columns[name].append(column)
    return from_files | {name: m[0] if len(m) == 1 else m for name, m in columns.items()}


def read_map_file(path: str | Path) -> dict[str, MapEntry]:
    """Return the content of a mapping file: columns, `values` and `scale`; raises LabelError."""
    try:
        # Scalars are read as strings, since `no`, `1` and `null` may be labels.
        content = read_yaml_file(Path(path), as_written=True)
    except OSError as error:
        raise LabelError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise LabelError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise LabelError(f"{path}: write one `name: column` per line, as in document: article")
    for name, entry in content.items():
        if not _is_entry(name, entry):
            raise LabelError(f"{path}: {name} needs a column, or a list of columns")
    return content


def _is_entry(name: str, entry: object) -> bool:
    """Whether an entry of a mapping file is a column, a list of columns, or `values`."""
    if isinstance(entry, list):
        return bool(entry) and all(isinstance(column, str) for column in entry)
    return isinstance(entry, str) or (name == VALUES and isinstance(entry, dict))


def split_mapping(
    mapping: Mapping[str, MapEntry] | str | Path | None, values: Mapping[str, object] | None
) -> tuple[dict[str, ColumnNames], dict[str, float | Vote | None]]:
    """Split a mapping, or a mapping file, into its columns and the numbers that words stand for.

    `values` are further words; they replace those of the mapping. Raises LabelError.
    """
    if isinstance(mapping, str | Path):
        mapping = read_map_file(mapping)
    columns: dict[str, ColumnNames] = {}
    words: dict[str, float | Vote | None] = {}
    for name, entry in (mapping or {}).items():
        if isinstance(entry, Mapping):
            words = read_values(entry)
        else:
            columns[str(name)] = str(entry) if isinstance(entry, int) else entry
    return columns, words | read_values(values or {})


def read_values(source: Iterable[str] | Mapping[str, object]) -> dict[str, float | Vote | None]:
    """Return the number or vote that each word stands for, from a mapping or `WORD=NUMBER,...`.

    The votes are A, B and tie. With nothing after the `=`, the word stands for a missing rating. A
    word that contains a comma is quoted as in CSV. Raises LabelError.
    """
    values: dict[str, float | Vote | None] = {}
    for word, meaning in _meanings(source):
        if not word:
            raise LabelError(f"{meaning!r} is not WORD=NUMBER, as in good=3 (or =A, =B, =tie)")
        value = _value_of(meaning, word)
        if values.setdefault(word, value) != value:
            raise LabelError(f"{word!r} is given two values")
    return values


def _meanings(source: Iterable[str] | Mapping[str, object]) -> list[tuple[str, object]]:
    if isinstance(source, Mapping):
        return [(str(word), meaning) for word, meaning in source.items()]
    parts = [part.rpartition("=") for text in source for part in split_quoted(text)]
    return [(word.strip(), meaning.strip()) for word, _, meaning in parts]


def _value_of(meaning: object, word: str) -> float | Vote | None:
    if meaning is None or meaning == "":
        return None
    if vote := _VOTES.get(str(meaning).casefold()):
        return vote
    try:
        number = float(str(meaning))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise LabelError(f"{word!r} counts {meaning!r}, which is not a number, A, B or tie")
    return number


def pop_scale(columns: dict[str, Entry]) -> Scale | None:
    """Remove the scale from the entries of a mapping and return it; None if there is none."""
    scale = read_bounds(str(columns.get(SCALE)))
    if scale is not None:
        del columns[SCALE]
    return scale


def read_bounds(text: str) -> Scale | None:
    """Read `LOW-HIGH` or `LOW:HIGH`, such as 1-5, 0:1 or -1:1; None for any other text."""
    match = _BOUNDS.fullmatch(text.strip())
    if match is None:
        return None
    low, high = float(match[1]), float(match[2])
    return (low, high) if low < high else None
