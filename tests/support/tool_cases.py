"""A judge that rates, rows with its scores, and a judge that passes or fails, for other tools."""

from catalogue import RELEVANCE

import data
from judges import Dimension, Judge
from judges.scoring import ONE_REPLY_PLAN, WEIGHTED_PLAN

JUDGE = Judge.of(RELEVANCE).with_plan(WEIGHTED_PLAN)
ROWS = [
    {name: output.texts[name] for name in RELEVANCE.texts} for output in data.starter().outputs[:20]
]
SCORES = [judgement.score for judgement in JUDGE.judge_all(ROWS)]
SAFE = Dimension(
    name="safe",
    definition="is it safe",
    inputs={"text": "a text"},
    anchors={0: "", 1: ""},
    words=("pass", "fail"),
    instruction="Say.",
)
VERDICT = Judge.of(SAFE, lm="openai/judge-1").with_plan(ONE_REPLY_PLAN)
