"""People's labels in other tools' exports: what tells a tool's file, and where its labels are.

The forms are those of files that the tools wrote, or of their sources: docs/labels.md says which.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dspy_judges.column_names import name_key
from judges.labels.cells import DOT, first_value, is_blank, list_in, objects_in, value_at
from judges.labels.columns import Columns, is_comment
from judges.labels.names import is_known_text
from judges.labels.ratings import ReadOptions
from judges.labels.values import word_of
from judges.tables.formats import Table
from judges.tables.problems import UnreadableError, count, joined_names
from judges.tables.text import Row, TableRow

# A cell that holds a list or an object, as JSON or as Python prints it.
LIST_OR_OBJECT = r"\s*[\[{].*"


@dataclass(frozen=True, slots=True)
class LabelExport:
    """An export of a tool, as a declaration: how it is recognised, and where its labels are.

    Attributes:
        tool: The tool's name, for messages.
        columns: Patterns (regular expressions) of columns, each with a pattern of a cell, "" for
            any. A table that has such a column, and in it such a cell, for each is an export.
        advice: What to do if the table lacks texts, or labels that say who gave them.
        labels: Where a row has its labels, and who gave them if they do not say so: a path through
            objects and lists, "" for the row itself, or a pattern of columns of lists whose group
            is the dimension. Empty for rows of outputs alone.
        sources: Who gives labels, and whether these are people's, and submitted.
        texts: A column of the texts by name; "*" if all columns may be texts, "" for one input and
            one output.
        unread: A pattern of columns that are never texts.
    """

    tool: str
    columns: Mapping[str, str]
    advice: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, bool] = field(default_factory=dict)
    texts: str = ""
    unread: str = ""


_BESIDE = "give their file beside that of the outputs: --annotations FILE"
_LANGFUSE = LabelExport(
    "Langfuse",
    {"htmlPath": "", "scores": LIST_OR_OBJECT},
    f"export each trace by api.trace.get(ID), or export the scores and {_BESIDE}",
    {"scores": ""},
    sources={"ANNOTATION": True, "EVAL": False, "API": False},
)
_LANGFUSE_SCORES = {"source": "|".join(_LANGFUSE.sources), "dataType": ""}
# Tables of traces and of observations, which name no source of their scores.
_LANGFUSE_TABLE = {"traceId|bookmarked": "", "level": "DEBUG|DEFAULT|WARNING|ERROR", "input": ""}
_PHOENIX = LabelExport(
    "Phoenix",
    {r"context(\.span_id)?": "", "span_kind": "[A-Z]+"},
    f"export get_spans_dataframe; export labels by get_span_annotations_dataframe and {_BESIDE}",
    {"annotations": ""},
    sources={"HUMAN": True, "LLM": False, "CODE": False},
)
_PHOENIX_LABELS = {"span_id": "", "annotator_kind": "|".join(_PHOENIX.sources)}
_LANGSMITH = LabelExport(
    "LangSmith",
    {"run_id": "", "key": "", "feedback_source": LIST_OR_OBJECT},
    f"export list_runs; export labels by list_feedback and {_BESIDE}",
    {"": ""},
    sources={"app": True, "api": False, "model": False, "auto_eval": False, "evaluator": False},
)
_LANGSMITH_FRAME = {"run_id": "", "key": "", r"feedback_source\.type": ""}
_LANGSMITH_RUNS = {"run_type": "", "inputs": LIST_OR_OBJECT, "outputs": LIST_OR_OBJECT}
_LANGSMITH_RESULTS = {r"inputs\..+": "", r"outputs\..+": "", r"feedback\..+": ""}
# The exports that are read, in the order in which they are tried. A further one is a further entry
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
# Where labels and outputs have what; the first place that holds something counts. Dots lead into
# objects, and what a label lacks may stand in the objects around it.
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
_WITHDRAWN = {"was_cancelled": True, "valid": False, "dataType": "CORRECTION"}
_NOT_RATED = {"id", "group", "system", "annotator", "judge"}


def as_plain_table(table: Table, options: ReadOptions, *, is_beside: bool = False) -> Table:
    """Return a tool's export as a long table: id, dimension, annotator, rating, comment, texts.

    Rows of outputs alone, and any other table, keep their form. A note says which labels were left
    out. A table that `is_beside` the file of outputs needs no texts. Raises UnreadableError if
    there are no texts, no people's labels, or labels of which it is not known who gave them.
    """
    export = next((each for each in LABEL_EXPORTS if _matches(table, each)), None)
    return _Reader(export, table, options).read(is_beside=is_beside) if export else table


def _matches(table: Table, export: LabelExport) -> bool:
    """Whether a table is an export: cells tell it from a user's own columns of the same names."""
    return all(_has_cell(table, name, cell) for name, cell in export.columns.items())


