"""The command verify on pass and fail, and what else explains a judge's scores."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_runs import json_of, output_of, run
from files import read_jsonl, write_jsonl
from report_cases import outputs

from judges.judgement import Judgement
from optimize import compare
from optimize.measuring.verification import Associations
from optimize.statistics.intervals import Vector
from optimize.verify import command

pytestmark = pytest.mark.usefixtures("here")

# People's label, the score, and how many outputs of each of 20 documents have both.
CARD = [(1, 0.9, 5), (1, 0.2, 1), (0, 0.8, 1), (0, 0.1, 2)]


def files(card=CARD, documents=20):
    """Arguments that verify these scores."""
    labels, scores = [], []
    cells = [(label, score) for label, score, number in card for _ in range(number)]
    for d in range(documents):
        for place, (label, score) in enumerate(cells):
            name = f"d{d}o{place}"
            texts = {"input": f"Question {d}?", "output": f"Answer {place} to {d}. " + 20 * "So. "}
            labels.append({"id": name, "group": f"d{d}", **texts, "charm": label})
            scores.append({"id": name, "dimension": "charm", "score": score - d / 1000})
    return of_rows(labels, scores)


def of_rows(labels, scores, dimension="charm"):
    arguments = ["--scores", write_jsonl("s.jsonl", scores), "--dimension", dimension]
    return [*arguments, "--data", write_jsonl("l.jsonl", labels)]


def test_the_first_screen_counts_false_passes_and_false_alarms():
    result = run(command, *files(documents=30))
    lines, text = result.stdout.splitlines(), result.out
    for words in (
        r"Fails caught \(TNR\): 67% \(.+\); it misses 30 of 90 fails\.",
        r"False alarms \(1 - TPR\): 17% \(.+\); it fails 30 of 180 passes\.",
        # Both pass 180 of 270: chance agrees on 4/9 + 1/9, and kappa is (7/9 - 5/9) / (4/9).
        r"Agreement: 78% \(.+\); always pass: 67%; kappa 0\.500",
        r"Rates: People pass 67%, the judge 67%\.",
        # The judge is surest of the first document's false passes, the last one's false alarms.
        r"false pass d0o6: An.*false alarm d29o5: Answer 5 to 29\. So\.",
        r"Next:.*it must stay above: --min-tpr X --min-tnr X\. For CI: --min-tpr 0\.",
        r"\(an equally good judge passes 9 of 10 times\)\..* --report FILE\.html shows them\.",
    ):
        assert re.search(words, text), words
    assert (result.code, len(lines) <= 12, max(map(len, lines)) <= 80) == (0, True, True)
    assert (text.count("95%"), text.count("rho")) == (1, 0)
    out = run(command, *files(), "--all").out
    # Twenty documents of nine outputs do not tell how much alike these are.
    assert "too few for a floor in CI with a safe margin: label more" in out
    assert "dataset-level rho" in out


def test_agreement_is_compared_with_that_of_annotators_and_misses_still_fit():
    votes = [{"ann": n % 4 > 0, "bob": n % 4 > 0} for n in range(80)]
    rows = [
        {"id": f"o{n}", "output": f"A{n}", "annotations": {"charm": votes[n]}} for n in range(80)
    ]
    # .4 is no pass, though both annotators call it one.
    scores = [{"id": f"o{n}", "dimension": "charm", "score": (n % 8) / 10} for n in range(80)]
    out = run(command, *of_rows(rows, scores)).stdout
    # Of eight, the fails have 0 and .4, and of the passes .1, .2 and .3 are no pass to the judge.
    (agreement,) = (line for line in out.splitlines() if line.startswith("Agreement: 62%"))
    assert "two annotators agree on 100%" in agreement
    assert "it fails 30 of 60 passes." in out
    assert "\nfalse alarm" in out
    assert len(out.splitlines()) <= 12


def test_the_scorecard_is_at_the_top_level_of_json():
    result = json_of(command, *files())
    counts = {"pass_pass": 100, "pass_fail": 20, "fail_pass": 20, "fail_fail": 40}
    assert result["confusion"] == counts
    assert result["tpr"]["value"] == pytest.approx(100 / 120, abs=1e-6)
    assert result["tpr"]["low"] < result["tpr"]["value"] < result["tpr"]["high"]
    assert (result["tpr"]["n"], result["tnr"]["n"], result["kappa"]["n"]) == (120, 60, 180)
    assert result["constant"]["word"] == "pass"
    assert result["constant"]["accuracy"]["value"] == pytest.approx(2 / 3, abs=1e-6)
    assert result["level"] == "dataset"
    assert [row["miss"] for row in result["misses"]] == ["false pass"] * 3 + ["false alarm"] * 3


@pytest.mark.parametrize(
    ("floors", "code", "gate", "says"),
    [
        (["--min-tpr", "0.7", "--min-tnr", "0.5"], 0, "holds", ""),
        (["--min-tpr", "0.95"], 1, "falls short", "falls short: TPR 0.8333 [0."),
        (["--min-tnr", "0.6"], 3, "undecided", "more fails would decide"),
        (["--min-tpr", "0.95", "--min-tnr", "0.6"], 1, "falls short", "undecided: TNR"),
        (["--min-spearman", "0.1"], 0, "holds", ""),
        (["--min-tpr", "1.5"], 2, None, "--min-tpr"),
    ],
)
def test_the_gate_compares_the_whole_interval_with_the_floor(floors, code, gate, says):
    arguments = [*files(), *floors]
    result = run(command, *arguments)
    assert (result.code, says in result.err) == (code, True)
    if gate:
        figures = json_of(command, *arguments, code=code)
        assert (figures["gate"], figures["passed"]) == (gate, code == 0)
        # The decision and its figures are in the answer; how many labels would decide is said once.
        assert f"Gate: {gate}: " in result.out
        assert "would decide" not in result.out


def test_the_report_of_a_gate_has_every_miss(here):
    floors = ["--min-tpr=0.7", "--min-tnr=0.5", "--min-spearman=0.1"]
    result = run(command, *files(), *floors, "--report=page.html")
    gate = r"Gate: holds: rho 0.\d+ \[.+\] >= 0.1; TPR 0.8333 \[.+\] >= 0.7; TNR 0.6667 .+ >= 0.5"
    assert re.search(gate, result.out)
    assert len(result.stdout.splitlines()) <= 12
    text = (here / "page.html").read_text(encoding="utf-8")
    advice = "Use it: it is above its floors, but it misses 33% of the fails."
    in_order = (advice, "holds: rho", "People pass 67%, the judge", 'id="misses"')
    assert [*map(text.index, in_order)] == sorted(map(text.index, in_order))
    for words in (
        *("Next:</b> The same command checks it in CI.", "People: <b>fail</b>. Judge: <b>pass</b>"),
        *("False passes: 20 outputs", "False alarms: 20 outputs"),
    ):
        assert words in text
    assert text.count("<article ") == 40
    with Path("page.misses.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["miss"] for row in rows] == ["false pass"] * 20 + ["false alarm"] * 20
    assert rows[0]["output"].startswith("Answer 6 to 0.")
    assert rows[0]["text_input"] == "Question 0?"
    assert [*rows[0]][4:9] == ["label", "verdict", "score", "comment", "reason"]
    assert (rows[0]["label"], rows[0]["verdict"]) == ("fail", "pass")


def test_too_few_fails_withhold_the_interval_and_leave_the_gate_undecided():
    arguments = files([(1, 0.9, 9), (0, 0.1, 1)], documents=6)
    result = run(command, *arguments, "--min-tnr", "0.5")
    assert "Fails caught (TNR): 100%; it misses 0 of 6 fails." in result.stdout
    assert "Next: Label 4 more fail outputs for an interval of TNR." in result.stdout
    assert "TNR 1.0000 too few for an interval, --min-tnr 0.5: 4 more fails" in result.err
    assert result.code == 3


@pytest.mark.parametrize(
    ("card", "code", "says"),
    [
        ([(1, 1.0, 1), (3, 2.0, 1), (0, 1.0, 1)], 2, "need labels that say pass or fail"),
        # A judge that gives ratings is ranked.
        ([(1, 5.0, 2), (0, 2.0, 1)], 1, "the scores are not between 0 and 1"),
    ],
    ids=["of labels", "of scores"],
)
def test_floors_for_rates_need_labels_of_pass_or_fail(card, code, says):
    assert not {"misses", "confusion"} & json_of(command, *files(card)).keys()
    status, _, err = run(command, *files(card), "--min-tpr", "0.5")
    assert (status, says in err) == (code, True)


def test_judges_of_pass_and_fail_are_ranked_by_balanced_accuracy(capsys):
    good, scores = files(), read_jsonl("s.jsonl")
    # Always pass: .5 balanced, though it agrees on two thirds.
    always = write_jsonl("always.jsonl", [{**row, "score": 1} for row in scores])
    assert compare.command([*good, "--scores", always, "--out", "run"]) == 0
    out = capsys.readouterr().out
    assert "These figures are of s. It is better than always saying pass, but it misses" in out
    assert "it misses 20 of 60 fails" in out
    assert out.count("95%") == 1
    assert re.search(r"judge +TPR +TNR +kappa\ns +0.833", out)
    other = json.loads(Path("run/summary.json").read_text())["judges"][1]
    assert other["difference"]["value"] == pytest.approx(-0.25)
    assert other["balanced_accuracy"]["value"] == 0.5
    # Beside a judge that rates, rho is what both have.
    rated = write_jsonl("rated.jsonl", [{**row, "score": 1 + 4 * row["score"]} for row in scores])
    assert compare.command([*good, "--scores", rated, "--json", "--out", "other"]) == 0
    cards = json.loads(capsys.readouterr().out)["judges"]
    assert not any("confusion" in row for row in cards)


# What else explains a judge's scores: length, position, chance.
DOCUMENTS, OUTPUTS = 30, 6
FOLLOWS = "scores follow length more than people's labels do: rho "


def verify_both(judge: Vector, people: Vector, *, texts: bool = True) -> tuple[Any, str]:
    """What verify says of these scores and labels of outputs of 1 to 6 words a document."""
    words = np.tile(np.arange(1, OUTPUTS + 1), DOCUMENTS)
    rows = [
        {"id": f"{n}", "group": f"{n // OUTPUTS}", "charm": label}
        | ({"source": "x " * 50, "summary": "word " * count} if texts else {})
        for n, (label, count) in enumerate(zip(people.tolist(), words.tolist(), strict=True))
    ]
    scores = [{"id": f"{n}", "dimension": "charm", "score": s} for n, s in enumerate(judge)]
    arguments = ["--data", write_jsonl("l.jsonl", rows), "--dimension", "charm"]
    arguments += ["--scores", write_jsonl("s.jsonl", scores), "--scale", "any"]
    return json_of(command, *arguments)["associations"], output_of(command, *arguments)


def noise(seed: int) -> Vector:
    return np.random.default_rng(seed).normal(size=DOCUMENTS * OUTPUTS)


LONGER = np.tile(np.arange(OUTPUTS, dtype=float), DOCUMENTS)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_judge_that_follows_length_gets_a_warning(sign):
    result, text = verify_both(sign * LONGER, noise(0) + noise(1))
    length = result["length"]
    # Its ranks are those of the lengths of the outputs themselves, not of what systems were given.
    assert length["judge"] == sign
    assert abs(length["people"]) < 0.2
    assert length["low"] < sign - length["people"] < length["high"]
    assert f"{FOLLOWS}{sign:+.3f} against {length['people']:+.3f}." in text
    assert text.index(FOLLOWS) < text.index("Measured on")  # where warnings stand


def test_following_length_as_people_do_gets_no_warning():
    people = LONGER + noise(0)
    for judge in (people + 0.2 * noise(1), noise(2)):
        result, text = verify_both(judge, people)
        assert (result["length"]["people"] > 0.7, "length" in text) == (True, False)
    result, text = verify_both(LONGER, noise(0), texts=False)
    assert result == {"length": None, "position": None, "repeats": None}
    assert "length" not in text


@pytest.mark.parametrize(
    ("first", "place"), [(18, "first in 68% of cases"), (0, "second in 78% of cases"), (11, "")]
)
def test_a_preference_for_one_position_is_reported_if_it_exceeds_chance(first, place):
    """Of 40 pairs 18 are decided by quality, `first` for the first place, the others the second."""
    orders = [("A", "B")] * 18 + [("A", "A")] * first + [("B", "B")] * (22 - first)
    sides = {"response_a": "a", "response_b": "b", "preferred": "A"}
    pairs = [{"id": f"{n}", "prompt": f"Q{n}", **sides} for n in range(40)]
    replies = [{"id": f"{n}", "order_ab": a, "order_ba": b} for n, (a, b) in enumerate(orders)]
    arguments = ["--replies", write_jsonl("r.jsonl", replies), "--pairwise", "wit"]
    arguments += ["--data", write_jsonl("p.jsonl", pairs), "--values", "A=A,B=B"]
    position = json_of(command, *arguments)["associations"]["position"]
    assert position["value"] == pytest.approx((2 * first - 22) / 40, abs=1e-6)
    assert position["low"] <= position["value"] <= position["high"]
    text = output_of(command, *arguments)
    assert ("It prefers the output shown" in text, place in text) == (bool(place), True)


def test_repeated_samples_show_how_often_a_verdict_repeats():
    names = [f"d{n}" for n in range(20)]

    def repeats(*verdicts: Judgement) -> float | None:
        judgements = [verdicts[n % len(verdicts)] for n in range(20)]
        scores = [one.score for one in judgements]
        human = [[n % 2] for n in range(20)]
        evidence = outputs(scores, human, names, judgements=judgements, level="dataset")
        return Associations.from_scores(evidence).repeat_agreement

    # Of 4 passes in 5 samples 6 of 10 pairs of samples are alike, of 5 in 5 all.
    four = Judgement(score=0.8, distribution={0: 0.2, 1: 0.8}, samples=5)
    five = Judgement(score=1.0, distribution={1: 1.0}, samples=5)
    assert repeats(four) == pytest.approx(0.6)
    assert repeats(five) == 1
    # A single reply and probabilities are no samples.
    one = Judgement(score=1.0, rating=1, samples=1)
    weighted = Judgement(score=0.7, distribution={0: 0.3, 1: 0.7}, samples=1)
    assert repeats(one, weighted) is None
    assert repeats(one, four) == pytest.approx(0.6)
