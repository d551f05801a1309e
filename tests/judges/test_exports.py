"""Scores in results of other tools, in small files written from the tools' documentation."""

import csv
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.types import LabelledOutput, LabelledSet, Reading
from judges.exports import read_export
from judges.recorded import RecordingError

Rows = list[dict[str, Any]]


def labels(n: int = 3, *, numbered: bool = False, **fields: Any) -> LabelledSet:
    """Outputs a, b, c and on, of which n are labelled; `numbered`: by their rows alone."""
    return LabelledSet(
        name="labels",
        sha256="0" * 64,
        outputs=tuple(
            LabelledOutput(
                id=str(number) if numbered else "abcdefghij"[number - 1],
                document_id=str(number),
                system=None,
                texts={"input": f"Question {number}?", "output": f"Answer {number}."},
                ratings={"tone": (1.0,)},
            )
            for number in range(1, n + 1)
        ),
        reading=Reading(rows={"id": ("#row",)} if numbered else {}),
        **fields,
    )


def inspect_log(ids: list[Any], values: list[Any]) -> dict[str, Any]:
    """As `inspect log dump` prints an evaluation log."""
    samples = [
        {
            "id": name,
            "epoch": 1,
            "input": f"Question {n}?",
            "target": "",
            "output": {"model": "m", "completion": f"Answer {n}."},
            "scores": {"tone_scorer": {"value": value, "explanation": f"Because {n}."}},
        }
        for n, (name, value) in enumerate(zip(ids, values, strict=True), 1)
    ]
    return {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": samples}


def promptfoo_rows(scores: list[float | None], **more: Any) -> Rows:
    """The rows of `promptfoo eval -o FILE`; a test that ended in an error has no grading."""

    def graded(n: int, score: float) -> dict[str, Any]:
        assertion = {"type": "llm-rubric", "metric": "Tone", "value": "Is it kind?"}
        result = {"pass": score > 0.7, "score": score, "reason": f"Because {n}."}
        other = {"pass": True, "score": 1, "reason": "", "assertion": {"type": "contains"}}
        return {"componentResults": [{**result, "assertion": assertion, **more}, other, None]}

    return [
        {
            "id": f"uuid-{n}",
            "vars": {"question": f"Question {n}?"},
            "success": True,
            "score": 1,
            "response": {"output": f"Answer {n}."},
            **({"error": "timed out"} if score is None else {"gradingResult": graded(n, score)}),
        }
        for n, score in enumerate(scores, 1)
    ]


def deepeval_run(metrics: list[Rows]) -> dict[str, Any]:
    """As DeepEval saves a test run."""
    return {
        "testCases": [
            {
                "name": f"test_case_{n}",
                "input": f"Question {n + 1}?",
                "actualOutput": f"Answer {n + 1}.",
                "success": True,
                "metricsData": data,
            }
            for n, data in enumerate(metrics)
        ]
    }


def geval(score: float | None, **more: Any) -> dict[str, Any]:
    return {"name": "Tone [GEval]", "threshold": 0.8, "success": False, "score": score, **more}


MLFLOW = [
    {
        "trace_id": f"tr-{n}",
        "tone/value": value,
        "expected_response/value": "An answer.",
        "request": {"question": f"Question {n}?"},
        "response": f"Answer {n}.",
        "assessments": [],
    }
    for n, value in enumerate(("yes", "no", None), 1)
]
MLFLOW_TABLE = [
    {"inputs": f"Question {n}?", "outputs": f"Answer {n}.", "tone/v1/score": n} for n in (1, 2, 3)
]
LANGSMITH = [
    {
        "inputs.question": f"Question {n}?",
        "outputs.answer": f"Answer {n}." if n < 3 else "",
        "error": "" if n < 3 else "no answer",
        "reference.answer": "Yes.",
        "feedback.tone": score,
        "feedback.length": 3,
        "execution_time": 0.5,
        "example_id": "abc"[n - 1],
        "id": f"run-{n}",
    }
    for n, score in enumerate((1, 0.5, ""), 1)
]
RAGAS = [
    {
        "user_input": f"Question {n}?",
        "retrieved_contexts": "['A text.']",
        "response": f"Answer {n}.\n",
        "reference": "Yes.",
        "faithfulness": score,
    }
    for n, score in enumerate((0.25, 1.0, ""), 1)
]


def written(path: Path, content: Any) -> Path:
    """A file of rows or of an object, by the path's ending."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, content[0])
            writer.writeheader()
            writer.writerows(content)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in content), encoding="utf-8")
    else:
        path.write_text(json.dumps(content), encoding="utf-8")
    return path


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Mapping[str, float]]:
    """Reads content under a file's name; what is said goes to the list `said`."""

    def read_content(
        name: str, content: Any, labelled: LabelledSet | None = None, **options: Any
    ) -> Mapping[str, float]:
        said: list[str] = options.pop("said", [])
        path = written(tmp_path / name, content)
        scores = read_export(path, "tone", labelled or labels(), said.append, **options)
        assert scores is not None
        return scores

    return read_content


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("i.json", inspect_log([*"abc"], ["C", "P", "I"]), [1, 0.5, 0]),
        ("i.json", inspect_log([*"abc"], [4, 2.5, math.nan]), [4, 2.5, math.nan]),
        (
            "p.json",
            {"results": {"results": promptfoo_rows([0.9, 0.2, None])}},
            [0.9, 0.2, math.nan],
        ),
        ("p.jsonl", promptfoo_rows([0.9, 0.2, 1]), [0.9, 0.2, 1]),
        ("d.json", deepeval_run([[geval(0.9)], [geval(0.2)], []]), [0.9, 0.2, math.nan]),
        ("m.json", MLFLOW, [1, 0, math.nan]),
        ("m.csv", MLFLOW_TABLE, [1, 2, 3]),
        ("l.csv", LANGSMITH, [1, 0.5, math.nan]),
        ("r.csv", RAGAS, [0.25, 1, math.nan]),
    ],
)
def test_each_tools_scores_find_their_labelled_rows(
    read: Callable[..., Mapping[str, float]], name: str, content: Any, expected: list[float]
) -> None:
    scores = read(name, content)
    assert scores == pytest.approx(dict(zip("abc", expected, strict=True)), nan_ok=True)


