"""How figures are written: three decimals, intervals, counts, and the names of what they are."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from optimize.statistics.agreement import Correlation
from optimize.statistics.bootstrap import Interval
from optimize.statistics.levels import PRIMARY

# From this share of failures on, they are said before any figure.
MANY_FAILED = 0.05
# The conventions on documents without a correlation, in words for lines and tables.
CONVENTIONS = {
    "judge_zero": "documents the judge rates alike count 0",
    "left_out": "as most published tables: documents either side rates alike left out",
}

CHOSEN_ON_DEV = (
    "the tuned judge was chosen on dev, where its figure flatters it; test was looked at once, "
    "after the choice"
)


def number_text(value: float | None) -> str:
    """Three decimals; the word "undefined" where the figure does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.3f}"


def interval_text(low: float | None, high: float | None) -> str:
    """The ends in brackets; "no interval" where there are none."""
    missing = low is None or high is None or math.isnan(low) or math.isnan(high)
    return "no interval" if missing else f"[{low:.3f}, {high:.3f}]"


def with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """A value and, where there is one, its interval."""
    if math.isnan(value):
        return "undefined"
    sign = "+" if signed else ""
    ends = f" [{interval.low:{sign}.3f}, {interval.high:{sign}.3f}]" if interval else ""
    return f"{value:{sign}.3f}{ends}"


