"""Send many requests to one model: in order, streaming, within limits, and paid for once.

    with Session(max_cost=1.0, store="replies.sqlite") as session:
        for response in session.client("openai/gpt-4.1-mini").run(requests): ...

A request passes `run`, `answer`, `_complete` (which looks in the run's store and the user's cache)
and `_send` (which books, sends, retries and settles it). Where a reply cannot be read, the request
is sent again.
"""

import asyncio
import atexit
import logging
import os
import random
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from judges.client.budget import Account, Booking, Budget, BudgetSpentError
from judges.client.store import ReplyCache, StoreError, request_key
from judges.judgement import NoScoreError
from judges.protocol import (
    FRESH_ASKS,
    REASONING_FACTOR,
    SAMPLE_SEED_STEP,
    Completion,
    FatalModelError,
    Message,
    Model,
    ModelError,
    RefusedError,
    Reply,
    Response,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
    is_reasoning,
)
from judges.reading import check_reply

T = TypeVar("T")
TIMEOUT = 120.0
ATTEMPTS = 6  # at one request, the first included
THROTTLES_IN_A_ROW = 24  # 429s for one request while no other is answered either
GIVEN_UP_IN_A_ROW = 24  # requests that are given up while no other is answered
LONGER_REPLY = 4  # max_tokens is multiplied by it, once, where a reply is cut short
FIRST_WAIT, LONGEST_WAIT, NOTABLE_WAIT = 0.5, 60.0, 20.0
# The longest Retry-After that is waited for, and the longest that is believed, in seconds.
LONGEST_RETRY_AFTER, MOST_RETRY_AFTER = 600.0, 31_536_000.0
POLL = 0.02
# Attempts at a host that has not answered any request.
ATTEMPTS_UNREACHED = 4
# Requests read ahead for each one in flight, since some wait for a retry; and answers that are kept
# while an earlier request, which may hang, has none.
READ_AHEAD, MOST_WAITING = 3, 4096
# Requests that are passed to the event loop's thread together.
BATCH = 64
# Wake the reader, and commit, for several responses at a time: each alone takes longer than one.
WAKE_DELAY = 0.002
# Seconds that requests in flight get to arrive when the user stops the run.
GRACE = 5.0
MIN_RESPONSES, MAX_FAILURE_RATE = 48, 0.9

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """Messages, how to draw replies, and how to read them.

    `accept` returns the value of a reply. Where it raises NoScoreError the request is sent again,
    with the messages that `restate` makes (the same ones would bring the same reply at temperature
    0).
    """

    messages: Sequence[Message]
    sampling: Sampling
    accept: Callable[[Reply], object]
    restate: Callable[[Sequence[Message]], Sequence[Message]] | None = None


@dataclass(slots=True)
class Totals:
    """Counts over responses. Those that were `cached` were not sent, but their tokens count."""

    responses: int = 0
    cached: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


class FailingRunError(FatalModelError):
    """Almost every request failed, so that the run ends before it has cost much."""


class FailureMonitor:
    """Ends a run in which almost all requests fail from the beginning.

    `add` raises FailingRunError once 48 requests are answered and 90 % of all so far have failed.
    """

    def __init__(self) -> None:
        self.n_answered = self.n_failed = 0

    def has_room(self, under_way: int) -> bool:
        """Whether one more may be sent; until one succeeds, only as many as `add` decides by."""
        if self.n_answered >= MIN_RESPONSES:
            return True
        return self.n_failed < self.n_answered or self.n_answered + under_way < MIN_RESPONSES

    def add(self, error: str | None) -> None:
        self.n_answered += 1
        self.n_failed += error is not None
        most = MAX_FAILURE_RATE * self.n_answered
        if error is not None and self.n_answered >= MIN_RESPONSES and self.n_failed >= most:
            raise FailingRunError(
                f"{self.n_failed} of the first {self.n_answered} judgements failed, as in: "
                f"{error}; mend the model or the judge"
            )


