"""The search where calls cost money, in a simulated world whose truth and bill are known."""

import sys
from functools import lru_cache
from pathlib import Path

import pytest
from jsonl import read_jsonl
from simulated_model import tune_folder

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
LIMITS = (0.5, 2.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Summary, trials and bill of runs by their limit and settings, each made once."""
    sys.path.insert(0, str(BENCHMARKS))
    from simulated_server import MODELS, SimulatedServer
    from simulated_worlds import JUDGES, World

    @lru_cache
    def run(dollars, **settings):
        folder = tmp_path_factory.mktemp("paid")
        world = World(name="reasoning helps", seed=3, judge=JUDGES["reasoning helps"])
        labels, dimension = world.write(folder)
        server = SimulatedServer(world)
        flags = {
            "dimension": str(dimension),
            "data": str(labels),
            **MODELS,
            "max_cost": dollars,
            "cache": "none",
            **settings,
        }
        summary = tune_folder(flags, folder / "run", server)
        return summary, read_jsonl(folder / "run" / "trials.jsonl"), server.dollars

    yield run
    sys.path.remove(str(BENCHMARKS))
    for name in [name for name in sys.modules if name.startswith("simulated")]:
        del sys.modules[name]


def test_a_larger_limit_finds_the_form_that_helps(runs):
    _, trials, _ = runs(LIMITS[1])
    finals = [trial for trial in trials if trial["stage"] == "dev"]
    assert max(finals, key=lambda trial: trial["value"])["reasoning"] in ("steps", "questions")


def test_no_other_reasoning_is_tried_if_the_settings_name_one(runs):
    _, trials, _ = runs(LIMITS[0], reasoning="none")
    assert {trial["reasoning"] for trial in trials if trial["stage"] == "race"} == {None}


@pytest.mark.parametrize("dollars", LIMITS)
def test_the_reported_cost_is_the_billed_cost_and_within_the_limit(runs, dollars):
    summary, _, bill = runs(dollars)
    assert summary["cost_usd"] == pytest.approx(bill, rel=0.01)
    # A limit is there to be used.
    assert 0.6 * dollars < bill <= dollars
