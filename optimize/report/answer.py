"""The answer about a result, as a tree; the terminal and the top of a page are views of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from optimize.figures.as_text import number_text, share_text, table_lines, wrapped
from optimize.statistics.intervals import Figure

# What a sentence is about, in a word or two, and the sentence.
Titled = tuple[str, str]
# Lines of a terminal for a run, and for a verification or a swap.
RUN_LINES, SCREEN_LINES = 24, 12


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells under a head."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """One figure: what it is, the number, its interval in words, and what to hold it against."""

    what: str
    number: str
    interval: str = ""
    beside: str = ""

    @classmethod
    def of(
        cls, what: str, figure: Figure, beside: str = "", *, share: bool = False, sign: bool = False
    ) -> "Tile":
        """A figure as a number or a share in percent, with its interval."""
        text = share_text if share else number_text
        ends = figure.interval
        return cls(
            what=what,
            number=number_text(figure.value, signed=True) if sign else text(figure.value),
            interval=f"{text(ends.low)} to {text(ends.high)}" if ends else "",
            beside=beside,
        )

    def __str__(self) -> str:
        interval = f" ({self.interval})" if self.interval else ""
        beside = f"; {self.beside}" if self.beside else ""
        return f"{self.what}: {self.number}{interval}{beside}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reader is told of a result, the most important first.

    `headline` answers the question in the title, and `why` gives the reasons. The figures in
    `tiles` are `measured` on so many rows. Of the `steps` the first is the most pressing; backticks
    in them stand around code.
    """

    title: str
    headline: str
    why: Sequence[Titled] = ()
    tiles: Sequence[Tile] = ()
    measured: str = ""
    facts: Sequence[Titled] = ()
    tables: Sequence[Table] = ()
    steps: Sequence[str] = ()

    def lines(
        self, most: float = math.inf, *, extra: Sequence[str] = (), last: Sequence[str] = ()
    ) -> list[str]:
        """The answer for a terminal, in 80 columns.

        Args:
            most: Lines of the screen; facts are left out where they have no room.
            extra: What stands below the facts where it has room.
            last: What stands below all.
        """
        above = self.title, self.headline, *titled(self.why), *map(str, self.tiles), self.measured
        end = [
            *wrapped(*(f"Next: {step.replace('`', '')}" for step in self.steps[:1])),
            *([""] if self.tables else []),
            *(line for table in self.tables for line in table_lines(table.head, table.rows)),
            *wrapped(*last),
        ]
        first, middle = wrapped(*above), list[str]()
        for text in (*titled(self.facts), *extra):
            own = wrapped(text)
            middle += own if len([*first, *middle, *own, *end]) <= most else []
        return [*first, *middle, *end]


def titled(sentences: Sequence[Titled]) -> list[str]:
    """Sentences behind what they are about, where that is not plain."""
    return [f"{title}: {text}" if title else text for title, text in sentences]
