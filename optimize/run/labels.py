"""Human labels for one run: read, checked, and split into train, dev, test and unseen systems."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import data
from data.types import LabelError, LabelledPairs, LabelledSet
from judges.dimension import Comparison, Dimension
from optimize.run.settings import Settings
from optimize.search.items import Items, compared_items, rated_items

# Dev gets most: the choice and the gate rest on it, and train only has to teach.
FRACTIONS = (0.35, 0.40, 0.25)
FEWEST_DOCUMENTS = 3

Labelled = LabelledSet | LabelledPairs


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a run learns from, chooses on, and is measured on."""

    name: str
    sha256: str
    labelled: Labelled
    everything: Items
    train: Items
    dev: Items
    test: Items
    unseen: Items | None
    split: Mapping[str, Any]

    def counts(self) -> dict[str, Any]:
        """The `data` of summary.json."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "n_documents": len(self.everything.documents),
            "n_systems": len(self.everything.systems),
            "n_outputs": len(self.everything),
        }


def read(settings: Settings, subject: Dimension | Comparison) -> Labels:
    """Raises LabelError where the labels cannot carry a run."""
    labelled = load(settings, subject)
    everything = _items(labelled, subject)
    _check(everything, labelled.name, subject.name)
    by: Any = settings.split or data.default_by(labelled)
    # Any, since mypy solves split's type variable for one kind of labels at a time.
    whole: Any = labelled
    splits = data.split(whole, by=by, seed=settings.seed, fractions=FRACTIONS)
    unseen = splits.test_unseen_systems
    parts = {
        name: _items(part, subject)
        for name, part in (("train", splits.train), ("dev", splits.dev), ("test", splits.test))
    }
    for name, part in parts.items():
        if not len(part):
            raise LabelError(
                f"{labelled.name}: {len(everything.documents)} documents leave none for {name}; "
                "more are needed"
            )
    return Labels(
        name=labelled.name,
        sha256=labelled.sha256,
        labelled=labelled,
        everything=everything,
        **parts,
        unseen=_items(unseen, subject) if unseen is not None else None,
        split={
            "by": by,
            "seed": settings.seed,
            "sha256": splits.sha256,
            "held_out_systems": list(splits.held_out_systems),
            "n_unused": splits.n_unused,
            **splits.ids(),
        },
    )


def load(settings: Settings, subject: Dimension | Comparison) -> Labelled:
    """The labels on this subject alone; without --data, the starter set."""
    mapping = dict(settings.map) or None
    if isinstance(subject, Comparison):
        if settings.data is None:
            return data.starter_pairs()
        return data.read_pairs(settings.data, mapping=mapping)
    if settings.data is None:
        whole = data.starter()
    else:
        scale = (float(subject.scale[0]), float(subject.scale[-1]))
        whole = data.read_labels(settings.data, mapping=mapping, scales={subject.name: scale})
    rated = tuple(output for output in whole.outputs if output.ratings.get(subject.name))
    if not rated:
        known = sorted({name for output in whole.outputs for name in output.ratings})
        raise LabelError(
            f"{whole.name}: no output has a rating on {subject.name!r}; there are ratings on "
            f"{', '.join(known) or 'nothing'}: name the column with --map {subject.name}=COLUMN"
        )
    return replace(whole, outputs=rated)


def _items(labelled: Labelled, subject: Dimension | Comparison) -> Items:
    if isinstance(labelled, LabelledPairs):
        if not isinstance(subject, Comparison):
            raise LabelError(f"{labelled.name}: holds pairs, and {subject.name} rates outputs")
        return compared_items(labelled, subject)
    if isinstance(subject, Comparison):
        raise LabelError(f"{labelled.name}: holds outputs, and {subject.name} compares two")
    return rated_items(labelled, subject)


def _check(items: Items, name: str, subject: str) -> None:
    documents = len(items.documents)
    if documents < FEWEST_DOCUMENTS:
        raise LabelError(
            f"{name}: {documents} document{'s' * (documents != 1)}; train, dev and test need one "
            f"each at the very least, and some tens to show a gain"
        )
    if np.ptp(items.human) == 0:
        raise LabelError(
            f"{name}: every rating on {subject} is {items.human[0]:g}: there is no order to learn"
        )
