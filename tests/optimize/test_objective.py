"""The set-level objective and what each document adds to it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from optimize.items import Item, Items, choose_level
from optimize.search.evaluator import contrast, objective
from optimize.statistics.correlations import Level

LEVELS: tuple[Level, ...] = ("summary", "dataset", "system")


def items(human: list[list[float]]) -> Items:
    """One document a list, one system a place."""
    return Items(
        tuple(
            Item(id=f"{d}-{s}", document_id=f"d{d}", system=f"s{s}", texts={}, human=value)
            for d, values in enumerate(human)
            for s, value in enumerate(values)
        )
    )


def test_a_document_that_people_rate_alike_is_left_out():
    those = items([[2, 2, 2], [1, 2, 3]])
    scores = np.array([1.0, 2, 3, 1, 2, 3])
    assert objective(scores, those, "summary") == pytest.approx(1)
    assert contrast(scores, -scores, those, "summary").documents == ("d1",)


def test_a_judge_that_says_the_same_of_all_earns_nothing():
    for level in LEVELS:
        assert objective(np.array([4.0, 4, 4]), items([[1, 2, 3]]), level) == 0


def test_a_failed_output_is_missing_and_no_candidate_gains_by_failing():
    those = items([[1, 2, 3, 4]])
    seed, candidate = np.array([1.0, 2, 4, 3]), np.array([1.0, 2, np.nan, 3])
    # In order among the three that it judged; the seed, too, among those.
    assert objective(candidate, those, "summary") == pytest.approx(1)
    assert contrast(candidate, seed, those, "summary").value == pytest.approx(0)


def random_split(rng: np.random.Generator) -> Items:
    return items([[float(value) for value in rng.integers(1, 6, 5)] for _ in range(9)])


@pytest.mark.parametrize("level", LEVELS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_a_contrast_is_the_difference_of_the_two_objectives(level, seed):
    rng = np.random.default_rng(seed)
    those = random_split(rng)
    one, other = rng.normal(size=len(those)), rng.integers(1, 6, len(those)).astype(float)
    gap = contrast(one, other, those, level)
    expected = objective(one, those, level) - objective(other, those, level)
    assert gap.value == pytest.approx(expected, nan_ok=True)
    back = contrast(other, one, those, level)
    assert back.value == pytest.approx(-gap.value, nan_ok=True)
    assert back.error == pytest.approx(gap.error)


def test_the_error_at_dataset_level_is_what_redrawn_documents_show():
    """Equal judges on 150 documents of two outputs: the true spread beside the mean error."""
    rng = np.random.default_rng(0)
    values, errors = [], []
    for _ in range(150):
        quality = rng.normal(size=(150, 2)) + rng.normal(size=(150, 1))
        those = items([[float(x) for x in np.clip(np.round(3 + row), 1, 5)] for row in quality])
        one, other = (quality.ravel() + 1.2 * rng.normal(size=300) for _ in range(2))
        gap = contrast(one, np.round(other), those, "dataset")
        values.append(gap.value)
        errors.append(gap.error)
    # A standard deviation of 150 draws has an error of 1 / sqrt(300) = 6 %.
    assert np.std(values) / np.mean(errors) == pytest.approx(1, abs=0.18)


def test_what_a_document_adds_at_dataset_level_is_what_doubling_it_would_add():
    """The infinitesimal jackknife is the derivative of rho by a document's weight.

    Weighted rho is taken from its definition: mid-ranks among weighted outputs.
    """
    rng = np.random.default_rng(1)
    judge, human = rng.integers(1, 5, 30).astype(float), rng.integers(1, 4, 30).astype(float)

    def weighted_rho(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        def places(side: np.ndarray[tuple[int], np.dtype[np.float64]]) -> list[float]:
            return [float(weights[side < x].sum() + weights[side == x].sum() / 2) for x in side]

        x, y = np.array(places(judge)), np.array(places(human))
        x, y = x - np.average(x, weights=weights), y - np.average(y, weights=weights)
        w = weights
        return float((w * x * y).sum() / np.sqrt((w * x * x).sum() * (w * y * y).sum()))

    whole = weighted_rho(np.ones(30))
    assert whole == pytest.approx(spearmanr(judge, human).statistic)
    those = items([[float(value)] for value in human])
    # A judge without a rho, so that the contrast is the first judge's terms alone.
    gap = contrast(judge, np.zeros(30), those, "dataset")
    step = 1e-6
    terms = []
    for row in range(30):
        weights = np.ones(30)
        weights[row] += step
        terms.append(whole + 30 * (weighted_rho(weights) - whole) / step)
    assert gap.value == pytest.approx(whole)
    assert gap.error == pytest.approx(np.std(terms, ddof=1) / np.sqrt(30), rel=1e-4)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_dataset_level_objective_is_scipys(seed):
    rng = np.random.default_rng(seed)
    those = items([[float(rng.integers(1, 6))] for _ in range(40)])
    scores = rng.integers(1, 6, 40).astype(float)
    expected = spearmanr(scores, those.human).statistic
    assert objective(scores, those, "dataset") == pytest.approx(expected)


def test_the_level_follows_the_outputs_a_document_has():
    assert choose_level(items([[1, 2, 3], [1, 2, 3]])) == "summary"
    assert choose_level(items([[1], [2], [3]])) == "dataset"
    assert choose_level(items([[1, 2], [1, 2, 3]])) == "dataset"


def test_the_level_is_not_within_documents_where_people_tie_on_most_of_them():
    tied = [[1.0, 1, 1]] * 21
    varied = [[2.0, 1, 1]] * 10
    assert choose_level(items([*tied, *varied])) == "dataset"
    assert choose_level(items([*tied[:9], *varied])) == "summary"
    # Of pass and fail all outputs are one set, however they stand in documents.
    assert choose_level(items([[0.0, 1, 1]] * 10)) == "dataset"


def test_two_documents_suffice_for_an_error_at_system_level():
    those = items([[1, 2, 3, 4], [2, 1, 4, 3]])
    one, other = np.array([1.0, 2, 3, 4, 1, 3, 2, 4]), np.array([4.0, 3, 2, 1, 1, 2, 3, 4])
    assert 0 < contrast(one, other, those, "system").error < np.inf
    alone = contrast(one[:4], other[:4], items([[1, 2, 3, 4]]), "system")
    assert alone.error == np.inf
