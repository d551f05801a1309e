"""Intervals cover what they promise, at the speed they promise; differences are paired."""

import tracemalloc

import numpy as np
import pytest
from optimize.statistics.agreement import dataset_level, summary_level, system_level
from optimize.statistics.bootstrap import (
    PERFECT,
    Interval,
    bootstrap,
    draw_weights,
    interval_around,
)
from optimize.statistics.coefficients import Coefficient, Matrix, Vector, concordances
from optimize.statistics.difference import paired_difference
from optimize.statistics.levels import Level, dataset_statistic, read_rows, system_statistic

from optimize.statistics import levels


def outputs(rng: np.random.Generator, documents: int, systems: int = 8) -> dict[str, Vector]:
    """Clustered documents, ties, 5 % failures, and two judges of unequal and uneven quality."""
    document = np.repeat(np.arange(documents), systems)
    quality = rng.normal(0, 0.7, documents)[document] + np.tile(
        np.linspace(-0.7, 0.7, systems), documents
    )
    quality = quality + rng.normal(0, 0.8, document.size)
    uneven = rng.lognormal(0, 0.5, documents)[document]

    def ratings(noise: float) -> Vector:
        shift = rng.normal(0, 0.4, documents)[document]
        noisy = quality + shift + noise * uneven * rng.normal(size=document.size)
        scores: Vector = np.clip(np.round(3.5 + noisy), 1, 5)
        return scores

    rows = {"human": ratings(0.2), "a": ratings(0.6), "b": ratings(1.2), "document": document}
    for judge in ("a", "b"):
        rows[judge][rng.random(document.size) < 0.05] = np.nan
    return rows


MANY = outputs(np.random.default_rng(1), 20_000)


def covered(level: Level, simulations: int, documents: int) -> tuple[float, float]:
    """How often the interval of judge a, and of a minus b, holds what 20,000 documents show."""
    rng = np.random.default_rng(7)
    chosen = {"dataset": dataset_level, "summary": summary_level}[level]
    truth = chosen(MANY["a"], MANY["human"], MANY["document"]).value
    unlimited = paired_difference(
        MANY["a"], MANY["b"], MANY["human"], MANY["document"], level=level, rng=rng, resamples=2
    ).value
    hits = np.zeros(2)
    for _ in range(simulations):
        rows = outputs(rng, documents)
        human, document = rows["human"], rows["document"]
        alone = chosen(rows["a"], human, document, rng=rng, resamples=300).interval
        gap = paired_difference(
            rows["a"], rows["b"], human, document, level=level, rng=rng, resamples=300
        ).interval
        assert alone is not None
        assert gap is not None
        hits += [truth in alone, unlimited in gap]
    value, difference = hits / simulations
    return value, difference


@pytest.mark.parametrize("documents", [25, 60])
@pytest.mark.parametrize("level", ["dataset", "summary"])
def test_95_percent_intervals_cover_95_percent_of_simulations(level: Level, documents: int) -> None:
    # Of 400 simulations at 95 % the hits have a standard deviation of 1.1 points; the claim is
    # 93-97 % and benchmarks/coverage.py checks it over 1,000. Two deviations are added here.
    for share in covered(level, 400, documents):
        assert 0.93 - 0.022 <= share <= 0.97 + 0.022


def copied(rows: dict[str, Vector], weights: Vector, system: Vector) -> tuple[Vector, ...]:
    times = weights[rows["document"].astype(int)].astype(int)
    return tuple(np.repeat(v, times) for v in (rows["a"], rows["human"], system))


