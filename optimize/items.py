"""Labels in the form that statistics take: items with a text and a number, rating matrices."""

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

OUTPUTS_FOR_SUMMARY_LEVEL = 3
# The share of documents that must have a rho, so that summary level does not rest on exceptions.
SHARE_FOR_SUMMARY_LEVEL = 0.5

# A vote as a margin for A.
VOTES: Mapping[str, float] = {"A": 1.0, "tie": 0.0, "B": -1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One output with its mean rating, or one pair with its margin.

    `texts` are by the names that the judge reads. `ratings` has each annotator's rating, if they
    are known (for a pair 1, 0 or -1 for A, neither or B), and `comment` what people wrote about
    the label. `weight` is the weight of its document.
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
    """Items in order, with their labels and weights as vectors, and the rows of each document."""

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
        arrays = {name: np.array(own, np.intp) for name, own in rows.items()}
        object.__setattr__(self, "document_rows", arrays)

    def __len__(self) -> int:
        return len(self.items)

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(self.document_rows)

    @property
    def is_weighted(self) -> bool:
        """Whether documents have unequal weights, because they were drawn with unequal chances."""
        return np.unique(self.weights).size > 1

    @property
    def document_ids(self) -> list[str]:
        """Each item's document, in order."""
        return [item.document_id for item in self.items]

    @property
    def system_ids(self) -> list[str]:
        """Each item's system, in order; "" for items without one."""
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
    """The outputs with ratings on a dimension, or the pairs, as items.

    They have the texts that `subject` is judged from, else none. The two outputs of a pair get the
    comparison's field names. Raises LabelError if an item lacks a text.
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
    """Which labels they are, and how many of what is measured: the `data` of summary.json.

    `n_tied` outputs are left out for a tie among annotators. `weighted`: documents were drawn with
    unequal chances.
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
            n_tied=n_tied_of(labelled) or None,
            weighted=bool(items.is_weighted),
        )

    @property
    def is_constructed(self) -> bool:
        """Whether the labels come from known faults, so that no figure says anything of people."""
        return is_constructed(self.sha256)


def n_tied_of(labelled: LabelledSet | LabelledPairs) -> int:
    """How many outputs have no label because annotators are tied."""
    return labelled.n_tied if isinstance(labelled, LabelledSet) else 0


def text_key(texts: Mapping[str, str]) -> str:
    """A digest of 16 hex digits of texts, which ignores their whitespace and order."""
    contents = sorted(" ".join(text.split()) for text in texts.values())
    return sha256("\0".join(contents).encode(errors="surrogatepass")).hexdigest()[:16]


def tuned_keys(items: Items, subject: Subject) -> list[str]:
    """The keys of rows and of documents, by which a judge recognises what it was tuned on."""
    rows = [item.texts for item in items.items]
    documents = (given_texts(texts, subject) for texts in rows)
    return sorted({text_key(texts) for texts in (*rows, *documents) if texts})


def given_texts(texts: Mapping[str, str], subject: Subject) -> dict[str, str]:
    """The texts that systems were given: all but the output, or but the two of a pair."""
    output = None if isinstance(subject, Comparison) else output_name(subject.texts)
    return {name: texts[name] for name in subject.inputs if name != output}


def output_name(texts: Sequence[str]) -> str | None:
    """The name of the output under judgement: the last usual name for one, else the last name."""
    candidates = [name for name in texts if name in OUTPUTS] or texts
    return candidates[-1] if candidates else None


def scores_of(judgements: Iterable[AnyJudgement]) -> Vector:
    """The judgements' scores (for pairs, margins) as a vector; NaN where the judge failed."""
    return np.array([judgement.score for judgement in judgements], float)


def _texts(
    data_name: str, item_id: str, texts: Mapping[str, str], subject: Subject | None
) -> dict[str, str]:
    """The texts that the subject reads; if both have a single text, its name does not matter."""
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

    Ratings without names are taken in their order, if every output with several ratings has as
    many. A single rating without a name is left out, because it may be a mean.

    Returns:
        The (outputs, annotators) ratings, NaN where an annotator gave none, and the annotators'
        names, sorted.

    Raises:
        LabelError: No output has two ratings, or an output has ratings by unknown annotators.
    """
    rows = list(_annotations(labelled, dimension))
    sizes = {len(ratings) for _, _, ratings in rows if ratings}
    if max(sizes, default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's, in `annotations` or a long file (--annotations)"
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
                f"and {len(annotators)} annotators' names: say who gave which"
            )
        matrix[index, [names.index(name) for name in annotators]] = ratings
    return matrix, names


def _annotations(
    labelled: LabelledSet, dimension: str
) -> Iterator[tuple[str, tuple[str, ...], tuple[float, ...]]]:
    """Yield each output's id, annotators and ratings, but no single rating without a name."""
    for output in labelled.outputs:
        annotators = output.annotators.get(dimension, ())
        ratings = output.ratings.get(dimension, ())
        yield output.id, annotators, ratings if annotators or len(ratings) > 1 else ()


def is_two_valued(human: Vector) -> bool:
    """Whether people's labels are 1 (pass) and 0 (fail) only."""
    return bool(human.size and np.isin(human, (0, 1)).all())


def choose_level(items: Items) -> Level:
    """Summary level if documents have three outputs or more on average and most have a rho.

    A document that people rate alike has none. Otherwise, and always for pass and fail, it is
    dataset level.
    """
    if is_two_valued(items.human):
        return "dataset"
    documents = max(1, len(items.documents))
    varied = sum(np.ptp(items.human[rows]) > 0 for rows in items.document_rows.values())
    several = len(items) / documents >= OUTPUTS_FOR_SUMMARY_LEVEL
    return "summary" if several and varied > SHARE_FOR_SUMMARY_LEVEL * documents else "dataset"


def levels_of(items: Items) -> tuple[Level, ...]:
    """The levels at which the labels can be compared, the most informative first."""
    several = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if several else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)
