"""The answer in plain words: a true sentence for each kind of run, the same on page and screen."""

import math
from typing import Any

import pytest
from optimize.answer import (
    run_answer,
    scale_warning,
    short_warnings,
    verification_answer,
    verification_step,
    what_settles,
)
from optimize.run.plain_figures import order_figures, scale_figures
from optimize.screen import scorecard
from report_cases import outputs, pairs, plain, result, run_page, run_summary, text_of

import data
from optimize.statistics.intervals import Interval, documents_for_difference

CELL = {
    "coefficient": "spearman", "level": "summary", "value": 0.4, "low": 0.2, "high": 0.6,
    "n_outputs": 60, "n_documents": 20, "n_undefined": 4, "n_failed": 0,
}  # fmt: skip
ORDER = {
    "value": 0.64, "low": 0.58, "high": 0.7, "n_pairs": 200, "n_ties": 0, "n_tied_by_people": 9,
    "n_documents": 20, "two_people": None, "against_one": None,
}  # fmt: skip


def run(**changes: Any) -> dict[str, Any]:
    """A summary: tuned ships, from .60 to .64 of pairs on test."""
    order = {"test": {"seed_judge": {**ORDER, "value": 0.6}, "tuned_judge": ORDER}}
    cells = {"dev": CELL, "test": CELL, "test_unseen_systems": None}
    return {
        "dimension": "relevance", "level": "summary", "shipped": "tuned",
        "data": {"name": "mine", "sha256": "0" * 64, "n_documents": 80, "n_systems": 0},
        "seed_judge": cells, "tuned_judge": cells, "order": order, "scales": None,
        "gain": {"test": {"value": 0.1, "low": 0.02, "high": 0.18}}, **changes,
    }  # fmt: skip


def gain(value: float | None, low: float | None, high: float | None) -> dict[str, Any]:
    return {"test": {"value": value, "low": low, "high": high}}


def test_the_first_sentence_is_the_answer_with_its_certainty() -> None:
    assert run_answer(run(), paired=False) == [
        "The tuned judge orders two outputs of one document as people do in 64% of pairs (95% "
        "interval 58% to 70%; 20 documents); a coin toss would in 50%.",
        "Tuning helped: from 60% to 64% of pairs, +0.100 rho on test [0.020, 0.180]; the tuned "
        "judge ships.",
    ]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"shipped": "seed", "gain": gain(0, 0, 0)}, "found nothing better than the untuned judge"),
        ({"gain": gain(-0.1, -0.2, -0.05)}, "Tuning made it worse"),
        ({"gain": gain(0.01, -0.02, 0.04)}, "If tuning helped, then by less than 0.05"),
        ({"gain": gain(None, None, None)}, "not known: its gain on test is undefined"),
        ({"gain": gain(0.1, None, None)}, "with so few documents"),
        (
            {"shipped": "seed", "gain": gain(0.1, 0.02, 0.18)},
            "but dev could not tell; the untuned judge ships",
        ),
        ({"data": {**run()["data"], "n_systems": 4}}, "No systems were held out"),
        (
            {"seed_judge": {**run()["seed_judge"], "test": {**CELL, "n_failed": 20}}},
            "the untuned judge on 20",
        ),
        ({"tuned_judge": {"test": {**CELL, "n_outputs": 0, "n_failed": 60}}}, "no score at all"),
        ({"tuned_judge": {"test": {**CELL, "n_failed": 40}}}, "40.0% of the outputs have no score"),
        ({"tuned_judge": {"test": None}}, "No labels were held out for a test"),
        (
            {"data": {**run()["data"], "sha256": data.starter().sha256}},
            "as the constructed labels do in 64%",
        ),
    ],
)
def test_each_kind_of_run_gets_its_own_sentence(changes: dict[str, Any], says: str) -> None:
    assert says in " ".join(run_answer(run(**changes), paired=False))


@pytest.mark.parametrize(
    ("ends", "says"),
    [
        ((0.45, 0.7), "which cannot be told from tossing a coin (50%)."),
        ((0.3, 0.45), "which is less than tossing a coin would (50%)."),
        ((None, None), "20 documents: too few to say how sure that is"),
    ],
)
def test_certainty_is_held_against_a_coin(ends: tuple[Any, Any], says: str) -> None:
    order = {**ORDER, "low": ends[0], "high": ends[1]}
    answer = run_answer(
        run(order={"test": {"seed_judge": ORDER, "tuned_judge": order}}), paired=False
    )
    assert says in answer[0]


