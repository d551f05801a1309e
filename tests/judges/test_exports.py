"""Scores in other tools' results, in small files of the forms that the tools really write."""

import csv
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from files import write_jsonl

import data
from optimize.measuring.exports import Tool, read_tool_results
from optimize.measuring.recorded import RecordingError

THREE = (1, 2, 3)


def labels(tones=(1, 2, 3), **columns):
    """Labels on three outputs a, b and c; `columns` replace the columns of ids and texts."""
    texts = {"input": [f"Question {n}?" for n in THREE], "output": [f"Answer {n}." for n in THREE]}
    frame = pd.DataFrame({"id": [*"abc"], **texts, "tone": tones, **columns})
    return data.read_labels(frame.dropna(axis=1), dimensions=["tone"])


def inspect_log(ids, values):
    """As `inspect log dump` prints it; a sample without a value ended in an error."""
    samples = [
        {
            "id": name,
            "epoch": 1,
            "input": f"Question {n}?",
            "output": {"model": "m", "completion": "" if value is None else f"Answer {n}."},
            "scores": {} if value is None else {"tone_scorer": {"value": value}},
            "error": {"message": "no file"} if value is None else None,
        }
        for n, (name, value) in enumerate(zip(ids, values, strict=True), 1)
    ]
    return {"version": 2, "samples": samples}


def promptfoo_rows(scores, **more):
    """As `-o FILE` writes them; a test that ended in an error has no grading."""
    other = {"pass": True, "score": 1, "assertion": {"type": "contains"}}
    tone = {"assertion": {"type": "llm-rubric", "metric": "Tone"}, **more}

    def grade(n, score):
        result = {"pass": score > 0.7, "score": score, "reason": f"Because {n}."}
        return [result | tone, other]

    return [
        {
            "vars": {"question": f"Question {n}?"},
            "success": False,
            # A failed assertion is an error of its row, too.
            "error": "timed out" if score is None else f"Because {n}.",
            "response": {"output": f"Answer {n}."},
            "gradingResult": score is not None and {"componentResults": grade(n, score)},
        }
        for n, score in enumerate(scores, 1)
    ]


def deepeval_run(*metrics):
    """As DeepEval saves a test run."""
    cases = [
        {"input": f"Question {n}?", "actualOutput": f"Answer {n}.", "metricsData": data}
        for n, data in enumerate(metrics, 1)
    ]
    return {"testCases": cases}


def geval(score, **more):
    return {"name": "Tone [GEval]", "success": False, "score": score, **more}


def mlflow_rows(judge, feedback):
    """As `result_df.to_json` writes them; people expect a tone of 5."""
    human = {"source": {"source_type": "HUMAN"}, "expectation": {"value": 5}}
    people = {"assessment_name": "tone", **human}
    return [
        {
            "trace_id": f"tr-{n}",
            "request": {"question": f"Question {n}?"},
            "response": f"Answer {n}.",
            "assessments": [people, {"assessment_name": judge, "feedback": value}],
        }
        for n, value in enumerate(feedback, 1)
    ]


VALUES = [{"value": "yes"}, {"value": "no"}, {"error": {"error_message": "no key"}}]
MLFLOW_TABLE = [
    {"inputs": f"Question {n}?", "outputs": f"Answer {n}.", "tone/v1/score": n} for n in THREE
]
# Evaluators score a run that failed as well.
LANGSMITH = [
    {
        "inputs.question": f"Question {n}?",
        "outputs.answer": f"Answer {n}." if n < 3 else "",
        "error": "" if n < 3 else "no answer",
        "feedback.tone": score,
        "feedback.length": 3,
        "example_id": "abc"[n - 1],
    }
    for n, score in zip(THREE, (1, 0.5, 1), strict=True)
]
LANGSMITH_RESULTS = [
    {
        "run": {"outputs": {"answer": row["outputs.answer"]}},
        "example": {"id": row["example_id"], "inputs": {"question": row["inputs.question"]}},
        "evaluation_results": {"results": [{"key": "tone", "score": row["feedback.tone"]}]},
    }
    for row in LANGSMITH
]
RAGAS = [
    {
        "user_input": f"Question {n}?",
        "response": f"Answer {n}.\n" if n < 3 else "5",
        "reference": "Yes.",
        "faithfulness": score,
    }
    for n, score in zip(THREE, (0.25, 1.0, ""), strict=True)
]


