"""Labels in the form that statistics need: items, vectors of labels, and matrices of ratings."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from judges.dimension import Comparison, Subject
from judges.frozen import texts_digest
from judges.judgement import AnyJudgement
from judges.labels.names import OUTPUT_NAMES, only_text_name
from judges.labels.readers import is_constructed
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import Matrix, Vector

Indices = npt.NDArray[np.intp]

# `choose_level` chooses summary level only if documents have this many outputs on average.
MIN_OUTPUTS_FOR_SUMMARY_LEVEL = 3
# `choose_level` chooses summary level only if the labels differ within more than this share of the
# documents, since rho is undefined within all other documents.
MIN_SHARE_FOR_SUMMARY_LEVEL = 0.5

# The number that each vote on a pair counts; the mean over votes is the margin in favour of A.
MARGIN_OF_VOTE: Mapping[str, float] = {"A": 1.0, "tie": 0.0, "B": -1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One labelled output, or one labelled pair of outputs.

    `texts` has the texts that the judge reads. `human` is people's mean rating; for a pair, their
    margin in favour of A. `ratings` has each annotator's rating; for a pair, each vote as 1 (A), 0
    (tie) or -1 (B). `ratings` is () if only the mean is known. `weight` is the document's sampling
    weight.
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
    """A sequence of items, with their labels and weights as vectors."""

    items: tuple[Item, ...]

    @cached_property
    def human(self) -> Vector:
        return np.array([item.human for item in self.items], float)

    @cached_property
    def weights(self) -> Vector:
        return np.array([item.weight for item in self.items], float)

    @cached_property
    def document_rows(self) -> Mapping[str, Indices]:
        """The indices of the items of each document, by the document's id."""
        rows: dict[str, list[int]] = defaultdict(list)
        for row, item in enumerate(self.items):
            rows[item.document_id].append(row)
        return {name: np.array(document_rows, np.intp) for name, document_rows in rows.items()}

    def __len__(self) -> int:
        return len(self.items)

    def __add__(self, other: "Items") -> "Items":
        return Items((*self.items, *other.items))

    @property
    def documents(self) -> tuple[str, ...]:
        return tuple(self.document_rows)

    @property
    def is_weighted(self) -> bool:
        """Whether weights differ, because documents were sampled with different probabilities."""
        return np.unique(self.weights).size > 1

    @property
    def document_ids(self) -> list[str]:
        """The id of each item's document, in the items' order."""
        return [item.document_id for item in self.items]

    @property
    def system_ids(self) -> list[str]:
        """The system of each item, in the items' order; "" for items without a system."""
        return [item.system or "" for item in self.items]

    def of_documents(self, documents: Collection[str]) -> "Items":
        kept_documents = set(documents)
        return Items(tuple(item for item in self.items if item.document_id in kept_documents))

    def of_ids(self, ids: Collection[str]) -> "Items":
        return Items(tuple(item for item in self.items if item.id in ids))

    def of_rows(self, rows: Iterable[int]) -> "Items":
        return Items(tuple(self.items[row] for row in rows))

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(sorted({item.system for item in self.items if item.system is not None}))


