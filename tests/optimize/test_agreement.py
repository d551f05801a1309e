"""The three levels equal scipy's, on ragged, tied and missing data."""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from optimize.statistics.accuracy import pair_accuracy
from optimize.statistics.agreement import (
    Correlation,
    dataset_level,
    rank_gaps,
    summary_level,
    system_level,
)
from optimize.statistics.coefficients import Coefficient, Vector, correlate, midranks
from optimize.statistics.difference import paired_difference
from optimize.statistics.levels import Undefined, dataset_statistic, read_rows
from scipy import stats

COEFFICIENTS: tuple[Coefficient, ...] = ("spearman", "pearson", "kendall")
REFERENCE: dict[str, Callable[[Vector, Vector], float]] = {
    "spearman": lambda x, y: float(stats.spearmanr(x, y).statistic),
    "pearson": lambda x, y: float(stats.pearsonr(x, y).statistic),
    "kendall": lambda x, y: float(stats.kendalltau(x, y).statistic),
}

# Each document reversed: rho = -1. Pooled, squared rank differences sum to 16, so
# rho = 1 - 6 * 16 / (6 * 35) = 19/35.
JUDGE, HUMAN, DOCUMENT = [3, 2, 1, 6, 5, 4], [1, 2, 3, 4, 5, 6], [1, 1, 1, 2, 2, 2]


class Outputs(NamedTuple):
    judge: Vector
    human: Vector
    document: Vector
    system: Vector


