"""People's labels in other tools' exports; the rows have the form that the tools write."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from files import file_of, refusal

import data
from judges.labels.readers import read_items

Rows = list[dict[str, Any]]
N = range(5)
# People rate output n with n + 1 and say why; a machine gives 9.
RATING_BY_MODEL = 9


def texts(n: int) -> dict[str, Any]:
    return {"input": {"question": f"Question {n}?"}, "output": f"Answer {n}."}


def flat_texts(n: int) -> dict[str, str]:
    return {"question": f"Question {n}?", "answer": f"Answer {n}."}


def langfuse_score(n: int, source: str, value: float, **cells: Any) -> dict[str, Any]:
    own = {"id": f"{source}{n}", "traceId": f"t{n}", "name": "quality", "source": source}
    kind = {"dataType": "NUMERIC", "value": value, "comment": f"why {n}", "authorUserId": "u1"}
    return {**own, **kind, "observationId": None, "environment": "default", **cells}


def langfuse_scores(n: int) -> Rows:
    values = {"ANNOTATION": n + 1, "EVAL": RATING_BY_MODEL, "API": RATING_BY_MODEL}
    return [langfuse_score(n, source, value) for source, value in values.items()]


def langfuse_trace(n: int, **cells: Any) -> dict[str, Any]:
    own = {"id": f"t{n}", "name": "chat", "htmlPath": f"/traces/t{n}", "environment": "default"}
    return {**own, **texts(n), "observations": [], "scores": langfuse_scores(n), **cells}


def later_score(score: dict[str, Any]) -> dict[str, Any]:
    """As Langfuse's SDK 5 names the subject of a score."""
    rest = {**score, "subject": {"id": score["traceId"]}}
    return {name: rest[name] for name in rest if name != "traceId"}


def phoenix_span(n: int) -> dict[str, Any]:
    values = {"input.value": f"Question {n}?", "output.value": f"Answer {n}."}
    context = {"trace_id": "1", "span_id": f"s{n}"}
    return {"id": str(n), "span_kind": "LLM", "context": context, "attributes": values}


def phoenix_annotations(n: int, name: str = "name") -> Rows:
    scores = {"HUMAN": n + 1, "LLM": RATING_BY_MODEL, "CODE": RATING_BY_MODEL}
    own = {"span_id": f"s{n}", name: "quality", "source": "API", "user_id": None}
    return [
        {**own, "annotator_kind": kind, "identifier": kind}
        | {"result": {"label": None, "score": score, "explanation": f"why {n}"}}
        for kind, score in scores.items()
    ]


def label_studio_task(n: int) -> dict[str, Any]:
    def result(value: float) -> dict[str, Rows]:
        why = {"from_name": "why", "type": "textarea", "value": {"text": [f"why {n}"]}}
        rating = {"from_name": "quality", "type": "rating", "value": {"rating": value}}
        return {"result": [rating, why]}

    who = {"completed_by": {"id": 1, "email": "ann@example.org"}, "was_cancelled": False}
    cancelled = {"completed_by": 2, "was_cancelled": True, **result(RATING_BY_MODEL)}
    labels = [{**who, **result(n + 1)}, cancelled]
    own = {"id": n, "data": flat_texts(n), "annotations": labels, "inner_id": n}
    return {**own, "predictions": [{"model_version": "m", **result(RATING_BY_MODEL)}]}


def label_studio_row(n: int) -> dict[str, Any]:
    how = {"annotator": "ann@example.org", "annotation_id": n, "lead_time": 12.5 + n}
    return {**flat_texts(n), "id": n, "quality": [{"rating": n + 1}], "why": f"why {n}", **how}


def argilla_record(n: int) -> dict[str, Any]:
    own = {"id": f"r{n}", "status": "pending", "_server_id": f"server{n}", **flat_texts(n)}
    who = {".users": ["u1", "u2"], ".status": ["submitted", "draft"]}
    quality, why = {"": [n + 1, RATING_BY_MODEL], **who}, {"": [f"why {n}"]}
    why |= {end: cell[:1] for end, cell in who.items()}
    responses = {f"quality.responses{end}": cell for end, cell in quality.items()}
    responses |= {f"why.responses{end}": cell for end, cell in why.items()}
    return (
        own | responses | {"quality.suggestion": RATING_BY_MODEL, "quality.suggestion.agent": "m"}
    )


# A question that allows several answers at once is no rating.
ISSUES = {"issues.responses": [["rude", "vague"]], "issues.responses.status": ["submitted"]}


def langsmith_run(n: int) -> dict[str, Any]:
    own = {"id": f"r{n}", "name": "chat", "run_type": "chain"}
    return {**own, "inputs": texts(n)["input"], "outputs": {"output": f"Answer {n}."}}


