"""Propose a better instruction: find the facets that tell misplaced texts apart, and name them."""

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from judges.models.embedded.emphasis import compose, emphases, instruction_shares
from judges.models.embedded.facets import NAMES, Vector, facets_of
from judges.models.embedded.request import Task, read_described_task, read_roles
from judges.prompt import Field

# The ridge of the regression of gaps on facets: few, extreme texts say little of any one facet.
RIDGE = 12.0
HISTORY_RIDGE = 0.1
# How far to go from the emphases that were, in parts of their length.
STEPS = (0.25, 0.5, 0.9)
NOISE = 0.5
ATTEMPTS = 12
# An emphasis this far below 0, in parts of the largest, is asked to be ignored.
IGNORED = -0.35
_FENCED = re.compile(r"```\w*\n?(.*?)```", re.DOTALL)
_CURRENT = re.compile(r"instruction")
_HISTORY = re.compile(r"histor|previous|tried|past")
_TASK = re.compile(r"\btask\b|description")


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a proposal is made from.

    `facets` (n, facets) and `gaps` (n,) are of the misplaced texts: a gap is positive where people
    think better of a text than the judge does. `history` has instructions and what each reached.
    """

    instruction: str
    task: Task
    facets: Vector
    gaps: Vector
    history: tuple[tuple[str, float], ...]


def read_feedback(texts: Mapping[str, str]) -> Feedback:
    """Read our proposer's prompt, or any other that shows an instruction to improve."""
    fields = [(name.lower(), text) for name, text in texts.items()]
    instructions = (
        text.strip() for name, text in fields if _CURRENT.search(name) and not _HISTORY.search(name)
    )
    task = read_described_task(next((text for name, text in fields if _TASK.search(name)), ""))
    rows = [row for text in texts.values() for row in _json_lines(text)]
    facets, gaps = _measure(task, rows)
    history = tuple(
        (row["instruction"], numbers[0])
        for row in rows
        if isinstance(row.get("instruction"), str) and (numbers := _numbers(row, "rho"))
    )
    return Feedback(next(instructions, ""), task, facets, gaps, history)


def read_fenced_feedback(content: str) -> Feedback:
    """Read a prompt without fields, where the instruction stands in the first fenced block."""
    fenced = _FENCED.search(content)
    instruction = fenced[1].strip() if fenced else ""
    return read_feedback({"current_instruction": instruction, "mistakes": content})


def _json_lines(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand on lines of their own."""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("{") and line.endswith("}"):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                yield row


def _measure(task: Task, rows: Sequence[Mapping[str, Any]]) -> tuple[Vector, Vector]:
    measured, gaps = [], []
    for row in rows:
        gap, texts = _gap(row), row.get("texts")
        if gap is None or not isinstance(texts, dict) or not (texts or task.inputs):
            continue
        texts = {str(name): str(text) for name, text in texts.items()}
        compares = "people_margin" in row
        fields = [Field(name=name, description=name, role="input") for name in texts]
        roles = read_roles(task.inputs or fields, compares=compares)
        facets = [facets_of(roles, texts, name) for name in roles.candidates]
        measured.append(facets[0] - facets[1] if compares and len(facets) > 1 else facets[0])
        gaps.append(gap)
    return np.array(measured).reshape(len(gaps), len(NAMES)), np.array(gaps)


def _gap(row: Mapping[str, Any]) -> float | None:
    """How much better people think of a text than the judge does, or of A against B."""
    of = row.get("of")
    places = _numbers(row, "judge_place", "people_place")
    if places and isinstance(of, int | float) and of > 0:
        return (places[0] - places[1]) / of
    margins = _numbers(row, "judge_margin", "people_margin")
    return (margins[1] - margins[0]) / 2 if margins else None


def _numbers(row: Mapping[str, Any], *names: str) -> list[float]:
    values = [row.get(name) for name in names]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return numbers if len(numbers) == len(names) else []


def propose(feedback: Feedback, rng: random.Random, temperature: float) -> str:
    """One revised instruction; other draws of `rng` give others, none of them tried before."""
    tried = {_folded(text) for text in (feedback.instruction, *(t for t, _ in feedback.history))}
    text = ""
    for _ in range(ATTEMPTS):
        text = _draw(feedback, rng, temperature)
        if _folded(text) not in tried:
            break
        temperature = max(temperature, 0.5) * 1.3
    return text


def _folded(text: str) -> str:
    return " ".join(text.lower().split())


def _draw(feedback: Feedback, rng: random.Random, temperature: float) -> str:
    task = feedback.task
    # Start from the current instruction, or now and then from the best so far.
    start = feedback.instruction
    if feedback.history and (not start or (temperature > 0 and rng.random() < 0.5)):
        start = max(feedback.history, key=lambda item: item[1])[0]
    task = Task(task.inputs, task.outputs, start)
    before = emphases(task)
    # Which facets go with texts that people think better of than the judge does: levels within a
    # document are known by place alone, so only differences count.
    direction = _unit(_ridge(feedback.facets, feedback.gaps, RIDGE))
    if len(feedback.history) >= 3:
        # Which emphases went with a higher rho among the instructions tried.
        rows = [emphases(Task(task.inputs, task.outputs, text)) for text, _ in feedback.history]
        rhos = np.array([rho for _, rho in feedback.history])
        direction = direction + 0.5 * _unit(_ridge(np.array(rows), rhos, HISTORY_RIDGE))
    chance = np.random.default_rng(rng.getrandbits(64))
    noise = chance.normal(size=len(before)) * (0.3 + np.abs(before) / np.abs(before).max())
    if len(feedback.gaps) > 1:
        # What no text here shows cannot be asked for.
        noise *= feedback.facets.std(axis=0) > 0
    direction = _unit(direction) + NOISE * temperature * _unit(noise)
    step = rng.choice(STEPS) if temperature > 0 else STEPS[1]
    target = before + step * float(np.linalg.norm(before)) * _unit(direction)
    shares = instruction_shares(task, target)
    most = float(shares.max())
    if most <= 0:
        shares, most = before, float(before.max())
    shares = np.where(shares < IGNORED * most, shares, np.maximum(shares, 0.0))
    return compose(start, shares, rng, compares=task.compares)


def _ridge(rows: Vector, values: Vector, ridge: float) -> Vector:
    """Ridge regression of the values' differences on the rows'; 0 where there are none."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    rows, values = rows - rows.mean(axis=0), values - values.mean()
    return np.asarray(rows.T @ np.linalg.solve(rows @ rows.T + ridge * np.eye(len(rows)), values))


def _unit(vector: Vector) -> Vector:
    size = float(np.linalg.norm(vector))
    return vector / size if size > 0 else vector
