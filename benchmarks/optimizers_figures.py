"""What the lines of benchmarks/optimizers.py come to: means and intervals over tasks and seeds."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from optimize.statistics.bootstrap import student_quantile

Line = Mapping[str, Any]
Value = Callable[[Line], float]


def tuned(line: Line) -> float:
    """Rho of what the search ends with, before the gate."""
    return float(line["test"]["tuned"])


def seed(line: Line) -> float:
    return float(line["test"]["seed"])


def shipped(line: Line) -> float:
    """Rho of what the gate lets through: the seed where it is in doubt."""
    return tuned(line) if line["shipped"] else seed(line)


def gain(split: str) -> Value:
    """What shipping adds to the seed on a split."""

    def value(line: Line) -> float:
        cell = line[split]
        return float(cell["tuned"] - cell["seed"]) if line["shipped"] else 0.0

    return value


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95 % interval by Student's t."""
    number = len(values)
    mean = float(np.mean(values))
    if number < 2:
        return mean, -math.inf, math.inf
    reach = student_quantile(number - 1, 0.95) * float(np.std(values, ddof=1)) / math.sqrt(number)
    return mean, mean - reach, mean + reach


def mean_text(values: Sequence[float], sign: str = "+") -> str:
    mean, low, high = interval(values)
    if not math.isfinite(low):
        return f"{mean:{sign}.3f}"
    return f"{mean:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]"


def stock(lines: Sequence[Line]) -> list[str]:
    return [name for name in optimizers(lines) if name != "rank"]


def less(lines: Sequence[Line], name: str, budget: int) -> list[float]:
    """Rank's rho less another's, one number a task and seed."""
    rank_lines, other_lines = pick(lines, "rank", budget), pick(lines, name, budget)
    return [
        tuned(rank_lines[key]) - tuned(other_lines[key])
        for key in sorted(set(rank_lines) & set(other_lines))
    ]


def best_stock(lines: Sequence[Line], budget: int) -> tuple[float, str]:
    return max(
        (average(tuned, list(pick(lines, name, budget).values())), name) for name in stock(lines)
    )


def reaching(lines: Sequence[Line], rho: float) -> int | None:
    """The smallest budget with which rank's mean reaches `rho`."""
    budgets = sorted({one["budget"] for one in lines if one["optimizer"] == "rank"})
    for budget in budgets:
        if average(tuned, list(pick(lines, "rank", budget).values())) >= rho:
            return int(budget)
    return None


def is_worse(line: Line) -> bool:
    return bool(line["shipped"] and (line["test"]["gain"]["high"] or 0) < 0)


def pick(lines: Sequence[Line], optimizer: str, budget: int) -> dict[tuple[str, int], Line]:
    return {
        (line["task"], line["seed"]): line
        for line in lines
        if line["optimizer"] == optimizer and line["budget"] == budget
    }


def optimizers(lines: Iterable[Line]) -> list[str]:
    """Ours first."""
    return sorted({line["optimizer"] for line in lines}, key=lambda name: (name != "rank", name))


def average(value: Value, lines: Sequence[Line]) -> float:
    return float(np.mean([value(line) for line in lines]))
