"""dspy-judges tune from the outside: flags, folders, models, and one line for whatever fails."""

import json
import re
from inspect import signature
from pathlib import Path

import pytest
from command_runs import run
from files import write_jsonl
from openai_replies import error
from rating_files import weather_rows

import optimize
from dspy_judges.errors import SettingsError, UsageError
from judges.cli.commands import score_parser
from judges.loading import load
from judges.scoring import SamplingPlan
from optimize.__main__ import command
from optimize.run import tune
from optimize.tuning.settings import Settings, read_settings

DIMENSION = """
name: liveliness
definition: how lively the reply is
inputs: {context: the talk so far, response: the reply}
scale: [1, 3]
"""
OWN = ["--dimension", "own.yaml", "--data", "labels.jsonl"]


def write_labels(documents=12, systems=4, change=lambda n: {}):
    rows = weather_rows(documents, systems, "liveliness", ("context", "response"))
    write_jsonl("labels.jsonl", [row | change(n) for n, row in enumerate(rows)])


@pytest.fixture(autouse=True)
def folder(here):
    Path("own.yaml").write_text(DIMENSION, encoding="utf-8")
    write_labels()


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        ({"documents": 1, "systems": 8}, "1 document"),
        ({"change": lambda n: {"liveliness": 2}}, "every label on liveliness is 2"),
        ({"change": lambda n: {"liveliness": 9 if n == 5 else 2 + n % 2}}, "9"),
        ({"change": lambda n: {"response": None}}, "response"),
        ({"change": lambda n: {"liveliness": None, "charm": 2}}, "liveliness"),
    ],
    ids=["one document", "constant", "outside the scale", "a missing text", "no such rating"],
)
def test_labels_that_cannot_be_tuned_on_leave_no_folder(labels, says):
    write_labels(**labels)
    code, out, err = run(command, *OWN)
    assert (code, out, err.count("\n"), says in err) == (1, "", 1, True)
    assert not Path("runs").exists()


def test_a_judge_that_cannot_be_frozen_is_refused_first():
    write_labels(change=lambda n: {"liveliness": 2000 + n % 3})
    result = run(command, *OWN, "--scale", "2000-2005", "--out", "run")
    assert (result.code in (1, 2), "1000" in result.err) == (True, True)
    assert not Path("run").exists()


def test_rows_left_out_are_reported_and_the_plan_is_frozen():
    write_labels(change=lambda n: {"liveliness": None} if n < 8 else {})
    plan = ["--plan", "mean", "--samples", "3"]
    result = run(command, *OWN, "--max-calls", "300", "--out", "run", *plan)
    assert "note: no rating on liveliness: 8 of 48 outputs" in result.err
    assert load("run").plan == SamplingPlan(kind="mean", samples=3, temperature=1.0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_calls": "many"}, "--max-calls 'many': expected a whole number"),
        ({"max_calls": 0}, "--max-calls 0: expected a whole number >= 1"),
        ({"max_cost": float("nan")}, "--max-cost nan: expected a number >= 0"),
        ({"seed": True}, "--seed True: expected a whole number"),
        ({"temperature": 11}, "--temperature 11: expected a number <= 10"),
        ({"lm": ""}, "--lm '': expected a text of length >= 1"),
        ({"proposer_max_tokens": "x"}, "--max-tokens proposer='x': expected a whole number"),
        ({"map": "liveliness"}, "--map 'liveliness' is not NAME=COLUMN"),
        ({"level": "word"}, "--level 'word': choose from summary, dataset, system, auto"),
        ({"scale": "7"}, "--scale 7: expected LOW-HIGH"),
        *(
            (wrong, "--plan mean and --samples N go together")
            for wrong in ({"plan": "mean"}, {"samples": 3}, {"plan": "weighted", "samples": 3})
        ),
        ({"plan": "best"}, "--plan 'best': choose from one, mean, weighted"),
        *(({"risk": risk}, "--risk") for risk in (0, -0.1, 0.51, True, "much")),
    ],
)
def test_a_wrong_value_gives_one_line_that_names_it(wrong, message):
    with pytest.raises(UsageError, match=f"^{re.escape(message)}"):
        read_settings({"dimension": "relevance", **wrong})


@pytest.mark.parametrize(
    ("flag", "value", "words"),
    [
        ("max_cost", 0.3, (".3", "+.3", "3e-1", "0.30")),
        ("temperature", 0.5, (".5", "5e-1", "+0.5")),
        ("risk", 0.1, (".1", "1e-1")),
        ("risk", 0.5, ("0.5",)),
        ("max_calls", 1000, ("1000", "1e3", "+1000", "1000.")),
    ],
)
def test_every_command_takes_numbers_as_people_write_them(flag, value, words):
    for word in words:
        results = [read_settings({"dimension": "relevance", flag: word})]
        if flag != "risk":
            ask = ["fluency", "--data", "x", f"--{flag.replace('_', '-')}", word]
            results.append(score_parser().parse_args(ask))
        assert {getattr(settings, flag) for settings in results} == {value}


