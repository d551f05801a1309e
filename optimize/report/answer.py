"""The answer to a reader's question about a result, from which text and pages are made."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from judges.terminal import LINE_WIDTH, wrap_lines
from optimize.figures.as_text import number_text, share_text, short_name, table_lines
from optimize.measuring.misses import Miss
from optimize.statistics.intervals import Figure

# A fact is a pair of texts: a short title, which may be empty, and a sentence.
Fact = tuple[str, str]
# A tuning run and `verify` print at most this many lines in the terminal.
MAX_RUN_LINES, MAX_VERIFY_LINES = 24, 12


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table with a caption; the cells of each row are in the order of the columns."""

    column_names: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure to print with a title: in percent if `is_share`, signed if `is_difference`."""

    title: str
    figure: Figure
    note: str = ""
    is_share: bool = False
    is_difference: bool = False

    @property
    def value_text(self) -> str:
        if self.is_share:
            return share_text(self.figure.value)
        return number_text(self.figure.value, signed=self.is_difference)

    @property
    def interval_text(self) -> str:
        """The ends of the interval, such as "0.2 to 0.4"; empty if there is no interval."""
        if not (interval := self.figure.interval):
            return ""
        format_end = share_text if self.is_share else number_text
        return f"{format_end(interval.low)} to {format_end(interval.high)}"

    @property
    def figure_text(self) -> str:
        """The value, and the interval in brackets if there is one."""
        return self.value_text + (f" ({self.interval_text})" if self.figure.interval else "")

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"{self.title}: {self.figure_text}{note}."


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """All sentences and figures on a result; the most important come first.

    `headline` answers the question in `title`. `reasons` are the reasons for this answer, and
    warnings; they are always shown. `measured_on` says from which rows the figures come.
    `next_steps` tells the reader what to do, the most urgent step first, with code in backticks.
    """

    title: str
    headline: str
    reasons: Sequence[Fact] = ()
    tiles: Sequence[Tile] = ()
    measured_on: str = ""
    facts: Sequence[Fact] = ()
    tables: Sequence[ReportTable] = ()
    next_steps: Sequence[str] = ()

    def lines(
        self, max_lines: float = math.inf, *, details: Sequence[str] = (), footer: str = ""
    ) -> list[str]:
        """Return lines for a terminal, without the facts and details that exceed `max_lines`."""
        top_lines = wrap_lines(self.title, self.headline, *fact_lines(self.reasons))
        top_lines += wrap_lines(*map(str, self.tiles), self.measured_on)
        next_steps = [f"Next: {step.replace('`', '')}" for step in self.next_steps[:1]]
        bottom_lines = wrap_lines(*next_steps)
        for table in self.tables:
            bottom_lines += ["", *table_lines(table.column_names, table.rows)]
        bottom_lines += wrap_lines(*footer.splitlines())
        for sentence in (*fact_lines(self.facts), *details):
            lines = wrap_lines(sentence)
            if len(top_lines) + len(lines) + len(bottom_lines) <= max_lines:
                top_lines += lines
        return [*top_lines, *bottom_lines]


def fact_lines(facts: Sequence[Fact]) -> list[str]:
    """Return each fact as one text: its sentence, after its title unless the title is empty."""
    return [f"{title}: {sentence}" if title else sentence for title, sentence in facts]


def miss_line(title: str, miss: Miss) -> str:
    """Return one line with excerpts of the output, people's comment and the judge's reason."""
    prefix = f"{title} {short_name(miss.id, 16)}: "
    reason = miss.decided_by or miss.reason
    text_by_label = {"": miss.output, "people: ": miss.comment, "judge: ": reason}
    texts = [
        label + " ".join(text.split()) for label, text in text_by_label.items() if text.strip()
    ]
    width = (LINE_WIDTH - len(prefix) - 3 * (len(texts) - 1)) // max(len(texts), 1)
    excerpts = [text if len(text) <= width else f"{text[: width - 1]}…" for text in texts]
    return prefix + " | ".join(excerpts)
