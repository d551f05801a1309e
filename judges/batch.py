"""Judge a table through a provider's batch API, at half price and within a day.

The table is judged in two passes. The first pass writes its requests to the file OUT.batch.jsonl
instead of sending them, and this file is submitted to the provider. Later, the provider's answers
are copied into the run's store of replies, where the second pass finds them. Between the passes,
the file OUT.batch.json holds the state of the batch.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from dspy_judges.errors import OptionError
from dspy_judges.files import claim_file
from judges.client import Price, Session, open_model
from judges.client.keys import read_key
from judges.client.openai import EndpointModel
from judges.client.prices import FREE, max_prompt_tokens
from judges.client.store import ANSWERED, REFUSED, make_request_key
from judges.protocol import Completion, FatalModelError, Message, ModelError, RefusedError, Sampling
from judges.tables.atomic_write import write_atomically
from judges.tables.formats import batch_state_path

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types import Batch as ProviderBatch

ENDPOINT_PATH: Final = "/v1/chat/completions"
PRICE_FACTOR = 0.5  # the price of a request in a batch, relative to its usual price
FINAL_STATUSES = ("completed", "failed", "expired", "cancelled")
RUN_METADATA_KEY = "judges_run"  # the key of the run's id in the batch's metadata
BATCH_PURPOSE = "batch"  # the purpose for which the store books the requests of a batch
# The most seconds by which the provider's clock and this machine's clock may differ.
MAX_CLOCK_SKEW_SECONDS = 86_400.0


class BatchState(Struct, kw_only=True):
    """The state of a batch, as the file OUT.batch.json holds it.

    The run draws the random `run_id` at the Unix time `begun_at`, before it submits the batch. The
    provider gives the batch its `batch_id` when the batch is submitted.
    """

    lm: str
    endpoint: str
    run_id: str = msgspec.field(default="", name="run")
    begun_at: float = 0.0
    batch_id: Annotated[str, Meta(min_length=1)] | None = None


class _HttpResponse(Struct):
    status_code: int = 400
    body: Raw = Raw(b"{}")


class _Result(Struct):
    """A line of a batch's result files; `custom_id` is the key of the request."""

    custom_id: str
    response: _HttpResponse | None = None
    error: Raw = Raw(b"{}")


