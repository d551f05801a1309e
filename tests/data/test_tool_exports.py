"""People's labels in other tools' exports; the rows have the form that the tools write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import data
from judges.labels.readers import read_items

Rows = list[dict[str, Any]]
N = range(5)
# People rate output n with n + 1 and say why; a machine gives 9.
MACHINES = 9


def texts(n: int) -> dict[str, Any]:
    return {"input": {"question": f"Question {n}?"}, "output": f"Answer {n}."}


def langfuse_score(n: int, source: str, value: float, **cells: Any) -> dict[str, Any]:
    own = {"id": f"{source}{n}", "traceId": f"t{n}", "name": "quality", "source": source}
    kind = {"dataType": "NUMERIC", "value": value, "comment": f"why {n}", "authorUserId": "u1"}
    return {**own, **kind, "observationId": None, "environment": "default", **cells}


def langfuse_scores(n: int) -> Rows:
    values = {"ANNOTATION": n + 1, "EVAL": MACHINES, "API": MACHINES}
    return [langfuse_score(n, source, value) for source, value in values.items()]


def langfuse_trace(n: int, **cells: Any) -> dict[str, Any]:
    own = {"id": f"t{n}", "name": "chat", "htmlPath": f"/traces/t{n}", "environment": "default"}
    return {**own, **texts(n), "observations": [], "scores": langfuse_scores(n), **cells}


def phoenix_span(n: int) -> dict[str, Any]:
    values = {"input.value": f"Question {n}?", "output.value": f"Answer {n}."}
    context = {"trace_id": "1", "span_id": f"s{n}"}
    return {"id": str(n), "span_kind": "LLM", "context": context, "attributes": values}


def phoenix_annotations(n: int) -> Rows:
    return [
        {
            "span_id": f"s{n}",
            "name": "quality",
            "annotator_kind": kind,
            "source": "API",
            "user_id": None,
            "identifier": kind,
            "result": {"label": None, "score": score, "explanation": f"why {n}"},
        }
        for kind, score in (("HUMAN", n + 1), ("LLM", MACHINES), ("CODE", MACHINES))
    ]


def label_studio_task(n: int) -> dict[str, Any]:
    def result(value: float) -> Rows:
        why = {"from_name": "why", "type": "textarea", "value": {"text": [f"why {n}"]}}
        return [{"from_name": "quality", "type": "rating", "value": {"rating": value}}, why]

    who = {"id": 1, "email": "ann@example.org"}
    annotation = {"completed_by": who, "was_cancelled": False, "result": result(n + 1)}
    cancelled = {"completed_by": 2, "was_cancelled": True, "result": result(MACHINES)}
    return {
        "id": n,
        "data": {"question": f"Question {n}?", "answer": f"Answer {n}."},
        "annotations": [annotation, cancelled],
        "predictions": [{"model_version": "m", "result": result(MACHINES)}],
        "inner_id": n,
    }


def label_studio_row(n: int) -> dict[str, Any]:
    own = {"question": f"Question {n}?", "answer": f"Answer {n}.", "id": n}
    how = {"annotator": "ann@example.org", "annotation_id": n, "lead_time": 12.5 + n}
    return {**own, "quality": [{"rating": n + 1}], "why": f"why {n}", **how}


def argilla_record(n: int) -> dict[str, Any]:
    return {
        "id": f"r{n}",
        "status": "pending",
        "_server_id": f"server{n}",
        "question": f"Question {n}?",
        "answer": f"Answer {n}.",
        "quality.responses": [n + 1, MACHINES],
        "quality.responses.users": ["u1", "u2"],
        "quality.responses.status": ["submitted", "draft"],
        "why.responses": [f"why {n}"],
        "why.responses.users": ["u1"],
        "why.responses.status": ["submitted"],
        "quality.suggestion": MACHINES,
        "quality.suggestion.agent": "m",
    }


def langsmith_run(n: int) -> dict[str, Any]:
    own = {"id": f"r{n}", "name": "chat", "run_type": "chain"}
    return {**own, "inputs": texts(n)["input"], "outputs": {"output": f"Answer {n}."}}


def langsmith_feedback(n: int) -> Rows:
    scores = {"app": n + 1, "model": MACHINES, "api": MACHINES}
    own = {"run_id": f"r{n}", "trace_id": f"r{n}", "key": "quality", "value": None}
    return [
        {**own, "score": score, "comment": f"why {n}", "feedback_source": {"type": source}}
        for source, score in scores.items()
    ]


def mlflow_trace(n: int) -> dict[str, Any]:
    def assessment(kind: str, value: float, *, valid: bool = True) -> dict[str, Any]:
        own = {"assessment_name": "quality", "rationale": f"why {n}", "valid": valid}
        return {
            **own,
            "source": {"source_type": kind, "source_id": kind},
            "feedback": {"value": value},
        }

    expectation = assessment("HUMAN", 0) | {"feedback": None, "rationale": None}
    scores = [assessment("HUMAN", n + 1), assessment("HUMAN", MACHINES, valid=False)]
    machines = [assessment(kind, MACHINES) for kind in ("LLM_JUDGE", "CODE")]
    own = {"trace_id": f"tr-{n}", "request": {"question": f"Question {n}?"}}
    return {**own, "response": f"Answer {n}.", "assessments": [*scores, *machines, expectation]}


def rows(one: Callable[[int], Any]) -> Rows:
    """The rows that `one` makes of each number: a row or several."""
    made = map(one, N)
    return [row for each in made for row in (each if isinstance(each, list) else [each])]


def phoenix_frame() -> Rows:
    flat = [pd.json_normalize(row).iloc[0].to_dict() for row in rows(phoenix_annotations)]
    return [{("annotation_name" if n == "name" else n): v for n, v in row.items()} for row in flat]


PHOENIX_SPANS = [phoenix_span(n) | {"annotations": phoenix_annotations(n)} for n in N]
# Langfuse's SDK 5 names the subject of a score.
LATER = [
    {n: v for n, v in score.items() if n != "traceId"} | {"subject": {"id": score["traceId"]}}
    for score in rows(langfuse_scores)
]
FLAT_SCORES = pd.json_normalize(LATER).to_dict("records")

# The file, the file of outputs if there is one, and what is left out, by the tool and its file.
EXPORTS: dict[str, tuple[Rows, Rows | None, str]] = {
    "Langfuse traces": (rows(langfuse_trace), None, "5 EVAL, 5 API"),
    "Langfuse scores": (rows(langfuse_scores), rows(langfuse_trace), "5 EVAL, 5 API"),
    "Langfuse scores-of-SDK-5": (LATER, rows(langfuse_trace), "5 EVAL, 5 API"),
    "Langfuse flat-scores": (FLAT_SCORES, rows(langfuse_trace), "5 EVAL, 5 API"),
    "Phoenix annotations": (rows(phoenix_annotations), rows(phoenix_span), "5 LLM, 5 CODE"),
    "Phoenix frame": (phoenix_frame(), rows(phoenix_span), "5 LLM, 5 CODE"),
    "Phoenix spans": (PHOENIX_SPANS, None, "5 LLM, 5 CODE"),
    "Label Studio JSON": (rows(label_studio_task), None, "10 withdrawn, 10 predictions"),
    "Label Studio JSON_MIN": (rows(label_studio_row), None, ""),
    "Argilla records": (rows(argilla_record), None, "5 draft, 5 suggestion"),
    "LangSmith feedback": (rows(langsmith_feedback), rows(langsmith_run), "5 model, 5 api"),
    "MLflow traces": (
        rows(mlflow_trace),
        None,
        "5 withdrawn, 5 LLM_JUDGE, 5 CODE, 5 without a rating",
    ),
}


def saved(folder: Path, name: str, content: Rows) -> str:
    # As web APIs answer.
    (folder / name).write_text(json.dumps({"data": content}), encoding="utf-8")
    return str(folder / name)


@pytest.mark.parametrize("name", EXPORTS)
def test_people_are_read_and_no_machine_is(name: str, tmp_path: Path) -> None:
    content, outputs, left_out = EXPORTS[name]
    file = saved(tmp_path, "labels.json", content)
    beside = saved(tmp_path, "outputs.json", outputs) if outputs else None
    labelled = data.read_labels(beside or file, annotations=file if beside else None)
    assert [one.ratings for one in labelled.outputs] == [{"quality": (n + 1.0,)} for n in N]
    assert [one.comments["quality"] for one in labelled.outputs] == [(f"why {n}",) for n in N]
    assert [[*one.texts.values()] for one in labelled.outputs] == [
        [f"Question {n}?", f"Answer {n}."] for n in N
    ]
    notes = " ".join(labelled.notes)
    assert f"an export of {name.rpartition(' ')[0]}" in notes
    assert not left_out or f"{len(N)} labels by people (left out: {left_out})" in notes


def test_scores_of_observations_are_on_their_own_texts() -> None:
    part = {"id": "o1", "traceId": "t1", "input": "A part?", "output": {"role": "assistant"}}
    part["output"] = {"role": "assistant", "content": "Of it."}
    score = langfuse_score(1, "ANNOTATION", 4, observationId="o1")
    trace = langfuse_trace(1, observations=[part], scores=[score, *langfuse_scores(1)])
    by_id = {one.id: one for one in data.read_labels([trace]).outputs}
    assert by_id["o1"].texts == {"input": "A part?", "output": "Of it."}
    assert by_id["o1"].ratings == {"quality": (4.0,)}
    assert by_id["t1"].ratings == {"quality": (2.0,)}


def test_scores_of_sessions_are_counted_and_conversations_stay_whole(tmp_path: Path) -> None:
    session = langfuse_score(0, "ANNOTATION", 4, traceId=None, sessionId="s")
    scores = saved(tmp_path, "scores.json", [*rows(langfuse_scores), session])
    labelled = data.read_labels(rows(langfuse_trace), annotations=scores)
    assert "1 of outputs that are not in the file" in " ".join(labelled.notes)
    turns = [{"role": who, "content": f"{who} says"} for who in ("user", "assistant")]
    records = [argilla_record(n) | {"question": [*turns, turns[0]]} for n in N]
    texts_read = data.read_labels(records, dimensions=["quality"]).outputs[0].texts
    assert texts_read["question"].count("User: user says") == 2


def test_a_source_of_no_known_meaning_is_asked_about() -> None:
    scores = [langfuse_score(n, "imported", n + 1) for n in N]
    traces = [langfuse_trace(n, scores=[scores[n]]) for n in N]
    match = "row 1: 'imported' gave labels in Langfuse, and may be people or a model; say which: "
    with pytest.raises(data.LabelError, match=match) as error:
        data.read_labels(traces)
    assert "--values imported=1 if people gave them" in str(error.value)
    labelled = data.read_labels(traces, values={"imported": 1})
    assert labelled.outputs[2].ratings == {"quality": (3.0,)}
    with pytest.raises(data.LabelError, match=r"0 labels by people \(left out: 5 imported\)"):
        data.read_labels(traces, values={"imported": 0})


LONG = "What is the answer to the question of the number"
BRAINTRUST = [
    {"id": f"e{n}", "span_id": f"s{n}", "root_span_id": f"s{n}", **texts(n)}
    | {"scores": {"Factuality": MACHINES, "quality": n + 1}}
    for n in N
]
FLAT = [
    {**texts(n), "id": f"t{n}", "bookmarked": False, "level": "DEFAULT", "environment": "default"}
    | {"quality": [MACHINES]}
    for n in N
]
RESULTS = [
    {"inputs.q": f"{LONG} {n}?", "outputs.a": f"{LONG} {n}.", "feedback.quality": 9} for n in N
]
NESTED = [
    {"id": f"r{n}", "fields": {"q": f"{LONG} {n}?"}, "suggestions": {}}
    | {"responses": {"quality": [{"value": 3, "user_id": "u1"}]}}
    for n in N
]


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (BRAINTRUST, "--map quality=scores.quality"),
        (FLAT, "--annotations FILE"),
        (RESULTS, "list_feedback"),
        (NESTED, r"to_list\(flatten=True\)"),
        (rows(langfuse_scores), "without texts; export each trace by"),
        ([langfuse_trace(n, scores=[f"score{n}"]) for n in N], "export each trace by"),
        ([mlflow_trace(n) | {"assessments": "[\n{'a': 1}]"} for n in N], "to_json"),
    ],
)
def test_a_file_that_does_not_say_who_rated_is_refused_with_what_to_take(
    content: Rows, advice: str
) -> None:
    with pytest.raises(data.LabelError, match=f"is an export of .*{advice}"):
        data.read_labels(content)
    if "texts" not in advice:
        # Somebody who is to label the outputs needs no labels.
        assert len(read_items(content).items) == len(N)


OWN: list[dict[str, Any]] = [
    {"key": "a", "name": "bot", "source": "web"},
    {"run_id": "r", "key": "a", "feedback_source": "survey"},
    {"status": "done", "scores": "high", "annotations": "checked twice"},
    {"htmlPath": "a.html", "scores": "high"},
    {"source": "web", "dataType": "email", "subject": "Rooms"},
    {"traceId": "t", "level": "B2", "environment": "school"},
    {"context": "In the hall.", "span_kind": "short"},
    {"span_id": "s", "annotator_kind": "expert"},
    {"run_type": "trial", "inputs": "A form.", "outputs": "A letter."},
    {"data": "Of May.", "annotations": "none", "predictions": "rain"},
    {"fields": "law", "responses": "Yes.", "suggestions": "none"},
    {"span_id": "s", "root_span_id": "s", "scores": "high"},
    {"trace_id": "t", "assessments": "oral"},
    {"example_id": "e", "feedback.note": "fine"},
]


@pytest.mark.parametrize("columns", OWN, ids=" ".join)
def test_a_table_of_ones_own_with_such_columns_is_no_tools(columns: dict[str, Any]) -> None:
    table = [{**texts(n), "id": n, **columns, "quality": n + 1} for n in N]
    labelled = data.read_labels(table, dimensions=["quality"])
    assert [one.ratings["quality"] for one in labelled.outputs] == [(n + 1.0,) for n in N]
    assert "an export" not in " ".join(labelled.notes)


def test_whoever_names_peoples_scores_has_them_read() -> None:
    labelled = data.read_labels(BRAINTRUST, map={"quality": "scores.quality"})
    assert [one.ratings for one in labelled.outputs] == [{"quality": (n + 1.0,)} for n in N]


def test_labels_join_outputs_that_have_numbers_of_their_own(tmp_path: Path) -> None:
    outputs = [{**texts(n), "id": f"r{n}", "latency_ms": 100 + n, "tokens": n} for n in N]
    for column in ("label", "quality"):
        labels = pd.DataFrame(
            {"id": [f"r{n}" for n in N], column: ["pass", "fail", "pass", "fail", "pass"]}
        )
        labels.to_csv(tmp_path / "labels.csv", index=False)
        labelled = data.read_labels(
            outputs, annotations=tmp_path / "labels.csv", dimensions=["quality"]
        )
        assert [one.rating("quality") for one in labelled.outputs] == [1, 0, 1, 0, 1]
        everything = data.read_labels(outputs, annotations=tmp_path / "labels.csv")
        assert everything.dimensions == (column,)
