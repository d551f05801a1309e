"""Prepare a run: read its labels, split them, and check all that needs no model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from judges import loading
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.labels.splits import split
from judges.labels.types import LabelError
from judges.protocol import is_decision
from judges.scoring import SamplingPlan
from judges.tables.in_memory import Rows
from optimize.inputs.flags import SettingsError
from optimize.inputs.labelled import (
    AnyLevel,
    Labelled,
    check_level,
    find_subject,
    load_labels,
    subject_of,
    words_of,
)
from optimize.items import Items, choose_level, is_two_valued, items_of
from optimize.search.evaluator import Goal
from optimize.statistics.correlations import Level
from optimize.tuning.settings import Objective, Settings, on_scale

# With fewer systems, the rho of their means says too little of a prompt to search by it.
FEWEST_SYSTEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The labels of a run and how they are split.

    Attributes:
        labelled: The labels as they were read.
        everything: All of them, on the run's subject.
        train: One half of what teaches; the search on it is tested on dev.
        dev: The other half; the search on it is tested on train.
        measured: The held-out parts by name, which are looked at once.
        split: The content of splits.json.
    """

    labelled: Labelled
    everything: Items
    train: Items
    dev: Items
    measured: Mapping[str, Items]
    split: Mapping[str, Any]

    @property
    def learned(self) -> Items:
        """Train and dev together."""
        return Items((*self.train.items, *self.dev.items))


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRun:
    """A run that has passed every check that needs no model."""

    settings: Settings
    subject: Subject
    labels: Labels
    level: Level
    untuned_judge: Judge
    objective: Objective = "spearman"

    @property
    def goal(self) -> Goal:
        """What the search maximises."""
        return "balanced" if self.objective == "balanced" else self.level


def at_goal(
    settings: Settings, labels: Labels, untuned_judge: Judge, *, is_choice: bool
) -> PreparedRun:
    """A run of this judge, at the level and objective of the settings, else of the labels."""
    check_level(settings.level, labels.everything, pairs=is_choice)
    level = choose_level(labels.train) if settings.level == "auto" else settings.level
    subject = untuned_judge.subject
    return PreparedRun(
        settings=settings,
        subject=subject,
        labels=labels,
        level="dataset" if is_choice else level,
        untuned_judge=untuned_judge,
        objective=choose_objective(settings.objective, settings.level, subject, labels.everything),
    )


def prepare(
    settings: Settings, subject: Subject | None = None, rows: Rows | None = None
) -> PreparedRun:
    """Read the subject and the labels, split them, and make the untuned judge.

    `subject` is what is judged, where no setting names it, and `rows` are labels in memory.
    """
    source: Any = settings.data if rows is None else rows
    how: dict[str, Any] = {"values": settings.values, "annotations": settings.annotations}
    made, notes = None, tuple[str, ...]()
    if subject is None and find_subject(settings.subject) is None:
        made = subject_of(
            settings.subject,
            source,
            pairwise=settings.pairwise is not None,
            scale=settings.scale,
            map=settings.map,
            **how,
        )
    if made:
        (subject, source), how = made, {}
        notes = (_note_of(subject, settings.subject),)
    else:
        how["mapping"] = settings.map
    subject = on_scale(subject or loading.read_subject(settings.subject), settings)
    labelled = load_labels(source, subject.name, subject, scale=settings.scale, **how)
    labelled = replace(labelled, notes=(*labelled.notes, *notes))
    labels = split_labelled(labelled, subject, settings.seed)
    reasoning = None if settings.reasoning == "auto" else settings.reasoning
    if is_decision(settings.lm):  # which writes no text
        reasoning = "none"
    untuned = Judge.of(subject, reasoning=reasoning, lm=settings.lm)
    prepared = at_goal(settings, labels, untuned, is_choice=isinstance(subject, Comparison))
    if settings.level == "system" and len(labels.train.systems) < FEWEST_SYSTEMS:
        raise SettingsError(
            f"--level system: a judge is tuned to the order of {FEWEST_SYSTEMS} systems or more, "
            f"and {len(labels.train.systems)} teach here; leave --level out"
        )
    # A judge that could not be asked, or saved at the end, is refused before anything is paid for.
    Judge.of(subject, questions=subject.questions)
    origin = {"data": {"name": labelled.name, "sha256": labelled.sha256}, "seed": settings.seed}
    replace(untuned, plan=SamplingPlan(kind="one"), provenance=origin).dumps()
    return prepared


def _note_of(subject: Subject, spec: str) -> str:
    """A note on the subject that was made from the labels' columns."""
    reads = f"it reads {' and '.join(subject.texts)}, and answers "
    if isinstance(subject, Comparison):
        reads += "which is better"
    else:
        rating = f"a rating from {subject.scale[0]} to {subject.scale[-1]} (--scale)"
        reads += " or ".join(subject.words or ()) or rating
    if "=" in spec:
        return f"{subject.name} is judged by your definition; {reads}"
    return (
        f"{subject.name} has no definition, so the judge is only told: {subject.definition}; "
        f"{reads}. One line of yours is worth about as much as tuning: "
        f"--dimension '{subject.name}=...'"
    )


def split_labelled(labelled: Labelled, subject: Subject, seed: int) -> Labels:
    """Split labels by document, and by system where there are enough systems.

    Raises LabelError if all labels that teach are the same.
    """
    # Any, since mypy solves split's type variable for one kind of labels at a time.
    any_labelled: Any = labelled
    splits = split(any_labelled, seed=seed)
    everything, train, dev = (
        items_of(part, subject.name, subject) for part in (labelled, splits.train, splits.dev)
    )
    held_out = {"test": splits.test, "test_unseen_systems": splits.test_unseen_systems}
    labels = Labels(
        labelled=labelled,
        everything=everything,
        train=train,
        dev=dev,
        measured={
            name: items_of(part, subject.name, subject)
            for name, part in held_out.items()
            if part is not None
        },
        split={
            "by": splits.by,
            "seed": seed,
            "sha256": splits.sha256,
            "held_out_systems": list(splits.held_out_systems),
            "n_unused": splits.n_unused,
            **splits.ids(),
        },
    )
    if np.ptp(labels.learned.human) == 0:
        where = " in train and dev" if np.ptp(everything.human) else ""
        rating, words = labels.learned.human[0], words_of(labelled, subject.name)
        label = words[int(rating < 1)] if words else f"{rating:g}"
        raise LabelError(
            f"{labelled.name}: every label on {subject.name}{where} is {label}: "
            "there is nothing to learn"
        )
    return labels


def choose_objective(
    setting: Objective | Literal["auto"], level: AnyLevel, subject: Subject, items: Items
) -> Objective:
    """Balanced accuracy for labels of 0 and 1 at dataset level, else rho; SettingsError."""
    is_binary = subject.scale == (0, 1) and is_two_valued(items.human)
    fits = is_binary and level in ("auto", "dataset")
    if setting == "balanced" and not fits:
        raise SettingsError(
            "--objective balanced: people's labels and the judge's scale are 0 and 1 (say --scale "
            "0-1), and the level is dataset"
        )
    return ("balanced" if fits else "spearman") if setting == "auto" else setting
