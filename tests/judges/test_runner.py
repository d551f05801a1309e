"""The runner over a model made for the purpose: order, limits, journal, threads and event loops."""

import asyncio
import gc
import random
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from behaving_model import Model, asks, echo, parsed
from judges.client.journal import Journal
from processes import TIMEOUT, until

from judges.client.budget import Budget
from judges.client.client import Client, Request, Response
from judges.client.protocol import (
    Completion,
    Message,
    Reply,
    Sampling,
)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("judges.client.retrying.FIRST_WAIT", 0.002)


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_answers_come_in_the_order_of_the_asks(endpoint: str) -> None:
    rng = random.Random(1)

    class Uneven(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if self.endpoint == "test":
                await asyncio.sleep(rng.random() * 0.01)
            return await super().complete(messages, sampling)

    with Client(Uneven(echo, endpoint=endpoint), concurrency=16) as runner:
        assert parsed(list(runner.run(asks(300)))) == list(range(300))


def test_no_more_requests_are_in_flight_than_allowed() -> None:
    model = Model(echo, wait=0.005)
    with Client(model, concurrency=7) as runner:
        assert len(list(runner.run(asks(100)))) == 100
    assert model.max_busy == 7


def test_asks_are_read_only_so_far_ahead() -> None:
    read = 0

    def counted() -> Iterator[Request]:
        nonlocal read
        for ask in asks(10_000):
            read += 1
            yield ask

    with Client(Model(echo, wait=0.001), concurrency=4) as runner:
        answers = runner.run(counted())
        for taken in range(1, 200):
            next(answers)
            assert read <= taken + 3 * 4
        answers.close()  # type: ignore[attr-defined]


def test_a_request_that_hangs_holds_up_no_other() -> None:
    class Hanging(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            if messages[-1]["content"] == "0":
                while self.calls < 1999:
                    await asyncio.sleep(0.01)
            return await super().complete(messages, sampling)

    with Client(Hanging(echo), concurrency=4) as runner:
        assert parsed(list(runner.run(asks(2000)))) == list(range(2000))


def test_far_longer_than_answers_have_taken_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            answer = await super().complete(messages, sampling)
            if self.seen["7"] == 1 and messages[-1]["content"] == "7":
                await asyncio.sleep(60)
            return answer

    # A request under way before there was anything to compare it with is given up as well.
    monkeypatch.setattr("judges.client.limits.SHORTEST", 0.2)
    with Client(Hanging(echo)) as runner:
        start = time.monotonic()
        assert parsed(list(runner.run(asks(100)))) == list(range(100))
    assert time.monotonic() - start < 30


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_memory_stays_flat_over_many_rows(endpoint: str) -> None:
    class Forgetful(Model):
        async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
            return Completion(replies=(Reply(text="3"),), tokens_in=1, tokens_out=1, model="m")

    def peak(rows: int) -> int:
        with Client(Forgetful(echo, endpoint=endpoint)) as runner:
            list(runner.run(asks(100)))
            gc.collect()
            tracemalloc.start()
            assert sum(1 for _ in runner.run(asks(rows))) == rows
            size = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        return size

    assert peak(5_000) - peak(1_000) < 500_000


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_what_is_in_the_journal_is_not_asked_again(tmp_path: Path, endpoint: str) -> None:
    first = Model(lambda p, s, before: "x" if s.seed == 0 else p, endpoint=endpoint)
    with Journal(tmp_path / "j") as journal, Client(first, journal=journal) as runner:
        answers = list(runner.run(asks(30)))
    again = Model(echo, endpoint=endpoint)
    account = Budget().account()
    with (
        Journal(tmp_path / "j") as journal,
        Client(again, journal=journal, account=account) as runner,
    ):
        replayed = list(runner.run(asks(30)))
    assert again.calls == account.calls == 0
    assert parsed(replayed) == parsed(answers) == list(range(30))
    assert {a.cached for a in answers} == {False}
    assert {a.cached for a in replayed} == {True}


def test_it_works_where_an_event_loop_is_running() -> None:
    async def notebook() -> list[Response]:
        with Client(Model(echo)) as runner:
            return list(runner.run(asks(10)))

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
        with Client(Model(echo, wait=0.01)) as runner:
            answers = await asyncio.gather(*map(runner.ask_async, asks(20)))
        ticking.cancel()
        return answers, ticks

    answers, ticks = asyncio.run(use())
    assert parsed(answers) == list(range(20))
    assert ticks > 5


def test_threads_may_ask_one_runner() -> None:
    with Client(Model(echo, wait=0.001)) as runner:
        got: dict[int, object] = {}

        def work(start: int) -> None:
            for ask in list(asks(100))[start::4]:
                got[int(ask.messages[0]["content"])] = runner.ask(ask).parsed[0]

        threads = [threading.Thread(target=work, args=(start,)) for start in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert got == {i: i for i in range(100)}


def test_a_consumer_that_stops_early_leaves_nothing_running() -> None:
    model = Model(echo, wait=0.01)
    with Client(model, concurrency=4) as runner:
        for answer in runner.run(asks(1000)):
            assert answer.parsed == (0,)
            break
        gc.collect()
        until(lambda: model.busy == 0)
        before = model.calls
        time.sleep(0.05)
        assert model.calls == before


def test_a_forgotten_run_may_be_closed_by_the_loops_own_thread() -> None:
    with Client(Model(echo, wait=0.01), concurrency=4) as runner:
        forgotten = [runner.run(asks(1000))]
        next(forgotten[0])
        loop = runner._loop_thread()
        closed = threading.Event()

        def collect() -> None:
            forgotten.clear()
            closed.set()

        loop.loop.call_soon_threadsafe(collect)
        assert closed.wait(TIMEOUT)
        assert parsed(list(runner.run(asks(10)))) == list(range(10))


def test_an_error_in_the_asks_is_the_callers_own() -> None:
    def failing() -> Iterator[Request]:
        yield from asks(3)
        raise KeyError("document")

    with Client(Model(echo)) as runner, pytest.raises(KeyError, match="document"):
        list(runner.run(failing()))


def test_a_runner_left_open_goes_with_its_last_reference() -> None:
    runner = Client(Model(echo))
    runner.ask(next(asks(1)))
    assert any(thread.name == "judges" for thread in threading.enumerate())
    del runner
    gc.collect()
    assert not any(thread.name == "judges" for thread in threading.enumerate())


def test_a_model_in_this_process_costs_little_on_top() -> None:
    with Client(Model(lambda *_: "3", endpoint="embedded")) as runner:
        prepared = list(asks(5000))
        best = min(_seconds(runner, prepared) for _ in range(3))
    # 15 microseconds where nothing else runs; the bound is the promise.
    assert best / 5000 < 100e-6


def _seconds(runner: Client, prepared: Sequence[Request]) -> float:
    start = time.process_time()
    for _ in runner.run(prepared):
        pass
    return time.process_time() - start


def test_totals_count_recorded_responses_and_latency_only_what_was_sent(tmp_path: Path) -> None:
    model = Model(echo, wait=0.02)
    with Journal(tmp_path / "r.jsonl") as journal, Client(model, journal=journal) as runner:
        paid = [response.tokens_in for response in runner.run(asks(30))]
        assert runner.totals.cached == 0
        assert runner.latency is not None
        assert runner.latency >= 0.02
    with Journal(tmp_path / "r.jsonl") as journal, Client(model, journal=journal) as resumed:
        list(resumed.run(asks(40)))
        assert (resumed.totals.responses, resumed.totals.cached) == (40, 30)
        assert resumed.totals.tokens_in > sum(paid) > 0
        assert model.calls == 40
