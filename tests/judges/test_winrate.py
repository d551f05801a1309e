"""Win rates: hand-derived cases, symmetry, and what has no value."""

import math
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.judgement import Choice, Preference
from judges.winrate import share_interval, win_rate

Tallied = Literal["A", "B", "tie"]
OTHER: dict[str | None, Choice | None] = {"A": "B", "B": "A", None: None}


def verdict(ab: Choice | None, ba: Choice | None) -> Preference:
    """A verdict from the two choices, each by the output's own letter."""
    preferred: Tallied = ab if ab is not None and ab == ba else "tie"
    return Preference(margin=0.0, preferred=preferred, order_ab=ab, order_ba=ba)


# Two wins, a loss, and one that takes what stands first: (1 + 1 + 0 + 1/2) / 4 = 5/8.
FOUR = [verdict("A", "A"), verdict("A", "A"), verdict("B", "B"), verdict("A", "B")]


def test_a_tie_is_half_a_win_and_a_failure_is_none() -> None:
    rate = win_rate([*FOUR, Preference.failed("no choice")])
    assert (rate.win_rate_a, rate.n, rate.n_ties, rate.n_failed) == (5 / 8, 4, 1, 1)
    assert rate.flip_rate == 1 / 4
    assert rate.low <= 5 / 8 <= rate.high


def test_position_bias_is_first_places_minus_second_places() -> None:
    # The consistent pairs choose each place once; the fourth chooses the first twice: 2 of 8.
    assert win_rate(FOUR).position_bias == 2 / 8
    second = [verdict("B", "A")] * 3
    assert win_rate(second).position_bias == -1
    # Asked in one order only: shown as ba, a choice of B is one of the first place.
    once = [Preference(margin=-1, preferred="B", order_ba="B")]
    assert win_rate(once).position_bias == 1


def test_length_bias_counts_only_pairs_of_unequal_length() -> None:
    lengths = [(9, 1), (5, 5), (9, 1), (1, 9)]
    # The longer one wins, (equal), loses, ties.
    assert win_rate(FOUR, lengths=lengths).length_bias == 0


def test_nothing_judged_leaves_every_figure_undefined_but_the_counts() -> None:
    rate = win_rate([Preference.failed("no choice")] * 2)
    assert (rate.n, rate.n_failed, rate.n_ties) == (0, 2, 0)
    assert math.isnan(rate.win_rate_a)
    assert math.isnan(rate.low)


def test_the_interval_has_the_width_of_its_documents_not_of_its_pairs() -> None:
    # 100 documents with four like-minded pairs each are 100 draws: 1.96 * sqrt(1/4 / 100) = .098.
    pairs = [verdict("A", "A"), verdict("B", "B")] * 50
    alike = [pair for pair in pairs for _ in range(4)]
    documents = [i // 4 for i in range(400)]
    clustered = win_rate(alike, documents=documents)
    assert clustered.high - clustered.low == pytest.approx(2 * 0.098, abs=0.02)
    single = win_rate(alike)
    assert single.high - single.low == pytest.approx(0.098, abs=0.01)


@pytest.mark.parametrize("choice", ["A", "B", None])
def test_eight_alike_of_eight_are_no_certainty_and_stay_within_the_scale(
    choice: Choice | None,
) -> None:
    rate = win_rate([verdict(choice, choice)] * 8)
    assert 0 <= rate.low <= rate.win_rate_a <= rate.high <= 1
    # An exact (Clopper-Pearson) interval of 8 of 8 begins at .025 ** (1 / 8) = .63.
    assert 0.25 < rate.high - rate.low < 0.45


def test_intervals_of_shares_cover_at_the_ends_and_in_clusters() -> None:
    draw = np.random.default_rng(0)
    for won, tied, clustered in ((0.5, 0, True), (0.95, 0, False), (0.8, 0.15, True), (0, 1, True)):
        held, simulations = 0, 300
        for _ in range(simulations):
            sizes = draw.integers(1, 6, 30) if clustered else np.ones(30, int)
            document = np.repeat(np.arange(30), sizes)
            # Half of a document's pairs share their luck.
            luck = np.where(
                draw.random(document.size) < 0.5,
                draw.random(30)[document],
                draw.random(document.size),
            )
            values = (luck < won) + 0.5 * ((luck >= won) & (luck < won + tied))
            low, high = share_interval(values, document.tolist())
            assert 0 <= low <= values.mean() <= high <= 1
            held += low <= won + tied / 2 <= high
        # Two standard errors below 95 % of 300; near the ends it is wider than it need be.
        assert held / simulations > 0.925


choices = st.sampled_from(["A", "B", None])


@given(
    rows=st.lists(
        st.tuples(choices, choices, st.integers(0, 50), st.integers(0, 50), st.integers(0, 3)),
        min_size=1,
        max_size=30,
    )
)
def test_swapping_the_sides_mirrors_every_figure(
    rows: list[tuple[Choice | None, Choice | None, int, int, int]],
) -> None:
    documents = [row[4] for row in rows]
    there = win_rate(
        [verdict(ab, ba) for ab, ba, *_ in rows],
        documents=documents,
        lengths=[(a, b) for _, _, a, b, _ in rows],
    )
    back = win_rate(
        # What was shown first as A is B now, and what was asked as ab is ba.
        [verdict(OTHER[ba], OTHER[ab]) for ab, ba, *_ in rows],
        documents=documents,
        lengths=[(b, a) for _, _, a, b, _ in rows],
    )
    near = {"abs": 1e-6, "nan_ok": True}
    assert there.win_rate_a == pytest.approx(1 - back.win_rate_a, **near)
    assert there.low == pytest.approx(1 - back.high, **near)
    assert there.position_bias == pytest.approx(back.position_bias, **near)
    assert there.length_bias == pytest.approx(back.length_bias, **near)
    assert there.flip_rate == pytest.approx(back.flip_rate, **near)
    assert (there.n, there.n_ties) == (back.n, back.n_ties)
