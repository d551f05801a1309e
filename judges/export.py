"""A judge in other ecosystems' formats, as plain text, made without their packages.

A format that would score otherwise than the judge was measured refuses it (ExportError); smaller
losses are named by `lost`.
"""

import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judges.dimension import Comparison, Dimension, Subject
from judges.errors import JudgesError
from judges.export_scripts import DEEPEVAL, INSPECT, PROMPTFOO, SERVED, python_name, write_script
from judges.judge import Judge
from judges.models.dialect import Dialect
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
    sampling = sampling_of(plan, judge.prompt)
    name = judge.lm.removeprefix("openai/")
    return _json({"n": 1, **Dialect.of(name).body(name, judge.template(), sampling)})


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
    served = is_embedded(judge.lm)
    if not served:
        _check_one_reply(judge, "make_judge")
    _check_braces(judge, "MLflow fills")
    provider, _, name = judge.lm.partition("/")
    model = f"{provider}:/{name}" if name else judge.lm
    kind = f"Literal[{', '.join(str(rating) for rating in subject.scale)}]"
    base = judge.api_base
    if served:
        # What answers is the judge itself, by its own plan: python -m judges serve JUDGE.
        model, base = f"openai:/{judge.name}", judge.api_base or SERVED
        kind = kind if judge.resolved_plan().kind == "one" else "float"
    about = f"; python -m judges serve answers for it at {base}" if served else ""
    return "\n".join(
        [
            f'"""The judge {judge.name!r} for MLflow{about}."""',
            "",
            *(["from typing import Literal", ""] if kind != "float" else []),
            "from mlflow.genai.judges import make_judge",
            "",
            f"# inputs: {', '.join(judge.texts[:-1]) or 'none'}; outputs: {judge.texts[-1]}",
            f"{python_name(judge.name)} = make_judge(",
            f"    name={judge.name!r},",
            f"    instructions={_mlflow_instructions(judge)!r},",
            f"    feedback_value_type={kind},",
            f"    model={model!r},",
            *([f"    base_url={base.rstrip('/') + '/chat/completions'!r},"] if base else []),
            ")",
            "",
        ]
    )


def to_deepeval(judge: Judge) -> str:
    """A Python file with a DeepEval metric."""
    return _script(judge, DEEPEVAL, "a DeepEval metric")


def to_inspect(judge: Judge) -> str:
    """A Python file with an Inspect scorer."""
    return _script(judge, INSPECT, "an Inspect scorer")


def to_promptfoo(judge: Judge) -> str:
    """A JavaScript file with a promptfoo assertion."""
    return _script(judge, PROMPTFOO, "a promptfoo assertion")


def to_markdown(judge: Judge) -> str:
    """A page for people: what the judge is, where it comes from, and its messages."""
    first, *facts = describe(judge)
    plan = judge.resolved_plan()
    lines = [f"# {judge.name}", "", first, "", *(f"- {fact}" for fact in facts)]
    if judge.plan is None:
        lines.append(f"- written for {judge.lm}, plan {_plan_name(plan)}")
    lines += ["", "`{{name}}` is where a row's text goes."]
    for message in judge.template():
        longest = max(map(len, re.findall(r"`+", message["content"])), default=0)
        fence = "`" * max(3, longest + 1)
        lines += ["", f"## {message['role']}", "", fence, message["content"], fence]
    return "\n".join(lines) + "\n"


