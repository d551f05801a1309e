"""The command compare: judges side by side, from flags to figures, standings and costs."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonl import write_jsonl
from openai_server import OpenAIServer, Serving
from rating_files import write_ratings, write_scores
from scipy import stats

from data import starter
from judges.loading import load
from judges.scoring import SamplingPlan
from optimize import compare, verify
from optimize.items import items_of, text_key
from optimize.statistics.correlations import contrast_judges

pytestmark = pytest.mark.usefixtures("here")

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def compared(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    capsys.readouterr()
    assert compare.command([*arguments, "--json"]) == code, capsys.readouterr().err
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
    assert compare.command(list(arguments)) == code
    err = capsys.readouterr().err
    assert "Traceback" not in err
    return err


HUMAN = [[1.0, 2.0, 3.0, 4.0]] * 20
GOOD = [[1.0, 2.0, 3.0, 4.0]] * 19 + [[1.0, 2.0, 4.0, 3.0]]
NEAR = [*[[1.0, 2.0, 3.0, 4.0]] * 17, *[[1.0, 2.0, 4.0, 3.0]] * 2, [1.0, 2.0, 3.0, 4.0]]
FAIR = [[1.0, 2.0, 4.0, 3.0]] * 16 + [[1.0, 2.0, 3.0, 4.0]] * 4
POOR = [[4.0, 3.0, 2.0, 1.0]] * 19 + [[1.0, 2.0, 3.0, 4.0]]


def recorded() -> list[str]:
    """Flags for three recorded judges of known order."""
    scores = scores_of(good=GOOD, fair=FAIR, poor=POOR)
    return ["--dimension", "charm", "--data", write_ratings("labels.jsonl", HUMAN), *scores]


def scores_of(**judges: Any) -> list[str]:
    """Flags for recorded judges, each in a file of its name."""
    files = (write_scores(f"{name}.jsonl", judge) for name, judge in judges.items())
    return [word for file in files for word in ("--scores", file)]


def test_every_judge_has_the_figures_that_verify_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = compared(capsys, "--dimension", "relevance", "--lm", "embedded", "relevance")
    assert verify.command(["relevance", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert [row["correlations"] for row in result["judges"]] == [alone["correlations"]] * 2
    result = compared(capsys, *recorded())
    for name in ("good", "fair", "poor"):
        flags = ["--data", "labels.jsonl", "--scores", f"{name}.jsonl", "--dimension", "charm"]
        assert verify.command([*flags, "--json"]) == 0
        alone = json.loads(capsys.readouterr().out)
        (row,) = (row for row in result["judges"] if row["name"] == name)
        assert row["correlations"] == alone["correlations"]


def test_a_difference_at_system_level_is_widened_by_the_systems_degrees_of_freedom(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rng = np.random.default_rng(0)
    quality = np.arange(16) / 8 + rng.normal(size=(40, 16))
    sides = [(quality + noise * rng.normal(size=(40, 16))).round(3) for noise in (0, 0.5, 2, 4)]
    flags = scores_of(**dict(zip("abc", (side.tolist() for side in sides[1:]), strict=True)))
    data = write_ratings("labels.jsonl", np.clip(sides[0], -4, 9).tolist())
    result = compared(capsys, "--data", data, *flags, "--level", "system")
    best, *others = (row["name"] for row in result["judges"])
    codes = np.repeat(np.arange(40), 16), np.tile(np.arange(16), 40)
    by_name = {name: side.ravel() for name, side in zip("abc", sides[1:], strict=True)}
    human = np.clip(sides[0], -4, 9).ravel()
    for name, row in zip(others, result["judges"][1:], strict=True):
        alone = contrast_judges(by_name[name], by_name[best], human, *codes, level="system")
        assert alone.interval is not None
        # Student's t of 16 systems, for each of three differences in place of one.
        wider = stats.t.ppf(0.975 ** (1 / 3), 15) / stats.t.ppf(0.975, 15)
        reach = alone.interval.high - alone.value
        assert row["difference"]["high"] - row["difference"]["value"] == pytest.approx(
            wider * reach, abs=1e-5
        )


def test_a_judge_is_as_good_within_one_standard_error_and_worse_by_its_interval_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A document with its last two outputs changed has rho 1 - 6 * 2 / (4 * 15) = .8."""
    unclear = [*GOOD[:17], *[[1.0, 2.0, 4.0, 3.0]] * 3]
    flags = [*recorded(), *scores_of(twin=GOOD, near=NEAR, unclear=unclear)]
    result = compared(capsys, *flags)
    rows = {row["name"]: row for row in result["judges"]}
    standings = {name: row["standing"] for name, row in rows.items()}
    assert list(standings) == ["good", "twin", "near", "unclear", "fair", "poor"]
    # "near" loses .2 twice and gains it once: .57 standard errors; "unclear" loses it twice: 1.45.
    assert standings == {
        "good": "best", "twin": "as good", "near": "as good", "unclear": "unclear",
        "fair": "worse", "poor": "worse",
    }  # fmt: skip
    difference = rows["near"]["difference"]
    assert difference["value"] == pytest.approx(-0.2 / 20)
    assert difference["error"] == pytest.approx(((0.2**2 * 3 / 20 - 0.01**2) / 19) ** 0.5, abs=1e-6)
    fair = rows["fair"]["difference"]
    assert fair["low"] < fair["value"] < fair["high"] < 0
    flags = scores_of(first=GOOD[:14], second=POOR[:14])
    result = compared(capsys, "--dimension", "charm", "--data", "labels.jsonl", *flags)
    assert [row["standing"] for row in result["judges"]] == ["best", "unclear"]
    assert result["judges"][1]["difference"]["low"] is None


