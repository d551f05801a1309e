"""Says how a file of labels is to be read: the user's columns, dimensions, scales and words.

The user says so with --map NAME=COLUMN, --values WORD=NUMBER and --scale 1-5, or in a mapping file.
"""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Literal

from judges.labels.names import judge_name, split_at_commas
from judges.labels.types import LabelError, Vote
from judges.labels.values import Scale, WordValues, normalize_word
from judges.tables.text import read_yaml_file

# One column's name, or the names of several columns, each with the ratings of one annotator.
ColumnNames = str | Sequence[str]
# With `--scale any`, a judge need not use the scale of the labels: only their order counts.
ANY_SCALE = "any"
# Three keys of a mapping name no column: the numbers for words, the scale, and --turns.
VALUES_KEY, SCALE_KEY, TURNS_KEY = "values", "scale", "turns"
# A value in a mapping: one or several columns or, for the key `values`, the number for each word.
# In a data frame, a column's name may be a number.
MappingValue = ColumnNames | int | Mapping[str, object]
_NUMBER_PATTERN = r"[+-]?(?:\d+\.?\d*|\.\d+)"
_VOTE_BY_NAME: dict[str, Vote] = {"a": "A", "b": "B", "tie": "tie"}
_SCALE_PATTERN = re.compile(rf"({_NUMBER_PATTERN})\s*(?::|-|–|\.\.)\s*({_NUMBER_PATTERN})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file is to be read.

    Attributes:
        columns_by_name: Maps names such as `document` to the columns that the user chose for them.
        turns: Whether the "last" turn of a conversation is judged, or "all" turns.
        dimensions: The dimensions to read; None for all.
        scales: Maps dimensions to their scales; the key "*" is for all other dimensions.
        scale: The scale in a mapping file as it is written there: `1-5`, for example, or `any`.
        texts: The names of the texts that every row must have; None for those with usual names.
        annotations: A second file, which holds the ratings.
        values: Maps the user's words, in lower case, to their numbers or votes.
        judge_values: Maps the judge's two answers to their numbers. Labels need not have them.
        reads_labels: Whether labels are read. A file whose labels are not read need not have any.
    """

    columns_by_name: Mapping[str, ColumnNames] = field(default_factory=dict)
    turns: Literal["last", "all"] = "last"
    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    scale: str | None = None
    texts: Collection[str] | None = None
    annotations: str | Path | None = None
    values: WordValues = field(default_factory=dict)
    judge_values: WordValues = field(default_factory=dict)
    reads_labels: bool = True

    @property
    def mapping(self) -> dict[str, ColumnNames]:
        """The mapping that `read_labels` takes: columns by name and, if it is "all", `turns`."""
        turns = {} if self.turns == "last" else {TURNS_KEY: self.turns}
        return {**self.columns_by_name, **turns}

    def includes_dimension(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def dimension_in(self, cell: object) -> str:
        """Return the dimension that a cell of a long table names.

        If `coherent` is one of the dimensions to read, the cell may also be `COHERENT`.
        """
        name = str(cell).strip()
        return next(filter(self.includes_dimension, (name, judge_name(name))), name)

    def scale_of(self, dimension: str) -> Scale | None:
        return self.scales.get(dimension, self.scales.get("*"))

    @property
    def value_by_word(self) -> WordValues:
        """Maps words to values: the user decides before the judge, and both before usual words."""
        return {**self.judge_values, **self.values}

    @property
    def number_by_word(self) -> dict[str, float]:
        """Maps the words with a number to this number."""
        return {word: n for word, n in self.value_by_word.items() if isinstance(n, int | float)}


def read_mapping(arguments: Iterable[str]) -> dict[str, MappingValue]:
    """Return the mapping that the arguments of --map give: NAME=COLUMN, or a mapping file.

    If NAME is repeated, it is mapped to several columns. NAME=COLUMN replaces the columns for NAME
    in a mapping file. Raises LabelError for any other argument, and for an invalid mapping file.
    """
    mapping: dict[str, MappingValue] = {}
    columns_by_name: dict[str, list[str]] = {}
    for argument in arguments:
        name, equals, column = argument.partition("=")
        if not equals and argument.endswith((".yaml", ".yml")):
            mapping |= read_map_file(argument)
        elif not (name and column):
            raise LabelError(
                f"{argument!r} is not NAME=COLUMN, as in document=article, nor FILE.yaml"
            )
        elif column not in columns_by_name.setdefault(name, []):
            columns_by_name[name].append(column)
    for name, columns in columns_by_name.items():
        mapping[name] = columns[0] if len(columns) == 1 else columns
    return mapping


def read_map_file(path: str | Path) -> dict[str, MappingValue]:
    """Return the mapping in a file: the columns for each name, `values` and `scale`.

    Raises LabelError if the file cannot be read or does not hold a mapping.
    """
    try:
        # Every scalar is read as a string, since `no`, `1` and `null` may be labels.
        mapping = read_yaml_file(Path(path))
    except OSError as error:
        raise LabelError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise LabelError(f"{path}: is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(mapping, dict):
        raise LabelError(
            f"{path}: holds no mapping; write one `name: column` per line, as in document: article"
        )
    for name, value in mapping.items():
        columns = value if isinstance(value, list) else [value]
        are_columns = columns and all(isinstance(column, str) for column in columns)
        if not (are_columns or (name == VALUES_KEY and isinstance(value, dict))):
            raise LabelError(f"{path}: {name} needs a column, or a list of columns")
    return mapping


def read_options(
    mapping: Mapping[str, MappingValue] | str | Path | None,
    values: Mapping[str, object] | None = None,
    scales: Mapping[str, Scale] | None = None,
) -> ReadOptions:
    """Return how a file is to be read, from a mapping (or mapping file), `values` and `scales`.

    `values` replace the meanings of words in the mapping, and `scales` replace its scale. Raises
    LabelError if the mapping file cannot be read, or if a word's number is not valid.
    """
    if isinstance(mapping, str | Path):
        mapping = read_map_file(mapping)
    columns_by_name: dict[str, ColumnNames] = {}
    options = ReadOptions()
    for name, value in (mapping or {}).items():
        if isinstance(value, Mapping):
            options = replace(options, values=read_values(value))
        # Any other value of `turns` or `scale` is the column of a dimension with this name.
        elif name == TURNS_KEY and value in ("last", "all"):
            options = replace(options, turns="all" if value == "all" else "last")
        elif name == SCALE_KEY and (value == ANY_SCALE or read_scale(str(value))):
            options = replace(options, scale=str(value))
        else:
            columns_by_name[str(name)] = str(value) if isinstance(value, int) else value
    if scales is None:
        scale = read_scale(str(options.scale))
        scales = {} if scale is None else {"*": scale}
    value_by_word = {**options.values, **read_values(values or {})}
    return replace(
        options,
        columns_by_name=columns_by_name,
        scales=scales,
        values={normalize_word(word): value for word, value in value_by_word.items()},
    )


def read_values(meanings: Iterable[str] | Mapping[str, object]) -> WordValues:
    """Map each word to the number or vote that it stands for; None stands for a missing rating.

    `meanings` is a mapping, or the arguments of --values. An argument is `WORD=NUMBER,...`, and
    `WORD=` means a missing rating. A word that contains a comma is quoted as in CSV. Raises
    LabelError for an argument of another form, and if a word stands for two different numbers.
    """
    words_and_meanings: list[tuple[str, object]]
    if isinstance(meanings, Mapping):
        words_and_meanings = [(str(word), meaning) for word, meaning in meanings.items()]
    else:
        arguments = chain.from_iterable(map(split_at_commas, meanings))
        parts = [argument.rpartition("=") for argument in arguments]
        words_and_meanings = [(word.strip(), meaning.strip()) for word, _, meaning in parts]
    value_by_word: dict[str, float | Vote | None] = {}
    for word, meaning in words_and_meanings:
        if not word:
            raise LabelError(f"{meaning!r} is not WORD=NUMBER, as in good=3 (or =A, =B, =tie)")
        if "=" in word and not isinstance(meanings, Mapping):
            raise LabelError(f"{word}={meaning}: write a comma between words, as in good=3,poor=1")
        value = _parse_meaning(meaning, word)
        if value_by_word.setdefault(word, value) != value:
            raise LabelError(f"{word!r} is given two different values; keep one of them")
    return value_by_word


def _parse_meaning(meaning: object, word: str) -> float | Vote | None:
    if meaning is None or meaning == "":
        return None
    if vote := _VOTE_BY_NAME.get(str(meaning).casefold()):
        return vote
    with suppress(ValueError):
        if math.isfinite(number := float(str(meaning))):
            return number
    fault = f"{word!r} is given the value {meaning!r}, which is not a number, A, B or tie"
    raise LabelError(f"{fault}; for a cell without a label write '{word}='")


def read_scale(text: str) -> Scale | None:
    """Read a scale `LOW-HIGH` or `LOW:HIGH`, such as 1-5 or -1:1; None for any other text."""
    if (match := _SCALE_PATTERN.fullmatch(text.strip())) is None:
        return None
    low, high = map(float, match.groups())
    return (low, high) if low < high else None
