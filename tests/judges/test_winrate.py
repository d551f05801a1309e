"""Win rates and true rates: hand-derived cases, symmetry, coverage, and what has no value."""

import json
from typing import Any

import numpy as np
import pytest
from files import write_jsonl
from hypothesis import given
from hypothesis import strategies as st

from dspy_judges.__main__ import main
from judges.judgement import Preference
from judges.true_rate import corrected_rate, count_errors
from judges.winrate import share_interval, win_rate
from optimize.run import tune

OTHER = {"A": "B", "B": "A", None: None}
MARGINS = {"A": 1.0, "B": -1.0, None: 0.0}


def verdict(ab: Any, ba: Any) -> Preference:
    """A verdict from the two choices, each by the output's own letter."""
    return Preference.from_orders(MARGINS[ab], MARGINS[ba])


# Two wins, a loss, and one that takes what stands first: (1 + 1 + 0 + 1/2) / 4 = 5/8.
FOUR = [verdict("A", "A"), verdict("A", "A"), verdict("B", "B"), verdict("A", "B")]
FAILED = Preference.failed("no choice")


def test_a_tie_is_half_a_win_and_a_failure_is_none():
    # The longer one of unequal length wins, loses, ties.
    lengths = [(9, 1), (5, 5), (9, 1), (1, 9), (5, 1)]
    rate = win_rate([*FOUR, FAILED], lengths=lengths)
    assert (rate.win_rate_a, rate.n, rate.n_ties, rate.n_failed) == (5 / 8, 4, 1, 1)
    assert rate.flip_rate == 1 / 4
    assert rate.length_bias == 0
    assert rate.low <= 5 / 8 <= rate.high
    # Documents may be an array, as in a column of a table.
    assert win_rate(FOUR, documents=np.array(["a", "a", "b", "b"])).win_rate_a == 5 / 8
    nothing = win_rate([FAILED] * 2)
    assert (nothing.n, nothing.n_failed, nothing.n_ties) == (0, 2, 0)
    assert np.isnan([nothing.win_rate_a, nothing.low]).all()


def test_position_bias_is_first_places_minus_second_places():
    # The consistent pairs choose each place once; the fourth chooses the first twice: 2 of 8.
    assert win_rate(FOUR).position_bias == 2 / 8
    assert win_rate([verdict("B", "A")] * 3).position_bias == -1
    # Asked in one order only: shown as ba, a choice of B is one of the first place.
    assert win_rate([Preference(margin=-1, preferred="B", margin_ba=-1.0)]).position_bias == 1


def test_the_interval_has_the_width_of_its_documents():
    # 100 documents with four like-minded pairs each are 100 draws: 1.96 * sqrt(1/4 / 100) = .098.
    alike = [pair for pair in [verdict("A", "A"), verdict("B", "B")] * 50 for _ in range(4)]
    rate = win_rate(alike, documents=[i // 4 for i in range(400)])
    assert rate.high - rate.low == pytest.approx(2 * 0.098, abs=0.02)
    single = win_rate(alike)
    assert single.high - single.low == pytest.approx(0.098, abs=0.01)


@pytest.mark.parametrize(
    ("wins", "ties", "has_clusters"),
    [(0.5, 0, True), (0.95, 0, False), (0.8, 0.15, True), (0, 1, True)],
)
def test_intervals_of_shares_cover_at_the_ends_and_in_clusters(wins, ties, has_clusters):
    draw, hits, simulations = np.random.default_rng(0), 0, 300
    for _ in range(simulations):
        sizes = draw.integers(1, 6, 30) if has_clusters else np.ones(30, int)
        document = np.repeat(np.arange(30), sizes)
        # Half of a document's pairs share their luck.
        own, common = draw.random(document.size), draw.random(30)[document]
        luck = np.where(draw.random(document.size) < 0.5, common, own)
        values = (luck < wins) + 0.5 * ((luck >= wins) & (luck < wins + ties))
        low, high = share_interval(values, document.tolist())
        assert 0 <= low <= values.mean() <= high <= 1
        hits += low <= wins + ties / 2 <= high
    # Two standard errors below 95 % of 300; near the ends it is wider than it need be.
    assert hits / simulations > 0.925


choices, size = st.sampled_from(["A", "B", None]), st.integers(0, 50)
PAIRS = st.tuples(choices, choices, size, size, st.integers(0, 3))


@given(rows=st.lists(PAIRS, min_size=1, max_size=30))
def test_swapping_the_sides_mirrors_every_figure(rows):
    def rate(rows: list[Any]) -> Any:
        return win_rate(
            [verdict(ab, ba) for ab, ba, *_ in rows],
            documents=[row[4] for row in rows],
            lengths=[(a, b) for _, _, a, b, _ in rows],
        )

    there = rate(rows)
    # What was shown first as A is B now, and what was asked as ab is ba.
    back = rate([(OTHER[ba], OTHER[ab], b, a, document) for ab, ba, a, b, document in rows])
    mirror = [1 - back.win_rate_a, 1 - back.high, back.position_bias, back.length_bias]
    figures = [there.win_rate_a, there.low, there.position_bias, there.length_bias]
    assert figures == pytest.approx(mirror, abs=1e-6, nan_ok=True)
    assert there.flip_rate == pytest.approx(back.flip_rate, abs=1e-6, nan_ok=True)
    assert (there.n, there.n_ties) == (back.n, back.n_ties)


# The true rate: what the judge passes, corrected for its errors, or why it is not.
RUNS = 200


def labels(both: int, people: int, alone: int, neither: int) -> list[list[int]]:
    """Documents of one output, so many of each kind."""
    counts = (both, people, alone, neither)
    return [[int(i == kind) for i in range(4)] + [n] for kind, n in enumerate(counts)]


def test_the_true_rate_corrects_for_the_judges_errors():
    # TPR .9, TNR .8: a true rate of .6 is passed at .6 * .9 + .4 * .2 = .62.
    rate = corrected_rate([1] * 62 + [0] * 38, range(100), labels(90, 10, 20, 80))
    assert rate.judge_share == pytest.approx(0.62)
    assert rate.people_share == pytest.approx(0.6)
    assert rate.people_low < 0.6 < rate.people_high
    ends = f"[{100 * rate.people_low:.0f}, {100 * rate.people_high:.0f}]"
    assert str(rate).startswith(f"the judge passes 62%; people would pass 60% {ends}, if it errs")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (labels(50, 50, 50, 50), "no better than chance"),
        (labels(20, 80, 80, 20), "no better than chance"),
        (labels(55, 45, 45, 55), "no better than chance"),
        (labels(90, 10, 1, 8), "9 fails, and 10 are needed"),
        (labels(9, 0, 1, 90), "9 passes, and 10 are needed"),
        ([], "not tested on labels"),
    ],
)
def test_a_rate_that_labels_do_not_allow_is_withheld(rows, why):
    rate = corrected_rate([1] * 62 + [0] * 38, range(100), rows)
    assert why in rate.withheld_reason
    assert np.isnan([rate.people_share, rate.people_low, rate.people_high]).all()
    assert str(rate).startswith("the judge passes 62%; not corrected for its errors: ")


