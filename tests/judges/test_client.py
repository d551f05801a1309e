"""A client over models that behave as told: order, limits, faults, replies that cannot be read."""

import asyncio
import gc
import random
import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from shutil import copyfile

import pytest
from behaving_model import Model, asks, count_answers, echo, values_of
from processes import TIMEOUT, until

from judges.client.budget import Budget, BudgetSpentError
from judges.client.client import Client
from judges.client.event_loop import event_loop
from judges.client.request_queue import FailingRunError
from judges.client.session import Session
from judges.client.store import Store, make_request_key
from judges.protocol import (
    FatalModelError,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
)

LM = "openai/judge-1"
pytestmark = pytest.mark.usefixtures("short_waits")


def run(model, count, sampling=None, **options):
    return list(Client(model, **options).run(asks(count, sampling)))


def failing(error, *, times=10**9, first=0, last=10**9):
    """Raise an error so many times for each of these prompts, and echo them then."""

    def behave(prompt, sampling, before):
        if before < times and first <= int(prompt) <= last:
            raise error
        return prompt

    return behave


@pytest.mark.parametrize("endpoint", ["test", "embedded"])
def test_responses_come_in_order_within_the_concurrency(endpoint):
    rng = random.Random(1)

    async def uneven(prompt, sampling, before):
        await asyncio.sleep(rng.random() * 0.01)
        return prompt

    model = Model(uneven if endpoint == "test" else echo, endpoint=endpoint)
    assert values_of(run(model, 300, concurrency=16)) == list(range(300))
    assert model.max_busy == (16 if endpoint == "test" else 1)


def test_a_hanging_request_delays_no_other():
    release, queue = asyncio.Event(), []

    async def hang(prompt, sampling, before):
        if model.calls == 4096:
            release.set()
        if prompt == "0":
            await release.wait()
        return prompt

    def count():
        for request in asks(10_000):
            queue.append(len(queue) + 1 - model.calls + model.busy)
            yield request

    model = Model(hang)
    responses = Client(model, concurrency=4).run(count())
    # All but the first are answered of the 4,096 that may wait, three read for each place.
    assert next(responses).values == (0,)
    assert len(queue) == 4096
    assert max(queue) <= 3 * 4
    responses.close()


def test_a_running_event_loop_is_left_free():
    async def notebook():
        client = Client(Model(echo, wait=0.1))
        replies = asyncio.gather(*map(client.ask_async, asks(10)))
        for _ in range(5):
            await asyncio.sleep(0)
        assert not replies.done()
        return await replies, list(client.run(asks(10)))

    assert list(map(values_of, asyncio.run(notebook()))) == [list(range(10))] * 2


def test_stopping_early_leaves_nothing_running_and_keeps_replies(tmp_path):
    model = Model(echo, wait=0.02)
    with Session(store=tmp_path / "s", concurrency=4, models={"m": model}) as session:
        for response in session.client("m").run(asks(1000)):
            assert response.values == (0,)
            break
        gc.collect()
        until(lambda: model.busy == 0)
        calls = model.calls
        time.sleep(0.05)
        assert model.calls == calls
    assert count_answers(tmp_path / "s") == {"m": calls}


def test_a_request_that_hangs_at_the_end_leaves_no_lock(tmp_path, monkeypatch):
    monkeypatch.setattr("judges.client.request_queue.GRACE_SECONDS", 0.1)
    end = threading.Event()

    async def reluctant(prompt, sampling, before):
        if prompt == "1":
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(0.3)  # to close its connection
                event_loop().call_soon(end.set)
        await asyncio.sleep(0.5)
        return prompt

    with Session(store=tmp_path / "s", models={"m": Model(reluctant)}) as session:
        responses = session.client("m", price=(1e6, 1e6)).run(asks(2))
        assert next(responses).values == (0,)
        responses.close()
    assert end.wait(TIMEOUT)
    with Session(store=tmp_path / "s", models={"m": Model(echo)}) as session:
        client = session.client("m", price=(1e6, 1e6))
        assert client.account.total.cost_unconfirmed == 17 + 512  # a byte, 16 around it, the reply
        assert values_of(list(client.run(asks(2)))) == [0, 1]


