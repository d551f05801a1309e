"""Human labels for one run: read, split, and checked before its first question to a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import data
from data.types import LabelError, LabelledPairs, LabelledSet
from judges.dimension import Comparison, Dimension, Subject
from judges.judge import Judge
from judges.scoring import SamplingPlan
from optimize.items import Items, compared_items, rated_items
from optimize.run.settings import Settings, SettingsError, label_bounds
from optimize.run.settings import read as read_subject
from optimize.search.objective import Level, choose_level

# What people are commonly given, the narrowest first.
USUAL_SCALES = ((0, 1), (1, 3), (-1, 1), (1, 4), (1, 5), (1, 7), (1, 10), (0, 10), (0, 100))

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
    if np.ptp(everything.human) == 0:
        raise LabelError(
            f"{labelled.name}: every rating on {subject.name} is {everything.human[0]:g}: there is "
            "no order to learn"
        )
    by: Any = settings.split or data.default_by(labelled)
    # Any, since mypy solves split's type variable for one kind of labels at a time.
    any_labelled: Any = labelled
    splits = data.split(any_labelled, by=by, seed=settings.seed)
    unseen = splits.test_unseen_systems
    return Labels(
        name=labelled.name,
        sha256=labelled.sha256,
        labelled=labelled,
        everything=everything,
        train=_items(splits.train, subject),
        dev=_items(splits.dev, subject),
        test=_items(splits.test, subject),
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
        return data.read_pairs(settings.data, mapping=mapping, texts=tuple(subject.inputs))
    if settings.data is None:
        labelled = data.starter()
    else:
        labelled = read_rated(settings.data, subject, settings.scale, mapping=mapping)
    return data.with_ratings(labelled, subject.name).labelled


def read_rated(
    path: str,
    subject: Dimension,
    scale: str | None,
    *,
    mapping: Mapping[str, str | Sequence[str]] | None = None,
    annotations: str | None = None,
) -> LabelledSet:
    """Labelled outputs with ratings on one dimension; LabelError says how to state their scale."""
    bounds = label_bounds(subject, scale)
    name = subject.name

    def labels(bounds: tuple[float, float] | None) -> LabelledSet:
        return data.read_labels(
            path,
            mapping=mapping,
            dimensions=[name],
            scales=None if bounds is None else {name: bounds},
            texts=tuple(subject.inputs),
            annotations=annotations,
        )

    try:
        return labels(bounds)
    except LabelError as error:
        if not error.problems or any(problem.kind != "off-scale" for problem in error.problems):
            raise
        ratings = [
            rating for output in labels(None).outputs for rating in output.ratings.get(name, ())
        ]
        raise LabelError(f"{error}; {_scale_advice(ratings)}", error.problems) from error


def _scale_advice(ratings: list[float]) -> str:
    """Which scale to state, by what the file holds."""
    low, high = min(ratings), max(ratings)
    range_text = f"ratings run from {low:g} to {high:g}; if that is right, "
    whole_numbers = all(rating.is_integer() for rating in ratings)
    first, last = next(
        (scale for scale in USUAL_SCALES if scale[0] <= low and high <= scale[1]), (0, 0)
    )
    # A judge that says 0 or 1 would tie what fractions tell apart.
    if last - first > 2 or (whole_numbers and first < last):
        ends = f"{first}{':' if first < 0 else '-'}{last}"
        return f"{range_text}add --scale {ends} (or --scale any, and the judge keeps its own)"
    return (
        f"{range_text}add --scale any: the judge keeps its own, and only the labels' order counts"
    )


def _items(labelled: Labelled, subject: Dimension | Comparison) -> Items:
    if isinstance(labelled, LabelledPairs):
        if not isinstance(subject, Comparison):
            raise LabelError(f"{labelled.name}: holds pairs, and {subject.name} rates outputs")
        return compared_items(labelled, subject)
    if isinstance(subject, Comparison):
        raise LabelError(f"{labelled.name}: holds outputs, and {subject.name} compares two")
    return rated_items(labelled, subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run before its first question to a model: all that can be checked without one has been."""

    settings: Settings
    subject: Subject
    labels: Labels
    level: Level


def prepare(settings: Settings) -> PreparedRun:
    """Read what is judged and the labels; raises what the user has to mend."""
    subject = read_subject(settings)
    pairwise = isinstance(subject, Comparison)
    labels = read(settings, subject)
    level = choose_level(labels.train) if settings.level == "auto" else settings.level
    if pairwise and settings.level not in ("auto", "dataset"):
        raise SettingsError(f"--level {level}: pairs have one margin each; only dataset fits them")
    # What could not be written down at the end is refused before anything is asked.
    data = {"name": labels.name, "sha256": labels.sha256}
    origin = {"data": data, "seed": settings.seed}
    seed = Judge.of(subject, lm=settings.lm)
    replace(seed, plan=SamplingPlan(kind="one"), provenance=origin).dumps()
    return PreparedRun(
        settings=settings,
        subject=subject,
        labels=labels,
        level="dataset" if pairwise else level,
    )
