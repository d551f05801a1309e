"""Judges that many tests use, of the catalogue and with questions, and changes to them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import judges
from judges import AnswerWeights, Judge, Question
from judges.catalog import SUBJECT_BY_NAME
from judges.definition import make_comparison, make_dimension
from judges.scoring import ONE_REPLY_PLAN, SamplingPlan

COHERENCE, FLUENCY, RELEVANCE, TLDR_CONCISE = (
    SUBJECT_BY_NAME[name] for name in ("coherence", "fluency", "relevance", "tldr_concise")
)


def reprompt(judge: Judge, **changes: Any) -> Judge:
    """The judge with another `instruction` or other `demos`."""
    return replace(judge, prompt=replace(judge.prompt, **changes))


def tuned_on(path: Path, keys: Iterable[str], choice: str = "tuned") -> str:
    """A file of the judge `relevance` that was tuned on the rows of these keys."""
    judge = judges.load("relevance").with_plan(SamplingPlan(kind="weighted"))
    origin = {"tuned_on": [*keys], "shipped": choice}
    return str(replace(judge, provenance=origin).save(path))


HELPFUL = make_dimension("helpful", (1, 5), ["query", "reply"], "how far the reply helps")
DEADLINE = Question(name="deadline", text="does the reply say until when to ask")
TONE = Question(name="tone", text="how friendly it is", answers=(1, 2, 3), anchors={1: "rude"})
PLAIN = Judge.of(HELPFUL, reasoning="brief", questions=[DEADLINE, TONE]).with_plan(ONE_REPLY_PLAN)
# From 0 + 0.5 * 1 + 0.5 * 1 = 1 to 1 + 0.5 * 3 + 0.5 * 5 = 5.
WEIGHTS = AnswerWeights(intercept=0.0, slopes={"deadline": 1.0, "tone": 0.5, "rating": 0.5})
WEIGHED = replace(PLAIN, weights=WEIGHTS)
ROW = {"query": "When?", "reply": "Ask us by Friday."}

KINDER = make_comparison("kinder", ["query"], "reply", "which reply is kinder")
BRIEFER = Question(name="briefer", text="which reply is shorter", answers=("A", "B"))
PAIRED = replace(
    Judge.of(KINDER, reasoning="none", questions=[BRIEFER]).with_plan(ONE_REPLY_PLAN),
    weights=AnswerWeights(intercept=0.0, slopes={"briefer": 0.75, "preferred": 0.25}),
)
PAIR = {"query": "When?", "reply_a": "Good morning, on Friday.", "reply_b": "Friday."}


def form(**values: object) -> str:
    """A reply in the form that prompts ask for: each value under its header."""
    blocks = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*blocks, "[[ ## completed ## ]]"])


FULL = form(rationale="It helps.", deadline="yes", tone=2, rating=4)
