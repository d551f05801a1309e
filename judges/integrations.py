"""A judge as another tool's own scorer or metric: MLflow, Inspect, DeepEval, DSPy.

Scores are on the judge's own scale. A failed judgement is missing in each tool's own way, and never
0. The options are those of `Judge.score` (`lm`, `max_cost`, ...); a scorer has one budget for life.

The judge's last text is the tool's output. Any other text is the entry of its name; if there is
only one other, it may be the tool's input. `map` names the key of a text where this does not fit,
as in {"document": "article"}. Pairwise judges are refused, since tools give one output.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Unpack, cast

from dspy_judges.errors import MissingExtraError, OptionError
from judges.client import Options, read_options
from judges.judgement import Judgement
from judges.panel import AnyJudge


class OpenJudge:
    """A judge that is opened once and judges rows of a tool from any thread.

    `output` and `input` are the keys that the tool has for these.
    """

    def __init__(self, judge: AnyJudge, options: Options, *, output: str, input: str = "") -> None:
        values, mapping = read_options(options)
        if judge.kind == "pairwise":
            raise OptionError(f"{judge.name} compares two outputs: use judge.score, or winrate")
        self.judge = judge
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
        return value.get(name, only)


def mlflow_scorer(judge: AnyJudge, **options: Unpack[Options]) -> Any:
    """A scorer for `mlflow.genai.evaluate`; a failed judgement is a Feedback with an error.

    Texts may be in outputs, inputs or expectations.
    """
    genai = _tool("mlflow.genai", "mlflow")
    entities = _tool("mlflow.entities", "mlflow")
    ask = OpenJudge(judge, options, output="outputs", input="inputs")
    source = entities.AssessmentSource(
        source_type=entities.AssessmentSourceType.LLM_JUDGE, source_id=f"{judge.name} by {judge.lm}"
    )

    def score(inputs: Any = None, outputs: Any = None, expectations: Any = None) -> Any:
        row = {"inputs": inputs, "outputs": outputs, "expectations": expectations}
        judgement = ask({**_entries(expectations), **_entries(inputs), **row})
        result: dict[str, Any] = {"value": judgement.score, "rationale": judgement.rationale}
        if judgement.failure is not None:
            result = {"error": judgement.failure}
        return entities.Feedback(name=judge.name, source=source, **result)

    return genai.scorer(score, name=judge.name)


def inspect_scorer(judge: AnyJudge, **options: Unpack[Options]) -> Any:
    """A scorer for Inspect tasks; a failed judgement is `Score.unscored`, which no metric counts.

    Texts may be in the sample's metadata, its input, the output or the target.
    """
    from anyio import to_thread

    scoring = _tool("inspect_ai.scorer", "inspect")
    ask = OpenJudge(judge, options, output="output", input="input")

    def make() -> Any:
        async def score(state: Any, target: Any) -> Any:
            output = state.output.completion
            row = {"input": state.input_text, "target": target.text, "output": output}
            # Works with any event loop that Inspect may use.
            judgement = await to_thread.run_sync(ask, {**(state.metadata or {}), **row})
            if judgement.failure is not None:
                why = {"reason": "grader_failed", "explanation": judgement.failure}
                return scoring.Score.unscored(answer=output, **why)
            notes = {"explanation": judgement.rationale, "metadata": judgement.answers}
            return scoring.Score(value=judgement.score, answer=output, **notes)

        return score

    metrics = [scoring.mean(), scoring.stderr()]
    return scoring.scorer(metrics=metrics, name=judge.name)(make)()


def deepeval_metric(judge: AnyJudge, *, threshold: float, **options: Unpack[Options]) -> Any:
    """A metric for DeepEval; a failed judgement has no score and an `error`, and fails its case.

    Texts may be in the test case's metadata, its input, outputs or context. `threshold` is on the
    judge's own scale.
    """
    metrics = _tool("deepeval.metrics", "deepeval")
    names = ("input", "actual_output", "expected_output", "context", "retrieval_context")
    ask = OpenJudge(judge, options, output=names[1], input=names[0])

    class JudgeMetric(metrics.BaseMetric):  # type: ignore[name-defined,misc]
        def __init__(self) -> None:
            self.threshold = threshold
            self.evaluation_model = judge.lm

        def measure(self, test_case: Any, *args: object, **kwargs: object) -> float:
            row = {name: getattr(test_case, name, None) for name in names}
            judgement = ask({**_entries(getattr(test_case, "metadata", None)), **row})
            self.error, self.reason = judgement.failure, judgement.rationale
            self.score = None if math.isnan(judgement.score) else judgement.score
            self.is_successful()
            return judgement.score

        async def a_measure(self, test_case: Any, *args: object, **kwargs: object) -> float:
            return await asyncio.to_thread(self.measure, test_case)

        @property
        def __name__(self) -> str:
            return judge.name

    return JudgeMetric()


def dspy_metric(
    judge: AnyJudge, *, threshold: float = -math.inf, **options: Unpack[Options]
) -> Callable[..., Any]:
    """A metric for `dspy.Evaluate` and optimizers; a failed judgement is NaN.

    Texts may be in the prediction or, else, in the example. Where an optimizer selects
    demonstrations (it passes a `trace`), the metric is whether the score is `threshold` or more,
    which a failed judgement never is. GEPA gets the judge's reasons and answers as feedback.
    """
    import dspy

    ask = OpenJudge(judge, options, output="prediction")

    def metric(
        example: Any, pred: Any, trace: Any = None, pred_name: Any = None, pred_trace: Any = None
    ) -> Any:
        prediction = _entries(pred)
        judgement = ask({**_entries(example), **prediction, "prediction": prediction})
        score = judgement.score
        if pred_name is not None:
            feedback = judgement.failure or judgement.rationale or f"score {score:.2f}"
            for name, number in (judgement.answers or {}).items():
                feedback += f"; {name} {number:g}"
            return dspy.Prediction(score=score, feedback=feedback)
        return score if trace is None else score >= threshold

    return metric


def _tool(module: str, extra: str) -> Any:
    """A tool's module; MissingExtraError names the extra that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"{error}: pip install '.[{extra}]' in the project's checkout"
        ) from None


def _entries(record: Any) -> dict[str, object]:
    """The entries of a mapping, a dspy.Example or a dspy.Prediction."""
    return dict(record.items()) if hasattr(record, "items") else {}
