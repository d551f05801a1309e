"""Split labelled sets by document, by system or by both, the same for any order of the rows."""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Generic, Literal, TypeVar

import numpy as np

from data.documents import Item, same_words
from data.tables.problems import count, joined_names
from data.types import LabelError, LabelledPairs, LabelledSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Rated:
    """The outputs with a rating on a dimension, and how many have none."""

    labelled: LabelledSet
    n_left_out: int


def with_ratings(labelled: LabelledSet, dimension: str) -> Rated:
    """Return the outputs rated on `dimension`; LabelError where there are none."""
    rated = tuple(output for output in labelled.outputs if output.ratings.get(dimension))
    if not rated:
        known = joined_names(labelled.dimensions)
        raise LabelError(
            f"{labelled.name}: no output is rated on {dimension!r}, only on {known}; "
            f"name the column that has it with --map {dimension}=COLUMN, or the key inside ratings "
            f"with --map {dimension}=ratings.KEY"
        )
    left_out = len(labelled.outputs) - len(rated)
    return Rated(labelled=replace(labelled, outputs=rated), n_left_out=left_out)


def refuse_constant(labelled: LabelledSet, dimension: str) -> None:
    """Raise LabelError where every rating on `dimension` is the same: nothing to rank by."""
    if is_constant(labelled, dimension):
        value = next(one.rating(dimension) for one in labelled.outputs if dimension in one.ratings)
        raise LabelError(
            f"{labelled.name}: every rating on {dimension!r} is {value:g}, so people rank nothing "
            "and no judge can agree with them; give outputs they rated differently"
        )


def is_constant(labelled: LabelledSet, dimension: str) -> bool:
    """Whether there are ratings on `dimension` and all are the same."""
    rated = (one for one in labelled.outputs if dimension in one.ratings)
    return len({one.rating(dimension) for one in rated}) == 1


By = Literal["document", "system", "both"]
Fractions = tuple[float, float, float]
Labels = TypeVar("Labels", LabelledSet, LabelledPairs)
Some = TypeVar("Some", bound=Item)

# Dev gets most: the choice and the gate rest on it, and train only has to teach. Test is met once,
# and at 20 documents still has 5.
FRACTIONS: Fractions = (0.35, 0.40, 0.25)
# Two documents in each split are the least that can vary.
FEWEST_DOCUMENTS = 6
FEWEST_SYSTEMS = 8
_PARTS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits(Generic[Labels]):
    """Train for demos and feedback, dev for the choice, test reported once.

    `test_unseen_systems` holds the test documents' outputs by `held_out_systems`, which are in no
    other part; `n_unused` counts their outputs for other documents, which no part may hold.
    `n_merged` counts documents that share their text with another and so went where it went.
    `sha256` is over the ids of every part, in order.
    """

    by: By
    seed: int
    fractions: Fractions
    train: Labels
    dev: Labels
    test: Labels
    test_unseen_systems: Labels | None = None
    held_out_systems: tuple[str, ...] = ()
    n_unused: int = 0
    n_merged: int = 0

    def ids(self) -> dict[str, list[str]]:
        """Return the ids of every part, for the record."""
        parts = {name: getattr(self, name) for name in (*_PARTS, "test_unseen_systems")}
        return {
            name: [item.id for item in _items(part)]
            for name, part in parts.items()
            if part is not None
        }

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.ids(), sort_keys=True).encode()).hexdigest()


def default_by(labelled: LabelledSet | LabelledPairs) -> By:
    """Return "both" where there are systems enough to hold some out, else "document"."""
    if isinstance(labelled, LabelledPairs) or len(labelled.systems) < FEWEST_SYSTEMS:
        return "document"
    return "both" if all(one.system is not None for one in labelled.outputs) else "document"


def split(
    labelled: Labels, *, by: By = "document", seed: int, fractions: Fractions = FRACTIONS
) -> Splits[Labels]:
    """Deal documents, systems or both to train, dev and test.

    By document: no document is in two parts, nor are two documents with the same source text.
    By both: also, about a quarter of the systems are held out of all three and meet the judge only
    in `test_unseen_systems`. By system: systems are dealt instead, and a document recurs in every
    part; for a few documents with many systems. Raises LabelError where there are too few.
    """
    if len(fractions) != 3 or not (min(fractions) > 0 and isclose(sum(fractions), 1)):
        raise ValueError(f"fractions {fractions} must be three positive numbers that sum to 1")
    if by == "document":
        return _by_document(labelled, seed, fractions)
    if isinstance(labelled, LabelledPairs):
        raise LabelError(f"{labelled.name}: pairs have two systems each; split them by document")
    _check_systems(labelled, by)
    if by == "system":
        return _by_system(labelled, seed, fractions)
    return _by_both(labelled, seed, fractions)


def _by_document(labelled: Labels, seed: int, fractions: Fractions) -> Splits[Labels]:
    parts, n_merged = _deal_documents(labelled, np.random.default_rng(seed), fractions)
    train, dev, test = (_of_documents(labelled, part) for part in parts)
    return Splits(
        by="document",
        seed=seed,
        fractions=fractions,
        train=train,
        dev=dev,
        test=test,
        n_merged=n_merged,
    )