def _has_cell(table: Table, column: str, cell: str) -> bool:
    """Whether a table has a cell like this in a column like this; `cell` is "" for any."""
    columns = [name for name in table.columns if re.fullmatch(column, name)]
    is_like = re.compile(cell or ".*", re.DOTALL).fullmatch
    return any(is_like(str(row.cells.get(name))) for name in columns for row in table.rows)


class _Reader:
    """Reads the outputs and labels of one export."""

    def __init__(self, export: LabelExport, table: Table, options: ReadOptions) -> None:
        self._export, self._table, self._options = export, table, options
        columns = Columns(table, options.map)
        # What a user names stays as it is.
        self._mapped_columns = {*map(columns.root_of, columns.used(()))} & {*table.columns}
        self._dimensions = {name_key(name): name for name in options.dimensions or ()}
        self._words = {word_of(word): number for word, number in options.values.items()}
        self._omissions = Counter[str]()

    def read(self, *, is_beside: bool) -> Table:
        """Return the long table, with a row for each label, and for each output without one."""
        outputs = [] if "" in self._export.labels else [*map(self._output, self._table.rows)]
        labels = self._labels(self._by_id(outputs))
        others = self._unlabelled(outputs, labels)
        note = self._note(len(labels))
        if not labels and self._needs_labels(is_beside):
            who = "" if self._omissions.total() else ", which does not say who rated"
            raise UnreadableError("no-rating", f"is {note}{who}", self._export.advice)
        if not (outputs or is_beside or self._options.texts == ()):
            raise UnreadableError("no-text", f"is {note}, without texts", self._export.advice)
        rows = sorted([*labels, *others], key=lambda row: row.line)
        return replace(
            self._table,
            columns=tuple(dict.fromkeys(name for row in rows for name in row.cells)),
            rows=tuple(row._replace(number=n) for n, row in enumerate(rows, 1)),
            notes=(*self._table.notes, note),
        )

    def _by_id(self, outputs: Sequence[TableRow]) -> dict[str, TableRow]:
        """The outputs by id, with those of a Langfuse trace's own parts."""
        rows = self._table.rows
        parts = ((row, part) for row in rows for part in objects_in(row.cells.get("observations")))
        inner = [self._output(row._replace(cells=part)) for row, part in parts]
        return {str(row.cells.get("id")): row for row in (*inner, *outputs)}

    def _unlabelled(
        self, outputs: Sequence[TableRow], labels: Sequence[TableRow]
    ) -> list[TableRow]:
        """The outputs without a label; in an export of labels those alone that have all texts."""
        labelled = {row.cells["id"] for row in labels}
        others = [row for row in outputs if row.cells.get("id") not in labelled]
        if not self._export.labels:
            return others
        full = [row for row in others if not any(map(is_blank, row.cells.values()))]
        self._omissions["outputs without a label and a text"] = len(others) - len(full)
        empty = {"dimension": labels[0].cells["dimension"]} if labels else {}
        return [row._replace(cells={**row.cells, **empty}) for row in full]

    def _note(self, n_labels: int) -> str:
        """Which tool's export it is, and how many labels are people's and others'."""
        note = f"an export of {self._export.tool}"
        if not (n_labels or self._omissions.total()):
            return note
        others = joined_names([f"{n:,} {source}" for source, n in (+self._omissions).items()])
        return f"{note}: {count(n_labels, 'label')} by people (left out: {others})"

    def _needs_labels(self, is_beside: bool) -> bool:
        """Whether the table is read for its labels, and no user names columns that hold them."""
        mapped = {name for name in self._options.map if not is_known_text(name)} - _NOT_RATED
        has_others = mapped or self._options.annotations or not self._export.advice
        return self._options.labelled and (is_beside or not has_others)

    def _output(self, row: TableRow) -> TableRow:
        """A row with its id, its texts and the columns that a user names."""
        texts, unread = self._export.texts, re.compile(self._export.unread)
        cells: Row = {name: first_value(row.cells, PLACES[name]) for name in ("input", "output")}
        if texts == "*":
            cells = {name: _plain(cell) for name, cell in row.cells.items()}
        elif texts:
            cells = {n: text for each in objects_in(row.cells[texts]) for n, text in each.items()}
        cells = {name: cell for name, cell in cells.items() if not unread.fullmatch(name)}
        cells |= {column: row.cells.get(column) for column in self._mapped_columns}
        if (name := first_value(row.cells, PLACES["id"])) is not None:
            cells["id"] = str(name)
        return row._replace(cells=cells)

    def _labels(self, outputs: Mapping[str, TableRow]) -> list[TableRow]:
        """The labels that people gave, each with its output's texts and what its person wrote."""
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
        """The cells of an entry that is a person's label of a known output; others are counted."""
        name = str(first_value(entry, PLACES["dimension"]))
        dimension = self._dimensions.get(name_key(name), name)
        is_read = self._options.reads(dimension) or is_comment(dimension)
        source = source or str(first_value(entry, PLACES["source"]) or "unknown")
        if not (is_read and self._is_persons(entry, source, row.line)):
            return None
        own = {} if "" in self._export.labels else row.cells
        item = first_value(entry, PLACES["of"]) or first_value(own, PLACES["id"])
        label: Row = {name: first_value(entry, PLACES[name]) for name in ("comment", "annotator")}
        label |= {"dimension": dimension, "rating": _rating(entry), "id": str(item)}
        if not (str(item) in outputs if outputs else item):
            self._omissions["of outputs that are not in the file"] += 1
        elif label["rating"] is None and label["comment"] is None:
            self._omissions["without a rating"] += 1
        else:
            return {**outputs[str(item)].cells, **label} if outputs else label
        return None

    def _is_persons(self, entry: Row, source: str, line: int) -> bool:
        """Whether a person gave a label; UnreadableError if that is not known of its source."""
        counts = self._words.get(word_of(source), self._export.sources.get(source))
        if any(value_at(entry, name) == value for name, value in _WITHDRAWN.items()):
            source, counts = "withdrawn", 0
        elif counts is None and word_of(source) not in self._words:
            fault = f"gave labels in {self._export.tool}, and may be people or a model"
            flag = f"--values {source}="
            advice = f"say which: {flag}1 if people gave them, {flag}0 to leave them out"
            raise UnreadableError("whose-label", fault, advice, source, line)
        self._omissions[source] += counts != 1
        return counts == 1


