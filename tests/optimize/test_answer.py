"""The answer in plain words: a true sentence for each kind of run."""

import math
from dataclasses import replace
from typing import Any

import pytest
from report_cases import DATA, card, gain, on_split, one_annotator, order, outputs, rho, run_result

from judges.labels.readers import starter
from optimize.figures.as_text import wrapped
from optimize.measuring.asking import Entry, JudgeUsage
from optimize.measuring.comparison import ComparedJudge, Difference, JudgeComparison, Standing
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.tuning_result import SplitResult
from optimize.report.comparison import comparison_answer, comparison_lines
from optimize.report.lead import run_lead, tiles_of, tuning_sentence, verdict_on
from optimize.report.next_steps import comparison_step, run_steps
from optimize.report.tuning import gain_sentence, run_answer, run_lines
from optimize.statistics.intervals import Interval, IntervalEstimate
from optimize.statistics.plain import OrderAgreement

NAN = math.nan


def test_the_answer_is_the_verdict_the_agreement_the_gain_and_the_cost() -> None:
    said = dict(run_answer(run_result()))
    assert [*said] == ["Shipped", "Agreement", "Gain", "Cost"]
    assert "64% of pairs (95% interval 58% to 70%), on 20 documents" in said["Agreement"]
    assert "rho is 0.400 untuned and 0.400 tuned: +0.100 [+0.020, +0.180]" in said["Gain"]
    assert said["Cost"].startswith("$0.0375, 1,200 judge calls and 1 proposal in 12 s. 1,000 rows")
    assert said["Cost"].endswith("1,000 rows will cost $0.5000.")
    assert "for $0.5000 per 1,000 rows, $0.2000 untuned. So tuning helped" in said["Gain"]


def test_of_pass_and_fail_the_answer_counts_misses_and_the_gain_is_balanced_accuracy() -> None:
    people = [[1.0], [0.0]] * 40
    documents = [f"d{n}" for n in range(80)]
    judged = {
        "untuned": outputs([1.0] * 80, people, documents, level="dataset", scale=(0, 1)),
        "tuned": outputs(
            [1.0, 0.0, 1.0, 1.0] * 20, people, documents, level="dataset", scale=(0, 1)
        ),
    }
    cards = {name: Scorecard.brief(scored) for name, scored in judged.items()}
    test = on_split(balanced=gain(0.25, 0.15, 0.35), **cards)
    summary = run_result(test=test)
    said = dict(run_answer(summary))
    assert said["Fails"].startswith("It misses 20 of 40 fails (TNR, it catches 50%; 95% int")
    assert said["Passes"].startswith("It fails 0 of 40 passes (TPR, it passes 100%; 91%")
    assert "always saying pass would on 50%" in said["Agreement"]
    assert "accuracy is 0.500 untuned and 0.750 tuned: +0.250 [+0.150, +0.350]" in said["Gain"]
    table = run_lines(run_result(test=test, unseen=test))[-5:]
    assert table[3].startswith("new systems, untuned  1.000 [")
    assert max(map(len, table)) <= 80
    (step,) = run_steps(summary)
    # 40 of 40 may well be 37 when labelled again, whose interval begins at .80; 20 of 40 be 12. A
    # judge that passes 79 % at random holds .79 and .17.
    assert "--min-tpr" not in step
    assert "verify NEW --against" in step