class Batch:
    """The batch of a run that writes the table `output_path`.

    The batch takes the place of the run's model: it answers requests from the store of replies, and
    writes all other requests to a file. `session` has the run's store and limits, and `price` is
    the model's price without the discount for batches. Raises FatalModelError if the batch began
    with another model or endpoint, since a file must not choose where texts and keys are sent.
    """

    native_n = True
    has_logprobs: bool | None = None

    def __init__(
        self,
        output_path: Path,
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
        self._worst_costs: dict[str, float] = {}  # in dollars, by the key of the request
        self._requests_path = output_path.with_name(f"{output_path.name}.batch.jsonl")
        self._state_path = batch_state_path(output_path)
        self.state = BatchState(lm=lm, endpoint=model.endpoint)
        if self._state_path.exists():
            try:
                self.state = msgspec.json.decode(self._state_path.read_bytes(), type=BatchState)
            except (ValueError, RecursionError) as error:
                message = f"{self._state_path}: not the state of a batch ({error})"
                raise FatalModelError(message) from None
        # A run that was killed after it started its batch must not start a second batch.
        self._may_have_begun = bool(self.state.run_id)
        if (self.state.lm, self.state.endpoint) != (lm, model.endpoint):
            raise FatalModelError(
                f"{self._state_path}: its batch asks {self.state.lm} at {self.state.endpoint}: "
                "name both (--lm, --api-base), or delete that file to forget the batch"
            )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Return the stored answer; if there is none, queue the request and raise RefusedError."""
        key = make_request_key(self.endpoint, self.name, messages, sampling)
        if (completion := self._store.get(key)) is not None:
            return completion
        if key.hex() not in self._worst_costs:
            body = self._model.request_format.make_body(messages, sampling)
            request = {"custom_id": key.hex(), "method": "POST", "url": ENDPOINT_PATH, "body": body}
            is_first_request = not self._worst_costs
            with claim_file(self._requests_path, replace=is_first_request).open("ab") as file:
                file.write(msgspec.json.encode(request) + b"\n")
            max_tokens = sampling.n * sampling.max_tokens
            worst_cost = self._price.worst_cost(max_prompt_tokens(messages), max_tokens)
            self._worst_costs[key.hex()] = PRICE_FACTOR * worst_cost
        raise RefusedError("queued for a batch")

    async def close(self) -> None: ...

    def book_requests(self) -> int:
        """Reserve the worst-case cost of new requests; return the batch's number of requests."""
        max_calls, max_cost = self._budget.max_calls, self._budget.max_cost
        account, new_costs = self._budget.total, dict(self._worst_costs)
        for booked_key in self._store.unanswered_request_ids(BATCH_PURPOSE):
            new_costs.pop(booked_key, None)
        n_new, cost = len(new_costs), sum(new_costs.values())
        if max_calls is not None and n_new > (n_left := max_calls - account.calls):
            raise OptionError(f"the batch has {n_new:,} requests; --max-calls leaves {n_left:,}")
        if max_cost is not None and cost > (dollars_left := max_cost - account.spent):
            problem = f"the batch may cost up to ${cost:.4f}"
            raise OptionError(f"{problem}; --max-cost leaves ${dollars_left:.4f}")
        for key, worst_cost in new_costs.items():
            self._store.record_sent(bytes.fromhex(key), self.state.lm, BATCH_PURPOSE, worst_cost)
        self._store.commit()
        if self._worst_costs and not self.state.run_id:
            self.state.run_id, self.state.begun_at = token_hex(8), time.time()
            self._save_state()
        return len(self._worst_costs)

    def submit(self) -> None:
        """Upload the requests and start the batch, unless the batch was started before."""
        if self.state.batch_id is not None:
            return
        with self._openai_client() as client:
            batch = self._find_started_batch(client) if self._may_have_begun else None
            if batch is None:
                with self._requests_path.open("rb") as file:
                    uploaded_file = client.files.create(file=file, purpose="batch")
                batch = client.batches.create(
                    input_file_id=uploaded_file.id,
                    endpoint=ENDPOINT_PATH,
                    completion_window="24h",
                    metadata={RUN_METADATA_KEY: self.state.run_id},
                )
            self.state.batch_id = batch.id
        self._save_state()

    def _find_started_batch(self, client: "OpenAI") -> "ProviderBatch | None":
        """Return the batch that this run started before it was killed, if there is one."""
        # The provider lists the newest batches first; a further page is loaded only if it is read.
        for batch in client.batches.list(limit=100):
            if batch.created_at < self.state.begun_at - MAX_CLOCK_SKEW_SECONDS:
                break
            if (batch.metadata or {}).get(RUN_METADATA_KEY) == self.state.run_id:
                return batch
        return None

    def collect_answers(self) -> list[str]:
        """Record the batch's answers, delete the batch's files, and return why requests failed."""
        if self.state.batch_id is None:
            totals = self._store.totals()
            if {total.state for total in totals if total.purpose == BATCH_PURPOSE} == {ANSWERED}:
                # An earlier run collected the answers, but was killed before its last row.
                return []
            raise FatalModelError("no batch is submitted yet; submit one with --batch-api submit")
        id_by_key = self._store.unanswered_request_ids(BATCH_PURPOSE)
        failure_reasons = []
        with self._openai_client() as client:
            batch = client.batches.retrieve(self.state.batch_id)
            status_text = _status_text(batch, len(id_by_key))
            if batch.status not in FINAL_STATUSES:
                raise FatalModelError(f"the batch is not finished: {status_text}")
            for result in _read_results(client, batch):
                if result.custom_id in id_by_key:
                    failure_reasons += self._record_result(result, id_by_key.pop(result.custom_id))
        for request_id in id_by_key.values():
            self._store.record_outcome(request_id, REFUSED, 0.0, None)
        self._store.commit()
        self._state_path.unlink()
        self._requests_path.unlink(missing_ok=True)
        failure_reason = f"not answered: {self._model.redactor.excerpt(status_text)}"
        return failure_reasons + [failure_reason] * len(id_by_key)

    def _record_result(self, result: _Result, request_id: int) -> list[str]:
        """Record a request's result in the store; return why the request failed, if it failed."""
        response = result.response or _HttpResponse(body=result.error)
        response_body = bytes(response.body)
        try:
            if response.status_code != 200:
                raise self._model.read_error(response.status_code, None, response_body)
            completion = self._model.read_completion(response_body, (), Sampling())
        except ModelError as error:
            if not error.may_be_billed:  # a billed request stays booked at its worst-case cost
                self._store.record_outcome(request_id, REFUSED, 0.0, None)
            return [str(error)]
        cost = PRICE_FACTOR * self._price.cost_of(completion)
        self._store.record_outcome(request_id, ANSWERED, cost, completion)
        return []

    def _save_state(self) -> None:
        write_atomically(self._state_path, msgspec.json.encode(self.state) + b"\n", overwrite=True)

    @contextmanager
    def _openai_client(self) -> Iterator["OpenAI"]:
        """Open OpenAI's client, and raise its errors as FatalModelErrors without API keys."""
        import openai

        model = self._model
        # A redirect would send the documents to a host that the user did not name.
        http_client = openai.DefaultHttpxClient(follow_redirects=False)
        key = read_key(model.key_variable) or "none"
        try:
            client = openai.OpenAI(base_url=self._api_base, api_key=key, http_client=http_client)
            with client:
                yield client
        except openai.OpenAIError as error:
            reason = model.redactor.excerpt(str(error))
            raise FatalModelError(f"{model.endpoint}: {reason}") from None


def _status_text(batch: "ProviderBatch", n_requests: int) -> str:
    n_answers = batch.request_counts.completed if batch.request_counts else 0
    status_text = f"{batch.id} {batch.status}, {n_answers:,} of {n_requests:,} requests answered"
    errors = (batch.errors.data if batch.errors else None) or []
    return "; ".join([status_text, *(error.message or "" for error in errors)])


def _read_results(client: "OpenAI", batch: "ProviderBatch") -> Iterator[_Result]:
    """Yield the lines of the batch's result files; lines that cannot be read are left out."""
    for file_id in filter(None, (batch.output_file_id, batch.error_file_id)):
        with client.files.with_streaming_response.content(file_id) as result_file:
            for line in result_file.iter_lines():
                with suppress(msgspec.DecodeError, RecursionError):
                    yield msgspec.json.decode(line, type=_Result)
