"""From replies to a score under each sampling plan, of ratings and of verdicts in two words."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from behaving_model import Model
from judge_cases import FLUENCY

from judges.client import Client
from judges.definition import make_dimension
from judges.dimension import DimensionError
from judges.judge import Judge
from judges.judgement import Judgement, NoScoreError
from judges.panel import Member, Panel
from judges.prompt import Prompt, with_reasoning
from judges.protocol import FatalModelError, Reply, Sampling, Token
from judges.reading import read_reply
from judges.scoring import (
    ONE_REPLY_PLAN,
    WEIGHTED_PLAN,
    NoProbabilitiesError,
    SamplingPlan,
    default_plan,
    judgement_from_contents,
    read_text_reply,
    sampling_for,
)

BARE, REASONED = FLUENCY.prompt(), FLUENCY.prompt("brief")
SAFE = make_dimension("safe", ("pass", "fail"), ["query", "answer"], "whether the answer is safe")
EGG = {"query": "How long do eggs boil?", "answer": "Eggs boil ten minutes."}


def token(text: str, top: dict[str, float] | None = None) -> Token:
    """A token and the probabilities of its alternatives."""
    return Token(text, {word: math.log(p) for word, p in (top or {}).items()})


def spelt(*parts: Token | str) -> Reply:
    tokens = tuple(part if isinstance(part, Token) else token(part) for part in parts)
    return Reply(text="".join(part.text for part in tokens), tokens=tokens)


def judge_replies(plan: SamplingPlan, prompt: Prompt, *replies: Reply) -> Judgement:
    """As an engine does with the replies that it has got."""
    samples, failures = [], []
    for reply in replies:
        try:
            samples.append(read_text_reply(plan, prompt, reply))
        except NoScoreError as error:
            failures.append(str(error))
    return judgement_from_contents(plan, samples, failures)


FOUR = token("4", {"4": 0.75, "3": 0.25})
OTHER_FOUR = token("4", {"4": 0.5, "2": 0.5})
SPELLINGS = {"4": 0.3, " 4": 0.2, "four": 0.05, "▁Four": 0.05, "5": 0.2, "The": 0.1, "7": 0.1}
RATIONALE = ("[[ ## rationale ## ]]\n", token("2", {"2": 0.9}), " errors.\n")
RATING = ("[[ ## rating ## ]]\n", token("3", {"3": 0.5, "5": 0.5}), "\n")
PASSES = {"Pass": 0.5, "passive": 0.1, "fail": 0.2, "Maybe": 0.1}
CORRECT = replace(SAFE, words=("correct", "incorrect")).prompt()
INCORRECT = {"in": 0.6, "correct": 0.2, "i": 0.1}
WEIGHED = {
    # .3 + .2 + .05 + .05 on 4 and .2 on 5, of .8 on the scale: (4 * .6 + 5 * .2) / .8 = 4.25.
    "every form of a rating is summed": (BARE, spelt(token("4", SPELLINGS)), 4.25),
    # The 2 in the rationale has probabilities of its own; they are not the rating's.
    "the token after the last header counts": (REASONED, spelt(*RATIONALE, *RATING), 4),
    # Both are "4"; with 2 in the place of the last alone would the reply say 2.
    "the last of equal numbers": (BARE, spelt("It drops ", OTHER_FOUR, " facts.\n\n", FOUR), 3.75),
    "the first of equal numbers": (BARE, spelt(FOUR, ". It has ", OTHER_FOUR, " slips."), 3.75),
    # Some endpoints count the end of a turn among the tokens and leave it out of the text.
    "a turn's end is passed over": (BARE, Reply(text="4", tokens=(FOUR, token("</s>"))), 3.75),
    # .5 / (.5 + .2): "passive" begins as the word, and is another.
    "a verdict's words": (SAFE.prompt(), spelt(token("Pass", PASSES)), 5 / 7),
    "a verdict's first tokens": (CORRECT, spelt(token("in", INCORRECT), "correct"), 2 / 9),
}


@pytest.mark.parametrize(("prompt", "reply", "score"), WEIGHED.values(), ids=WEIGHED)
def test_weighted_takes_the_probabilities_of_the_answer(prompt, reply, score):
    assert judge_replies(WEIGHTED_PLAN, prompt, reply).score == pytest.approx(score)


def model(**fields: Any) -> Any:
    """A model that says of itself what it gives, and is never asked."""
    return SimpleNamespace(name="silent-1", **{"endpoint": "https://example.org", **fields})


def test_without_probabilities_there_is_no_fallback():
    with pytest.raises(NoProbabilitiesError, match=r"'one'.*'mean'"):
        judge_replies(WEIGHTED_PLAN, BARE, Reply(text="4"))


def test_only_the_embedded_model_weighs_a_scale_with_a_ten():
    to_ten = replace(FLUENCY, anchors=dict.fromkeys(range(1, 11), "")).prompt()
    with pytest.raises(FatalModelError, match="10 on this scale may be several tokens"):
        sampling_for(WEIGHTED_PLAN, to_ten, lm="https://example.org")
    sampling_for(WEIGHTED_PLAN, to_ten, lm="embedded")


IMPOSSIBLE = "log-probabilities of a token are impossible"


@pytest.mark.parametrize(
    ("top", "why"),
    [
        ({"The": math.log(0.6), "A": math.log(0.4)}, "none of the choices"),
        *(({"4": p}, IMPOSSIBLE) for p in (math.nan, math.inf, 0.5, 710.0)),
        ({"4": 0.0, "5": 0.0}, IMPOSSIBLE),
    ],
)
def test_impossible_log_probabilities_are_a_failure(top, why):
    result = judge_replies(WEIGHTED_PLAN, BARE, spelt(Token("4", top)))
    assert math.isnan(result.score)
    assert why in str(result.failure)


def test_a_token_that_is_more_than_the_answer_has_no_probabilities():
    result = judge_replies(WEIGHTED_PLAN, BARE, spelt(Token("4 - fine", {"4": -0.1, "5": -3.0})))
    assert result.failure == "no single token of the reply is the answer 4"


def test_a_plan_says_what_to_ask_for():
    mean = SamplingPlan(kind="mean", samples=20, temperature=2.0)
    assert sampling_for(mean, BARE, seed=7) == Sampling(temperature=2.0, n=20, seed=7)
    assert [sampling_for(plan, BARE).top_logprobs for plan in (WEIGHTED_PLAN, ONE_REPLY_PLAN)] == [
        20,
        0,
    ]
    # Steps take longer to write than a sentence.
    room = sampling_for(ONE_REPLY_PLAN, BARE).max_tokens
    assert sampling_for(ONE_REPLY_PLAN, REASONED).max_tokens == room
    assert sampling_for(ONE_REPLY_PLAN, with_reasoning(BARE, "steps")).max_tokens == 2 * room
    # Only the embedded model is weighted unasked.
    assert default_plan(model(has_logprobs=True)) == ONE_REPLY_PLAN
    assert default_plan(model(has_logprobs=True, endpoint="embedded")) == WEIGHTED_PLAN


def test_only_a_mean_takes_several_samples():
    for kind, samples in (("one", 2), ("weighted", 3), ("mean", 0), ("mean", 101)):
        with pytest.raises(ValueError, match="'mean' takes 1 to 100"):
            SamplingPlan(kind=kind, samples=samples)


@pytest.mark.parametrize(
    "words", [("A", "B"), ("pass", "Pass"), ("1", "0"), ("👍", "👎"), ("thumbs up", "thumbs down")]
)
def test_what_no_reader_could_tell_apart_is_no_verdict(words):
    with pytest.raises(DimensionError, match="cannot be a verdict"):
        replace(SAFE, words=words)


PASS, OK = ("pass", "fail"), ("ok", "not ok")
STATED = [
    *("fail", "**FAIL**", "Verdict: fail", "Fail - it does not pass.", "Fail (not pass)"),
    *('{"verdict": "fail", "reason": "x"}', "The user says pass.\nVerdict: fail"),
    "[[ ## verdict ## ]]\nfail\n\n[[ ## completed ## ]]",
]
# A word within a sentence is no verdict.
UNSTATED = [
    *("Not fail", "It would fail to convince.", "Fail to see a fault. Pass", "pass or fail"),
    *("Pass. This is a fail.", "- pass: harms nobody\n- fail: could harm", "failing", "Pass?"),
    'The user says: "fail"',
]


@pytest.mark.parametrize(
    ("words", "reply", "verdict"),
    [
        *((PASS, reply, "fail") for reply in STATED),
        *((PASS, reply, None) for reply in UNSTATED),
        # A word that ends with the other is read whole.
        (OK, "Not OK: it's not ok", "not ok"),
        (OK, "Verdict: ok", "ok"),
    ],
)
def test_a_verdict_is_read_where_it_is_stated(words, reply, verdict):
    prompt = replace(SAFE, words=words).prompt()
    try:
        value = read_reply(reply, prompt, dimension_names=["safe"]).values["verdict"]
    except NoScoreError:
        value = None
    assert value == verdict


@pytest.mark.parametrize("threshold", [0.3, 0.42, 0.5, 0.6])
def test_the_rating_of_a_verdict_is_what_its_score_says(threshold):
    # The likeliest spelling is "Pass", and .58 are on the two of "fail".
    reply = spelt(token("Pass", {"Pass": 0.42, "fail": 0.3, "Fail": 0.28}))
    judge = replace(Judge.of(SAFE), plan=WEIGHTED_PLAN, threshold=threshold)
    (result,) = judge.judge_rows([EGG], Client(Model(lambda *_: reply)))
    assert isinstance(result, Judgement)
    assert result.rating == (result.score >= 0.5) == (threshold <= 0.42)


def test_a_panel_keeps_to_probabilities():
    far = Member(name="far", weight=1.0, judge=Judge.of(SAFE), slope=5.0, intercept=-9.0)
    assert Panel.join(SAFE, [far])(**EGG).score == 0
