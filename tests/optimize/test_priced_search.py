"""The search where calls cost money, in a simulated world whose truth and bill are known."""

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from simulated_model import tuned

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIMITS = (0.5, 2.0)


class Run(NamedTuple):
    """A run of the rank search, its trials, and what the models' server has counted."""

    summary: dict[str, Any]
    trials: list[dict[str, Any]]
    billed: float


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs by their limit and settings, each made once."""
    sys.path.insert(0, str(BENCHMARKS))
    import simulated

    @lru_cache
    def run(dollars: float, **settings: Any) -> Run:
        folder = tmp_path_factory.mktemp("paid")
        job = simulated.Job(world="reasoning helps", seed=3, optimizer="rank", dollars=dollars)
        world = job.simulated()
        labels, dimension = world.write(folder)
        server = simulated.SimulatedServer(world)
        flags = {
            "dimension": str(dimension),
            "data": str(labels),
            "lm": f"openai/{simulated.JUDGE_MODEL}",
            "proposer_lm": f"openai/{simulated.PROPOSER_MODEL}",
            "max_cost": dollars,
            "cache": "none",
            **settings,
        }
        summary = tuned(flags, folder / "run", server)
        lines = (folder / "run" / "trials.jsonl").read_text(encoding="utf-8").splitlines()
        return Run(summary, [json.loads(line) for line in lines], server.dollars)

    yield run
    sys.path.remove(str(BENCHMARKS))
    for name in [name for name in sys.modules if name.startswith("simulated")]:
        del sys.modules[name]


def test_a_larger_limit_finds_the_form_that_helps(runs):
    ranked = [trial for trial in runs(LIMITS[1]).trials if trial["stage"] == "dev"]
    best = max(ranked, key=lambda trial: trial["value"])
    assert best["reasoning"] in ("steps", "questions")


def test_no_form_is_sought_where_one_is_named(runs):
    trials = runs(LIMITS[0], reasoning="none").trials
    assert {trial["reasoning"] for trial in trials if trial["stage"] == "race"} == {None}


@pytest.mark.parametrize("dollars", LIMITS)
def test_what_is_reported_is_what_was_billed_and_within_the_limit(runs, dollars):
    run = runs(dollars)
    assert run.summary["cost_usd"] == pytest.approx(run.billed, rel=0.01)
    # A limit is there to be used.
    assert 0.6 * dollars < run.billed <= dollars