def read(name, content, labelled=None, **options):
    """The scores in a file of this name, by id."""
    judgements = recording_of(name, content, labelled, **options).judgement_by_id
    return {id_: judgement.score for id_, judgement in judgements.items()}


def reasons_in(name, content):
    judgements = recording_of(name, content).judgement_by_id.values()
    return [judgement.rationale or judgement.failure for judgement in judgements]


def recording_of(name, content, labelled=None, **options):
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        if path.suffix == ".csv":
            with path.open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows([content[0], *(row.values() for row in content)])
        else:
            write_jsonl(path, content if path.suffix == ".jsonl" else [content])
        return read_tool_results(path, "tone", labelled or labels(), **options)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("i.json", inspect_log([*"abc"], ["C", "P", math.nan]), [1, 0.5, math.nan]),
        ("i.json", inspect_log([*"abc"], [{"tone": n, "length": 9} for n in THREE]), [1, 2, 3]),
        ("p.json", {"results": {"results": promptfoo_rows([0.9, 0, None])}}, [0.9, 0, math.nan]),
        ("d.json", deepeval_run([geval(0.9)], [geval(0.2)], []), [0.9, 0.2, math.nan]),
        ("m.json", mlflow_rows("tone", VALUES), [1, 0, math.nan]),
        ("m.json", mlflow_rows("helpful", VALUES), [1, 0, math.nan]),
        ("m.csv", MLFLOW_TABLE, [1, 2, 3]),
        ("l.csv", LANGSMITH, [1, 0.5, math.nan]),
        ("l.json", LANGSMITH_RESULTS, [1, 0.5, 1]),
        ("r.csv", [{"id": name, **row} for name, row in zip("abc", RAGAS, strict=True)], [0.25, 1]),
    ],
)
def test_each_tools_scores_find_their_labelled_rows(name, content, expected):
    by_id = dict(zip("abc", [*expected, math.nan], strict=False))
    assert read(name, content) == pytest.approx(by_id, nan_ok=True)


def test_a_failure_is_no_score_and_keeps_its_reason():
    run = deepeval_run([geval(0.9, reason="Kind.")], [geval(None, error="no key")], [])
    assert reasons_in("d.json", run) == ["Kind.", "no key", "no score"]
    rows = promptfoo_rows([0.0, None], metadata={"graderError": True})
    assert all(map(math.isnan, read("p.jsonl", rows).values()))
    assert reasons_in("p.jsonl", rows) == ["Because 1.", "timed out"]
    assert reasons_in("l.csv", LANGSMITH)[2] == "no answer"
    assert reasons_in("m.json", mlflow_rows("tone", VALUES))[2] == "no key"
    assert reasons_in("i.json", inspect_log([*"abc"], [1, 2, None]))[2] == "no file"


def test_for_pass_or_fail_a_tools_verdict_goes_before_its_score():
    rows = promptfoo_rows([0.9, 0.6, None])  # 0.6 is below the threshold of the test
    scores = read("p.jsonl", rows, labels(tones=("pass", "fail", "pass")))
    assert scores == pytest.approx({"a": 1, "b": 0, "c": math.nan}, nan_ok=True)


def test_rows_are_found_by_ids_and_by_exact_texts():
    rows = promptfoo_rows([0.1, 0.2, 0.3, 0.4])
    rows[0]["vars"] = {"id": "a", "other": "words"}
    rows[2]["response"]["output"] = "answer 3."
    recording = recording_of("p.jsonl", rows)
    assert {*recording.judgement_by_id} == {"a", "b", "p.jsonl, row 3", "p.jsonl, row 4"}
    assert recording.notes == ("p.jsonl (promptfoo): 'Tone'; matched 2 of 3 labelled rows",)


def test_an_ambiguous_row_is_left_out():
    # The id says b, the texts say a.
    assert {*read("i.json", inspect_log([*"bxc"], [1, 2, 3]))} == {"i.json, row 1", "b", "c"}
    assert {*read("i.json", inspect_log([*"cxc"], [1, 2, 3]))} >= {"b"}


