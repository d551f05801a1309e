"""Replies kept across runs, so that no request is paid for twice: an SQLite file of the user's own.

It holds the hash of each request and what was answered, as a journal does, and no request. Several
processes may use it at once; whatever is wrong with the file costs replies, and never a run.
"""

import logging
import os
import sqlite3
import sys
import threading
import time
from pathlib import Path

from dspy_judges.errors import OptionError
from judges.client.journal import DamagedRecordError, encode_record, read_record
from judges.client.protocol import Completion

VARIABLE = "DSPY_JUDGES_CACHE"
NO_CACHE = "none"
FILE = "replies.sqlite"
MAX_BYTES = 2**30
# What is left where the limit is passed, and how many additions there are between two looks.
SHARE_LEFT = 0.8
CHECK_INTERVAL = 1000
# Replies that come fast are written together: so many at most, or all of so many seconds.
WRITTEN_TOGETHER, WRITE_SECONDS = 64, 0.5
# How long another process that writes is waited for.
BUSY_SECONDS = 2.0
SCHEMA = "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, used REAL, record BLOB)"

_log = logging.getLogger(__name__)


def default_folder() -> Path:
    """The user's folder for caches, as the platform has it."""
    home = Path.home()
    if sys.platform == "win32":
        root = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
    elif sys.platform == "darwin":
        root = home / "Library" / "Caches"
    else:
        xdg = os.environ.get("XDG_CACHE_HOME", "")
        root = xdg if Path(xdg).is_absolute() else home / ".cache"
    return Path(root) / "dspy-judges"


def open_cache(name: str | os.PathLike[str] | None = None) -> "ReplyCache | None":
    """Open the cache in the folder `name`, else in DSPY_JUDGES_CACHE's, else the user's own.

    None where that is "none", or where the user's own cannot be used. Raises OptionError where a
    folder that was named cannot be used.
    """
    named = os.fspath(name) if name is not None else os.environ.get(VARIABLE)
    if named == NO_CACHE:
        return None
    try:
        return ReplyCache(Path(named).expanduser() if named else default_folder())
    except (OSError, RuntimeError, sqlite3.Error) as error:
        if named:
            raise OptionError(
                f"the reply cache {named} cannot be used ({error}); name another folder, or "
                f"{NO_CACHE}"
            ) from error
        _log.info("no reply cache: %s", error)
        return None


class ReplyCache:
    """The file in `folder`, which its user alone may read; beyond `max_bytes` the oldest go.

    `n_lookups` and `n_hits` count requests that were looked up, and those that were answered.
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.path = folder / FILE
        self.max_bytes = max_bytes
        self.n_lookups = self.n_hits = self.n_additions = 0
        self._n_checked = self._n_faults = 0
        self._lock = threading.Lock()
        self._hits: list[bytes] = []
        self._unwritten: dict[bytes, bytes] = {}
        self._written_at = 0.0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # SQLite gives the files beside it the same permissions.
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._process = -1
        self._database: sqlite3.Connection | None = None
        self._open_patiently()

    def get(self, key: str) -> Completion | None:
        """What was answered to this request, in this run or in another."""
        self.n_lookups += 1
        hashed = bytes.fromhex(key)
        with self._lock:
            try:
                line = self._unwritten.get(hashed) or self._read(hashed)
                record = read_record(line) if line else None
            except (sqlite3.Error, DamagedRecordError) as error:
                self._complain(error)
                return None
            if record is None or record.key != key:
                return None
            self.n_hits += 1
            self._hits.append(hashed)
            return record.completion()

    def put(self, key: str, completion: Completion, *, endpoint: str, model: str) -> None:
        """Add what was answered."""
        line = encode_record(key, completion, endpoint, model)
        with self._lock:
            self._unwritten[bytes.fromhex(key)] = line
            self.n_additions += 1
            waited = time.monotonic() - self._written_at
            if len(self._unwritten) >= WRITTEN_TOGETHER or waited >= WRITE_SECONDS:
                self._write()

    def close(self) -> None:
        """Write what is not written yet, drop the oldest where there is too much, and close."""
        with self._lock:
            if self._database is None or self._process != os.getpid():
                return
            self._write()
            self._shrink()
            self._database.close()
            self._database = None

    @property
    def note(self) -> str | None:
        """For the end of a run: what it gave and how large it is, if it gave or took anything."""
        return str(self) if self.n_hits or self.n_additions else None

    def __str__(self) -> str:
        size = sum(file.stat().st_size for file in self.folder.glob(f"{FILE}*"))
        folder, home = self.folder, Path("~").expanduser()
        if folder.is_relative_to(home):
            folder = "~" / folder.relative_to(home)
        return (
            f"reply cache: {self.n_hits:,} of {self.n_lookups:,} requests answered from it, "
            f"{max(1, round(size / 1e6)):,} MB in {folder}"
        )

    def __enter__(self) -> "ReplyCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connection(self) -> sqlite3.Connection:
        """This process's own: no connection outlives a fork."""
        if self._database is None or self._process != os.getpid():
            database = sqlite3.connect(
                self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                database.execute("PRAGMA auto_vacuum = INCREMENTAL")
                database.execute("PRAGMA journal_mode = WAL")
                # A kill loses nothing; a power cut the latest replies.
                database.execute("PRAGMA synchronous = NORMAL")
                database.execute(SCHEMA)
            except BaseException:
                database.close()
                raise
            self._database, self._process = database, os.getpid()
        return self._database

    def _open_patiently(self) -> None:
        """Open it, though others that open it for the first time hold it for a moment."""
        until = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection()
                return
            except sqlite3.OperationalError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)

    def _read(self, key: bytes) -> bytes | None:
        rows = self._connection().execute("SELECT record FROM replies WHERE key = ?", (key,))
        row: tuple[bytes] | None = rows.fetchone()
        return row[0] if row else None

    def _write(self) -> None:
        """Write what was added and what was of use, in one transaction."""
        now = time.time()
        added = [(key, now, line) for key, line in self._unwritten.items()]
        used = [(now, key) for key in self._hits]
        self._unwritten, self._hits, self._written_at = {}, [], time.monotonic()
        try:
            with self._connection() as database:
                database.execute("BEGIN IMMEDIATE")
                database.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", added)
                database.executemany("UPDATE replies SET used = ? WHERE key = ?", used)
        except sqlite3.Error as error:
            self._complain(error)
        if self.n_additions - self._n_checked >= CHECK_INTERVAL:
            self._shrink()

    def _shrink(self) -> None:
        """Drop what was used longest ago, where the limit is passed."""
        self._n_checked = self.n_additions
        try:
            database = self._connection()
            (pages,), (page_bytes,), (free,) = (
                database.execute(f"PRAGMA {name}").fetchone()
                for name in ("page_count", "page_size", "freelist_count")
            )
            size = (pages - free) * page_bytes
            if size <= self.max_bytes:
                return
            (rows,) = database.execute("SELECT count(*) FROM replies").fetchone()
            dropped = rows - int(rows * SHARE_LEFT * self.max_bytes / size)
            database.execute(
                "DELETE FROM replies WHERE key IN (SELECT key FROM replies ORDER BY used LIMIT ?)",
                (dropped,),
            )
            database.execute("PRAGMA incremental_vacuum").fetchall()
        except sqlite3.Error as error:
            self._complain(error)

    def _complain(self, error: Exception) -> None:
        """Say what is wrong, once; requests are asked as without a cache."""
        if self._n_faults == 0:
            _log.warning("the reply cache in %s cannot be used: %s", self.folder, error)
        self._n_faults += 1
