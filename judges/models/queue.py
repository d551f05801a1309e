"""A model that answers nothing: it writes requests down for a provider's batch files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from judges.engine.journal import request_key
from judges.models.endpoint import EndpointModel
from judges.models.protocol import Completion, Message, RefusedError, Sampling
from judges.models.wire import Dialect

URL = "/v1/chat/completions"
# OpenAI's limits are 50,000 requests and 200 MB a file.
MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000


class QueueModel:
    """Stands in for an endpoint and writes each distinct request to a part file, once.

    A request's `custom_id` is its journal key, so that an answer finds its row by itself. Every
    ask fails for now; what the journal holds already is not written.
    """

    native_n = True
    has_logprobs: bool | None = None
    in_process = True

    def __init__(self, endpoint: EndpointModel, folder: Path) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint.endpoint
        self.parts: list[Path] = []
        self.written: set[str] = set()
        self._folder = folder
        self._dialect = Dialect.of(endpoint.name)
        self._left = (0, 0)  # requests and bytes that still fit into the last part

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        key = request_key(self.endpoint, self.name, messages, sampling)
        if key not in self.written:
            body = self._dialect.body(self.name, messages, sampling)
            line = {"custom_id": key, "method": "POST", "url": URL, "body": body}
            self._write(json.dumps(line, separators=(",", ":")) + "\n")
            self.written.add(key)
        raise RefusedError("queued for a batch")

    async def close(self) -> None: ...

    def _write(self, line: str) -> None:
        requests, size = self._left
        if not requests or size < len(line):
            self.parts.append(self._folder / f"part-{len(self.parts):03d}.jsonl")
            self.parts[-1].write_bytes(b"")
            requests, size = MOST_REQUESTS, MOST_BYTES
        with self.parts[-1].open("a", encoding="ascii") as part:
            part.write(line)
        self._left = (requests - 1, size - len(line))


class CollectedModel:
    """Stands in for an endpoint once its batches are collected into the journal.

    What the journal lacks failed, for the reason given or because the batch left it out.
    """

    native_n = True
    has_logprobs: bool | None = None
    in_process = True

    def __init__(self, endpoint: EndpointModel, failures: Mapping[str, str]) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint.endpoint
        self._failures = failures

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        key = request_key(self.endpoint, self.name, messages, sampling)
        raise RefusedError(self._failures.get(key, "not answered by the batch; submit again"))

    async def close(self) -> None: ...
