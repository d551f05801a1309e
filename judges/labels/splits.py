"""Splits labelled sets by document, or by document and system.

The order of the file's rows has no effect on a split.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeVar

import numpy as np

from judges.labels.names import is_source_or_output, source_name
from judges.labels.types import Item, LabelError, LabelledPair, LabelledPairs, LabelledSet
from judges.tables.problems import joined_names

Labels = TypeVar("Labels", LabelledSet, LabelledPairs)
AnyItem = TypeVar("AnyItem", bound=Item)

# The shares of train, dev and test. Dev is the largest, since the judge is chosen and tested on it.
# Test is used once.
FRACTIONS = (0.35, 0.40, 0.25)
# This gives each part two documents; one would have no variance.
MIN_UNITS_TO_SPLIT = 6
MIN_SYSTEMS_TO_HOLD_OUT = 8


def with_ratings(labelled: LabelledSet, dimension: str) -> LabelledSet:
    """Return the outputs that are rated on `dimension`; raises LabelError if there are none.

    If the dimension has two values, outputs that equally many annotators gave either value are left
    out.
    """
    rated = tuple(output for output in labelled.outputs if output.ratings.get(dimension))
    if not rated:
        raise LabelError(
            f"{labelled.name}: no output is rated on {dimension!r}, only on "
            f"{joined_names(labelled.dimensions)}; name your column with --map {dimension}=COLUMN"
        )
    if dimension not in labelled.words:
        return replace(labelled, outputs=rated, n_tied=0)
    untied = tuple(output for output in rated if output.rating(dimension) != 0.5)
    n_tied, notes = len(rated) - len(untied), [*labelled.notes]
    if n_tied:
        notes.append(
            f"{dimension}: left out, since equally many annotators gave either value: {n_tied:,}"
        )
    labels = {labelled.label(output, dimension) for output in untied}
    if len(labels) == 1:
        word = labelled.words[dimension][0.0 in labels]
        notes.append(
            f"every label on {dimension} is {word}: there is nothing to learn or to measure"
        )
    return replace(labelled, outputs=untied, notes=tuple(notes), n_tied=n_tied)


@dataclass(frozen=True, slots=True)
class Splits(Generic[Labels]):
    """The splits of a labelled set: train and dev for tuning a judge, and test for reporting.

    `test_unseen_systems` holds the outputs of the `held_out_systems` for the test documents. No
    other split has outputs of these systems. `n_unused` counts their outputs for other documents,
    which are in no split. `sha256` is the hash of the ids in every split.
    """

    train: Labels
    dev: Labels
    test: Labels
    test_unseen_systems: Labels | None = None
    held_out_systems: tuple[str, ...] = ()
    n_unused: int = 0

    @property
    def by(self) -> Literal["document", "both"]:
        """Return "both" if the split is by document and by system, else "document"."""
        return "document" if self.test_unseen_systems is None else "both"

    def ids(self) -> dict[str, list[str]]:
        """Return the ids in every split, by the split's name."""
        names = ("train", "dev", "test", "test_unseen_systems")
        parts = {name: part for name in names if (part := getattr(self, name)) is not None}
        return {name: [item.id for item in part.items] for name, part in parts.items()}

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.ids(), sort_keys=True).encode()).hexdigest()