def test_a_failure_is_no_score_and_keeps_its_reason(
    read: Callable[..., Mapping[str, Any]],
) -> None:
    run = deepeval_run([[geval(0.9, reason="Kind.")], [geval(None, error="no key")], []])
    assert [score.reason for score in read("d.json", run).values()] == ["Kind.", "no key", ""]
    rows = promptfoo_rows([0.0, None], metadata={"graderError": True})
    failed = read("p.jsonl", rows)
    assert all(map(math.isnan, failed.values()))
    assert [score.reason for score in failed.values()] == ["Because 1.", "timed out"]


def test_where_people_say_pass_or_fail_a_tools_own_verdict_goes_before_its_score(
    read: Callable[..., Mapping[str, float]],
) -> None:
    two_words = labels(words={"tone": ("pass", "fail")})
    rows = promptfoo_rows([0.9, 0.6, None])  # 0.6 is below the threshold of the test
    assert read("p.jsonl", rows, two_words) == pytest.approx(
        {"a": 1, "b": 0, "c": math.nan}, nan_ok=True
    )


def test_rows_are_found_by_ids_and_by_exact_texts_and_it_is_said(
    read: Callable[..., Mapping[str, float]],
) -> None:
    said: list[str] = []
    rows = promptfoo_rows([0.1, 0.2, 0.3, 0.4])
    rows[0]["vars"] = {"id": "a", "other": "words"}
    rows[2]["response"]["output"] = "answer 3."
    assert {*read("p.jsonl", rows, said=said)} == {"a", "b", "p.jsonl, row 3", "p.jsonl, row 4"}
    assert said == [
        "note: p.jsonl (promptfoo): 'Tone'; matched 2 of 3 labelled rows, 1 by id and 1 by their "
        "texts"
    ]


def test_a_row_that_two_labels_or_two_rows_could_be_is_left_out(
    read: Callable[..., Mapping[str, float]],
) -> None:
    # The id says b, the texts say a.
    assert {*read("i.json", inspect_log(["b", "x", "c"], [1, 2, 3]))} == {
        *("i.json, row 1", "b", "c")
    }
    assert {*read("i.json", inspect_log(["c", "x", "c"], [1, 2, 3]))} >= {"b"}


