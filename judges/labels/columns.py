"""Which column of a table means what: by the user's mapping, by a short list of names, by cells."""

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

# What systems were given, by the names people use for it, the most telling first; what they wrote.
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
# What may stand beside either, as in `model_answer` or `User Input`.
_BESIDE = """user customer student model assistant bot chatbot agent llm ai system candidate final
generated retrieved original text"""
# What an answer should have been, alone or before an output's name.
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
# What people said of their label, and no text to judge.
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
# What is longer, has more words, or comes in more kinds is no label but a text.
_MAX_LABEL_LENGTH, _MAX_LABEL_SPACES, _MAX_LABELS = 40, 5, 12

# Rows that tell what may stand in any: a row of JSON need not have all columns.
MOST_FIRST = 1000

Kind = Literal["rating", "text", "label", ""]
# What a name is read from: one column, or several with one annotator each.
ColumnNames = str | Sequence[str]


def tokens(name: str) -> tuple[str, ...]:
    """The words and numbers of a column's name, in small letters."""
    return tuple(token.casefold() for token in _TOKEN.findall(name))


class Columns:
    """A table's columns and the user's names for some of them.

    `judged` are texts that a judge reads, whatever they are called; `words` count a number. Not
    `labelled`: what may tell of labels is no text, since somebody is to give them.
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
            whole = [columns] if isinstance(columns, str) else [*map(str, columns)]
            # A column's own name may hold a comma.
            parts = [[c] if self.has(self.own_name(c)) else split_quoted(c) or [c] for c in whole]
            own = (self.own_name(column) for columns in parts for column in columns)
            self.mapping[name] = tuple(dict.fromkeys(own))
        self.kind, self._is_short = cache(self._kind), cache(self._short)

    def find(self, name: str) -> str | None:
        """Return the column that holds `name`: as mapped, under that name, or an alias of it.

        Names that differ in case alone are the same, as long as one column has it.
        """
        if mapped := self.mapping.get(name):
            return mapped[0] if self.has(mapped[0]) else None
        others = {c for own, columns in self.mapping.items() if own != name for c in columns}
        for alias in (name, *_ALIASES.get(name, ())):
            column = alias if alias in self.table.columns else self.cased(alias)
            # A column called so may hold what the system said, or was told.
            if column is None or (name == "system" and not self._is_short(column)):
                continue
            if column == name or column not in others:
                return column
        return None

    def cased(self, name: str) -> str | None:
        """The one column of this name but for case and spaces; None where none or several."""
        alike = self._by_key.get(name_key(name), [])
        return alike[0] if len(alike) == 1 else None

    def own_name(self, written: str) -> str:
        """The column's own name, which a user need not write with its case and spaces."""
        return written if self.has(written) else self.cased(written) or written

    def has(self, column: str) -> bool:
        """Whether the table has the column, or the nested column that a dotted name starts with."""
        known = self.table.columns
        return column in known or (DOT in column and column.partition(DOT)[0] in known)

    def used(self, names: Iterable[str]) -> set[str]:
        """Return the columns that hold these names, and all that a mapping gave another name."""
        return {*self.find_all(names)}.union(*self.mapping.values())

    def find_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the columns that hold these names, without those that no column holds."""
        return tuple(column for name in names if (column := self.find(name)) is not None)

    def values(self, column: str) -> Iterator[object]:
        return (value_in(row, column) for row in self.table.rows)

    @cached_property
    def numbers_rows(self) -> bool:
        """Whether the rows' numbers are ids: by `--map id=#row`, or for want of a column."""
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
        """Whether a row is what one annotator gave: of a long table, or by a column of names."""
        return self.is_long or self.find("annotator") is not None

    @property
    def holds_ratings(self) -> bool:
        """Whether there are ratings that nobody need name: nested or long ones."""
        return self.is_long or self.find_all(NESTED) != ()

    @cached_property
    def comments(self) -> tuple[str, ...]:
        """The columns of what people said of their labels, which is no text to judge."""
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

        Beside texts proper, a few short values that repeat are none: from them a judge could read
        which system wrote the output. What is mapped to a name of the user's own is a text where it
        is not `rated`.
        """
        texts = {}
        roots = {c.partition(DOT)[0] for c in {*used, *rated}.difference(self.table.columns)}
        for column in self.table.columns:
            key, named = name_key(column), is_known_text(column) or is_reference(column)
            own = "_".join(tokens(column))
            # A judge names its texts by plain letters.
            own = own if own.isascii() else "output" if key in OUTPUTS else "input"
            name = own if named and self.cased(key) == column else column
            no_text = {*used, *rated, *self.comments, *(roots if not named else ())}
            free = column not in no_text and name not in self.mapping
            # What is called the truth may be the label itself.
            kinds = ("text", "label") if self.labelled and not is_reference(column) else ("text",)
            if free and self.kind(column) in kinds:
                texts[name] = column
        for name, columns in self.mapping.items():
            is_text = is_known_text(name) or self.kind(columns[0]) in ("text", "label")
            if name not in _ROLES and columns[0] not in rated and is_text:
                texts[name] = columns[0]
        kind_of = {column: self.kind(column) for column in texts.values()}
        labels = (c for n, c in texts.items() if n not in self.mapping and kind_of[c] == "label")
        few = {c for c in labels if 2 * len({*map(str, self.values(c))}) <= len(self.table.rows)}
        kept = {name: column for name, column in texts.items() if column not in few}
        return kept if "text" in kind_of.values() else texts

    def source(self, texts: Mapping[str, str]) -> str | None:
        """The text that tells documents apart: by its name, else what repeats beside outputs.

        Without a telling name it is made of words, stands in three rows for every two texts, is
        called like no output, and another text differs more. What is empty or constant goes last.
        """
        counts = {name: len({*map(str, self.values(c))}) for name, c in texts.items()}
        full = (n for n, c in texts.items() if not any(map(is_blank, self.values(c))))
        if named := source_name(n for n in full if counts[n] > 1) or source_name(texts):
            return named
        most = max(counts.values(), default=0)
        for name in sorted(counts, key=lambda name: -counts[name]):
            lengths = sorted(len(str(value).split()) for value in self.values(texts[name]))
            repeats = 3 * counts[name] <= 2 * len(lengths) and 1 < counts[name] < most
            if repeats and {*tokens(name)}.isdisjoint(OUTPUTS) and lengths[len(lengths) // 2] > 2:
                return name
        return None

    def is_judged(self, name: str) -> bool:
        """Whether a text is surely what systems got or wrote, by its name or the judge's word."""
        return is_known_text(name) or name in self.judged

    def _kind(self, column: str) -> Kind:
        """What a column's cells are: ratings, texts, labels such as `good` or `4/5`; "" for else.

        Ratings are numbers in the most part, or yes and no in three of four (the others may be
        misspelt); what goes by a text's name is a text.
        """
        if is_known_text(column) or column in self.judged:
            return "text"
        values = [value for value in self.values(column) if not says_nothing(value)]
        if is_reference(column) and len({*map(str, values)}) > _MAX_LABELS:
            return "text"
        n_ratings = sum(is_rating(value, typed=self.table.typed) for value in values)
        n_truths = sum(says_truth(value, self.words) for value in values)
        if values and (2 * n_ratings >= len(values) or 4 * n_truths >= 3 * len(values)):
            return "rating"
        if not any(isinstance(value, str) or join_texts(value) is not None for value in values):
            return ""
        words = {str(value).strip() for value in values}
        if all(map(_TIME.fullmatch, words)):
            return ""
        if not self._is_short(column):
            return "text"
        many = len(words) > _MAX_LABELS and not any(word[:1].isdigit() for word in words)
        return "text" if many else "label"

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
    """The file's one text where a judge reads one too, whatever either is called.

    One of a usual name goes before others. None where there are several, or one is known for a
    source and the other for an output.
    """
    names = [*([*filter(is_known_text, texts)] or texts), *required]
    if len(names) != 2 or len(required) != 1:
        return None
    source_or_output = [(known_word(n) in SOURCES) - (known_word(n) in OUTPUTS) for n in names]
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


