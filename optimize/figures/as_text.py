"""Write numbers, intervals, counts, costs and tables as text, for the screen and the page."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from judges.tables.problems import count_text

if TYPE_CHECKING:  # numpy is slow to import, and a help text does not need it
    from optimize.statistics.correlations import Correlation
    from optimize.statistics.intervals import Figure, Interval

LINE_WIDTH = 80
# Figures in JSON are rounded to this number of decimals.
JSON_DECIMALS = 6
TOO_FEW_FOR_INTERVAL = "too few for an interval"
SPLIT_TITLES = {"test": "test", "test_unseen_systems": "unseen systems"}
# The plurals of the verdicts.
VERDICT_PLURALS = {"fail": "fails", "pass": "passes"}


def number_text(value: float | None, *, signed: bool = False) -> str:
    """Return the number with three decimals; "undefined" for None and NaN."""
    if value is None or not math.isfinite(value):
        return "undefined"
    # Rounded to JSON's decimals first, so that text and JSON never differ in the last digit.
    sign = "+" if signed else ""
    return f"{round(value, JSON_DECIMALS) + 0.0:{sign}.3f}"


def interval_text(interval: "Interval | None", *, signed: bool = False) -> str:
    """Return the ends of an interval in brackets; a note if there is no interval."""
    if interval is None:
        return TOO_FEW_FOR_INTERVAL
    low, high = number_text(interval.low, signed=signed), number_text(interval.high, signed=signed)
    return f"[{low}, {high}]"


def looks_text(looks: int) -> str:
    """Return " of 3 looks" for an interval that holds in 3 looks at growing labels; "" for one."""
    return f" of {looks} looks" if looks > 1 else ""


def figure_text(figure: "Figure | None", *, signed: bool = False) -> str:
    """Return the figure's value and its interval, if it has one; "undefined" for None."""
    number = number_text(figure.value if figure else None, signed=signed)
    if not figure or number == "undefined" or figure.interval is None:
        return number
    return f"{number} {interval_text(figure.interval, signed=signed)}"


def share_text(value: float | None) -> str:
    """Return a share in whole percent; "undefined" for None and NaN."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.0%}"


def cost_text(dollars: float | None) -> str:
    """Return dollars, below $10 with four decimals; "free" for 0, "cost unknown" for None."""
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "free"
    return f"${dollars:,.2f}" if dollars >= 10 else f"${dollars:.4f}"


def wrap_lines(*sentences: str) -> list[str]:
    """Return lines of at most 80 columns; each sentence starts a line, no word is broken."""
    wrapper = textwrap.TextWrapper(LINE_WIDTH, break_long_words=False, break_on_hyphens=False)
    return [line for sentence in sentences for line in wrapper.wrap(sentence)]


def short_name(name: str, max_length: int = 24) -> str:
    """Return a name, cut in its middle if too long: names differ at their start and end."""
    if len(name) <= max_length:
        return name
    n_last = (max_length - 1) // 2
    return f"{name[: max_length - 1 - n_last]}…{name[len(name) - n_last :]}"


def table_lines(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a table as lines; each column is as wide as its widest cell."""
    table = [[short_name(row[0], 20), *row[1:]] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def interval_unit(level: str) -> str:
    """Return the noun for what is sampled at a level of rho: systems, else documents."""
    return "system" if level == "system" else "document"


def correlation_line(rho: "Correlation", unit: str, n_systems: int) -> str:
    """Return a correlation in one line, with level, coefficient, interval and counts."""
    zero_note = f" ({rho.n_zero:,} of them count 0)" if rho.n_zero else ""
    counts = [
        count_text(n_systems, "system") if rho.level == "system" else "",
        f"{rho.n_documents:,} documents",
        count_text(rho.n_outputs, unit),
        f"{rho.n_undefined:,} undefined{zero_note}" if rho.n_undefined else "",
        f"{rho.n_failed:,} failed" if rho.n_failed else "",
    ]
    return f"{rho.level}-level {rho.symbol} {figure_text(rho)}, n={', '.join(filter(None, counts))}"
