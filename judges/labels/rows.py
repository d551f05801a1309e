"""Merges a table's rows to one per output or pair, and reads their ids, documents and texts."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from judges.labels.cells import (
    DOT,
    as_object,
    is_blank,
    is_name,
    join_texts,
    value_in,
    without_keys,
)
from judges.labels.columns import NESTED, ROW, Columns, add_missing_column
from judges.labels.flags import read_bounds
from judges.labels.names import is_output, is_usual_text, map_flag, only_text
from judges.labels.types import FileReading
from judges.labels.values import Scale, looks_like_rating, says_nothing, word_of
from judges.tables.formats import Table
from judges.tables.problems import NO_VALUE, Problems, count, excerpt, joined_names
from judges.tables.text import TableRow

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
    names = tuple(columns.unused(others))
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
        candidates: Mapping[str, str],
    ) -> None:
        self._problems, self._of_file, self._roles = problems, columns, roles
        self.notes: list[str] = []
        sides = {*candidates.values()}
        texts = {**columns.texts(columns.used(roles) | sides, rated), **candidates}
        sure = {c for n, c in texts.items() if columns.is_judged(n) or n in columns.mapping} | sides
        if not problems:
            content = sure if len(sure) > 1 else {*texts.values()}
            self.notes += _note_repeats(columns, problems, content, rated)
        if columns.has_row_per_annotator and not columns.ids_are_row_numbers:
            columns, note = _merge_rows(columns, problems, rated, sure)
            self.notes += note
        self.columns, self._lines = columns, dict[str, int]()
        self.texts = {name: column for name, column in texts.items() if columns.has(column)}
        prompts = without_keys(self.texts, candidates)
        self._source = columns.source(prompts)
        self._required = _required_texts(columns, problems, prompts, judged) | candidates.keys()
        # A row without one of these is left out and counted; without another it is a problem.
        self._answers = {*filter(is_output, self._required)} | candidates.keys()
        self._candidates = candidates
        self.notes += self._note_empty_texts()
        if not prompts and judged != ():
            self._add_missing_texts()

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
        if (group := self.columns.find("group")) is not None:
            return f"column {group!r}"
        if self._source is None:
            return "each row is its own document, since there is no group and no source text"
        return f"identical text {self._source!r}, since there is no group"

    def reading(self, ratings: Mapping[str, tuple[str, ...]]) -> FileReading:
        """Return the columns by what was read from them."""
        columns = self._of_file
        found = columns.find_each(role for role in self._roles if role not in (*NESTED, "rating"))
        rows = {role: (column,) for role, column in found.items()}
        if columns.ids_are_row_numbers:
            rows["id"] = (ROW,)
        read = {*found.values(), *self.texts.values(), *columns.comments}.union(*ratings.values())
        roots = {*map(columns.root_of, read)}
        return FileReading(
            rows=rows,
            texts=self.texts,
            ratings=ratings,
            comments=columns.comments,
            unread=tuple(columns.unused(roots)),
        )

    def items(self) -> Iterator[ItemFields]:
        """Yield the fields of every row without a fault, then note the rows without an answer."""
        lines_without: dict[str, list[int]] = defaultdict(list)
        for row in self.columns.table.rows:
            n_before = len(self._problems)
            fields = self._read_row(row)
            missing = without_keys(self.texts, fields.texts)
            blank = [
                c for n, c in missing.items() if n in self._answers and is_blank(value_in(row, c))
            ]
            for column in blank:
                lines_without[column].append(row.line)
            if fields.id and not blank and len(self._problems) == n_before:
                yield fields
        for column, lines in lines_without.items():
            self._report_missing_answers(column, lines)

    def _read_row(self, row: TableRow) -> ItemFields:
        roles = (role for role in self._roles if role.startswith("system"))
        systems = tuple(self._name(row, self.columns.find(role)) for role in roles)
        item = self._read_id(row)
        cells = {name: self._text(row, name, column) for name, column in self.texts.items()}
        texts = {name: text for name, text in cells.items() if text is not None}
        advice = "name the document in every row"
        document = self._name(row, self.columns.find("group"), "no-group", advice)
        draw = {name: row.cells[name] for name in SAMPLING if name in row.cells}
        document = document or _document_of(item, texts, self._source)
        return ItemFields(item, document, systems, texts, draw)

    def _report_missing_answers(self, column: str, lines: list[int]) -> None:
        n_rows = len(self.columns.table.rows)
        if 2 * len(lines) > n_rows:
            fault = f"is empty in {len(lines):,} of {n_rows:,} rows"
            advice = "name the column that holds the answers, as in --map summary=COLUMN"
            self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
        where = f"{self._problems.unit} {str(lines[:5])[1:-1]}{', ...' * (len(lines) > 5)}"
        rows = count(len(lines), "row")
        self.notes.append(f"left out for an empty {excerpt(column)}: {rows} ({where})")

    def _name(
        self, row: TableRow, column: str | None, kind: str = "", advice: str = ""
    ) -> str | None:
        """Return the name in a cell, None where it is blank or a fault.

        Where a kind of problem is given, a blank cell is such a one.
        """
        value = None if column is None else value_in(row, column)
        if column is None or (is_blank(value) and not kind):
            return None
        if is_blank(value):
            self._problems.add(kind, "is empty", advice, line=row.line, field=column)
            return None
        if not is_name(value):
            advice = "write a string or a whole number"
            self._problems.add(
                "no-name", "is no name", advice, line=row.line, field=column, value=value
            )
            return None
        # Nobody sees spaces at the ends of a cell.
        return self._checked(str(value).strip(), row, column)

    def _text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, None where there is none; a fault where it is required."""
        cell = value_in(row, column)
        # NaN, which equals nothing, is how data frames spell a missing text.
        value = str(cell) if isinstance(cell, bool | int | float) and cell == cell else cell
        value = join_texts(value) or value
        # A candidate may be empty in a typed file, since people vote on systems that wrote nothing;
        # in other files the cell may have been forgotten. A pair's prompt may be white space.
        may_be_empty = self.columns.table.typed and name in self._candidates
        may_be_blank = may_be_empty or (self._candidates and value)
        if isinstance(value, str) and (value.strip() or may_be_blank):
            return self._checked(value, row, column)
        if name not in self._required or (name in self._answers and is_blank(value)):
            return None
        fault = "is missing" if value is None else "is empty" if is_blank(value) else "is no text"
        advice = "write the text, or leave out the row"
        if key := next(iter(as_object(value) or ()), None):
            advice = f"name the text in it, as in {map_flag(name, [f'{column}{DOT}{key}'])}"
        self._problems.add(
            "no-text", fault, advice, line=row.line, field=column, value=value or NO_VALUE
        )
        return None

    def _read_id(self, row: TableRow) -> str:
        """A row's id, empty if it is missing; a repeated id is added as a problem and returned."""
        if self.columns.ids_are_row_numbers:
            return str(row.number)
        column = self.columns.find("id")
        item = self._name(row, column, "no-id", "give every row an id") or ""
        first = self._lines.setdefault(item, row.line)
        if item and first != row.line:
            fault = f"is the id of {self._problems.unit} {first} too"
            advice = "give every row an id of its own"
            if self.columns.find("annotator") is None:
                advice += ", or name who gave its ratings with --map annotator=COLUMN"
            self._problems.add("twice", fault, advice, line=row.line, field=column, value=item)
        return item

    def _checked(self, text: str, row: TableRow, column: str) -> str | None:
        if not text.isascii() and _HALF_PAIR.search(text):
            fault, advice = "holds half a surrogate pair", "export the text as UTF-8 anew"
            self._problems.add("bad-text", fault, advice, line=row.line, field=column, value=text)
            return None
        return text


