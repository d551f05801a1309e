"""Estimates from few labels and many judgements: valid, narrower, equal to ppi-python's."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from optimize.statistics.coefficients import Vector
from optimize.statistics.corrected_estimates import Estimate, labels_needed, mean_score
from scipy import stats


class Pool(NamedTuple):
    label: Vector
    score: Vector
    first: Vector
    document: Vector


def pool(rng: np.random.Generator, documents: int, labelled: int, noise: float = 0.6) -> Pool:
    """Two systems a document, some documents labelled, 5 % failures, a judge that is too kind."""
    document = np.repeat(np.arange(documents), 2)
    first = np.tile([True, False], documents)
    quality = 0.6 * rng.normal(size=documents)[document] + 0.8 * rng.normal(size=document.size)
    quality = quality + 0.3 * first
    human = np.clip(np.round(3.4 + quality), 1, 5)
    shift = 0.4 * rng.normal(size=documents)[document]
    judged = 3.8 + 0.7 * quality + shift + noise * rng.normal(size=document.size)
    score = np.clip(np.round(judged), 1, 5)
    score[rng.random(document.size) < 0.05] = math.nan
    chosen = rng.choice(documents, labelled, replace=False)
    return Pool(np.where(np.isin(document, chosen), human, math.nan), score, first, document)


def of_mean(rows: Pool) -> Estimate:
    return mean_score(rows.label, rows.score, rows.document)


def of_system(rows: Pool) -> Estimate:
    return mean_score(rows.label[rows.first], rows.score[rows.first])


ESTIMATES = (of_mean, of_system)


@pytest.mark.parametrize("labelled", [20, 50])
@pytest.mark.parametrize("of", ESTIMATES)
def test_95_percent_intervals_cover_95_percent_of_1000_simulations(
    of: Callable[[Pool], Estimate], labelled: int
) -> None:
    rng = np.random.default_rng(0)
    truth = of(pool(np.random.default_rng(1), 100_000, 100_000)).labels_only
    result = [of(pool(rng, 200, labelled)) for _ in range(1000)]
    share = np.mean([one.interval is not None and truth in one.interval for one in result])
    # 93-97 % as promised; at 95 % itself 1,000 hits have a standard deviation of .7 points.
    assert 0.93 <= share <= 0.97


@pytest.mark.parametrize("of", ESTIMATES)
def test_the_judge_makes_intervals_narrower_than_labels_alone(
    of: Callable[[Pool], Estimate],
) -> None:
    rng = np.random.default_rng(2)
    widths = []
    for _ in range(50):
        result = of(pool(rng, 400, 40, noise=0.2))
        assert result.interval is not None
        assert result.labels_only_interval is not None
        widths.append([i.high - i.low for i in (result.interval, result.labels_only_interval)])
    ours, labels = np.mean(widths, axis=0)
    assert ours < 0.9 * labels


def test_a_biased_judge_is_corrected() -> None:
    # The judge is kinder by .4 on average; 100 labels see that.
    rows = pool(np.random.default_rng(3), 3000, 100)
    truth = of_mean(pool(np.random.default_rng(4), 50_000, 50_000)).labels_only
    result = of_mean(rows)
    assert result.interval is not None
    assert truth in result.interval
    assert result.judge_only > result.interval.high


@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_independent_outputs_agree_with_ppi_python(weight: float) -> None:
    ppi = pytest.importorskip("ppi_py")  # 0.2.3
    rng = np.random.default_rng(5)
    labels = rng.normal(size=60)
    scores, others = labels + rng.normal(size=60), 1.5 * rng.normal(size=900)
    result = mean_score(
        np.append(labels, np.full(900, math.nan)), np.append(scores, others), weight=weight
    )
    theirs = ppi.ppi_mean_pointestimate(labels, scores, others, lam=weight)
    assert result.value == pytest.approx(float(theirs[0]), abs=1e-12)
    low, high = (float(end[0]) for end in ppi.ppi_mean_ci(labels, scores, others, 0.05, lam=weight))
    assert result.interval is not None
    # It takes the normal quantile and variances over n; both matter to the labelled part only.
    ratio = stats.t.ppf(0.975, 59) / stats.norm.ppf(0.975)
    assert result.interval.high - result.value == pytest.approx(
        (high - low) / 2 * ratio * (60 / 59) ** 0.5, rel=0.01
    )


def test_labels_alone_give_students_interval_over_documents() -> None:
    labels = [4.0, 2, 5, 3, 3]
    result = mean_score(labels, labels)
    expected = stats.ttest_1samp(labels, 0).confidence_interval()
    assert result.interval is not None
    assert (result.interval.low, result.interval.high) == pytest.approx(
        (expected.low, expected.high)
    )
    # Each output twice under its document: no more is known than before.
    twice = mean_score(labels * 2, labels * 2, list(range(5)) * 2)
    assert twice.interval is not None
    assert twice.interval.high == pytest.approx(expected.high)


def test_labels_needed_make_the_width_they_promise() -> None:
    rows = pool(np.random.default_rng(8), 4000, 100)
    result = of_system(rows)
    assert result.interval is not None
    target = (result.interval.high - result.interval.low) / 2
    needed = labels_needed(result, target)
    assert needed is not None
    # Half the width takes about four times the labels, somewhat fewer as fewer remain unlabelled.
    assert 3.3 * result.n_labels < needed < 4.2 * result.n_labels
    again = of_system(pool(np.random.default_rng(9), 4000, needed))
    assert again.interval is not None
    assert again.interval.high - again.interval.low == pytest.approx(target, rel=0.15)
    assert labels_needed(result, 1e-6) is None
    assert labels_needed(result, 10 * target) < result.n_labels  # type: ignore[operator]


def test_what_is_missing_is_counted_or_refused() -> None:
    result = mean_score([1, 2, 3, math.nan], [1, 2, math.nan, 4])
    assert (result.n_labels, result.n_judgements, result.n_failed) == (2, 1, 1)
    with pytest.raises(ValueError, match="1 labels on 1 documents"):
        mean_score([1, math.nan], [1, 2])
    with pytest.raises(ValueError, match=r"\(2,\), \(1,\)"):
        mean_score([1, 2], [1])


def test_constant_judges_add_nothing() -> None:
    label = [1, 2, 3, 4, math.nan, math.nan]
    result = mean_score(label, [3] * 6)
    assert (result.weight, result.value) == (0, 2.5)
    assert result.interval == result.labels_only_interval
