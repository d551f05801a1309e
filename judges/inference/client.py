"""Send a request until it is answered: journal, budget, retries, samples anew if unparsable."""

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace

from judges.inference.budget import Account, BudgetSpentError, Reservation
from judges.inference.limits import AdaptiveTimeout, Limiter
from judges.judgement import NoScoreError
from judges.models.journal import Journal, RequestHasher
from judges.protocol import (
    SEEDS_APART,
    Completion,
    FatalModelError,
    Message,
    Model,
    ModelError,
    RefusedError,
    Reply,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
    UnsupportedRequestError,
    Usage,
)

FIRST_WAIT = 0.5
LONGEST_WAIT = 60.0
# As long as an endpoint is waited for at its own word, and what of it is worth a line.
LONGEST_RETRY_AFTER = 120.0
NOTABLE_RETRY_AFTER = 20.0
THROTTLES_PER_ATTEMPT = 4
BUDGET_POLL = 0.02
# A host that never answered any request is given up after these seconds.
PATIENCE_UNREACHED = 3.0
LONGEST_WAIT_UNREACHED = 1.0
MOST_REFUSALS = 5  # requests refused one after the other, as single ones among others

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """Messages, how to draw replies, and the parser that accepts them.

    `accept` returns what a reply holds and raises NoScoreError where it holds nothing; such a
    reply is asked again afresh, with the messages that `restate` makes of these where it is given
    (a single reply drawn at temperature 0 would come out the same). `key` is the caller's own name
    for the ask; nothing here reads it.
    """

    messages: Sequence[Message]
    sampling: Sampling
    accept: Callable[[Reply], object]
    key: str = ""
    restate: Callable[[Sequence[Message]], Sequence[Message]] | None = None

    def messages_of(self, fresh: int) -> Sequence[Message]:
        """What is sent: these messages first, and with the form restated after that."""
        return self.restate(self.messages) if fresh and self.restate else self.messages


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponse:
    """What an ask brought: never an exception for what concerns this ask alone.

    `replies[i]` held `parsed[i]`; replies that held nothing come after them, in the order of
    `failures`. `error` names the failure of an ask with nothing parsed, and is None otherwise.
    `cached`: all came from the journal or from an identical ask, so nothing was paid.
    """

    replies: tuple[Reply, ...]
    parsed: tuple[object, ...]
    failures: tuple[str, ...] = ()
    error: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = False


def withheld(completion: Completion, sampling: Sampling) -> str | None:
    """Why nothing at all was written, where asking again would bring the same; None otherwise."""
    if any(reply.text.strip() for reply in completion.replies):
        return None
    reasons = {reply.finish_reason for reply in completion.replies}
    if reasons == {"content_filter"}:
        return "the endpoint's content filter withheld the reply"
    if reasons == {"length"}:
        return f"no text within max_tokens={sampling.max_tokens}; a reasoning model needs more"
    return None


class SampleCollector:
    """Files replies under the place of their sample until all have parsed."""

    __slots__ = (
        "ask",
        "cached",
        "errors",
        "failures",
        "parsed",
        "tokens_in",
        "tokens_out",
        "unparsed",
    )

    def __init__(self, ask: ModelRequest) -> None:
        self.ask = ask
        self.parsed: dict[int, tuple[Reply, object]] = {}
        self.unparsed: dict[int, tuple[Reply, str]] = {}
        self.errors: list[str] = []
        self.tokens_in = 0
        self.tokens_out = 0
        self.cached = True

    @property
    def missing(self) -> list[int]:
        return [i for i in range(self.ask.sampling.n) if i not in self.parsed]

    @property
    def why(self) -> str:
        """The last reason why a reply could not be read."""
        return next(reversed([why for _, why in self.unparsed.values()]), "too few replies came")

    def add_usage(self, completion: Completion, cached: bool) -> None:
        self.tokens_in += completion.tokens_in
        self.tokens_out += completion.tokens_out
        self.cached = self.cached and cached

    def add(self, place: int, reply: Reply) -> None:
        try:
            if not reply.text.strip():
                ended = "" if reply.finish_reason == "stop" else f" ({reply.finish_reason})"
                raise NoScoreError(f"empty reply{ended}")
            self.parsed[place] = (reply, self.ask.accept(reply))
            self.unparsed.pop(place, None)
        except NoScoreError as error:
            self.unparsed[place] = (reply, str(error))

    def response(self) -> ModelResponse:
        good = [self.parsed[i] for i in sorted(self.parsed)]
        bad = [self.unparsed[i] for i in sorted(self.unparsed)]
        failures = (*(why for _, why in bad), *self.errors)
        return ModelResponse(
            replies=(*(reply for reply, _ in good), *(reply for reply, _ in bad)),
            parsed=tuple(value for _, value in good),
            failures=failures,
            error=None if good else (*self.errors, *failures, "no reply")[0],
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cached=self.cached and bool(good or bad),
        )


