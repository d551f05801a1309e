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
from optimize.measuring.tuning_result import SplitResult, TuningResult
from optimize.report.card import obstacle_to_use, recommendation, tiles_of
from optimize.report.comparison import comparison_answer, comparison_lines
from optimize.report.next_steps import comparison_step, run_steps
from optimize.report.tuning import run_answer, run_lines
from optimize.statistics.intervals import Interval, IntervalEstimate

NAN = math.nan


def said(result: TuningResult) -> dict[str, str]:
    """All sentences of a run's answer by what they are about."""
    answer = run_answer(result)
    return dict([*answer.why, *answer.facts])


def test_the_answer_is_what_ships_the_gain_and_the_cost() -> None:
    told = said(run_result())
    assert [*told] == ["Shipped", "Gain", "Cost", "Labels"]
    assert "rho is 0.400 untuned and 0.400 tuned: +0.100 [+0.020, +0.180]" in told["Gain"]
    assert told["Gain"].endswith("So tuning helped: these 20 documents had no part in it.")
    assert told["Cost"].startswith("$0.0375, 1,200 judge calls and 1 proposal in 12 s. 1,000 rows")
    assert told["Cost"].endswith("will cost $0.5000, untuned $0.2000 (2.5 times).")


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
    caught, alarms, agreed = map(str, tiles_of(cards["tuned"]))
    assert caught.startswith("Fails caught (TNR): 50% (35% to 65%); it misses 20 of 40 fails.")
    assert alarms.startswith("False alarms (1 - TPR): 0% (0% to 9%); it fails 0 of 40 passes.")
    assert "always pass: 50%" in agreed
    gained = said(summary)["Gain"]
    assert "accuracy is 0.500 untuned and 0.750 tuned: +0.250 [+0.150, +0.350]" in gained
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
    assert "TNR" not in " ".join(map(str, tiles_of(both)))
    assert run_steps(summary)[0] == (
        "Label 10 more fails for an interval: it needs 10 on test, from 5 documents."
    )


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (gain(0, 0, 0), "found nothing better than the untuned judge"),
        (
            gain(-0.2, -0.3, -0.1),
            "So the tuned judge is worse: these 20 documents",
        ),
        (gain(0.01, 0.0004, 0.04), "20 documents are too few to tell this from luck."),
        (gain(0.1, -0.1, 0.3), "20 documents are too few to tell this from luck."),
        (
            gain(0.1, None, None),
            "20 documents are too few for an interval, so this may be luck.",
        ),
        (gain(NAN, None, None), "not known whether tuning helped"),
    ],
)
def test_each_gain_gets_its_own_sentence(test: IntervalEstimate, says: str) -> None:
    assert says in said(run_result(test=on_split(test)))["Gain"]


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
    assert f"{says} on unseen systems." in said(run_result(unseen=unseen))["Gain"]


def test_agreement_is_held_against_a_coin() -> None:
    shares = order(0.64, 0.06), order(0.64, None), order(NAN, None)
    told = [[*map(str, tiles_of(card(None, share)))] for share in shares]
    what = "Pairs of a document ordered as people do: 64%"
    assert told[0][0] == f"{what} (58% to 70%); a coin reaches 50%."
    assert told[1][0] == f"{what}; a coin reaches 50%."
    assert not any(line.startswith("Pairs") for line in told[2])


def test_failures_of_either_judge_are_counted() -> None:
    failed = card(rho(n_outputs=90, n_failed=10))
    other = run_result(test=on_split(untuned=failed))
    assert said(other)["No score"].endswith("failed on 10 outputs.")
    assert "No score" not in said(run_result())
    own = run_answer(run_result(test=on_split(tuned=failed))).measured
    assert own.endswith("10 outputs got no score.")


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ((-0.2, -0.1), " worse than one annotator."),
        ((-0.2, 0.1), ", perhaps as well as one annotator."),
        ((0.1, 0.2), ", better than one annotator."),
        ((None, None), "than a coin."),
    ],
)
def test_the_judge_is_told_beside_one_annotator(ends: tuple[Any, Any], says: str) -> None:
    tuned = card(people=one_annotator(gain(-0.05, *ends)))
    answer = run_answer(run_result(test=on_split(tuned=tuned)))
    assert answer.headline.endswith(says)
    told = str(answer.tiles[-1])
    assert told.startswith("One annotator's rho with others: 0.470")
    assert told.endswith("the judge's: 0.420.")


