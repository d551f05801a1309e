"""Write numbers, intervals, counts, costs and tables as text, for the screen and the page."""

import math
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # numpy is slow to import, and a help text does not need it
    from optimize.statistics.intervals import Figure, Interval

# Figures in JSON are rounded to this number of decimals.
JSON_DECIMALS = 6
TOO_FEW_FOR_INTERVAL = "too few for an interval"
SPLIT_TITLES = {"test": "test", "test_unseen_systems": "unseen systems"}
VERDICT_PLURALS = {"fail": "fails", "pass": "passes"}


def number_text(value: float | None, *, signed: bool = False) -> str:
    """Return the number with three decimals; "undefined" for None and NaN."""
    if value is None or not math.isfinite(value):
        return "undefined"
    # Rounding to JSON's decimals first gives the same last digit as rounding the number in JSON.
    sign = "+" if signed else ""
    return f"{round(value, JSON_DECIMALS) + 0.0:{sign}.3f}"


def interval_text(interval: "Interval | None", *, signed: bool = False) -> str:
    """Return an interval's ends in brackets; "too few for an interval" if there is none."""
    if interval is None:
        return TOO_FEW_FOR_INTERVAL
    low, high = number_text(interval.low, signed=signed), number_text(interval.high, signed=signed)
    return f"[{low}, {high}]"


def looks_text(n_looks: int) -> str:
    """Return " of 3 looks" if an interval allows for 3 looks while labels are added, else ""."""
    return f" of {n_looks} looks" if n_looks > 1 else ""


def figure_text(figure: "Figure | None", *, signed: bool = False) -> str:
    """Return a figure's value, and its interval if there is one; "undefined" without a value."""
    number = number_text(figure.value if figure else None, signed=signed)
    if not figure or number == "undefined" or figure.interval is None:
        return number
    return f"{number} {interval_text(figure.interval, signed=signed)}"


def share_text(value: float | None) -> str:
    """Return a share in whole percent; "undefined" for None and NaN."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.0%}"


def cost_text(dollars: float | None) -> str:
    """Return an amount such as "$12.30" or "$0.0123"; "free" for 0, "cost unknown" for None."""
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "free"
    return f"${dollars:,.2f}" if dollars >= 10 else f"${dollars:.4f}"


def command_text(command: str, *arguments: str, **values: str | Sequence[str] | None) -> str:
    """Return a command line to paste into a shell, such as "dspy-judges label FILE --scale 1-5".

    `values` are by flags' names; a flag with several values is repeated, one without is left out.
    """
    words = ["dspy-judges", command, *arguments]
    for flag, value in values.items():
        flag_values = [value] if isinstance(value, str) else value or []
        for flag_value in filter(None, flag_values):
            words += [f"--{flag}", flag_value]
    return shlex.join(words)


def short_name(name: str, max_length: int = 24) -> str:
    """Shorten a long name in its middle, since names mostly differ at their start and end."""
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
    """Return the noun for what an interval of rho is over: "system" at system level."""
    return "system" if level == "system" else "document"
