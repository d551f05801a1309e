"""Bring the replies that a request wants: recorded, shared or sent, and asked afresh if unreadable.

Each sample that cannot be read is drawn again; whatever comes back from the model is journaled,
what can be read enters the cache, and identical requests under way at once are sent once.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, TypedDict

from judges.client.budget import BudgetSpentError
from judges.client.cache import ReplyCache
from judges.client.journal import Journal, RequestHasher
from judges.client.protocol import (
    REFUSAL,
    SAMPLE_SEED_STEP,
    Completion,
    Message,
    Model,
    ModelError,
    RefusedError,
    Reply,
    Sampling,
    TransientError,
    is_reasoning,
)
from judges.client.retrying import RetryingClient
from judges.judgement import NoScoreError
from judges.parsing.text import shortened

# How far a limit on tokens is raised: by this factor, and to so many.
LARGEST_FACTOR = 8
REASONING_FACTOR = 8  # of a model that is known to think before it answers
MOST_TOKENS = 32_768

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Request:
    """Messages, how to draw replies, and the parser that accepts them.

    `accept` returns what a reply holds and raises NoScoreError where it holds nothing; such a
    reply is asked again afresh, with the messages that `restate` makes of these where it is given
    (a single reply drawn at temperature 0 would come out the same).
    """

    messages: Sequence[Message]
    sampling: Sampling
    accept: Callable[[Reply], object]
    restate: Callable[[Sequence[Message]], Sequence[Message]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a request brought: never an exception for what concerns this request alone.

    `replies[i]` held `parsed[i]`; replies that held nothing come after them, in the order of
    `failures`. `error` names the failure of a request with nothing parsed, and is None otherwise.
    `cached`: all came from the journal or from an identical request, so nothing was paid.
    """

    replies: tuple[Reply, ...]
    parsed: tuple[object, ...]
    failures: tuple[str, ...] = ()
    error: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0
    cached: bool = False


class _Origin(TypedDict):
    endpoint: str
    model: str


class Samples:
    """The replies to one request, each under the number of its sample, until all are parsed.

    `limit` is the most tokens of a reply now; it was doubled `doublings` times, and what could not
    be read was drawn afresh `fresh` times.
    """

    __slots__ = (
        "cached",
        "doublings",
        "errors",
        "fresh",
        "limit",
        "parsed",
        "request",
        "tokens_in",
        "tokens_out",
        "unparsed",
    )

    def __init__(self, request: Request, limit: int) -> None:
        self.request = request
        self.limit = limit
        self.doublings = self.fresh = 0
        self.parsed: dict[int, tuple[Reply, object]] = {}
        self.unparsed: dict[int, tuple[Reply, str]] = {}
        self.errors: list[str] = []
        self.tokens_in = 0
        self.tokens_out = 0
        self.cached = True

    @property
    def missing(self) -> list[int]:
        return [i for i in range(self.request.sampling.n) if i not in self.parsed]

    def add_usage(self, completion: Completion, cached: bool) -> None:
        self.tokens_in += completion.tokens_in
        self.tokens_out += completion.tokens_out
        self.cached = self.cached and cached

    def add(self, number: int, reply: Reply) -> None:
        try:
            if reply.finish_reason == REFUSAL:
                raise NoScoreError(f"the model refused: {shortened(reply.text)}")
            if not reply.text.strip() and reply.out_of_tokens:
                raise NoScoreError(
                    f"no text within max_tokens={self.limit}; a reasoning model needs more"
                )
            if not reply.text.strip():
                reason = "" if reply.finish_reason == "stop" else f" ({reply.finish_reason})"
                raise NoScoreError(f"empty reply{reason}")
            self.parsed[number] = (reply, self.request.accept(reply))
            self.unparsed.pop(number, None)
        except NoScoreError as error:
            self.unparsed[number] = (reply, str(error))

    def response(self) -> Response:
        parsed = [self.parsed[i] for i in sorted(self.parsed)]
        unparsed = [self.unparsed[i] for i in sorted(self.unparsed)]
        failures = (*(reason for _, reason in unparsed), *self.errors)
        return Response(
            replies=(*(reply for reply, _ in parsed), *(reply for reply, _ in unparsed)),
            parsed=tuple(value for _, value in parsed),
            failures=failures,
            error=None if parsed else (*self.errors, *failures, "no reply")[0],
            tokens_in=self.tokens_in,
            tokens_out=self.tokens_out,
            cached=self.cached and bool(parsed or unparsed),
        )


