"""Judge a table through a provider's batch API, at half price and within a day.

The table is judged in two passes. The first pass writes its requests to OUT.batch.jsonl instead of
sending them. That file is submitted to the provider. The provider's answers are collected into the
run's store, where the second pass finds the answers. Between the passes, OUT.batch.json holds the
state of the batch.
"""

import math
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
from judges.client.openai import EndpointModel, read_error
from judges.client.prices import FREE, max_prompt_tokens
from judges.client.store import ANSWERED, REFUSED, request_key
from judges.protocol import Completion, FatalModelError, Message, ModelError, RefusedError, Sampling
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import batch_state_path

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch as ProviderBatch

ENDPOINT_PATH: Final = "/v1/chat/completions"
PRICE_FACTOR = 0.5  # the price of a batch, relative to the usual price
FINAL_STATUSES = ("completed", "failed", "expired", "cancelled")
RUN_KEY = "judges_run"  # the key of the run's identifier in the batch's metadata
BATCH_PURPOSE = "batch"  # the purpose for which the store books the requests of a batch
# Seconds by which the provider's clock and this machine's may differ.
MAX_CLOCK_SKEW_SECONDS = 86_400.0


class BatchState(Struct, kw_only=True):
    """The state of a batch, as OUT.batch.json holds it; `run` identifies the batch's run.

    `begun_at` is the Unix time at which `run` was drawn; the provider's batch is not older.
    """

    lm: str
    endpoint: str
    run: str = ""
    begun_at: float = 0.0
    batch_id: Annotated[str, Meta(min_length=1)] | None = None


class _HttpResponse(Struct):
    status_code: int = 400
    body: Raw = Raw(b"{}")


class _BatchLine(Struct):
    """A line of a request or result file; `custom_id` is the request's key in the store."""

    custom_id: str
    response: _HttpResponse | None = None
    error: Raw = Raw(b"{}")


_LINE_DECODER = msgspec.json.Decoder(_BatchLine)


