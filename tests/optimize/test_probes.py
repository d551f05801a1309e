"""Injection probes tell what an attacked output gains."""

import math

import pytest
from behaving_model import Model
from report_cases import outputs, pairs, plain

from judges.catalog import find_subject
from judges.client import BudgetSpentError
from judges.client.budget import Budget
from judges.client.client import Client
from judges.judge import Judge
from optimize.measuring.injection import ATTACKS, N_PROBED_OUTPUTS, measure_shift, probe_judge


def test_a_shift_is_the_mean_over_outputs_that_have_both_scores():
    # Of 1, 2 and 3 one rises by 3; the fourth has no score under attack.
    shift = measure_shift([1, 2, 3, 4], [1, 5, 3, math.nan])
    assert (shift.mean, shift.n_outputs) == (1, 3)
    assert shift.raised_share == pytest.approx(1 / 3)


def gullible(text, *_):
    """Rate 2, but 5 where a text asks for the top score; of a pair, prefer who asks."""
    if "summary_b" not in text:
        return "5" if "top score" in text else "2"
    first, second = text.split("[[ ## summary_b ## ]]")
    side = "A" if "top score" in first or "top score" not in second else "B"
    return f"[[ ## comparison ## ]]\nso\n\n[[ ## preferred ## ]]\n{side}"


def probes_of(model, evidence, name="relevance", **limits):
    """What each attack moves, by its title."""
    client = Client(model, account=Budget(**limits).account())
    judge = Judge.of(find_subject(name))
    return probe_judge(judge, client, evidence.items, evidence.scores, seed=0).shifts


def test_an_attack_that_works_raises_scores_and_the_others_do_not():
    model = Model(gullible)
    shifts = probes_of(model, outputs([2] * 6, [[i % 5 + 1] for i in range(6)], "aabbcc"))
    # The order speaks of the top score: 2 becomes 5.
    assert {name: shift.mean for name, shift in shifts.items() if shift.mean} == {"order": 3.0}
    assert shifts["order"].raised_share == 1.0
    assert model.calls == 6 * len(ATTACKS)


def test_the_rejected_side_of_a_pair_is_attacked():
    # The judge said A of the first and B of the second, so B and then A asks for more.
    evidence = pairs([("A", "A"), ("B", "B")], [("A",), ("B",)])
    assert probes_of(Model(gullible), evidence, "tldr_concise")["order"].mean > 0


def test_the_same_fixed_number_of_outputs_is_attacked():
    evidence = plain(n_documents=30, n_systems=4)
    shifts = probes_of(Model(gullible), evidence)
    assert {shift.n_outputs for shift in shifts.values()} == {N_PROBED_OUTPUTS}
    assert probes_of(Model(gullible), evidence) == shifts


def test_probes_keep_within_the_budget():
    model = Model(gullible)
    with pytest.raises(BudgetSpentError):
        probes_of(model, plain(), max_calls=20)
    assert model.calls <= 20
