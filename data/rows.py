"""From a table's rows to one row an output or pair, and what both kinds have in common."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from data.cells import is_blank, is_name, join_texts, value_in
from data.columns import LINE, OUTPUTS, Columns, map_flag
from data.documents import document_of
from data.tables.formats import Table
from data.tables.problems import NO_VALUE, CellError, Problems, count, excerpt, joined_names
from data.tables.text import TableRow
from data.values import looks_like_rating
from dspy_judges.column_names import name_key

# What says of which document and by whom an output is.
_ORIGINS = ("group", "system", "system_a", "system_b")
# What sheets call their last row, or column, of means.
FOOTER = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|schnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|ø|std|sd|stdev|standardabweichung)\b|ø",
    re.IGNORECASE,
)
MAX_TEXT_LENGTH = 5_000_000
MAX_NAME_LENGTH = 1000
_HALF_PAIR = re.compile("[\ud800-\udfff]")


def without_footers(table: Table) -> Table:
    """The table without its last rows of means or sums, and a note of which they were."""
    rows = list(table.rows)
    usual = sorted(len(_filled(row)) for row in rows)[len(rows) // 2]
    notes: list[str] = []
    while len(rows) > 1 and (word := _footer_word(rows[-1], table, usual)):
        notes.insert(0, f"{excerpt(word)} in the last row is no output: the row is left out")
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _filled(row: TableRow) -> list[object]:
    return [value for value in row.cells.values() if not is_blank(value)]


def _footer_word(row: TableRow, table: Table, usual: int) -> str | None:
    """The word for means or sums of a row that holds nothing else but numbers."""
    if table.typed or len(_filled(row)) > max(usual - 1, 2):
        return None
    words = [value for value in _filled(row) if not looks_like_rating(value, typed=False)]
    if len(words) == 1 and len(str(words[0])) < 40 and FOOTER.match(str(words[0]).strip()):
        return str(words[0])
    return None


def check_repeats(
    columns: Columns,
    problems: Problems,
    texts: Mapping[str, str],
    *,
    noun: str,
    unread: Sequence[str] = (),
) -> None:
    """Note rows without ids that hold the same texts: they may be annotators' of one output.

    So may rows whose ids number them; but a few outputs with ids may well be the same.
    """
    numbered, column = columns.numbers_rows, columns.find("annotator")
    if not (columns.makes_ids or column or columns.is_long):
        return
    known = {n: c for n, c in texts.items() if columns.is_judged(n) or n in columns.mapping}
    prose = {name: column for name, column in texts.items() if columns.is_prose(column)}
    origins = [found for name in _ORIGINS if (found := columns.find(name)) is not None]
    content_in = [*origins, *(known if len(known) > 1 else known | prose or texts).values()]
    rows = columns.table.rows
    id_in = None if numbered else columns.find("id")
    if id_in and len({item_key(row, id_in) for row in rows}) < len(rows):
        return
    first: dict[tuple[str, ...], TableRow] = {}
    repeats = []
    for row in rows if content_in != origins else ():
        earlier = first.setdefault(tuple(str(value_in(row, c)) for c in content_in), row)
        if earlier is not row:
            repeats.append((row.line, earlier.line))
    if not repeats or (id_in and 2 * len(repeats) < len(rows) - 1):
        return
    line, first_line = repeats[0]
    fault = f"holds the same texts as {problems.unit} {first_line}, and so do {len(repeats):,} of "
    fault += f"{len(rows):,} rows: each would count as one {noun}"
    advice = f"give each {noun} one id in all its rows, in a column id or by --map id=COLUMN"
    if not column:
        advice = f"where rows are several annotators', {advice}, and name who gave its rating with "
        advice += f"--map annotator=COLUMN; else give every {noun} its own, as --map id={LINE} does"
    if len(content_in) == len(origins) + 1 and unread:
        fault = f"holds the same text as {problems.unit} {first_line}, and there is no other text"
        advice = f"name the column that tells them apart, as in {map_flag('output', unread[:1])}"
    problems.add("rows-of-annotators", fault, advice, line=line, field=id_in or "id")


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

    `rated` columns are an annotator's, as comments are. What only some outputs' rows agree on is
    left out and noted, unless it is one of `texts` or says whose the output is.
    """
    id_column = columns.find("id")
    annotator_columns = {
        *rated,
        *columns.comments,
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
    table = replace(columns.table, columns=names, rows=rows)
    return Columns(table, mapping, columns.judged), notes


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
        self._id, self.group = columns.find("id"), columns.find("group")
        self.source = columns.source(texts)
        # People vote on systems that wrote nothing, so a candidate may be empty where a file tells
        # that from a cell that somebody forgot; so may a pair's prompt be white space.
        self._candidates = set(candidates)
        self._may_be_blank = self._candidates if columns.table.typed else set()
        # Rows without an answer, by the answer's column.
        self._empty_answers: dict[str, list[int]] = {}

    def check(self, advice: str) -> None:
        """Note what no row can mend: a file without ids, or without texts and so `advice`."""
        known = joined_names([*self._columns.table.columns, *self._columns.nested_names])
        if self._id is None and not self._columns.numbers_rows:
            self._problems.add(
                "no-column",
                f"there is no such column; there are {known}",
                f"name yours with --map id=COLUMN, or number the rows with --map id={LINE}",
                field="id",
            )
        if not self._texts:
            if comments := self._columns.comments:
                advice = "comments on ratings are no texts to judge: if it is one, name it, as in "
                advice += map_flag("text", comments[:1])
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
        document = group if group is not None else document_of(item, texts, self.source)
        return ItemFields(item, document, texts)

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
            value = joined
        required = name in self._required
        # NaN, which equals nothing, is how data frames spell a missing text.
        if required and isinstance(value, bool | int | float) and value == value:
            return str(value)
        try:
            if isinstance(value, str) and (
                value.strip() or column in self._may_be_blank or (self._candidates and value)
            ):
                return _checked(value, MAX_TEXT_LENGTH)
            if (
                required
                and is_blank(value)
                and (name_key(name) in OUTPUTS or column in self._candidates)
            ):
                self._empty_answers.setdefault(column, []).append(row.line)
                return None
            if required:
                fault = "is empty" if isinstance(value, str) else "is no text"
                fault = "is missing" if value is None else fault
                advice = "write the text, or leave out the row"
                raise CellError("no-text", fault, advice, value if value else NO_VALUE)
        except CellError as error:
            self._problems.add_cell(error, line=row.line, field=column)
        return None

    def notes(self) -> list[str]:
        """Say which rows have no answer; where most have none, that is a problem."""
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
        return notes

    def _read_id(self, row: TableRow) -> str | None:
        """A row's id; None, and a problem, where its cell is unusable.

        None also where no column holds ids. A repeated id is a problem, and still returned.
        """
        if self._columns.numbers_rows:
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
