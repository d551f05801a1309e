"""Reads the id, document, systems, texts and comments of each output or pair."""

import hashlib
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
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
from judges.labels.columns import NESTED_COLUMNS, ROW_NUMBER_COLUMN, Columns
from judges.labels.names import is_output_name, is_text_name, map_flag, only_text_name
from judges.labels.preparation import SAMPLING_COLUMNS, SWAP_SAMPLE_COLUMN
from judges.labels.repeated_rows import check_repeated_rows, check_unique_ids, merge_rows_by_id
from judges.labels.roles import RESPONSE_NAMES, Roles, add_missing_column
from judges.labels.text_roles import find_source_text
from judges.labels.types import FileReading
from judges.tables.problems import NO_VALUE, Problems, count_text, excerpt
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
        self._response_names = RESPONSE_NAMES if roles.are_pairs else ()
        other_texts = without_keys(self._text_columns, self._response_names)
        merged_columns = Columns(replace(columns.table, rows=tuple(self._rows)), roles.options)
        text_columns = {name: merged_columns.column(c) for name, c in other_texts.items()}
        self._source_text = find_source_text(text_columns)
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
        columns, ratings = self._roles.columns, self._roles.all_ratings
        roles = [role for role in self._roles.names if role not in (*NESTED_COLUMNS, "rating")]
        columns_by_role = {role: names for role in roles if (names := columns.find_all([role]))}
        read_columns = [*self._text_columns.values(), *self._roles.comments]
        read_columns += chain(*columns_by_role.values(), *ratings.values())
        if self._roles.ids_are_numbers:
            columns_by_role["id"] = (ROW_NUMBER_COLUMN,)
        unread_columns = columns.except_for({*map(columns.outer_name, read_columns)})
        likely_names = {name: columns.column(name).name_to_suggest for name in unread_columns}
        possible_names = (*self._roles.names, "input")
        return FileReading(
            rows=columns_by_role,
            texts=self._text_columns,
            ratings=ratings,
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
