"""Win rates: hand-derived cases, symmetry, and what has no value."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.judgement import Preference
from judges.winrate import share_interval, win_rate

OTHER = {"A": "B", "B": "A", None: None}


def verdict(ab: Any, ba: Any) -> Preference:
    """A verdict from the two choices, each by the output's own letter."""
    preferred = ab if ab is not None and ab == ba else "tie"
    return Preference(margin=0.0, preferred=preferred, order_ab=ab, order_ba=ba)


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
    nothing = win_rate([FAILED] * 2)
    assert (nothing.n, nothing.n_failed, nothing.n_ties) == (0, 2, 0)
    assert np.isnan([nothing.win_rate_a, nothing.low]).all()


@pytest.mark.parametrize(
    ("verdicts", "bias"),
    [
        # The consistent pairs choose each place once; the fourth chooses the first twice: 2 of 8.
        (FOUR, 2 / 8),
        ([verdict("B", "A")] * 3, -1),
        # Asked in one order only: shown as ba, a choice of B is one of the first place.
        ([Preference(margin=-1, preferred="B", order_ba="B")], 1),
    ],
)
def test_position_bias_is_first_places_minus_second_places(verdicts, bias):
    assert win_rate(verdicts).position_bias == bias


def test_the_interval_has_the_width_of_its_documents_not_of_its_pairs():
    # 100 documents with four like-minded pairs each are 100 draws: 1.96 * sqrt(1/4 / 100) = .098.
    alike = [pair for pair in [verdict("A", "A"), verdict("B", "B")] * 50 for _ in range(4)]
    clustered = win_rate(alike, documents=[i // 4 for i in range(400)])
    assert clustered.high - clustered.low == pytest.approx(2 * 0.098, abs=0.02)
    single = win_rate(alike)
    assert single.high - single.low == pytest.approx(0.098, abs=0.01)


@pytest.mark.parametrize("choice", ["A", "B", None])
def test_eight_alike_of_eight_are_no_certainty_and_stay_within_the_scale(choice):
    rate = win_rate([verdict(choice, choice)] * 8)
    assert 0 <= rate.low <= rate.win_rate_a <= rate.high <= 1
    # An exact (Clopper-Pearson) interval of 8 of 8 begins at .025 ** (1 / 8) = .63.
    assert 0.25 < rate.high - rate.low < 0.45


@pytest.mark.parametrize(
    ("won", "tied", "clustered"),
    [(0.5, 0, True), (0.95, 0, False), (0.8, 0.15, True), (0, 1, True)],
)
def test_intervals_of_shares_cover_at_the_ends_and_in_clusters(won, tied, clustered):
    draw, held, simulations = np.random.default_rng(0), 0, 300
    for _ in range(simulations):
        sizes = draw.integers(1, 6, 30) if clustered else np.ones(30, int)
        document = np.repeat(np.arange(30), sizes)
        # Half of a document's pairs share their luck.
        own, shared = draw.random(document.size), draw.random(30)[document]
        luck = np.where(draw.random(document.size) < 0.5, shared, own)
        values = (luck < won) + 0.5 * ((luck >= won) & (luck < won + tied))
        low, high = share_interval(values, document.tolist())
        assert 0 <= low <= values.mean() <= high <= 1
        held += low <= won + tied / 2 <= high
    # Two standard errors below 95 % of 300; near the ends it is wider than it need be.
    assert held / simulations > 0.925


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
    mirrored = [1 - back.win_rate_a, 1 - back.high, back.position_bias, back.length_bias]
    figures = [there.win_rate_a, there.low, there.position_bias, there.length_bias]
    assert figures == pytest.approx(mirrored, abs=1e-6, nan_ok=True)
    assert there.flip_rate == pytest.approx(back.flip_rate, abs=1e-6, nan_ok=True)
    assert (there.n, there.n_ties) == (back.n, back.n_ties)
