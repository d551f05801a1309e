"""Infers what one column holds from its cells: ratings, texts, labels or something else."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from judges.labels.cells import holds_ratings, is_blank, join_texts
from judges.labels.names import OUTPUT_NAMES, is_id_name, is_reference_name, name_words
from judges.labels.values import is_missing_value, is_yes_or_no

# A date, a time, or both, such as `2026-11-01T09:00Z`, `11/1/2026 9:00:11 AM` and `01.11.2026`.
_TIMESTAMP = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[T ,]+\d{1,2}:\d\d\S*(?: ?[ap]\.?m\.?)?(?: \S+)?)?|"
    r"\d{1,2}:\d\d(?::\d\d)?",
    re.IGNORECASE,
)
# An identifier or a web address, but not a text in a script without spaces, such as Chinese.
_IDENTIFIER = re.compile(r"[!-~]+")
# A label or a name has at most 40 characters and five spaces; a column has few different labels.
_SHORT_TEXT = re.compile(r"(?=.{0,40}\Z)[^ ]*(?: [^ ]*){0,5}", re.DOTALL)
_MAX_DISTINCT_LABELS = 12

# What the cells of a column are. Labels are few and short, such as `good` or `4/5`. Names are
# identifiers that are too many for labels. The empty string stands for anything else.
ColumnKind = Literal["rating", "text", "label", "name", ""]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a key `column.key` of the objects in a column, and what its cells hold.

    `is_short` says whether every cell is as short as a name or a label.
    """

    name: str
    cells: tuple[object, ...]
    kind: ColumnKind
    is_short: bool
    n_distinct: int

    @property
    def is_category(self) -> bool:
        """Whether the column holds short values that each occur twice on average, or more often."""
        return self.kind == "label" and 2 * self.n_distinct <= len(self.cells)

    @property
    def likely_name(self) -> str:
        """The NAME to suggest for --map NAME=COLUMN if the column is unread; else ""."""
        if self.kind == "name":
            return "id" if self.n_distinct == len(self.cells) else "group"
        return "input" if self.kind == "text" else ""

    @property
    def is_filled_and_varied(self) -> bool:
        """Whether no cell is blank and the column has at least two different values."""
        return self.n_distinct > 1 and not any(map(is_blank, self.cells))

    def may_be_source(self, max_distinct: int) -> bool:
        """Return whether the column may hold the source texts although its name is unusual.

        A source text is repeated for each of its outputs, so its column has fewer different values
        than the text column with the most (`max_distinct`). Most texts have 3 words or more.
        """
        word_counts = sorted(len(str(cell).split()) for cell in self.cells)
        has_repeats = (
            3 * self.n_distinct <= 2 * len(self.cells) and 1 < self.n_distinct < max_distinct
        )
        is_output = not {*name_words(self.name)}.isdisjoint(OUTPUT_NAMES)
        return has_repeats and not is_output and word_counts[len(word_counts) // 2] > 2


def infer_column(
    name: str,
    cells: tuple[object, ...],
    *,
    is_text: bool,
    is_typed: bool,
    rating_words: Collection[str],
) -> Column:
    """Return a `Column`; its kind is "text" if `is_text`, else it is inferred from the cells.

    The user's `rating_words` are read as ratings, as yes and no are.
    """
    present_cells = [cell for cell in cells if not is_missing_value(cell)]
    values = {str(join_texts(cell) or cell).strip() for cell in present_cells}
    are_few = len(values) <= _MAX_DISTINCT_LABELS
    are_short = all(map(_SHORT_TEXT.fullmatch, values))
    are_identifiers = all(map(_IDENTIFIER.fullmatch, values))
    kind: ColumnKind = "text"
    if is_text or (is_reference_name(name) and not are_few):
        kind = "text"
    elif is_id_name(name) and are_identifiers:
        kind = "name"
    elif _are_ratings(present_cells, is_typed, rating_words):
        kind = "rating"
    elif all(map(_TIMESTAMP.fullmatch, values)) or not any(map(_holds_text, present_cells)):
        kind = ""
    elif are_few and are_short:
        kind = "label"
    elif are_identifiers:
        kind = "name"
    return Column(name, cells, kind, are_short, len({*map(str, cells)}))


def _are_ratings(cells: Sequence[object], is_typed: bool, rating_words: Collection[str]) -> bool:
    """Return whether half of the cells or more are numbers, or three quarters mean yes or no."""
    n_numbers = sum(holds_ratings(cell, is_typed=is_typed) for cell in cells)
    n_words = sum(is_yes_or_no(cell, rating_words) for cell in cells)
    return bool(cells) and (2 * n_numbers >= len(cells) or 4 * n_words >= 3 * len(cells))


def _holds_text(cell: object) -> bool:
    return isinstance(cell, str) or join_texts(cell) is not None