def _entries(cells: Row, path: str) -> Iterator[Row]:
    """Yield the objects at a path; what one lacks is that of the objects around it."""
    key, _, rest = path.partition(DOT)
    if not path:
        yield cells
    elif re.compile(path).groups:
        for match in filter(None, (re.fullmatch(path, column) for column in cells)):
            yield from _column_entries(cells, match[0], match[1])
    else:
        for each in objects_in(cells.get(key)):
            yield from _entries({**cells, **each}, rest)


def _column_entries(cells: Row, column: str, dimension: str) -> Iterator[Row]:
    """Yield each value of a column of lists, with what columns `column.KEY` have in its place."""
    start = f"{column}{DOT}"
    beside = {c.removeprefix(start): list_in(cells[c]) for c in cells if c.startswith(start)}
    for n, value in enumerate(list_in(cells[column])):
        own = {name: values[n] for name, values in beside.items() if n < len(values)}
        yield {**own, "name": dimension, "value": value}


def _rating(entry: Row) -> object:
    """The rating in an entry; None if it is an object."""
    value = first_value(entry, PLACES["rating"])
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return None if isinstance(value, dict) else value


def _plain(cell: object) -> object:
    """A cell, or the rating in it: Label Studio's tables have lists of one object."""
    ratings = [_rating({"value": value}) for value in objects_in(cell)]
    return cell if len(ratings) != 1 or ratings[0] is None else ratings[0]
