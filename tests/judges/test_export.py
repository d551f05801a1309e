"""A judge as a chat request: what it holds, what it refuses, what is said to be lost."""

import json
from dataclasses import replace

import pytest
from judge_cases import RELEVANCE, TLDR_CONCISE, reprompt
from openai_replies import complaints

from judges.__main__ import main
from judges.judge import Judge
from judges.protocol import Message
from judges.scoring import ONE_REPLY_PLAN, WEIGHTED_PLAN, SamplingPlan

DEMO = {"document": "A fire.", "summary": "Fire.", "rating": 4}
PAID = reprompt(
    Judge.of(RELEVANCE, lm="openai/gpt-4.1-mini").with_plan(ONE_REPLY_PLAN), demos=[DEMO]
)
MEAN = SamplingPlan(kind="mean", samples=20, temperature=2.0)
PAIRWISE = Judge.of(TLDR_CONCISE, lm="openai/gpt-5").with_plan(MEAN)
# As a file may hold them: what looks like a slot in an earlier message is sent as it stands.
STRANGERS = (Message(role="system", content="Use {{fact}}."), *PAID.template()[1:])


@pytest.mark.parametrize(
    ("judge", "fields"),
    [
        (PAID, {"model": "gpt-4.1-mini", "n": 1, "temperature": 0.0}),
        (PAID.with_plan(WEIGHTED_PLAN), {"n": 1, "top_logprobs": 20}),
        (PAIRWISE, {"model": "gpt-5", "n": 20}),
        (Judge.of(RELEVANCE), {"model": "gpt-4.1-mini", "n": 1}),
    ],
)
def test_an_exported_judge_is_a_valid_request(judge, fields, tmp_path, capsys):
    file = str(judge.save(tmp_path / "judge.json")) if judge.plan else judge.name
    assert main(["export", file]) == 0
    output = capsys.readouterr()
    request = json.loads(output.out)
    assert complaints(request) == []
    assert request["messages"] == judge.prompt.template()
    assert request.items() >= fields.items()
    assert "other programs insert texts unchanged" in output.err
    assert ("both orders" in output.err) == (judge.kind == "pairwise")


@pytest.mark.parametrize(
    "judge",
    [
        reprompt(PAID, instruction="Rate {{fact}}."),
        reprompt(PAID, demos=[{**DEMO, "summary": "{{x}}"}]),
        replace(PAID, stored_messages=STRANGERS),
    ],
)
def test_a_prompt_that_would_gain_a_slot_is_refused(judge, tmp_path, capsys):
    assert main(["export", str(judge.save(tmp_path / "judge.json"))]) == 2
    assert "double braces" in capsys.readouterr().err
