"""Merges a table's rows to one per output or pair, and reads their ids, documents and texts."""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from judges.labels.cells import DOT, as_object, is_blank, is_name, join_texts, value_in
from judges.labels.columns import (
    NESTED,
    OUTPUTS,
    ROW,
    Columns,
    add_missing_column,
    is_known_text,
    is_reference,
    known_word,
    map_flag,
    only_text,
)
from judges.labels.flags import read_bounds
from judges.labels.types import FileReading
from judges.labels.values import Scale, looks_like_rating, says_nothing, word_of
from judges.tables.formats import Table
from judges.tables.problems import NO_VALUE, Problems, count, excerpt, joined_names
from judges.tables.text import TableRow

# The columns of one over a document's chance of being drawn, and of how many it was drawn from.
SAMPLING = ("sampling_weight", "sampling_from")
_HOW = _TIME, _CHANGED, _SCALE = "labelled_at", "changed_after", "rating_scale"
# The roles that say which document an output is on and who wrote it.
_ORIGINS = ("group", "system", "system_a", "system_b")
# Names of a sheet's last row, or column, of means or sums.
FOOTER = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|std|sd|stdev)\b|ø",
    re.IGNORECASE,
)
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def without_footers(table: Table) -> Table:
    """Return the table without its last rows of means or sums, with a note on each."""
    rows = list(table.rows)
    usual = sorted(len(_filled(row)) for row in rows)[len(rows) // 2]
    notes: list[str] = []
    while len(rows) > 1 and not table.typed and len(_filled(rows[-1])) <= max(usual - 1, 2):
        words = [v for v in _filled(rows[-1]) if not looks_like_rating(v, typed=False)]
        if len(words) != 1 or len(words[0]) > 40 or not FOOTER.match(words[0].strip()):
            break
        notes.insert(0, f"{excerpt(words[0])} in the last row is no output: the row is left out")
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def latest_labels(columns: Columns) -> Columns:
    """Each annotator's latest label of an output, by `labelled_at`, which may be empty.

    The columns on how labels came about are dropped; their cells stay in the rows.
    """
    table, rows, notes = columns.table, columns.table.rows, columns.table.notes
    id_in, annotator_in, dimension_in = map(columns.find, ("id", "annotator", "dimension"))
    if _TIME in table.columns and id_in and annotator_in:
        last = {}
        for row in rows:
            # A row without an annotator's name replaces no other row.
            who = row.cells.get(annotator_in) or f"{ROW} {row.line}"
            dimension = row.cells.get(dimension_in or "")
            last[item_key(row, id_in), str(who).strip(), str(dimension).strip()] = row
        rows = tuple(last.values())
    if n := sum(not is_blank(row.cells.get(_CHANGED)) for row in rows):
        notes += (f"{count(n, 'label')} changed after seeing others': agreement is not blind",)
    names = tuple(name for name in table.columns if name not in (*_HOW, *SAMPLING))
    table = replace(table, columns=names, rows=rows, notes=notes)
    return Columns(table, columns.mapping, columns.judged, columns.words, columns.labelled)


def stated_scales(columns: Columns) -> dict[str, Scale]:
    """Return each dimension's scale as label pages write it, where all of its rows agree."""
    scales, dimension_in = dict[str, set[Scale | None]](), columns.find("dimension") or ""
    for row in columns.table.rows:
        scale = read_bounds(str(row.cells.get(_SCALE)))
        scales.setdefault(str(row.cells.get(dimension_in)).strip(), set()).add(scale)
    return {name: scale for name, (scale, *others) in scales.items() if scale and not others}


def _filled(row: TableRow) -> list[str]:
    return [str(value) for value in row.cells.values() if not is_blank(value)]


class ItemFields(NamedTuple):
    """The part of a row that is the same for outputs and pairs."""

    id: str
    document_id: str
    systems: tuple[str | None, ...]
    texts: dict[str, str]
    draw: dict[str, object]


class RowReader:
    """Reads ids, documents, systems and texts, and collects every problem of a row.

    `rated` are the columns of labels, `roles` the names that are no texts, `judged` the texts that
    every row must have (None: those with usual names), `candidates` the columns of a pair's sides.
    """

    def __init__(
        self,
        columns: Columns,
        problems: Problems,
        *,
        roles: Collection[str],
        rated: Collection[str],
        judged: Collection[str] | None,
        candidates: Mapping[str, str] | None = None,
    ) -> None:
        self._problems, self._candidates = problems, dict(candidates or {})
        self._of_file, self._roles = columns, roles
        self.notes: list[str] = []
        used = {*columns.used(roles), *self._candidates.values()}
        texts = columns.texts(used, rated) | self._candidates
        # The columns that certainly hold texts.
        own = {n: c for n, c in texts.items() if columns.is_judged(n) or n in columns.mapping}
        own |= self._candidates
        if not problems:
            content = own if len(own) > 1 else texts
            self.notes += _note_repeats(columns, problems, content.values(), rated)
        if columns.is_by_annotator and (columns.is_long or columns.find("id")):
            roots = {column.partition(DOT)[0] for column in rated}
            columns = self._merge_rows(columns, {*rated, *roots}, own.values())
        self.columns = columns
        self.texts = {name: column for name, column in texts.items() if columns.has(column)}
        self._systems = [columns.find(role) for role in roles if role.startswith("system")]
        self._id, self._group = columns.find("id"), columns.find("group")
        of_prompt = {n: c for n, c in self.texts.items() if n not in self._candidates}
        self._source = columns.source(of_prompt)
        required = _required_texts(columns, problems, of_prompt, judged)
        self._required = {*required, *self._candidates}
        self.notes += self._note_empty_texts()
        if not of_prompt and (judged is None or judged):
            self._add_missing_texts()
        self._lines: dict[str, int] = {}
        # Rows without an answer, by the answer's column.
        self._empty_answers: dict[str, list[int]] = {}

    def _note_empty_texts(self) -> Iterator[str]:
        """Yield a note on each usual text that is empty in some rows, and need not be there."""
        for name in sorted(self.texts.keys() - self._required):
            n_empty = sum(map(is_blank, self.columns.values(self.texts[name])))
            if n_empty and (is_known_text(name) or is_reference(name)):
                yield f"{name} is empty in {count(n_empty, 'row')}"

    def _add_missing_texts(self) -> None:
        """Add the problem that the table has no texts."""
        columns = self.columns
        column = columns.comments[:1] or ["COLUMN"]
        advice = f"name what systems were given and wrote, as in {map_flag('document', column)}"
        if self._of_file.is_long:
            advice = "give it beside the file of outputs, as in --annotations FILE"
        names = joined_names([*columns.table.columns, *columns.nested_names])
        self._problems.add("no-text", f"no column holds texts; there are {names}", advice)

    @property
    def grouped_by(self) -> str:
        """Say in words which rows share a document."""
        if self._group is not None:
            return f"column {self._group!r}"
        if self._source is None:
            return "each row is its own document, since there is no group and no source text"
        return f"identical text {self._source!r}, since there is no group"

    def reading(self, ratings: Mapping[str, tuple[str, ...]]) -> FileReading:
        """Return the columns by what was read from them."""
        columns = self._of_file
        roles = [role for role in self._roles if role not in (*NESTED, "rating")]
        rows = {role: (c,) for role in roles if (c := columns.find(role)) is not None}
        if columns.numbers_rows:
            rows["id"] = (ROW,)
        read = {column for names in (*rows.values(), *ratings.values()) for column in names}
        read |= {*self.texts.values(), *columns.comments}
        read |= {column.partition(DOT)[0] for column in read}
        return FileReading(
            rows=rows,
            texts=self.texts,
            ratings=ratings,
            comments=columns.comments,
            unread=tuple(column for column in columns.table.columns if column not in read),
        )

    def items(self) -> Iterator[ItemFields]:
        """Yield the fields of every row without a fault, then note the rows without an answer."""
        for row in self.columns.table.rows:
            n_before = len(self._problems)
            systems = tuple(self._name(row, column) for column in self._systems)
            item = self._read_id(row)
            texts = {
                n: t for n, c in self.texts.items() if (t := self._text(row, n, c)) is not None
            }
            group = None if self._group is None else self._name(row, self._group)
            if self._group is not None and group is None and len(self._problems) == n_before:
                advice = "name the document in every row"
                self._fault(row, self._group, "no-group", "is empty", advice)
            no_answer = any(lines[-1] == row.line for lines in self._empty_answers.values())
            if item is not None and not no_answer and len(self._problems) == n_before:
                document = group or _document_of(item, texts, self._source)
                draw = {name: row.cells[name] for name in SAMPLING if name in row.cells}
                yield ItemFields(item, document, systems, texts, draw)
        for column, lines in self._empty_answers.items():
            if 2 * len(lines) > (n_rows := len(self.columns.table.rows)):
                fault = f"is empty in {len(lines):,} of {n_rows:,} rows"
                advice = "name the column that holds the answers, as in --map summary=COLUMN"
                self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
            where = f"{count(len(lines), 'row')} ({self._problems.unit} {str(lines[:5])[1:-1]}"
            where += ", ...)" if len(lines) > 5 else ")"
            self.notes.append(f"left out for an empty {excerpt(column)}: {where}")

    def _merge_rows(
        self, columns: Columns, rated: Collection[str], texts: Collection[str]
    ) -> Columns:
        """Merge the rows of each id to one, without labels and comments.

        A column that differs between rows of an id is left out with a note; it is a problem in
        `texts` and where it says which document or system the output is of.
        """
        by_annotator = {columns.find(name) for name in ("dimension", "annotator", "rating")}
        by_annotator |= {*rated, *columns.comments}
        must_agree = {*texts, *(columns.find(name) for name in _ORIGINS)}
        id_in = columns.find("id")
        item_columns = [column for column in columns.table.columns if column not in by_annotator]
        differing: dict[str, None] = {}
        merged: dict[str, TableRow] = {}
        for row in columns.table.rows:
            cells = merged.setdefault(item_key(row, id_in), row._replace(cells={})).cells
            for column in item_columns:
                value = row.cells.get(column)
                if is_blank(cells.get(column)):
                    cells[column] = value
                if is_blank(value) or cells[column] == value:
                    continue
                if column in must_agree:
                    fault = f"differs from another row of the id {item_key(row, id_in)!r:.60}"
                    advice = "write the same in every row of an id, or give other outputs other ids"
                    self._fault(row, column, "two-texts", fault, advice, value)
                else:
                    differing[column] = None
        names = tuple(column for column in item_columns if column not in differing)
        if differing:
            left_out = joined_names([f"column {column!r}" for column in differing])
            self.notes.append(f"not one for each id, so left out: {left_out}")
        dropped = {*by_annotator, *differing}
        mapping = {name: m for name, m in columns.mapping.items() if dropped.isdisjoint(m)}
        table = replace(columns.table, columns=names, rows=tuple(merged.values()))
        return Columns(table, mapping, columns.judged, columns.words, columns.labelled)

    def _name(self, row: TableRow, column: str | None) -> str | None:
        """Return the name in a cell, None where it is blank or a fault."""
        value = None if column is None else value_in(row, column)
        if column is None or is_blank(value):
            return None
        if is_name(value):
            # Nobody sees spaces at the ends of a cell.
            return self._checked(str(value).strip(), row, column)
        advice = "write a string or a whole number"
        return self._fault(row, column, "no-name", "is no name", advice, value)

    def _text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, None where there is none; a fault where it is required."""
        value = value_in(row, column)
        value = value if (text := join_texts(value)) is None else text
        # A candidate may be empty in a typed file, since people vote on systems that wrote nothing;
        # in other files the cell may have been forgotten. A pair's prompt may be white space.
        is_candidate = name in self._candidates
        may_be_blank = (is_candidate and self.columns.table.typed) or (self._candidates and value)
        if isinstance(value, str) and (value.strip() or may_be_blank):
            return self._checked(value, row, column)
        # NaN, which equals nothing, is how data frames spell a missing text.
        if isinstance(value, bool | int | float) and value == value:
            return str(value)
        if name not in self._required:
            return None
        if is_blank(value) and (is_candidate or known_word(name) in OUTPUTS):
            self._empty_answers.setdefault(column, []).append(row.line)
            return None
        fault = "is missing" if value is None else "is empty" if is_blank(value) else "is no text"
        advice = "write the text, or leave out the row"
        if key := next(iter(as_object(value) or ()), None):
            advice = f"name the text in it, as in {map_flag(name, [f'{column}{DOT}{key}'])}"
        return self._fault(row, column, "no-text", fault, advice, value or NO_VALUE)

    def _read_id(self, row: TableRow) -> str | None:
        """A row's id, None if it is missing; a repeated id is added as a problem and returned."""
        if self.columns.numbers_rows or self._id is None:
            return str(row.number) if self.columns.numbers_rows else None
        item = self._name(row, self._id)
        if item is None and is_blank(value_in(row, self._id)):
            return self._fault(row, self._id, "no-id", "is empty", "give every row an id")
        if item is not None and (first := self._lines.setdefault(item, row.line)) != row.line:
            fault = f"is the id of {self._problems.unit} {first} too"
            advice = "give every row an id of its own"
            if self.columns.find("annotator") is None:
                advice += ", or name who gave its ratings with --map annotator=COLUMN"
            self._fault(row, self._id, "twice", fault, advice, item)
        return item

    def _checked(self, text: str, row: TableRow, column: str) -> str | None:
        """The text itself; None, with a problem, if it is not valid Unicode."""
        if not text.isascii() and _HALF_PAIR.search(text):
            fault, advice = "holds half a surrogate pair", "export the text as UTF-8 anew"
            return self._fault(row, column, "bad-text", fault, advice, text)
        return text

    def _fault(
        self, row: TableRow, field: str, kind: str, fault: str, advice: str, value: Any = NO_VALUE
    ) -> str | None:
        """Add a problem of a cell; return None, which is what is read from the cell."""
        self._problems.add(kind, fault, advice, line=row.line, field=field, value=value)
        return None


def item_key(row: TableRow, id_column: str | None) -> str:
    """The id of a row's output or pair, which is its number where no column holds ids."""
    if id_column is None:
        return str(row.number)
    item = row.cells.get(id_column)
    # A cell that is no id is refused later; until then each has a key of its own.
    return str(item).strip() if is_name(item) else f"{ROW} {row.number}"


def read_comments(
    columns: Columns, names: Callable[[str, TableRow], Iterable[str]]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return people's comments by the row's key and the names that `names` gives the column."""
    comments: dict[str, dict[str, tuple[str, ...]]] = {}
    id_in = columns.find("id")
    for row in columns.table.rows:
        for column in columns.comments:
            cell = value_in(row, column)
            comment = join_texts(cell) or cell
            if isinstance(comment, str) and not is_blank(comment):
                by_name = comments.setdefault(item_key(row, id_in), {})
                for name in names(column, row):
                    by_name[name] = (*by_name.get(name, ()), comment.strip())
    return comments


def _required_texts(
    columns: Columns, problems: Problems, texts: Mapping[str, str], judged: Collection[str] | None
) -> Collection[str]:
    """The texts that every row must have; a problem for each that no column holds."""
    source = columns.source(texts)
    if judged is None:
        # Only these, since the input beside an instruction or a question is often empty.
        return {name for name in texts if known_word(name) in OUTPUTS or name == source}
    if (only := only_text(texts, judged)) is not None:
        return (only,)
    for name in judged:
        if name not in texts:
            add_missing_column(columns, problems, name, name, ", and the judge reads it")
    # The source is needed to group documents, even if the judge does not read it.
    return (*judged, *([source] if source and columns.find("group") is None else []))


def _note_repeats(
    columns: Columns, problems: Problems, texts: Iterable[str], rated: Collection[str]
) -> Iterator[str]:
    """Yield a note on the rows that repeat another row's texts, and on labels that differ there.

    It is a problem where annotators are named, and nothing tells which rows are of one output.
    """
    rows, id_in, unit = columns.table.rows, columns.find("id"), problems.unit
    if id_in and len({item_key(row, id_in) for row in rows}) < len(rows):
        return
    groups = _same_rows(rows, (*columns.find_all(_ORIGINS), *texts)) if texts else []
    repeats = sorted(row.line for _, *others in groups for row in others)
    if not repeats:
        return
    if columns.find("annotator") and (not id_in or 2 * len(repeats) >= len(rows) - 1):
        first, line = groups[0][0].line, groups[0][1].line
        fault = f"holds the texts of {unit} {first}: both may be annotators' of one output"
        advice = "give rows of one output one id: --map id=COLUMN"
        problems.add("rows-of-annotators", fault, advice, line=line, field="id")
    note = f"{len(repeats):,} {'row repeats' if len(repeats) == 1 else 'rows repeat'}"
    note += f" another row's texts ({unit}s {joined_names([*map(str, repeats)])})"
    differences = [
        f"{joined_names(labels)} ({unit}s {joined_names([str(row.line) for row in group])})"
        for group in (groups if columns.labelled else ())
        for column in sorted(rated)
        if len(labels := _labels_in(group, column)) > 1
    ]
    if differences:
        pairs = count(len(differences), "pair")
        note += f". {pairs} with different labels: {'; '.join(differences[:10])}"
    yield note


def _same_rows(rows: Iterable[TableRow], columns: Collection[str]) -> list[list[TableRow]]:
    """The groups of two or more rows that are equal in these columns."""
    groups: dict[tuple[str, ...], list[TableRow]] = {}
    for row in rows:
        groups.setdefault(tuple(str(value_in(row, c)) for c in columns), []).append(row)
    return [group for group in groups.values() if len(group) > 1]


def _labels_in(rows: Iterable[TableRow], column: str) -> list[str]:
    """The different labels in a column, sorted; lists hold several annotators' and are no label."""
    cells = (value_in(row, column) for row in rows)
    single = (cell for cell in cells if not isinstance(cell, list | Mapping))
    return sorted({word_of(cell) for cell in single if not says_nothing(cell)})


def _document_of(item_id: str, texts: Mapping[str, str], source: str | None) -> str:
    """Return a document's id by the words of `source`, in any order of rows; else the item's own.

    The `input` of an instruction makes another document of it.
    """
    if source not in texts:
        return item_id
    words = f"{texts[str(source)]}\0{texts.get('input', '')}"
    return f"{source}-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