def test_scores_of_a_repeated_evaluation_are_averaged():
    log = inspect_log([*"abcaba"], ["C", "C", "C", "I", math.nan, "C"])
    for sample in log["samples"][3:]:
        n = "abc".index(sample["id"]) + 1
        sample |= {"input": f"Question {n}?", "output": {"completion": f"Answer {n}."}, "epoch": 2}
    log["samples"][5]["output"]["completion"] = "Another answer."
    assert read("i.json", log) == {"a": 0.5, "b": 1, "c": 1}
    _, _, (_, note), (warning,) = recording_of("i.json", log)
    assert warning.endswith("(Inspect): 1 row left out: people labelled another output")
    assert note.endswith("up to 2 scores of one output (epochs, repeats) are averaged")
    rows = promptfoo_rows([0.1, 0.2]) + promptfoo_rows([0.3, None])
    assert read("p.jsonl", rows) == pytest.approx({"a": 0.2, "b": 0.2})


def test_of_rows_with_one_context_and_answer_the_question_tells_which():
    rows = promptfoo_rows([0.1, 0.2, 0.3])
    for row in rows:
        row["vars"]["context"], row["response"]["output"] = "C.", "Yes."
    labelled = labels(context="C.", output="Yes.")
    assert read("p.jsonl", rows[::-1], labelled) == {"a": 0.1, "b": 0.2, "c": 0.3}


def test_numbers_of_rows_are_no_ids():
    """Inspect numbers samples without ids from 1, as labels without ids are numbered."""
    log = inspect_log([3, 2, 1], [0.1, 0.2, 0.3])
    assert read("i.json", log, labels(id=None)) == {"1": 0.1, "2": 0.2, "3": 0.3}


def test_the_metric_is_named_or_the_only_one():
    assert read("l.csv", LANGSMITH, metric="Length")["a"] == 3
    two_cases = [{**row, "feedback.Tone": 4} for row in LANGSMITH]
    assert read("l.csv", two_cases)["a"] == 1
    assert read("l.csv", two_cases, metric="Tone")["a"] == 4
    reason = "no score is called 'tone'; its scores: correctness, faithfulness; .* METRIC=FILE"
    with pytest.raises(RecordingError, match=reason):
        read("r.csv", [{**row, "correctness": 1} for row in RAGAS])


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("i.json", inspect_log(["a"], ["fine"]), "no column .* Inspect's .* epoch, scores"),
        ("r.csv", [{**row, "tone": "kind"} for row in RAGAS], "row 1: 'tone' is 'kind'; a number"),
        ("p.jsonl", promptfoo_rows([1e10]), "row 1: 'Tone' is 10000000000.0; a number is wanted"),
        ("d.json", deepeval_run([geval(1), geval(0)]), "row 1: 'Tone .GEval.' has two scores"),
        ("x.csv", [{**RAGAS[0], "response": "else"}], "no row has .* docs/other_tools.md"),
        # People's ratings are among the vars.
        ("p.csv", [{"id": "a", "tone": 1, "Status": "PASS", "Grader Reason": ""}], "eval -o res"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_way_out(name, content, reason):
    with pytest.raises(RecordingError, match=reason):
        read(name, content)


def test_a_tools_scores_are_not_read_as_votes_on_pairs():
    sides = {"response_a": "A.", "response_b": "B.", "winner": "A"}
    pairs = data.read_pairs([{"id": name, "prompt": f"{name}?", **sides} for name in "abc"])
    with pytest.raises(RecordingError, match="rate single outputs, and the labels are on pairs"):
        read("p.jsonl", promptfoo_rows([0.9]), pairs)


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({"scores": "evals"}, "no column evals holds a score; the file is read as Acme's"),
        ({"scores": "marks"}, "no column marks with score or value or feedback.value holds"),
        ({"refusal": "rounds scores"}, "t.json rounds scores"),
    ],
)
def test_a_wrong_declaration_of_a_tool_is_refused(monkeypatch, declared, reason):
    rows = [{"id": "a", "output": "Answer 1.", "marks": [{"name": "tone", "points": 0}]}]

    tool = Tool("Acme", ("output", "marks"), **declared)
    monkeypatch.setattr("optimize.measuring.exports.TOOLS", [tool])
    with pytest.raises(RecordingError, match=reason):
        read("t.json", rows)


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "score": 1},
        {**RAGAS[0], "dimension": "tone", "score": 1},
        {**RAGAS[0], "tone_judge": 1, "tone_failure": ""},
        {**LANGSMITH[0], "judgements": {"tone": {"score": 1}}},
    ],
)
def test_plain_scores_and_rows_of_this_projects_judges_are_no_tools(row):
    assert recording_of("s.jsonl", [row]) is recording_of("o.json", {"rows": [row]}) is None
