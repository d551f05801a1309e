"""What is said of a panel's members: their parts, their errors, where they disagree."""

import itertools
import json

import numpy as np
import pytest

from optimize.panel.composition import compose, disagreements, effective_judges
from optimize.panel.learn import MemberScores, learn_panel, plain_mean
from optimize.panel.weights import Moments
from optimize.report.panel_report import panel_page, panel_section

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
    fit = learn_panel(*labels, own="a", level="summary", rng=np.random.default_rng(0))
    return fit, compose(fit, *labels, level="summary", rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("errors", "judges"),
    [
        (np.eye(3), 3),  # independent: (3 * 1/3)² / (3 * 1/9)
        (np.ones((3, 3)), 1),  # the same error thrice
        # Halves alike: (1)² / (1/9 * (3 + 6 / 2)) = 9/6.
        (np.full((3, 3), 0.5) + 0.5 * np.eye(3), 1.5),
    ],
)
def test_effective_judges_count_independent_errors_not_agreement_on_the_truth(errors, judges):
    with_people = np.full(3, 0.6)
    # What members share because it is so, 0.36, is no error.
    moments = Moments(errors + np.outer(with_people, with_people), with_people)
    assert effective_judges(moments, np.full(3, 1 / 3)) == pytest.approx(judges)


def test_members_disagree_by_how_far_their_ranks_lie_apart():
    # On the first document the two rank two outputs in opposite order: standardised ranks of 1 and
    # -1 are 1 from their mean. On the second they agree. The third has one member's scores alone.
    members = [
        MemberScores(name="a", scores=np.array([1.0, 2, 1, 2, 1, 2])),
        MemberScores(name="b", scores=np.array([9.0, 3, 3, 9, np.nan, np.nan])),
    ]
    listed = disagreements(plain_mean(members), members, ["x", "x", "y", "y", "z", "z"])
    assert [(one.document, one.spread) for one in listed] == [("x", 1.0), ("y", 0.0)]


def test_each_member_stands_with_what_it_does_alone_and_what_the_panel_does_without_it(composition):
    fit, whole = composition
    assert tuple(part.name for part in whole.members) == fit.members
    assert tuple(part.weight for part in whole.members) == fit.weights
    for part in whole.members:
        assert part.adds == pytest.approx(whole.rho - part.rho_without)
        assert part.rho_alone < whole.rho
    assert whole.cost_per_1000 == sum(COSTS[name] for name in fit.members)


def test_rho_of_the_whole_is_the_candidates_rho_on_labels_it_never_met(composition):
    fit, whole = composition
    chosen = next(one for one in fit.candidates if one.kind == fit.kind)
    assert whole.rho == pytest.approx(chosen.dev)


def test_members_correlations_are_symmetric_with_ones_on_the_diagonal(composition):
    matrix = np.array(composition[1].correlations)
    assert matrix == pytest.approx(matrix.T)
    assert np.diag(matrix) == pytest.approx(1)


def test_the_front_has_no_panel_that_another_beats_at_no_more_dollars(composition):
    _, whole = composition
    assert len(whole.panels) == 7  # every subset of three
    front = [one for one in whole.panels if one.on_front]
    assert front[0].cost_per_1000 == 0
    for cheaper, dearer in itertools.pairwise(front):
        assert cheaper.cost_per_1000 < dearer.cost_per_1000
        assert cheaper.rho < dearer.rho
    best = max(whole.panels, key=lambda one: one.rho)
    assert best in front


def test_the_record_is_json_without_nan(composition):
    record = composition[1].record()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["members"][0]["name"] == composition[0].members[0]


def test_a_judge_that_is_kept_alone_has_a_composition_too():
    members = [MemberScores(name="a", scores=np.full(120, 3.0))]
    ratings = np.random.default_rng(0).integers(1, 6, 120)
    labels = (members, ratings, DOCUMENT, SYSTEM)
    fit = learn_panel(*labels, own="a", level="summary", rng=np.random.default_rng(0))
    whole = compose(fit, *labels, level="summary", rng=np.random.default_rng(0))
    assert (whole.rho, whole.effective_judges) == (0, 1)
    assert whole.record()["members"][0]["rho_without"] is None


def test_the_report_shows_every_member_and_every_panel_and_where_to_label(composition):
    whole = composition[1]
    html = str(panel_section(whole.record()).html)
    for part in whole.members:
        assert part.name in html
        assert f"{part.weight:.3f}" in html
    assert f"{whole.effective_judges:.3f}" in html
    assert html.count("<svg") == 1
    assert whole.disagreements[0].document in html


CELL = {"level": "summary", "value": 0.3, "low": 0.2, "high": 0.4, "n_outputs": 120}


def test_names_of_members_and_documents_are_text_on_the_page(composition):
    record = composition[1].record()
    attack = "<script>alert(1)</script>"
    record["members"][0]["name"] = record["disagreements"][0]["document"] = attack
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
