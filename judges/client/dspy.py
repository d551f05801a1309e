"""DSPy's models as ours, and ours as DSPy's: `DspyModel`, `ConfiguredModel`, `as_lm`.

DSPy's own cache and retries are off both ways: the client has its own.
"""

import asyncio
import contextvars
import errno
import json
import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from functools import lru_cache
from hashlib import sha256
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from dspy_judges.errors import JudgesError
from judges.client.keys import Redactor, endpoint_of, hide, secrets_among
from judges.client.openai import Spelling, TokenAnswer, read_error, read_usage, token_of
from judges.client.protocol import (
    CUT_SHORT,
    SAMPLE_SEED_STEP,
    Completion,
    FatalModelError,
    Message,
    Model,
    ModelError,
    NoConnectionsError,
    RefusedError,
    Reply,
    RespelledError,
    Sampling,
    TransientError,
    UnreachableError,
)

if TYPE_CHECKING:
    import dspy
    from dspy import lm15

    from judges.client.client import Request, Response

# What DSPy's engines let through of an answer that is none.
MALFORMED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
# How requests get to a model, and what each says for itself; the rest of an LM's arguments
# decides on its replies.
UNDECIDING = frozenset(
    {
        *("api_key", "api_base", "base_url", "headers", "extra_headers", "timeout", "rollout_id"),
        *("organization", "project", "azure_ad_token_provider"),
        *("temperature", "max_tokens", "max_completion_tokens", "n"),
    }
)
# Prices and capabilities are looked up on this machine, not in the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
# DSPy warns of every reply that is cut short; the client asks again, and says so once.
OWN_REQUEST = contextvars.ContextVar("own_request", default=False)
logging.getLogger("dspy.clients.lm").addFilter(
    lambda record: not (OWN_REQUEST.get() and "truncated" in record.getMessage())
)