def test_judges_are_compared_on_what_all_have(capsys: pytest.CaptureFixture[str]) -> None:
    flags = recorded()
    write_scores("short.jsonl", FAIR[:17])
    result = compared(capsys, *flags, "--scores", "short.jsonl")
    assert (result["data"]["n_outputs"], result["n_labelled"]) == (68, 80)
    assert {row["correlations"][0]["n_outputs"] for row in result["judges"]} == {68}


def test_a_judge_without_any_score_is_left_out_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = recorded()
    rows = [{"id": f"d{d}s{s}", "replies": ["no idea"]} for d in range(20) for s in range(4)]
    write_jsonl("mute.jsonl", rows)
    flags += ["--replies", "mute.jsonl", "--scale", "1-4"]
    result = compared(capsys, *flags, code=1)
    assert [row["name"] for row in result["judges"]] == ["good", "fair", "poor"]
    (left_out,) = result["left_out"]
    assert left_out["name"] == "mute"
    assert left_out["why"].startswith("none of 80 judgements has a score; 80 of them: ")


def test_rows_that_any_judge_was_tuned_on_are_set_apart_for_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    judge = load("relevance")
    items = items_of(starter(), "relevance", judge.subject)
    keys = [text_key(item.texts) for item in items.items]
    for name, tuned_on in (("some", keys[:90]), ("every", keys)):
        origin = {"tuned_on": tuned_on, "shipped": "tuned"}
        plan = SamplingPlan(kind="weighted")
        replace(judge, plan=plan, provenance=origin).save(f"{name}.json")
    result = compared(capsys, "relevance", "some.json")
    assert {row["name"]: row["n_met"] for row in result["judges"]} == {
        "relevance": 0,
        "some.json": 90,
    }
    assert result["data"]["n_outputs"] == len(items) - 90
    assert not any(row["tuned_on_these_labels"] for row in result["judges"])
    result = compared(capsys, "relevance", "every.json")
    marked = {row["name"]: row["tuned_on_these_labels"] for row in result["judges"]}
    assert marked == {"relevance": False, "every.json": True}
    assert result["data"]["n_outputs"] == len(items)


