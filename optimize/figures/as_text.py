"""How numbers, intervals, counts, tables, pass and fail are written, on screen and page alike."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # numpy is slow to import, and a help text does without it
    from optimize.statistics.correlations import Correlation
    from optimize.statistics.intervals import Figure, Interval

WIDTH = 80
# To which JSON files round figures.
DIGITS = 6
TOO_FEW = "too few for an interval"
SPLITS = {"test": "test", "test_unseen_systems": "unseen systems"}
# What judges say of two values; what is let through comes first.
PLURALS = {"fail": "fails", "pass": "passes"}


def number_text(value: float | None, *, signed: bool = False) -> str:
    """Three decimals; "undefined" where the figure does not exist."""
    if value is None or not math.isfinite(value):
        return "undefined"
    # Of the number that JSON has, so that both round alike.
    value = round(value, DIGITS) + 0.0
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def interval_text(interval: "Interval | None", *, signed: bool = False) -> str:
    """The ends in brackets; that there are too few documents where an interval is withheld."""
    if interval is None:
        return TOO_FEW
    low, high = (number_text(end, signed=signed) for end in (interval.low, interval.high))
    return f"[{low}, {high}]"


def looks_text(looks: int) -> str:
    """Of how many looks an interval is; empty for one."""
    return f" of {looks} looks" if looks > 1 else ""


def figure_text(figure: "Figure | None", *, signed: bool = False) -> str:
    """The value and, where it is known, the interval; "undefined" without a figure."""
    number = number_text(figure.value if figure else None, signed=signed)
    if not figure or number == "undefined" or figure.interval is None:
        return number
    return f"{number} {interval_text(figure.interval, signed=signed)}"


def share_text(value: float | None) -> str:
    """A share in whole percent; "undefined" where it does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.0%}"


def certainty_text(share: "Figure") -> str:
    """The interval of a share in words, or that it is withheld."""
    if share.interval is None:
        return TOO_FEW
    return f"95% interval {share_text(share.interval.low)} to {share_text(share.interval.high)}"


def counted(number: int, unit: str) -> str:
    """A number and what it counts, which is given in the singular."""
    ending = "es" if unit.endswith("ss") else "s"
    return f"{number:,} {unit}{ending * (number != 1)}"


def cost_text(dollars: float | None) -> str:
    """Dollars in digits enough to tell cheap models apart; "free", or "cost unknown"."""
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "free"
    return f"${dollars:,.2f}" if dollars >= 10 else f"${dollars:.4f}"


def address(file: Path) -> str:
    """A file as an address that terminals link."""
    return file.resolve().as_uri()


def wrapped(*sentences: str) -> list[str]:
    """Lines of at most 80 columns, each sentence from a line's start; commands are not broken."""
    return [
        line
        for sentence in sentences
        for line in textwrap.wrap(sentence, WIDTH, break_long_words=False, break_on_hyphens=False)
    ]


def short_name(name: str, length: int = 24) -> str:
    """A name cut to a length in its middle, where names of models and files are alike least."""
    if len(name) <= length:
        return name
    tail = (length - 1) // 2
    return f"{name[: length - 1 - tail]}…{name[len(name) - tail :]}"


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table for a terminal: a line a row, each column as wide as its widest cell."""
    cells = [[short_name(row[0], 20), *row[1:]] for row in (head, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def signature(rho: "Correlation", unit: str, n_systems: int) -> str:
    """A correlation as it is cited, with level, coefficient, interval and counts."""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[rho.coefficient]
    zero = f" ({rho.n_zero:,} of them count 0)" if rho.n_zero else ""
    counts = [
        counted(n_systems, "system") if rho.level == "system" else "",
        f"{rho.n_documents:,} documents",
        f"{rho.n_outputs:,} {unit}",
        f"{rho.n_undefined:,} undefined{zero}" if rho.n_undefined else "",
        f"{rho.n_failed:,} failed" if rho.n_failed else "",
    ]
    return f"{rho.level}-level {symbol} {figure_text(rho)}, n={', '.join(filter(None, counts))}"


def miss_line(row: Mapping[str, Any]) -> str:
    """A miss in a line: the output's first words, what people wrote, what the judge wrote."""
    lead = f"{row['miss']} {short_name(row['id'], 16)}: "
    judge = row["decided_by"] or row["reason"]
    parts = [("", row["output"]), ("people: ", row["comment"]), ("judge: ", judge)]
    parts = [(who, " ".join(text.split())) for who, text in parts if text and text.strip()]
    room = (WIDTH - len(lead) - 3 * (len(parts) - 1)) // max(len(parts), 1)
    return lead + " | ".join(
        who + (text if len(who + text) <= room else f"{text[: room - len(who) - 1]}…")
        for who, text in parts
    )
