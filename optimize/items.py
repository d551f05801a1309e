"""Labels in the form that statistics need: items, vectors of labels, and matrices of ratings."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from judges.dimension import Subject
from judges.frozen import texts_digest
from judges.labels.names import OUTPUT_NAMES, only_text_name
from judges.labels.readers import is_constructed
from judges.labels.types import LabelError, LabelledOutput, LabelledPair, LabelledPairs, LabelledSet
from optimize.statistics.correlations import Level
from optimize.statistics.intervals import MIN_DOCUMENTS_FOR_INTERVAL, Matrix, Vector
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import verdict_agreement

Indices = npt.NDArray[np.intp]

# Rho at summary level is the mean of the documents' rho, which is undefined for equal labels. Use
# it for so many outputs a document, and unequal labels in more than this share of the documents.
MIN_OUTPUTS_FOR_SUMMARY_LEVEL = 3
MIN_SHARE_FOR_SUMMARY_LEVEL = 0.5

# The number for each vote on a pair of outputs A and B. A pair's margin for A is their mean.
MARGIN_OF_VOTE: Mapping[str, float] = {"A": 1.0, "tie": 0.0, "B": -1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One labelled output, or one labelled pair of outputs.

    `texts` has the texts that the judge reads. `human` is the mean of people's ratings; for a pair,
    it is the mean of their votes (`MARGIN_OF_VOTE`). `ratings` has each annotator's rating or vote
    as a number, and is empty if only the mean is known. `weight` is the document's sampling weight.
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

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __getitem__(self, row: SupportsIndex) -> Item:
        return self.items[row]

    def __add__(self, other: "Items") -> "Items":
        return Items((*self.items, *other.items))

    @cached_property
    def human(self) -> Vector:
        return np.array([item.human for item in self], float)

    @cached_property
    def weights(self) -> Vector:
        return np.array([item.weight for item in self], float)

    @cached_property
    def rows_by_document(self) -> Mapping[str, Indices]:
        """The indices of the items of each document, by the document's id."""
        rows_by_document: dict[str, list[int]] = defaultdict(list)
        for row, item in enumerate(self):
            rows_by_document[item.document_id].append(row)
        return {name: np.array(rows, np.intp) for name, rows in rows_by_document.items()}

    @property
    def documents(self) -> tuple[str, ...]:
        """The ids of the documents, each of them once."""
        return tuple(self.rows_by_document)

    @property
    def systems(self) -> tuple[str, ...]:
        """The names of the systems, sorted, each of them once."""
        return tuple(sorted({item.system for item in self if item.system is not None}))

    @property
    def document_ids(self) -> list[str]:
        """The id of each item's document, in the items' order."""
        return [item.document_id for item in self]

    @property
    def system_ids(self) -> list[str]:
        """The system of each item, in the items' order; "" for items without a system."""
        return [item.system or "" for item in self]

    @property
    def n_documents_with_contrast(self) -> int:
        """The number of documents whose outputs do not all have the same label."""
        rows_by_document = self.rows_by_document.values()
        return sum(bool(np.ptp(self.human[rows]) > 0) for rows in rows_by_document)

    @property
    def is_weighted(self) -> bool:
        """Whether weights differ, because documents were sampled with different probabilities."""
        return np.unique(self.weights).size > 1

    def of_documents(self, documents: Collection[str]) -> "Items":
        document_set = set(documents)
        return Items(tuple(item for item in self if item.document_id in document_set))

    def of_ids(self, ids: Collection[str]) -> "Items":
        return Items(tuple(item for item in self if item.id in ids))

    def of_rows(self, rows: Iterable[int]) -> "Items":
        return Items(tuple(self.items[row] for row in rows))


