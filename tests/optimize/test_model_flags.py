"""How each model of a run is asked: limits, effort, keys and prices, from flags and YAML."""

import json
from pathlib import Path
from typing import Any

import pytest
from openai_replies import Body
from openai_server import OpenAIServer
from test_provider_habits import fail, when

from optimize.cli.tune import command
from optimize.cli.verify import command as verify
from optimize.run.settings import Settings, SettingsError, resolve

JUDGE, PROPOSER = "openai/judge-1", "openai/writer-1"
KEYS = {"JUDGE_KEY": "sk-judge-0123456789abcdef", "WRITER_KEY": "sk-writer-0123456789abcdef"}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, openai_server: OpenAIServer) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, key in KEYS.items():
        monkeypatch.setenv(name, key)
    openai_server.models = ("judge-1", "writer-1")
    return tmp_path


def summary_of(folder: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(Path(folder, "summary.json").read_text())
    return summary


def asked(server: OpenAIServer, model: str) -> list[tuple[Body, str]]:
    return [
        (seen.body, seen.headers["Authorization"].removeprefix("Bearer "))
        for seen in server.log
        if seen.body["model"] == model
    ]


YAML = f"""\
dimension: relevance
lm: {JUDGE}
proposer-lm: {PROPOSER}
max-calls: 1500
out: run
max-tokens: 700
reasoning-effort: low
api-key-env: JUDGE_KEY
price: [1, 10]
proposer-max-tokens: 3000
proposer-reasoning-effort: high
proposer-api-key-env: WRITER_KEY
proposer-price: 5,50
"""


def test_judge_and_proposer_are_asked_as_a_file_says_and_a_run_goes_on_by_it(
    here: Path, openai_server: OpenAIServer
) -> None:
    refuse = when("seed", lambda: fail(400, "Unrecognized request argument supplied: seed"))
    openai_server.habit = refuse
    Path("run.yaml").write_text(YAML)
    assert command(["--config", "run.yaml"]) == 0
    for model, limit, effort, name in (
        ("judge-1", 700, "low", "JUDGE_KEY"),
        ("writer-1", 3000, "high", "WRITER_KEY"),
    ):
        for body, key in (log := asked(openai_server, model)):
            assert (body["max_tokens"], body["reasoning_effort"]) == (limit, effort)
            assert key == KEYS[name]
        assert log
    summary = summary_of("run")
    written = "".join(path.read_text() for path in here.glob("run/**/*") if path.is_file())
    assert not any(key in written for key in KEYS.values())
    changes = [
        f"{model} takes no seed (asked without, so runs repeat less exactly)"
        for model in ("judge-1", "writer-1")
    ]
    assert summary["request_changes"] == changes
    n_sent = len(openai_server.log)
    Path("again.yaml").write_text(YAML + "resume: true\njson: true\n")
    assert command(["--config", "again.yaml"]) == 0
    assert len(openai_server.log) == n_sent
    assert summary_of("run")["request_changes"] == changes


def test_a_price_of_ones_own_bounds_a_run_of_a_model_no_table_knows(
    here: Path, openai_server: OpenAIServer, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--dimension", "relevance", "--lm", JUDGE, "--max-cost", "0.5", "--out", "run"]
    assert command(flags) == 2
    assert "give --price IN,OUT, or --max-calls" in capsys.readouterr().err
    assert not openai_server.log
    assert command([*flags, "--price", "1,10"]) == 0
    served = (openai_server.tokens_in * 1 + openai_server.tokens_out * 10) / 1e6
    assert summary_of("run")["cost_usd"] == pytest.approx(served, rel=0.01)
    assert served <= 0.5


def test_verify_asks_as_its_flags_say(here: Path, openai_server: OpenAIServer) -> None:
    request = ["--api-key-env", "JUDGE_KEY", "--max-tokens", "99", "--reasoning-effort", "low"]
    priced = ["--price", "1,10", "--max-cost", "1"]
    assert verify(["relevance", "--lm", JUDGE, *request, *priced]) == 0
    assert {
        (body["max_tokens"], body["reasoning_effort"], key)
        for body, key in asked(openai_server, "judge-1")
    } == {(99, "low", KEYS["JUDGE_KEY"])}


def settings(**values: Any) -> Settings:
    return Settings(dimension="relevance", **values)


def test_a_judges_key_goes_nowhere_that_the_judge_is_not_asked() -> None:
    key = {"api_key_env": "JUDGE_KEY"}
    same = settings(lm=JUDGE, proposer_lm=PROPOSER, api_base="http://h/v1", **key)
    assert same.proposer_key_variable == "JUDGE_KEY"
    for other in (
        {"proposer_lm": "anthropic/claude-sonnet-4-5"},
        {"proposer_lm": PROPOSER, "proposer_api_base": "http://other/v1"},
        {"proposer_lm": PROPOSER, "proposer_api_base": "default"},
    ):
        assert (
            settings(lm=JUDGE, api_base="http://h/v1", **key, **other).proposer_key_variable is None
        )
    named = settings(lm=JUDGE, proposer_api_key_env="WRITER_KEY", **key)
    assert named.proposer_key_variable == "WRITER_KEY"


def test_a_key_in_its_variables_place_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="--api-key-env names an environment variable") as error:
        settings(api_key_env=KEYS["JUDGE_KEY"])
    assert "sk-judge" not in str(error.value)


def test_a_run_folder_names_no_key_and_no_cache_but_keeps_its_users_opt_out() -> None:
    saved = settings(lm=JUDGE, api_key_env="JUDGE_KEY").to_json()
    with pytest.raises(SettingsError, match="give it again, as in --api-key-env JUDGE_KEY"):
        resolve({}, saved)
    resumed = resolve({"api_key_env": "JUDGE_KEY"}, saved)
    assert resumed.api_key_env == "JUDGE_KEY"
    assert resolve({}, settings(cache="/their/folder").to_json()).cache is None
    assert resolve({}, settings(cache="none").to_json()).cache == "none"


@pytest.mark.parametrize("text", ["1", "1,x", "-1,2", "1,2,3"])
def test_a_price_is_two_numbers(text: str) -> None:
    with pytest.raises(SettingsError, match="write IN,OUT"):
        settings(price=text)