class RetryingClient:
    """Turns asks into answers for one model, on one event loop.

    `limiter` None is for a model in this process: one at a time, no timeout, no retry.
    """

    def __init__(
        self,
        model: Model,
        *,
        journal: Journal | None,
        account: Account,
        limiter: Limiter | None,
        timeout: float,
        attempts: int,
        fresh_samples: int,
        rng: random.Random,
    ) -> None:
        self.model = model
        self.journal = journal
        self.account = account
        self._limiter = limiter
        self._timeouts = AdaptiveTimeout(timeout)
        self._attempts = attempts
        self._fresh_samples = fresh_samples
        self._rng = rng
        self._reached = False
        self._unreached_since: float | None = None
        # Refusals since the last answer to a request that asks for replies of this kind.
        self._refusals: dict[tuple[int, int | None], int] = {}
        self._hasher = RequestHasher()
        self._waiting_until = 0.0
        self._pending: dict[str, asyncio.Future[Completion]] = {}

    async def answer(self, ask: ModelRequest) -> ModelResponse:
        """Bring `sampling.n` parsed replies, or say why not.

        Raises FatalModelError and BudgetSpentError, which end the run.
        """
        samples = SampleCollector(ask)
        for fresh in range(self._fresh_samples + 1):
            await self._sample_missing(samples, fresh)
            if not samples.missing or samples.errors:
                break
            _log.info(
                "%d of %d replies cannot be read (%s); %s",
                len(samples.missing),
                ask.sampling.n,
                samples.why,
                "asked afresh" if fresh < self._fresh_samples else "given up",
            )
        return samples.response()

    async def _sample_missing(self, samples: SampleCollector, fresh: int) -> None:
        """Ask once for every reply still missing."""
        sampling, missing = samples.ask.sampling, samples.missing
        if fresh:
            sampling = replace(sampling, seed=sampling.seed + fresh)
        if self.model.native_n or sampling.n == 1:
            together = sampling if len(missing) == sampling.n else replace(sampling, n=len(missing))
            n_replies = await self._collect(samples, together, missing, fresh)
            missing = missing[n_replies:]
            if not missing or n_replies == 0:
                return
            self.model.native_n = False  # fewer replies than asked for: it does not heed n
        singles = (
            self._collect(
                samples, replace(sampling, n=1, seed=sampling.seed + SEEDS_APART * i), [i], fresh
            )
            for i in missing
        )
        if self._limiter is None:
            for single in singles:
                await single
        else:
            await _together(list(singles))

    async def _collect(
        self, samples: SampleCollector, sampling: Sampling, places: Sequence[int], fresh: int
    ) -> int:
        """Make one request, file its replies under `places`, and return how many came."""
        cached = False
        try:
            completion, cached = await self._request(samples.ask.messages_of(fresh), sampling)
        except (TransientError, RefusedError) as error:
            _log.info("%s", error)
            samples.errors.append(str(error))
            return 0
        finally:
            if not fresh and not cached:
                self.account.plan()
        samples.add_usage(completion, cached)
        if why := withheld(completion, sampling):
            _log.info("%s", why)
            samples.errors.append(why)
            return 0
        for place, reply in zip(places, completion.replies, strict=False):
            samples.add(place, reply)
        return len(completion.replies)

    async def _request(
        self, messages: Sequence[Message], sampling: Sampling
    ) -> tuple[Completion, bool]:
        """Answer from the journal, from an identical request in flight, or from the model."""
        if self._limiter is None and self.journal is None:
            return await self._send_here(messages, sampling), False
        model = self.model
        key = self._hasher.key(model.endpoint, model.name, messages, sampling)
        while True:
            recorded = self.journal.get(key) if self.journal is not None else None
            if recorded is not None:
                return recorded, True
            pending = self._pending.get(key)
            if pending is None:
                return await self._send_once(key, messages, sampling), False
            await asyncio.wait([pending])
            if not pending.cancelled():  # else its own asker was stopped: our turn
                return pending.result(), True

    async def _send_once(
        self, key: str, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        if self._limiter is None:
            completion = await self._send_here(messages, sampling)
            self._record(key, completion)
            return completion
        pending = asyncio.get_running_loop().create_future()
        self._pending[key] = pending
        try:
            completion = await self._send(self._limiter, messages, sampling)
            self._record(key, completion)
        except ModelError as error:
            pending.set_exception(error)
            pending.exception()  # seen, even if nobody else waits for it
            raise
        except BaseException:
            pending.cancel()
            raise
        else:
            pending.set_result(completion)
            return completion
        finally:
            del self._pending[key]

    def _record(self, key: str, completion: Completion) -> None:
        if self.journal is not None:
            self.journal.put(key, completion, endpoint=self.model.endpoint, model=self.model.name)

    async def _send_here(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
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

    async def _send(
        self, limiter: Limiter, messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        """Send until answered, refused or out of attempts."""
        faults = throttles = 0
        while True:
            error = await self._attempt(limiter, messages, sampling, faults)
            if isinstance(error, Completion):
                return error
            if isinstance(error, ThrottledError):
                throttles += 1
            else:
                faults += 1
            if faults >= self._attempts or throttles >= self._attempts * THROTTLES_PER_ATTEMPT:
                if isinstance(error, UnreachableError) and not self._reached:
                    raise FatalModelError(str(error)) from error
                raise TransientError(
                    f"gave up after {faults + throttles} attempts: {error}"
                ) from error
            wait = self._wait(faults + throttles, self._requested_wait(error))
            if isinstance(error, UnreachableError) and not self._reached:
                wait = self._wait_unreached(error, faults, wait)
            _log.info("%s; attempt %d, the next in %.1f s", error, faults + throttles, wait)
            await asyncio.sleep(wait)

    def _wait_unreached(self, error: UnreachableError, faults: int, wait: float) -> float:
        """The wait for a host that never answered: seconds in all, since its name may be wrong.

        Raises FatalModelError once they are over; the first time, says at once what goes on.
        """
        now = asyncio.get_running_loop().time()
        if self._unreached_since is None:
            self._unreached_since = now
            # A warning reaches stderr, also where nobody set up logging.
            _log.warning("%s; trying for %g s more", error, PATIENCE_UNREACHED)
        if faults >= 2 and now - self._unreached_since >= PATIENCE_UNREACHED:
            raise FatalModelError(str(error)) from error
        return min(wait, LONGEST_WAIT_UNREACHED)

    async def _attempt(
        self, limiter: Limiter, messages: Sequence[Message], sampling: Sampling, tries: int
    ) -> Completion | TransientError:
        """Send once, within the limits on requests in flight and on money."""
        async with limiter as cuts:
            reservation = self.account.reserve(messages, sampling)
            while reservation is None:  # it may fit once others are settled
                await asyncio.sleep(BUDGET_POLL)
                reservation = self.account.reserve(messages, sampling)
            billed, usage = True, None
            wait = self._timeouts.begin(tries)
            try:
                async with wait:
                    completion = await self.model.complete(messages, sampling)
                self._timeouts.answered(wait)
                self.account.settle(reservation, completion)
                reservation = None
                limiter.answered()
                self._reached = True
                self._refusals[sampling.n, sampling.top_logprobs] = 0
                return completion
            except TimeoutError:
                seconds = self._timeouts.waited(wait)
                return TransientError(f"no answer within {seconds:.1f} s", billed=True)
            except TransientError as error:
                billed, usage = error.billed, error.usage
                self._reached = self._reached or not isinstance(error, UnreachableError)
                if isinstance(error, ThrottledError):
                    limiter.throttled(cuts, error.retry_after)
                return error
            except ModelError as error:
                billed, usage = False, error.usage
                if isinstance(error, UnsupportedRequestError) and self._is_alone(sampling):
                    raise RefusedError(str(error)) from error
                raise
            finally:
                self._timeouts.end(wait)
                if reservation is not None:
                    self._close(reservation, usage, billed=billed)

    def _is_alone(self, sampling: Sampling) -> bool:
        """Whether a request is refused for its texts, where others of its kind were answered."""
        kind = sampling.n, sampling.top_logprobs
        if kind not in self._refusals:
            return False
        self._refusals[kind] += 1
        return self._refusals[kind] <= MOST_REFUSALS

    def _close(self, reservation: Reservation, usage: Usage | None, *, billed: bool) -> None:
        """Close the reservation of a request that brought no replies, by its usage where told."""
        if usage is not None:
            self.account.settle(reservation, usage)
        else:
            self.account.forfeit(reservation, billed=billed)

    def _requested_wait(self, error: TransientError) -> float | None:
        """How long the endpoint wants to be left alone; FatalModelError where that is for long.

        An outage of unknown length is none of its business: there our own waits count.
        """
        rest = error.retry_after
        if rest is None or rest <= NOTABLE_RETRY_AFTER:
            return rest
        if rest > LONGEST_RETRY_AFTER:
            if not isinstance(error, ThrottledError):
                return None
            raise FatalModelError(
                f"{error}; it wants to be asked again in {_duration(rest)} (its Retry-After), and "
                f"more than {_duration(LONGEST_RETRY_AFTER)} is not waited: resume the run then"
            ) from error
        now = asyncio.get_running_loop().time()
        if now >= self._waiting_until:
            self._waiting_until = now + rest
            _log.warning("%s; waiting %s, as it asks (its Retry-After)", error, _duration(rest))
        return rest

    def _wait(self, tries: int, retry_after: float | None) -> float:
        """Exponential, with jitter; never less than the endpoint asked for."""
        longest = min(FIRST_WAIT * 2.0 ** (tries - 1), LONGEST_WAIT)
        wait = longest * self._rng.uniform(0.5, 1.0)
        if retry_after is None:
            return wait
        return retry_after + self._rng.uniform(0.0, min(0.1 * retry_after, 1.0))


def _duration(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


async def _together(takes: Sequence[Coroutine[object, object, int]]) -> None:
    """Run all; where the budget ends, those already sent are still waited for."""
    tasks = [asyncio.ensure_future(take) for take in takes]
    try:
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        errors = [error for task in done if (error := task.exception())]
        if errors and isinstance(errors[0], BudgetSpentError):
            await asyncio.wait(rest) if rest else None
        if errors:
            raise errors[0]
    finally:
        for task in tasks:
            task.cancel()
