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

from judges.loading import load
from judges.protocol import Completion, Message, Reply, Sampling
from judges.scoring import SamplingPlan
from optimize.cli.tune import command
from optimize.items import Item, Items
from optimize.run.run_budget import PlanCost
from optimize.run.sampling_plans import cheapest_near_best
from optimize.run.settings import Settings, SettingsError

ONE, WEIGHTED = SamplingPlan(kind="one"), SamplingPlan(kind="weighted")
FIVE = SamplingPlan(kind="mean", samples=5, temperature=1.0)
TOLLS = [
    PlanCost(plan=ONE, calls=1, replies=1, cost=1.0),
    PlanCost(plan=WEIGHTED, calls=1, replies=1, cost=1.0),
    PlanCost(plan=FIVE, calls=5, replies=5, cost=5.0),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def read(path: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


# Ten documents of four outputs in order; by rank, a permutation of four has one of these rhos.
ORDERS = {1.0: (1, 2, 3, 4), 0.8: (1, 2, 4, 3), 0.4: (1, 3, 4, 2), 0.0: (2, 4, 1, 3)}
FOUR = Items(
    tuple(
        Item(id=f"{d}-{s}", document_id=f"d{d}", system=None, texts={}, human=float(s))
        for d in range(10)
        for s in range(4)
    )
)


def chosen(**rhos: Sequence[float]) -> SamplingPlan:
    """The plan chosen where these have such a rho on the ten documents, and others reversed."""
    scores = {plan: np.tile([4.0, 3, 2, 1], 10) for plan in (ONE, WEIGHTED, FIVE)}
    for kind, values in rhos.items():
        plan = {"one": ONE, "weighted": WEIGHTED, "mean": FIVE}[kind]
        scores[plan] = np.array([x for value in values for x in ORDERS[value]], float)
    return cheapest_near_best(TOLLS, scores, FOUR, "summary")


def test_the_cheapest_within_a_standard_error_of_the_best_is_chosen() -> None:
    # Better by .2 on every second document: mean .1, standard error .2 * sqrt(2.5 / 90) = .033.
    assert chosen(one=[0.8] * 10, mean=[1.0, 0.8] * 5) == FIVE
    # Better by .2 on three, worse by .4 on one: mean .02, standard error .055; it may be chance.
    assert chosen(one=[0.8] * 10, mean=[1.0] * 3 + [0.4] + [0.8] * 6) == ONE
    # At one cost the higher rho is taken, however small the difference.
    assert chosen(one=[0.8] * 10, weighted=[1.0] + [0.8] * 9) == WEIGHTED


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
    plans = {plan["plan"]: plan for plan in summary["plans"]}
    assert set(plans) == {"one reply", "weighted", "mean of 5", "mean of 20"}
    assert summary["lm_calls"] <= 1500
    (best,) = [plan for plan in plans.values() if plan["chosen"]]
    frozen = load(here / "run").plan
    assert frozen is not None
    assert (frozen.samples, frozen.temperature) == (best["samples"], best["temperature"])
    for plan in plans.values():
        assert plan["rho"]["n_documents"] >= 6
        assert plan["rho"]["level"] == "summary"
        assert plan["cost"] >= 1
    # The embedded model answers twenty times at one call, and the reply is short beside the prompt.
    assert plans["mean of 20"]["calls"] == 1
    assert plans["mean of 20"]["replies"] == 20
    assert 1 < plans["mean of 5"]["cost"] < plans["mean of 20"]["cost"] < 20
    lines = (here / "run" / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    trials = [json.loads(line) for line in lines]
    assert [trial["plan"] for trial in trials if trial["stage"] == "plan"] == [*plans]
    assert [trial["trial"] for trial in trials] == list(range(1, len(trials) + 1))
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
    monkeypatch.setattr("judges.inference.session.open_model", lambda lm, api_base=None: model)
    told = [*what, "--lm", "openai/wordy", "--max-calls", "6000", "--plan", "auto", "--out", "run"]
    assert command([*told, "--optimizer", "rank"]) == 0
    assert "no log-probabilities" in capsys.readouterr().out
    summary = read(here / "run" / "summary.json")
    plans = {plan["plan"]: plan for plan in summary["plans"]}
    assert plans["weighted"]["rho"] is None
    assert plans["weighted"]["left_out"] == "the model gives no log-probabilities"
    assert plans["one reply"]["rho"] is not None
    orders = 2 if "--pairwise" in what else 1
    assert plans["mean of 5"]["calls"] == plans["mean of 5"]["replies"] == 5 * orders
    assert len(model.asked) <= 6000


def test_what_the_budget_cannot_ship_is_left_out_and_said(here: Path) -> None:
    # 8 test documents of 7 systems and 2 unseen ones are some 70 outputs: both judges at 20 replies
    # each would take 2,800 calls of 4,600, which is more than half.
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("judges.inference.session.open_model", lambda lm, api_base=None: Wordy())
        told = ["--dimension", "relevance", "--lm", "openai/wordy", "--max-calls", "4600"]
        assert command([*told, "--plan", "auto", "--out", "run"]) == 0
    plans = {plan["plan"]: plan for plan in read(here / "run" / "summary.json")["plans"]}
    assert "half of the budget" in plans["mean of 20"]["left_out"]
    assert sum(plan["chosen"] for plan in plans.values()) == 1


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
    told = ["--dimension", "relevance", "--lm", "openai/judge-1", "--max-calls", "900"]
    assert command([*told, "--plan", "auto", "--out", "run"]) == 0
    plans = {plan["plan"]: plan for plan in read(here / "run" / "summary.json")["plans"]}
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
