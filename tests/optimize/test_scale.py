"""Scores as numbers on a scale: their errors, and how much of it they use."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimize.statistics.scale import errors, nearest_ratings, quadratic_kappa, scale_use

SCORES = st.lists(st.integers(0, 6).map(float), min_size=9, max_size=9)


def test_errors_are_counted_by_hand() -> None:
    result = errors([1, 2, math.nan, 5], [2, 2, 3, 3], (1, 2, 3, 4, 5))
    # Gaps -1, 0, 2: mean 1/3, mean size 1. Squares average 5/3; strangers' would be 26/9 (the
    # variance of 1, 2, 5) + 2/9 (of 2, 2, 3) + (8/3 - 7/3)^2 = 29/9; 1 - (5/3) / (29/9) = 14/29.
    assert result.bias == pytest.approx(1 / 3)
    assert result.mean_absolute_error == pytest.approx(1)
    assert result.kappa == pytest.approx(14 / 29)
    assert (result.n_outputs, result.n_failed) == (3, 1)


@given(SCORES, SCORES)
def test_kappa_equals_the_weighted_table(a: list[float], b: list[float]) -> None:
    observed = np.zeros((7, 7))
    for x, y in zip(a, b, strict=True):
        observed[int(x), int(y)] += 1 / len(a)
    weights = (np.arange(7)[:, None] - np.arange(7)) ** 2
    expected = (weights * np.outer(observed.sum(axis=1), observed.sum(axis=0))).sum()
    result = quadratic_kappa(np.array(a), np.array(b))
    if expected == 0:
        assert math.isnan(result)
    else:
        assert result == pytest.approx(1 - (weights * observed).sum() / expected)


def test_scores_are_put_on_any_scale() -> None:
    assert nearest_ratings(np.array([0.2, 1.5, 2.4, 99]), (1, 2, 3)).tolist() == [1, 2, 2, 3]
    assert nearest_ratings(np.array([20, 30, 76]), (0, 50, 100)).tolist() == [0, 50, 100]


def test_nothing_scored_has_no_errors() -> None:
    nothing = errors([math.nan], [2], (1, 2, 3))
    assert math.isnan(nothing.bias)
    assert math.isnan(nothing.kappa)


def test_use_of_the_scale_is_counted_by_hand() -> None:
    # Document 1: 5, 5, 4.8 (the nearest rating is 5 for all): one tied pair of 3. Document 2: 1, 3.
    found = scale_use([5, 5, 4.8, math.nan, 1, 3], [1, 1, 1, 1, 2, 2], (1, 2, 3, 4, 5))
    assert found.at_top == pytest.approx(3 / 5)
    assert found.at_bottom == pytest.approx(1 / 5)
    assert found.tied == pytest.approx(1 / 4)
    assert found.n_outputs == 5
    assert math.isnan(scale_use([math.nan], [1], (1, 2)).at_top)
    assert math.isnan(scale_use([2], [1], (1, 2)).tied)