def test_a_run_takes_at_most_24_lines_of_80_columns_however_much_there_is_to_say() -> None:
    far = rho(-0.123, 0.4, n_failed=30, n_outputs=70)
    people = one_annotator(gain(-0.05, -0.1, 0.1))
    untuned, tuned = card(far, order(0.4, 0.2), people=people), card(far, order(0.45, 0.2))
    why = (
        "Shipped: the untuned judge. Cross-validated on 126 documents, tuned prompts beat the "
        "untuned judge by 0.031 summary-level rho. If tuning did nothing, over 10% of runs would "
        "show as much."
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
    assert lines[1].startswith("Do not use it yet: no labels were held out")
    assert "Next: Measure it on labels that it has not seen: dspy-judges verify." in lines


def test_where_the_untuned_judge_ships_the_gain_is_the_tuned_ones_and_perfect_is_enough() -> None:
    untuned = run_result(shipped="seed", test=on_split(gain(0.3, 0.1, 0.5)))
    assert said(untuned)["Gain"].startswith("On test summary-level rho is")
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
            "Use it: it agrees with people on 95%; always saying pass would agree on 75%.",
        ),
        (verdicts(62), "Do not use its verdicts yet: it agrees with people on 78%"),
        (card(None, order(0.54, 0.06)), "Do not use it yet: it may be no better than a coin"),
        (card(None, order(0.7, None)), "Do not use it yet: labels are too few"),
        (card(None, order(0.7, 0.1)), "Use it: it orders outputs as people do, clearly more often"),
        (card(rho(NAN, None, n_outputs=0)), "Do not use it yet: it gave no score."),
    ],
)
def test_the_verdict_says_whether_to_use_the_judge(own: Scorecard, says: str) -> None:
    assert says in recommendation(own, obstacle_to_use(own, DATA))


def test_the_next_step_never_says_use_it_below_a_verdict_not_to() -> None:
    result = run_result(test=on_split(tuned=verdicts(62), balanced=gain(0.1, 0.02, 0.2)))
    answer = run_answer(result)
    assert answer.headline.startswith("Do not use its verdicts yet")
    assert answer.steps[0].startswith("Label more documents")
    assert "Use it" not in " ".join(answer.steps)


def test_where_test_and_gate_disagree_the_gain_says_which_decides() -> None:
    decides = "The gate, over the other 60 documents, decides."
    assert decides not in said(run_result())["Gain"]
    worse = said(run_result(test=on_split(gain(-0.01, -0.1, 0.08))))["Gain"]
    assert "-0.010 [-0.100, +0.080]. 20 documents are too few to tell this from luck." in worse
    kept = said(run_result(shipped="seed", test=on_split(gain(0.1, 0.02, 0.18))))["Gain"]
    assert worse.endswith(decides)
    assert kept.endswith(decides)


def test_screen_and_page_tell_the_same_figures_and_the_confidence_once() -> None:
    caught, alarms, agreed = tiles_of(verdicts(76))
    assert (caught.number, caught.note) == ("100%", "it misses 0 of 20 fails")
    assert (alarms.number, alarms.note) == ("7%", "it fails 4 of 60 passes")
    assert agreed.note.startswith("always pass: 75%; kappa")
    answer, lines = run_answer(run_result()), run_lines(run_result())
    assert [tile.number for tile in answer.tiles] == ["64%", "0.400"]
    assert answer.measured.startswith("Measured on 60 outputs of 20 documents that tuning did not")
    assert {str(tile) for tile in answer.tiles} <= {*lines}
    assert " ".join(lines).count("95%") == 1


def tuned(own: Scorecard) -> SplitResult:
    return on_split(tuned=own)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"test": tuned(card(rho(NAN, None, n_outputs=0, n_failed=9)))}, "failures: none"),
        ({"test": tuned(card(rho(n_failed=9)))}, "Fix the failures: 9 outputs"),
        ({"test": tuned(card(None, order(0.5)))}, "Label more documents"),
        ({"test": tuned(card(None, order(0.7, None)))}, "too few for an interval"),
        ({"test": tuned(card(None, order(0.7, 0.15)))}, "the interval is still wide"),
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
    assert "made from known faults" in run_answer(summary).headline


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
    assert comparison_step(near) == "Use cheap: as good as the best, and cheaper."
    assert ("As good", "within one standard error of the best judge: cheap.") in comparison_answer(
        near
    ).facts
    assert comparison_step(unclear).startswith("Use dear for now; more labels would tell")
    assert ("Not known", "whether it is better than cheap.") in comparison_answer(unclear).facts
    assert comparison_step(comparison(0.2, 0.05, "worse")) == "Use dear."


def test_a_clear_best_is_said_to_be_one() -> None:
    clear = comparison(0.2, 0.05, "worse")
    assert dict(comparison_answer(clear).facts)["Clear"].startswith("The best judge")
    lines = comparison_lines(clear, 3, "runs/c")
    assert max(map(len, lines)) <= 80
    assert "cheap  0.200 [0.000, 0.400]  -0.300 [-0.500, -0.100]  $0.1000" in lines


def test_sentences_are_wrapped_at_80_columns_and_a_flag_is_not_broken() -> None:
    assert wrapped("x" * 70 + " --min-spearman 0.3") == ["x" * 70, "--min-spearman 0.3"]