def to_dspy(judge: Judge) -> str:
    """The state that `RatingJudge(...).load(path)` or `PairwiseJudge(...).load(path)` takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        judge.program().save(path)
        return path.read_text(encoding="utf-8")


def _script(judge: Judge, template: str, format_name: str) -> str:
    subject = _dimension(judge, format_name)
    ratings = [str(rating) for rating in subject.scale]
    starts = [a for a in ratings for b in ratings if a != b and b.startswith(a)]
    if starts and judge.resolved_plan().kind == "weighted":
        raise ExportError(
            f"{format_name} reads a rating's probability off one token, and {starts[0]} begins "
            "another rating of this scale (--plan one or --samples N)"
        )
    return write_script(judge, template)


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
            f"{format_name} scores one output; {judge.name} compares two (try --to openai-messages)"
        )
    return judge.subject


def _check_one_reply(judge: Judge, format_name: str) -> None:
    """Raise ExportError where the judge's plan takes more than one reply's rating."""
    plan = judge.resolved_plan()
    if plan.kind != "one":
        raise ExportError(
            f"{format_name} takes one reply's rating; this judge's plan is {_plan_name(plan)}, so "
            "its scores would be others (--plan one takes one reply; --to openai-messages any plan)"
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


def _lost_by_scripts(judge: Judge) -> tuple[str, ...]:
    """What a file of code does not do as the judge does."""
    lost = [
        "a reply that is not the rating alone fails, where the judge reads more forms and asks "
        "again",
    ]
    if "/" in judge.lm and judge.lm.partition("/")[0] != "openai":
        lost.append(
            f"{judge.lm} is asked at the OpenAI-compatible address in OPENAI_BASE_URL (--api-base)"
        )
    return tuple(lost)


def _lost_by_mlflow(judge: Judge) -> tuple[str, ...]:
    if is_embedded(judge.lm):
        return (f"MLflow asks the judge itself: python -m judges serve JUDGE, at {SERVED}",)
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


def describe(judge: Judge) -> list[str]:
    """Name, definition, texts, scale and origin of a judge, a line each."""
    subject = judge.subject
    lines = [
        f"{judge.name}: {subject.definition}",
        f"kind: {judge.kind}; reads {', '.join(judge.texts)}; scale {scale_words(subject)}",
    ]
    if subject.source:
        lines.append(f"source: {subject.source}")
    if judge.plan is not None:
        samples = f" of {judge.plan.samples}" if judge.plan.kind == "mean" else ""
        lines.append(f"frozen for {judge.lm}, plan {judge.plan.kind}{samples}")
    if judge.provenance:
        lines += _origin(judge.provenance)
    return lines


def _origin(provenance: Mapping[str, Any]) -> list[str]:
    """Where a frozen judge comes from and what was measured, as far as its file says."""
    lines = []
    if "data" in provenance:
        data = provenance["data"]
        lines.append(
            f"{provenance.get('shipped', 'tuned')} judge of optimizer "
            f"{provenance.get('optimizer', '?')}, seed {provenance.get('seed', '?')}, on "
            f"{data['name']} (sha256 {data['sha256'][:12]})"
        )
        if data.get("constructed"):
            lines.append("its labels were constructed, no person gave them")
    for side in ("seed_judge", "tuned_judge", "own_judge", "panel"):
        for split, cell in (provenance.get(side) or {}).items():
            if isinstance(cell, dict) and cell.get("value") is not None:
                lines.append(f"{side.replace('_', ' ')} on {split}: {_cell(cell)}")
    return lines


def _cell(cell: Mapping[str, Any]) -> str:
    """One correlation with its interval, in words."""
    ends = [cell.get("low"), cell.get("high")]
    interval = "" if None in ends else f" [{ends[0]:.3f}, {ends[1]:.3f}]"
    return (
        f"{cell.get('level', '')}-level {cell.get('coefficient', '')} {cell['value']:.3f}"
        f"{interval} n={cell.get('n_documents', '?')} documents"
    )


def scale_words(subject: Subject) -> str:
    """A scale as a table shows it."""
    if isinstance(subject, Comparison):
        return "A/B"
    return f"{subject.scale[0]}-{subject.scale[-1]}"


FORMATS: Mapping[str, Format] = {
    "openai-messages": Format(
        "chat-completions request with {{slots}} (any plan)", to_messages, _lost_by_slots
    ),
    "openai-grader": Format(
        "score_model grader (rating, one reply)",
        to_openai_grader,
        lambda judge: (RAW, REPLY_FORMAT.format("OpenAI wraps the prompt in")),
    ),
    "promptfoo": Format(
        "JavaScript assertion (rating, any plan)",
        to_promptfoo,
        lambda judge: (
            *_lost_by_scripts(judge),
            "promptfoo has no missing score: a failed judgement fails its test with 0 and says why",
        ),
    ),
    "deepeval": Format(
        "Python file with a metric (rating, any plan)", to_deepeval, _lost_by_scripts
    ),
    "mlflow": Format("Python file with make_judge (rating, one reply)", to_mlflow, _lost_by_mlflow),
    "inspect": Format("Python file with a scorer (rating, any plan)", to_inspect, _lost_by_scripts),
    "dspy": Format("state for dspy.Module.load", to_dspy, _lost_by_dspy, False),
    "markdown": Format("page with facts and messages", to_markdown, _lost_by_slots),
    "text": Format("one plain prompt with {{slots}}", to_text, _lost_by_slots, False),
}
# Former names.
ALIASES: Mapping[str, str] = {"messages": "openai-messages"}
