"""A runner as DSPy's engine: DSPy's optimizers ask through the same journal, budget and retries."""

import threading
from collections import Counter
from dataclasses import replace
from typing import Any, Protocol

import dspy
from dspy import lm15

from judges.client.client import Request, Response
from judges.client.protocol import SAMPLE_SEED_STEP, Message, Model, Sampling, Token
from judges.client.store import request_key

FINISHED = {"stop", "length", "content_filter"}


class RequestRunner(Protocol):
    """What a runner does for DSPy: answer a request, from any thread or event loop."""

    @property
    def model(self) -> Model: ...

    def ask(self, request: Request) -> Response: ...

    async def ask_async(self, request: Request) -> Response: ...


def as_lm(
    runner: RequestRunner, *, temperature: float | None = 0.0, max_tokens: int = 1024, seed: int = 0
) -> dspy.LM:
    """Wrap a runner as `dspy.LM`, with DSPy's cache and retries off: the runner has its own.

    What ended a run (a wrong key, an empty budget) is kept in `lm.engine.stopped`, since DSPy's
    optimizers may take it for a bad prompt.
    """
    engine = RunnerEngine(runner, seed=seed)
    return dspy.LM(
        # No provider's name, or DSPy applies that provider's rules to our requests.
        "judges:" + runner.model.name.replace("/", ":"),
        engine=engine,
        async_engine=AsyncRunnerEngine(engine),
        cache=False,
        num_retries=0,
        temperature=temperature,
        max_tokens=max_tokens,
    )


class RunnerEngine:
    """Answers DSPy's canonical requests.

    DSPy's rollout numbers do not reach an engine, so a request at a temperature above 0 that comes
    again is asked again with another seed: the second time, the third, in a resumed run as well.
    """

    def __init__(self, runner: RequestRunner, *, seed: int = 0) -> None:
        self.runner = runner
        self.seed = seed
        self.stopped: Exception | None = None
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def complete(self, request: lm15.Request) -> lm15.Response:
        try:
            response = self.runner.ask(self.model_request(request))
        except Exception as error:
            self.stopped = error
            raise
        return _dspy_response(response, request)

    def model_request(self, request: lm15.Request) -> Request:
        config = request.config
        sampling = Sampling(
            temperature=config.temperature,
            top_logprobs=config.logprobs or 0,
            max_tokens=config.max_tokens or Sampling().max_tokens,
            seed=self.seed if config.seed is None else config.seed,
        )
        messages = _messages(request)
        if sampling.temperature != 0:
            key = request_key("", "", messages, sampling)
            with self._lock:
                times, self._times[key] = self._times[key], self._times[key] + 1
            sampling = replace(sampling, seed=sampling.seed + SAMPLE_SEED_STEP * times)
        # Any reply is taken: DSPy's adapter parses it.
        return Request(messages, sampling, lambda reply: reply.text)


class AsyncRunnerEngine:
    """The same for DSPy's asynchronous calls."""

    def __init__(self, engine: RunnerEngine) -> None:
        self._engine = engine

    async def complete(self, request: lm15.Request) -> lm15.Response:
        engine = self._engine
        try:
            response = await engine.runner.ask_async(engine.model_request(request))
        except Exception as error:
            engine.stopped = error
            raise
        return _dspy_response(response, request)


def _messages(request: lm15.Request) -> list[Message]:
    messages: list[Message] = []
    if request.system:
        parts = request.system
        system = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        messages.append({"role": "system", "content": system})
    for message in request.messages:
        role: Any = "assistant" if message.role == "assistant" else "user"
        messages.append({"role": role, "content": message.text or ""})
    return messages


def _dspy_response(response: Response, request: lm15.Request) -> lm15.Response:
    if response.error is not None:
        raise lm15.ServerError(response.error)
    reply = response.replies[0]
    return lm15.Response(
        id=None,
        model=request.model,
        message=lm15.Message.assistant(reply.text),
        finish_reason=reply.finish_reason if reply.finish_reason in FINISHED else "stop",
        usage=lm15.Usage(
            input_tokens=response.tokens_in,
            output_tokens=response.tokens_out,
            total_tokens=response.tokens_in + response.tokens_out,
        ),
        logprobs=tuple(_logprob(token) for token in reply.tokens) or None,
    )


def _logprob(token: Token) -> lm15.TokenLogprob:
    top = tuple(lm15.TopLogprob(token=text, logprob=value) for text, value in token.top.items())
    return lm15.TokenLogprob(
        token=token.text, logprob=token.top.get(token.text, float("-inf")), top=top
    )
