"""A run's requests in one file, and the replies that runs share: kept, whole, its user's own."""

import os
import sqlite3
import stat
import sys
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from behaving_model import Model, asks, count_answers, echo, values_of
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_python
from refusals import refuses

from judges.client.budget import Budget
from judges.client.client import Response
from judges.client.session import Session
from judges.client.store import CACHE_FILE, Store, StoreError, make_request_key, open_reply_cache
from judges.protocol import Completion, Message, Reply, Sampling, Token, Usage

OPEN = "import sys; from judges.client.store import Store; Store(sys.argv[1])"
IN_USE = "s: another run is using the file; wait until that run ends"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s"


def reply_of(text: str = "4") -> Completion:
    return Completion(replies=(Reply(text=text),), tokens_in=9, tokens_out=1, model="m")


def answer(store: Store, key: bytes, completion: Completion, cost: float = 0.5) -> None:
    store.record_outcome(store.record_sent(key, "judge", "", 1.0), "answered", cost, completion)


def change(path: Path, sql: str) -> None:
    """Change a file as another program may."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(sql)


CUT_SHORT = "UPDATE requests SET reply = '{'"
# A token's log-probabilities under another name.
OTHER_VERSION = """UPDATE requests SET reply = '{"tokens_in": 9, "tokens_out": 1, "model": "m",
    "replies": [{"text": "4", "tokens": [{"text": "4", "top": {"4": 0.0}}]}]}'"""


def test_everything_that_determines_a_reply_is_in_its_key():
    def key(*texts: str, endpoint: str = "e", model: str = "m", **sampling: Any) -> bytes:
        messages: list[Message] = [{"role": "user", "content": text} for text in texts]
        return make_request_key(endpoint, model, messages, Sampling(**sampling))

    keys = [key("a"), key("b"), key("a", endpoint="f"), key("a", model="n"), key("a", seed=1)]
    keys += [key("a", temperature=None), key("a", n=2), key("a", top_logprobs=5)]
    keys += [key("a", max_tokens=2), key("a", reasoning_effort="low")]
    # No text can pass for two.
    keys += [key("a", "b"), key("b", "a"), key("ab"), key("a4:user1:b")]
    keys += [make_request_key("e", "m", [{"role": "system", "content": "a"}], Sampling())]
    assert len(set(keys)) == len(keys)
    assert key("a", temperature=0) == key("a", temperature=0.0) == key("a")


def test_a_restart_finds_answers_and_not_what_was_under_way(path):
    odd = "é\u2028\x00\ud7ff\U0001f600\n"
    reply = Reply(text=odd, tokens=(Token(odd, {"4": -0.1, odd: -1e-300}),), finish_reason="length")
    strange = Completion(7, 2**40, replies=(reply, reply), model=odd, cache_read_tokens=3)
    with closing(Store(path)) as store:
        assert not store.can_resume
        assert store.is_of_run("this")
        answer(store, b"1", strange)
        answer(store, b"2", reply_of())
        store.put(b"3", reply_of(), "proposer", "search")
        store.record_outcome(
            store.record_sent(b"4", "judge", "search", 2.0), "lost", 0.25, Usage(7, 3)
        )
        store.record_sent(b"5", "judge", "search", 2.0)
    with closing(Store(path)) as store:
        assert [store.get(key) for key in (b"1", b"2", b"3")] == [strange, reply_of(), reply_of()]
        assert store.get(b"4") is store.get(b"5") is store.get(b"6") is None
        assert store.is_of_run("this")
        assert not store.is_of_run("another")
        assert sorted(store.totals()) == [
            ("judge", "", "answered", 2, 16, 2**40 + 1, 1.0),
            ("judge", "search", "lost", 2, 7, 3, 2.25),
            ("proposer", "search", "cached", 1, 9, 1, 0.0),
        ]
    assert count_answers(path) == {"judge": 2, "proposer": 1}


def test_a_store_in_use_is_refused_to_others(path):
    with closing(Store(path)) as store:
        answer(store, b"1", reply_of())
        with pytest.raises(StoreError, match=IN_USE):
            Store(path)
        assert IN_USE in run_python("-c", OPEN, path).stderr
    with closing(Store(path)) as store:
        assert store.get(b"1") == reply_of()
    store.delete_file()
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda path: change(path, CUT_SHORT), "delete the file to start again"),
        (
            lambda path: change(path, OTHER_VERSION),
            "another version .* wrote its replies .*; delete",
        ),
        (lambda path: path.write_text("id,relevance\na,4\n"), "delete the file to start again"),
    ],
)
def test_an_unusable_store_says_what_to_do(path, damage, problem):
    with closing(Store(path)) as store:
        answer(store, b"1", reply_of())
    damage(path)
    content = path.read_bytes()
    with refuses(StoreError, f"^{path}: .*{problem}"), closing(Store(path)) as store:
        store.get(b"1")
    assert path.read_bytes() == content


def test_another_programs_database_is_not_written_through_a_link(tmp_path):
    change(tmp_path / "other", "CREATE TABLE own (a)")
    content = (tmp_path / "other").read_bytes()
    for number, target in enumerate(["other", "none"]):
        (path := tmp_path / f"s{number}").symlink_to(tmp_path / target)
        with pytest.raises(OSError, match=f"link or not a regular file.*delete it: '{path}'"):
            Store(path)
    assert (tmp_path / "other").read_bytes() == content
    assert not (tmp_path / "none").exists()


