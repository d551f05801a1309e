"""Merges a table's rows to one per output or pair, and reads their ids, documents and texts."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from judges.labels.cells import DOT, as_object, is_blank, is_name, join_texts, value_in
from judges.labels.columns import NESTED, ROW, Columns, add_missing_column
from judges.labels.flags import read_bounds
from judges.labels.names import OUTPUTS, is_usual_text, known_word, map_flag, only_text
from judges.labels.types import FileReading
from judges.labels.values import Scale, looks_like_rating, says_nothing, word_of
from judges.tables.formats import Table
from judges.tables.problems import NO_VALUE, Problems, count, excerpt, joined_names
from judges.tables.text import Row, TableRow

# The columns of one over a document's chance of being drawn, and of how many it was drawn from.
SAMPLING = ("sampling_weight", "sampling_from")
_HOW = _TIME, _CHANGED, _SCALE = "labelled_at", "changed_after", "rating_scale"
# What a label page writes beside a time, in place of a label.
_MARKS = ("skipped", "unsure")
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
    rows, notes = [*table.rows], list[str]()
    while not table.typed and len(rows) > 1 and (name := _footer_name(rows[-1])):
        notes.insert(0, f"{excerpt(name)} in the last row is no output: the row is left out")
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _footer_name(row: TableRow) -> str | None:
    """The only word in a row of means or sums; None for any other row."""
    filled = [str(value) for value in row.cells.values() if not is_blank(value)]
    words = [value for value in filled if not looks_like_rating(value, typed=False)]
    return words[0] if len(words) == 1 and FOOTER.match(words[0].strip()) else None


def latest_labels(columns: Columns) -> Columns:
    """Each annotator's latest label of an output, by `labelled_at`, which may be empty.

    The columns on how labels came about are dropped; their cells stay in the rows.
    """
    table, rows, notes = columns.table, columns.table.rows, columns.table.notes
    if _TIME in table.columns and columns.find("id") and columns.find("annotator"):
        rows = tuple({_label_key(columns, row): row for row in rows}.values())
    if n := sum(not is_blank(row.cells.get(_CHANGED)) for row in rows):
        notes += (f"{count(n, 'label')} changed after seeing others': agreement is not blind",)
    others = (*_HOW, *SAMPLING, *(_MARKS if _TIME in table.columns else ()))
    names = tuple(name for name in table.columns if name not in others)
    return columns.with_table(
        replace(table, columns=names, rows=rows, notes=notes), columns.mapping
    )


def _label_key(columns: Columns, row: TableRow) -> tuple[str, str, str]:
    # A row without an annotator's name replaces no other row.
    who = columns.cell(row, "annotator") or f"{ROW} {row.line}"
    return columns.item_key(row), str(who).strip(), str(columns.cell(row, "dimension")).strip()


def stated_scales(columns: Columns) -> dict[str, Scale]:
    """Return each dimension's scale as label pages write it, where all of its rows agree."""
    scales: dict[str, set[Scale | None]] = defaultdict(set)
    for row in columns.table.rows:
        dimension = str(columns.cell(row, "dimension")).strip()
        scales[dimension].add(read_bounds(str(row.cells.get(_SCALE))))
    return {name: scale for name, (scale, *others) in scales.items() if scale and not others}


