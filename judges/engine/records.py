"""A journal's lines: how a reply is written, read back, and told from what a crash left."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from judges.models.protocol import Completion, Reply, Token

START = b'{"key":"'
KEY_DIGITS = 64
BLOCK = 1 << 12


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each whole record's offset and line; what a crash left in between is passed over."""
    offset = 0
    with path.open("rb") as lines:
        for line in lines:
            # A torn record and a later one may share a line; the later one is whole.
            start = line.rfind(START)
            if start >= 0 and line.endswith(b"}\n") and _is_key(line[start:]):
                yield offset + start, line[start:]
            offset += len(line)


def is_journal(file: int) -> bool:
    """Whether a file begins as a journal does, or is empty, or was torn right at its beginning."""
    head = read_at(file, len(START), 0)
    return START.startswith(head)


def repair(file: int) -> None:
    """Cut a torn last line off; one that lacks its newline alone is ended."""
    size = os.fstat(file).st_size
    tail, start = b"", size
    while start and b"\n" not in tail:
        step = min(BLOCK, start)
        start -= step
        tail = read_at(file, step, start) + tail
    line = tail.rpartition(b"\n")[2]
    if not line:
        return
    try:
        json.loads(line)
    except ValueError:
        os.ftruncate(file, size - len(line))
    else:
        write_all(file, b"\n")


def read_at(file: int, size: int, offset: int) -> bytes:
    if hasattr(os, "pread"):
        return os.pread(file, size, offset)
    os.lseek(file, offset, os.SEEK_SET)  # Windows
    return os.read(file, size)


def completion_of(record: dict[str, Any]) -> Completion:
    """Rebuild an answer from its record."""
    replies = tuple(
        Reply(
            text=reply["text"],
            finish_reason=reply.get("finish", "stop"),
            tokens=tuple(Token(text, top) for text, top in reply.get("tokens", ())),
        )
        for reply in record["replies"]
    )
    return Completion(
        replies=replies,
        tokens_in=record["tokens_in"],
        tokens_out=record["tokens_out"],
        model=record["model"],
    )


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
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


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
        raise OSError(f"only {written} of {len(data)} bytes of the journal could be written")


def key_of(line: bytes) -> bytes:
    return bytes.fromhex(line[len(START) : len(START) + KEY_DIGITS].decode())


def _is_key(line: bytes) -> bool:
    try:
        return len(key_of(line)) * 2 == KEY_DIGITS
    except ValueError:
        return False
