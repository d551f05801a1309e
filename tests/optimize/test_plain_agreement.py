"""Agreement by hand: pairs, points on the scale, annotators, and a judge beside annotators."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from optimize.statistics.human import (
    annotator_agreement,
    krippendorff_alpha,
    one_annotator,
    reliability,
)
from optimize.statistics.plain_agreement import (
    compare_scales,
    contrast_pair_accuracy,
    nearest_ratings,
    pairwise_accuracy,
    preference_accuracy,
)
from optimize.statistics.rows import scored_rows

NAN = math.nan


def test_preference_accuracy_counts_a_judges_ties_half():
    # Five pairs: agreed, opposed, the judge's tie (.5), people's tie (undecided), a failed one.
    judge, human = [1, -0.5, 0, 1, NAN], [0.4, 1, -1, 0, 1]
    result = preference_accuracy(scored_rows(judge, human, [*"abcde"]))
    assert (result.value, result.interval) == (pytest.approx((1 + 0 + 0.5) / 3), None)
    assert (result.n_pairs, result.n_ties, result.n_documents) == (3, 1, 3)
    # The other judge is right on all three: half a point from each opposed pair, a tie's from one.
    assert contrast_pair_accuracy(judge, human, human, [*"abcde"]).value == pytest.approx(-1.5 / 3)
    nothing = preference_accuracy(scored_rows([1], [0], ["a"]))
    assert (math.isnan(nothing.value), nothing.interval) == (True, None)


def test_the_interval_of_a_share_is_that_of_a_correlation():
    # 12 of 15 pairs right: D = 2 * .8 - 1 = .6, each pair adds 2 or 0 less 1.6 to it, and the error
    # of Fisher's z is sd / sqrt(15) / (1 - .36).
    right = [1.0] * 12 + [-1.0] * 3
    result = preference_accuracy(scored_rows(right, np.ones(15)))
    reach = stats.t.ppf(0.975, 14) * np.std([1.0] * 12 + [-1.0] * 3, ddof=1) / 15**0.5 / 0.64
    ends = (1 + np.tanh(np.arctanh(0.6) + np.array([-reach, reach]))) / 2
    assert (result.interval.low, result.interval.high) == pytest.approx(tuple(ends))


def test_pairwise_accuracy_counts_ties_half():
    # Document a: people order 3 pairs; the judge has 1 < 2 right, 1 < 3 right, 2 < 3 as a tie.
    # Document b: people rate both alike, which is no pair. So 2.5 of 3. A failed score: no pair.
    agreement = pairwise_accuracy(
        scored_rows([1, 2, 2, 5, 1, NAN], [1, 2, 3, 4, 4, 5], [*"aaabba"])
    )
    assert agreement.value == pytest.approx(2.5 / 3)
    assert (agreement.n_pairs, agreement.n_ties, agreement.n_documents) == (3, 1, 1)
    assert agreement.interval is None
    assert math.isnan(pairwise_accuracy(scored_rows([NAN, NAN], [1, 2], ["a", "a"])).value)
    # Few labels differ.
    scores = np.random.default_rng(0).normal(size=60)
    assert (
        pairwise_accuracy(scored_rows(scores, np.arange(60) < 5), level="dataset").interval is None
    )


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=30))
@example([(1, 2), (2, 1), (2, 3), (3, 2)])
def test_pairwise_accuracy_is_somers_d_mapped_to_the_unit_interval(rows):
    judge, human = np.array(rows, float).T
    agreement = pairwise_accuracy(scored_rows(judge, human), level="dataset")
    if np.ptp(human) == 0:
        assert math.isnan(agreement.value)
        return
    # scipy takes the independent variable, whose ties are left out, first; it refuses a constant,
    # and warns where the p-value that it gives beside is 0 / 0.
    with np.errstate(invalid="ignore"):
        somers = stats.somersd(human, judge).statistic if np.ptp(judge) else 0.0
    assert agreement.value == pytest.approx((1 + somers) / 2)


def test_a_judge_with_lower_scores_is_shifted():
    rng = np.random.default_rng(0)
    human, documents = rng.normal(3, 1, 200), np.arange(200) // 4
    like, low = (
        compare_scales(
            scored_rows(np.append(side, NAN), np.append(human, 3), np.append(documents, 0))
        )
        for side in (human + rng.normal(0, 0.1, 200), human - 0.65)
    )
    assert (like.is_shifted, low.is_shifted) == (False, True)
    assert low.shift == pytest.approx(low.judge_mean - low.human_mean) == pytest.approx(-0.65)
    assert (low.n_outputs, low.n_documents) == (200, 50)
    assert compare_scales(scored_rows([NAN], [1])) is None


def test_scores_are_rounded_to_the_nearest_rating_of_any_scale():
    assert nearest_ratings([0.2, 1.5, 2.4, 99], (1, 2, 3)).tolist() == [1, 2, 2, 3]
    assert nearest_ratings([20, 30, 76], (0, 50, 100)).tolist() == [0, 50, 100]
    assert np.isnan(nearest_ratings([NAN], (1, 2)))


# Annotators beside each other, and the judge beside them.
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
