"""Splits labelled sets into train, dev and test, by document, or by document and system.

A split does not depend on the order of the rows in the file.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np

from judges.labels.names import is_source_or_output, source_name
from judges.labels.types import LabelError, LabelledItem, LabelledItems, LabelledPair, LabelledSet
from judges.tables.problems import count_text, joined_names

AnyLabelledItems = TypeVar("AnyLabelledItems", bound=LabelledItems)

# The fractions of documents in train, dev and test. Dev is the largest split, because prompts are
# chosen and tested on it.
SPLIT_FRACTIONS = (0.35, 0.40, 0.25)
# Of six documents, each split gets two, because a variance needs at least two.
MIN_DOCUMENTS_TO_SPLIT = 6
MIN_SYSTEMS_TO_HOLD_OUT = 8


def with_ratings(labelled: LabelledSet, dimension: str) -> LabelledSet:
    """Return the outputs that are rated on `dimension`; raises LabelError if no output is rated.

    On a dimension with two values, an output is left out if its annotators are evenly divided.
    """
    rated_outputs = tuple(output for output in labelled.outputs if output.ratings.get(dimension))
    if not rated_outputs:
        raise LabelError(
            f"{labelled.name}: no output is rated on {dimension!r}, only on "
            f"{joined_names(labelled.dimensions)}; name your column with --map {dimension}=COLUMN"
        )
    if dimension not in labelled.words:
        return replace(labelled, outputs=rated_outputs, n_tied=0)
    untied_outputs = tuple(output for output in rated_outputs if output.rating(dimension) != 0.5)
    n_tied, notes = len(rated_outputs) - len(untied_outputs), [*labelled.notes]
    if n_tied:
        notes.append(
            f"{dimension}: left out {count_text(n_tied, 'output')}, since equally many annotators "
            "gave either value"
        )
    distinct_labels = {labelled.label(output, dimension) for output in untied_outputs}
    if len(distinct_labels) == 1:
        word = labelled.words[dimension][0.0 in distinct_labels]
        notes.append(f"every label on {dimension} is {word}: there is nothing to learn or measure")
    return replace(labelled, outputs=untied_outputs, notes=tuple(notes), n_tied=n_tied)


@dataclass(frozen=True, slots=True)
class Splits(Generic[AnyLabelledItems]):
    """The splits of a labelled set.

    Attributes:
        train: The split for tuning a judge.
        dev: The split on which prompts are compared during tuning.
        test: The split for the report on the tuned judge.
        test_unseen_systems: The outputs of the held-out systems for the test documents; None if no
            system is held out.
        held_out_systems: The systems whose outputs are in no split but `test_unseen_systems`.
        n_unused: The number of outputs in no split: held-out systems' for train and dev documents.
    """

    train: AnyLabelledItems
    dev: AnyLabelledItems
    test: AnyLabelledItems
    test_unseen_systems: AnyLabelledItems | None = None
    held_out_systems: tuple[str, ...] = ()
    n_unused: int = 0

    @property
    def by(self) -> Literal["document", "both"]:
        """Whether the set is split by "document", or by "both" document and system."""
        return "document" if self.test_unseen_systems is None else "both"

    def ids(self) -> dict[str, list[str]]:
        """Return the ids in every split, by the split's name."""
        split_names = ("train", "dev", "test", "test_unseen_systems")
        splits = {name: split for name in split_names if (split := getattr(self, name)) is not None}
        return {name: [item.id for item in split.items] for name, split in splits.items()}

    @property
    def sha256(self) -> str:
        """The hash of the ids in all splits."""
        return hashlib.sha256(json.dumps(self.ids(), sort_keys=True).encode()).hexdigest()


