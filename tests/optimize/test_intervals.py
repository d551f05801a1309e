"""Intervals cover what they promise, and are withheld where they would not."""

import runpy
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from optimize.statistics.contrasts import contrast_judges
from optimize.statistics.correlations import dataset_level, summary_level, system_level
from optimize.statistics.intervals import interval_of_mean


@pytest.fixture(scope="module")
def worlds():
    """The module benchmarks/interval_coverage.py, which checks all intervals by simulation."""
    folder = Path(__file__).parents[2] / "benchmarks"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield runpy.run_path(str(folder / "interval_coverage.py"))


@pytest.mark.parametrize(
    ("world", "cuts", "number", "size", "many"),
    [
        ("document_figures", ["EVEN"], [4], 20, 1500),
        ("pair_figures", ["EVEN"], [], 30, 4000),
        ("system_figures", [], [100], 20, 1000),
        ("difference_figures", ["EVEN"], [3], 60, 20_000),
        ("difference_figures", ["MOST_PASS"], [1], 30, 20_000),
        ("verdict_figures", ["MOST_PASS"], [4], 60, 100_000),
        ("verdict_figures", ["MOST_PASS"], [1], 120, 100_000),
    ],
)
def test_intervals_of_95_percent_cover_the_truth_as_often(world, cuts, number, size, many, worlds):
    figures = partial(worlds[world], *(worlds[name] for name in cuts), *number)
    truth = figures(np.random.default_rng(1), many)
    for name, hits in worlds["coverage_hits"](figures, truth, size, 200).items():
        # The claim is 93-97 %, and 200 hits have a standard deviation of 1.5 points.
        assert 0.93 - 0.045 <= np.mean(hits) <= 0.97 + 0.025, name


def test_the_interval_of_a_mean_is_students_t_interval():
    values = np.random.default_rng(0).normal(size=20)
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    interval = interval_of_mean(values)
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert interval_of_mean(np.append(values, np.nan)) == interval
    assert interval_of_mean(values[:14]) is None


def test_the_interval_over_15_systems_or_more_is_bonett_and_wrights():
    judge, human = np.arange(16.0), np.arange(16.0)
    human[::2], human[1::2] = human[1::2].copy(), human[::2].copy()
    result = system_level(judge, human, range(16))
    # 16 squared differences of 1: rho = 1 - 6 * 16 / (16 * 255).
    assert result.value == pytest.approx(1 - 6 / 255)
    reach = 1.959964 * np.sqrt((1 + result.value**2 / 2) / 13)
    assert result.interval.low == pytest.approx(np.tanh(np.arctanh(result.value) - reach))
    assert system_level(judge[:14], human[:14], range(14)).interval is None


def test_intervals_are_withheld_if_they_would_not_cover():
    human, noise = np.random.default_rng(2).normal(size=(2, 240)).round(1)
    judge, document = human + noise, np.arange(240) // 4
    few = document < 14
    for level in (dataset_level, summary_level):
        assert level(judge, human, document).interval is not None
        assert level(judge[few], human[few], document[few]).interval is None
        # Of a perfect judge, and of one that is 0 by convention, nothing is known of others.
        for extreme in (human, 0 * human):
            assert level(extreme, human, document).interval is None
    assert dataset_level(judge, human, document, coefficient="kendall").interval is None
    # Of 60 outputs 46 pass: fourteen say what rho is.
    scores, passes = noise[:60], np.arange(60) >= 14
    assert dataset_level(scores, passes).interval is None
    assert contrast_judges(scores, -scores, passes, range(60), level="dataset").interval is None
    assert dataset_level(scores, np.arange(60) >= 15).interval is not None
