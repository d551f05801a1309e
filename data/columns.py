"""Which column of a table means what."""

import csv
import difflib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise

from data.cells import DOT, LINE, as_object, is_blank, is_rating, join_texts, value_in
from data.tables.formats import Table
from data.tables.problems import Problems, excerpt, joined_names
from data.values import looks_like_rating, plain_text, says_nothing
from dspy_judges.column_names import name_key

# What systems were given, by the names people use for it, the most telling first.
SOURCES = (
    "document",
    "context",
    "post",
    "query",
    "prompt",
    "article",
    "dialogue",
    "question",
    "instruction",
)
OUTPUTS = ("summary", "response", "output", "answer", "reply", "completion", "generation")

_ALIASES = {
    "group": ("document_id", "doc_id", "group_id"),
    "system": ("system_id", "system_name", "model", "model_id", "model_name"),
    "system_a": ("model_a", "generator_1"),
    "system_b": ("model_b", "generator_2"),
    "annotator": (
        *("annotator_id", "annotator_name", "worker", "worker_id", "rater", "rater_id"),
        *("rater_name", "assessor", "coder", "labeler", "labeller", "reviewer", "evaluator"),
        *("participant", "participant_id", "prolific_pid", "annotated_by", "rated_by"),
        *("completed_by", "bewerter", "bewerterin", "gutachter", "gutachterin", "annotateur"),
        *("annotatrice", "évaluateur", "évaluatrice", "evaluador", "evaluadora", "anotador"),
        *("anotadora", "valutatore", "valutatrice"),
    ),
    "dimension": (
        *("criterion", "criteria", "aspect", "dimension_name", "kriterium", "merkmal", "aspekt"),
        *("critère", "critere", "criterio", "dimensión", "dimensione", "aspecto"),
    ),
    "rating": (
        *("score", "value", "mark", "grade", "points", "wertung", "bewertung", "note", "punkte"),
        *("puntuación", "puntuacion", "calificación", "calificacion", "valoración", "valoracion"),
        *("punteggio", "valutazione", "voto"),
    ),
}
# Numbers under such a name count, number or date something, and rate nothing.
_COUNT_WORDS = frozenset(
    (
        *("id", "ids", "uid", "key", "nr", "no", "num", "number", "index", "idx", "row", "line"),
        *("item", "turn", "conversation", "dialogue", "dialog", "session", "page", "batch", "hit"),
        *("age", "time", "seconds", "secs", "ms", "minutes", "duration", "latency", "date", "year"),
        *("timestamp", "month", "day", "words", "tokens", "chars", "characters", "seed", "fold"),
        *("participant", "worker", "cost", "price", "nummer", "zeile", "jahr", "datum", "zeit"),
        *(
            "dauer",
            "alter",
            "anzahl",
            "gespräch",
            "numéro",
            "numero",
            "identifiant",
            "âge",
            "durée",
        ),
        *("fecha", "edad", "hora", "número", "turno", "conversación"),
    )
)
_NAME_PARTS = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")
# Of a longer name, one such word says little.
_MAX_COUNT_PARTS = 3
# No usual scale goes further, and fewer rows may well have risen by chance.
_MAX_USUAL_RATING, _MIN_RISING_ROWS = 100, 6
NESTED = ("ratings", "annotations")
_SEVERAL_COLUMNS = frozenset({"votes", "preferred", "preference"})
_ROLES = _SEVERAL_COLUMNS | {
    *("id", "group", "system", "system_a", "system_b", "response_a", "response_b"),
    *("dimension", "annotator", "rating", *NESTED),
}
# What is longer, has more words, or comes in more kinds is no label but a text.
_MAX_LABEL_LENGTH, _MAX_LABEL_SPACES, _MAX_LABELS = 40, 5, 12

_PLAIN_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?", re.ASCII)
_INNER_ROWS = 20
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d{1,2}", re.ASCII)

# What a name is read from: one column, or several with one annotator each.
ColumnNames = str | Sequence[str]


