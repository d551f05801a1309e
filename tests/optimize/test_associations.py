"""What else explains a judge's scores: length, position, chance; said where it is clear."""

from typing import Any

import numpy as np
import pytest
from command_runs import json_of, output_of
from files import write_jsonl
from report_cases import outputs

from judges.judgement import Judgement
from optimize.measuring.verification import Associations
from optimize.statistics.intervals import Vector
from optimize.verify import command

pytestmark = pytest.mark.usefixtures("here")
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
def test_a_judge_that_follows_length_more_than_people_do_gets_a_warning(sign):
    result, text = verify_both(sign * LONGER, noise(0) + noise(1))
    length = result["length"]
    # Its ranks are those of the lengths of the outputs themselves, not of what systems were given.
    assert length["judge"] == sign
    assert abs(length["people"]) < 0.2
    assert length["low"] < sign - length["people"] < length["high"]
    assert f"{FOLLOWS}{sign:+.3f} against {length['people']:+.3f}." in text
    assert text.index(FOLLOWS) < text.index("Measured on")  # where warnings stand


def test_a_judge_that_follows_length_no_more_than_people_do_gets_no_warning():
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