def test_pairs_are_compared_by_accuracy_in_both_orders(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--pairwise", "tldr_concise"]
    result = compared(capsys, *flags, "--lm", "embedded", "other=tldr_concise")
    assert verify.command(["tldr_concise", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    for row in result["judges"]:
        assert {key: row[key] for key in alone if key.startswith(("accuracy", "order"))} == {
            key: alone[key] for key in alone if key.startswith(("accuracy", "order"))
        }
    assert result["judges"][1]["difference"]["value"] == 0
    assert compare.command([*flags, "--lm", "embedded", "other=tldr_concise"]) == 0
    out = capsys.readouterr().out
    assert "accuracy" in out
    assert max(map(len, out.splitlines())) <= 80


def test_tables_fit_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    flags = recorded()
    long = "a judge whose name is far longer than a column"
    assert compare.command([*flags, "--scores", f"{long}=good.jsonl"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_what_cannot_be_compared_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    flags = recorded()
    assert "two judges are called good" in refused(capsys, *flags, "--scores", "good.jsonl")
    assert "name two judges or more" in refused(capsys, *flags[:4], "--scores", "good.jsonl")
    for unknown in ([], ["--dimension", "charm", "--data", "labels.jsonl"]):
        asked = refused(capsys, *unknown, "--lm", "embedded", "--lm", "openai/x")
        assert "or a JUDGE (a run folder" in asked
    relevance = ["--dimension", "relevance", "--lm", "embedded"]
    assert "is about 'fluency'" in refused(capsys, *relevance, "fluency")
    assert "is about 'tldr_concise' (pairwise)" in refused(
        capsys, "--dimension", "tldr_concise", "--lm", "embedded"
    )
    assert not Path("runs").exists()


def test_a_model_is_asked_the_first_judges_prompt_where_no_catalogue_has_the_dimension(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("charm.yaml").write_text("{name: charm, definition: X, scale: [1, 5], inputs: [text]}")
    rows = [{"id": f"{n}", "text": "Good. " * n, "charm": 1 + n % 5} for n in range(1, 20)]
    flags = ["charm.yaml", "--lm", "embedded", "--data", write_jsonl("labels.jsonl", rows)]
    judges = compared(capsys, *flags, "--dimension", "charm")["judges"]
    assert {row["name"] for row in judges} == {"charm.yaml", "embedded"}
    assert judges[0]["correlations"] == judges[1]["correlations"]


def test_a_limit_in_dollars_needs_every_price(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    unknown = ["--dimension", "relevance", "--lm", "embedded", "--lm", "openai/none-such"]
    err = refused(capsys, *unknown, "--max-cost", "1", code=1)
    assert "max_cost needs the model's price" in err
    assert not Path("runs/compare-001").exists()


MODELS = {"gpt-4.1-nano": 1.2, "gpt-4.1-mini": 0.6, "gpt-4.1": 0.2}


class SimulatedModels:
    """A simulated world's endpoint with a model for each of MODELS, which err so much."""

    def __init__(self, server: Any, worlds: Any, folder: Path) -> None:
        world = worlds.World(
            name="compared", seed=3, judge=worlds.JUDGES["nothing"], n_documents=40
        )
        judges = {
            model: worlds.SimulatedJudge(replace(world, judge=replace(world.judge, error=error)))
            for model, error in MODELS.items()
        }
        self.server, self.seen = server, Counter[str]()
        answer = server.answer

        def answer_as(body: dict[str, Any]) -> dict[str, Any]:
            server.judge = judges[body["model"]]
            self.seen[json.dumps(body, sort_keys=True)] += 1
            answered: dict[str, Any] = answer(body)
            return answered

        server.answer = answer_as
        self.labels, self.dimension = world.write(folder)

    @property
    def flags(self) -> list[str]:
        flags = ["--dimension", str(self.dimension), "--data", str(self.labels)]
        models = [word for model in MODELS for word in ("--lm", f"{model}=openai/{model}")]
        return [*flags, *models, "--concurrency", "8"]


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch, here: Path) -> Iterator[SimulatedModels]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import simulated_server
    import simulated_worlds

    judge = simulated_worlds.JUDGES
    world = simulated_worlds.World(name="compared", seed=3, judge=next(iter(judge.values())))
    with simulated_server.serve(world) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield SimulatedModels(server, simulated_worlds, here)


def test_what_each_model_takes_is_what_its_server_bills(
    models: SimulatedModels, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = compared(capsys, *models.flags, "--out", "whole")
    assert max(models.seen.values()) == 1
    assert whole["cost_usd"] == pytest.approx(models.server.dollars, abs=1e-6)
    for row in whole["judges"]:
        name = row["lm"].partition("/")[2]
        tokens = models.server.tokens_in[name], models.server.tokens_out[name]
        assert row["tokens"] == dict(zip(("in", "out"), tokens, strict=True))
        assert row["cost_per_1000_rows"] == pytest.approx(1000 / 160 * row["cost_usd"], rel=1e-4)
        assert row["seconds_per_1000_rows"] > 0


def test_the_limit_is_one_for_all_models_and_the_same_command_goes_on(
    models: SimulatedModels, capsys: pytest.CaptureFixture[str]
) -> None:
    # 160 calls cost about $0.0086, $0.034 and $0.17.
    result = compared(capsys, *models.flags, "--max-cost", "0.05", "--out", "c", code=1)
    assert {row["name"] for row in result["judges"]} == {"gpt-4.1-nano", "gpt-4.1-mini"}
    (left_out,) = result["left_out"]
    assert left_out["name"] == "gpt-4.1"
    assert "of 160 judged)" in left_out["why"]
    assert result["cost_usd"] == pytest.approx(models.server.dollars, abs=1e-6)
    assert models.server.dollars <= 0.05
    result = compared(capsys, *models.flags, "--max-cost", "0.5", "--out", "c")
    assert result["left_out"] == []
    # What an earlier start has answered takes no time in this one.
    of_both = {row["name"]: row["seconds_per_1000_rows"] for row in result["judges"]}
    assert (of_both["gpt-4.1-nano"], of_both["gpt-4.1-mini"]) == (None, None)
    assert max(models.seen.values()) == 1
    assert result["cost_usd"] == pytest.approx(models.server.dollars, abs=1e-6)


def test_what_each_model_may_take_is_said_before_anything_is_sent(
    models: SimulatedModels, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*models.flags, "--lm", "own=openai/local", "--price", "1,2", "--lm", "embedded"]
    assert compare.command([*flags, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"gpt-4.1: estimate: 160 requests, about [\d,]+ tokens in and 640 out", out)
    # The price given is of the model that no table knows.
    assert re.search(r"own: estimate: 160 requests, .*about \$0\.0", out)
    assert "all together: estimate: 640 requests" in out
    assert not models.seen
    assert not Path("runs").exists()


def test_a_model_that_fails_is_listed_and_the_others_are_compared(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    with Serving(OpenAIServer(models=("judge-1",))) as server:
        flags = ["--dimension", "relevance", "--lm", "embedded"]
        flags += ["--lm", "openai/judge-1", "--lm", "openai/nobody"]
        flags += ["--api-base", server.url, "--max-calls", "5000"]
        result = compared(capsys, *flags, code=1)
        assert {row["name"] for row in result["judges"]} == {"embedded", "openai/judge-1"}
        (left_out,) = result["left_out"]
        assert left_out["name"] == "openai/nobody"
        assert "nobody" in left_out["why"]
        assert result["cost_usd"] is None


def test_metrics_of_one_tools_results_are_compared_by_their_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [
        {"id": f"d{d}s{s}", "user_input": f"Text {d}.", "response": f"Summary {s} of {d}."}
        | {"good": score, "poor": -score}
        for d, row in enumerate(GOOD)
        for s, score in enumerate(row)
    ]
    flags = ["--dimension", "charm", "--data", write_ratings("labels.jsonl", HUMAN)]
    file = write_jsonl("ragas.jsonl", rows)
    result = compared(capsys, *flags, "--scores", f"good={file}", "--scores", f"poor={file}")
    assert [row["name"] for row in result["judges"]] == ["good", "poor"]
    assert "as in --scores METRIC=FILE" in refused(
        capsys, *flags, "--scores", file, "--scores", f"good={file}", code=1
    )
