"""Half price: a provider's batch file, submitted, looked after and collected, and all resumable.

batch = Batch(folder, lm="openai/gpt-4.1-mini")
... judge the rows with batch.queue(), which writes requests down
batch.submit()                       # a day may pass
Batch(folder).refresh().done
failures = batch.collect(journal)    # answers go into the journal
... judge the rows with batch.collected(failures) and the journal
"""

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from data.tables.atomic_write import write_atomically
from judges.client import open_model
from judges.client.journal import Journal, request_key
from judges.client.keys import read_key
from judges.client.openai import LONGEST_EXCERPT, EndpointModel, read_error, retry_after_of
from judges.client.prices import Price, token_bound
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Sampling,
    UnreachableError,
    is_reasoning,
)
from judges.client.sampler import REASONING_FACTOR

if TYPE_CHECKING:
    from openai import OpenAI

URL = "/v1/chat/completions"
# OpenAI's limits are 50,000 requests and 200 MB a file.
MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
STATE = "batch.json"
REQUESTS = "requests.jsonl"
RUNNING = ("validating", "in_progress", "finalizing", "cancelling")
MARK = "judges_run"
KEY = re.compile(r"[0-9a-f]{64}")


class State(Struct, kw_only=True):
    """A batch, which `run` marks at the provider's side, and how far the provider has got with it.

    `endpoint` is where it is. The folder chooses none: its user names it again at each step.
    """

    run: str
    lm: str
    endpoint: str = ""
    n_requests: int = 0
    batch_id: str | None = None
    status: str = "not submitted"
    n_completed: int = 0
    collected: bool = False

    @property
    def done(self) -> bool:
        return self.batch_id is not None and self.status not in RUNNING

    def __str__(self) -> str:
        return (
            f"{self.lm}: {self.n_completed} of {self.n_requests} requests answered; "
            f"{self.batch_id or 'batch'} {self.status}"
        )


class BatchModel:
    """Stands in for an endpoint: writes each request down once, or gives the reason it failed for.

    A request's `custom_id` is its journal key, so that an answer finds its row by itself.
    """

    native_n = True
    has_logprobs: bool | None = None
    in_process = True

    def __init__(
        self, batch: "Batch", failures: Mapping[str, str] | None, max_tokens: int | None
    ) -> None:
        endpoint = batch.endpoint
        self.name, self.endpoint = endpoint.name, endpoint.endpoint
        self.cacheable = failures is None  # what an earlier run has asked need not be queued
        self.written: set[str] = set()
        self._batch, self._failures, self._max_tokens = batch, failures, max_tokens

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        key = request_key(self.endpoint, self.name, messages, sampling)
        if self._failures is not None:
            raise RefusedError(
                self._failures.get(key, "not answered by the batch; --batch-api submit asks again")
            )
        if key not in self.written:
            factor = REASONING_FACTOR if is_reasoning(self.name) else 1
            limit = self._max_tokens or factor * sampling.max_tokens
            sampling = dataclasses.replace(sampling, max_tokens=limit)
            body = self._batch.endpoint.spelling.body(messages, sampling)
            self._batch.write({"custom_id": key, "method": "POST", "url": URL, "body": body})
            self.written.add(key)
        raise RefusedError("queued for a batch")

    async def close(self) -> None: ...


