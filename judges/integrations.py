"""A judge as another tool's own scorer or metric: MLflow, Inspect, DeepEval, DSPy, promptfoo.

Scores are on the judge's own scale; DSPy and promptfoo get the place on that scale, from 0 to 1. A
failed judgement is missing in each tool's own way, and never 0 without a word. The options are
those of `Judge.score` (`lm`, `max_cost`, ...); a scorer has one budget for life.

The judge's last text is the tool's output. Any other text is the entry of its name; if there is
only one other, it may be the tool's input. `map` names the key of a text where this does not fit,
as in {"document": "article"}. Pairwise judges are refused, since tools give one output.
"""

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from importlib import import_module
from types import ModuleType
from typing import Any, Unpack, cast

from dspy_judges.errors import MissingExtraError, OptionError
from judges.client import Options, read_options
from judges.exchange import as_text
from judges.judge import Judge
from judges.judgement import Judgement, NoScoreError
from judges.panel import AnyJudge
from judges.questions import nearest
from judges.tables.in_memory import Rows, rows_in_memory


class OpenJudge:
    """A judge that is opened once and judges rows of a tool from any thread.

    `output` and `input` are the keys that the tool has for these. `lm` is the model that is asked.
    """

    def __init__(self, judge: AnyJudge, options: Options, *, output: str, input: str = "") -> None:
        values, mapping = read_options(options)
        _check_kind(judge)
        self.judge = judge
        self.lm = values.get("lm") or getattr(judge.configured_model(), "name", judge.lm)
        *others, output_text = judge.texts
        # The key of a text whose name is not in the tool's row.
        self._default = {others[0]: input} if len(others) == 1 else {}
        self._keys = {output_text: output, **mapping}
        # The judge stays open as long as this object lives.
        self._open = ExitStack()
        self._judge_rows = self._open.enter_context(judge.open(**values))

    def __call__(self, row: Mapping[str, object]) -> Judgement:
        """Judge one row of the tool; once the budget is spent, judgements fail."""
        texts = {name: self._find(name, row) for name in self.judge.texts}
        (judgement,) = cast(list[Judgement], self._judge_rows([texts]))
        if None not in texts.values():
            return judgement
        keys = ", ".join(sorted(row))
        return Judgement.failed(f"{judgement.failure} among {keys}; map= names its key")

    def _find(self, name: str, row: Mapping[str, object]) -> object:
        """A text of the judge in a row; in a nested mapping it is the entry of its name."""
        default = name if name in row else self._default.get(name, name)
        value = row.get(self._keys.get(name, default))
        if not isinstance(value, Mapping):
            return value
        only = next(iter(value.values())) if len(value) == 1 else None
        return value[name] if name in value else _last_message(value) or only


def mlflow_scorer(judge: AnyJudge, **options: Unpack[Options]) -> Any:
    """A scorer for `mlflow.genai.evaluate`; a failed judgement is a Feedback with an error.

    Texts may be in outputs, inputs or expectations. Of a chat the last message is read.
    """
    genai = _tool("mlflow.genai", "mlflow")
    entities = _tool("mlflow.entities", "mlflow")
    ask = OpenJudge(judge, options, output="outputs", input="inputs")
    source = entities.AssessmentSource(
        source_type=entities.AssessmentSourceType.LLM_JUDGE, source_id=f"{judge.name} by {ask.lm}"
    )

    def score(inputs: object = None, outputs: object = None, expectations: object = None) -> object:
        row = {"inputs": inputs, "outputs": outputs, "expectations": expectations}
        judgement = ask({**_entries(expectations), **_entries(inputs), **row})
        if judgement.failure is not None:
            return entities.Feedback(name=judge.name, source=source, error=judgement.failure)
        value, rationale = judgement.score, judgement.rationale
        return entities.Feedback(name=judge.name, source=source, value=value, rationale=rationale)

    return genai.scorer(score, name=judge.name)


