"""People's labels in other tools' exports: what tells a tool's file, and where its labels are.

The forms are those of files that the tools wrote, or of their sources: docs/labels.md says which.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dspy_judges.column_names import name_key
from judges.labels.cells import DOT, from_json, is_blank, value_in
from judges.labels.columns import Columns, is_comment
from judges.labels.names import is_known_text
from judges.labels.ratings import ReadOptions
from judges.labels.values import word_of
from judges.tables.formats import Table
from judges.tables.problems import UnreadableError, count, joined_names
from judges.tables.text import Row, TableRow

Places = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LabelExport:
    """An export of a tool, as a declaration: how it is recognised, and where its labels are.

    Attributes:
        tool: The tool's name, for messages.
        columns: Patterns (regular expressions) of columns. A table that has a column for each is
            such an export.
        advice: What to do if the table lacks texts, or labels that say who gave them.
        labels: Where a row has its labels, and who gave them if they do not say so: a path through
            objects and lists, "" for the row itself, or a pattern of columns of lists whose group
            is the dimension. Empty for rows of outputs alone.
        sources: Who gives labels, and whether these are people's, and submitted.
        texts: A column of the texts by name; "*" if all columns may be texts, "" for one input and
            one output.
        unread: A pattern of columns that are never texts.
        places: Where a label or an output has what, if other than in PLACES.
    """

    tool: str
    columns: tuple[str, ...]
    advice: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, bool] = field(default_factory=dict)
    texts: str = ""
    unread: str = ""
    places: Mapping[str, Places] = field(default_factory=dict)


_BESIDE = "--annotations FILE beside the file of outputs"
_LANGFUSE = LabelExport(
    "Langfuse",
    ("htmlPath", "scores"),
    f"export each trace by api.trace.get(ID), or the scores: {_BESIDE}",
    {"scores": ""},
    sources={"ANNOTATION": True, "EVAL": False, "API": False},
)
_PHOENIX = LabelExport(
    "Phoenix",
    (r"context(\.span_id)?", "span_kind"),
    f"export get_spans_dataframe, and get_span_annotations_dataframe: {_BESIDE}",
    {"annotations": ""},
    sources={"HUMAN": True, "LLM": False, "CODE": False},
)
_LANGSMITH = LabelExport(
    "LangSmith",
    ("run_id", "key", r"feedback_source(\.type)?"),
    f"export list_runs, and list_feedback: {_BESIDE}",
    {"": ""},
    sources={"app": True, "api": False, "model": False, "auto_eval": False, "evaluator": False},
)
# The exports that are read, in the order in which they are tried. A further one is a further entry
# (docs/extend.md).
LABEL_EXPORTS = [
    _LANGFUSE,
    replace(_LANGFUSE, columns=("source", "dataType", "traceId|subject"), labels={"": ""}),
    # Tables of traces and of observations, which name no source of their scores.
    replace(_LANGFUSE, columns=("traceId|bookmarked", "level", "environment", "input"), labels={}),
    _PHOENIX,
    replace(_PHOENIX, columns=("span_id", "annotator_kind"), labels={"": ""}),
    _LANGSMITH,
    replace(_LANGSMITH, columns=("run_type", "inputs", "outputs"), labels={}),
    replace(_LANGSMITH, columns=(r"example_id|inputs\..+", r"feedback\..+"), labels={}, texts="*"),
    LabelExport(
        "Label Studio",
        ("data", "annotations", "predictions|inner_id"),
        "export the project as JSON when people have labelled it",
        {"annotations.result": "annotations", "predictions.result": "predictions"},
        sources={"annotations": True, "predictions": False},
        texts="data",
    ),
    LabelExport(
        "Label Studio",
        ("annotation_id", "annotator", "lead_time"),
        texts="*",
        unread="annotation_id|lead_time|created_at|updated_at",
    ),
    LabelExport(
        "Argilla",
        (r".+\.responses", r".+\.responses\.status"),
        "export records.to_list(flatten=True) when people have submitted responses",
        {r"(.+)\.responses": "", r"(.+)\.suggestion": "suggestion"},
        sources={"submitted": True, "draft": False, "discarded": False, "suggestion": False},
        texts="*",
        unread=r".+\.(responses|suggestion)(\..+)?|status|_server_id",
    ),
    LabelExport(
        "Argilla",
        ("fields", "responses", "suggestions"),
        "only records.to_list(flatten=True) says which responses are submitted",
        texts="fields",
    ),
    LabelExport(
        "Braintrust",
        ("span_id", "root_span_id", "scores"),
        "it does not say who gave a score: name people's, as in --map quality=scores.quality",
    ),
    LabelExport(
        "MLflow",
        ("trace_id", "assessments"),
        "export search_traces().to_json(FILE, orient='records')",
        {"assessments": ""},
        sources={"HUMAN": True, "LLM_JUDGE": False, "AI_JUDGE": False, "CODE": False},
    ),
]
# Where labels and outputs have what; the first place that holds something counts. Dots lead into
# objects, and what a label lacks may stand in the objects around it.
PLACES: Mapping[str, Places] = {
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
# A column of further outputs in a row.
PARTS = "observations"
_WITHDRAWN = {"was_cancelled": True, "valid": False, "dataType": "CORRECTION"}
_NOT_RATED = {"id", "group", "system", "annotator", "judge"}


def as_plain_table(table: Table, options: ReadOptions, *, is_beside: bool = False) -> Table:
    """Return a tool's export as a long table: id, dimension, annotator, rating, comment, texts.

    Rows of outputs alone, and any other table, keep their form. A note says which labels were left
    out. A table that `is_beside` the file of outputs needs no texts. Raises UnreadableError if
    there are no texts, no people's labels, or labels of which it is not known who gave them.
    """
    for export in LABEL_EXPORTS:
        patterns = map(re.compile, export.columns)
        if all(any(map(pattern.fullmatch, table.columns)) for pattern in patterns):
            return _Reader(export, table, options).read(is_beside=is_beside)
    return table


class _Reader:
    """Reads the outputs and labels of one export."""

    def __init__(self, export: LabelExport, table: Table, options: ReadOptions) -> None:
        self._export, self._table, self._options = export, table, options
        columns = Columns(table, options.map)
        # What a user names stays as it is.
        self._kept = {*map(columns.root_of, columns.used(()))} & {*table.columns}
        self._left_out = Counter[str]()

    def read(self, *, is_beside: bool) -> Table:
        """Return the long table, with a row for each label, and for each output without one."""
        export, options, rows = self._export, self._options, self._table.rows
        outputs = [] if "" in export.labels else [*map(self._output, rows)]
        parts = (self._output(part) for row in rows for part in _objects(row, PARTS))
        by_id = {str(row.cells.get("id")): row for row in (*parts, *outputs)}
        labels = _with_comments([label for row in rows for label in self._labels_in(row, by_id)])
        labelled = {row.cells["id"] for row in labels}
        others = [row for row in outputs if row.cells.get("id") not in labelled]
        if export.labels:
            # An output without a label is one all the same, if it has all of its texts.
            full = [row for row in others if not any(map(is_blank, row.cells.values()))]
            self._left_out["outputs without a label and a text"] = len(others) - len(full)
            empty = {"dimension": labels[0].cells["dimension"]} if labels else {}
            others = [row._replace(cells={**row.cells, **empty}) for row in full]
        note, fault = f"an export of {export.tool}", ", which does not say who rated"
        if labels or self._left_out.total():
            left_out = (+self._left_out).items()
            counts = joined_names([f"{n:,} {source}" for source, n in left_out])
            note += f": {count(len(labels), 'label')} by people (left out: {counts})"
            fault = ""
        named = {name for name in options.map if not is_known_text(name)} - _NOT_RATED
        is_needed = is_beside or not (named or options.annotations or not export.advice)
        if not labels and options.labelled and is_needed:
            raise UnreadableError("no-rating", f"is {note}{fault}", export.advice)
        if not (outputs or is_beside or options.texts == ()):
            raise UnreadableError("no-text", f"is {note}, without texts", export.advice)
        labels += others
        labels.sort(key=lambda row: row.line)
        return replace(
            self._table,
            columns=tuple(dict.fromkeys(name for row in labels for name in row.cells)),
            rows=tuple(row._replace(number=n) for n, row in enumerate(labels, 1)),
            notes=(*self._table.notes, note),
        )

    def _find(self, row: TableRow, what: str) -> object:
        """What stands in the first place of `what` that holds something."""
        places = self._export.places.get(what, PLACES[what])
        values = (value_in(row, place) for place in places)
        return next((value for value in values if not is_blank(value)), None)

    def _rating(self, row: TableRow) -> object:
        value = self._find(row, "rating")
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        return None if isinstance(value, dict) else value

    def _plain(self, row: TableRow, column: str) -> object:
        """A cell, or its rating: Label Studio's tables have lists of one object."""
        ratings = [self._rating(TableRow(0, {"value": o.cells})) for o in _objects(row, column)]
        return row.cells[column] if len(ratings) != 1 or ratings[0] is None else ratings[0]

    def _output(self, row: TableRow) -> TableRow:
        """A row with its id, its texts and the columns that a user names."""
        texts, unread = self._export.texts, re.compile(self._export.unread)
        cells: Row = {name: self._find(row, name) for name in ("input", "output")}
        if texts == "*":
            cells = {column: self._plain(row, column) for column in row.cells}
        elif texts:
            cells = {n: text for each in _objects(row, texts) for n, text in each.cells.items()}
        cells = {name: cell for name, cell in cells.items() if not unread.fullmatch(name)}
        kept = {column: row.cells.get(column) for column in self._kept}
        if (name := self._find(row, "id")) is not None:
            kept["id"] = str(name)
        return row._replace(cells={**cells, **kept})

    def _labels_in(self, row: TableRow, outputs: Mapping[str, TableRow]) -> Iterator[TableRow]:
        """Yield the labels in a row that a person gave, as rows of a long table."""
        names = {name_key(name): name for name in self._options.dimensions or ()}
        for source, label in self._entries(row):
            name = str(self._find(label, "dimension"))
            dimension = names.get(name_key(name), name)
            is_read = self._options.reads(dimension) or is_comment(dimension)
            if not (is_read and self._is_persons(label, source)):
                continue
            what = {name: self._find(label, name) for name in ("comment", "annotator")}
            what |= {"rating": self._rating(label), "dimension": dimension}
            own = None if "" in self._export.labels else self._find(row, "id")
            item = self._find(label, "of") or own
            if not (str(item) in outputs if outputs else item):
                self._left_out["of outputs that are not in the file"] += 1
            elif what["rating"] is None and what["comment"] is None:
                self._left_out["without a rating"] += 1
            else:
                texts = outputs[str(item)].cells if outputs else {}
                yield row._replace(cells={**texts, **what, "id": str(item)})

    def _is_persons(self, label: TableRow, source: str) -> bool:
        """Whether a person gave a label; UnreadableError if that is not known of its source."""
        source = source or str(self._find(label, "source"))
        words = {word_of(word): number for word, number in self._options.values.items()}
        counts = words.get(word_of(source), self._export.sources.get(source))
        if any(value_in(label, name) == value for name, value in _WITHDRAWN.items()):
            source, counts = "withdrawn", 0
        elif counts is None and word_of(source) not in words:
            fault = f"gave labels in {self._export.tool}, and may be people or a model"
            flag = f"--values {source}="
            advice = f"say which: {flag}1 if people gave them, {flag}0 to leave them out"
            raise UnreadableError("whose-label", fault, advice, source, label.line)
        self._left_out[source] += counts != 1
        return counts == 1

    def _entries(self, row: TableRow) -> Iterator[tuple[str, TableRow]]:
        """Yield each label with its source; what it lacks is that of the objects around it."""
        for path, source in self._export.labels.items():
            pattern, entries = re.compile(path), [row]
            for key in path.split(DOT) if path and not pattern.groups else ():
                inner = ((each, own) for each in entries for own in _objects(each, key))
                entries = [each._replace(cells={**each.cells, **own.cells}) for each, own in inner]
            if pattern.groups:
                columns = filter(None, map(pattern.fullmatch, row.cells))
                entries = [each for match in columns for each in _listed(row, match[0], match[1])]
            yield from ((source, entry) for entry in entries)


