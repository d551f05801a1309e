"""The append-only record of requests and replies: nothing is paid twice, and any run can resume."""

import errno
import json
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from operator import is_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct, field

from dspy_judges.errors import JudgesError
from judges.client.protocol import (
    Completion,
    Message,
    Reply,
    Sampling,
    Token,
)

if TYPE_CHECKING:
    from hashlib import _Hash as HashState

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows has no advisory locks; O_APPEND must do.
    fcntl = None  # type: ignore[assignment]


RECORD_PREFIX = b'{"key":"'
BLOCK = 1 << 12
_CHECKSUM = re.compile(rb',"sum":"(?P<sum>[0-9a-f]{16})"\}\Z')
_ENCODER = json.JSONEncoder(separators=(",", ":"))

Key = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Count = Annotated[int, Meta(ge=0, lt=2**53)]


class JournalError(JudgesError, ValueError):
    """A file that holds something else than replies; it is left as it is."""


class DamagedRecordError(JudgesError, ValueError):
    """A line that is no whole record, or no longer the one that was written."""


class RecordedReply(Struct, omit_defaults=True):
    """A reply; each of its tokens stands with its alternatives and their log-probabilities."""

    text: str
    finish: str = "stop"
    tokens: tuple[tuple[str, dict[str, float]], ...] = ()


class Record(Struct, omit_defaults=True):
    """One line: a request's key, the endpoint and model that were asked, and the answer.

    `model` is the one that answered, `at` when, in seconds since 1970; `cached` says that the
    answer came from the reply cache, so that this run paid nothing; `sum` is a checksum of what
    stands before it.
    """

    key: Key
    endpoint: str
    model_asked: str = field(name="asked")
    model: str
    at: float
    tokens_in: Count
    tokens_out: Count
    replies: tuple[RecordedReply, ...]
    cached: bool = False

    def completion(self) -> Completion:
        return Completion(
            replies=tuple(
                Reply(
                    text=reply.text,
                    tokens=tuple(Token(text, top) for text, top in reply.tokens),
                    finish_reason=reply.finish,
                )
                for reply in self.replies
            ),
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            model=self.model,
        )


def read_record(line: bytes) -> Record:
    """Decode and check one line; raises DamagedRecordError."""
    line = line.rstrip(b"\r\n")
    match = _CHECKSUM.search(line)
    if match is None or _checksum(line[: match.start()]) != match["sum"]:
        raise DamagedRecordError("its checksum is missing or another")
    try:
        return msgspec.convert(json.loads(line), Record)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise DamagedRecordError(repr(error)) from error


def encode_record(
    key: str, completion: Completion, endpoint: str, model: str, *, cached: bool = False
) -> bytes:
    record = Record(
        key=key,
        endpoint=endpoint,
        model_asked=model,
        model=completion.model,
        at=round(time.time(), 3),
        tokens_in=completion.tokens_in,
        tokens_out=completion.tokens_out,
        replies=tuple(
            RecordedReply(
                text=reply.text,
                finish=reply.finish_reason,
                tokens=tuple((token.text, dict(token.top)) for token in reply.tokens),
            )
            for reply in completion.replies
        ),
        cached=cached,
    )
    content = _ENCODER.encode(msgspec.to_builtins(record)).encode()[:-1]
    return content + b',"sum":"' + _checksum(content) + b'"}\n'


def _checksum(content: bytes) -> bytes:
    return sha256(content).hexdigest()[:16].encode()


class Line(NamedTuple):
    """Where a record starts, what it holds (None: damaged), and whether a line break ends it."""

    offset: int
    record: Record | None
    ended: bool


def read_records(path: Path) -> Iterator[Line]:
    """Yield every line but blank ones; a torn record and a later one that share a line are two."""
    from data.tables.encoding import open_regular  # judging a text imports no data

    offset = 0
    with open_regular(path) as lines:
        for line in lines:
            start = max(0, line.rfind(RECORD_PREFIX))
            if line.strip():
                if start:
                    # A line that lost its end stands before it.
                    yield Line(offset, None, ended=True)
                record = None
                with suppress(DamagedRecordError):
                    record = read_record(line[start:])
                yield Line(offset + start, record, ended=line.endswith(b"\n"))
            offset += len(line)


