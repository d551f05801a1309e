"""Use a `dspy.LM` as a model of this project, and a client of this project as a `dspy.LM`.

DSPy's own cache and retries are off, since clients cache replies and retry requests.
"""

import asyncio
import contextvars
import itertools
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from types import SimpleNamespace
from typing import Any, Literal, cast

import dspy
import msgspec
from dspy import lm15
from dspy.lm15 import CacheConfig
from dspy.utils.exceptions import AdapterParseError

from dspy_judges.errors import JudgesError
from judges.client.client import Client
from judges.client.keys import Redactor, endpoint_of, register_secrets, secrets_among
from judges.client.openai import HttpModel, read_usage
from judges.decisions import DECISION_SAMPLING, DecisionTask, read_option_probabilities
from judges.protocol import (
    SAMPLE_SEED_STEP,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    Request,
    Response,
    Sampling,
    TransientError,
    UnreachableError,
    is_decision_model,
)

JsonObject = Mapping[str, object]
# The exceptions that DSPy's engines raise if a response is malformed.
RESPONSE_ERRORS = (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
# Arguments of an LM that do not change its replies: keys, addresses and the time to wait.
CONNECTION_ARGUMENTS = {"api_key", "api_base", "base_url", "headers", "extra_headers", "timeout"}
# With this setting, LiteLLM reads prices and capabilities from its own files, not from the network.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")


class DspyModel(HttpModel):
    """A `dspy.LM` as a model of this project; one request brings one reply (`native_n` is false).

    Requests use the DSPy settings in `context`, by default the current settings. `identity` is the
    endpoint with a digest of the LM's arguments that change its replies.
    """

    native_n = False
    has_logprobs: bool | None = False

    def __init__(self, lm: dspy.LM, context: contextvars.Context | None = None) -> None:
        arguments = {name: value for name, value in lm.kwargs.items() if value is not None}
        register_secrets(secrets_among(arguments))
        self.api_base = arguments.get("api_base") or arguments.get("base_url")
        # Only DSPy knows which variable has the key, so messages say "the key in use is missing".
        super().__init__(lm.model, endpoint_of(lm.model, self.api_base), key_variable="use")
        reply_arguments = {k: v for k, v in arguments.items() if k not in CONNECTION_ARGUMENTS}
        canonical_json = json.dumps([lm.model_type, reply_arguments], sort_keys=True, default=repr)
        self.identity = f"{self.endpoint} {sha256(canonical_json.encode()).hexdigest()[:12]}"
        self.temperature: float | None = arguments.get("temperature", 0.0)
        max_tokens = arguments.get("max_completion_tokens") or arguments.get("max_tokens")
        self.max_tokens: int | None = max_tokens or None
        timeout = arguments.get("timeout")
        self.timeout = timeout if isinstance(timeout, int | float) else None
        # An engine that the user wrote may lack async calls, and its replies are not cached.
        self._is_async = isinstance(getattr(lm, "engine", None), str)
        self.cacheable = bool(lm.cache) and self._is_async
        self._seed: int = arguments.get("seed", 0)
        if "seed" not in arguments and context is None:
            self.request_format.omitted_parts.add("seed")  # since the user's LM does not set a seed
        self._context = contextvars.copy_context() if context is None else context
        # `n` and the token limits are removed here, since each request sets them itself.
        self._lm = lm.copy(
            cache=False, num_retries=0, n=None, max_tokens=None, max_completion_tokens=None
        )

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        seeded_sampling = replace(sampling, seed=sampling.seed + self._seed)
        request_body = self.request_format.make_body(messages, seeded_sampling)
        # The request is a task, since only a task can run with its own DSPy settings.
        task = asyncio.create_task(self._ask(request_body), context=self._context.copy())
        try:
            call_record = await task
            completion = self._read_completion(call_record, messages, sampling)
        except dspy.LMError as error:
            # In DSPy's messages, the text after "To fix:" is advice to programmers.
            error_text = error.message.partition("To fix:")[0]
            error_json = msgspec.json.encode({"message": error_text, "code": error.provider_code})
            request_errors = (dspy.LMUnsupportedFeatureError, dspy.LMInvalidRequestError)
            is_request_error = isinstance(error, request_errors)
            if is_request_error and self.request_format.learn_from(request_body, error_json):
                return await self.complete(messages, sampling)
            raise self._convert_error(error, error_text, error_json) from None
        except RESPONSE_ERRORS as error:
            message = f"{self.name}: malformed answer ({type(error).__name__})"
            raise TransientError(message, may_be_billed=True) from None
        for adaptation in call_record.get("adaptations") or ():
            if adaptation.action in ("dropped", "clamped", "substituted"):
                name = adaptation.field.removeprefix("config.")
                self.request_format.log_change(f"no such {name} (DSPy has {adaptation.action} it)")
        return completion

    async def close(self) -> None:
        """Do nothing, since DSPy owns the connections."""

    async def _ask(self, request_body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request, and return DSPy's record of the call: its outputs, usage and response."""
        # A copy of the LM is used, so that its history has this request alone.
        lm, history = self._lm.copy(), list[Mapping[str, Any]]()
        lm.update_history = history.append
        lm_options = {**request_body}
        del lm_options["model"]
        messages = list(lm_options.pop("messages"))
        if prompt_cache := lm.kwargs.get("prompt_cache"):
            # All messages but the last are the same for every row, so they are the cached prefix.
            last_prefix_index = sum(message["role"] != "system" for message in messages) - 2
            prefix_end = max(last_prefix_index, 0) or None
            lm_options["prompt_cache"] = replace(prompt_cache, prefix_until_index=prefix_end)
        adapter_inputs = {"messages": messages}
        with dspy.context(disable_history=False), suppress(AdapterParseError):
            if self._is_async:
                await _ADAPTER.acall(lm, lm_options, _SIGNATURE, [], adapter_inputs)
            else:
                await asyncio.to_thread(_ADAPTER, lm, lm_options, _SIGNATURE, [], adapter_inputs)
        return history[-1]

    def _read_completion(
        self, call_record: Mapping[str, Any], messages: Sequence[Message], sampling: Sampling
    ) -> Completion:
        output, response = call_record["outputs"][0], call_record["response"]
        reply_text = output.get("text") if isinstance(output, Mapping) else output
        # LiteLLM has the finish reason in the response's choice; DSPy's engines, in the response.
        choices = getattr(response, "choices", None) or [response]
        finish_reason = getattr(choices[0], "finish_reason", None)
        reply = Reply(text=reply_text or "", finish_reason=str(finish_reason or "stop"))
        usage = read_usage(call_record["usage"] or None, messages, (reply,), sampling)
        model_name = call_record.get("response_model") or self.name
        return self.make_completion([reply], model_name, usage)

    def _convert_error(self, error: dspy.LMError, error_text: str, error_json: bytes) -> ModelError:
        is_throttled = isinstance(error, dspy.LMRateLimitError)
        if status := error.status or (429 if is_throttled else None):
            return self.read_error(status, error.retry_after, error_json)
        message = f"{self.name}: {self.redactor.excerpt(error_text)}"
        if isinstance(error, dspy.LMTransportError):
            cause: BaseException | None = error
            while cause is not None:
                # The connection was lost after the request was sent, so the request may be billed.
                if type(cause).__name__ in {"ReadError", "ReadTimeout", "ProtocolError"}:
                    return TransientError(message, may_be_billed=True)
                cause = cause.__cause__ or cause.__context__
            return UnreachableError(message)
        if isinstance(error, dspy.LMInvalidRequestError):
            # DSPy also raises this error if Gemini withholds an answer that it bills.
            refused_error = RefusedError(message)
            refused_error.may_be_billed = True
            return refused_error
        if isinstance(error, dspy.LMUnexpectedError | dspy.LMTimeoutError | dspy.LMServerError):
            return TransientError(message, may_be_billed=True)
        return FatalModelError(message)


def open_dspy(model: str, api_base: str | None = None, api_key: str | None = None) -> DspyModel:
    """Open a model through DSPy; raises FatalModelError if DSPy does not support the provider."""
    arguments: dict[str, object] = {"api_base": api_base, "api_key": api_key}
    if model.startswith("anthropic/"):
        # Anthropic caches prompts only on request; other providers cache them by default.
        arguments["prompt_cache"] = CacheConfig()
    try:
        lm = dspy.LM(model, **{key: value for key, value in arguments.items() if value})
    except (ValueError, dspy.LMError) as error:
        reason = Redactor().redact(str(error))
        raise FatalModelError(f"{model}: DSPy cannot open this model: {reason}") from None
    # With an empty context, the model keeps no DSPy settings of the code that first opens it.
    return DspyModel(lm, contextvars.Context())


class _PassThroughAdapter(dspy.Adapter):  # DSPy calls `format`, then `parse`
    """An adapter that sends messages unchanged, and returns the reply unchanged."""

    def format(self, signature: object, demos: object, inputs: Mapping[str, object]) -> object:
        return inputs["messages"]

    def parse(self, signature: object, completion: str) -> dict[str, str]:
        return {"reply": completion}


_ADAPTER, _SIGNATURE = _PassThroughAdapter(), dspy.Signature("messages -> reply")


def as_lm(
    client: Client, *, temperature: float | None = 0.0, max_tokens: int = 1024, seed: int = 0
) -> "dspy.LM | DecisionLM":
    """Wrap a client as a `dspy.LM`, or as a `DecisionLM` if its model is a decision model.

    An error that ends the run, such as a wrong key or a spent budget, is kept in
    `lm.engine.stop_error`, since DSPy's optimizers may count the error as a failure of a prompt.
    """
    engine = ClientEngine(client, seed)
    if is_decision_model(client.model.name):
        return DecisionLM(engine)
    return dspy.LM(
        # The prefix "judges:" hides the provider from DSPy, which has special rules for providers.
        "judges:" + client.model.name.replace("/", ":"),
        engine=engine,
        async_engine=SimpleNamespace(complete=engine.complete_async),
        cache=False,
        num_retries=0,
        temperature=temperature,
        max_tokens=max_tokens,
    )


class ClientEngine:
    """A DSPy engine that answers requests through a client of this project.

    DSPy may send a request again to get another reply. So each repetition of a request gets a new
    seed, unless the temperature is 0. These seeds are the same in every run.
    """

    def __init__(self, client: Client, seed: int) -> None:
        self.client, self.seed = client, seed
        self.stop_error: JudgesError | None = None
        self._repeat_counters: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def complete(self, request: lm15.Request) -> lm15.Response:
        return _convert_response(request, self.ask(self._convert_request(request)))

    async def complete_async(self, request: lm15.Request) -> lm15.Response:
        return _convert_response(request, await self.ask_async(self._convert_request(request)))

    def ask(self, request: Request) -> Response:
        with self._keep_stop_error():
            return self.client.ask(request)

    async def ask_async(self, request: Request) -> Response:
        with self._keep_stop_error():
            return await self.client.ask_async(request)

    @contextmanager
    def _keep_stop_error(self) -> Iterator[None]:
        try:
            yield
        except JudgesError as error:
            self.stop_error = error
            raise

    def _convert_request(self, request: lm15.Request) -> Request:
        config, messages = request.config, _chat_messages(request)
        sampling = Sampling(
            temperature=config.temperature,
            max_tokens=config.max_tokens or Sampling().max_tokens,
            seed=self.seed if config.seed is None else config.seed,
        )
        if sampling.temperature != 0:
            n_repeats = next(self._repeat_counters[repr((messages, sampling))])
            sampling = replace(sampling, seed=sampling.seed + SAMPLE_SEED_STEP * n_repeats)
        # Every reply is accepted here, since DSPy's adapter parses it later.
        return Request(messages, sampling, lambda reply: reply)


class DecisionLM:
    """An LM for DSPy that asks a decision model typed questions through a `Client`."""

    supports_decision_requests = True

    def __init__(self, engine: ClientEngine) -> None:
        self.engine, self.model = engine, engine.client.model.name

    def __call__(self, state: JsonObject, questions: JsonObject) -> object:
        return self._read_response(self.engine.ask(self._make_request(state, questions)))

    async def acall(self, state: JsonObject, questions: JsonObject) -> object:
        request = self._make_request(state, questions)
        return self._read_response(await self.engine.ask_async(request))

    def _make_request(self, state: JsonObject, questions: JsonObject) -> Request:
        """Return the request to a decision model; the user message is the JSON of the inputs."""
        state = {**state}
        inputs_json = json.dumps(state.pop("inputs"), ensure_ascii=False)
        task = msgspec.convert({"state": state, "questions": questions}, DecisionTask)
        messages = (task.message, Message(role="user", content=inputs_json))
        return Request(messages, DECISION_SAMPLING, partial(_read_decisions, task))

    def _read_response(self, response: Response) -> object:
        if response.failure is not None:
            raise dspy.LMServerError(response.failure, model=self.model)
        if tracker := dspy.settings.usage_tracker:
            usage = {"prompt_tokens": response.tokens_in, "completion_tokens": response.tokens_out}
            tracker.add_usage(self.model, usage)
        return response.values[0]


def _read_decisions(task: DecisionTask, reply: Reply) -> JsonObject:
    """Return the answers in DSPy's format; raises NoScoreError if an answer is unusable."""
    answers: dict[str, object] = {}
    for name, probabilities in read_option_probabilities(task.questions, reply).items():
        answers[name] = {"probabilities": probabilities, "confidence": max(probabilities.values())}
        if task.questions[name].type == "noul":
            answers[name] = {"noul": probabilities["true"]}
    return answers


def _chat_messages(request: lm15.Request) -> list[Message]:
    system_text = request.system or ""
    if not isinstance(system_text, str):
        system_text = "".join(part.text for part in system_text)
    messages = [Message(role="system", content=system_text)] if system_text else []
    for message in request.messages:
        role: Literal["assistant", "user"] = "assistant" if message.role == "assistant" else "user"
        messages.append(Message(role=role, content=message.text or ""))
    return messages


def _convert_response(request: lm15.Request, response: Response) -> lm15.Response:
    """Convert a response to DSPy's type; raises DSPy's ServerError if the request failed."""
    if response.failure is not None:
        raise lm15.ServerError(response.failure)
    (reply,) = cast("tuple[Reply]", response.values)
    tokens_in, tokens_out = response.tokens_in, response.tokens_out
    return lm15.Response(
        id=None,
        model=request.model,
        message=lm15.Message.assistant(reply.text),
        finish_reason="length" if reply.is_out_of_tokens else "stop",
        usage=lm15.Usage(
            input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out
        ),
    )
