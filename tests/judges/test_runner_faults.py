"""The runner when requests fail, replies cannot be read, or the budget ends."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from behaving_model import Model, asks, echo, parsed

from judges.client.budget import Budget, BudgetSpentError
from judges.client.client import Client
from judges.client.journal import Journal
from judges.client.prices import Price
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.client.retrying.FIRST_WAIT", 0.002)


def test_what_may_pass_is_asked_again_until_it_does() -> None:
    def flaky(prompt: str, sampling: Sampling, before: int) -> str:
        if before < 3:
            raise TransientError("500")
        return prompt

    model = Model(flaky)
    with Client(model) as runner:
        assert parsed(list(runner.run(asks(20)))) == list(range(20))
    assert set(model.seen.values()) == {4}


def test_what_never_passes_is_a_failed_row_that_says_why() -> None:
    def dead(prompt: str, sampling: Sampling, before: int) -> str:
        if prompt == "2":
            raise TransientError("500 from somewhere")
        return prompt

    with Client(Model(dead), attempts=3) as runner:
        answers = list(runner.run(asks(4)))
    assert parsed(answers) == [0, 1, None, 3]
    assert answers[2].error == "gave up after 3 attempts: 500 from somewhere"


def test_a_request_that_hangs_is_given_up_and_asked_again() -> None:
    class Hanging(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            answer = await super().complete(messages, sampling)
            if self.seen[messages[-1]["content"]] == 1:
                await asyncio.sleep(60)
            return answer

    model = Hanging(echo)
    with Client(model, timeout=0.3) as runner:
        assert parsed(list(runner.run(asks(3)))) == [0, 1, 2]
    assert model.calls == 6


def test_the_endpoints_wish_to_wait_is_honoured() -> None:
    times: list[float] = []

    def throttled(prompt: str, sampling: Sampling, before: int) -> str:
        times.append(time.monotonic())
        if before == 0:
            raise ThrottledError("429", 0.3)
        return prompt

    with Client(Model(throttled)) as runner:
        assert runner.ask(next(asks(1))).parsed == (0,)
    assert times[1] - times[0] >= 0.3


@pytest.mark.parametrize(
    ("seconds", "spoken"), [(601.0, "10 minutes"), (7200.0, "2 hours"), (31_536_000.0, "365 days")]
)
def test_a_wish_to_wait_for_long_ends_the_run_in_a_line_that_says_so(
    seconds: float, spoken: str
) -> None:
    def throttled(prompt: str, sampling: Sampling, before: int) -> str:
        raise ThrottledError("429 from somewhere: too many requests", seconds)

    start = time.monotonic()
    with Client(Model(throttled)) as runner, pytest.raises(FatalModelError) as caught:
        list(runner.run(asks(3)))
    assert time.monotonic() - start < 60
    assert f"asked again in {spoken}" in str(caught.value)
    assert "resume" in str(caught.value)


def test_a_broken_server_that_wants_a_year_is_asked_again_at_our_own_pace() -> None:
    def broken(prompt: str, sampling: Sampling, before: int) -> str:
        if before < 2:
            raise TransientError("503 from somewhere", 31_536_000.0)
        return prompt

    with Client(Model(broken)) as runner:
        assert parsed(list(runner.run(asks(3)))) == [0, 1, 2]


def test_a_request_refused_among_others_that_were_answered_is_a_failed_row() -> None:
    def picky(prompt: str, sampling: Sampling, before: int) -> str:
        if prompt == "3":
            raise RefusedError("400 from somewhere: invalid character")
        return prompt

    with Client(Model(picky), concurrency=1) as runner:
        answers = list(runner.run(asks(6)))
    assert parsed(answers) == [0, 1, 2, None, 4, 5]
    assert answers[3].error == "400 from somewhere: invalid character"


def test_a_wait_worth_telling_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.retrying.NOTABLE_RETRY_AFTER", 0.05)

    def throttled(prompt: str, sampling: Sampling, before: int) -> str:
        if before == 0:
            raise ThrottledError("429 from somewhere", 0.2)
        return prompt

    with Client(Model(throttled)) as runner:
        assert parsed(list(runner.run(asks(2)))) == [0, 1]
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["429 from somewhere; waiting 0 seconds, as it asks (its Retry-After)"]


def test_a_rate_limit_loses_no_row() -> None:
    sent: list[float] = []

    def limited(prompt: str, sampling: Sampling, before: int) -> str:
        now = time.monotonic()
        if sum(now - at < 0.1 for at in sent) >= 10:
            raise ThrottledError("429", 0.1)
        sent.append(now)
        return prompt

    model = Model(limited)
    with Client(model, concurrency=64) as runner:
        assert parsed(list(runner.run(asks(60)))) == list(range(60))
    # 10 in every 0.1 s: 60 rows take 5 windows of waiting, and most requests are not in vain.
    assert model.calls < 60 * 4


@pytest.mark.parametrize("error", [FatalModelError("401: wrong key"), ZeroDivisionError("a bug")])
def test_what_cannot_pass_ends_the_run_at_once(error: Exception) -> None:
    class Broken(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if messages[-1]["content"] == "5":
                raise error
            await asyncio.sleep(30)
            raise AssertionError

    start = time.monotonic()
    with Client(Broken(echo)) as runner, pytest.raises(type(error), match=str(error)):
        list(runner.run(asks(100)))
    assert time.monotonic() - start < 25


def test_an_endpoint_nobody_ever_reached_ends_the_run() -> None:
    def nobody(prompt: str, sampling: Sampling, before: int) -> str:
        raise UnreachableError("no connection to http://nowhere")

    with (
        Client(Model(nobody), attempts=2) as runner,
        pytest.raises(FatalModelError, match="nowhere"),
    ):
        list(runner.run(asks(1000)))


def test_a_host_nobody_ever_reached_is_named_at_once_and_given_up_in_seconds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def nobody(prompt: str, sampling: Sampling, before: int) -> str:
        raise UnreachableError("no connection to http://nowhere")

    start = time.monotonic()
    runner = Client(Model(nobody), attempts=10_000)
    with runner, pytest.raises(FatalModelError, match="nowhere"):
        list(runner.run(asks(5)))
    # Three seconds of trying, at most one more of waiting, and the machine's own.
    assert 3 <= time.monotonic() - start < 30
    (said,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert said.getMessage() == "no connection to http://nowhere; trying for 3 s more"


def test_a_host_that_comes_up_within_seconds_is_waited_for() -> None:
    start = time.monotonic()

    def late(prompt: str, sampling: Sampling, before: int) -> str:
        if time.monotonic() - start < 1:
            raise UnreachableError("no connection to http://late")
        return prompt

    with Client(Model(late), attempts=10_000) as runner:
        assert parsed(list(runner.run(asks(5)))) == [0, 1, 2, 3, 4]


def test_an_endpoint_that_goes_away_later_fails_its_rows() -> None:
    def gone(prompt: str, sampling: Sampling, before: int) -> str:
        if int(prompt) > 3:
            raise UnreachableError("no connection")
        return prompt

    with Client(Model(gone), attempts=2, concurrency=1) as runner:
        assert parsed(list(runner.run(asks(6)))) == [0, 1, 2, 3, None, None]


def test_a_refused_request_is_a_failed_row_asked_once() -> None:
    def refuse(prompt: str, sampling: Sampling, before: int) -> str:
        if prompt == "1":
            raise RefusedError("context too long")
        return prompt

    model = Model(refuse)
    with Client(model) as runner:
        answers = list(runner.run(asks(3)))
    assert parsed(answers) == [0, None, 2]
    assert answers[1].error == "context too long"
    assert model.seen["1"] == 1


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_an_unparsable_reply_is_asked_afresh_with_other_seeds(endpoint: str) -> None:
    model = Model(lambda p, s, before: "4" if before == 2 else "well", endpoint=endpoint)
    with Client(model, fresh_samples=2) as runner:
        (answer,) = runner.run(asks(1, Sampling(seed=5)))
    assert answer.parsed == (4,)
    assert answer.error is None
    assert [sampling.seed for sampling in model.samplings] == [5, 6, 7]
    assert answer.tokens_in == 30


def test_replies_that_stay_unparsable_fail_the_row_and_are_kept() -> None:
    with Client(Model(lambda *_: "well"), fresh_samples=1) as runner:
        (answer,) = runner.run(asks(1))
    assert answer.parsed == ()
    assert answer.error == "no number in 'well'"
    assert [reply.text for reply in answer.replies] == ["well"]


def test_only_the_samples_that_failed_are_asked_afresh() -> None:
    model = Model(lambda p, s, before: ["1", "x", "3", "y"] if before == 0 else ["2", "4"])
    with Client(model) as runner:
        (answer,) = runner.run(asks(1, Sampling(n=4)))
    assert answer.parsed == (1, 2, 3, 4)
    assert [sampling.n for sampling in model.samplings] == [4, 2]
    assert [reply.text for reply in answer.replies] == ["1", "2", "3", "4"]


def test_some_samples_are_better_than_none_and_the_rest_are_told() -> None:
    model = Model(lambda p, s, before: ["1", "x", "3"][: s.n] if before == 0 else "y")
    with Client(model, fresh_samples=1) as runner:
        (answer,) = runner.run(asks(1, Sampling(n=3)))
    assert answer.parsed == (1, 3)
    assert answer.failures == ("no number in 'y'",)
    assert answer.error is None
    assert len(answer.replies) == 3


def test_samples_are_separate_requests_where_the_model_gives_one_reply() -> None:
    model = Model(echo, native_n=False)
    with Client(model) as runner:
        (answer,) = runner.run(asks(1, Sampling(n=5)))
    assert answer.parsed == (0,) * 5
    assert len({sampling.seed for sampling in model.samplings}) == 5
    assert {sampling.n for sampling in model.samplings} == {1}


def test_an_endpoint_that_does_not_heed_n_is_found_out() -> None:
    model = Model(lambda p, s, before: [p])
    with Client(model) as runner:
        answers = list(runner.run(asks(2, Sampling(n=3))))
    assert [answer.parsed for answer in answers] == [(0,) * 3, (1,) * 3]
    assert model.calls == 6


def test_identical_asks_in_flight_are_asked_once() -> None:
    model = Model(echo, wait=0.02)
    same = [next(asks(1)) for _ in range(50)]
    with Client(model) as runner:
        answers = list(runner.run(same))
    assert model.calls < 10
    assert parsed(answers) == [0] * 50
    # Once among the first, which go alone, and once among all others.
    assert sum(not answer.cached for answer in answers) <= 2


def test_the_call_budget_is_never_passed_and_ends_the_run_in_order() -> None:
    model = Model(lambda p, s, before: p if before else "x", wait=0.001)
    with (
        Client(model, account=Budget(max_calls=101).account()) as runner,
        pytest.raises(BudgetSpentError, match="101 calls is spent; raise it and resume"),
    ):
        list(runner.run(asks(1000)))
    assert model.calls == 101


def test_replies_in_flight_when_the_budget_ends_are_kept(tmp_path: Path) -> None:
    model = Model(echo, wait=0.05)
    with Journal(tmp_path / "j") as journal:
        with (
            Client(
                model, journal=journal, account=Budget(max_calls=20).account(), concurrency=8
            ) as runner,
            pytest.raises(BudgetSpentError),
        ):
            list(runner.run(asks(1000)))
        assert len(journal) == 20


def test_the_cost_budget_is_never_passed_and_nearly_used_up() -> None:
    # A reply costs 10 in + 1 out = 11 dollars; at worst 1 or 3 bytes + 16 in and 4 out.
    price = Price(per_token_in=1.0, per_token_out=1.0)
    account = Budget(max_cost=200.0).account(price=price)
    model = Model(echo, wait=0.002)
    with Client(model, account=account) as runner, pytest.raises(BudgetSpentError, match="200"):
        list(runner.run(asks(1000, Sampling(max_tokens=4))))
    assert account.cost is not None
    assert 200 - 23 < account.cost <= 200
    assert account.cost == 11 * model.calls


def test_two_runners_spend_from_one_budget() -> None:
    judge = Budget(max_calls=10).account()
    proposer = judge.budget.account(name="proposer")
    with Client(Model(echo), account=judge) as one, Client(Model(echo), account=proposer) as two:
        list(one.run(asks(6)))
        with pytest.raises(BudgetSpentError):
            list(two.run(asks(6)))
    assert (judge.calls, proposer.calls) == (6, 4)


class CutOnce(Model):
    """Replies without a text, out of tokens, to a third of the prompts when first asked."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        prompt = messages[-1]["content"]
        answer = await super().complete(messages, sampling)
        if int(prompt) % 3 or self.seen[prompt] > 1:
            return answer
        return replace(answer, replies=(Reply(text="", finish_reason="length"),))


def test_a_reply_cut_at_the_largest_limit_that_others_led_to_is_asked_again(tmp_path: Path) -> None:
    # One after the other: each of the first three cuts doubles the limit of all, to eightfold.
    model = CutOnce(echo)
    with Client(model, concurrency=1, journal=Journal(tmp_path / "journal.jsonl")) as runner:
        assert parsed([runner.ask(request) for request in asks(24)]) == list(range(24))
    limits = {sampling.max_tokens // Sampling().max_tokens for sampling in model.samplings}
    assert limits == {1, 2, 4, 8}
    assert set(model.seen.values()) == {1, 2}
    # A resumed run learns the limit anew, and finds all that was asked.
    resumed = CutOnce(echo)
    with Client(resumed, journal=Journal(tmp_path / "journal.jsonl")) as runner:
        assert parsed(list(runner.run(asks(24)))) == list(range(24))
    assert resumed.calls == 0