def test_without_fails_on_test_it_says_so_and_asks_for_them() -> None:
    judged = outputs([1.0, 0.0] * 20, [[1.0]] * 40, [f"d{n}" for n in range(40)], scale=(0, 1))
    both = Scorecard.brief(judged)
    test = on_split(untuned=both, tuned=both, balanced=gain(NAN, None, None))
    summary = run_result(test=test)
    fails = dict(run_answer(summary))["Fails"]
    assert fails == "People call none of these outputs a fail: TNR is not known."
    steps = run_steps(summary)
    assert steps[0].startswith(
        "Do not rely on its verdicts: on test it does not agree with people more often"
    )
    assert steps[0].endswith("Label 10 more fails for an interval: on test are 0.")


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (gain(0, 0, 0), "found nothing better than the untuned judge"),
        (
            gain(-0.2, -0.3, -0.1),
            "$0.2000 untuned. So the tuned judge is worse: these 20 documents",
        ),
        (gain(0.01, 0.0004, 0.04), "20 documents cannot tell that from luck."),
        (gain(0.1, -0.1, 0.3), "20 documents cannot tell that from luck."),
        (
            gain(0.1, None, None),
            "$0.2000 untuned. 20 documents are too few for an interval, so this may be luck.",
        ),
        (gain(NAN, None, None), "not known: there is no gain on test"),
    ],
)
def test_each_gain_gets_its_own_sentence(test: IntervalEstimate, says: str) -> None:
    assert says in gain_sentence(run_result(test=on_split(test)))


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
    unseen = on_split(gain(value, value - 0.1, value + 0.1))
    assert f"{says} on unseen systems, for $0.5000" in gain_sentence(run_result(unseen=unseen))


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
        (order(NAN, None), "people tell no two outputs with a score apart."),
    ],
)
def test_agreement_is_held_against_a_coin(share: OrderAgreement, says: str) -> None:
    summary = run_result(test=on_split(tuned=card(None, share)))
    assert dict(run_answer(summary))["Agreement"].endswith(says)


def test_failures_of_either_judge_are_counted() -> None:
    test = on_split(untuned=card(rho(n_outputs=90, n_failed=10)))
    said = dict(run_answer(run_result(test=test)))
    assert said["No score"] == "untuned judge 10 of 100 outputs."
    assert "No score" not in dict(run_answer(run_result()))


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
    tuned = card(people=one_annotator(gain(-0.05, *ends)))
    said = dict(run_answer(run_result(test=on_split(tuned=tuned))))["One person"]
    assert said.startswith(says)
    assert "rho with the other annotators 0.420, an annotator's 0.470" in said


def test_a_run_takes_at_most_24_lines_of_80_columns_however_much_there_is_to_say() -> None:
    far = rho(-0.123, 0.4, n_failed=30, n_outputs=70)
    people = one_annotator(gain(-0.05, -0.1, 0.1))
    untuned, tuned = card(far, order(0.4, 0.2), people=people), card(far, order(0.45, 0.2))
    why = (
        "Shipped: the untuned judge. Prompts tuned the same way, each tried on documents that it "
        "was tuned without (126 in all), beat the untuned judge by 0.031 summary-level rho. If "
        "tuning did nothing, over 10% of runs would show as much."
    )
    summary = run_result(
        test=on_split(gain(0.1, -0.1, 0.3), untuned=untuned, tuned=tuned),
        unseen=on_split(gain(-0.1, -0.2, 0.3), untuned=untuned, tuned=tuned),
        shipped="seed", tuned_file="tuned.json", cached_calls=1200, why=why, max_cost=5.0,
    )  # fmt: skip
    lines = run_lines(summary, "runs/relevance-001")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_a_run_without_a_test_says_so() -> None:
    lines = run_lines(run_result(test=None))
    assert "Agreement: Not known: no labels were held out for a test." in lines
    assert "Next: Measure it on labels that it has not met: dspy-judges verify." in lines


def test_where_the_untuned_judge_ships_the_gain_is_the_tuned_ones_and_perfect_is_enough() -> None:
    untuned = run_result(shipped="seed", test=on_split(gain(0.3, 0.1, 0.5)))
    assert gain_sentence(untuned).startswith("On test summary-level rho is")
    assert "Label more" in run_steps(untuned)[0]
    perfect = card(None, order(1.0, 0.0))
    best = on_split(untuned=perfect, tuned=perfect)
    assert "Label more" not in " ".join(run_steps(run_result(shipped="seed", test=best)))


