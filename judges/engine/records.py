"""A journal's lines: how a reply is written, read back, and told from what a crash left.

Every line ends with a checksum of all that stands before it, so that a flipped bit or an edited
reply is noticed. Lines of releases that wrote none are read as long as they have the right shape
and stand before all lines that have one.
"""

import errno
import json
import math
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from judges.errors import JudgesError
from judges.models.protocol import Completion, Reply, Token

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
    whole = json.dumps(record, separators=(",", ":")).encode()[:-1]
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
