"""Rows to judgements and verdicts, with a client that answers from a table."""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from behaving_model import Model

from judges.catalog import find
from judges.client.budget import Budget, BudgetSpentError
from judges.client.client import Client, Request, Response
from judges.client.store import Store
from judges.dimension import Comparison, Dimension
from judges.exchange import readable_texts
from judges.judge import Judge
from judges.judgement import NoScoreError
from judges.protocol import Reply, Token
from judges.scoring import NoProbabilitiesError, SamplingPlan

ONE, WEIGHTED = SamplingPlan(kind="one"), SamplingPlan(kind="weighted")
FLUENCY, CONCISE = find("fluency"), find("tldr_concise")
assert isinstance(FLUENCY, Dimension)
assert isinstance(CONCISE, Comparison)
PAIR = {"post": "P", "summary_a": "long one", "summary_b": "short"}


class Table:
    """Answers each ask by a function of the last message; keeps what it was asked."""

    def __init__(self, reply: Callable[[str], Reply], *, has_logprobs: bool | None = True) -> None:
        self.model: Any = SimpleNamespace(
            name="table-1", endpoint="table", native_n=True, has_logprobs=has_logprobs
        )
        self.reply = reply
        self.asks: list[Request] = []

    def run(self, asks: Iterable[Request]) -> Iterator[Response]:
        for ask in asks:
            self.asks.append(ask)
            reply = self.reply(ask.messages[-1]["content"])
            try:
                yield Response(replies=(reply,), values=(ask.accept(reply),))
            except NoScoreError as error:
                why = str(error)
                yield Response(replies=(reply,), values=(), failures=(why,))


def choosing(choice: Callable[[str], str]) -> Table:
    return Table(
        lambda content: Reply(
            text=f"[[ ## comparison ## ]]\nIt is.\n[[ ## preferred ## ]]\n{choice(content)}"
        )
    )


def shortest(content: str) -> str:
    """Choose the place that shows the short summary."""
    return "A" if content.index("short") < content.index("long one") else "B"


def test_judgements_come_in_the_rows_order_and_failures_among_them() -> None:
    client = Table(lambda content: Reply(text=content.splitlines()[1]))
    rows = [{"summary": "4"}, {"summary": "nothing"}, {"summary": "2"}]
    said = list(Judge.of(FLUENCY).with_plan(ONE).judge_rows(rows, client))
    assert [one.score for one in said] == pytest.approx([4, math.nan, 2], nan_ok=True)
    assert "nothing" in str(said[1].failure)


def test_rows_are_pulled_as_answers_are_wanted() -> None:
    client = Table(lambda content: Reply(text="3"))
    endless = ({"summary": str(i)} for i in iter(int, 1))
    judged = Judge.of(FLUENCY).with_plan(ONE).judge_rows(endless, client, seed=3)
    assert next(judged).score == 3
    assert len(client.asks) == 1
    assert client.asks[0].sampling.seed == 3


def test_a_model_known_to_give_no_probabilities_is_asked_nothing() -> None:
    client = Table(lambda content: Reply(text="3"), has_logprobs=False)
    with pytest.raises(NoProbabilitiesError, match="table-1"):
        next(Judge.of(FLUENCY).with_plan(WEIGHTED).judge_rows([{"summary": "s"}], client))
    assert not client.asks


def verdict(client: Table, plan: SamplingPlan = ONE) -> Any:
    (said,) = Judge.of(CONCISE).with_plan(plan).judge_rows([PAIR], client)
    return said


def test_both_orders_are_asked_and_letters_name_outputs_not_places() -> None:
    client = choosing(shortest)
    said = verdict(client)
    assert (said.order_ab, said.order_ba, said.preferred, said.margin) == ("B", "B", "B", -1)
    assert said.comparison == "It is."
    shown = [ask.messages[-1]["content"] for ask in client.asks]
    assert shown[0].index("long one") < shown[0].index("short")
    assert shown[1].index("short") < shown[1].index("long one")


def test_a_choice_that_follows_the_position_is_a_tie() -> None:
    said = verdict(choosing(lambda content: "A"))
    assert (said.order_ab, said.order_ba, said.preferred, said.margin) == ("A", "B", "tie", 0)


def test_a_pair_with_one_order_unanswered_has_failed() -> None:
    said = verdict(choosing(lambda content: "A" if shortest(content) == "B" else "neither"))
    assert math.isnan(said.margin)
    assert (said.preferred, said.order_ab, said.order_ba) == (None, "A", None)
    assert str(said.failure).startswith("in the order ba: no preferred A or B")


