"""Say what a journal holds."""

import errno
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from judges.engine.records import records


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
        raise OSError(errno.EINVAL, "no regular file, which alone is read", str(file))
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
