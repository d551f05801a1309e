"""The answer to a reader's question about a result, from which text and pages are made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimize.figures.as_text import number_text, share_text, table_lines, wrap_lines
from optimize.statistics.intervals import Figure

# A short title, which may be empty, and a sentence.
Fact = tuple[str, str]
# Upper bounds on the lines that a tuning run and `verify` print in the terminal.
RUN_LINES, VERIFY_LINES = 24, 12


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table: the head has the names of the columns, and the rows have the cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure with its title and a note; in percent if `is_share`, signed if `is_difference`."""

    title: str
    figure: Figure
    note: str = ""
    is_share: bool = False
    is_difference: bool = False

    @property
    def number(self) -> str:
        if self.is_share:
            return share_text(self.figure.value)
        return number_text(self.figure.value, signed=self.is_difference)

    @property
    def interval(self) -> str:
        """The ends of the interval; empty if it is withheld."""
        if not (bounds := self.figure.interval):
            return ""
        format_value = share_text if self.is_share else number_text
        return f"{format_value(bounds.low)} to {format_value(bounds.high)}"

    @property
    def value_text(self) -> str:
        """The number, and the interval in brackets if there is one."""
        return f"{self.number} ({self.interval})" if self.interval else self.number

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"{self.title}: {self.value_text}{note}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """All sentences and figures on a result; the most important come first.

    `headline` answers the question in the title, and `why` has reasons and warnings, which are
    always shown. `measured` says which rows the `tiles` were measured on. `steps` says what to do
    next, the most urgent step first; code in a step is between backticks.
    """

    title: str
    headline: str
    why: Sequence[Fact] = ()
    tiles: Sequence[Tile] = ()
    measured: str = ""
    facts: Sequence[Fact] = ()
    tables: Sequence[ReportTable] = ()
    steps: Sequence[str] = ()

    def lines(
        self, max_lines: float = math.inf, *, extra: Sequence[str] = (), last: Sequence[str] = ()
    ) -> list[str]:
        """Return the answer for a terminal; facts and `extra` are left out above `max_lines`."""
        why = fact_lines(self.why)
        top_sentences = self.title, self.headline, *why, *map(str, self.tiles), self.measured
        bottom = [
            *wrap_lines(*(f"Next: {step.replace('`', '')}" for step in self.steps[:1])),
            *(line for one in self.tables for line in ("", *table_lines(one.head, one.rows))),
            *wrap_lines(*last),
        ]
        top, middle = wrap_lines(*top_sentences), list[str]()
        for sentence in (*fact_lines(self.facts), *extra):
            lines = wrap_lines(sentence)
            middle += lines if len([*top, *middle, *lines, *bottom]) <= max_lines else []
        return [*top, *middle, *bottom]


def fact_lines(facts: Sequence[Fact]) -> list[str]:
    """Return each fact as one text: the sentence, preceded by its title if that is not empty."""
    return [f"{title}: {sentence}" if title else sentence for title, sentence in facts]