def langsmith_feedback(n: int) -> Rows:
    scores = {"app": n + 1, "model": RATING_BY_MODEL, "api": RATING_BY_MODEL}
    own = {"run_id": f"r{n}", "trace_id": f"r{n}", "key": "quality", "value": None}
    return [
        {**own, "score": score, "comment": f"why {n}", "feedback_source": {"type": source}}
        for source, score in scores.items()
    ]


def mlflow_trace(n: int) -> dict[str, Any]:
    def assessment(kind: str, value: float, *, valid: bool = True) -> dict[str, Any]:
        own = {"assessment_name": "quality", "rationale": f"why {n}", "valid": valid}
        source = {"source_type": kind, "source_id": kind}
        return {**own, "source": source, "feedback": {"value": value}}

    expectation = assessment("HUMAN", 0) | {"feedback": None, "rationale": None}
    scores = [assessment("HUMAN", n + 1), assessment("HUMAN", RATING_BY_MODEL, valid=False)]
    machines = [assessment(kind, RATING_BY_MODEL) for kind in ("LLM_JUDGE", "CODE")]
    own = {"trace_id": f"tr-{n}", "request": {"question": f"Question {n}?"}}
    return {**own, "response": f"Answer {n}.", "assessments": [*scores, *machines, expectation]}


def each(one: Callable[..., Any], *how: str) -> Rows:
    """The rows that `one` makes of each number: a row or several."""
    lists = [one(n, *how) for n in N]
    return [row for rows in lists for row in (rows if isinstance(rows, list) else [rows])]


TRACES, SCORES, SPANS = each(langfuse_trace), each(langfuse_scores), each(phoenix_span)
LATER = [*map(later_score, SCORES)]
WHOLE_SPANS = [span | {"annotations": phoenix_annotations(n)} for n, span in enumerate(SPANS)]


def flat(rows: Rows) -> Rows:
    return pd.json_normalize(rows).to_dict("records")


# The file, the file of outputs if there is one, and what is left out, by the tool and its file.
EXPORTS: dict[str, tuple[Rows, Rows | None, str]] = {
    "Langfuse traces": (TRACES, None, "5 EVAL, 5 API"),
    "Langfuse scores": (SCORES, TRACES, "5 EVAL, 5 API"),
    "Langfuse scores-of-SDK-5": (LATER, TRACES, "5 EVAL, 5 API"),
    "Langfuse flat-scores": (flat(LATER), TRACES, "5 EVAL, 5 API"),
    "Phoenix annotations": (each(phoenix_annotations), SPANS, "5 LLM, 5 CODE"),
    "Phoenix frame": (flat(each(phoenix_annotations, "annotation_name")), SPANS, "5 LLM, 5 CODE"),
    "Phoenix spans": (WHOLE_SPANS, None, "5 LLM, 5 CODE"),
    "Label Studio JSON": (each(label_studio_task), None, "10 withdrawn, 10 predictions"),
    "Label Studio JSON_MIN": (each(label_studio_row), None, ""),
    "Argilla records": (each(argilla_record), None, "5 draft, 5 suggestion"),
    "Argilla multiple-choices": (
        [{**argilla_record(n), **ISSUES} for n in N],
        None,
        "5 draft, 5 suggestion, 5 multiple choices on issues",
    ),
    "LangSmith feedback": (each(langsmith_feedback), each(langsmith_run), "5 model, 5 api"),
    "MLflow traces": (each(mlflow_trace), None, "5 withdrawn, 5 LLM_JUDGE, 5 CODE, 5 without"),
}


def save(name: str, content: Rows) -> Path:
    # As web APIs answer.
    return file_of(json.dumps({"data": content}), f"{name}.json")


@pytest.mark.parametrize("name", EXPORTS)
def test_people_are_read_and_no_machine_is(name):
    content, outputs, left_out = EXPORTS[name]
    file = save("labels", content)
    beside = save("outputs", outputs) if outputs else None
    labelled = data.read_labels(beside or file, annotations=file if beside else None)
    assert [one.ratings for one in labelled.outputs] == [{"quality": (n + 1.0,)} for n in N]
    assert [one.comments["quality"] for one in labelled.outputs] == [(f"why {n}",) for n in N]
    read = [[*one.texts.values()] for one in labelled.outputs]
    assert read == [[*flat_texts(n).values()] for n in N]
    notes = " ".join(labelled.notes)
    assert f"an export of {name.rpartition(' ')[0]}" in notes
    assert not left_out or f"5 labels by people (left out: {left_out}" in notes


