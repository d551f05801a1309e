"""Record every request of a run in an SQLite table, before it is sent and when it is answered.

The table holds the replies and the costs, so that a run that was killed can be continued without
exceeding its budget or paying for a request twice. The user's cache, through which runs share
replies, is another file with the same table.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from dspy_judges.errors import JudgesError, OptionError
from dspy_judges.files import claim_file
from judges.client.log import warn_once
from judges.protocol import Completion, Message, Sampling, Usage

# The states of a request. A cached request was answered by the reply cache. A lost request was not
# answered but may be billed; a refused request is not billed.
SENT, ANSWERED, CACHED, LOST, REFUSED = "sent", "answered", "cached", "lost", "refused"
# `role` is the name of an account, such as "judge". `cost` is in US dollars: the worst-case cost
# until the request is answered, and then the real cost.
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    state TEXT NOT NULL, cost REAL NOT NULL, tokens_in INTEGER NOT NULL DEFAULT 0,
    tokens_out INTEGER NOT NULL DEFAULT 0, reply BLOB, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS answers ON requests (key) WHERE reply IS NOT NULL;
CREATE TABLE IF NOT EXISTS run (digest TEXT NOT NULL);
"""
# If a journal file ends in these bytes, it names another file, and SQLite deletes that file.
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
# Seconds to wait while another process writes to the cache.
BUSY_TIMEOUT_SECONDS = 2.0
CACHE_VARIABLE, NO_CACHE = "DSPY_JUDGES_CACHE", "none"
CACHE_FILE = "replies.sqlite"
MAX_CACHE_BYTES = 2**30


class StoreError(JudgesError):
    """The file of a store or of the reply cache cannot be read or written."""


class RequestTotal(NamedTuple):
    """The number, tokens and cost of all requests with the same role, purpose and state."""

    role: str
    purpose: str
    state: str
    n_requests: int
    tokens_in: int
    tokens_out: int
    cost: float


