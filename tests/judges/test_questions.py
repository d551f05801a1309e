"""What a judge writes before its answer: reasons of each form, and answers to questions."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

import pytest
from behaving_model import Behave, Model
from frozen_cases import load_raw
from hypothesis import given
from hypothesis import strategies as st
from judge_cases import (
    COHERENCE,
    DEADLINE,
    FULL,
    PAIR,
    PAIRED,
    PLAIN,
    ROW,
    TLDR_CONCISE,
    TONE,
    WEIGHED,
    WEIGHTS,
    form,
)

from judges import AnswerWeights, Judge, Question, QuestionError
from judges.client import Client
from judges.dimension import DimensionError
from judges.judgement import NoScoreError
from judges.modules import demos_of, prompt_of, signature_of
from judges.prompt import Prompt, Reasoning
from judges.protocol import Reply, Token
from judges.reading import read_reply
from judges.scoring import ONE_REPLY_PLAN, WEIGHTED_PLAN, SamplingPlan, read_text_reply


def judge_row(judge: Judge, row: Mapping[str, str], *say: str | Reply | Behave) -> Any:
    """What the judge makes of a model's replies, or of a model that behaves so."""
    behave = say[0] if callable(say[0]) else lambda *_: say
    (judgement,) = judge.judge_rows([row], Client(Model(behave)))
    return judgement


@pytest.mark.parametrize(
    ("question", "why"),
    [
        ({"name": "Two words"}, "needs a name of lower-case letters"),
        ({"text": " "}, "has a text of 1 characters"),
        ({"text": "x" * 501}, "has a text of 501 characters, not 1 to 500"),
        ({"answers": ("yes", "Yes")}, "use two words, the good one first"),
        ({"answers": (3, 1)}, "ascending ratings from 0 to 9"),
        ({"answers": (1, 2), "anchors": {3: "best"}}, r"anchors \[3\], which are not among"),
    ],
)
def test_a_question_that_cannot_be_read_cannot_be_made(question, why):
    with pytest.raises(QuestionError, match=why):
        Question(**{"name": "q", "text": "is it", **question})


HELPFUL, KINDER = PLAIN.subject, PAIRED.subject
CLASHES: list[tuple[Any, list[Question], str]] = [
    (HELPFUL, [replace(DEADLINE, name="query")], "may not be called 'query'"),
    (HELPFUL, [replace(DEADLINE, name="score")], "may not be called 'score'"),
    (HELPFUL, [DEADLINE, replace(TONE, name="deadline")], "may not be called 'deadline'"),
    (HELPFUL, [replace(DEADLINE, name=f"q{i}") for i in range(17)], "17 questions"),
    (HELPFUL, [replace(DEADLINE, answers=("A", "B"))], "A and B are for comparisons alone"),
    (KINDER, [DEADLINE], "the answers A and B are for comparisons alone"),
]


@pytest.mark.parametrize(("judge", "questions", "why"), CLASHES)
def test_questions_that_clash_with_the_judge_are_refused(judge, questions, why):
    with pytest.raises(DimensionError, match=why):
        Judge.of(judge, questions=questions)


# Reading.
@pytest.mark.parametrize(
    "reply",
    [
        FULL,
        form(rationale="Its tone: 1, I thought.", deadline="Yes.", tone="**2**", rating="4/5"),
        "**Rationale:** It helps.\n**Deadline:** yes\n**Tone:** 2\n**Rating:** 4",
        '```json\n{"rationale": "It helps.", "deadline": "yes", "tone": 2, "rating": 4}\n```',
        '{\n "rationale": "It helps.",\n "deadline": "yes",\n "tone": "2",\n "rating": "4"\n}',
        # Of two headers of one name the last one counts, as everywhere.
        form(tone=1) + "\n" + FULL.replace("[[ ## completed ## ]]", ""),
    ],
)
def test_each_answer_is_read_from_its_own_part_of_the_reply(reply):
    reply = reply.replace("[[ ## completed ## ]]\n", "")
    values = read_reply(reply, PLAIN.prompt).values
    assert [values[name] for name in ("deadline", "tone", "rating")] == ["yes", 2, 4]


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (form(deadline="yes", rating=4), "no answer for tone"),
        (form(deadline="yes", tone=7, rating=4), "not one clear answer in .7"),
        (form(deadline="perhaps", tone=2, rating=4), "no deadline yes or no"),
        ("deadline: yes\ntone: 2\ntone: 3\nrating: 4", "a question is answered twice"),
        ("Rating: 4", "no answer for deadline"),
    ],
)
def test_a_reply_without_one_clear_answer_to_every_question_is_refused(reply, why):
    with pytest.raises(NoScoreError, match=why):
        read_reply(reply, PLAIN.prompt)


