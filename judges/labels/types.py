"""The types of labelled outputs and labelled pairs, and of sets of them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self, TypeVar

from dspy_judges.errors import JudgesError
from judges.tables.problems import Problem

# One person's choice between the two outputs of a pair.
Vote = Literal["A", "B", "tie"]


class LabelError(JudgesError, ValueError):
    """Raised if a label file cannot be used.

    The message describes the problems of the whole file, or else the first problem of a row with
    file, line, field, value and advice. The message also counts the other problems.

    Attributes:
        problems: All problems in the file.
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
            dimension whose ratings do not name their annotators is left out.
        comments: Maps each dimension to what people wrote about their ratings.
        weight: The document's weight in means over documents, 1 on average. The weights differ if
            documents were sampled with unequal probabilities.
        draw: How the document was sampled: the cells in the columns `sampling_weight`,
            `sampling_from` and `drawn_for_swap`, by column.

    Examples:
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
        """A table's row with the output's id, document, system and texts, but no labels."""
        id_cells = {"id": self.id, "group": self.document_id, "system": self.system}
        known_ids = {name: value for name, value in id_cells.items() if value}
        return {**known_ids, **self.texts, **self.draw}

    def rating(self, dimension: str) -> float:
        """Return the mean human rating on `dimension`; raises KeyError if there is none."""
        ratings = self.ratings[dimension]
        # Rounding errors of means must not break ties.
        return round(sum(ratings) / len(ratings), 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPair:
    """Two outputs for one prompt, with people's votes for the better output.

    Attributes:
        id: The pair's id, unique in its file.
        document_id: The id of the document, shared by all pairs for this document.
        texts: Maps names such as `prompt` to the texts that both outputs respond to.
        response_a: The first output.
        response_b: The second output.
        system_a: The name of the system that produced the first output, or None.
        system_b: The name of the system that produced the second output, or None.
        votes: One vote per annotator; empty if people have yet to label the pair.
        comments: What people wrote about their votes.
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
        """The votes for A minus the votes for B, over all votes: a number from -1 to 1."""
        return (self.votes.count("A") - self.votes.count("B")) / len(self.votes)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """Says what each column of a file was read as.

    Attributes:
        rows: Maps `id`, `group`, `system` and `annotator` to their columns.
        texts: Maps the name of each text to its column.
        ratings: Maps each dimension to its columns; in a file of pairs, `votes` to its columns.
        comments: The columns that hold people's comments.
        unread: The columns that were not read.
        likely_names: Maps columns that were not read to the name that the user may give them with
            `--map`, such as `id`.
    """

    rows: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    ratings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    comments: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    likely_names: Mapping[str, str] = field(default_factory=dict)


LabelledItem = LabelledOutput | LabelledPair
AnyItem = TypeVar("AnyItem", bound=LabelledItem)


def rated_dimensions(outputs: Iterable[LabelledOutput]) -> tuple[str, ...]:
    """Return the dimensions on which any of the outputs is rated, sorted."""
    return tuple(sorted({name for output in outputs for name in output.ratings}))


def _select_items(items: Iterable[AnyItem], ids: Collection[str]) -> tuple[AnyItem, ...]:
    selected_items = (item for item in items if item.id in ids)
    return tuple(sorted(selected_items, key=lambda item: (item.document_id, item.id)))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledItems:
    """The fields that `LabelledSet` and `LabelledPairs` have in common.

    Attributes:
        name: The name or path of the file.
        sha256: The hash of the file's bytes; for rows in memory and Hugging Face data sets, the
            hash of the rows. If a second file holds the ratings, this is a hash of both files.
        grouped_by: A phrase that says which items share a document.
        notes: Sentences on how the file was read, to be printed.
        reading: What each column of the file was read as.
        words: Maps each dimension with only two values to the file's words for 1 (good) and for 0.
        n_tied: The number of outputs that were left out because half of their annotators gave 1 and
            half gave 0.
    """

    name: str
    sha256: str
    grouped_by: str = ""
    notes: tuple[str, ...] = ()
    reading: FileReading = field(default_factory=FileReading, compare=False, repr=False)
    words: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    n_tied: int = 0

    @property
    def items(self) -> Sequence[LabelledItem]:
        raise NotImplementedError

    def subset(self, ids: Collection[str]) -> Self:
        """Return the items with these ids, sorted so that the order of the file has no effect."""
        raise NotImplementedError

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids of the documents, in the order of the file."""
        return tuple(dict.fromkeys(item.document_id for item in self.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet(LabelledItems):
    """Labelled outputs: a whole data set, or one of its splits. No two splits share a document.

    Attributes:
        outputs: The labelled outputs.
        scales: Maps dimensions to the scales (low, high) that the file states.
    """

    is_pairwise: ClassVar[bool] = False
    outputs: tuple[LabelledOutput, ...] = field(repr=False)
    scales: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def items(self) -> tuple[LabelledOutput, ...]:
        return self.outputs

    def subset(self, ids: Collection[str]) -> Self:
        return replace(self, outputs=_select_items(self.outputs, ids))

    def label(self, output: LabelledOutput, dimension: str) -> float:
        """Return an output's mean rating or, for labels of two words, the majority's (tie: 0.5)."""
        mean = output.rating(dimension)
        return mean if dimension not in self.words or mean == 0.5 else float(mean > 0.5)

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of the systems, sorted."""
        return tuple(sorted({item.system for item in self.outputs if item.system is not None}))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The dimensions on which outputs are rated, sorted."""
        return rated_dimensions(self.outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledPairs(LabelledItems):
    """Labelled pairs: a whole data set, or one of its splits.

    Attributes:
        pairs: The labelled pairs.
        candidate: What the file calls an output, such as `response` if its columns are
            `response_a` and `response_b`.
    """

    is_pairwise: ClassVar[bool] = True
    pairs: tuple[LabelledPair, ...] = field(repr=False)
    candidate: str = "response"

    @property
    def items(self) -> tuple[LabelledPair, ...]:
        return self.pairs

    def subset(self, ids: Collection[str]) -> Self:
        return replace(self, pairs=_select_items(self.pairs, ids))

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of all systems that produced an output of a pair, sorted."""
        system_names = {name for pair in self.pairs for name in (pair.system_a, pair.system_b)}
        return tuple(sorted(name for name in system_names if name is not None))


AnyLabels = LabelledSet | LabelledPairs