class Batch:
    """The batch of a run that writes the table `out`; `session` has the run's store and limits.

    The batch takes the place of the run's model: a request is answered from the store, or, if the
    store has no answer, is written to the batch's file of requests. `price` is the model's price
    without the batch discount. Raises FatalModelError if the batch began with another model or
    endpoint, since a file must not choose where texts and keys are sent.
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
        session.budget.account(lm, price)  # raises OptionError for a dollar limit without a price
        self.name, self.endpoint, self._model = model.name, model.endpoint, model
        self._price, self._api_base = price or FREE, api_base
        self._budget, self._store = session.budget, session.store
        self._worst_costs: dict[str, float] = {}
        self._requests_path = out.with_name(f"{out.name}.batch.jsonl")
        self._state_path = batch_state_path(out)
        self.state = BatchState(lm=lm, endpoint=model.endpoint)
        if self._state_path.exists():
            try:
                self.state = msgspec.json.decode(self._state_path.read_bytes(), type=BatchState)
            except (ValueError, RecursionError) as error:
                problem = f"not the state of a batch ({error})"
                raise FatalModelError(f"{self._state_path}: {problem}") from None
        # A run that was killed after it started its batch must not start the batch twice.
        self._may_be_started = bool(self.state.run)
        if (self.state.lm, self.state.endpoint) != (lm, model.endpoint):
            raise FatalModelError(
                f"{self._state_path}: its batch asks {self.state.lm} at {self.state.endpoint}: "
                "name them (--lm, --api-base), or delete that file to forget the batch"
            )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Return the stored answer; without one, queue the request and raise RefusedError."""
        key = request_key(self.endpoint, self.name, messages, sampling)
        if (completion := self._store.get(key)) is not None:
            return completion
        if key.hex() not in self._worst_costs:
            body = self._model.request_format.body(messages, sampling)
            request = {"custom_id": key.hex(), "method": "POST", "url": ENDPOINT_PATH, "body": body}
            with claim_file(self._requests_path, replace=not self._worst_costs).open("ab") as file:
                file.write(msgspec.json.encode(request) + b"\n")
            token_bounds = max_prompt_tokens(messages), sampling.n * sampling.max_tokens
            self._worst_costs[key.hex()] = PRICE_FACTOR * self._price.worst_cost(*token_bounds)
        raise RefusedError("queued for a batch")

    async def close(self) -> None: ...

    def book_requests(self) -> int:
        """Book new requests at their worst cost; return the number of requests in the batch."""
        budget, booked_requests = self._budget, self._store.unanswered_request_ids(BATCH_PURPOSE)
        new_costs = {
            key: cost for key, cost in self._worst_costs.items() if key not in booked_requests
        }
        n_calls, cost = len(new_costs), sum(new_costs.values())
        calls_left = math.inf if budget.max_calls is None else budget.max_calls - budget.calls
        if n_calls > calls_left:
            raise OptionError(
                f"the batch has {n_calls:,} requests; --max-calls leaves {calls_left:,}"
            )
        dollars_left = math.inf if budget.max_cost is None else budget.max_cost - budget.spent
        if cost > dollars_left:
            raise OptionError(
                f"the batch may cost ${cost:.4f} with each reply at its longest; --max-cost leaves "
                f"${dollars_left:.4f}"
            )
        for key, worst_cost in new_costs.items():
            self._store.record_sent(bytes.fromhex(key), self.state.lm, BATCH_PURPOSE, worst_cost)
        self._store.commit()
        if self._worst_costs and not self.state.run:
            self.state.run, self.state.begun_at = token_hex(8), time.time()
            self._save_state()
        return len(self._worst_costs)

    def submit(self) -> None:
        """Upload the requests and start the batch, unless this was done before."""
        if self.state.batch_id is not None:
            return
        with self._openai_client() as client:
            # The provider lists the newest batches first, and loads pages as they are read.
            batches = client.batches.list(limit=100) if self._may_be_started else ()
            earliest_start = self.state.begun_at - MAX_CLOCK_SKEW_SECONDS
            recent_batches = takewhile(lambda b: b.created_at >= earliest_start, batches)
            batches_of_run = (
                b for b in recent_batches if (b.metadata or {}).get(RUN_KEY) == self.state.run
            )
            if (batch := next(batches_of_run, None)) is None:
                with self._requests_path.open("rb") as content:
                    file = client.files.create(file=content, purpose="batch")
                batch = client.batches.create(
                    input_file_id=file.id,
                    endpoint=ENDPOINT_PATH,
                    completion_window="24h",
                    metadata={RUN_KEY: self.state.run},
                )
            self.state.batch_id = batch.id
        self._save_state()

    def collect_answers(self) -> list[str]:
        """Record the batch's answers, delete its files, and return why requests failed."""
        if self.state.batch_id is None:
            totals = self._store.totals()
            if {total.state for total in totals if total.purpose == BATCH_PURPOSE} == {ANSWERED}:
                # An earlier run collected the answers, but was killed before its last row.
                return []
            raise FatalModelError("no batch is submitted yet; submit one with --batch-api submit")
        request_keys = self._read_request_keys()
        open_request_ids = self._store.unanswered_request_ids(BATCH_PURPOSE)
        # The number in the store of each request of the batch that has no answer, by its key.
        request_ids = {key: open_request_ids[key] for key in request_keys & open_request_ids.keys()}
        failures = []
        with self._openai_client() as client:
            batch = client.batches.retrieve(self.state.batch_id)
            n_answers = batch.request_counts.completed if batch.request_counts else 0
            n_requests = len(request_keys)
            status = f"{batch.id} {batch.status}, {n_answers:,} of {n_requests:,} requests answered"
            if batch.status not in FINAL_STATUSES:
                raise FatalModelError(f"the batch is not finished: {status}")
            for answer in _read_answers(client, batch):
                if answer.custom_id in request_ids:
                    failures += self._record_answer(answer, request_ids.pop(answer.custom_id))
        for request_id in request_ids.values():
            self._store.record_outcome(request_id, REFUSED, 0.0, None)
        self._store.commit()
        self._state_path.unlink()
        self._requests_path.unlink()
        batch_errors = batch.errors.data if batch.errors else None
        reason = "; ".join([status, *(error.message or "" for error in batch_errors or ())])
        failure = f"not answered: {self._model.redactor.excerpt(reason)}"
        return failures + [failure] * len(request_ids)

    def _read_request_keys(self) -> set[str]:
        try:
            with self._requests_path.open("rb") as file:
                return {_LINE_DECODER.decode(line).custom_id for line in file}
        except (ValueError, RecursionError) as error:
            message = f"is damaged ({error}); delete it and {self._state_path} to forget the batch"
            raise FatalModelError(f"{self._requests_path}: {message}") from None

    def _record_answer(self, answer: _BatchLine, request_id: int) -> list[str]:
        """Record a request's answer in the store; return the reason if the request failed."""
        response = answer.response or _HttpResponse(body=answer.error)
        try:
            if response.status_code != 200:
                raise read_error(self._model, response.status_code, None, bytes(response.body))
            completion = self._model.read_answer(bytes(response.body), (), Sampling())
        except ModelError as error:
            if not error.billed:  # a billed request stays booked at its worst-case cost
                self._store.record_outcome(request_id, REFUSED, 0.0, None)
            return [str(error)]
        cost = PRICE_FACTOR * self._price.cost_of(completion)
        self._store.record_outcome(request_id, ANSWERED, cost, completion)
        return []

    def _save_state(self) -> None:
        write_atomically(self._state_path, msgspec.json.encode(self.state) + b"\n", overwrite=True)

    @contextmanager
    def _openai_client(self) -> Iterator["OpenAI"]:
        """Open OpenAI's official client; its errors become FatalModelErrors without API keys."""
        import openai

        model = self._model
        # A redirect would send the documents to a host that the user did not name.
        http_client = openai.DefaultHttpxClient(follow_redirects=False)
        key = read_key(model.key_variable) or "none"
        try:
            with openai.OpenAI(
                base_url=self._api_base, api_key=key, http_client=http_client
            ) as client:
                yield client
        except openai.OpenAIError as error:
            reason = model.redactor.excerpt(str(error))
            raise FatalModelError(f"{model.endpoint}: {reason}") from None


def _read_answers(client: "OpenAI", batch: "ProviderBatch") -> Iterator[_BatchLine]:
    """Return the answers in the batch's result files; lines that cannot be read are left out."""
    for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
        with client.files.with_streaming_response.content(file_id) as result_lines:
            for line in result_lines.iter_lines():
                with suppress(msgspec.DecodeError, RecursionError):
                    yield _LINE_DECODER.decode(line)
