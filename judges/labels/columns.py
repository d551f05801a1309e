"""Finds the columns of a table by their names, and describes what their cells hold."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import chain
from typing import Literal

from judges.labels.cells import (
    KEY_SEPARATOR,
    MAX_INSPECTED_ROWS,
    as_object,
    holds_ratings,
    is_blank,
    join_texts,
    value_at,
)
from judges.labels.names import (
    OUTPUT_NAMES,
    is_id_name,
    is_reference_name,
    is_source_or_output,
    name_key,
    name_words,
    split_at_commas,
)
from judges.labels.options import ColumnNames, ReadOptions
from judges.labels.rating_reader import is_rating_word
from judges.labels.values import NUMBER, is_missing_value, is_yes_or_no, normalize_word, parse_cell
from judges.tables.formats import Table
from judges.tables.problems import joined_names
from judges.tables.text import TableRow

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

# The exact names of one or several columns.
ColumnTuple = tuple[str, ...]

# Usual names of columns whose cells are objects {dimension: rating}.
NESTED_COLUMNS = ("ratings", "annotations")
# Usual names of a column with people's votes on pairs.
VOTE_COLUMNS = ("votes", "preferred", "preference", "winner")
# The roles of columns other than texts and ratings on one dimension: in a table of outputs, and in
# a table of pairs.
OUTPUT_ROLES = ("id", "group", "system", *NESTED_COLUMNS, "annotator")
PAIR_ROLES = ("id", "group", "system_a", "system_b", "annotator")
# `--map comment=COLUMN` names the columns of people's comments on their labels.
COMMENT_NAME = "comment"
# With `--map id=#row`, the number of each row with data is its id: 1, 2 and so on.
ROW_NUMBER_COLUMN = "#row"

# Other names that files often give to the columns `id`, `group`, `system` and so on.
_ALIASES = {
    "id": (
        *("item_id", "sample_id", "example_id", "nr", "nr.", "no.", "n°", "#", "index", "item"),
        *("nummer", "numéro", "número", "identifiant", "identificador"),
    ),
    "group": ("document_id", "doc_id", "group_id", "conversation_id"),
    "system": (
        *("system_id", "system_name", "model", "model_id", "model_name", "modell", "modèle"),
        *("bot", "chatbot", "llm", "variant", "variante"),
    ),
    "system_a": ("model_a", "generator_1"),
    "system_b": ("model_b", "generator_2"),
    "annotator": (
        *("annotator_id", "annotator_name", "worker", "worker_id", "rater", "rater_id", "coder"),
        *("reviewer", "evaluator", "bewerter", "annotateur", "évaluateur", "evaluador"),
    ),
    "dimension": ("criterion", "aspect", "kriterium", "aspekt", "critère", "criterio", "dimensión"),
    "rating": ("score", "value", "mark", "grade", "bewertung", "note", "punkte", "puntuación"),
}
# A column that the user maps to one of these names is not a text that a judge reads.
ROLE_NAMES = frozenset(
    {*_ALIASES, *NESTED_COLUMNS, *VOTE_COLUMNS, "response_a", "response_b", COMMENT_NAME}
)


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


class Columns:
    """The columns of a table: found by their names, and described by their cells.

    A column's name may also be a path `a.b`, for the key `b` of the objects in the column `a`.

    Attributes:
        by_name: Maps each NAME of the user's `--map NAME=COLUMN` to the columns, by exact name.
        user_columns: All columns that the user names with `--map`.
        column: Returns a column by its name or path, with its cells.
        find: Returns the column for a role such as `id`, or None.
    """

    def __init__(self, table: Table, options: ReadOptions) -> None:
        self.table, self.options = table, options
        self.column, self.find = cache(self._column), cache(self._find)
        # Maps each name without case and spacing (`name_key`) to the exact names of columns.
        self._names_by_key: dict[str, list[str]] = defaultdict(list)
        for name in table.columns:
            self._names_by_key[name_key(name)].append(name)
        names_by_name = options.columns_by_name.items()
        self.by_name = {name: self._exact_names(names) for name, names in names_by_name if names}
        self.user_columns = set[str]().union(*self.by_name.values())

    def _exact_names(self, names: ColumnNames) -> ColumnTuple:
        """Return the exact names of the columns in one --map, such as `--map quality=Anna,Ben`."""
        column_names: list[str] = []
        for name in [names] if isinstance(names, str) else map(str, names):
            # A column's name may itself contain a comma, so look for the whole name first.
            column = self.exact_name(name)
            is_column = column in self.table.columns or column in self.key_paths
            column_names += [name] if is_column else split_at_commas(name) or [name]
        return tuple(dict.fromkeys(map(self.exact_name, column_names)))

    def exact_name(self, name: str) -> str:
        """Return the only column whose name equals `name` up to case and spacing, else `name`."""
        similar_names = self._names_by_key.get(name_key(name), [])
        return similar_names[0] if len(similar_names) == 1 and not self.has(name) else name

    def has(self, name: str) -> bool:
        """Return whether the table has this column or, for a path `a.b`, the column `a`."""
        return self.outer_name(name) in self.table.columns

    def outer_name(self, name: str) -> str:
        """Return the column `a` for a path `a.b`; the name of a column is returned unchanged."""
        return name if name in self.table.columns else name.partition(KEY_SEPARATOR)[0]

    @cached_property
    def key_paths(self) -> ColumnTuple:
        """The paths of the keys of objects in the first rows, such as `metadata.author`."""
        paths: dict[str, None] = {}
        for row in self.table.rows[:MAX_INSPECTED_ROWS]:
            for column, cell in row.cells.items():
                keys = as_object(cell) or ()
                paths |= dict.fromkeys(f"{column}{KEY_SEPARATOR}{key}" for key in keys)
        return tuple(paths)

    @property
    def names_text(self) -> str:
        """The names of all columns, and of the keys in their objects, as a list in a message."""
        return joined_names([*self.table.columns, *self.key_paths])

    def _column(self, name: str) -> Column:
        return Column(
            name,
            cells=tuple(value_at(row.cells, name) for row in self.table.rows),
            is_text=self.must_hold_text(name),
            parse_strings=not self.table.is_typed,
            rating_words=self.options.number_by_word,
        )

    def must_hold_text(self, name: str) -> bool:
        """Return whether a column must hold texts: a judge reads it, or it is named like a text."""
        return is_source_or_output(name) or name in (self.options.texts or ())

    def kind_of(self, name: str) -> ColumnKind:
        return self.column(name).kind

    def of_kind(self, names: Iterable[str], *kinds: ColumnKind) -> list[str]:
        """Return those of the columns whose cells are of one of the kinds."""
        return [name for name in names if self.kind_of(name) in kinds]

    def except_for(self, names: Collection[str]) -> list[str]:
        """Return all columns of the table but these."""
        return [column for column in self.table.columns if column not in names]

    def _find(self, role: str) -> str | None:
        """Return the user's column for a role such as `id`, else a column with a usual name."""
        if role in self.by_name:
            column = self.by_name[role][0]
            return column if self.has(column) else None
        for column in map(self.exact_name, (role, *_ALIASES.get(role, ()))):
            is_free = column == role or column not in self.user_columns
            if column in self.table.columns and is_free and self._fits_role(column, role):
                return column
        return None

    def _fits_role(self, column: str, role: str) -> bool:
        if role in NESTED_COLUMNS:
            # A column called `ratings` or `annotations` may hold remarks instead of objects.
            return any(str(cell).lstrip()[:1] in ("{", "[") for cell in self.column(column).cells)
        # A column called `system` may hold long system prompts instead of systems' names.
        return role != "system" or self.column(column).has_short_cells

    def cell(self, row: TableRow, role: str) -> object:
        """Return a row's cell in the column for a role such as `system`; None without a column."""
        column = self.find(role)
        return None if column is None else value_at(row.cells, column)

    def find_all(self, roles: Iterable[str]) -> ColumnTuple:
        """Return the columns for roles such as `id`; roles without a column are left out."""
        return tuple(column for column in map(self.find, roles) if column is not None)

    def in_use(self, roles: Iterable[str]) -> set[str]:
        """Return the columns for roles such as `id`, and every column that --map names."""
        return {*self.find_all(roles)} | self.user_columns

    @cached_property
    def is_long(self) -> bool:
        """Whether one column names the dimension of each row, and another holds the rating."""
        column = self.find("dimension")
        if column is None or self.find("rating") is None:
            return False
        is_certain = "dimension" in (*self.by_name, name_key(column))
        return is_certain or self.kind_of(column) == "label"

    @cached_property
    def nested(self) -> ColumnTuple:
        """The columns of objects {dimension: rating}. Ratings in later columns replace others."""
        return self.find_all(NESTED_COLUMNS)

    @property
    def rating_paths(self) -> list[str]:
        """The paths of the keys in these objects, such as `ratings.fluency`."""
        return [path for path in self.key_paths if self.outer_name(path) in self.nested]

    @cached_property
    def judge_scores(self) -> set[str]:
        """The columns that `dspy-judges score` writes: it also writes NAME_failure beside NAME."""
        names = [name for name in self.table.columns if f"{name}_failure" in self.table.columns]
        score_columns = {f"{n}{suffix}" for n in names for suffix in ("", "_verdict", "_tuned_on")}
        return score_columns.intersection(self.table.columns)

    @cached_property
    def likely_ratings(self) -> ColumnTuple:
        """The columns whose cells look like people's ratings; () in a long table."""
        if self.is_long:
            return ()
        used_columns = self.in_use(OUTPUT_ROLES) | self.judge_scores
        return tuple(self.of_kind(self.except_for(used_columns), "rating"))


def without_missing_columns(
    options: ReadOptions, table: Table, names: Collection[str] | None = None
) -> ReadOptions:
    """Return the options without each --map whose columns the table lacks.

    `names` are the names that need no column in this table; by default, no name needs one.
    """
    columns = Columns(table, options)
    kept_columns = {
        name: user_columns
        for name, user_columns in columns.by_name.items()
        if all(map(columns.has, user_columns)) or (names is not None and name not in names)
    }
    return replace(options, columns_by_name=kept_columns)