@dataclass(frozen=True, slots=True)
class ItemFields:
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
        used = columns.used(roles) | {*self._candidates.values()}
        texts = columns.texts(used, rated) | self._candidates
        certain = {column for name, column in texts.items() if self._is_certain(name)}
        if not problems:
            content = certain if len(certain) > 1 else {*texts.values()}
            self.notes += _note_repeats(columns, problems, content, rated)
        if columns.is_by_annotator and not columns.numbers_rows:
            columns = self._merge_rows(columns, rated, certain)
        self.columns = columns
        self.texts = {name: column for name, column in texts.items() if columns.has(column)}
        self._systems = [columns.find(role) for role in roles if role.startswith("system")]
        self._id, self._group = columns.find("id"), columns.find("group")
        of_prompt = {n: c for n, c in self.texts.items() if n not in self._candidates}
        self._source = columns.source(of_prompt)
        required = _required_texts(columns, problems, of_prompt, judged)
        self._required = {*required, *self._candidates}
        self.notes += self._note_empty_texts()
        if not of_prompt and judged != ():
            self._add_missing_texts()
        # The line of each id, and the lines without an answer by the answer's column.
        self._lines: dict[str, int] = {}
        self._empty_answers: dict[str, list[int]] = defaultdict(list)

    def _is_certain(self, name: str) -> bool:
        columns = self._of_file
        return columns.is_judged(name) or name in columns.mapping or name in self._candidates

    def _note_empty_texts(self) -> Iterator[str]:
        """Yield a note on each usual text that is empty in some rows, and need not be there."""
        for name in sorted(self.texts.keys() - self._required):
            n_empty = sum(map(is_blank, self.columns.values(self.texts[name])))
            if n_empty and is_usual_text(name):
                yield f"{name} is empty in {count(n_empty, 'row')}"

    def _add_missing_texts(self) -> None:
        advice = "name what systems were given and wrote, as in --map document=COLUMN"
        if self._of_file.is_long:
            advice = "give it beside the file of outputs, as in --annotations FILE"
        fault = f"no column holds texts; there are {self.columns.names}"
        self._problems.add("no-text", fault, advice)

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
        found = columns.find_each(role for role in self._roles if role not in (*NESTED, "rating"))
        rows = {role: (column,) for role, column in found.items()}
        if columns.numbers_rows:
            rows["id"] = (ROW,)
        read = {*found.values(), *self.texts.values(), *columns.comments}.union(*ratings.values())
        roots = {*map(columns.root_of, read)}
        return FileReading(
            rows=rows,
            texts=self.texts,
            ratings=ratings,
            comments=columns.comments,
            unread=tuple(column for column in columns.table.columns if column not in roots),
        )

    def items(self) -> Iterator[ItemFields]:
        """Yield the fields of every row without a fault, then note the rows without an answer."""
        for row in self.columns.table.rows:
            n_before = len(self._problems)
            fields = self._read_row(row)
            if fields is not None and len(self._problems) == n_before:
                yield fields
        for column, lines in self._empty_answers.items():
            self._report_empty_answers(column, lines)

    def _read_row(self, row: TableRow) -> ItemFields | None:
        n_empty = sum(map(len, self._empty_answers.values()))
        systems = tuple(self._name(row, column) for column in self._systems)
        item = self._read_id(row)
        cells = {name: self._text(row, name, column) for name, column in self.texts.items()}
        texts = {name: text for name, text in cells.items() if text is not None}
        advice = "name the document in every row"
        document = self._required_name(row, self._group, "no-group", advice)
        if item is None or sum(map(len, self._empty_answers.values())) > n_empty:
            return None
        draw = {name: row.cells[name] for name in SAMPLING if name in row.cells}
        document = document or _document_of(item, texts, self._source)
        return ItemFields(item, document, systems, texts, draw)

    def _report_empty_answers(self, column: str, lines: list[int]) -> None:
        n_rows = len(self.columns.table.rows)
        if 2 * len(lines) > n_rows:
            fault = f"is empty in {len(lines):,} of {n_rows:,} rows"
            advice = "name the column that holds the answers, as in --map summary=COLUMN"
            self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
        where = f"{self._problems.unit} {str(lines[:5])[1:-1]}{', ...' * (len(lines) > 5)}"
        rows = count(len(lines), "row")
        self.notes.append(f"left out for an empty {excerpt(column)}: {rows} ({where})")

    def _merge_rows(
        self, columns: Columns, rated: Collection[str], texts: Collection[str]
    ) -> Columns:
        """Merge the rows of each id to one, without labels and comments.

        A column that differs between rows of an id is left out with a note; it is a problem in
        `texts` and where it says which document or system the output is of.
        """
        labels = {*columns.find_all(("dimension", "annotator", "rating")), *columns.comments}
        labels |= {*rated, *map(columns.root_of, rated)}
        names = [column for column in columns.table.columns if column not in labels]
        must_agree = {*texts, *columns.find_all(_ORIGINS)}
        merged: dict[str, TableRow] = {}
        differing: dict[str, None] = {}
        for row in columns.table.rows:
            cells = {column: row.cells.get(column) for column in names}
            first = merged.setdefault(columns.item_key(row), row._replace(cells=cells)).cells
            for column in _differences(first, cells):
                if column in must_agree:
                    fault = f"differs from another row of the id {columns.item_key(row)!r:.60}"
                    advice = "write the same in every row of an id, or give other outputs other ids"
                    self._fault(row, column, "two-texts", fault, advice, cells[column])
                else:
                    differing[column] = None
        if differing:
            left_out = joined_names([f"column {column!r}" for column in differing])
            self.notes.append(f"not one for each id, so left out: {left_out}")
        dropped = labels | differing.keys()
        table = replace(
            columns.table,
            columns=tuple(column for column in names if column not in differing),
            rows=tuple(merged.values()),
        )
        mapping = {name: m for name, m in columns.mapping.items() if dropped.isdisjoint(m)}
        return columns.with_table(table, mapping)

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

    def _required_name(
        self, row: TableRow, column: str | None, kind: str, advice: str
    ) -> str | None:
        """Return the name in a cell, None where it is a fault, or where there is no column."""
        if column is not None and is_blank(value_in(row, column)):
            return self._fault(row, column, kind, "is empty", advice)
        return self._name(row, column)

    def _text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, None where there is none; a fault where it is required."""
        cell = value_in(row, column)
        value = join_texts(cell) or cell
        # A candidate may be empty in a typed file, since people vote on systems that wrote nothing;
        # in other files the cell may have been forgotten. A pair's prompt may be white space.
        may_be_empty = name in self._candidates and self.columns.table.typed
        may_be_blank = may_be_empty or (self._candidates and value)
        if isinstance(value, str) and (value.strip() or may_be_blank):
            return self._checked(value, row, column)
        # NaN, which equals nothing, is how data frames spell a missing text.
        if isinstance(value, bool | int | float) and value == value:
            return str(value)
        if name not in self._required:
            return None
        if is_blank(value) and (name in self._candidates or known_word(name) in OUTPUTS):
            self._empty_answers[column].append(row.line)
            return None
        fault = "is missing" if value is None else "is empty" if is_blank(value) else "is no text"
        advice = "write the text, or leave out the row"
        if key := next(iter(as_object(value) or ()), None):
            advice = f"name the text in it, as in {map_flag(name, [f'{column}{DOT}{key}'])}"
        return self._fault(row, column, "no-text", fault, advice, value or NO_VALUE)

    def _read_id(self, row: TableRow) -> str | None:
        """A row's id, None if it is missing; a repeated id is added as a problem and returned."""
        if self.columns.numbers_rows:
            return str(row.number)
        item = self._required_name(row, self._id, "no-id", "give every row an id")
        if item is not None and (first := self._lines.setdefault(item, row.line)) != row.line:
            fault = f"is the id of {self._problems.unit} {first} too"
            advice = "give every row an id of its own"
            if self.columns.find("annotator") is None:
                advice += ", or name who gave its ratings with --map annotator=COLUMN"
            self._fault(row, str(self._id), "twice", fault, advice, item)
        return item

    def _checked(self, text: str, row: TableRow, column: str) -> str | None:
        if not text.isascii() and _HALF_PAIR.search(text):
            fault, advice = "holds half a surrogate pair", "export the text as UTF-8 anew"
            return self._fault(row, column, "bad-text", fault, advice, text)
        return text

    def _fault(
        self,
        row: TableRow,
        field: str,
        kind: str,
        fault: str,
        advice: str,
        value: object = NO_VALUE,
    ) -> str | None:
        """Add a problem of a cell; return None, which is what is read from the cell."""
        self._problems.add(kind, fault, advice, line=row.line, field=field, value=value)
        return None


