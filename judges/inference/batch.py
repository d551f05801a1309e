"""Half price: a provider's batch files, submitted, looked after and collected, and all resumable.

    with Journal(journal) as replies:
        with Runner(batch.queue(lm, folder), journal=replies) as runner:   # writes requests down
            for _ in judge.judge_rows(rows, runner): pass
    batch.submit(folder)                  # a day may pass
    batch.status(folder).done             # api_base=URL wherever `queue` was given it
    with Journal(journal) as replies:
        batch.collect(folder, replies)    # answers go into the journal
        with Runner(batch.collected(folder), journal=replies) as runner:
            for judgement in judge.judge_rows(rows, runner): ...

With the live model in place of `collected`, what is missing is asked at once and at full price; to
queue it for another batch, do all of it again with the same journal.
"""

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from data.tables.atomic_write import write_atomically
from dspy_judges.libraries import naming_libraries
from judges.inference.sampler import REASONING_FACTOR
from judges.models.dialect import is_reasoning
from judges.models.endpoint import EndpointModel
from judges.models.journal import Journal, request_key
from judges.models.openai_format import LONGEST_EXCERPT, read_completion
from judges.models.redaction import Redactor, read_key, without_secrets
from judges.models.registry import open_model
from judges.protocol import (
    OPENAI,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Sampling,
    UnreachableError,
)

if TYPE_CHECKING:
    from openai import OpenAI

URL = "/v1/chat/completions"
# OpenAI's limits are 50,000 requests and 200 MB a file.
MOST_REQUESTS = 50_000
MOST_BYTES = 190_000_000
STATE = "batch.json"
FAILURES = "failures.json"
RUNNING = ("validating", "in_progress", "finalizing", "cancelling")
MARK = "judges_part"
KEY = re.compile(r"[0-9a-f]{64}")
PART_NAME = re.compile(r"part-\d{3,}\.jsonl")


class _StandIn:
    """Stands in for an endpoint, answers in this process, and fails every request for now."""

    native_n = True
    has_logprobs: bool | None = None
    in_process = True

    def __init__(self, endpoint: EndpointModel) -> None:
        self.name = endpoint.name
        self.endpoint = endpoint.endpoint

    async def close(self) -> None: ...


class QueueModel(_StandIn):
    """Writes each distinct request to a part file, once; what the journal holds never comes here.

    A request's `custom_id` is its journal key, so that an answer finds its row by itself.
    """

    cacheable = True  # what an earlier run has asked need not be queued

    def __init__(
        self, endpoint: EndpointModel, folder: Path, max_tokens: int | None = None
    ) -> None:
        super().__init__(endpoint)
        self.served = endpoint.served
        self._max_tokens = max_tokens
        self.parts: list[Path] = []
        self.written: set[str] = set()
        self._folder = folder
        self._dialect = endpoint.dialect
        self._room = (0, 0)  # requests and bytes that still fit into the last part

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        key = request_key(self.endpoint, self.name, messages, sampling)
        if key not in self.written:
            factor = REASONING_FACTOR if is_reasoning(self.name) else 1
            limit = self._max_tokens or factor * sampling.max_tokens
            body = self._dialect.body(
                self.name, messages, dataclasses.replace(sampling, max_tokens=limit)
            )
            line = {"custom_id": key, "method": "POST", "url": URL, "body": body}
            self._write(json.dumps(line, separators=(",", ":")) + "\n")
            self.written.add(key)
        raise RefusedError("queued for a batch")

    def _write(self, line: str) -> None:
        requests, size = self._room
        if not requests or size < len(line):
            self.parts.append(self._folder / f"part-{len(self.parts):03d}.jsonl")
            self.parts[-1].write_bytes(b"")
            requests, size = MOST_REQUESTS, MOST_BYTES
        with self.parts[-1].open("a", encoding="ascii") as part:
            part.write(line)
        self._room = (requests - 1, size - len(line))


class CollectedModel(_StandIn):
    """Gives the reason why a request has no answer in the journal: its own, or none was given."""

    def __init__(self, endpoint: EndpointModel, failures: Mapping[str, str]) -> None:
        super().__init__(endpoint)
        self._failures = failures

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        key = request_key(self.endpoint, self.name, messages, sampling)
        raise RefusedError(self._failures.get(key, "not answered by the batch; submit again"))


class Part(Struct, frozen=True, kw_only=True):
    """One file of requests, and how far the provider has got with it."""

    file: str
    n_requests: int
    input_file_id: str | None = None
    batch_id: str | None = None
    status: str = "written"
    n_completed: int = 0
    n_failed: int = 0
    collected: bool = False


