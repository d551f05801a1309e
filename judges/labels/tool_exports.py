"""Declares how files that other tools export, such as Langfuse, are recognised and read.

A `LabelExport` declares one kind of file. docs/labels.md names the files or the source code of each
tool from which the declarations were written.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

# Matches a cell with a list or an object, written as JSON or printed by Python.
LIST_OR_OBJECT = r"\s*[\[{].*"


@dataclass(frozen=True, slots=True)
class LabelExport:
    """Declares one kind of file that a tool exports: how to recognise it, and where its labels are.

    Attributes:
        tool: The tool's name, for messages.
        columns: Maps regular expressions for names of columns to regular expressions for cells; ""
            matches any cell. A file of this kind has a match for each column, in at least one cell.
        advice: What the user can do if the file has no texts, or if no label says who gave it.
        labels: Maps each place in a row that has labels to the tool's word for who gave them, or to
            "" if each label has this word. A place is a path of keys such as `annotations.result`,
            or "" if the row itself is a label. A place may also be a regular expression for columns
            of lists; its group is the dimension.
        sources: Maps the tool's words for who gave a label, such as `HUMAN`, to True if people gave
            and submitted it, else to False.
        texts: The column of objects {name: text}; "*" if every column may be a text; "" if each row
            has one input and one output.
        unread: A regular expression for the columns that are no texts, if `texts` is "*".
        names: Maps regular expressions for names of columns to other names for these columns. If
            two columns get one name, the first of them is read for the name of a text, such as
            `input`, and the last of them for any other name.
        omitted: Maps columns to regular expressions for cells. A row with such a cell is left out.
    """

    tool: str
    columns: Mapping[str, str]
    advice: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, bool] = field(default_factory=dict)
    texts: str = ""
    unread: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    omitted: Mapping[str, str] = field(default_factory=dict)


_ANNOTATIONS_ADVICE = "give the annotations with --annotations FILE, beside the file of outputs"
_LANGFUSE = LabelExport(
    "Langfuse",
    {"htmlPath": "", "scores": LIST_OR_OBJECT},
    f"export each trace by api.trace.get(ID), or export the scores and {_ANNOTATIONS_ADVICE}",
    {"scores": ""},
    sources={"ANNOTATION": True, "EVAL": False, "API": False},
)
_LANGFUSE_SCORES_COLUMNS = {"source": "|".join(_LANGFUSE.sources), "dataType": ""}
# Langfuse's tables of traces and of observations do not say who gave a score.
_LANGFUSE_TABLES = {"traceId|bookmarked": "", "level": "DEBUG|DEFAULT|WARNING|ERROR", "input": ""}
_PHOENIX = LabelExport(
    "Phoenix",
    {r"context(\.span_id)?": "", "span_kind": "[A-Z]+"},
    "export get_spans_dataframe; export labels by get_span_annotations_dataframe and "
    f"{_ANNOTATIONS_ADVICE}",
    {"annotations": ""},
    sources={"HUMAN": True, "LLM": False, "CODE": False},
)
_PHOENIX_LABELS_COLUMNS = {"span_id": "", "annotator_kind": "|".join(_PHOENIX.sources)}
_LANGSMITH = LabelExport(
    "LangSmith",
    {"run_id": "", "key": "", "feedback_source": LIST_OR_OBJECT},
    f"export list_runs; export labels by list_feedback and {_ANNOTATIONS_ADVICE}",
    {"": ""},
    sources={"app": True, "api": False, "model": False, "auto_eval": False, "evaluator": False},
)
_LANGSMITH_FRAME_COLUMNS = {"run_id": "", "key": "", r"feedback_source\.type": ""}
_LANGSMITH_RUNS_COLUMNS = {"run_type": "", "inputs": LIST_OR_OBJECT, "outputs": LIST_OR_OBJECT}
_LANGSMITH_RESULTS_COLUMNS = {r"inputs\..+": "", r"outputs\..+": "", r"feedback\..+": ""}
_PRODIGY = LabelExport(
    "Prodigy",
    {"_input_hash": "", "answer": "accept|reject|ignore", "accept": ""},
    texts="*",
    unread="_(?!annotator_id$).*|answer|label|options|config",
    omitted={"answer": "ignore|reject"},
)
# The last declaration that matches a file is used, so that users can append their own. See
# docs/extend.md.
LABEL_EXPORTS = [
    replace(
        _PRODIGY,
        columns={"_input_hash": "", "answer": "accept|reject|ignore"},
        unread="_(?!annotator_id$).*",
        names={"label": "dimension", "answer": "rating"},
        omitted={"answer": "ignore"},
    ),
    _PRODIGY,
    LabelExport(
        "MTurk",
        {"HITId": "", r"Answer\..+": ""},
        texts="*",
        unread=r"(?!(Input|Answer)\..|WorkerId$).*",
        names={r"(?:Input|Answer)\.(.+)": r"\1"},
        omitted={"AssignmentStatus": "Rejected"},
    ),
    LabelExport(
        "MLflow",
        {"trace_id": "", "assessments": LIST_OR_OBJECT},
        "export search_traces().to_json(FILE, orient='records')",
        {"assessments": ""},
        sources={"HUMAN": True, "LLM_JUDGE": False, "AI_JUDGE": False, "CODE": False},
    ),
    LabelExport(
        "Braintrust",
        {"span_id": "", "root_span_id": "", "scores": LIST_OR_OBJECT},
        "it does not say who gave a score: map people's scores, as in --map quality=scores.quality",
    ),
    LabelExport(
        "Argilla",
        {"fields": LIST_OR_OBJECT, "responses": LIST_OR_OBJECT, "suggestions": ""},
        "only records.to_list(flatten=True) says which responses are submitted",
        texts="fields",
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
        "Label Studio",
        {"annotation_id": "", "annotator": "", "lead_time": ""},
        texts="*",
        unread="annotation_id|lead_time|created_at|updated_at",
    ),
    LabelExport(
        "Label Studio",
        {"data": LIST_OR_OBJECT, "annotations": LIST_OR_OBJECT, "predictions|inner_id": ""},
        "export the project as JSON when people have labelled it",
        {"annotations.result": "annotations", "predictions.result": "predictions"},
        sources={"annotations": True, "predictions": False},
        texts="data",
    ),
    replace(
        _LANGSMITH, columns=_LANGSMITH_RESULTS_COLUMNS, labels={}, texts="*", unread=r"feedback\..+"
    ),
    replace(_LANGSMITH, columns=_LANGSMITH_RUNS_COLUMNS, labels={}),
    replace(_LANGSMITH, columns=_LANGSMITH_FRAME_COLUMNS),
    _LANGSMITH,
    replace(_PHOENIX, columns=_PHOENIX_LABELS_COLUMNS, labels={"": ""}),
    _PHOENIX,
    replace(_LANGFUSE, columns=_LANGFUSE_TABLES, labels={}),
    replace(_LANGFUSE, columns=_LANGFUSE_SCORES_COLUMNS, labels={"": ""}),
    _LANGFUSE,
]
# Maps each field of a label or an output to the paths where tools write it, such as `a.b` for the
# key `b` of an object `a`. The first path with a value is read. A field that a label lacks is read
# from the objects around the label. The field `output_id` is the id of the labelled output, and
# `source` says who gave the label.
PLACES: dict[str, tuple[str, ...]] = {
    "id": ("context.span_id", "id", "trace_id", "Input.id", "HITId", "_input_hash"),
    "input": ("attributes.input.value", "input", "inputs", "request"),
    "output": ("attributes.output.value", "output", "outputs", "response"),
    "output_id": ("observationId", "subject.id", "traceId", "span_id", "run_id"),
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