def inspect_scorer(judge: AnyJudge, **options: Unpack[Options]) -> Any:
    """A scorer for Inspect tasks; a failed judgement is `Score.unscored`, which no metric counts.

    Texts may be in the sample's metadata, its input, the output or the target. A pass-or-fail
    judge gives C or I, with its score in the metadata.
    """
    from anyio import to_thread

    scoring = _tool("inspect_ai.scorer", "inspect")
    ask = OpenJudge(judge, options, output="output", input="input")
    is_verdict = judge.kind == "verdict"

    def make() -> Callable[..., Awaitable[object]]:
        async def score(state: Any, target: Any) -> object:
            output = state.output.completion
            row = {"input": state.input_text, "target": target.text, "output": output}
            # Works with any event loop that Inspect may use.
            judgement = await to_thread.run_sync(ask, {**(state.metadata or {}), **row})
            if judgement.failure is not None:
                why = {"reason": "grader_failed", "explanation": judgement.failure}
                return scoring.Score.unscored(answer=output, **why)
            value, metadata = judgement.score, judgement.answers
            if is_verdict:
                metadata = {**(metadata or {}), "score": value}
                value = scoring.CORRECT if value >= 0.5 else scoring.INCORRECT
            notes = {"explanation": judgement.rationale, "metadata": metadata}
            return scoring.Score(value=value, answer=output, **notes)

        return score

    metrics = [scoring.accuracy() if is_verdict else scoring.mean(), scoring.stderr()]
    return scoring.scorer(metrics=metrics, name=judge.name)(make)()


def deepeval_metric(
    judge: AnyJudge, *, threshold: float | None = None, **options: Unpack[Options]
) -> Any:
    """A metric for DeepEval; a failed judgement has no score and an `error`, and fails its case.

    Texts may be in the test case's metadata, its input, outputs or context. `threshold` is on the
    judge's own scale; a pass-or-fail judge brings its own.
    """
    least = _threshold(judge, threshold)
    metrics = _tool("deepeval.metrics", "deepeval")
    names = ("input", "actual_output", "expected_output", "context", "retrieval_context")
    ask = OpenJudge(judge, options, output=names[1], input=names[0])

    class JudgeMetric(metrics.BaseMetric):  # type: ignore[name-defined]
        def __init__(self) -> None:
            self.threshold = least
            self.evaluation_model = ask.lm

        def measure(self, test_case: object, *args: object, **kwargs: object) -> float:
            row = {name: getattr(test_case, name, None) for name in names}
            judgement = ask({**_entries(getattr(test_case, "metadata", None)), **row})
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
    """A metric for `dspy.Evaluate` and optimizers: the score's place on its scale, from 0 to 1.

    Texts may be in the prediction or, else, in the example. A failed judgement raises NoScoreError,
    which DSPy logs, counts among `max_errors` and scores with its own `failure_score`. Where an
    optimizer selects demonstrations (it passes a `trace`), the metric is whether the score passes
    `threshold`, as in `deepeval_metric`. GEPA gets the answers and the reason as feedback.
    """
    import dspy

    ask = OpenJudge(judge, options, output="prediction")
    least = -math.inf if threshold is None and judge.kind == "rating" else threshold
    least = _threshold(judge, least)

    def metric(
        example: object,
        pred: object,
        trace: object = None,
        pred_name: object = None,
        pred_trace: object = None,
    ) -> object:
        prediction = _entries(pred)
        judgement = ask({**_entries(example), **prediction, "prediction": prediction})
        score = _place(judge, judgement.score)
        if pred_name is not None:  # GEPA replaces a score that differs from the example's
            return dspy.Prediction(score=score, feedback=_explanation(judge, judgement))
        if judgement.failure is not None:
            raise NoScoreError(f"{judge.name}: {judgement.failure}")
        return score if trace is None else judgement.score >= least

    return metric


def promptfoo_assertion(
    judge: AnyJudge, *, threshold: float | None = None, **options: Unpack[Options]
) -> Callable[[str, Mapping[str, Any]], dict[str, object]]:
    """A `get_assert` for promptfoo, whose score is the score's place on its scale, from 0 to 1.

    Texts may be the test's vars, the output, or the prompt. `threshold` is as in `deepeval_metric`.
    A failed judgement fails its test, and is a `graderError`, which `verify` counts as missing.
    """
    least = _threshold(judge, threshold)
    ask = OpenJudge(judge, options, output="output", input="prompt")

    def get_assert(output: str, context: Mapping[str, Any]) -> dict[str, object]:
        judgement = ask({**context, **context["vars"], "output": output})
        failed = judgement.failure is not None
        return {
            "pass": judgement.score >= least,
            "score": 0.0 if failed else _place(judge, judgement.score),
            "reason": _explanation(judge, judgement),
            "metadata": {"graderError": failed},
        }

    return get_assert


