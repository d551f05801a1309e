"""Labelled outputs, labelled pairs, and the sets they come in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from dspy_judges.errors import JudgesError
from judges.tables.problems import Problem

Vote = Literal["A", "B", "tie"]


class LabelError(JudgesError, ValueError):
    """A label file is unusable; the message names file, line, field, value and the way out.

    `problems` holds all there are, the message names the first and how many follow.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledOutput:
    """One system's output for one document, with its human ratings.

    `ratings` holds one number per annotator, or a single mean where only that is known.
    `annotators` names who gave them, in the same order, and lacks a dimension of which only the
    mean is known. `comments` are what people wrote of their ratings, by dimension, which is no
    text to judge. `weight` is what its document counts where documents were drawn with unequal
    chances, 1 on average over those labelled; `draw` what the file says of its chance.
    """

    id: str
    document_id: str
    system: str | None
    texts: Mapping[str, str]
    ratings: Mapping[str, tuple[float, ...]]
    annotators: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    weight: float = 1.0
    draw: Mapping[str, object] = field(default_factory=dict)

    @property
    def row(self) -> dict[str, Any]:
        """What a file without labels says of it."""
        names = {"id": self.id, "group": self.document_id, "system": self.system}
        return {name: value for name, value in names.items() if value} | {**self.texts, **self.draw}

    def rating(self, dimension: str) -> float:
        """Return the mean human rating; KeyError where this output has none on `dimension`."""
        ratings = self.ratings[dimension]
        return sum(ratings) / len(ratings)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """Two outputs for one prompt and people's votes: A, B or a tie; none before it is labelled."""

    id: str
    document_id: str
    texts: Mapping[str, str]
    response_a: str
    response_b: str
    system_a: str | None
    system_b: str | None
    votes: tuple[Vote, ...]
    comments: tuple[str, ...] = ()

    @property
    def margin(self) -> float:
        """(votes for A - votes for B) / votes, in [-1, 1]."""
        return (self.votes.count("A") - self.votes.count("B")) / len(self.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """How a file's columns were understood: what each was read as, by our names.

    `rows` says where ids, documents, systems and annotators stand, `texts`, `ratings` (or a pair's
    votes) and `comments` the like; `unread` are the columns that nothing was read from.
    """

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    ratings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


Item = LabelledOutput | LabelledPair


@dataclass(frozen=True, slots=True, kw_only=True)
class _Labels:
    """What sets of outputs and of pairs have in common.

    `sha256` is that of the file's bytes, for provenance (of its rows, for a Hugging Face data set;
    of both, where ratings were joined from a second file). `grouped_by` says what makes outputs
    belong to one document, `notes` what a reader of the results should know about the file.
    """

    name: str
    sha256: str
    grouped_by: str = ""
    notes: tuple[str, ...] = ()
    reading: FileReading = field(default_factory=FileReading, compare=False, repr=False)

    @property
    def items(self) -> Sequence[Item]:
        raise NotImplementedError

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the ids of the documents, in the order of the file."""
        return tuple(dict.fromkeys(item.document_id for item in self.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet(_Labels):
    """A data set or one of its splits; no document is in two splits made by document."""

    outputs: tuple[LabelledOutput, ...] = field(repr=False)
    # Of a dimension with two values, the file's words for 1, which is good, and for 0.
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    # The ends of a dimension's scale, where the file states them.
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    # Outputs left out, since as many annotators said the one as the other.
    n_tied: int = 0

    @property
    def items(self) -> tuple[LabelledOutput, ...]:
        return self.outputs

    def label(self, output: LabelledOutput, dimension: str) -> float:
        """The mean of an output's ratings; of two values what most people say, 0.5 where tied."""
        mean = output.rating(dimension)
        return mean if dimension not in self.words or mean == 0.5 else float(mean > 0.5)

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the names of the systems, sorted."""
        return tuple(sorted({item.system for item in self.outputs if item.system is not None}))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return every dimension that some output is rated on, sorted."""
        return tuple(sorted({name for output in self.outputs for name in output.ratings}))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPairs(_Labels):
    """The same for labelled pairs; `candidate` is the file's word for what is compared."""

    pairs: tuple[LabelledPair, ...] = field(repr=False)
    candidate: str = "response"

    @property
    def items(self) -> tuple[LabelledPair, ...]:
        return self.pairs

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the names of the systems on either side, sorted."""
        sides = {name for pair in self.pairs for name in (pair.system_a, pair.system_b)}
        return tuple(sorted(name for name in sides if name is not None))
