"""Send requests to one model: within the budget, not too many at once, and again after errors."""

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from judges.client.budget import Account, Booking, BudgetSpentError
from judges.client.log import warn_once
from judges.client.request_queue import POLL_SECONDS, RunState
from judges.protocol import (
    Completion,
    FatalModelError,
    Message,
    Model,
    ModelError,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
)

# The most attempts to send one request, not counting attempts that get status 429 (too many
# requests). The second number is for a host that has never answered.
MAX_ATTEMPTS, MAX_ATTEMPTS_UNREACHABLE = 6, 4
# A request is given up after this many 429s in a row while no other request is answered.
MAX_429S_IN_A_ROW = 24
# A run ends after this many requests are given up in a row, with no request answered in between.
MAX_GIVEN_UP_IN_A_ROW = 24
# The wait before the first retry, the longest wait, and the shortest wait that is logged.
FIRST_WAIT_SECONDS, MAX_WAIT_SECONDS, MIN_LOGGED_WAIT_SECONDS = 0.5, 60.0, 20.0
# The longest wait that a Retry-After header can set.
MAX_HEADER_WAIT_SECONDS = 600.0

_log = logging.getLogger(__name__)
# This generator differs between processes, so that they do not all retry at the same time.
_rng = random.SystemRandom()


class KeyedRequest(NamedTuple):
    """One request to the model, with its key in the store and the state of its run."""

    run_state: RunState
    key: bytes
    messages: Sequence[Message]
    sampling: Sampling


class Sender:
    """Sends requests to one model, at most `concurrency` at a time.

    An unanswered request is sent again after `timeout` seconds. The run ends if the model never
    answers. Unless `keep_going` is true, the run also ends if the model stops answering.
    """

    def __init__(
        self, model: Model, account: Account, concurrency: int, timeout: float, *, keep_going: bool
    ) -> None:
        self._model, self._account = model, account
        self._timeout, self._keep_going = timeout, keep_going
        self._throttle, self._booking_lock = Throttle(concurrency), asyncio.Lock()
        # Requests that were answered or refused so far, and requests given up since the last one.
        self._n_answered = self._n_given_up = 0

    async def send(self, request: KeyedRequest) -> Completion:
        """Send a request, again after errors if the budget allows it, and return the answer."""
        n_attempts = n_failures = n_429s = 0
        n_answered_at_start = self._n_answered
        while True:
            n_attempts += 1
            n_answered_before = self._n_answered
            try:
                return await self._send_once(request)
            except ThrottledError as error:
                # As long as other requests are answered, this request is not given up.
                n_429s = n_429s + 1 if self._n_answered == n_answered_before else 1
                if n_429s == MAX_429S_IN_A_ROW:
                    raise self._final_error(error, n_attempts, n_answered_at_start) from error
            except TransientError as error:
                n_failures += 1
                was_never_reached = isinstance(error, UnreachableError) and not self._n_answered
                if n_failures >= (MAX_ATTEMPTS_UNREACHABLE if was_never_reached else MAX_ATTEMPTS):
                    raise self._final_error(error, n_attempts, n_answered_at_start) from error
                wait_seconds = retry_wait(error, n_failures)
                _log.info("%s; attempt %d, the next in %.1f s", error, n_failures, wait_seconds)
                await asyncio.sleep(wait_seconds)

    def _final_error(
        self, error: TransientError, n_attempts: int, n_answered_at_start: int
    ) -> ModelError:
        """Return the exception for a request that is given up; fatal if the run cannot go on."""
        self._n_given_up += 1
        was_any_answered = self._n_answered > n_answered_at_start
        is_unreachable = isinstance(error, UnreachableError) and not was_any_answered
        has_stopped_answering = is_unreachable or self._n_given_up >= MAX_GIVEN_UP_IN_A_ROW
        if has_stopped_answering and not (self._keep_going and self._n_answered):
            advice = "run the same command again once it answers"
            return FatalModelError(f"the endpoint does not answer ({error}); {advice}")
        return TransientError(f"gave up after {n_attempts} attempts: {error}")

    async def _send_once(self, request: KeyedRequest) -> Completion:
        """Send a request without retries; raises TransientError if a retry may succeed."""
        async with self._throttle as sent_at:
            booking = await self._book(request)
            request.run_state.n_in_flight += 1
            outcome: Completion | ModelError = TransientError("cancelled", may_be_billed=True)
            try:
                if (store := self._account.budget.store) is not None:
                    await asyncio.sleep(0)  # one commit covers all requests booked now
                    store.commit()
                async with asyncio.timeout(self._timeout):
                    outcome = await self._model.complete(request.messages, request.sampling)
            except TimeoutError:
                reason = f"no answer within {self._timeout:g} s"
                outcome = TransientError(reason, may_be_billed=True)
            except ModelError as error:
                outcome = error
            finally:
                self._account.settle(booking, outcome)
                request.run_state.n_in_flight -= 1
            if isinstance(outcome, ThrottledError):
                wait_seconds = retry_wait(outcome, self._throttle.n_bursts + 1)
                self._throttle.lower_limit(sent_at, wait_seconds)
            if not isinstance(outcome, TransientError):
                self._n_answered, self._n_given_up = self._n_answered + 1, 0
            if isinstance(outcome, ModelError):
                raise outcome
            self._throttle.raise_limit()
            return outcome

    async def _book(self, request: KeyedRequest) -> Booking:
        """Wait until the budget allows the request, and book its cost."""
        async with self._booking_lock:  # so that requests are booked in the order of arrival
            run_state, key, messages, sampling = request
            while not run_state.is_stopped:
                if run_state.spent_error is not None:
                    raise run_state.spent_error
                try:
                    booking = self._account.book(key, messages, sampling)
                except BudgetSpentError as error:
                    run_state.spent_error = error
                    raise
                if booking is not None:
                    return booking
                await asyncio.sleep(POLL_SECONDS)  # until requests in flight are settled
        raise asyncio.CancelledError


