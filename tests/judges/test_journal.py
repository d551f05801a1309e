"""The journal: nothing is lost to a crash, a neighbour or a second process; nothing is secret."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from judges.client.journal import (
    Journal,
    RequestHasher,
    describe,
    encode_record,
    request_key,
)
from processes import TIMEOUT

from judges.client.protocol import Completion, Message, Reply, Sampling, Token


def asked(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def key(text: str, endpoint: str = "e", model: str = "m", sampling: Sampling | None = None) -> str:
    return request_key(endpoint, model, asked(text), sampling or Sampling())


def said(*texts: str) -> Completion:
    replies = tuple(Reply(text=text) for text in texts)
    return Completion(replies=replies, tokens_in=7, tokens_out=len(texts), model="m-2026")


def write(path: Path, *texts: str) -> None:
    with Journal(path) as journal:
        for text in texts:
            journal.put(key(text), said(text), endpoint="e", model="m")


def test_everything_that_determines_a_reply_is_in_its_key() -> None:
    keys = {
        key("a"),
        key("b"),
        key("a", endpoint="f"),
        key("a", model="n"),
        *(
            key("a", sampling=sampling)
            for sampling in (
                Sampling(temperature=None),
                Sampling(n=2),
                Sampling(top_logprobs=5),
                Sampling(max_tokens=2),
                Sampling(seed=1),
            )
        ),
        request_key("e", "m", [{"role": "system", "content": "a"}], Sampling()),
    }
    assert len(keys) == 10
    assert key("a", sampling=Sampling(temperature=0)) == key("a")


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


def test_hashing_what_requests_share_once_changes_no_key() -> None:
    hasher = RequestHasher()
    openings = [[{"role": "system", "content": f"s{n}"}] * (n % 4) for n in range(12)]
    for opening in (*openings, *openings):
        for seed in (0, 1):
            request = [*opening, {"role": "user", "content": f"u{seed}"}]
            told = ("e", "m", request, Sampling(seed=seed))
            assert hasher.key(*told) == request_key(*told)  # type: ignore[arg-type]


@settings(max_examples=50, deadline=None)
@given(answers=st.lists(completions, max_size=5))
def test_what_is_put_is_got_by_this_journal_and_the_next(
    answers: list[Completion], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("j") / "journal.jsonl"
    with Journal(path) as journal:
        for i, answer in enumerate(answers):
            journal.put(key(str(i)), answer, endpoint="e", model="m")
        assert [journal.get(key(str(i))) for i in range(len(answers))] == answers
    with Journal(path) as journal:
        assert [journal.get(key(str(i))) for i in range(len(answers))] == answers
        assert journal.get(key("never")) is None


def test_a_last_line_torn_anywhere_loses_that_line_alone(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    write(whole, "a", "b")
    content = whole.read_bytes()
    first = content.index(b"\n") + 1
    for cut in range(first, len(content)):
        torn = tmp_path / "torn"
        torn.write_bytes(content[:cut])
        with Journal(torn) as journal:
            assert journal.get(key("a")) == said("a")
            # All but the newline is a whole record.
            assert (key("b") in journal) == (cut == len(content) - 1)
            journal.put(key("c"), said("c"), endpoint="e", model="m")
        with Journal(torn) as journal:
            assert journal.get(key("a")) == said("a")
            assert journal.get(key("c")) == said("c")
            assert journal.n_damaged == 0


def test_a_line_torn_by_another_process_spoils_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, "a")
    with Journal(path) as journal:
        with path.open("ab") as other:
            other.write(b'{"key":"0123')
        journal.put(key("b"), said("b"), endpoint="e", model="m")
        assert journal.get(key("b")) == said("b")
    # As if a process without locks had written on to the torn line.
    content = path.read_bytes().replace(b"0123\n", b"0123")
    path.write_bytes(content)
    with Journal(path) as journal:
        assert journal.get(key("a")) == said("a")
        assert journal.get(key("b")) == said("b")


APPEND = """
import sys
from judges.client.journal import Journal, request_key
from judges.client.protocol import Completion, Reply, Sampling
path, name = sys.argv[1:]
with Journal(path) as journal:
    for i in range(300):
        key = request_key("e", "m", [{"role": "user", "content": f"{name}{i}"}], Sampling())
        text = f"{name}{i}" * (1 + i % 400)
        answer = Completion(replies=(Reply(text=text),), tokens_in=7, tokens_out=1, model="m-2026")
        journal.put(key, answer, endpoint="e", model="m")