# Weighing.
MEAN = WEIGHED.with_plan(SamplingPlan(kind="mean", samples=2, temperature=1.0))


@pytest.mark.parametrize(
    ("judge", "replies", "score", "answers"),
    [
        (PLAIN, [FULL], 4, (1, 2, 4)),
        (WEIGHED, [FULL], 4.0, (1, 2, 4)),  # 1 * 1 + 0.5 * 2 + 0.5 * 4
        (WEIGHED, [form(deadline="no", tone=1, rating=2)], 1.5, (0, 1, 2)),  # 0.5 * 1 + 0.5 * 2
        # (1 + 0) / 2, (2 + 3) / 2 and (4 + 3) / 2: 0.5 + 0.5 * 2.5 + 0.5 * 3.5.
        (MEAN, [FULL, form(deadline="no", tone=3, rating=3)], 3.5, (0.5, 2.5, 3.5)),
    ],
)
def test_a_score_is_the_weighted_sum_of_mean_answers(judge, replies, score, answers):
    result = judge_row(judge, ROW, *replies)
    assert result.score == score
    assert [*result.answers.items()] == [*zip(("deadline", "tone", "rating"), answers, strict=True)]
    assert result.as_json()["answers"] == result.answers


def test_weighted_takes_each_answers_probabilities_from_its_own_token():
    def token(text: str, **chances: float) -> Token:
        return Token(text, {name.strip("_"): math.log(p) for name, p in chances.items()})

    tokens = (
        Token("[[ ## deadline ## ]]\n", {"4": -0.1}), token("yes", yes=0.8, no=0.2),
        Token("\n\n[[ ## tone ## ]]\n", {}), token("2", _2=0.5, _3=0.5),
        Token("\n\n[[ ## rating ## ]]\n", {}), token("4", _4=0.75, _2=0.25),
    )  # fmt: skip
    reply = Reply(text="".join(token.text for token in tokens), tokens=tokens)
    result = judge_row(WEIGHED.with_plan(WEIGHTED_PLAN), ROW, reply)
    # 4 * .75 + 2 * .25 = 3.5 of the rating: 0.8 + 0.5 * 2.5 + 0.5 * 3.5.
    assert result.answers == pytest.approx({"deadline": 0.8, "tone": 2.5, "rating": 3.5})
    assert result.score == pytest.approx(3.8)
    assert result.distribution == pytest.approx({1: 0, 2: 0.25, 3: 0, 4: 0.75, 5: 0})


def choosing(content: str, *_: Any) -> str:
    """Find B briefer in `PAIR`, and A kinder, wherever they are shown."""
    good_first = content.index("Good morning") < content.index("\nFriday.")
    briefer, kinder = ("B", "A") if good_first else ("A", "B")
    return form(briefer=briefer, preferred=kinder)


def test_a_pairs_answers_are_weighed_in_both_orders():
    # 0.75 * -1 + 0.25 * 1.
    result = judge_row(PAIRED, PAIR, choosing)
    assert (result.margin_ab, result.margin_ba, result.margin) == (-0.5, -0.5, -0.5)
    assert (result.preferred, result.answers) == ("B", {"briefer": -1, "preferred": 1})
    mirror = {**PAIR, "reply_a": PAIR["reply_b"], "reply_b": PAIR["reply_a"]}
    back = judge_row(PAIRED, mirror, choosing)
    assert (back.margin, back.preferred) == (0.5, "A")
    assert back.answers == {"briefer": 1, "preferred": -1}


