"""How numbers, intervals, counts, tables, pass and fail are written, on screen and page alike."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

WIDTH = 80
TOO_FEW = "too few for an interval"
SPLITS = {"test": "test", "test_unseen_systems": "unseen systems"}
# What judges say of two values; what is let through comes first.
PLURALS = {"fail": "fails", "pass": "passes"}


def number_text(value: float | None, *, signed: bool = False) -> str:
    """Three decimals; "undefined" where the figure does not exist."""
    if value is None or math.isnan(value):
        return "undefined"
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def interval_text(low: float | None, high: float | None, *, signed: bool = False) -> str:
    """The ends in brackets; that there are too few documents where an interval is withheld."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return TOO_FEW
    return f"[{number_text(low, signed=signed)}, {number_text(high, signed=signed)}]"


def cell_text(cell: Mapping[str, Any] | None, *, signed: bool = False) -> str:
    """`value` and, where they are known, `low` and `high` of JSON; "undefined" without a cell."""
    number = number_text(cell["value"] if cell else None, signed=signed)
    if not cell or number == "undefined" or cell["low"] is None:
        return number
    return f"{number} {interval_text(cell['low'], cell['high'], signed=signed)}"


def share_text(value: float | None) -> str:
    """A share in whole percent; "undefined" where it does not exist."""
    return "undefined" if value is None or math.isnan(value) else f"{value:.0%}"


def certainty_text(share: Mapping[str, Any]) -> str:
    """The interval of a share in words, or that it is withheld."""
    if share["low"] is None:
        return TOO_FEW
    return f"95% interval {share_text(share['low'])} to {share_text(share['high'])}"


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


def signature(cell: Mapping[str, Any], unit: str, n_systems: int) -> str:
    """A correlation as it is cited, with level, coefficient, interval and counts."""
    symbol = {"spearman": "rho", "kendall": "tau-b", "pearson": "r"}[cell["coefficient"]]
    uncounted = [
        f"{cell[name]:,} {word}"
        for name, word in (("n_undefined", "undefined"), ("n_failed", "failed"))
        if cell[name]
    ]
    if cell.get("n_zero"):
        uncounted[0] += f" ({cell['n_zero']:,} of them count 0)"
    systems = [counted(n_systems, "system")] if cell["level"] == "system" else []
    counts = [f"{cell['n_documents']:,} documents", f"{cell['n_outputs']:,} {unit}", *uncounted]
    counts = [*systems, *counts]
    return f"{cell['level']}-level {symbol} {cell_text(cell)}, n={', '.join(counts)}"


def two_value_sentences(card: Mapping[str, Any]) -> list[str]:
    """What a judge lets through, its false alarms, and what always saying one word reaches."""
    counts = card["confusion"]

    def missed(word: str, name: str, verbs: str, number: int) -> str:
        cell, lacking = card[name.lower()], card["n_more"][word]
        if not cell["n"]:
            return f"People call none of these outputs a {word}: {name} is not known."
        certainty = certainty_text(cell)
        if cell["low"] is None and lacking:
            certainty = f"{lacking:,} more for an interval"
        miss, catch = verbs.split()
        share = f"{name}, it {catch} {share_text(cell['value'])}; {certainty}"
        return f"It {miss} {number:,} of {counted(cell['n'], word)} ({share})."

    constant, people, judge = card["constant"], card["base_rate"], card["judge_rate"]
    return [
        missed("fail", "TNR", "misses catches", counts["fail_pass"]),
        missed("pass", "TPR", "fails passes", counts["pass_fail"]),
        f"It agrees on {share_text(card['accuracy']['value'])} (always saying {constant['word']} "
        f"would on {share_text(constant['accuracy']['value'])}), kappa {cell_text(card['kappa'])}.",
        f"People pass {share_text(people['value'])}, the judge {share_text(judge['value'])}.",
    ]


def miss_line(row: Mapping[str, Any]) -> str:
    """A miss in a line: the output's first words, what people wrote, what the judge wrote."""
    lead = f"{row['miss']} {short_name(row['id'], 16)}: "
    said = [("", row["output"]), ("people: ", row["comment"]), ("judge: ", row["reason"])]
    said = [(who, " ".join(text.split())) for who, text in said if text and text.strip()]
    room = (WIDTH - len(lead) - 3 * (len(said) - 1)) // max(len(said), 1)
    return lead + " | ".join(
        who + (text if len(who + text) <= room else f"{text[: room - len(who) - 1]}…")
        for who, text in said
    )
