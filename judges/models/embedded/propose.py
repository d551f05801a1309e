"""Propose a better instruction: find the facets that tell misplaced texts apart, and name them."""

import random

import numpy as np

from judges.models.embedded.emphasis import emphases, instruction_shares
from judges.models.embedded.facets import Vector
from judges.models.embedded.lessons import Lessons
from judges.models.embedded.request import Task
from judges.models.embedded.wording import compose

# The ridge of the regression of gaps on facets: few, extreme texts say little of any one facet.
RIDGE = 12.0
# How far to go from the emphases that were, in parts of their length.
STEPS = (0.25, 0.5, 0.9)
NOISE = 0.5
ATTEMPTS = 12
# An emphasis this far below 0, in parts of the largest, is told to be ignored.
IGNORED = -0.35


def propose(lessons: Lessons, rng: random.Random, temperature: float) -> str:
    """One revised instruction; other draws of `rng` give others, none of them tried before."""
    tried = {_folded(lessons.current), *(_folded(text) for text, _ in lessons.tried)}
    text = ""
    for _ in range(ATTEMPTS):
        text = _draw(lessons, rng, temperature)
        if _folded(text) not in tried:
            break
        temperature = max(temperature, 0.5) * 1.3
    return text


def _draw(lessons: Lessons, rng: random.Random, temperature: float) -> str:
    base = _base(lessons, rng, temperature)
    task = Task(lessons.task.reads, lessons.task.writes, base, "ours")
    before = emphases(task)
    direction = _unit(_from_mistakes(lessons)) + 0.5 * _unit(_from_history(lessons))
    chance = np.random.default_rng(rng.getrandbits(64))
    noise = chance.normal(size=len(before)) * (0.3 + np.abs(before) / np.abs(before).max())
    if len(lessons.gaps) > 1:
        # What no text here shows cannot be asked for.
        noise *= lessons.facets.std(axis=0) > 0
    direction = _unit(direction) + NOISE * temperature * _unit(noise)
    step = rng.choice(STEPS) if temperature > 0 else STEPS[1]
    wanted = before + step * float(np.linalg.norm(before)) * _unit(direction)
    shares = instruction_shares(task, wanted)
    most = float(shares.max())
    if most <= 0:
        shares, most = before, float(before.max())
    keep = np.where(shares < IGNORED * most, shares, np.maximum(shares, 0.0))
    return compose(base, keep, rng, compares=task.compares)


def _base(lessons: Lessons, rng: random.Random, temperature: float) -> str:
    """The instruction to start from: the current one, or now and then the best so far."""
    if not lessons.tried:
        return lessons.current
    best = max(lessons.tried, key=lambda one: one[1])[0]
    return (
        best if not lessons.current or (temperature > 0 and rng.random() < 0.5) else lessons.current
    )


def _from_mistakes(lessons: Lessons) -> Vector:
    """Which facets go with texts that people think better of than the judge does."""
    if not len(lessons.gaps):
        return np.zeros(lessons.facets.shape[1])
    # Levels within a document are known by place alone: only differences count.
    columns = lessons.facets - lessons.facets.mean(axis=0)
    gaps = lessons.gaps - lessons.gaps.mean()
    gain = np.linalg.solve(columns @ columns.T + RIDGE * np.eye(len(gaps)), gaps)
    return np.asarray(columns.T @ gain)


def _from_history(lessons: Lessons) -> Vector:
    """Which emphases went with a higher rho among the instructions tried."""
    size = lessons.facets.shape[1]
    if len(lessons.tried) < 3:
        return np.zeros(size)
    rows = np.array(
        [
            emphases(Task(lessons.task.reads, lessons.task.writes, text, "ours"))
            for text, _ in lessons.tried
        ]
    )
    reached = np.array([rho for _, rho in lessons.tried])
    reached = reached - reached.mean()
    rows = rows - rows.mean(axis=0)
    gain = np.linalg.solve(rows @ rows.T + 0.1 * np.eye(len(rows)), reached)
    return np.asarray(rows.T @ gain)


def _unit(vector: Vector) -> Vector:
    size = float(np.linalg.norm(vector))
    return vector / size if size > 0 else vector


def _folded(text: str) -> str:
    return " ".join(text.lower().split())