CHOICES = PLAIN.prompt.choices


def test_the_decisive_answer_moved_the_score_furthest():
    # From the middles .5, 2 and 3: 1 * .5, 0.5 * 1 * -1 and 0.5 * 2 sum to 1, the upper side.
    assert WEIGHTS.decisive_answer({"deadline": 1, "tone": 1, "rating": 5}, CHOICES) == "rating = 5"
    answers = {"deadline": 0, "tone": 1.5, "rating": 3}
    assert WEIGHTS.decisive_answer(answers, CHOICES) == "deadline = no"


BAD = "a weight that is negative, too large or not a number"
BAD_WEIGHTS: list[tuple[Judge, dict[str, float], float, str]] = [
    (PLAIN, {"rating": -1.0}, 6.0, BAD),
    (PLAIN, {"rating": math.nan}, 0.0, BAD),
    (PLAIN, {"rating": 1.0, "length": 0.0}, 0.0, "a weight for 'length', which the judge does not"),
    (PLAIN, {"rating": 1.0, "tone": 0.5}, 0.0, "scores from 1.5 to 6.5, not 1 to 5"),
    (PLAIN, {"rating": 1.0}, math.nan, "scores from nan to nan, not 1 to 5"),
    # From -0.9 to 0.9, and 0.1 more for the output shown first.
    (PAIRED, {"briefer": 0.45, "preferred": 0.45}, 0.1, "which would prefer one output"),
]


@pytest.mark.parametrize(("judge", "slopes", "intercept", "why"), BAD_WEIGHTS)
def test_weights_that_do_not_fit_the_answers_are_refused(judge, slopes, intercept, why):
    with pytest.raises(QuestionError, match=why):
        replace(judge, weights=AnswerWeights(intercept=intercept, slopes=slopes))


# Reasons: nothing, a sentence, steps or questions.
DEMOS: dict[str, Any] = {
    "coherence": {"document": "d", "summary": "s", "rating": 4},
    "tldr_concise": {"post": "p", "summary_a": "a", "summary_b": "b", "preferred": "B"},
}
forms, subjects = st.sampled_from(get_args(Reasoning)), st.sampled_from([COHERENCE, TLDR_CONCISE])
lines = st.text(st.characters(codec="utf-8", exclude_characters="[]<>#"), max_size=60)


def prompt_with_demo(subject: Any, form: Reasoning, reasons: str, **values: Any) -> Prompt:
    prompt = subject.prompt(form)
    demo = {field.name: reasons for field in prompt.fields if field.role == "output"}
    return replace(prompt, demos=({**demo, **DEMOS[subject.name], **values},))


@given(subjects, forms, lines)
def test_dspy_and_a_file_give_back_the_prompt_of_every_form(subject, form, reasons):
    prompt = prompt_with_demo(subject, form, reasons)
    assert prompt_of(signature_of(prompt), demos_of(prompt)) == prompt
    assert (
        load_raw(Judge(subject=subject, prompt=prompt, plan=ONE_REPLY_PLAN).dumps()).prompt
        == prompt
    )


@given(subjects, forms, lines, st.data())
def test_what_a_template_asks_for_is_read_back(subject, form, reasons, data):
    """A demonstration is a reply of the form that is asked for."""
    answer = subject.prompt().answer_field
    value = data.draw(st.sampled_from(answer.choices))
    prompt = prompt_with_demo(subject, form, reasons, **{answer.name: value})
    reply = Reply(text=prompt.template()[2]["content"])
    sample = read_text_reply(ONE_REPLY_PLAN, prompt, reply, (subject.name,))
    assert sample.answer_number == answer.number_by_choice[value]
    if form == "none":
        assert sample.free_text is None
    else:
        assert (sample.free_text or "").split() == reasons.split()
