"""Reads the id, document, systems, texts and comments of each output or pair."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from judges.labels.cells import (
    KEY_SEPARATOR,
    as_object,
    as_text,
    is_blank,
    is_id_or_name,
    join_texts,
    value_at,
    without_keys,
)
from judges.labels.columns import NESTED_COLUMNS, ROW_NUMBER_COLUMN, Column, Columns
from judges.labels.names import is_output_name, is_text_name, map_flag, only_text_name, source_name
from judges.labels.preparation import SAMPLING_COLUMNS, SWAP_SAMPLE_COLUMN
from judges.labels.roles import RESPONSE_NAMES, Roles, add_missing_column, group_rows
from judges.labels.types import FileReading
from judges.labels.values import is_missing_value, normalize_word
from judges.tables.problems import NO_VALUE, Problems, count_text, excerpt, joined_names
from judges.tables.text import TableRow

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
# The roles of the columns with an output's document and system, or with a pair's two systems.
_ORIGIN_ROLES = ("group", "system", "system_a", "system_b")
# Advice on an empty cell in a column that must be filled in every row.
_ADVICE_IF_EMPTY = {"id": "give every row an id", "group": "name the document in every row"}


@dataclass(frozen=True, slots=True)
class ItemFields:
    """The id, document, systems and texts of an output or a pair, and how it was sampled."""

    id: str
    document_id: str
    systems: tuple[str | None, ...]
    texts: dict[str, str]
    sampling_cells: dict[str, object]


class RowReader:
    """Reads the id, document, systems and texts of each output or pair, and reports faults.

    Every row must have the texts that a judge reads or, by default, the source text and the
    outputs. Rows with the same id are merged if each has one annotator's labels.
    """

    def __init__(self, roles: Roles, problems: Problems) -> None:
        self._roles, self._problems, columns = roles, problems, roles.columns
        if not problems:
            check_repeated_rows(roles, problems)
        # From here on, there is one row for each output or pair.
        self._rows, self._text_columns = [*roles.rows], {**roles.texts}
        if roles.has_row_per_annotator:
            self._rows, self._text_columns = merge_rows_by_id(roles, problems)
        self._response_names = RESPONSE_NAMES if roles.is_pairwise else ()
        other_texts = without_keys(self._text_columns, self._response_names)
        merged_columns = Columns(replace(columns.table, rows=tuple(self._rows)), roles.options)
        text_columns = {name: merged_columns.column(c) for name, c in other_texts.items()}
        self._source_text = _find_source_text(text_columns)
        self._required_texts = {*self._find_required_texts(other_texts), *self._response_names}
        # A row without its output is left out. A row without another required text is a problem.
        outputs = filter(is_output_name, self._required_texts)
        self._output_texts = {*outputs, *self._response_names}
        if not other_texts and roles.options.texts != ():
            advice = "name the columns that hold the texts, as in --map document=COLUMN"
            if columns.is_long:
                advice = "give the file of outputs, and this one with --annotations FILE"
            fault = f"no column holds texts; the columns are {columns.names_text}"
            problems.add("no-text", fault, advice)

    def _find_required_texts(self, texts: Mapping[str, str]) -> Collection[str]:
        """Return the texts that every row must have; add a problem for each without a column."""
        judge_texts = self._roles.options.texts
        if judge_texts is None:
            # Texts that are neither outputs nor the source text, such as `input`, may be empty.
            return [name for name in texts if is_output_name(name) or name == self._source_text]
        if (only_text := only_text_name(texts, judge_texts)) is not None:
            return [only_text]
        for name in judge_texts:
            if name not in texts:
                reason = ", but the judge reads it"
                add_missing_column(self._roles.columns, self._problems, name, name, reason)
        # Outputs are grouped into documents by the source text, even if no judge reads it.
        if self._source_text is None or self._roles.columns.find("group") is not None:
            return judge_texts
        return [*judge_texts, self._source_text]

    @property
    def grouped_by(self) -> str:
        """A phrase that says which rows share a document."""
        if (group_column := self._roles.columns.find("group")) is not None:
            return f"by column {group_column!r}"
        if self._source_text is None:
            return "each row is its own document, since there is no group and no source text"
        return f"by identical text {self._source_text!r}, since there is no group"

    def file_reading(self) -> FileReading:
        """Return what each column was read as."""
        columns, rating_columns = self._roles.columns, self._roles.all_rating_columns
        roles = [role for role in self._roles.names if role not in (*NESTED_COLUMNS, "rating")]
        columns_by_role = {role: names for role in roles if (names := columns.find_all([role]))}
        read_columns = [*self._text_columns.values(), *self._roles.comments]
        read_columns += chain(*columns_by_role.values(), *rating_columns.values())
        if self._roles.has_no_id_column:
            columns_by_role["id"] = (ROW_NUMBER_COLUMN,)
        unread_columns = columns.except_for({*map(columns.outer_name, read_columns)})
        likely_names = {name: columns.column(name).name_to_suggest for name in unread_columns}
        possible_names = (*self._roles.names, "input")
        return FileReading(
            rows=columns_by_role,
            texts=self._text_columns,
            ratings=rating_columns,
            comments=self._roles.comments,
            unread=tuple(unread_columns),
            likely_names={c: name for c, name in likely_names.items() if name in possible_names},
        )

    def read_rows(self) -> Iterator[ItemFields]:
        """Yield the fields of each row that has an output and no problem; note empty texts."""
        check_unique_ids(self._roles, self._problems)
        lines_by_empty_text: dict[str, list[int]] = defaultdict(list)
        for row in self._rows:
            n_problems = len(self._problems)
            item = self._read_row(row)
            if len(self._problems) > n_problems:
                continue
            empty_texts = [name for name in self._text_columns if name not in item.texts]
            for name in empty_texts:
                lines_by_empty_text[name].append(row.line)
            if self._output_texts.isdisjoint(empty_texts):
                yield item
        for name, lines in lines_by_empty_text.items():
            rows_text = count_text(len(lines), "row")
            column, n_rows = self._text_columns[name], len(self._rows)
            if name not in self._output_texts:
                if is_text_name(name):
                    self._problems.notes.append(f"{name} has no text in {rows_text}")
                continue
            if 2 * len(lines) > n_rows:
                fault = f"is empty in {len(lines):,} of {n_rows:,} rows"
                advice = "name the column that holds the answers, as in --map summary=COLUMN"
                self._problems.add("empty-text", fault, advice, line=lines[0], field=column)
            lines_text = self._problems.lines_text(lines)
            reason = f"since {excerpt(column)} is empty ({lines_text})"
            self._problems.notes.append(f"left out {rows_text}, {reason}")

    def _read_row(self, row: TableRow) -> ItemFields:
        item_id = self._read_name(row, "id") or self._roles.item_id(row)
        texts = {
            name: text
            for name in self._text_columns
            if (text := self._read_text(row, name)) is not None
        }
        system_roles = [role for role in self._roles.names if role.startswith("system")]
        sampling_columns = {*SAMPLING_COLUMNS, SWAP_SAMPLE_COLUMN}
        return ItemFields(
            id=item_id,
            document_id=self._read_name(row, "group") or self._document_id(item_id, texts),
            systems=tuple(self._read_name(row, role) for role in system_roles),
            texts=texts,
            sampling_cells=without_keys(row.cells, row.cells.keys() - sampling_columns),
        )

    def _document_id(self, item_id: str, texts: Mapping[str, str]) -> str:
        """Return a document's id: a hash of its source text, else the item's id."""
        source = self._source_text
        if source is None or source not in texts:
            return item_id
        # The source text may be an instruction that several documents share; `input` differs.
        hashed_text = f"{texts[source]}\0{texts.get('input', '')}"
        return f"{source}-{hashlib.sha256(hashed_text.encode()).hexdigest()[:16]}"

    def _read_name(self, row: TableRow, role: str) -> str | None:
        """Return the name or id in the column for `role`; None if it is missing or invalid."""
        column = self._roles.columns.find(role)
        if column is None:
            return None
        value = value_at(row.cells, column)
        if is_id_or_name(value):
            # Spaces around a name are invisible, so they are ignored.
            return self._check_unicode(str(value).strip(), row, column)
        if not is_blank(value):
            fault, advice = "is not a name", "write a string or a whole number"
            self._problems.add("no-name", fault, advice, line=row.line, field=column, value=value)
        elif role in _ADVICE_IF_EMPTY:
            advice = _ADVICE_IF_EMPTY[role]
            self._problems.add(f"no-{role}", "is empty", advice, line=row.line, field=column)
        return None

    def _read_text(self, row: TableRow, name: str) -> str | None:
        """Return the text in a cell, or None; adds a problem if a required text is missing."""
        column = self._text_columns[name]
        value = as_text(value_at(row.cells, column))
        # In a pair that people voted on, a system may have written nothing, and the prompt may be
        # white space. An empty cell in a CSV file is None, and may have been forgotten.
        may_be_blank = name in self._response_names or (self._response_names and value)
        if isinstance(value, str) and (may_be_blank or not is_blank(value)):
            return self._check_unicode(value, row, column)
        counts_as_empty = is_blank(value) and name in self._output_texts
        if name in self._required_texts and not counts_as_empty:
            fault, advice = "is not a text", "write the text, or remove the row"
            if is_blank(value):
                fault, value = "is missing" if value is None else "is empty", NO_VALUE
            if object_keys := [*(as_object(value) or ())]:
                flag = map_flag(name, [f"{column}{KEY_SEPARATOR}{object_keys[0]}"])
                advice = f"name the key with the text, as in {flag}"
            self._problems.add("no-text", fault, advice, line=row.line, field=column, value=value)
        return None

    def _check_unicode(self, text: str, row: TableRow, column: str) -> str | None:
        if not text.isascii() and _LONE_SURROGATE.search(text):
            fault, advice = "is not valid Unicode", "export the text as UTF-8 again"
            self._problems.add("bad-text", fault, advice, line=row.line, field=column, value=text)
            return None
        return text


def read_comments(roles: Roles) -> Iterator[tuple[TableRow, str, str]]:
    """Yield people's comments, each with its row and its column."""
    for row in roles.rows if roles.options.reads_labels else ():
        for column in roles.comments:
            cell = value_at(row.cells, column)
            comment = join_texts(cell) or cell
            if isinstance(comment, str) and not is_blank(comment):
                yield row, column, comment.strip()


