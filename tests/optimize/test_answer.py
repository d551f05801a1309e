"""The answer in plain words: a true sentence for each kind of run."""

import re
from typing import Any

import pytest
from report_cases import cell, gain, order, outputs, run_summary

from judges.labels.readers import starter
from optimize.figures.as_text import wrapped
from optimize.measuring.measure import two_value_figures
from optimize.report.answer import (
    compare_answer,
    compare_lines,
    compare_steps,
    gain_sentence,
    run_answer,
    run_lines,
    run_steps,
)


def test_the_answer_is_the_verdict_the_agreement_the_gain_and_the_cost() -> None:
    assert run_answer(run_summary()) == [
        ("Shipped", "the tuned judge. It beats the untuned judge."),
        (
            "Agreement",
            "It orders two outputs of one document as people do in 64% of pairs (95% interval 58% "
            "to 70%), on 20 documents that tuning did not see. A coin reaches 50%.",
        ),
        (
            "Gain",
            "On test summary-level rho is 0.400 untuned and 0.400 tuned: +0.100 [+0.020, +0.180]. "
            "So tuning helped: these 20 documents had no part in it.",
        ),
        (
            "Cost",
            "$0.0375, 1,200 judge calls and 1 proposal in 12 s. 1,000 rows will cost $0.5000, 2.5 "
            "times the untuned judge's $0.2000.",
        ),
    ]


def test_of_pass_and_fail_the_answer_counts_misses_and_the_gain_is_balanced_accuracy() -> None:
    people = [[1.0], [0.0]] * 40
    documents = [f"d{n}" for n in range(80)]
    judged = {
        "seed_judge": outputs([1.0] * 80, people, documents, scale=(0, 1)),
        "tuned_judge": outputs([1.0, 0.0, 1.0, 1.0] * 20, people, documents, scale=(0, 1)),
    }
    cards = {name: two_value_figures(scored) for name, scored in judged.items()}
    summary = run_summary(
        two_values={"test": cards}, balanced_gain={"test": gain(0.25, 0.15, 0.35)}
    )
    said = dict(run_answer(summary))
    assert said["Fails"].startswith("It misses 20 of 40 fails (TNR, it catches 50%; 95% int")
    assert said["Passes"].startswith("It fails 0 of 40 passes (TPR, it passes 100%; 95% int")
    assert "always saying pass would on 50%" in said["Agreement"]
    assert said["Gain"] == (
        "On test balanced accuracy is 0.500 untuned and 0.750 tuned: +0.250 [+0.150, +0.350]. So "
        "tuning helped: these 20 documents had no part in it."
    )
    table = run_lines({**summary, "two_values": {"test_unseen_systems": cards, "test": cards}})[-5:]
    assert table[1].startswith("new systems, untuned  1.000 [")
    assert max(map(len, table)) <= 80
    (step,) = run_steps(summary)
    # 40 of 40 may well be 37 when labelled again, whose interval begins at .80; 20 of 40 be 13.
    assert re.search(r"--min-tpr 0\.8\d --min-tnr 0\.19`: a judge as good passes nine", step)


def test_without_fails_on_test_it_says_so_and_asks_for_them() -> None:
    judged = outputs([1.0, 0.0] * 20, [[1.0]] * 40, [f"d{n}" for n in range(40)], scale=(0, 1))
    cards = dict.fromkeys(("seed_judge", "tuned_judge"), two_value_figures(judged))
    nothing = {"test": gain(None, None, None)}
    summary = run_summary(two_values={"test": cards}, balanced_gain=nothing)
    fails = dict(run_answer(summary))["Fails"]
    assert fails == "People call none of these outputs a fail: TNR is not known."
    steps = run_steps(summary)
    assert steps[0].startswith(
        "Do not rely on its verdicts: on test it agrees with people less often"
    )
    assert steps[0].endswith("Label more fails: test has 0, and an interval takes 10 more there.")


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (gain(0, 0, 0), "found nothing better than the untuned judge"),
        (
            gain(-0.2, -0.3, -0.1),
            "-0.200 [-0.300, -0.100]. So the tuned judge is worse: these 20 documents",
        ),
        (gain(0.01, 0.0004, 0.04), "20 documents cannot tell that from luck."),
        (gain(0.1, -0.1, 0.3), "20 documents cannot tell that from luck."),
        (
            gain(0.1, None, None),
            "tuned: +0.100. 20 documents are too few for an interval, so this may be luck.",
        ),
        (gain(None, None, None), "not known: there is no gain on test"),
    ],
)
def test_each_gain_gets_its_own_sentence(test: dict[str, Any], says: str) -> None:
    assert says in gain_sentence(run_summary(gain={"test": test}))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (-0.029, "+0.100 [+0.020, +0.180], but -0.029 [-0.129, +0.071]"),
        (0.05, "+0.100 [+0.020, +0.180], and +0.050 [-0.050, +0.150]"),
    ],
)
def test_what_unseen_systems_say_stands_in_the_sentence_that_tuning_helped(
    value: float, says: str
) -> None:
    both = {
        "test": gain(0.1, 0.02, 0.18),
        "test_unseen_systems": gain(value, value - 0.1, value + 0.1),
    }
    assert f"{says} on unseen systems. So tuning helped" in gain_sentence(run_summary(gain=both))


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (order(0.64, 0.06), "tuning did not see. A coin reaches 50%."),
        (order(0.54, 0.06), "A coin may do as well."),
        (order(0.40, 0.06), "A coin does better."),
        (
            order(0.64, None),
            "(too few for an interval), on 20 documents that tuning did not see. A coin reaches "
            "50%.",
        ),
        (order(None), "people tell no two outputs with a score apart."),
    ],
)
def test_agreement_is_held_against_a_coin(share: dict[str, Any], says: str) -> None:
    summary = run_summary(order={"test": {"tuned_judge": share, "seed_judge": share}})
    assert dict(run_answer(summary))["Agreement"].endswith(says)


