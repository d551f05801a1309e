"""Use a judge as the scorer or metric of MLflow, Inspect, DeepEval, DSPy or promptfoo.

Scores are on the judge's own scale; for DSPy and promptfoo they are rescaled to 0 to 1. A failed
judgement is reported as missing, in each tool's own way, and never as a plain score of 0. The
options are the same as for `Judge.score` (`lm`, `max_cost`, ...); all calls of a scorer share one
budget.

The last text that a judge reads is the output that the tool scores. Every other text is the value
of the same name in the tool's row. If a judge reads just one other text and the row lacks it, that
text is the tool's input. With `map={"document": "article"}`, the text `document` is the value
`article` of the row. Pairwise judges are refused, since these tools score one output at a time.
"""

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Unpack, cast

from dspy_judges.errors import MissingExtraError, OptionError
from judges.client import Options, read_options
from judges.judgement import Judgement, NoScoreError
from judges.labels.cells import as_text
from judges.panel import AnyJudge
from judges.tables.in_memory import Rows, rows_in_memory


class OpenJudge:
    """A judge that stays open for the rows of another tool; any thread may call it.

    `output` and `input` are the keys of the output and the input in a row. The attribute
    `lm` is the name of the model that is asked.
    """

    def __init__(self, judge: AnyJudge, options: Options, *, output: str, input: str = "") -> None:
        judge_options, key_by_text = read_options(options, judge.texts)
        _refuse_pairwise(judge)
        self.judge = judge
        self.lm = judge_options.get("lm") or getattr(judge.configured_model(), "name", judge.lm)
        *other_names, output_name = judge.texts
        # If the judge reads one other text and the row lacks it, the tool's input is that text.
        self._default_key_by_text = {other_names[0]: input} if len(other_names) == 1 else {}
        self._key_by_text = {output_name: output, **key_by_text}
        # The judge stays open as long as this object exists.
        self._exit_stack = ExitStack()
        self._judge_rows = self._exit_stack.enter_context(judge.open(**judge_options))

    def __call__(self, row: Mapping[str, object]) -> Judgement:
        """Judge one row of the tool; once the judge's budget is spent, all judgements fail."""
        texts = {name: self._find_text(name, row) for name in self.judge.texts}
        (judgement,) = cast(list[Judgement], self._judge_rows([texts]))
        if None not in texts.values():
            return judgement
        keys = ", ".join(sorted(row))
        return Judgement.failed(f"{judgement.failure} among {keys}; give the text's key by map=")

    def _find_text(self, name: str, row: Mapping[str, object]) -> object:
        """Return the text `name` from a row of the tool.

        If the row's value is a mapping, the text is the mapping's value of that name. If the
        mapping lacks that name, the text is the last message of a chat, or the only value.
        """
        default_key = name if name in row else self._default_key_by_text.get(name, name)
        value = row.get(self._key_by_text.get(name, default_key))
        if not isinstance(value, Mapping):
            return value
        if name in value:
            return value[name]
        only_value = next(iter(value.values())) if len(value) == 1 else None
        return _last_message_text(value) or only_value


def mlflow_scorer(judge: AnyJudge, **options: Unpack[Options]) -> Any:
    """Return a scorer for `mlflow.genai.evaluate`; a failed judgement becomes an error Feedback.

    The texts may be in outputs, inputs or expectations. The text of a chat is its last message.
    """
    genai = _import_library("mlflow.genai", "mlflow")
    entities = _import_library("mlflow.entities", "mlflow")
    open_judge = OpenJudge(judge, options, output="outputs", input="inputs")
    source_id = f"{judge.name} by {open_judge.lm}"
    feedback_source = entities.AssessmentSource(source_type="LLM_JUDGE", source_id=source_id)

    def score(inputs: object = None, outputs: object = None, expectations: object = None) -> object:
        row = {"inputs": inputs, "outputs": outputs, "expectations": expectations}
        judgement = open_judge({**_as_dict(expectations), **_as_dict(inputs), **row})
        feedback_values: dict[str, object] = {"error": judgement.failure}
        if judgement.failure is None:
            feedback_values = {"value": judgement.score, "rationale": judgement.rationale}
        return entities.Feedback(name=judge.name, source=feedback_source, **feedback_values)

    return genai.scorer(score, name=judge.name)