def test_a_strangers_journal_deletes_no_file_and_waits_for_nobody(path):
    journal = path.with_name("s-journal")
    # As https://www.sqlite.org/fileformat.html has it: a journal that ends so names a file, which
    # SQLite deletes once no database needs it.
    journal.write_bytes(b"/victim" + bytes.fromhex("d9d505f920a163d7"))
    with pytest.raises(StoreError, match="not written by a run"):
        Store(path)
    journal.unlink()
    os.mkfifo(journal)
    with pytest.raises(OSError, match="not a regular file"):
        Store(path)
    journal.unlink()
    journal.touch()  # as a run leaves it where there is no WAL
    Store(path).close()


def test_a_strangers_negative_costs_give_no_credit(path):
    with closing(Store(path)) as store:
        answer(store, b"1", reply_of())
        answer(store, b"2", reply_of(), cost=-1000.0)
        assert Budget(store=store).total.spent == 0.5
    change(path, "UPDATE requests SET tokens_in = 1e999, tokens_out = 'x'")
    with closing(Store(path)) as store:
        (total,) = store.totals()
    assert (total.tokens_in, total.tokens_out) == (2**63 - 1, 0)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON requests BEGIN SELECT 1; END",
        "CREATE INDEX i ON requests (length(zeroblob(id)))",
        "ALTER TABLE requests ADD COLUMN c AS (length(zeroblob(id)))",
        "ALTER TABLE run ADD COLUMN c TEXT DEFAULT (length(zeroblob(9)))",
    ],
)
def test_a_strangers_file_makes_sqlite_compute_nothing(sql, path):
    Store(path).close()
    change(path, sql)
    with pytest.raises(StoreError, match="tables or indices that this version does not"):
        Store(path)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_read_or_refused_in_one_line(seed, tmp_path_factory):
    path, chance = tmp_path_factory.mktemp("damaged") / "s", Random(seed)
    with closing(Store(path)) as store:
        answer(store, b"1", reply_of())
        store.record_sent(b"2", "judge", "search", 2.0)
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 40)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)
    with suppress(StoreError), closing(Store(path)) as store:
        store.is_of_run("this"), store.get(b"1"), store.unanswered_request_ids("search")
        assert Budget(store=store).total.spent >= 0
        answer(store, b"3", reply_of())


# The replies that a user's runs share.


def ask_store(folder: Path, model: Model, count: int) -> list[Response]:
    """The responses of one run, with a cache in this folder."""
    with Session(cache=folder, models={"m": model}) as session:
        return list(session.client("m").run(asks(count)))


def test_a_request_of_another_run_is_not_paid_again(tmp_path):
    model = Model(echo)
    assert values_of(ask_store(tmp_path, model, 6)) == list(range(6))
    with Session(cache=tmp_path, store=tmp_path / "s", models={"m": model}) as session:
        client = session.client("m", price=(1.0, 1.0))
        assert values_of(list(client.run(asks(8)))) == list(range(8))
        total = client.account.total
        assert (total.calls, total.cached_calls, total.tokens_in) == (2, 6, 20)
        assert total.cache_note == "reply cache: 6 of 8 requests answered, for free"
    assert model.calls == 8
    assert count_answers(tmp_path / "s") == {"m": 8}  # those of the cache among them


def test_an_unreadable_reply_is_asked_again_by_the_next_run(tmp_path):
    first, second = Model(lambda *_: "well"), Model(echo)
    assert values_of(ask_store(tmp_path, first, 3)) == [None] * 3
    assert values_of(ask_store(tmp_path, second, 3)) == [0, 1, 2]
    change(tmp_path / CACHE_FILE, CUT_SHORT)  # which costs its replies, and no run
    assert values_of(ask_store(tmp_path, second, 3)) == [0, 1, 2]
    assert (first.calls, second.calls) == (9, 6)


def test_a_cache_that_cannot_be_opened_is_named_once(tmp_path, monkeypatch, caplog):
    """Without it every start would pay in full, and nobody would know why."""
    monkeypatch.delenv("DSPY_JUDGES_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "dspy-judges" / CACHE_FILE
    file.parent.mkdir()
    file.write_text("no database, but a text of some length")
    assert open_reply_cache() is open_reply_cache() is None
    (message,) = caplog.messages
    assert message.startswith(f"the reply cache cannot be used: {file}: file is not a database")


def test_the_cache_is_where_it_is_said_and_private(tmp_path, monkeypatch):
    assert open_reply_cache() is None  # DSPY_JUDGES_CACHE=none, as all tests have it
    monkeypatch.setenv("DSPY_JUDGES_CACHE", str(tmp_path / "variable"))
    assert open_reply_cache("none") is None
    for name, folder in ((None, "variable"), (tmp_path / "named", "named")):
        cache = open_reply_cache(name)
        assert cache is not None
        cache.put(b"1", reply_of("a reply"))
        cache.commit()
        paths = [tmp_path / folder, *(tmp_path / folder).iterdir()]
        assert b"a reply" in b"".join(path.read_bytes() for path in paths[1:])
        if sys.platform != "win32":
            assert {stat.S_IMODE(path.stat().st_mode) for path in paths} == {0o700, 0o600}
    ask_store(tmp_path / "embedded", Model(echo, endpoint="embedded"), 3)
    assert not (tmp_path / "embedded").exists()