class Columns:
    """A table's columns and the user's names for some of them."""

    def __init__(self, table: Table, mapping: Mapping[str, ColumnNames] | None = None) -> None:
        self.table = table
        self._by_key: dict[str, list[str]] = {}
        for column in table.columns:
            self._by_key.setdefault(name_key(column), []).append(column)
        # What the user wrote for a column, where it is not the column's own name.
        self.renamed: dict[str, str] = {}
        # Nobody has asked that rows be numbered.
        self.makes_ids = False
        # How an earlier file's mapping was used.
        self.notes: tuple[str, ...] = ()
        self.mapping = {
            name: tuple(
                dict.fromkeys(
                    self._own_name(part)
                    for column in ([columns] if isinstance(columns, str) else columns)
                    for part in self._parts(column)
                )
            )
            for name, columns in (mapping or {}).items()
        }
        self._numeric: dict[str, bool] = {}

    def find(self, name: str) -> str | None:
        """Return the column that holds `name`: as mapped, under that name, or an alias of it.

        Names that differ in case alone are the same, as long as one column has it.
        """
        names = (name, *_ALIASES.get(name, ()))
        mapped = self.mapping.get(name, ())[:1]
        for column in (*mapped, *names):
            free = column in (*mapped, name) or not self._serves_other(column, name)
            if free and self.has(column):
                return column
        cased = (self.cased(alias) for alias in names)
        return next((c for c in cased if c is not None and not self._serves_other(c, name)), None)

    def _serves_other(self, column: str, name: str) -> bool:
        """Whether the user gave a column to another name."""
        return any(column in columns for own, columns in self.mapping.items() if own != name)

    def cased(self, name: str) -> str | None:
        """The one column of this name but for case and spaces; None where none or several."""
        alike = self._by_key.get(name_key(name), [])
        return alike[0] if len(alike) == 1 else None

    def _parts(self, written: str) -> Sequence[str]:
        """The columns that a mapping names: one, or several between commas."""
        if written == LINE or self.has(written) or self.cased(written) is not None:
            return (written,)
        return split_quoted(written) or (written,)

    def _own_name(self, written: str) -> str:
        """The column's own name, which a user need not write with its case and spaces."""
        if written == LINE or self.has(written):
            return written
        column = self.cased(written)
        if column is None:
            return written
        self.renamed[written] = column
        return column

    def has(self, column: str) -> bool:
        """Whether the table has the column, or the nested column that a dotted name starts with."""
        known = self.table.columns
        return column in known or (DOT in column and column.partition(DOT)[0] in known)

    def has_flat(self, column: str) -> bool:
        """Whether the table has a column of this very name."""
        return column in self.table.columns

    def used(self, names: Iterable[str]) -> set[str]:
        """Return the columns that hold these names, and all that a mapping gave another name."""
        mapped = {column for columns in self.mapping.values() for column in columns}
        return mapped | {column for name in names if (column := self.find(name)) is not None}

    def values(self, column: str) -> Iterator[object]:
        return (value_in(row, column) for row in self.table.rows)

    @property
    def numbers_rows(self) -> bool:
        """Whether the rows' numbers stand for ids: `--map id=#line`, or for want of a column."""
        return self.mapping.get("id") == (LINE,)

    def with_ids(self) -> "Columns":
        """The same columns, with the rows' numbers for ids where no column holds any."""
        if self.find("id") is not None or "id" in self.mapping or "id" in self._by_key:
            return self
        numbered = Columns(self.table, {**self.mapping, "id": LINE})
        numbered.makes_ids, numbered.renamed, numbered.notes = True, self.renamed, self.notes
        return numbered

    @property
    def own_mapping(self) -> dict[str, tuple[str, ...]]:
        """The user's mapping, by the file's own names."""
        return {
            name: columns
            for name, columns in self.mapping.items()
            if not (name == "id" and self.makes_ids)
        }

    def with_remembered(self, mapping: Mapping[str, ColumnNames]) -> "Columns | None":
        """The same columns with a mapping of an earlier file for all that has none here.

        None where the file lacks one of its columns.
        """
        known = {name: columns for name, columns in mapping.items() if name not in self.mapping}
        columns = Columns(self.table, {**known, **self.mapping})
        fits = all(
            column == LINE or columns.has(column)
            for name in known
            for column in columns.mapping[name]
        )
        return columns if fits else None

    @cached_property
    def is_long(self) -> bool:
        """Whether the table names dimensions in one column and rates them in another."""
        column = self.find("dimension")
        named = "dimension" in (*self.mapping, name_key(column or ""))
        is_label = column is not None and (named or not self.is_prose(column))
        return is_label and self.find("rating") is not None

    @cached_property
    def has_annotator_rows(self) -> bool:
        """Whether a row is what one annotator gave one output, dimensions (or a vote) in columns.

        A long table's are not meant.
        """
        column = self.find("annotator")
        return (
            column is not None
            and not self.is_long
            and any(not is_blank(value) for value in self.values(column))
        )

    @cached_property
    def has_decimal_commas(self) -> bool:
        """Whether the file is of a place where a comma is the decimal mark.

        Its cells say so, or its semicolons, with which spreadsheets set cells apart there.
        """
        if self.table.typed or self.table.delimiter == ";":
            return not self.table.typed
        return any(
            isinstance(value, str) and _DECIMAL_COMMA.fullmatch(value.strip())
            for row in self.table.rows
            for value in row.cells.values()
        )

    @property
    def holds_ratings(self) -> bool:
        """Whether there are ratings that nobody need name: nested or long ones."""
        return self.is_long or any(self.find(name) is not None for name in NESTED)

    def texts(self, used: Collection[str], rated: Collection[str] = ()) -> dict[str, str]:
        """Return every text's name and column: all string columns that serve nothing else.

        What is mapped to a name of the user's own is a text where it is not `rated`.
        """
        texts = {}
        for column in self.table.columns:
            name = self._text_name(column)
            free = column not in used and column not in rated and name not in self.mapping
            if free and self._is_text(column):
                texts[name] = column
        for name, columns in self.mapping.items():
            if name not in _ROLES and columns[0] not in rated and self._is_text(columns[0]):
                texts[name] = columns[0]
        return texts

    def is_prose(self, column: str) -> bool:
        """Whether a column's cells read as texts, and not as labels such as `good` or `4/5`."""
        words = {str(value).strip() for value in self.values(column) if not is_blank(value)}
        if any(
            len(word) > _MAX_LABEL_LENGTH or word.count(" ") > _MAX_LABEL_SPACES for word in words
        ):
            return True
        return len(words) > _MAX_LABELS and not any(word[:1].isdigit() for word in words)

    def is_numeric(self, column: str) -> bool:
        """Whether most of a column's cells are ratings; a known text's never are."""
        if is_known_text(column):
            return False
        if column not in self._numeric:
            values = [value for value in self.values(column) if not says_nothing(value)]
            n_ratings = sum(is_rating(value, typed=self.table.typed) for value in values)
            self._numeric[column] = 2 * n_ratings >= len(values) > 0
        return self._numeric[column]

    @cached_property
    def counts(self) -> Mapping[str, str]:
        """Columns of numbers that nobody would guess to be ratings, and why."""
        numeric = [column for column in self.table.columns if self.is_numeric(column)]
        counts = {column: why for column in numeric if (why := self._count_reason(column))}
        rising = [column for column in numeric if column not in counts and self._rises(column)]
        # A sheet may be in the order of its only ratings.
        if len(counts) + len(rising) < len(numeric):
            counts |= dict.fromkeys(rising, "since its numbers rise row by row")
        return counts

    def _count_reason(self, column: str) -> str:
        """Why a column of numbers holds no ratings, as far as its name and numbers tell."""
        parts = [part.casefold() for part in _NAME_PARTS.findall(column)]
        if len(parts) > _MAX_COUNT_PARTS:
            parts = parts[-1:]
        if not _COUNT_WORDS.isdisjoint(parts):
            return "by its name"
        large = any(abs(number) > _MAX_USUAL_RATING for number in self._plain_numbers(column))
        return "for its large numbers" if large else ""

    def _rises(self, column: str) -> bool:
        """Whether a column numbers its rows, or blocks of them."""
        numbers = self._plain_numbers(column)
        steps = {after - before for before, after in pairwise(numbers)}
        return len(numbers) >= _MIN_RISING_ROWS and numbers[0] in (0, 1) and steps in ({1}, {0, 1})

    def _plain_numbers(self, column: str) -> list[float]:
        """The numbers of a column that holds nothing else; [] where it does."""
        texts = [plain_text(value) for value in self.values(column) if not is_blank(value)]
        plain = all(_PLAIN_NUMBER.fullmatch(text) for text in texts)
        return [float(text) for text in texts] if plain else []

    def count_numbers(self, column: str) -> int:
        """How many of a column's cells are numbers, though most may not be."""
        values = self.values(column)
        return sum(looks_like_rating(value, typed=self.table.typed) for value in values)

    @cached_property
    def nested_names(self) -> tuple[str, ...]:
        """Every key inside `ratings` and `annotations`, dotted, as a mapping names it."""
        roots = [column for name in NESTED if (column := self.find(name))]
        names = (
            f"{root}{DOT}{key}"
            for root in roots
            for value in self.values(root)
            for key in as_object(value) or ()
        )
        return tuple(dict.fromkeys(names))

    @cached_property
    def inner_texts(self) -> tuple[str, ...]:
        """The texts inside objects, dotted, as a mapping names them."""
        return self._inner(
            lambda key, part: (
                isinstance(part, str)
                and not is_blank(part)
                and (is_known_text(key) or len(part) > _MAX_LABEL_LENGTH)
            )
        )

    @cached_property
    def inner_ratings(self) -> tuple[str, ...]:
        """The ratings inside objects, dotted, as a mapping names them."""
        return self._inner(lambda key, part: not is_blank(part) and is_rating(part, typed=True))

    def _inner(self, holds: Callable[[str, object], bool]) -> tuple[str, ...]:
        """The dotted names of what `holds` inside the objects of the first rows."""
        paths = (
            f"{column}{DOT}{key}"
            for column in self.table.columns
            for value in islice(self.values(column), _INNER_ROWS)
            for key, part in (as_object(value) or {}).items()
            if DOT not in f"{column}{key}" and holds(str(key), part)
        )
        return tuple(dict.fromkeys(paths))

    def _is_text(self, column: str) -> bool:
        if is_known_text(column):
            return True
        return not self.is_numeric(column) and any(
            isinstance(value, str) or join_texts(value) is not None for value in self.values(column)
        )

    def _text_name(self, column: str) -> str:
        """A text's name: the column's own, or the known name that differs in case alone."""
        known = name_key(column)
        if is_known_text(column):
            return known if self.cased(known) == column else column
        # As crowd platforms export what people were shown.
        root, _, name = known.partition(DOT)
        is_shown = root == "input" and is_known_text(name) and self.cased(name) is None
        return name if is_shown else column