def _by_system(labelled: LabelledSet, seed: int, fractions: Fractions) -> Splits[LabelledSet]:
    chance = np.random.default_rng(seed)
    parts = _deal(labelled.systems, chance, fractions)
    train, dev, test = (_of_systems(labelled, part) for part in parts)
    return Splits(
        by="system",
        seed=seed,
        fractions=fractions,
        train=train,
        dev=dev,
        test=test,
        held_out_systems=tuple(sorted(parts[2])),
    )


def _by_both(labelled: LabelledSet, seed: int, fractions: Fractions) -> Splits[LabelledSet]:
    chance = np.random.default_rng(seed)
    parts, n_merged = _deal_documents(labelled, chance, fractions)
    systems = labelled.systems
    # Three, so that there is an order to get right within a document.
    number = max(3, round(len(systems) / 4))
    held_out = set(chance.permutation(systems)[:number].tolist())
    seen, unseen = _of_systems(labelled, set(systems) - held_out), _of_systems(labelled, held_out)
    train, dev, test = (_of_documents(seen, part) for part in parts)
    new = _of_documents(unseen, parts[2])
    _check_parts(labelled.name, {"train": train, "dev": dev, "test": test, "unseen systems": new})
    return Splits(
        by="both",
        seed=seed,
        fractions=fractions,
        train=train,
        dev=dev,
        test=test,
        test_unseen_systems=new,
        held_out_systems=tuple(sorted(held_out)),
        n_unused=len(unseen.outputs) - len(new.outputs),
        n_merged=n_merged,
    )


def _deal_documents(
    labelled: LabelledSet | LabelledPairs, chance: np.random.Generator, fractions: Fractions
) -> tuple[tuple[set[str], ...], int]:
    """Deal documents, those with the same source text as one; also count how many share theirs."""
    items = _items(labelled)
    together = {min(documents): documents for documents in same_words(items)}
    others = set().union(*together.values())
    documents = {item.document_id for item in items}
    units = sorted((documents - others) | set(together))
    if len(units) < FEWEST_DOCUMENTS:
        raise LabelError(_too_few(labelled, len(units)))
    parts = _deal(units, chance, fractions)
    whole = tuple(set().union(*(together.get(unit, {unit}) for unit in part)) for part in parts)
    return whole, len(others)


def _too_few(labelled: LabelledSet | LabelledPairs, number: int) -> str:
    are = "1 document is" if number == 1 else f"{number} documents are"
    many = isinstance(labelled, LabelledSet) and len(labelled.systems) >= FEWEST_DOCUMENTS
    by_system = ", split by system" if many else ""
    hint = f"grouped by {labelled.grouped_by}; " if labelled.grouped_by else ""
    return (
        f"{labelled.name}: {are} too few to split into train, dev and test ({hint}"
        f"{FEWEST_DOCUMENTS} are the least, 30 a fair start); label more documents, mend the "
        f"grouping with --map group=COLUMN{by_system}, or measure a judge with optimize.verify"
    )


def _deal(
    units: Sequence[str], chance: np.random.Generator, fractions: Fractions
) -> list[set[str]]:
    """Shuffle sorted units and cut them by the fractions, leaving two or more in each part."""
    order = chance.permutation(list(units)).tolist()
    number = len(order)
    first = min(max(round(fractions[0] * number), 2), number - 4)
    second = min(max(round(fractions[1] * number), 2), number - first - 2)
    return [set(order[:first]), set(order[first : first + second]), set(order[first + second :])]


def _check_systems(labelled: LabelledSet, by: By) -> None:
    anonymous = sum(output.system is None for output in labelled.outputs)
    number = len(labelled.systems)
    fewest = FEWEST_SYSTEMS if by == "both" else FEWEST_DOCUMENTS
    if anonymous:
        outputs = count(len(labelled.outputs), "output")
        raise LabelError(
            f"{labelled.name}: {anonymous} of {outputs} name no system, so "
            "none can be held out; split by document, or name yours with --map system=COLUMN"
        )
    if number < fewest:
        systems = "1 system is" if number == 1 else f"{number} systems are"
        raise LabelError(
            f"{labelled.name}: {systems} too few to split by {by} ({fewest} are the "
            "least); split by document"
        )


def _check_parts(name: str, parts: dict[str, LabelledSet]) -> None:
    for part, labelled in parts.items():
        documents = count(len(labelled.documents), "document")
        if len(labelled.documents) < 2:
            raise LabelError(
                f"{name}: {part} gets outputs for {documents}, since "
                "systems wrote for different ones; split by document"
            )


def _of_documents(labelled: Labels, documents: Collection[str]) -> Labels:
    if isinstance(labelled, LabelledPairs):
        return replace(
            labelled, pairs=_ordered(p for p in labelled.pairs if p.document_id in documents)
        )
    return replace(
        labelled, outputs=_ordered(o for o in labelled.outputs if o.document_id in documents)
    )


def _of_systems(labelled: LabelledSet, systems: Collection[str]) -> LabelledSet:
    return replace(labelled, outputs=_ordered(o for o in labelled.outputs if o.system in systems))


def _ordered(items: Iterable[Some]) -> tuple[Some, ...]:
    """Sort, so that the order of a file's rows reaches nothing."""
    return tuple(sorted(items, key=lambda item: (item.document_id, item.id)))


def _items(labelled: LabelledSet | LabelledPairs) -> Sequence[Item]:
    return labelled.pairs if isinstance(labelled, LabelledPairs) else labelled.outputs
