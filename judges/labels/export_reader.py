"""Reads an export of another tool, by its declaration in `judges.labels.tool_exports`."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product

from dspy_judges.column_names import name_key
from judges.labels.cells import KEY_SEPARATOR, as_list, first_value, is_blank, objects_in, value_at
from judges.labels.columns import Columns
from judges.labels.names import is_comment_name, is_source_or_output
from judges.labels.ratings import ReadOptions
from judges.labels.tool_exports import LABEL_EXPORTS, PLACES, LabelExport
from judges.labels.values import normalize_word
from judges.tables.formats import Table
from judges.tables.problems import UnreadableError, count, joined_names
from judges.tables.text import Record, TableRow

# A label with one of these values was withdrawn.
_WITHDRAWN_VALUES = {"was_cancelled": True, "valid": False, "dataType": "CORRECTION"}
# Names in the user's mapping that are not dimensions.
_NON_DIMENSION_NAMES = {"id", "group", "system", "annotator", "judge"}


def convert_tool_export(table: Table, options: ReadOptions, *, has_outputs: bool = True) -> Table:
    """Return a tool's export as a long table: id, dimension, annotator, rating, comment, texts.

    A table that is not a known export is returned unchanged. A note says how many labels were read,
    and which were left out. With `has_outputs`, the table must have the outputs' texts, since no
    other file has them. Raises UnreadableError if an export has no texts or no labels by people, or
    if it has labels from an unknown source.
    """
    for export in LABEL_EXPORTS:
        if all(_has_cell(table, column, cell) for column, cell in export.columns.items()):
            return _ExportReader(export, table, options).read(has_outputs=has_outputs)
    return table


def _has_cell(table: Table, column_pattern: str, cell_pattern: str) -> bool:
    """Return whether a matching column has a matching cell; "" as `cell_pattern` matches any."""
    columns = [name for name in table.columns if re.fullmatch(column_pattern, name)]
    match_cell = re.compile(cell_pattern or ".*", re.DOTALL).fullmatch
    return any(match_cell(str(row.cells.get(name))) for name in columns for row in table.rows)


def _field(cells: Record, name: str) -> object:
    """Return the field of a label or output at the first of its `PLACES` that is not blank."""
    return first_value(cells, PLACES[name])


class _ExportReader:
    """Reads the outputs and labels in one export."""

    def __init__(self, export: LabelExport, table: Table, options: ReadOptions) -> None:
        self._export, self._table, self._options = export, table, options
        columns = Columns(table, options.map)
        # The columns in the user's mapping keep their names and cells.
        used_columns = {*map(columns.outer_column, columns.mapped_columns)}
        self._mapped_columns = used_columns & {*table.columns}
        names = [*table.columns]
        for pattern, name in export.names.items():
            names = [re.sub(f"^(?:{pattern})$", name, column) for column in names]
        self._names = {
            column: name
            for column, name in zip(table.columns, names, strict=True)
            if names.count(name) == 1 and column not in self._mapped_columns
        }
        self._dimensions = {name_key(name): name for name in options.dimensions or ()}
        self._words = {normalize_word(word): number for word, number in options.values.items()}
        # The number of labels that were left out, by their source or by another reason.
        self._n_omitted = Counter[str]()
        for column, pattern in export.omitted.items():
            rows, cells = self._table.rows, [str(row.cells.get(column)) for row in table.rows]
            are_omitted = [*map(re.compile(pattern).fullmatch, cells)]
            self._n_omitted.update(f"with {column} {match[0]}" for match in are_omitted if match)
            kept_rows = tuple(
                row for row, match in zip(rows, are_omitted, strict=True) if not match
            )
            self._table = replace(self._table, rows=kept_rows)

    def read(self, *, has_outputs: bool) -> Table:
        """Return a long table with one row per label, and one row per output without a label."""
        rows_are_labels = "" in self._export.labels
        output_rows = [] if rows_are_labels else [*map(self._output_row, self._table.rows)]
        label_rows = self._label_rows(self._outputs_by_id(output_rows))
        unlabelled_rows = self._unlabelled_outputs(output_rows, label_rows)
        note = self._describe_labels(len(label_rows))
        if not label_rows and self._needs_labels(has_outputs):
            missing_source = "" if self._n_omitted.total() else ", which does not say who rated"
            raise UnreadableError("no-rating", f"is {note}{missing_source}", self._export.advice)
        if has_outputs and not output_rows and self._options.texts != ():
            raise UnreadableError("no-text", f"is {note}, without texts", self._export.advice)
        rows = sorted([*label_rows, *unlabelled_rows], key=lambda row: row.line)
        return replace(
            self._table,
            columns=tuple(dict.fromkeys(chain.from_iterable(row.cells for row in rows))),
            rows=tuple(row._replace(number=number) for number, row in enumerate(rows, 1)),
            notes=(*self._table.notes, note),
        )

    def _outputs_by_id(self, outputs: Sequence[TableRow]) -> dict[str, TableRow]:
        """Return the rows of outputs, and of observations inside Langfuse traces, by their ids."""
        observations = [
            self._output_row(row._replace(cells=observation))
            for row in self._table.rows
            for observation in objects_in(row.cells.get("observations"))
        ]
        return {str(row.cells.get("id")): row for row in (*observations, *outputs)}

    def _unlabelled_outputs(
        self, outputs: Sequence[TableRow], labels: Sequence[TableRow]
    ) -> list[TableRow]:
        """Return the rows of outputs without a label.

        If the export has labels, an output that lacks a text is left out and counted.
        """
        labelled_ids = {row.cells["id"] for row in labels}
        unlabelled_rows = [row for row in outputs if row.cells.get("id") not in labelled_ids]
        if not self._export.labels:
            return unlabelled_rows
        complete = [row for row in unlabelled_rows if not any(map(is_blank, row.cells.values()))]
        n_incomplete = len(unlabelled_rows) - len(complete)
        self._n_omitted["outputs without a label and without a text"] = n_incomplete
        # A long table needs a dimension in every row, also without a label.
        dimension = {"dimension": labels[0].cells["dimension"]} if labels else {}
        return [row._replace(cells=row.cells | dimension) for row in complete]

    def _describe_labels(self, n_labels: int) -> str:
        """Return a note that names the tool and says how many labels were read and left out."""
        note = f"an export of {self._export.tool}"
        if not (n_labels or self._n_omitted.total()):
            return note
        omissions_text = joined_names(
            [f"{n_omitted:,} {source}" for source, n_omitted in (+self._n_omitted).items()]
        )
        labels_text = f": {count(n_labels, 'label')} by people" if self._export.labels else ""
        return f"{note}{labels_text} (left out: {omissions_text})"

    def _needs_labels(self, has_outputs: bool) -> bool:
        """Return whether labels must come from the export, since nothing else has any."""
        if not (self._options.reads_labels and self._export.advice and has_outputs):
            return self._options.reads_labels and self._export.advice != ""
        dimension_names = self._options.map.keys() - _NON_DIMENSION_NAMES
        has_mapped_labels = not all(map(is_source_or_output, dimension_names))
        return not (has_mapped_labels or self._options.annotations)

    def _output_row(self, row: TableRow) -> TableRow:
        """Return a row with only its id, its texts and the columns in the user's mapping."""
        texts, unread = self._export.texts, re.compile(self._export.unread)
        cells: Record = {}
        if texts == "*":
            cells = {
                self._names.get(name, name): _unwrap_rating(cell)
                for name, cell in row.cells.items()
                if not unread.fullmatch(name)
            }
        elif texts:
            for texts_by_name in objects_in(row.cells[texts]):
                cells |= texts_by_name
        else:
            cells = {name: _field(row.cells, name) for name in ("input", "output")}
        cells |= {column: row.cells.get(column) for column in self._mapped_columns}
        if (name := _field(row.cells, "id")) is not None:
            cells["id"] = str(name)
        return row._replace(cells=cells)

    def _label_rows(self, outputs: Mapping[str, TableRow]) -> list[TableRow]:
        """Return the rows of people's labels, with the outputs' texts and the comments."""
        label_rows: list[TableRow] = []
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
                    label_rows.append(row._replace(cells=cells))
        # Several choices at once, as in a multiple-choice question, are not a rating.
        list_dimensions = {
            row.cells["dimension"] for row in label_rows if isinstance(row.cells["rating"], list)
        }
        dimensions = [row.cells["dimension"] for row in label_rows]
        self._n_omitted.update(
            f"multiple choices on {name}" for name in dimensions if name in list_dimensions
        )
        label_rows = [row for row in label_rows if row.cells["dimension"] not in list_dimensions]
        for cells in (row.cells for row in label_rows):
            comment_texts = cells["comment"], *comments[cells["id"], cells["annotator"]]
            cells["comment"] = "\n".join(map(str, filter(None, comment_texts)))
            if not cells["comment"]:
                del cells["comment"]
        return label_rows

    def _label_cells(
        self, row: TableRow, entry: Record, source: str, outputs: Mapping[str, TableRow]
    ) -> Record | None:
        """Return the cells of a label for the long table, or None if the label is left out.

        A label on a dimension that is not read is left out. A label is left out and counted if no
        person gave it, if its output is not in the file, or if it has no rating and no comment.
        """
        name = str(_field(entry, "dimension"))
        dimension = self._dimensions.get(name_key(name), name)
        is_requested = self._options.reads(dimension) or is_comment_name(dimension)
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
        """Return whether a person gave the label; raises UnreadableError if its source is unknown.

        A label from another source, or a withdrawn one, is counted in `_n_omitted`.
        """
        is_human = self._words.get(normalize_word(source), self._export.sources.get(source))
        if any(value_at(entry, name) == value for name, value in _WITHDRAWN_VALUES.items()):
            source, is_human = "withdrawn", 0
        elif is_human is None and normalize_word(source) not in self._words:
            fault = f"gave labels in {self._export.tool}, and may be people or a model"
            flag = f"--values {source}="
            advice = f"say which: {flag}1 if people gave them, {flag}0 to leave them out"
            raise UnreadableError("whose-label", fault, advice, source, line)
        self._n_omitted[source] += is_human != 1
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
    """Return the rating in an entry; None if there is none, or if it is an object."""
    value = _field(entry, "rating")
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return None if isinstance(value, dict) else value


def _unwrap_rating(cell: object) -> object:
    """Return the rating in a cell with a list of one object, as in Label Studio; else the cell."""
    ratings = [_entry_rating({"value": value}) for value in objects_in(cell)]
    return cell if len(ratings) != 1 or ratings[0] is None else ratings[0]