class Throttle:
    """Limits the requests in flight: a 429 lowers the limit, and every answer raises it again."""

    def __init__(self, max_in_flight: int) -> None:
        # `_limit` is the number of requests that may be in flight now.
        self._max_limit, self._limit, self._n_in_flight = max_in_flight, float(max_in_flight), 0
        self._waiting_requests: deque[asyncio.Future[None]] = deque()
        self._sending_resumes_at = self._limit_lowered_at = 0.0
        # The number of bursts of 429s since the last answer. A burst lowers the limit only once.
        self.n_bursts = 0

    async def __aenter__(self) -> float:
        """Wait until a request may be sent, and return the time of sending for `lower_limit`."""
        admission_future = asyncio.get_running_loop().create_future()
        self._waiting_requests.append(admission_future)
        self._admit_requests()
        try:
            await admission_future
            while (wait_seconds := self._sending_resumes_at - time.monotonic()) > 0:
                await asyncio.sleep(wait_seconds)
        except asyncio.CancelledError:
            if admission_future.done() and not admission_future.cancelled():
                await self.__aexit__()
            raise
        return time.monotonic()

    async def __aexit__(self, *_: object) -> None:
        self._n_in_flight -= 1
        self._admit_requests()

    def raise_limit(self) -> None:
        """Raise the limit by 2 % after an answer, at most to the original limit."""
        self.n_bursts = 0
        self._limit = min(self._max_limit, 1.02 * self._limit)

    def lower_limit(self, sent_at: float, wait_seconds: float) -> None:
        """After a 429, send nothing for `wait_seconds`, and lower the limit by 30 %.

        A request that was sent before the last lowering does not lower the limit again.
        """
        now = time.monotonic()
        self._sending_resumes_at = max(self._sending_resumes_at, now + wait_seconds)
        if sent_at >= self._limit_lowered_at:
            self._limit_lowered_at = now
            self.n_bursts += 1
            self._limit = max(1.0, 0.7 * self._limit)

    def _admit_requests(self) -> None:
        while self._waiting_requests and self._n_in_flight < int(self._limit):
            admission_future = self._waiting_requests.popleft()
            if not admission_future.done():
                self._n_in_flight += 1
                admission_future.set_result(None)


def retry_wait(error: TransientError, n_failures: int) -> float:
    """Return the seconds until the next attempt: Retry-After or a backoff, with jitter.

    A Retry-After of more than ten minutes raises FatalModelError after a 429, and else is ignored.
    """
    retry_after = error.retry_after or 0.0
    if isinstance(error, ThrottledError) and retry_after > MAX_HEADER_WAIT_SECONDS:
        raise FatalModelError(
            f"{error}; the endpoint asks clients to wait {retry_after / 60:.0f} minutes "
            "(Retry-After): run the same command again after that"
        ) from error
    wait_seconds = min(FIRST_WAIT_SECONDS * 2.0 ** (n_failures - 1), MAX_WAIT_SECONDS)
    wait_seconds *= _rng.uniform(0.5, 1.0)
    if 0 < retry_after <= MAX_HEADER_WAIT_SECONDS:
        wait_seconds = retry_after + _rng.uniform(0.0, min(0.1 * retry_after, 1.0))
    if wait_seconds >= MIN_LOGGED_WAIT_SECONDS:
        warn_once(f"{error}; waiting {wait_seconds:.0f} s before the next attempt")
    return wait_seconds
