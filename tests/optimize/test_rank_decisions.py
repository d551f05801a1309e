"""RankOptimizer on programs with DSPy's decision types: Score, Noul and Choice."""

import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dspy
import pytest
from deciding_lm import DecidingLM
from decision_server import DecisionServer
from dspy.experimental import Choice, Noul, Score
from openai_server import OpenAIServer

import judges
from judges.loading import dimension_on
from judges.modules import ScoredProgram
from optimize import RankOptimizer
from optimize.rank_optimizer import Answer, ProgramError, answer_of

LEVELS = ("1: bad", "2", "3", "4", "5: good")
OK = Noul[(True, "it is good"), (False, "it is bad")]
WORDS = Choice[("good", ""), ("bad", "")]
ROWS = [
    {
        "document": f"Document number {number // 4}. {'It goes on and on. ' * 40}",
        "summary": f"Summary number {number}, of quality {1 + (7 * number) % 5}.",
        "score": 1 + (7 * number) % 5,
        "source": f"d{number // 4}",
    }
    for number in range(96)
]
VERDICTS = [{**row, "score": int(row["score"] >= 4)} for row in ROWS]


class Rated(dspy.Signature):  # type: ignore[misc]
    """Rate the summary."""

    document: str = dspy.InputField()
    summary: str = dspy.InputField()
    clear: Noul = dspy.OutputField(desc="is it clear")
    rating: Score[LEVELS] = dspy.OutputField(desc="how good it is")


class Passed(dspy.Signature):  # type: ignore[misc]
    """Pass the summary."""

    document: str = dspy.InputField()
    summary: str = dspy.InputField()
    ok: OK = dspy.OutputField(desc="is it good")


class Named(Passed):
    """Pass the summary."""

    ok: WORDS = dspy.OutputField(desc="is it good")


def opinion(state: Any, name: str, options: Sequence[str]) -> Sequence[float]:
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


def compile_with(lm: Any, program: dspy.Module, rows: Any, **options: Any) -> dspy.Module:
    settings = {"label": "score", "group": "source", "max_calls": 1200, "quiet": True}
    return RankOptimizer(lm=lm, **settings | options).compile(program, trainset=rows)


@pytest.fixture
def lm(decision_server: DecisionServer) -> DecidingLM:
    """An LM of which a search reads the address of a local server with the same opinion."""
    decision_server.opinion = opinion
    return DecidingLM(opinion, decision_server.url.removesuffix("/v1"), decision_server.key or "")


def test_questions_of_a_program_are_weighed_by_their_probabilities(
    lm: DecidingLM, tmp_path: Path
) -> None:
    program = dspy.Predict(Rated)
    program.fields = {"clear": {"threshold": 0.7}, "rating": {"cuts": [0.4, 1.5, 2.5, 3.5]}}
    tuned = compile_with(lm, program, ROWS, output="rating", price=(0.1, 0.0))
    result = tuned.detailed_results
    assert result.summary["shipped"] == "tuned", str(result)
    assert result.summary["cost_usd"] > 0
    # Nobody writes instructions, and no example answers the question.
    assert result.summary["proposer_calls"] == 0
    assert isinstance(tuned, ScoredProgram)
    assert set(tuned.scoring.weights.slopes) == {"clear", "rating"}
    assert tuned.program.fields == program.fields
    tuned.save(tmp_path / "state.json")
    loaded = ScoredProgram(dspy.Predict(Rated), type(tuned.scoring)(tuned.scoring.choices))
    loaded.load(tmp_path / "state.json")
    assert loaded.program.fields == program.fields
    weights = tuned.scoring.weights
    for each in (tuned, loaded, tuned.deepcopy()):
        with dspy.context(lm=lm):
            prediction = each(document="A document.", summary="A summary of quality 4.")
        answers = {"clear": prediction.clear.probability, "rating": 1 + prediction.rating.value}
        assert prediction.score == pytest.approx(weights.score(answers))
    # Between .76 and .7 it is clear at the user's own threshold.
    assert prediction.clear.value is (prediction.clear.probability >= 0.7)


@pytest.mark.parametrize("signature", [Passed, Named])
def test_a_decision_between_two_gets_the_threshold_that_labels_teach(
    signature: Any, lm: DecidingLM, tmp_path: Path
) -> None:
    program = dspy.Predict(signature)
    program.fields = {"ok": {"instructions": "Is it a good summary?"}}
    tuned = compile_with(lm, program, VERDICTS)
    assert program.fields == {"ok": {"instructions": "Is it a good summary?"}}
    tuned.save(tmp_path / "state.json")
    loaded = dspy.Predict(signature)
    loaded.load(tmp_path / "state.json")
    assert loaded.fields == tuned.fields
    assert loaded.fields["ok"]["instructions"] == "Is it a good summary?"
    with dspy.context(lm=lm):
        said = [loaded(document=row["document"], summary=row["summary"]).ok for row in VERDICTS]
        before = [program(document=row["document"], summary=row["summary"]).ok for row in VERDICTS]
    # A quality of 4 has a probability of about .32, and a quality of 3 about .24.
    right = [each.value in (True, "good") for each in said]
    assert right == [row["score"] == 1 for row in VERDICTS]
    assert not any(each.value in (True, "good") for each in before)


