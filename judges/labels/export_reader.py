"""Reads an export of another tool, by its declaration in `judges.labels.tool_exports`."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product

from judges.labels.cells import KEY_SEPARATOR, as_list, first_value, is_blank, objects_in, value_at
from judges.labels.columns import Columns
from judges.labels.names import is_comment_name, is_source_or_output
from judges.labels.ratings import ReadOptions
from judges.labels.tool_exports import LABEL_EXPORTS, PLACES, LabelExport
from judges.labels.values import normalize_word
from judges.tables.formats import Table
from judges.tables.problems import UnreadableError, count_text, joined_names
from judges.tables.text import Record, TableRow

# A label with one of these values was withdrawn.
_WITHDRAWN_VALUES = {"was_cancelled": True, "valid": False, "dataType": "CORRECTION"}
# Names in the user's mapping that are not dimensions.
_NON_DIMENSION_NAMES = {"id", "group", "system", "annotator", "judge"}


def convert_tool_export(table: Table, options: ReadOptions) -> Table:
    """Return a tool's export as a long table: id, dimension, annotator, rating, comment, texts.

    A table that is not a known export is returned unchanged. Raises UnreadableError if there are no
    texts, if neither the export nor another file has labels by people, or if it is unknown whether
    people gave a label.
    """
    for export in reversed(LABEL_EXPORTS):
        if all(_has_cell(table, column, cell) for column, cell in export.columns.items()):
            return _ExportReader(export, table, options).read()
    return table


def _has_cell(table: Table, column_pattern: str, cell_pattern: str) -> bool:
    """Return whether a matching column has a matching cell; an empty pattern matches any."""
    columns = [name for name in table.columns if re.fullmatch(column_pattern, name)]
    match_cell = re.compile(cell_pattern or ".*", re.DOTALL).fullmatch
    return any(match_cell(str(row.cells.get(name))) for name in columns for row in table.rows)


def _field(cells: Record, name: str) -> object:
    """Return the field of a label or output at the first of its `PLACES` that is not blank."""
    return first_value(cells, PLACES[name])


class _ExportReader:
    """Reads the outputs and labels in one export, and counts the labels that are left out."""

    def __init__(self, export: LabelExport, table: Table, options: ReadOptions) -> None:
        self._export, self._options = export, options
        self._number_by_word = options.number_by_word
        # The number of labels that were left out, by who gave them or by another reason.
        self._n_omitted = Counter[str]()
        self._table = replace(table, rows=tuple(filter(self._is_kept, table.rows)))
        columns = Columns(table, options.columns_by_name)
        # The columns in the user's mapping keep their names and cells.
        self._mapped_columns = {*table.columns} & {
            *map(columns.outer_column, columns.mapped_columns)
        }
        # Maps each column that may be a text to the name by which it is read.
        self._text_names: dict[str, str] = {}
        for column in columns.columns_except(self._mapped_columns):
            name = self._name_to_read_by(column)
            # If `Input.summary` is a text, `Answer.summary` rates it, and so keeps its own name.
            is_rating_of_text = is_source_or_output(name) and name in self._text_names.values()
            if not re.fullmatch(export.unread, column):
                self._text_names[column] = column if is_rating_of_text else name

    def _name_to_read_by(self, column: str) -> str:
        """Return the name that the declaration gives to a column; by default, the column's own."""
        for pattern, name in self._export.names.items():
            if match := re.fullmatch(pattern, column):
                return match.expand(name)
        return column

    def _is_kept(self, row: TableRow) -> bool:
        """Return whether a row is read; a row that the declaration omits is counted."""
        for column, pattern in self._export.omitted.items():
            if match := re.fullmatch(pattern, str(row.cells.get(column))):
                self._n_omitted[f"with {column} {match[0]}"] += 1
                return False
        return True

    def read(self) -> Table:
        """Return a long table with one row per label, and one row per output without a label."""
        rows_are_labels = "" in self._export.labels
        output_rows = [] if rows_are_labels else [*map(self._output_row, self._table.rows)]
        # A trace of Langfuse has labels on itself and on the observations in it.
        observations = [
            self._output_row(row._replace(cells=observation))
            for row in self._table.rows
            for observation in objects_in(row.cells.get("observations"))
        ]
        outputs = {str(row.cells.get("id")): row for row in (*observations, *output_rows)}
        label_rows = self._label_rows(outputs)
        unlabelled_rows = self._unlabelled_outputs(output_rows, label_rows)
        note = f"an export of {self._export.tool}"
        if self._export.labels:
            note += f": {count_text(len(label_rows), 'label')} by people"
        if omissions := [f"{number:,} {source}" for source, number in self._n_omitted.items()]:
            note += f" (left out: {joined_names(omissions)})"
        if not label_rows and self._needs_labels():
            missing_source = "" if self._export.labels else ", which does not say who rated"
            raise UnreadableError("no-rating", f"is {note}{missing_source}", self._export.advice)
        if not output_rows and self._options.texts != ():
            raise UnreadableError("no-text", f"is {note}, without texts", self._export.advice)
        rows = sorted([*label_rows, *unlabelled_rows], key=lambda row: row.line)
        return replace(
            self._table,
            columns=tuple(dict.fromkeys(chain.from_iterable(row.cells for row in rows))),
            rows=tuple(row._replace(row_number=n) for n, row in enumerate(rows, 1)),
            notes=(*self._table.notes, note),
        )

    def _output_row(self, row: TableRow) -> TableRow:
        """Return a row with only its id, its texts and the columns in the user's mapping."""
        cells: Record = {}
        if self._export.texts == "*":
            names = self._text_names.items()
            cells = {name: _unwrap_rating(row.cells.get(column)) for column, name in names}
        elif self._export.texts:
            for texts_by_name in objects_in(row.cells[self._export.texts]):
                cells |= texts_by_name
        else:
            cells = {name: _field(row.cells, name) for name in ("input", "output")}
        cells |= {column: row.cells.get(column) for column in self._mapped_columns}
        if (item_id := _field(row.cells, "id")) is not None:
            cells["id"] = str(item_id)
        return row._replace(cells=cells)

    def _unlabelled_outputs(
        self, outputs: Iterable[TableRow], labels: Sequence[TableRow]
    ) -> list[TableRow]:
        """Return the rows of outputs without a label; those without a text are left out."""
        labelled_ids = {row.cells["id"] for row in labels}
        unlabelled_rows = [row for row in outputs if row.cells.get("id") not in labelled_ids]
        if not self._export.labels:
            return unlabelled_rows
        complete = [row for row in unlabelled_rows if not any(map(is_blank, row.cells.values()))]
        if n_incomplete := len(unlabelled_rows) - len(complete):
            self._n_omitted["outputs without a label and without a text"] = n_incomplete
        # A long table needs a dimension in every row, also without a label.
        dimension = {"dimension": labels[0].cells["dimension"]} if labels else {}
        return [row._replace(cells=row.cells | dimension) for row in complete]

    def _needs_labels(self) -> bool:
        """Return whether the export must have labels, since the user names no others."""
        dimension_names = self._options.columns_by_name.keys() - _NON_DIMENSION_NAMES
        if self._options.annotations or not all(map(is_source_or_output, dimension_names)):
            return False
        return self._options.reads_labels and self._export.advice != ""

    def _label_rows(self, outputs: Mapping[str, TableRow]) -> list[TableRow]:
        """Return the rows of people's labels, with the outputs' texts and the comments."""
        rows, list_dimensions = list[TableRow](), set[object]()
        comments: dict[object, list[object]] = defaultdict(list)
        for row, (path, source) in product(self._table.rows, self._export.labels.items()):
            for entry in _label_entries(row.cells, path):
                cells = self._label_cells(row, entry, source, outputs)
                if cells is None:
                    continue
                # In some exports, a comment is written like a label.
                if is_comment_name(str(cells["dimension"])) and isinstance(cells["rating"], str):
                    comments[cells["id"], cells["annotator"]].append(cells["rating"])
                else:
                    rows.append(row._replace(cells=cells))
                if isinstance(cells["rating"], list):
                    list_dimensions.add(cells["dimension"])
        label_rows: list[TableRow] = []
        for row in rows:
            cells = row.cells
            # Several choices at once, as in a multiple-choice question, are not a rating.
            if cells["dimension"] in list_dimensions:
                self._n_omitted[f"multiple choices on {cells['dimension']}"] += 1
                continue
            comment_texts = cells.pop("comment"), *comments[cells["id"], cells["annotator"]]
            if comment := "\n".join(map(str, filter(None, comment_texts))):
                cells["comment"] = comment
            label_rows.append(row)
        return label_rows

    def _label_cells(
        self, row: TableRow, entry: Record, source: str, outputs: Mapping[str, TableRow]
    ) -> Record | None:
        """Return the cells of a label for the long table, or None if the label is left out."""
        dimension = self._options.dimension_in(_field(entry, "dimension"))
        is_requested = self._options.includes_dimension(dimension) or is_comment_name(dimension)
        source = source or str(_field(entry, "source") or "unknown")
        if not (is_requested and self._is_by_person(entry, source, row.line)):
            return None
        output_cells = {} if "" in self._export.labels else row.cells
        output_id = _field(entry, "output_id") or _field(output_cells, "id")
        label: Record = {name: _field(entry, name) for name in ("comment", "annotator")}
        label |= {"dimension": dimension, "rating": _entry_rating(entry), "id": str(output_id)}
        if not (str(output_id) in outputs if outputs else output_id):
            self._n_omitted["of outputs that are not in the file"] += 1
            return None
        if label["rating"] is None and label["comment"] is None:
            self._n_omitted["without a rating"] += 1
            return None
        return {**outputs[str(output_id)].cells, **label} if outputs else label

    def _is_by_person(self, entry: Record, source: str, line: int) -> bool:
        """Return whether a person gave the label; raises UnreadableError for an unknown source."""
        is_human = self._number_by_word.get(
            normalize_word(source), self._export.sources.get(source)
        )
        if any(value_at(entry, name) == value for name, value in _WITHDRAWN_VALUES.items()):
            source, is_human = "withdrawn", 0
        if is_human is None:
            fault = f"gave labels in {self._export.tool}, and may be people or a model"
            flag = f"--values {source}="
            advice = f"say which: {flag}1 if people gave them, {flag}0 to leave them out"
            raise UnreadableError("whose-label", fault, advice, source, line)
        if is_human != 1:
            self._n_omitted[source] += 1
        return is_human == 1


