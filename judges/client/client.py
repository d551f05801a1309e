"""Send many requests to one model within limits, and stream the responses in order.

    with Session(max_cost=1.0, store="replies.sqlite") as session:
        for response in session.client("openai/gpt-4.1-mini").run(requests): ...

A request passes through four methods. `run` starts requests and yields their responses in order.
`answer` sends a request again if its reply cannot be read. `_find_or_send` first looks for an
answer in the run's store and in the user's cache. `Sender.send` books the request's cost in the
budget, sends the request, and retries after errors.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace

from judges.client.budget import Account, Budget, BudgetSpentError
from judges.client.event_loop import WAKE_DELAY_SECONDS, event_loop, run_at_once
from judges.client.log import warn_once
from judges.client.request_queue import FailingRunError, FailureMonitor, RequestQueue, RunState
from judges.client.sender import KeyedRequest, Sender
from judges.client.store import ReplyCache, StoreError, make_request_key
from judges.judgement import NoScoreError
from judges.protocol import (
    MAX_REQUEST_REPEATS,
    SAMPLE_SEED_STEP,
    Completion,
    Model,
    ModelError,
    ModelTraits,
    RefusedError,
    Reply,
    Request,
    Response,
    Sampling,
    TransientError,
    max_tokens_factor,
)
from judges.reading import check_reply

TIMEOUT_SECONDS = 120.0
# A request whose reply is cut off is sent again once, with max_tokens multiplied by this number.
LONGER_REPLY_FACTOR = 4

_log = logging.getLogger(__name__)


class _SampledReplies:
    """The replies to one request so far: one for each sample that the request asks for.

    `values` has what was read from each reply. `unreadable` has replies that could not be read.
    """

    def __init__(self, request: Request, run_state: RunState) -> None:
        self.request, self.run_state = request, run_state
        self.values: dict[int, object] = {}
        self.unreadable: dict[int, tuple[Reply, str]] = {}
        self.error_messages: list[str] = []
        self.n_repeats = self.tokens_in = self.tokens_out = 0

    def add(self, sample_indices: Iterable[int], completion: Completion) -> None:
        """Read the replies to some of the samples, and keep their values or errors."""
        self.tokens_in += completion.tokens_in
        self.tokens_out += completion.tokens_out
        for index, reply in zip(sample_indices, completion.replies, strict=False):
            try:
                check_reply(reply)
                self.values[index] = self.request.read_reply(reply)
                self.unreadable.pop(index, None)
            except RefusedError as error:
                self.error_messages.append(str(error))
            except NoScoreError as error:
                _log.info("a reply cannot be read: %s", error)
                self.unreadable[index] = reply, str(error)

    def make_response(self) -> Response:
        reasons = [self.unreadable[index][1] for index in sorted(self.unreadable)]
        return Response(
            values=tuple([self.values[index] for index in sorted(self.values)]),
            failures=(*self.error_messages, *reasons),
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
        )


@dataclass(eq=False, repr=False)
class Client:
    """Sends requests to one model within a budget, from any thread.

    If a request fails, its Response says why in `failure`. A run ends if FatalModelError or
    BudgetSpentError is raised. A client need not be closed.

    Args:
        model: The model that answers the requests.
        account: The account of the budget that counts the requests. Default: one without limits.
        cache: The cache of replies that all runs share; None means no cache.
        concurrency: The most requests in flight.
        timeout: The seconds after which an unanswered request is sent again.
        keep_going: If false, a run also ends if almost all requests fail, or if the model stops
            answering.
        max_tokens, reasoning_effort: Replace the values in each request's `sampling`, unless None.
        open_client_for: Opens a client for another model and address with the same budget.
    """

    model: Model
    _: KW_ONLY
    account: Account = field(default_factory=lambda: Budget().account())
    cache: ReplyCache | None = None
    concurrency: int = 64
    timeout: float = TIMEOUT_SECONDS
    keep_going: bool = True
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    open_client_for: Callable[[str, str | None], "Client"] | None = None

    def __post_init__(self) -> None:
        # The tokens of the responses that `run` has yielded, including cached responses.
        self.tokens_in = self.tokens_out = 0
        self._store = self.account.budget.store
        # New answers are committed to the run's store and to the cache, and are looked up there.
        self._stores = [store for store in (self._store, self.cache) if store]
        traits = ModelTraits.of(self.model)
        self.is_in_process, self._accepts_n = traits.in_process, self.model.native_n
        self._endpoint_identity = traits.identity or self.model.endpoint
        self._sender = Sender(
            self.model, self.account, self.concurrency, self.timeout, keep_going=self.keep_going
        )
        has_store = self._store is not None
        self._failure_monitor = None if self.keep_going else FailureMonitor(has_store=has_store)
        self._pending_by_key: dict[bytes, asyncio.Future[Completion]] = {}
        self._commit_is_scheduled = False

    def ask(self, request: Request) -> Response:
        """Send one request and return its response; may be called from any thread."""
        future = self._start_request(request)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def ask_async(self, request: Request) -> Response:
        """Send one request and return its response; may be awaited on any event loop."""
        return await asyncio.wrap_future(self._start_request(request))

    def _start_request(self, request: Request) -> "Future[Response]":
        if not self.is_in_process:
            return asyncio.run_coroutine_threadsafe(self.answer(request, RunState()), event_loop())
        future = Future[Response]()
        future.set_result(self._answer_in_process(request))
        return future

    def run(self, requests: Iterable[Request]) -> Generator[Response, None, None]:
        """Yield a response for each request, in order; only a few requests are read ahead.

        The method also works in a notebook, where an event loop is running. On Ctrl-C, it waits a
        few seconds for the answers to requests in flight, and stores them.

        Raises:
            FatalModelError: No request can be answered, for example because the key is wrong.
            BudgetSpentError: A limit of the budget is reached. The responses to all requests that
                were sent have been yielded.
        """
        if self.is_in_process:
            for request in requests:
                yield self._count_response(self._answer_in_process(request))
            return
        remaining_requests, grace_seconds = iter(requests), None
        queue = RequestQueue(self.answer, self.concurrency, self._failure_monitor)
        try:
            while queue.start_requests(remaining_requests):
                if (response := queue.take_response()) is not None:
                    yield self._count_response(response)
            if queue.run_state.spent_error is not None:
                raise queue.run_state.spent_error
        except (BudgetSpentError, FailingRunError):
            grace_seconds = self.timeout  # wait for requests in flight, since they are paid for
            raise
        finally:
            queue.close(grace_seconds)

    def _count_response(self, response: Response) -> Response:
        self.tokens_in += response.tokens_in
        self.tokens_out += response.tokens_out
        if self._failure_monitor is not None:
            self._failure_monitor.record(response.failure)
        return response

    def _answer_in_process(self, request: Request) -> Response:
        """Ask a model that runs in this process, without retries and without a store."""
        replies = _SampledReplies(request, RunState())
        booking = self.account.book(b"", request.messages, request.sampling)
        if booking is None:
            raise BudgetSpentError("the rest of the budget is reserved for other requests")
        try:
            completion = run_at_once(self.model.complete(request.messages, request.sampling))
        except ModelError as error:
            self.account.settle(booking, error)
            if not isinstance(error, RefusedError):
                raise
            replies.error_messages.append(str(error))
        else:
            self.account.settle(booking, completion)
            replies.add(range(request.sampling.n), completion)
        return replies.make_response()

    async def answer(self, request: Request, run_state: RunState) -> Response:
        """Return the response to a request: `sampling.n` values, or why values are missing."""
        replies = _SampledReplies(request, run_state)
        may_raise_max_tokens = self.max_tokens is None
        usual_max_tokens = max_tokens_factor(self.model.name) * request.sampling.max_tokens
        sampling = replace(
            request.sampling,
            max_tokens=self.max_tokens or usual_max_tokens,
            reasoning_effort=self.reasoning_effort or request.sampling.reasoning_effort,
        )
        while True:
            await self._draw_samples(replies, sampling)
            if replies.error_messages or len(replies.values) == sampling.n:
                return replies.make_response()
            is_cut_off = any(reply.is_out_of_tokens for reply, _ in replies.unreadable.values())
            if is_cut_off and may_raise_max_tokens:
                may_raise_max_tokens = False
                sampling = replace(sampling, max_tokens=LONGER_REPLY_FACTOR * sampling.max_tokens)
                warn_once(
                    f"{self.model.name}: a reply was cut off at its limit of tokens; without "
                    f"--max-tokens, such requests are sent again with up to {sampling.max_tokens:,}"
                )
            elif is_cut_off or replies.n_repeats == MAX_REQUEST_REPEATS:
                return replies.make_response()
            else:
                replies.n_repeats += 1

    async def _draw_samples(self, replies: _SampledReplies, sampling: Sampling) -> None:
        """Ask for the missing samples: in one request if the model accepts `n`, else one by one."""
        sampling = replace(sampling, seed=sampling.seed + replies.n_repeats)
        if sampling.n == 1:
            await self._request_samples(replies, self._keyed_request(replies, sampling), [0])
            return
        missing_indices = [i for i in range(sampling.n) if i not in replies.values]
        joint_request = self._keyed_request(replies, replace(sampling, n=len(missing_indices)))
        request_by_index = {}
        for index in missing_indices:
            seed = sampling.seed + SAMPLE_SEED_STEP * index
            single_sampling = replace(sampling, n=1, seed=seed)
            request_by_index[index] = self._keyed_request(replies, single_sampling)
        # An earlier run may have asked for these samples together, or one by one. They are asked
        # for in the same way again, since its answers are then found in the stores.
        is_one_request = self._has_answer([joint_request])
        if not is_one_request and self._accepts_n:
            is_one_request = not self._has_answer(request_by_index.values())
        if is_one_request:
            n_replies = await self._request_samples(replies, joint_request, missing_indices)
            if n_replies == 1 < len(missing_indices):
                self._accepts_n = False  # the endpoint ignores n
            missing_indices = missing_indices[n_replies:] if n_replies else []
        tasks = [self._request_samples(replies, request_by_index[i], [i]) for i in missing_indices]
        # If one request does not fit into the budget, the others are still answered.
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _keyed_request(self, replies: _SampledReplies, sampling: Sampling) -> KeyedRequest:
        messages = replies.request.messages
        if replies.n_repeats and replies.request.restate_messages:
            messages = replies.request.restate_messages(messages)
        key = make_request_key(self._endpoint_identity, self.model.name, messages, sampling)
        return KeyedRequest(replies.run_state, key, messages, sampling)

    def _has_answer(self, requests: Iterable[KeyedRequest]) -> bool:
        """Return whether the run's store or the cache has an answer to one of the requests."""
        with suppress(StoreError):
            return any(store.get(request.key) for store in self._stores for request in requests)
        return False

    async def _request_samples(
        self, replies: _SampledReplies, request: KeyedRequest, sample_indices: Sequence[int]
    ) -> int:
        """Send one request for the given samples, and return the number of its replies."""
        try:
            completion, is_cached = await self._find_or_send(request)
        except (TransientError, RefusedError) as error:
            _log.info("%s", error)
            replies.error_messages.append(str(error))
            return 0
        n_values_before = len(replies.values)
        replies.add(sample_indices, completion)
        # Unreadable replies are not cached, since another run may get readable replies.
        if self.cache is not None and not is_cached and len(replies.values) > n_values_before:
            self.cache.put(request.key, completion)
        if not self._commit_is_scheduled:
            self._commit_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY_SECONDS, self._commit_stores)
        return len(completion.replies)

    def _commit_stores(self) -> None:
        self._commit_is_scheduled = False
        for store in self._stores:
            with suppress(StoreError):  # the next booking raises the error again
                store.commit()

    async def _find_or_send(self, request: KeyedRequest) -> tuple[Completion, bool]:
        """Return the answer to a request, and whether it was found without sending the request."""
        key = request.key
        if self._store is not None and (completion := self._store.get(key)) is not None:
            return completion, True
        while (pending_answer := self._pending_by_key.get(key)) is not None:
            await asyncio.wait([pending_answer])
            if not pending_answer.cancelled():  # a cancelled request has no answer
                return pending_answer.result(), True
        if self.cache is not None and (completion := self.cache.get(key)) is not None:
            self.account.record_cached(key, completion)
            return completion, True
        pending_answer = self._pending_by_key[key] = asyncio.Future()
        try:
            pending_answer.set_result(await self._sender.send(request))
        except ModelError as error:
            pending_answer.set_exception(error)
        finally:
            pending_answer.cancel()  # has no effect if there is a result or an error
            del self._pending_by_key[key]
        return pending_answer.result(), False


def answers_in_process(model: Model) -> bool:
    """Return whether a model runs in this process, and so answers at once and for free."""
    return ModelTraits.of(model).in_process
