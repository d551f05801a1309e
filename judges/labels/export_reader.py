"""Converts the export of another tool, such as Langfuse, to a table of people's labels.

`judges.labels.tool_exports` declares how each tool's export is recognised and where its labels are.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from judges.labels.cells import KEY_SEPARATOR, as_list, first_value, is_blank, objects_in, value_at
from judges.labels.columns import Columns, without_missing_columns
from judges.labels.names import is_comment_name, is_source_or_output
from judges.labels.options import ReadOptions
from judges.labels.tool_exports import LABEL_EXPORTS, PLACES, LabelExport
from judges.labels.values import normalize_word
from judges.tables.formats import Table
from judges.tables.problems import Problems, UnreadableError, count_text, joined_names
from judges.tables.text import Record, TableRow

# A label with one of these values was withdrawn.
_WITHDRAWN_VALUES = {"was_cancelled": True, "valid": False, "dataType": "CORRECTION"}
# Names that the user may map to columns, but that are not dimensions.
_NON_DIMENSION_NAMES = {"id", "group", "system", "annotator", "judge"}


def convert_tool_export(table: Table, options: ReadOptions, problems: Problems) -> Table:
    """Return a tool's export as a long table: id, dimension, annotator, rating, comment, texts.

    A table that is not a known export is returned unchanged. Raises UnreadableError if the export
    has no texts, if neither it nor another file has labels by people, or if it is unknown whether
    people gave a label.
    """
    # The list ends with the formats that users have added, so they are tried first.
    for export in reversed(LABEL_EXPORTS):
        if all(_has_matching_cell(table, *patterns) for patterns in export.columns.items()):
            return _ExportReader(export, table, options, problems.notes).read()
    return table


def _has_matching_cell(table: Table, column_pattern: str, cell_pattern: str) -> bool:
    """Return whether a column's name matches `column_pattern`, and a cell in it `cell_pattern`."""
    columns = [column for column in table.columns if re.fullmatch(column_pattern, column)]
    match_cell = re.compile(cell_pattern or ".*", re.DOTALL).fullmatch
    return any(match_cell(str(row.cells.get(column))) for column in columns for row in table.rows)


def _read_field(record: Record, field_name: str) -> object:
    """Return a field such as `rating` of a label or output, from the first place that has it."""
    return first_value(record, PLACES[field_name])