def test_further_documents_are_planned_from_the_paired_interval_s_standard_error() -> None:
    # 20 documents with a figure and 4 without: 24 were drawn.
    looks = {"value": 0.1, "low": -0.1, "high": 0.3}
    needed = documents_for_difference(Interval(-0.1, 0.3), 24, 0.1)
    assert what_settles(looks, CELL).startswith(f"about {needed - 24} more test documents")
    # Power .8 of a two-sided test at 5 %: ((1.96 + .84) * error / gain)^2 times the documents, the
    # error being a half-width over Student's 2.07; and more, as 24 documents tell it badly.
    least = 24 * (2.8 * 0.2 / 2.07 / 0.1) ** 2
    assert least < needed < 1.25 * least
    assert "is not known" in what_settles(looks, {**CELL, "level": "system"})
    assert "is not known" in what_settles(looks, {"level": "summary", "n_documents": 1})
    # ±.03 of 24 documents: a gain of .05 would have shown.
    sharp = {"value": 0.025, "low": -0.005, "high": 0.055}
    assert "is probably smaller" in what_settles(sharp, CELL)


def test_page_and_screen_say_the_answer_in_the_same_words() -> None:
    answer = run_answer(run_summary(plain()), paired=False)
    assert any(sentence.startswith("Two people agree in") for sentence in answer)
    screen = " ".join(scorecard(run_summary(plain()), "runs/x").split())
    page = " ".join(text_of(run_page(plain())).split())
    for sentence in answer:
        assert sentence in screen
        assert sentence in page


def test_two_people_and_the_judge_are_told_on_the_same_terms() -> None:
    figures = order_figures(plain())
    assert figures["two_people"]["n_pairs"] == figures["against_one"]["n_pairs"]
    means = outputs([1, 2, 3], [[1], [3], [2]], ["d"] * 3)
    assert order_figures(means)["two_people"] is None
    voted = pairs([("A", "A"), ("B", "B")], [("A", "A"), ("B", "A")])
    assert order_figures(voted)["two_people"]["value"] == pytest.approx(0.5)


def test_a_mean_that_is_not_people_s_is_warned_of_and_an_unknown_scale_is_not() -> None:
    people = [[float(1 + i % 3)] for i in range(60)]
    documents = [f"d{i // 3}" for i in range(60)]
    harsh = outputs([max(1.0, row[0] - 0.65) for row in people], people, documents)
    warning = scale_warning({**result(harsh), "scales": scale_figures(harsh)})
    # 1, 1.35 and 2.35 in the mean.
    assert "its mean is 1.57, people's 2.00" in warning
    alike = outputs([row[0] for row in people], people, documents)
    assert scale_warning({**result(alike), "scales": scale_figures(alike)}) == ""
    assert scale_figures(outputs([0.1, 0.2], [[1], [2]], ["a", "a"], scale=())) is None
    assert scale_figures(outputs([math.nan] * 2, [[1], [2]], ["a", "a"])) is None


def test_a_verification_that_falls_short_says_so_after_its_answer() -> None:
    verified = {**result(plain()), "order": ORDER, "short": ["rho is 0.1; 0.4 was asked for"]}
    assert verification_answer(verified)[-1] == (
        "It falls short of what was asked for: rho is 0.1; 0.4 was asked for."
    )
    same = outputs([1, 2], [[3], [3]], ["a", "a"])
    nothing = verification_answer({**result(same), "order": order_figures(same)})
    assert nothing[0].startswith("There is no agreement to report: people order no two")


def test_a_judge_is_to_be_measured_on_labels_that_it_was_not_tuned_on() -> None:
    tuned = {"data": run()["data"], "correlations": [CELL], "tuned_on_these_labels": True}
    assert verification_step(tuned) == "measure it on labels that it was not tuned on (--data FILE)"
    assert short_warnings(tuned) == [
        "It was tuned on these very labels, so every figure here flatters it"
    ]
