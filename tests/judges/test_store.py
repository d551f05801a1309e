"""A run's requests in one file, and the replies that runs share: kept, whole, its user's own."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from behaving_model import Model, asks, echo, parsed
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_python, until

from dspy_judges.errors import OptionError
from judges.client.budget import Budget
from judges.client.client import Client, Response
from judges.client.open import Session
from judges.client.protocol import Completion, Message, Reply, Sampling, Token, Usage
from judges.client.store import (
    CACHE_FILE,
    ReplyCache,
    Store,
    StoreError,
    open_cache,
    request_key,
)


def said(text: str = "4") -> Completion:
    return Completion(replies=(Reply(text=text),), tokens_in=9, tokens_out=1, model="m")


def answer(store: Store, key: bytes, completion: Completion, role: str = "judge") -> None:
    store.settle(store.begin(key, role, "", 1.0), "answered", 0.5, completion)


# The key of a request.


def key(
    text: str, endpoint: str = "e", model: str = "m", sampling: Sampling | None = None
) -> bytes:
    asked: list[Message] = [{"role": "user", "content": text}]
    return request_key(endpoint, model, asked, sampling or Sampling())


def test_everything_that_determines_a_reply_is_in_its_key() -> None:
    samplings = (
        Sampling(temperature=None),
        Sampling(n=2),
        Sampling(top_logprobs=5),
        Sampling(max_tokens=2),
        Sampling(seed=1),
        Sampling(reasoning_effort="low"),
    )
    system: Message = {"role": "system", "content": "a"}
    user: Message = {"role": "user", "content": "a"}
    keys = {
        *(key("a"), key("b"), key("a", endpoint="f"), key("a", model="n")),
        *(key("a", sampling=sampling) for sampling in samplings),
        request_key("e", "m", [system], Sampling()),
        request_key("e", "m", [system, user], Sampling()),
        request_key("e", "m", [user, system], Sampling()),
    }
    assert len(keys) == 13
    assert key("a", sampling=Sampling(temperature=0)) == key("a")


def test_no_text_can_pass_for_two(tmp_path: Path) -> None:
    whole: list[Message] = [{"role": "user", "content": "a4:user1:b"}]
    parts: list[Message] = [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]
    assert request_key("e", "m", whole, Sampling()) != request_key("e", "m", parts, Sampling())


# A run's file.

replies = st.builds(
    Reply,
    text=st.text(),
    tokens=st.lists(
        st.builds(
            Token,
            st.text(),
            st.dictionaries(st.text(), st.floats(allow_nan=False, allow_infinity=False)),
        ),
        max_size=3,
    ).map(tuple),
    finish_reason=st.sampled_from(["stop", "length"]),
)
completions = st.builds(
    Completion,
    replies=st.lists(replies, max_size=3).map(tuple),
    tokens_in=st.integers(0, 10**9),
    tokens_out=st.integers(0, 10**9),
    model=st.text(),
)


@settings(max_examples=30, deadline=None)
@given(answers=st.lists(completions, max_size=5))
def test_what_is_answered_is_there_for_this_start_and_the_next(
    answers: list[Completion], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("s") / "store.sqlite"
    keys = [key(str(i)) for i in range(len(answers))]
    with closing(Store(path)) as store:
        for one, completion in zip(keys, answers, strict=True):
            answer(store, one, completion)
        assert [store.get(one) for one in keys] == answers
    with closing(Store(path)) as store:
        assert [store.get(one) for one in keys] == answers
        assert store.get(key("never")) is None


def test_totals_are_by_role_purpose_and_state_and_what_was_under_way_is_lost(
    tmp_path: Path,
) -> None:
    assert Store.answered(tmp_path / "s") == {}
    with closing(Store(tmp_path / "s")) as store:
        answer(store, b"1", said())
        answer(store, b"2", said())
        answer(store, b"3", said(), "proposer")
        store.put(b"4", said(), "judge", "search")
        store.settle(store.begin(b"5", "judge", "search", 2.0), "lost", 0.25, Usage(7, 3))
        store.begin(b"6", "judge", "search", 2.0)
    with closing(Store(tmp_path / "s")) as store:
        assert sorted(store.totals()) == [
            ("judge", "", "answered", 2, 18, 2, 1.0),
            ("judge", "search", "cached", 1, 9, 1, 0.0),
            ("judge", "search", "lost", 2, 7, 3, 2.25),
            ("proposer", "", "answered", 1, 9, 1, 0.5),
        ]
        assert store.get(b"5") is None
    assert Store.answered(tmp_path / "s") == {"judge": 3, "proposer": 1}


def test_settings_are_those_last_written(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "s")) as store:
        assert store.read_settings() is None
        for seed in (1, 2):
            store.write_settings({"lm": "é", "seed": seed})
    with closing(Store(tmp_path / "s")) as store:
        assert store.read_settings() == {"lm": "é", "seed": 2}


KILLED = """
import asyncio, os, signal, sys
sys.path.insert(0, sys.argv[2])
from behaving_model import Model, asks, echo
from judges.client.budget import Budget
from judges.client.client import Client
from judges.client.prices import Price
from judges.client.store import Store