def mturk(*answers: tuple[str, str, str], column: str = "quality", **cells: object) -> Path:
    """Assignments as the requester's page writes them: (worker, status, answer) of each HIT."""
    rows = [
        {"HITId": f"H{n}", "Title": "Rate", "AssignmentId": f"{worker}{n}", "WorkerId": worker}
        | {"AssignmentStatus": status, "WorkTimeInSeconds": "30"}
        | {f"Input.{name}": cell for name, cell in {**flat_texts(n), **cells}.items()}
        | {f"Answer.{column}": answer}
        for n in N
        for worker, status, answer in answers
    ]
    return file_of(pd.DataFrame(rows).dropna(axis="columns").to_csv(index=False))


def test_assignments_of_mturk_are_labels_of_their_hit_unless_rejected():
    # Two workers say 2 and 4; what the third says was rejected.
    answers = (("W1", "Approved", "2"), ("W2", "Submitted", "4"), ("W3", "Rejected", "1"))
    # An input with the name of an answer does not hide it.
    labelled = data.read_labels(mturk(*answers, quality=RATING_BY_MODEL))
    assert [one.id for one in labelled.outputs] == [f"H{n}" for n in N]
    assert {one.ratings["quality"] for one in labelled.outputs} == {(2.0, 4.0)}
    assert {one.annotators["quality"] for one in labelled.outputs} == {("W1", "W2")}
    assert [one.texts for one in labelled.outputs] == [flat_texts(n) for n in N]
    left_out = f"an export of MTurk (left out: {len(N)} with AssignmentStatus Rejected)"
    assert left_out in labelled.notes
    # An answer with the name of a text rates this text, and does not replace it.
    labelled = data.read_labels(mturk(*answers, column="answer"))
    assert [one.texts for one in labelled.outputs] == [flat_texts(n) for n in N]
    assert {one.ratings["Answer.answer"] for one in labelled.outputs} == {(2.0, 4.0)}


def test_pairs_of_mturk_with_the_same_answers_stay_apart():
    # All prompts differ, and all pairs of answers are equal.
    answers = (("W1", "Approved", "A"), ("W2", "Approved", "tie"))
    sides = {"response_a": "Yes.", "response_b": "No.", "answer": None}
    pairs = data.read_pairs(mturk(*answers, column="preference", **sides))
    assert [pair.id for pair in pairs.pairs] == [f"H{n}" for n in N]
    assert {pair.votes for pair in pairs.pairs} == {("A", "tie")}
    assert [pair.texts for pair in pairs.pairs] == [{"question": f"Question {n}?"} for n in N]


def prodigy_row(n: int, who: str, answer: str, **cells: object) -> dict[str, Any]:
    hashes = {"_input_hash": -n, "_task_hash": n, "_timestamp": 1790000000 + n}
    return {**hashes, "text": f"Answer {n}.", **cells, "answer": answer, "_annotator_id": who}


def test_labels_accepted_and_rejected_in_prodigy_are_passes_and_fails():
    answers = (("ann", "reject"), ("bob", "accept"), ("cy", "ignore"))
    labels = ("POLITE", "CLEAR")
    tasks = [prodigy_row(n, *each, label=name) for n in N for each in answers for name in labels]
    labelled = data.read_labels(tasks)
    each = {"POLITE": (0.0, 1.0), "CLEAR": (0.0, 1.0)}
    assert [one.ratings for one in labelled.outputs] == [each] * len(N)
    assert [one.texts for one in labelled.outputs] == [{"text": f"Answer {n}."} for n in N]
    # One ignored task for each of five texts and two labels.
    assert "an export of Prodigy (left out: 10 with answer ignore)" in labelled.notes


def test_the_choice_of_an_accepted_prodigy_task_is_the_rating():
    options = [{"id": number, "text": str(number)} for number in N]
    answers = (("ann", "accept", 2), ("bob", "reject", 3), ("cy", "ignore", 4))
    tasks = [
        prodigy_row(n, who, answer, options=options, accept=[choice])
        for n in N
        for who, answer, choice in answers
    ]
    labelled = data.read_labels(tasks)
    assert [one.ratings for one in labelled.outputs] == [{"accept": (2.0,)}] * len(N)
    assert [one.texts for one in labelled.outputs] == [{"text": f"Answer {n}."} for n in N]
    assert "(left out: 5 with answer reject, 5 with answer ignore)" in " ".join(labelled.notes)


def test_scores_of_observations_are_on_their_own_texts():
    message = {"role": "assistant", "content": "Of it."}
    part = {"id": "o1", "traceId": "t1", "input": "A part?", "output": message}
    score = langfuse_score(1, "ANNOTATION", 4, observationId="o1")
    trace = langfuse_trace(1, observations=[part], scores=[score, *langfuse_scores(1)])
    by_id = {one.id: one for one in data.read_labels([trace]).outputs}
    assert by_id["o1"].texts == {"input": "A part?", "output": "Of it."}
    assert by_id["o1"].ratings == {"quality": (4.0,)}
    assert by_id["t1"].ratings == {"quality": (2.0,)}