class ConfiguredModel:
    """A `dspy.LM` as a model, asked with all its own arguments: one request, one reply.

    What is set where this is made (callbacks, the usage tracker) sees the requests. `temperature`
    is its own, else 0; `max_tokens` is its own. `cacheable` says that runs may share its replies (a
    client of one's own may answer anything, and `cache=False` asks for it). `identity` is the
    endpoint and a digest of the arguments that decide on replies.
    """

    native_n = False
    has_logprobs: bool | None = None

    def __init__(self, lm: Any) -> None:
        import dspy

        arguments = {name: value for name, value in lm.kwargs.items() if value is not None}
        hide(secrets_among(arguments))
        self.secrets = Redactor()
        self.key_variable = "use"  # DSPy knows which
        self.name = str(lm.model)
        self.api_base = arguments.get("api_base") or arguments.get("base_url")
        self.endpoint = endpoint_of(self.name, self.api_base)
        self.identity = self.endpoint + _digest(arguments, getattr(lm, "model_type", "chat"))
        self.temperature: float | None = arguments.get("temperature", 0.0)
        limits = (arguments.get(name) for name in ("max_completion_tokens", "max_tokens"))
        self.max_tokens: int | None = next(filter(None, limits), None)
        engine = getattr(lm, "engine", None)
        self.cacheable = bool(lm.cache) and isinstance(engine, str)
        if engine is None:
            self._is_async = type(lm).aforward is not dspy.BaseLM.aforward
        else:
            self._is_async = (
                isinstance(engine, str) or getattr(lm, "_async_engine_spec", None) is not None
            )
        self.spelling = Spelling(self.name)
        self.changes = self.spelling.changes
        self._seed: int | None = arguments.get("seed")
        if self._seed is None:
            self.spelling.refused.add("seed")
        self._context = contextvars.copy_context()
        # Each request says these itself.
        self._lm = lm.copy(
            cache=False, num_retries=0, n=None, max_tokens=None, max_completion_tokens=None
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        import dspy

        sampling = replace(sampling, seed=sampling.seed + (self._seed or 0))
        body = self.spelling.body(messages, sampling)
        # A task of its own sees what its user has set in DSPy.
        asking = asyncio.create_task(self._ask(body), context=self._context.copy())
        try:
            entry = await asking
            completion = _read_completion(entry, messages)
        except dspy.LMError as error:
            raise self._model_error(error, body) from None
        except MALFORMED as error:
            reason = type(error).__name__
            raise TransientError(f"{self.name}: malformed answer ({reason})", billed=True) from None
        except OSError as error:
            raise _lost(error, f"{self.name}: {self.secrets.redact(str(error))}") from None
        self._learn_from(entry.get("adaptations") or (), body)
        return self.secrets.clean(completion)

    async def close(self) -> None:
        """Leave the connections to DSPy, which owns them."""

    def _options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What the request says beside its messages."""
        return {name: body[name] for name in body.keys() - {"model", "messages"}}

    async def _ask(self, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """DSPy's own record of the request: outputs, usage and the provider's answer."""
        import dspy
        from dspy.utils.exceptions import AdapterParseError

        OWN_REQUEST.set(True)
        adapter, signature = _plain_adapter()
        # A copy's record tells this request from those beside it.
        lm, entries = self._lm.copy(), list[Mapping[str, Any]]()
        lm.update_history = entries.append
        asked: Any = (lm, self._options(body), signature, [], {"messages": list(body["messages"])})
        with dspy.context(disable_history=False), suppress(AdapterParseError):
            if self._is_async:
                await adapter.acall(*asked)
            else:
                await asyncio.to_thread(adapter, *asked)
        return entries[-1]

    def _learn_from(self, adaptations: Sequence[Any], body: Mapping[str, Any]) -> None:
        """Say once what DSPy left out of a request or changed in it, and leave it out from now."""
        for adaptation in adaptations:
            name = adaptation.field.removeprefix("config.")
            if adaptation.action == "dropped":
                self.spelling.refuse(name, body.get(name))
            elif adaptation.action == "clamped":
                self.spelling.note(f"a {name} of {adaptation.applied} at most")

    def _model_error(self, error: Any, body: Mapping[str, Any]) -> ModelError:
        """What to do about one of DSPy's errors."""
        import dspy

        # What follows is DSPy's advice to programmers.
        text = error.message.partition("To fix:")[0]
        answer = msgspec.json.encode({"message": text, "code": error.provider_code})
        learned_from = (dspy.LMUnsupportedFeatureError, dspy.LMInvalidRequestError)
        if isinstance(error, learned_from) and self.spelling.learn(body, answer):
            return RespelledError(f"{self.name} wants the request spelled otherwise")
        limited = isinstance(error, dspy.LMRateLimitError)
        if status := error.status or (429 if limited else None):
            return read_error(self, status, error.retry_after, answer)
        message = f"{self.name}: {' '.join(self.secrets.redact(text).split())[:300]}"
        if isinstance(error, dspy.LMTransportError):
            return _lost(error, message)
        if isinstance(error, dspy.LMInvalidRequestError) and "is not JSON" not in text:
            # In the place of its answer, Gemini says that it withholds this one, which is billed.
            withheld = RefusedError(message)
            withheld.usage = read_usage(None, body["messages"], ())
            return withheld
        unfit = (dspy.LMInvalidRequestError, dspy.LMUnexpectedError)
        if isinstance(error, (*unfit, dspy.LMTimeoutError, dspy.LMServerError)):
            return TransientError(message, billed=True)
        return FatalModelError(message)


class DspyModel(ConfiguredModel):
    """A model of any provider that DSPy knows, by its name.

    Raises FatalModelError where DSPy cannot open it.
    """

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        import dspy

        given: dict[str, Any] = {"api_base": api_base, "api_key": api_key}
        hide(secrets_among(given))
        try:
            lm = dspy.LM(name, timeout=timeout, **{k: v for k, v in given.items() if v})
        except (ValueError, dspy.LMError) as error:
            reason = Redactor().redact(str(error))
            raise FatalModelError(f"{name}: DSPy cannot open this model: {reason}") from None
        super().__init__(lm)
        self.spelling.refused.discard("seed")
        # Who opened it is not all who ask it.
        self._context = contextvars.Context()

    def _options(self, body: Mapping[str, Any]) -> dict[str, Any]:
        options = super()._options(body)
        if self.name.startswith("anthropic/"):
            from dspy.lm15 import CacheConfig

            # All but the last message is the same for every row: elsewhere it is cached unasked.
            shown = sum(message["role"] != "system" for message in body["messages"]) - 2
            options["prompt_cache"] = CacheConfig(prefix_until_index=shown if shown >= 0 else None)
        return options


def configured_lm() -> Any | None:
    """What `dspy.configure(lm=...)` or `dspy.context(lm=...)` names; None without either."""
    settings = getattr(sys.modules.get("dspy"), "settings", None)
    return None if settings is None else settings.lm


def _digest(arguments: Mapping[str, Any], kind: str) -> str:
    """A few letters for the arguments that decide on replies; "" where there are none."""
    deciding = {name: arguments[name] for name in arguments.keys() - UNDECIDING}
    if kind != "chat":
        deciding["model_type"] = kind
    if not deciding:
        return ""
    text = json.dumps(deciding, sort_keys=True, default=repr)
    return f" with arguments {sha256(text.encode()).hexdigest()[:12]}"


@lru_cache(maxsize=1)
def _plain_adapter() -> tuple[Any, Any]:
    """An adapter that sends messages as they are, the public way to DSPy's clients."""
    import dspy

    class PlainAdapter(dspy.Adapter):  # type: ignore[misc]
        def format(self, signature: Any, demos: Any, inputs: Mapping[str, Any]) -> Any:
            return inputs["messages"]

        def parse(self, signature: Any, completion: str) -> dict[str, Any]:
            return {"reply": completion}

    return PlainAdapter(), dspy.Signature("messages -> reply")


def _read_completion(entry: Mapping[str, Any], messages: Sequence[Message]) -> Completion:
    """The completion in DSPy's record of a request, whichever client answered."""
    output = entry["outputs"][0]
    values: Mapping[str, Any] = output if isinstance(output, Mapping) else {"text": output}
    logprobs = values.get("logprobs") or {}
    logprobs = logprobs if isinstance(logprobs, Mapping) else logprobs.model_dump()
    tokens = logprobs.get("content") or []
    reply = Reply(
        text=values.get("text") or "",
        tokens=tuple(map(token_of, msgspec.convert(tokens, list[TokenAnswer]))),
        finish_reason=_finish_reason(entry["response"]),
    )
    usage = read_usage(entry["usage"] or None, messages, (reply,))
    model = str(entry.get("response_model") or entry["model"])
    return Completion(replies=(reply,), model=model, **asdict(usage))


def _finish_reason(response: Any) -> str:
    """Why a reply ended, in the provider's word where DSPy takes what cut it short for a stop."""
    raw = _get(response, "provider_data") or response
    choice = (_get(raw, "choices") or _get(raw, "candidates") or [None])[0]
    own = _get(response, "finish_reason") or _get(choice, "finish_reason") or "stop"
    words = (own, _get(choice, "finish_reason"), _get(choice, "finishReason"))
    return next((word for word in map(str, words) if word.lower() in CUT_SHORT), str(own))


def _get(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)


def _lost(error: BaseException | None, message: str) -> ModelError:
    """A connection that there was none of, or that broke, so that the request may be billed."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            return NoConnectionsError(message)
        if type(error).__name__ in {"ReadError", "ReadTimeout", "ProtocolError"}:
            return TransientError(message, billed=True)
        error = error.__cause__ or error.__context__
    return UnreachableError(message)


class Asker(Protocol):
    """What a client does for DSPy: answer a request, from any thread or event loop."""

    @property
    def model(self) -> Model: ...

    def ask(self, request: "Request") -> "Response": ...

    async def ask_async(self, request: "Request") -> "Response": ...


def as_lm(
    client: Asker, *, temperature: float | None = 0.0, max_tokens: int = 1024, seed: int = 0
) -> "dspy.LM":
    """A client as `dspy.LM`, for DSPy's programs and optimizers.

    What ended a run (a wrong key, an empty budget) is kept in `lm.engine.stopped`, since DSPy's
    optimizers may take it for a bad prompt.
    """
    import dspy

    engine = ClientEngine(client, seed)
    return dspy.LM(
        # No provider's name, or DSPy applies that provider's rules to our requests.
        "judges:" + client.model.name.replace("/", ":"),
        engine=engine,
        async_engine=SimpleNamespace(complete=engine.complete_async),
        cache=False,
        num_retries=0,
        temperature=temperature,
        max_tokens=max_tokens,
    )


@contextmanager
def open_lm(open_client: Callable[[], AbstractContextManager[Asker]]) -> "Iterator[dspy.LM]":
    """Open a client and give it as `dspy.LM`."""
    with open_client() as client:
        yield as_lm(client)


class ClientEngine:
    """Answers DSPy's requests by a client.

    DSPy's rollout numbers do not reach an engine: what comes again at a temperature above 0 is
    asked with another seed, the same one in a run that is repeated.
    """

    def __init__(self, client: Asker, seed: int) -> None:
        self.client, self.seed = client, seed
        self.stopped: JudgesError | None = None
        self._times: Counter[int] = Counter()
        self._lock = threading.Lock()

    def complete(self, request: "lm15.Request") -> "lm15.Response":
        try:
            return _dspy_response(self.client.ask(self._asked(request)), request)
        except JudgesError as error:
            self.stopped = error
            raise

    async def complete_async(self, request: "lm15.Request") -> "lm15.Response":
        try:
            return _dspy_response(await self.client.ask_async(self._asked(request)), request)
        except JudgesError as error:
            self.stopped = error
            raise

    def _asked(self, request: "lm15.Request") -> "Request":
        from dspy import lm15

        from judges.client.client import Request

        config = request.config
        if config.logprobs:
            raise lm15.UnsupportedFeatureError("a judge's client gives DSPy no log-probabilities")
        sampling = Sampling(
            temperature=config.temperature,
            max_tokens=config.max_tokens or Sampling().max_tokens,
            seed=self.seed if config.seed is None else config.seed,
        )
        messages = _messages(request)
        if sampling.temperature != 0:
            key = hash((repr(messages), sampling))
            with self._lock:
                times, self._times[key] = self._times[key], self._times[key] + 1
            sampling = replace(sampling, seed=sampling.seed + SAMPLE_SEED_STEP * times)
        # Any reply is taken: DSPy's adapter parses it.
        return Request(messages, sampling, lambda reply: reply.text)


def _messages(request: "lm15.Request") -> list[Message]:
    messages: list[Message] = []
    if parts := request.system:
        system = parts if isinstance(parts, str) else "".join(part.text for part in parts)
        messages.append({"role": "system", "content": system})
    for message in request.messages:
        role: Any = "assistant" if message.role == "assistant" else "user"
        messages.append({"role": role, "content": message.text or ""})
    return messages


def _dspy_response(response: "Response", request: "lm15.Request") -> "lm15.Response":
    """DSPy's form of a response; raises its ServerError where there is none."""
    from dspy import lm15

    if response.error is not None:
        raise lm15.ServerError(response.error)
    reply, tokens_in, tokens_out = response.replies[0], response.tokens_in, response.tokens_out
    known = {"stop", "length", "content_filter"}
    return lm15.Response(
        id=None,
        model=request.model,
        message=lm15.Message.assistant(reply.text),
        finish_reason=reply.finish_reason if reply.finish_reason in known else "stop",
        usage=lm15.Usage(
            input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
        ),
    )