def _find_source_text(texts: Mapping[str, Column]) -> str | None:
    """Return the name of the source text, by which outputs are grouped; None without one.

    The source text is the one whose name is first in `SOURCE_NAMES`, else a text that repeats. It
    is preferably in a column without blank cells, and with at least two different values.
    """
    varied_texts = [name for name, column in texts.items() if column.is_filled_and_varied]
    if named_source := source_name(varied_texts) or source_name(texts):
        return named_source
    max_distinct = max((column.n_distinct for column in texts.values()), default=0)
    source_names = [name for name, column in texts.items() if column.may_be_source(max_distinct)]
    return max(source_names, key=lambda name: texts[name].n_distinct, default=None)


def check_unique_ids(
    roles: Roles, problems: Problems, advice: str = "give every row an id of its own"
) -> None:
    """Add a problem for each id that two rows have, unless each row has one annotator's labels.

    `advice` is what the user can do if the two rows are not of different annotators.
    """
    line_by_id = dict[str, int]()
    for row in () if roles.has_row_per_annotator else roles.rows:
        item_id = roles.item_id(row)
        if (first_line := line_by_id.setdefault(item_id, row.line)) != row.line:
            fault = f"is the id of {problems.unit} {first_line} too"
            annotator_flag = map_flag("annotator", ["COLUMN"])
            full_advice = f"{advice}, or name the column of annotators with {annotator_flag}"
            field = roles.columns.find("id")
            problems.add("twice", fault, full_advice, line=row.line, field=field, value=item_id)