class State(Struct, frozen=True, kw_only=True):
    """The batches of one run. `submitted`: each has begun; `done`: none is worked on any more.

    `run` marks them at the provider's side; `api_base` is where they were submitted, without any
    key. A folder chooses no endpoint: what goes on with it is told the same endpoint again.
    """

    run: str
    lm: str
    api_base: str | None
    parts: tuple[Part, ...] = ()

    @property
    def submitted(self) -> bool:
        return bool(self.parts) and all(part.batch_id for part in self.parts)

    @property
    def done(self) -> bool:
        return self.submitted and all(part.status not in RUNNING for part in self.parts)

    @property
    def n_requests(self) -> int:
        return sum(part.n_requests for part in self.parts)

    @property
    def n_completed(self) -> int:
        return sum(part.n_completed for part in self.parts)

    def with_part(self, part: Part) -> "State":
        """The same with another version of one part."""
        parts = tuple(part if part.file == before.file else before for before in self.parts)
        return replace(self, parts=parts)

    def __str__(self) -> str:
        lines = [f"{self.lm}: {self.n_completed} of {self.n_requests} requests answered"]
        lines += [
            f"  {part.file}: {part.batch_id or 'not submitted'}, {part.status},"
            f" {part.n_completed} of {part.n_requests}, {part.n_failed} failed"
            for part in self.parts
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What a collection brought: answers put into the journal, failures by request, and gaps."""

    n_answered: int
    n_missing: int
    failures: Mapping[str, str]


def queue(
    lm: str,
    folder: Path,
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    max_tokens: int | None = None,
) -> QueueModel:
    """Open a model that writes requests into `folder`; raises FatalModelError for other models.

    `max_tokens` of a reply are the model's own unless given.
    A folder whose batches are under way is refused; one whose batches are collected starts anew.
    """
    endpoint = _endpoint(lm, api_base, api_key_env)
    parts = _read_state(folder).parts if (folder / STATE).exists() else ()
    if any(part.batch_id and not part.collected for part in parts):
        raise FatalModelError(f"{folder}: its batches are not collected yet; collect them first")
    folder.mkdir(parents=True, exist_ok=True)
    for old in [*folder.glob("part-*.jsonl"), folder / FAILURES]:
        old.unlink(missing_ok=True)
    _write_state(folder, State(run=token_hex(8), lm=lm, api_base=endpoint.endpoint))
    return QueueModel(endpoint, folder, max_tokens)


def is_partly_submitted(folder: Path) -> bool:
    """Whether some parts are submitted and some are not; `submit` then goes on."""
    parts = _read_state(folder).parts if (folder / STATE).exists() else ()
    return len({part.batch_id is None for part in parts}) == 2


def submit(folder: Path, *, api_base: str | None = None, api_key_env: str | None = None) -> State:
    """Upload every part and start its batch; what was submitted before is left as it is."""
    state, endpoint = _open_state(folder, api_base, api_key_env)
    if not state.parts:
        parts = []
        for path in sorted(folder.glob("part-*.jsonl")):
            with path.open("rb") as lines:
                parts.append(Part(file=path.name, n_requests=sum(1 for _ in lines)))
        state = _write_state(folder, replace(state, parts=tuple(parts)))
    unstarted = [part for part in state.parts if not part.batch_id]
    with _client(endpoint, api_base) as client:
        batches = _batches_by_mark(client) if unstarted else {}
        for part in unstarted:
            mark = f"{state.run}/{part.file}"
            # A run killed between starting a batch and noting it must not start it twice.
            batch = batches.get(mark) or _start(client, folder / part.file, mark)
            state = _write_state(folder, state.with_part(_progress(part, batch)))
    return state


def status(folder: Path, *, api_base: str | None = None, api_key_env: str | None = None) -> State:
    """Ask the provider how far it has got."""
    state, endpoint = _open_state(folder, api_base, api_key_env)
    with _client(endpoint, api_base) as client:
        for part in state.parts:
            if part.batch_id:
                state = state.with_part(_progress(part, client.batches.retrieve(part.batch_id)))
    return _write_state(folder, state)


def collect(
    folder: Path,
    journal: Journal,
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
) -> Collected:
    """Put the answers of finished batches into the journal, and failures beside them.

    Safe to repeat. Raises FatalModelError while a batch is under way, or was never submitted.
    """
    state = status(folder, api_base=api_base, api_key_env=api_key_env)
    if not state.done:
        raise FatalModelError(
            f"{folder}: not all batches are finished\n{state}".replace("\n", "; ")
        )
    endpoint = _endpoint(state.lm, api_base, api_key_env)
    failures: dict[str, str] = {}
    n_answered = 0
    with _client(endpoint, api_base) as client:
        for part in state.parts:
            assert part.batch_id is not None
            batch = client.batches.retrieve(part.batch_id)
            for file in (batch.output_file_id, batch.error_file_id):
                for line in _lines(client, file):
                    failure = _record_answer(line, journal, endpoint)
                    if failure is None:
                        n_answered += 1
                    else:
                        failures[str(line.get("custom_id"))] = endpoint.secrets.redact(failure)
            state = state.with_part(replace(_progress(part, batch), collected=True))
    (folder / FAILURES).write_text(json.dumps(failures, indent=1), encoding="utf-8")
    _write_state(folder, state)
    n_missing = state.n_requests - n_answered - len(failures)
    return Collected(n_answered=n_answered, n_missing=n_missing, failures=failures)


def collected(
    folder: Path, *, api_base: str | None = None, api_key_env: str | None = None
) -> CollectedModel:
    """Open the model whose answers `collect` put into the journal; it asks nothing."""
    _, endpoint = _open_state(folder, api_base, api_key_env)
    path = folder / FAILURES
    failures = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return CollectedModel(endpoint, failures)


def _endpoint(lm: str, api_base: str | None, api_key_env: str | None) -> EndpointModel:
    model = open_model(lm, api_base=api_base, api_key_env=api_key_env)
    if not lm.startswith("openai/") or not isinstance(model, EndpointModel):
        raise FatalModelError(f"{lm}: batch files need an OpenAI-compatible model, openai/NAME")
    return model


@contextmanager
def _client(endpoint: EndpointModel, api_base: str | None) -> Iterator["OpenAI"]:
    """Open the official client; its errors become ours, in one line without the key."""
    with naming_libraries():
        import openai

    # A redirect would take the documents to a host that nobody named.
    http_client = openai.DefaultHttpxClient(follow_redirects=False)
    key = read_key(endpoint.key_variable) or "none"
    try:
        with openai.OpenAI(base_url=api_base, api_key=key, http_client=http_client) as client:
            yield client
    except openai.APIStatusError as error:
        retry_after = error.response.headers.get("retry-after")
        raise endpoint.read_error(error.status_code, retry_after, error.response.content) from None
    except openai.APIConnectionError:
        raise UnreachableError(f"no connection to {endpoint.endpoint}") from None


def _batches_by_mark(client: "OpenAI") -> dict[str, Any]:
    """The provider's batches that came from such parts, by their mark."""
    return {
        batch.metadata[MARK]: batch
        for batch in client.batches.list(limit=100)
        if batch.metadata and MARK in batch.metadata
    }


def _start(client: "OpenAI", part: Path, mark: str) -> Any:
    with part.open("rb") as content:
        uploaded = client.files.create(file=content, purpose="batch")
    return client.batches.create(
        input_file_id=uploaded.id,
        endpoint=URL,  # type: ignore[arg-type]
        completion_window="24h",
        metadata={MARK: mark},
    )


def _progress(part: Part, batch: Any) -> Part:
    counts = batch.request_counts
    return replace(
        part,
        input_file_id=batch.input_file_id,
        batch_id=batch.id,
        status=batch.status,
        n_completed=counts.completed if counts else 0,
        n_failed=counts.failed if counts else 0,
    )


def _lines(client: "OpenAI", file: str | None) -> Iterator[dict[str, Any]]:
    if file is None:
        return
    with client.files.with_streaming_response.content(file) as content:
        for line in content.iter_lines():
            entry: object = None
            with suppress(ValueError, RecursionError):
                entry = json.loads(line)
            # What cannot be read, or answers nothing that was asked, is missing.
            if isinstance(entry, dict) and KEY.fullmatch(str(entry.get("custom_id"))):
                yield entry


def _record_answer(
    line: Mapping[str, Any], journal: Journal, endpoint: EndpointModel
) -> str | None:
    """Put one answer into the journal; returns why it is none."""
    response = _mapping(line.get("response"))
    body = _mapping(response.get("body"))
    if line.get("error") or response.get("status_code") != 200:
        error = line.get("error") or body.get("error") or {}
        message = error.get("message") if isinstance(error, dict) else error
        message = message if isinstance(message, str) else response.get("status_code")
        return f"the batch failed it: {' '.join(str(message).split())[:LONGEST_EXCERPT]}"
    try:
        completion = read_completion(json.dumps(body).encode(), (), Sampling())
    except ModelError as error:
        return f"the batch's answer is unusable: {error}"
    except RecursionError:
        return "the batch's answer is unusable: nested too deeply"
    key = str(line["custom_id"])
    if key not in journal:
        completion = endpoint.secrets.clean(completion)
        journal.put(key, completion, endpoint=endpoint.endpoint, model=endpoint.name)
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _open_state(
    folder: Path, api_base: str | None, api_key_env: str | None
) -> tuple[State, EndpointModel]:
    """What was written down; FatalModelError where another endpoint is asked now than then."""
    state = _read_state(folder)
    endpoint, then = _endpoint(state.lm, api_base, api_key_env), state.api_base or OPENAI
    if endpoint.endpoint != without_secrets(then.rstrip("/")):
        raise FatalModelError(
            f"{folder}: its batches are at {Redactor().redact(without_secrets(then))}, and not at "
            f"{endpoint.endpoint}: say which to ask, as in --api-base (in code: api_base=...)"
        )
    return state, endpoint


def _read_state(folder: Path) -> State:
    path = folder / STATE
    if not path.exists():
        raise FatalModelError(f"{folder}: no batches there; submit first")
    try:
        state = msgspec.json.decode(path.read_bytes(), type=State)
    except (msgspec.DecodeError, ValueError) as error:
        raise FatalModelError(f"{path}: does not tell of batches ({error})") from error
    for part in state.parts:
        if not PART_NAME.fullmatch(part.file):
            raise FatalModelError(f"{path}: {part.file!r} is no part of a batch, and is not sent")
    return state


def _write_state(folder: Path, state: State) -> State:
    text = msgspec.json.format(msgspec.json.encode(state), indent=1)
    write_atomically(folder / STATE, text + b"\n", overwrite=True)
    return state
