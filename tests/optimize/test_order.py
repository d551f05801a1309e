"""How often two outputs are ordered as people order them, and means and spreads side by side."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from optimize.statistics.accuracy import (
    order_agreement,
    order_agreement_of_people,
    order_agreement_of_votes,
    pair_accuracy,
)
from optimize.statistics.scale import compare_scales
from scipy import stats

NAN = math.nan


def test_pairs_are_of_one_document_and_a_tie_is_half_right() -> None:
    # Document a: people order 3 pairs; the judge has 1 < 2 right, 1 < 3 right, 2 < 3 as a tie.
    # Document b: people rate both alike, which is no pair. So 2.5 of 3.
    agreement = order_agreement([1, 2, 2, 5, 1], [1, 2, 3, 4, 4], list("aaabb"))
    assert agreement.value == pytest.approx(2.5 / 3)
    counts = (agreement.n_pairs, agreement.n_ties, agreement.n_tied_by_people)
    assert counts == (3, 1, 1)
    assert (agreement.n_documents, agreement.interval) == (1, None)


@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=30),
)
@example([(1, 2), (2, 1), (2, 3), (3, 2)])
def test_it_is_somers_d_given_people_moved_to_the_unit_interval(
    rows: list[tuple[int, int]],
) -> None:
    judge, human = np.array(rows, float).T
    agreement = order_agreement(judge, human, range(len(rows)), level="dataset")
    if np.ptp(human) == 0:
        assert math.isnan(agreement.value)
        return
    # scipy takes the independent variable, whose ties are left out, first; it refuses a constant,
    # and warns where the p-value that it gives beside is 0 / 0.
    with np.errstate(invalid="ignore"):
        somers = stats.somersd(human, judge).statistic if np.ptp(judge) else 0.0
    assert agreement.value == pytest.approx((1 + somers) / 2)
    assert order_agreement(-judge, human, range(len(rows))).value == pytest.approx(
        1 - agreement.value
    )


def test_a_failed_score_makes_no_pair() -> None:
    with_failure = order_agreement([1, NAN, 2], [1, 5, 2], ["a"] * 3)
    assert with_failure == order_agreement([1, 2], [1, 2], ["a"] * 2)
    nothing = order_agreement([NAN, NAN], [1, 2], ["a", "a"])
    assert math.isnan(nothing.value)
    assert (nothing.interval, nothing.n_pairs) == (None, 0)


def test_of_pairs_with_one_document_each_it_is_their_accuracy() -> None:
    # A pair as two outputs of one document: margins 1 and -1 are scores (1, 0) and (0, 1).
    margins, human = [1, -1, 0, 1, 1], [1, 1, -1, -1, 1]
    judge = [score for margin in margins for score in ((margin + 1) / 2, (1 - margin) / 2)]
    people = [score for margin in human for score in ((margin + 1) / 2, (1 - margin) / 2)]
    documents = np.repeat(np.arange(5), 2)
    ordered, accurate = (
        order_agreement(judge, people, documents),
        pair_accuracy(margins, human, range(5)),
    )
    assert (ordered.value, ordered.n_pairs) == (accurate.value, accurate.n_decided)


def test_two_people_are_compared_one_against_another() -> None:
    # One document. Ann orders 1 < 2 = 2, Bob 1 < 2 < 3.
    # Against Ann (2 pairs): Bob has both right. Against Bob (3 pairs): Ann has 2, and a tie, 2.5.
    # The judge orders 1 < 3 < 2: against Ann 2 of 2, against Bob 2 of 3.
    people, judged = order_agreement_of_people(
        [1, 3, 2], [[1, 1], [2, 2], [2, 3]], ["a"] * 3, level="summary"
    )
    assert people.value == pytest.approx(4.5 / 5)
    assert judged.value == pytest.approx(4 / 5)
    assert (people.n_pairs, people.n_ties, judged.n_ties) == (5, 1, 0)


def test_two_votes_on_a_pair_are_compared_one_against_another() -> None:
    # Votes A A B: of six comparisons with another vote, A and A agree twice. The judge says A, and
    # is right against each A, by two others each: 4 of 6. Votes A tie: the tie, against A, is half
    # right; nobody is held against the tie. One vote, or a failed judge: nothing.
    votes = [[1, 1, -1], [1, 0], [1], [1, 1]]
    people, judged = order_agreement_of_votes([0.5, -1, 1, NAN], votes, list("abcd"))
    assert (people.value, judged.value) == (pytest.approx(2.5 / 7), pytest.approx(4 / 7))
    assert (people.n_pairs, people.n_ties, people.n_documents) == (7, 1, 2)
    brute = [(i, k) for i in range(3) for k in range(3) if i != k]
    alike = sum(votes[0][i] == votes[0][k] for i, k in brute)
    only_first, _ = order_agreement_of_votes([1], votes[:1], ["a"])
    assert only_first.value == pytest.approx(alike / len(brute))


def test_annotators_who_share_no_output_say_nothing_of_each_other() -> None:
    people, judged = order_agreement_of_people(
        [1, 2, 3, 4], [[1, NAN], [2, NAN], [NAN, 1], [NAN, 2]], ["a"] * 4
    )
    assert math.isnan(people.value)
    assert math.isnan(judged.value)
    assert people.n_pairs == 0


@pytest.mark.parametrize(("level", "per_document"), [("summary", 5), ("dataset", 1)])
def test_the_interval_holds_the_true_share_in_95_of_100(level: str, per_document: int) -> None:
    """Documents are drawn; the truth is the share of a great many of them.

    Of 400 intervals 95 % hold it within 4 standard errors, .044: between .90 and .99.
    """

    def draw(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        documents = np.repeat(np.arange(n), per_document)
        human = rng.normal(size=documents.size) + rng.normal(size=n)[documents]
        quality = rng.uniform(0.2, 1.2, n)[documents]
        return quality * human + rng.normal(size=human.size), np.round(human), documents

    many = order_agreement(*draw(np.random.default_rng(1), 3000), level=level)
    held = 0
    for seed in range(400):
        agreement = order_agreement(*draw(np.random.default_rng((2, seed)), 30), level=level)
        assert agreement.interval is not None
        held += many.value in agreement.interval
    assert 0.90 <= held / 400 <= 0.99


def test_means_and_spreads_are_compared_on_the_same_outputs() -> None:
    # Gaps -1, 0, -2, -1 by document: mean -1, SE sqrt(sum (gap + 1)^2 * 4 / 3) / 4 = .408.
    comparison = compare_scales([1, 2, 1, 2, NAN], [2, 2, 3, 3, 5], range(5))
    assert (comparison.judge_mean, comparison.human_mean, comparison.shift) == (1.5, 2.5, -1.0)
    reach = stats.t.ppf(0.975, 3) * np.sqrt(2 * 4 / 3) / 4
    assert comparison.shift_interval is not None
    assert comparison.shift_interval.low == pytest.approx(-1 - reach)
    # Both sides have two values, half each, one apart: a standard deviation of a half.
    assert comparison.spread == pytest.approx(1.0)
    assert (comparison.n_outputs, comparison.n_documents) == (4, 4)
    # Between -2.3 and .3: no warning on four documents.
    assert not comparison.is_shifted


def test_a_judge_that_is_mean_or_timid_is_noticed_and_a_like_one_is_not() -> None:
    rng = np.random.default_rng(0)
    human = rng.normal(3, 1, 200)
    documents = np.arange(200) // 4
    like = compare_scales(human + rng.normal(0, 0.1, 200), human, documents)
    assert not like.is_shifted
    assert not like.is_spread_differently
    low = compare_scales(human - 0.65, human, documents)
    assert low.is_shifted
    assert not low.is_spread_differently
    timid = compare_scales(human.mean() + 0.5 * (human - human.mean()), human, documents)
    assert timid.spread == pytest.approx(0.5)
    assert timid.is_spread_differently
    assert not timid.is_shifted


@pytest.mark.parametrize(
    ("judge", "human"), [([], []), ([NAN], [1]), ([1], [2]), ([2, 2], [1, 3]), ([1, 3], [2, 2])]
)
def test_where_a_side_is_constant_or_empty_there_is_no_ratio(
    judge: list[float], human: list[float]
) -> None:
    comparison = compare_scales(judge, human)
    assert math.isnan(comparison.spread)
    assert comparison.spread_interval is None
    assert not comparison.is_spread_differently
