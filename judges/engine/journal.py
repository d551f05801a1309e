"""The append-only record of every reply, so that nothing is paid twice and any run can resume.

One JSON object a line, keyed by a hash over everything that determines the reply. The file holds
replies and counts: no prompt and no secret.
"""

import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from hashlib import sha256
from operator import is_
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from judges.engine.contents import Contents, describe
from judges.engine.records import (
    BLOCK,
    DamagedRecordError,
    completion_of,
    is_journal,
    line_of,
    read_at,
    read_record,
    records,
    repair,
    write_all,
)
from judges.errors import JudgesError
from judges.models.protocol import Completion, Message, Sampling

if TYPE_CHECKING:
    from hashlib import _Hash as HashState

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no advisory locks; O_APPEND must do.
    fcntl = None  # type: ignore[assignment]

__all__ = ["Contents", "Journal", "JournalError", "RequestHasher", "describe", "request_key"]


def request_key(endpoint: str, model: str, messages: Sequence[Message], sampling: Sampling) -> str:
    """Hash everything that determines a reply; samples and fresh asks differ by their seed."""
    parts = [*_head(endpoint, model, sampling), *_parts(messages)]
    return sha256(_bytes_of(parts)).hexdigest()


class RequestHasher:
    """`request_key` for requests that share all messages but the last, which are hashed once.

    A prompt may show a thousand examples, the same for every row.
    """

    def __init__(self) -> None:
        self._shared: deque[tuple[tuple[str, ...], list[str], HashState]] = deque(maxlen=8)

    def key(
        self, endpoint: str, model: str, messages: Sequence[Message], sampling: Sampling
    ) -> str:
        head = _head(endpoint, model, sampling)
        state = self._state(head, _parts(messages[:-1])).copy()
        state.update(_bytes_of(_parts(messages[-1:])))
        return state.hexdigest()

    def _state(self, head: tuple[str, ...], shared: list[str]) -> "HashState":
        # From a copy, since another thread may add to it.
        for other, known, state in list(self._shared):
            # The very same texts: to compare long ones letter by letter takes as long as hashing.
            if other == head and len(known) == len(shared) and all(map(is_, known, shared)):
                return state
        state = sha256(_bytes_of([*head, *shared]))
        self._shared.appendleft((head, shared, state))
        return state


def _head(endpoint: str, model: str, sampling: Sampling) -> tuple[str, ...]:
    warmth = sampling.temperature if sampling.temperature is None else float(sampling.temperature)
    drawn = f"{warmth},{sampling.n},{sampling.top_logprobs},{sampling.max_tokens},{sampling.seed}"
    return endpoint, model, drawn


def _parts(messages: Sequence[Message]) -> list[str]:
    return [part for message in messages for part in (message["role"], message["content"])]


def _bytes_of(parts: Sequence[str]) -> bytes:
    """Each part behind its length, so that no two requests make the same whole."""
    return "".join([f"{len(part)}:{part}" for part in parts]).encode("utf-8", "surrogatepass")


class JournalError(JudgesError, ValueError):
    """A file that holds something else than replies; it is left as it is."""


class Journal:
    """A file of replies, safe to kill, safe to share between processes and threads.

    A last line torn by a crash is cut off at the next opening. A damaged line is passed over, which
    stderr is told, and what it held is asked again; `n_damaged` counts them. Only offsets are kept
    in memory. Records that another process appends after the opening are not seen.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if self.path.exists() and not self.path.is_file():
            raise JournalError(f"{self.path} is no regular file; name another")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.open(self.path, flags, 0o644)
        self._lock = threading.Lock()
        self._offsets: dict[bytes, int] = {}
        self.n_damaged = 0
        with self._locked():
            # Asked before anything is mended: in another kind of file nothing is ours to mend.
            ours = is_journal(self.path, self._file)
            if ours:
                repair(self._file)
                for offset, record in records(self.path):
                    if record is None:
                        self.n_damaged += 1
                    else:
                        self._offsets[bytes.fromhex(record["key"])] = offset
        if not ours:
            self.close()
            raise JournalError(f"{self.path} is no reply journal; name another file")
        if self.n_damaged:
            lines = (
                "1 damaged line is"
                if self.n_damaged == 1
                else f"{self.n_damaged} damaged lines are"
            )
            print(f"{self.path}: {lines} passed over and asked again", file=sys.stderr)

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, key: str) -> bool:
        return bytes.fromhex(key) in self._offsets

    def get(self, key: str) -> Completion | None:
        """Return what was answered, or None if this was never asked."""
        offset = self._offsets.get(bytes.fromhex(key))
        if offset is None:
            return None
        chunks = []
        while chunk := read_at(self._file, BLOCK, offset):
            line, end, _ = chunk.partition(b"\n")
            chunks.append(line)
            if end:
                break
            offset += len(chunk)
        try:
            return completion_of(read_record(b"".join(chunks)))
        except DamagedRecordError:
            return None  # damaged since it was opened: ask again

    def put(self, key: str, completion: Completion, *, endpoint: str, model: str) -> None:
        """Append one answer in a single write."""
        line = line_of(key, completion, endpoint, model)
        with self._locked():
            size = os.fstat(self._file).st_size
            if size and read_at(self._file, 1, size - 1) != b"\n":
                # Another process died in the middle of a line: do not write on to it.
                line = b"\n" + line
            start = size + line.startswith(b"\n")
            try:
                write_all(self._file, line)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            self._offsets[bytes.fromhex(key)] = start

    def flush(self) -> None:
        """Make what was written survive a power cut."""
        if self._file >= 0:
            os.fsync(self._file)

    def close(self) -> None:
        if self._file >= 0:
            self.flush()
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _locked(self) -> "_Locked":
        return _Locked(self._lock, self._file)


class _Locked:
    """Alone among this process's threads and, where the system has locks, among processes."""

    __slots__ = ("_file", "_lock")

    def __init__(self, lock: threading.Lock, file: int) -> None:
        self._lock = lock
        self._file = file

    def __enter__(self) -> None:
        self._lock.acquire()
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        if fcntl is not None:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._lock.release()