def _merge_rows(
    columns: Columns, problems: Problems, rated: Collection[str], texts: Collection[str]
) -> tuple[Columns, list[str]]:
    """Return the columns with one row for each id, and a note on those that are left out.

    These differ between rows of an id, which is a problem in `texts` and where they say which
    document or system the output is of. Labels and comments are left out, too.
    """
    labels = {*columns.find_all(("dimension", "annotator", "rating")), *columns.comments}
    labels |= {*rated, *map(columns.root_of, rated)}
    names = columns.unused(labels)
    must_agree = {*texts, *columns.find_all(_ORIGINS)}
    merged: dict[str, TableRow] = {}
    differing: dict[str, None] = {}
    for row in columns.table.rows:
        item = columns.item_key(row)
        cells = {name: row.cells.get(name) for name in names}
        first = merged.setdefault(item, row._replace(cells=cells)).cells
        for name, cell in cells.items():
            if is_blank(first[name]):
                first[name] = cell
            if is_blank(cell) or cell == first[name]:
                continue
            if name in must_agree:
                fault = f"differs from another row of the id {item!r:.60}"
                advice = "write the same in every row of an id, or give other outputs other ids"
                problems.add("two-texts", fault, advice, line=row.line, field=name, value=cell)
            else:
                differing[name] = None
    dropped = labels | differing.keys()
    kept = tuple(columns.unused(dropped))
    table = replace(columns.table, columns=kept, rows=tuple(merged.values()))
    mapping = {name: m for name, m in columns.mapping.items() if dropped.isdisjoint(m)}
    left_out = joined_names([f"column {column!r}" for column in differing])
    notes = [f"not one for each id, so left out: {left_out}"] if differing else []
    return columns.with_table(table, mapping), notes


