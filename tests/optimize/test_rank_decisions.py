"""RankOptimizer on programs with DSPy's decision types: Score, Noul and Choice."""

import random
import re
from typing import Literal

import dspy
import pytest
from decision_server import DecidingLM
from dspy.experimental import Choice, Noul, Score
from judge_cases import form
from rated_programs import ROWS, compile_with

import judges
from judges.definition import make_dimension
from judges.modules import ScoredProgram
from optimize.tuning.program_answer import ProgramAnswer, ProgramError, find_rated_answer

LEVELS = ("1: bad", "2", "3", "4", "5: good")
OK = Noul[(True, "it is good"), (False, "it is bad")]
WORDS = Choice[("good", ""), ("bad", "")]
VERDICTS = [{**row, "score": int(row["score"] >= 4)} for row in ROWS]


class Rating(dspy.Signature):
    """Rate the summary."""

    document: str = dspy.InputField()
    summary: str = dspy.InputField()
    clear: Noul = dspy.OutputField(desc="is it clear")
    rating: Score[LEVELS] = dspy.OutputField(desc="how good it is")


class Passing(dspy.Signature):
    """Pass the summary."""

    document: str = dspy.InputField()
    summary: str = dspy.InputField()
    ok: OK = dspy.OutputField(desc="is it good")


class Naming(Passing):
    """Pass the summary."""

    ok: WORDS = dspy.OutputField(desc="is it good")


def opinion(state, name, options):
    """Questions see the quality, the rating hardly does, and whoever decides does so too rarely."""
    summary = state["inputs"]["summary"]
    match = re.search(r"of quality (\d)", summary)
    quality = int(match[1]) if match else 3
    noise = random.Random(f"{name} {summary}").gauss(0, 1)
    if name == "rating":
        place = min(4.0, max(0.0, 2 + 0.2 * (quality - 3) + noise))
        weights = [2.0 ** -abs(level - place) for level in range(len(options))]
        return [each / sum(weights) for each in weights]
    share = 0.19 * quality if name == "clear" else 0.08 * quality
    p = min(0.99, max(0.01, share + 0.005 * noise))
    return [p, 1 - p]


@pytest.fixture
def lm(decision_server):
    """An LM of which a search reads the address of a local server with the same opinion."""
    decision_server.opinion = opinion
    return DecidingLM(opinion, decision_server.url.removesuffix("/v1"), decision_server.key or "")


def test_a_programs_questions_are_weighted_by_their_probabilities(lm, tmp_path):
    program = dspy.Predict(Rating)
    program.fields = {"clear": {"threshold": 0.7}, "rating": {"cuts": [0.4, 1.5, 2.5, 3.5]}}
    tuned = compile_with(program, ROWS, lm=lm, max_calls=1200, output="rating", price=(0.1, 0.0))
    summary = tuned.detailed_results.summary
    # Nobody writes instructions.
    assert (summary["cost_usd"] > 0, summary["proposer_calls"]) == (True, 0)
    assert isinstance(tuned, ScoredProgram)
    weights = tuned.scoring.weights
    assert set(weights.slopes) == {"clear", "rating"}
    tuned.save(tmp_path / "state.json")
    second = ScoredProgram(dspy.Predict(Rating), type(tuned.scoring)(tuned.scoring.choice_fields))
    second.load(tmp_path / "state.json")
    assert second.program.fields == tuned.program.fields == program.fields
    for each in (tuned, second, tuned.deepcopy()):
        with dspy.context(lm=lm):
            prediction = each(document="A document.", summary="A summary of quality 4.")
        answers = {"clear": prediction.clear.probability, "rating": 1 + prediction.rating.value}
        assert prediction.score == pytest.approx(weights.score(answers))
    # Between .76 and .7 it is clear at the user's own threshold.
    assert prediction.clear.value is (prediction.clear.probability >= 0.7)


def passes(program, rows):
    """Which rows a program passes."""
    outputs = [program(document=row["document"], summary=row["summary"]).ok for row in rows]
    return [each.value in (True, "good") for each in outputs]


