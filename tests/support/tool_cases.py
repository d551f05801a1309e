"""A judge that rates, rows with its scores, and a judge that passes or fails, for other tools."""

from judge_cases import RELEVANCE

import data
from judges import Judge
from judges.definition import make_dimension
from judges.scoring import ONE_REPLY_PLAN, WEIGHTED_PLAN

JUDGE = Judge.of(RELEVANCE).with_plan(WEIGHTED_PLAN)
ROWS = [
    {name: output.texts[name] for name in RELEVANCE.texts} for output in data.starter().outputs[:20]
]
SCORES = [judgement.score for judgement in JUDGE.judge_all(ROWS)]
SAFE = make_dimension("safe", ("pass", "fail"), ["text"], "is it safe")
VERDICT = Judge.of(SAFE, lm="openai/judge-1").with_plan(ONE_REPLY_PLAN)
