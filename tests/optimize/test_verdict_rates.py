"""Pass and fail: rates, kappa, balanced accuracy, and a search that maximises it."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from search_world import SEED, judge, problem_of, world, written_search

from dspy_judges.errors import SettingsError
from judges.dimension import Dimension
from judges.judgement import Judgement
from judges.prompt import Prompt
from optimize.items import Item, Items
from optimize.search.candidates import Candidate
from optimize.search.evaluator import ItemJudgement
from optimize.search.optimizer import Exploration
from optimize.search.two_fold_search import score_finalists
from optimize.statistics.balanced import (
    balanced_accuracy,
    best_threshold,
    contrast_balanced_accuracy,
    verdicts,
)
from optimize.statistics.correlations import Correlation
from optimize.statistics.floor import (
    check_floor,
    labels_to_add,
    suggested_rate_floor,
    suggested_rho_floor,
)
from optimize.statistics.intervals import Interval, random_generator
from optimize.statistics.rows import scored_rows
from optimize.statistics.verdict_rates import Rate, verdict_agreement, wilson_interval
from optimize.tuning.preparation import choose_objective

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


def test_a_score_of_a_half_passes():
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


def rho_on_fishers_z(z, half_width, n_documents):
    """A rho at summary level, with an interval that is symmetrical on Fisher's z."""
    return Correlation(
        value=math.tanh(z),
        interval=Interval(math.tanh(z - half_width), math.tanh(z + half_width)),
        coefficient="spearman",
        level="summary",
        n_outputs=4 * n_documents,
        n_documents=n_documents,
        n_failed=0,
    )


@pytest.mark.parametrize(("share", "n"), [(0.8, 60), (0.9, 120), (0.7, 400)])
def test_an_equally_good_judge_holds_suggested_floors_nine_times_of_ten(share, n):
    today, again = np.random.default_rng(n).binomial(n, share, (2, 4000)) / n
    rates = [Rate(s, wilson_interval(s, n), n, n_documents=n) for s in today]
    floors = [suggested_rate_floor(rate) for rate in rates]
    hits = [wilson_interval(s, n).low >= floor for s, floor in zip(again, floors, strict=True)]
    assert 0.89 <= np.mean(hits) ** 2 <= 0.95  # TPR's floor and TNR's
    # On Fisher's z both figures err by sigma: the new one is below z - 1.2816 sqrt(2) sigma in one
    # of ten, and its interval begins 1.96 sigma below it.
    z, sigma = 0.6, n**-0.5
    floor = suggested_rho_floor(rho_on_fishers_z(z, 1.959964 * sigma, n))
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
    rho = rho_on_fishers_z(0.5, 0.2, 40)
    assert labels_to_add(rho, math.tanh(0.4)) == 120
    assert labels_to_add(rho, math.tanh(0.6)) == 120
    assert labels_to_add(replace(rho, interval=None), 0.4) is None


# Balanced accuracy: its value, its threshold, its contrast, and a search that maximises it.
def test_balanced_accuracy_is_the_mean_of_tpr_and_tnr() -> None:
    # Of four passes three are passed, of two fails one is failed: (3/4 + 1/2) / 2.
    human = [1, 1, 1, 1, 0, 0]
    assert balanced_accuracy([1, 1, 1, 0, 0, 1], human) == pytest.approx(0.625)
    # A failed judgement is left out: of three passes two, (2/3 + 1/2) / 2.
    assert balanced_accuracy([np.nan, 1, 1, 0, 0, 1], human) == pytest.approx(7 / 12)
    assert balanced_accuracy([1] * 6, human) == 0.5
    assert np.isnan(balanced_accuracy([1, 0], [1, 1]))


TEN = [0] * 5 + [1] * 5


@pytest.mark.parametrize(
    ("scores", "human", "threshold"),
    [
        ([0.1] * 5 + [0.2] * 5, TEN, 0.15),
        # .35 and .55 each take one output of ten wrongly, and .8 two.
        ([0.3, 0.3, 0.3, 0.3, 0.9, 0.4, 0.7, 0.7, 0.7, 0.7], TEN, 0.35),
        ([0.3, 0.3, 0.3, 0.3, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7], TEN, 0.4),
        # Verdicts teach none, nor do four outputs of a class; five do.
        ([0, 0, 1, 1] * 5, [0, 1] * 10, 0.5),
        ([0.1] * 4 + [0.2] * 6, [0] * 4 + [1] * 6, 0.5),
    ],
)
def test_the_threshold_is_the_best_midpoint_near_a_half(scores, human, threshold):
    assert best_threshold(scores, human) == pytest.approx(threshold)
    assert verdicts([threshold, threshold - 0.01], threshold).tolist() == [1, 0]


