"""A model for tests of what stands around a model: it answers in this process, by a hash."""

import asyncio
import hashlib
from collections.abc import Sequence

from judges.protocol import Completion, Message, Reply, Sampling


class ScriptedModel:
    """Rates by a hash of the prompt; says nothing usable of a text that holds "garble"."""

    name = "scripted"
    endpoint = "http://127.0.0.1/v1"
    native_n = True
    has_logprobs: bool | None = False

    def __init__(self) -> None:
        self.requests: list[str] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        await asyncio.sleep(0)
        last = messages[-1]["content"]
        self.requests.append(last)
        text = "no idea" if "garble" in last else str(rating_of_choice(last))
        if "preferred" in last:
            texts = last.split("[[ ## summary_a ## ]]")[1]
            better = "A" if texts.index("good") < texts.index("bad") else "B"
            text = f"[[ ## comparison ## ]]\nGood it is.\n\n[[ ## preferred ## ]]\n{better}"
        return Completion(
            replies=(Reply(text=text),) * sampling.n, tokens_in=9, tokens_out=1, model=self.name
        )

    async def close(self) -> None:
        pass


def rating_of_choice(prompt: str) -> int:
    return hashlib.sha256(prompt.encode()).digest()[0] % 5 + 1
