"""The embedded model: a small statistical judge behind the chat protocol, not a language model.

It measures some twenty facets of a text by counting (words shared with the source, order, faults of
form), weighs them by the words of the prompt, and updates the weights by the prompt's demos. It
understands nothing; it is free, offline and deterministic.
"""

import hashlib
import random
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from cachetools import LRUCache, cached

from judges.models.embedded.propose import propose, read_feedback, read_fenced_feedback
from judges.models.embedded.regression import Scorer, make_scorer
from judges.models.embedded.replies import (
    NOTHING,
    comparison,
    describe,
    draw,
    rationale,
    top_logprobs,
    write_reply,
)
from judges.models.embedded.request import Task, read_demos, read_task, read_texts
from judges.protocol import Completion, Message, Reply, Sampling

NAME = "embedded-1"
# A search goes to and fro between prompts with hundreds of demos; to read one anew takes as long as
# a hundred judgements. All that is remembered of them has at most so many characters.
MOST_DEMO_CHARACTERS = 32_000_000


class Prefix(NamedTuple):
    """All messages but the last: what they ask, how to judge it if it has a choice, their size."""

    task: Task
    scorer: Scorer | None
    characters: int


class EmbeddedModel:
    """Answers judges' prompts without any network, from counted facets; same seed, same replies."""

    name = NAME
    endpoint = "embedded"
    native_n = True
    has_logprobs: bool | None = True
    in_process = True

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer at once: nothing here waits."""
        return self.reply(messages, sampling)

    async def close(self) -> None:
        """Nothing is open."""

    def reply(self, messages: Sequence[Message], sampling: Sampling) -> Completion:
        """Answer one prompt; never raises on any text."""
        *first, last = ((message["role"], message["content"]) for message in messages)
        prefix = _read_prefix(*first)
        rng, n = self._rng(messages, sampling), max(1, sampling.n)
        if prefix.scorer is not None:
            replies = _judge(prefix.task, prefix.scorer, last[1], sampling, rng)
        elif _draws(sampling):
            replies = [_write(prefix.task, last[1], sampling, rng) for _ in range(n)]
        else:
            replies = [_write(prefix.task, last[1], sampling, rng)] * n
        return Completion(
            replies=tuple(replies),
            tokens_in=(prefix.characters + len(last[1])) // 4 + 1,
            tokens_out=sum(len(reply.text) // 4 + 1 for reply in replies),
            model=self.name,
        )

    def _rng(self, messages: Sequence[Message], sampling: Sampling) -> random.Random:
        """Chance that depends on the seeds and the whole prompt alone."""
        if not _draws(sampling):
            return random.Random(0)
        digest = hashlib.blake2b(f"{self.seed} {sampling.seed}".encode(), digest_size=8)
        for message in messages:
            digest.update(message["content"].encode("utf-8", "replace"))
        return random.Random(int.from_bytes(digest.digest(), "big"))


def _draws(sampling: Sampling) -> bool:
    return sampling.temperature is None or sampling.temperature > 0


@cached(
    LRUCache(MOST_DEMO_CHARACTERS, lambda prefix: prefix.characters + 20_000),
    lock=Lock(),
)
def _read_prefix(*messages: tuple[str, str]) -> Prefix:
    system = messages[0][1] if messages and messages[0][0] == "system" else ""
    task = read_task(system)
    scorer = make_scorer(task, read_demos(task, messages)) if task.choice else None
    return Prefix(task, scorer, sum(len(content) for _, content in messages))


def _judge(
    task: Task, scorer: Scorer, last: str, sampling: Sampling, rng: random.Random
) -> list[Reply]:
    """Choices drawn by their probabilities; other fields tell why."""
    prediction = scorer.predict(read_texts(task, last))
    field, choices = task.choice, task.choices
    assert field is not None
    reason = ""
    if len(task.outputs) > 1:
        candidate = (scorer.roles.candidates or ("text",))[0]
        reason = (comparison if task.compares else rationale)(prediction, candidate)
    replies = []
    for _ in range(max(1, sampling.n)):
        place = draw(prediction.probabilities, sampling.temperature, rng)
        values = {output.name: reason for output in task.outputs} | {
            field.name: str(choices[place])
        }
        top = {}
        if sampling.top_logprobs:
            top = top_logprobs(choices, prediction.probabilities, sampling.top_logprobs, place)
        replies.append(write_reply(task, values, field.name, top))
    return replies


def _write(task: Task, last: str, sampling: Sampling, rng: random.Random) -> Reply:
    """Fields of free text: instructions are proposed, others get a plain sentence."""
    heat = 1.0 if sampling.temperature is None else sampling.temperature
    if not task.outputs:
        if "```" in last:
            return Reply(text=f"```\n{propose(read_fenced_feedback(last), rng, heat)}\n```")
        return Reply(text=NOTHING)
    texts = read_texts(task, last)
    values = {
        field.name: propose(read_feedback(texts), rng, heat)
        if "instruction" in field.name
        else describe(field, task, texts)
        for field in task.outputs
    }
    return write_reply(task, values, None, {})
