"""What each column of a table holds: by the user's mapping, by a list of usual names, by cells."""

import csv
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from typing import Literal

from dspy_judges.column_names import name_key
from judges.labels.cells import DOT, as_object, is_blank, is_rating, join_texts, value_in
from judges.labels.values import says_nothing, says_truth
from judges.tables.formats import Table
from judges.tables.problems import Problems, joined_names

# Usual names of what systems were given, the most specific first, and of what they wrote.
SOURCES = (
    *("document", "context", "post", "query", "prompt", "article", "dialogue", "question"),
    *("instruction", "dokument", "artikel", "frage", "anfrage", "contexte", "documento"),
    *("artículo", "pregunta", "input", "inputs", "eingabe", "entrée", "entrada", "request"),
    *("usermessage", "conversation", "conversations", "messages", "chat", "transcript"),
)
OUTPUTS = (
    *("summary", "response", "output", "answer", "reply", "completion", "outputs"),
    *("generation", "zusammenfassung", "antwort", "ausgabe", "résumé", "réponse", "sortie"),
    *("resumen", "respuesta", "salida", "assistantmessage", "botmessage"),
)
# Words that may stand beside either, as in `model_answer` or `User Input`.
_BESIDE = """user customer student model assistant bot chatbot agent llm ai system candidate final
generated retrieved original text"""
# Names of reference answers, and words for them before an output's name.
_REFERENCES = frozenset({"reference", "expected", "groundtruth", "ideal", "referenz", "erwartet"})
_SHOULD_BE = "reference expected ideal gold golden correct true desired ground truth target soll"
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
_TOKEN = re.compile(r"[A-ZÀ-Þ]?[a-zß-ÿ]+|[A-ZÀ-Þ]+(?![a-zß-ÿ])|\d+")
_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d\S*)?|\d\d:\d\d(?::\d\d)?")
# A longer cell is a text, and so are the cells of a column with more different ones.
_MAX_LABEL_LENGTH, _MAX_LABEL_SPACES, _MAX_LABELS = 40, 5, 12

# Rows to look at for the keys of nested objects, since a row of JSON may lack some.
MOST_FIRST = 1000

Kind = Literal["rating", "text", "label", ""]
# The column that a name is read from, or several with one annotator each.
ColumnNames = str | Sequence[str]


