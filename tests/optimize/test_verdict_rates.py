"""Pass and fail: rates, kappa and their intervals against hand derivations and simulated worlds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from optimize.statistics.correlations import Correlation
from optimize.statistics.floor import (
    check_floor,
    labels_to_add,
    suggested_rate_floor,
    suggested_rho_floor,
)
from optimize.statistics.intervals import Interval
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import Rate, verdict_agreement, wilson_interval

NAN = math.nan


def table(pass_pass, pass_fail, fail_pass, fail_fail):
    """Every output is a document of its own."""
    human = [1] * (pass_pass + pass_fail) + [0] * (fail_pass + fail_fail)
    judge = [1] * pass_pass + [0] * pass_fail + [1] * fail_pass + [0] * fail_fail
    return verdict_agreement(scored_rows(judge, human))


counts = st.integers(0, 40)


@given(counts, counts, counts, counts)
@example(30, 10, 5, 15)
@example(0, 12, 0, 36)
def test_rates_of_random_tables_equal_sums_over_outputs(a, b, c, d):
    card, n = table(a, b, c, d), a + b + c + d
    assert card.confusion == {"pass_pass": a, "pass_fail": b, "fail_pass": c, "fail_fail": d}
    for rate, above, below in (
        (card.tpr, a, a + b),
        (card.tnr, d, c + d),
        (card.accuracy, a + d, n),
        (card.judge_rate, a + c, n),
        (card.base_rate, a + b, n),
    ):
        assert rate.value == pytest.approx(above / below if below else NAN, nan_ok=True)
        assert rate.n == below
        if rate.interval:
            assert 0 <= rate.interval.low <= rate.value <= rate.interval.high <= 1
    mean = (card.tpr.value + card.tnr.value) / 2
    assert card.balanced_accuracy.value == pytest.approx(mean, nan_ok=True)
    # Kappa of two values in closed form.
    below = (a + b) * (b + d) + (a + c) * (c + d)
    expected = 2 * (a * d - b * c) / below if below else NAN
    assert card.kappa.value == pytest.approx(expected, nan_ok=True)


def test_a_rate_has_an_interval_from_ten_outputs_on():
    card = table(30, 10, 2, 4)
    assert card.n_missing_labels == {"pass": 0, "fail": 4}
    assert card.tpr.interval is not None
    assert card.tnr.interval is card.balanced_accuracy.interval is card.kappa.interval is None
    assert card.tnr.value == 4 / 6
    assert table(30, 10, 4, 6).tnr.interval is not None
    # Ten fails of two documents are not enough; three of others are lacking.
    human = [1] * 20 + [0] * 10
    documents = [*range(20), *([20] * 5), *([21] * 5)]
    assert verdict_agreement(scored_rows(human, human, documents)).n_missing_labels == {
        "pass": 0,
        "fail": 3,
    }


def test_wilson_s_interval_is_the_published_one():
    # Newcombe (1998), table I: 81 of 263.
    ends = wilson_interval(81 / 263, 263)
    assert (ends.low, ends.high) == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_a_score_of_a_half_passes_and_failed_judgements_are_left_out():
    judge, human = [0.5, 0.49, NAN, 0.9], [1, 1, 1, 0]
    card = verdict_agreement(scored_rows(judge, human))
    assert (card.tpr.value, card.tpr.n) == (0.5, 2)
    assert math.isnan(verdict_agreement(scored_rows([NAN], [1])).accuracy.value)
    with pytest.raises(ValueError, match="must be 1"):
        verdict_agreement(scored_rows([1.0], [0.5]))


@pytest.mark.parametrize(
    ("floor", "verdict"),
    [(0.60, "holds"), (0.65, "undecided"), (0.80, "undecided"), (0.85, "falls short")],
)
def test_a_floor_holds_below_the_interval_and_falls_short_above(floor, verdict):
    assert check_floor(Interval(0.6, 0.8), floor) == verdict
    assert check_floor(None, floor) == "undecided"


@pytest.mark.parametrize(("share", "n"), [(0.8, 60), (0.9, 120), (0.7, 400)])
def test_an_equally_good_judge_holds_suggested_floors_nine_times_of_ten(share, n):
    today, again = np.random.default_rng(n).binomial(n, share, (2, 4000)) / n
    floors = [suggested_rate_floor(s, wilson_interval(s, n).low, n) for s in today]
    hits = [wilson_interval(s, n).low >= floor for s, floor in zip(again, floors, strict=True)]
    assert 0.89 <= np.mean(hits) ** 2 <= 0.95  # TPR's floor and TNR's
    # On Fisher's z both figures err by sigma: the new one is below z - 1.2816 sqrt(2) sigma in one
    # of ten, and its interval begins 1.96 sigma below it.
    z, sigma = 0.6, n**-0.5
    floor = suggested_rho_floor(math.tanh(z), math.tanh(z - 1.959964 * sigma))
    assert math.atanh(floor) == pytest.approx(z - (1.959964 + 1.281552 * 2**0.5) * sigma)


def test_the_outputs_to_add_bring_the_interval_to_the_floor():
    share, n, floor = 0.75, 40, 0.7
    rate = Rate(share, wilson_interval(share, n), n)
    further = labels_to_add(rate, floor)
    assert wilson_interval(share, n + further).low == pytest.approx(floor, abs=0.002)
    assert labels_to_add(rate, share) is None
    # Millions would.
    assert labels_to_add(rate, share - 1e-4) is None


def test_so_many_more_documents_decide_if_rho_stays():
    # On Fisher's z the interval is .5 +- .2; a floor .1 below rho takes four times 40 documents.
    ends = Interval(math.tanh(0.3), math.tanh(0.7))
    counts = {"n_outputs": 40, "n_documents": 40, "n_failed": 0}
    rho = Correlation(
        value=math.tanh(0.5), interval=ends, coefficient="spearman", level="dataset", **counts
    )
    assert labels_to_add(rho, math.tanh(0.4)) == 120
    assert labels_to_add(rho, math.tanh(0.6)) == 120
    assert labels_to_add(replace(rho, interval=None), 0.4) is None