def test_identical_requests_in_flight_are_sent_once():
    model = Model(echo, wait=0.02)
    responses = list(Client(model).run([next(asks(1)) for _ in range(50)]))
    assert model.calls == 1
    assert values_of(responses) == [0] * 50


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (TransientError("500"), 6),
        (TransientError("503", retry_after=31_536_000.0), 6),  # a year: our own waits count
        (UnreachableError("no connection to http://late"), 6),
        (RefusedError("400: context too long"), 1),
    ],
)
def test_a_passing_fault_is_retried_and_then_fails_its_row(error, attempts):
    times = min(attempts - 1, 3)  # a host that nobody has reached is given up after four
    model = Model(failing(error, times=times))
    assert values_of(run(model, 20)) == list(range(20))
    assert set(model.prompts.values()) == {times + 1}
    model = Model(failing(error, first=2, last=2))
    responses = run(model, 4, concurrency=1)
    assert values_of(responses) == [0, 1, None, 3]
    start = f"gave up after {attempts} attempts: " if attempts > 1 else ""
    assert responses[2].failure == f"{start}{error}"
    assert model.prompts["2"] == attempts


@pytest.mark.parametrize(
    ("error", "message", "attempts"),
    [
        (FatalModelError("401: wrong key"), "401: wrong key", 1),
        (ZeroDivisionError("a bug"), "a bug", 1),
        (ThrottledError("429", 7200.0), r"wait 120 minutes .* same command again after that", 1),
        (UnreachableError("no host"), r"does not answer \(no host\); run the same command", 4),
    ],
)
def test_what_cannot_pass_ends_the_run_at_once(error, message, attempts, monkeypatch):
    monkeypatch.setattr("judges.client.request_queue.GRACE_SECONDS", 0.1)

    async def behave(prompt, sampling, before):
        if prompt != "5":
            await asyncio.sleep(3600)
        raise error

    model, start = Model(behave), time.monotonic()
    kinds = (FatalModelError, ZeroDivisionError)
    with pytest.raises(kinds, match=message):
        run(model, 60)  # all are in flight
    assert time.monotonic() - start < 25
    assert model.prompts["5"] == attempts


def test_the_endpoints_wish_to_wait_is_honoured_and_told_once(caplog, monkeypatch):
    monkeypatch.setattr("judges.client.sender.MIN_LOGGED_WAIT_SECONDS", 0.2)
    start = time.monotonic()
    behave = failing(ThrottledError("429 from somewhere", 0.3), times=1)
    assert values_of(run(Model(behave), 3)) == [0, 1, 2]
    assert time.monotonic() - start >= 0.3
    assert caplog.messages == ["429 from somewhere; waiting 0 s before the next attempt"]


def test_a_rate_limit_loses_no_row_and_wastes_few_requests():
    times = []

    def limit(prompt, sampling, before):
        now = time.monotonic()
        if sum(now - at < 0.1 for at in times) >= 10:
            raise ThrottledError("429", 0.1)
        times.append(now)
        return prompt

    model = Model(limit)
    assert values_of(run(model, 60, concurrency=64)) == list(range(60))
    assert model.calls < 60 * 4


@pytest.mark.parametrize(("good", "number"), [(0, 48), (6, 60)])
def test_a_run_that_fails_nearly_all_from_its_beginning_on_ends(good, number):
    """A run ends when 90 % have failed: 54 of 60, not 42 of 48. Before any success, it sends 48."""
    model = Model(failing(RefusedError("400 from somewhere"), first=good), wait=0.001)
    reason = f"{number - good} of the first {number} judgements failed, as in: 400 from"
    with pytest.raises(FailingRunError, match=reason):
        run(model, 1000, keep_going=False, concurrency=500)
    assert good or model.calls == 48


@pytest.mark.parametrize("error", [UnreachableError("no connection"), TransientError("503")])
def test_a_model_that_stops_answering_ends_only_a_watched_run(error):
    """After 100 answers all 100 of the last rows fail, 24 of them or one where nobody listens."""
    reason = rf"^the endpoint does not answer \({error}\); run the same command again once it"
    model = Model(failing(error, first=100), wait=0.001)
    with pytest.raises(FatalModelError, match=reason):
        run(model, 200, keep_going=False, concurrency=8)
    responses = run(model, 200, concurrency=8)
    assert [response.failure is None for response in responses] == [True] * 100 + [False] * 100


