"""Any provider DSPy knows, through `dspy.LM` with its cache and its retries off."""

import os
from collections.abc import Sequence
from typing import Any

from judges.models.openai_format import read_logprob, read_usage
from judges.models.providers import dspy_endpoint
from judges.models.redaction import Redactor
from judges.protocol import (
    Completion,
    FatalModelError,
    Message,
    ModelError,
    RefusedError,
    Reply,
    RespelledError,
    Sampling,
    ThrottledError,
    Token,
    TransientError,
    UnreachableError,
)

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
        # Prices and capabilities come from the bundled tables, not from the network.
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import dspy

        named = {"api_base": api_base, "api_key": api_key}
        settings: dict[str, Any] = {name: value for name, value in named.items() if value}
        self.name = name
        self.endpoint = dspy_endpoint(api_base)
        self._secrets = Redactor([api_key] if api_key else [], url=api_base or "")
        self._seed = True
        try:
            self._lm = dspy.LM(name, cache=False, num_retries=0, timeout=timeout, **settings)
        except (ValueError, dspy.LMError) as error:
            reason = self._secrets.redact(str(error))
            raise FatalModelError(f"{name}: DSPy cannot open this model: {reason}") from None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer once; raises ModelError."""
        import dspy

        request = _request(self.name, messages, sampling, seed=self._seed)
        try:
            with dspy.context(disable_history=True):
                response = await self._lm.acall(request)
            return self._secrets.clean(_completion(response, messages))
        except dspy.LMUnsupportedFeatureError as error:
            if request.config.seed is None or "seed" not in str(error):
                raise FatalModelError(f"{self.name}: {self._secrets.redact(str(error))}") from None
            self._seed = False
            raise RespelledError(f"{self.name} takes no seed") from None
        except dspy.LMError as error:
            raise _model_error(error, self.name, self._secrets) from None
        # What DSPy's engines let through of an answer that is none.
        except MALFORMED as error:
            reason = type(error).__name__
            raise TransientError(f"{self.name}: malformed answer ({reason})", billed=True) from None

    async def close(self) -> None:
        """Leave the connections to DSPy, which owns them."""


def _request(name: str, messages: Sequence[Message], sampling: Sampling, *, seed: bool) -> Any:
    from dspy.lm15 import Config, Reasoning, Request
    from dspy.lm15 import Message as DspyMessage

    by_role = {"user": DspyMessage.user, "assistant": DspyMessage.assistant}
    effort: Any = sampling.reasoning_effort
    system = [message["content"] for message in messages if message["role"] == "system"]
    return Request(
        model=name,
        system="\n\n".join(system) or None,
        messages=tuple(
            by_role[message["role"]](message["content"])
            for message in messages
            if message["role"] in by_role
        ),
        config=Config(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            seed=sampling.seed if seed else None,
            logprobs=sampling.top_logprobs or None,
            reasoning=Reasoning(effort=effort) if effort else None,
        ),
    )


def _completion(response: Any, messages: Sequence[Message]) -> Completion:
    reply = Reply(
        text=response.message.text or "",
        tokens=tuple(
            Token(
                token.token, {top.token: read_logprob(top.logprob) for top in token.top or (token,)}
            )
            for token in response.logprobs or ()
        ),
        finish_reason=str(response.finish_reason or "stop"),
    )
    counts = {
        "prompt_tokens": response.usage.input_tokens or None,
        "completion_tokens": response.usage.output_tokens or None,
        "total_tokens": response.usage.total_tokens,
        "completion_tokens_details": {"reasoning_tokens": response.usage.reasoning_tokens},
    }
    usage = read_usage(counts, messages, (reply,))
    return Completion(
        replies=(reply,),
        tokens_in=usage.tokens_in,
        tokens_out=usage.tokens_out,
        model=response.model,
    )


def _model_error(error: Any, name: str, secrets: Redactor) -> ModelError:
    """File one of DSPy's errors under what the runner does about it."""
    import dspy

    # What follows is DSPy's advice to programmers.
    text = str(error).partition("To fix:")[0]
    message = f"{name}: {secrets.redact(' '.join(text.split()))[:300]}"
    if isinstance(error, dspy.LMRateLimitError):
        return ThrottledError(message, error.retry_after)
    if isinstance(error, dspy.LMTransportError):
        return UnreachableError(message)
    if isinstance(error, dspy.LMTimeoutError):
        return TransientError(message, billed=True)
    if isinstance(error, dspy.LMServerError):
        return TransientError(message, error.retry_after)
    if isinstance(error, dspy.ContextWindowExceededError):
        return RefusedError(message)
    if "is not JSON" in text:
        return TransientError(message, billed=True)
    return FatalModelError(message)
