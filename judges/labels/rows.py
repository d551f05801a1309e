"""Merges the rows of each output or pair, and reads their ids, documents, systems and texts."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from judges.labels.cells import (
    KEY_SEPARATOR,
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

# The columns that say how a document was sampled: one over its probability to be drawn, and the
# number of documents from which it was drawn.
SAMPLING_COLUMNS = ("sampling_weight", "sampling_from")
# The columns that a label page adds: when a label was given, whether it was changed after the
# annotator saw other labels, and the scale.
_LABEL_TIME, _CHANGED_AFTER, _RATING_SCALE = "labelled_at", "changed_after", "rating_scale"
# The columns of a label page for an output that the annotator skipped or was unsure of.
_ANNOTATOR_FLAGS = ("skipped", "unsure")
# The names of the columns with an output's document and system, or a pair's two systems.
_ORIGIN_ROLES = ("group", "system", "system_a", "system_b")
# Matches the name of a row of means or sums at the end of a sheet.
_FOOTER_NAME = re.compile(
    r"(?:mittelwert|mittel|durchschnitt|summe|gesamt|average|avg|mean|total|sum|median|"
    r"moyenne|somme|media|promedio|suma|std|sd|stdev)\b|ø",
    re.IGNORECASE,
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def without_footers(table: Table) -> Table:
    """Return the table without rows of means or sums at its end, and a note on each such row."""
    rows, notes = [*table.rows], list[str]()
    while not table.typed and len(rows) > 1 and (footer_name := _footer_name(rows[-1])):
        notes.insert(
            0, f"{excerpt(footer_name)} in the last row is not an output: the row is left out"
        )
        rows.pop()
    return replace(table, rows=tuple(rows), notes=(*table.notes, *notes))


def _footer_name(row: TableRow) -> str | None:
    """The name of a row of means or sums, whose other cells are numbers; None for any other row."""
    present_values = [str(value) for value in row.cells.values() if not is_blank(value)]
    words = [value for value in present_values if not looks_like_rating(value, typed=False)]
    return words[0] if len(words) == 1 and _FOOTER_NAME.match(words[0].strip()) else None


def latest_labels(columns: Columns) -> Columns:
    """Return the columns of a table with only the latest label of each annotator on each output.

    In a file with the column `labelled_at`, a later row replaces an earlier row of the same output,
    annotator and dimension. The columns that a label page adds to describe labels are removed from
    the table's columns, but their cells stay in the rows.
    """
    table, rows, notes = columns.table, columns.table.rows, columns.table.notes
    if _LABEL_TIME in table.columns and columns.find("id") and columns.find("annotator"):
        rows = tuple({_label_key(columns, row): row for row in rows}.values())
    if n_changed := sum(not is_blank(row.cells.get(_CHANGED_AFTER)) for row in rows):
        notes += (
            f"{count(n_changed, 'label')} changed after seeing others' labels: "
            "agreement is not blind",
        )
    removed_columns = (
        *(_LABEL_TIME, _CHANGED_AFTER, _RATING_SCALE),
        *SAMPLING_COLUMNS,
        *(_ANNOTATOR_FLAGS if _LABEL_TIME in table.columns else ()),
    )
    kept_columns = tuple(columns.columns_except(removed_columns))
    return columns.with_table(
        replace(table, columns=kept_columns, rows=rows, notes=notes), columns.mapping
    )


def _label_key(columns: Columns, row: TableRow) -> tuple[str, str, str]:
    # A row that names no annotator gets a key of its own, so it never replaces another row.
    annotator = columns.cell(row, "annotator") or f"{ROW_NUMBER} {row.line}"
    return (
        columns.item_key(row),
        str(annotator).strip(),
        str(columns.cell(row, "dimension")).strip(),
    )


def stated_scales(columns: Columns) -> dict[str, Scale]:
    """Map each dimension to the scale that a label page wrote into all of its rows.

    A dimension whose rows state no scale, or different scales, is missing.
    """
    scales: dict[str, set[Scale | None]] = defaultdict(set)
    for row in columns.table.rows:
        dimension = str(columns.cell(row, "dimension")).strip()
        scales[dimension].add(read_bounds(str(row.cells.get(_RATING_SCALE))))
    return {
        name: scale for name, (scale, *other_scales) in scales.items() if scale and not other_scales
    }


@dataclass(frozen=True, slots=True)
class ItemFields:
    """What is read from a row of an output or a pair, except for its labels."""

    id: str
    document_id: str
    systems: tuple[str | None, ...]
    texts: dict[str, str]
    draw: dict[str, object]


class RowReader:
    """Reads the id, document, systems and texts in each row, and adds problems to `problems`.

    Args:
        columns: The columns of the table.
        problems: The list to which problems are added.
        roles: Names such as `id` whose columns are not texts.
        label_columns: The columns of labels.
        judge_texts: The texts that every row must have; None for those with usual names.
        candidates: Maps `response_a` and `response_b` to their columns; empty for single outputs.
    """

    def __init__(
        self,
        columns: Columns,
        problems: Problems,
        *,
        roles: Collection[str],
        label_columns: Collection[str],
        judge_texts: Collection[str] | None,
        candidates: Mapping[str, str],
    ) -> None:
        self._problems, self._file_columns, self._roles = problems, columns, roles
        self.notes: list[str] = []
        candidate_columns = {*candidates.values()}
        texts = {
            **columns.texts(columns.used_columns(roles) | candidate_columns, label_columns),
            **candidates,
        }
        certain_columns = {
            c for n, c in texts.items() if columns.is_certain_text(n) or n in columns.mapping
        }
        certain_columns |= candidate_columns
        if not problems:
            content_columns = certain_columns if len(certain_columns) > 1 else {*texts.values()}
            self.notes += _check_repeats(columns, problems, content_columns, label_columns)
        if columns.has_row_per_annotator and not columns.ids_are_row_numbers:
            columns, note = _merge_rows(columns, problems, label_columns, certain_columns)
            self.notes += note
        self.columns, self._line_by_id = columns, dict[str, int]()
        self.texts = {name: column for name, column in texts.items() if columns.has(column)}
        other_texts = without_keys(self.texts, candidates)
        self._source_text = columns.source(other_texts)
        self._required_texts = _find_required_texts(columns, problems, other_texts, judge_texts)
        self._required_texts |= candidates.keys()
        # A row in which one of these texts is empty is left out and counted. If another required
        # text is empty, that is a problem.
        self._output_texts = {*filter(is_output, self._required_texts)} | candidates.keys()
        self._candidates = candidates
        self.notes += self._note_empty_texts()
        if not other_texts and judge_texts != ():
            self._add_missing_texts()

    def _note_empty_texts(self) -> Iterator[str]:
        """Yield a note on each optional text with a usual name that is empty in some rows."""
        for name in sorted(self.texts.keys() - self._required_texts):
            n_empty = sum(map(is_blank, self.columns.values(self.texts[name])))
            if n_empty and is_usual_text(name):
                yield f"{name} is empty in {count(n_empty, 'row')}"

    def _add_missing_texts(self) -> None:
        advice = "name the columns that hold the texts, as in --map document=COLUMN"
        if self._file_columns.is_long:
            advice = "give the file of outputs, and this one with --annotations FILE"
        fault = f"no column holds texts; the columns are {self.columns.names_in_message}"
        self._problems.add("no-text", fault, advice)

    @property
    def grouped_by(self) -> str:
        """Which rows share a document, in words."""
        if (group := self.columns.find("group")) is not None:
            return f"column {group!r}"
        if self._source_text is None:
            return "each row is its own document, since there is no group and no source text"
        return f"identical text {self._source_text!r}, since there is no group"

    def reading(self, ratings: Mapping[str, tuple[str, ...]]) -> FileReading:
        """Return what each column was read as; `ratings` maps dimensions or `votes` to columns."""
        columns = self._file_columns
        role_columns = columns.find_by_name(
            role for role in self._roles if role not in (*NESTED_COLUMNS, "rating")
        )
        columns_by_role = {role: (column,) for role, column in role_columns.items()}
        if columns.ids_are_row_numbers:
            columns_by_role["id"] = (ROW_NUMBER,)
        read_columns = {*role_columns.values(), *self.texts.values(), *columns.comments}.union(
            *ratings.values()
        )
        read_outer_columns = {*map(columns.outer_column, read_columns)}
        return FileReading(
            rows=columns_by_role,
            texts=self.texts,
            ratings=ratings,
            comments=columns.comments,
            unread=tuple(columns.columns_except(read_outer_columns)),
        )

    def items(self) -> Iterator[ItemFields]:
        """Yield the fields of each row that has no problem and no empty output.

        After the last row, add a note that counts the rows with an empty output.
        """
        lines_with_empty_output: dict[str, list[int]] = defaultdict(list)
        for row in self.columns.table.rows:
            n_problems = len(self._problems)
            fields = self._read_row(row)
            missing_texts = without_keys(self.texts, fields.texts)
            empty_outputs = [
                column
                for name, column in missing_texts.items()
                if name in self._output_texts and is_blank(value_in(row, column))
            ]
            for column in empty_outputs:
                lines_with_empty_output[column].append(row.line)
            if fields.id and not empty_outputs and len(self._problems) == n_problems:
                yield fields
        for column, lines in lines_with_empty_output.items():
            self._report_missing_outputs(column, lines)

    def _read_row(self, row: TableRow) -> ItemFields:
        system_roles = (role for role in self._roles if role.startswith("system"))
        systems = tuple(self._read_name(row, self.columns.find(role)) for role in system_roles)
        item_id = self._read_id(row)
        texts_or_none = {
            name: self._read_text(row, name, column) for name, column in self.texts.items()
        }
        texts = {name: text for name, text in texts_or_none.items() if text is not None}
        advice = "name the document in every row"
        document_id = self._read_name(row, self.columns.find("group"), "no-group", advice)
        draw = {name: row.cells[name] for name in SAMPLING_COLUMNS if name in row.cells}
        document_id = document_id or _document_id(item_id, texts, self._source_text)
        return ItemFields(item_id, document_id, systems, texts, draw)

    def _report_missing_outputs(self, column: str, lines: list[int]) -> None:
        n_rows = len(self.columns.table.rows)
        if 2 * len(lines) > n_rows:
            fault = f"is empty in {len(lines):,} of {n_rows:,} rows"
            advice = "name the column that holds the answers, as in --map summary=COLUMN"
            self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
        line_list = f"{self._problems.unit} {str(lines[:5])[1:-1]}{', ...' * (len(lines) > 5)}"
        rows = count(len(lines), "row")
        self.notes.append(f"left out for an empty {excerpt(column)}: {rows} ({line_list})")

    def _read_name(
        self, row: TableRow, column: str | None, kind: str = "", advice: str = ""
    ) -> str | None:
        """Return the name in a cell, or None if the cell is blank or not a name.

        A cell that is not a name is always a problem. A blank cell is a problem only if `kind` and
        `advice` for that problem are given.
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
        # Spaces around a name are invisible, so they are ignored.
        return self._check_unicode(str(value).strip(), row, column)

    def _read_text(self, row: TableRow, name: str, column: str) -> str | None:
        """Return the text in a cell, or None; adds a problem if a required text is missing."""
        cell = value_in(row, column)
        # In a data frame, a missing text is NaN, the only number that does not equal itself.
        value = str(cell) if isinstance(cell, bool | int | float) and cell == cell else cell
        value = join_texts(value) or value
        # People may have voted on a pair in which one system wrote nothing. In a typed file such as
        # JSON this output may be empty; in a CSV file its cell may have been forgotten. In a pair,
        # any text may be white space.
        may_be_empty = self.columns.table.typed and name in self._candidates
        may_be_white_space = may_be_empty or (self._candidates and value)
        if isinstance(value, str) and (value.strip() or may_be_white_space):
            return self._check_unicode(value, row, column)
        if name not in self._required_texts or (name in self._output_texts and is_blank(value)):
            return None
        fault = (
            "is missing" if value is None else "is empty" if is_blank(value) else "is not a text"
        )
        advice = "write the text, or remove the row"
        if key := next(iter(as_object(value) or ()), None):
            flag = map_flag(name, [f"{column}{KEY_SEPARATOR}{key}"])
            advice = f"name the key with the text, as in {flag}"
        self._problems.add(
            "no-text", fault, advice, line=row.line, field=column, value=value or NO_VALUE
        )
        return None

    def _read_id(self, row: TableRow) -> str:
        """Return a row's id, or "" if it is missing; an id that an earlier row has is a problem."""
        if self.columns.ids_are_row_numbers:
            return str(row.number)
        column = self.columns.find("id")
        item_id = self._read_name(row, column, "no-id", "give every row an id") or ""
        first_line = self._line_by_id.setdefault(item_id, row.line)
        if item_id and first_line != row.line:
            fault = f"is the id of {self._problems.unit} {first_line} too"
            advice = "give every row an id of its own"
            if self.columns.find("annotator") is None:
                advice += ", or name the column of annotators with --map annotator=COLUMN"
            self._problems.add("twice", fault, advice, line=row.line, field=column, value=item_id)
        return item_id

    def _check_unicode(self, text: str, row: TableRow, column: str) -> str | None:
        if not text.isascii() and _LONE_SURROGATE.search(text):
            fault, advice = "is not valid Unicode", "export the text as UTF-8 again"
            self._problems.add("bad-text", fault, advice, line=row.line, field=column, value=text)
            return None
        return text


