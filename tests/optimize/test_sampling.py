"""Draws of documents: exact chances, a fixed number, certain ones, sizes by disagreement."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimize.statistics.intervals import Vector
from optimize.statistics.sampling import (
    chances,
    draw,
    per_document,
    sizes_by_disagreement,
    systematic,
)

SIZES = st.lists(st.floats(0.05, 50), min_size=1, max_size=12).map(np.array)


def of_sizes(sizes: Vector, share: float) -> tuple[Vector, int]:
    n = min(sizes.size, int(share * (sizes.size + 1)))
    return chances(sizes, n), n


@given(SIZES, st.floats(0, 1))
def test_chances_sum_to_the_number_and_follow_sizes_where_none_is_certain(
    sizes: Vector, share: float
) -> None:
    chance, n = of_sizes(sizes, share)
    assert chance.sum() == pytest.approx(n)
    assert ((chance >= 0) & (chance <= 1)).all()
    others = chance < 1
    if n and others.any():
        ratios = chance[others] / sizes[others]
        assert ratios == pytest.approx(ratios[0])
        # What is certain would have a chance of one or more by its size.
        assert (sizes[~others] * ratios[0] >= 1 - 1e-6).all()


@given(SIZES, st.floats(0, 1))
@settings(deadline=None)
def test_over_all_starts_each_document_is_drawn_exactly_by_its_chance(
    sizes: Vector, share: float
) -> None:
    chance, n = of_sizes(sizes, share)
    # Between these starts the same documents are drawn.
    edges = np.unique([0, 1, *(np.cumsum(chance[chance < 1]) % 1)])
    drawn = np.zeros(sizes.size)
    for low, high in pairwise(edges):
        places = systematic(chance, (low + high) / 2)
        assert len(set(places.tolist())) == places.size == n
        drawn[places] += high - low
    assert drawn == pytest.approx(chance, abs=1e-9)


@given(SIZES, st.floats(0, 1), st.floats(0, 1, exclude_max=True))
def test_any_start_draws_so_many_different_documents(
    sizes: Vector, share: float, start: float
) -> None:
    chance, n = of_sizes(sizes, share)
    places = systematic(chance, start)
    assert len(set(places.tolist())) == places.size == n
    assert set(np.flatnonzero(chance == 1)) <= set(places.tolist())


def test_equal_chances_take_their_share_of_every_stretch_of_scores() -> None:
    scores = np.random.default_rng(0).normal(size=100)
    for seed in range(20):
        rows, chance = draw(np.ones(100), scores, 20, np.random.default_rng(seed))
        assert chance == pytest.approx(0.2)
        ranks = scores.argsort().argsort()[rows]
        assert np.bincount(ranks // 10).tolist() == [2] * 10
        # The first half is no stretch of them.
        assert np.ptp(ranks[:10]) > 50


def test_the_mean_by_weights_is_that_of_all_documents() -> None:
    rng = np.random.default_rng(0)
    sizes, values = rng.uniform(0.5, 2, 60), rng.normal(size=60)
    sums = []
    for _ in range(4000):
        rows, chance = draw(sizes, values, 15, rng)
        sums.append((values[rows] / chance).sum() / 60)
    error = np.std(sums) / np.sqrt(len(sums))
    assert abs(np.mean(sums) - values.mean()) < 4 * error


def test_sizes_follow_the_errors_where_disagreement_tells_them() -> None:
    rng = np.random.default_rng(0)
    apart = rng.choice([0.0, 0.25], 4000)
    error = rng.normal(size=4000) * np.where(apart > 0, 0.6, 0.3)
    error[3000:] = np.nan
    sizes = sizes_by_disagreement(apart, error)
    ratio = sizes[apart > 0][0] / sizes[apart == 0][0]
    assert 1.8 < ratio < 2.2
    # Neyman: half the documents have twice the SD, 1.5 / sqrt(2.5) = .949.


def test_sizes_are_equal_where_disagreement_tells_nothing_and_never_far_apart() -> None:
    rng = np.random.default_rng(1)
    apart, error = rng.random(200), rng.normal(size=200)
    assert np.ptp(sizes_by_disagreement(apart, error * (2 - apart))) == 0
    assert np.ptp(sizes_by_disagreement(np.zeros(200), error)) == 0
    assert np.ptp(sizes_by_disagreement(apart, np.full(200, np.nan))) == 0
    sizes = sizes_by_disagreement(apart**8, 100 * apart**8)
    assert sizes.max() / sizes.min() <= 4 + 1e-9


def test_documents_without_a_value_have_no_mean() -> None:
    values, document = np.array([1.0, 3.0, np.nan, np.nan]), np.array([0, 0, 0, 1])
    assert per_document(values, document).tolist()[0] == 2
    assert np.isnan(per_document(values, document)[1])
