"""The section of benchmarks/README.md that benchmarks/optimizers.py prints, from its lines."""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from optimize.statistics.bootstrap import student_quantile

Line = Mapping[str, Any]
Value = Callable[[Line], float]


def page(lines: Sequence[Line]) -> str:
    """Everything the lines say, in Markdown."""
    honest = [line for line in lines if not line["shuffled"]]
    common = sorted({one["budget"] for one in honest if one["optimizer"] != "rank"})
    top = [one for one in honest if one["optimizer"] == "rank" and one["budget"] == common[-1]]
    parts = [_heading(lines, honest)]
    parts += [_by_budget(honest, budget) for budget in common]
    parts += [
        _by_task(honest, common[-1]),
        _calls_needed(honest, common),
        _shipped(top),
        _shuffled([line for line in lines if line["shuffled"]]),
    ]
    return "\n\n".join(parts)


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


def told(values: Sequence[float], sign: str = "+") -> str:
    mean, low, high = interval(values)
    return f"{mean:{sign}.3f} [{low:+.3f}, {high:+.3f}]" if math.isfinite(low) else f"{mean:+.3f}"


def _heading(lines: Sequence[Line], honest: Sequence[Line]) -> str:
    tasks, seeds = ({line[name] for line in honest} for name in ("task", "seed"))
    processor = sum(line["seconds"] for line in lines)
    wall = max(line["wall"] for line in lines)
    versions = ", ".join(sorted({line["code"] for line in lines}))
    return (
        "## Optimizers\n\n"
        f"`python benchmarks/optimizers.py`: {len(lines)} searches in {wall / 60:.1f} minutes "
        f"({processor / 60:.1f} processor minutes in the searches; {os.cpu_count()} cores; sources "
        f"{versions}).\n\n"
        f"{len(tasks)} tasks x {len(seeds)} seeds (the seed draws the split and drives the "
        "search). The embedded model judges and proposes; every optimizer has the same train and "
        "dev documents, proposer, demonstration pool (GEPA writes instructions alone), budget and "
        "gate, and maximises the same objective: rho within documents, on groups as examples. A "
        "budget is the judge calls and proposals of the whole search, dev included. *tuned* is "
        "what the search ends with; *shipped* is that or, where the gate is in doubt, the seed. "
        "Rho is Spearman's, summary-level, on test documents of the systems seen; a document on "
        "which the judge says one thing counts 0."
    )


def _pick(lines: Sequence[Line], optimizer: str, budget: int) -> dict[tuple[str, int], Line]:
    return {
        (line["task"], line["seed"]): line
        for line in lines
        if line["optimizer"] == optimizer and line["budget"] == budget
    }


def _optimizers(lines: Iterable[Line]) -> list[str]:
    """Ours first."""
    return sorted({line["optimizer"] for line in lines}, key=lambda name: (name != "rank", name))


