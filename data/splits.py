"""Split labelled sets by document, by system or by both, the same for any order of the rows."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import isclose
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from data.documents import same_words
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
        (value,) = _distinct_ratings(labelled, dimension)
        raise LabelError(
            f"{labelled.name}: every rating on {dimension!r} is {value:g}, so people rank nothing "
            "and no judge can agree with them; give outputs they rated differently"
        )


def is_constant(labelled: LabelledSet, dimension: str) -> bool:
    """Whether there are ratings on `dimension` and all are the same."""
    return len(_distinct_ratings(labelled, dimension)) == 1


def _distinct_ratings(labelled: LabelledSet, dimension: str) -> set[float]:
    return {output.rating(dimension) for output in labelled.outputs if dimension in output.ratings}


By = Literal["document", "system", "both"]
Fractions = tuple[float, float, float]
Labels = TypeVar("Labels", LabelledSet, LabelledPairs)

# Dev gets most: the choice and the gate rest on it, and train only has to teach. Test is met once,
# and at 20 documents still has 5.
FRACTIONS: Fractions = (0.35, 0.40, 0.25)
# Documents, or systems where these are split: two in each part are the least that can vary.
MIN_UNITS_TO_SPLIT = 6
MIN_SYSTEMS_TO_HOLD_OUT = 8
_PARTS_OF_BOTH = ("train", "dev", "test", "unseen systems")


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
        names = ("train", "dev", "test", "test_unseen_systems")
        parts = {name: part for name in names if (part := getattr(self, name)) is not None}
        return {name: [item.id for item in part.items] for name, part in parts.items()}

    @property
    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(self.ids(), sort_keys=True).encode()).hexdigest()


def default_by(labelled: LabelledSet | LabelledPairs) -> By:
    """Return "both" where there are systems enough to hold some out, else "document"."""
    if isinstance(labelled, LabelledPairs) or len(labelled.systems) < MIN_SYSTEMS_TO_HOLD_OUT:
        return "document"
    return "both" if all(output.system is not None for output in labelled.outputs) else "document"


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
    if by != "document":
        _check_systems(labelled, by)
    rng = np.random.default_rng(seed)
    by_seen_systems, by_unseen_systems = labelled, None
    held_out: Collection[str] = ()
    n_unused = n_merged = 0
    if by == "system":
        parts = _deal(labelled.systems, rng, fractions)
        train, dev, test = (_where(labelled, "system", systems) for systems in parts)
        held_out = parts[2]
    else:
        parts, n_merged = _deal_documents(labelled, rng, fractions)
        if by == "both":
            # Three, so that there is an order to get right within a document.
            number = max(3, round(len(labelled.systems) / 4))
            held_out = set(rng.permutation(labelled.systems)[:number].tolist())
            by_seen_systems = _where(labelled, "system", {*labelled.systems} - held_out)
            held_out_outputs = _where(labelled, "system", held_out)
            by_unseen_systems = _where(held_out_outputs, "document_id", parts[2])
            n_unused = len(held_out_outputs.items) - len(by_unseen_systems.items)
        train, dev, test = (
            _where(by_seen_systems, "document_id", documents) for documents in parts
        )
        if by_unseen_systems is not None:
            parts_of_both = (train, dev, test, by_unseen_systems)
            for name, part in zip(_PARTS_OF_BOTH, parts_of_both, strict=True):
                if len(part.documents) < 2:
                    raise LabelError(
                        f"{labelled.name}: {name} gets outputs for "
                        f"{count(len(part.documents), 'document')}, since systems wrote for "
                        "different ones; split by document"
                    )
    return Splits(
        by=by,
        seed=seed,
        fractions=fractions,
        train=train,
        dev=dev,
        test=test,
        test_unseen_systems=by_unseen_systems,
        held_out_systems=tuple(sorted(held_out)),
        n_unused=n_unused,
        n_merged=n_merged,
    )


def _deal_documents(
    labelled: LabelledSet | LabelledPairs, rng: np.random.Generator, fractions: Fractions
) -> tuple[list[set[str]], int]:
    """Deal documents, those with the same source text as one; also count how many share theirs."""
    merged = {min(documents): documents for documents in same_words(labelled.items)}
    sharing = set().union(*merged.values())
    units = sorted(({*labelled.documents} - sharing) | merged.keys())
    if len(units) < MIN_UNITS_TO_SPLIT:
        are = "1 document is" if len(units) == 1 else f"{len(units)} documents are"
        many = isinstance(labelled, LabelledSet) and len(labelled.systems) >= MIN_UNITS_TO_SPLIT
        grouping = f"grouped by {labelled.grouped_by}; " if labelled.grouped_by else ""
        raise LabelError(
            f"{labelled.name}: {are} too few to split into train, dev and test ({grouping}"
            f"{MIN_UNITS_TO_SPLIT} are the least, 30 a fair start); label more documents, mend the "
            f"grouping with --map group=COLUMN{', split by system' if many else ''}, or measure a "
            "judge with optimize.verify"
        )
    parts = [
        set().union(*(merged.get(unit, {unit}) for unit in part))
        for part in _deal(units, rng, fractions)
    ]
    return parts, len(sharing)


def _deal(units: Sequence[str], rng: np.random.Generator, fractions: Fractions) -> list[set[str]]:
    """Shuffle sorted units and cut them by the fractions, leaving two or more in each part."""
    order = rng.permutation(list(units)).tolist()
    number = len(order)
    first = min(max(round(fractions[0] * number), 2), number - 4)
    second = min(max(round(fractions[1] * number), 2), number - first - 2)
    return [set(order[:first]), set(order[first : first + second]), set(order[first + second :])]


def _check_systems(labelled: LabelledSet | LabelledPairs, by: By) -> None:
    """Raise LabelError where systems cannot be split `by` "system" or "both".

    That is of pairs, of outputs whose system is unknown, and of too few systems.
    """
    if isinstance(labelled, LabelledPairs):
        raise LabelError(f"{labelled.name}: pairs have two systems each; split them by document")
    n_anonymous = sum(output.system is None for output in labelled.outputs)
    if n_anonymous:
        raise LabelError(
            f"{labelled.name}: {n_anonymous} of {count(len(labelled.outputs), 'output')} name no "
            "system, so none can be held out; split by document, or name yours with --map "
            "system=COLUMN"
        )
    number = len(labelled.systems)
    minimum = MIN_SYSTEMS_TO_HOLD_OUT if by == "both" else MIN_UNITS_TO_SPLIT
    if number < minimum:
        systems = "1 system is" if number == 1 else f"{number} systems are"
        raise LabelError(
            f"{labelled.name}: {systems} too few to split by {by} ({minimum} are the "
            "least); split by document"
        )


def _where(
    labelled: Labels, field: Literal["document_id", "system"], values: Collection[str]
) -> Labels:
    """The part with these documents or systems; sorted, so that a file's order reaches nothing."""
    chosen = (item for item in labelled.items if getattr(item, field) in values)
    items: Any = tuple(sorted(chosen, key=lambda item: (item.document_id, item.id)))
    if isinstance(labelled, LabelledPairs):
        return replace(labelled, pairs=items)
    return replace(labelled, outputs=items)
