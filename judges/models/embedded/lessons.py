"""What a proposer's prompt teaches: the instruction to improve, mistakes, and what was tried."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from judges.models.embedded.facets import NAMES, Vector
from judges.models.embedded.reading import facet_scores
from judges.models.embedded.request import Task, read_described
from judges.models.embedded.roles import read_roles
from judges.prompt import Field

_FENCED = re.compile(r"```\w*\n?(.*?)```", re.DOTALL)
_CURRENT = re.compile(r"instruction")
_TRIED = re.compile(r"histor|previous|tried|past")
_TASK = re.compile(r"\btask\b|description")


@dataclass(frozen=True, slots=True)
class Lessons:
    """What a proposal is made from.

    `facets` (n, facets) and `gaps` (n,) are of the misplaced texts: a gap is positive where people
    think better of a text than the judge does. `tried` are instructions with what each reached.
    """

    current: str
    task: Task
    facets: Vector
    gaps: Vector
    tried: tuple[tuple[str, float], ...]


def read_lessons(texts: Mapping[str, str]) -> Lessons:
    """Read our proposer's prompt, or any other that shows an instruction to improve."""
    task = read_described(_first(texts, _TASK, ""))
    rows = [
        row
        for text in texts.values()
        for row in _objects(text)
        if isinstance(row.get("texts"), dict)
    ]
    facets, gaps = _measure(task, rows)
    tried = tuple(
        (str(row["instruction"]), _rho(row))
        for text in texts.values()
        for row in _objects(text)
        if isinstance(row.get("instruction"), str) and _numbers(row, "rho")
    )
    return Lessons(_current(texts), task, facets, gaps, tried)


def read_fenced(content: str) -> Lessons:
    """Read a prompt without fields, where the instruction stands in the first fenced block."""
    found = _FENCED.search(content)
    current = found[1].strip() if found else ""
    return read_lessons({"current_instruction": current, "mistakes": content})


def _current(texts: Mapping[str, str]) -> str:
    return next(
        (
            text.strip()
            for name, text in texts.items()
            if _CURRENT.search(name.lower()) and not _TRIED.search(name.lower())
        ),
        "",
    )


def _first(texts: Mapping[str, str], pattern: re.Pattern[str], default: str) -> str:
    return next((text for name, text in texts.items() if pattern.search(name.lower())), default)


def _rho(row: Mapping[str, object]) -> float:
    return _numbers(row, "rho")[0]


def _objects(text: str) -> list[dict[str, object]]:
    """The JSON objects that stand on lines of their own."""
    objects = []
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("{") and line.endswith("}"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                objects.append(found)
    return objects


def _measure(task: Task, rows: Sequence[dict[str, object]]) -> tuple[Vector, Vector]:
    measured, gaps = [], []
    for row in rows:
        gap = _gap(row)
        texts = row["texts"]
        if gap is None or not isinstance(texts, dict):
            continue
        shown = {str(name): str(text) for name, text in texts.items()}
        compares = "people_margin" in row
        reads = task.reads or tuple(
            Field(name=name, description=name, role="input") for name in shown
        )
        roles = read_roles(reads, compares=compares)
        scores = [facet_scores(roles, shown, name) for name in roles.candidates]
        measured.append(scores[0] - scores[1] if compares and len(scores) > 1 else scores[0])
        gaps.append(gap)
    return np.array(measured).reshape(len(gaps), len(NAMES)), np.array(gaps)


def _gap(row: Mapping[str, object]) -> float | None:
    """How much better people think of a text than the judge does, or of A against B."""
    of = row.get("of")
    places = _numbers(row, "judge_place", "people_place")
    if places and isinstance(of, int | float) and of > 0:
        return (places[0] - places[1]) / of
    margins = _numbers(row, "judge_margin", "people_margin")
    return (margins[1] - margins[0]) / 2 if margins else None


def _numbers(row: Mapping[str, object], *names: str) -> list[float]:
    told = [row.get(name) for name in names]
    numbers = [float(one) for one in told if isinstance(one, int | float)]
    return numbers if len(numbers) == len(names) else []
