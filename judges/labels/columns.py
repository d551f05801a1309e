"""Finds out what each column of a table holds: texts, ratings, labels, ids or comments.

The user's choice of columns (`--map`) decides first, then the column's name, then its cells.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

from judges.labels.cells import KEY_SEPARATOR, as_object, is_id_or_name, value_at, without_keys
from judges.labels.column_kinds import Column, ColumnKind
from judges.labels.names import (
    OUTPUT_NAMES,
    is_comment_name,
    is_id_name,
    is_reference_name,
    is_source_or_output,
    is_text_name,
    name_key,
    name_words,
    source_name,
    split_at_commas,
)
from judges.labels.options import ColumnNames, ReadOptions
from judges.tables.formats import Table
from judges.tables.problems import Problems, joined_names
from judges.tables.text import TableRow

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
# With `--map id=#row`, the number of each row is its id.
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
# The comments in a column such as `llm_feedback` were written by a model and not by a person.
_MODEL_WORDS = frozenset({"llm", "gpt", "model", "judge", "ai", "claude", "gemini", "auto"})
# A column that the user maps to one of these names is not a text that a judge reads.
ROLE_NAMES = frozenset(
    {*_ALIASES, *NESTED_COLUMNS, *VOTE_COLUMNS, "response_a", "response_b", COMMENT_NAME}
)
# The keys of objects are looked up in this number of rows, since rows may have different keys.
MAX_INSPECTED_ROWS = 1000


@dataclass(eq=False)
class Columns:
    """Finds a table's columns by what they hold, and collects the table's problems.

    `options` has the user's choices: which columns hold what, which texts a judge reads, and which
    words are ratings. If people have yet to label the rows (`reads_labels` is false), no column
    that may reveal a label is read as a text.
    """

    table: Table
    options: ReadOptions
    problems: Problems = field(default_factory=lambda: Problems(""))

    def __post_init__(self) -> None:
        self.find_column = cache(self._find_column)
        self.describe_column = cache(self._describe_column)
        # Maps each name without case and spacing (`name_key`) to the exact names of columns.
        self._exact_names_by_key: dict[str, list[str]] = defaultdict(list)
        for column in self.table.columns:
            self._exact_names_by_key[name_key(column)].append(column)
        self.columns_by_name = {
            name: self._split_column_names(columns)
            for name, columns in self.options.columns_by_name.items()
            if columns
        }

    def _split_column_names(self, names: ColumnNames) -> tuple[str, ...]:
        """Return the exact names of the columns in one --map, such as `--map quality=Anna,Ben`."""
        column_names: list[str] = []
        for name in [names] if isinstance(names, str) else map(str, names):
            # A column's name may itself contain a comma, so look for the whole name first.
            column = self.exact_name(name)
            is_column = column in self.table.columns or column in self.nested_key_paths
            column_names += [name] if is_column else split_at_commas(name) or [name]
        return tuple(dict.fromkeys(map(self.exact_name, column_names)))

    def without_missing_columns(self) -> "Columns":
        """Return these columns, but drop each --map that names a column of another table."""
        existing_columns = {
            name: columns
            for name, columns in self.columns_by_name.items()
            if all(map(self.has_column, columns))
        }
        return self.with_user_columns(existing_columns)

    def with_rows(
        self, rows: Iterable[TableRow], column_names: Iterable[str] | None = None
    ) -> "Columns":
        new_columns = self.table.columns if column_names is None else tuple(column_names)
        return replace(self, table=replace(self.table, rows=tuple(rows), columns=new_columns))

    def with_user_columns(self, columns_by_name: Mapping[str, ColumnNames]) -> "Columns":
        return replace(self, options=replace(self.options, columns_by_name=columns_by_name))

    def _describe_column(self, name: str) -> Column:
        return Column(
            name,
            cells=tuple(value_at(row.cells, name) for row in self.table.rows),
            is_text=self.must_hold_text(name),
            parse_strings=not self.table.is_typed,
            rating_words=self.options.number_by_word,
        )

    def kind_of(self, column: str) -> ColumnKind:
        return self.describe_column(column).kind

    def columns_of_kind(self, columns: Iterable[str], *kinds: ColumnKind) -> list[str]:
        return [column for column in columns if self.kind_of(column) in kinds]

    @cached_property
    def judge_score_columns(self) -> set[str]:
        """The columns that `dspy-judges score` writes: it also writes NAME_failure beside NAME."""
        names = [name for name in self.table.columns if f"{name}_failure" in self.table.columns]
        score_columns = {f"{n}{suffix}" for n in names for suffix in ("", "_verdict", "_tuned_on")}
        return score_columns.intersection(self.table.columns)

    @cached_property
    def number_columns(self) -> tuple[str, ...]:
        """The columns whose cells look like people's ratings; () if each row has only a rating."""
        if self.is_long_table:
            return ()
        used_columns = self.columns_in_use(OUTPUT_ROLES) | self.judge_score_columns
        return tuple(self.columns_of_kind(self.columns_except(used_columns), "rating"))

    @cached_property
    def nested_columns(self) -> tuple[str, ...]:
        """The columns of objects {dimension: rating}. Ratings in later columns replace others."""
        return self.find_columns(NESTED_COLUMNS)

    def columns_except(self, excluded_columns: Collection[str]) -> list[str]:
        return [column for column in self.table.columns if column not in excluded_columns]

    def _find_column(self, role: str) -> str | None:
        """Return the user's column for a role such as `id`, else a column with a usual name."""
        if role in self.columns_by_name:
            column = self.columns_by_name[role][0]
            return column if self.has_column(column) else None
        for column in map(self.exact_name, (role, *_ALIASES.get(role, ()))):
            is_available = column == role or column not in self.mapped_columns
            if column in self.table.columns and is_available and self._cells_fit_role(column, role):
                return column
        return None

    def _cells_fit_role(self, column: str, role: str) -> bool:
        if role in NESTED_COLUMNS:
            # A column called `ratings` or `annotations` may hold remarks instead of objects.
            return any(str(cell).lstrip()[:1] in ("{", "[") for cell in self.cells_in(column))
        # A column called `system` may hold long system prompts instead of systems' names.
        return role != "system" or self.describe_column(column).has_short_cells

    def find_cell(self, row: TableRow, role: str) -> object:
        column = self.find_column(role)
        return None if column is None else value_at(row.cells, column)

    def item_id(self, row: TableRow) -> str:
        """Return the id of the output or pair in a row; the row's number if no column holds ids.

        Without ids, rows in which annotators label the same texts get the number of the first one.
        """
        if self.find_column("id") is None:
            return str(self._first_row_numbers.get(row.row_number, row.row_number))
        item_id = self.find_cell(row, "id")
        if is_id_or_name(item_id):
            return str(item_id).strip()
        # `RowReader` adds the problem for an invalid id. Here the row gets an id of its own.
        return f"{ROW_NUMBER_COLUMN} {row.row_number}"

    @cached_property
    def _first_row_numbers(self) -> dict[int, int]:
        """Maps each row's number to that of the first row with its texts; {} without annotators."""
        if self.find_column("annotator") is None:
            return {}
        rows, other_columns = self.table.rows, self.columns_except(self.comment_columns)
        compared_columns = [*self.find_columns(("group", "system", "system_a", "system_b"))]
        compared_columns += filter(is_text_name, other_columns)
        compared_columns += self.columns_of_kind(other_columns, "text")
        # A column such as `task_id` identifies outputs if several annotators have the same id, and
        # an annotator rarely has one id twice. Rows with different ids are of different outputs.
        for column in filter(is_id_name, other_columns):
            annotated_ids = {
                (str(self.find_cell(row, "annotator")), str(row.cells.get(column))) for row in rows
            }
            if self.describe_column(column).n_distinct < len(annotated_ids) > len(rows) / 2:
                compared_columns.append(column)
        return {
            row.row_number: same_rows[0].row_number
            for same_rows in self.group_rows(compared_columns)
            for row in same_rows
        }

    def group_rows(self, columns: Sequence[str]) -> list[list[TableRow]]:
        """Return groups of the table's rows. A group's rows have equal cells in these columns."""
        rows_by_cells: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
        for row in self.table.rows:
            cells = tuple(str(value_at(row.cells, column)) for column in columns)
            rows_by_cells[cells].append(row)
        return [*rows_by_cells.values()]

    def exact_name(self, name: str) -> str:
        """Return the only column whose name equals `name` up to case and spacing, else `name`."""
        similar_names = self._exact_names_by_key.get(name_key(name), [])
        return similar_names[0] if len(similar_names) == 1 and not self.has_column(name) else name

    def has_column(self, column: str) -> bool:
        """Return whether the table has this column or, for a path `a.b`, the column `a`."""
        return self.outer_column(column) in self.table.columns

    def outer_column(self, column: str) -> str:
        """Return the column `a` for a path `a.b`; the name of a column is returned unchanged."""
        return column if column in self.table.columns else column.partition(KEY_SEPARATOR)[0]

    @cached_property
    def mapped_columns(self) -> set[str]:
        return set[str]().union(*self.columns_by_name.values())

    def columns_in_use(self, roles: Iterable[str]) -> set[str]:
        """Return the columns for roles such as `id`, and every column that --map names."""
        return {*self.find_columns(roles)} | self.mapped_columns

    def find_columns(self, roles: Iterable[str]) -> tuple[str, ...]:
        """Return the columns for roles such as `id`; roles without a column are left out."""
        return tuple(column for column in map(self.find_column, roles) if column is not None)

    def cells_in(self, column: str) -> tuple[object, ...]:
        return self.describe_column(column).cells

    @cached_property
    def column_names_text(self) -> str:
        """The names of all columns, and of the keys in their objects, as a list in a message."""
        return joined_names([*self.table.columns, *self.nested_key_paths])

    @cached_property
    def ids_are_row_numbers(self) -> bool:
        """Whether row numbers are the ids: the user says id=#row, or no column holds ids."""
        if "id" in self.columns_by_name:
            return self.columns_by_name["id"] == (ROW_NUMBER_COLUMN,)
        return not self.is_long_table and self.find_column("id") is None

    @cached_property
    def is_long_table(self) -> bool:
        """Whether one column names the dimension of each row, and another holds the rating."""
        column = self.find_column("dimension")
        if column is None or self.find_column("rating") is None:
            return False
        is_certain = "dimension" in (*self.columns_by_name, name_key(column))
        return is_certain or self.kind_of(column) == "label"

    @property
    def has_row_per_annotator(self) -> bool:
        """Whether the labels in a row are one annotator's, as in a long table."""
        return self.is_long_table or self.find_column("annotator") is not None

    @property
    def has_nested_or_long_ratings(self) -> bool:
        return self.is_long_table or self.nested_columns != ()

    @cached_property
    def comment_columns(self) -> tuple[str, ...]:
        """The columns, and keys of objects, that hold comments on labels; no judge reads them."""
        # A model's comments may be the rated text, but are hidden while people have yet to label.
        model_words = _MODEL_WORDS if self.options.reads_labels else frozenset()
        excluded_names = self.mapped_columns | {*(self.options.texts or ())}
        comment_columns = [
            name
            for name in filter(is_comment_name, (*self.table.columns, *self._rating_key_paths))
            if name not in excluded_names and model_words.isdisjoint(name_words(name))
        ]
        user_columns = self.columns_by_name.get(COMMENT_NAME, ())
        return user_columns + tuple(self.columns_of_kind(comment_columns, "text", "label", "name"))

    def find_text_columns(
        self, used_columns: Collection[str], label_columns: Collection[str]
    ) -> dict[str, str]:
        """Map the name of each text to the column that holds it.

        If any column holds long texts, columns of short repeated values are not texts, because they
        may reveal which system wrote the output. A column that the user names with --map is a text,
        unless it holds labels or the user maps it to one of `ROLE_NAMES`.
        """
        user_texts, other_texts = dict[str, str](), dict[str, str]()
        for name, (column, *_) in without_keys(self.columns_by_name, ROLE_NAMES).items():
            holds_strings = self.kind_of(column) in ("text", "label", "name")
            if column not in label_columns and (holds_strings or is_source_or_output(name)):
                user_texts[name] = column
        outer_columns = {*map(self.outer_column, (*used_columns, *label_columns))}
        # A text by which the user groups the outputs, such as their source, is still a text.
        group_texts = self.columns_of_kind(self.columns_by_name.get("group", ()), "text")
        role_columns = {*used_columns}.difference(group_texts)
        for column in self.columns_except({*role_columns, *label_columns, *self.comment_columns}):
            name = self._text_name(column)
            # If the objects in a column hold ids or labels, the column itself is not a text.
            is_unused = is_text_name(column) or column not in outer_columns
            if is_unused and self._holds_texts(column) and name not in self.columns_by_name:
                other_texts[name] = column
        if self.columns_of_kind((*other_texts.values(), *user_texts.values()), "text"):
            other_columns = map(self.describe_column, other_texts.values())
            categories = {column.name for column in other_columns if column.is_category}
            other_texts = {name: c for name, c in other_texts.items() if c not in categories}
        return {**other_texts, **user_texts}

    def _holds_texts(self, column: str) -> bool:
        """Return whether a column holds long texts, or short ones that cannot be labels."""
        # A short reference answer, such as the cells of `ground truth`, may be the label.
        may_be_label = is_reference_name(column) or not self.options.reads_labels
        return self.kind_of(column) in (("text",) if may_be_label else ("text", "label"))

    def _text_name(self, column: str) -> str:
        """Return the name of a column's text, such as `user_input` for the column `User Input`."""
        column_key, standard_name = name_key(column), "_".join(name_words(column))
        if not is_text_name(column) or self.exact_name(column_key) != column:
            return column
        if standard_name.isascii():
            return standard_name
        return "output" if column_key in OUTPUT_NAMES else "input"

    def find_source_text(self, texts: Mapping[str, str]) -> str | None:
        """Return the name of the source text, by which outputs are grouped; None without one.

        `texts` maps the names of texts to columns. The source text is the one whose name is first
        in `SOURCE_NAMES`, else a text that repeats. The source text is preferably in a column
        without blank cells, and with at least two different values.
        """
        column_by_text = {name: self.describe_column(column) for name, column in texts.items()}
        varied_texts = [name for name, c in column_by_text.items() if c.is_filled_and_varied]
        if named_source := source_name(varied_texts) or source_name(texts):
            return named_source
        max_distinct = max((column.n_distinct for column in column_by_text.values()), default=0)
        source_names = [name for name, c in column_by_text.items() if c.may_be_source(max_distinct)]
        return max(source_names, key=lambda name: column_by_text[name].n_distinct, default=None)

    def must_hold_text(self, name: str) -> bool:
        """Return whether a column must hold texts: a judge reads it, or it is named like a text."""
        return is_source_or_output(name) or name in (self.options.texts or ())

    @cached_property
    def _rating_key_paths(self) -> list[str]:
        paths = self.nested_key_paths
        return [path for path in paths if self.outer_column(path) in self.nested_columns]

    @cached_property
    def nested_dimensions(self) -> dict[str, str]:
        """Maps each dimension of `nested_columns` to its path, such as `ratings.fluency`."""
        rating_paths = [path for path in self._rating_key_paths if path not in self.comment_columns]
        return {path.partition(KEY_SEPARATOR)[2]: path for path in rating_paths}

    @cached_property
    def nested_key_paths(self) -> tuple[str, ...]:
        """The paths of the keys of objects in the first rows, such as `metadata.author`."""
        paths: dict[str, None] = {}
        for row in self.table.rows[:MAX_INSPECTED_ROWS]:
            for column, cell in row.cells.items():
                keys = as_object(cell) or ()
                paths |= dict.fromkeys(f"{column}{KEY_SEPARATOR}{key}" for key in keys)
        return tuple(paths)
