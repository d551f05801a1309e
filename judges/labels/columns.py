"""Finds what each column of a table holds.

The user's mapping decides, else a list of usual names, else the column's cells.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Literal

from dspy_judges.column_names import name_key
from judges.labels.cells import (
    DOT,
    as_object,
    is_blank,
    is_name,
    is_rating,
    join_texts,
    value_in,
    without_keys,
)
from judges.labels.names import (
    OUTPUTS,
    SOURCES,
    is_known_text,
    is_reference,
    is_usual_text,
    map_flag,
    source_name,
    split_quoted,
    tokens,
)
from judges.labels.values import says_nothing, says_truth
from judges.tables.formats import Table
from judges.tables.problems import Problems, joined_names
from judges.tables.text import TableRow

# Columns whose cells are objects of ratings: {dimension: rating}.
NESTED = ("ratings", "annotations")
# Usual names of columns of votes.
VOTES = ("votes", "preferred", "preference", "winner")
# With `--map id=#row`, the rows' numbers are their ids.
ROW = "#row"

# Other usual names of the column for each role.
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
# Words in the names of columns in which people comment on their labels.
_COMMENT = re.compile(
    r"(?:comment|note|critique|explanation|reason|feedback|remark|rationale|why|justification|"
    r"\w*(?:kommentar|begr(?:ü|ue)ndung|anmerkung|bemerkung|kritik|erkl(?:ä|ae)rung)|"
    r"erl(?:ä|ae)uterung|r(?:ü|ue)ckmeldung|hinweis|notiz|grund|warum|commentaire|remarque|"
    r"explication|observation|pourquoi|comentario|explicación|observacion|motivo)(?:e?s|e|en)?"
)
# With one of these words in its name, a column of comments is a model's, not a person's.
_MODEL_WORDS = frozenset({"llm", "gpt", "model", "judge", "ai", "claude", "gemini", "auto"})
_ROLES = frozenset({*_ALIASES, *NESTED, *VOTES, "response_a", "response_b"})
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d\S*)?|\d\d:\d\d(?::\d\d)?")
# The limits on a label's characters and spaces, and on the number of different labels in a column.
_MAX_LABEL_LENGTH, _MAX_LABEL_SPACES, _MAX_LABELS = 40, 5, 12

# The number of first rows in which the keys of nested objects are looked up: one row is not enough,
# since rows of JSON may have different keys.
N_FIRST_ROWS = 1000

Kind = Literal["rating", "text", "label", ""]
# The column that a name is mapped to, or several columns with one annotator each.
ColumnNames = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a key of the objects in a column, and what its cells are.

    `kind` is "rating", "text", "label" (short values such as `good` or `4/5`), or "" for anything
    else. `is_short` says that every cell is as short as a name or a label, and `n_distinct` is the
    number of different values.
    """

    name: str
    cells: tuple[object, ...]
    kind: Kind
    is_short: bool
    n_distinct: int

    @property
    def is_category(self) -> bool:
        """Whether the cells are short values that repeat, as the names of systems do."""
        return self.kind == "label" and 2 * self.n_distinct <= len(self.cells)

    @property
    def is_varied(self) -> bool:
        """Whether no cell is blank and the column has at least two different values."""
        return self.n_distinct > 1 and not any(map(is_blank, self.cells))

    def may_be_source(self, max_distinct: int) -> bool:
        """Whether the column may hold the source texts, although it has no usual name of one.

        Source texts repeat, so they have fewer different values than the text column with the most
        (`max_distinct`). Most of them have three words or more.
        """
        n_words = sorted(len(str(cell).split()) for cell in self.cells)
        repeats = 3 * self.n_distinct <= 2 * len(self.cells) and 1 < self.n_distinct < max_distinct
        has_output_word = not {*tokens(self.name)}.isdisjoint(OUTPUTS)
        return repeats and not has_output_word and n_words[len(n_words) // 2] > 2


def infer_column(
    name: str,
    cells: tuple[object, ...],
    *,
    is_text: bool,
    typed: bool,
    rating_words: Collection[str],
) -> Column:
    """Return the column, with its kind inferred from its cells.

    With `is_text`, the kind is "text" whatever the cells are. In a `typed` format, such as JSON, a
    string does not count as a number. `rating_words` are further words that count as ratings,
    given by the user.
    """
    filled = [cell for cell in cells if not says_nothing(cell)]
    values = {str(cell).strip() for cell in filled}
    is_short = all(
        len(v) <= _MAX_LABEL_LENGTH and v.count(" ") <= _MAX_LABEL_SPACES for v in values
    )
    kind: Kind
    if is_text or (is_reference(name) and len(values) > _MAX_LABELS):
        kind = "text"
    elif _are_ratings(filled, typed, rating_words):
        kind = "rating"
    elif all(map(_TIME.fullmatch, values)) or not any(map(_is_readable, filled)):
        kind = ""
    else:
        # Labels are short, and a column has few different ones, unless they begin with a digit.
        are_few = len(values) <= _MAX_LABELS or any(value[:1].isdigit() for value in values)
        kind = "label" if is_short and are_few else "text"
    return Column(name, cells, kind, is_short, len({*map(str, cells)}))


def _are_ratings(cells: Sequence[object], typed: bool, rating_words: Collection[str]) -> bool:
    """Whether at least half of the cells are numbers, or three quarters are words for yes or no."""
    n_numbers = sum(is_rating(cell, typed=typed) for cell in cells)
    n_words = sum(says_truth(cell, rating_words) for cell in cells)
    return bool(cells) and (2 * n_numbers >= len(cells) or 4 * n_words >= 3 * len(cells))


def _is_readable(cell: object) -> bool:
    return isinstance(cell, str) or join_texts(cell) is not None


def is_comment(column: str) -> bool:
    """Whether a column has a usual name of comments on labels."""
    return any(map(_COMMENT.fullmatch, tokens(column)))


class Columns:
    """The columns of a table, looked up by what they hold.

    `mapping` maps names such as `document` to the columns that the user chose for them. `judged`
    are the names of the texts that a judge reads, and `rating_words` are words that count as
    ratings, given by the user. `labelled` is False if people have yet to label the rows: then a
    column from which they could tell the label is not among the texts.
    """

    def __init__(
        self,
        table: Table,
        mapping: Mapping[str, ColumnNames] | None = None,
        judged: Collection[str] = (),
        rating_words: Collection[str] = (),
        labelled: bool = True,
    ) -> None:
        self.table, self.judged, self.labelled = table, judged, labelled
        self.rating_words = rating_words
        self._by_key: dict[str, list[str]] = {}
        for column in table.columns:
            self._by_key.setdefault(name_key(column), []).append(column)
        self.mapping: dict[str, tuple[str, ...]] = {
            name: self._headers(columns) for name, columns in (mapping or {}).items() if columns
        }
        self.find, self.column = cache(self._find), cache(self._column)

    def _headers(self, names: ColumnNames) -> tuple[str, ...]:
        """Return the exact names of the columns in a mapping; commas may separate several."""
        headers: list[str] = []
        for name in [names] if isinstance(names, str) else map(str, names):
            # The name of one column may contain a comma.
            is_column = self.has(self.exact_name(name))
            headers += [name] if is_column else split_quoted(name) or [name]
        return tuple(dict.fromkeys(map(self.exact_name, headers)))

    def with_table(self, table: Table, mapping: Mapping[str, ColumnNames]) -> "Columns":
        """Return the columns of a changed table or mapping, with the same settings as here."""
        return Columns(table, mapping, self.judged, self.rating_words, self.labelled)

    def _column(self, name: str) -> Column:
        cells = tuple(value_in(row, name) for row in self.table.rows)
        is_text, typed = self.is_certain_text(name), self.table.typed
        return infer_column(
            name, cells, is_text=is_text, typed=typed, rating_words=self.rating_words
        )

    def kind(self, column: str) -> Kind:
        return self.column(column).kind

    def of_kind(self, columns: Iterable[str], *kinds: Kind) -> list[str]:
        """Return those of `columns` that are of one of these kinds."""
        return [column for column in columns if self.kind(column) in kinds]

    def columns_except(self, excluded: Collection[str]) -> list[str]:
        """Return the table's columns without the `excluded` ones."""
        return [column for column in self.table.columns if column not in excluded]

    def _find(self, name: str) -> str | None:
        """Return the column for `name`: the mapped one, the one so called, or one with an alias.

        Case does not matter, unless two columns differ only in case.
        """
        if name in self.mapping:
            header = self.mapping[name][0]
            return header if self.has(header) else None
        names = map(self.exact_name, (name, *_ALIASES.get(name, ())))
        return next((column for column in names if self._holds(column, name)), None)

    def _holds(self, column: str, name: str) -> bool:
        """Whether the table has the column, and it can be the column for the unmapped `name`."""
        if column not in self.table.columns or (column != name and column in self.used_columns(())):
            return False
        if name in NESTED:
            # A column of this name may also hold remarks; ratings are objects or lists.
            return any(str(cell).lstrip()[:1] in ("{", "[") for cell in self.values(column))
        # A column called `system` may hold system prompts or outputs instead of systems' names.
        return name != "system" or self.column(column).is_short

    def cell(self, row: TableRow, name: str) -> object:
        """Return a row's cell in the column for `name`; None if there is no such column."""
        column = self.find(name)
        return None if column is None else value_in(row, column)

    def item_key(self, row: TableRow) -> str:
        """Return the id of a row's output or pair; the row's number if no column holds ids."""
        if self.find("id") is None:
            return str(row.number)
        item = self.cell(row, "id")
        # An invalid id is reported later. Until then, each row with one has a key of its own.
        return str(item).strip() if is_name(item) else f"{ROW} {row.number}"

    def column_like(self, name: str) -> str | None:
        """Return the only column with this name in any case and spacing; None without one."""
        columns = self._by_key.get(name_key(name), [])
        return columns[0] if len(columns) == 1 else None

    def exact_name(self, name: str) -> str:
        """Return the column's exact name for a name that may differ in case and spacing."""
        return name if self.has(name) else self.column_like(name) or name

    def has(self, column: str) -> bool:
        """Whether the table has the column, or, for a dotted name `a.b`, the column `a`."""
        return self.root_of(column) in self.table.columns

    def root_of(self, column: str) -> str:
        """Return the column `a` for the name `a.b` of a key inside it, else the name itself."""
        return column if column in self.table.columns else column.partition(DOT)[0]

    def used_columns(self, names: Iterable[str]) -> set[str]:
        """Return the columns for these names, and every column that the mapping names."""
        return {*self.find_all(names)}.union(*self.mapping.values())

    def find_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns for these names; a name without a column is skipped."""
        return tuple(self.find_each(names).values())

    def find_each(self, names: Iterable[str]) -> dict[str, str]:
        """Map each name to its column; a name without a column is skipped."""
        columns = {name: self.find(name) for name in names}
        return {name: column for name, column in columns.items() if column is not None}

    def values(self, column: str) -> tuple[object, ...]:
        return self.column(column).cells

    @cached_property
    def names_in_message(self) -> str:
        """All columns and all keys of the objects in them, joined for a message."""
        return joined_names([*self.table.columns, *self.nested_names])

    @cached_property
    def ids_are_row_numbers(self) -> bool:
        """Whether ids are row numbers: by `--map id=#row`, or because no column holds ids."""
        if "id" in self.mapping:
            return self.mapping["id"] == (ROW,)
        return not self.is_long and self.find("id") is None

    @cached_property
    def is_long(self) -> bool:
        """Whether one column names dimensions and another holds the ratings on them."""
        column = self.find("dimension")
        if column is None or self.find("rating") is None:
            return False
        return "dimension" in (*self.mapping, name_key(column)) or self.kind(column) == "label"

    @property
    def has_row_per_annotator(self) -> bool:
        """Whether each row is by one annotator: the table is long or has a column of annotators."""
        return self.is_long or self.find("annotator") is not None

    @property
    def has_nested_or_long_ratings(self) -> bool:
        """Whether ratings are in objects or in long form, so that no flag has to name them."""
        return self.is_long or self.find_all(NESTED) != ()

    @cached_property
    def comments(self) -> tuple[str, ...]:
        """The columns in which people comment on their labels. No judge reads them."""
        nested = (name for name in self.nested_names if self.root_of(name) in self.find_all(NESTED))
        named = filter(self._is_comment, (*self.table.columns, *nested))
        used = self.used_columns(()) | {*self.judged}
        return tuple(c for c in self.of_kind(named, "text", "label") if c not in used)

    def _is_comment(self, column: str) -> bool:
        """Whether a column has a name of comments; in a labelled file, a model's do not count."""
        return is_comment(column) and not (self.labelled and _MODEL_WORDS & {*tokens(column)})

    def texts(self, used: Collection[str], rated: Collection[str] = ()) -> dict[str, str]:
        """Map the name of each text to its column: all string columns without another role.

        If there are longer texts, columns of short values that repeat are left out, since a judge
        could tell from them which system wrote the output. A column that the user maps to a name
        without a role is a text, unless it is in `rated`, the columns of labels.
        """
        free = self.columns_except({*used, *rated, *self.comments})
        roots = {*map(self.root_of, (*used, *rated))}
        # If a key of a column's objects is used already, the whole column is not a text, too.
        candidates = [c for c in free if is_usual_text(c) or c not in roots]
        named = {
            self._text_name(column): column for column in filter(self._may_be_text, candidates)
        }
        texts = without_keys(named, self.mapping)
        mapped = self._mapped_texts(rated)
        if self.of_kind((*texts.values(), *mapped.values()), "text"):
            texts = {n: c for n, c in texts.items() if not self.column(c).is_category}
        return {**texts, **mapped}

    def _mapped_texts(self, rated: Collection[str]) -> dict[str, str]:
        """The texts that the user's mapping names, with their columns."""
        columns = {name: headers[0] for name, headers in without_keys(self.mapping, _ROLES).items()}
        free = {n: c for n, c in columns.items() if c not in rated}
        string_columns = self.of_kind(free.values(), "text", "label")
        return {n: c for n, c in free.items() if c in string_columns or is_known_text(n)}

    def _may_be_text(self, column: str) -> bool:
        # A short reference, such as `ground truth`, may be the label itself.
        may_be_short = self.labelled and not is_reference(column)
        return self.kind(column) == "text" or (may_be_short and self.kind(column) == "label")

    def _text_name(self, column: str) -> str:
        """Return the name of the text in a column: the column's name, made regular if it is usual.

        A usual name becomes lower case with underscores; one that is not ASCII `input` or `output`.
        """
        key, name = name_key(column), "_".join(tokens(column))
        if not is_usual_text(column) or self.column_like(key) != column:
            return column
        return name if name.isascii() else "output" if key in OUTPUTS else "input"

    def source(self, texts: Mapping[str, str]) -> str | None:
        """Return the name of the source text, by which outputs are grouped into documents.

        It has a usual name, else its values repeat. A text with blank cells or only one value is
        chosen only if there is no other with a usual name.
        """
        columns = {name: self.column(column) for name, column in texts.items()}
        varied = [name for name, column in columns.items() if column.is_varied]
        if usual := source_name(varied) or source_name(texts):
            return usual
        max_distinct = max((column.n_distinct for column in columns.values()), default=0)
        likely = [n for n, column in columns.items() if column.may_be_source(max_distinct)]
        return max(likely, key=lambda name: columns[name].n_distinct, default=None)

    def is_certain_text(self, name: str) -> bool:
        """Whether a text is surely a source or an output: by its name, or as a judge reads it."""
        return is_known_text(name) or name in self.judged

    @cached_property
    def nested_names(self) -> tuple[str, ...]:
        """Every key of the objects in the first rows, as `column.key`."""
        cells = (entry for row in self.table.rows[:N_FIRST_ROWS] for entry in row.cells.items())
        names = (f"{column}{DOT}{key}" for column, cell in cells for key in as_object(cell) or ())
        return tuple(dict.fromkeys(names))


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Add a problem for each name mapped to a missing column, or wrongly mapped to several."""
    for name, headers in columns.mapping.items():
        for column in headers:
            exists = column in columns.table.columns or (name, column) == ("id", ROW)
            if not exists and all(value is None for value in columns.values(column)):
                add_missing_column(columns, problems, column, name)
        if len(headers) > 1 and (is_known_text(name) or name in _ROLES - {*VOTES}):
            fault = f"is mapped to {len(headers)} columns ({joined_names(headers)})"
            advice = f"give one --map {name}=COLUMN; only ratings and votes may have several"
            problems.add("two-columns", fault, advice, field=name)


def add_missing_column(
    columns: Columns, problems: Problems, column: str, name: str, reason: str = ""
) -> None:
    """Add the problem that the column for `name` is missing; the message lists the columns."""
    exists = columns.has(column) and not columns.values(column).count(None)
    fault = "this column is not read as a text" if exists else "there is no such column"
    fault += f"{reason}; the columns are {columns.names_in_message}"
    problems.add("no-column", fault, mapping_advice(columns, name), field=column)


def mapping_advice(columns: Columns, name: str) -> str:
    """Return advice on how to map `name`; it suggests a column that may hold the same thing."""
    synonyms = next((names for names in (SOURCES, OUTPUTS) if name_key(name) in names), ())
    keys = columns.of_kind(columns.nested_names, "text", "label")
    if synonyms:
        keys = [key for key in keys if key.rpartition(DOT)[2] in synonyms]
    elif name not in columns.judged:
        keys = columns.of_kind(columns.nested_names, "rating")
    likely = [*(c for c in columns.table.columns if name_key(c) in synonyms), *keys]
    return f"name your column with {map_flag(name, likely[:1] or ['COLUMN'])}"
