"""The section of benchmarks/README.md that benchmarks/optimizers.py prints, from its lines."""

import os
from collections.abc import Sequence

import numpy as np
from optimizers_figures import (
    Line,
    average,
    best_stock,
    gain,
    interval,
    is_worse,
    less,
    mean_text,
    optimizers,
    pick,
    reaching,
    seed,
    shipped,
    stock,
    tuned,
)


def page(lines: Sequence[Line]) -> str:
    """Everything the lines say, in Markdown."""
    honest = [line for line in lines if not line["shuffled"]]
    common = sorted({one["budget"] for one in honest if one["optimizer"] != "rank"})
    top = [one for one in honest if one["optimizer"] == "rank" and one["budget"] == common[-1]]
    dealt = [line for line in lines if line["shuffled"]]
    parts = [_heading(lines, honest), _in_short(honest, common, top, dealt)]
    parts += [_by_budget(honest, budget) for budget in common]
    parts += [
        _by_task(honest, common[-1]),
        _calls_needed(honest, common),
        _shipped(top),
        _shuffled(dealt),
    ]
    return "\n\n".join(parts)


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


def _in_short(
    honest: Sequence[Line], common: Sequence[int], top: Sequence[Line], dealt: Sequence[Line]
) -> str:
    """What is claimed of the search, each claim with whether these runs bear it out."""
    rows = []
    for budget in common:
        apart = {name: less(honest, name, budget) for name in stock(honest)}
        worst = min(apart, key=lambda name: float(np.mean(apart[name])))
        beaten = sum(np.mean(values) > 0 for values in apart.values())
        clear = sum(interval(values)[1] > 0 for values in apart.values())
        rows.append(
            f"* {budget:,} calls: rank's mean test rho is above that of {beaten} of {len(apart)} "
            f"stock optimizers, with an interval above zero for {clear}; the closest is {worst}, "
            f"{mean_text(apart[worst])} below."
        )
    best, name = best_stock(honest, common[-1])
    reached = reaching(honest, best)
    what = f"* The best stock result at {common[-1]:,} calls ({best:.3f}, {name}) is "
    share = f"reached with {reached:,}, {reached / common[-1]:.0%}" if reached else "not reached"
    rows.append(f"{what}{share}.")
    gains = mean_text([gain("test")(line) for line in top])
    rows.append(f"* Shipped judges gain {gains} on test, on average over {len(top)}.")
    worse = sum(is_worse(line) for line in top)
    rows.append(f"* {worse} of {len(top)} have a gain on test wholly below zero.")
    held = [line for line in top if line["unseen"]]
    if held:
        carried = mean_text([gain("unseen")(line) for line in held])
        rows.append(f"* Shipped judges gain {carried} on unseen systems.")
    if dealt:
        rows.append(
            f"* On shuffled labels {sum(line['shipped'] for line in dealt)} of {len(dealt)} ship."
        )
    return "### In short\n\n" + "\n".join(rows)


def _by_budget(lines: Sequence[Line], budget: int) -> str:
    ours = pick(lines, "rank", budget)
    rows = [
        f"### {budget:,} calls\n",
        "| optimizer | tuned rho | over the seed | rank minus it | by tasks | on unseen systems "
        "| shipped rho | ship | calls | CPU s |",
        "|---" * 10 + "|",
    ]
    for name in optimizers(lines):
        found = pick(lines, name, budget)
        both = sorted(set(ours) & set(found))
        some = [found[key] for key in both]
        apart = {key: tuned(ours[key]) - tuned(found[key]) for key in both}
        tasks = [
            float(np.mean([apart[key] for key in both if key[0] == task]))
            for task in sorted({task for task, _ in both})
        ]
        against = (
            ["", ""] if name == "rank" else [mean_text(list(apart.values())), mean_text(tasks)]
        )
        cells = [
            name,
            mean_text([tuned(one) for one in some], sign=""),
            mean_text([tuned(one) - seed(one) for one in some]),
            *against,
            _on_unseen(some),
            f"{average(shipped, some):.3f}",
            f"{sum(one['shipped'] for one in some)} of {len(some)}",
            f"{average(lambda one: one['calls'], some):,.0f}",
            f"{average(lambda one: one['seconds'], some):.1f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    rows.append(
        f"\nThe seed has {average(seed, list(ours.values())):.3f}. Differences are paired. 95 % "
        f"intervals are Student's t over the {len(ours)} tasks x seeds; *by tasks* takes each "
        "task's mean as one observation, since its seeds share documents."
    )
    return "\n".join(rows)


def _on_unseen(lines: Sequence[Line]) -> str:
    """The tuned judges' gain on systems held out, before the gate."""
    held = [line["unseen"] for line in lines if line["unseen"]]
    return mean_text([one["tuned"] - one["seed"] for one in held]) if held else "none held out"


def _by_task(lines: Sequence[Line], budget: int) -> str:
    names = optimizers(lines)
    rows = [
        f"### By task, {budget:,} calls: tuned rho on test, mean over seeds\n",
        f"| task | seed | {' | '.join(names)} | rank, shipped | on unseen systems |",
        "|---" * (len(names) + 4) + "|",
    ]
    for task in dict.fromkeys(line["task"] for line in lines):
        mine = [line for line in lines if line["task"] == task and line["budget"] == budget]
        by_name = {name: [one for one in mine if one["optimizer"] == name] for name in names}
        ours = by_name["rank"]
        new = f"{average(gain('unseen'), ours):+.3f}" if ours[0]["unseen"] else "none held out"
        cells = [
            task,
            f"{average(seed, ours):.3f}",
            *(f"{average(tuned, some):.3f}" for some in by_name.values()),
            f"{average(shipped, ours):.3f}",
            new,
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _calls_needed(lines: Sequence[Line], common: Sequence[int]) -> str:
    """With what budget rank reaches what the others do with each of theirs."""
    budgets = sorted({one["budget"] for one in lines if one["optimizer"] == "rank"})
    curve = {budget: list(pick(lines, "rank", budget).values()) for budget in budgets}
    rows = ["### Calls that rank needs\n", "| budget | tuned rho | calls spent |", "|---|---|---|"]
    for budget, some in curve.items():
        spent = average(lambda one: one["calls"], some)
        rows.append(f"| {budget:,} | {average(tuned, some):.3f} | {spent:,.0f} |")
    rows.append("")
    for budget in common:
        best, name = best_stock(lines, budget)
        reached = reaching(lines, best)
        what = f"* The best stock result at {budget:,} calls, {best:.3f} by {name}, "
        if reached:
            rows.append(
                f"{what}is reached by rank with {reached:,} ({reached / budget:.0%} of the calls)."
            )
        else:
            rows.append(f"{what}is not reached by rank.")
    return "\n".join(rows)


def _shipped(top: Sequence[Line]) -> str:
    """What those get who use what the gate ships."""
    budget = top[0]["budget"]
    held = [line for line in top if line["unseen"]]
    worse = [line for line in top if is_worse(line)]
    rows = [
        f"### What rank ships, {budget:,} calls\n",
        f"* {sum(line['shipped'] for line in top)} of {len(top)} searches ship a tuned judge.",
        f"* Mean gain on test over all {len(top)}, kept seeds counted as 0: "
        f"{mean_text([gain('test')(line) for line in top])}.",
    ]
    if held:
        rows.append(
            f"* Mean gain on unseen systems, over the {len(held)} with systems held out: "
            f"{mean_text([gain('unseen')(line) for line in held])}."
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
