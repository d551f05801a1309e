"""What each column of a table holds: by the user's mapping, by a list of usual names, by cells."""

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
    without,
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

NESTED = ("ratings", "annotations")
VOTES = ("votes", "preferred", "preference", "winner")
# `--map id=#row` numbers the rows of a file without ids.
ROW = "#row"

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
# Names of columns in which people comment on their labels.
_COMMENT = re.compile(
    r"(?:comment|note|critique|explanation|reason|feedback|remark|rationale|why|justification|"
    r"\w*(?:kommentar|begr(?:ü|ue)ndung|anmerkung|bemerkung|kritik|erkl(?:ä|ae)rung)|"
    r"erl(?:ä|ae)uterung|r(?:ü|ue)ckmeldung|hinweis|notiz|grund|warum|commentaire|remarque|"
    r"explication|observation|pourquoi|comentario|explicación|observacion|motivo)(?:e?s|e|en)?"
)
# A model's reasons are not people's.
_MODELS = frozenset({"llm", "gpt", "model", "judge", "ai", "claude", "gemini", "auto"})
_ROLES = frozenset({*_ALIASES, *NESTED, *VOTES, "response_a", "response_b"})
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d\S*)?|\d\d:\d\d(?::\d\d)?")
# A longer cell is a text, and so are the cells of a column with more different ones.
_MAX_LABEL_LENGTH, _MAX_LABEL_SPACES, _MAX_LABELS = 40, 5, 12

# Rows to look at for the keys of nested objects, since a row of JSON may lack some.
MOST_FIRST = 1000

