"""A client over models that behave as told: order, limits, faults, replies that cannot be read."""

import asyncio
import gc
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from behaving_model import Model, asks, echo, number, parsed
from openai_server import OpenAIServer
from processes import TIMEOUT, until

from judges.client import shared_client
from judges.client.budget import Budget
from judges.client.client import (
    Client,
    FailingRunError,
    FailureMonitor,
    Request,
    Response,
    event_loop,
)
from judges.client.open import Session
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    NoConnectionsError,
    RefusedError,
    Reply,
    RespelledError,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
)
from judges.client.store import Store

LM = "openai/judge-1"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 0.002)


def run(model: Model, count: int, sampling: Sampling | None = None, **options: Any) -> list[Any]:
    return list(Client(model, **options).run(asks(count, sampling)))


class Slow(Model):
    """Answers a prompt for the first time only after so many seconds."""

    def __init__(self, seconds: float, *prompts: str) -> None:
        super().__init__(echo)
        self.seconds, self.prompts = seconds, prompts

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        answer = await super().complete(messages, sampling)
        prompt = messages[-1]["content"]
        if self.seen[prompt] == 1 and (prompt in self.prompts or not self.prompts):
            await asyncio.sleep(self.seconds)
        return answer


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_responses_come_in_the_order_of_the_requests(endpoint: str) -> None:
    rng = random.Random(1)

    class Uneven(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if not self.in_process:
                await asyncio.sleep(rng.random() * 0.01)
            return await super().complete(messages, sampling)

    assert parsed(run(Uneven(echo, endpoint=endpoint), 300, concurrency=16)) == list(range(300))


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    model = Model(echo, wait=0.005)
    assert len(run(model, 100, concurrency=7)) == 100
    assert model.max_busy == 7


def test_a_request_that_hangs_holds_up_no_other_and_few_are_read_ahead() -> None:
    read: list[int] = []
    freed = asyncio.Event()

    class Hanging(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if messages[-1]["content"] == "0":
                await freed.wait()
            return await super().complete(messages, sampling)

    model = Hanging(echo)

    def counted() -> Iterator[Request]:
        for request in asks(10_000):
            read.append(len(read) + 1 - model.calls)
            yield request

    responses = Client(model, concurrency=4).run(counted())
    # All but the first of the 4,096 that may wait are answered.
    thread = threading.Thread(
        target=lambda: (
            until(lambda: model.calls == 4095),
            event_loop().call_soon_threadsafe(freed.set),
        )
    )
    thread.start()
    assert next(responses).parsed == (0,)
    assert len(read) == 4096
    assert max(read) <= 3 * 4  # three for each place
    thread.join()
    responses.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_memory_stays_flat_over_many_rows(endpoint: str) -> None:
    class Forgetful(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            return Completion(replies=(Reply(text="3"),), tokens_in=1, tokens_out=1, model="m")

    def peak(rows: int) -> int:
        client = Client(Forgetful(echo, endpoint=endpoint))
        list(client.run(asks(100)))
        gc.collect()
        tracemalloc.start()
        assert sum(1 for _ in client.run(asks(rows))) == rows
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size

    assert peak(5_000) - peak(1_000) < 500_000


def test_it_works_where_an_event_loop_is_running() -> None:
    async def notebook() -> list[Response]:
        return list(Client(Model(echo)).run(asks(10)))

    assert parsed(asyncio.run(notebook())) == list(range(10))


def test_asynchronous_requests_leave_the_callers_loop_free() -> None:
    async def use() -> tuple[list[Response], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticking = asyncio.create_task(tick())
        client = Client(Model(echo, wait=0.01))
        responses = await asyncio.gather(*map(client.ask_async, asks(20)))
        ticking.cancel()
        return responses, ticks

    responses, ticks = asyncio.run(use())
    assert parsed(responses) == list(range(20))
    assert ticks > 5


def test_many_threads_may_ask_one_client() -> None:
    client, got = Client(Model(echo, wait=0.001)), dict[int, object]()

    def work(start: int) -> None:
        for request in list(asks(100))[start::4]:
            got[int(request.messages[0]["content"])] = client.ask(request).parsed[0]

    threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == {i: i for i in range(100)}


def test_a_consumer_that_stops_early_leaves_nothing_running_and_keeps_what_was_sent(
    tmp_path: Path,
) -> None:
    model, store = Model(echo, wait=0.02), Store(tmp_path / "s")
    account = Budget(store=store).account()
    for response in Client(model, account=account, concurrency=4).run(asks(1000)):
        assert response.parsed == (0,)
        break
    gc.collect()
    until(lambda: model.busy == 0)
    before = model.calls
    time.sleep(0.05)
    assert model.calls == before
    assert account.answered == before
    store.close()
    assert Store.answered(tmp_path / "s") == {"model": before}


def test_what_hangs_when_its_user_stops_is_given_up_after_the_grace_and_leaves_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.client.GRACE", 0.1)
    ended = threading.Event()

    class Reluctant(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if messages[-1]["content"] == "1":
                try:
                    await asyncio.sleep(3600)
                finally:
                    await asyncio.sleep(0.2)  # to close its connection
                    event_loop().call_soon(ended.set)
            return await super().complete(messages, sampling)

    with Session(store=tmp_path / "s", models={"m": Reluctant(echo)}) as session:
        responses = session.client("m", price=(1e6, 1e6)).run(asks(2))
        assert next(responses).parsed == (0,)
        responses.close()  # type: ignore[attr-defined]
    assert ended.wait(TIMEOUT)
    with Session(store=tmp_path / "s", models={"m": Model(echo)}) as session:
        client = session.client("m", price=(1e6, 1e6))
        assert client.account.cost_unconfirmed == 17 + 512  # a byte, 16 around it, the reply
        assert parsed(list(client.run(asks(2)))) == [0, 1]


def test_a_forgotten_run_may_be_closed_by_the_event_loops_own_thread() -> None:
    client = Client(Model(echo, wait=0.01), concurrency=4)
    forgotten = [client.run(asks(1000))]
    next(forgotten[0])
    closed = threading.Event()

    def collect() -> None:
        forgotten.clear()
        closed.set()

    event_loop().call_soon_threadsafe(collect)
    assert closed.wait(TIMEOUT)
    assert parsed(list(client.run(asks(10)))) == list(range(10))


def test_an_error_in_the_requests_is_the_callers_own() -> None:
    def failing() -> Iterator[Request]:
        yield from asks(3)
        raise KeyError("document")

    with pytest.raises(KeyError, match="document"):
        list(Client(Model(echo)).run(failing()))


def test_totals_count_what_an_earlier_start_paid_and_latency_only_what_was_sent(
    tmp_path: Path,
) -> None:
    model = Model(echo, wait=0.02)
    for count, cached in ((30, 0), (40, 30)):
        store = Store(tmp_path / "s")
        client = Client(model, account=Budget(store=store).account())
        assert client.latency is None
        responses = list(client.run(asks(count)))
        assert [response.cached for response in responses] == [i < cached for i in range(count)]
        assert (client.totals.responses, client.totals.cached) == (count, cached)
        assert client.totals.tokens_in == 10 * count
        assert client.latency is not None
        assert client.latency >= 0.02
        store.close()
    assert model.calls == 40


# Faults.


def test_what_may_pass_is_asked_again_until_it_does() -> None:
    def flaky(prompt: str, sampling: Sampling, before: int) -> str:
        if before < 3:
            raise TransientError("500")
        return prompt

    model = Model(flaky)
    assert parsed(run(model, 20)) == list(range(20))
    assert set(model.seen.values()) == {4}


def test_what_never_passes_is_a_failed_row_that_says_why() -> None:
    def dead(prompt: str, sampling: Sampling, before: int) -> str:
        if prompt == "2":
            raise TransientError("500 from somewhere")
        return prompt

    responses = run(Model(dead), 4, attempts=3)
    assert parsed(responses) == [0, 1, None, 3]
    assert responses[2].error == "gave up after 3 attempts: 500 from somewhere"


def test_a_request_that_times_out_is_asked_again() -> None:
    model = Slow(60.0)
    assert parsed(run(model, 3, timeout=0.3)) == [0, 1, 2]
    assert model.calls == 6


def test_a_request_that_is_to_be_spelled_otherwise_is_sent_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("judges.client.client.FIRST_WAIT", 3600.0)

    def fussy(prompt: str, sampling: Sampling, before: int) -> str:
        if before == 0:
            raise RespelledError("without temperature")
        return prompt

    assert parsed(run(Model(fussy), 3, attempts=1)) == [0, 1, 2]


def test_what_finds_no_free_connection_waits_for_one_and_costs_no_call() -> None:
    def crowded(prompt: str, sampling: Sampling, before: int) -> str:
        if before < 20:
            raise NoConnectionsError("too many open files")
        return prompt

    account = Budget(max_calls=3).account()
    assert parsed(run(Model(crowded), 3, attempts=2, account=account)) == [0, 1, 2]
    assert account.calls == 3


def test_the_endpoints_wish_to_wait_is_honoured() -> None:
    times: list[float] = []

    def throttled(prompt: str, sampling: Sampling, before: int) -> str:
        times.append(time.monotonic())
        if before == 0:
            raise ThrottledError("429", 0.3)
        return prompt

    assert parsed(run(Model(throttled), 1)) == [0]
    assert times[1] - times[0] >= 0.3


def test_a_wait_worth_telling_is_told_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.client.NOTABLE_WAIT", 0.05)

    def throttled(prompt: str, sampling: Sampling, before: int) -> str:
        if before == 0:
            raise ThrottledError("429 from somewhere", 0.2)
        return prompt

    assert parsed(run(Model(throttled), 2)) == [0, 1]
    assert warnings(caplog) == ["429 from somewhere; waiting 0 s, as it asks (its Retry-After)"]


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]


def test_a_wish_to_wait_for_longer_than_ten_minutes_ends_the_run_in_a_line_that_says_so() -> None:
    def throttled(prompt: str, sampling: Sampling, before: int) -> str:
        raise ThrottledError("429 from somewhere", 7200.0)

    start = time.monotonic()
    with pytest.raises(FatalModelError, match=r"asked again in 120 minutes .* same command"):
        run(Model(throttled), 3)
    assert time.monotonic() - start < 60


def test_a_broken_server_that_wants_a_year_is_asked_again_at_our_own_pace() -> None:
    def broken(prompt: str, sampling: Sampling, before: int) -> str:
        if before < 2:
            raise TransientError("503 from somewhere", 31_536_000.0)
        return prompt

    assert parsed(run(Model(broken), 3)) == [0, 1, 2]


def test_a_rate_limit_loses_no_row_and_few_requests_are_in_vain() -> None:
    sent: list[float] = []

    def limited(prompt: str, sampling: Sampling, before: int) -> str:
        now = time.monotonic()
        if sum(now - at < 0.1 for at in sent) >= 10:
            raise ThrottledError("429", 0.1)
        sent.append(now)
        return prompt

    model = Model(limited)
    assert parsed(run(model, 60, concurrency=64)) == list(range(60))
    assert model.calls < 60 * 4


def test_a_rate_limit_of_a_minute_that_does_not_say_how_long_loses_no_row() -> None:
    # 0.002 s stand for half a second: 0.3 s for 75 seconds.
    start = time.monotonic()

    def closed(prompt: str, sampling: Sampling, before: int) -> str:
        if time.monotonic() - start < 0.3:
            raise ThrottledError("429")
        return prompt

    assert parsed(run(Model(closed), 3)) == [0, 1, 2]


def test_one_burst_of_refusals_takes_three_places_of_ten_however_long_all_went_well() -> None:
    class Bursting(Model):
        """Refuses all of 20 requests at once, once 500 are answered; counts those in flight."""

        after = 0

        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            prompt = int(messages[-1]["content"])
            if 500 <= prompt < 520 and not self.seen[str(prompt)]:
                self.seen[str(prompt)] += 1
                await asyncio.sleep(0.1)
                self.max_busy = 0
                raise ThrottledError("429", 0.1)
            return await super().complete(messages, sampling)

    model = Bursting(echo, wait=0.01)
    client = Client(model, concurrency=20)
    assert parsed([*client.run(asks(500)), *client.run(list(asks(534))[500:])]) == list(range(534))
    # 14 of 20 places, and about 0.3 of one back for each answer: after k of them 14 + .3 k are in
    # flight, or the 34 - k that are left, at most 18.
    assert 10 <= model.max_busy <= 18


@pytest.mark.parametrize("error", [FatalModelError("401: wrong key"), ZeroDivisionError("a bug")])
def test_what_cannot_pass_ends_the_run_at_once(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("judges.client.client.GRACE", 0.1)

    class Broken(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if messages[-1]["content"] == "5":
                raise error
            await asyncio.sleep(3600)
            raise AssertionError

    start = time.monotonic()
    with pytest.raises(type(error), match=str(error)):
        run(Broken(echo), 100)
    assert time.monotonic() - start < 25


def test_a_host_nobody_ever_reached_is_named_at_once_and_given_up_after_four_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def nobody(prompt: str, sampling: Sampling, before: int) -> str:
        raise UnreachableError("no connection to http://nowhere")

    model = Model(nobody)
    with pytest.raises(FatalModelError, match=r"\Ano connection to http://nowhere\Z"):
        run(model, 1000, concurrency=5)
    assert max(model.seen.values()) == 4
    assert warnings(caplog) == ["no connection to http://nowhere; trying for some seconds more"]


def test_a_host_that_comes_up_within_seconds_is_waited_for() -> None:
    def late(prompt: str, sampling: Sampling, before: int) -> str:
        if before < 3:
            raise UnreachableError("no connection to http://late")
        return prompt

    assert parsed(run(Model(late), 5)) == [0, 1, 2, 3, 4]


def test_an_endpoint_that_goes_away_later_fails_its_rows() -> None:
    def gone(prompt: str, sampling: Sampling, before: int) -> str:
        if int(prompt) > 3:
            raise UnreachableError("no connection")
        return prompt

    assert parsed(run(Model(gone), 6, concurrency=1)) == [0, 1, 2, 3, None, None]


def test_a_refused_request_is_a_failed_row_asked_once() -> None:
    def refuse(prompt: str, sampling: Sampling, before: int) -> str:
        if prompt == "1":
            raise RefusedError("context too long")
        return prompt

    model = Model(refuse)
    responses = run(model, 3)
    assert parsed(responses) == [0, None, 2]
    assert responses[1].error == "context too long"
    assert model.seen["1"] == 1


@pytest.mark.parametrize("good", [0, 6])
def test_a_run_whose_first_48_requests_fail_nearly_all_ends_before_it_has_cost_much(
    good: int,
) -> None:
    def failing(prompt: str, sampling: Sampling, before: int) -> str:
        if int(prompt) >= good:
            raise RefusedError("400 from somewhere")
        return prompt

    model = Model(failing, wait=0.001)
    options = {"monitor": FailureMonitor(), "concurrency": 500}
    if good:  # 42 of 48 are less than 90 %, and 54 of 60 are not
        with pytest.raises(FailingRunError, match="54 of the first 60 judgements failed"):
            run(model, 1000, **options)
        return
    with pytest.raises(FailingRunError, match=r"48 of the first 48 .* 400 from somewhere; mend"):
        run(model, 1000, **options)
    assert model.calls == 48


# Replies.


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_a_reply_that_cannot_be_read_is_asked_afresh_with_other_seeds_and_messages(
    endpoint: str,
) -> None:
    model = Model(lambda p, s, before: "4" if p == "0!" and s.seed == 7 else "well")
    model.in_process = endpoint == "embedded"
    (request,) = asks(1, Sampling(seed=5))
    restate = lambda asked: [{"role": "user", "content": asked[0]["content"] + "!"}]  # noqa: E731
    (response,) = Client(model).run([replace(request, restate=restate)])
    assert (response.parsed, response.error) == ((4,), None)
    assert [sampling.seed for sampling in model.samplings] == [5, 6, 7]
    assert model.seen == {"0": 1, "0!": 2}
    assert (response.tokens_in, response.tokens_out) == (30, 3)


def test_replies_that_stay_unreadable_fail_the_row_and_are_quoted() -> None:
    model = Model(lambda *_: "well")
    (response,) = run(model, 1)
    assert response.parsed == ()
    assert response.error == "no number in 'well'"
    assert [reply.text for reply in response.replies] == ["well"]
    assert model.calls == 3


def test_only_the_samples_that_failed_are_asked_afresh() -> None:
    model = Model(lambda p, s, before: ["1", "x", "3", "y"] if before == 0 else ["2", "4"])
    (response,) = run(model, 1, Sampling(n=4))
    assert response.parsed == (1, 2, 3, 4)
    assert [sampling.n for sampling in model.samplings] == [4, 2]
    assert [reply.text for reply in response.replies] == ["1", "2", "3", "4"]


def test_some_samples_are_better_than_none_and_the_rest_are_told() -> None:
    model = Model(lambda p, s, before: ["1", "x", "3"][: s.n] if before == 0 else "y")
    (response,) = run(model, 1, Sampling(n=3))
    assert (response.parsed, response.error) == ((1, 3), None)
    assert response.failures == ("no number in 'y'",)
    assert len(response.replies) == 3


@pytest.mark.parametrize("heeds_n", [True, False])
def test_samples_are_separate_requests_where_the_model_gives_one_reply(heeds_n: bool) -> None:
    """Where it says so, and where fewer came than were asked for."""
    model = Model(lambda p, s, before: [p], native_n=heeds_n)
    responses = run(model, 2, Sampling(n=3), concurrency=1)
    assert [response.parsed for response in responses] == [(0,) * 3, (1,) * 3]
    assert model.calls == 6
    singly = [sampling for sampling in model.samplings if sampling.n == 1]
    assert len({sampling.seed for sampling in singly}) == 3


def test_identical_requests_in_flight_are_sent_once() -> None:
    model = Model(echo, wait=0.02)
    same = [next(asks(1)) for _ in range(50)]
    responses = list(Client(model, concurrency=64).run(same))
    assert model.calls == 1
    assert parsed(responses) == [0] * 50
    assert sum(not response.cached for response in responses) == 1


class Cut(Model):
    """Its replies are of so many tokens, and cut where they are longer than their limit."""

    def __init__(self, tokens: int) -> None:
        super().__init__(echo)
        self.tokens = tokens

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        answer = await super().complete(messages, sampling)
        if sampling.max_tokens >= self.tokens:
            return answer
        return replace(answer, replies=(Reply(text="", finish_reason="length"),))


@pytest.mark.parametrize(
    ("tokens", "options", "limits"),
    [
        (100, {}, [100]),
        (400, {}, [100, 400]),
        (401, {}, [100, 400]),
        (400, {"max_tokens": 100}, [100]),  # its user's own limit
    ],
)
def test_a_reply_cut_at_its_limit_is_asked_once_again_with_four_times_the_room(
    tokens: int, options: dict[str, Any], limits: list[int]
) -> None:
    model = Cut(tokens)
    (response,) = run(model, 1, Sampling(max_tokens=100), **options)
    assert [sampling.max_tokens for sampling in model.samplings] == limits
    fits = tokens <= limits[-1]
    assert response.parsed == ((0,) if fits else ())
    assert response.error == (None if fits else "no text within its limit of tokens (length)")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (Reply(text="I cannot.", finish_reason="refusal"), "the model refused: 'I cannot.'"),
        (
            Reply(text="", finish_reason="content_filter"),
            "the endpoint's content filter withheld the reply",
        ),
    ],
)
def test_a_reply_that_is_withheld_is_a_failed_row_asked_once(reply: Reply, error: str) -> None:
    class Withholding(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            return replace(await super().complete(messages, sampling), replies=(reply,))

    model = Withholding(echo)
    (response,) = run(model, 1)
    assert (response.error, model.calls) == (error, 1)


# One client of a process.


def test_the_second_use_of_a_shared_client_opens_nothing(openai_server: OpenAIServer) -> None:
    openai_server.judge = lambda body: "4"
    client = shared_client(LM)
    assert client.ask(next(asks(1))).parsed == (4,)
    threads = threading.enumerate()
    again = shared_client(LM)
    assert again is client
    assert again.ask(Request([{"role": "user", "content": "x"}], Sampling(), number)).parsed == (4,)
    assert threading.enumerate() == threads
    assert len(openai_server.log) == 2
    assert len(openai_server.peers) == 1


@pytest.mark.parametrize(
    ("lm", "api_base", "variable"),
    [
        ("openai/judge-1", None, "OPENAI_API_KEY"),
        ("openai/judge-1", None, "OPENAI_BASE_URL"),
        ("azure/judge-1", "http://127.0.0.1", "AZURE_OPENAI_API_KEY"),
    ],
)
def test_another_key_or_address_in_the_environment_makes_another_client(
    monkeypatch: pytest.MonkeyPatch, lm: str, api_base: str | None, variable: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-local-test-key-0123456789")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "local-test-key-0123456789")
    client = shared_client(lm, api_base)
    assert shared_client(lm, api_base) is client
    monkeypatch.setenv(variable, "http://127.0.0.1:9/v1" if "URL" in variable else "another-key")
    assert shared_client(lm, api_base) is not client
    assert shared_client(lm, api_base).model is not client.model
