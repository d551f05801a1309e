"""The embedded model: a small statistical judge behind the chat protocol, not a language model.

It measures some twenty facets of a text by counting (words shared with the source, order, faults of
form), weighs them by the words of the prompt, and updates the weights by the prompt's demos. It
understands nothing; it is free, offline and deterministic.
"""

import hashlib
import json
import math
import random
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache, cached

from judges.client.protocol import Completion, FatalModelError, Message, Reply, Sampling, Token
from judges.embedded.facets import PHRASES, Vector
from judges.embedded.regression import Prediction, Scorer, make_scorer
from judges.embedded.request import Task, read_demos, read_task, read_texts
from judges.prompt import END, HEADER, Value, neutralise

NAME = "embedded-1"
# A search goes to and fro between prompts with hundreds of demos; to read one anew takes as long as
# a hundred judgements. All that is remembered of them has at most so many characters.
MAX_DEMO_CHARACTERS = 32_000_000
MIN_PROBABILITY = 1e-9
# A facet that contributes less to a score decided nothing.
MIN_CONTRIBUTION = 0.05
WRITES_NO_TEXT = (
    "the embedded model rates texts by counted facets and writes none, so it can propose no "
    "instruction: name a language model, as in --proposer-lm openai/gpt-4.1-mini"
)


class Prefix(NamedTuple):
    """All messages but the last: what they ask, how to judge it if it has a choice, their size."""

    task: Task
    scorer: Scorer | None
    characters: int


