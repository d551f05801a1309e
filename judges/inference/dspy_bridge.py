"""A runner as DSPy's engine: DSPy's optimizers ask through the same journal, budget and retries."""

import threading
from collections import Counter
from typing import Any

import dspy
from dspy import lm15

from judges.inference.client import ModelRequest, ModelResponse
from judges.inference.runner import Runner
from judges.models.journal import request_key
from judges.protocol import SEEDS_APART, Message, Reply, Sampling, Token

FINISHED = {"stop", "length", "content_filter"}


def as_lm(
    runner: Runner, *, temperature: float | None = 0.0, max_tokens: int = 1024, seed: int = 0
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

    def __init__(self, runner: Runner, *, seed: int = 0) -> None:
        self.runner = runner
        self.seed = seed
        self.stopped: Exception | None = None
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()

    def complete(self, request: lm15.Request) -> lm15.Response:
        try:
            answer = self.runner.ask(self.ask_for(request))
        except Exception as error:
            self.stopped = error
            raise
        return _response(answer, request)

    def ask_for(self, request: lm15.Request) -> ModelRequest:
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
            seed = sampling.seed + SEEDS_APART * times
            sampling = Sampling(
                temperature=sampling.temperature,
                top_logprobs=sampling.top_logprobs,
                max_tokens=sampling.max_tokens,
                seed=seed,
            )
        return ModelRequest(messages, sampling, _whole)


class AsyncRunnerEngine:
    """The same for DSPy's asynchronous calls."""

    def __init__(self, engine: RunnerEngine) -> None:
        self._engine = engine

    async def complete(self, request: lm15.Request) -> lm15.Response:
        engine = self._engine
        try:
            answer = await engine.runner.ask_async(engine.ask_for(request))
        except Exception as error:
            engine.stopped = error
            raise
        return _response(answer, request)


def _whole(reply: Reply) -> str:
    """Accept any reply: DSPy's adapter parses it."""
    return reply.text


def _messages(request: lm15.Request) -> list[Message]:
    messages: list[Message] = []
    if request.system:
        messages.append({"role": "system", "content": _text(request.system)})
    for message in request.messages:
        role: Any = "assistant" if message.role == "assistant" else "user"
        messages.append({"role": role, "content": message.text or ""})
    return messages


def _text(parts: Any) -> str:
    if isinstance(parts, str):
        return parts
    return "".join(part.text for part in parts)


def _response(answer: ModelResponse, request: lm15.Request) -> lm15.Response:
    if answer.error is not None:
        raise lm15.ServerError(answer.error)
    reply = answer.replies[0]
    return lm15.Response(
        id=None,
        model=request.model,
        message=lm15.Message.assistant(reply.text),
        finish_reason=reply.finish_reason if reply.finish_reason in FINISHED else "stop",
        usage=lm15.Usage(
            input_tokens=answer.tokens_in,
            output_tokens=answer.tokens_out,
            total_tokens=answer.tokens_in + answer.tokens_out,
        ),
        logprobs=tuple(_logprob(token) for token in reply.tokens) or None,
    )


def _logprob(token: Token) -> lm15.TokenLogprob:
    top = tuple(lm15.TopLogprob(token=text, logprob=value) for text, value in token.top.items())
    return lm15.TokenLogprob(
        token=token.text, logprob=token.top.get(token.text, float("-inf")), top=top
    )
