"""How a figure is written: three decimals, its interval and its counts, never a bare NaN."""

import math
from collections.abc import Mapping
from typing import Any

from optimize.statistics.bootstrap import Interval


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
        f" ({c['n_undefined']} undefined, {c['n_failed']} failed)"
    )
