"""The answer to a reader's question about a result, from which text and pages are made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimize.figures.as_text import number_text, share_text, table_lines, wrapped
from optimize.statistics.intervals import Figure

# A title of a word or two (or ""), and a sentence.
Fact = tuple[str, str]
# The most lines of an answer in the terminal: of a tuning run, and of `verify`.
RUN_LINES, SCREEN_LINES = 24, 12


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the head has the names of the columns, and the rows have the cells."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure: its title, the number, the interval in words, and a note."""

    title: str
    number: str
    interval: str = ""
    note: str = ""

    @classmethod
    def of(
        cls, title: str, figure: Figure, note: str = "", *, share: bool = False, sign: bool = False
    ) -> "Tile":
        """Make a tile of a figure; `share` writes it in percent, and `sign` with its sign."""
        text = share_text if share else number_text
        ends = figure.interval
        return cls(
            title=title,
            number=number_text(figure.value, signed=True) if sign else text(figure.value),
            interval=f"{text(ends.low)} to {text(ends.high)}" if ends else "",
            note=note,
        )

    def __str__(self) -> str:
        interval = f" ({self.interval})" if self.interval else ""
        note = f"; {self.note}" if self.note else ""
        return f"{self.title}: {self.number}{interval}{note}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All sentences and figures on a result; the most important come first.

    `headline` answers the question in the title, and `why` has the reasons. `measured` says which
    rows the `tiles` were measured on. The most urgent of the next `steps` is the first; code in a
    step is between backticks.
    """

    title: str
    headline: str
    why: Sequence[Fact] = ()
    tiles: Sequence[Tile] = ()
    measured: str = ""
    facts: Sequence[Fact] = ()
    tables: Sequence[Table] = ()
    steps: Sequence[str] = ()

    def lines(
        self, max_lines: float = math.inf, *, extra: Sequence[str] = (), last: Sequence[str] = ()
    ) -> list[str]:
        """The answer for a terminal, in 80 columns.

        Args:
            max_lines: Upper bound on the lines; facts that do not fit are left out.
            extra: Further sentences below the facts, if they fit.
            last: The last sentences.
        """
        why = fact_lines(self.why)
        above = self.title, self.headline, *why, *map(str, self.tiles), self.measured
        end = [
            *wrapped(*(f"Next: {step.replace('`', '')}" for step in self.steps[:1])),
            *([""] if self.tables else []),
            *(line for table in self.tables for line in table_lines(table.head, table.rows)),
            *wrapped(*last),
        ]
        first, middle = wrapped(*above), list[str]()
        for text in (*fact_lines(self.facts), *extra):
            lines = wrapped(text)
            middle += lines if len([*first, *middle, *lines, *end]) <= max_lines else []
        return [*first, *middle, *end]


def fact_lines(sentences: Sequence[Fact]) -> list[str]:
    """Each sentence after its title, if it has one."""
    return [f"{title}: {text}" if title else text for title, text in sentences]