def test_failures_of_either_judge_are_counted() -> None:
    cells = {"test": cell(n_outputs=90, n_failed=10)}
    said = dict(run_answer(run_summary(seed_judge=cells)))
    assert said["No score"] == "untuned judge 10 of 100 outputs."
    assert "No score" not in dict(run_answer(run_summary()))


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ((-0.2, -0.1), "Not as good as one of these annotators"),
        ((-0.2, 0.1), "Perhaps as good as one of these annotators"),
        ((0.1, 0.2), "Better than one of these annotators"),
        ((None, None), "Too few documents to say"),
    ],
)
def test_the_judge_is_told_beside_one_annotator(ends: tuple[Any, Any], says: str) -> None:
    one = {"judge": cell(0.42), "annotator": cell(0.47), "gap": gain(-0.05, *ends)}
    said = dict(run_answer(run_summary(people={"one_annotator": one})))["One person"]
    assert said.startswith(says)
    assert "rho with the other annotators 0.420, an annotator's 0.470" in said


def test_the_gain_on_dev_is_shown_nowhere() -> None:
    # dev's figure, .987, is the one that flatters.
    assert "987" not in "\n".join(run_lines(run_summary(), "runs/x"))


def test_a_run_takes_at_most_24_lines_of_80_columns_however_much_there_is_to_say() -> None:
    cells = {
        split: cell(-0.123, 0.4, n_failed=30, n_outputs=70)
        for split in ("test", "test_unseen_systems")
    }
    shares = {"seed_judge": order(0.4, 0.2), "tuned_judge": order(0.45, 0.2)}
    one = {"judge": cell(0.42), "annotator": cell(0.47), "gap": gain(-0.05, -0.1, 0.1)}
    why = (
        "Shipped: the untuned judge. Prompts tuned the same way, each tried on documents that it "
        "was tuned without (126 in all), beat the untuned judge by 0.031 summary-level rho. If "
        "tuning did nothing, over 10% of runs would show as much."
    )
    summary = run_summary(
        seed_judge=cells, tuned_judge=cells, shipped="seed", people={"one_annotator": one},
        gain={"test": gain(0.1, -0.1, 0.3), "test_unseen_systems": gain(-0.1, -0.2, 0.3)},
        order=dict.fromkeys(cells, shares), tuned_file="tuned.json", cached_calls=1200,
        why=why,
        max_cost=5.0, last_round={"gain": 0.004, "error": 0.031, "cost": 0.3, "is_final": True},
    )  # fmt: skip
    lines = run_lines(summary, "runs/relevance-001")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_run_without_a_test_says_so() -> None:
    nothing: dict[str, Any] = {"test": None}
    lines = run_lines(run_summary(seed_judge=nothing, tuned_judge=nothing, gain={"test": {}}))
    assert "Agreement: Not known: no labels were held out for a test." in lines
    assert "Next: Measure it on labels that it has not met: dspy-judges verify." in lines


def test_where_the_untuned_judge_ships_the_gain_is_the_tuned_ones_and_perfect_is_enough() -> None:
    untuned = run_summary(shipped="seed", gain={"test": gain(0.3, 0.1, 0.5)})
    assert gain_sentence(untuned).startswith("On test summary-level rho is")
    assert "Label more" in run_steps(untuned)[0]
    perfect = {"test": {f"{judge}_judge": order(1.0, 0.0) for judge in ("seed", "tuned")}}
    assert "Label more" not in " ".join(run_steps({**untuned, "order": perfect}))


