"""Pairwise accuracy with calibrated ties, and errors on the scale."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimize.statistics.accuracy import pairwise_accuracy
from optimize.statistics.scale import errors, nearest_ratings, quadratic_kappa


def by_pairs(
    judge: list[float], human: list[float], document: list[int], threshold: float
) -> float:
    """The definition, pair by pair and document by document."""
    shares = []
    for d in sorted(set(document)):
        alike = [
            (abs(judge[i] - judge[k]) <= threshold and human[i] == human[k])
            or (
                abs(judge[i] - judge[k]) > threshold
                and (judge[i] - judge[k]) * (human[i] - human[k]) > 0
            )
            for i, k in itertools.combinations(range(len(judge)), 2)
            if document[i] == document[k] == d
        ]
        if alike:
            shares.append(sum(alike) / len(alike))
    return sum(shares) / len(shares) if shares else math.nan


SCORES = st.lists(st.integers(0, 6).map(float), min_size=9, max_size=9)
DOCUMENT = [1, 1, 1, 1, 2, 2, 2, 3, 3]


@given(SCORES, SCORES)
def test_the_calibrated_threshold_is_the_best_there_is(
    judge: list[float], human: list[float]
) -> None:
    result = pairwise_accuracy(judge, human, DOCUMENT)
    best = max(by_pairs(judge, human, DOCUMENT, t) for t in range(7))
    assert result.value == pytest.approx(best)
    assert result.value == pytest.approx(by_pairs(judge, human, DOCUMENT, result.threshold))
    assert (result.n_pairs, result.n_documents) == (10, 3)


def test_a_fine_judge_is_given_its_ties() -> None:
    # Without ties it orders 2 of the 3 pairs as people do; with 0.1 as a tie, all 3.
    judge, human = [4.0, 3.9, 1.0], [5, 5, 1]
    assert by_pairs(judge, human, [1, 1, 1], threshold=0) == pytest.approx(2 / 3)
    calibrated = pairwise_accuracy(judge, human, [1, 1, 1])
    assert (calibrated.value, calibrated.threshold) == (1, pytest.approx(0.1))


@given(SCORES, SCORES)
def test_swapping_the_order_of_outputs_changes_nothing(
    judge: list[float], human: list[float]
) -> None:
    there = pairwise_accuracy(judge, human, DOCUMENT)
    back = pairwise_accuracy(judge[::-1], human[::-1], DOCUMENT[::-1])
    assert there.value == pytest.approx(back.value)


def test_accuracy_counts_failures_and_needs_pairs() -> None:
    rng = np.random.default_rng(0)
    result = pairwise_accuracy([1, math.nan, 2, 3], [1, 2, 2, 3], [1, 1, 1, 2], rng=rng)
    assert (result.n_failed, result.n_pairs, result.interval) == (1, 1, None)
    assert math.isnan(pairwise_accuracy([1, 2], [1, 2], [1, 2], rng=rng).value)
    assert math.isnan(pairwise_accuracy([], [], []).value)


def test_intervals_of_accuracy_stay_between_0_and_1() -> None:
    judge, human = [1, 2] * 5, [1, 2] * 4 + [2, 1]
    document = np.repeat(np.arange(5), 2)
    rng = np.random.default_rng(0)
    result = pairwise_accuracy(judge, human, document, rng=rng)
    assert result.value == pytest.approx(0.8)
    assert result.interval is not None
    assert 0 <= result.interval.low < 0.8 < result.interval.high <= 1


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
