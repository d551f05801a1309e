"""A run's labels, split into what teaches and what measures, and its plan, before it asks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from judges import loading
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.labels.splits import split
from judges.labels.types import LabelError
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
from optimize.statistics.correlations import Level
from optimize.tuning.settings import Objective, Settings, on_scale

# The rho of fewer systems' means says too little of a prompt to search by.
FEWEST_SYSTEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What a run learns from, chooses on, and is measured on.

    `measured` are the held-out parts by name, which are looked at once.
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
    """A run before its first question to a model: all that can be checked without one has been."""

    settings: Settings
    subject: Subject
    labels: Labels
    level: Level
    untuned_judge: Judge
    objective: Objective = "spearman"


def prepare(
    settings: Settings, subject: Subject | None = None, rows: Rows | None = None
) -> PreparedRun:
    """Read what is judged and the labels; raises what the user has to mend.

    `subject` stands for a definition in no file, and `rows` for labels in none.
    """
    source: Any = settings.data if rows is None else rows
    how: dict[str, Any] = {"mapping": settings.map, "values": settings.values}
    made = None
    if subject is None and find_subject(settings.subject) is None:
        made = subject_of(
            settings.subject,
            source,
            pairwise=settings.pairwise is not None,
            scale=settings.scale,
            map=settings.map,
            values=settings.values,
        )
    if made is not None:
        (subject, source), how = made, {}
    subject = on_scale(subject or loading.read_subject(settings.subject), settings)
    pairwise = isinstance(subject, Comparison)
    labelled = load_labels(source, subject.name, subject, scale=settings.scale, **how)
    if made is not None:
        note = _note_of(made[0], settings.subject)
        labelled = replace(labelled, notes=(*labelled.notes, note))
    labels = split_labelled(labelled, subject, settings.seed)
    check_level(settings.level, labels.everything, pairs=pairwise)
    if settings.level == "system" and len(labels.train.systems) < FEWEST_SYSTEMS:
        raise SettingsError(
            f"--level system: a judge is tuned to the order of {FEWEST_SYSTEMS} systems or more, "
            f"and {len(labels.train.systems)} teach here; leave --level out"
        )
    level = choose_level(labels.train) if settings.level == "auto" else settings.level
    objective = choose_objective(settings.objective, settings.level, subject, labels.everything)
    if pairwise:
        level = "dataset"
    reasoning = None if settings.reasoning == "auto" else settings.reasoning
    untuned = Judge.of(subject, reasoning=reasoning, lm=settings.lm)
    # What could not be written down at the end is refused before anything is asked.
    origin = {"data": {"name": labelled.name, "sha256": labelled.sha256}, "seed": settings.seed}
    replace(untuned, plan=SamplingPlan(kind="one"), provenance=origin).dumps()
    return PreparedRun(
        settings=settings,
        subject=subject,
        labels=labels,
        level=level,
        untuned_judge=untuned,
        objective=objective,
    )


def _note_of(made: Subject, spec: str) -> str:
    """What a user has to know of a subject that was made of the labels."""
    reads = f"it reads {' and '.join(made.texts)}, and answers "
    if isinstance(made, Comparison):
        reads += "which is better"
    else:
        rating = f"a rating from {made.scale[0]} to {made.scale[-1]} (--scale)"
        reads += " or ".join(made.words or ()) or rating
    if "=" in spec:
        return f"{made.name} is judged by your definition; {reads}"
    return (
        f"{made.name} has no definition, so the judge is only told: {made.definition}; {reads}. "
        f"One line of yours is worth about as much as tuning: --dimension '{made.name}=...'"
    )


def split_labelled(labelled: Labelled, subject: Subject, seed: int) -> Labels:
    """Split labels by document, and by system where there are enough; all have the subject's texts.

    Raises LabelError where people rate all that is learned from alike.
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
    wanted: Objective | Literal["auto"], level: AnyLevel, subject: Subject, items: Items
) -> Objective:
    """Balanced accuracy where people and judge give 0 and 1, at no other level; else rho."""
    on_two = subject.scale == (0, 1) and is_two_valued(items.human)
    fits = on_two and level in ("auto", "dataset")
    if wanted == "balanced" and not fits:
        raise SettingsError(
            "--objective balanced: people's labels and the judge's scale are 0 and 1 (say --scale "
            "0-1), and the level is dataset"
        )
    return ("balanced" if fits else "spearman") if wanted == "auto" else wanted