def test_nobody_is_told_to_raise_a_limit_that_was_not_reached() -> None:
    untuned = run_result(shipped="seed", test=on_split(gain(0, 0, 0)))
    assert "--max-cost" not in " ".join(run_steps(untuned))
    assert "--max-cost" in " ".join(run_steps(replace(untuned, limit_reached=True)))


def verdicts(right: int, n: int = 80, n_fails: int = 20) -> Scorecard:
    """A judge that is right on so many of both, in documents of their own."""
    human = [[0.0]] * n_fails + [[1.0]] * (n - n_fails)
    scores = [1 - one[0] if i % n >= right else one[0] for i, one in enumerate(human)]
    return Scorecard.brief(outputs(scores, human, [f"d{i}" for i in range(n)], scale=(0, 1)))


@pytest.mark.parametrize(
    ("own", "says"),
    [
        # The first 76 are right: all 20 fails and 56 of 60 passes, 95 % beside 75 %.
        (
            verdicts(76),
            "Use it: it agrees with people on 95%, and always saying pass would on 75%.",
        ),
        (verdicts(62), "Do not use its verdicts yet: it agrees with people on 78%"),
        (card(None, order(0.54, 0.06)), "Do not use it yet: it may agree with people no more than"),
        (card(None, order(0.7, None)), "Do not use it yet: these labels are too few"),
        (card(None, order(0.7, 0.1)), "Use it: it orders outputs as people do, clearly more often"),
        (card(rho(NAN, None, n_outputs=0)), "Do not use it yet: it gave no score."),
        (
            card(people=one_annotator(gain(-0.05, -0.1, -0.01))),
            "clearly more often than a coin, not as well as one annotator.",
        ),
    ],
)
def test_the_verdict_says_whether_to_use_the_judge(own: Scorecard, says: str) -> None:
    assert says in verdict_on(own, DATA)


def test_a_page_never_says_use_it_below_a_verdict_not_to() -> None:
    unclear = verdicts(62)
    result = run_result(test=on_split(tuned=unclear, balanced=gain(0.1, 0.02, 0.2)))
    step = run_steps(result)[0]
    assert run_lead(result, step).verdict.startswith("Do not use its verdicts yet")
    assert step.startswith("Label more documents: on test it does not clearly agree")


def test_where_test_and_gate_disagree_the_page_says_which_decides() -> None:
    assert tuning_sentence(run_result()).startswith("Tuning helped: by the gate")
    said = tuning_sentence(run_result(test=on_split(gain(-0.01, -0.1, 0.08))))
    assert "On test the difference is -0.010 [-0.100, +0.080]: test is small (20 documents)" in said
    assert said.endswith("the gate over the other 60 decides.")
    kept = run_result(shipped="seed", test=on_split(gain(0.1, 0.02, 0.18)))
    assert "no gain that is sure" in tuning_sentence(kept)
    assert tuning_sentence(kept).endswith("the gate over the other 60 decides.")


def test_tiles_count_misses_and_false_alarms_and_name_no_rate() -> None:
    caught, alarms, agreed = tiles_of(verdicts(76))
    assert (caught.number, caught.what) == ("100%", "of fails caught; it misses 0 of 20")
    assert (alarms.number, alarms.what) == ("7%", "false alarms; it fails 4 of 60 passes")
    assert agreed.what == "agreement with people; always saying pass reaches 75%"
    lead = run_lead(run_result(), "")
    assert [tile.number for tile in lead.tiles] == ["64%", "0.400", "0.400"]
    assert lead.lines[0] == "1,000 rows cost $0.5000; with the untuned judge $0.2000 (2.5 times)."
    assert lead.lines[1].startswith("Measured on 60 outputs of 20 documents that tuning did not")