class Batch:
    """The batch of one run in a folder; `waiting` where it is queued and not collected yet.

    Raises FatalModelError without `lm` where nothing was submitted, for a model that is not
    openai/NAME, and where the batch is at another endpoint than the one that `api_base` names.
    """

    def __init__(
        self,
        folder: Path,
        *,
        lm: str | None = None,
        api_base: str | None = None,
        api_key_env: str | None = None,
    ) -> None:
        self.folder, self._api_base = folder, api_base
        self.state = _read_state(folder / STATE, lm)
        lm = self.state.lm
        model = open_model(lm, api_base=api_base, api_key_env=api_key_env)
        if not lm.startswith("openai/") or not isinstance(model, EndpointModel):
            raise FatalModelError(f"{lm}: a batch needs an OpenAI-compatible model, openai/NAME")
        if self.state.endpoint not in ("", model.endpoint):
            raise FatalModelError(
                f"{folder}: its batch is at {self.state.endpoint}, and not at {model.endpoint}: "
                "say which to ask, as in --api-base (in code: api_base=...)"
            )
        self.endpoint, self.state.endpoint = model, model.endpoint
        self.waiting = self.state.n_requests > 0 and not self.state.collected

    def queue(self, *, max_tokens: int | None = None) -> BatchModel:
        """A model that writes requests down; what was collected before is forgotten."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / REQUESTS).unlink(missing_ok=True)
        self.state = State(run=token_hex(8), lm=self.state.lm, endpoint=self.state.endpoint)
        return BatchModel(self, None, max_tokens)

    def collected(self, failures: Mapping[str, str]) -> BatchModel:
        """A model for what the journal does not answer: it gives the reason and asks nothing."""
        return BatchModel(self, failures, None)

    def write(self, request: Mapping[str, object]) -> None:
        """Append a request; raises FatalModelError beyond what a batch takes."""
        line = json.dumps(request, separators=(",", ":")).encode() + b"\n"
        with (self.folder / REQUESTS).open("ab") as file:
            file.write(line)
            self.state.n_requests += 1
            if self.state.n_requests > MOST_REQUESTS or file.tell() > MOST_BYTES:
                raise FatalModelError(
                    f"a batch takes {MOST_REQUESTS:,} requests and {MOST_BYTES:,} bytes: split the "
                    "table"
                )

    def worst_cost(self, price: Price) -> float:
        """The most that the requests can cost at this price, with each reply at its longest."""
        with (self.folder / REQUESTS).open("rb") as file:
            bodies = [json.loads(line)["body"] for line in file]
        return math.fsum(
            price.worst(
                token_bound(body["messages"]),
                body.get("n", 1) * next(body[name] for name in body if name.endswith("_tokens")),
            )
            for body in bodies
        )

    def submit(self) -> State:
        """Upload the requests and start the batch, once."""
        self._save()
        if self.state.batch_id is None:
            with self._client() as client:
                # A run killed between starting a batch and noting it must not start it twice.
                started = (
                    batch
                    for batch in client.batches.list(limit=100)
                    if (batch.metadata or {}).get(MARK) == self.state.run
                )
                self._note(next(started, None) or self._start(client))
        return self.state

    def refresh(self) -> State:
        """The state, as the provider tells it now."""
        with self._client() as client:
            self._note(self._retrieve(client))
        return self.state

    def collect(self, journal: Journal) -> Mapping[str, str]:
        """Put answers into the journal; returns the reasons of requests that failed, by their keys.

        Safe to repeat. Raises FatalModelError while a batch is under way, or was never submitted.
        """
        failures: dict[str, str] = {}
        with self._client() as client:
            batch = self._retrieve(client)
            self._note(batch)
            if not self.state.done:
                raise FatalModelError(f"{self.folder}: the batch is not finished; {self.state}")
            for file in filter(None, (batch.output_file_id, batch.error_file_id)):
                for key, answer in _answers(client, file):
                    if reason := self._record(key, answer, journal):
                        failures[key] = self.endpoint.secrets.redact(reason)
        self.state.collected = True
        self._save()
        return failures

    def _retrieve(self, client: "OpenAI") -> Any:
        if self.state.batch_id is None:
            raise FatalModelError(f"{self.folder}: not submitted; --batch-api submit goes on")
        return client.batches.retrieve(self.state.batch_id)

    def _start(self, client: "OpenAI") -> Any:
        with (self.folder / REQUESTS).open("rb") as content:
            uploaded = client.files.create(file=content, purpose="batch")
        return client.batches.create(
            input_file_id=uploaded.id,
            endpoint=URL,  # type: ignore[arg-type]
            completion_window="24h",
            metadata={MARK: self.state.run},
        )

    def _note(self, batch: Any) -> None:
        self.state.batch_id, self.state.status = batch.id, batch.status
        self.state.n_completed = batch.request_counts.completed if batch.request_counts else 0
        self._save()

    def _record(self, key: str, answer: Mapping[str, Any], journal: Journal) -> str | None:
        """Put one answer into the journal; returns why it is none."""
        response = _mapping(answer.get("response"))
        body = _mapping(response.get("body"))
        if answer.get("error") or response.get("status_code") != 200:
            error = _mapping(answer.get("error") or body.get("error"))
            reason = str(error.get("message") or f"status {response.get('status_code')}")
            return f"the batch failed it: {' '.join(reason.split())[:LONGEST_EXCERPT]}"
        try:
            completion = self.endpoint.read_answer(json.dumps(body).encode(), (), Sampling())
        except (ModelError, RecursionError) as error:
            return f"the batch's answer is unusable: {error}"
        if key not in journal:
            model = self.endpoint
            journal.put(key, completion, endpoint=model.endpoint, model=model.name)
        return None

    def _save(self) -> None:
        text = msgspec.json.format(msgspec.json.encode(self.state), indent=1)
        write_atomically(self.folder / STATE, text + b"\n", overwrite=True)

    @contextmanager
    def _client(self) -> Iterator["OpenAI"]:
        """The official client; its errors become ours, in one line without the key."""
        import openai

        key = read_key(self.endpoint.key_variable) or "none"
        # A redirect would take the documents to a host that nobody named.
        http_client = openai.DefaultHttpxClient(follow_redirects=False)
        try:
            with openai.OpenAI(base_url=self._api_base, api_key=key, http_client=http_client) as c:
                yield c
        except openai.APIStatusError as error:
            answer, wait = error.response.content, retry_after_of(error.response.headers)
            raise read_error(self.endpoint, error.status_code, wait, answer) from None
        except openai.APIConnectionError:
            raise UnreachableError(f"no connection to {self.endpoint.endpoint}") from None


def _read_state(path: Path, lm: str | None) -> State:
    """What was written down, or a fresh state for `lm`."""
    if not path.exists():
        if lm is None:
            raise FatalModelError(f"{path.parent}: no batch there; submit first")
        return State(run="", lm=lm)
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except ValueError as error:
        raise FatalModelError(f"{path}: holds no state of a batch ({error})") from error


def _answers(client: "OpenAI", file: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """A file's answers by their keys; what cannot be read, or was not asked, is passed over."""
    with client.files.with_streaming_response.content(file) as content:
        for line in content.iter_lines():
            answer: object = None
            with suppress(ValueError, RecursionError):
                answer = json.loads(line)
            if isinstance(answer, dict) and KEY.fullmatch(str(answer.get("custom_id"))):
                yield str(answer["custom_id"]), answer


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