def test_of_rows_with_one_context_and_answer_the_question_tells_which(
    read: Callable[..., Mapping[str, float]],
) -> None:
    outputs = (
        replace(output, texts={"question": f"{output.id}?", "context": "C.", "answer": "Yes."})
        for output in labels().outputs
    )
    rows = promptfoo_rows([0.1, 0.2, 0.3])
    for name, row in zip("cab", rows, strict=True):
        row["vars"] = {"context": "C.", "question": f"{name}?"}
        row["response"]["output"] = "Yes."
    scores = read("p.jsonl", rows, replace(labels(), outputs=tuple(outputs)))
    assert scores == {"c": 0.1, "a": 0.2, "b": 0.3}


def test_numbers_of_rows_are_no_ids(read: Callable[..., Mapping[str, float]]) -> None:
    """Inspect numbers samples without ids from 1, as labels without ids are numbered."""
    log = inspect_log([3, 2, 1], [0.1, 0.2, 0.3])
    assert read("i.json", log, labels(numbered=True)) == {"1": 0.1, "2": 0.2, "3": 0.3}


def test_scores_of_other_outputs_than_were_labelled_are_warned_of(
    read: Callable[..., Mapping[str, float]],
) -> None:
    said: list[str] = []
    log = inspect_log([*"abc"], [1, 2, 3])
    log["samples"][1]["output"]["completion"] = "Another answer."
    assert len(read("i.json", log, said=said)) == 3
    assert said[1] == "warning: i.json (Inspect): 1 row with another output than people rated"


def test_the_metric_is_the_named_one_the_dimensions_or_the_only_one(
    read: Callable[..., Mapping[str, float]],
) -> None:
    assert read("l.csv", LANGSMITH, metric="Length")["a"] == 3
    two_cases = [{**row, "feedback.Tone": 4} for row in LANGSMITH]
    assert read("l.csv", two_cases)["a"] == 1
    assert read("l.csv", two_cases, metric="Tone")["a"] == 4
    two = [{**row, "correctness": 1} for row in RAGAS]
    reason = "'tone' is none .*: correctness, faithfulness; .*, as in --scores METRIC=FILE"
    with pytest.raises(RecordingError, match=reason):
        read("r.csv", two)


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("i.json", inspect_log(["a"], ["fine"]), "none of its scores"),
        ("r.csv", [{**row, "tone": "kind"} for row in RAGAS], "row 1: 'tone' is 'kind'; a number"),
        ("p.jsonl", promptfoo_rows([1e10]), "row 1: 'Tone' is 10000000000.0; a number is wanted"),
        ("d.json", deepeval_run([[geval(1), geval(0)]]), "row 1: 'Tone .GEval.' has two scores"),
        ("x.csv", [{**RAGAS[0], "response": "else"}], "no row alone has .* docs/other_tools.md"),
        ("a.eval", {}, "a.eval is binary: `inspect log dump a.eval > log.json`"),
    ],
)
def test_what_cannot_be_read_is_one_line_with_the_way_out(
    read: Callable[..., Mapping[str, float]], name: str, content: Any, reason: str
) -> None:
    with pytest.raises(RecordingError, match=reason):
        read(name, content)


@pytest.mark.parametrize(
    "row",
    [
        {"id": "a", "score": 1},
        {"id": "a", "dimension": "tone", "score": 1, "user_input": "Q", "response": "A"},
        {"id": "a", "user_input": "Q", "response": "A", "tone_judge": 1, "tone_failure": ""},
        {**LANGSMITH[0], "judgements": {"tone": {"score": 1}}},
    ],
)
def test_plain_scores_and_rows_of_this_projects_judges_are_no_tools(
    tmp_path: Path, row: dict[str, Any]
) -> None:
    path = written(tmp_path / "s.jsonl", [row])
    assert read_export(path, "tone", labels(), print) is None
    assert (
        read_export(written(tmp_path / "o.json", {"rows": [row]}), "tone", labels(), print) is None
    )


@given(order=st.permutations(range(10)), n=st.integers(1, 10))
def test_the_order_of_rows_changes_nothing(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], n: int
) -> None:
    rows = promptfoo_rows([place / 10 for place in range(10)])
    path = written(tmp_path_factory.mktemp("p") / "p.jsonl", [rows[place] for place in order])
    scores = read_export(path, "tone", labels(n), lambda line: None)
    assert scores is not None
    assert {name: scores[name] for name in "abcdefghij"[:n]} == {
        name: place / 10 for place, name in enumerate("abcdefghij"[:n])
    }
