"""From a table's rows to one row an output or pair, and what both kinds have in common."""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from data.cells import DOT, LINE, is_blank, is_name, join_texts, value_in
from data.columns import OUTPUTS, SOURCES, Columns
from data.documents import document_of
from data.tables.problems import CellError, Problems, count, excerpt, joined_names
from data.tables.text import TableRow

# What says of which document and by whom an output is.
_ORIGINS = ("group", "system", "system_a", "system_b")
MAX_TEXT_LENGTH = 5_000_000
MAX_NAME_LENGTH = 1000
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def give_ids(
    columns: Columns, problems: Problems, texts: Mapping[str, str], *, noun: str = "output"
) -> Columns:
    """Give the rows of one output (or pair) one id where rows are several annotators' or numbered.

    Rows without ids of their own belong together where group, systems and texts are the same. Ids
    that number the rows, so that most outputs have several, are a problem.
    """
    numbered = columns.numbers_rows
    several = columns.is_long or columns.has_annotator_rows
    if columns.makes_ids and not texts and not several:
        texts = _longest_text(columns)
    written = [column for name, column in texts.items() if name not in SOURCES]
    if not (written and (several or numbered)):
        if several and numbered:
            fault = "cannot be told apart without texts: each output has a row for each annotator"
            problems.add("no-id", fault, "name the output's id with --map id=COLUMN", field="id")
        return columns
    rows = columns.table.rows
    origins = [column for name in _ORIGINS if (column := columns.find(name)) is not None]
    content_in = dict.fromkeys([*origins, *texts.values()])
    first: dict[tuple[str, ...], int] = {}
    first_lines = [
        first.setdefault(tuple(str(row.cells.get(name)) for name in content_in), row.line)
        for row in rows
    ]
    if several and numbered:
        numbered_rows = tuple(
            TableRow(row.line, {**row.cells, LINE: str(line)})
            for row, line in zip(rows, first_lines, strict=True)
        )
        names = (*columns.table.columns, LINE)
        return Columns(replace(columns.table, columns=names, rows=numbered_rows), columns.mapping)
    id_in = columns.find("id")
    if id_in is None and not numbered:
        # The reader of the rows says so.
        return columns
    ids = {row.line: row.line if id_in is None else row.cells.get(id_in) for row in rows}
    repeats = [
        (row.line, line)
        for row, line in zip(rows, first_lines, strict=True)
        if ids[line] != ids[row.line]
    ]
    # A few outputs may well be the same; most are not, unless each has a row for each annotator.
    numbering = len({str(name) for name in ids.values()}) == len(rows)
    mostly_repeats = 2 * len(repeats) >= len(rows) - 1 > 0
    annotators_rows = mostly_repeats and (several or len(content_in) > len(written))
    if numbering and (annotators_rows or (columns.makes_ids and repeats)):
        line, first_line = repeats[0]
        advice = "give all rows of an output its id, or match rows by their texts: --map id=#line"
        if not several:
            advice = (
                f"where rows are several annotators', name who gave them with --map "
                f"annotator=COLUMN; else give every {noun} an id"
            )
            advice += f", as --map id={LINE} does" if columns.makes_ids else ""
        problems.add(
            "rows-of-annotators",
            f"holds the same texts as {problems.unit} {first_line}, and so do {len(repeats):,} of "
            f"{len(rows):,} rows: each would count as one {noun}",
            advice,
            line=line,
            field=id_in or "id",
        )
    return columns


def _longest_text(columns: Columns) -> dict[str, str]:
    """The text that is surely no comment, where no text has a usual name: the longest."""
    texts = columns.texts(columns.used(("id", *_ORIGINS)))
    lengths = {
        name: sum(len(value) for value in columns.values(column) if isinstance(value, str))
        for name, column in texts.items()
    }
    longest = max(lengths, key=lambda name: lengths[name], default=None)
    return {} if longest is None else {longest: texts[longest]}


def item_key(row: TableRow, id_column: str | None) -> str | int:
    """The id of the row's output or pair; the line where it is none, which its reader refuses."""
    item = row.cells.get(id_column or "")
    return str(item).strip() if is_name(item) else row.line


