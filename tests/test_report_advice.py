"""What to do next follows from the figures, and the short table holds the same ones."""

from typing import Any

import pytest
from report_cases import folder, outputs, pairs, plain, result

from optimize.audits.probes import Probes
from optimize.report.advice import advice, documents_needed
from optimize.report.findings import find
from optimize.report.markdown import run_table, verification_table
from optimize.report.run_report import read_run
from optimize.report.verification import main_cell, named
from optimize.run.evidence import Evidence

CELL = {"value": 0.5, "low": 0.3, "high": 0.7, "n_documents": 20, "n_outputs": 60}


def said(
    evidence: Evidence, cell: dict[str, Any] | None = None, summary: dict[str, Any] | None = None
) -> list[str]:
    return advice(evidence, find(evidence, Probes(why="-"), 0), cell or CELL, summary)


def run_summary(**told: object) -> dict[str, Any]:
    row = {"test": CELL, "test_unseen_systems": None}
    gain = {"value": 0.02, "low": -0.08, "high": 0.12}
    return {
        "shipped": "tuned", "seed_judge": row, "tuned_judge": row, "gain": {"test": gain}, **told,
    }  # fmt: skip


def test_there_are_two_to_four_sentences_unless_one_says_it_all() -> None:
    failed = outputs([float("nan")] * 2, [[1], [2]], ["a", "a"])
    assert len(said(failed)) == 1
    for evidence in (plain(), plain(2, 2), pairs([("A", "B")] * 3, [("A",)] * 3)):
        for summary in (None, run_summary(), run_summary(shipped="seed")):
            assert 2 <= len(said(evidence, summary=summary)) <= 4


def test_a_wide_interval_says_how_many_documents_narrow_it() -> None:
    # Half of .4 is .2; a quarter of that takes 4 * 4 * 20 documents.
    assert documents_needed(CELL) == 320
    assert "about 320 would bring it to ±0.05" in " ".join(said(plain()))
    narrow = {**CELL, "low": 0.45, "high": 0.55}
    assert "would bring it" not in " ".join(said(plain(), narrow))


def test_a_seed_that_ships_says_what_it_takes_to_tell() -> None:
    # The gain is known to ±.1, so ±.05 takes four times 20 documents.
    told = " ".join(said(plain(), summary=run_summary(shipped="seed")))
    assert "known to ±0.10, and telling a gain of 0.05 takes about 80 test documents" in told


def test_a_search_that_found_nothing_or_little_says_so() -> None:
    none = {"test": {"value": 0.0, "low": 0.0, "high": 0.0}}
    told = " ".join(said(plain(), summary=run_summary(shipped="seed", gain=none)))
    assert "Nothing that the search found did better than the seed" in told
    little = {"test": {"value": 0.01, "low": -0.02, "high": 0.04}}
    told = " ".join(said(plain(), summary=run_summary(shipped="seed", gain=little)))
    assert "Tuning changes little here: the gain on test is known to ±0.03" in told


def test_an_interval_that_reaches_zero_is_no_judge_to_rely_on() -> None:
    told = said(plain(), {**CELL, "low": -0.1})
    assert "cannot be told from one that ranks at random" in " ".join(told)


def test_pairs_are_held_against_a_coin() -> None:
    told = " ".join(said(pairs([("A", "A"), ("B", "B")] * 4, [("A",)] * 8)))
    assert "cannot be told from a coin" in told
    assert "ranks at random" not in told
    undecided = said(pairs([("A", "A")] * 3, [("tie",)] * 3))
    assert undecided[0].startswith("People decided none of these pairs")


def test_a_gain_that_test_does_not_confirm_is_said_with_what_it_takes() -> None:
    # .02 known to ±.1: telling it takes 5 * 5 times the 20 documents.
    told = " ".join(said(plain(), summary=run_summary()))
    assert "test alone does not: +0.02 on the seed, known to ±0.10 with 20 documents" in told
    assert "takes about 500 documents" in told
    sure = {"test": {"value": 0.2, "low": 0.1, "high": 0.3}}
    assert "test alone" not in " ".join(said(plain(), summary=run_summary(gain=sure)))


def test_a_tuned_judge_below_the_seed_on_unseen_systems_is_named() -> None:
    unseen = {"value": 0.2, "n_documents": 8}
    rows = {
        "seed_judge": {"test": CELL, "test_unseen_systems": {**unseen, "value": 0.4}},
        "tuned_judge": {"test": CELL, "test_unseen_systems": unseen},
    }
    told = " ".join(said(plain(), summary=run_summary(**rows)))
    assert "agrees less than the seed did (rho 0.20 against 0.40, n=8 documents)" in told


def test_ties_are_named_with_the_flag_that_breaks_them() -> None:
    tied = outputs([3, 3, 3, 4] * 3, [[1], [2], [3], [4]] * 3, sorted("abc" * 4))
    # Three of six pairs in each document.
    assert "gives 50% of the pairs within a document the same score" in " ".join(said(tied))


def test_failures_come_first() -> None:
    evidence = outputs([float("nan"), 2, 1, 3], [[1], [2], [3], [4]], list("aabb"))
    assert said(evidence)[0].startswith("1 of 4 outputs have no score (25%)")


def test_lower_figures_on_unseen_systems_are_the_ones_to_quote() -> None:
    row = {"test": CELL, "test_unseen_systems": {**CELL, "value": 0.2}}
    told = " ".join(said(plain(), summary=run_summary(tuned_judge=row)))
    assert "rho 0.20 against 0.50" in told


def test_preferences_that_follow_the_order_are_warned_of() -> None:
    told = " ".join(said(pairs([("A", "B"), ("A", "A")] * 2, [("A",)] * 4)))
    assert "50% of the preferences follow the order" in told


def test_the_table_of_a_run_holds_both_judges(tmp_path: Any) -> None:
    run = read_run(folder(tmp_path / "run", plain(), probes=Probes(why="-")))
    table = run_table(run)
    value = f"{run.cell['value']:.3f}"
    assert f"| test | {value} [" in table
    assert table.count("\n|") == 4
    assert "Share of the human ceiling: " in table
    assert "sha256 `000000000000`" in table


def test_the_table_of_a_verification_is_short_and_keeps_names_names() -> None:
    told = {**result(plain(), "a|b_c"), "judge": "/home/somebody/runs/x-001/judge.json"}
    table = verification_table(told)
    assert "`x-001/judge.json`" in table
    assert "somebody" not in table
    assert r"a\|b\_c: 8 documents" in table
    assert "undefined as 0" not in table
    assert named({"judge": "relevance"}) == "relevance"


def test_the_headline_of_a_verification_leaves_undefined_documents_out_as_papers_do() -> None:
    constant = outputs([1, 2, 3, 3], [[1], [2], [1], [2]], list("aabb"))
    told = result(constant)
    assert main_cell(told)["value"] == pytest.approx(1.0)
    assert "summary-level spearman, undefined as 0 | 0.500" in verification_table(told)