def tokens(name: str) -> tuple[str, ...]:
    """The words and numbers of a column's name, in small letters."""
    return tuple(token.casefold() for token in _TOKEN.findall(name))


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
        self.mapping: dict[str, tuple[str, ...]] = {}
        for name, columns in {n: c for n, c in (mapping or {}).items() if c}.items():
            headers: list[str] = []
            for column in [columns] if isinstance(columns, str) else map(str, columns):
                # A column's own name may hold a comma.
                is_one = self.has(self.own_name(column))
                headers += [column] if is_one else split_quoted(column) or [column]
            self.mapping[name] = tuple(dict.fromkeys(map(self.own_name, headers)))
        self.kind, self._is_short = cache(self._kind), cache(self._short)

    def find(self, name: str) -> str | None:
        """Return the column that holds `name`: as mapped, under that name, or an alias of it.

        Case does not matter, unless two columns differ in it alone.
        """
        if headers := self.mapping.get(name):
            return headers[0] if self.has(headers[0]) else None
        others = {c for own, columns in self.mapping.items() if own != name for c in columns}
        for alias in (name, *_ALIASES.get(name, ())):
            column = alias if alias in self.table.columns else self.column_like(alias)
            # A column called `system` may hold a text: a prompt, or what the system wrote.
            if column is None or (name == "system" and not self._is_short(column)):
                continue
            if column == name or column not in others:
                return column
        return None

    def column_like(self, name: str) -> str | None:
        """The column with this name in any case and spacing; None if there are none or several."""
        columns = self._by_key.get(name_key(name), [])
        return columns[0] if len(columns) == 1 else None

    def own_name(self, name: str) -> str:
        """The column's own name, which a user may write in another case and spacing."""
        return name if self.has(name) else self.column_like(name) or name

    def has(self, column: str) -> bool:
        """Whether the table has the column, or the nested column that a dotted name starts with."""
        columns = self.table.columns
        return column in columns or (DOT in column and column.partition(DOT)[0] in columns)

    def used(self, names: Iterable[str]) -> set[str]:
        """Return the columns that hold these names, and all columns of the mapping."""
        return {*self.find_all(names)}.union(*self.mapping.values())

    def find_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that hold these names, without those that no column holds."""
        return tuple(column for name in names if (column := self.find(name)) is not None)

    def values(self, column: str) -> Iterator[object]:
        return (value_in(row, column) for row in self.table.rows)

    @cached_property
    def numbers_rows(self) -> bool:
        """Whether rows are numbered: by `--map id=#row`, or because no column holds ids."""
        return self.mapping.get("id") == (ROW,) or not (
            self.is_long or "id" in self.mapping or self.find("id")
        )

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
        roots = self.find_all(NESTED)
        nested = (name for name in self.nested_names if name.partition(DOT)[0] in roots)
        return tuple(
            column
            for column in (*self.table.columns, *nested)
            if any(map(_COMMENT.fullmatch, tokens(column)))
            and (_MODELS.isdisjoint(tokens(column)) or not self.labelled)
            and column not in self.used(()) | {*self.judged}
            and self.kind(column) in ("text", "label")
        )

    def texts(self, used: Collection[str], rated: Collection[str] = ()) -> dict[str, str]:
        """Return every text's name and column: all string columns that serve nothing else.

        Beside longer texts, short values that repeat are left out: a judge could tell from them
        which system wrote the output. What is mapped to a name of the user's own is a text unless
        it is `rated`.
        """
        texts = self._unmapped_texts({*used, *rated})
        for name, headers in self.mapping.items():
            is_text = is_known_text(name) or self.kind(headers[0]) in ("text", "label")
            if name not in _ROLES and headers[0] not in rated and is_text:
                texts[name] = headers[0]
        if "text" not in map(self.kind, texts.values()):
            return texts
        most = len(self.table.rows) / 2
        labels = [n for n, c in texts.items() if n not in self.mapping and self.kind(c) == "label"]
        few = {name for name in labels if self._n_distinct(texts[name]) <= most}
        return {name: column for name, column in texts.items() if name not in few}

    def _unmapped_texts(self, used: Collection[str]) -> dict[str, str]:
        """The names and columns of the texts that no mapping names."""
        texts = {}
        roots = {column.partition(DOT)[0] for column in {*used}.difference(self.table.columns)}
        for column in self.table.columns:
            is_usual = is_known_text(column) or is_reference(column)
            if column in used or column in self.comments or (column in roots and not is_usual):
                continue
            name = self._text_name(column) if is_usual else column
            # A column called the truth may hold the labels.
            may_be_short = self.labelled and not is_reference(column)
            kinds = ("text", "label") if may_be_short else ("text",)
            if name not in self.mapping and self.kind(column) in kinds:
                texts[name] = column
        return texts

    def _text_name(self, column: str) -> str:
        """The name by which a judge reads a usual text: plain letters, small, with underscores."""
        key, name = name_key(column), "_".join(tokens(column))
        if self.column_like(key) != column:
            return column
        return name if name.isascii() else "output" if key in OUTPUTS else "input"

    def source(self, texts: Mapping[str, str]) -> str | None:
        """Return the text that tells documents apart: by its name, else one that repeats.

        Texts with empty cells or one value only are the last choice. A text without a usual name
        has three words or more, two different texts in three rows, no output's name, and another
        text has more different values.
        """
        counts = {name: self._n_distinct(column) for name, column in texts.items()}
        full = (n for n, c in texts.items() if not any(map(is_blank, self.values(c))))
        if usual := source_name(n for n in full if counts[n] > 1) or source_name(texts):
            return usual
        most = max(counts.values(), default=0)
        for name in sorted(counts, key=lambda name: -counts[name]):
            lengths = sorted(len(str(value).split()) for value in self.values(texts[name]))
            repeats = 3 * counts[name] <= 2 * len(lengths) and 1 < counts[name] < most
            if repeats and {*tokens(name)}.isdisjoint(OUTPUTS) and lengths[len(lengths) // 2] > 2:
                return name
        return None

    def is_judged(self, name: str) -> bool:
        """Whether systems surely got or wrote a text: it has a usual name, or a judge reads it."""
        return is_known_text(name) or name in self.judged

    def _kind(self, column: str) -> Kind:
        """What a column's cells are: ratings, texts, labels such as `good` or `4/5`; "" otherwise.

        A column with a text's name holds texts.
        """
        if is_known_text(column) or column in self.judged:
            return "text"
        cells = [cell for cell in self.values(column) if not says_nothing(cell)]
        if is_reference(column) and len({*map(str, cells)}) > _MAX_LABELS:
            return "text"
        if self._are_ratings(cells):
            return "rating"
        if not any(isinstance(cell, str) or join_texts(cell) is not None for cell in cells):
            return ""
        texts = {str(cell).strip() for cell in cells}
        if all(map(_TIME.fullmatch, texts)):
            return ""
        # Labels are short and of few kinds, unless they begin with a number.
        is_varied = len(texts) > _MAX_LABELS and not any(text[:1].isdigit() for text in texts)
        return "text" if is_varied or not self._is_short(column) else "label"

    def _are_ratings(self, cells: Collection[object]) -> bool:
        """Whether half of the cells are numbers, or three quarters yes and no (others misspelt)."""
        n_numbers = sum(is_rating(cell, typed=self.table.typed) for cell in cells)
        n_truths = sum(says_truth(cell, self.words) for cell in cells)
        return bool(cells) and (2 * n_numbers >= len(cells) or 4 * n_truths >= 3 * len(cells))

    def _n_distinct(self, column: str) -> int:
        return len({*map(str, self.values(column))})

    def _short(self, column: str) -> bool:
        """Whether a column's values are as short as names and labels are."""
        words = {str(value).strip() for value in self.values(column)}
        return all(len(w) <= _MAX_LABEL_LENGTH and w.count(" ") <= _MAX_LABEL_SPACES for w in words)

    @cached_property
    def nested_names(self) -> tuple[str, ...]:
        """Every key inside an object of the first rows, dotted, as a mapping names it."""
        cells = (cell for row in self.table.rows[:MOST_FIRST] for cell in row.cells.items())
        names = (f"{column}{DOT}{key}" for column, v in cells for key in as_object(v) or ())
        return tuple(dict.fromkeys(names))