class _ExportReader:
    """Reads the outputs and labels in one export, and counts the labels that are left out."""

    def __init__(
        self, export: LabelExport, table: Table, options: ReadOptions, notes: list[str]
    ) -> None:
        self._export, self._table, self._options, self._notes = export, table, options, notes
        # The number of labels or outputs that were left out, by the reason.
        self._n_left_out = Counter[str]()
        self._rows = [*filter(self._keep_row, table.rows)]
        columns = Columns(table, without_missing_columns(options, table))
        self._user_names = columns.by_name.keys()
        # The columns that the user names with --map keep their names and cells.
        user_columns = {*map(columns.outer_name, columns.user_columns)}
        self._user_columns = user_columns.intersection(table.columns)
        # Maps each column that may hold texts to the name under which the texts are read.
        self._name_by_column: dict[str, str] = {}
        for column in columns.except_for(self._user_columns):
            if re.fullmatch(export.unread, column):
                continue
            name = column
            for pattern, other_name in export.names.items():
                if match := re.fullmatch(pattern, column):
                    name = match.expand(other_name)
            # If `Input.summary` is a text, `Answer.summary` has ratings of it and keeps its name.
            is_rating_of_text = is_source_or_output(name) and name in self._name_by_column.values()
            self._name_by_column[column] = column if is_rating_of_text else name

    def _keep_row(self, row: TableRow) -> bool:
        """Return whether a row is read. Rows that the declaration leaves out are counted."""
        for column, pattern in self._export.omitted.items():
            if match := re.fullmatch(pattern, str(row.cells.get(column))):
                self._n_left_out[f"with {column} {match[0]}"] += 1
                return False
        return True

    def read(self) -> Table:
        """Return a long table with one row per label, and one row per output without a label."""
        rows_are_labels = "" in self._export.labels
        output_rows = [] if rows_are_labels else [*map(self._output_row, self._rows)]
        # In Langfuse, people label a trace and also the observations in the trace.
        observations = [
            self._output_row(row._replace(cells=observation))
            for row in self._rows
            for observation in objects_in(row.cells.get("observations"))
        ]
        output_by_id = {str(row.cells.get("id")): row for row in (*observations, *output_rows)}
        label_rows = self._label_rows(output_by_id)
        labelled_ids = {row.cells["id"] for row in label_rows}
        unlabelled_rows = [row for row in output_rows if row.cells.get("id") not in labelled_ids]
        rows = [*label_rows, *filter(self._keep_unlabelled_row, unlabelled_rows)]
        note = self._summary_note(len(label_rows))
        if not label_rows and self._needs_labels():
            reason = "" if self._export.labels else ", which does not say who rated"
            raise UnreadableError("no-rating", f"is {note}{reason}", self._export.advice)
        if not output_rows and self._options.texts != ():
            raise UnreadableError("no-text", f"is {note}, without texts", self._export.advice)
        self._notes.append(note)
        rows.sort(key=lambda row: row.line)
        return self._table.with_rows(row._replace(number=n) for n, row in enumerate(rows, 1))

    def _keep_unlabelled_row(self, row: TableRow) -> bool:
        """Return whether an unlabelled output has all texts. Outputs that lack one are counted."""
        is_incomplete = self._export.labels != {} and any(map(is_blank, row.cells.values()))
        if is_incomplete:
            self._n_left_out["outputs without a label and without a text"] += 1
        return not is_incomplete

    def _summary_note(self, n_labels: int) -> str:
        """Return a note with the tool's name, and the numbers of labels read and left out."""
        note = f"an export of {self._export.tool}"
        if self._export.labels:
            note += f": {count_text(n_labels, 'label')} by people"
        if self._n_left_out:
            reasons = [f"{number:,} {reason}" for reason, number in self._n_left_out.items()]
            note += f" (left out: {joined_names(reasons)})"
        return note

    def _output_row(self, row: TableRow) -> TableRow:
        """Return a row with only an output's id, its texts and the columns that the user names."""
        if self._export.texts == "*":
            names = self._name_by_column.items()
            cells = {name: _unwrap_rating(row.cells.get(column)) for column, name in names}
        elif self._export.texts:
            cells = {}
            for texts_by_name in objects_in(row.cells[self._export.texts]):
                cells |= texts_by_name
        else:
            cells = {name: _read_field(row.cells, name) for name in ("input", "output")}
        cells |= {column: row.cells.get(column) for column in self._user_columns}
        output_id = _read_field(row.cells, "id")
        return row._replace(cells=cells if output_id is None else {**cells, "id": str(output_id)})

    def _needs_labels(self) -> bool:
        """Return whether the export itself must have labels: the user names no other labels."""
        if self._options.annotations or not self._options.reads_labels:
            return False
        other_names = self._user_names - _NON_DIMENSION_NAMES
        return self._export.advice != "" and all(map(is_source_or_output, other_names))

    def _label_rows(self, output_by_id: Mapping[str, TableRow]) -> list[TableRow]:
        """Return the rows of people's labels, with the outputs' texts and the comments."""
        unfiltered_rows, multiple_choice_dimensions = list[TableRow](), set[object]()
        # Maps the id of an output and an annotator to the annotator's comments on this output.
        all_comments: dict[object, list[object]] = defaultdict(list)
        for row, label in self._iterate_labels():
            cells = self._label_cells(row, label, output_by_id)
            if cells is None:
                continue
            comments_of_annotator = all_comments[cells["id"], cells["annotator"]]
            # Some exports have comments as labels on a dimension such as `comment`.
            if is_comment_name(str(cells["dimension"])) and isinstance(cells["rating"], str):
                comments_of_annotator.append(cells["rating"])
            else:
                unfiltered_rows.append(row._replace(cells=cells))
            if isinstance(cells["rating"], list):
                multiple_choice_dimensions.add(cells["dimension"])
        label_rows: list[TableRow] = []
        for row in unfiltered_rows:
            cells = row.cells
            # Several answers to a multiple-choice question are not a rating.
            if cells["dimension"] in multiple_choice_dimensions:
                self._n_left_out[f"multiple choices on {cells['dimension']}"] += 1
                continue
            comment_texts = (cells.pop("comment"), *all_comments[cells["id"], cells["annotator"]])
            if comment := "\n".join(map(str, filter(None, comment_texts))):
                cells["comment"] = comment
            label_rows.append(row)
        return label_rows

    def _iterate_labels(self) -> Iterator[tuple[TableRow, Record]]:
        """Yield each label with its row. The key `source` of a label says who gave the label."""
        for row in self._rows:
            for place, source in self._export.labels.items():
                for label in _labels_at(row.cells, place):
                    yield row, {**label, "source": source or _read_field(label, "source")}

    def _label_cells(
        self, row: TableRow, label: Record, output_by_id: Mapping[str, TableRow]
    ) -> Record | None:
        """Return the cells of a label for the long table, or None if the label is left out."""
        dimension = self._options.dimension_in(_read_field(label, "dimension"))
        if not (self._options.includes_dimension(dimension) or is_comment_name(dimension)):
            return None
        if reason := self._reason_to_leave_out(label, row.line):
            self._n_left_out[reason] += 1
            return None
        output_id = _read_field(label, "output_id")
        if not (output_id or "" in self._export.labels):
            output_id = _read_field(row.cells, "id")
        rating, comment = _rating_of(label), _read_field(label, "comment")
        is_known_output = str(output_id) in output_by_id if output_by_id else bool(output_id)
        if not is_known_output:
            self._n_left_out["of outputs that are not in the file"] += 1
        elif rating is None and comment is None:
            self._n_left_out["without a rating"] += 1
        else:
            texts = output_by_id[str(output_id)].cells if output_by_id else {}
            cells = {**texts, "comment": comment, "annotator": _read_field(label, "annotator")}
            return cells | {"dimension": dimension, "rating": rating, "id": str(output_id)}
        return None

    def _reason_to_leave_out(self, label: Record, line: int) -> str:
        """Return why a label is left out; "" for a person's label.

        Raises UnreadableError if it is unknown whether the label's source is a person.
        """
        if any(value_at(label, name) == value for name, value in _WITHDRAWN_VALUES.items()):
            return "withdrawn"
        source = str(label["source"] or "unknown")
        declared_meaning = self._export.sources.get(source)
        is_person = self._options.number_by_word.get(normalize_word(source), declared_meaning)
        if is_person is None:
            fault = f"gave labels in {self._export.tool}, and may be people or a model"
            flag = f"--values {source}="
            advice = f"say which: {flag}1 if people gave them, {flag}0 to leave them out"
            raise UnreadableError("whose-label", fault, advice, source, line)
        return "" if is_person == 1 else source


