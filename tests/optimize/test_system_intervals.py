"""At system level intervals hold what other systems on other documents would show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optimize.statistics.agreement import system_level
from optimize.statistics.bootstrap import Interval
from optimize.statistics.coefficients import Coefficient, correlate
from optimize.statistics.difference import paired_difference
from optimize.statistics.levels import read_rows
from optimize.statistics.systems import system_means
from scipy import stats
from simulated_systems import Rows, answers, systems, truth

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "pearson", "kendall")


def measured(
    rows: Rows, coefficient: Coefficient, rng: np.random.Generator, resamples: int = 2000
) -> tuple[Interval | None, Interval | None]:
    """Judge a's interval, and that of a minus b."""
    human, system, document = rows["human"], rows["system"], rows["document"]
    alone = system_level(
        rows["a"], human, system, document, coefficient=coefficient, rng=rng, resamples=resamples
    )
    gap = paired_difference(
        rows["a"],
        rows["b"],
        human,
        document,
        level="system",
        system=system,
        coefficient=coefficient,
        rng=rng,
        resamples=resamples,
    )
    return alone.interval, gap.interval


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
def test_95_percent_intervals_cover_95_percent_of_simulations(coefficient: Coefficient) -> None:
    # Of 200 simulations at 95 % the hits have a standard deviation of 1.5 points. The claim is
    # 93-97 % and benchmarks/coverage.py checks it over 1,000; two deviations are added here.
    rng = np.random.default_rng(7)
    a, b = truth(coefficient)
    hits = np.zeros(2)
    for _ in range(200):
        rows = answers(rng, systems(rng, 16), 60)
        alone, gap = measured(rows, coefficient, rng, resamples=300)
        assert alone is not None
        assert gap is not None
        hits += [a in alone, a - b in gap]
    for share in hits / 200:
        assert 0.93 - 0.03 <= share <= 0.97 + 0.03


def test_noise_of_few_documents_is_taken_from_the_ends() -> None:
    # Judge and people agree on 30 systems to the last digit but for noise of each output on either
    # side, in variance 25/4 of the systems': ten documents leave 5/8 of it, so the means have a
    # reliability of 8/13 and their r tends to .62. The truth is 1.
    rng = np.random.default_rng(2)
    system = np.tile(np.arange(30), 10)
    quality = rng.normal(0, 1, 30)[system]
    judge, human = (quality + rng.normal(0, 2.5, 300) for _ in range(2))
    result = system_level(
        judge, human, system, np.repeat(np.arange(10), 30), coefficient="pearson", rng=rng
    )
    assert result.value < 0.8
    assert result.interval is not None
    assert result.interval.high > 0.98


def test_kendalls_variance_is_that_of_simulated_normal_means() -> None:
    # With no noise of documents the interval of tau = 0 reaches 1.96 standard deviations of tau
    # among 8 independent systems, whose variance is 2 (2n + 5) / 9 n (n - 1) = 1/12 there. The
    # reach is solved for at its own end, where the variance is another: simulate that one.
    judge = np.repeat([1.0, 2, 3, 4, 5, 6, 7, 8], 2)
    human = np.repeat([4.0, 7, 1, 3, 8, 6, 2, 5], 2)
    assert stats.kendalltau(judge, human).statistic == 0
    interval = system_level(
        judge,
        human,
        np.repeat(np.arange(8), 2),
        np.tile([1, 2], 8),
        coefficient="kendall",
        rng=np.random.default_rng(0),
    ).interval
    assert interval is not None
    assert interval.low == pytest.approx(-interval.high)
    rng = np.random.default_rng(1)
    r = np.sin(np.pi * interval.high / 2)
    x = rng.normal(size=(20_000, 8))
    y = r * x + np.sqrt(1 - r * r) * rng.normal(size=x.shape)
    assert interval.high == pytest.approx(1.96 * correlate(x, y, "kendall").std(), rel=0.02)


