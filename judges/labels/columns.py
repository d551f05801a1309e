"""Finds out what each column of a table holds: texts, ratings, labels, ids or comments.

The user's mapping (`--map`) decides first, then a usual column name, then the column's cells.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache, cached_property

from dspy_judges.column_names import name_key
from judges.labels.cells import (
    KEY_SEPARATOR,
    as_object,
    is_id_or_name,
    value_at,
    without_keys,
)
from judges.labels.column_kinds import Column, ColumnKind, infer_column
from judges.labels.names import (
    OUTPUT_NAMES,
    is_comment_name,
    is_id_name,
    is_reference_name,
    is_source_or_output,
    is_text_name,
    name_words,
    source_name,
    split_at_commas,
)
from judges.tables.formats import Table
from judges.tables.problems import joined_names
from judges.tables.text import TableRow

# Usual names of the columns whose cells are objects {dimension: rating}.
NESTED_COLUMNS = ("ratings", "annotations")
# Usual names of the column with people's votes on a pair.
VOTE_COLUMNS = ("votes", "preferred", "preference", "winner")
# The names of columns that hold neither texts nor ratings on one dimension, for outputs and pairs.
OUTPUT_ROLES = ("id", "group", "system", *NESTED_COLUMNS, "annotator")
PAIR_ROLES = ("id", "group", "system_a", "system_b", "annotator")
# `--map id=#row` says that the number of a row is its id.
ROW_NUMBER_COLUMN = "#row"

# Other usual names for the columns `id`, `group`, `system` and so on.
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
# A column of comments with one of these words in its name was written by a model, not a person.
_MODEL_WORDS = frozenset({"llm", "gpt", "model", "judge", "ai", "claude", "gemini", "auto"})
# Names that --map gives to columns that are not texts.
ROLE_NAMES = frozenset({*_ALIASES, *NESTED_COLUMNS, *VOTE_COLUMNS, "response_a", "response_b"})
# The number of first rows in which keys of nested objects are looked up. One row is not enough,
# since the objects in different rows may have different keys.
MAX_INSPECTED_ROWS = 1000

# The column that a name is mapped to, or several columns, each with the ratings of one annotator.
ColumnNames = str | Sequence[str]


class Columns:
    """The columns of a table, which can be found by what they hold.

    `mapping` maps names such as `document` to the columns that the user chose for them. The user's
    `rating_words` are read as ratings, as yes and no are. If `reads_labels` is false, people have
    yet to label the rows, so a column that may reveal the label is not among the texts.
    """

    def __init__(
        self,
        table: Table,
        mapping: Mapping[str, ColumnNames] | None = None,
        judge_texts: Collection[str] = (),
        rating_words: Collection[str] = (),
        reads_labels: bool = True,
    ) -> None:
        self.table, self.judge_texts, self.reads_labels = table, judge_texts, reads_labels
        self.rating_words = rating_words
        self._columns_by_key: dict[str, list[str]] = {}
        for column in table.columns:
            self._columns_by_key.setdefault(name_key(column), []).append(column)
        self.mapping = {
            name: self._mapped_names(columns)
            for name, columns in (mapping or {}).items()
            if columns
        }
        self.find, self.column = cache(self._find), cache(self._column)

    def _mapped_names(self, names: ColumnNames) -> tuple[str, ...]:
        """Return the columns that an entry of the mapping names; a string is split at commas."""
        headers: list[str] = []
        for name in [names] if isinstance(names, str) else map(str, names):
            # A column's name may itself contain a comma, so look for the whole name first.
            column = self.exact_name(name)
            is_column = column in self.table.columns or column in self.nested_keys
            headers += [name] if is_column else split_at_commas(name) or [name]
        return tuple(dict.fromkeys(map(self.exact_name, headers)))

    def with_table(self, table: Table, mapping: Mapping[str, ColumnNames]) -> "Columns":
        """Return the `Columns` of another table and mapping, with the same settings."""
        return Columns(table, mapping, self.judge_texts, self.rating_words, self.reads_labels)

    def _column(self, name: str) -> Column:
        cells = tuple(value_at(row.cells, name) for row in self.table.rows)
        is_text, is_typed = self.is_certain_text(name), self.table.is_typed
        return infer_column(
            name, cells, is_text=is_text, is_typed=is_typed, rating_words=self.rating_words
        )

    def of_kind(self, columns: Iterable[str], *kinds: ColumnKind) -> list[str]:
        """Return the columns among `columns` whose kind is in `kinds`."""
        return [column for column in columns if self.column(column).kind in kinds]

    @cached_property
    def judge_score_columns(self) -> set[str]:
        """The columns of a judge's scores, each beside a column NAME_failure, as `score` writes."""
        return {name for name in self.table.columns if f"{name}_failure" in self.table.columns}

    def columns_except(self, excluded: Collection[str]) -> list[str]:
        """Return the names of the table's columns that are not in `excluded`."""
        return [column for column in self.table.columns if column not in excluded]

    def _find(self, name: str) -> str | None:
        """Return the column for a name such as `id`: the mapped one, else one with a usual name."""
        if name in self.mapping:
            header = self.mapping[name][0]
            return header if self.has(header) else None
        names = map(self.exact_name, (name, *_ALIASES.get(name, ())))
        return next((column for column in names if self._is_usable_as(column, name)), None)

    def _is_usable_as(self, column: str, name: str) -> bool:
        """Return whether `column` exists and its cells fit `name`, which --map does not name."""
        if column not in self.table.columns or (column != name and column in self.mapped_columns):
            return False
        if name in NESTED_COLUMNS:
            # A column called `ratings` or `annotations` may hold remarks instead of objects.
            return any(str(cell).lstrip()[:1] in ("{", "[") for cell in self.cells(column))
        # A column called `system` may hold long system prompts instead of systems' names.
        return name != "system" or self.column(column).is_short

    def cell(self, row: TableRow, name: str) -> object:
        """Return a row's cell in the column for `name`; None if the table has no such column."""
        column = self.find(name)
        return None if column is None else value_at(row.cells, column)

    def item_key(self, row: TableRow) -> str:
        """Return the id in a row, or the row's number if no column holds ids.

        Without ids, rows of several annotators on the same texts get the first row's number.
        """
        if self.find("id") is None:
            return str(self._first_row_numbers.get(row.number, row.number))
        item_id = self.cell(row, "id")
        # A problem is added later for an invalid id. Here such a row gets its own key.
        return (
            str(item_id).strip() if is_id_or_name(item_id) else f"{ROW_NUMBER_COLUMN} {row.number}"
        )

    @cached_property
    def _first_row_numbers(self) -> dict[int, int]:
        """Maps each row's number to that of the first row with equal texts; {} without annotators.

        Rows with equal texts belong to different outputs if they differ in a column of ids such as
        `task_id`. In such a column, ids repeat, but rarely for the same annotator.
        """
        if self.find("annotator") is None:
            return {}
        rows, other_columns = self.table.rows, self.columns_except(self.comment_columns)
        content = [*self.find_all(("group", "system", "system_a", "system_b"))]
        content += filter(is_text_name, other_columns)
        content += self.of_kind(other_columns, "text")
        for column in filter(is_id_name, other_columns):
            pairs = {(self.cell(row, "annotator"), str(row.cells.get(column))) for row in rows}
            if self.column(column).n_distinct < len(pairs) > len(rows) / 2:
                content.append(column)
        first_row_numbers: dict[tuple[str, ...], int] = {}
        return {
            row.number: first_row_numbers.setdefault(
                tuple(str(value_at(row.cells, column)) for column in content), row.number
            )
            for row in rows
        }

    def exact_name(self, name: str) -> str:
        """Return the exact name of the one column called `name` in any case and spacing."""
        columns = self._columns_by_key.get(name_key(name), [])
        return columns[0] if len(columns) == 1 and not self.has(name) else name

    def has(self, column: str) -> bool:
        """Return whether the table has this column; a name `a.b` needs only the column `a`."""
        return self.outer_column(column) in self.table.columns

    def outer_column(self, column: str) -> str:
        """Return `a` for a key `a.b` of the objects in column `a`, and `column` for a column."""
        return column if column in self.table.columns else column.partition(KEY_SEPARATOR)[0]

    @cached_property
    def mapped_columns(self) -> set[str]:
        """All columns in the user's mapping."""
        return set[str]().union(*self.mapping.values())

    def used_columns(self, names: Iterable[str]) -> set[str]:
        """Return the columns found for these names, and every column that --map names."""
        return {*self.find_all(names)} | self.mapped_columns

    def find_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns found for these names; a name may have none."""
        return tuple(self.find_by_name(names).values())

    def find_by_name(self, names: Iterable[str]) -> dict[str, str]:
        """Map each name to its column, without the names that have no column."""
        return {name: column for name in names if (column := self.find(name)) is not None}

    def cells(self, column: str) -> tuple[object, ...]:
        return self.column(column).cells

    @cached_property
    def names_for_message(self) -> str:
        """All columns and the keys of the objects in them, as one string for a message."""
        return joined_names([*self.table.columns, *self.nested_keys])

    @cached_property
    def ids_are_row_numbers(self) -> bool:
        """Whether row numbers serve as ids: `--map id=#row` says so, or no column holds ids."""
        if "id" in self.mapping:
            return self.mapping["id"] == (ROW_NUMBER_COLUMN,)
        return not self.is_long and self.find("id") is None

    @cached_property
    def is_long(self) -> bool:
        """Whether the table is long: one column names dimensions, and another one holds ratings."""
        column = self.find("dimension")
        if column is None or self.find("rating") is None:
            return False
        return (
            "dimension" in (*self.mapping, name_key(column)) or self.column(column).kind == "label"
        )

    @property
    def has_row_per_annotator(self) -> bool:
        """Whether each row holds one annotator's labels: the table is long or names annotators."""
        return self.is_long or self.find("annotator") is not None

    @property
    def has_nested_or_long_ratings(self) -> bool:
        """Whether the table is long or has a column of objects {dimension: rating}."""
        return self.is_long or self.find_all(NESTED_COLUMNS) != ()

    @cached_property
    def comment_columns(self) -> tuple[str, ...]:
        """The columns, and keys of objects, that hold people's comments, which no judge reads."""
        # If people have yet to label the rows, a model's comments are left out of the texts, too.
        model_words = _MODEL_WORDS if self.reads_labels else frozenset()
        excluded = self.mapped_columns | {*self.judge_texts}
        comment_columns = (
            name
            for name in (*self.table.columns, *self.rating_keys)
            if name not in excluded
            and is_comment_name(name)
            and model_words.isdisjoint(name_words(name))
        )
        return tuple(self.of_kind(comment_columns, "text", "label", "name"))

    def find_texts(
        self, used_columns: Collection[str], label_columns: Collection[str] = ()
    ) -> dict[str, str]:
        """Map the name of each text to the column that holds it.

        If any column holds long texts, columns of short repeated values are not texts, since they
        may reveal which system wrote the output. A column that the user maps to a name outside
        `ROLE_NAMES` is a text unless it is in `label_columns`.
        """
        mapped_texts: dict[str, str] = {}
        for name, (column, *_) in without_keys(self.mapping, ROLE_NAMES).items():
            holds_strings = self.column(column).kind in ("text", "label", "name")
            if column not in label_columns and (holds_strings or is_source_or_output(name)):
                mapped_texts[name] = column
        unused_columns = self.columns_except({*used_columns, *label_columns, *self.comment_columns})
        outer_columns = {*map(self.outer_column, (*used_columns, *label_columns))}
        texts = {
            self._text_name(column): column
            for column in filter(self._may_be_text, unused_columns)
            # A column of objects with an unusual name is not a text if one of its keys is used.
            if is_text_name(column) or column not in outer_columns
        }
        texts = without_keys(texts, self.mapping)
        if self.of_kind((*texts.values(), *mapped_texts.values()), "text"):
            texts = {n: c for n, c in texts.items() if not self.column(c).is_category}
        return {**texts, **mapped_texts}

    def _may_be_text(self, column: str) -> bool:
        # A short reference answer, such as the cells of `ground truth`, may be the label itself.
        may_be_short = self.reads_labels and not is_reference_name(column)
        return self.column(column).kind in (("text", "label") if may_be_short else ("text",))

    def _text_name(self, column: str) -> str:
        """Return a text's name: the column's name, normalized if the name is usual."""
        key, regular_name = name_key(column), "_".join(name_words(column))
        if not is_text_name(column) or self.exact_name(key) != column:
            return column
        if regular_name.isascii():
            return regular_name
        return "output" if key in OUTPUT_NAMES else "input"

    def find_source(self, texts: Mapping[str, str]) -> str | None:
        """Return the name of the source text, by which outputs are grouped, or None.

        The source text is the text with the first usual name in SOURCE_NAMES, else a text whose
        values repeat. Texts without blank cells and with two or more values are preferred.
        """
        columns = {name: self.column(column) for name, column in texts.items()}
        varied_texts = [name for name, column in columns.items() if column.is_filled_and_varied]
        if usual_source := source_name(varied_texts) or source_name(texts):
            return usual_source
        max_distinct = max((column.n_distinct for column in columns.values()), default=0)
        sources = [name for name, column in columns.items() if column.may_be_source(max_distinct)]
        return max(sources, key=lambda name: columns[name].n_distinct, default=None)

    def is_certain_text(self, name: str) -> bool:
        """Return whether a column must hold texts: its name is usual, or a judge reads it."""
        return is_source_or_output(name) or name in self.judge_texts

    @cached_property
    def rating_keys(self) -> tuple[str, ...]:
        """The keys of the objects {dimension: rating}, as `column.key`."""
        nested_columns = self.find_all(NESTED_COLUMNS)
        return tuple(n for n in self.nested_keys if self.outer_column(n) in nested_columns)

    @cached_property
    def nested_keys(self) -> tuple[str, ...]:
        """The keys of all objects in the first `MAX_INSPECTED_ROWS` rows, as `column.key`."""
        names = (
            f"{column}{KEY_SEPARATOR}{key}"
            for row in self.table.rows[:MAX_INSPECTED_ROWS]
            for column, cell in row.cells.items()
            for key in as_object(cell) or ()
        )
        return tuple(dict.fromkeys(names))
