"""Send one request until it is answered: retries, backoff, rate limits, timeouts, the budget."""

import asyncio
import logging
import random
import time
from collections.abc import Sequence

from judges.client.budget import Account, BudgetSpentError, Reservation
from judges.client.limits import AdaptiveTimeout, Limiter
from judges.client.protocol import (
    Completion,
    FatalModelError,
    Message,
    Model,
    ModelError,
    NoConnectionsError,
    RespelledError,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
    Usage,
)

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
# As long as an endpoint is waited for at its own word, and what of it is worth a line.
LONGEST_RETRY_AFTER = 600.0
NOTABLE_RETRY_AFTER = 20.0
THROTTLES_PER_ATTEMPT = 4
BUDGET_POLL = 0.02
# A host that never answered any request is given up after these seconds.
UNREACHED_TIMEOUT = 3.0
LONGEST_WAIT_UNREACHED = 1.0
MOST_SPELLINGS = 12  # of one request: each parameter may be refused in turn

# What a progress line says of waits, and of which.
RATE_LIMIT, FAULTS, SHOWN_WAIT = "rate limit", "server faults", 1.0


_log = logging.getLogger(__name__)


class RetryingClient:
    """Completes requests to one model, on one event loop, within a budget.

    `limiter` None is for a model in this process: one request at a time, no timeout, no retry.
    """

    def __init__(
        self,
        model: Model,
        *,
        account: Account,
        limiter: Limiter | None,
        timeout: float,
        attempts: int,
        rng: random.Random,
    ) -> None:
        self.model = model
        self.account = account
        self.limiter = limiter
        self._timeouts = AdaptiveTimeout(timeout)
        self._attempts = attempts
        self._rng = rng
        self._reached = False
        self._unreached_since: float | None = None
        self._waiting_until = 0.0
        # What is waited for now, and until when, by the loop's clock.
        self._wait_reason, self._wait_end = "", 0.0

    @property
    def latency(self) -> float | None:
        """Mean seconds from sending to the answer, of the calls answered here; None: none was."""
        return self._timeouts.mean_wait

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Send until answered, refused or out of attempts; raises ModelError, BudgetSpentError."""
        if self.limiter is None:
            return await self._complete_in_process(messages, sampling)
        faults = throttles = spellings = 0
        while True:
            outcome = await self._attempt(self.limiter, messages, sampling, faults)
            if isinstance(outcome, Completion):
                return outcome
            if isinstance(outcome, NoConnectionsError):
                await asyncio.sleep(BUDGET_POLL)
                continue
            if isinstance(outcome, RespelledError) and spellings < MOST_SPELLINGS:
                spellings += 1
                continue
            if isinstance(outcome, ThrottledError):
                throttles += 1
            else:
                faults += 1
            unreached = isinstance(outcome, UnreachableError) and not self._reached
            if faults >= self._attempts or throttles >= self._attempts * THROTTLES_PER_ATTEMPT:
                if unreached:
                    raise FatalModelError(str(outcome)) from outcome
                raise TransientError(
                    f"gave up after {faults + throttles} attempts: {outcome}"
                ) from outcome
            wait = self._wait(faults + throttles, self._requested_wait(outcome))
            if unreached:
                wait = self._wait_unreached(outcome, faults, wait)
            self._say_wait(str(outcome), wait, "since it refuses for long")
            self._note_wait(RATE_LIMIT if isinstance(outcome, ThrottledError) else FAULTS, wait)
            _log.info("%s; attempt %d, the next in %.1f s", outcome, faults + throttles, wait)
            await asyncio.sleep(wait)

    async def _complete_in_process(
        self, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        reservation = self.account.reserve(messages, sampling)
        if reservation is None:
            raise BudgetSpentError("what is left of the budget is reserved by other requests")
        try:
            completion = await self.model.complete(messages, sampling)
        except BaseException as error:
            self._close(reservation, getattr(error, "usage", None), billed=False)
            raise
        self.account.settle(reservation, completion)
        return completion

    async def _attempt(
        self, limiter: Limiter, messages: Sequence[Message], sampling: Sampling, faults: int
    ) -> Completion | TransientError:
        """Send once, within the limits on requests in flight and on money."""
        async with limiter as cuts:
            reservation = self.account.reserve(messages, sampling)
            while reservation is None:  # it may fit once others are settled
                await asyncio.sleep(BUDGET_POLL)
                reservation = self.account.reserve(messages, sampling)
            billed, usage = True, None
            timeout = self._timeouts.begin(faults)
            try:
                async with timeout:
                    completion = await self.model.complete(messages, sampling)
                self._timeouts.answered(timeout)
                self.account.settle(reservation, completion)
                reservation = None
                limiter.answered()
                self._reached = True
                return completion
            except TimeoutError:
                seconds = self._timeouts.waited(timeout)
                return TransientError(f"no answer within {seconds:.1f} s", billed=True)
            except TransientError as error:
                billed, usage = error.billed, error.usage
                self._reached = self._reached or not isinstance(error, UnreachableError)
                if isinstance(error, ThrottledError):
                    limiter.throttled(cuts, error.retry_after)
                return error
            except ModelError as error:
                billed, usage = False, error.usage
                raise
            finally:
                self._timeouts.end(timeout)
                if reservation is not None:
                    self._close(reservation, usage, billed=billed)

    def _close(self, reservation: Reservation, usage: Usage | None, *, billed: bool) -> None:
        """Close the reservation of a request that brought no replies, by its usage where known."""
        if usage is not None:
            self.account.settle(reservation, usage)
        else:
            self.account.forfeit(reservation, billed=billed)

    def _wait(self, tries: int, retry_after: float | None) -> float:
        """Exponential, with jitter; never less than the endpoint asked for."""
        longest = min(FIRST_WAIT * 2.0 ** (tries - 1), LONGEST_WAIT)
        wait = longest * self._rng.uniform(0.5, 1.0)
        if retry_after is None:
            return wait
        return retry_after + self._rng.uniform(0.0, min(0.1 * retry_after, 1.0))

    def _wait_unreached(self, error: TransientError, faults: int, wait: float) -> float:
        """The wait for a host that never answered: seconds in all, since its name may be wrong.

        Raises FatalModelError once they are over; the first time, says at once what goes on.
        """
        now = asyncio.get_running_loop().time()
        if self._unreached_since is None:
            self._unreached_since = now
            # A warning reaches stderr, also where nobody set up logging.
            _log.warning("%s; trying for %g s more", error, UNREACHED_TIMEOUT)
        if faults >= 2 and now - self._unreached_since >= UNREACHED_TIMEOUT:
            raise FatalModelError(str(error)) from error
        return min(wait, LONGEST_WAIT_UNREACHED)

    def _requested_wait(self, error: TransientError) -> float | None:
        """How long the endpoint wants to be left alone; FatalModelError where that is for long.

        An outage of unknown length is none of its business: there our own waits count.
        """
        seconds = error.retry_after
        if seconds is None or seconds <= NOTABLE_RETRY_AFTER:
            return seconds
        if seconds > LONGEST_RETRY_AFTER:
            if not isinstance(error, ThrottledError):
                return None
            raise FatalModelError(
                f"{error}; it wants to be asked again in {_duration(seconds)} (its Retry-After), "
                f"and more than {_duration(LONGEST_RETRY_AFTER)} is not waited: resume the run then"
            ) from error
        self._say_wait(str(error), seconds, "as it asks (its Retry-After)")
        return seconds

    @property
    def waiting(self) -> str:
        """What requests wait for before they are sent, and for how long; empty: nothing."""
        seconds = self._wait_end - time.monotonic()
        return f"{self._wait_reason}: waiting {seconds:.0f} s" if seconds >= 0.5 else ""

    def _note_wait(self, reason: str, seconds: float) -> None:
        """Let the progress line name a wait, the longest that is under way."""
        end = time.monotonic() + seconds
        if seconds >= SHOWN_WAIT and end > self._wait_end:
            self._wait_reason, self._wait_end = reason, end

    def _say_wait(self, reason: str, seconds: float, why: str) -> None:
        """Say a wait that is long, once for all that wait."""
        now = asyncio.get_running_loop().time()
        if seconds >= NOTABLE_RETRY_AFTER and now >= self._waiting_until:
            self._waiting_until = now + seconds
            _log.warning("%s; waiting %s, %s", reason, _duration(seconds), why)


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"