def _with_comments(labels: Sequence[TableRow]) -> list[TableRow]:
    """The labels, each with what its person wrote of the output in fields of their own."""
    written: dict[object, list[object]] = defaultdict(list)
    ratings: list[TableRow] = []
    for row in labels:
        texts = written[row.cells["id"], row.cells["annotator"]]
        is_text = is_comment(str(row.cells["dimension"])) and isinstance(row.cells["rating"], str)
        if is_text:
            texts.append(row.cells["rating"])
        else:
            ratings.append(row)
    for row in ratings:
        comments = row.cells["comment"], *written[row.cells["id"], row.cells["annotator"]]
        row.cells["comment"] = "\n".join(str(text) for text in comments if text) or None
    return ratings


def _listed(row: TableRow, column: str, dimension: str) -> Iterator[TableRow]:
    """Yield each value of a column of lists, with the one in its place in `column.KEY`."""
    beside = {c.removeprefix(column + DOT): _list(cell) for c, cell in row.cells.items()}
    for n, value in enumerate(_list(row.cells[column])):
        own = {name: many[n] for name, many in beside.items() if n < len(many)}
        yield row._replace(cells={**own, "name": dimension, "value": value})


def _list(cell: object) -> list[object]:
    value = from_json(cell)
    return value if isinstance(value, list) else [] if is_blank(value) else [value]


def _objects(row: TableRow, column: str) -> list[TableRow]:
    """The objects in a cell, as rows."""
    objects = [each for each in _list(row.cells.get(column)) if isinstance(each, dict)]
    return [row._replace(cells=each) for each in objects]