Kind = Literal["rating", "text", "label", ""]
# The column that a name is read from, or several with one annotator each.
ColumnNames = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a key inside a column's objects, with what its cells are.

    `kind` is ratings, texts, labels such as `good` or `4/5`, or "" for anything else. `is_short`
    says that all cells are as short as names and labels, and `n_distinct` counts their values.
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
        """Whether every cell holds something, and not all the same."""
        return self.n_distinct > 1 and not any(map(is_blank, self.cells))

    def may_be_source(self, most: int) -> bool:
        """Whether a text of any name may be what systems were given.

        It repeats, where another text has `most` different values, and has three words or more.
        """
        lengths = sorted(len(str(cell).split()) for cell in self.cells)
        repeats = 3 * self.n_distinct <= 2 * len(self.cells) and 1 < self.n_distinct < most
        is_output = not {*tokens(self.name)}.isdisjoint(OUTPUTS)
        return repeats and not is_output and lengths[len(lengths) // 2] > 2


def infer_column(
    name: str, cells: tuple[object, ...], *, is_text: bool, typed: bool, words: Collection[str]
) -> Column:
    """Return the column of these cells.

    `is_text` says that the name alone makes it a text, `typed` that a string is no number, and
    `words` are labels in the user's own words.
    """
    filled = [cell for cell in cells if not says_nothing(cell)]
    values = {str(cell).strip() for cell in filled}
    is_short = all(
        len(v) <= _MAX_LABEL_LENGTH and v.count(" ") <= _MAX_LABEL_SPACES for v in values
    )
    kind: Kind
    if is_text or (is_reference(name) and len(values) > _MAX_LABELS):
        kind = "text"
    elif _are_ratings(filled, typed, words):
        kind = "rating"
    elif all(map(_TIME.fullmatch, values)) or not any(map(_is_readable, filled)):
        kind = ""
    else:
        # Labels are short and of few kinds, unless they begin with a number.
        are_few = len(values) <= _MAX_LABELS or any(value[:1].isdigit() for value in values)
        kind = "label" if is_short and are_few else "text"
    return Column(name, cells, kind, is_short, len({*map(str, cells)}))


def _are_ratings(cells: Sequence[object], typed: bool, words: Collection[str]) -> bool:
    """Whether half of the cells are numbers, or most are words for yes and no (others misspelt)."""
    n_numbers = sum(is_rating(cell, typed=typed) for cell in cells)
    n_words = sum(says_truth(cell, words) for cell in cells)
    return bool(cells) and (2 * n_numbers >= len(cells) or 4 * n_words >= 3 * len(cells))


def _is_readable(cell: object) -> bool:
    return isinstance(cell, str) or join_texts(cell) is not None


def is_comment(column: str) -> bool:
    """Whether a column goes by a name that people use for comments on labels."""
    return any(map(_COMMENT.fullmatch, tokens(column)))


class Columns:
    """A table's columns and the user's names for some of them.

    `judged` are the texts that a judge reads, whatever they are called, and `words` are labels in
    the user's own words. Unless `labelled`, people are still to label the rows, so a column that
    may give labels away is not a text.
    """

    def __init__(
        self,
        table: Table,
        mapping: Mapping[str, ColumnNames] | None = None,
        judged: Collection[str] = (),
        words: Collection[str] = (),
        labelled: bool = True,
    ) -> None:
        self.table, self.judged, self.words, self.labelled = table, judged, words, labelled
        self._by_key: dict[str, list[str]] = {}
        for column in table.columns:
            self._by_key.setdefault(name_key(column), []).append(column)
        self.mapping: dict[str, tuple[str, ...]] = {
            name: self._headers(columns) for name, columns in (mapping or {}).items() if columns
        }
        self.find, self.column = cache(self._find), cache(self._column)

    def _headers(self, written: ColumnNames) -> tuple[str, ...]:
        """The own names of columns that a user names, one or several between commas."""
        headers: list[str] = []
        for name in [written] if isinstance(written, str) else map(str, written):
            # A column's own name may hold a comma.
            is_one = self.has(self.own_name(name))
            headers += [name] if is_one else split_quoted(name) or [name]
        return tuple(dict.fromkeys(map(self.own_name, headers)))

    def with_table(self, table: Table, mapping: Mapping[str, ColumnNames]) -> "Columns":
        """Return the columns of another table of the same file."""
        return Columns(table, mapping, self.judged, self.words, self.labelled)

    def _column(self, name: str) -> Column:
        cells = tuple(value_in(row, name) for row in self.table.rows)
        is_text, typed = self.is_judged(name), self.table.typed
        return infer_column(name, cells, is_text=is_text, typed=typed, words=self.words)

    def kind(self, column: str) -> Kind:
        return self.column(column).kind

    def of_kind(self, columns: Iterable[str], *kinds: Kind) -> list[str]:
        """Return the columns of these kinds."""
        return [column for column in columns if self.kind(column) in kinds]

    def unused(self, used: Collection[str]) -> list[str]:
        """Return the table's columns that are not among the `used` ones."""
        return [column for column in self.table.columns if column not in used]

    def _find(self, name: str) -> str | None:
        """Return the column that holds `name`: as mapped, under that name, or an alias of it.

        Case does not matter, unless two columns differ in it alone.
        """
        if name in self.mapping:
            header = self.mapping[name][0]
            return header if self.has(header) else None
        names = map(self.own_name, (name, *_ALIASES.get(name, ())))
        return next((column for column in names if self._holds(column, name)), None)

    def _holds(self, column: str, name: str) -> bool:
        """Whether the table has a column that may hold `name`, which no mapping names."""
        if column not in self.table.columns or (column != name and column in self.used(())):
            return False
        if name in NESTED:
            # People write remarks under these names, too.
            return any(str(cell).lstrip()[:1] in ("{", "[") for cell in self.values(column))
        # A column called `system` may hold a text: a prompt, or what the system wrote.
        return name != "system" or self.column(column).is_short

    def cell(self, row: TableRow, name: str) -> object:
        """Return a row's cell in the column that holds `name`; None where there is no such."""
        column = self.find(name)
        return None if column is None else value_in(row, column)

    def item_key(self, row: TableRow) -> str:
        """Return the id of a row's output or pair: the row's number where no column holds ids."""
        if self.find("id") is None:
            return str(row.number)
        item = self.cell(row, "id")
        # A cell that is no id is refused later; until then each has a key of its own.
        return str(item).strip() if is_name(item) else f"{ROW} {row.number}"

    def column_like(self, name: str) -> str | None:
        """The column with this name in any case and spacing; None if there are none or several."""
        columns = self._by_key.get(name_key(name), [])
        return columns[0] if len(columns) == 1 else None

    def own_name(self, name: str) -> str:
        """The column's own name, which a user may write in another case and spacing."""
        return name if self.has(name) else self.column_like(name) or name

    def has(self, column: str) -> bool:
        """Whether the table has the column, or the nested column that a dotted name starts with."""
        return self.root_of(column) in self.table.columns

    def root_of(self, column: str) -> str:
        """The column itself, or the one that a dotted name reaches into."""
        return column if column in self.table.columns else column.partition(DOT)[0]

    def used(self, names: Iterable[str]) -> set[str]:
        """Return the columns that hold these names, and all columns of the mapping."""
        return {*self.find_all(names)}.union(*self.mapping.values())

    def find_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that hold these names, without those that no column holds."""
        return tuple(self.find_each(names).values())

    def find_each(self, names: Iterable[str]) -> dict[str, str]:
        """Return the column that holds each name, without those that no column holds."""
        columns = {name: self.find(name) for name in names}
        return {name: column for name, column in columns.items() if column is not None}

    def values(self, column: str) -> tuple[object, ...]:
        return self.column(column).cells

    @cached_property
    def names(self) -> str:
        """The names of all columns and of all keys inside their objects, for a message."""
        return joined_names([*self.table.columns, *self.nested_names])

    @cached_property
    def numbers_rows(self) -> bool:
        """Whether rows are numbered: by `--map id=#row`, or because no column holds ids."""
        if "id" in self.mapping:
            return self.mapping["id"] == (ROW,)
        return not self.is_long and self.find("id") is None

    @cached_property
    def is_long(self) -> bool:
        """Whether the table names dimensions in one column and rates them in another."""
        column = self.find("dimension")
        if column is None or self.find("rating") is None:
            return False
        return "dimension" in (*self.mapping, name_key(column)) or self.kind(column) == "label"

    @property
    def is_by_annotator(self) -> bool:
        """Whether each row is one annotator's: the table is long or has a column of annotators."""
        return self.is_long or self.find("annotator") is not None

    @property
    def holds_ratings(self) -> bool:
        """Whether there are nested or long ratings, which no flag needs to name."""
        return self.is_long or self.find_all(NESTED) != ()

    @cached_property
    def comments(self) -> tuple[str, ...]:
        """The columns in which people comment on their labels, which no judge reads."""
        nested = (name for name in self.nested_names if self.root_of(name) in self.find_all(NESTED))
        named = filter(self._is_comment, (*self.table.columns, *nested))
        used = self.used(()) | {*self.judged}
        return tuple(c for c in self.of_kind(named, "text", "label") if c not in used)

    def _is_comment(self, column: str) -> bool:
        """Whether a column's name is of comments; beside labels a model's are not people's."""
        return is_comment(column) and not (self.labelled and _MODELS & {*tokens(column)})

    def texts(self, used: Collection[str], rated: Collection[str] = ()) -> dict[str, str]:
        """Return every text's name and column: all string columns that serve nothing else.

        Beside longer texts, short values that repeat are left out: a judge could tell from them
        which system wrote the output. What is mapped to a name of the user's own is a text unless
        it is `rated`.
        """
        free = self.unused({*used, *rated, *self.comments})
        roots = {*map(self.root_of, (*used, *rated))}
        # What a user takes from a nested column is not a text once more.
        own = [c for c in free if is_usual_text(c) or c not in roots]
        named = {self._text_name(column): column for column in filter(self._may_be_text, own)}
        texts = without(named, self.mapping)
        mapped = self._mapped_texts(rated)
        if self.of_kind((*texts.values(), *mapped.values()), "text"):
            texts = {n: c for n, c in texts.items() if not self.column(c).is_category}
        return {**texts, **mapped}

    def _mapped_texts(self, rated: Collection[str]) -> dict[str, str]:
        """The texts that the user names."""
        columns = {name: headers[0] for name, headers in without(self.mapping, _ROLES).items()}
        free = {n: c for n, c in columns.items() if c not in rated}
        strings = self.of_kind(free.values(), "text", "label")
        return {n: c for n, c in free.items() if c in strings or is_known_text(n)}

    def _may_be_text(self, column: str) -> bool:
        # A column called the truth may hold the labels.
        may_be_short = self.labelled and not is_reference(column)
        return self.kind(column) == "text" or (may_be_short and self.kind(column) == "label")

    def _text_name(self, column: str) -> str:
        """The name of a text; of a usual one in plain letters, small, with underscores."""
        key, name = name_key(column), "_".join(tokens(column))
        if not is_usual_text(column) or self.column_like(key) != column:
            return column
        return name if name.isascii() else "output" if key in OUTPUTS else "input"

    def source(self, texts: Mapping[str, str]) -> str | None:
        """Return the text that tells documents apart: by its name, else one that repeats.

        Texts with empty cells or one value only are the last choice.
        """
        columns = {name: self.column(column) for name, column in texts.items()}
        varied = [name for name, column in columns.items() if column.is_varied]
        if usual := source_name(varied) or source_name(texts):
            return usual
        most = max((column.n_distinct for column in columns.values()), default=0)
        likely = [name for name, column in columns.items() if column.may_be_source(most)]
        return max(likely, key=lambda name: columns[name].n_distinct, default=None)

    def is_judged(self, name: str) -> bool:
        """Whether systems surely got or wrote a text: it has a usual name, or a judge reads it."""
        return is_known_text(name) or name in self.judged

    @cached_property
    def nested_names(self) -> tuple[str, ...]:
        """Every key inside an object of the first rows, dotted, as a mapping names it."""
        cells = (cell for row in self.table.rows[:MOST_FIRST] for cell in row.cells.items())
        names = (f"{column}{DOT}{key}" for column, v in cells for key in as_object(v) or ())
        return tuple(dict.fromkeys(names))


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Add a problem for each mapping to a missing column, or to several where one is allowed."""
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
    """Add the problem that there is no such column for `name`, with those that there are."""
    is_other = columns.has(column) and not columns.values(column).count(None)
    fault = "this column is not read as a text" if is_other else "there is no such column"
    fault += f"{reason}; there are {columns.names}"
    problems.add("no-column", fault, mapping_advice(columns, name), field=column)


def mapping_advice(columns: Columns, name: str) -> str:
    """How to say which column holds `name`: for a text one of another usual name."""
    alike = next((names for names in (SOURCES, OUTPUTS) if name_key(name) in names), ())
    leaves = columns.of_kind(columns.nested_names, "text", "label")
    if alike:
        leaves = [leaf for leaf in leaves if leaf.rpartition(DOT)[2] in alike]
    elif name not in columns.judged:
        leaves = columns.of_kind(columns.nested_names, "rating")
    likely = [*(c for c in columns.table.columns if name_key(c) in alike), *leaves]
    return f"name yours with {map_flag(name, likely[:1] or ['COLUMN'])}"
