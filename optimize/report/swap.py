"""The certificate of a swap in words, the verdict first."""

from optimize.figures.as_text import (
    cost_text,
    counted,
    figure_text,
    interval_text,
    miss_line,
    number_text,
    short_name,
    wrapped,
)
from optimize.measuring.comparison import ComparedJudge
from optimize.measuring.swap import SwapResult
from optimize.report.next_steps import swap_step
from optimize.report.sentences import labels_text
from optimize.statistics.balanced import THRESHOLD

# So many changed rows stand on a screen of so many lines.
MOST_SHOWN, MOST_LINES = 3, 12


def swap_lines(result: SwapResult) -> list[str]:
    """A certificate in at most twelve lines, the verdict first."""
    comparison, gap = result.comparison, result.difference
    figure = comparison.figure_name
    figure = f"{comparison.level}-level rho" if figure == "rho" else figure
    judges = [(short_name(judge.name), judge) for judge in result.judges]
    figures = ", ".join(f"{n} {figure_text(judge.card.headline)}" for n, judge in judges)
    failed = ", ".join(
        f"{number:,} of {name}" for name, judge in judges if (number := judge.card.rho.n_failed)
    )
    prices = "; ".join(f"{name} {_price(judge)}" for name, judge in judges)
    labels = labels_text(comparison.data, comparison.unit)
    lines = wrapped(
        result.verdict,
        f"{figure} of {comparison.dimension} on {labels}: {figures}.",
        f"Difference {number_text(gap.value, signed=True)}, "
        f"n={counted(gap.terms.size, result.unit)}; 90% interval: "
        f"{interval_text(gap.interval, signed=True)}."
        + (f" Failed and left out: {failed}." if failed else ""),
        _changes(result, *(name for name, _ in judges)),
    )
    last = wrapped(f"1,000 rows: {prices}.", f"Next: {swap_step(result)}")
    n_shown = max(0, min(MOST_SHOWN, MOST_LINES - len(lines) - len(last)))
    for row in result.changed[:n_shown]:
        old, new, people = (_word(result, row[who]) for who in ("old", "new", "human"))
        lines.append(miss_line({**row, "miss": f"{old} → {new} (people {people})"}))
    return [*lines, *last]


def _changes(result: SwapResult, new: str, old: str) -> str:
    """How many rows change, and with whom people side there."""
    n, unit = len(result.changed), result.comparison.unit
    if not n:
        return f"None of the {unit} changes."
    moved, sides, which = result.count("moved"), result.count("people_side_with"), ""
    if result.comparison.is_binary:
        which = f" ({moved['up']:,} fail → pass, {moved['down']:,} pass → fail)"
    return (
        f"{counted(n, unit.removesuffix('s'))} change{'s' * (n == 1)}{which}; people side with "
        f"{new} on {sides['new']:,}, with {old} on {sides['old']:,}."
    )


def _word(result: SwapResult, value: float) -> str:
    if result.comparison.is_binary:
        return "pass" if value >= THRESHOLD else "fail"
    if result.comparison.is_pairs:
        return "A" if value > 0 else "B" if value < 0 else "tie"
    return f"{value:.3g}"


def _price(judge: ComparedJudge) -> str:
    """What 1,000 rows take, where the judge was asked; replies that were kept tell no time."""
    if judge.entry.judge is None:
        return "recorded"
    seconds = judge.usage.seconds_per_1000_rows
    took = "time unknown" if seconds is None else f"{seconds:,.3g} s"
    return f"{cost_text(judge.usage.cost_per_1000_rows)}, {took}"