def _by_budget(lines: Sequence[Line], budget: int) -> str:
    ours = _pick(lines, "rank", budget)
    rows = [
        f"### {budget:,} calls\n",
        "| optimizer | tuned rho | over the seed | rank minus it | by tasks | shipped rho "
        "| ship | calls | CPU s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in _optimizers(lines):
        found = _pick(lines, name, budget)
        both = sorted(set(ours) & set(found))
        some = [found[key] for key in both]
        less = {key: tuned(ours[key]) - tuned(found[key]) for key in both}
        tasks = [
            float(np.mean([less[key] for key in both if key[0] == task]))
            for task in sorted({task for task, _ in both})
        ]
        against = ["", ""] if name == "rank" else [told(list(less.values())), told(tasks)]
        cells = [
            name,
            f"{_mean(tuned, some):.3f}",
            told([tuned(one) - seed(one) for one in some]),
            *against,
            f"{_mean(shipped, some):.3f}",
            f"{sum(one['shipped'] for one in some)} of {len(some)}",
            f"{_mean(lambda one: one['calls'], some):,.0f}",
            f"{_mean(lambda one: one['seconds'], some):.1f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    rows.append(
        f"\nThe seed has {_mean(seed, list(ours.values())):.3f}. Differences are paired, with 95 % "
        f"intervals over the {len(ours)} tasks x seeds; *by tasks* takes each task's mean as one "
        "observation, since its seeds share documents."
    )
    return "\n".join(rows)


def _mean(value: Value, lines: Sequence[Line]) -> float:
    return float(np.mean([value(line) for line in lines]))


def _by_task(lines: Sequence[Line], budget: int) -> str:
    names = _optimizers(lines)
    rows = [
        f"### By task, {budget:,} calls: tuned rho on test, mean over seeds\n",
        f"| task | seed | {' | '.join(names)} | rank, shipped | on unseen systems |",
        "|---" * (len(names) + 4) + "|",
    ]
    for task in dict.fromkeys(line["task"] for line in lines):
        mine = [line for line in lines if line["task"] == task and line["budget"] == budget]
        by_name = {name: [one for one in mine if one["optimizer"] == name] for name in names}
        ours = by_name["rank"]
        new = f"{_mean(gain('unseen'), ours):+.3f}" if ours[0]["unseen"] else "none held out"
        cells = [
            task,
            f"{_mean(seed, ours):.3f}",
            *(f"{_mean(tuned, some):.3f}" for some in by_name.values()),
            f"{_mean(shipped, ours):.3f}",
            new,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _calls_needed(lines: Sequence[Line], common: Sequence[int]) -> str:
    """With what budget rank reaches what the others do with each of theirs."""
    budgets = sorted({one["budget"] for one in lines if one["optimizer"] == "rank"})
    curve = {budget: list(_pick(lines, "rank", budget).values()) for budget in budgets}
    rows = ["### Calls that rank needs\n", "| budget | tuned rho | calls spent |", "|---|---|---|"]
    for budget, some in curve.items():
        spent = _mean(lambda one: one["calls"], some)
        rows.append(f"| {budget:,} | {_mean(tuned, some):.3f} | {spent:,.0f} |")
    rows.append("")
    for budget in common:
        best, name = max(
            (_mean(tuned, list(_pick(lines, name, budget).values())), name)
            for name in _optimizers(lines)
            if name != "rank"
        )
        reached = [one for one, some in curve.items() if _mean(tuned, some) >= best]
        what = f"* The best stock result at {budget:,} calls, {best:.3f} by {name}, "
        if reached:
            share = reached[0] / budget
            rows.append(f"{what}is reached by rank with {reached[0]:,} ({share:.0%} of the calls).")
        else:
            rows.append(f"{what}is not reached by rank.")
    return "\n".join(rows)


def _shipped(top: Sequence[Line]) -> str:
    """What those get who use what the gate ships."""
    budget = top[0]["budget"]
    held = [line for line in top if line["unseen"]]
    worse = [line for line in top if line["shipped"] and (line["test"]["gain"]["high"] or 0) < 0]
    rows = [
        f"### What rank ships, {budget:,} calls\n",
        f"* {sum(line['shipped'] for line in top)} of {len(top)} searches ship a tuned judge.",
        f"* Mean gain on test over all {len(top)}, kept seeds counted as 0: "
        f"{told([gain('test')(line) for line in top])}.",
    ]
    if held:
        rows.append(
            f"* Mean gain on unseen systems, over the {len(held)} with systems held out: "
            f"{told([gain('unseen')(line) for line in held])}."
        )
    rows.append(
        f"* Gain on test with an interval (over documents) wholly below zero: {len(worse)} of "
        f"{len(top)}."
    )
    return "\n".join(rows)


def _shuffled(lines: Sequence[Line]) -> str:
    return (
        "### Labels shuffled within documents\n\n"
        f"* {sum(line['shipped'] for line in lines)} of {len(lines)} searches ship a tuned judge "
        f"({lines[0]['budget']:,} calls each)."
    )
