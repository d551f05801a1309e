"""Reads people's labels from the exports of other tools, such as Langfuse or Argilla.

Each export is declared by how it is recognised and where its labels are. docs/labels.md says which
files, or which source code, of the tools this is based on.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dspy_judges.column_names import name_key
from judges.labels.cells import DOT, first_value, is_blank, list_in, objects_in, value_at
from judges.labels.columns import Columns, is_comment
from judges.labels.names import is_source_or_output
from judges.labels.ratings import ReadOptions
from judges.labels.values import normalize_word
from judges.tables.formats import Table
from judges.tables.problems import UnreadableError, count, joined_names
from judges.tables.text import Row, TableRow

# A pattern of cells that hold a list or an object, written as JSON or printed by Python.
LIST_OR_OBJECT = r"\s*[\[{].*"


@dataclass(frozen=True, slots=True)
class LabelExport:
    """Declares one form of a tool's exports: how to recognise it, and where its labels are.

    Attributes:
        tool: The tool's name, for messages.
        columns: Maps patterns (regular expressions) of columns to patterns of cells ("" matches any
            cell). A table is such an export if, for each entry, a column and a cell in it match.
        advice: What to do if the table has no texts, or no labels that say who gave them.
        labels: Maps each place of labels in a row to who gave them ("" if each label says so). A
            place is a path through objects and lists, "" for the row itself, or a pattern of
            columns of lists, whose group is the dimension. No labels: rows have only outputs.
        sources: Maps each source of labels to whether its labels were given by people and
            submitted.
        texts: A column of objects that hold the texts by name; "*" if all columns may be texts; ""
            if the texts are one input and one output.
        unread: A pattern of columns that are never texts.
    """

    tool: str
    columns: Mapping[str, str]
    advice: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, bool] = field(default_factory=dict)
    texts: str = ""
    unread: str = ""


_ADVICE = "give their file with --annotations FILE, and the outputs, too"
_LANGFUSE = LabelExport(
    "Langfuse",
    {"htmlPath": "", "scores": LIST_OR_OBJECT},
    f"export each trace by api.trace.get(ID), or export the scores and {_ADVICE}",
    {"scores": ""},
    sources={"ANNOTATION": True, "EVAL": False, "API": False},
)
_LANGFUSE_SCORES = {"source": "|".join(_LANGFUSE.sources), "dataType": ""}
# Tables of traces and of observations, which do not say who gave their scores.
_LANGFUSE_TABLE = {"traceId|bookmarked": "", "level": "DEBUG|DEFAULT|WARNING|ERROR", "input": ""}
_PHOENIX = LabelExport(
    "Phoenix",
    {r"context(\.span_id)?": "", "span_kind": "[A-Z]+"},
    f"export get_spans_dataframe; export labels by get_span_annotations_dataframe and {_ADVICE}",
    {"annotations": ""},
    sources={"HUMAN": True, "LLM": False, "CODE": False},
)
_PHOENIX_LABELS = {"span_id": "", "annotator_kind": "|".join(_PHOENIX.sources)}
_LANGSMITH = LabelExport(
    "LangSmith",
    {"run_id": "", "key": "", "feedback_source": LIST_OR_OBJECT},
    f"export list_runs; export labels by list_feedback and {_ADVICE}",
    {"": ""},
    sources={"app": True, "api": False, "model": False, "auto_eval": False, "evaluator": False},
)
_LANGSMITH_FRAME = {"run_id": "", "key": "", r"feedback_source\.type": ""}
_LANGSMITH_RUNS = {"run_type": "", "inputs": LIST_OR_OBJECT, "outputs": LIST_OR_OBJECT}
_LANGSMITH_RESULTS = {r"inputs\..+": "", r"outputs\..+": "", r"feedback\..+": ""}
# The known exports, in the order in which they are tried. To read another one, add an entry
# (docs/extend.md).
LABEL_EXPORTS = [
    _LANGFUSE,
    replace(_LANGFUSE, columns=_LANGFUSE_SCORES, labels={"": ""}),
    replace(_LANGFUSE, columns=_LANGFUSE_TABLE, labels={}),
    _PHOENIX,
    replace(_PHOENIX, columns=_PHOENIX_LABELS, labels={"": ""}),
    _LANGSMITH,
    replace(_LANGSMITH, columns=_LANGSMITH_FRAME),
    replace(_LANGSMITH, columns=_LANGSMITH_RUNS, labels={}),
    replace(_LANGSMITH, columns=_LANGSMITH_RESULTS, labels={}, texts="*", unread=r"feedback\..+"),
    LabelExport(
        "Label Studio",
        {"data": LIST_OR_OBJECT, "annotations": LIST_OR_OBJECT, "predictions|inner_id": ""},
        "export the project as JSON when people have labelled it",
        {"annotations.result": "annotations", "predictions.result": "predictions"},
        sources={"annotations": True, "predictions": False},
        texts="data",
    ),
    LabelExport(
        "Label Studio",
        {"annotation_id": "", "annotator": "", "lead_time": ""},
        texts="*",
        unread="annotation_id|lead_time|created_at|updated_at",
    ),
    LabelExport(
        "Argilla",
        {r".+\.responses": "", r".+\.responses\.status": ""},
        "export records.to_list(flatten=True) when people have submitted responses",
        {r"(.+)\.responses": "", r"(.+)\.suggestion": "suggestion"},
        sources={"submitted": True, "draft": False, "discarded": False, "suggestion": False},
        texts="*",
        unread=r".+\.(responses|suggestion)(\..+)?|status|_server_id",
    ),
    LabelExport(
        "Argilla",
        {"fields": LIST_OR_OBJECT, "responses": LIST_OR_OBJECT, "suggestions": ""},
        "only records.to_list(flatten=True) says which responses are submitted",
        texts="fields",
    ),
    LabelExport(
        "Braintrust",
        {"span_id": "", "root_span_id": "", "scores": LIST_OR_OBJECT},
        "it does not say who gave a score: name people's, as in --map quality=scores.quality",
    ),
    LabelExport(
        "MLflow",
        {"trace_id": "", "assessments": LIST_OR_OBJECT},
        "export search_traces().to_json(FILE, orient='records')",
        {"assessments": ""},
        sources={"HUMAN": True, "LLM_JUDGE": False, "AI_JUDGE": False, "CODE": False},
    ),
]
# Where labels and outputs have each field: the first of these places that is not blank. A dot leads
# into an object. If a label lacks a field, the objects around the label may have it.
PLACES: dict[str, tuple[str, ...]] = {
    "id": ("context.span_id", "id", "trace_id"),
    "input": ("attributes.input.value", "input", "inputs", "request"),
    "output": ("attributes.output.value", "output", "outputs", "response"),
    "of": ("observationId", "subject.id", "traceId", "span_id", "run_id"),
    "dimension": ("annotation_name", "assessment_name", "from_name", "key", "name"),
    "rating": (
        *("result.score", "result.label", "feedback.value", "value.rating", "value.choices"),
        *("value.number", "value.text", "score", "stringValue", "value"),
    ),
    "comment": ("result.explanation", "rationale", "comment"),
    "annotator": (
        *("authorUserName", "authorUserId", "completed_by.email", "completed_by", "users"),
        *("feedback_source.user_name", "feedback_source.user_id", "source.source_id"),
        *("user_id", "identifier"),
    ),
    "source": ("annotator_kind", "feedback_source.type", "source.source_type", "status", "source"),
}
# Fields with the values that mark a label as withdrawn.
_WITHDRAWN = {"was_cancelled": True, "valid": False, "dataType": "CORRECTION"}
# Names that are not dimensions.
_NOT_RATED = {"id", "group", "system", "annotator", "judge"}


def as_plain_table(table: Table, options: ReadOptions, *, has_outputs: bool = True) -> Table:
    """Return a tool's export as a long table: id, dimension, annotator, rating, comment, texts.

    A table that is not such an export is returned unchanged, and so are rows that have only
    outputs. A note says which labels were left out. If another file has the outputs (`has_outputs`
    is False), the table needs no texts. Raises UnreadableError if there are no texts, no labels by
    people, or labels from an unknown source.
    """
    export = next((form for form in LABEL_EXPORTS if _matches(table, form)), None)
    return _ExportReader(export, table, options).read(has_outputs=has_outputs) if export else table


def _matches(table: Table, export: LabelExport) -> bool:
    """Whether a table is such an export, by its columns and by cells in them."""
    return all(_has_cell(table, name, cell) for name, cell in export.columns.items())


def _has_cell(table: Table, column: str, cell: str) -> bool:
    """Whether a cell matches the pattern `cell` ("": any) in a column that matches `column`."""
    columns = [name for name in table.columns if re.fullmatch(column, name)]
    match_cell = re.compile(cell or ".*", re.DOTALL).fullmatch
    return any(match_cell(str(row.cells.get(name))) for name in columns for row in table.rows)


class _ExportReader:
    """Reads the outputs and labels of one export."""

    def __init__(self, export: LabelExport, table: Table, options: ReadOptions) -> None:
        self._export, self._table, self._options = export, table, options
        columns = Columns(table, options.map)
        # Columns that the user maps are kept as they are.
        self._mapped_columns = {*map(columns.outer_column, columns.used_columns(()))} & {
            *table.columns
        }
        self._dimensions = {name_key(name): name for name in options.dimensions or ()}
        self._words = {normalize_word(word): number for word, number in options.values.items()}
        # How many labels were left out, by their source or by the reason.
        self._omissions = Counter[str]()

    def read(self, *, has_outputs: bool) -> Table:
        """Return the long table: one row per label, and one per output without a label."""
        outputs = [] if "" in self._export.labels else [*map(self._output, self._table.rows)]
        labels = self._labels(self._by_id(outputs))
        others = self._unlabelled(outputs, labels)
        note = self._note(len(labels))
        if not labels and self._needs_labels(has_outputs):
            reason = "" if self._omissions.total() else ", which does not say who rated"
            raise UnreadableError("no-rating", f"is {note}{reason}", self._export.advice)
        if not (outputs or not has_outputs or self._options.texts == ()):
            raise UnreadableError("no-text", f"is {note}, without texts", self._export.advice)
        rows = sorted([*labels, *others], key=lambda row: row.line)
        return replace(
            self._table,
            columns=tuple(dict.fromkeys(name for row in rows for name in row.cells)),
            rows=tuple(row._replace(number=n) for n, row in enumerate(rows, 1)),
            notes=(*self._table.notes, note),
        )

    def _by_id(self, outputs: Sequence[TableRow]) -> dict[str, TableRow]:
        """The outputs, and the observations inside Langfuse traces, by id."""
        rows = self._table.rows
        parts = ((row, part) for row in rows for part in objects_in(row.cells.get("observations")))
        observations = [self._output(row._replace(cells=part)) for row, part in parts]
        return {str(row.cells.get("id")): row for row in (*observations, *outputs)}

    def _unlabelled(
        self, outputs: Sequence[TableRow], labels: Sequence[TableRow]
    ) -> list[TableRow]:
        """The outputs without a label. If the export has labels, only those that have all texts."""
        labelled = {row.cells["id"] for row in labels}
        others = [row for row in outputs if row.cells.get("id") not in labelled]
        if not self._export.labels:
            return others
        complete = [row for row in others if not any(map(is_blank, row.cells.values()))]
        self._omissions["outputs without a label and without a text"] = len(others) - len(complete)
        # Each row of a long table names a dimension.
        dimension = {"dimension": labels[0].cells["dimension"]} if labels else {}
        return [row._replace(cells={**row.cells, **dimension}) for row in complete]

    def _note(self, n_labels: int) -> str:
        """Say which tool's export it is, and how many labels were read and left out."""
        note = f"an export of {self._export.tool}"
        if not (n_labels or self._omissions.total()):
            return note
        others = joined_names([f"{n:,} {source}" for source, n in (+self._omissions).items()])
        return f"{note}: {count(n_labels, 'label')} by people (left out: {others})"

    def _needs_labels(self, has_outputs: bool) -> bool:
        """Whether labels are to be read from this export, and from no column that the user maps."""
        mapped = {name for name in self._options.map if not is_source_or_output(name)} - _NOT_RATED
        has_other_labels = mapped or self._options.annotations or not self._export.advice
        return self._options.labelled and not (has_outputs and has_other_labels)

    def _output(self, row: TableRow) -> TableRow:
        """Return a row with only its id, its texts and the columns that the user maps."""
        texts, unread = self._export.texts, re.compile(self._export.unread)
        cells: Row = {name: first_value(row.cells, PLACES[name]) for name in ("input", "output")}
        if texts == "*":
            cells = {name: _unwrap_rating(cell) for name, cell in row.cells.items()}
        elif texts:
            objects = objects_in(row.cells[texts])
            cells = {
                name: text for texts_by_name in objects for name, text in texts_by_name.items()
            }
        cells = {name: cell for name, cell in cells.items() if not unread.fullmatch(name)}
        cells |= {column: row.cells.get(column) for column in self._mapped_columns}
        if (name := first_value(row.cells, PLACES["id"])) is not None:
            cells["id"] = str(name)
        return row._replace(cells=cells)

    def _labels(self, outputs: Mapping[str, TableRow]) -> list[TableRow]:
        """The labels that people gave, each with its output's texts and the person's comments."""
        labels: list[TableRow] = []
        comments: dict[object, list[object]] = defaultdict(list)
        for row in self._table.rows:
            for path, source in self._export.labels.items():
                for entry in _entries(row.cells, path):
                    cells = self._label(row, entry, source, outputs)
                    if cells is None:
                        continue
                    if is_comment(str(cells["dimension"])) and isinstance(cells["rating"], str):
                        comments[cells["id"], cells["annotator"]].append(cells["rating"])
                    else:
                        labels.append(row._replace(cells=cells))
        for label in labels:
            cells = label.cells
            texts = cells["comment"], *comments[cells["id"], cells["annotator"]]
            cells["comment"] = "\n".join(str(text) for text in texts if text) or None
        return labels

    def _label(
        self, row: TableRow, entry: Row, source: str, outputs: Mapping[str, TableRow]
    ) -> Row | None:
        """Return a label's cells in the long table; None, and counted, if no person gave it."""
        name = str(first_value(entry, PLACES["dimension"]))
        dimension = self._dimensions.get(name_key(name), name)
        is_read = self._options.reads(dimension) or is_comment(dimension)
        source = source or str(first_value(entry, PLACES["source"]) or "unknown")
        if not (is_read and self._is_by_person(entry, source, row.line)):
            return None
        output_cells = {} if "" in self._export.labels else row.cells
        item = first_value(entry, PLACES["of"]) or first_value(output_cells, PLACES["id"])
        label: Row = {name: first_value(entry, PLACES[name]) for name in ("comment", "annotator")}
        label |= {"dimension": dimension, "rating": _rating(entry), "id": str(item)}
        if not (str(item) in outputs if outputs else item):
            self._omissions["of outputs that are not in the file"] += 1
        elif label["rating"] is None and label["comment"] is None:
            self._omissions["without a rating"] += 1
        else:
            return {**outputs[str(item)].cells, **label} if outputs else label
        return None

    def _is_by_person(self, entry: Row, source: str, line: int) -> bool:
        """Whether a person gave a label; UnreadableError if its source is unknown.

        Counts the labels of other sources.
        """
        counts = self._words.get(normalize_word(source), self._export.sources.get(source))
        if any(value_at(entry, name) == value for name, value in _WITHDRAWN.items()):
            source, counts = "withdrawn", 0
        elif counts is None and normalize_word(source) not in self._words:
            fault = f"gave labels in {self._export.tool}, and may be people or a model"
            flag = f"--values {source}="
            advice = f"say which: {flag}1 if people gave them, {flag}0 to leave them out"
            raise UnreadableError("whose-label", fault, advice, source, line)
        self._omissions[source] += counts != 1
        return counts == 1