def merge_rows(
    columns: Columns,
    problems: Problems,
    *,
    rated: Collection[str | None],
    texts: Collection[str],
) -> tuple[Columns, list[str]]:
    """Return one row for each id, with everything its rows say of it beside ratings; and notes.

    `rated` columns are an annotator's. What only some outputs' rows agree on, such as a comment,
    is left out and noted, unless it is one of `texts` or says whose the output is.
    """
    id_column = columns.find("id")
    annotator_columns = {
        *rated,
        *(columns.find(name) for name in ("dimension", "annotator", "rating")),
    }
    item_columns = [column for column in columns.table.columns if column not in annotator_columns]
    must_agree = {*texts, *(columns.find(name) for name in _ORIGINS)}
    differing: dict[str, None] = {}
    merged: dict[str | int, TableRow] = {}
    for row in columns.table.rows:
        cells = merged.setdefault(item_key(row, id_column), TableRow(row.line, {})).cells
        for column in item_columns:
            value = row.cells.get(column)
            if is_blank(value) or cells.setdefault(column, value) == value:
                continue
            if column not in must_agree:
                differing[column] = None
                continue
            problems.add(
                "two-texts",
                f"differs from another row of the id {excerpt(row.cells.get(id_column or ''))}",
                "write the same in every row of an id, or give other outputs other ids",
                line=row.line,
                field=column,
                value=value,
            )
    names = tuple(column for column in item_columns if column not in differing)
    rows = tuple(
        TableRow(line, {name: cells[name] for name in names if name in cells})
        for line, cells in merged.values()
    )
    dropped = annotator_columns | differing.keys()
    mapping = {name: mapped for name, mapped in columns.mapping.items() if not {*mapped} & dropped}
    left_out = joined_names([f"column {column!r}" for column in differing])
    notes = [f"not one for each id, so left out: {left_out}"] if differing else []
    return Columns(replace(columns.table, columns=names, rows=rows), mapping), notes


class ItemFields(NamedTuple):
    """The part of a row that is the same for outputs and pairs."""

    id: str
    document_id: str
    texts: dict[str, str]