@cached(LRUCache(MAX_DEMO_CHARACTERS, lambda prefix: prefix.characters + 20_000), lock=Lock())
def _read_prefix(*messages: tuple[str, str]) -> Prefix:
    system = messages[0][1] if messages and messages[0][0] == "system" else ""
    task = read_task(system)
    scorer = make_scorer(task, read_demos(task, messages)) if task.choice else None
    return Prefix(task, scorer, sum(len(content) for _, content in messages))


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
        """Answer a judge's prompt, whatever its texts; FatalModelError for any other prompt."""
        *first, last = ((message["role"], message["content"]) for message in messages)
        prefix, content, n = _read_prefix(*first), last[1], max(1, sampling.n)
        heat = 1.0 if sampling.temperature is None else sampling.temperature
        if prefix.scorer is None:
            raise FatalModelError(WRITES_NO_TEXT)
        rng = self._rng(messages, sampling) if heat > 0 else random.Random(0)
        replies = _judge(prefix.scorer, content, n, heat, sampling.top_logprobs, rng)
        return Completion(
            replies=tuple(replies),
            tokens_in=(prefix.characters + len(content)) // 4 + 1,
            tokens_out=sum(len(reply.text) // 4 + 1 for reply in replies),
            model=self.name,
        )

    def _rng(self, messages: Sequence[Message], sampling: Sampling) -> random.Random:
        """Chance that depends on the seeds and the whole prompt alone."""
        digest = hashlib.blake2b(f"{self.seed} {sampling.seed}".encode(), digest_size=8)
        for message in messages:
            digest.update(message["content"].encode("utf-8", "replace"))
        return random.Random(int.from_bytes(digest.digest(), "big"))


def _judge(
    scorer: Scorer, content: str, n: int, heat: float, n_logprobs: int, rng: random.Random
) -> list[Reply]:
    """Choices drawn by their probabilities; other fields tell why."""
    task = scorer.task
    prediction = scorer.predict(read_texts(task, content))
    field, choices = task.choice, task.choices
    assert field is not None
    reason = ""
    if len(task.outputs) > 1:
        candidate = (scorer.roles.candidates or ("text",))[0]
        reason = (_comparison if task.compares else _rationale)(prediction, candidate)
    replies = []
    for _ in range(n):
        chosen = _draw(prediction.probabilities, heat, rng)
        values = dict.fromkeys((output.name for output in task.outputs), reason)
        values[field.name] = str(choices[chosen])
        top = {}
        if n_logprobs:
            top = _top_logprobs(choices, prediction.probabilities, n_logprobs, chosen)
        replies.append(_reply(task, values, field.name, top))
    return replies


def _draw(probabilities: Sequence[float], heat: float, rng: random.Random) -> int:
    """Draw an index by its probability, sharpened or flattened; at heat 0 the first likeliest."""
    if heat <= 1e-3:
        return max(range(len(probabilities)), key=lambda index: (probabilities[index], -index))
    logs = [math.log(max(MIN_PROBABILITY, p)) / heat for p in probabilities]
    largest = max(logs)
    return rng.choices(range(len(logs)), [math.exp(log - largest) for log in logs])[0]


def _top_logprobs(
    choices: Sequence[Value], probabilities: Sequence[float], n: int, chosen: int
) -> dict[str, float]:
    """At most n choices with their log-probabilities: the chosen one and the likeliest."""
    order = sorted(range(len(choices)), key=lambda index: (index != chosen, -probabilities[index]))
    return {
        str(choices[index]): math.log(max(MIN_PROBABILITY, probabilities[index]))
        for index in order[: max(1, n)]
    }


def _reply(
    task: Task, values: Mapping[str, str], choice: str | None, top: Mapping[str, float]
) -> Reply:
    """One reply: `values` in the task's format; the choice's token carries its alternatives."""
    before, chosen, after = _layout(task, values, choice)
    text = before + chosen + after
    if not top:
        return Reply(text=text)
    tokens = (Token(before, {}), Token(chosen, dict(top)), Token(after, {}))
    return Reply(text=text, tokens=tuple(token for token in tokens if token.text))


def _layout(task: Task, values: Mapping[str, str], choice: str | None) -> tuple[str, str, str]:
    """The reply cut at the value of the field `choice`."""
    names = [field.name for field in task.outputs]
    if task.dialect == "project" and names == [choice]:
        return "", values[names[0]], ""
    is_json, is_number = task.dialect == "json", bool(choice) and isinstance(task.choices[0], int)
    fields = []  # of each what stands before its value, the value, and what closes it
    for name in names:
        if is_json:
            quote = "" if name == choice and is_number else '"'
            value = json.dumps(values[name], ensure_ascii=False)[1:-1]
            fields.append((f"{json.dumps(name)}: {quote}", value, quote))
        else:
            value = values[name] if name == choice else neutralise(values[name])
            fields.append((f"{HEADER.format(name=name)}\n", value, ""))
    opening, separator, closing = ("{", ", ", "}") if is_json else ("", "\n\n", f"\n\n{END}")
    blocks = ["".join(field) for field in fields]
    if choice is None:
        return opening + separator.join(blocks) + closing, "", ""
    index = names.index(choice)
    head, value, tail = fields[index]
    before = opening + separator.join([*blocks[:index], head])
    return before, value, separator.join([tail, *blocks[index + 1 :]]) + closing


def _rationale(prediction: Prediction, name: str) -> str:
    """What speaks for and against the one text."""
    good, bad = _strongest(prediction.contributions)
    subject = f"The {name.replace('_', ' ')}"
    praise = " and ".join(PHRASES[index].asks for index in good)
    blame = " and ".join(PHRASES[index].weakness for index in bad)
    if praise and blame:
        return f"{subject} {praise}, but it {blame}."
    return f"{subject} {praise or blame or 'is ordinary in every respect'}."


def _comparison(prediction: Prediction, name: str) -> str:
    """Which of the two is preferred, and by what; the same whichever stands first."""
    first = prediction.latent >= 0
    better, worse = ("A", "B") if first else ("B", "A")
    good, bad = _strongest(prediction.contributions if first else -prediction.contributions)
    word = name.rsplit("_", 1)[0].replace("_", " ")
    title = word.capitalize()
    if not good and not bad:
        return f"{title} A and {word} B are alike in every respect."
    praise = " and ".join(PHRASES[index].strength for index in good)
    though = f", though {word} {worse} {PHRASES[bad[0]].strength}" if bad else ""
    return f"{title} {better} {praise or 'is slightly better on the whole'}{though}."


def _strongest(contributions: Vector) -> tuple[list[int], list[int]]:
    """The two facets that speak most for, and the two most against."""
    order = [int(index) for index in np.argsort(-contributions, kind="stable")]
    good = [index for index in order[:2] if contributions[index] > MIN_CONTRIBUTION]
    bad = [index for index in order[::-1][:2] if contributions[index] < -MIN_CONTRIBUTION]
    return good, bad
