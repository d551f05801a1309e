"""Prepare a run without a model: read its labels, split them, and check the settings."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from judges import loading
from judges.dimension import Comparison, Subject
from judges.judge import Judge
from judges.labels.splits import Splits, split
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.protocol import is_decision
from judges.scoring import SamplingPlan
from judges.tables.in_memory import Rows
from optimize.inputs.flags import SettingsError
from optimize.inputs.labelled import (
    AnyLevel,
    Labelled,
    LabelSource,
    check_level,
    find_subject,
    load_labels,
    subject_of,
    words_of,
)
from optimize.items import Items, choose_level, is_two_valued, items_of
from optimize.measuring.tuning_result import HeldOut
from optimize.search.evaluator import Goal
from optimize.statistics.correlations import Level
from optimize.tuning.settings import Objective, Settings, on_scale

# With fewer systems, system-level rho says too little about a prompt for a search to maximise it.
FEWEST_SYSTEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The labels of a run and how they are split.

    Attributes:
        labelled: The labels as they were read.
        everything: All labels on the run's subject, as items.
        train: One half of the labels to learn from; what is found on it is tested on dev.
        dev: The other half; what is found on it is tested on train.
        measured: The held-out splits, on which both judges are measured once.
        splits: The split; None if nothing was held out.
    """

    labelled: Labelled
    everything: Items
    train: Items
    dev: Items
    measured: HeldOut[Items]
    splits: Splits[LabelledSet | LabelledPairs] | None = None

    @property
    def learned(self) -> Items:
        """Train and dev together."""
        return Items((*self.train.items, *self.dev.items))

    @property
    def n_measured(self) -> int:
        return sum(map(len, self.measured.by_name.values()))


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
        """What the search maximises: balanced accuracy, or rho at this level."""
        return "balanced" if self.objective == "balanced" else self.level


def prepare_judge(
    settings: Settings, labels: Labels, untuned_judge: Judge, *, is_choice: bool
) -> PreparedRun:
    """Prepare a run for this judge, and choose the level and the objective.

    "auto" in the settings takes the level and the objective that fit the labels. `is_choice` says
    that the judge chooses between two outputs or two labels. Raises SettingsError or LabelError if
    the settings do not fit the labels.
    """
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

    Args:
        settings: The settings of the run.
        subject: The dimension or comparison; by default, the one that the settings name.
        rows: Labels in memory; by default, the labels are read from `settings.data`.

    Raises:
        SettingsError: The settings contradict each other or the labels.
        LabelError: The labels cannot be read, or there is nothing to learn from them.
    """
    source = settings.labels if rows is None else replace(settings.labels, data=rows)
    notes: tuple[str, ...] = ()
    if subject is None and find_subject(settings.subject) is None:
        pairwise = settings.pairwise is not None
        if new := subject_of(settings.subject, source, pairwise=pairwise):
            subject, labelled = new
            source = LabelSource(data=labelled, scale=settings.scale)
            notes = (_note_on(subject, settings.subject),)
    subject = on_scale(subject or loading.read_subject(settings.subject), settings)
    labelled = load_labels(source, subject.name, subject)
    labelled = replace(labelled, notes=(*labelled.notes, *notes))
    labels = split_labelled(labelled, subject, settings.seed)
    reasoning = None if settings.reasoning == "auto" else settings.reasoning
    if is_decision(settings.lm):  # a decision model writes no text
        reasoning = "none"
    untuned = Judge.of(subject, reasoning=reasoning, lm=settings.lm)
    prepared = prepare_judge(settings, labels, untuned, is_choice=isinstance(subject, Comparison))
    if settings.level == "system" and len(labels.train.systems) < FEWEST_SYSTEMS:
        raise SettingsError(
            f"--level system needs {FEWEST_SYSTEMS} systems or more to learn from, and there are "
            f"{len(labels.train.systems)}; leave --level out"
        )
    # Fail before anything is paid for if the judge could not ask its questions or be saved.
    Judge.of(subject, questions=subject.questions)
    origin = {"data": {"name": labelled.name, "sha256": labelled.sha256}, "seed": settings.seed}
    replace(untuned, plan=SamplingPlan(kind="one"), provenance=origin).dumps()
    return prepared


def _note_on(subject: Subject, argument: str) -> str:
    """A note on a subject that was made from the labels' columns and the flag's argument."""
    description = f"it reads {' and '.join(subject.texts)}, and answers "
    if isinstance(subject, Comparison):
        description += "which is better"
    else:
        rating = f"a rating from {subject.scale[0]} to {subject.scale[-1]} (--scale)"
        description += " or ".join(subject.words or ()) or rating
    if "=" in argument:
        return f"{subject.name} is judged by your definition; {description}"
    return (
        f"{subject.name} has no definition, so the judge is only told: {subject.definition}; "
        f"{description}. A definition of one line helps about as much as tuning: "
        f"--dimension '{subject.name}=...'"
    )


def split_labelled(labelled: Labelled, subject: Subject, seed: int) -> Labels:
    """Split labels by document, and also by system if there are enough systems.

    Raises LabelError if all labels to learn from are equal.
    """
    splits = split(labelled, seed=seed)
    parts = (labelled, splits.train, splits.dev)
    everything, train, dev = (items_of(part, subject.name, subject) for part in parts)
    held_out = HeldOut(splits.test, splits.test_unseen_systems)
    labels = Labels(
        labelled=labelled,
        everything=everything,
        train=train,
        dev=dev,
        measured=held_out.map(lambda part: items_of(part, subject.name, subject)),
        splits=splits,
    )
    if np.ptp(labels.learned.human) == 0:
        splits_text = " in train and dev" if np.ptp(everything.human) else ""
        rating, words = labels.learned.human[0], words_of(labelled, subject.name)
        label = words[int(rating < 1)] if words else f"{rating:g}"
        raise LabelError(
            f"{labelled.name}: every label on {subject.name}{splits_text} is {label}: "
            "there is nothing to learn"
        )
    return labels


def choose_objective(
    setting: Objective | Literal["auto"], level: AnyLevel, subject: Subject, items: Items
) -> Objective:
    """The objective of a run.

    "auto" takes balanced accuracy for labels and a scale of 0 and 1 at dataset level, else
    Spearman's rho. Raises SettingsError if the setting asks for balanced accuracy elsewhere.
    """
    is_binary = subject.scale == (0, 1) and is_two_valued(items.human)
    fits = is_binary and level in ("auto", "dataset")
    if setting == "balanced" and not fits:
        raise SettingsError(
            "--objective balanced needs labels of 0 and 1, a judge with this scale (--scale 0-1), "
            "and the dataset level"
        )
    return ("balanced" if fits else "spearman") if setting == "auto" else setting
