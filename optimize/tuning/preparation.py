"""Prepare a tuning run without a model: read and split its labels, and check its settings."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from dspy_judges.errors import SettingsError, option_name
from judges.dimension import Dimension, Subject
from judges.judge import Judge
from judges.labels.splits import Splits, split
from judges.labels.types import LabelError, LabelledPairs, LabelledSet
from judges.prompt import Prompt
from judges.protocol import is_decision_model
from judges.scoring import SamplingPlan
from judges.tables.in_memory import Rows
from optimize.figures.by_judge import HeldOut
from optimize.inputs.flags import fit_subject
from optimize.inputs.labelled import (
    AnyLabels,
    LabelSource,
    LevelOrAuto,
    check_level,
    load_labels,
    verdict_words,
)
from optimize.inputs.subjects import find_subject, subject_from_labels
from optimize.items import Items, choose_level, is_two_valued, make_items
from optimize.search.problem import Goal
from optimize.statistics.correlations import Level
from optimize.tuning.settings import Objective, Settings


@dataclass(kw_only=True)
class PreparedRun:
    """A tuning run whose settings and labels were read and checked, before any model is called.

    `labelled_items` are the labels as they were read, and `all_items` the same labels as items. The
    search learns from `train` and `dev`; the untuned and the tuned judge are measured once on
    `held_out`. `splits` has each split's labels as they were read; None if no labels are held out.
    If `has_dataset_level_only`, the dataset level is the only level at which rho is computed.

    Raises SettingsError if the level or the objective in the settings does not fit the labels.
    """

    settings: Settings
    subject: Subject
    untuned_prompt: Prompt
    has_dataset_level_only: bool
    labelled_items: AnyLabels
    all_items: Items
    train: Items
    dev: Items
    held_out: HeldOut[Items]
    splits: Splits[LabelledSet | LabelledPairs] | None = None
    level: Level = field(init=False)
    objective: Objective = field(init=False)

    def __post_init__(self) -> None:
        level, objective = self.settings.level, self.settings.objective
        check_level(level, self.all_items, are_pairs=self.has_dataset_level_only)
        self.objective = choose_objective(objective, level, self.subject, self.all_items)
        self.level = choose_level(self.train) if level == "auto" else level
        if self.has_dataset_level_only:
            self.level = "dataset"

    @property
    def goal(self) -> Goal:
        """The metric that the search maximises: balanced accuracy, or rho at the run's level."""
        return "balanced" if self.objective == "balanced" else self.level

    @property
    def train_and_dev(self) -> Items:
        """All labels to learn from: train and dev together."""
        return self.train + self.dev

    @property
    def n_held_out(self) -> int:
        return sum(map(len, self.held_out.by_name.values()))


def prepare_run(
    settings: Settings, subject: Subject | None = None, rows: Rows | None = None
) -> PreparedRun:
    """Read the subject and the labels of a run, split the labels, and make the untuned judge.

    Without `subject` and `rows`, which are labels in memory, the settings name both. Raises
    SettingsError if settings contradict the labels, and LabelError if the labels cannot be used.
    """
    label_source = settings.label_source
    if rows is not None:
        label_source = replace(label_source, data=rows)
    subject_text, is_pairwise = settings.subject_text, settings.pairwise is not None
    notes = []
    subject = subject or find_subject(subject_text)
    if subject is None:
        subject, labels = subject_from_labels(subject_text, label_source, is_pairwise=is_pairwise)
        label_source = LabelSource(data=labels, scale=settings.scale)
        notes = [_new_judge_note(subject, subject_text)]
    subject = fit_subject(subject, settings.scale, is_pairwise=is_pairwise)
    labelled_items = load_labels(label_source, subject.name, subject)
    labelled_items = replace(labelled_items, notes=(*labelled_items.notes, *notes))
    splits = split(labelled_items, seed=settings.seed)
    reasoning = None if settings.reasoning == "auto" else settings.reasoning
    if is_decision_model(settings.lm):  # a decision model cannot write its reasoning
        reasoning = "none"
    judge = Judge.of(subject, reasoning=reasoning, lm=settings.lm)
    as_items = partial(make_items, dimension=subject.name, subject=subject)
    run = PreparedRun(
        settings=settings,
        subject=subject,
        untuned_prompt=judge.prompt,
        has_dataset_level_only=is_pairwise,
        labelled_items=labelled_items,
        all_items=as_items(labelled_items),
        train=as_items(splits.train),
        dev=as_items(splits.dev),
        held_out=HeldOut(splits.test, splits.test_unseen_systems).map(as_items),
        splits=splits,
    )
    _check_labels_differ(run)
    # If the judge could not ask its questions or could not be saved, raise the error now, before
    # any call is paid for.
    Judge.of(subject, questions=subject.questions)
    provenance = {"data": {"name": labelled_items.name}}
    replace(judge, plan=SamplingPlan(kind="one"), provenance=provenance).dumps()
    return run


def _check_labels_differ(run: PreparedRun) -> None:
    labels = run.train_and_dev.human
    if np.ptp(labels) > 0:
        return
    splits_text = " in train and dev" if np.ptp(run.all_items.human) else ""
    label_words = verdict_words(run.labelled_items, run.subject.name)
    label_text = label_words[0 if labels[0] == 1 else 1] if label_words else f"{labels[0]:g}"
    raise LabelError(
        f"{run.labelled_items.name}: every label on {run.subject.name}{splits_text} is "
        f"{label_text}: there is nothing to learn"
    )


def _new_judge_note(subject: Subject, subject_text: str) -> str:
    """Return a note on the definition, texts and answers of a judge made from the labels."""
    answers_text, setting_name = "which is better", "pairwise"
    if isinstance(subject, Dimension):
        lowest, highest = subject.scale[0], subject.scale[-1]
        rating_text = f"a rating from {lowest} to {highest} ({option_name('scale')})"
        answers_text, setting_name = " or ".join(subject.words or [rating_text]), "dimension"
    task_text = f"it reads {' and '.join(subject.texts)}, and answers {answers_text}"
    if "=" in subject_text:
        return f"{subject.name} is judged by your definition; {task_text}"
    return (
        f"{subject.name} has no definition, so the judge is only told: {subject.definition}; "
        f"{task_text}. A definition of one line helps about as much as tuning: "
        + option_name(setting_name, f"'{subject.name}=...'")
    )


def choose_objective(
    setting: Objective | Literal["auto"], level: LevelOrAuto, subject: Subject, items: Items
) -> Objective:
    """Return the objective of a run; for "auto", balanced accuracy if it suits the labels."""
    has_verdicts = subject.scale == (0, 1) and is_two_valued(items.human)
    may_be_balanced = has_verdicts and level in ("auto", "dataset")
    if setting == "balanced" and not may_be_balanced:
        raise SettingsError(
            f"{option_name('objective', 'balanced')} needs labels of 0 and 1, a judge with the "
            f"scale 0-1 ({option_name('scale', '0-1')}), and the dataset level"
        )
    if setting != "auto":
        return setting
    return "balanced" if may_be_balanced else "spearman"