class Hanging(Model):
    async def complete(self, messages, sampling):
        answer = await super().complete(messages, sampling)
        if int(messages[-1]["content"]) >= 20:
            print(self.calls, flush=True)
            await asyncio.sleep(3600)
        return answer

price = Price(per_token_in=1.0, per_token_out=1.0)
account = Budget(store=Store(sys.argv[1])).account(price=price)
list(Client(Hanging(echo), account=account, concurrency=4).run(asks(30)))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_after_a_kill_what_was_answered_is_there_and_what_was_under_way_booked_at_its_worst(
    tmp_path: Path,
) -> None:
    support = Path(__file__).parents[1] / "support"
    command = [sys.executable, "-c", KILLED, str(tmp_path / "s"), str(support)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        while child.stdout.readline() != "24\n":
            assert child.poll() is None
        run = [sys.executable, "-c", "from judges.client.store import Store as S; S('s')"]
        second = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=False)
        child.send_signal(signal.SIGKILL)
    assert "s: another run is using it; wait for it to end" in second.stderr
    model = Model(echo)
    with closing(Store(tmp_path / "s")) as store:
        client = Client(model, account=Budget(store=store).account())
        assert client.account.calls == 24
        assert client.account.cost_unconfirmed == 4 * (2 + 16 + 512)
        assert parsed(list(client.run(asks(30)))) == list(range(30))
    assert model.calls == 10  # the four that were under way, and six never sent


def test_a_file_in_use_is_refused_and_stays_refused_to_other_processes(tmp_path: Path) -> None:
    in_use = "another run is using it"
    with closing(Store(tmp_path / "s")):
        with pytest.raises(StoreError, match=in_use):
            Store(tmp_path / "s")
        script = "import sys; from judges.client.store import Store; Store(sys.argv[1])"
        assert in_use in run_python("-c", script, tmp_path / "s").stderr
    Store(tmp_path / "s").close()


def test_what_arrives_after_the_end_is_dropped_and_the_file_is_free(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    number = store.begin(b"1", "judge", "", 3.0)
    store.close()
    store.settle(number, "answered", 1.0, said())
    with pytest.raises(StoreError, match="closed"):
        store.get(b"1")
    with closing(Store(tmp_path / "s")) as store:
        assert store.totals() == [("judge", "", "lost", 1, 0, 0, 3.0)]


def test_where_the_file_system_has_no_wal_it_is_whole_and_refused_to_others_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoWal(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            return super().execute(sql.replace("journal_mode = WAL", "journal_mode"), *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **kw: connect(*a, factory=NoWal, **kw))
    with closing(Store(tmp_path / "s")) as store:
        answer(store, b"1", said())
        with pytest.raises(StoreError, match="another run is using it"):
            Store(tmp_path / "s")
        assert {path.name for path in tmp_path.iterdir()} <= {"s", "s-journal"}
    with closing(Store(tmp_path / "s")) as store:
        assert store.get(b"1") == said()
    store.remove()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["labels", "damaged", "folder", "reply"])
def test_a_file_that_cannot_be_used_is_one_line_that_says_what_to_do(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "s"
    if content == "folder":
        path.mkdir()
    elif content == "labels":
        path.write_text("id,relevance\na,4\n")
    else:
        with closing(Store(path)) as store:
            for i in range(300):
                answer(store, b"%d" % i, said("x" * 300))
        with closing(sqlite3.connect(path)) as database:
            database.execute("UPDATE requests SET reply = '{' WHERE key = CAST('1' AS BLOB)")
            database.commit()
        if content == "damaged":
            whole = path.read_bytes()
            path.write_bytes(whole[:4096] + b"\xff" * 20_000 + whole[24_096:])
    before = b"" if content == "folder" else path.read_bytes()
    with pytest.raises(StoreError) as caught, closing(Store(path)) as store:
        store.get(b"1")
    assert str(caught.value).startswith(f"{path}: ")
    assert "delete the file to start again" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert content != "labels" or path.read_bytes() == before


def test_a_strangers_file_gives_no_credit(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "s")) as store:
        answer(store, b"1", said())
        store.settle(store.begin(b"2", "judge", "", 1.0), "answered", -1000.0, said())
        assert Budget(store=store).cost == 0.5


def test_the_file_holds_no_request_and_is_its_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "s"
    (request,) = asks(1)
    request = replace(request, messages=[{"role": "user", "content": "a confidential text"}])
    with closing(Store(path)) as store:
        account = Budget(store=store).account()
        model = Model(lambda *_: "1234567")
        assert Client(model, account=account).ask(request).parsed == (1234567,)
        if sys.platform != "win32":
            assert {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()} == {0o600}
    content = path.read_bytes()
    assert b"1234567" in content
    assert b"confidential" not in content


# The replies that a user's runs share.


def shared(folder: Path, model: Model, count: int, **options: Any) -> list[Response]:
    """The responses of one run, with a cache in this folder."""
    with Session(cache=folder, models={"m": model}, **options) as session:
        return list(session.client("m").run(asks(count)))


def test_a_request_of_another_run_is_not_paid_again(tmp_path: Path) -> None:
    model = Model(echo)
    assert {response.cached for response in shared(tmp_path, model, 6)} == {False}
    with Session(cache=tmp_path, store=tmp_path / "s", models={"m": model}) as session:
        client = session.client("m", price=(1.0, 1.0))
        assert parsed(list(client.run(asks(8)))) == list(range(8))
        account = client.account
        assert (account.calls, account.cached, account.tokens_in) == (2, 6, 20)
        assert session.cache is not None
        assert session.cache.note == f"reply cache: 6 of 8 requests answered from {tmp_path}"
    assert model.calls == 8
    assert Store.answered(tmp_path / "s") == {"m": 8}  # those of the cache among them


def test_what_nothing_could_be_read_from_is_asked_again_by_the_next_run(tmp_path: Path) -> None:
    first, second = Model(lambda *_: "well"), Model(echo)
    assert parsed(shared(tmp_path, first, 3)) == [None] * 3
    assert parsed(shared(tmp_path, second, 3)) == [0, 1, 2]
    assert (first.calls, second.calls) == (9, 3)


def test_a_model_in_this_process_has_no_cache(tmp_path: Path) -> None:
    shared(tmp_path / "cache", Model(echo, endpoint="embedded"), 3)
    assert not (tmp_path / "cache").exists()


def test_the_users_folder_stands_unless_the_environment_or_the_user_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert open_cache() is None  # DSPY_JUDGES_CACHE=none, as all tests have it
    monkeypatch.setenv("DSPY_JUDGES_CACHE", str(tmp_path / "variable"))
    assert open_cache("none") is None
    for name, folder in ((None, "variable"), (tmp_path / "named", "named")):
        assert isinstance(open_cache(name), ReplyCache)
        assert (tmp_path / folder / CACHE_FILE).exists()
        if os.name == "posix":
            assert stat.S_IMODE((tmp_path / folder).stat().st_mode) == 0o700


def test_a_named_folder_that_cannot_be_used_is_refused_and_the_users_own_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match=r"the reply cache .*file cannot be used"):
        open_cache(tmp_path / "file")
    monkeypatch.delenv("DSPY_JUDGES_CACHE")
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda name: tmp_path / "file")
    assert open_cache() is None


