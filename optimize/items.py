"""Labels in the form that statistics need: items with vectors of labels, and rating matrices."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import numpy.typing as npt

from judges.dimension import Comparison, Subject
from judges.judgement import AnyJudgement
from judges.labels.names import OUTPUTS, only_text
from judges.labels.readers import is_constructed
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from optimize.statistics.correlations import Level

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

# Summary level needs this mean number of outputs in a document.
OUTPUTS_FOR_SUMMARY_LEVEL = 3
# Summary level needs this share of documents with different labels, in which rho is defined.
SHARE_FOR_SUMMARY_LEVEL = 0.5

# The margin in favour of A that each vote counts.
VOTES: Mapping[str, float] = {"A": 1.0, "tie": 0.0, "B": -1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One labelled output, or one labelled pair of outputs.

    Attributes:
        id: The id of the output or pair.
        document_id: The id of its document.
        system: The system that produced the output; None if it is unknown, and for a pair.
        texts: The texts that the judge reads, by name.
        human: People's mean rating; for a pair, their margin in favour of A.
        ratings: Each annotator's rating, if known; for a pair 1 (A), 0 (neither) or -1 (B).
        comment: People's comments on the label, or "".
        weight: The weight of the document.
    """

    id: str
    document_id: str
    system: str | None
    texts: Mapping[str, str]
    human: float
    ratings: tuple[float, ...] = ()
    comment: str = ""
    weight: float = 1.0


@dataclass(frozen=True)
class Items:
    """Items in order, with their labels and weights as vectors.

    Attributes:
        items: The items.
        human: Their labels.
        weights: Their weights.
        document_rows: The indices of each document's items, by the document's id.
    """

    items: tuple[Item, ...]
    human: Vector = field(init=False)
    weights: Vector = field(init=False)
    document_rows: Mapping[str, Indices] = field(init=False)

    def __post_init__(self) -> None:
        rows: dict[str, list[int]] = {}
        for index, item in enumerate(self.items):
            rows.setdefault(item.document_id, []).append(index)
        object.__setattr__(self, "human", np.array([item.human for item in self.items], float))
        object.__setattr__(self, "weights", np.array([item.weight for item in self.items], float))
        arrays = {name: np.array(indices, np.intp) for name, indices in rows.items()}
        object.__setattr__(self, "document_rows", arrays)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(self.document_rows)

    @property
    def is_weighted(self) -> bool:
        """Whether weights differ, because documents were sampled with unequal probabilities."""
        return np.unique(self.weights).size > 1

    @property
    def document_ids(self) -> list[str]:
        """The id of each item's document, in the items' order."""
        return [item.document_id for item in self.items]

    @property
    def system_ids(self) -> list[str]:
        """Each item's system, in the items' order; "" for items without a system."""
        return [item.system or "" for item in self.items]

    def of_documents(self, documents: Collection[str]) -> "Items":
        names = set(documents)
        return Items(tuple(item for item in self.items if item.document_id in names))

    def of_rows(self, rows: Iterable[int]) -> "Items":
        return Items(tuple(self.items[row] for row in rows))

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(sorted({item.system for item in self.items if item.system is not None}))


