"""How each model of a run is asked: limits, effort, keys and prices; `proposer=` names one."""

import json
from pathlib import Path

import pytest
from openai_replies import error

from dspy_judges.errors import SettingsError
from optimize.__main__ import command
from optimize.run import tune
from optimize.tuning.settings import read_settings

JUDGE, PROPOSER = "openai/judge-1", "openai/writer-1"
KEYS = {"JUDGE_KEY": "sk-judge-0123456789abcdef", "WRITER_KEY": "sk-writer-0123456789abcdef"}


@pytest.fixture
def folder(here, monkeypatch, openai_server):
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


def test_judge_and_proposer_are_asked_as_the_flags_say(folder, openai_server):
    refusal = (400, "Unrecognized request argument supplied: seed", "invalid_request_error")
    openai_server.habit = lambda number, body: error(*refusal) if "seed" in body else None
    flags = ["--dimension", "relevance", "--lm", JUDGE, "--proposer-lm", PROPOSER]
    flags += ["--max-calls", "2800", "--out", "run", "--price", "1,10"]
    flags += [*OF_THE_JUDGE, *OF_THE_PROPOSER]
    assert command(flags) == 0
    assert options_of(openai_server, "judge-1") == {(700, "low", f"Bearer {KEYS['JUDGE_KEY']}")}
    assert options_of(openai_server, "writer-1") == {(3000, "high", f"Bearer {KEYS['WRITER_KEY']}")}
    content = b"".join(path.read_bytes() for path in folder.glob("run/**/*") if path.is_file())
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


def test_the_error_on_a_missing_price_names_the_flag_or_the_argument(here, capsys):
    says = "the price of openai/writer-1 is not known; give"
    flags = ["--lm", JUDGE, "--price", "1,10", "--proposer-lm", PROPOSER, "--max-cost", "1"]
    assert command(["--dimension", "relevance", *flags]) == 2
    assert f"--max-cost: {says} --price proposer=IN,OUT, or --max-calls" in capsys.readouterr().err
    with pytest.raises(SettingsError) as error:
        tune("relevance", lm=JUDGE, price="1,10", proposer_lm=PROPOSER, max_cost=1)
    assert str(error.value) == f"max_cost: {says} proposer_price=IN,OUT, or max_calls"


@pytest.mark.parametrize("name", ["api_key_env", "proposer_api_key_env"])
def test_a_key_given_as_a_variable_name_is_refused_and_not_printed(name):
    with pytest.raises(SettingsError, match="takes the name of an environment variable") as error:
        settings(**{name: KEYS["JUDGE_KEY"]})
    assert "sk-judge" not in str(error.value)