def test_each_request_is_on_disk_before_it_is_sent(tmp_path):
    """As a kill at that moment would leave the file: a copy of it has the request's row."""

    def look(prompt, sampling, before):
        copy = tmp_path / f"copy{prompt}"
        for suffix in ("", "-wal"):
            copyfile(f"{tmp_path / 'store'}{suffix}", f"{copy}{suffix}")
        messages = [{"role": "user", "content": prompt}]
        key = make_request_key(model.endpoint, model.name, messages, sampling)
        with closing(sqlite3.connect(copy)) as store:
            statement = "SELECT state FROM requests WHERE key = ?"
            assert store.execute(statement, [key]).fetchall() == [("sent",)]
        return prompt

    model = Model(look)
    with Session(models={LM: model}, store=tmp_path / "store", cache="none") as session:
        assert values_of(list(session.client(LM).run(asks(40)))) == list(range(40))


def test_an_unreadable_reply_is_asked_again_with_another_seed():
    def restate(messages):
        return [{"role": "user", "content": messages[0]["content"] + "!"}]

    model = Model(lambda p, s, before: "4" if s.seed == 7 else "well")
    (request,) = asks(1, Sampling(seed=5))
    response = Client(model).ask(replace(request, restate_messages=restate))
    assert (response.values, response.failure) == ((4,), None)
    assert [sampling.seed for sampling in model.samplings] == [5, 6, 7]
    assert model.prompts == {"0": 1, "0!": 2}
    assert (response.tokens_in, response.tokens_out) == (30, 3)


@pytest.mark.parametrize(
    ("afresh", "values", "failures"),
    [(["2", "4"], (1, 2, 3, 4), ()), (["2", "z"], (1, 2, 3), ("no number in 'z'",))],
)
def test_failed_samples_alone_are_asked_afresh_and_some_suffice(afresh, values, failures):
    model = Model(lambda p, s, before: ["1", "x", "3", "y"] if not before else afresh[-s.n :])
    (response,) = run(model, 1, Sampling(n=4))
    assert (response.values, response.failures, response.failure) == (values, failures, None)
    assert [sampling.n for sampling in model.samplings] == [4, 2, *[1] * len(failures)]


@pytest.mark.parametrize(
    ("native_n", "short", "numbers"),
    [
        (False, 0, [1] * 15),  # the model says that it gives one reply
        (True, 4, [1] * 14 + [5]),  # a single reply came: the endpoint ignores the number
        (True, 1, [1, 5, 5, 5]),  # one answer is a sample short, and the others are not
    ],
)
def test_missing_samples_are_asked_singly_as_other_samples(native_n, short, numbers):
    def behave(prompt, sampling, before):
        return [prompt] * (sampling.n - min(short * (prompt == "0" and not before), sampling.n - 1))

    model = Model(behave, native_n=native_n)
    responses = run(model, 3, Sampling(n=5), concurrency=1)
    assert [response.values for response in responses] == [(number,) * 5 for number in range(3)]
    assert sorted(sampling.n for sampling in model.samplings) == numbers
    assert len({sampling.seed for sampling in model.samplings}) == (2 if short == 1 else 5)


def test_a_resumed_mean_draws_no_sample_twice(tmp_path):
    """12 rows need 5 samples each: 60 requests, in whichever form the first start asked for them.

    Eight rows at a time ask for five samples and get one, before the endpoint is known.
    """
    model = Model(lambda prompt, sampling, before: [prompt], wait=0.001)
    for limit in (20, 100):
        store = Store(tmp_path / "s")
        account = Budget(max_calls=limit, store=store).account()
        with suppress(BudgetSpentError):
            list(Client(model, account=account, concurrency=8).run(asks(12, Sampling(n=5))))
        store.close()
    assert model.calls == 60


@pytest.mark.parametrize(
    ("tokens", "options", "limits"),
    [
        (100, {}, [100]),
        (400, {}, [100, 400]),
        (401, {}, [100, 400]),
        (400, {"max_tokens": 100}, [100]),  # its user's own limit
    ],
)
def test_a_cut_reply_is_asked_once_more_with_fourfold_room(tokens, options, limits):
    cut = Reply(text="", finish_reason="length")
    model = Model(lambda p, s, before: p if s.max_tokens >= tokens else cut)
    (response,) = run(model, 1, Sampling(max_tokens=100), **options)
    assert [sampling.max_tokens for sampling in model.samplings] == limits
    fits = tokens <= limits[-1]
    assert response.values == ((0,) if fits else ())
    assert response.failure == (None if fits else "no text within its limit of tokens (length)")
