"""Half price: a provider's batch file, submitted, looked after, and collected into a run's store.

A table is judged twice: by `queue`, which writes its requests down, and after `collect`, when the
store answers. Beside OUT stand OUT.batch.jsonl, the requests, and OUT.batch.json, how far the batch
has got.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct

from data.tables.atomic_write import write_atomically
from dspy_judges.errors import OptionError
from judges.client import open_model
from judges.client.keys import read_key
from judges.client.openai import LONGEST_EXCERPT, EndpointModel, read_error
from judges.client.prices import Price, token_bound
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Sampling,
)
from judges.client.store import ANSWERED, Store, request_key

if TYPE_CHECKING:
    from openai import OpenAI

URL = "/v1/chat/completions"
DISCOUNT = 0.5  # of the usual price
ENDED = ("completed", "failed", "expired", "cancelled")
MARK = "judges_run"


class State(Struct, kw_only=True):
    """How far a batch has got; `run`, empty until it is begun, marks it at the provider's side."""

    run: str = ""
    lm: str
    endpoint: str
    n_requests: int = 0
    batch_id: str | None = None
    status: str = "not submitted"
    n_completed: int = 0
    files: list[str] = []

    @property
    def done(self) -> bool:
        return self.status in ENDED

    def __str__(self) -> str:
        return (
            f"{self.lm}: {self.n_completed} of {self.n_requests} requests answered; "
            f"{self.batch_id or 'batch'} {self.status}"
        )


