"""Reads the id, document, systems, texts and comments of each output or pair."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

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
from judges.labels.columns import (
    NESTED_COLUMNS,
    OUTPUT_ROLES,
    PAIR_ROLES,
    ROLE_NAMES,
    ROW_NUMBER_COLUMN,
    VOTE_COLUMNS,
    Columns,
)
from judges.labels.names import (
    OUTPUT_NAMES,
    SOURCE_NAMES,
    is_output_name,
    is_source_or_output,
    is_text_name,
    map_flag,
    name_key,
    only_text_name,
)
from judges.labels.preparation import (
    SAMPLING_COLUMNS,
    SWAP_SAMPLE_COLUMN,
    check_repeated_rows,
    merge_rows_by_id,
)
from judges.labels.types import FileReading
from judges.tables.problems import NO_VALUE, count_text, excerpt, joined_names
from judges.tables.text import TableRow

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
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

    `rating_columns` maps each dimension to its columns and, for pairs, `votes` to its columns.
    `response_columns` maps `response_a` and `response_b` to their columns; it is empty unless the
    table holds pairs. Every row must have the texts that a judge reads or, by default, the source
    text and the outputs. Rows with the same id are merged if each has one annotator's labels.
    """

    def __init__(
        self,
        columns: Columns,
        rating_columns: Mapping[str, tuple[str, ...]],
        response_columns: Mapping[str, str],
    ) -> None:
        self._file_columns, self._problems = columns, columns.problems
        self._rating_columns, self._response_names = rating_columns, response_columns.keys()
        label_columns = set[str]().union(*rating_columns.values())
        self._roles: tuple[str, ...] = PAIR_ROLES if response_columns else OUTPUT_ROLES
        if response_columns:
            label_columns.update(columns.find_columns(VOTE_COLUMNS))
        elif columns.is_long_table:
            self._roles += ("dimension", "rating")
        used_columns = columns.columns_in_use(self._roles).union(response_columns.values())
        column_by_text = columns.find_text_columns(used_columns, label_columns)
        column_by_text |= response_columns
        certain_texts = {*response_columns, *columns.columns_by_name}
        certain_texts.update(filter(columns.must_hold_text, column_by_text))
        certain_columns = {c for name, c in column_by_text.items() if name in certain_texts}
        if not self._problems:
            has_several = len(certain_columns) > 1
            compared_columns = certain_columns if has_several else {*column_by_text.values()}
            check_repeated_rows(columns, compared_columns, label_columns)
        if columns.has_row_per_annotator:
            columns = merge_rows_by_id(columns, label_columns, certain_columns)
        # From here on, the table has one row for each output or pair.
        self._columns = columns
        self._text_columns = {n: c for n, c in column_by_text.items() if columns.has_column(c)}
        other_texts = without_keys(self._text_columns, response_columns)
        self._source_text = columns.find_source_text(other_texts)
        self._required_texts = self._find_required_texts(other_texts).union(response_columns)
        # A row without its output is left out. A row without another required text is a problem.
        self._output_texts = {*filter(is_output_name, self._required_texts), *response_columns}
        if not other_texts and columns.options.texts != ():
            advice = "name the columns that hold the texts, as in --map document=COLUMN"
            if self._file_columns.is_long_table:
                advice = "give the file of outputs, and this one with --annotations FILE"
            names = self._file_columns.column_names_text
            self._problems.add("no-text", f"no column holds texts; the columns are {names}", advice)

    def _find_required_texts(self, texts: Mapping[str, str]) -> set[str]:
        """Return the texts that every row must have; add a problem for each without a column."""
        judge_texts = self._columns.options.texts
        if judge_texts is None:
            # Texts that are neither outputs nor the source text, such as `input`, may be empty.
            return {name for name in texts if is_output_name(name) or name == self._source_text}
        if (only_text := only_text_name(texts, judge_texts)) is not None:
            return {only_text}
        for name in judge_texts:
            if name not in texts:
                _add_missing_column(self._columns, name, name, ", but the judge reads it")
        # Outputs are grouped into documents by the source text, even if no judge reads it.
        if self._source_text is None or self._columns.find_column("group") is not None:
            return {*judge_texts}
        return {*judge_texts, self._source_text}

    @property
    def grouped_by(self) -> str:
        """A phrase that says which rows share a document."""
        if (group_column := self._columns.find_column("group")) is not None:
            return f"by column {group_column!r}"
        if self._source_text is None:
            return "each row is its own document, since there is no group and no source text"
        return f"by identical text {self._source_text!r}, since there is no group"

    def file_reading(self) -> FileReading:
        """Return what each column was read as."""
        columns = self._file_columns
        roles = [role for role in self._roles if role not in (*NESTED_COLUMNS, "rating")]
        columns_by_role = {role: names for role in roles if (names := columns.find_columns([role]))}
        read_columns = [*self._text_columns.values(), *columns.comment_columns]
        read_columns += chain(*columns_by_role.values(), *self._rating_columns.values())
        if columns.ids_are_row_numbers:
            columns_by_role["id"] = (ROW_NUMBER_COLUMN,)
        unread_columns = columns.columns_except({*map(columns.outer_column, read_columns)})
        likely_names = {c: columns.describe_column(c).name_to_suggest for c in unread_columns}
        possible_names = (*self._roles, "input")
        return FileReading(
            rows=columns_by_role,
            texts=self._text_columns,
            ratings=self._rating_columns,
            comments=columns.comment_columns,
            unread=tuple(unread_columns),
            likely_names={c: name for c, name in likely_names.items() if name in possible_names},
        )

    def read_rows(self) -> Iterator[ItemFields]:
        """Yield the fields of each row that has an output and no problem; note empty texts."""
        check_unique_ids(self._columns)
        lines_by_empty_text: dict[str, list[int]] = defaultdict(list)
        for row in self._columns.table.rows:
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
            column, n_rows = self._text_columns[name], len(self._columns.table.rows)
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
        item_id = self._read_name(row, "id") or self._columns.item_id(row)
        texts = {
            name: text
            for name in self._text_columns
            if (text := self._read_text(row, name)) is not None
        }
        system_roles = [role for role in self._roles if role.startswith("system")]
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
        column = self._columns.find_column(role)
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


