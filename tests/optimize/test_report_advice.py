"""What to do next follows from the figures."""

from typing import Any

import numpy as np
import pytest
from optimize.answer import PLANNED, gain_sentence
from optimize.report.advice import advice
from optimize.report.measures import measure_split
from report_cases import outputs, pairs, plain
from scipy import stats

from optimize.injection import Probes
from optimize.measuring.scored import Scored
from optimize.statistics.intervals import (
    Interval,
    Vector,
    documents_for_difference,
    student_quantile,
)

CELL = {"value": 0.5, "low": 0.3, "high": 0.7, "n_documents": 20, "n_outputs": 60, "n_failed": 0}


def sentences(
    evidence: Scored, cell: dict[str, Any] | None = None, summary: dict[str, Any] | None = None
) -> list[str]:
    return advice(evidence, measure_split(evidence, Probes(reason="-"), 0), cell or CELL, summary)


def run_summary(**text: object) -> dict[str, Any]:
    row = {"test": CELL, "test_unseen_systems": None}
    gain = {"value": 0.02, "low": -0.08, "high": 0.12}
    judges = {"lm": "openai/some-model", "seed_judge": row, "tuned_judge": row}
    return {"shipped": "tuned", **judges, "gain": {"test": gain}, **text}


def test_there_are_two_to_four_sentences_unless_one_says_it_all() -> None:
    failed = outputs([float("nan")] * 2, [[1], [2]], ["a", "a"])
    assert len(sentences(failed)) == 1
    for evidence in (plain(), plain(2, 2), pairs([("A", "B")] * 3, [("A",)] * 3)):
        for summary in (None, run_summary(), run_summary(shipped="seed")):
            assert 2 <= len(sentences(evidence, summary=summary)) <= 4


def test_a_wide_interval_asks_for_documents() -> None:
    wide = "The interval of rho is about ±0.20 with 20 documents: label more documents."
    assert wide in sentences(plain())
    narrow = {**CELL, "low": 0.45, "high": 0.55}
    assert "label more documents" not in " ".join(sentences(plain(), narrow))


@pytest.mark.parametrize(("pilot", "spread"), [(12, 0.1), (25, 0.15), (60, 0.25)])
def test_the_documents_advised_show_the_planned_gain_four_times_in_five(
    pilot: int, spread: float
) -> None:
    """A pilot says how many documents; a study of so many, with that true gain, is then done."""
    rng = np.random.default_rng(pilot)
    power = []
    for _ in range(400):
        # What the pilot itself gained is no matter.
        first = rng.normal(rng.normal(), spread, pilot)
        n = documents_for_difference(between(first), pilot, PLANNED)
        beyond = student_quantile(n - 1, 0.95)
        power.append(1 - stats.nct.cdf(beyond, n - 1, PLANNED * np.sqrt(n) / spread))
    assert np.mean(power) == pytest.approx(0.8, abs=0.02)


def between(gains: Vector) -> Interval:
    error = gains.std(ddof=1) / np.sqrt(gains.size)
    reach = student_quantile(gains.size - 1, 0.95) * error
    return Interval(gains.mean() - reach, gains.mean() + reach)


def test_a_search_that_found_nothing_or_little_says_so() -> None:
    none = {"test": {"value": 0.0, "low": 0.0, "high": 0.0}}
    text = " ".join(sentences(plain(), summary=run_summary(shipped="seed", gain=none)))
    assert "The search found nothing better than the untuned judge" in text
    little = {"test": {"value": 0.01, "low": -0.02, "high": 0.04}}
    text = " ".join(sentences(plain(), summary=run_summary(shipped="seed", gain=little)))
    assert "Tuning changes little here: by test the gain is below 0.05" in text


def test_what_the_ceiling_advises_goes_no_farther_than_its_interval() -> None:
    def text_for(
        share: float, low: float, high: float, gain: dict[str, float] | None = None
    ) -> str:
        people = {"share_of_ceiling": {"value": share, "low": low, "high": high}}
        measures = measure_split(plain(), Probes(reason="-"), 0)
        narrow = {**CELL, "low": 0.45, "high": 0.55}
        summary = run_summary(gain={"test": gain}) if gain else None
        return " ".join(advice(plain(), measures, narrow, summary, people=people))

    assert "so there is room" in text_for(0.5, 0.4, 0.6)
    assert "so there is room" not in text_for(0.5, -0.5, 1.5)
    assert "cannot show a better judge" in text_for(1.1, 0.9, 1.3)
    assert "cannot show a better judge" not in text_for(2.5, 0.1, 41)
    # A gain on this very page is a better judge, shown by these labels.
    gained = {"value": 0.1, "low": 0.02, "high": 0.18}
    assert "cannot show a better judge" not in text_for(1.1, 0.9, 1.3, gained)


def test_pairs_are_held_against_a_coin() -> None:
    text = " ".join(sentences(pairs([("A", "A"), ("B", "B")] * 4, [("A",)] * 8)))
    assert "cannot be told from a coin" in text
    assert "ranks at random" not in text
    undecided = sentences(pairs([("A", "A")] * 3, [("tie",)] * 3))
    assert undecided[0].startswith("People decided none of these pairs")


def test_a_gain_that_test_does_not_confirm_is_said_with_what_it_takes() -> None:
    text = " ".join(sentences(plain(), summary=run_summary()))
    assert "Test alone does not confirm the gain that dev shows" in text
    # For the planned gain, not for the .02 that was seen, which would take thousands.
    assert "if the true gain is 0.05" in gain_sentence(run_summary())
    looks = run_summary(gain={"test": {"value": 0.15, "low": -0.05, "high": 0.35}})
    needed = documents_for_difference(Interval(-0.05, 0.35), 20, 0.15)
    assert f"about {needed - 20} more test documents" in gain_sentence(looks)
    assert "if the true gain is as large as it looks" in gain_sentence(looks)
    sure = {"test": {"value": 0.2, "low": 0.1, "high": 0.3}}
    assert "test alone" not in " ".join(sentences(plain(), summary=run_summary(gain=sure)))


def test_a_tuned_judge_below_the_seed_on_unseen_systems_is_named() -> None:
    unseen = {"value": 0.2, "n_documents": 8}
    rows = {
        "seed_judge": {"test": CELL, "test_unseen_systems": {**unseen, "value": 0.4}},
        "tuned_judge": {"test": CELL, "test_unseen_systems": unseen},
    }
    text = " ".join(sentences(plain(), summary=run_summary(**rows)))
    assert "agrees less than the untuned one (rho 0.20 against 0.40, n=8 documents)" in text


def test_ties_are_named_with_the_flag_that_breaks_them() -> None:
    tied = outputs([3, 3, 3, 4] * 3, [[1], [2], [3], [4]] * 3, sorted("abc" * 4))
    # Three of six pairs in each document.
    assert "gives 50% of the pairs within a document the same score" in " ".join(sentences(tied))


def test_failures_come_first() -> None:
    evidence = outputs([float("nan"), 2, 1, 3], [[1], [2], [3], [4]], list("aabb"))
    assert sentences(evidence)[0].startswith("1 of 4 outputs have no score (25%)")


def test_preferences_that_follow_the_order_are_warned_of() -> None:
    text = " ".join(sentences(pairs([("A", "B"), ("A", "A")] * 2, [("A",)] * 4)))
    assert "50% of the preferences follow the order" in text