@pytest.mark.parametrize("coefficient", ["spearman", "pearson", "kendall"])
def test_a_weighted_draw_equals_the_same_documents_copied(coefficient: Coefficient) -> None:
    rng = np.random.default_rng(3)
    rows = outputs(rng, 12)
    system = np.tile(np.arange(8), 12)
    read = read_rows(rows["a"], rows["human"], rows["document"], system)
    weights = draw_weights(12, 20, rng)
    dataset = dataset_statistic(read, coefficient)(weights)
    systems = system_statistic(read, coefficient)(weights)
    for k in range(20):
        judge, human, of = copied(rows, weights[k], system)
        assert dataset[k] == pytest.approx(
            dataset_level(judge, human, coefficient=coefficient).value, abs=1e-12
        )
        assert systems[k] == pytest.approx(
            system_level(judge, human, of, coefficient=coefficient).value, abs=1e-12
        )


def test_the_interval_of_a_mean_is_students() -> None:
    # The bootstrap variance of a mean is the sum of squares over n^2; the correction makes it
    # s^2 / n, so that the interval is the textbook's, but for the noise of 200,000 draws.
    values = np.array([0.1, 0.4, 0.2, 0.9, 0.5])

    def mean(weights: Matrix) -> Vector:
        averages: Vector = weights @ values / 5
        return averages

    rng = np.random.default_rng(0)
    interval = bootstrap(mean, values.mean(), 5, rng, resamples=200_000)
    assert interval is not None
    reach = 2.776445 * values.std(ddof=1) / 5**0.5
    assert interval.high - values.mean() == pytest.approx(reach, rel=0.01)


def test_a_perfect_judge_has_no_interval_but_a_value() -> None:
    perfect = summary_level([1, 2, 3, 4], [1, 2, 3, 4], [1, 1, 2, 2], rng=np.random.default_rng(0))
    assert perfect.value == pytest.approx(1)
    assert perfect.interval is None
    assert interval_around(np.full(9, PERFECT), PERFECT, 5) is None
    # Draws that say something else leave an interval.
    assert interval_around(np.linspace(0.5, 1, 9), 1, 5) is not None


@pytest.mark.parametrize("level", ["dataset", "summary", "system"])
def test_swapping_the_judges_turns_the_difference(level: Level) -> None:
    rows = outputs(np.random.default_rng(6), 30)
    system = np.tile(np.arange(8), 30)
    there, back = (
        paired_difference(
            rows[a],
            rows[b],
            rows["human"],
            rows["document"],
            level=level,
            system=system,
            rng=np.random.default_rng(1),
        )
        for a, b in ("ab", "ba")
    )
    assert there.interval is not None
    assert back.interval is not None
    assert there.value == pytest.approx(-back.value)
    assert there.interval.low == pytest.approx(-back.interval.high)
    assert there.n_failed == int((np.isnan(rows["a"]) | np.isnan(rows["b"])).sum())


def test_concordances_are_those_of_all_pairs() -> None:
    rng = np.random.default_rng(5)
    for n in (0, 1, 2, 60):
        x = rng.integers(0, 9, n).astype(float)
        y = x + rng.integers(0, 9, n) / 2
        pairs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
        assert np.array_equal(concordances(x, y), pairs.sum(axis=1))


def test_kendalls_interval_of_many_documents_is_that_of_all_pairs_in_little_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = outputs(np.random.default_rng(6), 250, systems=3)

    def interval() -> Interval:
        result = dataset_level(
            rows["a"], rows["human"], rows["document"],
            coefficient="kendall", rng=np.random.default_rng(7),
        )  # fmt: skip
        assert result.interval is not None
        return result.interval

    exact = interval()
    monkeypatch.setattr(levels, "MAX_PAIRED_DOCUMENTS", 249)
    linear, width = interval(), exact.high - exact.low
    # Out by a share of 1 / documents.
    assert abs(linear.high - linear.low - width) < 3 * width / 250
    assert abs(linear.low - exact.low) < 3 * width / 250

    n = 4000
    tracemalloc.start()
    statistic = dataset_statistic(read_rows(np.arange(n), np.arange(n) % 5), "kendall")
    assert statistic(np.ones((1, n)))[0] > 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Of the three forms' matrices each would have n^2 entries of 8 bytes.
    assert peak < 8 * n**2 / 10
