"""Record every request of a run in an SQLite table, before it is sent and when it is answered.

The table holds the replies and the costs, so that a run that was killed can be continued without
exceeding its budget or paying twice. The user's cache, through which runs share replies, is another
file of the same form.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import msgspec

from dspy_judges.errors import JudgesError, OptionError
from dspy_judges.files import claim_file
from judges.protocol import Completion, Message, Sampling, Usage

SENT, ANSWERED, CACHED, LOST, REFUSED = "sent", "answered", "cached", "lost", "refused"
# `cost` is in US dollars. It is the worst-case cost until a request is settled, and remains so if
# the request is never answered.
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    state TEXT NOT NULL, cost REAL NOT NULL, tokens_in INTEGER NOT NULL DEFAULT 0,
    tokens_out INTEGER NOT NULL DEFAULT 0, reply BLOB, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS answers ON requests (key) WHERE reply IS NOT NULL;
CREATE TABLE IF NOT EXISTS settings (json TEXT NOT NULL);
"""
# SQLite deletes the file that a journal names if the journal ends in these bytes.
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
# Seconds to wait while another process writes to the cache.
BUSY_TIMEOUT = 2.0
CACHE_VARIABLE, NO_CACHE = "DSPY_JUDGES_CACHE", "none"
CACHE_FILE = "replies.sqlite"
CACHE_MAX_BYTES = 2**30

_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Completion)


class StoreError(JudgesError):
    """A run's file of replies cannot be used."""


class Total(NamedTuple):
    """The sums over all requests with the same role, purpose and state."""

    role: str
    purpose: str
    state: str
    n: int
    tokens_in: int
    tokens_out: int
    cost: float


