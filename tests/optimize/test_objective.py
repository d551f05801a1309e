"""The set-level objective and what each document adds to it."""

import numpy as np
import pytest
from rating_files import rated_items
from scipy.stats import spearmanr

from optimize.items import choose_level
from optimize.search.problem import contrast, objective

LEVELS = ("summary", "dataset", "system")


def test_a_document_counts_0_if_only_the_judge_ties_it_and_is_left_out_if_people_do():
    those, scores = rated_items([[2, 2, 2], [1, 2, 3]]), np.array([1.0, 2, 3, 1, 2, 3])
    assert objective(scores, those, "summary") == pytest.approx(1)
    assert contrast(scores, -scores, those, "summary").documents == ("d001",)
    for level in LEVELS:
        assert objective(np.array([4.0, 4, 4]), rated_items([[1, 2, 3]]), level) == 0


def test_failed_outputs_are_missing_and_failing_never_helps_a_candidate():
    those = rated_items([[1, 2, 3, 4]])
    seed, candidate = np.array([1.0, 2, 4, 3]), np.array([1.0, 2, np.nan, 3])
    # In order among the three that it judged; the seed, too, among those.
    assert objective(candidate, those, "summary") == pytest.approx(1)
    assert contrast(candidate, seed, those, "summary").value == pytest.approx(0)


def test_a_documents_dataset_level_term_is_the_derivative_of_rho_by_its_weight():
    """The infinitesimal jackknife is the derivative of rho by a document's weight.

    Weighted rho is taken from its definition: mid-ranks among weighted outputs.
    """
    rng = np.random.default_rng(1)
    judge, human = rng.integers(1, 5, 30).astype(float), rng.integers(1, 4, 30).astype(float)

    def weighted_rho(w):
        def places(side):
            ranks = np.array([w[side < x].sum() + w[side == x].sum() / 2 for x in side])
            return ranks - np.average(ranks, weights=w)

        x, y = places(judge), places(human)
        return (w * x * y).sum() / np.sqrt((w * x * x).sum() * (w * y * y).sum())

    whole = weighted_rho(np.ones(30))
    assert whole == pytest.approx(spearmanr(judge, human).statistic)
    those = rated_items([[float(value)] for value in human])
    # A judge without a rho, so that the contrast is the first judge's terms alone.
    gap = contrast(judge, np.zeros(30), those, "dataset")
    step = 1e-6
    heavier = [np.ones(30) + step * row for row in np.eye(30)]
    terms = [whole + 30 * (weighted_rho(weights) - whole) / step for weights in heavier]
    assert gap.value == pytest.approx(whole)
    assert gap.error == pytest.approx(np.std(terms, ddof=1) / np.sqrt(30), rel=1e-4)


@pytest.mark.parametrize(
    ("human", "level"),
    [
        ([[1, 2, 3], [1, 2, 3]], "summary"),
        ([[1], [2], [3]], "dataset"),
        ([[1, 2], [1, 2, 3]], "dataset"),
        # People tie on most documents.
        ([[1, 1, 1]] * 21 + [[2, 1, 1]] * 10, "dataset"),
        ([[1, 1, 1]] * 9 + [[2, 1, 1]] * 10, "summary"),
        # Of pass and fail all outputs are one set, however they stand in documents.
        ([[0, 1, 1]] * 10, "dataset"),
    ],
)
def test_the_default_level_depends_on_outputs_per_document_and_ties(human, level):
    assert choose_level(rated_items(human)) == level