def merge_rows_by_id(roles: Roles, problems: Problems) -> tuple[list[TableRow], dict[str, str]]:
    """Merge the rows with the same id into one row; return the rows and the columns of texts.

    A merged row has an output's id, document, system and texts. A problem is added if rows with the
    same id differ in one of these. If a column may be no text, it is left out instead, with a note.
    """
    columns = roles.columns
    origin_columns = columns.find_all(_ORIGIN_ROLES)
    item_columns = [*columns.find_all(["id"]), *origin_columns, *roles.texts.values()]
    if SWAP_SAMPLE_COLUMN in columns.table.columns:
        item_columns.append(SWAP_SAMPLE_COLUMN)
    constant_columns = {*roles.certain_columns, *origin_columns}
    merged_rows: dict[str, TableRow] = {}
    varying_columns: dict[str, None] = {}
    for row in roles.rows:
        item_id, empty_row = roles.item_id(row), row._replace(cells=dict.fromkeys(item_columns))
        merged_cells = merged_rows.setdefault(item_id, empty_row).cells
        for column in item_columns:
            cell = value_at(row.cells, column)
            if is_blank(merged_cells[column]):
                merged_cells[column] = cell
            elif is_blank(cell) or cell == merged_cells[column]:
                continue
            elif column in constant_columns:
                fault = f"differs from another row with the id {item_id!r:.60}"
                advice = "write the same in all its rows, or give each output an id of its own"
                problems.add("two-texts", fault, advice, line=row.line, field=column, value=cell)
            else:
                varying_columns[column] = None
    texts = {name: c for name, c in roles.texts.items() if c not in varying_columns}
    if unread_columns := [column for name, column in roles.texts.items() if name not in texts]:
        names_text = joined_names([f"column {column!r}" for column in unread_columns])
        problems.notes.append(f"left out {names_text}, since rows with one id differ in it")
    n_merged = len(roles.rows) - len(merged_rows)
    if roles.has_no_id_column and n_merged:
        rows_text = count_text(n_merged, "row")
        problems.notes.append(f"joined {rows_text} without an id to a row of the same texts")
    return [*merged_rows.values()], texts