@cache
def known_word(column: str) -> str:
    """The name of SOURCES or OUTPUTS that a column goes by, alone or as its own; else nothing."""
    words = [word for word in tokens(column) if word not in _BESIDE.split()]
    keys = [name_key(column), *(words if len(words) == 1 else ())]
    return next((key for key in keys if key in SOURCES or key in OUTPUTS), "")


def is_known_text(column: str) -> bool:
    """Whether a column goes by a name that people use for what systems get or write."""
    return bool(known_word(column))


def is_reference(column: str) -> bool:
    """Whether a column goes by a name of what the answer should have been."""
    words = [word for word in tokens(column) if word not in _SHOULD_BE.split()]
    should_be = len(words) < len(tokens(column)) and len(words) == 1 and words[0] in OUTPUTS
    return name_key(column) in _REFERENCES or should_be


def source_name(texts: Iterable[str]) -> str | None:
    """Return the first of the texts' names that tells what systems were given."""
    by_key = {known_word(name): name for name in reversed([*texts])}
    return next((by_key[name] for name in SOURCES if name in by_key), None)


def only_text(texts: Iterable[str], required: Collection[str]) -> str | None:
    """The file's only text for a judge that reads one text, whatever the two are called.

    Texts with usual names come before others. None where there are several, or where one is a
    source by its name and the other an output.
    """
    names = [*([*filter(is_known_text, texts)] or texts), *required]
    if len(names) != 2 or len(required) != 1:
        return None
    source_or_output = [(known_word(n) in SOURCES) - (known_word(n) in OUTPUTS) for n in names]
    return names[0] if source_or_output[0] * source_or_output[1] >= 0 else None


def split_quoted(text: str) -> list[str]:
    """The parts between commas; a part that contains a comma stands in double quotes."""
    if '"' not in text and "," not in text:
        return [text]
    try:
        parts = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error:
        return [text]
    return [part.strip() for part in parts if part.strip()]


def map_flag(name: str, columns: Sequence[str]) -> str:
    """The flag that maps a name to these columns, as a shell takes it."""
    words = [f'"{column}"' if "," in column else column for column in columns]
    pair = f"{name}={','.join(words)}"
    return f"--map {shlex.quote(pair if pair.isprintable() else 'NAME=COLUMN')}"


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
    names = joined_names([*columns.table.columns, *columns.nested_names])
    fault = f"there is no such column{reason}; there are {names}"
    problems.add("no-column", fault, mapping_advice(columns, name), field=column)


def mapping_advice(columns: Columns, name: str) -> str:
    """How to say which column holds `name`: for a text one of another usual name."""
    alike = next((names for names in (SOURCES, OUTPUTS) if name_key(name) in names), ())
    texts = [column for column in columns.table.columns if name_key(column) in alike]
    kinds = ("text", "label") if alike or name in columns.judged else ("rating",)
    leaves = [c for c in columns.nested_names if columns.kind(c) in kinds]
    leaves = [c for c in leaves if not alike or c.rpartition(DOT)[2] in alike]
    return f"name yours with {map_flag(name, [*texts, *leaves][:1] or ['COLUMN'])}"
