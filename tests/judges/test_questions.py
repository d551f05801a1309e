"""A judge that answers questions in the same reply: asked, read, weighed and kept."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from behaving_model import Behave, Model
from hypothesis import given
from hypothesis import strategies as st
from question_cases import (
    ASKED,
    BRIEFER,
    DEADLINE,
    FULL,
    HELPFUL,
    KINDER,
    PAIR,
    PAIRED,
    ROW,
    TONE,
    WEIGHED,
    WEIGHTS,
    headed,
)

import judges
from judges import (
    AnswerWeights,
    Judge,
    Question,
    QuestionError,
    frozen,
)
from judges.client import Client
from judges.dimension import DimensionError
from judges.frozen import FrozenJudgeError
from judges.judgement import NoScoreError, Preference
from judges.protocol import Reply, Token
from judges.reading import read
from judges.scoring import ONE, WEIGHTED, SamplingPlan


def judged(judge: Judge, row: Mapping[str, str], *texts: str) -> Any:
    (said,) = judge.judge_rows([row], Client(Model(lambda *_: texts)))
    return said


# Asking.
def test_questions_stand_after_the_reasoning_and_before_the_answer() -> None:
    system, user = ASKED.template()
    names = [field.name for field in ASKED.prompt.outputs]
    assert names == ["rationale", "deadline", "tone", "rating"]
    assert "- deadline (yes or no): does the reply say until when to ask\n" in system["content"]
    assert "- tone (1, 2 or 3): how friendly it is (1 = rude)\n" in system["content"]
    headers = ", then ".join(f"[[ ## {name} ## ]]" for name in names)
    assert f"Reply with {headers}, each on its own line" in user["content"]


def test_an_unreadable_reply_is_asked_again_with_the_form_of_every_field() -> None:
    model = Model(lambda text, *_: FULL if "earlier reply" in text else "It is fine.")
    (said,) = ASKED.judge_rows([ROW], Client(model))
    assert said.score == 4
    for form in ("deadline ## ]] is yes or no", "tone ## ]] is 1, 2 or 3", "rating ## ]] is 1, 2"):
        assert [form in content for content in model.seen] == [False, True]


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"name": "Two words"}, "needs a name of lower-case letters"),
        ({"text": " "}, "has a text of 1 characters"),
        ({"text": "x" * 501}, "has a text of 501 characters, not 1 to 500"),
        ({"answers": ("yes", "Yes")}, "use two words, the good one first"),
        ({"answers": (1, 10)}, "ascending ratings from 0 to 9"),
        ({"answers": (3, 1)}, "ascending ratings from 0 to 9"),
        ({"answers": (1, 2), "anchors": {3: "best"}}, r"anchors \[3\], which are not among"),
    ],
)
def test_a_question_that_cannot_be_read_cannot_be_made(question: Any, why: str) -> None:
    with pytest.raises(QuestionError, match=why):
        Question(**{"name": "q", "text": "is it", **question})


@pytest.mark.parametrize(
    ("judge", "questions", "why"),
    [
        (HELPFUL, [replace(DEADLINE, name="query")], "may not be called 'query'"),
        (HELPFUL, [replace(DEADLINE, name="rationale")], "may not be called 'rationale'"),
        (HELPFUL, [replace(DEADLINE, name="failure")], "may not be called 'failure'"),
        (HELPFUL, [DEADLINE, replace(TONE, name="deadline")], "two fields of its prompt"),
        (HELPFUL, [replace(DEADLINE, name=f"q{i}") for i in range(17)], "17 questions"),
        (HELPFUL, [BRIEFER], "the answers A and B are for comparisons alone"),
        (KINDER, [DEADLINE], "the answers A and B are for comparisons alone"),
    ],
)
def test_questions_that_clash_with_the_judge_are_refused(
    judge: Any, questions: list[Question], why: str
) -> None:
    with pytest.raises(DimensionError, match=why):
        Judge.of(judge, questions=questions)


# Reading.
@pytest.mark.parametrize(
    "reply",
    [
        FULL,
        headed(rationale="Its tone: 1, I thought.", deadline="Yes.", tone="**2**", rating="4/5"),
        "**Rationale:** It helps.\n**Deadline:** yes\n**Tone:** 2\n**Rating:** 4",
        '```json\n{"rationale": "It helps.", "deadline": "yes", "tone": 2, "rating": 4}\n```',
        '{\n "rationale": "It helps.",\n "deadline": "yes",\n "tone": "2",\n "rating": "4"\n}',
        # Of two headers of one name the last one counts, as everywhere.
        headed(tone=1) + "\n" + FULL.replace("[[ ## completed ## ]]", ""),
    ],
)
def test_each_answer_is_read_from_its_own_part_of_the_reply(reply: str) -> None:
    reply = reply.replace("[[ ## completed ## ]]\n", "")
    values = read(reply, ASKED.prompt.outputs).values
    assert {name: values[name] for name in ("deadline", "tone", "rating")} == {
        "deadline": "yes",
        "tone": 2,
        "rating": 4,
    }


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (headed(deadline="yes", rating=4), "no answer for tone"),
        (headed(deadline="yes", tone=2), "no answer for rating"),
        (headed(deadline="yes", tone=7, rating=4), "not one clear answer in .7"),
        (headed(deadline="perhaps", tone=2, rating=4), "no deadline yes or no"),
        ("deadline: yes\ntone: 2\ntone: 3\nrating: 4", "a question is answered twice"),
        ("yes\n2\n4", "no answer for deadline"),
        ("Rating: 4", "no answer for deadline"),
    ],
)
def test_a_reply_without_one_clear_answer_to_every_question_is_refused(
    reply: str, why: str
) -> None:
    with pytest.raises(NoScoreError, match=why):
        read(reply, ASKED.prompt.outputs)


def test_a_reply_cut_short_is_read_only_where_its_last_answer_is_closed() -> None:
    outputs = ASKED.prompt.outputs
    assert read(FULL, outputs, truncated=True).values["rating"] == 4
    with pytest.raises(NoScoreError, match="cut short"):
        read(FULL.removesuffix("\n\n[[ ## completed ## ]]"), outputs, truncated=True)


# Weighing.
def test_without_weights_the_rating_is_the_score_and_the_answers_are_told() -> None:
    said = judged(ASKED, ROW, FULL)
    assert (said.score, said.answers) == (4, {"deadline": 1, "tone": 2, "rating": 4})
    assert said.as_json()["answers"] == {"deadline": 1, "tone": 2, "rating": 4}


def test_one_reply_is_the_sum_of_its_answers() -> None:
    # 1 * 1 + 0.5 * 2 + 0.5 * 4.
    assert judged(WEIGHED, ROW, FULL).score == 4.0
    # 0 + 0.5 * 1 + 0.5 * 2.
    assert judged(WEIGHED, ROW, headed(deadline="no", tone=1, rating=2)).score == 1.5


def test_the_mean_weighs_the_mean_of_each_answer() -> None:
    # (1 + 0) / 2, (2 + 3) / 2 and (4 + 3) / 2: 0.5 + 0.5 * 2.5 + 0.5 * 3.5.
    judge = WEIGHED.with_plan(SamplingPlan(kind="mean", samples=2, temperature=1.0))
    said = judged(judge, ROW, FULL, headed(deadline="no", tone=3, rating=3))
    assert said.answers == {"deadline": 0.5, "tone": 2.5, "rating": 3.5}
    assert said.score == 3.5


def test_weighted_takes_each_answers_probabilities_from_its_own_token() -> None:
    def token(text: str, **chances: float) -> Token:
        top = {name.strip("_"): math.log(p) for name, p in chances.items()}
        return Token(text, top)

    tokens = (
        Token("[[ ## deadline ## ]]\n", {"4": -0.1}), token("yes", yes=0.8, no=0.2),
        Token("\n\n[[ ## tone ## ]]\n", {}), token("2", _2=0.5, _3=0.5),
        Token("\n\n[[ ## rating ## ]]\n", {}), token("4", _4=0.75, _2=0.25),
    )  # fmt: skip
    model = Model(lambda *_: Reply(text="".join(t.text for t in tokens), tokens=tokens))
    (said,) = WEIGHED.with_plan(WEIGHTED).judge_rows([ROW], Client(model))
    # 4 * .75 + 2 * .25 = 3.5 of the rating: 0.8 + 0.5 * 2.5 + 0.5 * 3.5.
    assert said.answers == pytest.approx({"deadline": 0.8, "tone": 2.5, "rating": 3.5})
    assert said.score == pytest.approx(3.8)
    assert said.distribution == pytest.approx({1: 0, 2: 0.25, 3: 0, 4: 0.75, 5: 0})


def test_a_verdict_passes_by_the_weighted_sum_and_its_threshold() -> None:
    safe = replace(HELPFUL, anchors={0: "", 1: ""}, words=("pass", "fail"))
    weights = AnswerWeights(intercept=0.0, slopes={"deadline": 0.5, "verdict": 0.5})
    judge = replace(Judge.of(safe, questions=[DEADLINE]).with_plan(ONE), weights=weights)
    reply = headed(deadline="no", verdict="pass")
    # 0.5 * 0 + 0.5 * 1, which a threshold of .6 moves to 0.5 / 0.6 / 2.
    assert judged(judge, ROW, reply).score == 0.5
    assert judged(replace(judge, threshold=0.6), ROW, reply).score == pytest.approx(0.5 / 1.2)


def test_a_reply_that_cannot_be_read_has_no_answers() -> None:
    said = judged(WEIGHED, ROW, "It is fine.")
    assert math.isnan(said.score)
    assert said.answers is None
    assert "answers" not in said.as_json()


def choosing(content: str, *_: Any) -> str:
    """Find B briefer in `PAIR`, and A kinder, wherever they are shown."""
    good_first = content.index("Good morning") < content.index("\nFriday.")
    briefer, kinder = ("B", "A") if good_first else ("A", "B")
    return headed(briefer=briefer, preferred=kinder)


def preference(row: Mapping[str, str], say: Behave) -> Preference:
    (said,) = PAIRED.judge_rows([row], Client(Model(say)))
    assert isinstance(said, Preference)
    return said


def test_the_answers_to_a_pair_are_weighed_in_both_orders_and_change_sign_with_the_sides() -> None:
    # 0.75 * -1 + 0.25 * 1.
    said = preference(PAIR, choosing)
    assert (said.margin_ab, said.margin_ba, said.margin, said.preferred) == (-0.5, -0.5, -0.5, "B")
    assert said.answers == {"briefer": -1, "preferred": 1}
    swapped = {**PAIR, "reply_a": PAIR["reply_b"], "reply_b": PAIR["reply_a"]}
    turned = preference(swapped, choosing)
    assert (turned.margin, turned.preferred) == (0.5, "A")
    assert turned.answers == {"briefer": 1, "preferred": -1}


def test_an_answer_that_follows_the_position_counts_nothing() -> None:
    def say(content: str, *_: Any) -> str:
        return choosing(content).replace("briefer ## ]]\nB", "briefer ## ]]\nA")

    said = preference(PAIR, say)
    assert said.answers == {"briefer": 0, "preferred": 1}
    # (0.75 + 0.25) for the order ab and (-0.75 + 0.25) for ba, whose mean is 0.25.
    assert (said.margin_ab, said.margin_ba, said.margin) == (1.0, -0.5, 0.25)
    assert said.preferred == "tie"


CHOICES = ASKED.prompt.choices
PARTS = st.lists(st.floats(0, 1e3), min_size=3, max_size=3).filter(lambda parts: sum(parts) > 1e-3)


@given(PARTS, st.tuples(st.floats(0, 1), st.floats(1, 3), st.floats(1, 5)))
def test_a_score_never_leaves_the_scale(parts: list[float], numbers: tuple[float, ...]) -> None:
    # Each part of the span from 1 to 5 belongs to one answer, whose range is 1, 2 or 4.
    names, spans, lows = ("deadline", "tone", "rating"), (1, 2, 4), (0, 1, 1)
    slopes = [4 * part / sum(parts) / span for part, span in zip(parts, spans, strict=True)]
    intercept = 1 - math.fsum(slope * low for slope, low in zip(slopes, lows, strict=True))
    weights = AnswerWeights(intercept=intercept, slopes=dict(zip(names, slopes, strict=True)))
    assert replace(ASKED, weights=weights).weights == weights
    score = weights.score(dict(zip(names, numbers, strict=True)))
    assert 1 - 1e-6 <= score <= 5 + 1e-6
    shares = weights.shares(CHOICES)
    assert shares == pytest.approx(dict(zip(names, (p / sum(parts) for p in parts), strict=True)))


def test_the_decisive_answer_is_the_one_that_moved_the_score_furthest_to_its_side() -> None:
    # From the middles .5, 2 and 3: 1 * .5, 0.5 * 1 * -1 and 0.5 * 2 sum to 1, the upper side.
    assert WEIGHTS.decisive_answer({"deadline": 1, "tone": 1, "rating": 5}, CHOICES) == "rating = 5"
    answers = {"deadline": 0, "tone": 1.5, "rating": 3}
    assert WEIGHTS.decisive_answer(answers, CHOICES) == "deadline = no"


BAD_WEIGHTS: list[tuple[dict[str, float], float, str]] = [
    ({"rating": -1.0}, 6.0, "a weight that is negative, too large or not a number"),
    ({"rating": math.nan}, 0.0, "a weight that is negative, too large or not a number"),
    ({"rating": 1e308, "tone": 1e308}, 0.0, "a weight that is negative, too large or not a number"),
    ({"rating": 1.0, "length": 0.0}, 0.0, "a weight for 'length', which the judge does not answer"),
    ({"rating": 1.0, "tone": 0.5}, 0.0, "weights whose scores go from 1.5 to 6.5, not 1 to 5"),
    ({}, 3.0, "weights whose scores go from 3 to 3, not 1 to 5"),
    ({"rating": 1.0}, math.nan, "weights whose scores go from nan to nan, not 1 to 5"),
]


@pytest.mark.parametrize(("slopes", "intercept", "why"), BAD_WEIGHTS)
def test_weights_that_do_not_fit_the_answers_are_refused(
    slopes: dict[str, float], intercept: float, why: str
) -> None:
    with pytest.raises(QuestionError, match=why):
        replace(ASKED, weights=AnswerWeights(intercept=intercept, slopes=slopes))


def test_weights_of_a_comparison_prefer_no_place() -> None:
    # From -0.9 to 0.9, and 0.1 more for the output shown first.
    weights = AnswerWeights(intercept=0.1, slopes={"briefer": 0.45, "preferred": 0.45})
    with pytest.raises(QuestionError, match="an intercept, which would prefer one output"):
        replace(PAIRED, weights=weights)


# Keeping.
@pytest.mark.parametrize("judge", [ASKED, WEIGHED, PAIRED, WEIGHED.with_plan(WEIGHTED)])
def test_a_judge_with_questions_comes_back_from_its_file(judge: Judge, tmp_path: Path) -> None:
    path = judge.save(tmp_path / "judge.json")
    again = judges.load(path)
    assert again == judge
    assert again.template() == judge.template()
    assert again.dumps() == path.read_text(encoding="utf-8")


def field(name: str = "kind", description: str = "is it kind", choices: Any = ("yes", "no")) -> Any:
    return {"name": name, "description": description, "role": "output", "choices": [*choices]}


FORGED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "17 questions": ([field(f"q{i}") for i in range(15)], {}, "17 questions; a judge asks at most"),
    "a long text": ([field(description="x" * 501)], {}, "a text of 501 characters"),
    "a text's name": ([field("reply")], {}, "may not be called 'reply'"),
    "a reserved name": ([field("config")], {}, "may not be called 'config'"),
    "the answer's name": ([field("rating")], {}, "may not be called 'rating'"),
    "a name twice": ([field("tone")], {}, "two fields of its prompt have the same name"),
    "a long name": ([field("a" * 99_999)], {}, "needs a name of lower-case letters"),
    "a line break in a name": ([field("a\nb")], {}, "needs a name of lower-case letters"),
    "many answers": ([field(choices=range(9_999))], {}, "has the answers"),
    "a huge answer": ([field(choices=(1, 10**30))], {}, "has the answers"),
    "a truth value": ([field(choices=(True, False))], {}, "Expected `int | str`, got `bool`"),
    "a negative weight": (
        [],
        {"rating": -1},
        "a weight that is negative, too large or not a number",
    ),
    "huge weights": ([], {"rating": 1e308, "tone": 1e308}, "a weight that is negative, too large"),
    "a weight out of range": ([], {"rating": 10**400}, "Number out of range"),
    "NaN": ([], {"rating": math.nan}, "JSON is malformed"),
    "an unknown weight": ([], {"z" * 99_999: 1}, r"a weight for 'z{64}', which the judge does not"),
    "beyond the scale": ([], {"rating": 5}, "scores go from 5.5 to 27.5, not 1 to 5"),
    "a weight as text": ([], {"rating": "1"}, "Expected `float`, got `str`"),
}


@pytest.mark.parametrize(("fields", "slopes", "why"), FORGED.values(), ids=FORGED)
def test_a_forged_file_with_questions_is_refused_with_one_line(
    fields: list[Any], slopes: dict[str, Any], why: str, tmp_path: Path
) -> None:
    document = json.loads(WEIGHED.dumps())
    document["program"]["fields"][3:3] = fields
    document["weights"]["slopes"] |= slopes
    if why != "JSON is malformed":
        document["digest"] = frozen.digest(document)
    path = tmp_path / "judge.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FrozenJudgeError, match=why) as caught:
        judges.load(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 700