def tuned(own: Scorecard) -> SplitResult:
    return on_split(tuned=own)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"test": tuned(card(rho(NAN, None, n_outputs=0, n_failed=9)))}, "failures: none"),
        ({"test": tuned(card(rho(n_failed=9)))}, "Mend the failures: 9 outputs"),
        ({"test": tuned(card(None, order(0.5)))}, "may be no better than a coin"),
        ({"test": tuned(card(None, order(0.7, None)))}, "too few for an interval"),
        ({"test": tuned(card(None, order(0.7, 0.15)))}, "is that uncertain"),
        ({"test": on_split(gain(0.1, -0.1, 0.3))}, "test alone does not confirm the gain"),
        ({"shipped": "seed"}, "Label more documents and tune again"),
        (
            {"test": on_split(gain(0.1, 0, 0.2)), "unseen": on_split(gain(-0.1, -0.2, 0))},
            "tuning has shown no gain on unseen systems",
        ),
        ({}, "catch a large drop in CI"),
    ],
)
def test_the_next_step_follows_from_a_figure(changes: dict[str, Any], says: str) -> None:
    steps = run_steps(run_result(**changes))
    assert says in " ".join(steps)
    assert len(steps) <= 3


def test_an_attack_that_works_is_warned_of_by_its_share_of_the_scale() -> None:
    assert any(
        "(order) raises them by 40%" in step for step in run_steps(run_result(), [("order", 0.4)])
    )
    assert "raises" not in " ".join(run_steps(run_result(), [("order", 0.09)]))


def test_constructed_labels_have_one_thing_to_do() -> None:
    summary = run_result(data=replace(DATA, sha256=starter().sha256))
    (step,) = run_steps(summary)
    assert "Tune on labels of your own: `dspy-judges tune --dimension relevance" in step
    assert "as the constructed labels do" in dict(run_answer(summary))["Agreement"]


def judge(
    name: str, value: float, dollars: float, error: float = 0, standing: Standing = "best"
) -> ComparedJudge:
    """A judge that is .3 wide around its figure, and from the best, if it is another."""
    ends = Interval(value - 0.7, value - 0.3)
    gap = Difference(value=value - 0.5, interval=ends, error=error, n_documents=20)
    usage = JudgeUsage(plan="one", cost_per_1000_rows=dollars)
    return ComparedJudge(
        entry=Entry(name=name, usage=usage),
        card=card(rho(value)),
        difference=None if standing == "best" else gap,
        standing=standing,
        n_met=0,
        n_given=0,
        tuned_on_these_labels=False,
    )


def comparison(value: float, error: float, standing: Standing) -> JudgeComparison:
    return JudgeComparison(
        dimension="relevance",
        kind="rating",
        level="summary",
        data=DATA,
        n_labelled=240,
        reference="dear",
        judges=[judge("dear", 0.5, 9.0), judge("cheap", value, 0.1, error, standing)],
        left_out=[],
        cost_usd=1.5,
    )


def test_the_cheaper_judge_is_advised_only_within_a_standard_error() -> None:
    near, unclear = comparison(0.45, 0.06, "as good"), comparison(0.328, 0.08, "unclear")
    assert comparison_step(near) == "Use cheap: as good as the best, and it costs $0.1000."
    assert dict(comparison_answer(near))["As good"] == "within one standard error of it: cheap."
    assert comparison_step(unclear).startswith("Use dear for now; more labels would tell")
    assert dict(comparison_answer(unclear))["Not known"] == "whether it is better than cheap."
    assert comparison_step(comparison(0.2, 0.05, "worse")) == "Use dear."


def test_a_clear_best_is_said_to_be_one() -> None:
    clear = comparison(0.2, 0.05, "worse")
    assert dict(comparison_answer(clear))["Sure"].startswith("Yes")
    lines = comparison_lines(clear, 3, "runs/c")
    assert max(map(len, lines)) <= 80
    assert "cheap  0.200 [0.000, 0.400]  -0.300 [-0.500, -0.100]  $0.1000" in lines


def test_sentences_are_wrapped_at_80_columns_and_a_flag_is_not_broken() -> None:
    assert wrapped("x" * 70 + " --min-spearman 0.3") == ["x" * 70, "--min-spearman 0.3"]