def test_a_verdict_judge_s_program_gets_the_threshold_too(lm: DecidingLM) -> None:
    texts = ["document", "summary"]
    subject = dimension_on("good", ("pass", "fail"), texts, "is it good")
    tuned = compile_with(lm, judges.Judge.of(subject).program(), VERDICTS)
    judge = judges.Judge.from_program(tuned, subject)
    assert 0.24 < judge.threshold < 0.32
    with dspy.context(lm=lm):
        for row in VERDICTS[:8]:
            texts = {"document": row["document"], "summary": row["summary"]}
            assert (tuned(**texts).score >= 0.5) == (row["score"] == 1)


def test_a_chat_model_proposes_instructions_for_a_decision_model(
    lm: DecidingLM, decision_server: DecisionServer, openai_server: OpenAIServer
) -> None:
    def sees(state: Any, name: str, options: Sequence[str]) -> Sequence[float]:
        quality = int(re.search(r"of quality (\d)", state["inputs"]["summary"])[1])  # type: ignore[index]
        told = "stated" in state["instructions"]
        return [float(place == (quality - 1 if told else 2)) for place in range(len(options))]

    decision_server.opinion = sees
    openai_server.judge = lambda body: (
        "[[ ## instruction ## ]]\nRate by the quality that is stated.\n\n[[ ## completed ## ]]"
    )
    program = dspy.Predict(Rated.delete("clear"))
    tuned = compile_with(lm, program, ROWS, proposer_lm="openai/judge-1")
    assert tuned.detailed_results.summary["shipped"] == "tuned", str(tuned.detailed_results)
    assert "stated" in tuned.signature.instructions
    with pytest.raises(judges.JudgesError, match="a decision model cannot write instructions"):
        compile_with(lm, program, ROWS, proposer_lm=lm)


def test_a_chat_model_gives_the_probabilities_in_words(openai_server: OpenAIServer) -> None:
    def judge(body: dict[str, Any]) -> str:
        last = body["messages"][-1]["content"]
        summary = last.partition("[[ ## summary ## ]]\n")[2].partition("\n")[0]
        state = {"inputs": {"summary": summary}}
        rating = dict(enumerate(opinion(state, "rating", LEVELS)))
        answers = {
            "clear": {"noul": opinion(state, "clear", ("true", "false"))[0]},
            "rating": {"probabilities": rating, "confidence": 0.5},
        }
        if "[[ ## clear ## ]]" not in last:  # a proposer is asked for other things
            return "I have nothing to propose."
        blocks = [f"[[ ## {name} ## ]]\n{json.dumps(each)}" for name, each in answers.items()]
        return "\n\n".join([*blocks, "[[ ## completed ## ]]"])

    openai_server.judge = judge
    chat = dspy.LM("openai/judge-1", api_key="sk-local", api_base=openai_server.url)
    tuned = compile_with(chat, dspy.Predict(Rated), ROWS[:56], output="rating", max_calls=280)
    assert tuned.detailed_results.summary["shipped"] == "tuned", str(tuned.detailed_results)
    assert set(tuned.scoring.weights.slopes) == {"clear", "rating"}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (Score[LEVELS], Answer(name="x", values=(1, 2, 3, 4, 5))),
        (Score["poor", "fair", "good"], Answer(name="x", values=(0, 1, 2))),
        (Score["2: poor", "1: good"], Answer(name="x", values=(0, 1))),
        (Noul, Answer(name="x", values=(True, False), is_choice=True)),
        (Choice[(3, "good"), (1, "bad"), (2, "")], Answer(name="x", values=(1, 2, 3))),
        (
            Choice[("A", None), ("B", None)],
            Answer(name="x", values=("A", "B"), is_choice=True),
        ),
    ],
)
def test_decisions_are_ratings_and_choices_by_their_type(kind: Any, expected: Answer) -> None:
    signature = dspy.Signature({"text": (str, dspy.InputField()), "x": (kind, dspy.OutputField())})
    assert answer_of("P", signature) == expected


@pytest.mark.parametrize("kind", [Score, Choice, Choice[("a", ""), ("b", ""), ("c", "")]])
def test_decisions_without_an_order_are_refused(kind: Any) -> None:
    signature = dspy.Signature({"text": (str, dspy.InputField()), "x": (kind, dspy.OutputField())})
    with pytest.raises(ProgramError, match="neither a rating nor a choice"):
        answer_of("P", signature)


@pytest.mark.parametrize(
    ("program", "says"),
    [
        (dspy.ChainOfThought(Passed), "Unsupported System One output 'reasoning'"),
        (dspy.Predict("document, summary -> rating: int"), "System One output 'rating'; use a dec"),
        (dspy.Predict("document, summary -> ok: bool"), "'ok' requires an OutputField"),
    ],
)
def test_what_a_decision_model_cannot_be_asked_is_refused(
    program: dspy.Module, says: str, lm: DecidingLM
) -> None:
    with pytest.raises(ProgramError, match=f"cannot be tuned with systemone/jev: .*{says}"):
        compile_with(lm, program, VERDICTS)


def test_a_judges_program_is_tuned_with_the_judges_own_model(
    decision_server: DecisionServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    decision_server.opinion = opinion
    monkeypatch.setenv("SYSTEMONE_API_KEY", decision_server.key or "")
    judge = judges.load("relevance").with_model("systemone/jev", decision_server.url)
    tuned = compile_with(None, judge.program(), ROWS)
    assert tuned.detailed_results.summary["lm"] == "systemone/jev"
    assert {seen.body["model"] for seen in decision_server.log} == {"jev"}
