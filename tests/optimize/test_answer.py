"""The answer in plain words: a true sentence for each kind of run."""

import math
from dataclasses import replace
from typing import Any

import pytest
from report_cases import DATA, card, gain, on_split, one_annotator, order, outputs, rho, run_result

from judges.labels.readers import starter
from optimize.measuring.asking import JudgeEntry, JudgeUsage
from optimize.measuring.comparison import ComparedJudge, Difference, JudgeComparison
from optimize.measuring.scorecard import Scorecard
from optimize.measuring.scored import TuningOverlap
from optimize.report.card import main_tiles, obstacle_to_use, recommendation
from optimize.report.comparison import comparison_answer, comparison_headline, comparison_lines
from optimize.report.tuning import tuning_answer, tuning_lines, tuning_steps
from optimize.statistics.intervals import Interval

NAN = math.nan


def answer_to(**changes: Any) -> dict[str, str]:
    """All sentences of a run's answer by what they are about."""
    answer = tuning_answer(run_result(**changes))
    return dict([*answer.reasons, *answer.facts])


def text(own: Scorecard) -> str:
    return " ".join(map(str, main_tiles(own)))


def test_the_answer_says_what_ships_the_gain_and_the_cost():
    answer = answer_to()
    assert [*answer] == ["Shipped", "Gain", "Cost", "Labels"]
    assert "rho is 0.400 untuned and 0.400 tuned: +0.100 [+0.020, +0.180]" in answer["Gain"]
    assert answer["Gain"].endswith("So tuning helped: these 20 documents had no part in it.")
    assert answer["Cost"].startswith("$0.0375, 1,200 judge calls and 1 proposal in 12 s.")
    assert answer["Cost"].endswith("will cost $0.5000, untuned $0.2000 (2.5 times).")
    # A limit may be reached although little was paid.
    limited = answer_to(cached_calls=9, limit_reached=True)["Cost"]
    assert "(9 more from the reply cache; the limit of the search counts them, too)" in limited
    failures = run_result(test=on_split(tuned=card(rho(n_outputs=90, n_failed=10))))
    assert tuning_answer(failures).measured_on.endswith("10 outputs got no score.")
    screen = " ".join(tuning_lines(run_result()))
    assert "Measured on 60 outputs of 20 documents that tuning did not" in screen
    assert screen.count("95%") == 1


def of_verdicts(scores: list[float], human: list[float]) -> Scorecard:
    """A judge of passes and fails, each in a document of its own."""
    documents = [f"d{n}" for n in range(len(scores))]
    people = [[label] for label in human]
    scored = outputs(scores, people, documents, level="dataset", scale=(0, 1))
    return Scorecard.from_scores(scored, has_verdicts=scored.has_verdicts)


def test_for_pass_or_fail_the_answer_counts_misses():
    people = [1.0, 0.0] * 40
    own = of_verdicts([1.0, 0.0, 1.0, 1.0] * 20, people)
    untuned = of_verdicts([1.0] * 80, people)
    test = on_split(balanced=gain(0.25, 0.15, 0.35), untuned=untuned, tuned=own)
    misses, alarms, kappa = map(str, main_tiles(own))
    assert misses.startswith("Fails caught (TNR): 50% (35% to 65%); it misses 20 of 40 fails.")
    assert alarms.startswith("False alarms (1 - TPR): 0% (0% to 9%); it fails 0 of 40 passes.")
    assert "always pass: 50%; kappa" in kappa
    gained = answer_to(test=test)["Gain"]
    assert "accuracy is 0.500 untuned and 0.750 tuned: +0.250 [+0.150, +0.350]" in gained
    table = tuning_lines(run_result(test=test, unseen=test))[-5:]
    assert table[3].startswith("new systems, untuned  1.000 [")
    assert max(map(len, table)) <= 80
    (step,) = tuning_steps(run_result(test=test))
    # 40 of 40 may well be 37 when labelled again, whose interval begins at .80; 20 of 40 be 12. A
    # judge that passes 79 % at random holds .79 and .17.
    assert "--min-tpr X --min-tnr X`. Labels are too few for a floor in CI with a safe" in step