def ragged(seed: int, *, failures: float = 0.1) -> Outputs:
    """Documents of 1 to 9 outputs in any order, many ties, some failed judgements."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 10, 25)
    document = np.repeat(np.arange(25), sizes)
    system = np.concatenate([rng.permutation(9)[:size] for size in sizes])
    human = rng.integers(1, 6, document.size).astype(float)
    judge = np.round(human + rng.normal(0, 1.5, document.size), int(seed % 2))
    judge[rng.random(document.size) < failures] = np.nan
    order = rng.permutation(document.size)
    return Outputs(judge[order], human[order], document[order], system[order])


def defined(x: Vector, y: Vector) -> bool:
    return x.size > 1 and np.ptp(x) > 0 and np.ptp(y) > 0


def by_document(rows: Outputs, coefficient: str) -> list[float]:
    """One value a document, by scipy in a plain loop; NaN where it has none."""
    values = []
    for document in np.unique(rows.document):
        some = (rows.document == document) & ~np.isnan(rows.judge)
        x, y = rows.judge[some], rows.human[some]
        values.append(REFERENCE[coefficient](x, y) if defined(x, y) else math.nan)
    return values


def test_the_level_can_change_the_sign() -> None:
    assert summary_level(JUDGE, HUMAN, DOCUMENT).value == pytest.approx(-1)
    assert dataset_level(JUDGE, HUMAN).value == pytest.approx(19 / 35)
    # System means are 4.5, 3.5, 2.5 against 2.5, 3.5, 4.5.
    assert system_level(JUDGE, HUMAN, [1, 2, 3, 1, 2, 3]).value == pytest.approx(-1)


@pytest.mark.parametrize("coefficient", COEFFICIENTS)
@pytest.mark.parametrize("seed", range(20))
def test_every_level_equals_scipy_on_ragged_tied_and_missing_data(
    seed: int, coefficient: Coefficient
) -> None:
    rows = ragged(seed)
    usable = ~np.isnan(rows.judge)
    x, y, system = rows.judge[usable], rows.human[usable], rows.system[usable]
    reference = REFERENCE[coefficient]

    pooled = dataset_level(rows.judge, rows.human, coefficient=coefficient)
    assert pooled.value == pytest.approx(reference(x, y), abs=1e-12)
    assert pooled.n_failed == int((~usable).sum())

    values = by_document(rows, coefficient)
    inside = summary_level(
        rows.judge, rows.human, rows.document, coefficient=coefficient, undefined="left_out"
    )
    assert inside.value == pytest.approx(np.nanmean(values), abs=1e-12)
    assert inside.n_undefined == int(np.isnan(values).sum())
    assert inside.n_documents == 25 - inside.n_undefined

    means = [[side[system == s].mean() for s in np.unique(system)] for side in (x, y)]
    across = system_level(rows.judge, rows.human, rows.system, coefficient=coefficient)
    assert across.value == pytest.approx(
        reference(np.array(means[0]), np.array(means[1])), abs=1e-12
    )


def test_three_levels_equal_those_of_nlpstats_on_200_random_sets() -> None:
    nlpstats = pytest.importorskip("nlpstats.correlations.correlations")  # 0.0.1
    for seed in range(200):
        rng = np.random.default_rng(seed)
        coefficient = COEFFICIENTS[seed % 3]
        # Its matrices are (systems, inputs); an output that is not there is NaN on both sides.
        x = rng.integers(1, 6, (6, 12)).astype(float)
        # Whole numbers, because nlpstats lets the last bit of a mean break a tie.
        z = np.round(x + rng.normal(0, 1.5, x.shape))
        gone = rng.random(x.shape) < 0.1
        x[gone], z[gone] = np.nan, np.nan
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.ConstantInputWarning)
            expected = (
                nlpstats.system_level(x, z, coefficient),
                nlpstats.input_level(x, z, coefficient),
                nlpstats.global_level(x, z, coefficient),
            )
        judge, human = x[~gone], z[~gone]
        system, document = (index[~gone] for index in np.indices(x.shape))
        got = (
            system_level(judge, human, system, coefficient=coefficient),
            summary_level(judge, human, document, coefficient=coefficient, undefined="left_out"),
            dataset_level(judge, human, coefficient=coefficient),
        )
        assert [level.value for level in got] == pytest.approx(expected, abs=1e-12)


# Document 1: rho 1. Document 2: the judge sees no difference. 3: people see none. 4: neither does.
# 5: one output. 6: one of two outputs failed. 7: both failed.
SEVEN = (
    [1, 2, 5, 5, 1, 2, 3, 3, 4, 2, math.nan, math.nan, math.nan],
    [2, 3, 1, 2, 4, 4, 5, 5, 1, 1, 2, 1, 2],
    [1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 6, 7, 7],
)


def test_undefined_documents_are_left_out_or_0_and_always_counted() -> None:
    judge_zero = summary_level(*SEVEN)
    left_out = summary_level(*SEVEN, undefined="left_out")
    # Only document 1; 1 and 2. Documents 5 to 7 are missing, whatever the convention.
    assert left_out.value == pytest.approx(1)
    assert judge_zero.value == pytest.approx(1 / 2)
    assert [c.n_documents for c in (left_out, judge_zero)] == [1, 2]
    assert {c.n_undefined for c in (left_out, judge_zero)} == {6}
    assert [c.n_zero for c in (left_out, judge_zero)] == [0, 1]
    assert judge_zero.undefined == "judge_zero"
    assert left_out.n_failed == 3


@pytest.mark.parametrize(
    ("judge", "human"),
    [([2, 2, 2], [1, 2, 3]), ([1, 2, 3], [4, 4, 4]), ([math.nan] * 3, [1, 2, 3])],
)
def test_constant_or_failed_judges_have_no_correlation(
    judge: list[float], human: list[float]
) -> None:
    result = at_each_level(judge, human, "left_out")
    assert all(math.isnan(level.value) and level.interval is None for level in result)


def at_each_level(
    judge: list[float], human: list[float], undefined: Undefined
) -> list[Correlation]:
    rng = np.random.default_rng(0)
    return [
        dataset_level(judge, human, undefined=undefined, rng=rng),
        summary_level(judge, human, [1, 1, 1], undefined=undefined, rng=rng),
        system_level(judge, human, [1, 2, 3], undefined=undefined, rng=rng),
    ]


def test_a_judge_that_says_one_thing_of_all_counts_0_at_every_level() -> None:
    silent = at_each_level([2, 2, 2], [1, 2, 3], "judge_zero")
    assert [(level.value, level.interval) for level in silent] == [(0, None)] * 3
    # Where people tell nothing apart, or the judge failed throughout, there is nothing to count.
    for judge, human in (([1, 2, 3], [4, 4, 4]), ([math.nan] * 3, [1, 2, 3])):
        assert all(math.isnan(one.value) for one in at_each_level(judge, human, "judge_zero"))


def test_one_document_has_a_value_and_no_interval() -> None:
    one = dataset_level([1, 2, 3], [1, 3, 2], [7, 7, 7], rng=np.random.default_rng(0))
    assert one.value == pytest.approx(0.5)
    assert one.interval is None


def test_zeros_by_convention_have_no_interval() -> None:
    zero = summary_level([3, 3, 3, 3], [1, 2, 1, 2], [1, 1, 2, 2], rng=np.random.default_rng(0))
    assert (zero.value, zero.interval) == (0, None)


def test_bad_vectors_are_named() -> None:
    with pytest.raises(ValueError, match=r"judge and document .* \(3,\) and \(2,\)"):
        summary_level([1, 2, 3], [1, 2, 3], [1, 1])
    with pytest.raises(ValueError, match=r"human\[1\] is nan"):
        dataset_level([1, 2], [1, math.nan])
    with pytest.raises(ValueError, match=r"judge\[0\] is inf"):
        dataset_level([math.inf, 2], [1, 2])


def test_a_sum_in_another_order_breaks_no_tie() -> None:
    # 0.1 + 0.2 + 0.3 and 0.3 + 0.2 + 0.1 differ in the last bit; the systems' means are equal.
    human = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.5, 0.5, 0.5]
    judge = [1, 1, 1, 1, 1, 1, 2, 2, 2]
    system = [1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert system_level(judge, human, system).value == pytest.approx(1)


WEIGHTED = st.integers(0, 10_000)


@given(WEIGHTED)
def test_a_weight_of_two_is_two_copies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 4, (2, 7)).astype(float)
    weights = rng.integers(0, 3, 7)
    copies = np.repeat(x, weights), np.repeat(y, weights)
    for coefficient in COEFFICIENTS:
        got = correlate(x[None], y[None], coefficient, weights[None].astype(float))[0]
        if defined(*copies):
            assert got == pytest.approx(REFERENCE[coefficient](*copies), abs=1e-12)
        else:
            assert math.isnan(got)


VALUES = hnp.arrays(float, 12, elements=st.integers(-3, 3).map(float))


@given(VALUES)
def test_midranks_equal_scipys(values: Vector) -> None:
    assert midranks(values[None])[0] == pytest.approx(stats.rankdata(values))


def levels(judge: Vector, human: Vector, document: Vector) -> list[float]:
    return [
        dataset_level(judge, human, undefined="left_out").value,
        summary_level(judge, human, document, undefined="left_out").value,
        system_level(judge, human, document, undefined="left_out").value,
    ]


FOUR = np.repeat(np.arange(4.0), 3)


@given(VALUES, VALUES, st.permutations(range(12)))
def test_the_order_of_outputs_does_not_matter(
    judge: Vector, human: Vector, order: list[int]
) -> None:
    assert levels(judge[order], human[order], FOUR[order]) == pytest.approx(
        levels(judge, human, FOUR), abs=1e-12, nan_ok=True
    )


@given(VALUES, VALUES)
def test_increasing_rescaling_changes_no_rank_correlation(judge: Vector, human: Vector) -> None:
    rescaled = np.exp(judge) * 1e6 + 7
    for coefficient in ("spearman", "kendall"):
        for level in (dataset_level, summary_level):
            before = level(judge, human, FOUR, coefficient=coefficient)
            after = level(rescaled, human, FOUR, coefficient=coefficient)
            assert after.value == pytest.approx(before.value, abs=1e-12, nan_ok=True)


@given(VALUES, VALUES)
def test_swapping_the_sides_changes_nothing(judge: Vector, human: Vector) -> None:
    assert levels(human, judge, FOUR) == pytest.approx(
        levels(judge, human, FOUR), abs=1e-12, nan_ok=True
    )


def test_rank_gaps_point_at_what_stands_too_high() -> None:
    # Of three ranks, the standardised ones are -sqrt(3/2), 0, sqrt(3/2).
    assert rank_gaps([9, 2, 1], [1, 2, 3]) == pytest.approx([6**0.5, 0, -(6**0.5)])
    with pytest.raises(ValueError, match="1 outputs have no score"):
        rank_gaps([9, math.nan], [1, 2])


def test_kendall_of_one_order_is_1_and_no_rounding_takes_it_beyond() -> None:
    # Six ordered pairs: 6 / (sqrt 6 * sqrt 6) is 1.0000000000000002 in floats.
    assert correlate(np.array([[1.0, 2, 3]]), np.array([[1.0, 2, 3]]), "kendall")[0] == 1


@pytest.mark.parametrize(("offset", "scale"), [(1e9, 1.0), (0.0, 1e200), (0.0, 1e-200)])
def test_neither_offset_nor_scale_takes_anything_from_pearson(offset: float, scale: float) -> None:
    # The squares of the last two leave the range of floats.
    judge, human = np.array([1.0, 3, 2, 5, 4, 4]), np.array([2.0, 3, 1, 4, 5, 2])
    rows = read_rows(judge, offset + scale * human, np.arange(6))
    result = dataset_statistic(rows, "pearson")(np.ones((1, 6)))
    assert result[0] == pytest.approx(np.corrcoef(judge, human)[0, 1], abs=1e-9)


def test_pair_accuracy_counts_ties_half_and_undecided_pairs_not_at_all() -> None:
    # Five pairs: agreed, opposed, the judge's tie (.5), people's tie (undecided), a failed one.
    result = pair_accuracy([1, -0.5, 0, 1, math.nan], [0.4, 1, -1, 0, 1], ["a", "b", "c", "d", "e"])
    assert result.value == pytest.approx((1 + 0 + 0.5) / 3)
    assert (result.n_decided, result.n_ties, result.n_documents, result.n_failed) == (3, 1, 3, 1)
    assert result.interval is not None
    assert 0 <= result.interval.low < result.value < result.interval.high <= 1
    assert math.isnan(pair_accuracy([1], [0], ["a"]).value)
    assert pair_accuracy([1], [0], ["a"]).interval is None


def test_an_interval_says_its_confidence() -> None:
    rng = np.random.default_rng(0)
    human = np.tile([1.0, 2, 3, 4, 5], 12)
    judge, document = human + rng.normal(0, 1, 60), np.repeat(np.arange(12), 5)
    system = np.tile(np.arange(5), 12)
    for result in (
        dataset_level(judge, human, document, rng=rng, confidence=0.8),
        summary_level(judge, human, document, rng=rng, confidence=0.8),
        system_level(judge, human, system, document, rng=rng, confidence=0.8),
        paired_difference(judge, -judge, human, document, rng=rng, confidence=0.8),
    ):
        assert result.interval is not None
        assert result.interval.confidence == 0.8
