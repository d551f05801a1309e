"""Split labelled sets by document, or by document and system, the same for any order of rows."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from data.documents import same_words
from data.tables.problems import count, joined_names
from data.types import LabelError, LabelledPairs, LabelledSet

By = Literal["document", "both"]
Labels = TypeVar("Labels", LabelledSet, LabelledPairs)

# Train, dev and test. Dev gets most: the choice and the gate rest on it, and train only has to
# teach. Test is met once, and at 20 documents still has 5.
FRACTIONS = (0.35, 0.40, 0.25)
# Two documents in each part are the least that can vary.
MIN_UNITS_TO_SPLIT = 6
MIN_SYSTEMS_TO_HOLD_OUT = 8


def with_ratings(labelled: LabelledSet, dimension: str) -> LabelledSet:
    """Return the outputs rated on `dimension`; LabelError where there are none."""
    rated = tuple(output for output in labelled.outputs if output.ratings.get(dimension))
    if not rated:
        known = joined_names(labelled.dimensions)
        raise LabelError(
            f"{labelled.name}: no output is rated on {dimension!r}, only on {known}; "
            f"name the column that has it with --map {dimension}=COLUMN, or the key inside ratings "
            f"with --map {dimension}=ratings.KEY"
        )
    return replace(labelled, outputs=rated)


def is_constant(labelled: LabelledSet, dimension: str) -> bool:
    """Whether there are ratings on `dimension` and all are the same."""
    rated = (output for output in labelled.outputs if dimension in output.ratings)
    return len({output.rating(dimension) for output in rated}) == 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits(Generic[Labels]):
    """Train for demos and feedback, dev for the choice, test reported once.

    `test_unseen_systems` holds the test documents' outputs by `held_out_systems`, which are in no
    other part; `n_unused` counts their outputs for other documents, which no part may hold.
    `sha256` is over the ids of every part, in order.
    """

    by: By
    seed: int
    train: Labels
    dev: Labels
    test: Labels
    test_unseen_systems: Labels | None = None
    held_out_systems: tuple[str, ...] = ()
    n_unused: int = 0

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


def split(labelled: Labels, *, by: By = "document", seed: int) -> Splits[Labels]:
    """Deal documents, or documents and systems, to train, dev and test.

    By document: no document is in two parts, nor are two documents with the same source text.
    By both: also, about a quarter of the systems are held out of all three and meet the judge only
    in `test_unseen_systems`. Raises LabelError where there are too few.
    """
    if by == "both" and default_by(labelled) != "both":
        raise LabelError(
            f"{labelled.name}: systems can be held out where every output names its system and "
            f"there are at least {MIN_SYSTEMS_TO_HOLD_OUT}; split by document"
        )
    rng = np.random.default_rng(seed)
    parts = _deal_documents(labelled, rng)
    # Three, so that there is an order to get right within a document.
    number = max(3, round(len(labelled.systems) / 4)) if by == "both" else 0
    held_out = set(rng.permutation(labelled.systems)[:number].tolist())
    seen: Labels = labelled
    unseen: Labels | None = None
    n_unused = 0
    if held_out:
        seen = _where(labelled, "system", {*labelled.systems} - held_out)
        held_out_outputs = _where(labelled, "system", held_out)
        unseen = _where(held_out_outputs, "document_id", parts[2])
        n_unused = len(held_out_outputs.items) - len(unseen.items)
    train, dev, test = (_where(seen, "document_id", documents) for documents in parts)
    for part in (train, dev, test, unseen):
        if part is not None and len(part.documents) < 2:
            raise LabelError(
                f"{labelled.name}: a part gets outputs for {count(len(part.documents), 'document')}"
                " alone, since systems wrote for different ones; split by document"
            )
    return Splits(
        by=by,
        seed=seed,
        train=train,
        dev=dev,
        test=test,
        test_unseen_systems=unseen,
        held_out_systems=tuple(sorted(held_out)),
        n_unused=n_unused,
    )


def _deal_documents(
    labelled: LabelledSet | LabelledPairs, rng: np.random.Generator
) -> list[set[str]]:
    """Shuffle documents and cut them by the fractions, those with the same source text as one."""
    merged = {min(documents): documents for documents in same_words(labelled.items)}
    units = sorted(({*labelled.documents} - set().union(*merged.values())) | merged.keys())
    number = len(units)
    if number < MIN_UNITS_TO_SPLIT:
        are = "1 document is" if number == 1 else f"{number} documents are"
        grouping = f"grouped by {labelled.grouped_by}; " if labelled.grouped_by else ""
        raise LabelError(
            f"{labelled.name}: {are} too few to split into train, dev and test ({grouping}"
            f"{MIN_UNITS_TO_SPLIT} are the least, 30 a fair start); label more documents, mend the "
            "grouping with --map group=COLUMN, or measure a judge with dspy-judges verify"
        )
    order = rng.permutation(units).tolist()
    first = min(max(round(FRACTIONS[0] * number), 2), number - 4)
    second = first + min(max(round(FRACTIONS[1] * number), 2), number - first - 2)
    parts: Sequence[list[str]] = (order[:first], order[first:second], order[second:])
    return [set().union(*(merged.get(unit, {unit}) for unit in part)) for part in parts]


def _where(
    labelled: Labels, field: Literal["document_id", "system"], values: Collection[str]
) -> Labels:
    """The part with these documents or systems; sorted, so that a file's order reaches nothing."""
    chosen = (item for item in labelled.items if getattr(item, field) in values)
    items: Any = tuple(sorted(chosen, key=lambda item: (item.document_id, item.id)))
    if isinstance(labelled, LabelledPairs):
        return replace(labelled, pairs=items)
    return replace(labelled, outputs=items)