NOT_SHIPPED = {"shipped": "untuned", "tuned_file": "tuned.json"}
DECIDES = "Which judge ships was decided on the other 60 documents."


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shipped": "untuned", "test": gain(0)}, "found nothing better than the untuned"),
        # On few outputs, two different judges may have the same figure.
        ({"test": gain(0)}, "On these 20 documents the two judges do equally well."),
        ({"test": gain(0.1)}, "or too alike, for an interval: this may be luck."),
        ({"test": gain(-0.2, -0.3, -0.1)}, "So the tuned judge is worse: these 20 documents"),
        ({"test": gain(0.01, 0.0004, 0.04)}, "20 documents are too few to tell this from luck."),
        ({"test": gain(NAN)}, "not known whether tuning helped"),
        ({"unseen": gain(-0.03, -0.13, 0.07)}, "; on unseen systems -0.030 [-0.130, +0.070]."),
        # Where test and gate disagree the gate decides.
        ({"test": gain(-0.01, -0.1, 0.08)}, f"are too few to tell this from luck. {DECIDES}"),
        (NOT_SHIPPED, DECIDES),
        ({**NOT_SHIPPED, "test": gain(0.3, 0.1, 0.5)}, "On test summary-level rho is"),
    ],
)
def test_each_kind_of_gain_has_its_own_sentence(changes, says):
    splits = {k: on_split(v) if k in ("test", "unseen") else v for k, v in changes.items()}
    assert says in answer_to(**splits)["Gain"]
    assert DECIDES not in answer_to()["Gain"]


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ((-0.2, -0.1), "beats a coin, but orders outputs worse than one annotator."),
        ((-0.2, 0.1), "beats a coin, and perhaps orders outputs as well as one annotator."),
        ((0.1, 0.2), "beats a coin, and orders outputs better than one annotator."),
        ((None, None), "Summary-level rho is 0.400 (0.200 to 0.600): it beats a coin."),
    ],
)
def test_the_answer_compares_the_judge_with_one_annotator(ends, says):
    own = card(people_figures=one_annotator(gain(-0.05, *ends)))
    assert tuning_answer(run_result(test=on_split(tuned=own))).headline.endswith(says)
    assert "One annotator's rho with others: 0.470" in text(own)
    assert text(own).endswith("the judge's: 0.420; n=40.")


def test_a_run_prints_at_most_24_lines_of_80_columns():
    far, people = rho(-0.123, 0.4, n_failed=30, n_outputs=70), one_annotator(gain(-0.05, -0.1, 0.1))
    own = {"untuned": order(0.4, 0.2), "tuned": order(0.45, 0.2)}
    cards = {name: card(far, share, people_figures=people) for name, share in own.items()}
    test, unseen = (on_split(gain(value, -0.2, 0.3), **cards) for value in (0.1, -0.1))
    why = "Shipped: the untuned judge. " + "Tuned prompts beat it. " * 6
    ends = {**NOT_SHIPPED, "cached_calls": 1200, "max_cost": 5.0}
    lines = tuning_lines(run_result(test=test, unseen=unseen, why=why, **ends), "runs/relevance-1")
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def verdicts(right: int) -> Scorecard:
    """A judge that is right on the first so many of 20 fails and 60 passes."""
    human = [0.0] * 20 + [1.0] * 60
    return of_verdicts([*human[:right], *(1 - label for label in human[right:])], human)


@pytest.mark.parametrize(
    ("own", "gate", "says"),
    [
        # The first 76 are right: all 20 fails and 56 of 60 passes, 95 % beside 75 %.
        (verdicts(76), None, "It is better than always saying pass, but it fails 7%"),
        (verdicts(80), None, "It is better than always saying pass, and it misses 0%"),
        (verdicts(62), None, "Do not use its verdicts yet: it agrees with people on 78%"),
        (verdicts(62), None, "would agree on 75%. The labels are too few to exclude luck."),
        (card(None, order(0.54, 0.06)), None, "Do not use it yet: it may be no better than a coin"),
        (card(None, order(0.4, 0.06)), None, "Do not use it: its scores and the labels run in"),
        (card(None, order(0.7, None)), None, "Do not use it yet: labels are too few"),
        (card(None, order(0.7, 0.1)), None, "Summary-level rho is 0.400 (0.200 to 0.600)"),
        (card(rho(NAN, None, n_outputs=0)), None, "Do not use it yet: it gave no score."),
        (card(rho(n_outputs=13, n_failed=83)), None, "Do not use it yet: more than half of its"),
        # Only a judge that is above its floors is recommended.
        (verdicts(76), "holds", "Use it: it is above its floors, but it fails 7% of the passes."),
        (card(), "holds", "Use it: it is above its floors."),
        (verdicts(62), "holds", "It is above its floors. Do not use its verdicts yet: it agrees"),
        (verdicts(76), "falls short", "It falls short of what is required."),
        (verdicts(76), "undecided", "Undecided: these labels cannot tell if it is above its"),
    ],
)
def test_the_headline_says_whether_to_use_the_judge(own, gate, says):
    assert says in recommendation(own, obstacle_to_use(own, DATA), gate)


ALL_PASS = of_verdicts([1.0, 0.0] * 20, [1.0] * 40)
UNTUNED = {"shipped": "untuned", "test": on_split(gain(0.3, 0.1, 0.5))}
PERFECT = card(None, order(1.0, 0.0))
FEW = on_split(untuned=card(None, order(0.7, None)), tuned=card(None, order(0.7, None)))
FAILED = card(rho(n_outputs=13, n_failed=83), order(0.7, None))
NO_GAIN = "Label more documents and tune again, or try a stronger"


