"""A provider's batch files: submitted at half price, collected into a run's store within a day.

A table is judged twice: first to write its requests down, then from the answers in the store. The
requests are in OUT.batch.jsonl, and the state of the batch in OUT.batch.json.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from dspy_judges.errors import OptionError
from dspy_judges.files import claim_file
from judges.client import Price, Session, open_model
from judges.client.keys import read_key
from judges.client.openai import LONGEST_EXCERPT, EndpointModel, read_error
from judges.client.prices import FREE, token_bound
from judges.client.store import ANSWERED, REFUSED, request_key
from judges.protocol import Completion, FatalModelError, Message, ModelError, RefusedError, Sampling
from judges.tables.atomic_write import write_atomically

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch as ProviderBatch

URL: Final = "/v1/chat/completions"
DISCOUNT = 0.5  # of the usual price
FINAL = ("completed", "failed", "expired", "cancelled")
MARK, PURPOSE = "judges_run", "batch"
MAX_CLOCK_DIFFERENCE = 86_400.0  # seconds, between the provider's clock and this machine's


class State(Struct, kw_only=True):
    """The state of a batch, as OUT.batch.json holds it.

    `run` marks the batch at the provider; it is empty until the batch begins at `begun_at`, in Unix
    seconds.
    """

    lm: str
    endpoint: str
    run: str = ""
    begun_at: float = 0.0
    batch_id: Annotated[str, Meta(min_length=1)] | None = None


class _Response(Struct):
    status_code: int = 400
    body: Raw = Raw(b"{}")


class _Answer(Struct):
    """A line of a batch's files; `custom_id` is the request's key in the store."""

    custom_id: str
    response: _Response | None = None
    error: Raw = Raw(b"{}")


_ANSWER = msgspec.json.Decoder(_Answer)


class Batch:
    """The batch of the run that writes the file `out`, with the store and limits of its session.

    As a model it answers from the store and writes all other requests down. `price` is the usual
    price. Raises FatalModelError where the batch began with another model or endpoint, since no
    file may choose where texts and keys go.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(
        self,
        out: Path,
        lm: str,
        session: Session,
        *,
        price: Price | None = None,
        api_base: str | None = None,
        api_key_env: str | None = None,
    ) -> None:
        model = open_model(lm, api_base=api_base, api_key_env=api_key_env)
        if not lm.startswith("openai/") or not isinstance(model, EndpointModel):
            raise FatalModelError(f"{lm}: a batch needs an OpenAI-compatible model, openai/NAME")
        assert session.store is not None
        session.budget.account(lm, price)  # a limit on dollars needs a price
        self.name, self.endpoint, self._model = model.name, model.endpoint, model
        self._price, self._api_base = price or FREE, api_base
        self._budget, self._store = session.budget, session.store
        self._worst: dict[str, float] = {}
        self._requests = out.with_name(f"{out.name}.batch.jsonl")
        self._file = out.with_name(f"{out.name}.batch.json")
        self.state = State(lm=lm, endpoint=model.endpoint)
        if self._file.exists():
            try:
                self.state = msgspec.json.decode(self._file.read_bytes(), type=State)
            except (ValueError, RecursionError) as error:
                raise FatalModelError(f"{self._file}: not the state of a batch ({error})") from None
        if (self.state.lm, self.state.endpoint) != (lm, model.endpoint):
            raise FatalModelError(
                f"{self._file}: its batch asks {self.state.lm} at {self.state.endpoint}: name them "
                "(--lm, --api-base), or delete that file to forget the batch"
            )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """The answer in the store; RefusedError where there is none, after writing the request."""
        key = request_key(self.endpoint, self.name, messages, sampling)
        if (completion := self._store.get(key)) is not None:
            return completion
        if key.hex() not in self._worst:
            body = self._model.spelling.body(messages, sampling)
            request = {"custom_id": key.hex(), "method": "POST", "url": URL, "body": body}
            with claim_file(self._requests, anew=not self._worst).open("ab") as file:
                file.write(msgspec.json.encode(request) + b"\n")
            tokens = token_bound(messages), sampling.n * sampling.max_tokens
            self._worst[key.hex()] = DISCOUNT * self._price.worst(*tokens)
        raise RefusedError("queued for a batch")

    async def close(self) -> None: ...

    def begin(self) -> int:
        """Book the new requests at their worst cost; returns how many are written down.

        Raises OptionError where they do not fit into the limits.
        """
        budget, earlier = self._budget, self._store.open_requests(PURPOSE)
        new = {key: worst for key, worst in self._worst.items() if key not in earlier}
        calls, cost = len(new), sum(new.values())
        if budget.max_calls is not None and calls > (most := budget.max_calls - budget.calls):
            raise OptionError(f"the batch has {calls:,} requests; --max-calls leaves {most:,}")
        if budget.max_cost is not None and cost > (dollars := budget.max_cost - budget.cost):
            raise OptionError(
                f"the batch may cost ${cost:.4f} with each reply at its longest; --max-cost leaves "
                f"${dollars:.4f}"
            )
        for key, worst in new.items():
            self._store.begin(bytes.fromhex(key), self.state.lm, PURPOSE, worst)
        self._store.commit()
        if self._worst and not self.state.run:
            self.state.run, self.state.begun_at = token_hex(8), time.time()
            self._save()
        return len(self._worst)

    def submit(self) -> None:
        """Upload the requests and start the batch, once."""
        if self.state.batch_id is not None:
            return
        with self._client() as client:
            # A run that was killed after starting the batch must not start it twice.
            since = self.state.begun_at - MAX_CLOCK_DIFFERENCE
            # The newest come first, and pages are loaded as they are read.
            recent = takewhile(lambda b: b.created_at >= since, client.batches.list(limit=100))
            earlier = (b for b in recent if (b.metadata or {}).get(MARK) == self.state.run)
            if (batch := next(earlier, None)) is None:
                with self._requests.open("rb") as content:
                    file = client.files.create(file=content, purpose="batch")
                batch = client.batches.create(
                    input_file_id=file.id,
                    endpoint=URL,
                    completion_window="24h",
                    metadata={MARK: self.state.run},
                )
            self.state.batch_id = batch.id
        self._save()

    def collect(self) -> list[str]:
        """Settle the answers into the store; returns why each other request has none.

        The files of the batch are then deleted. Raises FatalModelError while the batch is running.
        """
        if self.state.batch_id is None:
            totals = self._store.totals()
            if {total.state for total in totals if total.purpose == PURPOSE} == {ANSWERED}:
                return []  # an earlier start collected them, and was killed before the last row
            raise FatalModelError("no batch is submitted yet; --batch-api submit does that")
        keys = self._keys()
        # The store's rows of requests without an answer.
        rows = {key: row for key, row in self._store.open_requests(PURPOSE).items() if key in keys}
        failures = []
        with self._client() as client:
            batch = client.batches.retrieve(self.state.batch_id)
            n_answers = batch.request_counts.completed if batch.request_counts else 0
            how_far = f"{batch.id} {batch.status}, {n_answers:,} of {len(keys):,} requests answered"
            if batch.status not in FINAL:
                raise FatalModelError(f"the batch is not finished: {how_far}")
            for answer in _answers(client, batch):
                if answer.custom_id in rows:
                    failures += self._settle(answer, rows.pop(answer.custom_id))
        for row in rows.values():
            self._store.settle(row, REFUSED, 0.0, None)
        self._store.commit()
        self._file.unlink()
        self._requests.unlink()
        errors = (batch.errors and batch.errors.data) or ()
        how_far = " ".join("; ".join([how_far, *(e.message or "" for e in errors)]).split())
        return failures + [f"not answered: {how_far[:LONGEST_EXCERPT]}"] * len(rows)

    def _keys(self) -> set[str]:
        """The keys of the requests that were written down."""
        try:
            with self._requests.open("rb") as file:
                return {_ANSWER.decode(line).custom_id for line in file}
        except (ValueError, RecursionError) as error:
            what = f"is damaged ({error}); delete it and {self._file} to forget the batch"
            raise FatalModelError(f"{self._requests}: {what}") from None

    def _settle(self, answer: _Answer, row: int) -> list[str]:
        """Keep one answer in the store; returns the failure, if it is one."""
        response = answer.response or _Response(body=answer.error)
        try:
            if response.status_code != 200:
                raise read_error(self._model, response.status_code, None, bytes(response.body))
            completion = self._model.read_answer(bytes(response.body), (), Sampling())
        except ModelError as error:
            if not error.billed:  # else it stays booked at its worst
                self._store.settle(row, REFUSED, 0.0, None)
            return [str(error)]
        cost = DISCOUNT * self._price.cost_of(completion)
        self._store.settle(row, ANSWERED, cost, completion)
        return []

    def _save(self) -> None:
        write_atomically(self._file, msgspec.json.encode(self.state) + b"\n", overwrite=True)

    @contextmanager
    def _client(self) -> Iterator["OpenAI"]:
        """The official client, whose errors become ours, on one line without the key."""
        import openai

        model = self._model
        # A redirect would send the documents to a host that the user did not name.
        http_client = openai.DefaultHttpxClient(follow_redirects=False)
        key = read_key(model.key_variable) or "none"
        try:
            with openai.OpenAI(base_url=self._api_base, api_key=key, http_client=http_client) as c:
                yield c
        except openai.OpenAIError as error:
            reason = " ".join(model.secrets.redact(str(error)).split())[:LONGEST_EXCERPT]
            raise FatalModelError(f"{model.endpoint}: {reason}") from None


def _answers(client: "OpenAI", batch: "ProviderBatch") -> Iterator[_Answer]:
    """The answers in the batch's files, without the lines that cannot be read."""
    for file in filter(None, (batch.output_file_id, batch.error_file_id)):
        with client.files.with_streaming_response.content(file) as content:
            for line in content.iter_lines():
                with suppress(msgspec.DecodeError, RecursionError):
                    yield _ANSWER.decode(line)
