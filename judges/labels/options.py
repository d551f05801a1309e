"""Says how a file of labels is to be read: the user's columns, dimensions, scales and words."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from judges.labels.names import judge_name
from judges.labels.values import Scale, WordValues

# One column's name, or the names of several columns, each with the ratings of one annotator.
ColumnNames = str | Sequence[str]
# In a mapping of names to columns, this key stands for no column, but for --turns last or all.
TURNS_KEY = "turns"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How a file is to be read.

    Attributes:
        columns_by_name: Maps names such as `document` to the columns that the user chose for them.
        turns: Whether the "last" turn of a conversation is judged, or "all" turns.
        dimensions: The dimensions to read; None for all.
        scales: Maps dimensions to their scales; the key "*" is for all other dimensions.
        texts: The names of the texts that every row must have; None for those with known names.
        annotations: A second, long file that holds the ratings.
        values: Maps words in lower case to the numbers or votes that they stand for.
        reads_labels: Whether labels are read. A file that is read without labels need not have any.
    """

    columns_by_name: Mapping[str, ColumnNames] = field(default_factory=dict)
    turns: Literal["last", "all"] = "last"
    dimensions: Collection[str] | None = None
    scales: Mapping[str, Scale] = field(default_factory=dict)
    texts: Collection[str] | None = None
    annotations: str | Path | None = None
    values: WordValues = field(default_factory=dict)
    reads_labels: bool = True

    @property
    def mapping(self) -> dict[str, ColumnNames]:
        """The columns by name and `turns` in one mapping, such as `read_labels` takes."""
        turns = {} if self.turns == "last" else {TURNS_KEY: self.turns}
        return {**self.columns_by_name, **turns}

    def includes_dimension(self, dimension: str) -> bool:
        return self.dimensions is None or dimension in self.dimensions

    def dimension_in(self, cell: object) -> str:
        """Return the dimension that a cell of a long file names.

        If `coherent` is one of the dimensions to read, then it may also be written as `COHERENT`.
        """
        name = str(cell).strip()
        return next(filter(self.includes_dimension, (name, judge_name(name))), name)

    def scale_of(self, dimension: str) -> Scale | None:
        return self.scales.get(dimension, self.scales.get("*"))

    @property
    def number_by_word(self) -> dict[str, float]:
        """The user's words for numbers, with their numbers."""
        return {word: n for word, n in self.values.items() if isinstance(n, int | float)}
