"""Annotators beside each other and the judge beside them: agreement, one annotator, reliability."""

import math

import numpy as np
import pytest
from scipy import stats

from optimize.statistics.human import (
    annotator_agreement,
    krippendorff_alpha,
    one_annotator,
    reliability,
)

NAN = math.nan


def test_agreement_of_two_annotators_equals_hand_derived_values() -> None:
    # Equal on 2 of 4 outputs. Square gaps 0, 0, 1, 1 average 1/2; strangers' 5/4 + 1/4 + 0; kappa
    # 1 - (1/2) / (6/4). Ranks 1 2 3 4 and 1.5 1.5 3.5 3.5. The judge's 1.2 is the nearest label 1.
    ratings, scores = [[1, 2], [2, 2], [3, 3], [4, 3], [5, NAN]], [1.2, NAN, 3, 3, 3]
    judge, _, people_alone = annotator_agreement(ratings, judge=scores, scale=range(1, 6))
    assert (people_alone.first, people_alone.second, people_alone.n_outputs) == (0, 1, 4)
    expected = stats.spearmanr([1, 2, 3, 4], [2, 2, 3, 3]).statistic
    figures = people_alone.equal, people_alone.kappa, people_alone.rho
    assert figures == pytest.approx((2 / 4, 1 - (1 / 2) / (6 / 4), expected))
    assert (judge.first, judge.second, judge.equal, judge.n_outputs) == (None, 0, 2 / 4, 4)


def test_annotators_who_share_no_output_are_not_compared():
    assert annotator_agreement([[1, NAN], [2, NAN], [NAN, 1], [NAN, 2]]) == ()
    assert one_annotator([1, 2], [[1, NAN], [NAN, 2]]) is None
    with pytest.raises(ValueError, match=r"shape \(2, 2\) for 3 outputs"):
        annotator_agreement([[1, 2], [2, 1]], [1, 1, 2])


def test_people_and_judge_are_measured_on_the_same_documents() -> None:
    # Annotator 0 rates document 1 alike, the others do not: 0 for the annotator, a rho of 1 for the
    # judge. The others rate document 2 alike: nothing for either. Annotators 1 and 2 against the
    # means of the others: 1 in documents 0 and 1; document 2 is told apart, which they do not.
    marks = np.array([[1, 1, 1], [2, 2, 2], [3, 1, 1], [3, 2, 2], [1, 2, 2], [2, 2, 2]], float)
    result = one_annotator([1, 2, 1, 2, 1, 2], marks, [0, 0, 1, 1, 2, 2])
    assert result.annotator.value == pytest.approx((1 / 2 + 2 / 3 + 2 / 3) / 3)
    assert result.judge.value == pytest.approx(1)
    assert result.gap.interval is None


def test_reliability_is_by_spearman_brown_and_its_root_bounds_rho():
    rng = np.random.default_rng(2)
    quality = rng.normal(size=20_000)
    ratings = quality[:, None] + rng.normal(size=(quality.size, 4))
    # Variances of 1 and 1: r = 1/2, of four 4 r / (1 + 3 r) = .8. Spearman's rho of normal r is
    # 6/pi asin(r/2): .483, so .789; half a label less for half of the outputs.
    assert reliability(ratings) == pytest.approx(0.789, abs=0.01)
    perfect = stats.spearmanr(quality, ratings.mean(axis=1)).statistic
    assert perfect == pytest.approx(reliability(ratings) ** 0.5, abs=0.01)
    ratings[:10_000, 2:] = NAN
    # The harmonic mean of 2 and 4 labels is 2.67.
    assert reliability(ratings) == pytest.approx(2.67 * 0.483 / (1 + 1.67 * 0.483), abs=0.01)
    assert math.isnan(reliability([[1, NAN], [NAN, 2]]))


def test_alpha_equals_krippendorffs_published_example() -> None:
    # Krippendorff (2011), "Computing Krippendorff's alpha-reliability", part C: four observers,
    # twelve units, missing data: interval .849.
    marks = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
    assert krippendorff_alpha(np.transpose(marks)) == pytest.approx(0.849, abs=0.0005)
    assert math.isnan(krippendorff_alpha([[1, NAN], [NAN, 2]]))
    assert math.isnan(krippendorff_alpha([[3, 3], [3, 3]]))
