"""A judge in other tools: its scores, failures and feedback as each tool takes them.

Stand-ins have what the adapters use of a tool; tests/integration runs them in the tools themselves.
"""

import asyncio
import json
import math
import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import dspy
import pytest
from judge_cases import RELEVANCE, TLDR_CONCISE
from tool_cases import JUDGE, ROWS, SCORES, VERDICT

from judges import integrations as tools
from judges.judge import Judge
from judges.judgement import NoScoreError
from judges.questions import AnswerWeights, Question


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **members: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(members)
    monkeypatch.setitem(sys.modules, name, module)


def record(**fields: str) -> SimpleNamespace:
    return SimpleNamespace(items=fields.items)


def evaluate(rows: Any, **options: Any) -> Any:
    """What DSPy's evaluation makes of a program that gives back the summaries."""

    class Echo(dspy.Module):  # type: ignore[misc]
        def forward(self, document: str, summary: str) -> Any:
            return dspy.Prediction(summary=summary)

    examples = [dspy.Example(**row).with_inputs("document", "summary") for row in rows]
    return dspy.Evaluate(devset=examples, metric=tools.dspy_metric(JUDGE), **options)(Echo())


def test_dspy_gets_scores_on_its_own_scale():
    result = evaluate(ROWS, num_threads=2)
    expected = [(score - 1) / 4 for score in SCORES]
    assert [score for _, _, score in result.results] == pytest.approx(expected, abs=1e-12)
    assert result.score == pytest.approx(100 * math.fsum(expected) / 20, abs=0.005)


def test_a_failed_judgement_is_an_error_that_dspy_counts(caplog):
    rows = [ROWS[0], {**ROWS[1], "summary": " "}]
    scores = [score for _, _, score in evaluate(rows, failure_score=0.5).results]
    assert scores == [pytest.approx((SCORES[0] - 1) / 4), 0.5]
    assert "relevance: summary is empty" in caplog.text
    with pytest.raises(Exception, match="Execution cancelled due to errors"):
        evaluate(rows, max_errors=1)
    blank = (record(document="A text."), record(summary=" "))
    with pytest.raises(NoScoreError, match="summary is empty"):
        tools.dspy_metric(JUDGE)(*blank, trace=[])
    # GEPA has scored the example before, and asks for feedback alone.
    feedback = tools.dspy_metric(JUDGE)(*blank, None, "judge", None).feedback
    assert feedback.endswith("summary is empty")


def test_demonstrations_pass_the_threshold_on_the_judge_s_own_scale(openai_server):
    example, prediction = record(**ROWS[0]), record(summary=ROWS[0]["summary"])
    for threshold, passes in ((None, True), (SCORES[0], True), (SCORES[0] + 0.01, False)):
        metric = tools.dspy_metric(JUDGE, threshold=threshold)
        assert metric(example, prediction, trace=[]) is passes
    openai_server.judge = lambda body: "fail"
    assert tools.dspy_metric(VERDICT)(record(), record(text="A text."), trace=[]) is False


def asking(row: Any, judge: Judge = JUDGE, **options: Any) -> Any:
    return tools.OpenJudge(judge, options, output="out", input="in")(row)


ROW: Any = {"in": "The council closed the bridge.", "out": "The bridge is closed."}
PARTS = [{"type": "text", "text": ROW["in"]}, {"type": "image_url"}]
CHAT = {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": PARTS}]}
REPLY = {"choices": [{"message": {"role": "assistant", "content": ROW["out"]}}]}


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        {"document": ROW["in"], "in": "x", "out": ROW["out"]},
        {**ROW, "out": {"summary": ROW["out"], "score": 1}},
        # What is judged is the tool's output, whatever else has its name.
        {**ROW, "summary": "The reference."},
        # Of chat requests and responses the last content is read.
        {"in": CHAT, "out": REPLY},
        # Other values have these names, too.
        {**ROW, "out": {"messages": ROW["out"]}},
        {**ROW, "out": {"choices": ["x"], "summary": ROW["out"]}},
    ],
)
def test_texts_are_found_by_role_by_name_and_in_chats(row):
    assert asking(row) == JUDGE(document=ROW["in"], summary=ROW["out"])


