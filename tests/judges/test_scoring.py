"""From replies to a score under each sampling plan."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from judges.catalog import find
from judges.dimension import Dimension, untuned_prompt
from judges.judgement import Judgement, NoScoreError
from judges.prompt import Prompt, with_reasoning
from judges.protocol import FatalModelError, Reply, Sampling, Token
from judges.scoring import (
    NoProbabilitiesError,
    SamplingPlan,
    check_probabilities,
    default_plan,
    read_sample,
    sampling_of,
    score_of,
)

FLUENCY = find("fluency")
assert isinstance(FLUENCY, Dimension)
BARE = FLUENCY.prompt()
REASONED = untuned_prompt(FLUENCY, "brief")
ONE, WEIGHTED = SamplingPlan(kind="one"), SamplingPlan(kind="weighted")
TO_TEN = Dimension(
    name="ten", definition="d", inputs={"text": "t"}, instruction="i",
    anchors=dict.fromkeys(range(1, 11), ""),
).prompt()  # fmt: skip


def token(text: str, **top: float) -> Token:
    """A token and the probabilities of its alternatives."""
    return Token(text, {word: math.log(p) for word, p in top.items()})


def tokens(text: str, top: dict[str, float]) -> Token:
    return token(text, **top)


def spelt(*parts: Token) -> Reply:
    return Reply(text="".join(part.text for part in parts), tokens=parts)


def judge_replies(plan: SamplingPlan, prompt: Prompt, replies: Sequence[Reply]) -> Judgement:
    """As an engine does with the replies that it has got."""
    samples, failures = [], []
    for reply in replies:
        try:
            samples.append(read_sample(plan, prompt, reply))
        except NoScoreError as error:
            failures.append(str(error))
    return score_of(plan, samples, failures)


class Silent:
    """A model that says of itself what it gives, and is never asked."""

    name, native_n = "silent-1", True

    def __init__(self, *, has_logprobs: bool | None, endpoint: str = "https://example.org") -> None:
        self.has_logprobs = has_logprobs
        self.endpoint = endpoint

    async def complete(self, *_: Any) -> Any: ...
    async def close(self) -> None: ...


def test_one_reply_gives_its_rating_and_rationale() -> None:
    said = judge_replies(ONE, REASONED, [Reply(text="Two typing errors.\nFinal score: 4")])
    assert (said.score, said.rating) == (4, 4)
    assert said.rationale == "Two typing errors.\nFinal score: 4"
    assert said.distribution is None


def test_the_mean_leaves_unparsable_samples_out_and_counts_them() -> None:
    plan = SamplingPlan(kind="mean", samples=4, temperature=2.0)
    said = judge_replies(plan, BARE, [Reply(text=text) for text in ("4", "5", "uh", "4")])
    assert said.score == pytest.approx(13 / 3)
    assert said.distribution == {4: 2 / 3, 5: 1 / 3}
    assert (said.rating, said.samples, said.unparsable) == (None, 3, 1)


def test_weighted_sums_every_form_of_a_rating() -> None:
    # .3 + .2 + .05 + .05 on 4 and .2 on 5, of .8 on the scale: (4 * .6 + 5 * .2) / .8 = 4.25.
    top = {"4": 0.3, " 4": 0.2, "four": 0.05, "▁Four": 0.05, "5": 0.2, "The": 0.1, "7": 0.1}
    said = judge_replies(WEIGHTED, BARE, [spelt(tokens("4", top))])
    assert said.score == pytest.approx(4.25)
    assert said.distribution == pytest.approx({1: 0, 2: 0, 3: 0, 4: 0.75, 5: 0.25})
    assert said.rating == 4


def test_weighted_reads_the_token_after_the_last_header() -> None:
    # The 2 in the rationale has probabilities of its own; they are not the rating's.
    parts = [
        token("[[ ## rationale ## ]]\n"), tokens("2", {"2": 0.9}), token(" errors.\n"),
        token("[[ ## rating ## ]]\n"), tokens("3", {"3": 0.5, "5": 0.5}), token("\n"),
    ]  # fmt: skip
    said = judge_replies(WEIGHTED, REASONED, [spelt(*parts)])
    assert said.score == 4
    assert said.rationale == "2 errors."


def test_weighted_takes_the_number_that_the_reply_is_read_by_and_no_equal_one_before() -> None:
    # Both are "4"; with 2 in the place of the last alone would the reply say 2.
    parts = [
        token("It drops "), tokens("4", {"4": 0.5, "2": 0.5}), token(" of the facts.\n\n"),
        tokens("4", {"4": 0.75, "3": 0.25}),
    ]  # fmt: skip
    assert judge_replies(WEIGHTED, BARE, [spelt(*parts)]).score == 3.75
    # And here in the place of the first.
    parts = [
        tokens("4", {"4": 0.75, "3": 0.25}), token(". It has "), tokens("4", {"4": 0.5, "2": 0.5}),
        token(" slips."),
    ]  # fmt: skip
    assert judge_replies(WEIGHTED, BARE, [spelt(*parts)]).score == 3.75


@pytest.mark.parametrize("end", ["<|im_end|>", "</s>"])
def test_weighted_passes_over_the_token_that_ends_a_turn(end: str) -> None:
    # Some endpoints count it among the tokens and leave it out of the text.
    parts = (tokens("4", {"4": 0.75, "3": 0.25}), tokens(end, {end: 1.0}))
    assert judge_replies(WEIGHTED, BARE, [Reply(text="4", tokens=parts)]).score == 3.75


def test_a_model_without_probabilities_is_a_wrong_set_up_and_no_fallback() -> None:
    with pytest.raises(NoProbabilitiesError, match=r"'one'.*'mean'"):
        judge_replies(WEIGHTED, BARE, [Reply(text="4")])
    with pytest.raises(FatalModelError, match="silent-1 gives no log-probabilities"):
        check_probabilities(WEIGHTED, Silent(has_logprobs=False))
    check_probabilities(WEIGHTED, Silent(has_logprobs=None))
    check_probabilities(ONE, Silent(has_logprobs=False))


def test_a_scale_with_a_ten_is_weighted_by_the_embedded_model_alone() -> None:
    with pytest.raises(FatalModelError, match="10 on this scale may be several tokens"):
        sampling_of(WEIGHTED, TO_TEN, lm="https://example.org")
    sampling_of(WEIGHTED, TO_TEN, lm="embedded")


def test_probabilities_on_no_rating_at_all_are_a_failure() -> None:
    said = judge_replies(WEIGHTED, BARE, [spelt(tokens("4", {"The": 0.6, "A": 0.4}))])
    assert said.failure is not None
    assert "none of the choices" in said.failure


@pytest.mark.parametrize(
    "top", [{"4": math.nan}, {"4": math.inf}, {"4": 0.5}, {"4": 710.0}, {"4": 0.0, "5": 0.0}]
)
def test_log_probabilities_that_cannot_be_are_a_failure(top: dict[str, float]) -> None:
    said = judge_replies(WEIGHTED, BARE, [spelt(Token("4", top))])
    assert math.isnan(said.score)
    assert "log-probabilities of a token are impossible" in str(said.failure)


def test_a_plan_says_what_to_ask_for() -> None:
    mean = SamplingPlan(kind="mean", samples=20, temperature=2.0)
    assert sampling_of(mean, BARE, seed=7) == Sampling(temperature=2.0, n=20, seed=7)
    assert sampling_of(WEIGHTED, BARE).top_logprobs == 20
    assert sampling_of(ONE, BARE).top_logprobs == 0
    # Steps take longer to write than a sentence.
    assert sampling_of(ONE, REASONED).max_tokens == sampling_of(ONE, BARE).max_tokens
    stepwise = with_reasoning(BARE, "steps")
    assert sampling_of(ONE, stepwise).max_tokens == 2 * sampling_of(ONE, BARE).max_tokens


@pytest.mark.parametrize(
    ("kind", "samples"), [("one", 2), ("weighted", 3), ("mean", 0), ("mean", 101)]
)
def test_a_plan_takes_up_to_100_samples_and_only_of_a_mean(kind: Any, samples: int) -> None:
    with pytest.raises(ValueError, match="'mean' takes 1 to 100"):
        SamplingPlan(kind=kind, samples=samples)


def test_only_the_embedded_model_is_weighted_unasked() -> None:
    assert default_plan(Silent(has_logprobs=True)) == ONE
    assert default_plan(Silent(has_logprobs=True, endpoint="embedded")) == WEIGHTED