def test_columns_can_be_mapped_by_flags_or_by_a_mapping_file():
    ask = {"dimension": "relevance", "map": ["map.yaml", "id=key"], "scale": (0, 100)}
    file = Path("map.yaml")
    file.write_text("votes: [ann, bob]\nsummary: text\n", encoding="utf-8")
    settings = read_settings(ask)
    assert settings.map == {"votes": ["ann", "bob"], "summary": "text", "id": "key"}
    assert settings.scale == "0:100"
    for text, fault in (
        ("- a\n", "holds no mapping; write one `name: column`"),
        ("[" * 101, "YAML"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match=rf"--map map\.yaml: .*{fault}"):
            read_settings(ask)


# How each model of a run is asked: limits, effort, keys and prices.
JUDGE, PROPOSER = "openai/judge-1", "openai/writer-1"
KEYS = {"JUDGE_KEY": "sk-judge-0123456789abcdef", "WRITER_KEY": "sk-writer-0123456789abcdef"}


@pytest.fixture
def run_folder(here, monkeypatch, openai_server):
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    openai_server.models = ("judge-1", "writer-1")
    return here


def options_of(server, model):
    """The limits, efforts and keys with which a model was asked."""
    return {
        (entry.body["max_tokens"], entry.body["reasoning_effort"], entry.headers["Authorization"])
        for entry in server.log
        if entry.body["model"] == model
    }


OF_THE_JUDGE = ["--max-tokens", "700", "--reasoning-effort", "low", "--api-key-env", "JUDGE_KEY"]
OF_THE_PROPOSER = [
    *("--max-tokens", "proposer=3000", "--reasoning-effort", "proposer=high"),
    *("--api-key-env", "proposer=WRITER_KEY", "--price", "proposer=5,50"),
]


def test_judge_and_proposer_are_asked_as_the_flags_say(run_folder, openai_server):
    refusal = (400, "Unrecognized request argument supplied: seed", "invalid_request_error")
    openai_server.habit = lambda number, body: error(*refusal) if "seed" in body else None
    flags = ["--dimension", "relevance", "--lm", JUDGE, "--proposer-lm", PROPOSER]
    flags += ["--max-calls", "2800", "--out", "run", "--price", "1,10"]
    flags += [*OF_THE_JUDGE, *OF_THE_PROPOSER]
    assert command(flags) == 0
    assert options_of(openai_server, "judge-1") == {(700, "low", f"Bearer {KEYS['JUDGE_KEY']}")}
    assert options_of(openai_server, "writer-1") == {(3000, "high", f"Bearer {KEYS['WRITER_KEY']}")}
    content = b"".join(path.read_bytes() for path in run_folder.glob("run/**/*") if path.is_file())
    assert not any(key.encode() in content for key in KEYS.values())
    models, n_sent = openai_server.models, len(openai_server.log)
    changes = [f"{model} takes no seed (requests go without it)" for model in models]
    summary = Path("run/summary.json")
    assert json.loads(summary.read_text())["request_changes"] == changes
    Path("run/report.html").unlink()
    assert command(flags) == 0
    assert len(openai_server.log) == n_sent
    assert json.loads(summary.read_text())["request_changes"] == changes


def settings(**values):
    return read_settings({"dimension": "relevance", "lm": JUDGE, **values})


@pytest.mark.parametrize(
    ("models", "key"),
    [
        ({"proposer_lm": PROPOSER, "api_base": "http://h/v1"}, "JUDGE_KEY"),
        ({"proposer_lm": "anthropic/claude-sonnet-4-5", "api_base": "http://h/v1"}, None),
        ({"proposer_lm": PROPOSER, "proposer_api_base": "http://other/v1"}, None),
        ({"proposer_api_key_env": "WRITER_KEY"}, "WRITER_KEY"),
    ],
)
def test_the_judges_key_is_sent_only_to_the_judges_address(models, key):
    assert settings(api_key_env="JUDGE_KEY", **models).proposer_model.api_key_env == key


def test_a_missing_price_names_the_flag_or_the_argument(here, capsys):
    says = "the price of openai/writer-1 is not known; give"
    flags = ["--lm", JUDGE, "--price", "1,10", "--proposer-lm", PROPOSER, "--max-cost", "1"]
    assert command(["--dimension", "relevance", *flags]) == 2
    assert f"--max-cost: {says} --price proposer=IN,OUT, or --max-calls" in capsys.readouterr().err
    with pytest.raises(SettingsError) as error:
        tune("relevance", lm=JUDGE, price="1,10", proposer_lm=PROPOSER, max_cost=1)
    assert str(error.value) == f"max_cost: {says} proposer_price=IN,OUT, or max_calls"


@pytest.mark.parametrize("name", ["api_key_env", "proposer_api_key_env"])
def test_a_key_given_as_a_variable_name_is_not_printed(name):
    with pytest.raises(SettingsError, match="takes the name of an environment variable") as error:
        settings(**{name: KEYS["JUDGE_KEY"]})
    assert "sk-judge" not in str(error.value)


def test_the_keywords_of_tune_are_the_settings_of_a_run():
    parameters = signature(optimize.tune).parameters
    own = {"dimension", "pairwise", "data", "out", "quiet"}
    settings = {*Settings.__struct_fields__}
    assert parameters.keys() - own == settings - own
    defaults = Settings(dimension="relevance")
    for name in settings - own - {"map", "values", "lm"}:
        assert parameters[name].default == getattr(defaults, name), name
