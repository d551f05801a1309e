"""Rows through every other tool's scorer get the judge's own scores; what is missing stays missing.

A tool that is not installed is skipped, and named.
"""

import math
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from openai_server import OpenAIServer

import data
from judges.catalog import RELEVANCE, TLDR_CONCISE
from judges.integrations import (
    OpenJudge,
    deepeval_metric,
    dspy_metric,
    inspect_scorer,
    mlflow_scorer,
)
from judges.judge import Judge
from judges.questions import Question
from judges.scoring import SamplingPlan

Rows = Sequence[Mapping[str, str]]
WEIGHTED = SamplingPlan(kind="weighted")
JUDGE = Judge.of(RELEVANCE).with_plan(WEIGHTED)
ROWS = [
    {name: output.texts[name] for name in RELEVANCE.texts} for output in data.starter().outputs[:20]
]

pytestmark = pytest.mark.filterwarnings("default")


def by_dspy_metric(judge: Judge, rows: Rows, folder: Path) -> Sequence[float]:
    import dspy

    class Echo(dspy.Module):  # type: ignore[misc]
        def forward(self, document: str, summary: str) -> Any:
            return dspy.Prediction(summary=summary)

    examples = [dspy.Example(**row).with_inputs("document", "summary") for row in rows]
    evaluate = dspy.Evaluate(devset=examples, metric=dspy_metric(judge), num_threads=2)
    result = evaluate(Echo())
    scores = [score for _, _, score in result.results]
    assert result.score == pytest.approx(100 * math.fsum(scores) / len(scores), abs=0.005)
    return scores


def by_mlflow_scorer(judge: Judge, rows: Rows, folder: Path) -> Sequence[float]:
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.set_experiment("judges")
    table = [{"inputs": {"document": row["document"]}, "outputs": row["summary"]} for row in rows]
    result = mlflow.genai.evaluate(data=table, scorers=[mlflow_scorer(judge)])
    frame = result.result_df
    assert frame is not None
    by_output = dict(zip(frame["response"], frame[f"{judge.name}/value"], strict=True))
    return [by_output[row["summary"]] for row in rows]


def inspect_scores(samples: Sequence[Any], scorer: Any, folder: Path, name: str) -> list[float]:
    """What Inspect's log says of samples whose texts are answered as they stand in `answer`."""
    from inspect_ai import Task, eval
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    @solver
    def answered() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("none", state.metadata.pop("answer"))
            return state

        return solve

    task = Task(dataset=samples, solver=answered(), scorer=scorer)
    (log,) = eval(task, model="mockllm/model", log_dir=str(folder), display="none")
    assert log.status == "success", log.error
    ordered = sorted(log.samples, key=lambda sample: int(sample.id))
    return [sample.scores[name].as_float() for sample in ordered]


def inspect_samples(rows: Rows) -> list[Any]:
    from inspect_ai.dataset import Sample

    return [
        Sample(id=i, input=row["document"], target="none", metadata={"answer": row["summary"]})
        for i, row in enumerate(rows)
    ]


def by_inspect_scorer(judge: Judge, rows: Rows, folder: Path) -> Sequence[float]:
    return inspect_scores(inspect_samples(rows), inspect_scorer(judge), folder, judge.name)


def deepeval_scores(rows: Rows, metric: Any) -> list[float]:
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig
    from deepeval.test_case import LLMTestCase

    cases = [
        LLMTestCase(name=str(i), input=row["document"], actual_output=row["summary"])
        for i, row in enumerate(rows)
    ]
    result = evaluate(
        cases,
        [metric],
        async_config=AsyncConfig(run_async=False),
        display_config=DisplayConfig(show_indicator=False, print_results=False),
    )
    by_name = {test.name: test.metrics_data[0].score for test in result.test_results}
    return [by_name[str(i)] for i in range(len(rows))]


def by_deepeval_metric(judge: Judge, rows: Rows, folder: Path) -> Sequence[float]:
    return deepeval_scores(rows, deepeval_metric(judge, threshold=3.0))


