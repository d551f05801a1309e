"""Labelled examples as DSPy users have them: dspy.Examples or dicts."""

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

import dspy
import numpy as np

from data.splits import FRACTIONS
from optimize.dspy_program import Student
from optimize.items import Item, Items
from optimize.statistics.intervals import stream

# A field, or what makes a number of an example.
Label = str | Callable[[Any], Any]
GROUPS = ("document_id", "group")
HUMAN = "human"
# Each side of a split needs documents to rank.
FEWEST_DOCUMENTS = 10
NAMED_IN_ERRORS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleReader:
    """Reads examples as items; ValueError names the first that lacks something.

    `label` None is "human", else the field that the program answers with. `group` is the field
    that names an example's document; None: each is of a document of its own.
    """

    student: Student
    label: Label | None = None
    group: str | None = None

    def read(self, rows: Sequence[Any], split: str) -> Items:
        """The examples of trainset (`split` "train") or valset ("val"), in order."""
        if not rows:
            raise ValueError(f"{split}set is empty: it holds the examples that people have rated")
        items = [self._item(row, number, split) for number, row in enumerate(rows)]
        if len({item.human for item in items}) == 1:
            raise ValueError(
                f"{split}set: {self._label_name(rows[0])} is {items[0].human:g} in every example, "
                "so nothing is ranked"
            )
        return Items(tuple(items))

    def _item(self, row: Any, number: int, split: str) -> Item:
        group, given = self.group, row
        where, default = f"{split} example {number}", f"{split}-{number}"
        row = _with_none(row)
        name, system = row.get("id"), row.get("system")
        item_id = default if name is None else str(name)
        label = self._label_name(row)
        try:
            texts = self.student.texts(item_id, row)
            if group is not None and row.get(group) is None:
                raise KeyError(group)
            cell = label(given) if callable(label) else given[label]
        except KeyError as error:
            text = (
                f"{where} has no {error.args[0]!r}; an example has "
                f"{', '.join(self.student.text_names)} and {label} (a rating, or a margin in "
                "[-1, 1]); other names: RankOptimizer(label=..., group=...)"
            )
            raise ValueError(text) from None
        return Item(
            id=item_id,
            document_id=default if group is None else str(row[group]),
            system=None if system is None else str(system),
            texts=texts,
            human=self._number(cell, f"{where} has {label}"),
        )

    def _label_name(self, row: Any) -> Any:
        if self.label is not None:
            return self.label
        answer = self.student.answer_name
        return HUMAN if row.get(HUMAN) is not None or row.get(answer) is None else answer

    def _number(self, cell: Any, where: str) -> float:
        """What a label counts."""
        labels = self.student.labels
        if isinstance(cell, Hashable) and cell in labels:
            return labels[cell]
        number = float(cell) if hasattr(cell, "__float__") else math.nan
        if not math.isfinite(number):
            known = f"; labels are {', '.join(map(str, labels))}" if labels else ""
            raise ValueError(f"{where} {cell!r}, no finite number{known}")
        return self.student.read_number(number)


def rows_of(examples: Iterable[Any]) -> list[Any]:
    """The dspy.Examples or dicts as a list; TypeError for rows that are neither."""
    rows = list(examples)
    for number, row in enumerate(rows):
        if not isinstance(row, dspy.Example | Mapping):
            raise TypeError(
                f"example {number} is a {type(row).__name__}; a dspy.Example or a dict is wanted "
                "(of a DataFrame: frame.to_dict('records'))"
            )
    return rows


def _with_none(row: Any) -> Any:
    """The row with None for NaN, which a missing cell of a table is."""
    missing = {name: None for name, cell in row.items() if isinstance(cell, float) and cell != cell}
    return row.copy(**missing) if isinstance(row, dspy.Example) else {**row, **missing}


def group_field(rows: Sequence[Any]) -> str | None:
    """The field that names an example's document, by the first; None where no field does."""
    names = (name for name in GROUPS if rows and rows[0].get(name) is not None)
    return next(names, None)


def split_by_document(items: Items, seed: int) -> tuple[Items, Items]:
    """Train and dev without a document in common, in the shares of a run (7 to 8)."""
    documents = items.documents
    if len(documents) < FEWEST_DOCUMENTS:
        raise ValueError(
            f"trainset has {len(documents)} documents, and {FEWEST_DOCUMENTS} are the least to "
            "split: give more, or a valset of other documents"
        )
    order = stream(seed, "split").permutation(len(documents))
    n_train = round(len(documents) * FRACTIONS[0] / (FRACTIONS[0] + FRACTIONS[1]))
    train = items.of_documents([documents[index] for index in order[:n_train]])
    dev = items.of_documents([documents[index] for index in order[n_train:]])
    for name, part in (("train", train), ("dev", dev)):
        if np.ptp(part.human) == 0:
            raise ValueError(
                f"the {name} part of trainset is rated {part.human[0]:g} throughout, so nothing is "
                "ranked: give more examples, another seed, or a valset"
            )
    return train, dev


def refuse_overlap(train: Items, dev: Items, group: str | None) -> None:
    """ValueError for documents, or examples, that stand in both."""
    if group is not None:
        known = set(train.documents)
        shared = [name for name in dev.documents if name in known]
        what = f"documents ({group})"
    else:
        places = {tuple(item.texts.values()): item.id for item in train.items}
        shared = [item.id for item in dev.items if tuple(item.texts.values()) in places]
        what = "examples"
    if shared:
        names = ", ".join(shorten(name, 40) for name in shared[:NAMED_IN_ERRORS])
        names += ", ..." if shared[NAMED_IN_ERRORS:] else ""
        raise ValueError(
            f"trainset and valset share {len(shared)} {what}: {names}; what teaches may not "
            "choose: leave valset out, and trainset is split by document, or give others"
        )


def refuse_repeated_ids(parts: Iterable[Items]) -> None:
    """ValueError for an id that two examples have."""
    seen: set[str] = set()
    for item in (item for part in parts for item in part.items):
        if item.id in seen:
            raise ValueError(f"two examples have the id {item.id!r}; give each its own, or none")
        seen.add(item.id)
