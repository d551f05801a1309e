"""Rows to judgements and verdicts, with a client that answers from a table."""

import math
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from behaving_model import Behave, Model, rate
from judge_cases import FLUENCY
from judge_cases import TLDR_CONCISE as CONCISE

from judges.client import Client
from judges.client.budget import Budget, BudgetSpentError
from judges.client.store import Store
from judges.exchange import texts_or_reason
from judges.judge import Judge
from judges.labels import read_labels
from judges.protocol import Reply, Token
from judges.scoring import ONE_REPLY_PLAN, WEIGHTED_PLAN, NoProbabilitiesError, SamplingPlan

PAIR = {"post": "P", "summary_a": "long one", "summary_b": "short"}


def judge_all(
    subject: Any, model: Model, *rows: dict[str, str], plan: SamplingPlan = ONE_REPLY_PLAN
) -> Any:
    return list(Judge.of(subject).with_plan(plan).judge_rows(rows, Client(model)))


def test_a_model_known_to_give_no_probabilities_is_asked_nothing():
    model = Model(lambda *_: "3")
    model.has_logprobs = False
    with pytest.raises(NoProbabilitiesError, match="m gives no"):
        judge_all(FLUENCY, model, {"summary": "s"}, plan=WEIGHTED_PLAN)
    assert not model.calls


def test_a_lone_reply_without_probabilities_fails():
    def reply(content: str, *_: object) -> Reply:
        return Reply(text="4", tokens=() if "bare" in content else (Token("4", {"4": 0.0}),))

    rows = [{"summary": text} for text in ("well", "bare", "well again")]
    first, second, third = judge_all(FLUENCY, Model(reply), *rows, plan=WEIGHTED_PLAN)
    assert (first.score, third.score) == (4, 4)
    assert "no log-probabilities" in str(second.failure)


def shortest(content: str) -> str:
    """Choose the place that shows the short summary."""
    return "A" if content.index("short") < content.index("long one") else "B"


def unsure(content: str) -> str:
    """Choose A, but only where it is shown first."""
    return "A" if shortest(content) == "B" else "neither"


@pytest.mark.parametrize(
    ("choice", "orders", "preferred", "margin", "failure"),
    [
        (shortest, ("B", "B"), "B", -1, "None"),
        (lambda content: "A", ("A", "B"), "tie", 0, "None"),
        (unsure, ("A", None), None, math.nan, "in the order ba: no preferred A or B"),
    ],
    ids=["letters name outputs", "what follows the position is a tie", "one order unanswered"],
)
def test_both_orders_are_asked_and_make_one_verdict(choice, orders, preferred, margin, failure):
    def behave(content: str, *_: object) -> str:
        return f"[[ ## comparison ## ]]\nIt is.\n[[ ## preferred ## ]]\n{choice(content)}"

    model = Model(behave)
    (verdict,) = judge_all(CONCISE, model, PAIR)
    assert (verdict.order_ab, verdict.order_ba, verdict.preferred) == (*orders, preferred)
    assert verdict.margin == pytest.approx(margin, nan_ok=True)
    assert str(verdict.failure).startswith(failure)
    assert verdict.comparison in ("It is.", None)
    assert {shortest(content) for content in model.prompts} == {"A", "B"}


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        ("", "short", ("", "short")),
        ("long one", " \n", ("long one", " \n")),
        (2.5, np.int64(3), ("2.5", "3")),
        (None, "short", "no summary_a"),
        (b"bytes", "short", "summary_a is bytes, not a text"),
        ("\u200b", "\ufeff", "summary_a is empty"),
    ],
)
def test_a_pair_is_judged_where_one_side_said_nothing(a, b, result):
    row = {"post": "P", "summary_a": a, "summary_b": b}
    if not isinstance(result, str):
        result = dict(zip(row, ("P", *result), strict=True))
    assert texts_or_reason(CONCISE, row) == result


@pytest.mark.parametrize("cell", [True, 2.5, ["one", "two"], np.array(["one", "two"])])
def test_a_judge_and_labels_read_a_cell_alike(cell):
    (output,) = read_labels([{"id": "1", "summary": cell, "fluency": 3}]).outputs
    assert texts_or_reason(FLUENCY, {"summary": cell}) == output.texts


@pytest.mark.parametrize("text", ["\u200b", "\ufeff", "\u00ad \u200e\u202a", "\u00a0\n\u2028\x00"])
def test_a_text_of_invisible_characters_alone_is_missing(text):
    assert texts_or_reason(FLUENCY, {"summary": text}) == "summary is empty"
    assert texts_or_reason(FLUENCY, {"summary": f"{text}."}) == {"summary": f"{text}."}


def stubborn(text: str) -> Behave:
    """Answer in the form asked for only where it is said twice."""

    def behave(prompt: str, *_: object) -> Reply:
        answer = text if prompt.count("Reply with") > 1 else "It is all right."
        return Reply(text=answer, tokens=(Token(answer, {"4": -0.1, "2": -3.0}),))

    return behave


@pytest.mark.parametrize("plan", [ONE_REPLY_PLAN, WEIGHTED_PLAN])
def test_an_unreadable_reply_is_asked_again_with_the_form_restated(plan, tmp_path):
    judge, results = Judge.of(FLUENCY).with_plan(plan), []
    model, silent = Model(stubborn("4")), Model(stubborn("1"))
    # Both calls are in the store: a resumed run asks nothing and says the same.
    for one in (model, silent):
        with closing(Store(tmp_path / "replies.sqlite")) as store:
            client = Client(one, account=Budget(max_calls=2, store=store).account())
            results += judge.judge_rows([{"summary": "s"}], client)
    assert (results[0].rating, results[0].unparsable) == (4, 0)
    assert (results[1], silent.calls) == (results[0], 0)
    prompt, again = model.prompts
    assert again.startswith(prompt)
    assert again.endswith("Reply with the rating alone, without any working: 1, 2, 3, 4 or 5.")


def test_a_repetition_over_budget_costs_no_other_row_its_score():
    rows = [{"summary": f"{'garble' * (n == 2)} text {n}"} for n in range(10)]
    client = Client(Model(rate, wait=0.1), account=Budget(max_calls=10).account())
    results = []
    with pytest.raises(BudgetSpentError, match="the budget of 10 calls is spent"):
        results.extend(Judge.of(FLUENCY).with_plan(ONE_REPLY_PLAN).judge_rows(rows, client))
    assert [result.failure is None for result in results] == [n != 2 for n in range(10)]
    assert "the budget of 10 calls is spent" in results[2].failure