def make_items(
    labels: LabelledSet | LabelledPairs,
    dimension: str,
    subject: Subject | None = None,
    *,
    with_unlabelled: bool = False,
) -> Items:
    """Make items from the outputs that have a rating on a dimension, or from labelled pairs.

    An item has only the texts that a judge of `subject` reads; if `subject` is None, it has all
    texts. With `with_unlabelled`, an output without a rating becomes an item with the label NaN.
    """
    if isinstance(labels, LabelledPairs):
        return Items(tuple(_pair_item(labels, pair, subject) for pair in labels.pairs))
    return Items(
        tuple(
            _output_item(labels, output, dimension, subject)
            for output in labels.outputs
            if with_unlabelled or output.ratings.get(dimension)
        )
    )


def _output_item(
    labels: LabelledSet, output: LabelledOutput, dimension: str, subject: Subject | None
) -> Item:
    ratings = output.ratings.get(dimension, ())
    return Item(
        id=output.id,
        document_id=output.document_id,
        system=output.system,
        texts=_texts_for_subject(labels.name, output.id, output.texts, subject),
        human=labels.label(output, dimension) if ratings else math.nan,
        ratings=ratings,
        comment=" ".join(output.comments.get(dimension, ())),
        weight=output.weight,
    )


def _pair_item(labels: LabelledPairs, pair: LabelledPair, subject: Subject | None) -> Item:
    texts = _texts_for_subject(labels.name, pair.id, pair.texts, subject)
    name_a, name_b = (subject and subject.fields) or ("A", "B")
    return Item(
        id=pair.id,
        document_id=pair.document_id,
        system=None,
        texts={**texts, name_a: pair.response_a, name_b: pair.response_b},
        human=pair.margin,
        ratings=tuple(MARGIN_OF_VOTE[vote] for vote in pair.votes),
        comment=" ".join(pair.comments),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DataCounts:
    """The name and the size of the labels that a result was computed from.

    `n_tied` outputs were left out because their annotators are tied; it is None if there were none.
    If `is_weighted`, documents were sampled with different probabilities.
    """

    name: str
    sha256: str
    n_documents: int
    n_systems: int
    n_outputs: int
    n_tied: int | None = None
    is_weighted: bool = field(default=False, metadata={"json": "weighted"})

    @classmethod
    def from_items(cls, labels: LabelledSet | LabelledPairs, items: Items) -> "DataCounts":
        """Return the counts of `items`, which were made from these labels."""
        return cls(
            name=labels.name,
            sha256=labels.sha256,
            n_documents=len(items.documents),
            n_systems=len(items.systems),
            n_outputs=len(items),
            n_tied=labels.n_tied or None,
            is_weighted=items.is_weighted,
        )

    @property
    def is_constructed(self) -> bool:
        """Whether the labels come from faults that were put into the outputs, not from people."""
        return is_constructed(self.sha256)


def tuning_digests(items: Items, subject: Subject) -> list[str]:
    """Return digests of the texts of rows and documents, so that a tuned judge recognises them."""
    row_texts = [item.texts for item in items]
    document_texts = [input_texts(texts, subject) for texts in row_texts]
    return sorted({texts_digest(texts) for texts in (*row_texts, *document_texts) if texts})


def input_texts(texts: Mapping[str, str], subject: Subject) -> dict[str, str]:
    """Return the texts that systems got as input: all texts that are not outputs."""
    output_name = None if subject.is_pairwise else judged_output_name(subject.texts)
    return {name: texts[name] for name in subject.inputs if name != output_name}


def judged_output_name(text_names: Sequence[str]) -> str | None:
    """Return the last of the names that is usual for an output; else the last of all names."""
    output_names = [name for name in text_names if name in OUTPUT_NAMES] or [*text_names]
    return output_names[-1] if output_names else None


def _texts_for_subject(
    file_name: str, item_id: str, texts: Mapping[str, str], subject: Subject | None
) -> Mapping[str, str]:
    if subject is None:
        return texts
    missing_names = [name for name in subject.inputs if name not in texts]
    if not missing_names:
        return {name: texts[name] for name in subject.inputs}
    # If the judge reads one text and the item has one text, the two names need not be equal.
    if only_name := only_text_name(texts, subject.inputs):
        return {missing_names[0]: texts[only_name]}
    raise LabelError(
        f"{file_name}: {item_id!r} has no text {missing_names[0]!r}, which the judge reads; it has "
        f"{', '.join(sorted(texts)) or 'none'}: rename one with --map {missing_names[0]}=COLUMN"
    )


def annotation_matrix(labelled: LabelledSet, dimension: str) -> tuple[Matrix, tuple[str, ...]]:
    """Make a matrix of annotators' ratings on a dimension.

    If the ratings have no annotators' names, and all outputs with several ratings have equally
    many, the annotators are called "1", "2" and so on in the order of the ratings. A single rating
    without an annotator's name is left out, because it may be the mean of several ratings.

    Returns:
        The ratings, of shape (outputs, annotators) with NaN for missing ratings, and the sorted
        names of the annotators.

    Raises:
        LabelError: No output has two ratings, or only some ratings have an annotator's name.
    """
    outputs = labelled.outputs
    has_names = any(output.annotators.get(dimension) for output in outputs)
    numbers_of_ratings = {len(output.ratings.get(dimension, ())) for output in outputs} - {0, 1}
    has_numbered_annotators = len(numbers_of_ratings) == 1 and not has_names
    rating_rows: list[dict[str, float]] = []
    for output in outputs:
        names, ratings = output.annotators.get(dimension, ()), output.ratings.get(dimension, ())
        if len(ratings) == 1 and not names:
            ratings = ()
        if has_numbered_annotators:
            names = tuple(map(str, range(1, len(ratings) + 1)))
        if len(names) != len(ratings):
            raise LabelError(
                f"{labelled.name}: output {output.id!r} has {len(ratings)} ratings on "
                f"{dimension!r} and {len(names)} annotators' names: name each rating's annotator"
            )
        rating_rows.append(dict(zip(names, ratings, strict=True)))
    if max(map(len, rating_rows), default=0) < 2:
        raise LabelError(
            f"{labelled.name}: {dimension!r} has no output with ratings by two annotators or more; "
            "give every annotator's rating, in `annotations` or a long file (--annotations)"
        )
    annotators = tuple(sorted({*chain.from_iterable(rating_rows)}))
    matrix = [[row.get(name, np.nan) for name in annotators] for row in rating_rows]
    return np.array(matrix, float), annotators


def is_two_valued(human: Vector) -> bool:
    """Return whether every label is 1 (pass) or 0 (fail); False if there are no labels."""
    return bool(human.size and np.isin(human, (0, 1)).all())


def choose_level(items: Items) -> Level:
    """Choose the level at which Spearman's rho is most informative: "summary" or "dataset".

    If labels are pass or fail, dataset level is always chosen.
    """
    n_documents = len(items.documents)
    has_several_outputs = len(items) >= MIN_OUTPUTS_FOR_SUMMARY_LEVEL * n_documents
    if is_two_valued(items.human) or not has_several_outputs:
        return "dataset"
    min_with_contrast = MIN_SHARE_FOR_SUMMARY_LEVEL * n_documents
    return "summary" if items.n_documents_with_contrast > min_with_contrast else "dataset"


def defined_levels(items: Items) -> tuple[Level, ...]:
    """Return the levels at which rho can be computed; the most informative comes first."""
    levels: list[Level] = ["dataset"]
    if len(items) > len(items.documents):
        levels.insert(0, "summary")
    if len(items.systems) > 1:
        levels.append("system")
    return tuple(levels)


def n_missing_for_intervals(items: Items, level: Level, *, has_verdicts: bool) -> dict[str, int]:
    """Return how many more passes (TPR), fails (TNR) or documents (rho) each interval needs."""
    rows = scored_rows(items.human, items.human, items.document_ids)
    if has_verdicts:
        n_missing = verdict_agreement(rows).n_missing_labels
        return {"TPR": n_missing["pass"], "TNR": n_missing["fail"]}
    n_informative = rows.n_untied_documents
    if level == "summary":
        n_informative = items.n_documents_with_contrast
    return {f"{level}-level rho": max(0, MIN_DOCUMENTS_FOR_INTERVAL - n_informative)}
