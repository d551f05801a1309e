"""DSPy's own prompts get replies that DSPy's own parsers take."""

import os
from typing import Literal

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
dspy = pytest.importorskip("dspy")

from judges.client.protocol import Sampling  # noqa: E402
from judges.embedded import EmbeddedModel  # noqa: E402

ADAPTERS = [dspy.ChatAdapter(), dspy.JSONAdapter()]


class Rate(dspy.Signature):
    """Judge the grammar of the answer."""

    question: str = dspy.InputField()
    answer: str = dspy.InputField(desc="the answer to judge")
    reasons: str = dspy.OutputField()
    rating: Literal[1, 2, 3, 4, 5] = dspy.OutputField(desc="how grammatical the answer is")


class RateFirst(dspy.Signature):
    """Which answer is better?"""

    question: str = dspy.InputField()
    answer_a: str = dspy.InputField()
    answer_b: str = dspy.InputField()
    preferred: Literal["A", "B"] = dspy.OutputField()
    reasons: str = dspy.OutputField()


class RateTwice(Rate):
    """Judge the form and the grammar of the answer."""

    form: Literal[1, 2, 3] = dspy.OutputField()


def answered(adapter, signature, inputs, demos=()):
    messages = adapter.format(signature, list(demos), inputs)
    reply = EmbeddedModel().reply(messages, Sampling(temperature=1.0, top_logprobs=5)).replies[0]
    if reply.tokens:
        assert "".join(token.text for token in reply.tokens) == reply.text
    return adapter.parse(signature, reply.text)


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_a_stock_signature_is_judged(adapter):
    question = "Why is the sky blue?"
    demo = {"question": "What is it?", "answer": "It are are a a.", "reasons": "Bad.", "rating": 1}
    fields = answered(adapter, Rate, {"question": question, "answer": "It is so."}, [demo])
    assert fields["rating"] in range(1, 6)
    assert fields["reasons"]


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_the_alternatives_are_those_of_the_choice_where_reasons_come_after_it(adapter):
    # The reasons name the choice too, as in "Answer B has better grammar".
    texts = {"question": "Why?", "answer_a": "It are are a a.", "answer_b": "It is so, I think."}
    messages = adapter.format(RateFirst, [], texts)
    reply = EmbeddedModel().reply(messages, Sampling(top_logprobs=5)).replies[0]
    assert [bool(token.top) for token in reply.tokens] == [False, True, False]
    before, choice, after = (token.text for token in reply.tokens)
    assert choice in {"A", "B"}
    assert "preferred" in before
    assert f"Answer {choice}" in after
    assert adapter.parse(RateFirst, reply.text)["preferred"] == choice


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: type(adapter).__name__)
def test_a_second_field_with_choices_raises_nothing(adapter):
    messages = adapter.format(RateTwice, [], {"question": "Why?", "answer": "It is so."})
    reply = EmbeddedModel().reply(messages, Sampling(temperature=1.0, top_logprobs=5)).replies[0]
    assert next(token.text for token in reply.tokens if token.top) in {"1", "2", "3"}
