"""A model for tests of the client that behaves as told, and requests for numbers."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from inspect import isawaitable
from pathlib import Path

from judges.client.client import Request, Response
from judges.client.store import ANSWERED, CACHED, Store
from judges.judgement import NoScoreError
from judges.protocol import Completion, Message, Reply, Sampling

Answer = str | Reply | Sequence[str]
Behave = Callable[[str, Sampling, int], Answer | Awaitable[Answer]]


class Model:
    """A model whose replies a function makes, and which counts what it was asked.

    The function gets the last message, the sampling, and how often this message was asked before.
    It returns one reply for all samples, a reply for each sample, or an awaitable of either.
    """

    has_logprobs = None

    def __init__(
        self, behave: Behave, *, wait: float = 0.0, native_n: bool = True, endpoint: str = "test"
    ) -> None:
        self.name = "m"
        self.endpoint = endpoint
        self.in_process = endpoint == "embedded"
        self.native_n = native_n
        self.prompts: Counter[str] = Counter()
        self.calls = 0
        self.samplings: list[Sampling] = []
        self.busy = self.max_busy = 0
        self._behave = behave
        self._wait = wait

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        prompt = messages[-1]["content"]
        before, self.prompts[prompt] = self.prompts[prompt], self.prompts[prompt] + 1
        self.calls += 1
        self.samplings.append(sampling)
        self.busy += 1
        self.max_busy = max(self.busy, self.max_busy)
        try:
            if self._wait:
                await asyncio.sleep(self._wait)
            reply = self._behave(prompt, sampling, before)
            reply = await reply if isawaitable(reply) else reply
        finally:
            self.busy -= 1
        answers = [reply] * sampling.n if isinstance(reply, str | Reply) else reply
        replies = tuple(one if isinstance(one, Reply) else Reply(text=one) for one in answers)
        return Completion(replies=replies, tokens_in=10, tokens_out=len(replies), model="m")

    async def close(self) -> None: ...


def number(reply: Reply) -> int:
    """Read a reply that is a whole number; refuse any other."""
    if not reply.text.isdigit():
        raise NoScoreError(f"no number in {reply.text!r}")
    return int(reply.text)


def asks(count: int, sampling: Sampling | None = None) -> Iterator[Request]:
    """Yield so many requests, whose messages are the numbers from 0 on."""
    for i in range(count):
        yield Request([{"role": "user", "content": str(i)}], sampling or Sampling(), number)


def echo(prompt: str, sampling: Sampling, before: int) -> str:
    """Reply with the message itself."""
    return prompt


def rate(prompt: str, *_: object) -> str:
    """Rate by a hash of the prompt, prefer the good text, and say nothing usable of a "garble"."""
    if "preferred" in prompt:
        texts = prompt.split("[[ ## summary_a ## ]]")[1]
        better = "A" if texts.index("good") < texts.index("bad") else "B"
        return f"[[ ## comparison ## ]]\nGood it is.\n\n[[ ## preferred ## ]]\n{better}"
    return "no idea" if "garble" in prompt else str(rating_of_choice(prompt))


def rating_of_choice(prompt: str) -> int:
    return hashlib.sha256(prompt.encode()).digest()[0] % 5 + 1


def values_of(answers: Sequence[Response]) -> list[object]:
    """The first value of each response, or None where it has none."""
    return [answer.values[0] if answer.values else None for answer in answers]


def count_answers(path: Path) -> Counter[str]:
    """How many requests of each role a store of replies has answers to."""
    counts = Counter[str]()
    with closing(Store(path)) as store:
        for total in store.totals():
            if total.state in (ANSWERED, CACHED):
                counts[total.role] += total.n_requests
    return counts
