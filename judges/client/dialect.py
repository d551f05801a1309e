"""What an endpoint takes: a model's spelling of the chat-completions request, learned by trying."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from judges.client.openai_format import complaint_of
from judges.client.protocol import Message, Sampling

# OpenAI's models that think first; and, by the names in use, anybody's.
REASONING = re.compile(r"(?:.*/)?(?:o[1345](?:-|\Z)|gpt-5(?!.*-chat))")
THINKING = re.compile(
    r"reasoner|\br1\b|magistral|\bqwq|\bqwen3|thinking|gpt-oss|gemini-(?:2\.5|3)|grok-(?:3-mini|4)"
    r"|minimax-m|kimi-k2|\bglm-",
    re.I,
)
# How endpoints say that they give one reply a request, few alternatives for a token, short replies,
# and no system message.
SEVERAL = re.compile(
    r"[`'\"]n[`'\"]|\bn (?:is|must|should|parameter)|\bn ?(?:>|=|<)|parameter:? n\b|"
    r"multiple (?:choices|completions|candidates)|candidate_?count",
    re.I,
)
ALTERNATIVES = re.compile(
    r"top_?logprobs\D{0,100}?(?:at most|up to|<=?|less than or equal to|maximum of|0 (?:and|to|-)) "
    r"?(\d{1,3})\b",
    re.I,
)
MOST_TOKENS = re.compile(
    r"(?:at most|up to|<=|less than or equal to|\[\d+, ?|> ?|between \d+ and|maximum of)\D{0,5}"
    r"(\d{2,7})\b",
    re.I,
)
NO_SYSTEM = re.compile(
    r"system['\"`]? (?:role|message|prompt|instruction)|role['\"`:]{0,3} ?['\"`]?system|"
    r"developer instruction|roles must alternate",
    re.I,
)
TOO_HIGH = re.compile(r"at most|less than|<=|\bmax|between|range|exceed|\bto\b", re.I)
CONTEXT = re.compile(r"context (?:length|window|size)", re.I)
TOKEN_LIMITS = frozenset({"max_tokens", "max_completion_tokens"})
LESS_EXACT = "asked without, so runs repeat less exactly"

_log = logging.getLogger(__name__)


def is_reasoning(model: str) -> bool:
    """Whether a model's name is of those that think before they answer, which takes tokens."""
    return bool(REASONING.match(model) or THINKING.search(model))


@dataclass(slots=True)
class Dialect:
    """Which of the format's spellings a model takes, for a whole run.

    `refused` are parameters that are left out; `learned` what differs from what was asked for, and
    `notes` what of it was not said yet.
    """

    token_limit: str = "max_tokens"
    refused: set[str] = field(default_factory=set)
    max_alternatives: int | None = None
    max_tokens: int | None = None
    notes: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, model: str) -> "Dialect":
        """Start from the name: OpenAI's reasoning models take another spelling."""
        if REASONING.match(model):
            dialect = cls("max_completion_tokens", refused={"temperature"})
            dialect.note(f"no temperature ({LESS_EXACT})")
            return dialect
        return cls()

    def body(self, model: str, messages: Sequence[Message], sampling: Sampling) -> dict[str, Any]:
        refused = self.refused
        limit = sampling.max_tokens
        body: dict[str, Any] = {
            "model": model,
            "messages": _without_system(messages) if "system" in refused else messages,
            self.token_limit: limit if self.max_tokens is None else min(limit, self.max_tokens),
        }
        if sampling.temperature is not None and "temperature" not in refused:
            body["temperature"] = sampling.temperature
        if "seed" not in refused:
            body["seed"] = sampling.seed
        if sampling.n > 1 and "n" not in refused:
            body["n"] = sampling.n
        if sampling.reasoning_effort is not None and "reasoning_effort" not in refused:
            body["reasoning_effort"] = sampling.reasoning_effort
        if sampling.top_logprobs:
            body["logprobs"] = True
            alternatives = self.max_alternatives or sampling.top_logprobs
            body["top_logprobs"] = min(sampling.top_logprobs, alternatives)
        return body

    def learn(self, body: Mapping[str, Any], answer: bytes) -> bool:
        """Take a 400's or 422's complaint to heart; whether the request should be sent again.

        Log-probabilities are never given up: a plan that needs them is not changed in silence.
        """
        parameter, text = complaint_of(answer)
        if CONTEXT.search(text):
            return False
        most = MOST_TOKENS.search(text) if "_tokens" in text else None
        if most and self._learn_most_tokens(body, int(most[1])):
            return True
        if ("max_completion_tokens" if "max_tokens" in body else "max_tokens") in text:
            return self._learn_token_limit(body)
        alternatives = ALTERNATIVES.search(text)
        if alternatives and 0 < int(alternatives[1]) < body.get("top_logprobs", 0):
            self.max_alternatives = int(alternatives[1])
            self.note(f"{self.max_alternatives} alternatives for a token at most")
            return True
        if body.get("temperature", 0) > 1 and "temperature" in text and TOO_HIGH.search(text):
            return False  # a lower one is taken; which is its user's choice
        for name in ("temperature", "seed", "reasoning_effort"):
            if name in body and (parameter == name or re.search(rf"\b{name}\b", text)):
                self.refuse(name, f"no {name} ({LESS_EXACT})", body)
                return True
        if "n" in body and (parameter == "n" or SEVERAL.search(text)):
            self.refuse("n", "one reply a request (several are asked for one by one)", body)
            return True
        if body["messages"][0]["role"] == "system" and NO_SYSTEM.search(text):
            self.refuse("system", "no system message (joined to the first of the user)", body)
            return True
        return parameter in TOKEN_LIMITS and self._learn_token_limit(body)

    def say(self, model: str) -> None:
        """Say what was learned in one line, once."""
        # A warning reaches stderr, also where nobody set up logging.
        _log.warning("%s takes %s", model, "; ".join(self.notes))
        self.notes.clear()

    def refuse(self, name: str, note: str, body: Mapping[str, Any]) -> None:
        """Leave a parameter out from now on."""
        if name in self.refused:
            return
        self.refused.add(name)
        if name == "temperature" and body["temperature"]:
            note = f"no temperature (replies are drawn at its own, not at {body['temperature']:g})"
        self.note(note)

    def _learn_token_limit(self, body: Mapping[str, Any]) -> bool:
        """Spell the limit the other way, unless that was refused as well."""
        if self.token_limit in body:
            self.refused.add(self.token_limit)
            other = next(iter(TOKEN_LIMITS - {self.token_limit}))
            if other in self.refused:
                return False
            self.token_limit = other
            self.note(f"{other} for a limit")
        return True

    def _learn_most_tokens(self, body: Mapping[str, Any], most: int) -> bool:
        if most >= body.get(self.token_limit, 0):
            return False
        self.max_tokens = most
        self.note(f"limits up to {most:,} tokens")
        return True

    def note(self, note: str) -> None:
        """Keep what was learned, once."""
        if note not in self.learned:
            self.learned.append(note)
            self.notes.append(note)


def _without_system(messages: Sequence[Message]) -> Sequence[Message]:
    """The same with the system's message at the head of the user's first."""
    if len(messages) < 2 or messages[0]["role"] != "system" or messages[1]["role"] != "user":
        return messages
    joined = f"{messages[0]['content']}\n\n{messages[1]['content']}"
    return [{"role": "user", "content": joined}, *messages[2:]]