class RowReader:
    """Reads ids, documents, systems and texts, and notes every fault of a row at once.

    `texts` are names and columns, `required` the names of those that every row must have.
    `candidates` are the columns of a pair's two.
    """

    def __init__(
        self,
        columns: Columns,
        problems: Problems,
        texts: Mapping[str, str],
        required: Collection[str] = (),
        *,
        candidates: Collection[str] = (),
    ) -> None:
        self._columns, self._problems, self._texts = columns, problems, texts
        self._required = {*required, *candidates}
        self._lines: dict[str, int] = {}
        self._numbered = columns.numbers_rows and not columns.has(LINE)
        self._id, self.group = columns.find("id"), columns.find("group")
        # People vote on systems that wrote nothing, so a candidate may be empty where a file tells
        # that from a cell that somebody forgot; so may a pair's prompt be white space.
        self._candidates = set(candidates)
        self._may_be_blank = self._candidates if columns.table.typed else set()
        self._odd_texts = Counter[str]()
        # Rows without an answer, by the answer's column.
        self._empty_answers: dict[str, list[int]] = {}

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
            inside = self._columns.inner_texts
            if inside:
                pairs = (f"{path.rpartition(DOT)[2]}={path}" for path in inside[:4])
                pairs = (pair if pair.isprintable() else "NAME=COLUMN.NAME" for pair in pairs)
                flags = " ".join(f"--map {shlex.quote(pair)}" for pair in pairs)
                advice = f"name those that stand inside others, as in {flags}"
            self._problems.add("no-text", f"no column holds texts; there are {known}", advice)

    def read(self, row: TableRow) -> ItemFields | None:
        """Return the row's common part, or None where its id, group or a text is at fault."""
        n_before = len(self._problems)
        item = self._read_id(row)
        texts = {
            name: text
            for name, column in self._texts.items()
            if (text := self.text(row, name, column)) is not None
        }
        group = None
        if self.group is not None:
            group = self.name(row, self.group)
            if group is None and len(self._problems) == n_before:
                error = CellError("no-group", "is empty", "name the document in every row")
                self._problems.add_cell(error, line=row.line, field=self.group)
        no_answer = any(lines[-1] == row.line for lines in self._empty_answers.values())
        if item is None or no_answer or len(self._problems) > n_before:
            return None
        return ItemFields(item, group if group is not None else document_of(item, texts), texts)

    def name(self, row: TableRow, column: str | None) -> str | None:
        """Return the name in a cell, None where it is blank or a fault."""
        value = None if column is None else value_in(row, column)
        if column is None or is_blank(value):
            return None
        try:
            if not is_name(value):
                advice = "write a string or a whole number"
                raise CellError("no-name", "is no name", advice, value)
            # Spaces at a cell's ends are seen by nobody.
            return _checked(str(value).strip(), MAX_NAME_LENGTH)
        except CellError as error:
            self._problems.add_cell(error, line=row.line, field=column)
            return None

    def text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, None where there is none; a fault where it is required."""
        value = value_in(row, column)
        if (joined := join_texts(value)) is not None:
            self._odd_texts["joined"] += 1
            value = joined
        required = name in self._required
        # NaN, which equals nothing, is how data frames spell a missing text.
        if required and isinstance(value, bool | int | float) and value == value:
            self._odd_texts["number"] += 1
            return str(value)
        try:
            if isinstance(value, str) and (
                value.strip() or column in self._may_be_blank or (self._candidates and value)
            ):
                self._odd_texts["blank"] += not value.strip()
                return _checked(value, MAX_TEXT_LENGTH)
            if required and is_blank(value) and (name in OUTPUTS or column in self._candidates):
                self._empty_answers.setdefault(column, []).append(row.line)
                return None
            if required:
                raise _missing_text(value)
        except CellError as error:
            self._problems.add_cell(error, line=row.line, field=column)
        return None

    def notes(self) -> list[str]:
        """Say which rows have no answer, and which texts were read though they look odd.

        Where most rows have none, that is a problem.
        """
        notes = []
        for column, lines in self._empty_answers.items():
            n_rows = len(self._columns.table.rows)
            if 2 * len(lines) > n_rows:
                fault = f"is empty, and so it is in {len(lines):,} of {n_rows:,} rows"
                advice = "name the column that holds the answers, as in --map summary=COLUMN"
                self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
            line_list = ", ".join(map(str, lines[:5])) + (", ..." if len(lines) > 5 else "")
            notes.append(
                f"left out for an empty {excerpt(column)}: {count(len(lines), 'row')} "
                f"({self._problems.unit} {line_list})"
            )
        if n_blank := self._odd_texts["blank"]:
            notes.append(
                f"{count(n_blank, 'text')} kept that hold nothing but white space, if that"
            )
        if n_numbers := self._odd_texts["number"]:
            notes.append(f"{count(n_numbers, 'bare number')} (or true, false) read as a text")
        if n_joined := self._odd_texts["joined"]:
            notes.append(
                f"{count(n_joined, 'list')} of texts read as one text each, a blank line "
                "between its items"
            )
        return notes

    def _read_id(self, row: TableRow) -> str | None:
        """A row's id; None, and a problem, where its cell is unusable.

        None also where no column holds ids. A repeated id is a problem, and still returned.
        """
        if self._numbered:
            return str(row.line)
        if self._id is None:
            return None
        n_before = len(self._problems)
        item = self.name(row, self._id)
        if item is None:
            if len(self._problems) == n_before:
                error = CellError("no-id", "is empty", "give every row an id")
                self._problems.add_cell(error, line=row.line, field=self._id)
            return None
        first = self._lines.setdefault(item, row.line)
        if first != row.line:
            advice = "give every row an id of its own"
            if self._columns.find("annotator") is None:
                advice += ", or name who gave its ratings with --map annotator=COLUMN"
            error = CellError(
                "twice", f"is the id of {self._problems.unit} {first} too", advice, item
            )
            self._problems.add_cell(error, line=row.line, field=self._id)
        return item


def _missing_text(value: object) -> CellError:
    """Why a text that is required is none."""
    if isinstance(value, str):
        return CellError("empty-text", "is empty", "write the text, or leave out the row")
    if value is None:
        advice = "write the text; keep rows of another kind in another file"
        return CellError("no-text", "is missing", advice)
    return CellError("no-text", "is no text", "write it as one string", value)


def _checked(text: str, longest: int) -> str:
    """The text itself; raises CellError where it is too long, or no Unicode."""
    if len(text) > longest:
        fault = f"has {len(text):,} characters, more than {longest:,}"
        raise CellError("too-long", fault, "shorten it, or look for an unclosed quote")
    if not text.isascii() and _HALF_PAIR.search(text):
        raise CellError(
            "bad-text", "holds half a surrogate pair", "export the text as UTF-8 anew", text
        )
    return text
