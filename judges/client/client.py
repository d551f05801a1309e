"""Send many requests to one model within limits, and stream the responses in order.

    with Session(max_cost=1.0, store="replies.sqlite") as session:
        for response in session.client("openai/gpt-4.1-mini").run(requests): ...

A request passes through four methods. `run` starts requests and yields their responses in order.
`answer` sends a request again if its reply cannot be read. `_find_or_send` first looks for an
answer in the run's store and the user's cache. `Sender.send` books the request's cost in the
budget, sends the request, and retries after errors.
"""

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache

from judges.client.budget import Account, Budget, BudgetSpentError
from judges.client.event_loop import event_loop, run_at_once
from judges.client.monitor import FailingRunError, FailureMonitor
from judges.client.sender import KeyedRequest, Sender
from judges.client.store import ReplyCache, StoreError, request_key
from judges.client.window import WAKE_DELAY_SECONDS, InFlightCounter, RequestWindow
from judges.judgement import NoScoreError
from judges.protocol import (
    MAX_REPEATS,
    REASONING_FACTOR,
    SAMPLE_SEED_STEP,
    Completion,
    Model,
    ModelError,
    RefusedError,
    Reply,
    Request,
    Response,
    Sampling,
    TransientError,
    is_reasoning,
)
from judges.reading import check_reply

TIMEOUT_SECONDS = 120.0
# If a reply is cut off at max_tokens, the request is sent again once with this multiple of it.
LONGER_REPLY_FACTOR = 4

_log = logging.getLogger(__name__)
# Logged as warnings, which Python prints to stderr even if logging is not configured.
_warn_once = lru_cache(_log.warning)