def test_a_reply_damaged_in_the_cache_costs_its_replies_and_no_run(tmp_path: Path) -> None:
    model = Model(echo)
    shared(tmp_path, model, 3)
    with closing(sqlite3.connect(tmp_path / CACHE_FILE)) as database:
        database.execute("UPDATE requests SET reply = '{'")
        database.commit()
    assert parsed(shared(tmp_path, model, 3)) == [0, 1, 2]
    assert model.calls == 6


def test_beyond_its_size_the_older_half_goes(tmp_path: Path) -> None:
    with closing(Store(tmp_path / "s", shared=True)) as store:
        for number in range(100):
            store.put(b"%d" % number, said("x" * 5000))
    with closing(Store(tmp_path / "s", shared=True)) as store:
        store.shrink(10**6)
        assert store.get(b"0") is not None
        store.shrink(4 * 10**5)
        kept = [number for number in range(100) if store.get(b"%d" % number)]
        # The numbers of rows are 1 to 100, and 1 to 50 go.
        assert kept == list(range(50, 100))
    assert (tmp_path / "s").stat().st_size < 4 * 10**5


WRITER = """
import sys
from judges.client.protocol import Completion, Reply
from judges.client.store import open_cache
cache = open_cache(sys.argv[1])
for number in range(int(sys.argv[2]), int(sys.argv[2]) + int(sys.argv[3])):
    reply = Reply(text=f"reply {number}")
    cache.put(b"%d" % number, Completion(replies=(reply,), tokens_in=1, tokens_out=1, model="m"))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
def test_processes_share_the_cache_and_a_killed_one_harms_nobody(tmp_path: Path) -> None:
    def start(first: int, count: int) -> "subprocess.Popen[str]":
        words = [sys.executable, "-c", WRITER, str(tmp_path), str(first), str(count)]
        return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)

    writers, victim = [start(1000 * number, 200) for number in range(2)], start(10_000, 10**6)
    cache = open_cache(tmp_path)
    assert cache is not None
    until(lambda: cache.get(b"10000") is not None)
    victim.kill()
    victim.communicate()
    for writer in writers:
        assert (writer.communicate()[1], writer.returncode) == ("", 0)
    for number in (0, 199, 1000, 1199, 10_000):
        completion = cache.get(b"%d" % number)
        assert completion is not None
        assert completion.replies[0].text == f"reply {number}"
