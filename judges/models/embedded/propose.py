"""Propose a better instruction: find the facets that tell misplaced texts apart, and name them."""

import json
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from judges.models.embedded.facets import (
    DECIMALS,
    GROWTH,
    INSTRUCTION,
    INTENSITIES,
    NAMES,
    PHRASES,
    Vector,
    default_weights,
    definition_and_anchors,
    emphases,
    facets_of,
    read_amounts,
    read_shares,
)
from judges.models.embedded.request import Task, read_described_task, read_roles
from judges.prompt import Field

# The ridge of the regression of gaps on facets: few, extreme texts say little of any one facet.
RIDGE, HISTORY_RIDGE = 12.0, 0.1
# How far to go from the emphases that were, in parts of their length; the middle one at heat 0.
STEPS = (0.25, 0.5, 0.9)
NOISE = 0.5
ATTEMPTS = 12
# An emphasis this far below 0, in parts of the largest, is asked to be ignored.
IGNORE_THRESHOLD = -0.35
# An instruction is at most so long, and names at most so many facets.
MAX_INSTRUCTION_LENGTH, MAX_FACETS = 880, 9
# What is to have less than this part of a facet's own wording is left out.
MIN_SHARE = 0.12
_FENCED = re.compile(r"```\w*\n?(.*?)```", re.DOTALL)
_HISTORY = re.compile(r"histor|previous|tried|past")
_TASK = re.compile(r"\btask\b|description")
_CLAUSE = re.compile(r"[:;.?!\n]")
_STEP = re.compile(r"\bone sentence\b|\bthen name\b|\bcompar(?:e|ing) the two\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.?!])\s+")


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
    history: list[tuple[str, float]]


def read_feedback(texts: Mapping[str, str]) -> Feedback:
    """Read our proposer's prompt, or any other that shows an instruction to improve."""
    fields = [(name.lower(), text) for name, text in texts.items()]
    instructions = (
        text.strip() for name, text in fields if "instruction" in name and not _HISTORY.search(name)
    )
    task = read_described_task(next((text for name, text in fields if _TASK.search(name)), ""))
    rows = [row for text in texts.values() for row in _json_lines(text)]
    measured = [pair for row in rows if (pair := _facets_and_gap(task, row)) is not None]
    return Feedback(
        next(instructions, ""),
        task,
        facets=np.array([facets for facets, _ in measured]).reshape(len(measured), len(NAMES)),
        gaps=np.array([gap for _, gap in measured]),
        history=[
            (row["instruction"], numbers[0])
            for row in rows
            if isinstance(row.get("instruction"), str) and (numbers := _numbers(row, "rho"))
        ],
    )


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


def _facets_and_gap(task: Task, row: Mapping[str, Any]) -> tuple[Vector, float] | None:
    """A misplaced text's facets, and how much better people think of it than the judge does.

    Of a pair, the first's facets less the second's; None where the row lacks either.
    """
    texts, n_ranks = row.get("texts"), row.get("of")
    ranks = _numbers(row, "judge_place", "people_place")
    margins = _numbers(row, "judge_margin", "people_margin")
    if ranks and isinstance(n_ranks, int | float) and n_ranks > 0:
        gap = (ranks[0] - ranks[1]) / n_ranks
    elif margins:
        gap = (margins[1] - margins[0]) / 2
    else:
        return None
    if not isinstance(texts, dict) or not (texts or task.inputs):
        return None
    texts = {str(name): str(text) for name, text in texts.items()}
    compares = "people_margin" in row
    fields = [Field(name=name, description=name, role="input") for name in texts]
    roles = read_roles(task.inputs or fields, compares=compares)
    facets = [facets_of(roles, texts, name) for name in roles.candidates]
    return facets[0] - facets[1] if compares and len(facets) > 1 else facets[0], gap


def _numbers(row: Mapping[str, Any], *names: str) -> list[float]:
    """The row's numbers of these names, or none where it has not all."""
    values = [row.get(name) for name in names]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    return numbers if len(numbers) == len(names) else []


def propose(feedback: Feedback, rng: random.Random, temperature: float) -> str:
    """One revised instruction; other draws of `rng` give others, none of them tried before."""
    tried = {
        _normalised(text) for text in (feedback.instruction, *(t for t, _ in feedback.history))
    }
    text = ""
    for _ in range(ATTEMPTS):
        text = _draw_instruction(feedback, rng, temperature)
        if _normalised(text) not in tried:
            break
        temperature = max(temperature, 0.5) * 1.3
    return text


def _normalised(text: str) -> str:
    return " ".join(text.lower().split())