def _differences(first: Row, cells: Row) -> list[str]:
    """The columns in which two rows differ; blank cells of the first are filled by the other's."""
    first |= {name: cell for name, cell in cells.items() if is_blank(first[name])}
    return [name for name, cell in cells.items() if not is_blank(cell) and cell != first[name]]


def read_comments(
    columns: Columns, names: Callable[[str, TableRow], Iterable[str]]
) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return people's comments by the row's key and the names that `names` gives the column."""
    comments: dict[str, dict[str, tuple[str, ...]]] = {}
    for row in columns.table.rows:
        for column in columns.comments:
            cell = value_in(row, column)
            comment = join_texts(cell) or cell
            if isinstance(comment, str) and not is_blank(comment):
                by_name = comments.setdefault(columns.item_key(row), {})
                for name in names(column, row):
                    by_name[name] = (*by_name.get(name, ()), comment.strip())
    return comments


def _required_texts(
    columns: Columns, problems: Problems, texts: Mapping[str, str], judged: Collection[str] | None
) -> set[str]:
    """The texts that every row must have; a problem for each that no column holds."""
    source = columns.source(texts)
    if judged is None:
        # Only these, since the input beside an instruction or a question is often empty.
        return {name for name in texts if known_word(name) in OUTPUTS or name == source}
    if (only := only_text(texts, judged)) is not None:
        return {only}
    for name in judged:
        if name not in texts:
            add_missing_column(columns, problems, name, name, ", and the judge reads it")
    # The source is needed to group documents, even if the judge does not read it.
    is_needed = source is not None and columns.find("group") is None
    return {*judged, str(source)} if is_needed else {*judged}


def _note_repeats(
    columns: Columns, problems: Problems, texts: Collection[str], rated: Collection[str]
) -> Iterator[str]:
    """Yield a note on the rows that repeat another row's texts, and on labels that differ there.

    It is a problem where annotators are named, and nothing tells which rows are of one output.
    """
    groups = _same_rows(columns, texts)
    repeats = sorted(row.line for _, *others in groups for row in others)
    if not repeats:
        return
    unit, few = problems.unit, 2 * len(repeats) < len(columns.table.rows) - 1
    if columns.find("annotator") and not (columns.find("id") and few):
        first, line = groups[0][0].line, groups[0][1].line
        fault = f"holds the texts of {unit} {first}: both may be annotators' of one output"
        advice = "give rows of one output one id: --map id=COLUMN"
        problems.add("rows-of-annotators", fault, advice, line=line, field="id")
    note = f"{len(repeats):,} {'row repeats' if len(repeats) == 1 else 'rows repeat'}"
    note += f" another row's texts ({unit}s {joined_names([*map(str, repeats)])})"
    told = [*_labels_of(groups, sorted(rated), unit)] if columns.labelled else []
    differ = [text for text, is_one in told if not is_one]
    if differ:
        ends = "disagree" if len(differ) > 1 else "disagrees"
        note += f". {count(len(differ), 'pair')} {ends}: {'; '.join(differ[:10])}"
    yield f"{note}. Their labels agree" if told and not differ else note


def _same_rows(columns: Columns, texts: Collection[str]) -> list[list[TableRow]]:
    """The groups of rows with equal texts, documents and systems; none where ids repeat."""
    rows = columns.table.rows
    if not texts or len({*map(columns.item_key, rows)}) < len(rows):
        return []
    content = (*columns.find_all(_ORIGINS), *texts)
    groups: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(str(value_in(row, column)) for column in content)].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _labels_of(
    groups: Iterable[list[TableRow]], rated: Collection[str], unit: str
) -> Iterator[tuple[str, bool]]:
    """Yield each group's labels in a column with their lines, and whether they are one label."""
    for group in groups:
        lines = joined_names([str(row.line) for row in group])
        for column in rated:
            cells = (value_in(row, column) for row in group)
            # Lists hold several annotators' labels.
            single = (cell for cell in cells if not isinstance(cell, list | Mapping))
            labels = sorted({word_of(cell) for cell in single if not says_nothing(cell)})
            if labels:
                yield f"{joined_names(labels)} ({unit}s {lines})", len(labels) == 1


def _document_of(item_id: str, texts: Mapping[str, str], source: str | None) -> str:
    """Return a document's id by the words of `source`, in any order of rows; else the item's own.

    The `input` of an instruction makes another document of it.
    """
    if source not in texts:
        return item_id
    words = f"{texts[str(source)]}\0{texts.get('input', '')}"
    return f"{source}-{hashlib.sha256(words.encode()).hexdigest()[:16]}"
