"""Judges in other formats: what they hold, what they refuse, what is said to be lost."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges import catalog
from judges.__main__ import main
from judges.catalog import RELEVANCE, TLDR_CONCISE
from judges.client.protocol import Message
from judges.judge import Judge
from judges.modules import RatingJudge
from judges.scoring import SamplingPlan

MEAN = SamplingPlan(kind="mean", samples=20, temperature=2.0)
DEMO = {"document": "A fire.", "summary": "Fire.", "rating": 4}
PAID = Judge(
    subject=RELEVANCE,
    prompt=Judge.of(RELEVANCE).with_prompt(demos=[DEMO]).prompt,
    plan=SamplingPlan(kind="one"),
    lm="openai/gpt-4.1-mini",
)
WEIGHTED = replace(PAID, plan=SamplingPlan(kind="weighted"))
PAIRWISE = replace(Judge.of(TLDR_CONCISE), plan=MEAN, lm="openai/gpt-4.1-mini")

# As a file may hold them: what looks like a slot in an earlier message is sent as it stands.
STRANGERS = (Message(role="system", content="Use {{fact}}."), *PAID.template()[1:])


@pytest.fixture
def exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> "Exported":
    return Exported(tmp_path, capsys)


class Exported:
    """What `export` writes of a judge: its stdout and its stderr."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def __call__(self, judge: Judge | str, *flags: str, expect: int = 0) -> tuple[str, str]:
        if isinstance(judge, Judge):
            judge = str(judge.save(self.folder / f"judge{len(list(self.folder.iterdir()))}.json"))
        assert main(["export", judge, *flags]) == expect
        captured = self.capsys.readouterr()
        return captured.out, captured.err


def test_messages_are_the_judges_own_as_a_valid_request(exported: Exported) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    requests = [
        json.loads(exported(judge, "--to", "messages")[0]) for judge in (PAID, WEIGHTED, PAIRWISE)
    ]
    for request in requests:
        TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(request)
    one, weighted, pairs = requests
    assert one["messages"] == PAID.prompt.template()
    assert (one["model"], one["n"], one["temperature"]) == ("gpt-4.1-mini", 1, 0.0)
    assert weighted["top_logprobs"] == 20
    assert (pairs["n"], pairs["temperature"]) == (20, 2.0)


def test_dspys_state_loads_into_a_module(exported: Exported, tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(exported(PAID, "--to", "dspy")[0], encoding="utf-8")
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
def test_a_prompt_that_would_gain_a_slot_is_refused(judge: Judge, exported: Exported) -> None:
    _, err = exported(judge, "--to", "messages", expect=2)
    assert "double braces" in err


@pytest.mark.parametrize("lm", [None, "openai/gpt-5"])
@pytest.mark.parametrize("name", catalog.names())
def test_every_catalogue_judge_goes_into_both_formats(
    name: str, lm: str | None, exported: Exported
) -> None:
    named = ["--lm", lm] if lm else []
    out, err = exported(name, "--to", "messages", *named)
    request = json.loads(out)
    assert request["model"] == (lm or "openai/gpt-4.1-mini").removeprefix("openai/")
    assert request["messages"] == Judge.of(catalog.find(name)).prompt.template()
    assert "texts are put in as they are" in err
    assert ("both orders" in err) == (Judge.of(catalog.find(name)).kind == "pairwise")
    out, err = exported(name, "--to", "dspy")
    assert json.loads(out)["judge"]["signature"]["instructions"]
    assert "it holds no scale, plan or model" in err


def test_no_file_is_written_over(exported: Exported, tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    exported(PAID, "--to", "messages", "--out", str(out))
    assert json.loads(out.read_text())["model"] == "gpt-4.1-mini"
    _, err = exported(PAID, "--to", "messages", "--out", str(out), expect=1)
    assert "out.json exists already" in err