def _merge_rows(
    columns: Columns, problems: Problems, label_columns: Collection[str], texts: Collection[str]
) -> tuple[Columns, list[str]]:
    """Merge the rows with the same id into one row, and return the new columns and notes.

    A column whose cells differ between rows with the same id is left out, and a note says so. If
    the column is in `texts`, or holds documents or systems, a problem is added instead. Columns of
    labels and comments are left out without a note.
    """
    dropped_labels = {*columns.find_all(("dimension", "annotator", "rating")), *columns.comments}
    dropped_labels |= {*label_columns, *map(columns.outer_column, label_columns)}
    item_columns = columns.columns_except(dropped_labels)
    must_be_equal = {*texts, *columns.find_all(_ORIGIN_ROLES)}
    merged_rows: dict[str, TableRow] = {}
    differing_columns: dict[str, None] = {}
    for row in columns.table.rows:
        item_id = columns.item_key(row)
        cells = {name: row.cells.get(name) for name in item_columns}
        first_cells = merged_rows.setdefault(item_id, row._replace(cells=cells)).cells
        for name, cell in cells.items():
            if is_blank(first_cells[name]):
                first_cells[name] = cell
            if is_blank(cell) or cell == first_cells[name]:
                continue
            if name in must_be_equal:
                fault = f"differs from another row with the id {item_id!r:.60}"
                advice = (
                    "write the same in all rows with this id, or give each output an id of its own"
                )
                problems.add("two-texts", fault, advice, line=row.line, field=name, value=cell)
            else:
                differing_columns[name] = None
    dropped_columns = dropped_labels | differing_columns.keys()
    kept_columns = tuple(columns.columns_except(dropped_columns))
    table = replace(columns.table, columns=kept_columns, rows=tuple(merged_rows.values()))
    mapping = {
        name: headers
        for name, headers in columns.mapping.items()
        if dropped_columns.isdisjoint(headers)
    }
    left_out = joined_names([f"column {column!r}" for column in differing_columns])
    notes = (
        [f"left out, since rows of one id differ in it: {left_out}"] if differing_columns else []
    )
    return columns.with_table(table, mapping), notes


