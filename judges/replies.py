"""The replies in answers of the chat-completions protocol, and in the outputs of engines."""

from typing import Any

import msgspec
from msgspec import Struct

from judges.protocol import REFUSAL, Reply, Token

LONGEST_WORD = 200


class Alternative(Struct):
    token: str
    logprob: float


class TokenAnswer(Alternative):
    """A token as the protocol sends it."""

    top_logprobs: list[Alternative] | None = None


class _Logprobs(Struct):
    content: list[TokenAnswer] | None = None


class _Part(Struct):
    """A part of a message: Mistral's reasoning models send thoughts and text as parts."""

    type: str
    text: str = ""


class _Message(Struct):
    content: str | list[_Part] | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content if part.type == "text")
        return self.content or ""


class Choice(Struct):
    message: _Message | None = None  # missing where Azure's filters withhold it
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


def reply_of(choice: Choice) -> Reply:
    """The reply in a choice; its refusal where it has no text."""
    message, logprobs = choice.message or _Message(), choice.logprobs or _Logprobs()
    refusal = "" if message.text else message.refusal or ""
    return Reply(
        text=message.text or refusal,
        tokens=tuple(map(token_of, logprobs.content or ())),
        finish_reason=REFUSAL if refusal else (choice.finish_reason or "stop")[:LONGEST_WORD],
    )


def token_of(answer: TokenAnswer) -> Token:
    """A token with its likeliest alternatives, which include the token itself."""
    top: dict[str, float] = {}
    for each in (*(answer.top_logprobs or ()), answer):
        top.setdefault(each.token, each.logprob)
    return Token(answer.token, top)


def read_output(output: Any) -> Reply:
    """The reply in a text, in a choice of an OpenAI answer, or in an output of vLLM's.

    A choice may be an object or a dict. Raises ValueError for anything else.
    """
    if isinstance(output, str):
        return Reply(text=output)
    if not isinstance(text := getattr(output, "text", None), str):
        return reply_of(msgspec.convert(output, Choice, from_attributes=True))
    tokens = tuple(
        Token(
            top[chosen].decoded_token, {each.decoded_token: each.logprob for each in top.values()}
        )
        for chosen, top in zip(output.token_ids, output.logprobs or (), strict=False)
    )
    return Reply(text=text, tokens=tokens, finish_reason=output.finish_reason or "stop")