def _label_entries(cells: Record, path: str) -> Iterator[Record]:
    """Yield the objects at a path in a row, each with the fields of the objects around it."""
    key, _, inner_path = path.partition(KEY_SEPARATOR)
    if not path:
        yield cells
    elif re.compile(path).groups:
        for match in filter(None, (re.fullmatch(path, column) for column in cells)):
            yield from _column_entries(cells, match[0], match[1])
    else:
        for inner_object in objects_in(cells.get(key)):
            yield from _label_entries({**cells, **inner_object}, inner_path)


def _column_entries(cells: Record, column: str, dimension: str) -> Iterator[Record]:
    """Yield each value in a column's list, and its fields from the lists in `column.KEY`."""
    prefix = f"{column}{KEY_SEPARATOR}"
    lists = {
        other_column.removeprefix(prefix): as_list(cells[other_column])
        for other_column in cells
        if other_column.startswith(prefix)
    }
    for position, value in enumerate(as_list(cells[column])):
        fields = {key: values[position] for key, values in lists.items() if position < len(values)}
        yield {**fields, "name": dimension, "value": value}


def _entry_rating(entry: Record) -> object:
    """Return the rating in an entry; None for an object, or if there is no rating."""
    value = _field(entry, "rating")
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return None if isinstance(value, dict) else value


def _unwrap_rating(cell: object) -> object:
    """Return the rating in a cell with a list of one object, as in Label Studio; else the cell."""
    ratings = [_entry_rating({"value": value}) for value in objects_in(cell)]
    return cell if len(ratings) != 1 or ratings[0] is None else ratings[0]
