"""The three levels equal scipy's, on ragged, tied and missing data; two judges are compared."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from optimize.statistics.coefficients import COEFFICIENTS
from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import (
    Level,
    correlation,
    dataset_level,
    summary_level,
    system_level,
)
from optimize.statistics.intervals import Vector

SHARED = Path(__file__).parents[3] / "shared" / "data"
LEVELS: tuple[Level, ...] = ("summary", "dataset", "system")
REFERENCE: dict[str, Callable[[Vector, Vector], float]] = {
    "spearman": lambda x, y: float(stats.spearmanr(x, y).statistic),
    "pearson": lambda x, y: float(stats.pearsonr(x, y).statistic),
    "kendall": lambda x, y: float(stats.kendalltau(x, y).statistic),
}


class Outputs(NamedTuple):
    judge: Vector
    human: Vector
    document: Vector
    system: Vector


def random_rows(seed: int, documents: int = 25) -> Outputs:
    """Documents of 1 to 9 outputs in any order, many ties, some failed judgements."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 10, documents)
    document = np.repeat(np.arange(documents), sizes)
    system = np.concatenate([rng.permutation(9)[:size] for size in sizes])
    human = rng.integers(1, 6, document.size).astype(float)
    judge = np.round(human + rng.normal(0, 1.5, document.size), int(seed % 2))
    judge[rng.random(document.size) < 0.1] = np.nan
    order = rng.permutation(document.size)
    return Outputs(judge[order], human[order], document[order], system[order])


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("seed", range(4))
def test_every_level_equals_scipy_on_ragged_tied_and_missing_data(seed, coefficient):
    rows = random_rows(seed)
    usable = ~np.isnan(rows.judge)
    x, y, system = rows.judge[usable], rows.human[usable], rows.system[usable]
    reference = REFERENCE[coefficient]

    over_all = dataset_level(rows.judge, rows.human, coefficient=coefficient)
    assert over_all.value == pytest.approx(reference(x, y), abs=1e-12)
    assert over_all.n_failed == int((~usable).sum())

    values = []
    for document in np.unique(rows.document[usable]):
        sides = x[rows.document[usable] == document], y[rows.document[usable] == document]
        is_defined = min(np.ptp(side) for side in sides) > 0
        values.append(reference(*sides) if is_defined else math.nan)
    inside = summary_level(*rows[:3], coefficient=coefficient, undefined="left_out")
    assert inside.value == pytest.approx(np.nanmean(values), abs=1e-12)
    assert inside.n_documents == int((~np.isnan(values)).sum())
    assert inside.n_undefined == 25 - inside.n_documents

    means = [np.array([side[system == s].mean() for s in np.unique(system)]) for side in (x, y)]
    across = system_level(rows.judge, rows.human, rows.system, coefficient=coefficient)
    # Means are rounded, lest the order of a sum break a tie.
    assert across.value == pytest.approx(reference(*means), abs=1e-9)


def test_undefined_documents_are_always_counted() -> None:
    # Document 1: rho 1. Document 2: the judge sees no difference. 3: people see none. 4: neither
    # does. 5: one output. 6: one of two outputs failed. 7: both failed.
    seven = (
        [1, 2, 5, 5, 1, 2, 3, 3, 4, 2, math.nan, math.nan, math.nan],
        [2, 3, 1, 2, 4, 4, 5, 5, 1, 1, 2, 1, 2],
        [1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7, 7],
    )
    # Only document 1; 1 and 2. Documents 5 to 7 are missing, whatever the convention.
    for undefined, value, n_zero in (("left_out", 1, 0), ("judge_zero", 1 / 2, 1)):
        one = summary_level(*seven, undefined=undefined)
        assert one.value == pytest.approx(value)
        assert (one.n_documents, one.n_undefined) == (1 + n_zero, 6)
        assert (one.n_zero, one.n_failed) == (n_zero, 3)


