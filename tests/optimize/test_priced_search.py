"""The search where calls cost money, in simulated worlds whose truth and bill are known."""

import json
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from optimize.run.pipeline import estimate
from simulated_model import SimulatedModel, tuned

from optimize.run.labels import prepare
from optimize.run.settings import Settings

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
WORLD, LIMITS = "reasoning helps", (0.5, 2.0)

Trials = list[Mapping[str, Any]]


@pytest.fixture(scope="module")
def simulated() -> Iterator[Any]:
    """The benchmark's module, imported as its command does."""
    sys.path.insert(0, str(BENCHMARKS))
    import simulated as module

    yield module
    sys.path.remove(str(BENCHMARKS))
    for name in [name for name in sys.modules if name.startswith("simulated")]:
        del sys.modules[name]


def read_trials(folder: Path) -> Trials:
    text = (folder / "trials.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


class SimulatedRun:
    """One run of the rank search, with its trials and what the models' server counted."""

    def __init__(
        self,
        module: Any,
        folder: Path,
        dollars: float,
        model: type = SimulatedModel,
        **settings: Any,
    ) -> None:
        job = module.Job(world=WORLD, seed=2, optimizer="rank", dollars=dollars)
        world = job.simulated()
        labels, dimension = world.write(folder)
        server = module.SimulatedServer(world)
        flags = {
            "dimension": str(dimension),
            "data": str(labels),
            "lm": f"openai/{module.JUDGE_MODEL}",
            "proposer_lm": f"openai/{module.PROPOSER_MODEL}",
            "max_cost": dollars,
            "seed": 2,
            "cache": "none",
            **settings,
        }
        self.flags, self.world = flags, world
        self.estimate = estimate(prepare(Settings(**flags))).to_json()
        self.summary = tuned(flags, folder / "run", server, model)
        self.trials = read_trials(folder / "run")
        self.dollars = server.dollars

    def of_stage(self, stage: str) -> Trials:
        return [trial for trial in self.trials if trial["stage"] == stage]


@pytest.fixture(scope="module")
def runs(simulated: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs by their limit and settings, each made once."""

    @lru_cache
    def run(dollars: float, **settings: Any) -> SimulatedRun:
        return SimulatedRun(simulated, tmp_path_factory.mktemp("paid"), dollars, **settings)

    return run


def test_a_larger_limit_extends_what_a_smaller_one_has_done(runs: Any) -> None:
    smaller, larger = (
        [
            {name: trial[name] for name in ("candidate", "rung", "value", "n_documents")}
            for trial in runs(limit).of_stage("race")
            if trial["round"] == 1
        ]
        for limit in LIMITS
    )
    assert smaller == larger
    assert max(trial["round"] for trial in runs(LIMITS[1]).of_stage("race")) > 2


def test_instructions_race_without_demonstrations_from_the_first_round(runs: Any) -> None:
    first = [trial for trial in runs(LIMITS[1]).of_stage("race") if trial["round"] == 1]
    assert len({trial["candidate"] for trial in first}) >= 3
    assert all(trial["demos"] == [] for trial in first)


def test_the_form_that_helps_is_found_and_none_is_sought_where_one_is_named(runs: Any) -> None:
    finalists = runs(LIMITS[1]).summary["finalists"]
    best = max(finalists, key=lambda row: row["dev"])
    assert best["reasoning"] in ("steps", "questions")
    named = runs(LIMITS[0], reasoning="none")
    assert {trial.get("reasoning") for trial in named.of_stage("race")} == {None}


@pytest.mark.parametrize("dollars", LIMITS)
def test_what_is_reported_is_what_was_billed_and_within_the_limit(
    runs: Any, dollars: float
) -> None:
    run = runs(dollars)
    assert run.summary["cost_usd"] == pytest.approx(run.dollars, rel=0.01)
    assert run.dollars <= dollars
    # A limit is there to be used.
    assert run.dollars > 0.6 * dollars


@pytest.mark.parametrize("dollars", LIMITS)
def test_a_run_takes_about_what_was_planned(runs: Any, dollars: float) -> None:
    run = runs(dollars)
    calls, cost = run.estimate["calls"], run.estimate["cost_usd"]
    n_calls = run.summary["lm_calls"] + run.summary["proposer_calls"]
    assert max(cost["expected"], run.summary["cost_usd"]) <= dollars
    # What is planned is nearer than half or twice as much; dearer candidates take fewer calls.
    assert 0.5 * n_calls < calls["expected"] < 2 * n_calls
    assert 0.6 * run.summary["cost_usd"] < cost["expected"] < 1.6 * run.summary["cost_usd"]


def test_each_finalist_tells_what_it_costs_to_use(runs: Any) -> None:
    rows = runs(LIMITS[1]).summary["finalists"]
    seed = next(row for row in rows if row["is_seed"])
    assert sum(row["shipped"] for row in rows) == 1
    for row in rows:
        assert row["usd_per_1000"] > 0
        if row["reasoning"] == "steps" and not row["n_demos"]:
            # Some 200 tokens more are written, at $1.60 for a million: 32 cents for 1,000 rows.
            assert 0.15 < row["usd_per_1000"] - seed["usd_per_1000"] < 0.6
