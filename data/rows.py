"""What outputs and pairs have in common: an id, a document, texts; read strictly, row by row."""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from data.columns import (
    LINE,
    OUTPUTS,
    SOURCES,
    Columns,
    cell,
    is_blank,
    join_texts,
    missing_column,
    only_text,
)
from data.tables.problems import NO_VALUE, Problems, count, joined_names
from data.tables.text import TableRow
from data.types import LabelledOutput, LabelledPair

# The second half of an instruction, which alone may be the same for many documents.
_COMPANION = "input"

Item = LabelledOutput | LabelledPair


def source_name(texts: Iterable[str]) -> str | None:
    """Return the first of the texts' names that tells what systems were given."""
    names = set(texts)
    return next((name for name in SOURCES if name in names), None)


def source_key(texts: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return what tells one document from another by its words; None where no text is known to."""
    name = source_name(texts)
    return None if name is None else (texts[name], texts.get(_COMPANION, ""))


def document_of(item_id: str, texts: Mapping[str, str]) -> str:
    """Return a document's id by its words, the same in any order of rows; else the item's own."""
    key = source_key(texts)
    if key is None:
        return item_id
    digest = hashlib.sha256("\0".join(key).encode()).hexdigest()[:16]
    return f"{source_name(texts)}-{digest}"


def how_grouped(group: str | None, texts: Iterable[str]) -> str:
    """Say what made the documents, for people."""
    if group is not None:
        return f"column {group!r}"
    name = source_name(texts)
    if name is None:
        return "each row is its own document, since there is no group and no source text"
    return f"identical text {name!r}, since there is no group"


def required_texts(
    columns: Columns,
    problems: Problems,
    texts: Mapping[str, str],
    needed: Collection[str] | None,
) -> Collection[str]:
    """The texts that every row must have; a problem for each that no column holds.

    Without `needed` they are those of the usual names; else also what tells documents apart.
    """
    if needed is None:
        return {*SOURCES, *OUTPUTS}
    if (only := only_text(texts, needed)) is not None:
        return (only,)
    for name in needed:
        if name not in texts:
            missing_column(columns, problems, name, name, ", and the judge reads it")
    source = source_name(texts)
    grouping = source is not None and columns.find("group") is None
    return (*needed, source) if grouping and source is not None else tuple(needed)


def same_words(items: Sequence[Item]) -> list[set[str]]:
    """Return the sets of two or more document ids that share a source text, however many steps."""
    leader: dict[str, str] = {}

    def find(document: str) -> str:
        while leader.setdefault(document, document) != document:
            leader[document] = leader[leader[document]]
            document = leader[document]
        return document

    first: dict[tuple[str, ...], str] = {}
    for item in items:
        key = source_key(item.texts)
        if key is not None:
            leader[find(item.document_id)] = find(first.setdefault(key, item.document_id))
    groups: dict[str, set[str]] = {}
    for document in list(leader):
        groups.setdefault(find(document), set()).add(document)
    return [group for group in groups.values() if len(group) > 1]


def document_notes(items: Sequence[Item]) -> list[str]:
    """Say where groups and texts disagree on what is one document."""
    notes = []
    together = same_words(items)
    if together:
        number = sum(map(len, together))
        notes.append(f"same text as another document: {number:,}; splits keep those together")
    words: dict[str, set[tuple[str, ...] | None]] = {}
    for item in items:
        words.setdefault(item.document_id, set()).add(source_key(item.texts))
    mixed = sum(len(keys) > 1 for keys in words.values())
    if mixed:
        notes.append(
            f"more than one source text: {mixed:,} of {count(len(words), 'group')}; each "
            "counts as one document all the same"
        )
    return notes


LONGEST_TEXT = 5_000_000
LONGEST_NAME = 1000
_HALF_PAIR = re.compile("[\ud800-\udfff]")


class Common(NamedTuple):
    """The part of a row that is the same for outputs and pairs."""

    id: str
    document_id: str
    texts: dict[str, str]


class RowReader:
    """Reads ids, documents, systems and texts, and notes every fault of a row at once."""

    def __init__(
        self,
        columns: Columns,
        problems: Problems,
        texts: Mapping[str, str],
        needed: Collection[str] = (),
        *,
        candidates: Collection[str] = (),
    ) -> None:
        self._columns, self._problems, self._texts = columns, problems, texts
        self._needed = {*needed, *candidates}
        self._lines: dict[str, int] = {}
        self._numbered = columns.mapping.get("id") == (LINE,) and not columns.has(LINE)
        self._id, self.group = columns.find("id"), columns.find("group")
        # People vote on systems that wrote nothing, so a candidate may be empty where a file tells
        # that from a cell that somebody forgot; so may a pair's prompt be white space.
        self._candidates = set(candidates)
        self._may_be_blank = self._candidates if columns.table.typed else set()
        self.n_blank = self.n_bare = self.n_joined = 0

    def check(self, advice: str) -> None:
        """Note what no row can mend: a file without ids, or without texts and so `advice`."""
        known = joined_names(self._columns.table.columns)
        if self._id is None and not self._numbered:
            self._problems.add(
                "no-column",
                f"there is no such column; there are {known}",
                f"name yours with --map id=COLUMN, or number the rows with --map id={LINE}",
                field="id",
            )
        if not self._texts:
            self._problems.add("no-text", f"no column holds texts; there are {known}", advice)

    def read(self, row: TableRow) -> Common | None:
        """Return the row's common part, or None where its id, group or a text is at fault."""
        before = len(self._problems)
        item = self._read_id(row)
        texts = self._read_texts(row)
        group = None
        if self.group is not None:
            group = self.name(row, self.group)
            if group is None and len(self._problems) == before:
                self._fault(
                    row, "no-group", "is empty", "name the document in every row", self.group
                )
        if item is None or len(self._problems) > before:
            return None
        return Common(item, group if group is not None else document_of(item, texts), texts)

    def name(self, row: TableRow, column: str | None) -> str | None:
        """Return the name in a cell, None where it is blank or a fault."""
        value = None if column is None else cell(row, column)
        if column is None or is_blank(value):
            return None
        if isinstance(value, bool) or not isinstance(value, str | int):
            self._fault(
                row, "no-name", "is no name", "write a string or a whole number", column, value
            )
            return None
        name = str(value)
        return name if self._is_sound(row, name, column, LONGEST_NAME) else None

    def text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, None where there is none; a fault where it is needed."""
        value = cell(row, column)
        if (joined := join_texts(value)) is not None:
            self.n_joined += 1
            value = joined
        # NaN, which equals nothing, is how data frames spell a missing text.
        if name in self._needed and isinstance(value, bool | int | float) and value == value:
            self.n_bare += 1
            return str(value)
        if isinstance(value, str) and (
            value.strip() or column in self._may_be_blank or (self._candidates and value)
        ):
            self.n_blank += not value.strip()
            return value if self._is_sound(row, value, column, LONGEST_TEXT) else None
        if name in self._needed:
            self._note_missing_text(row, column, value)
        return None

    def notes(self) -> list[str]:
        """Say which texts were read as they are, though they look odd."""
        notes = []
        if self.n_blank:
            notes.append(
                f"{count(self.n_blank, 'text')} kept that hold nothing but white space, if that"
            )
        if self.n_bare:
            notes.append(f"{count(self.n_bare, 'bare number')} (or true, false) read as a text")
        if self.n_joined:
            notes.append(
                f"{count(self.n_joined, 'list')} of texts read as one text each, a blank line "
                "between its items"
            )
        return notes

    def _read_id(self, row: TableRow) -> str | None:
        if self._numbered:
            return str(row.line)
        if self._id is None:
            return None
        before = len(self._problems)
        item = self.name(row, self._id)
        if item is None:
            if len(self._problems) == before:
                self._fault(row, "no-id", "is empty", "give every row an id", self._id)
            return None
        first = self._lines.setdefault(item, row.line)
        if first != row.line:
            what = f"is the id of {self._problems.unit} {first} too"
            advice = "give every row an id of its own"
            if self._columns.find("annotator") is None:
                advice += ", or name who gave its ratings with --map annotator=COLUMN"
            self._fault(row, "twice", what, advice, self._id, item)
        return item

    def _read_texts(self, row: TableRow) -> dict[str, str]:
        texts = {}
        for name, column in self._texts.items():
            text = self.text(row, name, column)
            if text is not None:
                texts[name] = text
        return texts

    def _note_missing_text(self, row: TableRow, column: str, value: object) -> None:
        """Note why a text that is needed is none."""
        if isinstance(value, str):
            advice = "write the text, or leave out the row"
            if column in self._candidates:
                advice = "write the text, or a space where the system wrote nothing"
            self._fault(row, "empty-text", "is empty", advice, column)
        elif value is None:
            advice = "write the text; keep rows of another kind in another file"
            self._fault(row, "no-text", "is missing", advice, column)
        else:
            self._fault(row, "no-text", "is no text", "write it as one string", column, value)

    def _is_sound(self, row: TableRow, text: str, column: str, longest: int) -> bool:
        if len(text) > longest:
            what = f"has {len(text):,} characters, more than {longest:,}"
            self._fault(row, "too-long", what, "shorten it, or look for an unclosed quote", column)
        elif not text.isascii() and _HALF_PAIR.search(text):
            what = "holds half a surrogate pair"
            self._fault(row, "bad-text", what, "export the text as UTF-8 anew", column, text)
        else:
            return True
        return False

    def _fault(
        self,
        row: TableRow,
        kind: str,
        what: str,
        advice: str,
        column: str,
        value: object = NO_VALUE,
    ) -> None:
        self._problems.add(kind, what, advice, line=row.line, field=column, value=value)