# Maps the id of an output or pair to people's comments by dimension (`votes` for pairs).
Comments = dict[str, dict[str, tuple[str, ...]]]


def read_comments(
    columns: Columns, dimensions_of: Callable[[str, TableRow], Iterable[str]]
) -> Comments:
    """Return people's comments; `dimensions_of(column, row)` are the dimensions they are on."""
    comments: Comments = {}
    for row in columns.table.rows:
        for column in columns.comments:
            cell = value_in(row, column)
            comment = join_texts(cell) or cell
            if isinstance(comment, str) and not is_blank(comment):
                by_dimension = comments.setdefault(columns.item_key(row), {})
                for dimension in dimensions_of(column, row):
                    by_dimension[dimension] = (*by_dimension.get(dimension, ()), comment.strip())
    return comments


def _find_required_texts(
    columns: Columns,
    problems: Problems,
    texts: Mapping[str, str],
    judge_texts: Collection[str] | None,
) -> set[str]:
    """The texts that every row must have; adds a problem for each one that the table lacks."""
    source = columns.source(texts)
    if judge_texts is None:
        # All other texts may be empty, such as the `input` that belongs to an instruction.
        return {name for name in texts if is_output(name) or name == source}
    if (text := only_text(texts, judge_texts)) is not None:
        return {text}
    for name in judge_texts:
        if name not in texts:
            add_missing_column(columns, problems, name, name, ", but the judge reads it")
    # Outputs are grouped into documents by the source text, even if the judge does not read it.
    needs_source = source is not None and columns.find("group") is None
    return {*judge_texts, str(source)} if needs_source else {*judge_texts}


