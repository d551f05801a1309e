"""The search where calls cost money, in a simulated world whose truth and bill are known."""

from functools import lru_cache

import pytest
from simulated_model import paid_run

LIMITS = (0.5, 2.0)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs by their limit, each made once."""

    @lru_cache
    def run(dollars):
        return paid_run(tmp_path_factory.mktemp("paid"), 3, max_cost=dollars)

    return run


def test_a_larger_limit_finds_the_form_that_helps(runs):
    finals = [trial for trial in runs(LIMITS[1]).trials if trial["stage"] == "dev"]
    assert max(finals, key=lambda trial: trial["value"])["reasoning"] in ("steps", "questions")


def test_no_other_reasoning_is_tried_if_the_settings_name_one(tmp_path):
    trials = paid_run(tmp_path, 3, max_cost=LIMITS[0], reasoning="none").trials
    assert {trial["reasoning"] for trial in trials if trial["stage"] == "race"} == {None}


@pytest.mark.parametrize("dollars", LIMITS)
def test_the_reported_cost_is_the_billed_cost_and_within_the_limit(runs, dollars):
    run = runs(dollars)
    assert run.summary["cost_usd"] == pytest.approx(run.bill, rel=0.01)
    # A limit is there to be used.
    assert 0.6 * dollars < run.bill <= dollars
