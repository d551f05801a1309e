"""Labelled outputs, labelled pairs, and the sets they come in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Vote = Literal["A", "B", "tie"]


class LabelError(ValueError):
    """A label file is unusable; the message names file, line, field, value and the way out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledOutput:
    """One system's output for one document, with its human ratings.

    `ratings` holds one number per annotator, or a single mean where only that is known.
    """

    id: str
    document_id: str
    system: str | None
    texts: Mapping[str, str]
    ratings: Mapping[str, tuple[float, ...]]

    def rating(self, dimension: str) -> float:
        """Return the mean human rating; KeyError where this output has none on `dimension`."""
        marks = self.ratings[dimension]
        return sum(marks) / len(marks)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """Two outputs for one prompt and the votes of people for A, B or a tie."""

    id: str
    document_id: str
    texts: Mapping[str, str]
    response_a: str
    response_b: str
    system_a: str | None
    system_b: str | None
    votes: tuple[Vote, ...]

    @property
    def margin(self) -> float:
        """(votes for A - votes for B) / votes, in [-1, 1]."""
        return (self.votes.count("A") - self.votes.count("B")) / len(self.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet:
    """A data set or one of its splits; no document is in two splits.

    `sha256` is that of the file's bytes, for provenance.
    """

    name: str
    sha256: str
    outputs: tuple[LabelledOutput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPairs:
    """The same for labelled pairs."""

    name: str
    sha256: str
    pairs: tuple[LabelledPair, ...]