def test_texts_are_found_by_mapping_and_tool_calls_are_none():
    row = {"article": ROW["in"], "draft": ROW["out"], **dict.fromkeys(ROW, "x")}
    result = asking(row, map={"document": "article", "summary": "draft"})
    assert result == JUDGE(document=ROW["in"], summary=ROW["out"])
    call = {"choices": [{"message": {"role": "assistant", "content": None}}]}
    assert "not a text" in str(asking({**ROW, "out": call}).failure)


@pytest.mark.parametrize("adapter", [tools.dspy_metric, tools.promptfoo_assertion, tools.check])
def test_a_judge_of_pairs_is_refused(adapter):
    with pytest.raises(ValueError, match="compares two outputs"):
        adapter(Judge.of(TLDR_CONCISE))


@pytest.mark.parametrize("adapter", [tools.deepeval_metric, tools.promptfoo_assertion, tools.check])
def test_a_judge_that_rates_needs_the_score_that_passes(adapter):
    with pytest.raises(ValueError, match="relevance: give the lowest score that passes"):
        adapter(JUDGE)


def test_one_budget_holds_for_a_scorers_life(openai_server):
    judge = Judge.of(RELEVANCE, lm="openai/judge-1")
    ask = tools.OpenJudge(judge, {"max_calls": 1}, output="out", input="in")  # type: ignore[typeddict-item]
    assert ask(ROW).failure is None
    other = {**ROW, "in": "Another text."}
    assert "not asked: the budget of 1 calls is spent" in str(ask(other).failure)


NOTES = Question(name="short", text="is it short")
WEIGHTS = AnswerWeights(intercept=0.5, slopes={"short": 0.5, "rating": 0.5})
ASKS = replace(Judge.of(RELEVANCE, lm="openai/judge-1", questions=[NOTES]), weights=WEIGHTS)
LOW = "[[ ## short ## ]]\nno\n\n[[ ## rating ## ]]\n2"
WHY = f"""relevance: 1.500 on the scale from 1 to 5 ({RELEVANCE.definition})
is it short: no
decided by: rating = 2"""


def test_tools_are_told_what_decided(openai_server):
    openai_server.judge = lambda body: LOW
    row = (record(document="A text."), record(summary="A."))
    gepa = tools.dspy_metric(ASKS)(*row, [], "judge", None)
    assert (gepa.score, gepa.feedback) == (0.125, WHY)
    with pytest.raises(AssertionError) as error:
        tools.check(ASKS, at_least=3, document="A text.", summary="A.")
    assert str(error.value) == f"{WHY}\nneeded: 3 or more"
    assert tools.check(ASKS, at_least=1.5, document="A text.", summary="A.").score == 1.5
    context = {"prompt": "A text.", "vars": {"other": "x", "more": 1}}
    result = {"pass": True, "score": 0.125, "reason": WHY, "metadata": {"graderError": False}}
    assert tools.promptfoo_assertion(ASKS, threshold=1.5)("A.", context) == result


def test_a_missing_or_low_score_fails_in_pytest_and_promptfoo(openai_server):
    with pytest.raises(AssertionError, match="relevance: no score: summary is empty"):
        tools.check(JUDGE, at_least=1, document="A text.", summary=" ")
    openai_server.judge = lambda body: "fail"
    with pytest.raises(AssertionError, match=r"safe: fail, 0.000 on .*\nneeded: 0.5 or more"):
        tools.check(VERDICT, text="A text.")
    result = tools.promptfoo_assertion(JUDGE, threshold=1)(" ", {"vars": {"document": "A text."}})
    assert (result["pass"], result["score"]) == (False, 0.0)
    assert result["metadata"] == {"graderError": True}


