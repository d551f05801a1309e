"""A task made ready to judge by: roles, emphases updated by demos, and the scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges.models.embedded import scale
from judges.models.embedded.emphasis import emphases
from judges.models.embedded.facets import NAMES, Vector
from judges.models.embedded.likeness import Likeness, read_likeness
from judges.models.embedded.reading import facet_scores, facets_and_traits
from judges.models.embedded.regression import SIGNS, Lesson, update
from judges.models.embedded.request import Demo, Task
from judges.models.embedded.roles import Roles, read_roles
from judges.models.embedded.traits import KINDS
from judges.prompt import MOST_DEMOS

# How sure a difference of one latent unit makes a choice between two.
SURENESS = 2.2
# A demo's choice between two says that the better is about this much better.
CHOSEN_BY = 0.8


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the judge thinks: probabilities of the choices, and each facet's part in it."""

    probabilities: tuple[float, ...]
    latent: float
    parts: Vector
    compares: bool


@dataclass(frozen=True, slots=True)
class Judge:
    """One task, ready for any texts."""

    task: Task
    roles: Roles
    compares: bool
    lesson: Lesson
    # The texts of the demos; None where there are none.
    likeness: Likeness | None

    @property
    def weights(self) -> Vector:
        """The weight of each facet, for a text that is like none of the demos."""
        return self.lesson.weights

    def opinion(self, texts: Mapping[str, str]) -> Opinion:
        """Judge one text, or two against each other."""
        facets, traits = _measured(self.roles, texts, finely=self.likeness is not None)
        told, weights = np.zeros(len(facets)), np.tile(self.weights, (len(facets), 1))
        if self.likeness is not None:
            likeness = self.likeness.to(traits)
            told = likeness @ self.lesson.told
            weights = weights + likeness @ self.lesson.moves
        signs = SIGNS[: len(facets)]
        parts = signs @ (weights * facets)
        latent = float(parts.sum() + signs @ told) + self.lesson.level
        if not self.compares:
            field = self.task.choice
            assert field is not None
            assert field.choices is not None
            chances = scale.probabilities(latent, len(field.choices))
            return Opinion(tuple(chances), latent, parts, False)
        first = float(1 / (1 + np.exp(-SURENESS * latent)))
        return Opinion((first, 1 - first), latent, parts, True)


def make_judge(task: Task, demos: Sequence[Demo]) -> Judge:
    """Read roles and emphases off the task, and update them by its demos."""
    field = task.choice
    assert field is not None
    assert field.choices is not None
    roles = read_roles(task.reads, compares=task.compares)
    prior = emphases(task)
    choices = [str(choice) for choice in field.choices]
    told = [(demo, str(demo.get(field.name, "")).strip()) for demo in demos]
    valid = [(demo, choices.index(answer)) for demo, answer in told if answer in choices]
    if not valid or not roles.candidates:
        level = None if task.compares else 0.0
        lesson = update(prior, np.zeros((0, 1, len(prior))), np.zeros(0), level=level)
        return Judge(task, roles, task.compares, lesson, None)
    return _taught(task, roles, prior, _spread(valid))


def _taught(task: Task, roles: Roles, prior: Vector, demos: Sequence[tuple[Demo, int]]) -> Judge:
    field, compares = task.choice, task.compares
    assert field is not None
    assert field.choices is not None
    measured = [_measured(roles, demo, finely=True) for demo, _ in demos]
    likeness = read_likeness(np.concatenate([traits for _, traits in measured]), KINDS)
    n_choices = len(field.choices)
    shared = [one.name for one in task.reads if one.name not in roles.candidates]
    lesson = update(
        prior,
        np.array([facets for facets, _ in measured]),
        np.array([_latent(n_choices, chosen, compares=compares) for _, chosen in demos]),
        level=None if compares else 0.0,
        sources=[
            tuple(demo.get(name, "") for name in shared) if shared else place
            for place, (demo, _) in enumerate(demos)
        ]
        if not compares
        else (),
        alike=likeness.among(),
    )
    return Judge(task, roles, compares, lesson, likeness)


def _spread(demos: Sequence[tuple[Demo, int]]) -> Sequence[tuple[Demo, int]]:
    """All demos, or as many as can be learned from in time, taken evenly.

    Learning takes the cube of their number.
    """
    if len(demos) <= MOST_DEMOS:
        return demos
    return [demos[place * len(demos) // MOST_DEMOS] for place in range(MOST_DEMOS)]


def _latent(n_choices: int, chosen: int, *, compares: bool) -> float:
    if compares:
        return CHOSEN_BY if chosen == 0 else -CHOSEN_BY
    return scale.latent_of(chosen, range(n_choices))


def _measured(roles: Roles, texts: Mapping[str, str], *, finely: bool) -> tuple[Vector, Vector]:
    """Facets and traits of the judged texts, a row for each; traits only if asked for."""
    if not roles.candidates:
        return np.zeros((1, len(NAMES))), np.zeros((0, 0))
    if not finely:
        return np.array([facet_scores(roles, texts, name) for name in roles.candidates]), np.zeros(
            (0, 0)
        )
    both = [facets_and_traits(roles, texts, name) for name in roles.candidates]
    return np.array([one for one, _ in both]), np.array([one for _, one in both])
