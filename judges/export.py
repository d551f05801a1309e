"""A judge as a chat request with {{slots}}, or as the state of a DSPy module."""

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from dspy_judges.errors import JudgesError
from judges.client.openai import Spelling
from judges.judge import Judge
from judges.prompt import SLOT
from judges.scoring import sampling_of


class ExportError(JudgesError, ValueError):
    """A format that cannot hold this judge; the message says why."""


def to_messages(judge: Judge) -> str:
    """The JSON of a chat-completions request, with `{{slots}}` for texts in its last message.

    Raises ExportError where the prompt itself has double braces, which would be taken for slots.
    """
    messages = judge.template()
    texts = [message["content"] for message in messages]
    texts[-1] = SLOT.sub("", texts[-1])
    if any("{{" in text for text in texts):
        raise ExportError(
            f"{judge.name}: the instruction or a demonstration has double braces, which a template "
            "takes for slots; use --to dspy"
        )
    name = judge.lm.removeprefix("openai/")
    sampling = sampling_of(judge.resolved_plan(), judge.prompt)
    request = {"n": 1, **Spelling(name).body(messages, sampling)}
    return json.dumps(request, indent=1, ensure_ascii=False) + "\n"


def to_dspy(judge: Judge) -> str:
    """The state that `RatingJudge(...).load(path)` or `PairwiseJudge(...).load(path)` takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.json"
        judge.program().save(path)
        return path.read_text(encoding="utf-8")


def left_out(judge: Judge, to: str) -> tuple[str, ...]:
    """What the judge does that the format does not hold."""
    if to == "dspy":
        return (
            f"the state holds no scale, plan or model: load it into judges.load({judge.name!r})"
            ".program(), or into a module with the same fields",
        )
    lost = ["texts are put in as they are: the judge also breaks the prompt's markers inside them"]
    if (plan := judge.resolved_plan()).kind != "one":
        samples = f" of {plan.samples}" if plan.kind == "mean" else ""
        lost.append(f"the plan {plan.kind}{samples} has to be applied to the replies")
    if judge.kind == "pairwise":
        lost.append("the judge asks in both orders, and counts a choice that flips as a tie")
    return tuple(lost)


FORMATS: Mapping[str, Callable[[Judge], str]] = {"messages": to_messages, "dspy": to_dspy}