class Sampler:
    """Answers requests by one client, from the journal or the cache where it can.

    `served` tells what answers now under the model's name from what did in earlier runs.
    """

    def __init__(
        self,
        client: RetryingClient,
        *,
        journal: Journal | None,
        cache: ReplyCache | None,
        served: str = "",
        fresh_samples: int,
        max_tokens: int | None = None,
        reasoning_effort: str | None = None,
    ) -> None:
        self._client = client
        self._journal = journal
        self._cache = cache
        self._served = served
        self._fresh_samples = fresh_samples
        self._in_process = client.limiter is None
        self._hasher = RequestHasher()
        settings = {"max_tokens": max_tokens, "reasoning_effort": reasoning_effort}
        self._settings: dict[str, Any] = {k: v for k, v in settings.items() if v is not None}
        # By how much requests' limits are raised, since thoughts take them up; a limit that the
        # user sets holds as it is.
        thinks = not self._in_process and is_reasoning(client.model.name)
        self._limit_factor = REASONING_FACTOR if thinks and max_tokens is None else 1
        self._largest_factor = 1 if max_tokens else LARGEST_FACTOR * self._limit_factor
        self._announced = 0
        self._reads_replies = False
        self._heeds_n = True
        self._pending: dict[str, asyncio.Future[Completion]] = {}

    async def answer(self, request: Request) -> Response:
        """Bring `sampling.n` parsed replies, or say why not.

        Raises FatalModelError and BudgetSpentError, which end the run.
        """
        if self._settings:
            request = replace(request, sampling=replace(request.sampling, **self._settings))
        samples = Samples(request, request.sampling.max_tokens * self._limit_factor)
        while True:
            await self._draw_missing(samples)
            self._reads_replies = self._reads_replies or bool(samples.parsed)
            if not samples.missing or samples.errors:
                break
            asked_again = self._ask_again(samples)
            reasons = [reason for _, reason in samples.unparsed.values()]
            _log.info(
                "%d of %d replies cannot be read (%s); %s",
                len(samples.missing),
                request.sampling.n,
                reasons[-1] if reasons else "too few replies came",
                "asked afresh" if asked_again else "given up",
            )
            if not asked_again:
                break
        if samples.limit > self._announced and samples.doublings and samples.parsed:
            self._announced = samples.limit
            _log.warning(
                "%s thinks or writes at length: asked with up to %s tokens in place of %s",
                self._client.model.name,
                f"{samples.limit:,}",
                f"{request.sampling.max_tokens:,}",
            )
        return samples.response()

    def _ask_again(self, samples: Samples) -> bool:
        """Whether, and how, to draw what is missing again.

        A thought that took all tokens gets twice as many, and so does every request from then on;
        a text that was cut short gets them once. Where other requests' thoughts have raised the
        limit to the largest, either is asked once more at that, if any reply could be read yet.
        """
        replies = [reply for reply, _ in samples.unparsed.values()]
        cut = [reply for reply in replies if reply.out_of_tokens]
        thoughts = [reply for reply in cut if not reply.text.strip() or "<think" in reply.text]
        if cut:
            max_tokens = samples.request.sampling.max_tokens
            largest = min(MOST_TOKENS, self._largest_factor * max_tokens)
            limit = max(samples.limit, min(2 * samples.limit, largest))
            can_raise = limit > samples.limit
            if samples.doublings and not (thoughts and can_raise):
                return False
            if not can_raise and (self._largest_factor == 1 or not self._reads_replies):
                return False
            # Counted though the limit may stay, so that a resumed run finds the same requests.
            samples.limit, samples.doublings = limit, samples.doublings + 1
            if thoughts:
                self._limit_factor = max(self._limit_factor, limit // max_tokens)
                return True
        samples.fresh += 1
        return samples.fresh <= self._fresh_samples

    async def _draw_missing(self, samples: Samples) -> None:
        """Draw every sample still missing, for the first time or afresh."""
        sampling, missing, model = samples.request.sampling, samples.missing, self._client.model
        if samples.fresh or samples.doublings:
            sampling = replace(
                sampling,
                seed=sampling.seed + samples.fresh,
                max_tokens=sampling.max_tokens << samples.doublings,
            )
        if (model.native_n and self._heeds_n) or sampling.n == 1:
            together = sampling if len(missing) == sampling.n else replace(sampling, n=len(missing))
            n_replies = await self._draw(samples, together, missing)
            missing = missing[n_replies:]
            if not missing or n_replies == 0:
                return
            self._heeds_n = False  # fewer replies than asked for
        draws = (
            self._draw(
                samples,
                replace(sampling, n=1, seed=sampling.seed + SAMPLE_SEED_STEP * i),
                [i],
            )
            for i in missing
        )
        if self._in_process:
            for draw in draws:
                await draw
        else:
            await _gather(list(draws))

    async def _draw(self, samples: Samples, sampling: Sampling, numbers: Sequence[int]) -> int:
        """Make one request, file its replies under `numbers`, and return how many came."""
        request, cached = samples.request, False
        restate = request.restate if samples.fresh else None
        messages = restate(request.messages) if restate else request.messages
        try:
            completion, cached = await self._complete(messages, sampling, samples.limit)
        except (TransientError, RefusedError) as error:
            _log.info("%s", error)
            samples.errors.append(str(error))
            return 0
        finally:
            if not samples.fresh and not samples.doublings and not cached:
                self._client.account.plan()
        samples.add_usage(completion, cached)
        if reason := _withheld(completion):
            _log.info("%s", reason)
            samples.errors.append(reason)
            return 0
        for number, reply in zip(numbers, completion.replies, strict=False):
            samples.add(number, reply)
        # Where nothing could be read, another run may have more luck.
        if self._cache is not None and not cached and samples.parsed.keys() & set(numbers):
            key = self._shared_key(self._key(messages, sampling))
            self._cache.put(key, completion, **self._origin)
        return len(completion.replies)

    async def _complete(
        self, messages: Sequence[Message], sampling: Sampling, limit: int
    ) -> tuple[Completion, bool]:
        """From the journal, the cache, an identical request under way, or the model.

        Returns the answer, and whether it came without sending.

        `limit` is what is sent in the place of `max_tokens`, which tells requests apart.
        """
        if self._in_process and self._journal is None:
            return await self._client.complete(messages, sampling), False
        key = self._key(messages, sampling)
        while True:
            recorded = self._journal.get(key) if self._journal is not None else None
            if recorded is not None:
                self._client.account.recall(recorded)
                return recorded, True
            pending = self._pending.get(key)
            if pending is None:
                cache = self._cache
                remembered = None if cache is None else cache.get(self._shared_key(key))
                if remembered is not None:
                    self._record(key, remembered, cached=True)
                    return remembered, True
                return await self._send(key, messages, sampling, limit), False
            await asyncio.wait([pending])
            if not pending.cancelled():  # else who sent it was stopped: our turn
                return pending.result(), True

    async def _send(
        self, key: str, messages: Sequence[Message], sampling: Sampling, limit: int
    ) -> Completion:
        if limit != sampling.max_tokens:
            sampling = replace(sampling, max_tokens=limit)
        if self._in_process:
            completion = await self._client.complete(messages, sampling)
            self._record(key, completion)
            return completion
        pending = asyncio.get_running_loop().create_future()
        self._pending[key] = pending
        try:
            completion = await self._client.complete(messages, sampling)
            self._record(key, completion)
        except ModelError as error:
            pending.set_exception(error)
            pending.exception()  # retrieved, even if nobody else waits for it
            raise
        except BaseException:
            pending.cancel()
            raise
        else:
            pending.set_result(completion)
            return completion
        finally:
            del self._pending[key]

    def _record(self, key: str, completion: Completion, *, cached: bool = False) -> None:
        if self._journal is not None:
            self._journal.put(key, completion, **self._origin, cached=cached)

    def _key(self, messages: Sequence[Message], sampling: Sampling) -> str:
        model = self._client.model
        return self._hasher.key(identity_of(model), model.name, messages, sampling)

    def _shared_key(self, key: str) -> str:
        """The request's key in the cache, which outlives what a server near by serves."""
        return sha256(f"{key} {self._served}".encode()).hexdigest() if self._served else key

    @property
    def _origin(self) -> _Origin:
        """Who is asked, as journal and cache note it."""
        model = self._client.model
        return {"endpoint": identity_of(model), "model": model.name}


def identity_of(model: Model) -> str:
    """Where a model answers, and what else of its set-up decides on its replies."""
    return str(getattr(model, "identity", model.endpoint))


def _withheld(completion: Completion) -> str | None:
    """Why no reply was given, where asking again would bring the same; None otherwise."""
    reasons = {reply.finish_reason for reply in completion.replies}
    if reasons == {REFUSAL}:
        return f"the model refused: {shortened(completion.replies[0].text)}"
    if reasons == {"content_filter"} and not any(reply.text for reply in completion.replies):
        return "the endpoint's content filter withheld the reply"
    return None


async def _gather(draws: Sequence[Coroutine[object, object, int]]) -> None:
    """Run all; where the budget ends, those already sent are still waited for."""
    tasks = [asyncio.ensure_future(draw) for draw in draws]
    try:
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        errors = [error for task in done if (error := task.exception())]
        if errors and isinstance(errors[0], BudgetSpentError) and rest:
            await asyncio.wait(rest)
        if errors:
            raise errors[0]
    finally:
        for task in tasks:
            task.cancel()