def split(labelled: AnyLabelledItems, *, seed: int) -> Splits[AnyLabelledItems]:
    """Split a labelled set into train, dev and test, by document.

    Documents with the same source text are put into the same split. If every output names its
    system and there are 8 systems or more, about a quarter of the systems are held out. Their
    outputs for test documents are in `test_unseen_systems`; their other outputs are in no split.

    Args:
        labelled: The outputs or pairs to split.
        seed: The seed of the random split.

    Raises:
        LabelError: If there are too few documents.
    """
    rng = np.random.default_rng(seed)
    ids_by_split = [
        {item.id for item in labelled.items if item.document_id in documents}
        for documents in _split_documents(labelled, rng)
    ]
    if (
        isinstance(labelled, LabelledSet)
        and all(output.system for output in labelled.outputs)
        and len(labelled.systems) >= MIN_SYSTEMS_TO_HOLD_OUT
    ):
        # Hold out at least three systems, so that a document's outputs can be ranked.
        n_unseen = max(3, round(len(labelled.systems) / 4))
        unseen_systems = set(rng.permutation(labelled.systems)[:n_unseen].tolist())
        unseen_ids = {output.id for output in labelled.outputs if output.system in unseen_systems}
        seen_splits = [labelled.subset(ids - unseen_ids) for ids in ids_by_split]
        unseen_test = labelled.subset(ids_by_split[2] & unseen_ids)
        # If each system wrote for few documents, a split may be too small to hold out systems.
        if all(len(split_items.documents) >= 2 for split_items in (*seen_splits, unseen_test)):
            n_unused = len(unseen_ids) - len(unseen_test.outputs)
            train, dev, test = seen_splits
            return Splits(train, dev, test, unseen_test, tuple(sorted(unseen_systems)), n_unused)
    splits = [*map(labelled.subset, ids_by_split)]
    return Splits(splits[0], splits[1], splits[2])


def _split_documents(labelled: LabelledItems, rng: np.random.Generator) -> list[set[str]]:
    """Draw the documents of train, dev and test at random; equal source texts stay together."""
    cluster_by_document = _cluster_by_document(labelled.items)
    clusters = sorted({*cluster_by_document.values()})
    n_clusters = len(clusters)
    if n_clusters < MIN_DOCUMENTS_TO_SPLIT:
        documents_text = "1 document is" if n_clusters == 1 else f"{n_clusters} documents are"
        reasons, advice = [labelled.grouped_by], "correct the grouping with --map group=COLUMN"
        if n_clusters < len(labelled.documents):
            reasons.append("documents that share a text count as one")
            advice = "name an unread text that tells them apart with --map input=COLUMN"
        reasons.append(f"at least {MIN_DOCUMENTS_TO_SPLIT} are needed, 30 are a fair start")
        raise LabelError(
            f"{labelled.name}: {documents_text} too few to split into train, dev and test "
            f"({'; '.join(filter(None, reasons))}); label more documents, {advice}, or measure a "
            "judge with dspy-judges verify"
        )
    n_train = min(max(round(SPLIT_FRACTIONS[0] * n_clusters), 2), n_clusters - 4)
    n_dev = min(max(round(SPLIT_FRACTIONS[1] * n_clusters), 2), n_clusters - n_train - 2)
    clusters_by_split = np.split(rng.permutation(clusters), [n_train, n_train + n_dev])
    return [
        {document for document, cluster in cluster_by_document.items() if cluster in split_clusters}
        for split_clusters in map(set, clusters_by_split)
    ]


def _cluster_by_document(items: Sequence[LabelledItem]) -> dict[str, str]:
    """Map each document to its cluster: the first document that has the same source text."""
    documents_by_texts: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for item in items:
        documents_by_texts[_source_texts(item)].add(item.document_id)
    cluster_by_document = {item.document_id: item.document_id for item in items}
    documents_by_cluster = {cluster: [cluster] for cluster in cluster_by_document}
    for documents in documents_by_texts.values():
        linked_clusters = {cluster_by_document[document] for document in documents}
        first_cluster = min(linked_clusters)
        for cluster in linked_clusters - {first_cluster}:
            linked_documents = documents_by_cluster.pop(cluster)
            cluster_by_document |= dict.fromkeys(linked_documents, first_cluster)
            documents_by_cluster[first_cluster] += linked_documents
    return cluster_by_document


def _source_texts(item: LabelledItem) -> tuple[str, ...]:
    """Return the item's source text, by which documents are told; without one, all its texts."""
    if (name := source_name(item.texts)) is not None:
        return item.texts[name], item.texts.get("input", "")
    responses = (item.response_a, item.response_b) if isinstance(item, LabelledPair) else ()
    named_texts = [text for name, text in item.texts.items() if is_source_or_output(name)]
    return (*(named_texts or item.texts.values()), *responses) or (item.id,)
