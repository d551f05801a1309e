"""Judges in other formats: what they hold, what they refuse, what is said to be lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges import catalog
from judges.__main__ import main
from judges.catalog import RELEVANCE, TLDR_CONCISE
from judges.client.protocol import Message
from judges.export import ExportError, to_dspy, to_messages
from judges.judge import Judge
from judges.modules import RatingJudge
from judges.scoring import SamplingPlan

ONE = SamplingPlan(kind="one")
MEAN = SamplingPlan(kind="mean", samples=20, temperature=2.0)
DEMO = {"document": "A fire.", "summary": "Fire.", "rating": 4}
PAID = Judge(
    subject=RELEVANCE,
    prompt=Judge.of(RELEVANCE).with_prompt(demos=[DEMO]).prompt,
    plan=ONE,
    lm="openai/gpt-4.1-mini",
)
WEIGHTED = replace(PAID, plan=SamplingPlan(kind="weighted"))
PAIRWISE = replace(Judge.of(TLDR_CONCISE), plan=MEAN, lm="openai/gpt-4.1-mini")

# As a file may hold them: what looks like a slot in an earlier message is sent as it stands.
STRANGERS = (Message(role="system", content="Use {{fact}}."), *PAID.template()[1:])


def test_messages_are_the_judges_own_as_a_valid_request() -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    requests = [json.loads(to_messages(judge)) for judge in (PAID, WEIGHTED, PAIRWISE)]
    for request in requests:
        TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(request)
    one, weighted, pairs = requests
    assert one["messages"] == PAID.prompt.template()
    assert (one["model"], one["n"], one["temperature"]) == ("gpt-4.1-mini", 1, 0.0)
    assert weighted["top_logprobs"] == 20
    assert (pairs["n"], pairs["temperature"]) == (20, 2.0)


def test_dspys_state_loads_into_a_module(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(to_dspy(PAID), encoding="utf-8")
    module = RatingJudge(RELEVANCE)
    module.load(tmp_path / "state.json")
    judge = Judge.from_program(module, RELEVANCE)
    assert judge.with_plan(PAID.plan).with_model(PAID.lm) == PAID


@pytest.mark.parametrize(
    "judge",
    [
        PAID.with_prompt(instruction="Rate {{fact}}."),
        PAID.with_prompt(demos=[{**DEMO, "summary": "{{x}}"}]),
        replace(PAID, stored_messages=STRANGERS),
    ],
)
def test_a_prompt_that_would_gain_a_slot_is_refused(judge: Judge) -> None:
    with pytest.raises(ExportError, match="double braces"):
        to_messages(judge)


def exported(
    capsys: pytest.CaptureFixture[str], *arguments: str, expect: int = 0
) -> tuple[str, str]:
    assert main(["export", *arguments]) == expect
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("lm", [None, "openai/gpt-5"])
@pytest.mark.parametrize("name", catalog.names())
def test_every_catalogue_judge_goes_into_both_formats(
    name: str, lm: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--lm", lm] if lm else []
    out, err = exported(capsys, name, "--to", "messages", *named)
    request = json.loads(out)
    assert request["model"] == (lm or "openai/gpt-4.1-mini").removeprefix("openai/")
    assert request["messages"] == Judge.of(catalog.find(name)).prompt.template()
    assert "texts are put in as they are" in err
    assert ("both orders" in err) == (Judge.of(catalog.find(name)).kind == "pairwise")
    out, err = exported(capsys, name, "--to", "dspy")
    assert json.loads(out)["judge"]["signature"]["instructions"]
    assert "the state holds no scale, plan or model" in err


def test_a_frozen_judge_is_written_as_measured_and_no_file_is_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = str(replace(PAID, plan=MEAN).save(tmp_path / "judge.json")), tmp_path / "out.json"
    _, err = exported(capsys, path, "--to", "messages", "--out", str(out))
    request = json.loads(out.read_text())
    assert (request["model"], request["n"]) == ("gpt-4.1-mini", 20)
    assert "the plan mean of 20 has to be applied to the replies" in err
    _, err = exported(capsys, path, "--to", "messages", "--out", str(out), expect=1)
    assert "out.json exists already" in err
