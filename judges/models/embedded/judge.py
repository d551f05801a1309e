"""A task made ready to judge by: roles, emphases updated by demos, and the scale."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges.models.embedded import scale
from judges.models.embedded.emphasis import emphases
from judges.models.embedded.facets import Vector
from judges.models.embedded.reading import facet_scores
from judges.models.embedded.regression import update
from judges.models.embedded.request import Demo, Task
from judges.models.embedded.roles import Roles, read_roles

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
    weights: Vector
    level: float

    def opinion(self, texts: Mapping[str, str]) -> Opinion:
        """Judge one text, or two against each other."""
        facets = _facets(self.roles, texts, compares=self.compares)
        parts = self.weights * facets
        latent = float(parts.sum()) + self.level
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
    compares = task.compares
    roles = read_roles(task.reads, compares=compares)
    prior = emphases(task)
    rows, ratings, sources = [], [], []
    for demo in demos:
        told = str(demo.get(field.name, "")).strip()
        chosen = [place for place, choice in enumerate(field.choices) if str(choice) == told]
        if not chosen:
            continue
        rows.append(_facets(roles, demo, compares=compares))
        ratings.append(_latent(field.choices, chosen[0], compares=compares))
        shared = [one.name for one in task.reads if one.name not in roles.candidates]
        sources.append(tuple(demo.get(name, "") for name in shared) if shared else len(rows))
    facets = np.array(rows).reshape(len(rows), len(prior))
    weights, level = update(
        prior,
        facets,
        np.array(ratings),
        level=None if compares else 0.0,
        sources=() if compares else sources,
    )
    return Judge(task, roles, compares, weights, level)


def _latent(choices: Sequence[object], chosen: int, *, compares: bool) -> float:
    if compares:
        return CHOSEN_BY if chosen == 0 else -CHOSEN_BY
    return scale.latent_of(chosen, range(len(choices)))


def _facets(roles: Roles, texts: Mapping[str, str], *, compares: bool) -> Vector:
    if not roles.candidates:
        return np.zeros_like(facet_scores(roles, texts, ""))
    scores = [facet_scores(roles, texts, name) for name in roles.candidates]
    return np.asarray(scores[0] - scores[1]) if compares and len(scores) > 1 else scores[0]
