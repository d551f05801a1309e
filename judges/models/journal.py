"""The append-only record of requests and replies: nothing is paid twice, and any run can resume."""

import errno
import json
import math
import os
import re
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from judges.errors import JudgesError
from judges.protocol import Completion, Message, Reply, Sampling, Token

if TYPE_CHECKING:
    from hashlib import _Hash as HashState

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no advisory locks; O_APPEND must do.
    fcntl = None  # type: ignore[assignment]


__all__ = ["Contents", "Journal", "JournalError", "RequestHasher", "describe", "request_key"]


START = b'{"key":"'
KEY_DIGITS = 64
BLOCK = 1 << 12
_CHECKSUM = re.compile(rb',"sum":"(?P<sum>[0-9a-f]{16})"\}\Z')


_OLD_NAMES = frozenset(
    ("key", "endpoint", "asked", "model", "at", "tokens_in", "tokens_out", "replies")
)


class DamagedRecordError(JudgesError, ValueError):
    """A line that is no whole record, or no longer the one that was written."""


def records(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """Yield each line's offset and record, None where it is damaged; blank lines are passed over.

    The offset is the record's own: a torn line and a later whole one may share a line.
    """
    offset, checked = 0, False
    with path.open("rb") as lines:
        for line in lines:
            start = max(0, line.rfind(START))
            if line.strip():
                if start:
                    # A line that lost its end stands before it.
                    yield offset, None
                record: dict[str, Any] | None = None
                with suppress(DamagedRecordError):
                    record = read_record(line[start:])
                checked = checked or (record is not None and "sum" in record)
                yield offset + start, record if record and checked == ("sum" in record) else None
            offset += len(line)


def read_record(line: bytes) -> dict[str, Any]:
    """Decode and check one line; raises DamagedRecordError."""
    line = line.rstrip(b"\r\n")
    match = _CHECKSUM.search(line)
    if match and checksum(line[: match.start()]) != match["sum"]:
        raise DamagedRecordError("its checksum is another")
    try:
        record = json.loads(line)
        if not match and record.keys() - _OLD_NAMES:
            raise DamagedRecordError("a name that no release wrote")
        if len(bytes.fromhex(record["key"])) * 2 != KEY_DIGITS:
            raise DamagedRecordError("no key")
        if not all(isinstance(record[name], str) for name in ("endpoint", "asked", "model")):
            raise DamagedRecordError("no model")
        if not isinstance(record["at"], int | float) or not math.isfinite(record["at"]):
            raise DamagedRecordError("no time")
        completion_of(record)
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise DamagedRecordError(repr(error)) from error
    return dict(record)


def checksum(content: bytes) -> bytes:
    return sha256(content).hexdigest()[:16].encode()


def is_journal(path: Path, file: int) -> bool:
    """Whether a file is empty, begins as a journal does, or holds a record further on."""
    head = read_at(file, len(START), 0)
    return START.startswith(head) or any(record is not None for _, record in records(path))


def repair(file: int) -> None:
    """Cut a torn last line off; one that lacks its newline alone is ended."""
    size = os.fstat(file).st_size
    tail, start = [b""], size
    while start and b"\n" not in tail[-1]:
        step = min(BLOCK, start)
        start -= step
        tail.append(read_at(file, step, start))
    line = b"".join(reversed(tail)).rpartition(b"\n")[2]
    if not line:
        return
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        os.ftruncate(file, size - len(line))
    else:
        write_all(file, b"\n")


def read_at(file: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file, size, offset)
    os.lseek(file, offset, os.SEEK_SET)  # Windows
    return os.read(file, size)


def completion_of(record: dict[str, Any]) -> Completion:
    """Rebuild an answer from its record; raises ValueError, KeyError or TypeError where damaged."""
    tokens_in, tokens_out, model = record["tokens_in"], record["tokens_out"], record["model"]
    for count in (tokens_in, tokens_out):
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**53:
            raise DamagedRecordError(f"{count!r} is no count of tokens")
    return Completion(
        replies=tuple(_read_reply(reply) for reply in record["replies"]),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        model=_text(model),
    )


def _read_reply(reply: dict[str, Any]) -> Reply:
    return Reply(
        text=_text(reply["text"]),
        finish_reason=_text(reply.get("finish", "stop")),
        tokens=tuple(
            Token(_text(text), {_text(word): float(p) for word, p in top.items()})
            for text, top in reply.get("tokens", ())
        ),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise DamagedRecordError("no text where one belongs")
    return value


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def line_of(key: str, completion: Completion, endpoint: str, model: str) -> bytes:
    record = {
        "key": key,
        "endpoint": endpoint,
        "asked": model,
        "model": completion.model,
        "at": round(time.time(), 3),
        "tokens_in": completion.tokens_in,
        "tokens_out": completion.tokens_out,
        "replies": [_reply(reply) for reply in completion.replies],
    }
    whole = _ENCODER.encode(record).encode()[:-1]
    return whole + b',"sum":"' + checksum(whole) + b'"}\n'


def _reply(reply: Reply) -> dict[str, Any]:
    record: dict[str, Any] = {"text": reply.text}
    if reply.finish_reason != "stop":
        record["finish"] = reply.finish_reason
    if reply.tokens:
        record["tokens"] = [[token.text, dict(token.top)] for token in reply.tokens]
    return record


def write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """A journal's requests and replies, tokens, models and damage.

    `models` counts requests by "model at endpoint"; `n_repeated` counts keys recorded twice, as
    two processes may do; `n_damaged` counts lines that hold no whole record, or another
    than was written.
    """

    path: str
    n_bytes: int
    n_requests: int
    n_replies: int
    n_repeated: int
    n_damaged: int
    tokens_in: int
    tokens_out: int
    models: Mapping[str, int]
    first: str | None
    last: str | None

    def __str__(self) -> str:
        lines = [
            f"{self.path}: {self.n_requests} requests, {self.n_replies} replies,"
            f" {self.tokens_in} tokens in, {self.tokens_out} out, {self.n_bytes} bytes"
        ]
        lines += [f"  {count} by {model}" for model, count in self.models.items()]
        if self.first:
            lines.append(f"  from {self.first} to {self.last}")
        if self.n_repeated:
            lines.append(f"  {self.n_repeated} asked twice")
        if self.n_damaged:
            lines.append(
                f"  {self.n_damaged} damaged line{'s' * (self.n_damaged > 1)}: passed over, and"
                " asked again where needed"
            )
        return "\n".join(lines)


def describe(path: str | os.PathLike[str]) -> Contents:
    """Summarize a journal without changing it; raises FileNotFoundError."""
    file = Path(path)
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    models: Counter[str] = Counter()
    keys: set[str] = set()
    times: list[float] = []
    n_replies = tokens_in = tokens_out = 0
    n_damaged = 0
    for _, record in records(file):
        if record is None:
            n_damaged += 1
            continue
        keys.add(record["key"])
        models[f"{record['asked']} at {record['endpoint']}"] += 1
        n_replies += len(record["replies"])
        tokens_in += record["tokens_in"]
        tokens_out += record["tokens_out"]
        times = [min([*times[:1], record["at"]]), max([*times[1:], record["at"]])]
    return Contents(
        path=str(path),
        n_bytes=file.stat().st_size,
        n_requests=models.total(),
        n_replies=n_replies,
        n_repeated=models.total() - len(keys),
        n_damaged=n_damaged,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        models=dict(models.most_common()),
        first=_date(times[0]) if times else None,
        last=_date(times[1]) if times else None,
    )


def _date(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):
        return "a time that is none"


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
            raise JournalError(f"{self.path} is not a regular file; name another")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = os.open(self.path, flags, 0o644)
        self._lock = threading.Lock()
        self._offsets: dict[bytes, int] = {}
        self._end = -1  # of the last line that this journal wrote
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
            if size and size != self._end and read_at(self._file, 1, size - 1) != b"\n":
                # Another process died in the middle of a line: do not write on to it.
                line = b"\n" + line
            start = size + line.startswith(b"\n")
            try:
                write_all(self._file, line)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            self._offsets[bytes.fromhex(key)] = start
            self._end = size + len(line)

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

    def __exit__(self, *_: object) -> None:
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