def test_weighted_margins_are_differences_of_probabilities_averaged_over_the_orders() -> None:
    # P(first) is .9 in the order ab and .6 in ba: (.9 - .1) for A, (.6 - .4) for B; mean .3.
    def reply(content: str) -> Reply:
        p = 0.6 if shortest(content) == "A" else 0.9
        top = {"A": math.log(p), "B": math.log(1 - p)}
        parts = (Token("[[ ## preferred ## ]]\n", {}), Token("A", top))
        return Reply(text="".join(part.text for part in parts), tokens=parts)

    said = verdict(Table(reply), WEIGHTED)
    assert said.margin == pytest.approx(0.3)
    assert (said.order_ab, said.order_ba, said.preferred) == ("A", "B", "tie")


@pytest.mark.parametrize(
    ("a", "b", "why"),
    [
        ("", "short", None),
        ("long one", " \n", None),
        ("", "", "summary_a is empty"),
        (None, "short", "no summary_a"),
        (True, "short", "summary_a is bool, not a text"),
        ("\u200b", "\ufeff", "summary_a is empty"),
    ],
)
def test_a_pair_is_judged_where_one_side_said_nothing(
    a: object, b: object, why: str | None
) -> None:
    row = {"post": "P", "summary_a": a, "summary_b": b}
    assert readable_texts(CONCISE, row) == (why or row)


@pytest.mark.parametrize(
    "text", ["\u200b", "\ufeff", "\u00ad \u200e", "\u202a\u202c", "\u00a0\n\u2028\x00"]
)
def test_a_text_of_invisible_characters_alone_is_missing(text: str) -> None:
    assert readable_texts(FLUENCY, {"summary": text}) == "summary is empty"
    assert readable_texts(FLUENCY, {"summary": f"{text}."}) == {"summary": f"{text}."}


def stubborn(text: str) -> Model:
    """A model that answers in the form asked for only where it is said twice."""

    def behave(prompt: str, *_: object) -> Reply:
        said = text if prompt.count("Reply with") > 1 else "It is all right."
        return Reply(text=said, tokens=(Token(said, {"4": -0.1, "2": -3.0}),))

    return Model(behave)


@pytest.mark.parametrize("plan", [ONE, WEIGHTED])
def test_an_unreadable_reply_is_asked_again_with_the_form_restated(
    plan: SamplingPlan, tmp_path: Path
) -> None:
    path, rows = tmp_path / "replies.sqlite", [{"summary": "s"}]
    model = stubborn("4")
    with closing(Store(path)) as store:
        client = Client(model, account=Budget(max_calls=2, store=store).account())
        (first,) = Judge.of(FLUENCY).with_plan(plan).judge_rows(rows, client)
    assert (first.rating, first.unparsable) == (4, 0)
    asked, again = model.seen
    assert again.startswith(asked)
    assert again.endswith("Reply with the rating alone, without any working: 1, 2, 3, 4 or 5.")
    # Both calls are in the store: a resumed run asks nothing and says the same.
    with closing(Store(path)) as store:
        silent = stubborn("1")
        client = Client(silent, account=Budget(store=store).account())
        (second,) = Judge.of(FLUENCY).with_plan(plan).judge_rows(rows, client)
    assert (second, silent.calls) == (first, 0)


def test_a_restated_form_names_the_headers_and_counts_against_the_budget() -> None:
    model = stubborn("[[ ## comparison ## ]]\nIt is.\n[[ ## preferred ## ]]\nA")
    client = Client(model, account=Budget(max_calls=3).account())
    with pytest.raises(BudgetSpentError):
        list(Judge.of(CONCISE).with_plan(ONE).judge_rows([PAIR], client))
    form = "[[ ## preferred ## ]] is A or B alone, without any other word."
    assert [form in content for content in model.seen].count(True) == 1


def test_samples_of_a_mean_are_drawn_anew_from_the_same_prompt() -> None:
    model = stubborn("4")
    plan = SamplingPlan(kind="mean", samples=2, temperature=1.0)
    (said,) = Judge.of(FLUENCY).with_plan(plan).judge_rows([{"summary": "s"}], Client(model))
    assert said.failure is not None
    assert len(model.seen) == 1


def test_a_reply_without_probabilities_among_others_with_them_is_a_failed_judgement() -> None:
    def reply(content: str) -> Reply:
        tokens = () if "bare" in content else (Token("4", {"4": 0.0}),)
        return Reply(text="4", tokens=tokens)

    rows = [{"summary": text} for text in ("well", "bare", "well again")]
    client = cast("Client", Table(reply))
    first, second, third = Judge.of(FLUENCY).with_plan(WEIGHTED).judge_rows(rows, client)
    assert (first.score, third.score) == (4, 4)
    assert "no log-probabilities" in str(second.failure)


def test_a_number_is_a_text_as_label_files_read_it() -> None:
    row = {"post": 7, "summary_a": 2.5, "summary_b": np.int64(3)}
    assert readable_texts(CONCISE, row) == {"post": "7", "summary_a": "2.5", "summary_b": "3"}
