"""Judges in the tools themselves: a tool that is not installed is skipped, and named.

Run them with `pytest -W default -m integration tests/integration`; docs/other_tools.md names the
versions that were run.
"""

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from files import file_of, read_jsonl, write_jsonl
from tool_cases import JUDGE, ROWS, SCORES

import data
import judges
from judges.integrations import deepeval_metric, evaluation_events, inspect_scorer, mlflow_scorer
from optimize.measuring.exports import read_tool_results

BLANK = [{**ROWS[0], "summary": " "}]
LABELS = data.read_labels(
    [{"id": f"r{n}", "group": "d", **row, "mark": 1} for n, row in enumerate(ROWS)]
)


def scores_in(path):
    recording = read_tool_results(path, "relevance", LABELS)
    judgements = recording.judgement_by_id
    return {id_: judgement.score for id_, judgement in judgements.items()}, recording.notes


pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]


@pytest.fixture(autouse=True)
def _quiet(tmp_path, monkeypatch):
    """Keep tools from reporting home and from writing into the working folder."""
    promptfoo = ("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE")
    for name in ("DEEPEVAL_TELEMETRY_OPT_OUT", "DO_NOT_TRACK", *promptfoo):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)


def test_mlflow_gets_the_judges_scores_and_none_for_a_failure():
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri("sqlite:///mlflow.db")
    mlflow.set_experiment("judges")
    rows = [(row["document"], row["summary"]) for row in [*ROWS, *BLANK]]
    table: list[dict[str, Any]]
    table = [{"inputs": {"document": document}, "outputs": summary} for document, summary in rows]
    for document, summary in rows[:3]:
        request = {"messages": [{"role": "user", "content": document}]}
        message = {"role": "assistant", "content": summary}
        table.append({"inputs": request, "outputs": {"choices": [{"message": message}]}})
    result = mlflow.genai.evaluate(data=table, scorers=[mlflow_scorer(JUDGE)])
    scores = result.result_df["relevance/value"].dropna()
    assert sorted(scores) == pytest.approx(sorted([*SCORES, *SCORES[:3]]), abs=1e-12)


def inspect_log(rows, scorer, epochs=1):
    """The log of an evaluation whose model answers with each row's last text."""
    from inspect_ai import Task, eval
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.solver import solver

    @solver
    def answer():
        async def solve(state, generate):
            state.output = ModelOutput.from_content("none", state.metadata.pop("answer"))
            return state

        return solve

    samples = [
        Sample(id=f"r{n}", input=next(iter(row.values())), metadata={"answer": [*row.values()][-1]})
        for n, row in enumerate(rows)
    ]
    task = Task(dataset=samples, solver=answer(), scorer=scorer, epochs=epochs)
    (log,) = eval(task, model="mockllm/model", log_dir="logs", display="none")
    assert log.status == "success", log.error
    return log


def test_inspect_gets_the_judges_scores_and_no_failure():
    pytest.importorskip("inspect_ai")
    log = inspect_log([*ROWS, *BLANK], inspect_scorer(JUDGE))
    samples = sorted(log.samples, key=lambda sample: int(sample.id[1:]))
    *values, failure = (sample.scores["relevance"].value for sample in samples)
    assert values == SCORES
    assert math.isnan(failure)


def test_inspect_s_epochs_are_averaged_when_its_log_is_read():
    pytest.importorskip("inspect_ai")
    log = inspect_log(ROWS, inspect_scorer(JUDGE), epochs=3)
    dump = [Path(sys.executable).parent / "inspect", "log", "dump", log.location]
    process = subprocess.run(dump, capture_output=True, check=True)
    path = file_of(process.stdout, "log.json")
    scores, notes = scores_in(path)
    assert scores == pytest.approx({f"r{n}": score for n, score in enumerate(SCORES)})
    assert "up to 3 scores of one output" in notes[1]


