"""Merges the rows of each output or pair, and reads their ids, documents, systems and texts."""

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
from judges.labels.columns import NESTED_COLUMNS, ROW_NUMBER, Columns, add_missing_column
from judges.labels.flags import read_bounds
from judges.labels.names import is_output, is_usual_text, map_flag, only_text
from judges.labels.types import FileReading
from judges.labels.values import Scale, is_missing_value, looks_like_rating, normalize_word
from judges.tables.formats import Table
from judges.tables.problems import NO_VALUE, Problems, count, excerpt, joined_names
from judges.tables.text import TableRow

# The columns that describe how a document was sampled: 1 / the probability that it was drawn, and
# the number of documents that it was drawn from.
SAMPLING_COLUMNS = ("sampling_weight", "sampling_from")
# The columns in which a label page writes how a label was given.
_PAGE_COLUMNS = _TIME, _CHANGED, _SCALE = "labelled_at", "changed_after", "rating_scale"
# The columns in which a label page notes that an annotator skipped an output or was unsure.
_FLAGS = ("skipped", "unsure")
# The roles that tell an output's document and system.
_ORIGINS = ("group", "system", "system_a", "system_b")
# Names of a row or column of means or sums, at the end of a sheet.
FOOTER = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|std|sd|stdev)\b|ø",
    re.IGNORECASE,
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def without_footers(table: Table) -> Table:
    """Return the table without rows of means or sums at its end, with a note on each."""
    rows, notes = [*table.rows], list[str]()
    while not table.typed and len(rows) > 1 and (name := _footer_name(rows[-1])):
        notes.insert(0, f"{excerpt(name)} in the last row is not an output: the row is left out")
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _footer_name(row: TableRow) -> str | None:
    """The name of a row of means or sums, which is its only word; None for any other row."""
    filled = [str(value) for value in row.cells.values() if not is_blank(value)]
    words = [value for value in filled if not looks_like_rating(value, typed=False)]
    return words[0] if len(words) == 1 and FOOTER.match(words[0].strip()) else None


def latest_labels(columns: Columns) -> Columns:
    """Return the columns with only the latest label of each annotator on each output.

    In a file with the column `labelled_at`, a later row replaces an earlier one. The columns that
    describe how labels were given are removed; their cells stay in the rows.
    """
    table, rows, notes = columns.table, columns.table.rows, columns.table.notes
    if _TIME in table.columns and columns.find("id") and columns.find("annotator"):
        rows = tuple({_label_key(columns, row): row for row in rows}.values())
    if n := sum(not is_blank(row.cells.get(_CHANGED)) for row in rows):
        notes += (
            f"{count(n, 'label')} changed after seeing others' labels: agreement is not blind",
        )
    others = (*_PAGE_COLUMNS, *SAMPLING_COLUMNS, *(_FLAGS if _TIME in table.columns else ()))
    names = tuple(columns.columns_except(others))
    return columns.with_table(
        replace(table, columns=names, rows=rows, notes=notes), columns.mapping
    )


def _label_key(columns: Columns, row: TableRow) -> tuple[str, str, str]:
    # A row without an annotator's name replaces no other row.
    annotator = columns.cell(row, "annotator") or f"{ROW_NUMBER} {row.line}"
    return (
        columns.item_key(row),
        str(annotator).strip(),
        str(columns.cell(row, "dimension")).strip(),
    )


def stated_scales(columns: Columns) -> dict[str, Scale]:
    """Map dimensions to the scales that a label page wrote into the file, if all rows agree."""
    scales: dict[str, set[Scale | None]] = defaultdict(set)
    for row in columns.table.rows:
        dimension = str(columns.cell(row, "dimension")).strip()
        scales[dimension].add(read_bounds(str(row.cells.get(_SCALE))))
    return {name: scale for name, (scale, *others) in scales.items() if scale and not others}


@dataclass(frozen=True, slots=True)
class ItemFields:
    """The fields of a row that outputs and pairs have in common."""

    id: str
    document_id: str
    systems: tuple[str | None, ...]
    texts: dict[str, str]
    draw: dict[str, object]