def inspect_scorer(judge: AnyJudge, **options: Unpack[Options]) -> Any:
    """Return a scorer for Inspect; a failed judgement is a `Score.unscored`, which metrics ignore.

    The texts may be in the sample's metadata, its input, its target, or the output. A pass-or-fail
    judge gives C (correct) or I (incorrect), with its score in the metadata.
    """
    from anyio import to_thread

    scoring = _import_library("inspect_ai.scorer", "inspect")
    open_judge = OpenJudge(judge, options, output="output", input="input")
    is_verdict = judge.kind == "verdict"

    async def score(state: Any, target: Any) -> object:
        output = state.output.completion
        row = {"input": state.input_text, "target": target.text, "output": output}
        # anyio works with every event loop that Inspect may use.
        judgement = await to_thread.run_sync(open_judge, {**(state.metadata or {}), **row})
        if (failure := judgement.failure) is not None:
            reason = "grader_failed"
            return scoring.Score.unscored(answer=output, reason=reason, explanation=failure)
        value, metadata, rationale = judgement.score, judgement.answers, judgement.rationale
        if is_verdict:
            metadata = {**(metadata or {}), "score": value}
            value = scoring.CORRECT if value >= 0.5 else scoring.INCORRECT
        return scoring.Score(value=value, answer=output, explanation=rationale, metadata=metadata)

    metrics = [scoring.accuracy() if is_verdict else scoring.mean(), scoring.stderr()]
    return scoring.scorer(metrics=metrics, name=judge.name)(lambda: score)()


def deepeval_metric(
    judge: AnyJudge, *, threshold: float | None = None, **options: Unpack[Options]
) -> Any:
    """Return a metric for DeepEval; after a failed judgement it fails, and its `error` says why.

    The texts may be in the test case's metadata, its input, outputs or context. `threshold` is the
    lowest score that passes, on the judge's own scale; a pass-or-fail judge does not need it.
    """
    min_score = _min_score(judge, threshold)
    deepeval_metrics = _import_library("deepeval.metrics", "deepeval")
    test_case_fields = ("input", "actual_output", "expected_output", "context", "retrieval_context")
    open_judge = OpenJudge(judge, options, output="actual_output", input="input")

    class JudgeMetric(deepeval_metrics.BaseMetric):  # type: ignore[name-defined]
        threshold, evaluation_model = min_score, open_judge.lm

        def measure(self, test_case: object, *args: object, **kwargs: object) -> float:
            row = {name: getattr(test_case, name, None) for name in test_case_fields}
            judgement = open_judge({**_as_dict(getattr(test_case, "metadata", None)), **row})
            self.error, self.reason = judgement.failure, judgement.rationale
            self.score = None if math.isnan(judgement.score) else judgement.score
            self.is_successful()
            return judgement.score

        async def a_measure(self, test_case: object, *args: object, **kwargs: object) -> float:
            return await asyncio.to_thread(self.measure, test_case)

        @property
        def __name__(self) -> str:
            return judge.name

    return JudgeMetric()


def dspy_metric(
    judge: AnyJudge, *, threshold: float | None = None, **options: Unpack[Options]
) -> Callable[..., object]:
    """Return a metric for DSPy's `Evaluate` and optimizers: the score, rescaled to 0 to 1.

    The texts are read from the prediction, else from the example. A failed judgement raises
    NoScoreError, which DSPy logs, counts among `max_errors` and scores with its own
    `failure_score`. If an optimizer passes a `trace` in order to select demonstrations, the
    metric is whether the score reaches `threshold` (see `deepeval_metric`). GEPA gets the judge's
    answers and rationale as feedback.
    """
    import dspy

    open_judge = OpenJudge(judge, options, output="prediction")
    every_score_passes = threshold is None and judge.kind == "rating"
    min_score = -math.inf if every_score_passes else _min_score(judge, threshold)

    def metric(
        example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> object:
        prediction = _as_dict(pred)
        judgement = open_judge({**_as_dict(example), **prediction, "prediction": prediction})
        score = _rescaled_score(judge, judgement.score)
        # GEPA passes `pred_name` to ask for feedback, and needs the same score with and without it.
        if pred_name is not None:
            return dspy.Prediction(score=score, feedback=_explain(judge, judgement))
        if judgement.failure is not None:
            raise NoScoreError(f"{judge.name}: {judgement.failure}")
        return score if trace is None else judgement.score >= min_score

    return metric


def promptfoo_assertion(
    judge: AnyJudge, *, threshold: float | None = None, **options: Unpack[Options]
) -> Callable[[str, Mapping[str, object]], dict[str, object]]:
    """Return a `get_assert` function for promptfoo, with the judge's score rescaled to 0 to 1.

    The texts may be the test's vars, the output, or the prompt. `threshold` is the same as for
    `deepeval_metric`. A failed judgement fails its test and sets `graderError` in the metadata, so
    that `dspy-judges verify` counts it as missing.
    """
    min_score = _min_score(judge, threshold)
    open_judge = OpenJudge(judge, options, output="output", input="prompt")

    def get_assert(output: str, context: Mapping[str, object]) -> dict[str, object]:
        judgement = open_judge({**context, **_as_dict(context["vars"]), "output": output})
        has_failed = judgement.failure is not None
        return {
            "pass": judgement.score >= min_score,
            "score": 0.0 if has_failed else _rescaled_score(judge, judgement.score),
            "reason": _explain(judge, judgement),
            "metadata": {"graderError": has_failed},
        }

    return get_assert


def check(judge: AnyJudge, /, *, at_least: float | None = None, **texts: str) -> Judgement:
    """Judge one output in a test; raise AssertionError if the score is below `at_least` or missing.

    `texts` are the texts that the judge reads, by name. For a pass-or-fail judge, `at_least` is .5
    by default. The error's message has the score, the answers to questions, and the rationale.
    """
    min_score = _min_score(judge, at_least)
    judgement = cast(Judgement, judge(**texts))
    if not judgement.score >= min_score:
        raise AssertionError(f"{_explain(judge, judgement)}\nneeded: {min_score:g} or more")
    return judgement


def evaluation_events(judge: AnyJudge, rows: Rows) -> Iterator[str]:
    """Yield an OpenTelemetry event `gen_ai.evaluation.result` for each row, as a line of OTLP JSON.

    `rows` are rows that `dspy-judges score` has written to JSON Lines with this judge. A column
    `response_id` becomes the event's `gen_ai.response.id`.
    """
    for row in rows_in_memory(rows):
        judgement_json = cast(Any, row["judgements"])[judge.name]
        score = judgement_json["score"]
        explanation = judgement_json["failure"] or judgement_json["rationale"]
        text_by_key = {
            "gen_ai.evaluation.name": judge.name,
            "gen_ai.evaluation.score.label": score is not None and _verdict_word(judge, score),
            "gen_ai.evaluation.explanation": explanation,
            "gen_ai.response.id": row.get("response_id"),
            "error.type": score is None and "no_score",
        }
        value_by_key = {key: {"stringValue": text} for key, text in text_by_key.items() if text}
        if score is not None:
            value_by_key["gen_ai.evaluation.score.value"] = {"doubleValue": score}
        attributes = [{"key": key, "value": value} for key, value in value_by_key.items()]
        log_record = {"eventName": "gen_ai.evaluation.result", "attributes": attributes}
        yield json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [log_record]}]}]})


