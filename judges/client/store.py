"""Every request of a run, in one SQLite table: written before it is sent, settled with its reply.

The table is the record of replies, the budget over kills, and what a second start goes on from. The
user's cache, by which runs share replies, is another file of the same form.
"""

import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from dspy_judges.errors import JudgesError, OptionError
from dspy_judges.files import claim_file
from judges.protocol import Completion, Message, Sampling, Usage

SENT, ANSWERED, CACHED, LOST, REFUSED = "sent", "answered", "cached", "lost", "refused"
# `cost` is in US dollars: at worst until the request is settled, and for good where it was lost.
SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    state TEXT NOT NULL, cost REAL NOT NULL, tokens_in INTEGER NOT NULL DEFAULT 0,
    tokens_out INTEGER NOT NULL DEFAULT 0, reply BLOB, at REAL NOT NULL);
CREATE INDEX IF NOT EXISTS answers ON requests (key) WHERE reply IS NOT NULL;
CREATE TABLE IF NOT EXISTS settings (json TEXT NOT NULL);
"""
NAMES_A_FILE = bytes.fromhex("d9d505f920a163d7")  # at the end of a journal
# How long another process that writes to the cache is waited for.
BUSY_SECONDS = 2.0
CACHE_VARIABLE, NO_CACHE = "DSPY_JUDGES_CACHE", "none"
CACHE_FILE = "replies.sqlite"
CACHE_MAX_BYTES = 2**30

_log = logging.getLogger(__name__)
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Completion)


class StoreError(JudgesError):
    """A run's file of replies cannot be used; the message says why and what to do."""


class Total(NamedTuple):
    """The requests of one role, purpose and state."""

    role: str
    purpose: str
    state: str
    n: int
    tokens_in: int
    tokens_out: int
    cost: float