class RowReader:
    """Reads the id, document, systems and texts of each row, and collects problems.

    `roles` are names such as `id` whose columns are not texts, and `rated` are the columns of
    labels. `judged` are the texts that every row must have (None: those with usual names).
    `candidates` maps `response_a` and `response_b` to their columns; it is empty for outputs.
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
        self._problems, self._file_columns, self._roles = problems, columns, roles
        self.notes: list[str] = []
        sides = {*candidates.values()}
        texts = {**columns.texts(columns.used_columns(roles) | sides, rated), **candidates}
        certain = {
            c for n, c in texts.items() if columns.is_certain_text(n) or n in columns.mapping
        }
        certain |= sides
        if not problems:
            content = certain if len(certain) > 1 else {*texts.values()}
            self.notes += _note_repeats(columns, problems, content, rated)
        if columns.has_row_per_annotator and not columns.ids_are_row_numbers:
            columns, note = _merge_rows(columns, problems, rated, certain)
            self.notes += note
        self.columns, self._first_lines = columns, dict[str, int]()
        self.texts = {name: column for name, column in texts.items() if columns.has(column)}
        other_texts = without_keys(self.texts, candidates)
        self._source = columns.source(other_texts)
        self._required = _required_texts(columns, problems, other_texts, judged)
        self._required |= candidates.keys()
        # A row without one of these is left out and counted; without another text it is a problem.
        self._outputs = {*filter(is_output, self._required)} | candidates.keys()
        self._candidates = candidates
        self.notes += self._note_empty_texts()
        if not other_texts and judged != ():
            self._add_missing_texts()

    def _note_empty_texts(self) -> Iterator[str]:
        """Yield a note on each usual text that is not required and is empty in some rows."""
        for name in sorted(self.texts.keys() - self._required):
            n_empty = sum(map(is_blank, self.columns.values(self.texts[name])))
            if n_empty and is_usual_text(name):
                yield f"{name} is empty in {count(n_empty, 'row')}"

    def _add_missing_texts(self) -> None:
        advice = (
            "name the columns of what systems were given and wrote, as in --map document=COLUMN"
        )
        if self._file_columns.is_long:
            advice = "give the file of outputs, and this one with --annotations FILE"
        fault = f"no column holds texts; the columns are {self.columns.names_in_message}"
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
        """Return what was read from which columns; `ratings` are those of ratings or votes."""
        columns = self._file_columns
        role_columns = columns.find_each(
            role for role in self._roles if role not in (*NESTED_COLUMNS, "rating")
        )
        rows = {role: (column,) for role, column in role_columns.items()}
        if columns.ids_are_row_numbers:
            rows["id"] = (ROW_NUMBER,)
        read = {*role_columns.values(), *self.texts.values(), *columns.comments}.union(
            *ratings.values()
        )
        roots = {*map(columns.outer_column, read)}
        return FileReading(
            rows=rows,
            texts=self.texts,
            ratings=ratings,
            comments=columns.comments,
            unread=tuple(columns.columns_except(roots)),
        )

    def items(self) -> Iterator[ItemFields]:
        """Yield the fields of each row that has no problem and no empty output.

        Then add a note on the rows whose output is empty.
        """
        lines_without: dict[str, list[int]] = defaultdict(list)
        for row in self.columns.table.rows:
            n_problems = len(self._problems)
            fields = self._read_row(row)
            missing = without_keys(self.texts, fields.texts)
            blank = [
                c for n, c in missing.items() if n in self._outputs and is_blank(value_in(row, c))
            ]
            for column in blank:
                lines_without[column].append(row.line)
            if fields.id and not blank and len(self._problems) == n_problems:
                yield fields
        for column, lines in lines_without.items():
            self._report_missing_outputs(column, lines)

    def _read_row(self, row: TableRow) -> ItemFields:
        roles = (role for role in self._roles if role.startswith("system"))
        systems = tuple(self._read_name(row, self.columns.find(role)) for role in roles)
        item = self._read_id(row)
        cells = {name: self._read_text(row, name, column) for name, column in self.texts.items()}
        texts = {name: text for name, text in cells.items() if text is not None}
        advice = "name the document in every row"
        document = self._read_name(row, self.columns.find("group"), "no-group", advice)
        draw = {name: row.cells[name] for name in SAMPLING_COLUMNS if name in row.cells}
        document = document or _document_id(item, texts, self._source)
        return ItemFields(item, document, systems, texts, draw)

    def _report_missing_outputs(self, column: str, lines: list[int]) -> None:
        n_rows = len(self.columns.table.rows)
        if 2 * len(lines) > n_rows:
            fault = f"is empty in {len(lines):,} of {n_rows:,} rows"
            advice = "name the column that holds the answers, as in --map summary=COLUMN"
            self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
        where = f"{self._problems.unit} {str(lines[:5])[1:-1]}{', ...' * (len(lines) > 5)}"
        rows = count(len(lines), "row")
        self.notes.append(f"left out for an empty {excerpt(column)}: {rows} ({where})")

    def _read_name(
        self, row: TableRow, column: str | None, kind: str = "", advice: str = ""
    ) -> str | None:
        """Return the name in a cell; None if the cell is blank or has a problem.

        A blank cell is a problem only if `kind`, the kind of that problem, is given.
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
                "no-name", "is not a name", advice, line=row.line, field=column, value=value
            )
            return None
        # Spaces at the ends of a cell are not visible, so they do not count.
        return self._check_unicode(str(value).strip(), row, column)

    def _read_text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, or None; adds a problem if a required text is missing."""
        cell = value_in(row, column)
        # NaN, which does not equal itself, is a missing text in a data frame.
        value = str(cell) if isinstance(cell, bool | int | float) and cell == cell else cell
        value = join_texts(value) or value
        # In a typed file an output of a pair may be empty, since people also vote if a system wrote
        # nothing; in other files the cell may have been forgotten. A prompt may be white space.
        may_be_empty = self.columns.table.typed and name in self._candidates
        may_be_blank = may_be_empty or (self._candidates and value)
        if isinstance(value, str) and (value.strip() or may_be_blank):
            return self._check_unicode(value, row, column)
        if name not in self._required or (name in self._outputs and is_blank(value)):
            return None
        fault = (
            "is missing" if value is None else "is empty" if is_blank(value) else "is not a text"
        )
        advice = "write the text, or leave out the row"
        if key := next(iter(as_object(value) or ()), None):
            advice = f"name the text in it, as in {map_flag(name, [f'{column}{DOT}{key}'])}"
        self._problems.add(
            "no-text", fault, advice, line=row.line, field=column, value=value or NO_VALUE
        )
        return None

    def _read_id(self, row: TableRow) -> str:
        """Return a row's id, or "" if it is missing; adds a problem if an earlier row has it."""
        if self.columns.ids_are_row_numbers:
            return str(row.number)
        column = self.columns.find("id")
        item = self._read_name(row, column, "no-id", "give every row an id") or ""
        first = self._first_lines.setdefault(item, row.line)
        if item and first != row.line:
            fault = f"is the id of {self._problems.unit} {first} too"
            advice = "give every row an id of its own"
            if self.columns.find("annotator") is None:
                advice += ", or name who gave its ratings with --map annotator=COLUMN"
            self._problems.add("twice", fault, advice, line=row.line, field=column, value=item)
        return item

    def _check_unicode(self, text: str, row: TableRow, column: str) -> str | None:
        if not text.isascii() and _LONE_SURROGATE.search(text):
            fault, advice = "holds half a surrogate pair", "export the text as UTF-8 again"
            self._problems.add("bad-text", fault, advice, line=row.line, field=column, value=text)
            return None
        return text