def test_scores_of_sessions_are_counted():
    session = langfuse_score(0, "ANNOTATION", 4, traceId=None, sessionId="s")
    labelled = data.read_labels(TRACES, annotations=save("scores", [*SCORES, session]))
    assert "1 of outputs that are not in the file" in " ".join(labelled.notes)


def test_a_source_of_no_known_meaning_is_asked_about():
    traces = [langfuse_trace(n, scores=[langfuse_score(n, "imported", n + 1)]) for n in N]
    message = refusal(traces)
    assert "row 1: 'imported' gave labels in Langfuse, and may be people or a model" in message
    assert "--values imported=1 if people gave them" in message
    labelled = data.read_labels(traces, values={"imported": 1})
    assert labelled.outputs[2].ratings == {"quality": (3.0,)}
    assert "0 labels by people (left out: 5 imported)" in refusal(traces, values={"imported": 0})


LONG = "What is the answer to the question of the number"
BRAINTRUST = [
    {"id": f"e{n}", "span_id": f"s{n}", "root_span_id": f"s{n}", **texts(n)}
    | {"scores": {"Factuality": RATING_BY_MODEL, "quality": n + 1}}
    for n in N
]
FLAT = {
    "bookmarked": False,
    "level": "DEFAULT",
    "environment": "default",
    "quality": [RATING_BY_MODEL],
}
RESULTS = [
    {"inputs.q": f"{LONG} {n}?", "outputs.a": f"{LONG} {n}.", "feedback.quality": 9} for n in N
]
RESPONSES = {"suggestions": {}, "responses": {"quality": [{"value": 3, "user_id": "u1"}]}}


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (BRAINTRUST, "--map quality=scores.quality"),
        ([{**texts(n), "id": f"t{n}", **FLAT} for n in N], "--annotations FILE"),
        (RESULTS, "list_feedback"),
        ([{"id": n, "fields": {"q": f"{LONG} {n}?"}, **RESPONSES} for n in N], "(flatten=True)"),
        (SCORES, "without texts; export each trace by"),
        ([langfuse_trace(n, scores=[f"score{n}"]) for n in N], "export each trace by"),
        ([mlflow_trace(n) | {"assessments": "[\n{'a': 1}]"} for n in N], "to_json"),
    ],
)
def test_a_file_that_does_not_say_who_rated_is_refused(content, advice):
    assert advice in refusal(content).partition("is an export of ")[2]
    if "texts" not in advice:
        # Somebody who is to label the outputs needs no labels.
        assert len(read_items(content).items) == len(N)
    if content is BRAINTRUST:
        labelled = data.read_labels(content, map={"quality": "scores.quality"})
        assert [one.rating("quality") for one in labelled.outputs] == [n + 1 for n in N]


OWN: list[dict[str, Any]] = [
    {"run_id": "r", "key": "a", "feedback_source": "survey"},
    {"htmlPath": "a.html", "scores": "high", "annotations": "checked twice"},
    {"source": "web", "dataType": "email", "subject": "Rooms"},
    {"traceId": "t", "level": "B2", "environment": "school"},
    {"context": "In the hall.", "span_kind": "short"},
    {"run_type": "trial", "inputs": "A form.", "outputs": "A letter."},
    {"data": "Of May.", "annotations": "none", "predictions": "rain"},
    {"fields": "law", "responses": "Yes.", "suggestions": "none"},
    {"span_id": "s", "root_span_id": "s", "scores": "high", "annotator_kind": "expert"},
    {"HITId": "h", "_input_hash": "h", "accept": "yes", "answer_by": "mail"},
]


@pytest.mark.parametrize("columns", OWN, ids=" ".join)
def test_a_table_of_ones_own_with_such_columns_is_no_tools(columns):
    table = [{**texts(n), "id": n, **columns, "quality": n + 1} for n in N]
    labelled = data.read_labels(table, dimensions=["quality"])
    assert [one.ratings["quality"] for one in labelled.outputs] == [(n + 1.0,) for n in N]
    assert "an export" not in " ".join(labelled.notes)


@pytest.mark.parametrize("column", ["label", "quality"])
def test_labels_join_outputs_that_have_numbers_of_their_own(column):
    outputs = [{**texts(n), "id": f"r{n}", "latency_ms": 100 + n, "tokens": n} for n in N]
    labels = file_of(f"id,{column}\nr0,pass\nr1,fail\nr2,pass\nr3,fail\nr4,pass\n")
    labelled = data.read_labels(outputs, annotations=labels, dimensions=["quality"])
    assert [one.rating("quality") for one in labelled.outputs] == [1, 0, 1, 0, 1]
    assert data.read_labels(outputs, annotations=labels).dimensions == (column,)