class Store:
    """The requests of a run in a file; no other process may open the file unless `is_shared`.

    Only committed writes survive if the process is killed. One `commit` after many writes is faster
    than a commit after each write. Raises StoreError or OSError if the file cannot be used.
    """

    is_shared = False

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self.path.parent.mkdir(mode=0o700 if self.is_shared else 0o777, parents=True, exist_ok=True)
        # Only the user may read the file and SQLite's journals of it, since texts are private.
        claim_file(self.path, permissions=0o600)
        # A journal that somebody else wrote could make SQLite delete another file. A run never
        # writes a journal that names a file.
        if (journal := Path(f"{self.path}-journal")).exists():
            with claim_file(journal).open("rb") as file:
                file.seek(max(journal.stat().st_size - len(JOURNAL_MAGIC), 0))
                if file.read() == JOURNAL_MAGIC:
                    raise StoreError(f"{journal}: not written by a run; delete it and {self.path}")
        self._database: sqlite3.Connection | None = None
        self._closed = False
        self.commit()  # opens the database, and raises if the file cannot be used

    def get(self, key: bytes) -> Completion | None:
        """Return the answer to the request with this key; None for an unanswered request."""
        statement = "SELECT CAST(reply AS BLOB) FROM requests WHERE key = ? AND reply IS NOT NULL"
        with self._locked_connection() as database:
            row = database.execute(statement, (key,)).fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=Completion)

    def record_sent(self, key: bytes, role: str, purpose: str, worst_cost: float) -> int:
        """Record a request before it is sent, and return its id."""
        return self._insert(key, role, purpose, SENT, worst_cost, 0, 0, None)

    def record_outcome(self, request_id: int, state: str, cost: float, usage: Usage | None) -> None:
        """Record whether a request was ANSWERED, LOST or REFUSED, and its replies if it has any."""
        if self._closed:
            return  # the request keeps its worst-case cost, as if the process had been killed
        reply_json = msgspec.json.encode(usage) if isinstance(usage, Completion) else None
        token_counts = (usage.tokens_in, usage.tokens_out) if usage else (0, 0)
        columns = "state = ?, cost = ?, tokens_in = ?, tokens_out = ?, reply = ?"
        row = (state, cost, *token_counts, reply_json, request_id)
        with self._locked_connection() as database:
            database.execute(f"UPDATE requests SET {columns} WHERE id = ?", row)

    def put(self, key: bytes, completion: Completion, role: str = "", purpose: str = "") -> None:
        """Record an answer that costs this run nothing, such as an answer from the cache."""
        token_counts = completion.tokens_in, completion.tokens_out
        reply_json = msgspec.json.encode(completion)
        self._insert(key, role, purpose, CACHED, 0.0, *token_counts, reply_json)

    def _insert(self, *row: object) -> int:
        columns = "key, role, purpose, state, cost, tokens_in, tokens_out, reply, at"
        statement = f"INSERT INTO requests ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        with self._locked_connection() as database:
            return database.execute(statement, (*row, time.time())).lastrowid or 0

    def commit(self) -> None:
        """Commit all writes, if there are any since the last commit."""
        with self._locked_connection() as database:
            database.commit()

    def unanswered_request_ids(self, purpose: str) -> dict[str, int]:
        """Return the ids of the unanswered requests for a purpose, by the keys in hexadecimal."""
        statement = "SELECT lower(hex(key)), id FROM requests WHERE purpose = ? AND state IN (?, ?)"
        with self._locked_connection() as database:
            return dict(database.execute(statement, (purpose, SENT, LOST)).fetchall())

    def totals(self) -> list[RequestTotal]:
        """Return the totals of all requests, grouped by role, purpose and state."""
        with self._locked_connection() as database:
            rows = database.execute(
                # CAST and max are for damaged files: a value may be text, and a negative cost would
                # enlarge the budget.
                "SELECT role, purpose, state, count(*), CAST(total(tokens_in) AS INTEGER),"
                " CAST(total(tokens_out) AS INTEGER), total(max(cost, 0.0))"
                " FROM requests GROUP BY role, purpose, state"
            ).fetchall()
        return [RequestTotal(*row) for row in rows]

    def is_of_run(self, digest: str) -> bool:
        """Return whether the run with this digest wrote the file; a new file gets the digest."""
        with self._locked_connection() as database:
            row = database.execute("SELECT digest FROM run").fetchone()
            if row is None:
                database.execute("INSERT INTO run VALUES (?)", (digest,))
                database.commit()
            return row in (None, (digest,))

    def shrink(self, max_bytes: int) -> None:
        """Delete the older half of all requests if the file is larger than `max_bytes`."""
        if self.path.stat().st_size <= max_bytes:
            return
        statement = (
            "DELETE FROM requests WHERE id <= (SELECT (min(id) + max(id)) / 2 FROM requests)"
        )
        with self._locked_connection() as database:
            database.execute(statement)
            database.commit()
            database.execute("VACUUM")

    def close(self) -> None:
        with self._lock:
            if self._database is not None and not self._closed:
                with suppress(sqlite3.Error):
                    self._database.commit()
                self._database.close()
            self._closed = True

    def delete_file(self) -> None:
        """Close the store and delete its file, after a run has ended."""
        self.close()
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @property
    def can_resume(self) -> bool:
        """Whether a run can continue from the file: some request was answered or may be billed."""
        return any(total.state in (ANSWERED, LOST, SENT) for total in self.totals())

    @contextmanager
    def _locked_connection(self) -> Iterator[sqlite3.Connection]:
        """Lend the database to one thread at a time; errors of the file become StoreErrors."""
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.path}: the file is closed")
            try:
                if self._database is None:
                    self._database = self._connect()
                yield self._database
            # In a damaged file, the JSON may be malformed, missing, or nested too deeply.
            except (sqlite3.Error, TypeError, ValueError, RecursionError) as error:
                advice = "delete the file to start again (answered requests are paid for again)"
                problem = f"{error}; make sure that the file can be written and the disk has space"
                if isinstance(error, msgspec.ValidationError):
                    problem = f"another version of dspy-judges wrote its replies ({error})"
                elif "locked" in str(error):
                    problem, advice = "another run is using the file", "wait until that run ends"
                raise StoreError(f"{self.path}: {problem}; {advice}") from error

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT_SECONDS if self.is_shared else 0.0,
            isolation_level="IMMEDIATE",  # the first write begins a transaction
            check_same_thread=False,
        )
        try:
            # In a file that somebody else made, a trigger or an index on an expression could keep
            # SQLite busy for ever.
            schema_query = "SELECT name, sql FROM sqlite_master"
            with closing(sqlite3.connect(":memory:")) as expected_database:
                expected_database.executescript(SCHEMA)
                expected_schema = {*expected_database.execute(schema_query)}
                if {*database.execute(schema_query)} - expected_schema:
                    problem = "it has tables or indices that this version does not write"
                    raise sqlite3.DatabaseError(problem)
            if not self.is_shared:
                # The exclusive mode also works without shared memory, which network drives lack.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
            database.execute("PRAGMA journal_mode = WAL")
            # If the process is killed, no commit is lost; a power cut may lose the latest commits.
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(SCHEMA)
            if not self.is_shared:
                # Requests that were in flight when an earlier process died may have been billed.
                database.execute("UPDATE requests SET state = ? WHERE state = ?", (LOST, SENT))
                database.commit()
        except BaseException:
            database.close()
            raise
        return database