def _entries(cells: Row, path: str) -> Iterator[Row]:
    """Yield the objects at a path, each with the fields of the objects around it."""
    key, _, rest = path.partition(DOT)
    if not path:
        yield cells
    elif re.compile(path).groups:
        for match in filter(None, (re.fullmatch(path, column) for column in cells)):
            yield from _column_entries(cells, match[0], match[1])
    else:
        for inner in objects_in(cells.get(key)):
            yield from _entries({**cells, **inner}, rest)


def _column_entries(cells: Row, column: str, dimension: str) -> Iterator[Row]:
    """Yield each value of a list, with those at the same place in the lists `column.KEY`."""
    prefix = f"{column}{DOT}"
    lists = {c.removeprefix(prefix): list_in(cells[c]) for c in cells if c.startswith(prefix)}
    for place, value in enumerate(list_in(cells[column])):
        fields = {key: values[place] for key, values in lists.items() if place < len(values)}
        yield {**fields, "name": dimension, "value": value}


def _rating(entry: Row) -> object:
    """Return the rating in an entry; None if there is none or it is an object."""
    value = first_value(entry, PLACES["rating"])
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return None if isinstance(value, dict) else value


def _unwrap_rating(cell: object) -> object:
    """Return the rating in a list of one object, as in Label Studio's tables; else the cell."""
    ratings = [_rating({"value": value}) for value in objects_in(cell)]
    return cell if len(ratings) != 1 or ratings[0] is None else ratings[0]
