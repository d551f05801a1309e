"""Finds the columns of a table by their names, and describes what their cells hold."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cache, cached_property

from judges.labels.cells import KEY_SEPARATOR, as_object, value_at
from judges.labels.column_kinds import Column, ColumnKind
from judges.labels.names import is_source_or_output, name_key, split_at_commas
from judges.labels.options import ColumnNames, ReadOptions
from judges.tables.formats import Table
from judges.tables.problems import joined_names
from judges.tables.text import TableRow

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
# The keys of objects are looked up in this number of rows, since rows may have different keys.
MAX_INSPECTED_ROWS = 1000


class Columns:
    """The columns of a table: found by their names, and described by their cells.

    A column's name may also be a path `a.b`, for the key `b` of the objects in the column `a`.

    Attributes:
        table: The table.
        options: The user's choices, such as which columns hold what.
        by_name: Maps each NAME of the user's `--map NAME=COLUMN` to the columns, by exact name.
        mapped: All columns that the user names with `--map`.
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
        user_columns = options.columns_by_name.items()
        self.by_name = {name: self._exact_names(names) for name, names in user_columns if names}
        self.mapped = set[str]().union(*self.by_name.values())

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
            is_free = column == role or column not in self.mapped
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
        return {*self.find_all(roles)} | self.mapped

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
    def numbers(self) -> ColumnTuple:
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