class QueueModel:
    """Stands in for an endpoint: answers what the run's store knows, and writes the rest down.

    A request's `custom_id` is its key in the store, so that an answer finds its row by itself.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(self, model: EndpointModel, store: Store, path: Path, price: Price | None) -> None:
        self.name, self.endpoint = model.name, model.endpoint
        self.queued: set[bytes] = set()
        self.worst_cost = 0.0
        self._model, self._store, self._path, self._price = model, store, path, price
        path.write_bytes(b"")

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """A known answer; raises RefusedError."""
        key = request_key(self.endpoint, self.name, messages, sampling)
        if (known := self._store.get(key)) is not None:
            return known
        if key not in self.queued:
            self.queued.add(key)
            tokens = token_bound(messages), sampling.n * sampling.max_tokens
            self.worst_cost += DISCOUNT * self._price.worst(*tokens) if self._price else math.inf
            body = self._model.spelling.body(messages, sampling)
            request = {"custom_id": key.hex(), "method": "POST", "url": URL, "body": body}
            with self._path.open("ab") as file:
                file.write(msgspec.json.encode(request) + b"\n")
        raise RefusedError("queued for a batch")

    async def close(self) -> None: ...

    def check(self, max_calls: int | None, max_cost: float | None) -> None:
        """Raise OptionError where what is queued may exceed these limits."""
        n = len(self.queued)
        if max_calls is not None and n > max_calls:
            raise OptionError(f"{n:,} requests are more than max_calls {max_calls:,}")
        if max_cost is not None and self.worst_cost > max_cost:
            raise OptionError(
                f"the batch may cost ${self.worst_cost:.4f} with each reply at its longest (inf: "
                f"give the price, --price IN,OUT); max_cost is ${max_cost:g}"
            )


class Batch:
    """The batch of the run that writes the file `out`.

    Raises FatalModelError where it was begun with another model or endpoint: no file chooses where
    texts and keys go.
    """

    def __init__(
        self, out: Path, lm: str, *, api_base: str | None = None, api_key_env: str | None = None
    ) -> None:
        model = open_model(lm, api_base=api_base, api_key_env=api_key_env)
        if not lm.startswith("openai/") or not isinstance(model, EndpointModel):
            raise FatalModelError(f"{lm}: a batch needs an OpenAI-compatible model, openai/NAME")
        self._model, self._api_base = model, api_base
        self._requests = out.with_name(f"{out.name}.batch.jsonl")
        self._file = out.with_name(f"{out.name}.batch.json")
        self.state = State(lm=lm, endpoint=model.endpoint)
        if self._file.exists():
            try:
                self.state = msgspec.json.decode(self._file.read_bytes(), type=State)
            except msgspec.DecodeError as error:
                raise FatalModelError(f"{self._file}: no state of a batch ({error})") from None
        if (self.state.lm, self.state.endpoint) != (lm, model.endpoint):
            raise FatalModelError(
                f"{self._file}: its batch asks {self.state.lm} at {self.state.endpoint}: name them "
                "(--lm, --api-base), or delete that file to forget the batch"
            )

    def queue(self, store: Store, price: Price | None = None) -> QueueModel:
        """A model that writes requests down, for `submit`; `price` is the usual one."""
        return QueueModel(self._model, store, self._requests, price)

    def submit(self) -> State:
        """Upload the requests and start the batch, once."""
        if not self.state.run:
            self.state.run, self.state.n_requests = token_hex(8), len(self._keys())
            self._save()
        if self.state.batch_id is None:
            with self._client() as client:
                # A run killed between starting a batch and noting it must not start it twice.
                last = client.batches.list(limit=100)
                started = (b for b in last if (b.metadata or {}).get(MARK) == self.state.run)
                self._note(next(started, None) or self._start(client))
        return self.state

    def refresh(self) -> State:
        """The state, as the provider tells it now."""
        if self.state.batch_id is None:
            raise FatalModelError("no batch is submitted; --batch-api submit does")
        with self._client() as client:
            self._note(client.batches.retrieve(self.state.batch_id))
        return self.state

    def collect(self, store: Store, price: Price | None = None) -> list[str]:
        """Settle the answers into the store; returns why each of the other requests has none.

        The batch is forgotten then; until then it is safe to repeat. Raises FatalModelError while
        the batch is under way.
        """
        if not self.refresh().done:
            raise FatalModelError(f"the batch is not finished; {self.state}")
        failures, waiting = [], self._keys()
        with self._client() as client:
            for answer in (each for file in self.state.files for each in _answers(client, file)):
                if answer.custom_id in waiting:
                    waiting.remove(answer.custom_id)
                    try:
                        self._settle(answer, store, price)
                    except ModelError as error:
                        failures.append(str(error))
        self._file.unlink()
        self._requests.unlink()
        return failures + [f"not answered: {self.state}"] * len(waiting)

    def _settle(self, answer: "_Answer", store: Store, price: Price | None) -> None:
        """Keep one answer like any other reply; raises ModelError where it is none."""
        response = answer.response or _Response(body=answer.error)
        if response.status_code != 200:
            raise read_error(self._model, response.status_code, None, bytes(response.body))
        completion = self._model.read_answer(bytes(response.body), (), Sampling())
        key = bytes.fromhex(answer.custom_id)
        if store.get(key) is None:
            cost = DISCOUNT * price.cost_of(completion) if price else 0.0
            store.settle(store.begin(key, self.state.lm, "", cost), ANSWERED, cost, completion)

    def _keys(self) -> set[str]:
        """What tells the requests apart."""
        with self._requests.open("rb") as file:
            return {msgspec.json.decode(line, type=_Answer).custom_id for line in file}

    def _start(self, client: "OpenAI") -> Any:
        with self._requests.open("rb") as content:
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
        self.state.files = list(filter(None, (batch.output_file_id, batch.error_file_id)))
        self._save()

    def _save(self) -> None:
        write_atomically(self._file, msgspec.json.encode(self.state) + b"\n", overwrite=True)

    @contextmanager
    def _client(self) -> Iterator["OpenAI"]:
        """The official client; its errors become ours, in one line without the key."""
        import openai

        model = self._model
        # A redirect would take the documents to a host that nobody named.
        http_client = openai.DefaultHttpxClient(follow_redirects=False)
        key = read_key(model.key_variable) or "none"
        try:
            with openai.OpenAI(base_url=self._api_base, api_key=key, http_client=http_client) as c:
                yield c
        except openai.OpenAIError as error:
            said = " ".join(model.secrets.redact(str(error)).split())[:LONGEST_EXCERPT]
            raise FatalModelError(f"{model.endpoint}: {said}") from None


class _Response(Struct):
    status_code: int = 400
    body: Raw = Raw(b"{}")


class _Answer(Struct):
    """A line of a batch's files."""

    custom_id: str
    response: _Response | None = None
    error: Raw = Raw(b"{}")


def _answers(client: "OpenAI", file: str) -> Iterator[_Answer]:
    """A file's answers; what cannot be read is passed over."""
    with client.files.with_streaming_response.content(file) as content:
        for line in content.iter_lines():
            with suppress(msgspec.DecodeError, RecursionError):
                yield msgspec.json.decode(line, type=_Answer)