class Store:
    """The requests of a run in the file `path`, for this process alone unless `shared`.

    Every write is whole when a call returns: a kill loses nothing. Raises StoreError, or OSError.
    """

    def __init__(self, path: Path | str, *, shared: bool = False) -> None:
        self.path = Path(path)
        self._shared = shared
        self._lock = threading.Lock()
        self.path.parent.mkdir(mode=0o700 if shared else 0o777, parents=True, exist_ok=True)
        # What people and models wrote is its user's own; SQLite's other files follow this one.
        claim_file(self.path, permissions=0o600)
        # SQLite deletes the file that a journal of several databases names. No run leaves one.
        if (journal := Path(f"{self.path}-journal")).exists():
            with claim_file(journal).open("rb") as file:
                file.seek(max(journal.stat().st_size - len(NAMES_A_FILE), 0))
                if file.read() == NAMES_A_FILE:
                    raise StoreError(f"{journal}: no run writes this; delete it and {self.path}")
        self._process = os.getpid()
        self._database: sqlite3.Connection | None = None
        self._closed = False
        self._left_to_parent: sqlite3.Connection | None = None
        with self._locked():
            if not shared:
                # What was under way when an earlier process died may have been billed.
                self._run("UPDATE requests SET state = ? WHERE state = ?", LOST, SENT)

    def get(self, key: bytes) -> Completion | None:
        """What was answered to this request; None: nothing was."""
        with self._locked():
            row = self._run(
                "SELECT CAST(reply AS BLOB) FROM requests WHERE key = ? AND reply IS NOT NULL", key
            ).fetchone()
            return None if row is None else _decoder.decode(row[0])

    def begin(self, key: bytes, role: str, purpose: str, worst: float) -> int:
        """Write down a request that is about to be sent; returns its number."""
        return self._insert(key, role, purpose, SENT, worst, 0, 0, None)

    def settle(
        self, number: int, state: str, cost: float, usage: Usage | Completion | None
    ) -> None:
        """Write down what became of a request, with its replies where it brought any."""
        if self._closed:
            return  # it stays booked at its worst, as after a kill
        reply = _encoder.encode(usage) if isinstance(usage, Completion) else None
        tokens = (usage.tokens_in, usage.tokens_out) if usage else (0, 0)
        with self._locked():
            self._run(
                "UPDATE requests SET state = ?, cost = ?, tokens_in = ?, tokens_out = ?, reply = ?"
                " WHERE id = ?",
                *(state, cost, *tokens, reply, number),
            )

    def put(self, key: bytes, completion: Completion, role: str = "", purpose: str = "") -> None:
        """Keep an answer for which this run did not pay."""
        tokens = completion.tokens_in, completion.tokens_out
        self._insert(key, role, purpose, CACHED, 0.0, *tokens, _encoder.encode(completion))

    def _insert(self, *row: object) -> int:
        statement = (
            "INSERT INTO requests (key, role, purpose, state, cost, tokens_in, tokens_out, reply,"
            " at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
        with self._locked():
            return self._run(statement, *row, time.time()).lastrowid or 0

    def waiting(self, purpose: str) -> dict[str, int]:
        """The key and the number of each request for a purpose that has no answer."""
        statement = "SELECT lower(hex(key)), id FROM requests WHERE purpose = ? AND state IN (?, ?)"
        with self._locked():
            return dict(self._run(statement, purpose, SENT, LOST).fetchall())

    def totals(self) -> list[Total]:
        """All requests so far, summed up."""
        with self._locked():
            rows = self._run(
                # A damaged file may hold no number, and a stranger's gives no credit.
                "SELECT role, purpose, state, count(*), CAST(total(tokens_in) AS INTEGER),"
                " CAST(total(tokens_out) AS INTEGER), total(max(cost, 0.0))"
                " FROM requests GROUP BY role, purpose, state"
            ).fetchall()
        return [Total(*row) for row in rows]

    def read_settings(self) -> dict[str, Any] | None:
        """What the run was begun with; None where nothing was written down."""
        with self._locked():
            row = self._run("SELECT CAST(json AS TEXT) FROM settings").fetchone()
            return None if row is None else msgspec.json.decode(row[0], type=dict[str, Any])

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        with self._locked():
            self._run("DELETE FROM settings")
            self._run("INSERT INTO settings VALUES (?)", msgspec.json.encode(settings).decode())

    def shrink(self, max_bytes: int) -> None:
        """Drop the older half where the file is larger than so many bytes."""
        if self.path.stat().st_size <= max_bytes:
            return
        with self._locked():
            self._run(
                "DELETE FROM requests WHERE id <= (SELECT (min(id) + max(id)) / 2 FROM requests)"
            )
            self._run("VACUUM")

    def close(self) -> None:
        with self._lock:
            if self._database is not None and self._process == os.getpid():
                self._database.close()
            self._database, self._closed = None, True

    def remove(self) -> None:
        """Close and delete the file, of a run that has ended."""
        self.close()
        for suffix in ("", "-wal", "-journal"):
            Path(f"{self.path}{suffix}").unlink(missing_ok=True)

    @property
    def can_go_on(self) -> bool:
        """Whether there is anything to go on from: answers, or requests that may be billed."""
        return any(total.state in (ANSWERED, LOST, SENT) for total in self.totals())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """One thread at a time; what is wrong with the file becomes one line."""
        with self._lock:
            if self._closed:
                raise StoreError(f"{self.path}: is closed")
            try:
                if self._database is None or self._process != os.getpid():
                    # No connection outlives a fork: the parent's is left as it is.
                    self._left_to_parent, self._process = self._database, os.getpid()
                    self._database = self._connect()
                yield
            # A damaged file's own words may be no text, be missing, or nest too deeply.
            except (sqlite3.Error, TypeError, ValueError, RecursionError) as error:
                way_out = (
                    "another run is using it; wait for it to end"
                    if "locked" in str(error)
                    else f"{error}; make room or access, or delete the file to start again (what "
                    "was answered is then paid for again)"
                )
                raise StoreError(f"{self.path}: {way_out}") from error

    def _run(self, statement: str, *values: object) -> sqlite3.Cursor:
        assert self._database is not None
        return self._database.execute(statement, values)

    def _connect(self) -> sqlite3.Connection:
        database = sqlite3.connect(
            self.path,
            timeout=BUSY_SECONDS if self._shared else 0.0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            # The file may be a stranger's: a trigger, or an index on an expression, could keep
            # SQLite busy for ever.
            listing = "SELECT name, sql FROM sqlite_master"
            with closing(sqlite3.connect(":memory:")) as own:
                own.executescript(SCHEMA)
                if {*database.execute(listing)} - {*own.execute(listing)}:
                    raise sqlite3.DatabaseError("it has other tables or indices than a run writes")
            if not self._shared:
                # Also spares the shared memory that network drives lack.
                database.execute("PRAGMA locking_mode = EXCLUSIVE")
            (mode,) = database.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                database.execute("PRAGMA journal_mode = TRUNCATE")
            # A kill loses nothing; a power cut the latest replies.
            database.execute("PRAGMA synchronous = NORMAL")
            database.executescript(SCHEMA)
        except BaseException:
            database.close()
            raise
        return database


class ReplyCache:
    """The replies that a user's runs share; what is wrong with its file costs replies, not runs.

    `n_lookups` and `n_hits` count the requests of one session that were looked up and found.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.n_lookups = self.n_hits = self.n_additions = 0

    def get(self, key: bytes) -> Completion | None:
        self.n_lookups += 1
        try:
            completion = self._store.get(key)
        except StoreError as error:
            _complain(str(error))
            return None
        self.n_hits += completion is not None
        return completion

    def put(self, key: bytes, completion: Completion) -> None:
        try:
            self._store.put(key, completion)
            self.n_additions += 1
        except StoreError as error:
            _complain(str(error))

    @property
    def note(self) -> str | None:
        """For the end of a run: what it gave, if it gave or took anything."""
        if not self.n_hits and not self.n_additions:
            return None
        return (
            f"reply cache: {self.n_hits:,} of {self.n_lookups:,} requests answered from "
            f"{self._store.path.parent}"
        )


@lru_cache
def _complain(problem: str) -> None:
    """Say it once."""
    _log.warning("the reply cache cannot be used: %s", problem)


def open_cache(name: str | os.PathLike[str] | None = None) -> ReplyCache | None:
    """The cache in the folder `name`, else in DSPY_JUDGES_CACHE's, else the user's own.

    None where that is "none", or where the user's own cannot be used. Raises OptionError where a
    folder that was named cannot be used.
    """
    named = os.fspath(name) if name is not None else os.environ.get(CACHE_VARIABLE)
    if named == NO_CACHE:
        return None
    from platformdirs import user_cache_dir

    try:
        folder = Path(named or user_cache_dir("dspy-judges")).expanduser()
        return ReplyCache(_shared_store(folder / CACHE_FILE))
    except (OSError, RuntimeError, StoreError) as error:
        if named:
            raise OptionError(
                f"the reply cache {named} cannot be used ({error}); name another folder, or "
                f"{NO_CACHE}"
            ) from error
        _complain(str(error))
        return None


@lru_cache(maxsize=8)
def _shared_store(path: Path) -> Store:
    """The one of this process: to open a file takes longer than to answer from it."""
    store = Store(path, shared=True)
    store.shrink(CACHE_MAX_BYTES)
    return store


def request_key(
    endpoint: str, model: str, messages: Sequence[Message], sampling: Sampling
) -> bytes:
    """Hash all that determines a reply; samples and fresh asks differ by their seed."""
    draw = (
        None if sampling.temperature is None else float(sampling.temperature),
        *(sampling.n, sampling.top_logprobs, sampling.max_tokens, sampling.seed),
        sampling.reasoning_effort,
    )
    parts = [endpoint, model, repr(draw)]
    parts += [part for message in messages for part in (message["role"], message["content"])]
    # Each part behind its length, so that no two requests come out the same.
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
