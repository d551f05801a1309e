"""optimize.compare: judges side by side, from flags to tables and a page."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openai_server import OpenAIServer, Serving
from optimize.measuring.comparison import pareto_front

from data import starter
from judges.loading import load
from judges.scoring import SamplingPlan
from optimize import compare, verify
from optimize.statistics.accuracy import contrast_accuracy, pair_accuracy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines(path: str, rows: list[dict[str, Any]]) -> str:
    Path(path).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def charm(human: list[list[float]]) -> str:
    """Labels on a dimension that no catalogue has."""
    return lines(
        "labels.jsonl",
        [
            {"id": f"d{d}s{s}", "group": f"d{d}", "system": f"s{s}", "ratings": {"charm": rating}}
            for d, ratings in enumerate(human)
            for s, rating in enumerate(ratings)
        ],
    )


def scores(name: str, judge: list[list[float]]) -> str:
    rows = [
        {"id": f"d{d}s{s}", "dimension": "charm", "score": score}
        for d, row in enumerate(judge)
        for s, score in enumerate(row)
    ]
    return lines(f"{name}.jsonl", rows)


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


HUMAN = [[1.0, 2.0, 3.0, 4.0]] * 12
GOOD = [[1.0, 2.0, 3.0, 4.0]] * 11 + [[1.0, 2.0, 4.0, 3.0]]
FAIR = [[1.0, 2.0, 4.0, 3.0]] * 10 + [[1.0, 2.0, 3.0, 4.0]] * 2
POOR = [[4.0, 3.0, 2.0, 1.0]] * 11 + [[1.0, 2.0, 3.0, 4.0]]


def recorded() -> list[str]:
    """Flags for three recorded judges of known order."""
    files = {"good": GOOD, "fair": FAIR, "poor": POOR}
    flags = [word for name, judge in files.items() for word in ("--scores", scores(name, judge))]
    return ["--dimension", "charm", "--data", charm(HUMAN), *flags]


def test_every_judge_has_the_figures_that_verify_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    starter = ["--dimension", "relevance", "--lm", "embedded", "relevance@embedded-1"]
    result = compared(capsys, *starter)
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


def test_the_best_comes_first_and_what_is_clearly_worse_is_told_from_what_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scores("twin", GOOD)
    result = compared(capsys, *recorded(), "--scores", "twin.jsonl")
    standing = {row["name"]: row["standing"] for row in result["judges"]}
    assert list(standing) == ["good", "twin", "fair", "poor"]
    assert standing == {"good": "best", "twin": "unclear", "fair": "worse", "poor": "worse"}
    # 1 - 6 * 2 / (4 * 15) = .8 where the last two change places, on 10 of 12 documents and on 1.
    fair = result["judges"][2]
    assert fair["difference"]["value"] == pytest.approx((1 - 10) * 0.2 / 12)
    assert fair["difference"]["low"] < fair["difference"]["value"] < fair["difference"]["high"] < 0


def test_judges_are_compared_on_what_all_have_and_their_own_figures_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = recorded()
    scores("short", FAIR[:9])
    result = compared(capsys, *flags, "--scores", "short.jsonl")
    assert (result["data"]["n_outputs"], result["n_labelled"]) == (36, 48)
    assert {row["correlations"][0]["n_outputs"] for row in result["judges"]} == {36}
    alone = compared(capsys, *flags)
    for row in result["judges"]:
        own = {r["name"]: r["correlations"][0] for r in alone["judges"]}
        assert row.get("on_all") == own.get(row["name"])
    assert compare.command([*flags, "--scores", "short.jsonl"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "every figure is on the 36 of 48 labelled outputs that all judges have" in text


def test_a_judge_without_any_score_is_left_out_with_the_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flags = recorded()
    rows = [{"id": f"d{d}s{s}", "replies": ["no idea"]} for d in range(12) for s in range(4)]
    lines("mute.jsonl", rows)
    flags += ["--replies", "mute.jsonl", "--scale", "1-4"]
    result = compared(capsys, *flags, code=1)
    assert [row["name"] for row in result["judges"]] == ["good", "fair", "poor"]
    (left_out,) = result["left_out"]
    assert left_out["name"] == "mute"
    assert left_out["why"].startswith("none of 48 judgements has a score; 48 of them: ")


def test_the_difference_of_accuracies_is_that_of_the_two_on_pairs_both_judged() -> None:
    rng = np.random.default_rng(0)
    human, a, b = rng.integers(-1, 2, (3, 200)).astype(float)
    document = rng.integers(0, 30, 200)
    a[:10] = np.nan
    both = ~np.isnan(a)
    difference = contrast_accuracy(a, b, human, document)
    values = [pair_accuracy(side[both], human[both], document[both]).value for side in (a, b)]
    assert difference.value == pytest.approx(values[0] - values[1])
    assert contrast_accuracy(b, a, human, document).value == pytest.approx(-difference.value)


def test_each_prompt_of_a_file_of_replies_is_a_judge_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = dict(enumerate("ABCD"))
    rows = [
        {"id": f"d{d}s{s}", "prompt": prompt, "replies": [words[s if prompt == "up" else 3 - s]]}
        for d in range(12)
        for s in range(4)
        for prompt in ("up", "down")
    ]
    flags = ["--dimension", "charm", "--data", charm(HUMAN), "--scale", "1-4"]
    flags += ["--replies", f"r={lines('r.jsonl', rows)}", "--values", "A=1,B=2,C=3,D=4"]
    result = compared(capsys, *flags)
    values = {row["name"]: row["correlations"][0]["value"] for row in result["judges"]}
    assert values == {"r:up": pytest.approx(1), "r:down": pytest.approx(-1)}


def test_a_judge_that_was_tuned_on_the_very_labels_is_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    judge = load("relevance")
    for name, sha256, shipped in (
        ("same", starter().sha256, "tuned"),
        ("seed", starter().sha256, "seed"),
        ("other", "0" * 64, "tuned"),
    ):
        origin = {"data": {"name": "starter", "sha256": sha256}, "shipped": shipped}
        frozen = replace(judge, plan=SamplingPlan(kind="weighted"), provenance=origin)
        frozen.save(f"{name}.json")
    flags = ["--dimension", "relevance", "same.json", "seed.json", "other.json"]
    result = compared(capsys, *flags)
    marked = {row["name"]: row["tuned_on_these_labels"] for row in result["judges"]}
    assert marked == {"same.json": True, "seed.json": False, "other.json": False}


def test_the_front_holds_what_nothing_beats() -> None:
    points = {"free": (0.0, 0.3), "cheap": (1.0, 0.5), "dear": (9.0, 0.6), "worse": (2.0, 0.5)}
    assert pareto_front(points) == {"free", "cheap", "dear"}
    assert pareto_front({"a": (1.0, 0.5), "b": (1.0, 0.5)}) == {"a", "b"}


def test_pairs_are_compared_by_accuracy_in_both_orders(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--pairwise", "tldr_concise"]
    result = compared(capsys, *flags, "--lm", "embedded", "tldr_salience=tldr_concise")
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


def test_tables_and_help_fit_eighty_columns(capsys: pytest.CaptureFixture[str]) -> None:
    flags = recorded()
    long = "a judge whose name is far longer than a column"
    assert compare.command([*flags, "--scores", f"{long}=good.jsonl"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    with pytest.raises(SystemExit):
        compare.command(["--help"])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_what_cannot_be_compared_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    flags = recorded()
    assert "two judges are called good" in refused(capsys, *flags, "--scores", "good.jsonl")
    assert "name two judges or more" in refused(capsys, *flags[:4], "--scores", "good.jsonl")
    assert "--dimension NAME" in refused(capsys, "--lm", "embedded", "--lm", "openai/x")
    relevance = ["--dimension", "relevance", "--lm", "embedded"]
    assert "is about 'fluency'" in refused(capsys, *relevance, "fluency")
    assert "say --pairwise" in refused(capsys, "--dimension", "tldr_concise", "--lm", "embedded")
    unknown = [*relevance, "--lm", "mine=openai/none-such", "--max-cost", "1"]
    assert "the price of openai/none-such is not known; give --price mine=IN,OUT" in refused(
        capsys, *unknown
    )
    twice = [*relevance, "--lm", "a=openai/x", "--price", "a=1,2", "--price", "a=1,3"]
    assert "--price of a is given twice" in refused(capsys, *twice)
    typo = [*relevance, "--lm", "a=openai/x", "--price", "b=1,2"]
    assert "--price b=...: no such judge; there are embedded, a" in refused(capsys, *typo)
    assert not Path("runs").exists()


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
        models = [word for model in MODELS for word in ("--lm", f"openai/{model}")]
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
        assert row["latency_seconds"] > 0


def test_the_limit_is_one_for_all_models_and_what_it_ends_is_left_out(
    models: SimulatedModels, capsys: pytest.CaptureFixture[str]
) -> None:
    # 160 calls cost about $0.0086, $0.034 and $0.17.
    result = compared(capsys, *models.flags, "--max-cost", "0.05", "--out", "c", code=1)
    assert {row["name"] for row in result["judges"]} == {
        "openai/gpt-4.1-nano",
        "openai/gpt-4.1-mini",
    }
    (left_out,) = result["left_out"]
    assert left_out["name"] == "openai/gpt-4.1"
    assert left_out["why"].startswith("not begun: about $0.1")
    assert left_out["why"].endswith("(0 of 160 judged)")
    assert result["cost_usd"] == pytest.approx(models.server.dollars, abs=1e-6)
    assert models.server.dollars <= 0.05
    result = compared(capsys, *models.flags, "--max-cost", "0.5", "--out", "c")
    assert result["left_out"] == []
    assert max(models.seen.values()) == 1
    assert result["cost_usd"] == pytest.approx(models.server.dollars, abs=1e-6)


def test_what_each_model_may_take_is_said_before_anything_is_sent(
    models: SimulatedModels, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = [*models.flags, "--lm", "own=openai/local", "--price", "own=1,2", "--lm", "embedded"]
    assert compare.command([*flags, "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert re.search(
        r"openai/gpt-4.1: 160 calls, about [\d,]+ tokens in and 640 out, about \$0", out
    )
    assert re.search(r"own: 160 calls, .* about \$0\.0", out)
    assert "embedded: 160 rows here, free" in out
    assert "expected in all: about $0." in out
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
        # Nothing that was measured is on the front without a price.
        fronts = {row["name"]: row["on_front"] for row in result["judges"]}
        assert fronts == {"embedded": True, "openai/judge-1": None}
        assert result["cost_usd"] is None