def test_documents_with_the_same_counts_stand_in_one_row():
    passes = [1, 0, 1, 0, np.nan, 1]
    assert count_errors(passes, [1, 0, 1, 0, 1, 0], ["a", "a", "b", "b", "b", "c"]) == [
        [1, 0, 0, 1, 2],
        [0, 0, 1, 0, 1],
    ]


@pytest.mark.parametrize(("base_rate", "outputs"), [(0.8, 1), (0.5, 4)])
def test_the_interval_holds_the_truth_in_about_95_of_100_cases(base_rate, outputs):
    """Documents whose outputs are alike both in quality and in how the judge sees them."""
    rng = np.random.default_rng([7, outputs])

    def draw(n: int) -> tuple[list[float], list[float], list[int]]:
        documents = np.repeat(np.arange(n // outputs), outputs)
        share, lenient = rng.beta(3 * base_rate, 3 - 3 * base_rate, n), rng.uniform(-0.1, 0.1, n)
        human = rng.random(n) < share[documents]
        passes = rng.random(n) < np.where(human, 0.88, 0.2) + lenient[documents]
        return passes.astype(float).tolist(), human.astype(float).tolist(), documents.tolist()

    hits = 0
    for _ in range(RUNS):
        new = draw(400)
        rate = corrected_rate(new[0], new[2], count_errors(*draw(160)))
        hits += rate.people_low <= base_rate <= rate.people_high
    # Three binomial standard errors of 200 draws are .046; it may hold a little more.
    assert hits / RUNS >= 0.95 - 0.046


def test_score_corrects_the_pass_rate_by_the_judges_test_errors(tmp_path, capsys):
    rng = np.random.default_rng(0)
    words = {1: "The council met on Monday and closed the bridge for repair works", 0: "Buy now"}
    rows = [
        {
            "id": str(n),
            "document": f"The council met on Monday in town {n} and closed the bridge for repair.",
            "summary": f"{words[passes]} {n}" if rng.random() < 0.9 else f"A bridge {n}",
            "relevance": passes,
        }
        for n, passes in enumerate(rng.integers(0, 2, 160).tolist())
    ]
    run = tune("relevance", rows, out=tmp_path / "run", scale="0-1", quiet=True)
    assert run.summary["objective"] == "balanced"
    judge = run.judge
    assert 0 < judge.threshold < 1
    table = judge.provenance["tested"] if judge.provenance else None
    assert sum(sum(row[:4]) * row[4] for row in table) == len(run.judgements)
    command = ["score", str(run.folder), "--data", write_jsonl(tmp_path / "rows.jsonl", rows)]
    assert main([*command, "--out", str(tmp_path / "a.jsonl")]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "as often here as on the test labels" in out
    n_tuned = len(rows) - len(run.judgements)
    assert f"the judge was tuned on {n_tuned} of these rows" in out
    # Asked otherwise it errs otherwise.
    assert main([*command, "--out", str(tmp_path / "b.jsonl"), "--plan", "one", "--json"]) == 0
    rate = json.loads(capsys.readouterr().out)["judges"]["relevance"]["pass_rate"]
    assert rate["value"] is None
    assert "not tested on labels with this model and plan" in rate["withheld"]