def test_deepeval_gets_the_judge_s_own_scores():
    pytest.importorskip("deepeval")
    from deepeval import evaluate
    from deepeval.evaluate import AsyncConfig, DisplayConfig
    from deepeval.test_case import LLMTestCase

    cases = [
        LLMTestCase(name=str(n), input=row["document"], actual_output=row["summary"])
        for n, row in enumerate(ROWS)
    ]
    options = {
        "async_config": AsyncConfig(run_async=False),
        "display_config": DisplayConfig(show_indicator=False, print_results=False),
    }
    tests = evaluate(cases, [deepeval_metric(JUDGE, threshold=3.0)], **options).test_results
    results = [test.metrics_data[0] for test in sorted(tests, key=lambda test: int(test.name))]
    assert [each.score for each in results] == pytest.approx(SCORES, abs=1e-12)
    assert {each.evaluation_model for each in results} == {"embedded"}


def test_promptfoo_averages_a_judge_over_its_repeats(tmp_path):
    promptfoo = shutil.which("promptfoo")
    if promptfoo is None:
        pytest.skip("promptfoo is not installed")
    JUDGE.save("judge.json")
    script = "import judges\nfrom judges.integrations import promptfoo_assertion\n"
    script += "get_assert = promptfoo_assertion(judges.load('judge.json'), threshold=3)\n"
    file_of(script, "relevance.py")
    assertion = {"type": "python", "value": "file://relevance.py", "metric": "relevance"}
    rows = [*ROWS[:4], {**ROWS[4], "summary": ""}]
    tests = [{"vars": {"id": f"r{n}", **row}, "assert": [assertion]} for n, row in enumerate(rows)]
    config = {"prompts": ["{{summary}}"], "providers": ["echo"], "tests": tests}
    file_of(yaml.safe_dump(config), "promptfooconfig.yaml")
    environment = {"PROMPTFOO_PYTHON": sys.executable, "PROMPTFOO_CONFIG_DIR": str(tmp_path / "c")}
    command = [promptfoo, "eval", "-o", "results.json", "--repeat", "2", "--no-cache", "-j", "1"]
    process = subprocess.run(command, env={**os.environ, **environment}, capture_output=True)
    results = json.loads(Path("results.json").read_text())["results"]["results"]
    assert len(results) == 10, process.stderr
    passes = {result["vars"]["id"]: result["success"] for result in results}
    assert [passes[f"r{n}"] for n in range(5)] == [*(score >= 3 for score in SCORES[:4]), False]
    scores, notes = scores_in(Path("results.json"))
    assert [scores[f"r{n}"] for n in range(4)] == pytest.approx([(s - 1) / 4 for s in SCORES[:4]])
    assert math.isnan(scores["r4"])
    assert "up to 2 scores of one output" in notes[1]


def test_a_frame_of_polars_gets_a_series_of_polars():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame([*ROWS, *BLANK])
    with pytest.warns(UserWarning, match="1 of 21 judgements failed"):
        series = JUDGE.score(frame)
    assert isinstance(series, polars.Series)
    assert series.name == "relevance"
    assert series.to_list() == [*SCORES, None]
    assert frame.with_columns(series).columns == [*JUDGE.texts, "relevance"]
    with pytest.raises(TypeError, match=r"not polars's LazyFrame; .*collect\(\)"):
        JUDGE.score(frame.lazy())


def test_events_are_otlp_json():
    logs = pytest.importorskip("opentelemetry.proto.logs.v1.logs_pb2")
    from google.protobuf.json_format import Parse

    from dspy_judges.__main__ import main

    table = write_jsonl("rows.jsonl", [*ROWS, *BLANK])
    assert main(["score", "relevance", "--data", table, "--out", "judged.jsonl"]) == 0
    rows = read_jsonl("judged.jsonl")
    events = [
        Parse(line, logs.LogsData()).resource_logs[0].scope_logs[0].log_records[0]
        for line in evaluation_events(judges.load("relevance"), rows)
    ]
    assert {event.event_name for event in events} == {"gen_ai.evaluation.result"}
    values = [{each.key: each.value for each in event.attributes} for event in events]
    scores = [each["gen_ai.evaluation.score.value"].double_value for each in values[:20]]
    assert scores == [row["judgements"]["relevance"]["score"] for row in rows[:20]]
    assert values[20]["gen_ai.evaluation.explanation"].string_value == "summary is empty"