class Store:
    """The requests of a run in the file `path`; other processes may use it only if it is `shared`.

    Writes survive the end of the process only after `commit`; one commit for many writes takes far
    less time than one for each. Raises StoreError or OSError if the file cannot be used.
    """

    def __init__(self, path: Path | str, *, shared: bool = False) -> None:
        self.path = Path(path)
        self._shared = shared
        self._lock = threading.Lock()
        self.path.parent.mkdir(mode=0o700 if shared else 0o777, parents=True, exist_ok=True)
        # Texts and replies are private. SQLite gives its other files the same permissions.
        claim_file(self.path, permissions=0o600)
        # A stranger's journal could make SQLite delete another file; a run never writes such names.
        if (journal := Path(f"{self.path}-journal")).exists():
            with claim_file(journal).open("rb") as file:
                file.seek(max(journal.stat().st_size - len(JOURNAL_MAGIC), 0))
                if file.read() == JOURNAL_MAGIC:
                    raise StoreError(f"{journal}: no run writes this; delete it and {self.path}")
        self._process = os.getpid()
        self._database: sqlite3.Connection | None = None
        self._closed = False
        # The number of the latest request that was written, and of the latest that was committed.
        self._written = self._committed = 0
        self._parent_database: sqlite3.Connection | None = None
        with self._locked():
            pass  # opens the database

    def get(self, key: bytes) -> Completion | None:
        """The answer to a request; None if it has none."""
        statement = "SELECT CAST(reply AS BLOB) FROM requests WHERE key = ? AND reply IS NOT NULL"
        with self._locked() as database:
            row = database.execute(statement, (key,)).fetchone()
            return None if row is None else _decoder.decode(row[0])

    def begin(self, key: bytes, role: str, purpose: str, worst_cost: float) -> int:
        """Record a request before it is sent, and return its number."""
        return self._insert(key, role, purpose, SENT, worst_cost, 0, 0, None)

    def settle(
        self, number: int, state: str, cost: float, usage: Usage | Completion | None
    ) -> None:
        """Record the outcome of a request, with its replies if it has any."""
        if self._closed:
            return  # the request stays at its worst-case cost, as if the process had been killed
        reply = _encoder.encode(usage) if isinstance(usage, Completion) else None
        tokens = (usage.tokens_in, usage.tokens_out) if usage else (0, 0)
        statement = (
            "UPDATE requests SET state = ?, cost = ?, tokens_in = ?, tokens_out = ?, reply = ?"
            " WHERE id = ?"
        )
        with self._locked() as database:
            database.execute(statement, (state, cost, *tokens, reply, number))

    def put(self, key: bytes, completion: Completion, role: str = "", purpose: str = "") -> None:
        """Record an answer that this run did not pay for, such as one from the cache."""
        tokens = completion.tokens_in, completion.tokens_out
        self._insert(key, role, purpose, CACHED, 0.0, *tokens, _encoder.encode(completion))

    def _insert(self, *row: object) -> int:
        statement = (
            "INSERT INTO requests (key, role, purpose, state, cost, tokens_in, tokens_out, reply,"
            " at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        with self._locked() as database:
            self._written = database.execute(statement, (*row, time.time())).lastrowid or 0
            return self._written

    def commit(self, number: int | None = None) -> None:
        """Commit all writes, unless the request `number` is already committed."""
        if number is None or number > self._committed:
            with self._locked() as database:
                database.commit()
                self._committed = self._written

    def open_requests(self, purpose: str) -> dict[str, int]:
        """The numbers of the unanswered requests for a purpose, by their keys."""
        statement = "SELECT lower(hex(key)), id FROM requests WHERE purpose = ? AND state IN (?, ?)"
        with self._locked() as database:
            return dict(database.execute(statement, (purpose, SENT, LOST)).fetchall())

    def totals(self) -> list[Total]:
        """Sums over all requests by role, purpose and state."""
        with self._locked() as database:
            rows = database.execute(
                # In a damaged file, a value may not be a number, and a negative cost would raise
                # the budget.
                "SELECT role, purpose, state, count(*), CAST(total(tokens_in) AS INTEGER),"
                " CAST(total(tokens_out) AS INTEGER), total(max(cost, 0.0))"
                " FROM requests GROUP BY role, purpose, state"
            ).fetchall()
        return [Total(*row) for row in rows]

    def read_settings(self) -> dict[str, object] | None:
        """The settings that the run began with; None if none are recorded."""
        with self._locked() as database:
            row = database.execute("SELECT CAST(json AS TEXT) FROM settings").fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=dict[str, object])

    def write_settings(self, settings: Mapping[str, object]) -> None:
        text = msgspec.json.encode(settings).decode()
        with self._locked() as database:
            database.execute("DELETE FROM settings")
            database.execute("INSERT INTO settings VALUES (?)", (text,))
            database.commit()

    def shrink(self, max_bytes: int) -> None:
        """Delete the older half of all requests if the file is larger than `max_bytes`."""
        if self.path.stat().st_size <= max_bytes:
            return
        with self._locked() as database:
            database.execute(
                "DELETE FROM requests WHERE id <= (SELECT (min(id) + max(id)) / 2 FROM requests)"
            )
            database.commit()
            database.execute("VACUUM")

    def close(self) -> None:
        with self._lock:
            if self._database is not None and self._process == os.getpid():
                with suppress(sqlite3.Error):
                    self._database.commit()
                self._database.close()
            self._database, self._closed = None, True

    def remove(self) -> None:
        """Close and delete the file of a run that has ended."""
        self.close()
        for suffix in ("", "-wal", "-journal"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @property
    def can_go_on(self) -> bool:
        """Whether a second start can use the file: it has answers or possibly billed requests."""
        return any(total.state in (ANSWERED, LOST, SENT) for total in self.totals())

    @contextmanager
    def _locked(self) -> Iterator[sqlite3.Connection]:
        """Give the connection to one thread at a time; errors of the file become StoreErrors."""
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.path}: is closed")
            try:
                if self._database is None or self._process != os.getpid():
                    # After a fork, the child opens its own connection and never uses the parent's.
                    self._parent_database, self._process = self._database, os.getpid()
                    self._database = self._connect()
                yield self._database
            # In a damaged file, the JSON may be malformed, missing, or nested too deeply.
            except (sqlite3.Error, TypeError, ValueError, RecursionError) as error:
                advice = (
                    "another run is using it; wait for it to end"
                    if "locked" in str(error)
                    else f"{error}; free some space or give access, or delete the file to start "
                    "again (what was answered is then paid for again)"
                )
                raise StoreError(f"{self.path}: {advice}") from error

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self.path,
            timeout=BUSY_TIMEOUT if self._shared else 0.0,
            isolation_level="IMMEDIATE",  # the first write begins a transaction
            check_same_thread=False,
        )
        try:
            # In a stranger's file, a trigger or an index on an expression could keep SQLite busy
            # for ever.
            query = "SELECT name, sql FROM sqlite_master"
            with closing(sqlite3.connect(":memory:")) as reference:
                reference.executescript(SCHEMA)
                if {*database.execute(query)} - {*reference.execute(query)}:
                    raise sqlite3.DatabaseError("it has other tables or indices than a run writes")
            if not self._shared:
                # The exclusive mode also avoids shared memory, which network drives lack.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
            (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                database.execute("PRAGMA journal_mode = TRUNCATE")
            # A kill of the process loses no commit, and a power cut only the latest ones.
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(SCHEMA)
            if not self._shared:
                # Requests that were in flight when an earlier process died may have been billed.
                database.execute("UPDATE requests SET state = ? WHERE state = ?", (LOST, SENT))
                database.commit()
        except BaseException:
            database.close()
            raise
        return database


class ReplyCache:
    """The cache of replies that all runs of a user share.

    An error of its file is logged, and the run goes on. `n_lookups` counts the requests of one
    session that were looked up, and `n_hits` those that were found.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.n_lookups = self.n_hits = self.n_additions = 0

    def get(self, key: bytes) -> Completion | None:
        self.n_lookups += 1
        try:
            completion = self.store.get(key)
        except StoreError as error:
            _warn_once(str(error))
            return None
        self.n_hits += completion is not None
        return completion

    def put(self, key: bytes, completion: Completion) -> None:
        try:
            self.store.put(key, completion)
            self.n_additions += 1
        except StoreError as error:
            _warn_once(str(error))

    @property
    def note(self) -> str | None:
        """A line that says how many requests the cache answered; None if it was not used."""
        if not self.n_hits and not self.n_additions:
            return None
        return (
            f"reply cache: {self.n_hits:,} of {self.n_lookups:,} requests answered from "
            f"{self.store.path.parent}"
        )


@lru_cache
def _warn_once(problem: str) -> None:
    _log.warning("the reply cache cannot be used: %s", problem)


def open_cache(name: str | os.PathLike[str] | None = None) -> ReplyCache | None:
    """The reply cache in the folder `name`, else in DSPY_JUDGES_CACHE, else in the user's cache.

    Returns None if the folder is "none", or if the default folder cannot be used. Raises
    OptionError if a folder that the user chose cannot be used.
    """
    folder_name = os.fspath(name) if name is not None else os.environ.get(CACHE_VARIABLE)
    if folder_name == NO_CACHE:
        return None
    from platformdirs import user_cache_dir

    try:
        folder = Path(folder_name or user_cache_dir("dspy-judges")).expanduser()
        return ReplyCache(_shared_store(folder / CACHE_FILE))
    except (OSError, RuntimeError, StoreError) as error:
        if folder_name:
            raise OptionError(
                f"the reply cache {folder_name} cannot be used ({error}); name another folder, or "
                f"{NO_CACHE}"
            ) from error
        _warn_once(str(error))
        return None


@lru_cache(maxsize=8)
def _shared_store(path: Path) -> Store:
    """The store in a file; the process opens it once, since opening takes longer than a lookup."""
    store = Store(path, shared=True)
    store.shrink(CACHE_MAX_BYTES)
    return store


def request_key(
    endpoint: str, model: str, messages: Sequence[Message], sampling: Sampling
) -> bytes:
    """The hash of everything that determines a reply; repeated requests differ by their seeds."""
    parameters = (
        None if sampling.temperature is None else float(sampling.temperature),
        *(sampling.n, sampling.top_logprobs, sampling.max_tokens, sampling.seed),
        sampling.reasoning_effort,
    )
    parts = [endpoint, model, repr(parameters)]
    parts += [part for message in messages for part in (message["role"], message["content"])]
    # The length before each part makes the text different for different requests.
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
