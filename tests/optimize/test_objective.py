"""The set-level objective and what each document adds to it."""

import numpy as np
import pytest
from rating_files import rated_items

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