def _merge_rows(
    columns: Columns, problems: Problems, rated: Collection[str], texts: Collection[str]
) -> tuple[Columns, list[str]]:
    """Return the columns of a table with one row per id, and a note on columns that are left out.

    A column is left out if its cells differ between rows with the same id. If such a column is in
    `texts`, or tells the document or the system, a problem is added instead. Columns of labels and
    comments are left out without a note.
    """
    labels = {*columns.find_all(("dimension", "annotator", "rating")), *columns.comments}
    labels |= {*rated, *map(columns.outer_column, rated)}
    names = columns.columns_except(labels)
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
    kept = tuple(columns.columns_except(dropped))
    table = replace(columns.table, columns=kept, rows=tuple(merged.values()))
    mapping = {name: m for name, m in columns.mapping.items() if dropped.isdisjoint(m)}
    left_out = joined_names([f"column {column!r}" for column in differing])
    notes = [f"left out, since rows of one id differ in it: {left_out}"] if differing else []
    return columns.with_table(table, mapping), notes


# People's comments by the key of the output or pair, and by the dimension (`votes` for pairs).
Comments = dict[str, dict[str, tuple[str, ...]]]


def read_comments(columns: Columns, names: Callable[[str, TableRow], Iterable[str]]) -> Comments:
    """Return people's comments; `names` tells which dimensions a comment is on."""
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
    """The texts that every row must have; adds a problem for each that no column holds."""
    source = columns.source(texts)
    if judged is None:
        # Other texts may be empty, as the input that goes with an instruction often is.
        return {name for name in texts if is_output(name) or name == source}
    if (text := only_text(texts, judged)) is not None:
        return {text}
    for name in judged:
        if name not in texts:
            add_missing_column(columns, problems, name, name, ", but the judge reads it")
    # The source is needed to group documents, even if the judge does not read it.
    is_needed = source is not None and columns.find("group") is None
    return {*judged, str(source)} if is_needed else {*judged}