def figure_text(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Three decimals and, where it is known, the interval, as papers print them."""
    return with_interval(
        math.nan if value is None else value,
        None if low is None or high is None else Interval(low=low, high=high),
    )


def json_number(value: float, digits: int | None = None) -> float | None:
    """For JSON, which has neither NaN nor infinity: what does not exist is null; -0 is 0."""
    if not math.isfinite(value):
        return None
    return (float(value) if digits is None else round(float(value), digits)) + 0.0


def interval_cell(interval: Interval | None, digits: int | None = None) -> dict[str, float | None]:
    """`low` and `high` for JSON, null where unknown."""
    if interval is None:
        return {"low": None, "high": None}
    return {name: json_number(getattr(interval, name), digits) for name in ("low", "high")}


Cell = dict[str, Any]
# To which JSON files round figures.
DIGITS = 6


def value_cell(value: float, interval: Interval | None, digits: int | None = None) -> Cell:
    """A figure and the ends of its interval for JSON, null where unknown."""
    return {"value": json_number(value, digits), **interval_cell(interval, digits)}


def cell(statistic: Correlation) -> Cell:
    """A correlation as summary.json has it."""
    return {
        "coefficient": statistic.coefficient,
        "level": statistic.level,
        **value_cell(statistic.value, statistic.interval, DIGITS),
        "n_outputs": statistic.n_outputs,
        "n_documents": statistic.n_documents,
        "n_undefined": statistic.n_undefined,
        "n_failed": statistic.n_failed,
    }


def cell_by_convention(statistic: Correlation) -> Cell:
    """The same beside the other conventions: which it is, and how many documents count 0 by it."""
    return {**cell(statistic), "n_zero": statistic.n_zero, "undefined": statistic.undefined}


def conventions_differ(cells: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a document without a correlation makes the conventions two figures."""
    return any(cell["level"] == "summary" and cell["n_undefined"] for cell in cells)


def cells_to_show(cells: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The cells by the primary convention, and as published tables have those that differ."""
    differ = conventions_differ(cells)
    return [
        cell
        for cell in cells
        if cell["undefined"] == PRIMARY
        or (cell["undefined"] == "left_out" and cell["level"] == "summary" and differ)
    ]


def counted(number: int, unit: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def abbreviated_names(names: Sequence[str], length: int) -> list[str]:
    """Names cut to a length in their middle, so that no two that differ are cut to the same stub.

    What all names begin with goes first; two that are alike all the same get their number.
    """

    def cut(name: str, size: int = length) -> str:
        if len(name) <= size:
            return name
        tail = (size - 1) // 2
        return f"{name[: size - 1 - tail]}…{name[len(name) - tail :]}"

    short = [cut(name) for name in names]
    if len(set(short)) < len(set(names)):
        first, last = min(names), max(names)
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        start = len(list(same))
        short = [cut(f"…{name[start:]}" if start > 3 else name) for name in names]
    numbers = {name: f"…{number}" for number, name in enumerate(dict.fromkeys(names), start=1)}
    # Those that are too long; all, should one of the others end in such a number.
    for least in (length, -1):
        if len(set(short)) < len(set(names)):
            short = [
                f"{name[: length - len(numbers[name])]}{numbers[name]}"
                if len(name) > least
                else name
                for name in names
            ]
    return short


def quotable_line(
    name: str, cell: Mapping[str, Any], *, unit: str = "outputs", n_systems: int | None = None
) -> str:
    """As in `relevance summary-level rho 0.333 [0.250, 0.410] n=97 documents (...)`.

    What was judged are `unit`; at system level `n_systems` is the n of the coefficient.
    """
    systems = f"{n_systems} systems, " if n_systems and cell["level"] == "system" else ""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[cell["coefficient"]]
    convention = ""
    if cell["level"] == "summary" and "undefined" in cell:
        # What became of documents without a correlation; at other levels there are none.
        has_zeros = "n_zero" in cell and cell["undefined"] != "left_out"
        zeros = f" ({cell['n_zero'] or 'none'} here)" if has_zeros else ""
        convention = f"; {CONVENTIONS[cell['undefined']]}{zeros}"
    return (
        f"{name} {cell['level']}-level {symbol} {number_text(cell['value'])} "
        f"{interval_text(cell['low'], cell['high'])} "
        f"n={systems}{cell['n_documents']} documents, {cell['n_outputs']} {unit}"
        f" ({cell['n_undefined']} undefined, {cell['n_failed']} failed){convention}"
    )


def many_failed(n_failed: int, number: int, unit: str = "outputs") -> str:
    """A sentence to lead with where more than a few judgements failed; else nothing."""
    if n_failed <= MANY_FAILED * number:
        return ""
    return (
        f"{n_failed / number:.1%} of the {unit} have no score ({n_failed:,} of {number:,} failed): "
        "every figure is about the others alone."
    )


WIDTH = 80
# Pairs: what each order alone reaches, by its key in JSON.
ORDERS = {
    "accuracy_mean_of_orders": "accuracy, mean of the two orders taken alone",
    "accuracy_order_ab": "accuracy, A shown first",
    "accuracy_order_ba": "accuracy, B shown first",
    "order_agreement": "same answer in both orders",
}
SPLITS = {"dev": "dev", "test": "test", "test_unseen_systems": "unseen systems"}


def finalist_name(row: Mapping[str, Any]) -> str:
    """What the judge is made of, in a few words."""
    if row["is_seed"]:
        return "untuned judge"
    parts = [f"{row['instruction']} instruction"]
    if row["n_demos"]:
        parts.append(counted(row["n_demos"], "example"))
    parts += {"none": [], "brief": ["a sentence"]}.get(row["reasoning"], [row["reasoning"]])
    return ", ".join(parts)


def cost_unit(rows: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """The key of what 1,000 rows cost, and the column's title."""
    in_dollars = all("usd_per_1000" in row for row in rows)
    return ("usd_per_1000", "$ / 1,000") if in_dollars else ("tokens_per_1000", "tokens/1,000")


def cost_text(cost: float, unit: str) -> str:
    return f"{cost:.2f}" if unit == "usd_per_1000" else f"{cost:,.0f}"


def trade(rows: Sequence[Mapping[str, Any]]) -> str:
    """What the judge that ships gains on the untuned one, and what it costs more, in a sentence."""
    if not rows:
        return ""
    unit, _ = cost_unit(rows)
    seed = next(row for row in rows if row["is_seed"])
    shipped = next((row for row in rows if row["shipped"]), seed)
    best = max(rows, key=lambda row: -1.0 if row["dev"] is None else row["dev"])
    if shipped is seed or not seed[unit] or shipped["gain"] is None:
        return ""
    sentence = (
        f"* ships: {shipped['gain']:+.3f} rho on dev at {shipped[unit] / seed[unit]:.1f} times "
        "what the untuned judge costs to use"
    )
    if best is not shipped and best["dev"] is not None and shipped["dev"] is not None:
        sentence += (
            f"; the best on dev has {best['dev'] - shipped['dev']:+.3f} more at "
            f"{best[unit] / seed[unit]:.1f} times"
        )
    return sentence
