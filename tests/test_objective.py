"""The set-level objective and what each document adds to it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from optimize.search.items import Item, Items
from optimize.search.objective import (
    LEVELS,
    choose_level,
    document_terms,
    objective,
    placement_terms,
)


def items(human: list[list[float]]) -> Items:
    """One document a list, one system a place."""
    return Items(
        tuple(
            Item(id=f"{d}-{s}", document_id=f"d{d}", system=f"s{s}", texts={}, human=value)
            for d, values in enumerate(human)
            for s, value in enumerate(values)
        )
    )


def test_at_summary_level_a_document_adds_its_own_rho() -> None:
    # Document 0 in order, document 1 reversed.
    those = items([[1, 2, 3], [1, 2, 3]])
    terms = document_terms(np.array([1.0, 2, 3, 3, 2, 1]), those, "summary")
    assert terms == pytest.approx([1, -1])


def test_a_document_that_people_rate_alike_is_left_out() -> None:
    those = items([[2, 2, 2], [1, 2, 3]])
    scores = np.array([1.0, 2, 3, 1, 2, 3])
    assert np.isnan(document_terms(scores, those, "summary")[0])
    assert objective(scores, those, "summary") == pytest.approx(1)


def test_a_judge_that_says_the_same_of_all_earns_nothing() -> None:
    assert objective(np.array([4.0, 4, 4]), items([[1, 2, 3]]), "summary") == 0


def test_failing_earns_less_than_judging() -> None:
    # Two of three judged, in order: rho 1 among them, times 2/3.
    assert objective(np.array([1.0, 2, np.nan]), items([[1, 2, 3]]), "summary") == pytest.approx(
        2 / 3
    )


@pytest.mark.parametrize("level", LEVELS)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_mean_over_documents_is_the_objective(level: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    those = items([[float(value) for value in rng.integers(1, 6, 5)] for _ in range(9)])
    scores = rng.normal(size=len(those))
    assert level in LEVELS
    terms = document_terms(scores, those, level)
    assert np.nanmean(terms) == pytest.approx(objective(scores, those, level), nan_ok=True)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_the_dataset_level_objective_is_scipys(seed: int) -> None:
    rng = np.random.default_rng(seed)
    those = items([[float(rng.integers(1, 6))] for _ in range(40)])
    scores = rng.integers(1, 6, 40).astype(float)
    expected = spearmanr(scores, those.human).statistic
    assert objective(scores, those, "dataset") == pytest.approx(expected)


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_placing_all_systems_is_rho(seed: int) -> None:
    rng = np.random.default_rng(seed)
    those = items([[1.0, 2, 3, 4, 4], [1.0, 3, 2, 5, 4]])
    scores = rng.normal(size=10)
    placed = placement_terms(
        scores, those, dict.fromkeys(those.documents, frozenset(those.systems)), "summary"
    )
    assert placed == pytest.approx(document_terms(scores, those, "summary"))


def test_placing_some_systems_looks_at_their_outputs_only() -> None:
    those = items([[1, 2, 3, 4]])
    # The first two are swapped, the others stand where people have them.
    placed = placement_terms(
        np.array([2.0, 1, 3, 4]),
        those,
        dict.fromkeys(those.documents, frozenset({"s2", "s3"})),
        "summary",
    )
    assert placed == pytest.approx([1])


def test_the_level_follows_the_outputs_a_document_has() -> None:
    assert choose_level(items([[1, 2, 3], [1, 2, 3]])) == "summary"
    assert choose_level(items([[1], [2], [3]])) == "dataset"
    assert choose_level(items([[1, 2], [1, 2, 3]])) == "dataset"