def check_user_columns(columns: Columns) -> None:
    """Add a problem for each name that --map maps to a missing column, or to too many columns."""
    for name, user_columns in columns.columns_by_name.items():
        for column in user_columns:
            are_row_numbers = (name, column) == ("id", ROW_NUMBER_COLUMN)
            is_known = column in columns.table.columns or are_row_numbers
            if not is_known and all(cell is None for cell in columns.cells_in(column)):
                _add_missing_column(columns, column, name)
        has_one_column = is_source_or_output(name) or name in ROLE_NAMES.difference(VOTE_COLUMNS)
        if has_one_column and len(user_columns) > 1:
            fault = f"is mapped to {len(user_columns)} columns ({joined_names(user_columns)})"
            advice = f"give one --map {name}=COLUMN; only ratings and votes may have several"
            columns.problems.add("two-columns", fault, advice, field=name)


def _add_missing_column(columns: Columns, column: str, name: str, reason: str = "") -> None:
    """Add the problem that the column for `name` is missing or holds no texts."""
    column_exists = columns.has_column(column) and None not in columns.cells_in(column)
    fault = "this column is not read as a text" if column_exists else "there is no such column"
    fault += f"{reason}; the columns are {columns.column_names_text}"
    columns.problems.add("no-column", fault, map_flag_advice(columns, name), field=column)


def map_flag_advice(columns: Columns, name: str) -> str:
    """Return advice to name a column with --map. The advice names a likely column, if any."""
    lookup_key = name_key(name)
    synonyms = next((names for names in (SOURCE_NAMES, OUTPUT_NAMES) if lookup_key in names), ())
    possible_columns = [*(columns.table.columns if synonyms else ()), *columns.nested_key_paths]
    for column in possible_columns:
        column_key = name_key(column.rpartition(KEY_SEPARATOR)[2])
        # A name such as `rel` may be short for `relevance`.
        if column_key in synonyms or (column_key and lookup_key.startswith(column_key)):
            return f"name your column with {map_flag(name, [column])}"
    return f"name your column with {map_flag(name, ['COLUMN'])}"


def check_unique_ids(columns: Columns, advice: str = "give every row an id of its own") -> None:
    """Add a problem for each id that two rows have, unless each row has one annotator's labels.

    `advice` is what the user can do if the two rows are not of different annotators.
    """
    annotator_flag = map_flag("annotator", ["COLUMN"])
    line_by_id, problems = dict[str, int](), columns.problems
    for row in () if columns.has_row_per_annotator else columns.table.rows:
        item_id = columns.item_id(row)
        if (first_line := line_by_id.setdefault(item_id, row.line)) != row.line:
            fault = f"is the id of {problems.unit} {first_line} too"
            full_advice = f"{advice}, or name the column of annotators with {annotator_flag}"
            field = columns.find_column("id")
            problems.add("twice", fault, full_advice, line=row.line, field=field, value=item_id)


def read_comments(columns: Columns) -> Iterator[tuple[TableRow, str, str]]:
    """Yield people's comments, each with its row and its column."""
    for row in columns.table.rows if columns.options.reads_labels else ():
        for column in columns.comment_columns:
            cell = value_at(row.cells, column)
            comment = join_texts(cell) or cell
            if isinstance(comment, str) and not is_blank(comment):
                yield row, column, comment.strip()