def test_the_balanced_contrast_is_the_difference():
    rng = random_generator(0, "contrast")
    human, document = rng.integers(0, 2, 120), np.repeat(np.arange(30), 4)
    a, b = rng.integers(0, 2, (2, 120)).astype(float)
    there, back = (
        contrast_balanced_accuracy(a, b, human, document),
        contrast_balanced_accuracy(b, a, human, document),
    )
    expected = balanced_accuracy(a, human) - balanced_accuracy(b, human)
    assert (there.value, back.value) == pytest.approx((expected, -expected))
    assert there.value in there.interval
    # Judges that differ on five documents are not told apart, be they all of one sign.
    near = np.where(np.arange(120) % 24 == 0, 1 - human, human)
    assert contrast_balanced_accuracy(human, near, human, document).interval is None
    few = np.where(np.arange(120) < 9, 0, 1)
    assert contrast_balanced_accuracy(a, b, few, document).interval is None
    # With few fails, swapping the judges on a document swaps their verdicts.
    signs = np.where(np.arange(30) < 4, -1.0, 1.0)
    sign = np.repeat(signs, 4) > 0
    sides = np.where(sign, a, b), np.where(sign, b, a)
    after = balanced_accuracy(sides[0], few) - balanced_accuracy(sides[1], few)
    assert contrast_balanced_accuracy(a, b, few, document).swapped(signs[None]) == pytest.approx(
        [after]
    )


def with_verdicts(items: Items) -> Items:
    """The outputs that people rate above 3 pass."""
    return Items(tuple(replace(item, human=float(item.human > 3)) for item in items))


def low_judge(prompt: Prompt, items: Sequence[Item]) -> list[ItemJudgement]:
    """The judge of the small world on 0 to 1, with its passes from about .25 on."""
    return [
        ItemJudgement(Judgement(score=float(np.clip((one.judgement.score - 1) / 8, 0, 1))))
        for one in judge(prompt, items)
    ]


def test_a_search_for_balanced_accuracy_finds_instruction_and_threshold():
    train, dev = with_verdicts(world(20)), with_verdicts(world(18, first=100))
    result, _, evaluator = written_search(train, dev, by=low_judge, goal="balanced")
    assert result.decision.ships
    assert result.decision.why.startswith("Shipped: the tuned judge. Cross-validated on")
    assert "kindness" in result.tuned_candidate.instruction
    # The judge's 3 of 5, where passes begin, is .25 on its own scale.
    for candidate in (result.tuned_candidate, result.untuned_candidate):
        assert candidate.threshold == pytest.approx(0.25, abs=0.08)
    new = with_verdicts(world(60, first=1000))
    scores = [
        one.judgement.score for one in low_judge(result.tuned_candidate.prompt(SEED), new.items)
    ]
    assert balanced_accuracy(verdicts(scores, result.tuned_candidate.threshold), new.human) > 0.7
    assert balanced_accuracy(verdicts(scores), new.human) < 0.55
    assert evaluator.budget.total_cost > 0


def test_the_threshold_ignores_the_labels_that_test_it():
    """Dev's labels turned around leave the threshold of what train has taught."""
    train, dev = with_verdicts(world(20)), with_verdicts(world(18, first=100))
    mirror = Items(tuple(replace(item, human=1 - item.human) for item in dev.items))
    candidate = Candidate(instruction="Rate the kindness of the text.")
    exploration, thresholds = Exploration(finalists=[candidate], candidate_ids=()), []
    for half in (dev, mirror):
        problem = problem_of(train, half, by=low_judge, goal="balanced")
        (trial, *_) = score_finalists(problem, exploration)
        thresholds.append(trial.candidate.threshold)
        assert set(trial.scores.tolist()) <= {0.0, 1.0}
    assert thresholds[0] == thresholds[1] != 0.5


def test_binary_labels_are_tuned_for_balanced_accuracy():
    words = {"name": "ok", "definition": "is it ok", "inputs": {"text": ""}, "instruction": "Say."}
    two, five = (Dimension(**words, anchors=dict.fromkeys(s, "")) for s in ((0, 1), range(1, 6)))
    items, ratings = with_verdicts(world(4)), world(4)
    assert choose_objective("auto", "auto", two, items) == "balanced"
    for changes in (("auto", "summary"), ("spearman", "auto")):
        assert choose_objective(*changes, two, items) == "spearman"
    for dimension, labels in ((five, items), (two, ratings)):
        assert choose_objective("auto", "auto", dimension, labels) == "spearman"
    with pytest.raises(SettingsError, match="--objective balanced"):
        choose_objective("balanced", "auto", five, ratings)