def _check_repeats(
    columns: Columns, problems: Problems, texts: Collection[str], label_columns: Collection[str]
) -> list[str]:
    """Return a note on rows that repeat another row's texts, and on whether their labels agree.

    If the file names annotators, these rows may be several annotators' ratings of one output. Such
    rows should have the same id, so a problem is added.
    """
    groups = _repeated_rows(columns, texts)
    repeat_lines = sorted(row.line for _, *repeats_in_group in groups for row in repeats_in_group)
    if not repeat_lines:
        return []
    unit, are_minority = problems.unit, 2 * len(repeat_lines) < len(columns.table.rows) - 1
    if columns.find("annotator") and not (columns.find("id") and are_minority):
        first_line, second_line = groups[0][0].line, groups[0][1].line
        fault = f"has the same texts as {unit} {first_line}, so both may rate one output"
        advice = "give all rows of one output the same id: --map id=COLUMN"
        problems.add("rows-of-annotators", fault, advice, line=second_line, field="id")
    note = f"{len(repeat_lines):,} {'row repeats' if len(repeat_lines) == 1 else 'rows repeat'}"
    note += f" another row's texts ({unit}s {joined_names([*map(str, repeat_lines)])})"
    if columns.labelled:
        note += _describe_agreement(groups, label_columns, unit)
    return [note]