def map_flag(name: str, columns: Sequence[str]) -> str:
    """The flag that maps a name to these columns, as a shell takes it."""
    words = [f'"{column}"' if "," in column else column for column in columns]
    pair = f"{name}={','.join(words)}"
    return f"--map {shlex.quote(pair if pair.isprintable() else 'NAME=COLUMN')}"


def check_mapping(columns: Columns, problems: Problems) -> None:
    """Note every mapping to a column that the file does not have, and what may have but one."""
    for name, mapped in columns.mapping.items():
        for column in mapped:
            known = column in columns.table.columns or (name, column) == ("id", ROW)
            if not known and all(value is None for value in columns.values(column)):
                add_missing_column(columns, problems, column, name)
        if len(mapped) > 1 and (is_known_text(name) or name in _ROLES - {*VOTES}):
            fault = f"is mapped to {len(mapped)} columns ({joined_names(mapped)})"
            advice = f"give one --map {name}=COLUMN; only ratings and votes may have several"
            problems.add("two-columns", fault, advice, field=name)


def add_missing_column(
    columns: Columns, problems: Problems, column: str, name: str, reason: str = ""
) -> None:
    """Note that there is no such column for `name`, and which ones there are."""
    known = joined_names([*columns.table.columns, *columns.nested_names])
    fault = f"there is no such column{reason}; there are {known}"
    problems.add("no-column", fault, mapping_advice(columns, name), field=column)


def mapping_advice(columns: Columns, name: str) -> str:
    """How to say which column holds `name`: for a text one of another usual name."""
    alike = next((names for names in (SOURCES, OUTPUTS) if name_key(name) in names), ())
    texts = [column for column in columns.table.columns if name_key(column) in alike]
    kinds = ("text", "label") if alike or name in columns.judged else ("rating",)
    leaves = [c for c in columns.nested_names if columns.kind(c) in kinds]
    leaves = [c for c in leaves if not alike or c.rpartition(DOT)[2] in alike]
    return f"name yours with {map_flag(name, [*texts, *leaves][:1] or ['COLUMN'])}"
