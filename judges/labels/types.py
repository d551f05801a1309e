"""Labelled outputs, labelled pairs, and the sets that hold them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self, TypeVar

from dspy_judges.errors import JudgesError
from judges.tables.problems import Problem

# One person's choice between the two outputs of a pair.
Vote = Literal["A", "B", "tie"]


class LabelError(JudgesError, ValueError):
    """Raised if a label file cannot be used.

    The message describes the first problem (file, line, field, value, what to do) and says how many
    more there are. `problems` holds all of them.
    """

    def __init__(self, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(message)
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledOutput:
    """One system's output for one document, with its human ratings.

    Attributes:
        id: The output's id, unique in its file.
        document_id: The id of the document, shared by all outputs for this document.
        system: The name of the system that produced the output, or None.
        texts: Maps the name of each text, such as `document` or `summary`, to the text.
        ratings: Maps each dimension to its ratings: one number per annotator, or only their mean.
        annotators: Maps each dimension to the annotators' names, in the order of the ratings. A
            dimension is missing here if its rating names no annotator, as a mean does.
        comments: Maps each dimension to what people wrote about their ratings.
        weight: The document's weight in means over documents, 1 on average. It differs from 1 if
            documents were sampled with unequal probabilities.
        draw: The cells of the file's columns on these probabilities, by column.

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
        """The output's id, document, system and texts as a row of a table, without labels."""
        names = {"id": self.id, "group": self.document_id, "system": self.system}
        return {name: value for name, value in names.items() if value} | {**self.texts, **self.draw}

    def rating(self, dimension: str) -> float:
        """Return the mean human rating on `dimension`; raises KeyError if there is none."""
        ratings = self.ratings[dimension]
        return sum(ratings) / len(ratings)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """Two outputs for one prompt, with one vote per annotator (no votes if it is not labelled yet).

    `texts` maps names to the texts that both outputs respond to, such as `prompt`. `comments` holds
    what people wrote about their votes.
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
        """(votes for A - votes for B) / all votes: a number from -1 to 1."""
        return (self.votes.count("A") - self.votes.count("B")) / len(self.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """Says what was read from which columns of a file.

    `rows` maps `id`, `group`, `system` and `annotator` to their columns, `texts` maps each text to
    its column, and `ratings` maps each dimension, or `votes`, to its columns. `comments` are the
    columns of comments, and `unread` the columns that were not read.
    """

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    ratings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


Item = LabelledOutput | LabelledPair
AnyItem = TypeVar("AnyItem", bound=Item)


def _sorted(items: Iterable[AnyItem], ids: Collection[str]) -> tuple[AnyItem, ...]:
    members = (item for item in items if item.id in ids)
    return tuple(sorted(members, key=lambda item: (item.document_id, item.id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledItems:
    """The fields that `LabelledSet` and `LabelledPairs` have in common.

    `sha256` is the hash of the file's bytes. For rows in memory and Hugging Face data sets it is
    the hash of the rows, and if a second file gives the ratings, it covers both files. `grouped_by`
    says in words which outputs share a document. `notes` are remarks for people on how the file was
    read. `words` maps each dimension with two values to the file's words for 1 (good) and for 0.
    `n_tied` counts the outputs that were left out because half of the annotators gave 1 and half
    gave 0.
    """

    name: str
    sha256: str
    grouped_by: str = ""
    notes: tuple[str, ...] = ()
    reading: FileReading = field(default_factory=FileReading, compare=False, repr=False)
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    n_tied: int = 0

    @property
    def items(self) -> Sequence[Item]:
        raise NotImplementedError

    def part(self, ids: Collection[str]) -> Self:
        """The items with these ids, sorted so that the file's order has no effect."""
        raise NotImplementedError

    @property
    def documents(self) -> tuple[str, ...]:
        """Return the ids of the documents, in the order of the file."""
        return tuple(dict.fromkeys(item.document_id for item in self.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet(LabelledItems):
    """Labelled outputs: a whole data set, or one of its splits (no two splits share a document).

    `scales` maps dimensions to the (low, high) that the file states.
    """

    outputs: tuple[LabelledOutput, ...] = field(repr=False)
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def items(self) -> tuple[LabelledOutput, ...]:
        return self.outputs

    def part(self, ids: Collection[str]) -> Self:
        return replace(self, outputs=_sorted(self.outputs, ids))

    def label(self, output: LabelledOutput, dimension: str) -> float:
        """Return an output's mean rating.

        On a dimension with two values, return the value (0 or 1) that more annotators gave, or 0.5
        if equally many gave either.
        """
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
class LabelledPairs(LabelledItems):
    """Labelled pairs: a whole data set, or one of its splits.

    `candidate` is the file's word for the two compared outputs, such as `response` if their columns
    are `response_a` and `response_b`.
    """

    pairs: tuple[LabelledPair, ...] = field(repr=False)
    candidate: str = "response"

    @property
    def items(self) -> tuple[LabelledPair, ...]:
        return self.pairs

    def part(self, ids: Collection[str]) -> Self:
        return replace(self, pairs=_sorted(self.pairs, ids))

    @property
    def systems(self) -> tuple[str, ...]:
        """Return the names of all systems that produced an output of a pair, sorted."""
        names = {name for pair in self.pairs for name in (pair.system_a, pair.system_b)}
        return tuple(sorted(name for name in names if name is not None))
