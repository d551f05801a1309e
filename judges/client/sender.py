"""Send requests to a model within the budget, and send them again after a temporary error."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from judges.client.budget import Account, Booking, BudgetSpentError
from judges.client.request_queue import POLL_SECONDS, RunState
from judges.client.throttle import Throttle, retry_wait
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

# The most attempts to send one request, without those that are answered with a 429. The second
# number is for a host that has not answered any request.
MAX_ATTEMPTS, MAX_ATTEMPTS_UNREACHABLE = 6, 4
# A request is given up after this many 429s if no other request is answered meanwhile.
MAX_THROTTLES_IN_A_ROW = 24
# A run ends after this many requests are given up in a row, with no request answered in between.
MAX_GIVEN_UP_IN_A_ROW = 24

_log = logging.getLogger(__name__)


class KeyedRequest(NamedTuple):
    """One request to the model, with its key in the store and the state of its run."""

    run_state: RunState
    key: bytes
    messages: Sequence[Message]
    sampling: Sampling


@dataclass(eq=False, repr=False)
class Sender:
    """Sends requests to one model, at most `concurrency` at a time.

    The run ends if the model never answers within `timeout` seconds, or, unless `keep_going` is
    true, if the model stops answering.
    """

    model: Model
    account: Account
    concurrency: int
    timeout: float
    keep_going: bool

    def __post_init__(self) -> None:
        self._store = self.account.budget.store
        self._throttle = Throttle(self.concurrency)
        self._booking_lock = asyncio.Lock()
        # The number of answers so far, and the number of requests given up since the last answer.
        self._n_answered = self._n_given_up = 0

    async def send(self, request: KeyedRequest) -> Completion:
        """Send a request, with retries within the budget, and return its answer."""
        n_attempts = n_failures = n_throttles = 0
        n_answered_at_start = self._n_answered
        while True:
            n_attempts += 1
            n_answered_before = self._n_answered
            try:
                return await self._send_once(request)
            except ThrottledError as error:
                # While other requests are answered, this request will be answered, too.
                n_throttles = n_throttles + 1 if self._n_answered == n_answered_before else 1
                if n_throttles == MAX_THROTTLES_IN_A_ROW:
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
        """Return the exception for a request that is given up: fatal if no request is answered."""
        self._n_given_up += 1
        was_answered = self._n_answered > n_answered_at_start
        is_unreachable = isinstance(error, UnreachableError) and not was_answered
        has_stopped = is_unreachable or self._n_given_up >= MAX_GIVEN_UP_IN_A_ROW
        if has_stopped and not (self.keep_going and self._n_answered):
            advice = "run the same command again once it answers"
            return FatalModelError(f"the endpoint does not answer ({error}); {advice}")
        return TransientError(f"gave up after {n_attempts} attempts: {error}")

    async def _send_once(self, request: KeyedRequest) -> Completion:
        """Send a request without retries; raises TransientError if a retry may succeed."""
        async with self._throttle as sent_at:
            booking = await self._book(request)
            request.run_state.n_in_flight += 1
            result: Completion | ModelError = TransientError("cancelled", may_be_billed=True)
            try:
                if self._store is not None:
                    await asyncio.sleep(0)  # so that one commit covers all requests booked now
                    self._store.commit()
                async with asyncio.timeout(self.timeout):
                    result = await self.model.complete(request.messages, request.sampling)
            except TimeoutError:
                result = TransientError(f"no answer within {self.timeout:g} s", may_be_billed=True)
            except ModelError as error:
                result = error
            finally:
                self.account.settle(booking, result)
                request.run_state.n_in_flight -= 1
            if isinstance(result, ThrottledError):
                wait_seconds = retry_wait(result, self._throttle.n_bursts + 1)
                self._throttle.lower_limit(sent_at, wait_seconds)
            if not isinstance(result, TransientError):
                self._n_answered, self._n_given_up = self._n_answered + 1, 0
            if isinstance(result, ModelError):
                raise result
            self._throttle.raise_limit()
            return result

    async def _book(self, request: KeyedRequest) -> Booking:
        """Wait until the budget allows the request, and book its cost."""
        async with self._booking_lock:  # so that requests are booked in the order of arrival
            run_state, key, messages, sampling = request
            while not run_state.is_stopped:
                if run_state.spent_error is not None:
                    raise run_state.spent_error
                try:
                    booking = self.account.book(key, messages, sampling)
                except BudgetSpentError as error:
                    run_state.spent_error = error
                    raise
                if booking is not None:
                    return booking
                await asyncio.sleep(POLL_SECONDS)  # until requests in flight are settled
        raise asyncio.CancelledError
