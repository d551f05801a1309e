"""The command compare: judges side by side, from flags to figures, standings and costs."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import json_of, run
from files import write_jsonl
from openai_replies import Body, follow, usage
from openai_server import OpenAIServer
from rating_files import rating_flags, score_flags, weather_rows, write_ratings
from scipy import stats

from data import starter
from judges.client.prices import find_price
from judges.loading import load
from judges.protocol import Usage
from judges.scoring import SamplingPlan
from optimize import compare, panel, verify
from optimize.items import make_items, texts_digest
from optimize.statistics.contrasts import contrast_judges

pytestmark = pytest.mark.usefixtures("here")


def compare_json(*arguments: str, code: int = 0) -> Any:
    return json_of(compare.command, *arguments, code=code)


HUMAN = [[1.0, 2.0, 3.0, 4.0]] * 20
GOOD = [[1.0, 2.0, 3.0, 4.0]] * 19 + [[1.0, 2.0, 4.0, 3.0]]
NEAR = [*[[1.0, 2.0, 3.0, 4.0]] * 17, *[[1.0, 2.0, 4.0, 3.0]] * 2, [1.0, 2.0, 3.0, 4.0]]
FAIR = [[1.0, 2.0, 4.0, 3.0]] * 16 + [[1.0, 2.0, 3.0, 4.0]] * 4
POOR = [[4.0, 3.0, 2.0, 1.0]] * 19 + [[1.0, 2.0, 3.0, 4.0]]


def records() -> list[str]:
    """Flags for three recorded judges of known order."""
    return rating_flags(HUMAN, good=GOOD, fair=FAIR, poor=POOR)


def test_system_level_differences_use_students_t():
    rng = np.random.default_rng(0)
    quality = np.arange(16) / 8 + rng.normal(size=(40, 16))
    human, *sides = [quality + noise * rng.normal(size=(40, 16)) for noise in (0, 0.5, 2, 4)]
    human, by_name = np.clip(human, -4, 9), dict(zip("abc", sides, strict=True))
    flags = score_flags(**{name: side.tolist() for name, side in by_name.items()})
    data = write_ratings("labels.jsonl", human.tolist())
    best, *others = compare_json("--data", data, *flags, "--level", "system")["judges"]
    codes = np.repeat(np.arange(40), 16), np.tile(np.arange(16), 40)
    for row in others:
        vectors = (side.ravel() for side in (by_name[row["name"]], by_name[best["name"]], human))
        alone = contrast_judges(*vectors, *codes, level="system")
        # Student's t of 16 systems, for each of three differences in place of one.
        wider = stats.t.ppf(0.975 ** (1 / 3), 15) / stats.t.ppf(0.975, 15)
        reach = row["difference"]["high"] - row["difference"]["value"]
        assert reach == pytest.approx(wider * (alone.interval.high - alone.value), abs=1e-5)


def test_standings_follow_from_error_and_interval():
    """A document with its last two outputs changed has rho 1 - 6 * 2 / (4 * 15) = .8."""
    unclear = [*GOOD[:17], *[[1.0, 2.0, 4.0, 3.0]] * 3]
    result = compare_json(*records(), *score_flags(twin=GOOD, near=NEAR, unclear=unclear))
    rows = {row["name"]: row for row in result["judges"]}
    # "near" loses .2 twice and gains it once: .57 standard errors; "unclear" loses it twice: 1.45.
    assert [(name, row["standing"]) for name, row in rows.items()] == [
        *(("good", "best"), ("twin", "as good"), ("near", "as good"), ("unclear", "unclear")),
        *(("fair", "worse"), ("poor", "worse")),
    ]
    difference = rows["near"]["difference"]
    assert difference["value"] == pytest.approx(-0.2 / 20)
    assert difference["error"] == pytest.approx(((0.2**2 * 3 / 20 - 0.01**2) / 19) ** 0.5, abs=1e-6)
    fair = rows["fair"]["difference"]
    assert fair["low"] < fair["value"] < fair["high"] < 0
    flags = score_flags(first=GOOD[:14], second=POOR[:14])
    result = compare_json("--dimension", "charm", "--data", "labels.jsonl", *flags)
    assert [row["standing"] for row in result["judges"]] == ["best", "unclear"]
    assert result["judges"][1]["difference"]["low"] is None


def test_judges_are_compared_on_outputs_that_all_have_scored():
    result = compare_json(*records(), *score_flags(short=FAIR[:17]))
    assert (result["data"]["n_outputs"], result["n_labelled"]) == (68, 80)
    assert {row["correlations"][0]["n_outputs"] for row in result["judges"]} == {68}


def test_a_judge_without_any_score_is_left_out_with_the_reason():
    rows = [{"id": f"d{d}s{s}", "replies": ["no idea"]} for d in range(20) for s in range(4)]
    mute = ["--replies", write_jsonl("mute.jsonl", rows), "--scale", "1-4"]
    result = compare_json(*records(), *mute, code=1)
    assert [row["name"] for row in result["judges"]] == ["good", "fair", "poor"]
    (left_out,) = result["left_out"]
    assert left_out["name"] == "mute"
    assert left_out["why"].startswith("none of 80 judgements has a score; 80 of them: ")
    # The only judge that is left is not called the best one.
    alone = run(compare.command, *records()[:6], *mute)
    assert alone.out.startswith(
        "charm: 1 judge Only good was measured, so there is nothing to compare it with. "
    )
    assert "best" not in alone.out.replace("less the best", "")


def test_rows_that_any_judge_was_tuned_on_are_left_out():
    judge = replace(load("relevance"), plan=SamplingPlan(kind="weighted"))
    items = make_items(starter(), "relevance", judge.subject)
    keys = [texts_digest(item.texts) for item in items]
    for name, tuned_on in (("some", keys[:90]), ("every", keys)):
        origin = {"tuned_on": tuned_on, "shipped": "tuned"}
        replace(judge, provenance=origin).save(f"{name}.json")
    result = compare_json("relevance", "some.json")
    n_met = {row["name"]: row["n_met"] for row in result["judges"]}
    assert n_met == {"relevance": 0, "some.json": 90}
    assert result["data"]["n_outputs"] == len(items) - 90
    assert not any(row["tuned_on_these_labels"] for row in result["judges"])
    result = compare_json("relevance", "every.json")
    marks = {row["name"]: row["tuned_on_these_labels"] for row in result["judges"]}
    assert marks == {"relevance": False, "every.json": True}
    assert result["data"]["n_outputs"] == len(items)


def test_a_bare_model_gets_the_first_judges_prompt():
    Path("charm.yaml").write_text("{name: charm, definition: X, scale: [1, 5], inputs: [text]}")
    rows = [{"id": f"{n}", "text": "Good. " * n, "charm": 1 + n % 5} for n in range(1, 20)]
    flags = ["charm.yaml", "--lm", "embedded", "--data", write_jsonl("labels.jsonl", rows)]
    judges = compare_json(*flags, "--dimension", "charm")["judges"]
    assert {row["name"] for row in judges} == {"charm.yaml", "embedded"}
    assert judges[0]["correlations"] == judges[1]["correlations"]


MODELS = ("gpt-4.1-nano", "gpt-4.1-mini", "gpt-4.1")


class Bill:
    """Flags for three models at the local server on 80 outputs, and what it bills for each."""

    def __init__(self, server: OpenAIServer) -> None:
        self.tokens = {model: Counter[str]() for model in MODELS}
        server.models, server.judge = MODELS, self.judge
        data = write_jsonl("labels.jsonl", weather_rows(20, 4))
        models = [word for model in MODELS for word in ("--lm", f"{model}=openai/{model}")]
        self.flags = ["--dimension", "relevance", "--data", data, *models]

    def judge(self, body: Body) -> str:
        counts_of = usage(body, [text := follow(body)])
        counts = {"in": counts_of["prompt_tokens"], "out": counts_of["completion_tokens"]}
        self.tokens[body["model"]].update(counts)
        return text

    @property
    def dollars(self) -> float:
        tokens = [(find_price(f"openai/{model}"), n) for model, n in self.tokens.items()]
        return sum(price.cost_of(Usage(n["in"], n["out"])) for price, n in tokens)


@pytest.fixture
def bill(openai_server: OpenAIServer) -> Bill:
    return Bill(openai_server)


def test_verify_and_panel_say_what_they_spent(bill):
    judges = ["relevance@openai/gpt-4.1-mini", "relevance@openai/gpt-4.1-nano"]
    for command, names in ((verify.command, judges[:1]), (panel.command, judges)):
        spent = bill.dollars
        result = run(command, *names, *bill.flags[:4], "--json")
        line = f"cost: ${bill.dollars - spent:,.4f} for {80 * len(names)} calls"
        assert (result.code, line in result.stderr.splitlines()) == (0, True), result.stderr


def test_all_models_share_one_limit(bill: Bill, openai_server: OpenAIServer) -> None:
    # 80 calls cost about $0.0016, $0.0065 and $0.032.
    result = compare_json(*bill.flags, "--max-cost", "0.02", "--out", "c", code=1)
    assert {row["name"] for row in result["judges"]} == {"gpt-4.1-nano", "gpt-4.1-mini"}
    (left_out,) = result["left_out"]
    assert (left_out["name"], "of 80 judged)" in left_out["why"]) == ("gpt-4.1", True)
    assert result["cost_usd"] == pytest.approx(bill.dollars, abs=1e-6)
    assert bill.dollars <= 0.02
    result = compare_json(*bill.flags, "--max-cost", "0.5", "--out", "c")
    assert result["left_out"] == []
    # What an earlier start has answered takes no time in this one.
    of_both = {row["name"]: row["seconds_per_1000_rows"] for row in result["judges"]}
    assert (of_both["gpt-4.1-nano"], of_both["gpt-4.1-mini"]) == (None, None)
    assert [*openai_server.n_answered.values()] == [1] * 240
    assert result["cost_usd"] == pytest.approx(bill.dollars, abs=1e-6)
    for row in result["judges"]:
        assert row["tokens"] == bill.tokens[row["name"]]
        assert row["cost_per_1000_rows"] == pytest.approx(1000 / 80 * row["cost_usd"], rel=1e-4)


def test_a_dry_run_estimates_each_models_requests_and_sends_none(bill, openai_server):
    flags = [*bill.flags, "--lm", "own=openai/local", "--price", "1,2", "--lm", "embedded"]
    out = run(compare.command, *flags, "--dry-run").stdout
    assert re.search(r"gpt-4.1: estimate: 80 requests, about [\d,]+ tokens in and 320 out", out)
    # The price given is of the model that no table knows.
    assert re.search(r"own: estimate: 80 requests, .*about \$0\.0", out)
    assert "all together: estimate: 320 requests" in out
    assert (openai_server.log, Path("runs").exists()) == ([], False)