@dataclass(slots=True)
class _Job:
    """A request with the replies so far, by the number of their sample.

    `fresh` counts the new requests after unreadable replies, and `is_longer` says whether one had a
    higher limit on tokens.
    """

    request: Request
    window: "_Window"
    fresh: int = 0
    is_longer: bool = False
    accepted: dict[int, tuple[Reply, object]] = field(default_factory=dict)
    unread: dict[int, tuple[Reply, str]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = True

    def read(self, number: int, reply: Reply) -> None:
        """Read a reply and keep it with its value, or with the reason why it has none."""
        try:
            check_reply(reply)
            self.accepted[number] = reply, self.request.accept(reply)
            self.unread.pop(number, None)
        except RefusedError as error:
            self.errors.append(str(error))
        except NoScoreError as error:
            _log.info("a reply cannot be read: %s", error)
            self.unread[number] = reply, str(error)

    def response(self) -> Response:
        accepted = [self.accepted[i] for i in sorted(self.accepted)]
        unread = [self.unread[i] for i in sorted(self.unread)]
        return Response(
            replies=(*(reply for reply, _ in accepted), *(reply for reply, _ in unread)),
            values=tuple(value for _, value in accepted),
            failures=(*self.errors, *(reason for _, reason in unread)),
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cached=self.cached and bool(accepted or unread),
        )


class _Draw(NamedTuple):
    """What is sent for a job at once, and its key; nothing once the `window` is stopped."""

    window: "_Window"
    key: bytes
    messages: Sequence[Message]
    sampling: Sampling


class Throttle:
    """Limits the requests in flight: fewer places after a 429, more again with every answer."""

    def __init__(self, places: int) -> None:
        self._most, self._places, self._busy = places, float(places), 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._opens_at = self._narrowed_at = 0.0
        # Bursts of 429s since the last answer.
        self.bursts = 0

    async def __aenter__(self) -> float:
        """Wait for a place and until the gate is open; returns that time, for `narrow`."""
        self._waiting.append(turn := asyncio.get_running_loop().create_future())
        self._call()
        try:
            await turn
            while (wait := self._opens_at - time.monotonic()) > 0:
                await asyncio.sleep(wait)
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                await self.__aexit__()
            raise
        return time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        self._busy -= 1
        self._call()

    def widen(self) -> None:
        """Add 2 % more places after an answer, up to the most."""
        self.bursts = 0
        self._places = min(self._most, 1.02 * self._places)

    def narrow(self, entered_at: float, wait: float) -> None:
        """Close for `wait` seconds, and remove 30 % of the places once for each burst of 429s."""
        now = time.monotonic()
        self._opens_at = max(self._opens_at, now + wait)
        if entered_at >= self._narrowed_at:
            self._narrowed_at, self.bursts = now, self.bursts + 1
            self._places = max(1.0, 0.7 * self._places)

    def _call(self) -> None:
        """Give free places to those who have waited longest."""
        while self._waiting and self._busy < int(self._places):
            if not (turn := self._waiting.popleft()).done():
                self._busy += 1
                turn.set_result(None)


@dataclass(slots=True, eq=False)
class _Place:
    # None once it is answered, since requests are large and responses may wait long.
    request: Request | None
    outcome: Response | BaseException | None = None


class _Window:
    """The requests of a run in flight: answered in any order, and taken in the order of the run."""

    def __init__(self, client: "Client") -> None:
        self.stopped = False
        # Requests that the model is answering.
        self.n_sent = 0
        self._client = client
        self._places: deque[_Place] = deque()
        self._unstarted: list[_Place] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._n_added = self._n_answered = 0
        self._fatal: Exception | None = None
        self._awake, self._wakes = threading.Event(), False

    def __len__(self) -> int:
        return len(self._places)

    @property
    def ready(self) -> bool:
        """Whether the first response has come, or an error that ends the run."""
        return self._fatal is not None or (
            bool(self._places) and self._places[0].outcome is not None
        )

    @property
    def has_room(self) -> bool:
        under_way, monitor = self._n_added - self._n_answered, self._client.monitor
        has_room = under_way < READ_AHEAD * self._client.concurrency and len(self) < MOST_WAITING
        return has_room and (monitor is None or monitor.has_room(len(self)))

    def add(self, request: Request) -> None:
        self._n_added += 1
        self._places.append(_Place(request))
        self._unstarted.append(self._places[-1])
        if len(self._unstarted) == BATCH:
            self.start()

    def start(self) -> None:
        """Pass the added requests on together, since waking the other thread takes time."""
        if self._unstarted:
            places, self._unstarted = self._unstarted, []
            event_loop().call_soon_threadsafe(self._start, places)

    def wait(self) -> None:
        """Wait for more answers."""
        self._awake.wait()
        self._awake.clear()

    def take(self) -> Response:
        """Remove and return the first response, which is ready, or raise its request's error.

        An error that ends the run is raised at once, save a spent budget, which waits for its turn.
        """
        if self._fatal is not None:
            raise self._fatal
        outcome = self._places.popleft().outcome
        if isinstance(outcome, Response):
            return outcome
        assert outcome is not None
        raise outcome

    def close(self, grace: float) -> None:
        """Send nothing more, and give requests in flight `grace` seconds to arrive and be kept."""
        self.stopped = True
        if self._tasks:
            self._await_sent(grace)
            event_loop().call_soon_threadsafe(self._cancel)
            self._await_sent(GRACE)  # until the store has them as lost

    def _await_sent(self, seconds: float) -> None:
        # The garbage collector may close a generator in any thread, also in the event loop's, which
        # must not wait for itself.
        on_loop = threading.current_thread() is _start_loop()[1]
        until = time.monotonic() + (0.0 if on_loop else seconds)
        while self.n_sent and time.monotonic() < until:
            time.sleep(POLL)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _start(self, places: Sequence[_Place]) -> None:
        for place in places:
            task = asyncio.create_task(self._answer(place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, place: _Place) -> None:
        assert place.request is not None
        try:
            place.outcome = await self._client.answer(place.request, self)
        except BaseException as error:  # noqa: BLE001 - `take` raises it again
            place.outcome = error
            if isinstance(error, Exception) and not isinstance(error, BudgetSpentError):
                self._fatal = error
        place.request = None
        self._n_answered += 1
        if not self._wakes:
            self._wakes = True
            asyncio.get_running_loop().call_later(WAKE_DELAY, self._wake)

    def _wake(self) -> None:
        self._wakes = False
        self._awake.set()


@dataclass(eq=False, repr=False)
class Client:
    """Sends requests to one model within a budget, from any thread.

    A request that fails is a Response with an `error`. FatalModelError (a wrong key, no such model)
    and BudgetSpentError end a run. There is nothing to close. `totals` counts the responses that
    `run` has yielded.

    Args:
        model: The model, from `open_model` or one of the user's own.
        account: The account in a budget that requests are booked on (without limits).
        timeout: Seconds until a request without an answer is sent again.
        attempts: The most attempts at a request, rate limits apart.
        max_tokens: In the place of the requests' own, as `reasoning_effort` is.
        rng: Spreads the waits of clients that fail together.

    Example:
        >>> client = Client(open_model("openai/gpt-4.1-mini"), concurrency=16)
        >>> for response in client.run(requests):
        ...     print(response.values or response.error)
    """

    model: Model
    _: KW_ONLY
    account: Account = field(default_factory=lambda: Budget().account())
    cache: ReplyCache | None = None
    concurrency: int = 64
    timeout: float = TIMEOUT
    attempts: int = ATTEMPTS
    monitor: FailureMonitor | None = None
    max_tokens: int | None = None
    reasoning_effort: str | None = None
    rng: random.Random = field(default_factory=random.SystemRandom)

    def __post_init__(self) -> None:
        model, concurrency = self.model, self.concurrency
        self.totals = Totals()
        # Opens the client of another model and address on the same budget; a session sets it.
        self.open_sibling: Callable[[str, str | None], Client] | None = None
        self._store = self.account.budget.store
        self._in_process = answers_in_process(model)
        self._native_n = model.native_n
        self._identity = str(getattr(model, "identity", model.endpoint))
        thinks = not self._in_process and is_reasoning(model.name)
        self._token_factor = REASONING_FACTOR if thinks else 1
        self._has_own_limits = bool(self.max_tokens or self.reasoning_effort or thinks)
        self._gate = Throttle(min(concurrency, getattr(model, "most_connections", concurrency)))
        self._booking = asyncio.Lock()
        self._pending: dict[bytes, asyncio.Future[Completion]] = {}
        # Answers, and requests that were given up since the last one.
        self._n_answered = self._n_given_up = 0
        self._warnings: set[str] = set()
        self._commits = False

    def ask(self, request: Request) -> Response:
        """Answer a single request, from any thread."""
        if self._in_process:
            return self._answer_now(request)
        answer = asyncio.run_coroutine_threadsafe(self._answer_one(request), event_loop())
        try:
            return answer.result()
        except BaseException:
            answer.cancel()
            raise

    async def ask_async(self, request: Request) -> Response:
        """Answer a single request, from any event loop."""
        if self._in_process:
            return self._answer_now(request)
        answer = asyncio.run_coroutine_threadsafe(self._answer_one(request), event_loop())
        return await asyncio.wrap_future(answer)

    async def _answer_one(self, request: Request) -> Response:
        response = await self.answer(request, _Window(self))
        self._commit()
        return response

    def run(self, requests: Iterable[Request]) -> Iterator[Response]:
        """Yield a response for each request, in order, reading few requests ahead.

        This also works where an event loop is already running. On Ctrl-C, requests in flight get
        some seconds to arrive and be kept.

        Raises:
            FatalModelError: The model cannot be asked: a wrong key, or no such model.
            BudgetSpentError: A limit is reached; the requests before it have their responses.
        """
        if self._in_process:
            for request in requests:
                yield self._count(self._answer_now(request))
            return
        window, remaining, grace = _Window(self), iter(requests), GRACE
        try:
            more = True
            while more or window:
                while more and not window.ready and window.has_room:
                    if more := (following := next(remaining, None)) is not None:
                        window.add(following)
                window.start()
                if window.ready:
                    yield self._count(window.take())
                elif window:
                    window.wait()
        except (BudgetSpentError, FailingRunError):
            grace = self.timeout  # requests in flight are paid for: let them arrive
            raise
        finally:
            window.close(grace)

    def _count(self, response: Response) -> Response:
        totals = self.totals
        totals.responses += 1
        totals.cached += response.cached
        totals.tokens_in += response.tokens_in
        totals.tokens_out += response.tokens_out
        if self.monitor is not None:
            self.monitor.add(response.error)
        return response

    def _answer_now(self, request: Request) -> Response:
        """The response of a model in this process: at once, without retries or a store."""
        job = _Job(request, _Window(self), cached=False)
        booking = self.account.book(b"", request.messages, request.sampling)
        if booking is None:
            raise BudgetSpentError("what is left of the budget is set aside for other requests")
        try:
            completion = _run_now(self.model.complete(request.messages, request.sampling))
        except ModelError as error:
            self.account.settle(booking, error)
            if not isinstance(error, RefusedError):
                raise
            job.errors.append(str(error))
            return job.response()
        self.account.settle(booking, completion)
        job.tokens_in, job.tokens_out = completion.tokens_in, completion.tokens_out
        for number, reply in enumerate(completion.replies):
            job.read(number, reply)
        return job.response()

    async def answer(self, request: Request, window: _Window) -> Response:
        """The response with `sampling.n` accepted replies, or with the reasons why there are fewer.

        Nothing is sent once the `window` is stopped. Raises FatalModelError and BudgetSpentError,
        which end the run.
        """
        job, sampling = _Job(request, window), request.sampling
        if self._has_own_limits:
            sampling = replace(
                sampling,
                max_tokens=self.max_tokens or self._token_factor * sampling.max_tokens,
                reasoning_effort=self.reasoning_effort or sampling.reasoning_effort,
            )
        while True:
            await self._draw(job, sampling)
            if job.errors or len(job.accepted) == sampling.n:
                return job.response()
            is_cut = any(reply.out_of_tokens for reply, _ in job.unread.values())
            if is_cut and not job.is_longer and self.max_tokens is None:
                job.is_longer = True
                sampling = replace(sampling, max_tokens=LONGER_REPLY * sampling.max_tokens)
                self._say_once(
                    f"{self.model.name}: a reply was cut at its limit of tokens; such requests are "
                    f"sent again with up to {sampling.max_tokens:,} (--max-tokens N asks once)"
                )
            elif is_cut or job.fresh == FRESH_ASKS:
                return job.response()
            else:
                job.fresh += 1

    async def _draw(self, job: _Job, sampling: Sampling) -> None:
        """Draw the missing samples: in one request where the model can, else in one each."""
        missing = [i for i in range(sampling.n) if i not in job.accepted]
        if job.fresh:
            sampling = replace(sampling, seed=sampling.seed + job.fresh)
        if self._native_n or sampling.n == 1:
            together = sampling if len(missing) == sampling.n else replace(sampling, n=len(missing))
            n_replies = await self._draw_once(job, together, missing)
            missing = missing[n_replies:]
            if not missing or n_replies == 0:
                return
            self._native_n = False  # the endpoint ignores n
        draws = [
            self._draw_once(
                job, replace(sampling, n=1, seed=sampling.seed + SAMPLE_SEED_STEP * i), [i]
            )
            for i in missing
        ]
        # Where the budget ends, requests in flight still arrive.
        for result in await asyncio.gather(*draws, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    async def _draw_once(self, job: _Job, sampling: Sampling, numbers: Sequence[int]) -> int:
        """Make one request, read its replies as samples `numbers`, and return how many came."""
        messages = job.request.messages
        if job.fresh and job.request.restate is not None:
            messages = job.request.restate(messages)
        try:
            key = request_key(self._identity, self.model.name, messages, sampling)
            draw = _Draw(job.window, key, messages, sampling)
            completion, cached = await self._complete(draw)
        except (TransientError, RefusedError) as error:
            _log.info("%s", error)
            job.errors.append(str(error))
            return 0
        job.tokens_in += completion.tokens_in
        job.tokens_out += completion.tokens_out
        job.cached = job.cached and cached
        n_accepted = len(job.accepted)
        for number, reply in zip(numbers, completion.replies, strict=False):
            job.read(number, reply)
        # An unreadable reply is not cached: another run may get a better one.
        if self.cache is not None and not cached and len(job.accepted) > n_accepted:
            self.cache.put(key, completion)
        if not self._commits:
            self._commits = True
            asyncio.get_running_loop().call_later(WAKE_DELAY, self._commit)
        return len(completion.replies)

    async def _complete(self, draw: _Draw) -> tuple[Completion, bool]:
        """The answer, and whether it came without sending a request.

        It is from the run's store, an identical request in flight, the cache, or the model.
        """
        key = draw.key
        while True:
            if self._store is not None and (completion := self._store.get(key)) is not None:
                return completion, True
            pending = self._pending.get(key)
            if pending is None:
                break
            await asyncio.wait([pending])
            if not pending.cancelled():  # else its sender was stopped: send it here
                return pending.result(), True
        if self.cache is not None and (cached := self.cache.get(key)) is not None:
            self.account.keep(key, cached)
            return cached, True
        pending = self._pending[key] = asyncio.get_running_loop().create_future()
        try:
            completion = await self._send(draw)
        except ModelError as error:
            pending.set_exception(error)
            pending.exception()  # marks it as retrieved, also where nobody waits for it
            raise
        except BaseException:
            pending.cancel()
            raise
        else:
            pending.set_result(completion)
            return completion, False
        finally:
            del self._pending[key]

    async def _send(self, draw: _Draw) -> Completion:
        """Send until there is an answer or no attempt left; raises ModelError, BudgetSpentError."""
        faults = throttles = tries = 0
        at_first = self._n_answered
        while True:
            answered_before = self._n_answered
            outcome = await self._attempt(draw)
            if isinstance(outcome, Completion):
                return outcome
            tries += 1
            if isinstance(outcome, ThrottledError):
                # Where others are answered, this one will be, too.
                throttles = throttles + 1 if self._n_answered == answered_before else 1
            else:
                faults += 1
            if faults >= self.attempts or throttles >= THROTTLES_IN_A_ROW:
                self._n_given_up += 1
                is_gone = isinstance(outcome, UnreachableError) and self._n_answered == at_first
                if self.monitor and (is_gone or self._n_given_up >= GIVEN_UP_IN_A_ROW):
                    raise FatalModelError(
                        f"the endpoint has stopped answering ({outcome}); the same command goes on "
                        "once it answers again"
                    ) from outcome
                raise TransientError(f"gave up after {tries} attempts: {outcome}") from outcome
            if isinstance(outcome, UnreachableError) and not self._n_answered:
                if faults >= ATTEMPTS_UNREACHED:
                    raise FatalModelError(str(outcome)) from outcome
                self._say_once(f"{outcome}; retrying for some seconds")
            if not isinstance(outcome, ThrottledError):
                wait = self._wait(outcome, faults)
                _log.info("%s; attempt %d, the next in %.1f s", outcome, tries, wait)
                await asyncio.sleep(wait)

    async def _attempt(self, draw: _Draw) -> Completion | TransientError:
        """Send once, within the limits on requests in flight and on money."""
        async with self._gate as entered_at:
            booking = await self._book(draw)
            draw.window.n_sent += 1
            try:
                if self._store is not None:
                    await asyncio.sleep(0)  # others are booked, too; the first commits for all
                    self._store.commit(booking.number)
                outcome = await self._ask_model(draw)
            except BaseException:
                self.account.release(booking, billed=True)
                raise
            else:
                self.account.settle(booking, outcome)
            finally:
                draw.window.n_sent -= 1
            if isinstance(outcome, ThrottledError):
                self._gate.narrow(entered_at, self._wait(outcome, self._gate.bursts + 1))
            if isinstance(outcome, TransientError):
                return outcome
            self._n_answered, self._n_given_up = self._n_answered + 1, 0
            if isinstance(outcome, ModelError):
                raise outcome
            self._gate.widen()
            return outcome

    async def _book(self, draw: _Draw) -> Booking:
        """The booking of a request, as soon as it fits into the budget."""
        async with self._booking:  # in the order of arrival
            while not draw.window.stopped:
                booking = self.account.book(draw.key, draw.messages, draw.sampling)
                if booking is not None:
                    return booking
                await asyncio.sleep(POLL)  # it may fit once others have settled
        raise asyncio.CancelledError

    async def _ask_model(self, draw: _Draw) -> Completion | ModelError:
        try:
            async with asyncio.timeout(self.timeout):
                return await self.model.complete(draw.messages, draw.sampling)
        except TimeoutError:
            return TransientError(f"no answer within {self.timeout:g} s", billed=True)
        except ModelError as error:
            return error

    def _commit(self) -> None:
        self._commits = False
        for store in (self._store, self.cache and self.cache.store):
            with suppress(StoreError):  # which the next booking raises again
                if store:
                    store.commit()

    def _wait(self, error: TransientError, tries: int) -> float:
        """Seconds until the next attempt: the endpoint's Retry-After, else exponential with jitter.

        Raises FatalModelError for a rate limit of more than ten minutes. A longer Retry-After of
        any other error is ignored, since an endpoint does not know how long an outage lasts.
        """
        retry_after = min(error.retry_after or 0.0, MOST_RETRY_AFTER)
        if isinstance(error, ThrottledError) and retry_after > LONGEST_RETRY_AFTER:
            raise FatalModelError(
                f"{error}; it wants to be asked again in {retry_after / 60:.0f} minutes (its "
                "Retry-After): the same command goes on then"
            ) from error
        wait = min(FIRST_WAIT * 2.0 ** (tries - 1), LONGEST_WAIT) * self.rng.uniform(0.5, 1.0)
        if 0 < retry_after <= LONGEST_RETRY_AFTER:
            wait = retry_after + self.rng.uniform(0.0, min(0.1 * retry_after, 1.0))
        if wait >= NOTABLE_WAIT:
            self._say_once(f"{error}; waiting {wait:.0f} s before the next attempt")
        return wait

    def _say_once(self, warning: str) -> None:
        # A warning reaches stderr even where logging is not set up.
        if warning not in self._warnings:
            self._warnings.add(warning)
            _log.warning("%s", warning)


def answers_in_process(model: Model) -> bool:
    """Whether a model answers in this process, at once and for free."""
    return bool(getattr(model, "in_process", False))


def _run_now(coroutine: Coroutine[object, None, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise RuntimeError("a model that answers in this process must not wait for anything")


_starting = threading.Lock()
# Called on the event loop when the interpreter ends.
at_end: set[Callable[[], Awaitable[None]]] = set()


def event_loop() -> asyncio.AbstractEventLoop:
    """The one event loop of this process, in a daemon thread of its own."""
    with _starting:
        return _start_loop()[0]


@lru_cache(maxsize=1)
def _start_loop() -> tuple[asyncio.AbstractEventLoop, threading.Thread]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="judges", daemon=True)
    thread.start()
    atexit.register(_end_loop, loop, os.getpid())
    return loop, thread


def _end_loop(loop: asyncio.AbstractEventLoop, process: int) -> None:
    async def close_all() -> None:
        # Libraries may have left tasks here.
        for task in (others := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*others, *(close() for close in at_end), return_exceptions=True)
        loop.stop()

    if os.getpid() == process:
        asyncio.run_coroutine_threadsafe(close_all(), loop)
        _start_loop()[1].join(1.0)


if hasattr(os, "register_at_fork"):
    # A child process has no such thread and starts its own.
    os.register_at_fork(after_in_child=_start_loop.cache_clear)