def split(labelled: Labels, *, seed: int) -> Splits[Labels]:
    """Split a labelled set into train, dev and test, by document.

    Documents with the same source text are put into the same split. If every output names its
    system and there are 8 systems or more, about a quarter of the systems are held out: their
    outputs are only in `test_unseen_systems`.

    Args:
        labelled: The outputs or pairs to split.
        seed: The seed of the random split.

    Raises:
        LabelError: If there are too few documents.
    """
    rng = np.random.default_rng(seed)
    documents = _split_documents(labelled, rng)
    by_document = [_subset(labelled, "document_id", part) for part in documents]
    if isinstance(labelled, LabelledSet) and all(output.system for output in labelled.outputs):
        are_enough = len(labelled.systems) >= MIN_SYSTEMS_TO_HOLD_OUT
        systems: set[str] = {*labelled.systems} if are_enough else set()
        # At least three systems, so that a document's outputs can be ranked.
        n_held_out = max(3, round(len(systems) / 4))
        held_out = set(rng.permutation(sorted(systems))[:n_held_out].tolist())
        seen: list[Labels] = [_subset(part, "system", systems - held_out) for part in by_document]
        unseen: list[Labels] = [_subset(part, "system", held_out) for part in by_document]
        # A split may be too small if each system wrote for different documents.
        if all(len(part.documents) >= 2 for part in [*seen, *unseen[2:]]):
            n_unused = len(unseen[0].items) + len(unseen[1].items)
            return Splits(seen[0], seen[1], seen[2], unseen[2], tuple(sorted(held_out)), n_unused)
    return Splits(by_document[0], by_document[1], by_document[2])


def _split_documents(
    labelled: LabelledSet | LabelledPairs, rng: np.random.Generator
) -> list[set[str]]:
    """Assign documents to train, dev and test at random; equal source texts stay together."""
    merged = {min(documents): documents for documents in _equal_documents(labelled.items)}
    units = sorted(({*labelled.documents} - set().union(*merged.values())) | merged.keys())
    n_units = len(units)
    if n_units < MIN_UNITS_TO_SPLIT:
        subject = "1 document is" if n_units == 1 else f"{n_units} documents are"
        grouping = f"grouped by {labelled.grouped_by}; " if labelled.grouped_by else ""
        raise LabelError(
            f"{labelled.name}: {subject} too few to split into train, dev and test ({grouping}"
            f"at least {MIN_UNITS_TO_SPLIT} are needed, 30 are a fair start); label more "
            "documents, correct the grouping with --map group=COLUMN, or measure a judge with "
            "dspy-judges verify"
        )
    order = rng.permutation(units).tolist()
    n_train = min(max(round(FRACTIONS[0] * n_units), 2), n_units - 4)
    n_dev = min(max(round(FRACTIONS[1] * n_units), 2), n_units - n_train - 2)
    dev_end = n_train + n_dev
    parts: Sequence[list[str]] = (order[:n_train], order[n_train:dev_end], order[dev_end:])
    return [set().union(*(merged.get(unit, {unit}) for unit in part)) for part in parts]


def _subset(
    labelled: Labels, field: Literal["document_id", "system"], values: Collection[str]
) -> Labels:
    """The items of these documents or systems, sorted so that the file's order has no effect."""
    if isinstance(labelled, LabelledPairs):
        return replace(labelled, pairs=_chosen(labelled.pairs, field, values))
    return replace(labelled, outputs=_chosen(labelled.outputs, field, values))


def _chosen(items: Iterable[AnyItem], field: str, values: Collection[str]) -> tuple[AnyItem, ...]:
    members = (item for item in items if getattr(item, field) in values)
    return tuple(sorted(members, key=lambda item: (item.document_id, item.id)))


def _equal_documents(items: Sequence[Item]) -> list[set[str]]:
    """Return the groups of two or more document ids that are linked by equal texts."""
    group_of = {item.document_id: {item.document_id} for item in items}
    # The first document with these texts.
    first: dict[tuple[str, ...], str] = {}
    for item in items:
        linked = item.document_id, first.setdefault(_source_texts(item), item.document_id)
        smaller, larger = sorted((group_of[document] for document in linked), key=len)
        if smaller is not larger:
            larger |= smaller
            group_of |= dict.fromkeys(smaller, larger)
    return list({id(group): group for group in group_of.values() if len(group) > 1}.values())


def _source_texts(item: Item) -> tuple[str, ...]:
    """The texts that tell documents apart: the source text, else all texts, else the id."""
    if (name := source_name(item.texts)) is not None:
        return item.texts[name], item.texts.get("input", "")
    sides = (item.response_a, item.response_b) if isinstance(item, LabelledPair) else ()
    usual = [text for name, text in item.texts.items() if is_source_or_output(name)]
    return (*(usual or item.texts.values()), *sides) or (item.id,)
