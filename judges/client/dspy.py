"""Any provider DSPy knows, and the LM DSPy is configured with; its cache and retries are off."""

import asyncio
import contextvars
import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from numbers import Real
from typing import Any

import msgspec

from judges.client.keys import Redactor, dspy_endpoint, endpoint_of, hide, secrets_among
from judges.client.openai import (
    FLAGGED,
    PLAN,
    QUOTA,
    Alternative,
    Spelling,
    TokenAnswer,
    read_usage,
    token_of,
    wait_in,
)
from judges.client.protocol import (
    CUT_SHORT,
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    RespelledError,
    Sampling,
    ThrottledError,
    TransientError,
    UnreachableError,
    is_reasoning,
)

_log = logging.getLogger(__name__)

MALFORMED = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
    AssertionError,
)


class DspyModel:
    """One request, one reply: DSPy's engines ask n times for n, one after the other."""

    native_n = False
    has_logprobs: bool | None = None

    def __init__(
        self,
        name: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        _prepare_dspy()
        import dspy

        named = {"api_base": api_base, "api_key": api_key}
        settings: dict[str, Any] = {name: value for name, value in named.items() if value}
        self.name = name
        self.endpoint = dspy_endpoint(api_base)
        self._secrets = Redactor([api_key] if api_key else [])
        self.spelling = Spelling(name)
        self.changes = self.spelling.changes
        try:
            self._lm = dspy.LM(name, cache=False, num_retries=0, timeout=timeout, **settings)
        except (ValueError, dspy.LMError) as error:
            reason = self._secrets.redact(str(error))
            raise FatalModelError(f"{name}: DSPy cannot open this model: {reason}") from None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        import dspy

        _OWN_REQUEST.set(True)
        body = self.spelling.body(messages, sampling)
        try:
            with dspy.context(disable_history=True):
                response = await self._lm.acall(_request(self.name, body))
            completion = self._secrets.clean(_completion(response, messages, self.name))
        except dspy.LMError as error:
            learned_from = (dspy.LMUnsupportedFeatureError, dspy.LMInvalidRequestError)
            if isinstance(error, learned_from) and self.spelling.learn(body, _complaint(error)):
                raise RespelledError(f"{self.name} wants the request spelled otherwise") from None
            raise _model_error(error, self.name, self._secrets, messages) from None
        # What DSPy's engines let through of an answer that is none.
        except MALFORMED as error:
            reason = type(error).__name__
            raise TransientError(f"{self.name}: malformed answer ({reason})", billed=True) from None
        for adaptation in response.adaptations:
            name = adaptation.field.removeprefix("config.")
            if adaptation.action == "dropped":
                self.spelling.refuse(name, body.get(name))
            elif adaptation.action == "clamped":
                self.spelling.note(f"a {name} of {adaptation.applied} at most")
        return completion

    async def close(self) -> None:
        """Leave the connections to DSPy, which owns them."""


# How requests get to a model; everything else that an LM is given decides on its replies.
CONNECTION = frozenset(
    {
        *("api_key", "api_base", "base_url", "headers", "extra_headers", "timeout", "rollout_id"),
        *("organization", "project", "azure_ad_token_provider"),
    }
)
# What a request says by itself, whatever the LM does.
OF_THE_REQUEST = frozenset({"temperature", "max_tokens", "max_completion_tokens", "n"})


def _prepare_dspy() -> None:
    """Have DSPy's clients look up prices and capabilities here, and not in the network.

    Nor do they warn of every reply of ours that is cut short, which is said once and asked again.
    """
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    logging.getLogger("dspy.clients.lm").addFilter(_is_another_request)  # once, as filters are


_OWN_REQUEST = contextvars.ContextVar("own request", default=False)


def _is_another_request(record: logging.LogRecord) -> bool:
    return not (_OWN_REQUEST.get() and "truncated" in record.getMessage())


def configured_lm() -> Any | None:
    """What `dspy.configure(lm=...)` or `dspy.context(lm=...)` names; None without either."""
    settings = getattr(sys.modules.get("dspy"), "settings", None)
    return None if settings is None else settings.lm


class ConfiguredModel:
    """A `dspy.LM` of its user's own, asked as DSPy's programs ask it.

    Its key, address, headers and all its other arguments go with every request, and what is set
    where this is made (callbacks, the usage tracker) sees them; its cache and retries are off.
    `temperature` is its own, else 0, or None for models that reason; `max_tokens`, `timeout`
    and `num_retries` are its own; `cacheable` says that runs may share its replies (a client
    of one's own may answer anything, and `cache=False` asks for it). `identity` is the endpoint,
    and a digest of those arguments that decide on replies: what a journal knows it by.
    """

    native_n = False
    has_logprobs: bool | None = None

    def __init__(self, lm: Any) -> None:
        _prepare_dspy()
        arguments: Mapping[str, Any] = {
            name: value for name, value in lm.kwargs.items() if value is not None
        }
        self._lm = lm.copy(cache=False, num_retries=0)
        self._arguments = arguments
        self._context = contextvars.copy_context()
        self._context.run(_OWN_REQUEST.set, True)
        self.api_base = arguments.get("api_base") or arguments.get("base_url")
        hide(secrets := secrets_among(arguments))
        self._secrets = Redactor(secrets)
        self.name = str(lm.model)
        self.endpoint = endpoint_of(self.name, self.api_base)
        self.identity = self.endpoint + self._digest()
        default = None if is_reasoning(self.name) else 0.0
        self.temperature: float | None = arguments.get("temperature", default)
        # DSPy spells it so for the models of OpenAI that reason.
        names = ("max_completion_tokens", "max_tokens")
        self._limit = next((name for name in names if name in lm.kwargs), "max_tokens")
        self.max_tokens: int | None = arguments.get(self._limit)
        timeout = arguments.get("timeout")
        self.timeout = float(timeout) if isinstance(timeout, Real) else None
        self.num_retries = int(getattr(lm, "num_retries", 0) or 0)
        own_client = not isinstance(getattr(lm, "engine", None), str)
        self.cacheable = bool(lm.cache) and not own_client
        self._refused: set[str] = set()
        self._is_sync = False

    def __repr__(self) -> str:
        return f"ConfiguredModel({self.name!r}, {self.endpoint!r})"

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        import dspy

        options = self._options(sampling)
        loop = asyncio.get_running_loop()
        asking = self._ask(list(messages), dict(options))
        try:
            # In a task of its own, which sees what its user has set in DSPy.
            entry = await loop.create_task(asking, context=self._context.copy())
            return self._secrets.clean(_completion_of_entry(entry, messages))
        except (dspy.LMError, NotImplementedError) as error:
            raise self._error(error, options, messages) from None
        except MALFORMED as error:
            reason = type(error).__name__
            raise TransientError(f"{self.name}: malformed answer ({reason})", billed=True) from None
        except OSError as error:
            raise TransientError(f"{self.name}: {self._secrets.redact(str(error))}") from None

    async def close(self) -> None:
        """Leave the connections to DSPy, which owns them."""

    async def _ask(self, messages: list[Message], options: dict[str, Any]) -> Mapping[str, Any]:
        """What DSPy notes of the request: outputs, usage and the provider's own answer."""
        import dspy
        from dspy.utils.exceptions import AdapterParseError

        adapter, signature = _plain_adapter()
        # A copy's own record tells this request's apart from those beside it.
        lm = self._lm.copy()
        entries: list[Mapping[str, Any]] = []
        lm.update_history = entries.append
        inputs = {"messages": messages}
        with dspy.context(disable_history=False), suppress(AdapterParseError):
            if self._is_sync:
                await asyncio.to_thread(adapter, lm, options, signature, [], inputs)
            else:
                await adapter.acall(lm, options, signature, [], inputs)
        return entries[-1]

    def _options(self, sampling: Sampling) -> dict[str, Any]:
        """What the request says beside the LM's own arguments."""
        options: dict[str, Any] = {
            "temperature": sampling.temperature,
            self._limit: sampling.max_tokens,
            "reasoning_effort": sampling.reasoning_effort,
            "n": 1 if "n" in self._arguments else None,
        }
        if "seed" in self._arguments:
            options["seed"] = self._arguments["seed"] + sampling.seed
        if sampling.top_logprobs:
            options |= {"logprobs": True, "top_logprobs": sampling.top_logprobs}
        return {
            name: value
            for name, value in options.items()
            if value is not None and name not in self._refused
        }

    def _error(
        self, error: Exception, options: Mapping[str, Any], messages: Sequence[Message]
    ) -> ModelError:
        """What to do about an error; what only we have added to the LM's arguments is given up."""
        text = str(error)
        if not self._is_sync and (isinstance(error, NotImplementedError) or "async_engine" in text):
            self._is_sync = True
            return RespelledError(f"{self.name} has no asynchronous calls")
        for name in ("temperature", self._limit):
            if name in text and name in options and name not in self._arguments:
                if name not in self._refused:
                    _log.warning("%s takes no %s: asked without", self.name, name)
                self._refused.add(name)
                return RespelledError(f"{self.name} takes no {name}")
        return _model_error(error, self.name, self._secrets, messages)

    def _digest(self) -> str:
        """A few letters for the arguments that decide on replies; "" where there are none."""
        arguments = {
            name: value
            for name, value in self._arguments.items()
            if name not in CONNECTION | OF_THE_REQUEST
        }
        if (kind := getattr(self._lm, "model_type", "chat")) != "chat":
            arguments["model_type"] = kind
        if not arguments:
            return ""
        text = json.dumps(arguments, sort_keys=True, default=repr)
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


def _completion_of_entry(entry: Mapping[str, Any], messages: Sequence[Message]) -> Completion:
    """Read what DSPy notes of a request, whichever client answered."""
    output, response = entry["outputs"][0], entry["response"]
    values: Mapping[str, Any] = output if isinstance(output, Mapping) else {"text": output}
    logprobs = values.get("logprobs") or {}
    logprobs = logprobs if isinstance(logprobs, Mapping) else logprobs.model_dump()
    reply = Reply(
        text=values.get("text") or "",
        tokens=tuple(
            token_of(msgspec.convert(token, TokenAnswer)) for token in logprobs.get("content") or ()
        ),
        finish_reason=_finish_of(response),
    )
    usage = read_usage(entry["usage"] or None, messages, (reply,))
    model = str(entry.get("response_model") or entry["model"])
    return Completion(replies=(reply,), model=model, **asdict(usage))


def _request(name: str, body: Mapping[str, Any]) -> Any:
    """DSPy's form of a chat-completions request."""
    from dspy.lm15 import CacheConfig, Config, Reasoning, Request
    from dspy.lm15 import Message as DspyMessage

    by_role = {"user": DspyMessage.user, "assistant": DspyMessage.assistant}
    effort = body.get("reasoning_effort")
    system = [message["content"] for message in body["messages"] if message["role"] == "system"]
    messages = tuple(
        by_role[message["role"]](message["content"])
        for message in body["messages"]
        if message["role"] in by_role
    )
    cache = None
    if name.startswith("anthropic/"):
        # All but the last message is the same for every row: elsewhere it is cached unasked.
        shown = len(messages) - 2
        cache = CacheConfig(prefix_until_index=shown) if shown >= 0 else CacheConfig()
    return Request(
        model=name,
        system="\n\n".join(system) or None,
        messages=messages,
        config=Config(
            max_tokens=body.get("max_tokens") or body["max_completion_tokens"],
            temperature=body.get("temperature"),
            seed=body.get("seed"),
            logprobs=body.get("top_logprobs"),
            reasoning=Reasoning(effort=effort) if effort else None,
            cache=cache,
        ),
    )


def _complaint(error: Exception) -> bytes:
    """What an error says, as an endpoint's answer has it."""
    return json.dumps({"error": {"message": _text_of(error)}}).encode()


def _text_of(error: Exception) -> str:
    # What follows is DSPy's advice to programmers.
    return " ".join(str(error).partition("To fix:")[0].split())


def _completion(response: Any, messages: Sequence[Message], name: str) -> Completion:
    from dspy.lm15 import TextPart

    reply = Reply(
        # Beside thoughts, `message.text` is none.
        text="".join(part.text for part in response.message.parts if isinstance(part, TextPart)),
        tokens=tuple(
            token_of(
                TokenAnswer(
                    token.token,
                    token.logprob,
                    [Alternative(top.token, top.logprob) for top in token.top or ()],
                )
            )
            for token in response.logprobs or ()
        ),
        finish_reason=_finish_of(response),
    )
    usage = read_usage(_counts(response.usage, name), messages, (reply,))
    return Completion(replies=(reply,), model=response.model, **asdict(usage))


def _finish_of(response: Any) -> str:
    """Why a reply ended, in the provider's word where DSPy knows it not and calls it a stop."""
    finish = getattr(response, "finish_reason", None)
    if finish is None and (replies := getattr(response, "choices", None)):
        finish = getattr(replies[0], "finish_reason", None)
    finish = str(finish or "stop")
    data = getattr(response, "provider_data", None)
    if finish != "stop" or not isinstance(data, Mapping):
        return finish
    choices = data.get("choices") or data.get("candidates")
    first = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(first, Mapping):
        return finish
    words = (first.get("finish_reason"), first.get("finishReason"))
    cut_short = (word for word in words if isinstance(word, str) and word.lower() in CUT_SHORT)
    return next(cut_short, finish)


def _counts(usage: Any, name: str) -> dict[str, Any]:
    """The counts as OpenAI names them."""
    tokens_in = usage.input_tokens
    cache = (usage.cache_read_tokens or 0) + (usage.cache_write_tokens or 0)
    total = usage.total_tokens
    if "anthropic" in name and tokens_in is not None and cache:
        tokens_in += cache  # which Anthropic counts apart
        total = None
    return {
        "prompt_tokens": tokens_in or None,
        "completion_tokens": usage.output_tokens or None,
        "total_tokens": total,
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _model_error(
    error: Any, name: str, secrets: Redactor, messages: Sequence[Message]
) -> ModelError:
    """File one of DSPy's errors under what the runner does about it."""
    import dspy

    text = _text_of(error)
    message = f"{name}: {secrets.redact(text)[:300]}"
    words = f"{getattr(error, 'provider_code', '')} {text}"
    if FLAGGED.search(words) and getattr(error, "status", None) in {400, 403, 422}:
        return RefusedError(message)
    if isinstance(error, dspy.LMRateLimitError):
        wait = wait_in(text) if error.retry_after is None else error.retry_after
        if QUOTA.search(words) or (wait is None and PLAN.search(text)):
            return FatalModelError(f"{message}; resume once there is more")
        return ThrottledError(message, wait)
    if isinstance(error, dspy.LMTransportError):
        return (
            TransientError(message, billed=True) if _was_sent(error) else UnreachableError(message)
        )
    if isinstance(error, dspy.LMTimeoutError):
        return TransientError(message, billed=True)
    if isinstance(error, dspy.LMServerError):
        return TransientError(message, error.retry_after)
    if isinstance(error, dspy.ContextWindowExceededError):
        return RefusedError(message)
    if isinstance(error, dspy.LMUnexpectedError) or "is not JSON" in text:
        return TransientError(message, billed=True)  # an answer that is none
    invalid = isinstance(error, dspy.LMInvalidRequestError)
    if invalid and error.status is None:
        # An answer in whose place Gemini says that it was withheld: this text's, and billed.
        withheld = RefusedError(message)
        withheld.usage = read_usage(None, messages, ())
        return withheld
    if invalid and error.status in {400, 422}:
        return RefusedError(message)
    return FatalModelError(message)


def _was_sent(error: BaseException | None) -> bool:
    """Whether a line broke once there was one, so that the request may be billed."""
    while error is not None:
        if type(error).__name__ in {"ReadError", "ReadTimeout", "ProtocolError"}:
            return True
        error = error.__cause__
    return False