"""


def test_two_processes_on_one_journal_corrupt_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j"
    both = [subprocess.Popen([sys.executable, "-c", APPEND, path, name]) for name in ("p", "q")]
    assert [process.wait(TIMEOUT) for process in both] == [0, 0]
    with Journal(path) as journal:
        assert len(journal) == 600
        assert all(
            journal.get(key(f"{name}{i}")) == said(f"{name}{i}" * (1 + i % 400))
            for name in "pq"
            for i in range(300)
        )
        assert journal.n_damaged == 0


def test_a_record_damaged_within_is_asked_again_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, "a", "b")
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0].replace(b'"replies":[', b'"replies":]') + lines[1])
    with Journal(path) as journal:
        assert journal.get(key("a")) is None
        assert journal.get(key("b")) == said("b")
        assert journal.n_damaged == 1


def test_a_flipped_bit_anywhere_is_noticed_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "j"
    write(path, "a", "b", "c")
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    third = whole.index(b"\n", second) + 1
    for place in range(second, third):
        altered = bytearray(whole)
        altered[place] ^= 1 << (place % 8)
        path.write_bytes(altered)
        with Journal(path) as journal:
            assert journal.get(key("a")) == said("a")
            assert journal.get(key("b")) is None
            assert journal.n_damaged >= 1
            # A line end that is gone takes nothing of the next line with it.
            assert journal.get(key("c")) == said("c")
        assert "passed over and asked again" in capsys.readouterr().err


def test_an_edited_reply_is_asked_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, "a", "b")
    assert b'"text":"a"' in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(b'"text":"a"', b'"text":"5"'))
    with Journal(path) as journal:
        assert journal.get(key("a")) is None
        assert journal.get(key("b")) == said("b")


def test_a_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    # The last has no line end, and its last line is no JSON, as a torn record's would be.
    for text in ('{"id": "1"}\n{"id": "2"}\n', "id,relevance\na,4"):
        path.write_text(text)
        with pytest.raises(ValueError, match="no reply journal"):
            Journal(path)
        assert path.read_text() == text


def test_a_journal_torn_in_its_first_record_is_one_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for torn in ('{"ke', '{"key":"0a1b'):
        path.write_text(torn)
        with Journal(path) as journal:
            assert len(journal) == 0
        assert path.read_text() == ""


def test_the_summary_counts_requests_and_what_was_paid(tmp_path: Path) -> None:
    path = tmp_path / "j"
    write(path, "a", "b")
    with Journal(path) as journal:
        journal.put(key("c"), said("1", "2", "3"), endpoint="f", model="n", cached=True)
    contents = describe(path)
    assert (contents.n_requests, contents.n_cached) == (3, 1)
    assert (contents.tokens_in, contents.tokens_out) == (14, 2)
    with pytest.raises(FileNotFoundError):
        describe(tmp_path / "none")


def test_a_journal_of_many_replies_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with path.open("wb") as file:
        for i in range(20_000):
            file.write(encode_record(f"{i:064x}", said("a"), "e", "m"))
    tracemalloc.start()
    with Journal(path) as journal:
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert len(journal) == 20_000
    # A 32-byte key (65), an offset (32) and their place in the table (about 60).
    assert size < 20_000 * 250


def test_no_prompt_is_written(tmp_path: Path) -> None:
    write(tmp_path / "j", "a confidential document")
    record = json.loads((tmp_path / "j").read_text())
    assert set(record) == {
        "key", "endpoint", "asked", "model", "at", "tokens_in", "tokens_out", "replies", "sum"
    }  # fmt: skip