def _refuse_pairwise(judge: AnyJudge) -> None:
    if judge.subject.is_pairwise:
        raise OptionError(f"{judge.name} compares two outputs: use judge.score, or winrate")


def _min_score(judge: AnyJudge, threshold: float | None) -> float:
    """Return `threshold`, the lowest score that passes; .5 by default for a pass-or-fail judge."""
    _refuse_pairwise(judge)
    if threshold is not None:
        return threshold
    if judge.kind == "verdict":
        return 0.5
    raise OptionError(f"{judge.name}: give the lowest score that passes as threshold or at_least")


def _rescaled_score(judge: AnyJudge, score: float) -> float:
    """Return the score, rescaled to 0 to 1; a panel's score outside of the scale is clipped."""
    min_rating, *_, max_rating = judge.subject.scale
    return min(max((score - min_rating) / (max_rating - min_rating), 0.0), 1.0)


def _verdict_word(judge: AnyJudge, score: float) -> str:
    verdict_words = judge.subject.words
    return verdict_words[score < 0.5] if verdict_words else ""


def _explain(judge: AnyJudge, judgement: Judgement) -> str:
    if judgement.failure is not None:
        return f"{judge.name}: no score: {judgement.failure}"
    min_rating, *_, max_rating = judge.subject.scale
    verdict_text = f"{_verdict_word(judge, judgement.score)}, " if judge.subject.words else ""
    score_text = f"{judgement.score:.3f} on the scale from {min_rating} to {max_rating}"
    lines = [f"{judge.name}: {verdict_text}{score_text} ({judge.subject.definition})"]
    for question in judge.questions:
        answer = question.nearest_choice((judgement.answers or {})[question.name])
        lines.append(f"{question.description}: {answer}")
    if judgement.decided_by:
        lines.append(f"decided by: {judgement.decided_by}")
    if judgement.rationale:
        lines.append(f"reason: {judgement.rationale}")
    return "\n".join(lines)


def _last_message_text(chat: Mapping[str, Any]) -> object:
    """Return the text of a chat request's or response's last message; None if it is no chat."""
    with suppress(AttributeError, LookupError, TypeError):
        chats = [chat] if "messages" in chat else chat["choices"]
        content = (chats[-1].get("message") or chats[-1]["messages"][-1])["content"]
        if isinstance(content, list):
            content = [part.get("text") for part in content]
        return as_text(content)
    return None


def _import_library(module_name: str, extra_name: str) -> ModuleType:
    try:
        return import_module(module_name)
    except ModuleNotFoundError as error:
        raise MissingExtraError(f"{error}: pip install '.[{extra_name}]' in the project") from None


def _as_dict(value: object) -> dict[str, object]:
    return dict(value.items()) if hasattr(value, "items") else {}
