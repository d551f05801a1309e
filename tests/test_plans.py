"""--plan auto: what is tried, what is chosen and why, and what it may cost."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai_replies import Body, error
from openai_server import OpenAIServer
from scripted_model import Scripted

from judges import models
from judges.loading import load
from judges.models.protocol import Completion, Message, Reply, Sampling
from judges.sampling import SamplingPlan
from optimize.commands.tune import command
from optimize.run.plans import cheapest_near_best
from optimize.run.settings import Settings, SettingsError
from optimize.search.allowance import Toll

ONE, WEIGHTED = SamplingPlan(kind="one"), SamplingPlan(kind="weighted")
FIVE = SamplingPlan(kind="mean", samples=5, temperature=1.0)
TOLLS = [
    Toll(plan=ONE, calls=1, replies=1, cost=1.0),
    Toll(plan=WEIGHTED, calls=1, replies=1, cost=1.0),
    Toll(plan=FIVE, calls=5, replies=5, cost=5.0),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def chosen(**differences: Sequence[float]) -> SamplingPlan:
    """The plan chosen where "one" has rho 0 on each of four documents, and others this much."""
    terms = {ONE: np.zeros(4), WEIGHTED: np.full(4, -0.5), FIVE: np.full(4, -0.5)}
    for kind, values in differences.items():
        terms[{"weighted": WEIGHTED, "mean": FIVE}[kind]] = np.array(values)
    return cheapest_near_best(TOLLS, terms)


def test_the_cheapest_within_a_standard_error_of_the_best_is_chosen() -> None:
    # Mean .2; standard error sqrt((.04 + 0 + 0 + .04) / 3 / 4) = .0816: the best is clearly better.
    assert chosen(mean=(0.0, 0.2, 0.2, 0.4)) == FIVE
    # Mean .2; standard error sqrt(4 * .36 / 3 / 4) = .346: it may be chance, and costs five.
    assert chosen(mean=(-0.4, 0.8, -0.4, 0.8)) == ONE
    # At one cost the higher rho is taken, however small the difference.
    assert chosen(weighted=(0.01, -0.01, 0.01, 0.0)) == WEIGHTED


def test_a_document_without_a_rho_is_left_out_of_the_comparison() -> None:
    assert chosen(mean=(0.2, 0.2, float("nan"), 0.25)) == FIVE


def test_the_embedded_model_is_tried_under_every_plan(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = ["--dimension", "relevance", "--max-calls", "1500", "--plan", "auto", "--out", "run"]
    assert command(told) == 0
    out, err = capsys.readouterr()
    assert max(map(len, out.splitlines())) <= 80
    assert "plan (on dev)" in out
    assert "plan: " in err
    summary = read(here / "run" / "summary.json")
    plans = {one["plan"]: one for one in summary["plans"]}
    assert set(plans) == {"one reply", "weighted", "mean of 5", "mean of 20"}
    assert summary["lm_calls"] <= 1500
    (best,) = [one for one in plans.values() if one["chosen"]]
    frozen = load(here / "run").plan
    assert frozen is not None
    assert (frozen.samples, frozen.temperature) == (best["samples"], best["temperature"])
    for one in plans.values():
        assert one["rho"]["n_documents"] >= 6
        assert one["rho"]["level"] == "summary"
        assert one["cost"] >= 1
    # The embedded model answers twenty times at one call, and the reply is short beside the prompt.
    assert plans["mean of 20"]["calls"] == 1
    assert plans["mean of 20"]["replies"] == 20
    assert 1 < plans["mean of 5"]["cost"] < plans["mean of 20"]["cost"] < 20
    lines = (here / "run" / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    trials = [json.loads(line) for line in lines]
    assert [one["plan"] for one in trials if one["stage"] == "plan"] == [*plans]
    assert [one["trial"] for one in trials] == list(range(1, len(trials) + 1))
    # What is on test is what ships: both judges under the chosen plan.
    calls = summary["lm_calls"]
    assert command(["--resume", "--out", "run"]) == 0
    assert read(here / "run" / "summary.json") | {"seconds": 0} == summary | {"seconds": 0}
    assert calls == read(here / "run" / "summary.json")["lm_calls"]


class Wordy(Scripted):
    """One request, one reply; the rating is the text's length with noise that samples average."""

    native_n = False

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        rng = np.random.default_rng([sampling.seed, *messages[-1]["content"].encode()[-40:]])
        if "preferred" in messages[-1]["content"]:
            said = f"[[ ## comparison ## ]]\nSo.\n\n[[ ## preferred ## ]]\n{rng.choice(['A', 'B'])}"
        elif "instruction" in messages[0]["content"][:60]:
            said = "[[ ## instruction ## ]]\nRate it."
        else:
            length = len(messages[-1]["content"])
            heat = 0.0 if sampling.temperature == 0 else 1.0
            said = str(int(np.clip(round(length / 800 + heat * rng.normal()), 1, 5)))
        self.asked.append(said)
        replies = (Reply(text=said),) * sampling.n
        return Completion(replies=replies, tokens_in=9, tokens_out=1, model=self.name)