def check(judge: AnyJudge, /, *, at_least: float | None = None, **texts: str) -> Judgement:
    """Judge one output in a test, as `judge(**texts)` does.

    Args:
        judge: A judge that is not pairwise.
        at_least: The smallest score that passes; a pass-or-fail judge brings its own.
        **texts: Each text that the judge reads, by its name.

    Raises:
        AssertionError: The score is smaller or missing; with the score, the answers and the reason.
    """
    least, judgement = _threshold(judge, at_least), cast(Judgement, judge(**texts))
    if not judgement.score >= least:
        raise AssertionError(f"{_explanation(judge, judgement)}\nneeded: {least:g} or more")
    return judgement


def evaluation_events(judge: AnyJudge, rows: Rows) -> Iterator[str]:
    """Yield OpenTelemetry's `gen_ai.evaluation.result` event of each row, as a line of OTLP JSON.

    Args:
        judge: The judge that scored the rows.
        rows: Rows as `dspy-judges score` writes them to JSON Lines. A column `response_id` has the
            ids of the responses.
    """
    for row in rows_in_memory(rows):
        entry = cast(Mapping[str, Any], row["judgements"])[judge.name]
        score = entry["score"]
        texts = {
            "gen_ai.evaluation.name": judge.name,
            "gen_ai.evaluation.score.label": score is not None and _word(judge, score),
            "gen_ai.evaluation.explanation": entry["failure"] or entry["rationale"],
            "gen_ai.response.id": row.get("response_id"),
            "error.type": score is None and "no_score",
        }
        attributes = [{"key": key, "value": {"stringValue": v}} for key, v in texts.items() if v]
        if score is not None:
            value = {"doubleValue": score}
            attributes.append({"key": "gen_ai.evaluation.score.value", "value": value})
        record = {"eventName": "gen_ai.evaluation.result", "attributes": attributes}
        yield json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]})


def _check_kind(judge: AnyJudge) -> None:
    if judge.kind == "pairwise":
        raise OptionError(f"{judge.name} compares two outputs: use judge.score, or winrate")


def _threshold(judge: AnyJudge, threshold: float | None) -> float:
    """The smallest score that passes; a verdict's own is .5."""
    _check_kind(judge)
    if threshold is None and judge.kind != "verdict":
        raise OptionError(f"{judge.name}: name the score that passes, as threshold or at_least")
    return 0.5 if threshold is None else threshold


def _place(judge: AnyJudge, score: float) -> float:
    """The score's place on the judge's scale, from 0 to 1; a panel's line may lead beyond."""
    low, *_, high = judge.subject.scale
    return min(max((score - low) / (high - low), 0.0), 1.0)


def _word(judge: AnyJudge, score: float) -> str:
    """The word of a verdict; empty for a rating."""
    words = judge.subject.words
    return words[score < 0.5] if words else ""


def _explanation(judge: AnyJudge, judgement: Judgement) -> str:
    """The score and what it is of, the answers to the judge's questions, and its reason."""
    if judgement.failure is not None:
        return f"{judge.name}: no score: {judgement.failure}"
    low, *_, high = judge.subject.scale
    score = f"{judgement.score:.3f} on the scale from {low} to {high}"
    result = ", ".join(filter(None, (_word(judge, judgement.score), score)))
    lines = [f"{judge.name}: {result} ({judge.subject.definition})"]
    for field in judge.prompt.questions if isinstance(judge, Judge) else ():
        answer = nearest((judgement.answers or {})[field.name], field.options)
        lines.append(f"{field.description}: {answer}")
    notes = {"decided by": judgement.decided_by, "reason": judgement.rationale}
    return "\n".join([*lines, *(f"{name}: {note}" for name, note in notes.items() if note)])


def _last_message(value: Mapping[str, Any]) -> object:
    """The text of the last message of a chat request, or of the response to one; None without."""
    with suppress(AttributeError, LookupError, TypeError):
        choices = [value] if "messages" in value else value["choices"]
        content = (choices[-1].get("message") or choices[-1]["messages"][-1])["content"]
        return as_text([p.get("text") for p in content] if isinstance(content, list) else content)
    return None


def _tool(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error}: pip install '.[{extra}]' in the project's checkout"
        ) from None


def _entries(record: object) -> dict[str, object]:
    """The entries of a mapping, a dspy.Example or a dspy.Prediction."""
    return dict(record.items()) if hasattr(record, "items") else {}