@pytest.mark.parametrize("signature", [Passing, Naming])
def test_a_decision_between_two_labels_gets_a_learned_threshold(signature, lm, tmp_path):
    program = dspy.Predict(signature)
    program.fields = {"ok": {"instructions": "Is it a good summary?"}}
    tuned = compile_with(program, VERDICTS, lm=lm, max_calls=1200, ships=False)
    assert program.fields == {"ok": {"instructions": "Is it a good summary?"}}
    tuned.save(tmp_path / "state.json")
    second = dspy.Predict(signature)
    second.load(tmp_path / "state.json")
    assert second.fields == tuned.fields
    assert second.fields["ok"]["instructions"] == "Is it a good summary?"
    with dspy.context(lm=lm):
        # A quality of 4 has a probability of about .32, and a quality of 3 about .24.
        assert passes(second, VERDICTS) == [row["score"] == 1 for row in VERDICTS]
        assert not any(passes(program, VERDICTS))


def test_a_verdict_judges_program_gets_the_threshold(lm, decision_server, monkeypatch):
    monkeypatch.setenv("SYSTEMONE_API_KEY", decision_server.key or "")
    subject = make_dimension("good", ("pass", "fail"), ["document", "summary"], "is it good")
    judge = judges.Judge.of(subject).with_model("systemone/jev", decision_server.url)
    tuned = compile_with(judge.program(), VERDICTS, max_calls=1200, ships=False)
    assert tuned.detailed_results.summary["lm"] == "systemone/jev"
    assert {entry.body["model"] for entry in decision_server.log} == {"jev"}
    assert 0.24 < judges.Judge.from_program(tuned, subject).threshold < 0.32
    with dspy.context(lm=lm):
        for row in VERDICTS[:8]:
            result = tuned(document=row["document"], summary=row["summary"])
            assert (result.score >= 0.5) == (row["score"] == 1)


def test_a_chat_model_proposes_for_a_decision_model(lm, decision_server, openai_server):
    def sees(state, name, options):
        quality = int(re.search(r"of quality (\d)", state["inputs"]["summary"])[1])
        is_tuned = "stated" in state["instructions"]
        return [float(place == (quality - 1 if is_tuned else 2)) for place in range(len(options))]

    decision_server.opinion = sees
    proposal = form(instruction="Rate by the quality that is stated.")
    openai_server.judge = lambda body: proposal
    program, settings = dspy.Predict(Rating.delete("clear")), {"lm": lm, "max_calls": 1200}
    tuned = compile_with(program, ROWS, proposer_lm="openai/judge-1", **settings)
    assert "stated" in tuned.signature.instructions
    with pytest.raises(judges.JudgesError, match="a decision model cannot write instructions"):
        compile_with(program, ROWS, proposer_lm=lm, **settings)


def answer_to(kind):
    """The answer of a program with an output of this type."""
    fields = {"text": (str, dspy.InputField()), "reasoning": (str, dspy.OutputField())}
    return find_rated_answer("P", dspy.Signature({**fields, "x": (kind, dspy.OutputField())}))


@pytest.mark.parametrize(
    ("kind", "values", "is_choice"),
    [
        (int, (), False),
        (float, (), False),
        (Literal[5, 1, 3], (1, 3, 5), False),
        (Literal["1", "2", "10"], ("1", "2", "10"), False),
        (Literal["A", "B"], ("A", "B"), True),
        (bool, (True, False), True),
        (Score[LEVELS], (1, 2, 3, 4, 5), False),
        (Score["poor", "fair", "good"], (0, 1, 2), False),
        (Score["2: poor", "1: good"], (0, 1), False),
        (Noul, (True, False), True),
        (Choice[(3, "good"), (1, "bad"), (2, "")], (1, 2, 3), False),
        (Choice[("A", None), ("B", None)], ("A", "B"), True),
    ],
)
def test_ratings_and_choices_are_recognised_by_their_type(kind, values, is_choice):
    assert answer_to(kind) == ProgramAnswer(name="x", values=values, is_choice=is_choice)


THREE = Literal["bad", "fair", "good"]


@pytest.mark.parametrize("kind", [THREE, Score, Choice, Choice[("a", ""), ("b", ""), ("c", "")]])
def test_labels_without_an_order_are_refused(kind):
    with pytest.raises(ProgramError, match="of which 0 are the rating or choice"):
        answer_to(kind)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (dspy.ChainOfThought(Passing), "Unsupported System One output 'reasoning'"),
        (dspy.Predict("document, summary -> rating: int"), "System One output 'rating'; use a dec"),
    ],
)
def test_a_program_that_a_decision_model_cannot_answer_is_refused(program, says, lm):
    with pytest.raises(ProgramError, match=f"cannot be tuned with systemone/jev: .*{says}"):
        compile_with(program, VERDICTS, lm=lm, max_calls=1200)