def is_known_text(column: str) -> bool:
    """Whether a column goes by a name that people use for what systems get or write."""
    return name_key(column) in SOURCES or name_key(column) in OUTPUTS


def only_text(texts: Iterable[str], required: Collection[str]) -> str | None:
    """The file's one text where a judge reads one too, whatever either is called.

    None where there are several, or one is known for a source and the other for an output.
    """
    names = [*texts, *required]
    if len(names) != 2 or len(required) != 1:
        return None
    source_or_output = [(name in SOURCES) - (name in OUTPUTS) for name in names]
    return names[0] if source_or_output[0] * source_or_output[1] >= 0 else None


def split_quoted(text: str) -> list[str]:
    """The parts between commas; a part that has one itself stands in double quotes."""
    if '"' not in text and "," not in text:
        return [text]
    try:
        parts = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return [text]
    return [part.strip() for part in parts if part.strip()]


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Note every mapping to a column that the file does not have, and what may have but one."""
    for name, mapped in columns.mapping.items():
        for column in mapped:
            known = columns.has(column) and (
                column in columns.table.columns
                or any(value is not None for value in columns.values(column))
            )
            if not known and not (name == "id" and column == LINE):
                add_missing_column(columns, problems, column, name)
        if len(mapped) > 1 and (is_known_text(name) or name in _ROLES - _SEVERAL_COLUMNS):
            problems.add(
                "two-columns",
                f"is mapped to {len(mapped)} columns ({joined_names(mapped)})",
                f"give one --map {name}=COLUMN; only ratings and votes may have a column for each "
                "annotator",
                field=name,
            )


def check_shared(columns: Columns, problems: Problems, rated: Mapping[str, Sequence[str]]) -> None:
    """Note what cannot serve two names: a column of ratings or votes is no id and no text."""
    for name, own in rated.items():
        for column in own:
            others = [
                other
                for other, mapped in columns.mapping.items()
                if column in mapped and other not in rated
            ]
            if others:
                problems.add(
                    "two-names",
                    f"serves {name} alone, and is mapped to {joined_names(others)}, too",
                    f"give {others[0]} a column of its own",
                    field=column,
                )


def add_missing_column(
    columns: Columns, problems: Problems, column: str, name: str, reason: str = ""
) -> None:
    """Note that there is no such column for `name`, and which ones there are."""
    known = joined_names(columns.table.columns)
    fault = f"there is no such column{reason}; there are {known}"
    problems.add("no-column", fault, mapping_advice(columns, name, column), field=column)


def mapping_advice(columns: Columns, name: str, column: str) -> str:
    """How to say which column holds `name`: the one nearest to `column`, or how to name any."""
    nested = columns.nested_names
    known = {path.rpartition(DOT)[2]: path for path in nested}
    known |= {path: path for path in (*nested, *columns.table.columns)}
    by_key = {name_key(text): path for text, path in known.items()}
    near = difflib.get_close_matches(name_key(column.rpartition(DOT)[2]), by_key, n=1)
    if near:
        nearest = by_key[near[0]]
        return f"did you mean {excerpt(nearest)}? name yours with --map {name}=" + (
            nearest if nearest.isprintable() else "COLUMN"
        )
    if not nested:
        return f"name yours with --map {name}=COLUMN"
    path = joined_names(nested[:1])
    return f"name yours with --map {name}=COLUMN, or --map {name}={path} for one inside another"