def _draw_instruction(feedback: Feedback, rng: random.Random, temperature: float) -> str:
    """A new instruction, with the emphases moved towards what people's ratings went with."""
    # Start from the current instruction, or now and then from the best so far.
    start = feedback.instruction
    if feedback.history and (not start or (temperature > 0 and rng.random() < 0.5)):
        start = max(feedback.history, key=lambda item: item[1])[0]
    task = replace(feedback.task, instruction=start)
    current = emphases(task)
    # Which facets go with texts that people think better of than the judge does: levels within a
    # document are known by rank alone, so only differences count.
    direction = _unit(_ridge(feedback.facets, feedback.gaps, RIDGE))
    if len(feedback.history) >= 3:
        # Which emphases went with a higher rho among the instructions tried.
        rows = [emphases(replace(task, instruction=text)) for text, _ in feedback.history]
        rhos = np.array([rho for _, rho in feedback.history])
        direction = direction + 0.5 * _unit(_ridge(np.array(rows), rhos, HISTORY_RIDGE))
    normal = np.random.default_rng(rng.getrandbits(64)).normal(size=len(current))
    noise = normal * (0.3 + np.abs(current) / np.abs(current).max())
    if len(feedback.gaps) > 1:
        # What no text here shows cannot be asked for.
        noise *= np.ptp(feedback.facets, axis=0) > 0
    direction = _unit(direction) + NOISE * temperature * _unit(noise)
    step = rng.choice(STEPS) if temperature > 0 else STEPS[1]
    target = current + step * float(np.linalg.norm(current)) * _unit(direction)
    shares = np.round(instruction_shares(task, target), DECIMALS)
    largest = float(shares.max())
    if largest <= 0:
        shares, largest = current, float(current.max())
    shares = np.where(shares < IGNORE_THRESHOLD * largest, shares, np.maximum(shares, 0.0))
    return compose(start, shares, rng, compares=task.compares)


def _ridge(rows: Vector, values: Vector, ridge: float) -> Vector:
    """Ridge coefficients of the centred values on the centred rows; zeros without rows."""
    if not len(rows):
        return np.zeros(rows.shape[1])
    rows, values = rows - rows.mean(axis=0), values - values.mean()
    gram = rows @ rows.T + ridge * np.eye(len(rows))
    # Values that are all equal leave 1e-18 of rounding, which `_unit` would make a direction.
    return np.asarray(np.round(rows.T @ np.linalg.solve(gram, values), DECIMALS), np.float64)


def _unit(vector: Vector) -> Vector:
    size = float(np.linalg.norm(vector))
    return vector / size if size > 0 else vector


def instruction_shares(task: Task, target: Vector) -> Vector:
    """What an instruction is to say so that, with definition and anchors, `target` comes out."""
    described = np.zeros(len(NAMES))
    for text, part in definition_and_anchors(task):
        described += part * read_shares(text)
    roles = read_roles(task.inputs, compares=task.compares)
    requested = target - default_weights(np.maximum(target, 0.0), roles)
    size = np.abs(requested).sum() or 1.0
    return np.asarray((requested / size - described) / INSTRUCTION)


def compose(current: str, target: Vector, rng: random.Random, *, compares: bool) -> str:
    """An instruction that keeps what is judged and asks for the facets as `target` says.

    `target` holds the share of the instruction that each facet is to have; below 0: to be ignored.
    """
    # The first clause says what is judged; sentences that say how to answer stay as they are.
    opening = _CLAUSE.split(current.strip(), maxsplit=1)[0].strip()
    if not 2 <= len(opening.split()) <= 24:
        opening = "Judge the quality of the text"
    steps = [s for s in _SENTENCE_END.split(current.strip())[1:] if _STEP.search(s)]
    closing = " ".join(steps)[:240]
    amounts = np.sign(target) * np.abs(target) ** (1 / GROWTH)
    strongest = int(np.argmax(amounts))
    amounts = amounts * (3.0 * _amount_in_wording(strongest) / max(1e-9, amounts[strongest]))
    amounts = amounts - np.maximum(read_amounts(opening)[0], 0)
    wordings: dict[float, list[str]] = defaultdict(list)
    for index in [int(i) for i in np.argsort(-np.abs(amounts), kind="stable")][:MAX_FACETS]:
        factor = 0.0
        if target[index] >= 0:
            ratio = float(amounts[index]) / _amount_in_wording(index)
            if ratio < MIN_SHARE:
                continue
            factor = min(_FACTORS, key=lambda level: abs(np.log(level / ratio)))
        wordings[factor].append(PHRASES[index].asks)
    sentences = [f"{opening}."]
    for level in INTENSITIES:
        phrases = wordings[level.factor]
        for start in range(0, len(phrases), 3):
            *first, last = phrases[start : start + 3]
            phrase = f"{', '.join(first)} and {last}" if first else last
            sentence = f"{rng.choice(level.prefers if compares else level.asks)} {phrase}."
            if len(" ".join([*sentences, sentence, closing])) < MAX_INSTRUCTION_LENGTH:
                sentences.append(sentence)
    return " ".join([*sentences, closing] if closing else sentences)


_FACTORS = [level.factor for level in INTENSITIES if level.factor > 0]


@lru_cache(maxsize=64)
def _amount_in_wording(index: int) -> float:
    """How much of its facet a facet's own wording names."""
    return max(0.3, read_amounts(PHRASES[index].asks)[0][index])