def items_of(
    labelled: LabelledSet | LabelledPairs, dimension: str, subject: Subject | None = None
) -> Items:
    """Make items from the outputs that are rated on a dimension, or from labelled pairs.

    The items get the texts that the subject reads, and the two outputs of a pair under the
    subject's names. Without a subject, items have no texts. Raises LabelError if one of these texts
    is missing.
    """
    if isinstance(labelled, LabelledSet):
        return Items(
            tuple(
                Item(
                    id=output.id,
                    document_id=output.document_id,
                    system=output.system,
                    texts=_texts_for_subject(labelled.name, output.id, output.texts, subject),
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
        texts = _texts_for_subject(labelled.name, pair.id, pair.texts, subject)
        if isinstance(subject, Comparison):
            name_a, name_b = subject.fields
            texts |= {name_a: pair.response_a, name_b: pair.response_b}
        items.append(
            Item(
                id=pair.id,
                document_id=pair.document_id,
                system=None,
                texts=texts,
                human=pair.margin,
                ratings=tuple(MARGIN_OF_VOTE[vote] for vote in pair.votes),
                comment=" ".join(pair.comments),
            )
        )
    return Items(tuple(items))


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCounts:
    """Which labels a result was computed from, and their counts: the object `data` in summary.json.

    `n_tied` outputs were left out because their annotators are tied (None for no output). If data
    `is_weighted`, documents were sampled with different probabilities.
    """

    name: str
    sha256: str
    n_documents: int
    n_systems: int
    n_outputs: int
    n_tied: int | None = None
    is_weighted: bool = field(default=False, metadata={"json": "weighted"})

    @classmethod
    def of(cls, labelled: LabelledSet | LabelledPairs, items: Items) -> "DataCounts":
        return cls(
            name=labelled.name,
            sha256=labelled.sha256,
            n_documents=len(items.documents),
            n_systems=len(items.systems),
            n_outputs=len(items),
            n_tied=labelled.n_tied or None,
            is_weighted=bool(items.is_weighted),
        )

    @property
    def is_constructed(self) -> bool:
        """Whether the labels come from faults that were put into the outputs, not from people."""
        return is_constructed(self.sha256)


def tuning_digests(items: Items, subject: Subject) -> list[str]:
    """Return the digests of rows and documents that a judge's file has for its tuning labels."""
    texts_of_rows = [item.texts for item in items.items]
    texts_of_documents = (input_texts(texts, subject) for texts in texts_of_rows)
    return sorted({texts_digest(texts) for texts in (*texts_of_rows, *texts_of_documents) if texts})


def input_texts(texts: Mapping[str, str], subject: Subject) -> dict[str, str]:
    """Return the texts that systems got as input: all texts that are not outputs."""
    output = None if isinstance(subject, Comparison) else judged_output_name(subject.texts)
    return {name: texts[name] for name in subject.inputs if name != output}


def judged_output_name(texts: Sequence[str]) -> str | None:
    """Return the name among `texts` that is the judged output; None if `texts` is empty.

    The judged output is the last text with a name that is usual for outputs, else the last text.
    """
    candidates = [name for name in texts if name in OUTPUT_NAMES] or texts
    return candidates[-1] if candidates else None


def scores_of(judgements: Iterable[AnyJudgement]) -> Vector:
    """Return the scores (for pairs, margins) of judgements; NaN for a failed judgement."""
    return np.array([judgement.score for judgement in judgements], float)


def _texts_for_subject(
    data_name: str, item_id: str, texts: Mapping[str, str], subject: Subject | None
) -> dict[str, str]:
    """Select the texts that the subject reads, by the names that the subject gives them.

    If the subject reads one text and the item has one text, the text may have any name.
    """
    needed_names = () if subject is None else tuple(subject.inputs)
    missing_names = [name for name in needed_names if name not in texts]
    if not missing_names:
        return {name: texts[name] for name in needed_names}
    if (only_name := only_text_name(texts, needed_names)) is not None:
        return {needed_names[0]: texts[only_name]}
    raise LabelError(
        f"{data_name}: {item_id!r} has no text {missing_names[0]!r}, which the judge reads; it has "
        f"{', '.join(sorted(texts)) or 'none'}: rename one with --map {missing_names[0]}=COLUMN"
    )


def annotation_matrix(labelled: LabelledSet, dimension: str) -> tuple[Matrix, tuple[str, ...]]:
    """Make a matrix of annotators' ratings on a dimension.

    If the ratings have no annotators' names, and all outputs with several ratings have equally
    many, the annotators are called "1", "2" and so on in the order of the ratings. If an output has
    a single rating without a name, the rating is left out, because it may be a mean.

    Returns:
        The ratings, of shape (outputs, annotators) with NaN for missing ratings, and the sorted
        names of the annotators.

    Raises:
        LabelError: No output has two ratings, or only some ratings have an annotator's name.
    """
    annotations = [
        (output.id, output.annotators.get(dimension, ()), output.ratings.get(dimension, ()))
        for output in labelled.outputs
    ]
    numbers_of_ratings = {len(ratings) for _, _, ratings in annotations} - {0, 1}
    is_numbered = len(numbers_of_ratings) == 1 and not any(names for _, names, _ in annotations)
    rows: list[dict[str, float]] = []
    for id, names, ratings in annotations:
        if len(ratings) == 1 and not names:
            ratings = ()
        if is_numbered:
            names = tuple(str(number) for number in range(1, len(ratings) + 1))
        if len(names) != len(ratings):
            raise LabelError(
                f"{labelled.name}: output {id!r} has {len(ratings)} ratings on {dimension!r} and "
                f"{len(names)} annotators' names: name the annotator of each rating"
            )
        rows.append(dict(zip(names, ratings, strict=True)))
    if max(map(len, rows), default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's rating, in `annotations` or a long file (--annotations)"
        )
    annotators = tuple(sorted({*chain.from_iterable(rows)}))
    matrix = np.array([[row.get(name, np.nan) for name in annotators] for row in rows], dtype=float)
    return matrix, annotators


def is_two_valued(human: Vector) -> bool:
    """Return whether every label is 1 (pass) or 0 (fail)."""
    return bool(human.size and np.isin(human, (0, 1)).all())


def choose_level(items: Items) -> Level:
    """Choose the level at which rho says most about these labels.

    Summary level is chosen if documents have three outputs or more on average, and most documents
    have different labels. Otherwise, and always if labels are pass or fail, dataset level is
    chosen.
    """
    if is_two_valued(items.human):
        return "dataset"
    n_documents = max(1, len(items.documents))
    n_varied = sum(np.ptp(items.human[rows]) > 0 for rows in items.document_rows.values())
    has_enough_outputs = len(items) / n_documents >= MIN_OUTPUTS_FOR_SUMMARY_LEVEL
    is_varied = n_varied > MIN_SHARE_FOR_SUMMARY_LEVEL * n_documents
    return "summary" if has_enough_outputs and is_varied else "dataset"


def levels_of(items: Items) -> tuple[Level, ...]:
    """Return the levels at which rho can be computed; the most informative comes first."""
    has_several_outputs = len(items) > len(items.documents)
    levels: list[Level] = ["summary", "dataset"] if has_several_outputs else ["dataset"]
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)
