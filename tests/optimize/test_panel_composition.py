"""What is said of a panel's members: what each does alone, and what the panel does without it."""

import json

import numpy as np
import pytest
from optimize.panel.composition import compose
from optimize.panel.learn import learn_panel
from optimize.panel.members import MemberScores
from optimize.report.panel_report import panel_page

DOCUMENT, SYSTEM = np.repeat(np.arange(20), 6), np.tile(np.arange(6), 20)
COSTS = {"a": 2.0, "b": 1.0, "c": 0.0}


@pytest.fixture(scope="module")
def composition():
    rng = np.random.default_rng(3)
    truth = rng.normal(size=120)
    members = [
        MemberScores(name=name, scores=truth + rng.normal(size=120), cost_per_1000=cost)
        for name, cost in COSTS.items()
    ]
    ratings = np.clip(np.round(3 + truth), 1, 5)
    labels = (members, ratings, DOCUMENT, SYSTEM)
    fit = learn_panel(*labels, level="summary", rng=np.random.default_rng(0))
    return fit, compose(fit, *labels, level="summary", rng=np.random.default_rng(0))


def test_each_member_stands_with_what_it_does_alone_and_what_the_panel_does_without_it(composition):
    fit, whole = composition
    assert tuple(part.name for part in whole.members) == fit.members
    assert tuple(part.weight for part in whole.members) == fit.weights
    for part in whole.members:
        assert part.adds == pytest.approx(whole.rho - part.rho_without)
        assert part.rho_alone < whole.rho
    assert whole.cost_per_1000 == sum(COSTS[name] for name in fit.members)


def test_the_record_is_json_without_nan(composition):
    record = composition[1].record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["members"][0]["name"] == composition[0].members[0]


def test_a_judge_that_is_kept_alone_has_a_composition_too():
    members = [MemberScores(name="a", scores=np.full(120, 3.0))]
    ratings = np.random.default_rng(0).integers(1, 6, 120)
    labels = (members, ratings, DOCUMENT, SYSTEM)
    fit = learn_panel(*labels, level="summary", rng=np.random.default_rng(0))
    whole = compose(fit, *labels, level="summary", rng=np.random.default_rng(0))
    assert whole.rho == 0
    assert whole.record()["members"][0]["rho_without"] is None


CELL = {"level": "summary", "value": 0.3, "low": 0.2, "high": 0.4, "n_outputs": 120}


def test_names_of_members_and_documents_are_text_on_the_page(composition):
    record = composition[1].record()
    attack = "<script>alert(1)</script>"
    record["members"][0]["name"] = attack
    summary = {
        "dimension": "relevance",
        "own": attack,
        "data": {"n_outputs": 120, "sha256": ""},
        "shipped": "mean",
        "why": attack,
        "kind": "rating",
        "level": "summary",
        "own_judge": {"test": CELL},
        "panel": {"test": {**CELL, "value": 0.5, "low": 0.4, "high": 0.6}},
        "order": {},
        "members": [
            {
                "name": attack,
                "source": "scores",
                "weight": 1.0,
                "test": None,
                "n_failed": 0,
                "cost_per_1000_rows": None,
            }
        ],
        "candidates": [],
        "composition": record,
    }
    html = panel_page(summary)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "[0.400, 0.600]" in html