def _labels_at(record: Record, place: str) -> Iterator[Record]:
    """Yield the labels at a place in a row, each with the fields of the objects around it."""
    if not place:
        yield record
    elif re.compile(place).groups:
        for match in filter(None, (re.fullmatch(place, column) for column in record)):
            yield from _labels_in_column(record, match[0], match[1])
    else:
        key, _, inner_place = place.partition(KEY_SEPARATOR)
        for inner_object in objects_in(record.get(key)):
            yield from _labels_at({**record, **inner_object}, inner_place)


def _labels_in_column(cells: Record, column: str, dimension: str) -> Iterator[Record]:
    """Yield the labels that a column lists. Columns `COLUMN.KEY` list the labels' other fields."""
    prefix = f"{column}{KEY_SEPARATOR}"
    field_columns = [name for name in cells if name.startswith(prefix)]
    list_by_key = {name.removeprefix(prefix): as_list(cells[name]) for name in field_columns}
    for position, value in enumerate(as_list(cells[column])):
        other_lists = {key: cell for key, cell in list_by_key.items() if position < len(cell)}
        other_fields = {key: cell[position] for key, cell in other_lists.items()}
        yield {**other_fields, "name": dimension, "value": value}


def _rating_of(label: Record) -> object:
    """Return a label's rating, which may be in a list of one; None if it is missing or a dict."""
    rating = _read_field(label, "rating")
    if isinstance(rating, list) and len(rating) == 1:
        rating = rating[0]
    return None if isinstance(rating, dict) else rating


def _unwrap_rating(cell: object) -> object:
    """Return the rating in a list of one object, as Label Studio writes it; else the cell."""
    ratings = [_rating_of({"value": rated_object}) for rated_object in objects_in(cell)]
    return cell if len(ratings) != 1 or ratings[0] is None else ratings[0]