# People's comments by the row's key and by the name of what they are on.
Comments = dict[str, dict[str, tuple[str, ...]]]


def read_comments(columns: Columns, names: Callable[[str, TableRow], Iterable[str]]) -> Comments:
    """Return people's comments; `names` says what a column's comment in a row is on."""
    comments: Comments = {}
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
        return {name for name in texts if is_output(name) or name == source}
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
) -> list[str]:
    """Return a note on the rows that repeat another row's texts, and on labels that differ there.

    It is a problem where annotators are named, and nothing tells which rows are of one output.
    """
    groups = _same_rows(columns, texts)
    repeats = sorted(row.line for _, *others in groups for row in others)
    if not repeats:
        return []
    unit, few = problems.unit, 2 * len(repeats) < len(columns.table.rows) - 1
    if columns.find("annotator") and not (columns.find("id") and few):
        first, line = groups[0][0].line, groups[0][1].line
        fault = f"holds the texts of {unit} {first}: both may be annotators' of one output"
        advice = "give rows of one output one id: --map id=COLUMN"
        problems.add("rows-of-annotators", fault, advice, line=line, field="id")
    note = f"{len(repeats):,} {'row repeats' if len(repeats) == 1 else 'rows repeat'}"
    note += f" another row's texts ({unit}s {joined_names([*map(str, repeats)])})"
    if columns.labelled:
        note += _agreement(groups, rated, unit)
    return [note]


def _agreement(groups: Iterable[list[TableRow]], rated: Iterable[str], unit: str) -> str:
    """Say whether the labels in each group of rows agree; nothing where there are none."""
    of_groups = [
        (labels, joined_names([str(row.line) for row in group]))
        for group in groups
        for column in sorted(rated)
        if (labels := _labels_in(group, column))
    ]
    differ = [
        f"{joined_names(labels)} ({unit}s {lines})"
        for labels, lines in of_groups
        if len(labels) > 1
    ]
    if not differ:
        return ". Their labels agree" if of_groups else ""
    ends = "disagree" if len(differ) > 1 else "disagrees"
    return f". {count(len(differ), 'pair')} {ends}: {'; '.join(differ[:10])}"


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


def _labels_in(rows: Iterable[TableRow], column: str) -> list[str]:
    """The labels in a column of some rows; lists hold several annotators' labels."""
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
