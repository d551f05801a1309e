"""How a figure is written: three decimals, its interval and its counts, never a bare NaN."""

import math
from collections.abc import Mapping
from typing import Any

from optimize.statistics.bootstrap import Interval

# From this share of failures on, they are said before any figure.
MANY_FAILED = 0.05
# The conventions on documents without a correlation, in words for lines and tables.
CONVENTIONS = {
    "judge_zero": "documents the judge rates alike count 0",
    "left_out": "as most published tables: documents either side rates alike left out",
    "zero": "documents either side rates alike count 0",
}

CHOSEN_ON_DEV = (
    "the tuned judge was chosen on dev, where its figure flatters it; test was looked at once, "
    "after the choice"
)


def shown(value: float | None) -> str:
    """Three decimals; the word "undefined" where the figure does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.3f}"


def interval_of(low: float | None, high: float | None) -> str:
    """The ends in brackets; "no interval" where there are none."""
    missing = low is None or high is None or math.isnan(low) or math.isnan(high)
    return "no interval" if missing else f"[{low:.3f}, {high:.3f}]"


def with_interval(value: float, interval: Interval | None, *, signed: bool = False) -> str:
    """A value and, where there is one, its interval."""
    if math.isnan(value):
        return "undefined"
    sign = "+" if signed else ""
    around = f" [{interval.low:{sign}.3f}, {interval.high:{sign}.3f}]" if interval else ""
    return f"{value:{sign}.3f}{around}"


def counted(number: int, unit: str) -> str:
    """A number and what it counts."""
    return f"{number:,} {unit}{'s' * (number != 1)}"


def one_line(
    name: str, c: Mapping[str, Any], *, unit: str = "outputs", n_systems: int | None = None
) -> str:
    """A quotable line: `relevance summary-level rho 0.333 [0.250, 0.410] n=97 documents (...)`.

    What was judged are `unit`; at system level `n_systems` is the n of the coefficient.
    """
    systems = f"{n_systems} systems, " if n_systems and c["level"] == "system" else ""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[c["coefficient"]]
    return (
        f"{name} {c['level']}-level {symbol} {shown(c['value'])} {interval_of(c['low'], c['high'])}"
        f" n={systems}{c['n_documents']} documents, {c['n_outputs']} {unit}"
        f" ({c['n_undefined']} undefined, {c['n_failed']} failed){_convention(c)}"
    )


def _convention(c: Mapping[str, Any]) -> str:
    """What became of documents without a correlation; at other levels there are none."""
    if c["level"] != "summary" or "undefined" not in c:
        return ""
    known = "n_zero" in c and c["undefined"] != "left_out"
    zeros = f" ({c['n_zero']})" if known else ""
    return f"; {CONVENTIONS[c['undefined']]}{zeros}"


def many_failed(n_failed: int, number: int, unit: str = "outputs") -> str:
    """A sentence to lead with where more than a few judgements failed; else nothing."""
    if n_failed <= MANY_FAILED * number:
        return ""
    return (
        f"{n_failed / number:.1%} of the {unit} have no score ({n_failed:,} of {number:,} failed): "
        "every figure is about the others alone."
    )