def test_nobody_is_told_to_raise_a_limit_that_was_not_reached() -> None:
    untuned = run_summary(shipped="seed", gain={"test": gain(0, 0, 0)})
    assert "--max-cost" not in " ".join(run_steps(untuned))
    assert "--max-cost" in " ".join(run_steps({**untuned, "limit_reached": True}))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tuned_judge": {"test": cell(None, n_outputs=0, n_failed=9)}}, "Mend the failures: none"),
        ({"tuned_judge": {"test": cell(n_failed=9)}}, "Mend the failures: 9 outputs"),
        ({"order": {"test": {"tuned_judge": order(0.5)}}}, "may be no better than a coin"),
        ({"order": {"test": {"tuned_judge": order(0.7, None)}}}, "too few for an interval"),
        ({"order": {"test": {"tuned_judge": order(0.7, 0.15)}}}, "is that uncertain"),
        ({"gain": {"test": gain(0.1, -0.1, 0.3)}}, "test alone does not confirm the gain"),
        ({"shipped": "seed"}, "Label more documents and tune again"),
        (
            {"gain": {"test": gain(0.1, 0, 0.2), "test_unseen_systems": gain(-0.1, -0.2, 0)}},
            "tuning has shown no gain on unseen systems",
        ),
        ({}, "catch a large drop in CI"),
    ],
)
def test_the_next_step_follows_from_a_figure(changes: dict[str, Any], says: str) -> None:
    steps = run_steps(run_summary(**changes))
    assert says in " ".join(steps)
    assert len(steps) <= 3


def test_an_attack_that_works_is_warned_of_by_its_share_of_the_scale() -> None:
    assert any(
        "(order) raises them by 40%" in step for step in run_steps(run_summary(), [("order", 0.4)])
    )
    assert "raises" not in " ".join(run_steps(run_summary(), [("order", 0.09)]))


def test_constructed_labels_have_one_thing_to_do() -> None:
    summary = run_summary(data={**run_summary()["data"], "sha256": starter().sha256})
    (step,) = run_steps(summary)
    assert "Tune on labels of your own: `dspy-judges tune --dimension relevance" in step
    assert "as the constructed labels do" in dict(run_answer(summary))["Agreement"]


def judge(name: str, value: float, dollars: float | None, **others: Any) -> dict[str, Any]:
    return {
        "name": name, "correlations": [cell(value)], "order": order(), "difference": None,
        "standing": "best", "cost_per_1000_rows": dollars, "plan": "one",
        "tuned_on_these_labels": False, "n_met": 0, "n_given": 0, **others,
    }  # fmt: skip


def comparison(*others: dict[str, Any]) -> dict[str, Any]:
    return {
        "dimension": "relevance", "kind": "rating", "level": "summary",
        "data": run_summary()["data"], "judges": [judge("dear", 0.5, 9.0), *others],
        "left_out": [], "cost_usd": 1.5, "seconds": 3, "folder": "runs/c",
    }  # fmt: skip


def other(value: float, error: float | None, standing: str = "unclear") -> dict[str, Any]:
    difference = {**gain(value, value - 0.2, value + 0.2), "error": error, "n_documents": 20}
    return judge("cheap", 0.5 + value, 0.1, difference=difference, standing=standing)


def test_the_cheaper_judge_is_advised_only_within_a_standard_error() -> None:
    near, unclear = comparison(other(-0.05, 0.06, "as good")), comparison(other(-0.172, 0.08))
    assert compare_steps(near)[0] == "Use cheap: as good as the best, and it costs $0.1000."
    assert dict(compare_answer(near))["As good"] == "within one standard error of it: cheap."
    assert compare_steps(unclear)[0].startswith("Use dear for now; more labels would tell")
    assert dict(compare_answer(unclear))["Not known"] == "whether it is better than cheap."
    assert compare_steps(comparison(other(-0.3, 0.05, "worse")))[0] == "Use dear."


def test_a_clear_best_is_said_to_be_one() -> None:
    clear = comparison(other(-0.3, 0.05, "worse"))
    assert dict(compare_answer(clear))["Sure"].startswith("Yes")
    lines = compare_lines(clear)
    assert max(map(len, lines)) <= 80
    assert "cheap  0.200 [0.000, 0.400]  -0.300 [-0.500, -0.100]  $0.1000" in lines


def test_sentences_are_wrapped_at_80_columns_and_a_flag_is_not_broken() -> None:
    assert wrapped("x" * 70 + " --min-spearman 0.3") == ["x" * 70, "--min-spearman 0.3"]