@pytest.mark.parametrize(
    ("judge", "human", "expected"),
    [
        ([2] * 3, [1, 2, 3], 0),
        ([1, 2, 3], [4] * 3, math.nan),
        ([math.nan] * 3, [1, 2, 3], math.nan),
    ],
)
@pytest.mark.parametrize("level", LEVELS)
def test_constant_ratings_have_no_rho_and_constant_scores_count_0(level, judge, human, expected):
    for undefined, value in (("left_out", math.nan), ("judge_zero", expected)):
        one = correlation(level, judge, human, [1, 1, 1], [1, 2, 3], undefined=undefined)
        assert one.value == pytest.approx(value, nan_ok=True)
        assert one.interval is None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"document": [1]}, r"judge and document .* \(2,\) and \(1,\)"),
        ({"weight": [1]}, "judge and weight must be vectors of one length"),
        ({"human": [1, math.nan]}, r"human\[1\] is nan"),
        ({"judge": [math.inf, 2]}, r"judge\[0\] is inf"),
        ({"level": "system"}, "each output's system"),
        ({"level": "sumary"}, "level 'sumary': it must be one of summary, dataset, system"),
        ({"coefficient": "r"}, "coefficient 'r': it must be one of spearman, kendall, pearson"),
        ({"undefined": "out"}, "undefined 'out': it must be one of judge_zero, left_out"),
        (
            {"level": "dataset", "coefficient": "kendall", "weight": [1, 2]},
            "kendall over all outputs has no weighted form",
        ),
    ],
)
def test_the_error_on_an_invalid_argument_names_it(changes, reason):
    arguments = {"level": "summary", "judge": [1, 2], "human": [1, 2], "document": [1, 1]}
    with pytest.raises(ValueError, match=reason):
        correlation(**arguments | changes)


def test_rounding_errors_of_sums_break_no_ties() -> None:
    # 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit; the systems' means are equal.
    human = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.5, 0.5, 0.5]
    judge = [1, 1, 1, 1, 1, 1, 2, 2, 2]
    assert system_level(judge, human, [1, 1, 1, 2, 2, 2, 3, 3, 3]).value == pytest.approx(1)


@pytest.mark.parametrize("level", LEVELS)
def test_a_contrast_is_the_difference_on_common_outputs(level):
    rows = random_rows(4, documents=60)
    other = np.round(rows.human + np.random.default_rng(0).normal(0, 3, rows.human.size))
    there = contrast_judges(rows.judge, other, *rows[1:], level=level)
    back = contrast_judges(other, rows.judge, *rows[1:], level=level)
    common = np.where(np.isnan(rows.judge), math.nan, other)
    values = [correlation(level, side, *rows[1:]).value for side in (rows.judge, common)]
    assert there.value == pytest.approx(values[0] - values[1], abs=1e-12)
    n = len(there.documents)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], (50, n))
    assert there.swapped(signs) == pytest.approx(back.swapped(-signs), abs=1e-9)
    # Unswapped it is the difference itself.
    assert there.swapped(np.ones((1, n)))[0] == pytest.approx(there.value)
    if level != "system":
        assert there.interval.low == pytest.approx(-back.interval.high)


@pytest.mark.parametrize("level", LEVELS)
def test_equal_ratings_leave_no_documents_in_a_contrast(level):
    sides = [1, 2, 3], [3, 2, 1], [4, 4, 4], [1, 1, 2], [1, 2, 1]
    nothing = contrast_judges(*sides, level=level)
    assert math.isnan(nothing.value)
    assert (nothing.documents, nothing.error) == ((), math.inf)
    rows = random_rows(4, documents=60)
    gap = contrast_judges(rows.judge, np.full(rows.judge.size, 2.1), *rows[1:], level=level)
    assert gap.value == pytest.approx(correlation(level, *rows).value)


@pytest.mark.skipif(not SHARED.exists(), reason="needs ../shared/data")
@pytest.mark.parametrize(
    ("judge", "figure_by_dimension"),
    [
        ("gpt-4o-mini", {"coherence": 0.484, "relevance": 0.450}),
        ("mistral-7b-v0.3", {"coherence": 0.201, "consistency": 0.137, "relevance": 0.187}),
    ],
)
def test_recorded_scores_reach_their_published_figures(judge, figure_by_dimension):
    scores = pd.read_json(SHARED / "summeval_scores" / f"scores_{judge}.jsonl", lines=True)
    labels = pd.read_json(SHARED / "summeval" / "summeval.jsonl", lines=True)
    rows = scores.merge(labels[["id", "group", "ratings"]], on="id")
    for dimension, figure in figure_by_dimension.items():
        rated = rows[rows["dimension"] == dimension]
        vectors = rated["score"], rated["ratings"].str[dimension], rated["group"]
        left_out = summary_level(*vectors, undefined="left_out")
        assert left_out.value == pytest.approx(figure, abs=0.0006), dimension
        if dimension == "consistency":
            # .044 over all 100 documents. 68 have no rho; 4 of these are constant for people.
            primary = summary_level(*vectors)
            assert primary.value == pytest.approx(0.044 * 100 / 96, abs=0.0006)
            assert (primary.n_undefined, primary.n_documents) == (68, 96)