@pytest.mark.parametrize(
    ("changes", "first", "others"),
    [
        (card(rho(NAN, None, n_outputs=0, n_failed=9)), "Fix the failures: 9 outputs", ""),
        (card(None, order(0.5)), "Label more documents", ""),
        (card(None, order(0.7, None)), "Label more documents: too few for an interval", ""),
        (card(None, order(0.7, 0.15)), "Label more documents", "the interval is still wide"),
        # A judge whose verdicts are not to be used, and whose gain is clear.
        (verdicts(62), "Label more documents", ""),
        # Test has 40 of 240 outputs, so that ten fails there take many more in all labels.
        (ALL_PASS, "Label 43 more fail outputs for an interval of TNR on test.", ""),
        ({"test": on_split(gain(0.1, -0.1, 0.3))}, "Verify the judge", "test alone does not"),
        (UNTUNED, "Label more documents and tune again", ""),
        # Without an interval, labels come before another run; failures come before both.
        ({**UNTUNED, "test": FEW}, "Label more documents: too few for an interval", NO_GAIN),
        ({**UNTUNED, "test": on_split(untuned=FAILED, tuned=FAILED)}, "Fix the failures", NO_GAIN),
        ({**UNTUNED, "limit_reached": True}, "The limit ended the search", "--max-cost"),
        # The larger limit comes before more labels, also if a tuned judge ships.
        ({"limit_reached": True, "test": FEW}, "The limit ended the search", "Label more"),
        ({"limit_reached": True}, "Load it with", ""),
        (UNTUNED | {"test": on_split(untuned=PERFECT, tuned=PERFECT)}, "Load it with", ""),
        ({"unseen": on_split(gain(-0.1, -0.2, 0))}, "Before you judge", "no gain on unseen"),
        ({}, "Load it with `judges.load(", "verify FOLDER --data FILE --min-spearman X"),
        ({"test": None}, "Measure it on labels that it has not seen", ""),
    ],
)
def test_the_next_steps_follow_from_the_figures(changes, first, others):
    if isinstance(changes, Scorecard):
        changes = {"test": on_split(untuned=changes, tuned=changes)}
    answer = tuning_answer(run_result(**changes))
    assert answer.next_steps[0].startswith(first)
    assert others in " ".join(answer.next_steps)
    assert len(answer.next_steps) <= 3
    is_refused = answer.headline.startswith("Do not use")
    assert not (is_refused and "Load it" in " ".join(answer.next_steps))


def test_constructed_labels_give_one_step():
    summary = run_result(data_counts=replace(DATA, sha256=starter().sha256))
    (step,) = tuning_steps(summary)
    assert "Tune on labels of your own: `dspy-judges tune --dimension relevance" in step
    assert "were constructed" in tuning_answer(summary).headline


def judge(name: str, value: float, dollars: float, error: float | None = None) -> ComparedJudge:
    """A judge that is .4 wide around its figure, and from the best, if it is another."""
    ends = Interval(value - 0.7, value - 0.3)
    gap = Difference(value=value - 0.5, interval=ends, standard_error=error, n_documents=20)
    return ComparedJudge(
        judge_entry=JudgeEntry(name=name, usage=JudgeUsage(plan="one", cost_per_1000_rows=dollars)),
        scorecard=card(rho(value)),
        difference=None if error is None else gap,
        overlap=TuningOverlap(n_rows=0, n_document_rows=0, tuned_on_these_labels=False),
    )


@pytest.mark.parametrize(
    ("value", "error", "advice", "titles"),
    [
        (0.45, 0.06, "cheap is cheaper, and within a standard error of", ["As good"]),
        (0.328, 0.08, "dear has the best figure; more labels would tell", ["Not known"]),
        (0.2, 0.05, "dear is the best of these judges.", []),
    ],
)
def test_the_cheaper_judge_is_advised_only_within_a_standard_error(value, error, advice, titles):
    judges = [judge("dear", 0.5, 9.0), judge("cheap", value, 0.1, error)]
    about = {"dimension": "relevance", "kind": "rating", "level": "summary", "data_counts": DATA}
    counts = {"n_labelled": 240, "left_out": [], "cost_usd": 1.5}
    result = JudgeComparison(reference="dear", judges=judges, **about, **counts)
    assert comparison_headline(result).startswith(advice)
    *relations, _ = comparison_answer(result).facts  # the last fact names the labels
    assert [title for title, _ in relations] == titles
    assert all(sentence.endswith(" cheap.") for _, sentence in relations)
    lines = comparison_lines(result, 3, "runs/c")
    assert max(map(len, lines)) <= 80
    (row,) = (line for line in lines if line.startswith("cheap  "))
    ends = [f"{end:+.3f}" for end in (value - 0.5, value - 0.7, value - 0.3)]
    assert row.split()[-4:] == [ends[0], f"[{ends[1]},", f"{ends[2]}]", "$0.1000"]