@pytest.mark.parametrize("what", [["--dimension", "relevance"], ["--pairwise", "tldr_concise"]])
def test_without_log_probabilities_weighting_is_left_out_and_the_budget_kept(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: list[str],
) -> None:
    model = Wordy()
    monkeypatch.setattr(models, "open_model", lambda *_, **__: model)
    told = [*what, "--lm", "openai/wordy", "--max-calls", "6000", "--plan", "auto", "--out", "run"]
    assert command([*told, "--optimizer", "rank"]) == 0
    assert "no log-probabilities" in capsys.readouterr().out
    summary = read(here / "run" / "summary.json")
    plans = {one["plan"]: one for one in summary["plans"]}
    assert plans["weighted"]["rho"] is None
    assert plans["weighted"]["left_out"] == "the model gives no log-probabilities"
    assert plans["one reply"]["rho"] is not None
    orders = 2 if "--pairwise" in what else 1
    assert plans["mean of 5"]["calls"] == plans["mean of 5"]["replies"] == 5 * orders
    assert len(model.asked) <= 6000


def test_what_the_budget_cannot_ship_is_left_out_and_said(here: Path) -> None:
    # 8 test documents of 7 systems and 2 unseen ones are some 70 outputs: both judges at 20 replies
    # each would take 2,800 calls of 2,000.
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(models, "open_model", lambda *_, **__: Wordy())
        told = ["--dimension", "relevance", "--lm", "openai/wordy", "--max-calls", "2000"]
        assert command([*told, "--plan", "auto", "--out", "run"]) == 0
    plans = {one["plan"]: one for one in read(here / "run" / "summary.json")["plans"]}
    assert "half of the budget" in plans["mean of 20"]["left_out"]
    assert sum(one["chosen"] for one in plans.values()) == 1


@pytest.mark.parametrize(
    ("refused", "message", "left_out"),
    [
        ("logprobs", "logprobs is not supported by this model", "the model does not take it (400 "),
        ("n", "Invalid value for 'n': only 1 is allowed", "the endpoint gives one reply a request"),
    ],
)
def test_a_plan_that_the_endpoint_refuses_is_passed_over_and_said(
    here: Path,
    openai_server: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    refused: str,
    message: str,
    left_out: str,
) -> None:
    def refuse(request: object, body: Body) -> Any:
        return error(400, message, "invalid_request_error") if refused in body else None

    monkeypatch.setattr(openai_server, "_refusal", refuse)
    told = ["--dimension", "relevance", "--lm", "openai/judge-1", "--max-calls", "600"]
    assert command([*told, "--plan", "auto", "--out", "run"]) == 0
    plans = {one["plan"]: one for one in read(here / "run" / "summary.json")["plans"]}
    without = {"logprobs": ["weighted"], "n": ["mean of 5", "mean of 20"]}[refused]
    assert [name for name, one in plans.items() if one["rho"] is None] == without
    assert all(left_out in plans[name]["left_out"] for name in without)
    assert "left out: " + left_out[:20] in capsys.readouterr().out
    assert len(openai_server.log) <= 600


def test_a_plan_that_is_told_is_followed_and_no_other_is_tried(here: Path) -> None:
    told = ["--dimension", "relevance", "--max-calls", "400", "--out", "run"]
    assert command([*told, "--plan", "mean", "--samples", "3"]) == 0
    assert "plans" not in read(here / "run" / "summary.json")
    assert load(here / "run").plan == SamplingPlan(kind="mean", samples=3, temperature=1.0)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        ({"plan": "mean"}, "needs --samples"),
        ({"plan": "one", "samples": 3}, "drop --samples"),
        ({"plan": "auto", "weighted": True}, "two plans"),
        ({"plan": "best"}, "choose from auto, one, mean, weighted"),
    ],
)
def test_two_plans_at_once_are_refused(told: dict[str, Any], wrong: str) -> None:
    with pytest.raises(SettingsError, match=wrong):
        Settings(dimension="relevance", **told)
