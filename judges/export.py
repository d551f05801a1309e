"""A judge in other ecosystems' formats, as plain text, made without their packages.

A format that would score otherwise than the judge was measured refuses it (ExportError); smaller
losses are named by `lost`.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from judges.dimension import Dimension
from judges.errors import JudgesError
from judges.judge import Judge
from judges.prompt import SLOT
from judges.protocol import Message, is_embedded
from judges.scoring import SamplingPlan, sampling_of

REPLY_FORMAT = "{} its own reply format; measure again before relying on it"
RAW = "texts are put in as they are: markers inside them are no longer neutralised"


class ExportError(JudgesError, ValueError):
    """A format that cannot hold this judge; the message says why."""


@dataclass(frozen=True, slots=True)
class Format:
    """One format: what it is, how to write it, and what a judge loses in it."""

    about: str
    write: Callable[[Judge], str]
    lost: Callable[[Judge], tuple[str, ...]]
    names_a_model: bool = True


def to_messages(judge: Judge) -> str:
    """A chat-completions request with `{{slots}}` in its last message."""
    _check_braces(judge, "templates take")
    plan = judge.resolved_plan()
    sampling = sampling_of(plan)
    request: dict[str, object] = {
        "model": judge.lm.removeprefix("openai/"),
        "messages": judge.template(),
        "temperature": sampling.temperature,
        "max_tokens": sampling.max_tokens,
        "n": sampling.n,
    }
    if sampling.top_logprobs:
        request |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
    return _json(request)


def to_text(judge: Judge) -> str:
    """One plain prompt, for tools that take a single text with `{{slots}}`."""
    _check_braces(judge, "templates take")
    return "\n\n".join(map(_headed, judge.template()))


def to_openai_grader(judge: Judge) -> str:
    """A `score_model` grader; texts come from the data source's items."""
    subject = _dimension(judge, "a score_model grader")
    _check_one_reply(judge, "a score_model grader")
    if not judge.lm.startswith("openai/"):
        raise ExportError(
            f"OpenAI runs its graders itself, and not on {judge.lm}; name one of its models, as "
            "in --lm openai/gpt-4.1-mini"
        )
    template = judge.template()
    _check_braces(judge, "a grader fills")
    template[-1]["content"] = SLOT.sub(r"{{ item.\1 }}", template[-1]["content"])
    plan = judge.resolved_plan()
    grader: dict[str, object] = {
        "type": "score_model",
        "name": judge.name,
        "model": judge.lm.removeprefix("openai/"),
        "input": template,
        "range": [subject.scale[0], subject.scale[-1]],
    }
    if plan.temperature is not None:
        grader["sampling_params"] = {"temperature": plan.temperature}
    return _json(grader)


def to_mlflow(judge: Judge) -> str:
    """A Python file with `mlflow.genai.judges.make_judge`."""
    subject = _dimension(judge, "make_judge")
    _check_one_reply(judge, "make_judge")
    if is_embedded(judge.lm):
        raise ExportError("MLflow cannot ask the embedded model; name another by --lm")
    _check_braces(judge, "MLflow fills")
    provider, _, name = judge.lm.partition("/")
    model = f"{provider}:/{name}" if name else judge.lm
    scale = ", ".join(str(rating) for rating in subject.scale)
    return "\n".join(
        [
            f'"""The judge {judge.name!r} for MLflow."""',
            "",
            "from typing import Literal",
            "",
            "from mlflow.genai.judges import make_judge",
            "",
            f"# inputs: {', '.join(judge.texts[:-1]) or 'none'}; outputs: {judge.texts[-1]}",
            f"{judge.name} = make_judge(",
            f"    name={judge.name!r},",
            f"    instructions={_mlflow_instructions(judge)!r},",
            f"    feedback_value_type=Literal[{scale}],",
            f"    model={model!r},",
            ")",
            "",
        ]
    )


def to_dspy(judge: Judge) -> str:
    """The state that `RatingJudge(...).load(path)` or `PairwiseJudge(...).load(path)` takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        judge.program().save(path)
        return path.read_text(encoding="utf-8")


def _mlflow_instructions(judge: Judge) -> str:
    """The prompt as one text, where MLflow's own two variables stand for ours."""
    *fixed, request = judge.template()
    variables = dict.fromkeys(judge.texts, "{{ inputs }}") | {judge.texts[-1]: "{{ outputs }}"}
    filled = SLOT.sub(lambda slot: f"{slot[1]} in {variables[slot[1]]}", request["content"])
    return "\n\n".join([*map(_headed, fixed), filled])


def _headed(message: Message) -> str:
    return f"### {message['role']}\n{message['content']}"


def _dimension(judge: Judge, format_name: str) -> Dimension:
    if not isinstance(judge.subject, Dimension):
        raise ExportError(
            f"{format_name} scores one output; {judge.name} compares two (try --to messages)"
        )
    return judge.subject


def _check_one_reply(judge: Judge, format_name: str) -> None:
    """Raise ExportError where the judge's plan takes more than one reply's rating."""
    plan = judge.resolved_plan()
    if plan.kind != "one":
        raise ExportError(
            f"{format_name} takes one reply's rating; this judge's plan is {_plan_name(plan)}, so "
            "its scores would be others (--plan one takes one reply; --to messages holds any plan)"
        )


def _check_braces(judge: Judge, tool: str) -> None:
    """Braces in an instruction or a demo would be taken for slots."""
    *fixed, request = judge.template()
    texts = [message["content"] for message in fixed] + [SLOT.sub("", request["content"])]
    if any("{{" in text for text in texts):
        raise ExportError(f"the instruction or a demo has double braces, which {tool} as slots")


def _lost_by_slots(judge: Judge) -> tuple[str, ...]:
    """What the judge does beside its prompt, which a template with slots leaves to its user."""
    plan = judge.resolved_plan()
    lost = [RAW]
    if plan.kind != "one":
        lost.append(f"the plan {_plan_name(plan)} is yours to carry out on the replies")
    if judge.kind == "pairwise":
        lost.append("asking in both orders, with flips as ties, is yours to carry out")
    return tuple(lost)


def _lost_by_mlflow(judge: Judge) -> tuple[str, ...]:
    lost = [RAW, REPLY_FORMAT.format("MLflow adds")]
    if judge.prompt.demos:
        lost.append("demos become a part of the instructions")
    return tuple(lost)


def _lost_by_dspy(judge: Judge) -> tuple[str, ...]:
    return (
        f"DSPy's state holds no fields, scale, plan or model: load it into judges.load("
        f"{judge.name!r}).program() or a module of the same fields",
    )


def _plan_name(plan: SamplingPlan) -> str:
    return f"{plan.kind} of {plan.samples}" if plan.kind == "mean" else plan.kind


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


FORMATS: Mapping[str, Format] = {
    "messages": Format("chat-completions request with {{slots}}", to_messages, _lost_by_slots),
    "text": Format("one plain prompt with {{slots}}", to_text, _lost_by_slots, False),
    "dspy": Format("state for dspy.Module.load", to_dspy, _lost_by_dspy, False),
    "mlflow": Format("Python file with make_judge (rating, one reply)", to_mlflow, _lost_by_mlflow),
    "openai-grader": Format(
        "score_model grader (rating, one reply)",
        to_openai_grader,
        lambda judge: (RAW, REPLY_FORMAT.format("OpenAI wraps the prompt in")),
    ),
}