class Journal:
    """A file of replies, safe to kill, safe to share between processes and threads.

    A last line torn by a crash is cut off at the next opening. A damaged line is passed over, which
    stderr is told, and what it held is asked again; `n_damaged` counts them, `n_cached` answers
    from the reply cache. Only offsets are kept in memory. Records that another process appends
    after the opening are not seen.
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
        self.n_damaged = self.n_cached = 0
        with self._locked():
            line = None
            for line in read_records(self.path):
                if line.record is None:
                    self.n_damaged += 1
                else:
                    self._offsets[bytes.fromhex(line.record.key)] = line.offset
                    self.n_cached += line.record.cached
            start = _read_at(self._file, len(RECORD_PREFIX), 0)
            # Nothing is mended before: another kind of file is left as it is.
            if not (self._offsets or RECORD_PREFIX.startswith(start)):
                self.close()
                raise JournalError(f"{self.path} is no reply journal; name another file")
            if line is not None and not line.ended and line.record is None:
                os.ftruncate(self._file, line.offset)
                self.n_damaged -= 1
            elif line is not None and not line.ended:
                write_all(self._file, b"\n")
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
        while chunk := _read_at(self._file, BLOCK, offset):
            line, end, _ = chunk.partition(b"\n")
            chunks.append(line)
            if end:
                break
            offset += len(chunk)
        try:
            return read_record(b"".join(chunks)).completion()
        except DamagedRecordError:
            return None  # damaged since it was opened: ask again

    def put(
        self, key: str, completion: Completion, *, endpoint: str, model: str, cached: bool = False
    ) -> None:
        """Append one answer in a single write."""
        line = encode_record(key, completion, endpoint, model, cached=cached)
        with self._locked():
            size = os.fstat(self._file).st_size
            if size and size != self._end and _read_at(self._file, 1, size - 1) != b"\n":
                # Another process died in the middle of a line: do not write on to it.
                line = b"\n" + line
            start = size + line.startswith(b"\n")
            try:
                write_all(self._file, line)
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self.path)) from error
            self._offsets[bytes.fromhex(key)] = start
            self._end = size + len(line)
            self.n_cached += cached

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

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone among this process's threads and, where the system has locks, among processes."""
        with self._lock:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                if fcntl is not None and self._file >= 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)


def _read_at(file: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file, size, offset)
    os.lseek(file, offset, os.SEEK_SET)  # Windows
    return os.read(file, size)


def write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)
    if written != len(data):
        raise OSError(errno.ENOSPC, f"only {written} of {len(data)} bytes could be written")


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalSummary:
    """A journal's requests; the tokens leave out those that the reply cache answered."""

    n_requests: int
    n_cached: int
    tokens_in: int
    tokens_out: int


def describe(path: str | os.PathLike[str]) -> JournalSummary:
    """Summarize a journal without changing it; raises OSError."""
    records = [line.record for line in read_records(Path(path)) if line.record is not None]
    paid = [record for record in records if not record.cached]
    return JournalSummary(
        n_requests=len(records),
        n_cached=len(records) - len(paid),
        tokens_in=sum(record.tokens_in for record in paid),
        tokens_out=sum(record.tokens_out for record in paid),
    )


def request_key(endpoint: str, model: str, messages: Sequence[Message], sampling: Sampling) -> str:
    """Hash everything that determines a reply; samples and fresh asks differ by their seed."""
    parts = [*_identity(endpoint, model, sampling), *_parts(messages)]
    return sha256(_joined(parts)).hexdigest()


class RequestHasher:
    """`request_key` for requests that share all messages but the last, which are hashed once.

    A prompt may show a thousand examples, the same for every row.
    """

    def __init__(self) -> None:
        self._shared: deque[tuple[tuple[str, ...], list[str], HashState]] = deque(maxlen=8)

    def key(
        self, endpoint: str, model: str, messages: Sequence[Message], sampling: Sampling
    ) -> str:
        state = self._state(_identity(endpoint, model, sampling), _parts(messages[:-1])).copy()
        state.update(_joined(_parts(messages[-1:])))
        return state.hexdigest()

    def _state(self, identity: tuple[str, ...], shared: list[str]) -> "HashState":
        # From a copy, since another thread may add to it.
        for hashed, parts, state in list(self._shared):
            # The very same texts: to compare long ones letter by letter takes as long as hashing.
            same = len(parts) == len(shared) and all(map(is_, parts, shared))
            if same and hashed == identity:
                return state
        state = sha256(_joined([*identity, *shared]))
        self._shared.appendleft((identity, shared, state))
        return state


def _identity(endpoint: str, model: str, sampling: Sampling) -> tuple[str, str, str]:
    temperature = None if sampling.temperature is None else float(sampling.temperature)
    draw: tuple[object, ...] = (
        temperature,
        sampling.n,
        sampling.top_logprobs,
        sampling.max_tokens,
        sampling.seed,
    )
    if sampling.reasoning_effort is not None:
        draw = (*draw, sampling.reasoning_effort)
    return endpoint, model, ",".join(map(str, draw))


def _parts(messages: Sequence[Message]) -> list[str]:
    return [part for message in messages for part in (message["role"], message["content"])]


def _joined(parts: Sequence[str]) -> bytes:
    """Each part behind its length, so that no two requests come out the same."""
    return "".join([f"{len(part)}:{part}" for part in parts]).encode("utf-8", "surrogatepass")