class ReplyCache(Store):
    """The replies that all runs of a user share; errors of the file are only logged."""

    is_shared = True

    def get(self, key: bytes) -> Completion | None:
        with _warn_of_errors():
            return super().get(key)
        return None

    def _insert(self, *row: object) -> int:
        with _warn_of_errors():
            return super()._insert(*row)
        return 0


@contextmanager
def _warn_of_errors() -> Iterator[None]:
    """Turn a StoreError into a warning, since a run goes on without its reply cache."""
    try:
        yield
    except StoreError as error:
        warn_once(f"the reply cache cannot be used: {error}")


def open_reply_cache(folder: str | os.PathLike[str] | None = None) -> ReplyCache | None:
    """Open the reply cache in `folder`, else in DSPY_JUDGES_CACHE, else in the user's cache.

    Returns None if the name of the folder is "none", or if the default folder cannot be used.
    Raises OptionError if a folder that the user chose cannot be used.
    """
    chosen_folder = os.environ.get(CACHE_VARIABLE) if folder is None else os.fspath(folder)
    if chosen_folder == NO_CACHE:
        return None
    from platformdirs import user_cache_dir

    try:
        cache_folder = Path(chosen_folder or user_cache_dir("dspy-judges")).expanduser()
        return _open_cache_once(cache_folder / CACHE_FILE, os.getpid())
    except (OSError, RuntimeError, StoreError) as error:
        if chosen_folder:
            problem = f"the reply cache {chosen_folder} cannot be used ({error})"
            raise OptionError(f"{problem}; name another folder, or {NO_CACHE}") from error
        warn_once(f"the reply cache cannot be used: {error}")
        return None


@lru_cache(maxsize=8)
def _open_cache_once(path: Path, process_id: int) -> ReplyCache:
    cache = ReplyCache(path)
    with suppress(StoreError):  # another process is writing: the next process shrinks the cache
        cache.shrink(MAX_CACHE_BYTES)
    return cache


def make_request_key(
    endpoint: str, model_name: str, messages: Sequence[Message], sampling: Sampling
) -> bytes:
    """Return a hash of everything that determines the reply to a request."""
    sampling_parameters = (
        None if sampling.temperature is None else float(sampling.temperature),
        *(sampling.n, sampling.top_logprobs, sampling.max_tokens, sampling.seed),
        sampling.reasoning_effort,
    )
    hashed_texts = [endpoint, model_name, repr(sampling_parameters)]
    for message in messages:
        hashed_texts += [message["role"], message["content"]]
    # The lengths make sure that different lists of texts never join to the same string.
    joined_texts = "".join([f"{len(text)}:{text}" for text in hashed_texts])
    return sha256(joined_texts.encode("utf-8", "surrogatepass")).digest()