def test_spearmans_interval_is_bonett_and_wrights_where_documents_add_no_noise() -> None:
    judge = np.repeat([1.0, 2, 3, 4, 5, 6, 7, 8], 2)
    human = np.repeat([2.0, 1, 4, 3, 6, 5, 8, 7], 2)
    result = system_level(
        judge, human, np.repeat(np.arange(8), 2), np.tile([1, 2], 8), rng=np.random.default_rng(0)
    )
    # Squared differences of ranks sum to 8: rho = 1 - 6 * 8 / (8 * 63) = 19/21.
    assert result.value == pytest.approx(19 / 21)
    reach = 1.959964 * np.sqrt((1 + (19 / 21) ** 2 / 2) / 5)
    assert result.interval is not None
    assert result.interval.low == pytest.approx(np.tanh(np.arctanh(19 / 21) - reach))
    assert result.interval.high == pytest.approx(np.tanh(np.arctanh(19 / 21) + reach))


def test_fewer_than_five_systems_or_two_documents_say_nothing_of_others() -> None:
    rng = np.random.default_rng(3)
    for n, documents, known in ((4, 30, False), (5, 30, True), (8, 1, False), (8, 2, True)):
        rows = answers(np.random.default_rng(8), systems(rng, n), documents)
        rows["a"] = np.nan_to_num(rows["a"], nan=3.0)
        rows["b"] = np.nan_to_num(rows["b"], nan=3.0)
        alone, gap = measured(rows, "spearman", rng)
        assert (alone is not None) == known
        assert (gap is not None) == known


def test_systems_all_in_one_order_may_yet_be_in_another() -> None:
    # Nothing in the data contradicts rho = 1, and eight systems do not prove it.
    human = np.tile(np.arange(8.0), 10)
    system, document = np.tile(np.arange(8), 10), np.repeat(np.arange(10), 8)
    for coefficient in ("spearman", "kendall"):
        result = system_level(
            human**2, human, system, document, coefficient=coefficient, rng=np.random.default_rng(0)
        )
        assert result.interval is not None
        assert result.interval.high == pytest.approx(1)
        assert 0.5 < result.interval.low < 0.95
        if coefficient == "spearman":
            # Two neighbours out of order take 6 * 2 / (8 * 63) from rho: half of that short of 1.
            reach = 1.959964 * np.sqrt((1 + 1 / 2) / 5)
            low = np.tanh(np.arctanh(1 - 6 / 504) - reach)
            assert result.interval.low == pytest.approx(low)


@given(st.integers(0, 10_000), st.sampled_from(COEFFICIENTS))
def test_intervals_keep_to_the_scale_and_hold_the_value(
    seed: int, coefficient: Coefficient
) -> None:
    # Few outputs, few values, gaps, systems of one output: whatever can go wrong.
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 40))
    judge, human = rng.integers(1, 4, (2, n)).astype(float)
    judge[rng.random(n) < 0.1] = np.nan
    system, document = rng.integers(0, 8, n), rng.integers(0, 5, n)
    result = system_level(
        judge,
        human,
        system,
        document,
        coefficient=coefficient,
        rng=rng,
        resamples=50,
    )
    interval = result.interval
    if interval is not None:
        assert -1 <= interval.low <= result.value <= interval.high <= 1


def test_what_a_document_adds_to_both_its_outputs_is_no_noise() -> None:
    # Every pair of six systems on two documents, one of which raises both outputs by 100, the other
    # lowers them: every system's mean is as before, and so is what is left of an output beside its
    # system and its document.
    first, second = (np.repeat(side, 2) for side in np.triu_indices(6, 1))
    system, document = np.stack([first, second], axis=1).ravel(), np.repeat(np.arange(30), 2)
    judge, human = np.random.default_rng(0).normal(size=(2, 60))
    shift = np.repeat(np.tile([100.0, -100.0], 15), 2)
    calm, moved = (
        system_means(read_rows(judge + by, human - by, document, system))
        for by in (0 * shift, shift)
    )
    assert moved.values == pytest.approx(calm.values)
    assert moved.noise == pytest.approx(calm.noise)


def test_no_interval_of_a_difference_stands_on_a_judge_whose_means_are_all_equal() -> None:
    # Its rho is 0 by convention, which says nothing of other systems.
    rng = np.random.default_rng(0)
    document, system = np.repeat(np.arange(20), 8), np.tile(np.arange(8), 20)
    human = rng.normal(size=160) + system
    difference = paired_difference(
        np.full(160, 0.1), human, human, document, level="system", system=system, rng=rng
    )
    assert (difference.a, difference.b, difference.value) == (0, 1, -1)
    assert difference.interval is None