def test_mlflow_gets_the_model_and_the_error(monkeypatch):
    stand_in(monkeypatch, "mlflow.genai", scorer=lambda score, name: score)
    entities = {
        "AssessmentSource": SimpleNamespace,
        "Feedback": SimpleNamespace,
    }
    stand_in(monkeypatch, "mlflow.entities", **entities)
    frozen = replace(JUDGE, lm="openai/judge-1")
    scorer = tools.mlflow_scorer(frozen, lm="embedded")
    feedback = scorer(inputs={"document": ROWS[0]["document"]}, outputs=ROWS[0]["summary"])
    assert feedback.source.source_id == "relevance by embedded"
    assert feedback.value == SCORES[0]
    assert scorer(inputs={"document": "A text."}, outputs=" ").error == "summary is empty"
    with dspy.context(lm=dspy.LM("acme/chat")):
        source = tools.mlflow_scorer(Judge.of(RELEVANCE))(outputs=" ").source
    assert source.source_id == "relevance by acme/chat"


def test_inspect_gets_c_or_i_or_a_number(monkeypatch, openai_server):
    class Score(SimpleNamespace):
        unscored = SimpleNamespace

    scorers: list[list[str]] = []

    def scorer(metrics: list[str], name: str) -> Any:
        scorers.append(metrics)
        return lambda make: make

    metrics = {name: (lambda name=name: name) for name in ("accuracy", "mean", "stderr")}
    own = {"Score": Score, "scorer": scorer, "CORRECT": "C", "INCORRECT": "I", **metrics}
    stand_in(monkeypatch, "inspect_ai.scorer", **own)

    def score_of(judge: Judge, text: str) -> Any:
        output = SimpleNamespace(completion=text)
        state = SimpleNamespace(output=output, input_text=ROWS[0]["document"], metadata=None)
        return asyncio.run(tools.inspect_scorer(judge)(state, SimpleNamespace(text="")))

    openai_server.judge = lambda body: "pass" if "good" in str(body["messages"]) else "fail"
    assert [score_of(VERDICT, text).value for text in ("good", "bad")] == ["C", "I"]
    assert score_of(VERDICT, "good").metadata == {"score": 1.0}
    assert score_of(JUDGE, ROWS[0]["summary"]).value == SCORES[0]
    assert score_of(JUDGE, " ").explanation == "summary is empty"
    assert (scorers[0], scorers[-1]) == (["accuracy", "stderr"], ["mean", "stderr"])


def test_deepeval_gets_the_threshold_and_the_model(monkeypatch, openai_server):
    class BaseMetric:
        def is_successful(self) -> bool:
            self.success = self.score is not None and self.score >= self.threshold  # type: ignore[attr-defined]
            return self.success

    stand_in(monkeypatch, "deepeval.metrics", BaseMetric=BaseMetric)
    openai_server.judge, openai_server.models = (lambda body: "fail"), ("other",)
    metric = tools.deepeval_metric(VERDICT, lm="openai/other")
    assert metric.measure(SimpleNamespace(input="Q", actual_output="A.")) == 0.0
    assert (metric.threshold, metric.success) == (0.5, False)
    assert metric.evaluation_model == "openai/other"
    assert math.isnan(metric.measure(SimpleNamespace(input="Q", actual_output=" ")))
    assert (metric.score, metric.error) == (None, "text is empty")


def test_events_have_score_label_explanation_and_failure():
    entries = [
        {"score": 0.0, "failure": None, "rationale": "It is rude."},
        {"score": None, "failure": "text is empty", "rationale": None},
    ]
    rows = [{"judgements": {"safe": entry}, "response_id": "r1"} for entry in entries]
    events = []
    for line in tools.evaluation_events(VERDICT, rows):
        (event,) = json.loads(line)["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
        assert event["eventName"] == "gen_ai.evaluation.result"
        values = {each["key"]: next(iter(each["value"].values())) for each in event["attributes"]}
        events.append({key.removeprefix("gen_ai."): value for key, value in values.items()})
    common = {"evaluation.name": "safe", "response.id": "r1"}
    verdict = {"evaluation.score.label": "fail", "evaluation.explanation": "It is rude."}
    failure = {"evaluation.explanation": "text is empty", "error.type": "no_score"}
    score = {**common, **verdict, "evaluation.score.value": 0.0}
    assert events == [score, {**common, **failure}]
