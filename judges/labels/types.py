"""Labelled outputs, labelled pairs, and the sets they come in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from dspy_judges.errors import JudgesError
from judges.tables.problems import Problem

# One person's choice between the two outputs of a pair.
Vote = Literal["A", "B", "tie"]


class LabelError(JudgesError, ValueError):
    """A label file cannot be used.

    The message names the first problem (file, line, field, value, what to do) and how many follow;
    `problems` holds all of them.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledOutput:
    """One system's output for one document, with its human ratings.

    Attributes:
        id: unique in its file.
        document_id: the same for all outputs on one document.
        system: what produced the output, or None.
        texts: the texts by name, such as `document` and `summary`.
        ratings: by dimension, one number per annotator, or their mean alone.
        annotators: by dimension, who gave the ratings, in the same order; absent for a mean.
        comments: by dimension, what people wrote about their ratings.
        weight: what the document counts, 1 on average; for documents drawn with unequal chances.
        draw: the file's columns on these chances.

    Example:
        >>> texts = {"document": "It rained.", "summary": "Rain."}
        >>> output = LabelledOutput(id="1", document_id="d", system=None, texts=texts,
        ...                         ratings={"relevance": (4, 5)})
        >>> output.rating("relevance")
        4.5
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
    def row(self) -> dict[str, object]:
        """The output as a row without labels."""
        names = {"id": self.id, "group": self.document_id, "system": self.system}
        return {name: value for name, value in names.items() if value} | {**self.texts, **self.draw}

    def rating(self, dimension: str) -> float:
        """Return the mean human rating; KeyError if there is none on `dimension`."""
        ratings = self.ratings[dimension]
        return sum(ratings) / len(ratings)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """Two outputs for one prompt, with one vote per annotator (none before it is labelled).

    `texts` holds what both outputs answer, by name; `comments` what people wrote about their votes.
    """

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
        """(votes for A - votes for B) / votes, from -1 to 1."""
        return (self.votes.count("A") - self.votes.count("B")) / len(self.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """The columns of a file by what was read from them.

    `rows` has the columns of ids, documents, systems and annotators, `ratings` those of a pair's
    votes too; `unread` are the columns that were not read.
    """

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    ratings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


Item = LabelledOutput | LabelledPair


@dataclass(frozen=True, slots=True, kw_only=True)
class _Labels:
    """The fields that sets of outputs and of pairs have in common.

    `sha256` is the hash of the file's bytes (of the rows of a Hugging Face data set; of both files
    where ratings come from a second one). `grouped_by` says which outputs share a document, and
    `notes` what readers of the results should know about the file.
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
    """Labelled outputs: a data set or one of its splits, which share no document.

    `words` has the file's words for 1 (good) and 0 of each dimension with two values, `scales` the
    (low, high) that the file states by dimension, and `n_tied` counts the outputs that are left out
    because annotators are split evenly.
    """

    outputs: tuple[LabelledOutput, ...] = field(repr=False)
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    n_tied: int = 0

    @property
    def items(self) -> tuple[LabelledOutput, ...]:
        return self.outputs

    def label(self, output: LabelledOutput, dimension: str) -> float:
        """Return an output's mean rating; of two values the more frequent one, 0.5 if tied."""
        mean = output.rating(dimension)
        return mean if dimension not in self.words or mean == 0.5 else float(mean > 0.5)

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the names of the systems, sorted."""
        return tuple(sorted({item.system for item in self.outputs if item.system is not None}))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Return the dimensions on which outputs are rated, sorted."""
        return tuple(sorted({name for output in self.outputs for name in output.ratings}))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPairs(_Labels):
    """Labelled pairs: a data set or a split; `candidate` is the file's word for either side."""

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