def _describe_agreement(
    groups: Iterable[list[TableRow]], label_columns: Iterable[str], unit: str
) -> str:
    """Return a sentence on whether the labels in each group of rows agree; "" without labels."""
    labels_and_lines = [
        (labels, joined_names([str(row.line) for row in group]))
        for group in groups
        for column in sorted(label_columns)
        if (labels := _distinct_labels(group, column))
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
    """The groups of rows with equal texts, documents and systems; [] if two rows share an id."""
    rows = columns.table.rows
    if not texts or len({*map(columns.item_key, rows)}) < len(rows):
        return []
    content_columns = (*columns.find_all(_ORIGIN_ROLES), *texts)
    groups: dict[tuple[str, ...], list[TableRow]] = defaultdict(list)
    for row in rows:
        groups[tuple(str(value_in(row, column)) for column in content_columns)].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _distinct_labels(rows: Iterable[TableRow], column: str) -> list[str]:
    """The different labels in a column; lists of several annotators' labels are skipped."""
    cells = (value_in(row, column) for row in rows)
    single_labels = (cell for cell in cells if not isinstance(cell, list | Mapping))
    return sorted({normalize_word(cell) for cell in single_labels if not is_missing_value(cell)})


def _document_id(item_id: str, texts: Mapping[str, str], source: str | None) -> str:
    """Return a document's id: a hash of its source text, or the item's id without such a text.

    Two documents may have the same source text, such as an instruction, but different `input`s.
    """
    if source not in texts:
        return item_id
    content = f"{texts[str(source)]}\0{texts.get('input', '')}"
    return f"{source}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
