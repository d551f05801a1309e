"""Judges that ask questions, a reply of theirs, and rows for them."""

from dataclasses import replace

from judges import AnswerWeights, Comparison, Dimension, Judge, Question
from judges.scoring import ONE_REPLY_PLAN

HELPFUL = Dimension(
    name="helpful",
    definition="how far the reply helps",
    inputs={"query": "what was asked", "reply": "the reply to judge"},
    anchors=dict.fromkeys(range(1, 6), ""),
    instruction="Judge how far the reply helps.",
)
DEADLINE = Question(name="deadline", text="does the reply say until when to ask")
TONE = Question(name="tone", text="how friendly it is", answers=(1, 2, 3), anchors={1: "rude"})
PLAIN = Judge.of(HELPFUL, reasoning="brief", questions=[DEADLINE, TONE]).with_plan(ONE_REPLY_PLAN)
# From 0 + 0.5 * 1 + 0.5 * 1 = 1 to 1 + 0.5 * 3 + 0.5 * 5 = 5.
WEIGHTS = AnswerWeights(intercept=0.0, slopes={"deadline": 1.0, "tone": 0.5, "rating": 0.5})
WEIGHED = replace(PLAIN, weights=WEIGHTS)
ROW = {"query": "When?", "reply": "Ask us by Friday."}

KINDER = Comparison(
    name="kinder",
    definition="which reply is kinder",
    inputs={"query": "what was asked"},
    candidate="reply",
    instruction="Decide which reply is kinder.",
)
BRIEFER = Question(name="briefer", text="which reply is shorter", answers=("A", "B"))
PAIRED = replace(
    Judge.of(KINDER, reasoning="none", questions=[BRIEFER]).with_plan(ONE_REPLY_PLAN),
    weights=AnswerWeights(intercept=0.0, slopes={"briefer": 0.75, "preferred": 0.25}),
)
PAIR = {"query": "When?", "reply_a": "Good morning, on Friday.", "reply_b": "Friday."}


def form(**values: object) -> str:
    """A reply that gives these outputs."""
    blocks = [f"[[ ## {name} ## ]]\n{value}" for name, value in values.items()]
    return "\n\n".join([*blocks, "[[ ## completed ## ]]"])


FULL = form(rationale="It helps.", deadline="yes", tone=2, rating=4)
