"""Judges of every kind, to be frozen, and their files with something changed."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from judge_cases import FLUENCY, PAIRED, PLAIN, RELEVANCE, TLDR_CONCISE, WEIGHED, reprompt

from judges import frozen
from judges.definition import make_dimension
from judges.frozen import JudgeFile
from judges.judge import Judge
from judges.scoring import WEIGHTED_PLAN, SamplingPlan

MEAN = SamplingPlan(kind="mean", samples=20, temperature=2.0)
TEXTS = {"document": "A fire broke out.", "summary": "Fire."}
DEMO = {**TEXTS, "rating": 3}
PAIR = {"post": "p", "summary_a": "a", "summary_b": "b", "comparison": "A.", "preferred": "A"}
BINARY = make_dimension("grounded", (0, 1), ["fact", "response"], "whether it uses the fact")
PROVENANCE = {
    "data": {"name": "labels.jsonl", "sha256": "0" * 64},
    "seed": 7,
    "tuned_judge": {"test": {"value": 0.41, "low": 0.3, "high": 0.5, "n_documents": 20}},
    "versions": {"judges": "0.1.0"},
}

KINDS = {
    "rating": replace(Judge.of(RELEVANCE), plan=WEIGHTED_PLAN),
    "rating with demos": replace(reprompt(Judge.of(RELEVANCE), demos=[DEMO]), plan=WEIGHTED_PLAN),
    "rating with a rationale": replace(
        reprompt(Judge.of(RELEVANCE, reasoning="brief"), demos=[{**DEMO, "rationale": "Short."}]),
        plan=MEAN,
        lm="openai/gpt-4.1-mini",
    ),
    "summary alone": replace(Judge.of(FLUENCY), plan=WEIGHTED_PLAN),
    "own scale": replace(Judge.of(BINARY), plan=WEIGHTED_PLAN, provenance=PROVENANCE),
    "a threshold": replace(Judge.of(FLUENCY), plan=WEIGHTED_PLAN, threshold=0.3),
    "pairwise": replace(Judge.of(TLDR_CONCISE), plan=SamplingPlan(kind="one")),
    "pairwise with demos": replace(
        reprompt(Judge.of(TLDR_CONCISE), demos=[PAIR], instruction="Which is better?"),
        plan=WEIGHTED_PLAN,
    ),
    "questions": PLAIN,
    "weighted answers": WEIGHED,
    "weighted answers to a pair": PAIRED,
}
SAVED = KINDS["rating with demos"]


def forge(judge: Judge, change: Callable[[dict[str, Any]], object]) -> bytes:
    """The judge's file with something changed, and the digest made right again."""
    document = json.loads(judge.dumps())
    change(document)
    document.pop("digest", None)
    document["digest"] = frozen.json_digest(document)
    return json.dumps(document).encode()


def load_raw(raw: bytes | str) -> Judge:
    """The judge of a file's content."""
    file = frozen.loads(raw.encode() if isinstance(raw, str) else raw)
    assert isinstance(file, JudgeFile)
    return Judge.from_file(file)