def items_of(
    labelled: LabelledSet | LabelledPairs, dimension: str, subject: Subject | None = None
) -> Items:
    """Make items from the outputs that have ratings on a dimension, or from the pairs.

    Args:
        labelled: The labels.
        dimension: The name of the dimension.
        subject: The dimension or comparison, whose texts the items get; None for no texts. The
            outputs of a pair get the comparison's field names.

    Raises:
        LabelError: An item lacks a text that the subject is judged from.
    """
    if isinstance(labelled, LabelledSet):
        return Items(
            tuple(
                Item(
                    id=output.id,
                    document_id=output.document_id,
                    system=output.system,
                    texts=_texts(labelled.name, output.id, output.texts, subject),
                    human=labelled.label(output, dimension),
                    ratings=output.ratings[dimension],
                    comment=" ".join(output.comments.get(dimension, ())),
                    weight=output.weight,
                )
                for output in labelled.outputs
                if output.ratings.get(dimension)
            )
        )
    items = []
    for pair in labelled.pairs:
        texts = _texts(labelled.name, pair.id, pair.texts, subject)
        if isinstance(subject, Comparison):
            first, second = subject.fields
            texts |= {first: pair.response_a, second: pair.response_b}
        items.append(
            Item(
                id=pair.id,
                document_id=pair.document_id,
                system=None,
                texts=texts,
                human=pair.margin,
                ratings=tuple(VOTES[vote] for vote in pair.votes),
                comment=" ".join(pair.comments),
            )
        )
    return Items(tuple(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCounts:
    """The labels of a result and their counts: the object `data` in summary.json.

    Attributes:
        name: The name of the labels.
        sha256: The digest of the labels.
        n_documents: The number of documents.
        n_systems: The number of systems.
        n_outputs: The number of outputs or pairs.
        n_tied: The number of outputs that are left out because annotators are tied, or None.
        weighted: Whether documents were sampled with unequal probabilities.
    """

    name: str
    sha256: str
    n_documents: int
    n_systems: int
    n_outputs: int
    n_tied: int | None = None
    weighted: bool = False

    @classmethod
    def of(cls, labelled: LabelledSet | LabelledPairs, items: Items) -> "DataCounts":
        return cls(
            name=labelled.name,
            sha256=labelled.sha256,
            n_documents=len(items.documents),
            n_systems=len(items.systems),
            n_outputs=len(items),
            n_tied=labelled.n_tied or None,
            weighted=bool(items.is_weighted),
        )

    @property
    def is_constructed(self) -> bool:
        """Whether the labels were constructed from known faults instead of given by people."""
        return is_constructed(self.sha256)


def text_key(texts: Mapping[str, str]) -> str:
    """A digest of texts in 16 hex digits, which ignores whitespace and the order of texts."""
    contents = sorted(" ".join(text.split()) for text in texts.values())
    return sha256("\0".join(contents).encode(errors="surrogatepass")).hexdigest()[:16]


def tuned_keys(items: Items, subject: Subject) -> list[str]:
    """The keys of all rows and documents, by which a judge recognises what it was tuned on."""
    rows = [item.texts for item in items.items]
    documents = (given_texts(texts, subject) for texts in rows)
    return sorted({text_key(texts) for texts in (*rows, *documents) if texts})


def given_texts(texts: Mapping[str, str], subject: Subject) -> dict[str, str]:
    """The texts that systems were given: all texts except the output or the two outputs."""
    output = None if isinstance(subject, Comparison) else output_name(subject.texts)
    return {name: texts[name] for name in subject.inputs if name != output}


def output_name(texts: Sequence[str]) -> str | None:
    """The name of the judged output among the names of texts; None if there are no texts.

    It is the last name that is usual for an output, else the last name.
    """
    candidates = [name for name in texts if name in OUTPUTS] or texts
    return candidates[-1] if candidates else None


def scores_of(judgements: Iterable[AnyJudgement]) -> Vector:
    """The scores (for pairs, margins) of judgements as a vector; NaN if the judge failed."""
    return np.array([judgement.score for judgement in judgements], float)


def _texts(
    data_name: str, item_id: str, texts: Mapping[str, str], subject: Subject | None
) -> dict[str, str]:
    """The texts that the subject is judged from, by the subject's names.

    If the subject needs one text and there is only one, the text's name does not matter.
    """
    names = () if subject is None else tuple(subject.inputs)
    missing = [name for name in names if name not in texts]
    if not missing:
        return {name: texts[name] for name in names}
    if (only_name := only_text(texts, names)) is not None:
        return {names[0]: texts[only_name]}
    raise LabelError(
        f"{data_name}: {item_id!r} has no text {missing[0]!r}, which the judge reads; it has "
        f"{', '.join(sorted(texts)) or 'none'}: rename one with --map {missing[0]}=COLUMN"
    )


def annotation_matrix(labelled: LabelledSet, dimension: str) -> tuple[Matrix, tuple[str, ...]]:
    """Build the matrix of annotators' ratings on a dimension.

    Ratings without annotators' names are assigned to annotators "1", "2" and so on in their order,
    if all outputs with several ratings have the same number of them. A single rating without a name
    is left out, because it may be a mean.

    Returns:
        The (outputs, annotators) ratings, NaN where an annotator gave none, and the annotators'
        names, sorted.

    Raises:
        LabelError: No output has two ratings, or some ratings have no annotator's name.
    """
    rows = list(_annotations(labelled, dimension))
    sizes = {len(ratings) for _, _, ratings in rows if ratings}
    if max(sizes, default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's rating, in `annotations` or a long file (--annotations)"
        )
    if len(sizes) == 1 and not any(annotators for _, annotators, _ in rows):
        numbers = tuple(str(number) for number in range(1, max(sizes) + 1))
        rows = [(name, numbers if ratings else (), ratings) for name, _, ratings in rows]
    names = tuple(sorted({name for _, annotators, _ in rows for name in annotators}))
    matrix = np.full((len(rows), len(names)), np.nan)
    for index, (output, annotators, ratings) in enumerate(rows):
        if ratings and len(annotators) != len(ratings):
            raise LabelError(
                f"{labelled.name}: output {output!r} has {len(ratings)} ratings on {dimension!r} "
                f"and {len(annotators)} annotators' names: name the annotator of each rating"
            )
        matrix[index, [names.index(name) for name in annotators]] = ratings
    return matrix, names


def _annotations(
    labelled: LabelledSet, dimension: str
) -> Iterator[tuple[str, tuple[str, ...], tuple[float, ...]]]:
    """Yield each output's id, annotators and ratings; leave out a single unnamed rating."""
    for output in labelled.outputs:
        annotators = output.annotators.get(dimension, ())
        ratings = output.ratings.get(dimension, ())
        yield output.id, annotators, ratings if annotators or len(ratings) > 1 else ()


def is_two_valued(human: Vector) -> bool:
    """Whether all of people's labels are 1 (pass) or 0 (fail)."""
    return bool(human.size and np.isin(human, (0, 1)).all())


def choose_level(items: Items) -> Level:
    """Choose the level of rho that fits the labels.

    It is summary level if documents have three outputs or more on average and most documents have
    different labels. Otherwise, and always for pass or fail, it is dataset level.
    """
    if is_two_valued(items.human):
        return "dataset"
    documents = max(1, len(items.documents))
    varied = sum(np.ptp(items.human[rows]) > 0 for rows in items.document_rows.values())
    has_several = len(items) / documents >= OUTPUTS_FOR_SUMMARY_LEVEL
    return "summary" if has_several and varied > SHARE_FOR_SUMMARY_LEVEL * documents else "dataset"


def levels_of(items: Items) -> tuple[Level, ...]:
    """The levels at which a coefficient can be computed; the most informative comes first."""
    has_several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if has_several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)