def _note_repeats(
    columns: Columns, problems: Problems, texts: Collection[str], rated: Collection[str]
) -> list[str]:
    """Return a note on rows that repeat another row's texts, and on whether their labels agree.

    If annotators are named, such rows may be several annotators' on one output. It is a problem if
    the file does not say so with an id.
    """
    groups = _repeated_rows(columns, texts)
    repeats = sorted(row.line for _, *others in groups for row in others)
    if not repeats:
        return []
    unit, are_few = problems.unit, 2 * len(repeats) < len(columns.table.rows) - 1
    if columns.find("annotator") and not (columns.find("id") and are_few):
        first, line = groups[0][0].line, groups[0][1].line
        fault = (
            f"has the same texts as {unit} {first}: both may be annotators' ratings of one output"
        )
        advice = "give all rows of one output the same id: --map id=COLUMN"
        problems.add("rows-of-annotators", fault, advice, line=line, field="id")
    note = f"{len(repeats):,} {'row repeats' if len(repeats) == 1 else 'rows repeat'}"
    note += f" another row's texts ({unit}s {joined_names([*map(str, repeats)])})"
    if columns.labelled:
        note += _agreement(groups, rated, unit)
    return [note]


def _agreement(groups: Iterable[list[TableRow]], rated: Iterable[str], unit: str) -> str:
    """Say whether the labels in each group of rows agree; "" if there are no labels."""
    labels_and_lines = [
        (labels, joined_names([str(row.line) for row in group]))
        for group in groups
        for column in sorted(rated)
        if (labels := _labels_in(group, column))
    ]
    disagreements = [
        f"{joined_names(labels)} ({unit}s {lines})"
        for labels, lines in labels_and_lines
        if len(labels) > 1
    ]
    if not disagreements:
        return ". Their labels agree" if labels_and_lines else ""
    verb = "disagree" if len(disagreements) > 1 else "disagrees"
    return f". {count(len(disagreements), 'pair')} {verb}: {'; '.join(disagreements[:10])}"


def _repeated_rows(columns: Columns, texts: Collection[str]) -> list[list[TableRow]]:
    """The groups of rows with equal texts, documents and systems; [] if any id is repeated."""
    rows = columns.table.rows
    if not texts or len({*map(columns.item_key, rows)}) < len(rows):
        return []
    content = (*columns.find_all(_ORIGINS), *texts)
    groups: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(str(value_in(row, column)) for column in content)].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _labels_in(rows: Iterable[TableRow], column: str) -> list[str]:
    """The different labels in a column, without lists, which hold several annotators' labels."""
    cells = (value_in(row, column) for row in rows)
    single = (cell for cell in cells if not isinstance(cell, list | Mapping))
    return sorted({normalize_word(cell) for cell in single if not is_missing_value(cell)})


def _document_id(item_id: str, texts: Mapping[str, str], source: str | None) -> str:
    """Return a document's id: a hash of the source text, or the item's id if there is none.

    An instruction with another `input` is another document.
    """
    if source not in texts:
        return item_id
    content = f"{texts[str(source)]}\0{texts.get('input', '')}"
    return f"{source}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
