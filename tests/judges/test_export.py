"""Judges in other formats: what they hold, what they refuse, what is said to be lost."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import pytest

from judges import catalog
from judges.__main__ import main
from judges.catalog.summeval import FLUENCY, RELEVANCE
from judges.catalog.win_rate import TLDR_CONCISE
from judges.dimension import Dimension
from judges.export import FORMATS, ExportError
from judges.judge import Judge
from judges.modules import RatingJudge
from judges.protocol import Message
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
PAIRWISE = replace(Judge.of(TLDR_CONCISE), plan=ONE, lm="openai/gpt-4.1-mini")

# As a file may hold them: what looks like a slot in an earlier message is sent as it stands.
STRANGERS = (Message(role="system", content="Use {{fact}}."), *PAID.template()[1:])


def write(name: str, judge: Judge) -> str:
    return FORMATS[name].write(judge)


def test_messages_are_the_judges_own_as_a_request() -> None:
    request = json.loads(write("openai-messages", PAID))
    assert request["messages"] == PAID.prompt.template()
    assert (request["model"], request["n"], request["temperature"]) == ("gpt-4.1-mini", 1, 0.0)
    sampled = json.loads(write("openai-messages", replace(PAID, plan=MEAN)))
    assert (sampled["n"], sampled["temperature"]) == (20, 2.0)
    assert json.loads(write("openai-messages", WEIGHTED))["top_logprobs"] == 20


def test_messages_are_a_valid_chat_request() -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from pydantic import TypeAdapter

    for judge in (PAID, WEIGHTED, PAIRWISE):
        request = json.loads(write("openai-messages", judge))
        TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(request)


def test_text_holds_every_message_and_slot() -> None:
    text = write("text", PAID)
    for message in PAID.prompt.template():
        assert message["content"] in text
    assert "{{document}}" in text


def test_a_grader_is_a_valid_score_model_and_reads_items() -> None:
    from openai.types.graders.score_model_grader_param import ScoreModelGraderParam
    from pydantic import TypeAdapter

    grader = json.loads(write("openai-grader", PAID))
    TypeAdapter(ScoreModelGraderParam).validate_python(grader)
    assert grader["range"] == [1, 5]
    assert "{{ item.document }}" in grader["input"][-1]["content"]
    assert "{{document}}" not in grader["input"][-1]["content"]


def test_an_mlflow_file_is_python_that_calls_make_judge() -> None:
    tree = ast.parse(write("mlflow", PAID))
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    assert ast.literal_eval(given["name"]) == "relevance"
    assert ast.literal_eval(given["model"]) == "openai:/gpt-4.1-mini"
    assert ast.unparse(given["feedback_value_type"]) == "Literal[1, 2, 3, 4, 5]"
    instructions = ast.literal_eval(given["instructions"])
    assert "document in {{ inputs }}" in instructions
    assert "summary in {{ outputs }}" in instructions
    assert "{{document}}" not in instructions
    assert RELEVANCE.instruction in instructions


def test_an_mlflow_judge_of_the_output_alone_asks_for_no_input() -> None:
    fluency = Judge(subject=FLUENCY, prompt=FLUENCY.prompt(), plan=ONE, lm="openai/x")
    assert "{{ inputs }}" not in write("mlflow", fluency)


@pytest.mark.parametrize("name", ["math", "class", "min", "score_of", "scorer"])
@pytest.mark.parametrize("target", ["inspect", "mlflow"])
def test_a_judge_named_as_what_its_code_uses_hides_nothing_there(target: str, name: str) -> None:
    written = write(target, replace(PAID, subject=replace(RELEVANCE, name=name)))
    names: list[str] = []
    for node in ast.parse(written).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    assert len(names) == len(set(names))
    assert name != "min" or "min" not in names


def test_dspys_state_loads_into_a_module(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text(write("dspy", PAID), encoding="utf-8")
    module = RatingJudge(RELEVANCE)
    module.load(tmp_path / "state.json")
    assert Judge.from_program(module, RELEVANCE, plan=PAID.plan, lm=PAID.lm) == PAID


@pytest.mark.parametrize(
    ("name", "judge", "why"),
    [
        ("openai-grader", PAIRWISE, "scores one output; tldr_concise compares two"),
        ("mlflow", PAIRWISE, "compares two"),
        ("openai-grader", WEIGHTED, "this judge's plan is weighted"),
        ("mlflow", replace(PAID, plan=MEAN), "this judge's plan is mean of 20"),
        ("openai-grader", replace(PAID, lm="embedded"), "not on embedded"),
        ("openai-grader", replace(PAID, lm="anthropic/x"), "not on anthropic/x"),
        ("mlflow", PAID.with_prompt(instruction="Rate {{ trace }}."), "double braces"),
        ("openai-grader", PAID.with_prompt(demos=[{**DEMO, "summary": "{{x}}"}]), "double braces"),
        ("openai-messages", PAID.with_prompt(instruction="Rate {{fact}}."), "double braces"),
        ("text", PAID.with_prompt(demos=[{**DEMO, "summary": "{{x}}"}]), "double braces"),
        ("openai-messages", replace(PAID, stored_messages=STRANGERS), "double braces"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(name: str, judge: Judge, why: str) -> None:
    with pytest.raises(ExportError, match=why):
        write(name, judge)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_says_what_is_lost(name: str) -> None:
    assert all(FORMATS[name].lost(PAID))


def test_a_plan_and_orders_that_a_request_cannot_hold_are_named() -> None:
    lost = " ".join(FORMATS["openai-messages"].lost(replace(PAIRWISE, plan=MEAN)))
    assert "mean of 20" in lost
    assert "both orders" in lost


RATING = [name for name in catalog.names() if isinstance(catalog.find(name), Dimension)]
RATINGS_ONLY = ("mlflow", "openai-grader", "deepeval", "inspect", "promptfoo")
PAIRS = [name for name in catalog.names() if name not in RATING]


def exported(
    capsys: pytest.CaptureFixture[str], *arguments: str, expect: int = 0
) -> tuple[str, str]:
    assert main(["export", *arguments]) == expect
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize("lm", [None, "openai/gpt-5"])
@pytest.mark.parametrize("name", catalog.names())
def test_every_catalogue_judge_goes_into_every_format_that_can_hold_it(
    name: str, lm: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
    from openai.types.graders.score_model_grader_param import ScoreModelGraderParam
    from pydantic import TypeAdapter

    named = ["--lm", lm] if lm else []
    model = (lm or "openai/gpt-4.1-mini").removeprefix("openai/")
    template = Judge.of(catalog.find(name)).prompt.template()
    for target in FORMATS:
        refused = name in PAIRS and target in RATINGS_ONLY
        out, err = exported(capsys, name, "--to", target, *named, expect=int(refused))
        if refused:
            assert "compares two (try --to openai-messages)" in err
            continue
        if target == "openai-messages":
            request = json.loads(out)
            TypeAdapter(CompletionCreateParamsNonStreaming).validate_python(request)
            assert (request["model"], request["messages"], request["n"]) == (
                model,
                template,
                1,
            )
            assert "logprobs" not in request
        elif target == "text":
            assert all(message["content"] in out for message in template)
        elif target == "dspy":
            assert json.loads(out)["judge"]["signature"]["instructions"]
        elif target == "markdown":
            assert all(message["content"] in out for message in template)
        elif target in ("deepeval", "inspect"):
            ast.parse(out)
        elif target == "promptfoo":
            assert f'const MODEL = "{model}";' in out
        elif target == "mlflow":
            assert f"model='openai:/{model}'" in out
            ast.parse(out)
        else:
            TypeAdapter(ScoreModelGraderParam).validate_python(json.loads(out))
        # A model that nobody named is said, where the format names one.
        said = "has no model of its own, so this is written for openai/gpt-4.1-mini" in err
        assert said == (lm is None and target not in ("text", "dspy"))
    assert len(RATING) == 9
    assert len(PAIRS) == 3


def test_an_export_follows_the_plan_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = exported(
        capsys, "relevance", "--to", "openai-messages", "--plan", "mean", "--samples", "5"
    )
    assert (json.loads(out)["n"], json.loads(out)["temperature"]) == (5, 1.0)
    assert "the plan mean of 5 is yours to carry out" in err
    _, err = exported(capsys, "relevance", "--to", "mlflow", "--plan", "weighted", expect=1)
    assert "this judge's plan is weighted" in err
    assert "--plan one" in err


def test_a_frozen_judge_is_exported_as_measured_unless_told_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(replace(WEIGHTED, lm="embedded").save(tmp_path / "judge.json"))
    served = exported(capsys, path, "--to", "mlflow")[0]
    assert "model='openai:/relevance'" in served
    assert "base_url='http://127.0.0.1:8000/v1/chat/completions'" in served
    flags = ["--lm", "openai/gpt-4.1", "--plan", "one"]
    out, err = exported(capsys, path, "--to", "mlflow", *flags)
    assert "openai:/gpt-4.1" in out
    assert "its measured correlations do not hold" in err
