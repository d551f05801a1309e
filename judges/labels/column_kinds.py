"""Infers what one column holds from its cells: ratings, texts, labels or something else."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal

from judges.labels.cells import holds_ratings, is_blank, join_texts
from judges.labels.names import OUTPUT_NAMES, is_id_name, is_reference_name, name_words
from judges.labels.rating_reader import is_rating_word
from judges.labels.values import NUMBER, is_missing_value, is_yes_or_no, normalize_word, parse_cell

# Matches dates and times, such as `2026-11-01T09:00Z`, `11/1/2026 9:00:11 AM` and `01.11.2026`.
_TIMESTAMP = re.compile(
    r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[T ,]+\d{1,2}:\d\d\S*(?: ?[ap]\.?m\.?)?(?: \S+)?)?|"
    r"\d{1,2}:\d\d(?::\d\d)?",
    re.IGNORECASE,
)
# Matches identifiers and web addresses. Texts in Chinese, which has no spaces, do not match.
_IDENTIFIER = re.compile(r"[!-~]+")
# Labels and names have at most 40 characters. A column of labels has at most 12 different ones.
_SHORT_TEXT = re.compile(r"(?=.{0,40}\Z)[^ ]*(?: [^ ]*){0,5}", re.DOTALL)
_MAX_DISTINCT_LABELS = 12
# A number above 100 is rarely a rating.
_MAX_RATING = 100
# Up to five ratings may all differ by chance. Six different whole numbers are row numbers.
_MIN_ROW_NUMBERS = 6

# What the cells of a column hold. Labels are short and have few different values, such as `good`
# and `bad`. Names are identifiers with more different values. The kind "" is for anything else.
ColumnKind = Literal["rating", "text", "label", "name", ""]


@dataclass(frozen=True)
class Column:
    """One column of a table with its cells, or one key of the objects in a column.

    A key's name is a path such as `metadata.author`. If `is_text`, the column counts as texts
    whatever its cells hold. Without `parse_strings`, a string is never read as a number. A cell
    with one of the user's `rating_words` counts as a rating, like a cell with yes or no.
    """

    name: str
    cells: tuple[object, ...]
    is_text: bool
    parse_strings: bool
    rating_words: Collection[str]

    @cached_property
    def n_distinct(self) -> int:
        """The number of different values in the cells."""
        return len({*map(str, self.cells)})

    @cached_property
    def _present_cells(self) -> list[object]:
        return [cell for cell in self.cells if not is_missing_value(cell)]

    @cached_property
    def _distinct_texts(self) -> set[str]:
        # A list of short texts holds labels, such as the votes of several people.
        values = chain.from_iterable(
            cell if isinstance(cell, list) and join_texts(cell) else [join_texts(cell) or cell]
            for cell in self._present_cells
        )
        return {str(value).strip() for value in values}

    @cached_property
    def kind(self) -> ColumnKind:
        """What the cells hold: ratings, texts, labels, names or, for the kind "", anything else."""
        has_few_values = len(self._distinct_texts) <= _MAX_DISTINCT_LABELS
        if self.is_text or (is_reference_name(self.name) and not has_few_values):
            return "text"
        holds_identifiers = all(map(_IDENTIFIER.fullmatch, self._distinct_texts))
        if is_id_name(self.name) and holds_identifiers:
            return "name"
        if self._holds_ratings:
            return "rating"
        holds_texts = any(isinstance(cell, str) or join_texts(cell) for cell in self._present_cells)
        if not holds_texts or all(map(_TIMESTAMP.fullmatch, self._distinct_texts)):
            return ""
        if has_few_values and self.has_short_cells:
            return "label"
        return "name" if holds_identifiers else "text"

    @property
    def _holds_ratings(self) -> bool:
        """Whether at least half of the cells are numbers, or three quarters say yes or no."""
        cells = self._present_cells
        n_numbers = sum(holds_ratings(cell, parse_strings=self.parse_strings) for cell in cells)
        n_yes_no = sum(is_yes_or_no(cell, self.rating_words) for cell in cells)
        return bool(cells) and (2 * n_numbers >= len(cells) or 4 * n_yes_no >= 3 * len(cells))

    @property
    def has_short_cells(self) -> bool:
        """Whether every cell is as short as a name or a label."""
        return all(map(_SHORT_TEXT.fullmatch, self._distinct_texts))

    @property
    def is_category(self) -> bool:
        """Whether the column holds short values that occur at least twice on average."""
        return self.kind == "label" and 2 * self.n_distinct <= len(self.cells)

    @property
    def holds_rating_words(self) -> bool:
        """Whether the labels repeat, and at least half of them are words such as good."""
        labels = {*map(normalize_word, self._present_cells)}
        return self.is_category and 2 * sum(map(is_rating_word, labels)) >= len(labels)

    @property
    def holds_scale_numbers(self) -> bool:
        """Whether the numbers in the cells are at most 100, and are not row numbers."""
        numbers = [cell.number for cell in map(parse_cell, self.cells) if cell.kind == NUMBER]
        never_repeat = len(numbers) >= _MIN_ROW_NUMBERS and len({*numbers}) == len(numbers)
        are_row_numbers = never_repeat and all(map(float.is_integer, numbers))
        return max(map(abs, numbers), default=0) <= _MAX_RATING and not are_row_numbers

    @property
    def name_to_suggest(self) -> str:
        """The NAME to suggest in --map NAME=COLUMN if the column was not read; "" for none."""
        if self.kind == "name":
            return "id" if self.n_distinct == len(self.cells) else "group"
        return "input" if self.kind == "text" else ""

    @property
    def is_filled_and_varied(self) -> bool:
        """Whether no cell is blank, and at least two cells differ."""
        return self.n_distinct > 1 and not any(map(is_blank, self.cells))

    def may_be_source(self, max_distinct_texts: int) -> bool:
        """Return whether the cells look like source texts, for a column with an unusual name.

        A source text is repeated for each of its outputs. A column of source texts therefore has
        fewer different cells than the column of outputs, which has `max_distinct_texts`. Most
        source texts have three words or more.
        """
        if not 1 < self.n_distinct < max_distinct_texts:
            return False
        repeats_texts = 3 * self.n_distinct <= 2 * len(self.cells)
        is_named_like_output = not {*name_words(self.name)}.isdisjoint(OUTPUT_NAMES)
        word_counts = sorted(len(str(cell).split()) for cell in self.cells)
        has_long_texts = word_counts[len(word_counts) // 2] > 2
        return repeats_texts and not is_named_like_output and has_long_texts
