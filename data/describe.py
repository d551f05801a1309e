"""What a set holds, in numbers: documents, systems, dimensions, votes. Counting only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from data.types import LabelledOutput, LabelledPairs, LabelledSet


@dataclass(frozen=True, slots=True, kw_only=True)
class DimensionSummary:
    """The ratings on one dimension.

    `n_constant` counts documents whose outputs all have the same rating, which rank nothing, and
    `n_single` those with one rated output. `annotators` is the most that rated one output, 0 where
    only means are known.
    """

    low: float
    high: float
    mean: float
    n_rated: int
    n_documents: int
    n_constant: int
    n_single: int
    annotators: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What both kinds of sets hold; `texts` gives each text's median length in words."""

    name: str
    sha256: str
    n_items: int
    n_documents: int
    per_document: tuple[int, int]
    systems: tuple[str, ...]
    texts: Mapping[str, float]
    grouped_by: str
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsSummary:
    """The votes on pairs; `n_level` counts pairs with as many for A as for B."""

    votes: Mapping[str, int]
    per_pair: tuple[int, int]
    n_level: int


def describe(labelled: LabelledSet | LabelledPairs) -> Summary:
    """Count what a set holds, leaving ratings and votes aside."""
    if isinstance(labelled, LabelledPairs):
        items: Sequence[tuple[str, Mapping[str, str]]] = [
            (pair.document_id, {**pair.texts, **_candidates(labelled, pair.response_a)})
            for pair in labelled.pairs
        ]
    else:
        items = [(output.document_id, output.texts) for output in labelled.outputs]
    sizes: dict[str, int] = {}
    words: dict[str, list[int]] = {}
    for document, texts in items:
        sizes[document] = sizes.get(document, 0) + 1
        for name, text in texts.items():
            words.setdefault(name, []).append(len(text.split()))
    return Summary(
        name=labelled.name,
        sha256=labelled.sha256,
        n_items=len(items),
        n_documents=len(sizes),
        per_document=(min(sizes.values()), max(sizes.values())),
        systems=labelled.systems,
        texts={name: median(numbers) for name, numbers in words.items()},
        grouped_by=labelled.grouped_by,
        notes=labelled.notes,
    )


def describe_dimension(labelled: LabelledSet, dimension: str) -> DimensionSummary:
    """Count the ratings on one dimension; at least one output must have one."""
    rated = [output for output in labelled.outputs if dimension in output.ratings]
    by_document: dict[str, list[float]] = {}
    for output in rated:
        by_document.setdefault(output.document_id, []).append(output.rating(dimension))
    means = [mean for ratings in by_document.values() for mean in ratings]
    return DimensionSummary(
        low=min(means),
        high=max(means),
        mean=fmean(means),
        n_rated=len(rated),
        n_documents=len(by_document),
        n_constant=sum(len(one) > 1 and len(set(one)) == 1 for one in by_document.values()),
        n_single=sum(len(one) == 1 for one in by_document.values()),
        annotators=max(_annotators(output, dimension) for output in rated),
    )


def describe_votes(labelled: LabelledPairs) -> PairsSummary:
    """Count the votes; at least one pair must be there."""
    votes = [vote for pair in labelled.pairs for vote in pair.votes]
    sizes = [len(pair.votes) for pair in labelled.pairs]
    return PairsSummary(
        votes={choice: votes.count(choice) for choice in ("A", "B", "tie")},
        per_pair=(min(sizes), max(sizes)),
        n_level=sum(pair.margin == 0 for pair in labelled.pairs),
    )


def _candidates(labelled: LabelledPairs, text: str) -> dict[str, str]:
    return {labelled.candidate: text}


def _annotators(output: LabelledOutput, dimension: str) -> int:
    return len(output.annotators.get(dimension, ()))