def check_repeated_rows(roles: Roles, problems: Problems) -> None:
    """Add a note on rows with the same texts and systems, and on differences in their labels.

    Adds a problem if rows with the same texts are probably annotators' ratings of one output.
    """
    rows = roles.rows
    has_several = len(roles.certain_columns) > 1
    text_columns = roles.certain_columns if has_several else {*roles.texts.values()}
    if not text_columns or len({*map(roles.item_id, rows)}) < len(rows):
        return  # the ids in the file say which rows are of one output
    origin_columns = roles.columns.find_all(_ORIGIN_ROLES)
    row_groups = group_rows(rows, [*origin_columns, *text_columns])
    repeated_rows = [same_rows for same_rows in row_groups if len(same_rows) > 1]
    lines = sorted(row.line for same_rows in repeated_rows for row in same_rows[1:])
    if not lines:
        return
    if roles.columns.find("annotator") and 2 * len(lines) >= len(rows) - 1:
        first_row, second_row, *_ = repeated_rows[0]
        fault = (
            f"has the same texts as {problems.unit} {first_row.line}, so both may rate one output"
        )
        advice = (
            "name a column with one id for all rows of an output: --map id=COLUMN; or, to join the "
            "rows with the same texts, --map id=#row"
        )
        problems.add("rows-of-annotators", fault, advice, line=second_row.line, field="id")
    repeats_text = "1 row repeats" if len(lines) == 1 else f"{len(lines):,} rows repeat"
    note = f"{repeats_text} another row's texts ({problems.lines_text(lines)})"
    differences = [
        difference
        for same_rows, column in product(repeated_rows, sorted(roles.label_columns))
        if (difference := _label_difference(problems, same_rows, column))
    ]
    if differences and roles.options.reads_labels:
        note += f". Labels of the same texts differ: {'; '.join(differences[:10])}"
    problems.notes.append(note)


def _label_difference(problems: Problems, rows: Sequence[TableRow], column: str) -> str:
    """Return the different labels of rows, and the rows' numbers; "" if there is only one label.

    Lists of several annotators' labels are skipped.
    """
    cells = (value_at(row.cells, column) for row in rows)
    single_labels = [cell for cell in cells if not isinstance(cell, list | Mapping)]
    labels = {normalize_word(cell) for cell in single_labels if not is_missing_value(cell)}
    lines_text = problems.lines_text([row.line for row in rows])
    return f"{joined_names(sorted(labels))} ({lines_text})" if len(labels) > 1 else ""