@dataclass(slots=True)
class _CollectedReplies:
    """The replies to one request so far; the key of a reply is the index of its sample.

    `n_repeats` is how often the request was sent again because replies could not be read.
    """

    request: Request
    in_flight: InFlightCounter
    n_repeats: int = 0
    accepted: dict[int, tuple[Reply, object]] = field(default_factory=dict)
    unreadable: dict[int, tuple[Reply, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = True

    def add_completion(
        self, indices: Iterable[int], completion: Completion, *, cached: bool
    ) -> None:
        """Read the replies for the samples `indices`, and keep their values or their errors."""
        self.tokens_in += completion.tokens_in
        self.tokens_out += completion.tokens_out
        self.cached = self.cached and cached
        for index, reply in zip(indices, completion.replies, strict=False):
            try:
                check_reply(reply)
                self.accepted[index] = reply, self.request.accept(reply)
                self.unreadable.pop(index, None)
            except RefusedError as error:
                self.errors.append(str(error))
            except NoScoreError as error:
                _log.info("a reply cannot be read: %s", error)
                self.unreadable[index] = reply, str(error)

    def response(self) -> Response:
        accepted = [self.accepted[i] for i in sorted(self.accepted)]
        unreadable = [self.unreadable[i] for i in sorted(self.unreadable)]
        return Response(
            replies=(*(reply for reply, _ in accepted), *(reply for reply, _ in unreadable)),
            values=tuple(value for _, value in accepted),
            failures=(*self.errors, *(reason for _, reason in unreadable)),
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cached=self.cached and bool(accepted or unreadable),
        )


@dataclass(eq=False, repr=False)
class Client:
    """Sends requests to one model within a budget, from any thread.

    A request that fails has a Response with an `error`. A run ends if FatalModelError or
    BudgetSpentError is raised. A client need not be closed.

    Args:
        account: The budget's account on which requests are booked. Default: one without limits.
        cache: The cache of replies that all runs share; None means no cache.
        concurrency: The most requests in flight.
        timeout: The seconds after which an unanswered request is sent again.
        monitor: Stops a run in which almost all requests fail; with None, such a run continues.
        max_tokens, reasoning_effort: Replace those of every request, unless they are None.
        open_client_for: Opens a client for another model and address on the same budget.
    """

    model: Model
    _: KW_ONLY
    account: Account = field(default_factory=lambda: Budget().account())
    cache: ReplyCache | None = None
    concurrency: int = 64
    timeout: float = TIMEOUT_SECONDS
    monitor: FailureMonitor | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    open_client_for: Callable[[str, str | None], "Client"] | None = None

    def __post_init__(self) -> None:
        model = self.model
        # The tokens of the responses that `run` has yielded, including cached responses.
        self.tokens_in = self.tokens_out = 0
        self._store = self.account.budget.store
        self._is_in_process = answers_in_process(model)
        self._native_n = model.native_n
        self._identity = str(getattr(model, "identity", model.endpoint))
        is_reasoning_model = not self._is_in_process and is_reasoning(model.name)
        self._max_tokens_factor = REASONING_FACTOR if is_reasoning_model else 1
        self._sender = Sender(
            model, self.account, self.concurrency, self.timeout, ends_run=self.monitor is not None
        )
        self._pending: dict[bytes, asyncio.Future[Completion]] = {}
        self._commit_is_scheduled = False

    def ask(self, request: Request) -> Response:
        """Answer a single request, from any thread."""
        if self._is_in_process:
            return self._answer_in_process(request)
        future = asyncio.run_coroutine_threadsafe(self._answer_and_commit(request), event_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def ask_async(self, request: Request) -> Response:
        """Answer a single request, from any event loop."""
        if self._is_in_process:
            return self._answer_in_process(request)
        future = asyncio.run_coroutine_threadsafe(self._answer_and_commit(request), event_loop())
        return await asyncio.wrap_future(future)

    async def _answer_and_commit(self, request: Request) -> Response:
        response = await self.answer(request, InFlightCounter())
        self._commit()
        return response

    def run(self, requests: Iterable[Request]) -> Generator[Response, None, None]:
        """Yield a response for each request, in order; only a few requests are read ahead.

        The method also works while an event loop is running, as in a notebook. On Ctrl-C, the
        method waits a few seconds for the answers to requests in flight, and stores the answers.

        Raises:
            FatalModelError: No request can be answered, for example because the key is wrong or
                the model does not exist.
            BudgetSpentError: A limit of the budget is reached. The responses to all requests that
                were sent have been yielded.
        """
        if self._is_in_process:
            for request in requests:
                yield self._count_response(self._answer_in_process(request))
            return
        remaining_requests, grace_seconds = iter(requests), None
        window = RequestWindow(self.answer, self.concurrency, self.monitor)
        try:
            while window.start_requests(remaining_requests):
                if (response := window.take_response()) is not None:
                    yield self._count_response(response)
            window.check_budget()
        except (BudgetSpentError, FailingRunError):
            grace_seconds = self.timeout  # wait for requests in flight, since they are paid for
            raise
        finally:
            window.close(grace_seconds)

    def _count_response(self, response: Response) -> Response:
        self.tokens_in += response.tokens_in
        self.tokens_out += response.tokens_out
        if self.monitor is not None:
            self.monitor.record(response.error)
        return response

    def _answer_in_process(self, request: Request) -> Response:
        """Return the response of a model in this process, without retries and without a store."""
        replies = _CollectedReplies(request, InFlightCounter())
        booking = self.account.book(b"", request.messages, request.sampling)
        if booking is None:
            raise BudgetSpentError("the rest of the budget is reserved for other requests")
        try:
            completion = run_at_once(self.model.complete(request.messages, request.sampling))
        except ModelError as error:
            self.account.settle(booking, error)
            if not isinstance(error, RefusedError):
                raise
            replies.errors.append(str(error))
        else:
            self.account.settle(booking, completion)
            replies.add_completion(range(request.sampling.n), completion, cached=False)
        return replies.response()

    async def answer(self, request: Request, in_flight: InFlightCounter) -> Response:
        """Return the response to a request: `sampling.n` accepted replies, or why some failed.

        Nothing is sent once `in_flight` is stopped. Raises FatalModelError or BudgetSpentError if
        the run must end.
        """
        replies, may_raise_limit = _CollectedReplies(request, in_flight), self.max_tokens is None
        sampling = replace(
            request.sampling,
            max_tokens=self.max_tokens or self._max_tokens_factor * request.sampling.max_tokens,
            reasoning_effort=self.reasoning_effort or request.sampling.reasoning_effort,
        )
        while True:
            await self._draw_samples(replies, sampling)
            if replies.errors or len(replies.accepted) == sampling.n:
                return replies.response()
            is_cut_off = any(reply.is_out_of_tokens for reply, _ in replies.unreadable.values())
            if is_cut_off and may_raise_limit:
                may_raise_limit = False
                sampling = replace(sampling, max_tokens=LONGER_REPLY_FACTOR * sampling.max_tokens)
                _warn_once(
                    f"{self.model.name}: a reply was cut off at its limit of tokens; such requests "
                    f"are sent again with up to {sampling.max_tokens:,} (not with --max-tokens N)"
                )
            elif is_cut_off or replies.n_repeats == MAX_REPEATS:
                return replies.response()
            else:
                replies.n_repeats += 1

    async def _draw_samples(self, replies: _CollectedReplies, sampling: Sampling) -> None:
        """Request the missing samples: together if the model accepts `n`, else one by one.

        Only answers show whether an endpoint accepts `n`. So samples that an earlier start drew in
        one way are not drawn again in the other way.
        """
        missing_indices = [i for i in range(sampling.n) if i not in replies.accepted]
        sampling = replace(sampling, seed=sampling.seed + replies.n_repeats)
        joint_sampling = replace(sampling, n=len(missing_indices))
        single_samplings = {
            i: replace(sampling, n=1, seed=sampling.seed + SAMPLE_SEED_STEP * i)
            for i in missing_indices
        }
        is_joint = sampling.n == 1 or self._is_answered(replies, joint_sampling)
        if not is_joint and self._native_n:
            is_joint = not any(
                self._is_answered(replies, each) for each in single_samplings.values()
            )
        if is_joint:
            n_replies = await self._request_samples(replies, joint_sampling, missing_indices)
            if n_replies == 1 < len(missing_indices):
                self._native_n = False  # the endpoint ignores n
            missing_indices = missing_indices[n_replies:] if n_replies else []
        requests = [
            self._request_samples(replies, single_samplings[i], [i]) for i in missing_indices
        ]
        # If one request does not fit into the budget, the others are still answered.
        for result in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _is_answered(self, replies: _CollectedReplies, sampling: Sampling) -> bool:
        """Whether the run's store or the cache has the answer to this request."""
        key = request_key(self._identity, self.model.name, replies.request.messages, sampling)
        with suppress(StoreError):
            stores = [self._store, self.cache and self.cache.store]
            return any(store and store.get(key) for store in stores)
        return False

    async def _request_samples(
        self, replies: _CollectedReplies, sampling: Sampling, indices: Sequence[int]
    ) -> int:
        """Make one request for the samples `indices`, and return the number of its replies."""
        messages = replies.request.messages
        if replies.n_repeats and replies.request.restate is not None:
            messages = replies.request.restate(messages)
        key = request_key(self._identity, self.model.name, messages, sampling)
        try:
            request = KeyedRequest(replies.in_flight, key, messages, sampling)
            completion, cached = await self._find_or_send(request)
        except (TransientError, RefusedError) as error:
            _log.info("%s", error)
            replies.errors.append(str(error))
            return 0
        n_accepted = len(replies.accepted)
        replies.add_completion(indices, completion, cached=cached)
        # Unreadable replies are not cached, since another run may get readable replies.
        if self.cache is not None and not cached and len(replies.accepted) > n_accepted:
            self.cache.put(key, completion)
        if not self._commit_is_scheduled:
            self._commit_is_scheduled = True
            asyncio.get_running_loop().call_later(WAKE_DELAY_SECONDS, self._commit)
        return len(completion.replies)

    async def _find_or_send(self, request: KeyedRequest) -> tuple[Completion, bool]:
        """Return the answer to a request, and whether it was found without sending the request.

        The answer is taken from the run's store, else from an identical request in flight, else
        from the cache, else from the model.
        """
        key = request.key
        if self._store is not None and (completion := self._store.get(key)) is not None:
            return completion, True
        while (pending := self._pending.get(key)) is not None:
            await asyncio.wait([pending])
            if not pending.cancelled():  # a cancelled request was not answered: send this one
                return pending.result(), True
        if self.cache is not None and (completion := self.cache.get(key)) is not None:
            self.account.record_cached(key, completion)
            return completion, True
        pending = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            completion = await self._sender.send(request)
        except ModelError as error:
            pending.set_exception(error)
            pending.exception()  # marks it as retrieved: asyncio would log an unretrieved error
            raise
        except BaseException:
            pending.cancel()
            raise
        else:
            pending.set_result(completion)
            return completion, False
        finally:
            del self._pending[key]

    def _commit(self) -> None:
        self._commit_is_scheduled = False
        for store in (self._store, self.cache and self.cache.store):
            with suppress(StoreError):  # the next booking raises the error again
                if store:
                    store.commit()


def answers_in_process(model: Model) -> bool:
    """Return whether a model runs in this process, and so answers at once and for free."""
    return bool(getattr(model, "in_process", False))