WAYS = {
    "dspy": by_dspy_metric,
    "mlflow": by_mlflow_scorer,
    "inspect_ai": by_inspect_scorer,
    "deepeval": by_deepeval_metric,
}


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep tools from reporting home and from writing into the working folder."""
    monkeypatch.setenv("DEEPEVAL_TELEMETRY_OPT_OUT", "1")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("DO_NOT_TRACK", "1")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("tool", WAYS)
def test_twenty_rows_get_the_judges_own_scores(tool: str, tmp_path: Path) -> None:
    pytest.importorskip(tool)
    expected = [judgement.score for judgement in JUDGE.judge_all(ROWS)]
    assert list(WAYS[tool](JUDGE, ROWS, tmp_path)) == pytest.approx(expected, abs=1e-12)


def asking(judge: Judge, **options: Any) -> OpenJudge:
    return OpenJudge(judge, options, output="out", input="in")  # type: ignore[arg-type]


ROW = {"in": "The council closed the bridge.", "out": "The bridge is closed."}


def test_texts_are_found_by_role_by_name_and_by_mapping() -> None:
    judge = JUDGE
    expected = judge(document=ROW["in"], summary=ROW["out"])
    assert asking(judge)(ROW) == expected
    assert asking(judge)({"document": ROW["in"], "in": "x", "out": ROW["out"]}) == expected
    assert asking(judge)({**ROW, "out": {"summary": ROW["out"], "score": 1}}) == expected
    # What is judged is the tool's output, whatever else has its name.
    assert asking(judge)({**ROW, "summary": "The reference."}) == expected
    mapped = asking(judge, map={"document": "article", "summary": "draft"})
    assert (
        mapped({"article": ROW["in"], "draft": ROW["out"], **dict.fromkeys(ROW, "x")}) == expected
    )


def test_a_judge_of_pairs_is_refused() -> None:
    with pytest.raises(ValueError, match="compares two outputs"):
        dspy_metric(Judge.of(TLDR_CONCISE))


def test_one_budget_holds_for_a_scorers_life(openai_server: OpenAIServer) -> None:
    ask = asking(Judge.of(RELEVANCE, lm="openai/judge-1"), max_calls=1)
    assert ask(ROW).failure is None
    other = {**ROW, "in": "Another text."}
    assert "not asked: the budget of 1 calls is spent" in str(ask(other).failure)


def record(**fields: str) -> SimpleNamespace:
    return SimpleNamespace(items=fields.items)


def test_a_failed_judgement_is_nan_for_dspy_and_no_demonstration() -> None:
    metric = dspy_metric(JUDGE)
    blank = (record(document="A text."), record(summary=" "))
    assert math.isnan(metric(*blank))
    assert metric(*blank, trace=[]) is False
    gepa = metric(*blank, None, "judge", None)
    assert math.isnan(gepa.score)
    assert gepa.feedback == "summary is empty"


def test_gepa_gets_the_answers_to_a_judge_s_questions(openai_server: OpenAIServer) -> None:
    openai_server.judge = lambda body: "[[ ## short ## ]]\nno\n\n[[ ## rating ## ]]\n4"
    question = Question(name="short", text="is it short")
    metric = dspy_metric(Judge.of(RELEVANCE, lm="openai/judge-1", questions=[question]))
    gepa = metric(record(document="A text."), record(summary="A."), None, "judge", None)
    assert (gepa.score, gepa.feedback) == (4.0, "score 4.00; short 0; rating 4")


@pytest.mark.skipif(find_spec("mlflow") is None, reason="mlflow is not installed")
def test_mlflow_gets_an_error_in_place_of_a_failed_judgement() -> None:
    feedback = mlflow_scorer(JUDGE)(inputs={"document": "A text."}, outputs=" ")
    assert (feedback.value, feedback.error_message) == (None, "summary is empty")


@pytest.mark.skipif(find_spec("inspect_ai") is None, reason="inspect_ai is not installed")
def test_inspect_leaves_a_failed_judgement_out(tmp_path: Path) -> None:
    rows = [dict(row) for row in ROWS[:2]]
    rows[1]["summary"] = " "
    samples = inspect_samples(rows)
    first, second = inspect_scores(samples, inspect_scorer(JUDGE), tmp_path, JUDGE.name)
    assert first == JUDGE(**ROWS[0]).score
    assert math.isnan(second)
